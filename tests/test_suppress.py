"""Comments that hide findings, in Python and in shell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t4lint.changes import OnlyNew, add_ignores, fix, write
from t4lint.engine import Options, check
from t4lint.findings import Finding, Report
from t4lint.suppress import UNUSED, File

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SCRIPT = FIXTURES / "training-arguments-tf32/bad_literal.py"
LAUNCH = FIXTURES / "training-arguments-tf32/bad_launch_flag"
LINE = "    tf32=True,"
RULE = "training-arguments-tf32"


def linted(folder: Path, text: str, name: str = "train.py", **options: object) -> Report:
    (folder / name).write_text(text)
    return check([folder], Options(cwd=folder, **options))  # type: ignore[arg-type]


def rules(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.rule for finding in findings]


def script(line: str) -> str:
    return SCRIPT.read_text().replace(LINE + "  # expect: training-arguments-tf32", line)


HIDING = [
    f"{LINE}  # t4lint: ignore[{RULE}] the cluster is ours",
    f"{LINE}  # t4lint: ignore",
    f"{LINE}  #t4lint:ignore[{RULE}]",
    f"{LINE}  # noqa: E501  # t4lint: ignore[{RULE}]  # more",
    f"{LINE}  # t4lint: ignore[bf16-weights, {RULE}]",
    f"{LINE}  # t4lint: ignore[precision]",
    f"    # t4lint: ignore[{RULE}]\n{LINE}",
    f"    # t4lint: ignore\n{LINE}",
    f"    # t4lint: ignore[{RULE}]\n    # and a word more\n{LINE}",
    f"{LINE}\n    seed=1,  # t4lint: ignore[{RULE}]",
]
NOT_HIDING = [
    f"{LINE}  # t4lint: ignore[bf16-weights]",
    f"{LINE}  # t4lint: ignored",
    f"{LINE}\n    seed=1,  # t4lint: ignore",
    f'    run_name="# t4lint: ignore[{RULE}]",\n{LINE}',
    f"{LINE}  # t4lint ignore[{RULE}]",
]


@pytest.mark.parametrize("line", HIDING)
def test_hidden(line: str, tmp_path: Path) -> None:
    report = linted(tmp_path, script(line), ignore=(UNUSED.name,))
    assert not report.findings
    (hidden,) = report.suppressed
    assert hidden.rule == RULE and hidden.suppressed is not None and hidden.suppressed.kind == "comment"


@pytest.mark.parametrize("line", NOT_HIDING)
def test_not_hidden(line: str, tmp_path: Path) -> None:
    report = linted(tmp_path, script(line), ignore=(UNUSED.name,))
    assert rules(report.findings) == [RULE] and not report.suppressed


def test_the_reason_is_kept(tmp_path: Path) -> None:
    (hidden,) = linted(tmp_path, script(HIDING[0])).suppressed
    assert hidden.suppressed is not None and hidden.suppressed.reason == "the cluster is ours"
    assert hidden.suppressed.location is not None and hidden.suppressed.location.line == 12


def test_above_the_statement(tmp_path: Path) -> None:
    text = script(LINE).replace("args = ", f"# t4lint: ignore[{RULE}]\nargs = ")
    assert not linted(tmp_path, text).findings


def test_whole_file(tmp_path: Path) -> None:
    text = script(LINE)
    assert not linted(tmp_path, text + f"# t4lint: ignore-file[{RULE}] old\n").findings
    assert not linted(tmp_path, text + "# t4lint: ignore-file\n").findings
    assert rules(linted(tmp_path, text + "# t4lint: ignore-file[bf16-weights]\n").findings) == [RULE, UNUSED.name]


def test_shell(tmp_path: Path) -> None:
    shutil.copy(LAUNCH / "train.py", tmp_path)
    command = "python train.py --output_dir out --fp16 True \\\n  --tf32 True"
    ignore = f"# t4lint: ignore[{RULE}]"
    assert rules(linted(tmp_path, f"{command}\n", "run.sh").findings) == [RULE]
    assert not linted(tmp_path, f"{command}  {ignore}\n", "run.sh").findings
    assert not linted(tmp_path, f"{ignore}\n{command}\n", "run.sh").findings
    quoted = f"echo '{ignore}'\necho \"{ignore}\"\necho x{ignore}\ncat <<E\n{ignore}\nE\n{command}\n"
    assert rules(linted(tmp_path, quoted, "run.sh").findings) == [RULE]


# --- comments that hide nothing -----------------------------------------------------------------------------------


UNUSED_LINES = [
    ("x = 1  # t4lint: ignore\n", "This comment hides no finding.", "x = 1\n"),
    ("x = 1  # t4lint: ignore[bf16-weights] why\n", "There is no finding of `bf16-weights` to hide here.", "x = 1\n"),
    ("# t4lint: ignore[bf16-weights]\nx = 1\n", "There is no finding of `bf16-weights` to hide here.", "x = 1\n"),
    (
        "x = 1  # t4lint: ignore[bf-weights]\n",
        "There is no rule `bf-weights` (did you mean `bf16-weights`?).",
        "x = 1\n",
    ),
    ("x = 1  # noqa  # t4lint: ignore\n", "This comment hides no finding.", "x = 1  # noqa\n"),
    ("x = 1  # t4lint: ignore  # noqa\n", "This comment hides no finding.", "x = 1  # noqa\n"),
    ("if x:\n    # t4lint: ignore\n    y()\n", "This comment hides no finding.", "if x:\n    y()\n"),
]


def test_a_misspelt_name_is_corrected_where_it_then_hides_something(tmp_path: Path) -> None:
    start = 'from transformers import TrainingArguments\nTrainingArguments("out", bf16=True)'
    text = f"{start}  # t4lint: ignore[bf16-mixed-precisions, nothing-like-it] of old\n"
    linted(tmp_path, text)
    repaired(tmp_path)
    assert (tmp_path / "train.py").read_text() == f"{start}  # t4lint: ignore[bf16-mixed-precision] of old\n"
    assert not check([tmp_path], Options(cwd=tmp_path)).findings


def repaired(folder: Path) -> None:
    options, nothing = Options(cwd=folder), OnlyNew(None, (), None, folder, "likely")
    write(fix([folder], options, nothing, unsafe=False), [folder], options, nothing)


@pytest.mark.parametrize(("text", "message", "after"), UNUSED_LINES)
def test_unused(text: str, message: str, after: str, tmp_path: Path) -> None:
    (finding,) = linted(tmp_path, text).findings
    assert (finding.rule, finding.severity, finding.message) == (UNUSED.name, "note", message)
    repaired(tmp_path)
    assert (tmp_path / "train.py").read_text() == after
    assert not check([tmp_path], Options(cwd=tmp_path)).findings


def test_a_name_is_taken_out_of_a_used_comment(tmp_path: Path) -> None:
    line = f"{LINE}  # t4lint: ignore[bf16-weights, {RULE}, no-such-rule] why"
    report = linted(tmp_path, script(line))
    assert rules(report.findings) == [UNUSED.name] and rules(report.suppressed) == [RULE]
    repaired(tmp_path)
    assert f"{LINE}  # t4lint: ignore[{RULE}] why\n" in (tmp_path / "train.py").read_text()


def test_unused_is_only_said_of_what_was_judged(tmp_path: Path) -> None:
    text = "x = 1  # t4lint: ignore[bf16-weights]\n"
    assert not linted(tmp_path, text, select=("pin-memory-disabled", UNUSED.name)).findings
    assert not linted(tmp_path, text, select=("bf16-weights",)).findings
    assert linted(tmp_path, text, select=("bf16-weights", UNUSED.name)).findings
    assert not linted(tmp_path, text, ignore=(UNUSED.name,)).findings
    assert not linted(tmp_path, "x = 1  # t4lint: ignore\n", select=("bf16-weights", UNUSED.name)).findings
    assert not check([tmp_path / "train.py"], Options(cwd=tmp_path)).findings, "another script may import it"
    (tmp_path / "broken.py").write_text("def\n")
    assert not check([tmp_path], Options(cwd=tmp_path)).findings


def test_a_name_of_no_rule_is_told_wherever_it_stands(tmp_path: Path) -> None:
    script_alone = tmp_path / "train.py"
    script_alone.write_text(script(f"{LINE}  # t4lint: ignore[{RULE}s] a typo"))
    report = check([script_alone], Options(cwd=tmp_path))
    assert sorted(rules(report.findings)) == sorted([RULE, UNUSED.name]), "nothing is hidden, and it says why"
    (told,) = (it for it in report.findings if it.rule == UNUSED.name)
    assert told.message == f"There is no rule `{RULE}s` (did you mean `{RULE}`?)."


# --- writing comments ---------------------------------------------------------------------------------------------


def accepted(folder: Path, reason: str = "") -> None:
    options = Options(cwd=folder)
    assert not add_ignores(check([folder], options), options, reason)


def test_add_ignores(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script(LINE + "  # fast"))
    accepted(tmp_path, "ours")
    assert f"{LINE}  # fast  # t4lint: ignore[{RULE}] ours\n" in (tmp_path / "train.py").read_text()
    report = check([tmp_path], Options(cwd=tmp_path))
    assert not report.findings and rules(report.suppressed) == [RULE]


def test_add_ignores_to_a_comment_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script(f"{LINE}  # t4lint: ignore[bf16-weights] why"))
    accepted(tmp_path)
    assert f"# t4lint: ignore[bf16-weights, {RULE}] why\n" in (tmp_path / "train.py").read_text()


@pytest.mark.parametrize("program", sorted(path for path in FIXTURES.glob("*/bad_*") if ".fixed" not in path.name))
def test_add_ignores_hides_everything(program: Path, tmp_path: Path) -> None:
    if program.is_dir():
        shutil.copytree(program, tmp_path, dirs_exist_ok=True)
    else:
        shutil.copy(program, tmp_path)
    accepted(tmp_path)
    # JSON takes no comments: such findings need a baseline or the settings
    left = check([tmp_path], Options(cwd=tmp_path)).findings
    assert not [finding for finding in left if not finding.location.path.endswith(".json")]


def test_where_no_comment_can_stand_behind(tmp_path: Path) -> None:
    text = (
        script(LINE)
        .replace(
            "args = TrainingArguments(\n",
            'args = TrainingArguments(run_name="""\na""", tf32=True, **{"seed": \\\n 1},\n',
        )
        .replace(LINE + "\n", "")
    )
    (tmp_path / "train.py").write_text(text)
    assert rules(check([tmp_path], Options(cwd=tmp_path)).findings) == [RULE]
    accepted(tmp_path)
    assert f'# t4lint: ignore[{RULE}]\nargs = TrainingArguments(run_name="""\n' in (tmp_path / "train.py").read_text()
    assert not check([tmp_path], Options(cwd=tmp_path)).findings


@given(st.text(alphabet="#'\"\\\n \tabt4lint:ignore[]<$({", max_size=60), st.sampled_from(["a.py", "a.sh"]))
def test_never_fails(text: str, name: str) -> None:
    file = File(name, text + "\n# t4lint: ignore")
    for comment in file.comments:
        assert text.count("\n") + 2 >= comment.line >= 1
        file.statement(comment.line)
        file.above(comment.line)
