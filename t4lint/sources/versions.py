"""Which versions of libraries a project asks for: exact pins, and the bounds that ranges leave.

Of several files the surest decides: a lock file, then requirement files and environments, then what the package itself
declares, then what a Dockerfile installs. Files near the script come before those at the root. Nothing here raises.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from t4lint.sources import disk
from t4lint.sources.requirements import Bounds, Need, caret, conda, need, pins_of_command

MAX_BYTES = 1_000_000  # of one file
MAX_LOCK = 20_000_000  # lock files are read by lines
MAX_FILES = 40  # requirement files, with those that they include
MAX_PARENTS = 8

Needs = Iterator[Need]


def pinned(root: Path, folder: Path | None = None) -> dict[str, str]:
    """The exact pins of a project."""
    return read(root, folder)[0]


def bounds(root: Path, folder: Path | None = None) -> dict[str, Bounds]:
    """The versions that a project allows."""
    return read(root, folder)[1]


def required(root: Path, folder: Path | None = None) -> frozenset[str]:
    """The distributions that a run needs for sure: those of `requirements.txt`, of environments and of the package itself.

    Extras, groups and requirement files of other names may be left out of an installation.
    """
    found: set[str] = set()
    for place in _folders(root, folder):
        try:
            needs = [*_requirements(place / "requirements.txt", disk.real(root), set()), *_environments(place, root)]
            needs += [one for line in project_lists(_text(place / "pyproject.toml"))[0] if (one := need(line))]
        except (OSError, ValueError, RecursionError, MemoryError, LookupError, TypeError, AttributeError):
            continue
        found |= {one.name for one in needs}
    return frozenset(found)


def pins_in(text: str) -> dict[str, str]:
    """What the `pip install` commands in a text leave installed: a shell script, the cells of a notebook.

    An empty text stands for a version that no pin elsewhere says.
    """
    pins: dict[str, str] = {}
    if "install" in text:
        pins_of_command(text[:MAX_BYTES], pins)
    return pins


_INLINE = re.compile(r"^# /// script\n((?:#.*\n)*?)# ///$", re.MULTILINE)


def inline(text: str) -> dict[str, str]:
    """The pins of a script's own metadata (`# /// script`)."""
    found = _INLINE.search(text)
    if found is None:
        return {}
    body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in found[1].splitlines())
    try:
        lines = _strings(_toml(body).get("dependencies"))
    except ValueError:
        return {}
    needs = [need(line) for line in lines]
    return {one.name: one.pin for one in needs if one is not None and one.pin is not None}


def read(root: Path, folder: Path | None = None) -> tuple[dict[str, str], dict[str, Bounds]]:
    """The exact pins of a project, and the versions that it allows for libraries that it bounds: a pin is a bound of one.

    `folder` is the script's: files in it and above it, up to the root, come first.
    """
    pins: dict[str, str] = {}
    ranges: dict[str, Bounds] = {}
    folders = _folders(root, folder)
    for readers in (_LOCKS, _REQUIREMENTS, _PACKAGES, _IMAGES):
        for place in folders:
            for reader in readers:
                _take(reader, place, root, pins, ranges)
    return pins, ranges


def _take(reader: _Reader, folder: Path, root: Path, pins: dict[str, str], ranges: dict[str, Bounds]) -> None:
    """What one kind of file says; the first that names a library decides. A file that is broken says nothing further."""
    try:
        for found in reader(folder, root):
            if found.pin is not None and found.name not in pins:
                pins[found.name] = found.pin
            if found.bounds is not None and found.name not in ranges:
                ranges[found.name] = found.bounds
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, LookupError, TypeError, AttributeError):
        return


def _folders(root: Path, folder: Path | None) -> list[Path]:
    found: list[Path] = []
    current = folder
    while current is not None and current != root and root in current.parents and len(found) < MAX_PARENTS:
        found.append(current)
        current = current.parent
    return [*found, root]


def _text(file: Path, limit: int = MAX_BYTES) -> str:
    """A file's text up to the limit, cut at the end of a line; empty where there is none."""
    try:
        data = disk.read_start(file, limit + 1)
    except (OSError, ValueError):
        return ""
    if len(data) > limit:
        data = data[: data.rfind(b"\n", 0, limit) + 1]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # `pip freeze > requirements.txt` in PowerShell
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


# --- locks -------------------------------------------------------------------------------------------------------

_PACKAGE = re.compile(r'^\[\[package\]\]\s*\nname = "([^"\n]+)"\s*\nversion = "([^"\n]+)"', re.MULTILINE)


def _toml_locks(folder: Path, root: Path) -> Needs:
    """uv.lock, poetry.lock, pdm.lock: read by lines, since reading megabytes of TOML takes seconds."""
    for name in ("uv.lock", "poetry.lock", "pdm.lock"):
        versions: dict[str, set[str]] = {}
        for found in _PACKAGE.finditer(_text(folder / name, MAX_LOCK).replace("\r\n", "\n")):
            versions.setdefault(found[1], set()).add(found[2])
        for package, locked in versions.items():
            # A lock for several places may hold a library twice: then neither is a pin.
            if len(locked) == 1:
                yield _pin(package, next(iter(locked)))


def _pipfile_lock(folder: Path, root: Path) -> Needs:
    text = _text(folder / "Pipfile.lock", MAX_LOCK)
    data = json.loads(text) if text else {}
    for section in ("default", "develop"):
        for name, entry in _items(_dict(data).get(section)):
            version = _dict(entry).get("version")
            if isinstance(version, str) and version.startswith("=="):
                yield _pin(name, version.lstrip("="))


def _pin(name: str, version: str) -> Need:
    found = caret(name, f"=={version}")
    assert found is not None
    return found


# --- requirement files and environments --------------------------------------------------------------------------

# Requirement files for other hardware, which nobody installs beside a T4.
_ELSEWHERE = re.compile(
    r"(?:^|[-_.])(?:npu|rocm|amd|xpu|hpu|gaudi|tpu|mps|mac|macos|cpu|windows|win|docs?|neuron)(?:$|[-_.])"
)


def _requirement_files(folder: Path, root: Path) -> Needs:
    named = sorted(_named(folder, "requirements*.txt"), key=lambda file: (file.name != "requirements.txt", file.name))
    below = sorted(_named(folder / "requirements", "*.txt"))
    seen: set[Path] = set()
    for file in [*named, *below]:
        if not _ELSEWHERE.search(file.stem.lower()):
            yield from _requirements(file, disk.real(root), seen)


def _requirements(file: Path, root: Path, seen: set[Path]) -> Needs:
    """A requirement file and those that it includes, as far as they lie inside the project."""
    real = disk.real(file)
    if real in seen or len(seen) >= MAX_FILES or not real.is_relative_to(root):
        return
    seen.add(real)
    for line in _text(file).replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        included = re.match(r"\s*(?:-r|-c|--requirement|--constraint)[\s=]*([^\s#]+)", line)
        if included:
            if "://" not in included[1]:
                yield from _requirements(file.parent / included[1], root, seen)
            continue
        found = need(line)
        if found is not None:
            yield found


def _environments(folder: Path, root: Path) -> Needs:
    """conda's environment.yml; its `pip:` list too."""
    for name in ("environment.yml", "environment.yaml", "env.yml", "conda.yml", "conda.yaml"):
        text = _text(folder / name)
        if not text:
            continue
        from t4lint.sources.configs import plain_yaml

        listed = _dict(plain_yaml(text)).get("dependencies")
        for entry in listed if isinstance(listed, list) else []:
            if isinstance(entry, str):
                yield from _some(conda(entry))
            for line in _strings(_dict(entry).get("pip")):
                yield from _some(need(line))


# --- packages ----------------------------------------------------------------------------------------------------


def _pyproject(folder: Path, root: Path) -> Needs:
    text = _text(folder / "pyproject.toml")
    if not text:
        return
    data = _toml(text)
    project = _dict(data.get("project"))
    lines = _strings(project.get("dependencies"))
    for table in (project.get("optional-dependencies"), data.get("dependency-groups")):
        for _, group in _items(table):
            lines += _strings(group)
    for line in lines:
        yield from _some(need(line))
    poetry = _dict(_dict(data.get("tool")).get("poetry"))
    groups = [poetry.get("dependencies"), poetry.get("dev-dependencies")]
    groups += [_dict(group).get("dependencies") for _, group in _items(poetry.get("group"))]
    for group in groups:
        for name, entry in _items(group):
            version = _dict(entry).get("version") if isinstance(entry, dict) else entry
            if isinstance(version, str):
                yield from _some(caret(name, version if version[:1] in "^~=<>!*" else f"=={version}"))


def console_scripts(root: Path) -> dict[str, str]:
    """The commands that a project installs, by their names: `module:function` of each."""
    found: dict[str, str] = {}
    for reader in (_setup_py_consoles, _setup_cfg_consoles, _pyproject_consoles):
        try:
            found.update(reader(root))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, configparser.Error):
            continue
    return {name: target for name, target in found.items() if _CONSOLE.fullmatch(target)}


_CONSOLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def _pyproject_consoles(root: Path) -> dict[str, str]:
    text = _text(root / "pyproject.toml")
    data = _toml(text) if "scripts" in text else {}
    poetry = _dict(_dict(data.get("tool")).get("poetry"))
    tables = (poetry.get("scripts"), _dict(data.get("project")).get("scripts"))
    return {name: target.strip() for table in tables for name, target in _items(table) if isinstance(target, str)}


def _setup_cfg_consoles(root: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(_text(root / "setup.cfg"))
    return _assigned(parser.get("options.entry_points", "console_scripts", fallback="").splitlines())


def _setup_py_consoles(root: Path) -> dict[str, str]:
    text = _text(root / "setup.py")
    if "console_scripts" not in text:
        return {}
    dicts = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Dict)]
    lines: list[str] = []
    for node in dicts:
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "console_scripts":
                lines += _literals(value, {})
    return _assigned(lines)


def _assigned(lines: list[str]) -> dict[str, str]:
    parts = [line.partition("=") for line in lines]
    return {name.strip(): target.strip() for name, sign, target in parts if sign}


def _pipfile(folder: Path, root: Path) -> Needs:
    text = _text(folder / "Pipfile")
    data = _toml(text) if text else {}
    for section in ("packages", "dev-packages"):
        for name, entry in _items(data.get(section)):
            version = _dict(entry).get("version") if isinstance(entry, dict) else entry
            if isinstance(version, str) and version != "*":
                yield from _some(need(f"{name}{version}"))


def project_lists(text: str) -> tuple[list[str], list[str]]:
    """The requirement strings of a pyproject.toml: those that are always installed, and those of extras and groups."""
    try:
        data = _toml(text)
    except ValueError:
        return [], []
    project = _dict(data.get("project"))
    optional: list[str] = []
    for table in (project.get("optional-dependencies"), data.get("dependency-groups")):
        for _, group in _items(table):
            optional += _strings(group)
    return _strings(project.get("dependencies")), optional


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _setup_cfg(folder: Path, root: Path) -> Needs:
    text = _text(folder / "setup.cfg")
    if not text:
        return
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    lists = [parser.get("options", "install_requires", fallback="")]
    if parser.has_section("options.extras_require"):
        lists += [value for _, value in parser.items("options.extras_require")]
    for line in "\n".join(lists).splitlines():
        yield from _some(need(line))


def _setup_py(folder: Path, root: Path) -> Needs:
    """The lists given to `setup()`, where they are written out."""
    text = _text(folder / "setup.py")
    if "setup" not in text:
        return
    tree = ast.parse(text)
    names = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or getattr(call.func, "id", getattr(call.func, "attr", "")) != "setup":
            continue
        for keyword in call.keywords:
            if keyword.arg in ("install_requires", "extras_require"):
                for line in _literals(keyword.value, names):
                    yield from _some(need(line))


def _literals(node: ast.expr, names: dict[str, ast.expr], depth: int = 0) -> Iterator[str]:
    """The strings in a list, in the lists of a dict, and in the variables that stand for them."""
    if depth > 8:
        return
    if isinstance(node, ast.Name) and node.id in names:
        yield from _literals(names[node.id], names, depth + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from node.value.splitlines()
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        for element in node.elts:
            yield from _literals(element, names, depth + 1)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _literals(value, names, depth + 1)
    elif isinstance(node, ast.BinOp):
        for side in (node.left, node.right):
            yield from _literals(side, names, depth + 1)
    elif isinstance(node, ast.Starred):
        yield from _literals(node.value, names, depth + 1)


# --- images ------------------------------------------------------------------------------------------------------


# the images of torch's own project say the version in their tag
_TORCH_IMAGE = re.compile(r"^FROM\s+(?:docker\.io/)?pytorch/pytorch:(\d+\.\d+\.\d+)", re.MULTILINE | re.IGNORECASE)


def _dockerfiles(folder: Path, root: Path) -> Needs:
    listed = [
        *_named(folder, "Dockerfile*"),
        *_named(folder, "*.Dockerfile"),
        *_named(folder / "docker", "Dockerfile*"),
    ]
    for file in sorted(listed)[:8]:
        text = _text(file)
        yield from (_pin(name, version) for name, version in pins_in(text).items() if version)
        for image in _TORCH_IMAGE.finditer(text):
            yield _pin("torch", image[1])


# --- helpers -----------------------------------------------------------------------------------------------------


def _named(folder: Path, pattern: str) -> list[Path]:
    return [folder / name for name in disk.names(folder) if fnmatchcase(name, pattern)]


def _some(found: Need | None) -> Needs:
    if found is not None:
        yield found


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[tuple[str, Any]]:
    return [(str(key), entry) for key, entry in value.items()] if isinstance(value, dict) else []


def _strings(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


_Reader = Callable[[Path, Path], Needs]
_LOCKS: tuple[_Reader, ...] = (_toml_locks, _pipfile_lock)
_REQUIREMENTS: tuple[_Reader, ...] = (_requirement_files, _environments)
_PACKAGES: tuple[_Reader, ...] = (_pyproject, _pipfile, _setup_cfg, _setup_py)
_IMAGES: tuple[_Reader, ...] = (_dockerfiles,)
