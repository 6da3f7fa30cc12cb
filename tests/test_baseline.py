"""The baseline file, and findings on changed lines only."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from t4lint import baseline
from t4lint.baseline import BaselineError, changed_since
from t4lint.changes import OnlyNew, write_baseline
from t4lint.engine import Options, check
from t4lint.findings import Report

HEAD = "from transformers import Trainer, TrainingArguments\n"
BAD = 'Trainer(args=TrainingArguments(output_dir="out", fp16=True, tf32=True)).train()\n'
OTHER = 'Trainer(args=TrainingArguments(output_dir="new", fp16=True, tf32=True)).train()\n'


def linted(folder: Path, **options: object) -> Report:
    return check([folder], Options(cwd=folder, **options))  # type: ignore[arg-type]


def new(folder: Path, report: Report, file: Path | None = None, reference: str | None = None) -> list[int]:
    """The lines of the new findings."""
    only = OnlyNew.read(file, reference, folder, "likely")
    return [finding.location.line for finding in only.of(report).findings]


# --- baseline -----------------------------------------------------------------------------------------------------


def test_adopt_move_and_add(tmp_path: Path) -> None:
    """A project with 50 findings: after adoption, moved code and one bad line, there is one finding."""
    script, file = tmp_path / "train.py", tmp_path / "baseline.json"
    script.write_text(HEAD + BAD * 50)
    report = linted(tmp_path)
    assert len(report.findings) == 50
    assert len({finding.fingerprint for finding in report.findings}) == 50
    assert not write_baseline(report, file)
    assert new(tmp_path, report, file) == []
    script.write_text(HEAD + "\n\n# moved\nif True:\n" + "    ".join(["", *[BAD] * 50]) + OTHER)
    assert new(tmp_path, linted(tmp_path), file) == [56]
    script.write_text(HEAD + BAD * 51)
    assert len(new(tmp_path, linted(tmp_path), file)) == 1


def test_it_shrinks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, file = tmp_path / "train.py", tmp_path / "baseline.json"
    script.write_text(HEAD + BAD * 3 + OTHER)
    write_baseline(linted(tmp_path), file)
    script.write_text(HEAD + BAD)
    assert new(tmp_path, linted(tmp_path), file) == []
    assert len(baseline.load(file)) == 1
    assert "taken out" in capsys.readouterr().err
    script.write_text(HEAD + BAD + OTHER)
    assert new(tmp_path, linted(tmp_path), file) == [3]


def test_what_was_not_judged_stays(tmp_path: Path) -> None:
    script, file = tmp_path / "train.py", tmp_path / "baseline.json"
    script.write_text(HEAD + BAD)
    (tmp_path / "other.py").write_text("x = 1\n")
    write_baseline(linted(tmp_path), file)
    script.write_text(HEAD)
    for report in (
        linted(tmp_path, select=("pin-memory-disabled",)),
        check([tmp_path / "other.py"], Options(cwd=tmp_path)),
        linted(tmp_path, exclude=("train.py",)),
    ):
        new(tmp_path, report, file)
        assert len(baseline.load(file)) == 1
    script.unlink()
    new(tmp_path, check([tmp_path / "other.py"], Options(cwd=tmp_path)), file)
    assert baseline.load(file) == []


def test_hidden_findings_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + BAD)
    file = tmp_path / "baseline.json"
    report = linted(tmp_path)
    write_baseline(report, file)
    (hidden,) = OnlyNew.read(file, None, tmp_path, "likely").of(report).suppressed
    assert hidden.suppressed is not None and hidden.suppressed.kind == "baseline"


def test_the_file_is_small_and_sorted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + BAD * 2)
    file = tmp_path / "baseline.json"
    report = linted(tmp_path)
    baseline.dump(file, report.findings)
    first = file.read_text()
    baseline.dump(file, reversed(report.findings))
    assert file.read_text() == first
    assert first.count("\n") == 4 and json.loads(first)["version"] == 1
    baseline.dump(file, [])
    assert file.read_text() == '{"version": 1, "findings": []}\n'


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2, "findings": []}', '{"version": 1, "findings": [{}]}', "\xff"]
)
def test_broken_files(text: str, tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(BaselineError, match=r"baseline\.json"):
        baseline.load(file)


def test_no_baseline_is_written_over_problems(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def\n")
    assert write_baseline(linted(tmp_path), tmp_path / "baseline.json")
    assert not (tmp_path / "baseline.json").exists()


# --- changed lines ------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init")
    (tmp_path / "train.py").write_text(HEAD + BAD * 5)
    (tmp_path / "ä b.py").write_text(HEAD + BAD)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "one")
    git(tmp_path, "branch", "base")
    return tmp_path


def test_only_changed_lines(repository: Path) -> None:
    assert new(repository, linted(repository), None, "base") == []
    (repository / "train.py").write_text(HEAD + "\n" + BAD * 3 + OTHER + BAD * 2)
    assert new(repository, linted(repository), None, "base") == [6]
    git(repository, "commit", "-am", "two")
    assert new(repository, linted(repository), None, "base") == [6]
    assert new(repository, linted(repository), None, "HEAD") == []


def test_changes_on_the_other_branch_do_not_count(repository: Path) -> None:
    git(repository, "checkout", "-b", "feature")
    git(repository, "checkout", "base")
    (repository / "train.py").write_text(HEAD)
    git(repository, "commit", "-am", "gone")
    git(repository, "checkout", "feature")
    assert new(repository, linted(repository), None, "base") == []


def test_renames_and_new_files(repository: Path) -> None:
    git(repository, "mv", "train.py", "main.py")
    with (repository / "main.py").open("a") as stream:
        stream.write(OTHER)
    with (repository / "ä b.py").open("a") as stream:
        stream.write(OTHER)
    (repository / "fresh.py").write_text(HEAD + BAD)
    report = linted(repository)
    only = OnlyNew.read(None, "base", repository, "likely").of(report)
    assert [(it.location.path, it.location.line) for it in only.findings] == [
        ("fresh.py", 2),
        ("main.py", 7),
        ("ä b.py", 3),
    ]


def test_content_that_looks_like_a_diff(repository: Path) -> None:
    text = HEAD + "x = '''\n++ b/other.py\n@@ -1 +1,99 @@\n-- a\n'''\n" + BAD
    (repository / "train.py").write_text(text)
    changes = changed_since("base", repository)
    assert sorted(path.name for path in changes.lines) == ["train.py"]


def test_a_subfolder(repository: Path) -> None:
    folder = repository / "sub"
    folder.mkdir()
    (folder / "train.py").write_text(HEAD + BAD)
    assert new(folder, linted(folder), None, "base") == [2]


def test_a_finding_counts_when_its_value_has_changed(repository: Path) -> None:
    (repository / "train.py").write_text(HEAD + BAD)
    report = linted(repository)
    (finding,) = [it for it in report.findings if it.location.path == "train.py"]
    changes = changed_since("base", repository)
    elsewhere = replace(finding, location=replace(finding.location, line=999, end_line=999))
    assert not changes.touch(replace(elsewhere, provenance=()), {}, {})


@pytest.mark.parametrize(
    ("reference", "message"), [("nowhere", "does not know 'nowhere'"), ("--output=x", "git reference")]
)
def test_bad_references(repository: Path, reference: str, message: str) -> None:
    with pytest.raises(BaselineError, match=message):
        changed_since(reference, repository)


def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="not a git repository"):
        changed_since("main", tmp_path)


def test_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BaselineError, match="needs git"):
        changed_since("main", tmp_path)
