"""Settings of several files: which hold for which file, what comes on top of what, rule options, own rules, the schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from t4lint import cli, settings
from t4lint.asked import Asked, Flags, schema
from t4lint.engine import check
from t4lint.findings import Finding
from t4lint.settings import Nearest, common_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TF32 = """\
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", fp16=True, tf32=True)
Trainer(args=args).train()
"""
RULE = "training-arguments-tf32"
LOADER = """\
import torch
from torch.utils.data import DataLoader
loader = DataLoader(torch.zeros(8), num_workers={workers}, pin_memory=True)
for batch in loader:
    batch.cuda()
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(path: str, text: str) -> None:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def found(*paths: str, **flags: Any) -> list[Finding]:
    given = [Path(path) for path in paths or (".",)]
    nearest = Nearest()
    asked = Asked(Flags(**flags), nearest.loaded(common_folder(given)), nearest, Path.cwd())
    report = check(given, asked.options())
    assert not nearest.problems and not report.problems
    return list(report.findings)


def places(findings: list[Finding]) -> list[tuple[str, str]]:
    return sorted((finding.location.path, finding.rule) for finding in findings)


def values(file: str) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    settings, sources = Nearest().explained(Path.cwd() / file)
    return vars(settings), dict(sources)


def problems(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is said of a settings file, as `line: message`."""
    write("t4lint.toml", text)
    write("train.py", TF32)
    assert cli.main([".", "--output-format", "json"]) == 2
    return [f"{it['line']}: {it['message']}" for it in json.loads(capsys.readouterr().out)["errors"]]


# --- each file its own --------------------------------------------------------------------------------------------


def test_each_file_has_the_settings_of_its_nearest_file() -> None:
    for folder in ("a", "b", "c"):
        write(f"{folder}/train.py", TF32)
    write("pyproject.toml", "[tool.t4lint]\nexclude = ['c']\n")
    write("a/t4lint.toml", f"ignore = ['{RULE}']\n")
    assert places(found()) == [("b/train.py", RULE)]
    assert places(found("a/train.py", "b/train.py")) == [("b/train.py", RULE)]
    assert places(found("c")) == [("c/train.py", RULE)], "a folder that is named is looked at"
    write("b/t4lint.toml", "exclude = ['train.py']\n")
    assert places(found()) == []
    assert places(found(select=(RULE,))) == [("a/train.py", RULE)], "a selection starts afresh"


def test_targets_differ() -> None:
    write("t4/train.py", TF32)
    write("l4/train.py", TF32)
    write("l4/t4lint.toml", "target = 'l4'\n")
    assert places(found()) == [("t4/train.py", RULE)]


def test_what_is_imported_is_shown_by_its_own_settings() -> None:
    write("pyproject.toml", "[tool.t4lint]\nper-file-ignores = { 'lib/' = ['precision'] }\n")
    write("lib/__init__.py", "")
    write("lib/make.py", TF32.replace("args =", "def make():\n    return").replace("Trainer(args=args).train()\n", ""))
    write("train.py", "from transformers import Trainer\nfrom lib.make import make\nTrainer(args=make()).train()\n")
    assert places(found()) == []
    assert places(found(select=(RULE,))) == []


def test_overrides() -> None:
    write(
        "t4lint.toml",
        f"""
        ignore = ["memory"]
        [[overrides]]
        paths = ["old/**", "*.ipynb"]
        ignore = ["{RULE}"]
        target = "colab"
        [[overrides]]
        paths = ["old/new.py"]
        select = ["{RULE}"]
        severity = {{ precision = "note" }}
        """,
    )
    for path in ("train.py", "old/train.py", "old/new.py"):
        write(path, TF32)
    assert places(found()) == [("old/new.py", RULE), ("train.py", RULE)]
    assert [it.severity for it in found()] == ["note", "error"]
    given, sources = values("old/new.py")
    assert (given["select"], given["ignore"], given["target"]) == ((RULE,), (), "colab")
    assert sources == {
        "overrides": ("t4lint.toml:3",),
        "target": ("t4lint.toml:6",),
        "select": ("t4lint.toml:9",),
        "severity": ("t4lint.toml:10",),
    }


def test_severity_of_a_rule_wins_over_its_family_and_decides_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", TF32)
    write("t4lint.toml", f"severity = {{ {RULE} = 'warning', precision = 'note' }}\n")
    assert [it.severity for it in found()] == ["warning"]
    assert cli.main(["train.py", "--fail-on", "error"]) == 0
    write(
        "t4lint.toml",
        f"fail-on = 'note'\nseverity = {{ {RULE} = 'note' }}\n[[overrides]]\npaths = ['b.py']\nfail-on = 'error'\n",
    )
    assert cli.main(["train.py"]) == 1
    Path("train.py").rename("b.py")
    assert cli.main(["b.py"]) == 0
    assert cli.main(["b.py", "--isolated"]) == 1


# --- extend -------------------------------------------------------------------------------------------------------


def test_extend() -> None:
    write("shared/team.toml", "target = 'colab'\nignore = ['a']\nextend-select = ['x']\n[versions]\ntorch = '2.4'\n")
    write(
        "repo/pyproject.toml",
        "[tool.t4lint]\nextend = '../shared/team.toml'\nignore = ['b']\n[tool.t4lint.versions]\ntrl = '1.0'\n",
    )
    given, sources = values("repo/train.py")
    assert (given["target"], given["ignore"], given["versions"]) == (
        "colab",
        ("a", "b"),
        {"torch": "2.4", "trl": "1.0"},
    )
    assert sources["ignore"] == ("shared/team.toml:2", "repo/pyproject.toml:3")
    assert sources["versions"] == ("shared/team.toml:4", "repo/pyproject.toml:4")
    assert sources["target"] == ("shared/team.toml:1",)
    write("repo/pyproject.toml", "[tool.t4lint]\nextend = '../shared/team.toml'\nselect = ['c']\n")
    given, sources = values("repo/train.py")
    assert (given["select"], given["ignore"], given["extend_select"]) == (("c",), (), ())
    assert "ignore" not in sources


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nextend = 'none.toml'", "2: there are no settings to extend in none.toml"),
        ("extend = 't4lint.toml'", "1: the files that extend one another go in a circle"),
        ("extend = 'a.toml'", "1: unknown setting 'tagret'; did you mean 'target'?"),
    ],
)
def test_bad_extends(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("a.toml", "tagret = 't4'\n")
    assert problems(text, capsys) == [said]


# --- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[per-file-ignores]\n'a.py' = ['precison']", "2: there is no rule or family 'precison'; did you mean precision?"),
        ("[severity]\nprecison = 'note'", "2: there is no rule or family 'precison'; did you mean precision?"),
        ("[severity]\nprecision = 'off'", "2: precision must be one of error, warning, note, not 'off'"),
        ("[[overrides]]\nignore = ['a']", '1: an override needs paths, e.g. paths = ["legacy/**"]'),
        ("[[overrides]]\npaths = ['a']\n[[overrides]]\npaths = ['b']\ntaget = 't4'", "5: unknown setting 'taget'; did you mean 'target'?"),
        ("[[overrides]]\npaths = ['a']\ntarget = 't5'", None),
        ("[overrides]\npaths = ['a']", "1: overrides must be tables: [[overrides]], or [[tool.t4lint.overrides]] in pyproject.toml"),
        ("[rules.bf16-weights]\nx = 1", "1: the rule bf16-weights has no options"),
        ("[rules.too-many-dataloader-workers]\nper = 1", "2: too-many-dataloader-workers has no option 'per'; it has per-cpu"),
        ("[rules.too-many-dataloader-workers]\nper-cpu = '1'", "2: per-cpu of too-many-dataloader-workers: input should be a valid number"),
        ("[rules.too-many-dataloader-worker]\nper-cpu = 1", "1: there is no rule or family 'too-many-dataloader-worker'; "
         "did you mean too-many-dataloader-workers?"),
        ("own-rules = ['none/here']", "1: there is no folder 'none/here' with rules"),
        ("target = 'colb'", None),
    ],
)  # fmt: skip
def test_mistakes(text: str, said: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    (problem,) = problems(text, capsys)
    if said is not None:
        assert problem == said
    else:
        line, _, message = problem.partition(": ")
        assert int(line) == text.count("\n") + 1 and "did you mean" in message


def test_mistakes_in_a_nested_file_are_told_and_the_rest_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", TF32)
    write("a/train.py", TF32)
    write("a/t4lint.toml", "\nignor = []\n")
    assert cli.main([".", "--output-format", "json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert [(it["path"], it["line"]) for it in report["errors"]] == [("a/t4lint.toml", 2)]
    assert [it["path"] for it in report["findings"]] == ["a/train.py", "train.py"]


# --- options and own rules ----------------------------------------------------------------------------------------


def test_options_of_a_rule() -> None:
    rule = "too-many-dataloader-workers"
    write("train.py", LOADER.format(workers=6))
    write("t4lint.toml", "target = 'colab'\n")
    assert places(found()) == [("train.py", rule)]
    write("t4lint.toml", f"target = 'colab'\n[rules.{rule}]\nper-cpu = 3\n")
    assert places(found()) == []
    write("train.py", LOADER.format(workers=7))
    assert places(found()) == [("train.py", rule)]


OWN = '''\
"""We do not use tf32."""
from collections.abc import Iterator
from dataclasses import dataclass

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import Engine, Trace


@dataclass(frozen=True)
class Options:
    word: str = "tf32"


def fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield DropArgument(candidate.blame, "tf32")


@rule(
    name="no-tf32-here", severity="error", summary="tf32 in our code", message="We do not use {word}.", help="Remove it.",
    triggers=("tf32",), reads=(Engine,), options=Options, fix="safe", fixes=fixes,
)
def no_tf32_here(trace: Trace, options: Options) -> Iterator[Candidate]:
    for engine in trace.all(Engine):
        yield Candidate(engine, engine.tf32.equals(True), blame=engine.tf32, words={"word": options.word})
'''


def test_own_rules_are_rules(capsys: pytest.CaptureFixture[str]) -> None:
    write("tools/lint/team/no_tf32.py", OWN)
    write("src/train.py", TF32)
    write("t4lint.toml", f"own-rules = ['tools/lint']\nignore = ['{RULE}']\n[rules.no-tf32-here]\nword = 'TF32'\n")
    assert [(it.rule, it.message) for it in found("src")] == [("no-tf32-here", "We do not use TF32.")]
    assert places(found("src", select=("team",))) == [("src/train.py", "no-tf32-here")]
    assert cli.main(["src", "--output-format", "sarif"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (described,) = [rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "no-tf32-here"]
    assert described["fullDescription"]["text"] == "We do not use tf32."
    assert cli.main(["explain", "no-tf32-here"]) == 0
    assert "We do not use tf32." in capsys.readouterr().out
    write("src/train.py", TF32.replace("tf32=True)", "tf32=True)  # t4lint: ignore[no-tf32-here]"))
    assert places(found("src")) == []
    write("src/train.py", TF32)
    assert cli.main(["src", "--fix"]) == 0
    assert "tf32" not in Path("src/train.py").read_text()
    assert cli.main(["src", "--isolated"]) == 0


def test_own_rules_of_an_installed_module(monkeypatch: pytest.MonkeyPatch) -> None:
    write("site/acme_rules/__init__.py", "")
    write("site/acme_rules/team/__init__.py", "")
    write("site/acme_rules/team/no_tf32.py", OWN)
    monkeypatch.syspath_prepend(str(Path("site").resolve()))
    write("src/train.py", TF32)
    write("src/t4lint.toml", "own-rules = ['acme_rules']\nselect = ['team']\n")
    assert places(found("src")) == [("src/train.py", "no-tf32-here")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        ("import no_such_module\n", "no_such_module"),
        (OWN.replace("no-tf32-here", RULE), f"there is already a rule {RULE}"),
    ],
)
def test_own_rules_that_cannot_be_loaded(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("lint/a.py", text)
    (problem,) = problems("\nown-rules = ['lint']", capsys)
    assert problem.startswith("2: ") and said in problem


def test_an_installed_module_without_rules_is_the_wrong_one(capsys: pytest.CaptureFixture[str]) -> None:
    (problem,) = problems("\nown-rules = ['shlex']", capsys)
    assert problem == "2: there are no rules in shlex"


def test_no_code_of_the_project_runs_unasked() -> None:
    write("rules/a.py", "1 / 0\n")
    write("t4lint_rules/a.py", "1 / 0\n")
    write("train.py", TF32)
    assert (RULE in {rule for _, rule in places(found())}) is True


# --- showing them -------------------------------------------------------------------------------------------------


def test_the_settings_of_a_file_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "pyproject.toml",
        f"[tool.t4lint]\ntarget = 'colab'\n[[tool.t4lint.overrides]]\npaths = ['a.py']\nignore = ['{RULE}']\n",
    )
    assert cli.main(["settings", "a.py"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# a.py: ")
    lines = {line.partition(" = ")[0]: line for line in text.splitlines()[1:]}
    assert lines["target"].split("#")[1].strip() == "pyproject.toml:2"
    assert lines["ignore"].split("#")[1].strip() == "pyproject.toml:5"
    assert lines["select"].split("#")[1].strip() == "default"
    assert tomllib.loads(text)["ignore"] == [RULE]
    assert cli.main(["settings", "b.py", "--output-format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["target"] == {"value": "colab", "from": ["pyproject.toml:2"]} and RULE in shown["rules"]
    write("pyproject.toml", "[tool.t4lint]\ntaget = 'colab'\n")
    assert cli.main(["settings"]) == 2
    assert "pyproject.toml:2: unknown setting 'taget'" in capsys.readouterr().err


# --- the schema ---------------------------------------------------------------------------------------------------

GOOD = [
    "",
    "target = 'colab'\nselect = ['precision']\nexclude = []\nmin-confidence = 'likely'\nfail-on = 'note'\nextend = 'a.toml'",
    "own-rules = ['a']\nper-file-ignores = { 'a' = ['all'] }\nseverity = { precision = 'note' }\nversions = { torch = '2.4' }",
    "[rules.too-many-dataloader-workers]\nper-cpu = 2.5",
    "[[overrides]]\npaths = ['a']\ntarget = 't4'\n[overrides.rules.too-many-dataloader-workers]\nper-cpu = 2",
]
BAD = [
    "taget = 'colab'",
    "select = 'precision'",
    "fail-on = 'never'",
    "severity = { precision = 'off' }",
    "versions = { torch = 2.4 }",
    "[[overrides]]\ntarget = 't4'",
    "[rules.too-many-dataloader-workers]\nper-cpu = 'many'",
    "[rules.too-many-dataloader-workers]\nper = 1",
]


@pytest.mark.parametrize("text", GOOD + BAD)
def test_the_schema_and_the_reader_agree(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    errors = list(jsonschema.Draft202012Validator(schema()).iter_errors(tomllib.loads(text)))
    assert bool(errors) == (text in BAD)
    write("t4lint.toml", text)
    write("a.toml", "target = 't4'\n")
    Path("a").mkdir(exist_ok=True)
    assert (cli.main(["settings"]) == 2) == (text in BAD)


def test_the_schema_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    shipped = Path(settings.__file__).with_name("t4lint.schema.json").read_text(encoding="utf-8")
    assert cli.main(["settings", "--schema"]) == 0
    assert json.loads(shipped) == schema() == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("text", ['[versions]\ntorch = "{}"\n', "line-length = {}\n"])
def test_numbers_of_too_many_digits_are_wrong_settings(text: str, tmp_path: Path) -> None:
    """Python refuses to read a number of more than 4300 digits."""
    (tmp_path / "t4lint.toml").write_text(text.format("1" * 5000))
    (problem,) = settings.load(tmp_path).problems
    assert "version" in problem.message or "TOML" in problem.message
    assert len(problem.message) < 250
