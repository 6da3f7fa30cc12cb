"""`t4lint doctor`: what t4lint finds on this machine, what `verify` can do here, and what to do next.

The person's own interpreter is asked for the versions of its libraries (it reads their metadata, in isolated mode and in an
empty folder: nothing of theirs is imported), and once whether its torch takes the phantom, which imports that torch.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from t4lint import __version__
from t4lint.language import CHINESE, chosen, phrase

State = Literal["ok", "missing", "problem", "info"]

LIBRARIES = (
    "torch", "transformers", "trl", "accelerate", "peft", "bitsandbytes", "deepspeed", "lightning", "pytorch-lightning",
    "datasets", "diffusers", "flash-attn", "xformers", "triton", "unsloth",
)  # fmt: skip
LEAST_PYTHON = (3, 10)  # that verify records, as t4lint itself needs it
SECONDS = 60  # that a question to another program may take
MARKS = {"ok": "ok", "missing": "-", "problem": "!", "info": " "}
COLOURS = {"ok": "green", "missing": "dim", "problem": "bold red", "info": ""}
# Runs in the person's interpreter. `torch/version.py` is read as text, since importing torch takes seconds.
ASK = """
import json, re, sys
from importlib import metadata
from pathlib import Path
found = {}
for name in json.loads(sys.argv[1]):
    try:
        found[name] = metadata.version(name)
    except Exception:
        pass
cuda = None
if "torch" in found:
    try:
        text = Path(str(metadata.distribution("torch").locate_file("torch/version.py"))).read_text(encoding="utf-8")
        cuda = (re.search(r"^cuda[^=]*= '([^']+)'", text, re.M) or [None, None])[1]
    except Exception:
        pass
print(json.dumps({"python": list(sys.version_info[:3]), "versions": found, "cuda": cuda}))
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: its name, how it is, what there is to say, and what the person can do about it."""

    name: str
    state: State
    said: str
    next: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def checks(folder: Path) -> Iterator[tuple[str, list[Check]]]:
    """All checks, in sections."""
    interpreter = _interpreter()
    told = _told(interpreter)
    gpus = _gpus()
    yield "t4lint", [_itself(), _language(), *_extras()]
    yield "your Python", list(_python(interpreter, told))
    yield "GPU", [_gpu(gpus, told)]
    yield "verify", list(_verify(interpreter, told, gpus))
    yield "this folder", [_cache(), *_settings(folder)]


# --- t4lint itself -----------------------------------------------------------------------------------------------


def _itself() -> Check:
    version = platform.python_version()
    said = f"{__version__}, Python {version}, {platform.system()} {platform.machine()}"
    data = {"version": __version__, "python": version, "system": platform.system(), "machine": platform.machine()}
    return Check("version", "ok", said, data=data)


def _language() -> Check:
    language = chosen()
    said = "Chinese" if language == CHINESE else "English"
    return Check("language", "info", f"{said} (--language, T4LINT_LANG or the locale)", data={"language": language})


def _extras() -> Iterator[Check]:
    if find_spec("pygls") is None:
        yield Check("editor", "missing", "no language server", "pip install 't4lint[lsp]' brings `t4lint server`")
    else:
        yield Check("editor", "ok", "`t4lint server` can answer an editor")
    if shutil.which("git") is None:
        yield Check("git", "missing", "not found", "--diff-base needs git")


# --- the person's interpreter ------------------------------------------------------------------------------------


def _interpreter() -> str | None:
    """What `python` means in this shell: that is what `verify -- python train.py` runs."""
    return shutil.which("python") or shutil.which("python3")


def _told(interpreter: str | None) -> dict[str, Any]:
    """What the interpreter says of itself; empty where it does not answer."""
    out = _output([interpreter, "-I", "-c", ASK, json.dumps(LIBRARIES)]) if interpreter else None
    try:
        told = json.loads(out or "")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _python(interpreter: str | None, told: Mapping[str, Any]) -> Iterator[Check]:
    if interpreter is None or not told:
        said = "no `python` on the PATH" if interpreter is None else "`python` does not answer"
        yield Check("python", "problem", said, "activate the environment of your training code")
        return
    version = tuple(told["python"])
    shown = f"{'.'.join(map(str, version))} ({_short(interpreter)})"
    data = {"path": interpreter, "version": ".".join(map(str, version))}
    if version[:2] < LEAST_PYTHON:
        yield Check("python", "problem", shown, "verify needs Python 3.10 or later", data)
    else:
        yield Check("python", "ok", shown, data=data)
    versions = told["versions"]
    if "torch" not in versions:
        yield Check("torch", "missing", "not installed", "check and fit do not need it; verify does", {})
    else:
        number = versions["torch"]
        said = f"{number}, built for CUDA {told['cuda']}" if told["cuda"] else f"{number}, built for CPUs"
        data = {"version": versions["torch"], "cuda": told["cuda"]}
        yield Check("torch", "ok", said, data=data)
    others = {name: number for name, number in versions.items() if name != "torch"}
    if others:
        yield Check("libraries", "ok", ", ".join(f"{name} {number}" for name, number in others.items()), data=others)


# --- the GPU -----------------------------------------------------------------------------------------------------


def _gpus() -> list[tuple[str, ...]]:
    """Name, memory in MiB, driver and compute capability of each GPU, as nvidia-smi tells."""
    fields = "name,memory.total,driver_version,compute_cap"
    out = _output(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
    rows = [tuple(part.strip() for part in line.split(",")) for line in (out or "").splitlines()]
    return [row for row in rows if len(row) == fields.count(",") + 1]


def _gpu(gpus: list[tuple[str, ...]], told: Mapping[str, Any]) -> Check:
    if not gpus:
        return Check("device", "missing", "no NVIDIA GPU", data={"gpus": []})
    shown = ", ".join(f"{name} (capability {capability}, {memory} MiB)" for name, memory, _, capability in gpus)
    said = f"{shown}; driver {gpus[0][2]}"
    data = {"gpus": [dict(zip(("name", "memory_mib", "driver", "capability"), row, strict=True)) for row in gpus]}
    if told.get("versions", {}).get("torch") and not told["cuda"]:
        return Check(
            "device", "problem", said, "your torch is built for CPUs and cannot use it: install a CUDA build", data
        )
    return Check("device", "ok", said, data=data)


# --- verify ------------------------------------------------------------------------------------------------------


def _verify(interpreter: str | None, told: Mapping[str, Any], gpus: list[tuple[str, ...]]) -> Iterator[Check]:
    torch = "torch" in told.get("versions", {})
    if torch and gpus and told["cuda"]:
        same = all("T4" in gpu[0].split() for gpu in gpus)
        said = "a T4: everything, with time" if same else "another GPU: held to a T4's memory and answers, no times"
        yield Check("real device", "ok", said, data={"basis": "t4" if same else "gpu"})
    else:
        yield Check("real device", "missing", "none here: --device cpu or --device phantom", data={"basis": None})
    yield _phantom(interpreter, torch)
    yield _sandbox()


def _phantom(interpreter: str | None, torch: bool) -> Check:
    if interpreter is None or not torch:
        return Check("phantom T4", "missing", "needs torch", "pip install torch, a CPU build is enough")
    from t4lint.phantom import start

    # Isolated, in an empty folder: a `torch.py` of the person's is not what is asked about.
    place, limit = str(Path(start.__file__).parent), start.SECONDS
    out = _output([interpreter, "-I", "-c", start.TRIAL, place, str(limit)], limit)
    if out is None:
        said = "your torch does not take it: runs are on the CPU instead"
        return Check("phantom T4", "missing", said, "torch 2.13 is what it is tested with")
    return Check("phantom T4", "ok", "works with your torch: dtypes, kernels and memory of a T4, no GPU needed")


def _sandbox() -> Check:
    from t4lint.record import sandbox

    data = {"overlay": sandbox.works(), "network_namespace": sandbox.works(network=False)}
    if data["overlay"]:
        said = "overlay: what the run writes is thrown away, and it has no network"
        return Check("sandbox", "ok", said, data={"sandbox": "overlay"})
    said = "copy: the run works in a copy of the project; it is asked not to use the network"
    more = "an overlay needs Linux with user namespaces for ordinary users" if sys.platform == "linux" else ""
    return Check("sandbox", "info", said, more, {"sandbox": "copy"})


# --- this folder -------------------------------------------------------------------------------------------------


def _cache() -> Check:
    from t4lint import cache

    if os.environ.get("T4LINT_NO_CACHE"):
        return Check("cache", "info", "off (T4LINT_NO_CACHE)", data={"path": None})
    given = os.environ.get(cache.FOLDER)
    place = given or str(cache.usual_folder())
    return Check("cache", "ok", f"{given} ({cache.FOLDER})" if given else _short(place), data={"path": place})


def _settings(folder: Path) -> Iterator[Check]:
    from t4lint import settings

    found = settings.load(folder)
    for problem in found.problems:
        where = f"{problem.path}:{problem.line}" if problem.line else problem.path
        yield Check("settings", "problem", f"{where}: {problem.message}", "correct it: nothing is checked until then")
    if found.problems:
        return
    if found.file is None:
        said = "none: the target is t4, and the rules on by default run"
        yield Check("settings", "info", said, 'write target = "colab" or another into [tool.t4lint] of pyproject.toml')
        return
    data = {"path": str(found.file), "target": found.settings.target}
    yield Check("settings", "ok", f"{_short(str(found.file))}, target {found.settings.target}", data=data)


# --- asking and telling ------------------------------------------------------------------------------------------


def _output(command: list[str], seconds: float = SECONDS) -> str | None:
    """What a program prints, run in an empty folder; None where it cannot be run or fails."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "T4LINT_"))}
    with tempfile.TemporaryDirectory(prefix="t4lint-") as nowhere:
        try:
            done = subprocess.run(
                command,
                cwd=nowhere,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _short(path: str) -> str:
    """A path as people say it: below the home as `~`."""
    home = str(Path.home())
    inside = path == home or path.startswith(home.rstrip(os.sep) + os.sep)
    return "~" + path[len(home) :] if inside and len(home) > 1 else path


def text(folder: Path, *, colour: bool, width: int, language: str) -> str:
    """The report for people: sections, a mark for each check, and the next steps below."""
    from rich.cells import cell_len

    from t4lint.report.frame import visible
    from t4lint.report.wrap import wrapped

    say = partial(phrase, language=language, context="doctor")
    lines: list[str] = []
    steps: list[str] = []
    for section, found in checks(folder):
        lines += [*([""] if lines else []), _painted(say(section), "bold", colour)]
        for check in found:
            label = say(check.name)
            head = f"  {MARKS[check.state]:<2} {label}{' ' * max(13 - cell_len(label), 1)}"
            said = wrapped(visible(say(check.said)), max(width - cell_len(head), 20))
            mark = _painted(f"{MARKS[check.state]:<2}", COLOURS[check.state], colour)
            lines.append(f"  {mark}{head[4:]}{said[0]}")
            lines += [" " * cell_len(head) + line for line in said[1:]]
            steps += [f"{label}: {say(check.next)}"] if check.next else []
    steps = steps or [say("nothing to do: t4lint . checks this folder")]
    lines += ["", _painted(say("next"), "bold", colour)]
    for step in steps:
        first, *more = wrapped(visible(step), max(width - 4, 20))
        lines += [f"  * {first}", *(f"    {line}" for line in more)]
    return "\n".join(lines) + "\n"


def _painted(text: str, style: str, colour: bool) -> str:
    codes = {"bold": "1", "green": "32", "dim": "2", "bold red": "1;31"}
    return f"\x1b[{codes[style]}m{text}\x1b[0m" if colour and style else text


def as_json(folder: Path) -> str:
    """The same as JSON, version 1."""
    sections = [{"name": name, "checks": [asdict(check) for check in found]} for name, found in checks(folder)]
    return json.dumps({"version": 1, "sections": sections}, indent=2, ensure_ascii=False, default=str) + "\n"
