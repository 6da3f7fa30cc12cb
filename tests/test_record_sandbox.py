"""Nothing that a program does reaches the project, outlives the run, or keeps the report from coming."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from t4lint.record import sandbox, watch
from t4lint.record.launch import Limits, Recording, record
from t4lint.record.sandbox import Kind

pytestmark = pytest.mark.heavy

KINDS: list[Kind] = ["copy", "overlay"]
Run = Callable[..., Recording]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    if chosen == "overlay" and not sandbox.works():
        pytest.skip("this kernel does not give an ordinary user overlays")
    return chosen


def run(folder: Path, text: str, limits: Limits | None = None, *, timeout: float = 60, steps: int = 2) -> Recording:
    (folder / "train.py").write_text(textwrap.dedent(text).lstrip("\n"))
    return record([sys.executable, "train.py"], cwd=folder, steps=steps, timeout=timeout, limits=limits)


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below, its bytes and its mode."""
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else b"", path.lstat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


VANDAL = """
    import os, pathlib, shutil
    print(open("config.txt").read(), open("linked.txt").read(), sorted(os.listdir("data")))
    os.remove("config.txt")
    shutil.rmtree("package")
    open("model.pt", "w").write("weights")
    open(os.path.join(os.getcwd(), "absolute.pt"), "w").write("weights")
    open("linked.txt", "w").write("written through the link")
    open("data/big.bin", "ab").write(b"more")
    os.chmod("keep.txt", 0o600)
    os.makedirs("runs/1", exist_ok=True)
    os.symlink("model.pt", "latest.pt")
    os.rename("keep.txt", "kept.txt")
    print("done", sorted(name for name in os.listdir(".") if name.endswith(".pt")))
"""


def test_the_project_is_as_before(tmp_path: Path, kind: Kind) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "package", project / "data", outside):
        folder.mkdir(parents=True)
    (project / "config.txt").write_text("config")
    (project / "keep.txt").write_text("keep")
    (project / "package" / "a.py").write_text("A = 1\n")
    (project / "data" / "big.bin").write_bytes(b"data")
    (outside / "target.txt").write_text("outside")
    (project / "linked.txt").symlink_to(outside / "target.txt")
    (project / "train.py").write_text("")
    recording = run(project, VANDAL, Limits(sandbox=kind))
    before = tree(tmp_path)
    again = run(project, VANDAL, Limits(sandbox=kind))
    assert recording.stdout == again.stdout
    assert recording.outcome.how == "finished", recording.stderr
    assert recording.stdout.splitlines() == [
        "config outside ['big.bin']",
        "done ['absolute.pt', 'latest.pt', 'model.pt']",
    ]
    assert tree(tmp_path) == before
    assert (outside / "target.txt").read_text() == "outside"
    assert (project / "config.txt").read_text() == "config"


def test_a_linked_folder_is_kept_too(tmp_path: Path, kind: Kind) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project, outside, project / "real"):
        folder.mkdir()
        (folder / "data.txt").write_text("data")
    (project / "output").symlink_to(outside)
    (project / "own").symlink_to("real")
    (project / "loop").symlink_to(".")
    text = """
        for folder in ("output", "own"):
            open(folder + "/model.pt", "w").write("x")
            open(folder + "/data.txt", "a").write("+")
        print(open("output/model.pt").read(), open("real/data.txt").read(), open("loop/own/model.pt").read())
    """
    (project / "train.py").write_text(textwrap.dedent(text).lstrip("\n"))
    before = tree(tmp_path)
    recording = run(project, text, Limits(sandbox=kind))
    assert recording.stdout == "x data+ x\n", recording.stderr
    assert tree(tmp_path) == before


def test_a_large_folder_elsewhere_stays_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MOST_LINKED", 3)
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    for number in range(5):
        (outside / str(number)).write_text("x")
    (project / "data").symlink_to(outside)
    recording = run(project, "import os; print(len(os.listdir('data')))", Limits(sandbox="copy"))
    assert recording.stdout == "5\n"
    assert recording.notes == ("1 large files or folders were linked into the copy, not copied, first data",)


def test_temporary_files_in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    outcome = run(tmp_path, "print('hi')").outcome
    assert outcome.how == "not started" and "set TMPDIR to a folder outside of it" in outcome.detail
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pyproject.toml", "train.py"]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert run(tmp_path, "print('hi')").outcome.how == "not started"


def test_no_network_but_loopback(tmp_path: Path) -> None:
    if not sandbox.works():
        pytest.skip("needs a network namespace")
    text = """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname()).close()
        socket.create_connection((socket.gethostname(), server.getsockname()[1])).close()
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=5)
        except OSError as error:
            print(error.errno)
    """
    import errno

    assert run(tmp_path, text).stdout == f"{errno.ENETUNREACH}\n"


def test_tokens_only_with_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # another test, or the machine, may have set it
    text = "import os; print(os.environ.get('HF_TOKEN'), os.environ.get('HF_HUB_OFFLINE'))"
    assert run(tmp_path, text).stdout == "None 1\n"
    assert run(tmp_path, text, Limits(network=True)).stdout == "secret None\n"


def test_a_million_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BOUND", 2**20)
    recording = run(tmp_path, "for i in range(1_000_000): print('line', i)\nimport time; time.sleep(0.5); print('end')")
    assert recording.outcome.how == "finished"
    assert recording.stdout.endswith("line 999999\nend\n")
    assert len(recording.stdout) <= 64 * 1024


def test_memory_limit(tmp_path: Path) -> None:
    text = """
        import time
        blocks = []
        while True:
            blocks.append(bytearray(16 * 2**20))
            time.sleep(0.01)
    """
    recording = run(tmp_path, text, Limits(memory=256 * 2**20))
    assert recording.outcome.how == "killed"
    assert recording.outcome.detail == "it took more than 0.25 GiB of memory"


def left_over(mark: str) -> list[int]:
    return [pid for pid in watch._pids() if mark.encode() in _environment(pid)]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at /proc")
@pytest.mark.parametrize(
    "text",
    [
        # daemons: a session of their own, no parent
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        """,
        # ignores what asks it to end
        """
        import signal, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(60)
        """,
        # forks faster than it is killed
        """
        import os, time
        for _ in range(6):
            os.fork()
        end = time.time() + 60
        while time.time() < end:
            if os.fork() == 0:
                time.sleep(0.02)
                os._exit(0)
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass
            time.sleep(0.005)
        """,
    ],
)
def test_nothing_outlives_the_run(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t4lint.record.launch.GRACE", 1.0)
    monkeypatch.setenv("T4LINT_TEST", str(tmp_path))
    start = time.monotonic()
    recording = run(tmp_path, text, timeout=2)
    assert recording.outcome.how in ("timeout", "finished")
    assert time.monotonic() - start < 30
    time.sleep(0.2)
    assert not left_over(f"T4LINT_TEST={tmp_path}")


@pytest.mark.parametrize(
    ("text", "how", "code"),
    [
        ("import os; os._exit(7)", "failed", 7),
        ("import sys; sys.exit(3)", "failed", 3),
        ("import os; os.kill(os.getpid(), 9)", "killed", -9),
        ("import ctypes; ctypes.string_at(0)", "killed", -11),
        ("raise KeyError('x')", "exception", 1),
        ("raise BaseException('x')", "exception", 1),
        ("raise SystemExit(0)", "finished", 0),
    ],
)
def test_endings(tmp_path: Path, text: str, how: str, code: int) -> None:
    outcome = run(tmp_path, text).outcome
    assert (outcome.how, outcome.exit_code) == (how, code)


@pytest.mark.parametrize(
    ("text", "detail", "line"),
    [
        ("x = 1\ndef f(:", "SyntaxError: invalid syntax (train.py, line 2)", 2),
        ("name = input('name? ')", "EOFError: EOF when reading a line (verify gives it no input to read)", 1),
    ],
)
def test_a_failure_of_the_persons_own_file_has_a_place(tmp_path: Path, text: str, detail: str, line: int) -> None:
    outcome = run(tmp_path, text).outcome
    assert (outcome.how, outcome.detail, outcome.path, outcome.line) == ("exception", detail, "train.py", line)


def test_a_launcher_that_fails_is_not_the_persons_own_code(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    here, elsewhere = tmp_path / "project", tmp_path / "site"
    for folder in (here, elsewhere):
        folder.mkdir()
        (folder / "pyproject.toml").write_text("")
    (elsewhere / "starter.py").write_text("raise ModuleNotFoundError('No module named nothing\\nand more')")
    outcome = record(
        [sys.executable, "-m", "starter"], cwd=here, environment={**os.environ, "PYTHONPATH": str(elsewhere)}
    ).outcome
    assert (outcome.how, outcome.exit_code) == ("failed", 1)
    assert outcome.detail == "ModuleNotFoundError: No module named nothing, outside of your own code"


def test_a_variable_in_front_of_the_command(tmp_path: Path) -> None:
    recording = record(["X=1", sys.executable, "-c", "pass"], cwd=tmp_path)
    assert recording.outcome.detail == "X=1: No such file or directory; a variable is set with env: env X=1 ..."
    said = "import os; print(os.environ['X'])"
    assert record(["env", "X=1", sys.executable, "-c", said], cwd=tmp_path).stdout == "1\n"


def test_a_program_that_is_not_there(tmp_path: Path, kind: Kind) -> None:
    recording = record(["no-such-program"], cwd=tmp_path, limits=Limits(sandbox=kind))
    assert recording.outcome.how == "not started"
    assert recording.outcome.detail == "no-such-program: No such file or directory"


def test_no_overlay_where_one_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "works", lambda network: False)
    outcome = run(tmp_path, "print()", Limits(sandbox="overlay")).outcome
    assert (outcome.how, outcome.detail) == (
        "not started",
        "no sandbox: this machine does not allow overlays over this project",
    )
    assert run(tmp_path, "print('copied')").stdout == "copied\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_still_reports(tmp_path: Path, number: int) -> None:
    class Impatient:
        def starts(self, sandbox: object) -> None: ...

        def goes_on(self, seconds: float, now: watch.Moment) -> None:
            if now.step >= 1 or seconds > 30:
                os.kill(os.getpid(), number)

        def ends(self, recording: Recording) -> None: ...

    from t4lint.record.launch import listening

    text = """
        import torch, time
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        while True:
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            time.sleep(0.5)
    """
    pytest.importorskip("torch")
    # a shell that starts the tests in the background has SIGINT ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with listening(Impatient()):
            recording = run(tmp_path, text, steps=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (recording.outcome.how, recording.outcome.detail) == ("killed", "interrupted")
    assert any(entry.k == "step" for entry in recording.journal.records)


def test_a_thread_that_trains_is_stopped_and_the_program_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(watch, "LINGER", 2.0)
    monkeypatch.setattr("t4lint.record.launch.GRACE", 1.0)
    text = """
        import threading, time, torch

        def train():
            model = torch.nn.Linear(1, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while True:
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()

        threading.Thread(target=train, daemon=True).start()
        while True:
            time.sleep(1)
    """
    recording = run(tmp_path, text, steps=2, timeout=300)
    assert (recording.outcome.how, recording.outcome.detail) == (
        "stopped",
        "stopped after 2 optimizer steps; it did not end by itself",
    )
    assert recording.seconds < 200


def test_a_program_that_closes_what_it_has_not_opened(tmp_path: Path) -> None:
    """Nor does anything of ours get into a file of its own that has the number of ours then."""
    text = """
        import os
        os.closerange(3, 200)
        own = [open(f"/proc/self/fd/{os.memfd_create(str(i))}", "w+") for i in range(9)]
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        print([file.read() for file in own])
    """
    recording = run(tmp_path, text)
    assert recording.stdout == f"{[''] * 9}\n", recording.stderr
    kinds = [entry.k for entry in recording.journal.records]
    assert kinds[:2] == ["process", "environment"] and kinds[-1] == "exit"


def test_an_exception_about_being_left_is_no_failure(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = """
        import torch

        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        try:
            while True:
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
        except BaseException:
            raise RuntimeError("training did not finish")
    """
    outcome = run(tmp_path, text, steps=2).outcome
    assert (outcome.how, outcome.exit_code, outcome.detail) == ("stopped", 1, "stopped after 2 optimizer steps")


def test_paths_with_odd_names(tmp_path: Path) -> None:
    if not sandbox.works():
        pytest.skip("about the options of a mount")
    for name in ("a,b:c", "back\\slash", "blank and ünïcode"):
        folder = tmp_path / name
        folder.mkdir()
        recording = run(folder, "open('x', 'w').write('1'); print('ok')", replace(Limits(), sandbox="auto"))
        assert recording.stdout == "ok\n", recording.stderr
        assert [path.name for path in folder.iterdir()] == ["train.py"]
