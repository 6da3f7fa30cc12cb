"""Versions that a project asks for: pins and bounds, from every kind of file that holds them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t4lint.sources.requirements import Bounds, caret, conda, need, pins_of_command
from t4lint.sources.versions import bounds, pinned, pins_in


def put(root: Path, **files: str) -> Path:
    """Files by name; `__` stands for a dot, `___` for a slash."""
    for name, content in files.items():
        file = root / name.replace("___", "/").replace("__", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return root


# --- one requirement ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "pin"),
    [
        ("torch==2.1.0", "torch", "2.1.0"),
        ("torch == 2.1.0+cu118  # comment", "torch", "2.1.0+cu118"),
        ("Flash_Attn[x]===2.5.8", "flash-attn", "2.5.8"),
        ("trl==v0.7.1", "trl", "0.7.1"),
        ("torch>=2.0,<2.2", "torch", None),
        ("torch==2.1.*", "torch", None),
        ("torch==2.1.0 --hash=sha256:00", "torch", "2.1.0"),
        ("torch==2.1.0 ; sys_platform == 'linux'", "torch", "2.1.0"),
        ("torch>1,==2.0.1", "torch", "2.0.1"),
        ("torch", "torch", None),
        ("torch @ https://example.org/torch-2.1.0-py3-none-any.whl", "torch", None),
    ],
)
def test_need(text: str, name: str, pin: str | None) -> None:
    found = need(text)
    assert found is not None and (found.name, found.pin) == (name, pin)


@pytest.mark.parametrize(
    "text",
    ["", "# torch==1", "-e .", "--index-url x", "git+https://example.org/x", "torch==2; sys_platform == 'win32'", "a" * 5000,
     "torch==1; nonsense", "./wheel.whl", "torch==1; python_version < '3.8'"],
)  # fmt: skip
def test_no_need(text: str) -> None:
    assert need(text) is None


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a>=1.2,<2", ("1.2", True), ("2", False)),
        ("a>1.2", ("1.2", False), (None, False)),
        ("a<=3,!=2", (None, True), ("3", True)),
        ("a~=1.4.2", ("1.4.2", True), ("1.5", False)),
        ("a~=1.4", ("1.4", True), ("2", False)),
        ("a==2.1.*", ("2.1", True), ("2.2", False)),
        ("a==2.1.0", ("2.1.0", True), ("2.1.0", True)),
        ("a>=1,>=2,<5,<4.10,<4.9", ("2", True), ("4.9", False)),
    ],
)
def test_bounds(text: str, low: tuple[str | None, bool], high: tuple[str | None, bool]) -> None:
    found = need(text)
    assert found is not None and found.bounds is not None
    assert (found.bounds.low, found.bounds.low_included) == low
    assert (found.bounds.high, found.bounds.high_included) == high


@pytest.mark.parametrize(
    ("read", "text", "pin", "low", "high"),
    [
        (lambda text: caret("a", text), "^1.2.3", None, "1.2.3", "2"),
        (lambda text: caret("a", text), "^0.2.3", None, "0.2.3", "0.3"),
        (lambda text: caret("a", text), "^0.0", None, "0.0", "0.1"),
        (lambda text: caret("a", text), "~1.2.3", None, "1.2.3", "1.3"),
        (lambda text: caret("a", text), ">=1.2,<3", None, "1.2", "3"),
        (lambda text: caret("a", text), "==1.2", "1.2", "1.2", "1.2"),
        (lambda text: caret("a", text), "*", None, None, None),
        (conda, "pytorch=2.1.0", "2.1.0", "2.1.0", "2.1.0"),
        (conda, "pytorch::pytorch=2.1.0=py3.10_cuda11.8_0", "2.1.0", "2.1.0", "2.1.0"),
        (conda, "pytorch==2.1", "2.1", "2.1", "2.1"),
        (conda, "pytorch=2.1", None, "2.1", "2.2"),
        (conda, "pytorch 2.1.*", None, "2.1", "2.2"),
        (conda, "pytorch>=2.0,<2.2", None, "2.0", "2.2"),
        (conda, "pytorch", None, None, None),
    ],
)  # fmt: skip
def test_other_spellings(
    read: Callable[[str], object], text: str, pin: str | None, low: str | None, high: str | None
) -> None:
    found = read(text)
    limits: Bounds = getattr(found, "bounds", None) or Bounds()
    assert (getattr(found, "pin", 0), limits.low, limits.high) == (pin, low, high)


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("pip install torch==2.1.0 'trl==0.7'", {"torch": "2.1.0", "trl": "0.7"}),
        ("!pip3 install -q -U torch==2.1.0 -f https://example.org/x==1 && pip install a==1 || true", {"torch": "2.1.0", "a": "1"}),
        ("python -m pip install \\\n   --extra-index-url https://example.org torch==2.1.0 \\\n  trl==1", {"torch": "2.1.0", "trl": "1"}),
        ("uv pip install --system 'torch==2.1.0'", {"torch": "2.1.0"}),
        ("pip install torch==1\npip install torch==2", {"torch": "2"}),
        ("pip install torch==1\npip install -U torch", {"torch": ""}),
        ("pip install 'torch>=2'", {"torch": ""}),
        ("pip install torch==1\npip install torch", {"torch": "1"}),
        ("pip install -r requirements.txt -c torch==1 .", {}),
        ("echo pip uninstall torch==1; apt-get install torch==2", {}),
        ("pip install 'torch==1", {"torch": "1"}),
        ("pip install git+https://example.org/x@v1 torch==1 # trl==2", {"torch": "1"}),
    ],
)  # fmt: skip
def test_commands(text: str, pins: dict[str, str]) -> None:
    found: dict[str, str] = {}
    pins_of_command(text, found)
    assert found == pins == pins_in(text)


# --- files -------------------------------------------------------------------------------------------------------


def test_requirement_files(tmp_path: Path) -> None:
    put(
        tmp_path,
        requirements__txt="-r requirements/base.txt\n-r requirements.txt\n-r ../outside.txt\ntorch==2.1.0\n--hash x\ntrl>=0.7\n",
        requirements___base__txt="transformers == 4.36.2 \\\n  --hash=sha256:0\n-c constraints.txt\n",
        requirements___constraints__txt="peft==0.6.0\n",
    )
    (tmp_path / "requirements-dev.txt").write_bytes("torch==1.0\naccelerate==0.25.0\n".encode("utf-16"))
    (tmp_path.parent / "outside.txt").write_text("outside==1\n")
    assert pinned(tmp_path) == {"torch": "2.1.0", "transformers": "4.36.2", "peft": "0.6.0", "accelerate": "0.25.0"}
    assert bounds(tmp_path)["trl"] == Bounds("0.7", None, True, False, ">=0.7")
    assert bounds(tmp_path)["torch"].low == "2.1.0"


def test_files_for_other_hardware_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, requirements___npu__txt="torch==1.0", requirements___train__txt="trl==1.0")
    (tmp_path / "requirements-rocm.txt").write_text("torch==1.1")
    assert pinned(tmp_path) == {"trl": "1.0"}


def test_files_near_the_script_come_first(tmp_path: Path) -> None:
    put(tmp_path, requirements__txt="torch==1.0\ntrl==1.0\n", examples___a___requirements__txt="torch==2.0\n")
    assert pinned(tmp_path) == {"torch": "1.0", "trl": "1.0"}
    assert pinned(tmp_path, tmp_path / "examples" / "a") == {"torch": "2.0", "trl": "1.0"}
    assert pinned(tmp_path, tmp_path.parent) == {"torch": "1.0", "trl": "1.0"}


PYPROJECT = """
[project]
dependencies = ["torch==2.1.0", "trl>=0.7"]
optional-dependencies = { gpu = ["bitsandbytes==0.41.0"] }
[dependency-groups]
dev = ["accelerate==0.25.0", {include-group = "x"}]
[tool.poetry.dependencies]
python = "^3.10"
peft = "0.6.0"
datasets = { version = "^2.14", extras = ["x"] }
local = { path = "x" }
[tool.poetry.group.x.dependencies]
deepspeed = "==0.12.0"
"""


def test_pyproject(tmp_path: Path) -> None:
    put(tmp_path, pyproject__toml=PYPROJECT)
    pins = pinned(tmp_path)
    assert pins == {
        "torch": "2.1.0", "bitsandbytes": "0.41.0", "accelerate": "0.25.0", "peft": "0.6.0", "deepspeed": "0.12.0",
    }  # fmt: skip
    assert (bounds(tmp_path)["datasets"].low, bounds(tmp_path)["datasets"].high) == ("2.14", "3")


@pytest.mark.parametrize("name", ["uv.lock", "poetry.lock", "pdm.lock"])
def test_locks_come_first(tmp_path: Path, name: str) -> None:
    lock = 'version = 1\n\n[[package]]\nname = "torch"\nversion = "2.2.1"\nsource = { }\n\n'
    lock += '[[package]]\nname = "numpy"\nversion = "1.0"\n[[package]]\nname = "numpy"\nversion = "2.0"\n'
    (tmp_path / name).write_text(lock)
    put(
        tmp_path,
        pyproject__toml='[project]\ndependencies = ["torch==2.1.0"]',
        requirements__txt="torch==2.0.0\ntrl==1.0",
    )
    assert pinned(tmp_path) == {"torch": "2.2.1", "trl": "1.0"}


def test_pipfile(tmp_path: Path) -> None:
    lock = {"_meta": {}, "default": {"torch": {"version": "==2.1.0"}, "x": {"git": "y"}, "z": 1}, "develop": None}
    put(tmp_path, Pipfile__lock=json.dumps(lock))
    assert pinned(tmp_path) == {"torch": "2.1.0"}


def test_setup(tmp_path: Path) -> None:
    setup = """
from setuptools import setup
common = ["trl==0.7.1"]
extras = {"gpu": ["bitsandbytes==0.41.0"], "all": common}
setup(name="x", install_requires=["torch==2.1.0; python_version > '3'", *common, f"x=={1}"] + unknown, extras_require=extras)
"""
    cfg = "[options]\ninstall_requires =\n    peft==0.6.0\n    datasets>=2\n[options.extras_require]\ndev =\n  ruff==1.0\n"
    put(tmp_path, setup__py=setup, setup__cfg=cfg)
    assert pinned(tmp_path) == {
        "peft": "0.6.0",
        "ruff": "1.0",
        "torch": "2.1.0",
        "trl": "0.7.1",
        "bitsandbytes": "0.41.0",
    }


def test_environment(tmp_path: Path) -> None:
    text = "name: x\ndependencies:\n  - python=3.10\n  - pytorch::pytorch=2.1.0\n  - pip\n  - pip:\n    - trl==0.7.1\n    - -e .\n"
    put(tmp_path, environment__yml=text)
    assert pinned(tmp_path) == {"torch": "2.1.0", "trl": "0.7.1"}
    assert bounds(tmp_path)["python"].high == "3.11"


def test_dockerfile(tmp_path: Path) -> None:
    put(
        tmp_path,
        Dockerfile="FROM x\nRUN pip install --no-cache-dir \\\n    torch==2.1.0 \\\n    trl==0.7 && rm -rf /x\n",
    )
    assert pinned(tmp_path) == {"torch": "2.1.0", "trl": "0.7"}
    put(tmp_path / "a", Dockerfile="RUN pip install torch==2.1.0", requirements__txt="torch==2.0.0")
    assert pinned(tmp_path / "a") == {"torch": "2.0.0"}


NAMES = [
    "requirements.txt", "pyproject.toml", "setup.py", "setup.cfg", "uv.lock", "poetry.lock", "Pipfile.lock", "environment.yml",
    "Dockerfile",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00", b"\x00" * 100, b"{", b"[", b"[" * 100_000, b"a: *a", b"setup(install_requires=[" + b"[" * 500,
     b"pip install " * 50_000, b"[project]\ndependencies = 1\n[tool]\npoetry = 1", b"dependencies: {a: b}", b'{"default": []}',
     b"-r requirements.txt\n" * 1000, b"torch==" + b"1" * 2_000_000, b"a" * 3_000_000, b"setup(**x)\nsetup()"],
    ids=range(16),
)  # fmt: skip
def test_hostile_files(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    other = tmp_path / ("requirements-x.txt" if name != "requirements.txt" else "uv.lock")
    other.write_text('trl==1.0\n[[package]]\nname = "trl"\nversion = "1.0"\n')
    start = time.process_time()
    assert pinned(tmp_path).get("trl") == "1.0"
    assert time.process_time() - start < 3


def test_what_is_no_file(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).mkdir()
    assert pinned(tmp_path) == {} and bounds(tmp_path / "none") == {}


def test_callers_may_change_what_they_get(tmp_path: Path) -> None:
    put(tmp_path, requirements__txt="torch==2.1.0")
    pinned(tmp_path)["torch"] = "0"
    assert pinned(tmp_path) == {"torch": "2.1.0"}


@given(st.text(alphabet="torch=<>~!^*. ,;[]'\"@#-1&|\\\n", max_size=40))
@settings(max_examples=300, deadline=None)
def test_no_text_raises(text: str) -> None:
    for read in (need, conda, lambda text: caret("a", text), pins_in, lambda text: pins_in("pip install " + text)):
        read(text)
