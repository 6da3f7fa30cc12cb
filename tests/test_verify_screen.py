"""What `verify` says around its report."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from t4lint.findings import Finding, Report, Verdict
from t4lint.record.journal import Journal
from t4lint.record.launch import Limits, Outcome, Recording
from t4lint.record.sandbox import Sandbox
from t4lint.record.watch import Moment, moment
from t4lint.report.screen import Screen, ending, intention, last_words, table
from t4lint.trace import Location


def recording(how: str = "finished", stderr: str = "", stdout: str = "", code: int | None = 0) -> Recording:
    outcome = Outcome(how, code, "why", "train.py" if how == "exception" else "", 3)  # type: ignore[arg-type]
    return Recording(("python",), Path("/p"), Path("/p"), Journal(()), outcome, 1.5, stdout, stderr)


def test_it_says_what_it_will_do(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    said = "\n".join(intention(["python", "train.py", "--name", "a b"], tmp_path, Limits()))
    assert "verify runs your command: python train.py --name 'a b'" in said
    assert f"project   {tmp_path}: written to in an overlay" in said
    assert "network   off" in said and "3 optimizer steps, 600 s" in said
    said = "\n".join(intention(["a.ipynb"], tmp_path, Limits(memory=2**31, network=True, sandbox="copy")))
    assert (
        "this notebook" in said and "in a copy of it" in said and "with your tokens" in said and "memory 2 GiB" in said
    )


def test_progress_only_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for out, live in ((io.StringIO(), False), (Terminal(), True)):
        screen = Screen(out)
        screen.starts(Sandbox("overlay", Path(), Path()))
        screen.steps = 3
        screen.goes_on(1.0, Moment("backward", 1, "train.py:7\x1b[2J"))
        screen.ends(recording())
        assert ("1 of 3 optimizer steps" in out.getvalue()) is live
        assert ("backward" in out.getvalue()) is live and "\x1b[2J" not in out.getvalue()
        assert out.getvalue().startswith("  running   in an overlay, no network\n")
        assert out.getvalue().endswith("  ended     why (1.5 s, exit code 0)\n\n")


def test_the_last_words_of_a_run_that_failed() -> None:
    failed = recording("exception", stderr="\n".join(f"line {i}\x1b[2J" for i in range(99)), code=1)
    lines = ending(failed)
    assert lines[0] == "  ended     an exception: why at train.py:3 (1.5 s, exit code 1)"
    assert lines[1] == "  the last lines of its stderr:"
    assert lines[-1] == "  | line 98?[2J" and len(lines) == 17
    assert last_words(recording("failed", stdout="50%\r100%\n"))[1:] == ["  | 50%", "  | 100%"]
    assert last_words(recording("failed")) == ["  it wrote nothing"]
    assert len(ending(recording("stopped", stderr="noise"))) == 1


def test_the_table() -> None:
    kinds = ("not exercised", "confirmed", "undecided", "refuted")
    findings = tuple(
        Finding(
            f"rule-{kind[:3]}", "warning", "certain", Location("a.py", line, 1, line, 2), "", "",
            verdict=Verdict(kind, "cpu", "certain", f"evidence {kind}", "reason" if line % 2 else ""),
        )
        for line, kind in enumerate(kinds, 1)
    )  # fmt: skip
    report = Report("t4", findings, (), (), 1)
    lines = table(report).splitlines()
    assert [line.split(" (")[0] for line in lines if not line.startswith(" ")] == [
        "confirmed", "refuted", "undecided", "not exercised",
    ]  # fmt: skip
    assert "  x  a.py:2 rule-con" in lines and "       evidence confirmed" in lines
    assert "\x1b[1;31m" in table(report, colour=True)
    assert table(Report("t4", (), (), (), 1)) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Moment()),
        ('{"ph":"backward","st":2}\n{"ph":"opt', Moment("backward", 2)),
        ("not json\n", Moment()),
        ('{"ph":"setup","st":0,"u":[["a.py",3],["b.py",9]]}\n', Moment("setup", 0, "a.py:3")),
    ],
)
def test_how_far_it_is(tmp_path: Path, text: str, expected: Moment) -> None:
    (tmp_path / "journal").write_text(text)
    assert moment(tmp_path / "journal") == expected
    assert moment(tmp_path / "gone") == Moment()
