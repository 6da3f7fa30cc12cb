"""The flags that change files or choose what is new, as people type them."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from t4lint import cli

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SCRIPT = FIXTURES / "training-arguments-tf32/bad_literal.py"
FIXED = FIXTURES / "training-arguments-tf32/bad_literal.fixed.py"
RULE = "training-arguments-tf32"


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(SCRIPT, tmp_path / "train.py"))


def test_fix(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py"]) == cli.FOUND
    assert cli.main(["--fix", "train.py"]) == cli.CLEAN
    shown = capsys.readouterr()
    assert "No findings" in shown.out and shown.err.endswith("Fixed 1 finding in 1 file\n")
    assert train.read_bytes() == FIXED.read_bytes()


def test_diff_changes_nothing(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--diff", "train.py"]) == cli.FOUND
    shown = capsys.readouterr()
    assert shown.out.startswith("--- train.py\n+++ train.py\n") and "Would fix 1 finding in 1 file" in shown.err
    assert train.read_bytes() == SCRIPT.read_bytes()
    train.write_bytes(FIXED.read_bytes())
    assert cli.main(["--diff", "train.py"]) == cli.CLEAN
    assert not capsys.readouterr().out


def test_unsafe_fixes(train: Path) -> None:
    shutil.copy(FIXTURES / "bf16-mixed-precision/bad_training_arguments.py", train)
    assert cli.main(["--fix", "train.py"]) == cli.FOUND
    assert "bf16=True" in train.read_text()
    assert cli.main(["--fix", "--unsafe-fixes", "train.py"]) == cli.CLEAN
    assert "fp16=True" in train.read_text()


def test_what_cannot_be_written_is_said(
    train: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from t4lint import changes
    from t4lint.fix.write import NotWritten

    def refuse(*arguments: object) -> None:
        raise NotWritten("cannot be written: no room")

    monkeypatch.setattr(changes, "write_file", refuse)
    assert cli.main(["--fix", "train.py"]) == cli.FAILED
    assert "cannot be written: no room" in capsys.readouterr().out


def test_text_from_stdin_is_fixed_to_stdout(
    train: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = train.read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert cli.main(["--fix", "--stdin-filename", "other.py", "-"]) == cli.CLEAN
    assert capsys.readouterr().out == FIXED.read_text()
    assert not Path("other.py").exists() and train.read_bytes() == text


def test_json_offers_tried_fixes(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py", "--output-format", "json"]) == cli.FOUND
    assert [finding["rule"] for finding in json.loads(capsys.readouterr().out)["findings"]] == [RULE]


def test_add_ignores(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py", "--add-ignores", "not on a T4"]) == cli.CLEAN
    assert f"# t4lint: ignore[{RULE}] not on a T4\n" in train.read_text()
    assert capsys.readouterr().err == "Wrote comments for 1 finding in 1 file\n"
    assert cli.main(["train.py"]) == cli.CLEAN


def test_baseline(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py", "--baseline", "b.json"]) == cli.FAILED
    assert "there is no baseline b.json; --write-baseline writes one" in capsys.readouterr().err
    assert cli.main(["train.py", "--baseline", "b.json", "--write-baseline"]) == cli.CLEAN
    assert capsys.readouterr().err == "Wrote 1 finding to b.json\n"
    assert cli.main(["train.py", "--baseline", "b.json"]) == cli.CLEAN
    assert cli.main(["train.py", "--baseline", "b.json", "--fix"]) == cli.CLEAN
    assert train.read_bytes() == SCRIPT.read_bytes(), "what is accepted is not fixed"
    train.write_bytes(FIXED.read_bytes())
    assert cli.main(["train.py", "--baseline", "b.json"]) == cli.CLEAN
    assert json.loads(Path("b.json").read_text())["findings"] == []


def test_diff_base(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py", "--diff-base", "main"]) == cli.FAILED
    assert "not a git repository" in capsys.readouterr().err
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -qm one"):
        subprocess.run(["git", *command.split()], check=True)
    assert cli.main(["train.py", "--diff-base", "HEAD"]) == cli.CLEAN
    train.write_text(train.read_text().replace("tf32=True,", "tf32=True, seed=2,"))
    assert cli.main(["train.py", "--diff-base", "HEAD"]) == cli.FOUND
    assert cli.main(["train.py", "--diff-base", "gone"]) == cli.FAILED


def test_statistics(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py", "--statistics"]) == cli.FOUND
    assert capsys.readouterr().err == f"1  {RULE}\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--unsafe-fixes"], "--unsafe-fixes goes with --fix or --diff"),
        (["--fix", "--diff"], "--fix and --diff do not go together"),
        (["--write-baseline"], "--write-baseline needs --baseline FILE"),
        (["--fix", "--add-ignores"], "--fix and --add-ignores do not go together"),
    ],
)
def test_contradictions(train: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py", *flags]) == cli.FAILED
    assert message in capsys.readouterr().err


def test_bad_settings_and_rules_are_told(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py", "--fix", "--select", "no-such"]) == cli.FAILED
    Path("t4lint.toml").write_text("colour = 1\n")
    assert cli.main(["train.py", "--fix"]) == cli.FAILED
    assert train.read_bytes() == SCRIPT.read_bytes()


def test_explain_unused_suppression(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "unused-suppression"]) == cli.CLEAN
    assert capsys.readouterr().out.startswith("# unused-suppression\n")
    assert cli.main(["explain", "unused-supression"]) == cli.FAILED
    assert "unused-suppression" in capsys.readouterr().err
