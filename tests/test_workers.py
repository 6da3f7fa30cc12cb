"""The same report with any number of workers, of any kind."""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from t4lint import cli, workers
from t4lint.engine import Options, Session, check
from t4lint.findings import Report
from t4lint.report import json_report, outputs
from t4lint.report.progress import Line
from t4lint.sources import disk
from t4lint.workers import Workers

TRAIN = """\
import argparse
import torch
from common.tools import settings
parser = argparse.ArgumentParser()
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()
loader = torch.utils.data.DataLoader([1, 2], batch_size=2, num_workers={number} + 60, pin_memory=False)
with torch.autocast("cuda", dtype=torch.bfloat16 if args.bf16 else torch.float16):
    pass
"""
UNCALLED = "import torch\ndef used():\n    torch.backends.cuda.matmul.allow_tf32 = True\ndef unused():\n    used()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Programs that share a module, and others that stand alone; launches that tie findings to one shell script."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "tools.py").write_text(
        "import torch\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n    settings = {}\n"
    )
    (tmp_path / "run.sh").write_text(
        "".join(f"python alone{n}.py --bf16\npython train{n}.py --bf16\n" for n in range(3))
    )
    for number in range(3):
        (tmp_path / f"train{number}.py").write_text(TRAIN.replace("{number}", str(number)))
        (tmp_path / f"alone{number}.py").write_text(
            TRAIN.replace("from common.tools import settings\n", "").replace("{number}", "4")
        )
        (tmp_path / f"library{number}.py").write_text(UNCALLED)
    (tmp_path / "broken.py").write_text("x = (\n")
    return tmp_path


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORTH_IT", 0)


def lint(folder: Path, helpers: Workers | None) -> Report:
    return check([folder], Options(cwd=folder, min_confidence="possible"), helpers)


def test_scripts_that_share_a_module_belong_together(project: Path) -> None:
    session = Session(Options(cwd=project))
    parts = session.parts(session.ordered(session.collect([project])))
    found = sorted(sorted(file.stem for file in part) for part in parts)
    assert found == [
        ["alone0"], ["alone1"], ["alone2"], ["broken"], ["library0"], ["library1"], ["library2"],
        ["tools", "train0", "train1", "train2"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "import other", "from other import x", "from pkg import deep", "import pkg.deep", "from .other import x",
        "from . import other", "from pkg.deep import (\n    x,  # the one\n)", "from . import (unknown,\n    other as o)",
        "if True:\n    import sys; sys.path.insert(0, 'elsewhere')\n    import far", "from elsewhere import far",
    ],
)  # fmt: skip
def test_every_way_to_import_joins(tmp_path: Path, line: str) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("other.py", "pkg/__init__.py", "pkg/deep.py", "elsewhere/far.py", "lonely.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "main.py").write_text(f"{line}\n")
    session = Session(Options(cwd=tmp_path))
    parts = session.parts(session.ordered(session.collect([tmp_path])))
    (part,) = [part for part in parts if tmp_path / "main.py" in part]
    assert len(part) > 1 and tmp_path / "lonely.py" not in part


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_processes_gives_the_same(project: Path, count: int) -> None:
    expected = json_report.render(lint(project, None), version="0")
    assert '"alone1.py"' in expected and '"common/tools.py"' in expected and '"broken.py"' in expected
    assert json_report.render(lint(project, Workers(None, count)), version="0") == expected


@pytest.mark.parametrize("make", [None, lambda: ThreadPoolExecutor(3)], ids=["processes", "executor"])
def test_findings_come_early_in_the_same_order(project: Path, make: Callable[[], Executor] | None) -> None:
    """Each group of scripts is told when it is done, by path, whoever did it; all findings but those on comments are."""
    hushed = "import torch\nwith torch.autocast('cuda', dtype=torch.bfloat16):  # t4lint: ignore\n    pass\n"
    (project / "hushed.py").write_text(hushed)
    told: list[list[Report]] = []
    options = Options(cwd=project, min_confidence="possible")
    for count in (1, 2, 3):
        told.append([])
        with make() if make is not None else nullcontext() as executor:
            report = check([project], options, Workers(executor, count), told[-1].append)
    assert report == lint(project, None)
    shown = [[(it.rule, it.location) for it in part.findings] for part in told[0]]
    assert [[[(it.rule, it.location) for it in part.findings] for part in run] for run in told] == [shown] * 3
    assert [part.runs[0].script for part in told[0] if part.findings] == [
        "alone0.py", "alone1.py", "alone2.py", "train0.py",
    ]  # fmt: skip
    assert {it for part in shown for it in part} == {(it.rule, it.location) for it in report.findings}
    assert len(report.suppressed) == 1


def test_a_terminal_shows_findings_as_they_come(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """What is shown in pieces is the same text each time, kept or not, and holds what a file would hold."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("T4LINT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("T4LINT_NO_CACHE", raising=False)
    monkeypatch.setattr("t4lint.report.outputs.is_terminal", lambda: True)
    pieces: list[str] = []
    write = outputs.to_screen
    monkeypatch.setattr(outputs, "to_screen", lambda text, **more: (pieces.append(text), write(text, **more))[1])
    counts, texts = [], []
    for flags in (["--workers", "2"], ["--workers", "2"], ["--workers", "1", "--no-cache"]):
        pieces.clear()
        assert cli.main([".", *flags]) == cli.FAILED
        counts.append(len(pieces))
        shown = capsys.readouterr().out
        assert shown == "".join(pieces)
        assert shown.count("bf16-mixed-precision") == 7 and "broken.py" in shown
        texts.append(shown)
    assert counts == [5, 1, 5]  # four groups and the end; the second is the kept text
    assert texts == texts[:1] * 3
    blocks = [block for block in texts[0].split("\n\n") if block]
    assert cli.main([".", "--no-cache", "--output-format", "text:report.txt"]) == cli.FAILED
    whole = (project / "report.txt").read_text()
    assert len(blocks) == len([block for block in whole.split("\n\n") if block])


def own_executor() -> Executor:
    """Processes that start with nothing, as on another machine."""
    return ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))


@pytest.mark.parametrize("make", [own_executor, lambda: ThreadPoolExecutor(3)], ids=["spawned", "threads"])
def test_any_executor_gives_the_same(project: Path, make: Callable[[], Executor]) -> None:
    expected = lint(project, None)
    with make() as executor:
        assert lint(project, Workers(executor, 2)) == expected


class Dying(Executor):
    """Its workers die."""

    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(BrokenExecutor("killed"))
        return future


def test_what_a_dead_worker_left_is_done_here(project: Path) -> None:
    assert lint(project, Workers(Dying(), 2)) == lint(project, None)


def test_what_workers_ask_is_noted_too(project: Path) -> None:
    """A module outside of the folder that is checked is read by a worker alone."""
    paths = [project / "train0.py", project / "alone0.py"]
    options = Options(cwd=project)
    with disk.watched() as alone:
        check(paths, options)
    with disk.watched() as shared:
        check(paths, options, Workers(None, 2))
    assert alone.items() <= shared.items()


def test_settings_near_files_reach_the_workers(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "t4lint.toml").write_text('[[overrides]]\npaths = ["alone*"]\nignore = ["bf16-mixed-precision"]\n')
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent.parent), str(Path(__file__).parent)]))
    outputs = set()
    for flags in (["--workers", "1"], ["--workers", "2"], ["--executor", "test_workers:own_executor"]):
        assert cli.main([".", "--output-format", "json", *flags]) == cli.FAILED  # broken.py
        outputs.add(capsys.readouterr().out)
    assert len(outputs) == 1 and "bf16-mixed-precision" in outputs.pop()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nonsense", "no executor"), ("http://x", "no executor"), ("no_such_module:make", "gives no executor"),
        ("os:getcwd", "gives a str"), ("dask://127.0.0.1:1", "Dask"),
    ],
)  # fmt: skip
def test_an_executor_that_cannot_be_had(
    place: str, said: str, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.startswith("dask"):
        monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main([str(project), "--executor", place]) == cli.FAILED
    assert said in capsys.readouterr().err


def test_progress_is_told(project: Path) -> None:
    told: list[tuple[int, int]] = []
    for count in (1, 2):
        lint(project, Workers(None, count, lambda done, total: told.append((done, total))))
        assert told[-1] == (11, 11) and told == sorted(told)
        told.clear()


def test_the_line_is_for_terminals_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    line = Line(stream)
    line.tell(1, 9)
    assert stream.getvalue() == ""  # it was quick so far
    monkeypatch.setattr("t4lint.report.progress.AFTER", 0.0)
    line.tell(2, 9)
    line.hide()
    assert "2/9" in stream.getvalue()


@pytest.mark.heavy
def test_a_dask_cluster_of_two_workers(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A scheduler and two workers, each a process of its own; the command line sends them the work."""
    distributed = pytest.importorskip("distributed")
    root = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": root}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", root)
        patched.setattr(workers, "WORTH_IT", 0)
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
            local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as cluster:  # fmt: skip
            address = cluster.scheduler_address.removeprefix("tcp://")
            command = [sys.executable, "-m", "t4lint", ".", "--output-format", "json"]
            found = [
                subprocess.run(
                    [*command, *flags],
                    cwd=project,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=240,
                    check=False,
                )
                for flags in (["--workers", "1"], ["--executor", f"dask://{address}"])
            ]
            alone, shared = found
            assert "bf16-mixed-precision" in alone.stdout
            assert shared.stdout == alone.stdout and shared.returncode == alone.returncode, shared.stderr
            with distributed.Client(cluster, set_as_default=False) as client:
                ran = client.run(lambda: bool(__import__("sys").modules["t4lint.workers"]._sessions))
            assert list(ran.values()) == [True, True]  # both have worked
