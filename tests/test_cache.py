"""Kept results: a cached run gives byte for byte what an uncached run gives, whatever happened to the files in between."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t4lint import cache, cli
from t4lint.cli import check
from t4lint.cli.inputs import wanted_outputs
from t4lint.engine import Options, check_with_fixes
from t4lint.sources import disk

FIXTURES = Path(__file__).parent.parent / "fixtures"

TRAIN = """\
import argparse
import json
import torch
import helper
from transformers import TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()
settings = json.load(open("settings.json"))
loader = torch.utils.data.DataLoader(helper.data(), batch_size=settings["batch"], num_workers=settings["workers"])
TrainingArguments("out", bf16=args.bf16, tf32=helper.FAST, dataloader_pin_memory=settings["pin"])
"""
# What each file may hold; None: it is not there.
CONTENTS: dict[str, tuple[str | None, ...]] = {
    "train.py": (TRAIN, TRAIN.replace("args.bf16", "True"), "import torch\n", "x = (\n", None),
    "helper.py": ("FAST = True\n", "FAST = False\n\ndef data():\n    return [1, 2]\n", None),
    "helper/__init__.py": ("FAST = True\n", None),
    "src/helper.py": ("FAST = True\n", None),
    "other.py": ("print('nothing to see')\n", "import torch\ntorch.set_float32_matmul_precision('high')\n", None),
    "settings.json": (
        '{"batch": 8, "workers": 64, "pin": false}',
        '{"batch": 8, "workers": 2, "pin": true}',
        "{",
        None,
    ),
    "run.sh": ("python train.py --bf16\n", "torchrun --nproc_per_node 2 train.py\n", "echo train.py\n", None),
    "README.md": ("```bash\npython train.py --bf16\n```\n", "Read me.\n", None),
    "requirements.txt": ("torch==2.1.0\ntransformers==4.30.0\n", "torch\n", None),
    ".gitignore": ("other.py\n", "helper.py\n", None),
    "pyproject.toml": ("[project]\nname = 'p'\n", "[tool.t4lint]\nignore = ['bf16-mixed-precision']\n", None),
    "t4lint.toml": ("min-confidence = 'possible'\n", "fail-on = 'error'\n", "unknown = 1\n", None),
    ".git/config": ("", None),
}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Results are kept, in a folder of their own."""
    monkeypatch.delenv("T4LINT_NO_CACHE", raising=False)
    monkeypatch.delenv("T4LINT_DEBUG", raising=False)
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in CONTENTS:
        put(
            folder,
            name,
            CONTENTS[name][0] if name not in ("helper/__init__.py", "src/helper.py", ".gitignore") else None,
        )
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def once(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main(list(arguments))
        return (code, *capsys.readouterr())

    return once


def put(folder: Path, name: str, text: str | None) -> None:
    file = folder / name
    if text is None:
        file.unlink(missing_ok=True)
        if file.parent != folder and file.parent.is_dir() and not any(file.parent.iterdir()):
            file.parent.rmdir()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def nothing_is_linted(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_: object) -> None:
        raise AssertionError("it was linted anew")

    monkeypatch.setattr("t4lint.engine.check", check)
    monkeypatch.setattr("t4lint.engine.check_with_fixes", check)


# --- the same output ---------------------------------------------------------------------------------------------


def test_an_unchanged_project_is_not_linted_again(
    kept: Path, project: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (
        ["."],
        ["train.py", "--output-format", "json"],
        [".", "--output-format", "concise"],
        [".", "--statistics"],
    ):
        first = run(*arguments)
        with monkeypatch.context() as without:
            nothing_is_linted(without)
            assert run(*arguments) == first
        assert first[0] == cli.FOUND and "bf16-mixed-precision" in first[1] + first[2]


EDIT = st.sampled_from(sorted(CONTENTS)).flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(CONTENTS[name])))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(EDIT, min_size=1, max_size=2), min_size=2, max_size=5), st.booleans())
def test_random_edits(
    kept: Path,
    project: Path,
    run: Callable[..., tuple[int, str, str]],
    rounds: list[list[tuple[str, str | None]]],
    whole: bool,
) -> None:
    arguments = ["." if whole else "train.py", "--output-format", "json"]
    for edits in rounds:
        for name, text in edits:
            put(project, name, text)
        cached = run(*arguments)
        assert cached == run(*arguments, "--no-cache")
        assert cached == run(*arguments)


def test_a_link_that_leads_elsewhere(kept: Path, project: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    (project / "real").mkdir()
    put(project, "real/one.py", "FAST = True\n")
    put(project, "real/two.py", "FAST = False\n")
    put(project, "helper.py", None)
    for target in ("one", "two", "one"):
        (project / "helper.py").unlink(missing_ok=True)
        (project / "helper.py").symlink_to(project / "real" / f"{target}.py")
        assert run("train.py") == run("train.py", "--no-cache")


def test_what_was_asked_for_is_part_of_the_key(
    kept: Path, project: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    for arguments in (
        ["."], [".", "--target", "a100"], [".", "--ignore", "bf16-mixed-precision"], [".", "--min-confidence", "possible"],
        [".", "--isolated"], [".", "--exit-zero"], [".", "--fail-on", "error"], ["train.py"], ["train.py", "other.py"],
    ):  # fmt: skip
        assert run(*arguments) == run(*arguments, "--no-cache")
        assert run(*arguments) == run(*arguments, "--no-cache")


def test_a_baseline_and_changed_lines_come_on_top(
    kept: Path, project: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    run(".", "--baseline", "known.json", "--write-baseline")
    for _ in range(2):
        assert run(".", "--baseline", "known.json") == run(".", "--baseline", "known.json", "--no-cache")
    assert run(".", "--baseline", "known.json")[0] == cli.CLEAN


@pytest.mark.parametrize("name", ["fp32-training", "bf16-mixed-precision", "pin-memory-disabled"])
def test_a_report_is_read_as_it_was_written(name: str) -> None:
    folder = FIXTURES / name
    report = check_with_fixes([folder], Options(cwd=folder, extend_select=("all",)))
    assert report.findings
    assert cache.decoded(json.loads(json.dumps(cache.encoded(report)))) == report


# --- what is noted -----------------------------------------------------------------------------------------------

_touched: list[str] | None = None
_opened: list[str] = []


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if (
        _touched is not None
        and event in ("open", "os.scandir", "os.listdir")
        and isinstance(arguments[0], (str, os.PathLike))
    ):
        _opened.append(os.path.abspath(arguments[0]))  # noqa: PTH100


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], list[str]]]:
    """The paths that anything asks about, and those that it opens."""
    global _touched
    _touched = []
    if not getattr(sys, "_t4lint_listens", False):
        sys.addaudithook(_listen)
        sys._t4lint_listens = True  # type: ignore[attr-defined]
    for name in ("stat", "lstat"):
        real = getattr(os, name)

        def ask(path: object, *rest: object, real: Callable[..., object] = real, **more: object) -> object:
            if isinstance(path, (str, os.PathLike)):
                assert _touched is not None
                _touched.append(os.path.abspath(path))  # noqa: PTH100
            return real(path, *rest, **more)

        monkeypatch.setattr(os, name, ask)
    yield _touched, _opened
    monkeypatch.undo()
    _touched = None


def test_everything_that_is_looked_at_is_noted(project: Path, looked_at: tuple[list[str], list[str]]) -> None:
    """A file that is opened or asked about without a note would make kept results wrong."""
    shutil.copytree(FIXTURES / "followed", project / "followed")
    (project / "link.py").symlink_to(project / "other.py")
    touched, opened = looked_at
    touched.clear()
    opened.clear()
    with disk.watched() as asked:
        parser = cli.parser().parse_args(["check", "."])
        parser.rest = []
        check._checked(parser, [Path()], None, wanted_outputs([]))
    noted = {question[1:].partition(":")[2] if question[0] == "p" else question[1:] for question in asked}
    root = str(project)
    # What a listed folder holds is noted with its kind.
    listed = {question[1:] for question in asked if question[0] == "l"}
    unseen = {
        path for path in touched if path.startswith(root + os.sep) and str(Path(path).parent) not in listed
    } - noted
    unseen |= {path for path in opened if path.startswith(root + os.sep)} - noted
    # `realpath` looks at each folder on the way to a path that is noted.
    assert not {path for path in unseen if not any(other.startswith(path + os.sep) for other in noted)}
    assert disk.still(asked)


def test_of_names_in_a_folder_that_is_not_there_only_the_folder_is_noted(tmp_path: Path) -> None:
    with disk.watched() as asked:
        for name in ("functional.py", "modules/linear.py", "modules/conv.py"):
            assert not disk.is_file(tmp_path / "torch/nn" / name)
    assert [question for question in asked if "torch" in question] == [f"k{tmp_path}/torch"]
    (tmp_path / "torch/nn").mkdir(parents=True)
    assert not disk.still(asked)


def test_a_listed_folder_tells_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    with disk.watched() as asked:
        disk.entries(tmp_path)
        assert disk.is_file(tmp_path / "train.py") and not disk.is_file(tmp_path / "other.py")
        assert not disk.exists(tmp_path / ".git")  # which no list shows
        with pytest.raises(FileNotFoundError):
            disk.read_start(tmp_path / "setup.cfg", 10)
    condensed = disk.condensed(asked)
    told = {f"k{tmp_path}/train.py", f"k{tmp_path}/other.py", f"p10:{tmp_path}/setup.cfg"}
    assert set(asked) - set(condensed) == told
    for name in ("other.py", "setup.cfg"):
        (tmp_path / name).write_text("")
        assert not disk.still(condensed)
        (tmp_path / name).unlink()
        assert disk.still(condensed)


def test_what_came_while_it_was_looked_for_is_not_left_to_the_list(tmp_path: Path) -> None:
    with disk.watched() as asked:
        assert not disk.is_file(tmp_path / "late.py")
        (tmp_path / "late.py").write_text("")
        disk.entries(tmp_path)
    assert not disk.still(disk.condensed(asked))


def test_a_note_is_of_what_was_answered_first(tmp_path: Path) -> None:
    with disk.watched() as asked:
        assert not disk.is_file(tmp_path / "a")
        (tmp_path / "a").write_text("1")
        assert disk.read_bytes(tmp_path / "a") == b"1"
    assert not disk.still(asked)


# --- entries -----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_entries_are_not_there(
    kept: Path, project: Path, run: Callable[..., tuple[int, str, str]], data: st.DataObject
) -> None:
    expected = run("train.py")
    for file in kept.iterdir():
        whole = file.read_bytes()
        start = data.draw(st.integers(0, len(whole) - 1))
        how = data.draw(st.sampled_from(["cut", "garble", "empty", "other"]))
        garbled = whole[:start] + bytes([whole[start] ^ 0x20]) + whole[start + 1 :]
        file.write_bytes({"cut": whole[:start], "garble": garbled, "empty": b"", "other": b"[]\n"}[how])
    assert run("train.py") == expected


def test_invocations_at_the_same_time(kept: Path, project: Path) -> None:
    command = [sys.executable, "-m", "t4lint", ".", "--output-format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(FIXTURES.parent)}
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(4)]
    answers = {process.communicate(timeout=120)[0] for process in running}
    assert len(answers) == 1
    assert all(cache._opened(file.read_bytes()) for file in kept.iterdir())
    assert {file.suffix for file in kept.iterdir()} == {".json"}


def test_a_place_that_cannot_be_written_is_no_fault(
    kept: Path, project: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.FOLDER, str(project / "train.py"))
    assert run("train.py") == run("train.py", "--no-cache")


def test_a_url(
    kept: Path, project: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv(cache.FOLDER, "memory://t4lint-kept")
    first = run("train.py")
    assert fsspec.filesystem("memory").ls("/t4lint-kept")
    nothing_is_linted(monkeypatch)
    assert run("train.py") == first


def test_a_url_without_the_extra_says_what_to_install(
    kept: Path, project: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.FOLDER, "memory://t4lint-kept")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    code, _, error = run("train.py")
    assert code == cli.FAILED and "t4lint[fsspec]" in error
    monkeypatch.setenv(cache.FOLDER, "nowhere://x")
    monkeypatch.delitem(sys.modules, "fsspec.core")
    assert run("train.py")[0] == cli.FAILED


def test_results_of_own_rules_are_not_kept(kept: Path, project: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    put(
        project,
        "checks/precision/odd.py",
        (FIXTURES.parent / "rules/precision/fp32_training.py").read_text().replace("fp32-training", "odd"),
    )
    put(project, "t4lint.toml", "own-rules = ['./checks']\n")
    run("train.py")
    assert not kept.exists()


def test_the_folder_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_ENTRIES", 4)
    store = cache.Folder(tmp_path)
    for number in range(9):
        store.write(f"{number}.json", b"x")
        os.utime(tmp_path / f"{number}.json", (number, number))
    assert len(list(tmp_path.iterdir())) <= 4 and store.read("8.json") == b"x"


# --- what is imported --------------------------------------------------------------------------------------------

HEAVY = ("libcst", "pydantic", "yaml", "tree_sitter", "rich.console", "t4lint.engine", "t4lint.rules", "t4lint.trace")
LIST = "import sys; from t4lint.cli import main; code = main(sys.argv[1:]); print(*sys.modules, file=sys.stderr, sep='\\n'); sys.exit(code)"


def imported(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LIST, *arguments],
        env={**os.environ, "PYTHONPATH": str(FIXTURES.parent)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return set(done.stderr.splitlines())


@pytest.mark.parametrize("flag", ["--version", "--help", "check --help", "verify --help"])
def test_asking_for_help_imports_nothing_heavy(flag: str) -> None:
    assert imported(*flag.split()).isdisjoint(HEAVY)


def test_a_kept_result_imports_nothing_heavy(kept: Path, project: Path) -> None:
    assert not imported("train.py").isdisjoint(HEAVY)
    assert imported("train.py").isdisjoint(HEAVY)


def test_a_file_without_a_trigger_is_not_parsed(kept: Path, project: Path) -> None:
    put(project, "t4lint.toml", None)
    put(project, "plain.py", "print('hello')\n")
    assert imported("plain.py", "--no-cache").isdisjoint({"libcst", "pydantic", "rich.console"})


def test_checking_does_not_import_libcst(kept: Path, project: Path) -> None:
    """It is for fixes, which keep every byte, and for syntax that is newer than this Python."""
    there = imported("train.py", "--no-cache", "--select", "fp32-training", "--output-format", "concise")
    assert "t4lint.interpret.machine" in there and "libcst" not in there
