"""The command line: what it asks of the engine, what it prints, and how it exits.

Most tests put a small engine in the place of the real one; those at the end run the real one.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

import t4lint
from t4lint import cli, ruleset
from t4lint.cli import flags, usage
from t4lint.engine import Options
from t4lint.findings import Finding, Problem, Report, Verdict
from t4lint.rule import Rule, Severity
from t4lint.trace import Location

ROOT = Path(__file__).resolve().parent.parent


# --- an engine to ask --------------------------------------------------------------------------------------------


def a_rule(name: str, page: str = "", **more: Any) -> Rule:
    return Rule(
        name=name, family="precision", severity="warning", summary=f"What {name} finds", message="", help="",
        triggers=(), reads=(), check=lambda trace: iter(()), page=page, **more,
    )  # fmt: skip


class FakeEngine(ModuleType):
    """Notes what it is asked and gives what it is told to give."""

    Options = Options

    def __init__(self) -> None:
        super().__init__("t4lint.engine")
        self.paths: list[Path] = []
        self.options = Options()
        self.findings: tuple[Finding, ...] = ()
        self.problems: tuple[Problem, ...] = ()
        self.raises: BaseException | None = None

    def rules(self, own: tuple[str, ...] = ()) -> tuple[Rule, ...]:
        page = "bf16 runs in software.\n\n```python\nfp16=True\n```"
        return (a_rule("bf16-weights", page, fix="unsafe"), a_rule("fp16-reduction", default=False))

    def check(self, paths: Sequence[Path], options: Options, helpers: object = None, early: object = None) -> Report:
        self.paths, self.options = list(paths), options
        if self.raises:
            raise self.raises
        ruleset.select(options.select, options.ignore, options.extend_select)
        return Report(options.target, self.findings, self.problems, (), 1)

    check_with_fixes = check


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeEngine:
    fake = FakeEngine()
    monkeypatch.setitem(sys.modules, "t4lint.engine", fake)
    monkeypatch.setattr(t4lint, "engine", fake, raising=False)
    monkeypatch.setattr(ruleset, "rules", fake.rules)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "T4LINT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return fake


def finding(severity: Severity, verdict: Verdict | None = None) -> Finding:
    return Finding(
        "bf16-weights", severity, "certain", Location("train.py", 1, 1, 1, 5), "bf16", "use fp16", verdict=verdict
    )


# --- what is asked -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [["a.py", "b"], ["check", "a.py", "b"], ["--", "a.py", "b"], ["a.py", "--", "b"]])
def test_a_path_alone_is_enough(engine: FakeEngine, argv: list[str]) -> None:
    assert cli.main(argv) == 0
    assert engine.paths == [Path("a.py"), Path("b")]


def test_without_paths_this_folder_is_checked(engine: FakeEngine, tmp_path: Path) -> None:
    assert cli.main([]) == 0
    assert engine.paths == [Path()]
    assert replace(engine.options, near=None) == Options(cwd=tmp_path)


def test_flags_reach_the_engine(engine: FakeEngine) -> None:
    flags = (
        "--target l4 --select precision,bf16-weights --select all --ignore bf16-weights --extend-select fp16-reduction"
    )
    assert cli.main([*flags.split(), "--min-confidence", "possible", "--show-trace", "x.py"]) == 0
    it = engine.options
    assert (it.target, it.min_confidence, it.show_trace) == ("l4", "possible", True)
    assert it.select == ("precision", "bf16-weights", "all")
    assert (it.ignore, it.extend_select) == (("bf16-weights",), ("fp16-reduction",))


SETTINGS = """
[tool.t4lint]
target = "l4"
select = ["precision"]
ignore = ["bf16-weights"]
exclude = ["old"]
fail-on = "error"
versions = { torch = "2.4" }
"""


def test_flags_add_to_the_settings(engine: FakeEngine) -> None:
    Path("pyproject.toml").write_text(SETTINGS)
    engine.findings = (finding("warning"),)
    assert cli.main(["--ignore", "fp16-reduction", "x.py"]) == 0
    it = engine.options
    assert (it.target, it.select, it.ignore) == ("l4", ("precision",), ("bf16-weights", "fp16-reduction"))
    assert (it.exclude, it.versions) == (("old",), {"torch": "2.4"})


def test_select_starts_afresh(engine: FakeEngine) -> None:
    Path("pyproject.toml").write_text(SETTINGS)
    assert cli.main(["--select", "bf16-weights", "--target", "t4", "x.py"]) == 0
    it = engine.options
    assert (it.target, it.select, it.ignore) == ("t4", ("bf16-weights",), ())


@pytest.mark.parametrize(
    ("argv", "name"),
    [(["-"], "stdin.py"), (["-", "--stdin-filename", "a/b.sh"], "a/b.sh"), (["--stdin-filename", "a/b.sh"], "a/b.sh")],
)
def test_text_from_stdin(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, argv: list[str], name: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeffx = '模'\r\n".encode())))
    assert cli.main(argv) == 0
    assert engine.paths == [Path(name)]
    assert engine.options.texts == {name: "x = '模'\r\n"}


# --- how it exits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "flags", "code"),
    [
        ("note", [], 0),
        ("warning", [], 1),
        ("error", [], 1),
        ("note", ["--fail-on", "note"], 1),
        ("warning", ["--fail-on", "error"], 0),
        ("error", ["--fail-on", "error"], 1),
        ("error", ["--exit-zero"], 0),
    ],
)
def test_exit_codes(engine: FakeEngine, severity: Severity, flags: list[str], code: int) -> None:
    engine.findings = (finding(severity),)
    assert cli.main([*flags, "x.py"]) == code


@pytest.mark.parametrize("flags", [[], ["--exit-zero"]])
def test_problems_always_exit_with_2(engine: FakeEngine, flags: list[str]) -> None:
    engine.findings, engine.problems = (finding("error"),), (Problem("a.py", "broken"),)
    assert cli.main([*flags, "x.py"]) == 2


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--select", "bf-weights", "x.py"], "there is no rule or family 'bf-weights'"),
        (["--target", "t44", "x.py"], "unknown target 't44'"),
        (["--output-format", "xml", "x.py"], "unknown output format 'xml'; the formats are text, concise, json"),
        (["--output-format", "json:", "x.py"], "'json:' names no file; write json alone, or json:FILE"),
        (["--output-format", "text", "--output-format", "json", "x.py"], "only one format can go to the screen"),
        (["--output-format", "json:no/such/folder/x.json", "x.py"], "cannot write no/such/folder/x.json: No such file"),
        (["-", "x.py"], "either files or text from stdin can be checked, not both"),
        ([""], "an empty name is no file or folder; `.` is this folder"),
        (["explian", "bf16-weights"], "there is no command, file or folder 'explian'; did you mean 'explain'?"),
        (["explain", "bf16-weight"], "unknown rule 'bf16-weight'; did you mean 'bf16-weights'?"),
        (["explain", "zzz"], "unknown rule 'zzz'; `t4lint rules` lists them"),
        (["--fail-on", "never"], "argument --fail-on: invalid choice: 'never'"),
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag"),
        (["verify", "python", "x.py"], "unrecognized arguments: python x.py"),
        (["verify"], "verify needs the command to run, after two dashes: t4lint verify -- python train.py"),
        (["verify", "--steps", "0", "--", "a"], "argument --steps: '0' is not a whole number above 0"),
        (["verify", "--timeout", "nan", "--", "a"], "argument --timeout: 'nan' is not a number of seconds above 0"),
    ],
)
def test_mistakes_are_told_in_one_line(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"t4lint: error: {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selct = []\n", "1: unknown setting 'selct'; did you mean 'select'?"),
        ("target = 't44'\n", "1: unknown target 't44'"),
        ("\nignore = [\n  'all',\n  'bf-weights',\n]\n", "4: there is no rule or family 'bf-weights'"),
    ],
)
def test_mistakes_in_the_settings_are_told_with_their_line(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    Path("t4lint.toml").write_text(text)
    assert cli.main(["--output-format", "json", "x.py"]) == 2
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert error["path"] == "t4lint.toml"
    assert f"{error['line']}: {error['message']}".startswith(said)


def test_an_interrupt(engine: FakeEngine) -> None:
    engine.raises = KeyboardInterrupt()
    assert cli.main(["x.py"]) == 130


def test_a_fault_of_ours_is_told_in_one_line(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.raises = RuntimeError("two\nlines")
    assert cli.main(["x.py"]) == 2
    said = "t4lint: error: internal error, please report it: RuntimeError: two lines (T4LINT_DEBUG=1 shows where)\n"
    assert capsys.readouterr().err == said
    monkeypatch.setenv("T4LINT_DEBUG", "1")
    with pytest.raises(RuntimeError):
        cli.main(["x.py"])


# --- what it prints ----------------------------------------------------------------------------------------------


def test_text_is_the_default(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.findings = (finding("warning"),)
    cli.main(["x.py"])
    assert capsys.readouterr().out.splitlines() == [
        "warning[bf16-weights]: bf16",
        " --> train.py:1:1",
        "  = help: use fp16",
        "",
        "Found 1 finding (1 warning) in 1 file; target: NVIDIA T4",
    ]


def test_several_outputs(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.findings = (finding("warning"),)
    assert cli.main(["--output-format", "text", "--output-format", "json:report.json", "x.py"]) == 1
    assert capsys.readouterr().out.startswith("warning[bf16-weights]")
    assert json.loads(Path("report.json").read_text("utf-8"))["findings"][0]["rule"] == "bf16-weights"


def test_with_files_only_a_summary_goes_to_stderr(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--output-format", "json:report.json", "x.py"]) == 0
    assert capsys.readouterr() == ("", "No findings in 1 file; target: NVIDIA T4\n")


@pytest.mark.parametrize(
    ("variables", "terminal", "coloured"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour(
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    terminal: bool,
    coloured: bool,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    engine.findings = (finding("warning"),)
    cli.main(["x.py"])
    assert ("\x1b[" in capsys.readouterr().out) is coloured


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_terminal_that_cannot_show_everything(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    engine.problems = (Problem("é.py", "模型 👩"),)
    assert cli.main(["--output-format", format, "x.py"]) == 2
    text = raw.getvalue().decode("ascii")
    if format == "json":
        assert json.loads(text)["errors"][0] == {"path": "é.py", "line": None, "message": "模型 👩"}
    else:
        assert r"error: \u6a21\u578b \U0001f469" in text


def test_a_reader_that_goes_away_is_no_fault(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    engine.findings = (finding("warning"),)
    assert cli.main(["x.py"]) == 1


# --- verify ------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What verify was asked; its one finding is refuted, unless a test puts another there."""
    asked: dict[str, Any] = {"verdict": "refuted"}

    def verify(argv: list[str], *, options: Options, device: str, steps: int, timeout: float) -> Report:
        asked.update(argv=argv, options=options, device=device, steps=steps, timeout=timeout)
        verdict = Verdict(asked["verdict"], "cpu", "certain", "3 of 3 steps")
        return Report(options.target, (finding("error", verdict),), (), (), 1)

    fake = ModuleType("t4lint.verify")
    fake.verify = verify  # type: ignore[attr-defined]
    fake.program_of = lambda argv, cwd: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "t4lint.verify", fake)
    monkeypatch.setattr(t4lint, "verify", fake, raising=False)
    return asked


def test_verify_hands_on_the_command_as_it_is(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--device", "cpu", "--steps", "5", "--timeout", "2.5", "--target", "l4"]
    assert cli.main(["verify", *flags, "--", "python", "t.py", "--", "--steps", "9"]) == 0
    assert asked["argv"] == ["python", "t.py", "--", "--steps", "9"]
    assert (asked["device"], asked["steps"], asked["timeout"]) == ("cpu", 5, 2.5)
    assert asked["options"].target == "l4"
    assert "  = refuted on cpu: 3 of 3 steps" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("verdict", "code"), [("refuted", 0), ("confirmed", 1), ("undecided", 1), ("not exercised", 1)]
)
def test_only_a_refuted_finding_does_not_count(asked: dict[str, Any], verdict: str, code: int) -> None:
    asked["verdict"] = verdict
    assert cli.main(["verify", "--", "python", "t.py"]) == code


# --- pages -------------------------------------------------------------------------------------------------------

PAGE = """\
# bf16-weights

What bf16-weights finds

- family: precision
- severity: warning
- by default: on
- fix: unsafe: look at the result

bf16 runs in software.

```python
fp16=True
```
"""


def test_explain_is_markdown_when_piped(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "bf16-weights"]) == 0
    assert capsys.readouterr().out == PAGE


def test_explain_is_set_on_a_terminal(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["explain", "bf16-weights"]) == 0
    out = capsys.readouterr().out
    assert "bf16 runs in software." in out
    assert "```" not in out


def test_rules(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from t4lint.report import page

    for name in ("bad_a.py", "bad_b.sh", "good_a.py", "README.md", "good_b/train.py"):
        file = tmp_path / "fixtures" / "bf16-weights" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("# runs: python\n" if name in ("bad_a.py", "good_b/train.py") else "x\n")
    monkeypatch.setattr(page, "FIXTURES", tmp_path / "fixtures")
    assert cli.main(["rules"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "precision",
        "  bf16-weights    warning       fix: unsafe  What bf16-weights finds  [2 bad, 2 good, 2 run]",
        "  fp16-reduction  warning  off               What fp16-reduction finds  [0 bad, 0 good, 0 run]",
        "",
        "2 rules; `t4lint explain RULE` shows a rule's page",
    ]
    assert cli.main(["rules", "--output-format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["version"] == 1
    assert found["rules"][0] == {
        "name": "bf16-weights",
        "family": "precision",
        "severity": "warning",
        "default": True,
        "fix": "unsafe",
        "summary": "What bf16-weights finds",
        "verifiable": True,
        "options": {},
        "fixtures": {"bad": 2, "good": 2, "runs": 2},
    }
    monkeypatch.setattr(page, "FIXTURES", tmp_path / "none")
    assert cli.main(["rules", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rules"][0]["fixtures"] is None


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line}
    assert rows["t4"] == ["Tesla", "T4", "14.56"]
    assert rows["g4dn.12xlarge"] == ["4", "x", "Tesla", "T4", "14.56", "48", "192", "50", "900", "AWS", "2026-08"]
    assert rows["GN7.2XLARGE40"] == [
        "1/2",
        "of",
        "a",
        "Tesla",
        "T4",
        "8.00",
        "10",
        "40",
        "3",
        "none",
        "Tencent",
        "2023",
    ]
    assert "5, up to 25" in next(line for line in lines if line.startswith("g4dn.xlarge"))
    assert rows["cpu"] == ["none"]


def test_one_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["targets", "gn7.large20"]) == 0
    shown = capsys.readouterr().out
    assert "1/4 of a Tesla T4" in shown and "Tencent Cloud GPU instance documentation" in shown
    assert cli.main(["targets", "GN7.2XLARGE42"]) == 2
    assert "did you mean GN7.2XLARGE" in capsys.readouterr().err


def test_targets_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["targets", "--output-format", "json"]) == 0
    found = {it["name"]: it for it in json.loads(capsys.readouterr().out)["targets"]}
    machine = found["g4dn.xlarge"]["instance"]
    assert (machine["network_gbps_baseline"], machine["network_gbps_max"], machine["disk_gb"]) == (5, 25, 125)
    assert all(it["instance"]["source"] for it in found.values() if it["instance"])
    assert found["cpu"]["gpu"] is None and found["t4"]["gpu"]["unverified"] == []


def test_the_choices_are_those_of_the_vocabulary() -> None:
    from t4lint import rule

    assert set(usage.SEVERITIES) == set(get_args(rule.Severity))
    assert set(flags.CONFIDENCES) == set(get_args(rule.Confidence))


# --- as a process of its own -------------------------------------------------------------------------------------


def run(*argv: str, cwd: Path, code: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-c", code] if code else ["-m", "t4lint"]), *argv]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_version_imports_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
from t4lint.cli import main
code = main(sys.argv[1:])
heavy = {"libcst", "pydantic", "rich", "dataclasses", "csv", "t4lint.engine", "t4lint.trace", "tomllib"}
print(code, sorted(heavy & set(sys.modules)))
"""
    for flag in ("--version", "--help"):
        assert run(flag, cwd=tmp_path, code=code).stdout.splitlines()[-1] == "0 []"
    assert run("--version", cwd=tmp_path).stdout == f"t4lint {t4lint.__version__}\n"


# --- with the real engine ----------------------------------------------------------------------------------------

TRAIN = """\
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", tf32=True)
"""


@pytest.fixture
def _real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("t4lint.engine", exc_type=ImportError)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_real")
class TestRealEngine:
    def test_a_finding_from_file_to_screen(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("train.py").write_text(TRAIN)
        assert cli.main(["train.py"]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("error[training-arguments-tf32]: ")
        assert lines[1].startswith(" --> train.py:3:")
        assert '3 | args = TrainingArguments("out", tf32=True)' in lines

    def test_stdin_gives_what_the_file_gives(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("train.py").write_text(TRAIN)
        cli.main(["train.py"])
        from_file = capsys.readouterr().out
        Path("train.py").unlink()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TRAIN.encode())))
        assert cli.main(["-", "--stdin-filename", "train.py"]) == 1
        assert capsys.readouterr().out == from_file

    def test_a_clean_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("train.py").write_text("print('hello')\n")
        assert cli.main(["train.py"]) == 0
        assert capsys.readouterr().out == "No findings in 1 file; target: NVIDIA T4\n"

    def test_a_file_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["nothing.py"]) == 2
        assert " --> nothing.py" in capsys.readouterr().out.splitlines()

    def test_an_unknown_rule_gets_a_suggestion(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["--select", "bf16-weight", "."]) == 2
        assert "bf16-weights" in capsys.readouterr().err

    def test_the_start_of_several_names_lists_them(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["explain", "bnb"]) == 2
        said = "unknown rule 'bnb'; there are bnb-bf16-compute-dtype and bnb-compute-dtype-unset"
        assert said in capsys.readouterr().err

    def test_every_rule_explains_itself(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["rules", "--output-format", "json"]) == 0
        for rule in json.loads(capsys.readouterr().out)["rules"]:
            assert cli.main(["explain", rule["name"]]) == 0
            assert len(capsys.readouterr().out) > 300, rule["name"]
