"""A repository that means harm: nothing outside of it is read, nothing is swallowed whole, nothing gets into a terminal or a CI log."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shlex
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from t4lint import cli
from t4lint.record.journal import read
from t4lint.sources.gate import Gate

ROOT = Path(__file__).resolve().parents[1]
BAD = (
    "from transformers import Trainer, TrainingArguments\n"
    "Trainer(args=TrainingArguments(output_dir='a', fp16=True, tf32=True)).train()\n"
)
RULE = "training-arguments-tf32"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- outside of the project --------------------------------------------------------------------------------------

WATCHED = """
import os, sys
inside, outside = sys.argv[1:]
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path.startswith(outside + os.sep):
            print("read", path)
sys.addaudithook(hook)
from t4lint.cli import main
sys.exit(main([inside, "--no-cache", "--output-format", "concise"]))
"""
READS = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
args, = HfArgumentParser(TrainingArguments).parse_{kind}_file("{path}")
Trainer(args=args).train()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights")
def test_nothing_outside_of_the_project_is_read(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project, outside):
        folder.mkdir()
    (outside / "args.json").write_text('{"output_dir": "o", "fp16": true, "tf32": true}')
    (outside / "args.yaml").write_text("output_dir: o\nfp16: true\ntf32: true\n")
    (outside / "helper.py").write_text(BAD + "flags = {'tf32': True}\n")
    (outside / "more.sh").write_text("python train.py --tf32 True\n")
    (outside / "requirements.txt").write_text("flash-attn==2.6.3\n")
    (project / "link.json").symlink_to(outside / "args.json")
    files = {
        "pyproject.toml": "",
        "a.py": READS.format(kind="json", path="../outside/args.json"),
        "b.py": READS.format(kind="yaml", path="../outside/args.yaml"),
        "c.py": READS.format(kind="json", path="link.json"),
        "d.py": READS.format(kind="json", path=outside / "args.json"),
        "e.py": "import sys\nsys.path.insert(0, '../outside')\nfrom helper import flags\n" + BAD.replace("tf32=True", "**flags"),
        "f.py": "from ...outside.helper import flags\nfrom .. import outside\n" + BAD.replace("tf32=True", "**flags"),
        "g.py": "import yaml\nwith open('../outside/args.yaml') as f:\n    given = yaml.safe_load(f)\n"
        + BAD.replace("tf32=True", "**given"),
        "run.sh": "source ../outside/more.sh\npython ../outside/helper.py\naccelerate launch --config_file ../outside/args.yaml "
        "a.py\npython a.py --deepspeed ../outside/args.json\n",
        "requirements.txt": "-r ../outside/requirements.txt\n-c ../outside/requirements.txt\ntorch\n",
        "Makefile": "include ../outside/more.sh\ntrain:\n\tpython ../outside/helper.py\n",
        "nb.ipynb": json.dumps({
            "cells": [{"cell_type": "code", "metadata": {}, "outputs": [],
                       "source": "%run ../outside/helper.py\n!bash ../outside/more.sh"}],
            "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
        }),
    }  # fmt: skip
    for name, text in files.items():
        (project / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(project), str(outside.resolve())],
        cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "No findings in" in done.stdout, done.stdout + done.stderr
    assert "read" not in done.stdout and RULE not in done.stdout


def test_relative_imports_above_all_folders(here: Path) -> None:
    """Found by fuzzing: `from ............ import x` ended the whole check."""
    (here / "a.py").write_text(f"from {'.' * 60} import x\nfrom {'.' * 60}y import z\n{BAD}")
    assert Gate(["nosuch"], lambda name, script: None, lambda file: file.read_text()).passes(here / "a.py", []) is False
    assert cli.main(["a.py"]) == 1


# --- size and form -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="sparse files and a limit on memory")
def test_a_gigabyte_of_nothing_under_every_name(tmp_path: Path) -> None:
    """Read in part or refused, in 1.5 GB of address space."""
    names = ("a.py", "b.ipynb", "c.sh", "d.yaml", "e.json", "requirements.txt", "environment.yml", "setup.cfg", "Dockerfile", "Makefile",
             "README.md", ".gitignore", "t.csv", ".env")  # fmt: skip
    for name in names:
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**30)
    (tmp_path / "run.sh").write_text("python train.py --config d.yaml\n")
    (tmp_path / "train.py").write_text(f"import json\nopen('t.csv').read(); json.load(open('e.json'))\n{BAD}")
    code = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, -1))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (60, -1))\n"
        "from t4lint.cli import main; sys.exit(main(sys.argv[1:]))"
    )

    def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, "--no-cache", "--output-format", "concise", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    done = checked(".")
    assert done.returncode == 2 and RULE in done.stdout, done.stdout + done.stderr
    for name in ("a.py", "b.ipynb", "c.sh"):
        assert f"{name}: error is too large" in done.stdout
    (tmp_path / "t4lint.toml").symlink_to("t.csv")
    done = checked("train.py")
    assert done.returncode == 2 and "too large" in done.stdout + done.stderr, done.stdout + done.stderr
    (tmp_path / "t4lint.toml").unlink()
    done = checked("train.py", "--baseline", "e.json")
    assert done.returncode == 2 and "baseline" in done.stdout + done.stderr, done.stdout + done.stderr


def test_lines_of_a_gitignore_that_no_path_can_match(here: Path) -> None:
    """Found with sparse files: translating one pattern of a megabyte took minutes."""
    (here / ".gitignore").write_text("*" * 900_000 + "\n" + "[a-z]" * 10_000 + "\nleft_out.py\n")
    for name in ("train.py", "left_out.py"):
        (here / name).write_text(BAD)
    assert cli.main([".", "--output-format", "json:report.json"]) == 1
    assert {it["path"] for it in json.loads((here / "report.json").read_text())["findings"]} == {"train.py"}


def test_archives_that_are_called_notebooks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.ipynb", b"0" * 10_000_000)
    deep = '{"cells": ' + "[" * 100_000 + "]" * 100_000 + "}"
    for name, data in (
        ("zip.ipynb", packed.getvalue()),
        ("gzip.ipynb", b"\x1f\x8b\x08" + b"\0" * 99),
        ("deep.ipynb", deep.encode()),
    ):
        (here / name).write_bytes(data)
    (here / "train.py").write_text(BAD)
    assert cli.main(["."]) == 2
    said = "".join(capsys.readouterr())
    assert RULE in said and all(name in said for name in ("zip.ipynb", "gzip.ipynb", "deep.ipynb"))


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights")
def test_folders_that_lead_back_to_themselves(here: Path) -> None:
    (here / "a").mkdir()
    for name in ("up", "again"):
        (here / "a" / name).symlink_to(here)
    (here / "one").symlink_to("two")
    (here / "two").symlink_to("one")
    (here / "a" / "train.py").write_text(BAD)
    assert cli.main([".", "--output-format", "json:report.json"]) == 1
    assert len(json.loads((here / "report.json").read_text())["findings"]) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights")
def test_links_to_devices_are_no_broken_links(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "zero.py").symlink_to("/dev/zero")
    (here / "gone.py").symlink_to("nowhere")
    assert cli.main([".", "--output-format", "concise"]) == 2
    said = capsys.readouterr().out
    assert "zero.py: error is not a regular file" in said and "gone.py: error is a broken symbolic link" in said


def test_a_configuration_that_cannot_be_read_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bomb of aliases, and nesting: what they set is not known, and the report says so in the person's language."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]" for last, name in pairwise("abcdefghijk")]
    (here / "bomb.yaml").write_text("\n".join(lines))
    (here / "ds.json").write_text("[" * 100_000)
    (here / "train.py").write_text(BAD)
    (here / "yaml.py").write_text(READS.format(kind="yaml", path="bomb.yaml"))
    (here / "other.py").write_text(READS.format(kind="json", path="ds.json"))
    assert cli.main(["."]) == 1
    said = capsys.readouterr().out
    told = [line for line in said.splitlines() if "what it sets is not known" in line]
    assert len(told) == 2 and all(line.startswith("note: ") for line in told)
    assert any("aliases that expand to too much" in line for line in told)
    assert any("is nested more than 200 deep" in line for line in told)
    cli.main([".", "--language", "zh"])
    said = capsys.readouterr().out
    assert "别名展开后过大" in said and "ds.json:1：此配置不是有效的 JSON：嵌套超过 200 层；其中的设置未知" in said


def test_modules_in_the_working_directory_are_not_imported(here: Path) -> None:
    """`python -m` looks there first: a project may call a file like a library of ours."""
    names = ("yaml", "rich", "polib", "pydantic", "libcst", "pathspec", "shlex", "tomllib", "nbformat")
    for name in names:
        (here / f"{name}.py").write_text("raise SystemExit('the code of the project ran')\n")
    (here / "train.py").write_text(BAD + "# t4lint: ignore[none]\n")
    (here / "conf.yaml").write_text("bf16: true\n")
    (here / "t4lint.toml").write_text("target = 't4'\n")
    for flags in (["--language", "zh"], ["--output-format", "json"], ["--diff"]):
        command = [sys.executable, "-m", "t4lint", ".", "--no-cache", *flags]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=here)
        assert "ran" not in done.stderr and done.returncode < 2, done.stderr


# --- where it is written to ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "2>&-"])
@pytest.mark.parametrize("command", ["train.py", "rules"])
def test_output_that_nobody_can_take(here: Path, command: str, redirection: str) -> None:
    """A full disk is told with exit code 2; a stream that the shell has closed is nobody's wish to read."""
    (here / "train.py").write_text(BAD)
    line = f"{shlex.quote(sys.executable)} -m t4lint {command} --no-cache {redirection}".replace(
        "rules --no-cache", "rules"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(["sh", "-c", line], check=False, capture_output=True, text=True, env=environment)
    full, found = redirection == ">/dev/full", command == "train.py"
    assert done.returncode == (2 if full else 1 if found else 0), done.stderr
    assert done.stderr == ("t4lint: error: cannot write to stdout: No space left on device\n" if full else "")


# --- names and messages ------------------------------------------------------------------------------------------

NAMES = (
    "\x1b[2J\x1b]0;owned\x07.py",
    "a\n::error::owned\n.py",
    "b\r::set-output name=x::owned.py",
    "\u202egnp.py",
    "<script>.py",
    "]]>.py",
)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
@pytest.mark.parametrize(
    "format", ["text", "concise", "github", "json", "jsonl", "sarif", "gitlab", "junit", "rdjson", "markdown"]
)
def test_names_of_files_are_data(
    format: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name in NAMES:
        (here / name).write_text(BAD.replace("'a'", "'\x1b[31mred\u202e'"))
    assert cli.main([".", "--output-format", format]) == 1
    said = "".join(capsys.readouterr()) + ((here / "summary").read_text() if (here / "summary").exists() else "")
    assert not any(harm in said for harm in ("\x1b", "\x07", "\u202e"))
    lines = iter(said.splitlines())
    for line in lines:  # as the runner reads a log
        command = line.lstrip()
        if command.startswith("::stop-commands::"):
            token = command.removeprefix("::stop-commands::")
            assert any(it == f"::{token}::" for it in lines)
        elif command.startswith("::"):
            assert format == "github" and "file=" in command.split("::")[1]
    if format in ("json", "sarif", "gitlab", "rdjson"):
        json.loads(said)
    if format == "junit":
        import xml.etree.ElementTree as ElementTree

        assert len(list(ElementTree.fromstring(said).iter("failure"))) == len(NAMES)
    if format == "markdown":
        assert said.count("<script>") == said.count("`<script>.py:2`") == 1


# --- many at once ------------------------------------------------------------------------------------------------


def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "scripts" / "fuzz.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["fuzz"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(kind: str, **fields: Any) -> str:
    place = [["train.py", 3]]
    return json.dumps({"v": 1, "k": kind, "t": 1.0, "pid": 1, "rank": 0, "u": place, "d": fields})


JOURNAL = [
    record("process", argv=["train.py"]),
    record("imports", libraries={"torch": "2.13.0"}),
    record("torch", version="2.13.0"),
    record("loader", num_workers=0, pin_memory=False, batch_size=8),
    record("step", number=1),
    record("backward", number=1),
    record("card", name="T4", phantom=True),
    record("guess", steers=True),
    record("held", allocated=1, reserved=2, limit=3, phase="forward", components={"weights": 1}),
    record("out_of_memory", limit=1, reserved=2, segment=3, in_phase="forward"),
    record("memory", peak=1, reserved=2, counted="allocated", peak_in="forward"),
    record("exception", type="ValueError", text="\x1b[31m"),
]


@pytest.mark.parametrize(
    "line",
    [
        record("imports", libraries=7),
        record("held", allocated="1", limit=1),
        record("held", allocated=1, components={"weights": "\x1b"}),
        record("memory", peak=float("inf"), counted="allocated"),
        record("out_of_memory", limit=1),
        "[" * 100_000,
        '{"v": 1, "k": "step", "t": 1e999, "pid": 99999999999999999999999, "u": [["../../etc/passwd", -1]]}',
        "\x00\x1b[2J",
    ],
)
def test_lines_that_no_recorder_writes(line: str, tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("\n".join([*JOURNAL, line]))
    found = read(tmp_path / "journal")
    assert found.corrupt == 1 and len(found.records) == len(JOURNAL)


def test_a_rank_that_is_no_number(here: Path) -> None:
    """Found by fuzzing: an infinite rank of LoRA ended the judgement of a rule."""
    (here / "train.py").write_text(
        "from peft import LoraConfig, get_peft_model\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(r=1e999, target_modules=["c_attn"]))\n'
        "Trainer(model=model, args=TrainingArguments(output_dir='a', fp16=True, tf32=True)).train()\n"
    )
    assert cli.main(["."]) == 1


@pytest.mark.heavy
def test_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of what `scripts/fuzz.py` does with thousands of real files: the fixtures, damaged."""
    pytest.importorskip("pygls")
    monkeypatch.setenv("T4LINT_DEBUG", "1")
    module = fuzz()
    files = sorted(it for it in (ROOT / "fixtures").glob("*/*") if it.suffix == ".py" and ".fixed" not in it.name)
    feeder = module.Feeder(1, files, JOURNAL)
    for number in range(150):
        folder = tmp_path / str(number)
        folder.mkdir()
        told = feeder.feed(number, folder)
        assert not told.fault, f"{number}: {told.source}\n{told.fault}"
