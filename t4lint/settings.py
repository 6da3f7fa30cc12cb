"""The settings of a project: `[tool.t4lint]` in pyproject.toml, or t4lint.toml. The nearest file wins.

Without such a file nothing heavy is imported.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from t4lint.findings import Problem
from t4lint.rule import Confidence, Severity

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

FILES = ("t4lint.toml", "pyproject.toml")


def _kebab(name: str) -> str:
    return name.replace("_", "-")


@dataclass(frozen=True)
class Settings:
    """What a project may set, with its defaults. In the file `extend_select` is `extend-select`, and so on."""

    # Read by pydantic, which is imported only when there is a file to validate.
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "alias_generator": _kebab,
        "use_attribute_docstrings": True,
    }

    target: str = "t4"
    """The GPU, place or instance that the code is meant for: a name that `t4lint targets` lists."""
    select: tuple[str, ...] = ()
    """Run only these: rule names, families, or `all`. Empty: the default rules."""
    ignore: tuple[str, ...] = ()
    """Do not run these: rule names or families."""
    extend_select: tuple[str, ...] = ()
    """Run these too."""
    exclude: tuple[str, ...] = ()
    """Files and folders to leave out, as patterns in the style of .gitignore."""
    min_confidence: Confidence = "likely"
    """Show findings that are at least this sure."""
    fail_on: Severity = "warning"
    """The exit code is 1 when there is a finding at least this severe."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of libraries that the code runs with, e.g. `torch = "2.4"`. They win over what requirements say."""


class Loaded(NamedTuple):
    """The settings in force, the file that they come from, and what is wrong with it."""

    settings: Settings
    problems: tuple[Problem, ...] = ()
    file: Path | None = None
    text: str = ""

    def problem(self, message: str, *keys: str) -> Problem:
        """Something that turned out to be wrong with a setting; the last of `keys` may be a value in a list."""
        if self.file is None:
            return Problem("", message)
        return Problem(_shown(self.file), message, find_line(self.text, (*_prefix(self.file), *keys)))


def load(start: Path) -> Loaded:
    """The settings for `start`, a file or folder that need not exist: from its folder upwards, the first file that has any."""
    try:
        folder = Path(os.path.abspath(start))  # noqa: PTH100  (resolve() would follow links out of the project)
    except OSError:
        return Loaded(Settings())  # the working directory is gone
    for parent in (folder, *folder.parents):
        for name in FILES:
            loaded = _read(parent / name)
            if loaded is not None:
                return loaded
    return Loaded(Settings())


def common_folder(paths: Sequence[Path]) -> Path:
    """Where to look for the settings of several paths: their common folder, so that their order does not matter."""
    if len(paths) == 1:
        return paths[0]
    try:
        folders = [os.path.abspath(path if path.is_dir() else path.parent) for path in paths]  # noqa: PTH100  (as in `load`)
        return Path(os.path.commonpath(folders))
    except (OSError, ValueError):  # a path too long to ask about; two drives
        return Path()


def schema() -> dict[str, Any]:
    """The JSON schema of the table, for completion in editors."""
    return {**_adapter().json_schema(), "title": "t4lint"}


def find_line(text: str, path: tuple[str, ...]) -> int | None:
    """The line of TOML text that comes nearest to a path of keys; the last of them may be a value in a list."""
    best: tuple[int, int] | None = None
    for number, keys in _keys(text):
        shared = _shared(keys, path)
        if shared and (best is None or shared > best[1]):
            best = number, shared
    if best is None:
        return None
    number, shared = best
    return _value_line(text, number, path[-1]) if shared < len(path) else number


# --- reading -----------------------------------------------------------------------------------------------------


def _read(file: Path) -> Loaded | None:
    """The settings in a file; None when it is not there or says nothing to t4lint."""
    try:
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            return None  # below something that is no folder: it is not there
        if file.name not in FILES[:1]:
            return None  # somebody else's file
        return _broken(file, f"cannot read this file: {error.strerror or error}")
    if file.name == "pyproject.toml" and b"t4lint" not in data:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _broken(file, "this file is not UTF-8 text", data.count(b"\n", 0, error.start) + 1)
    table = _parse(file, text)
    return _validated(file, text, table) if isinstance(table, dict) else table


def _parse(file: Path, text: str) -> dict[str, Any] | Loaded | None:
    """The table with the settings, or what is wrong with it, or None when the file has none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, line = str(error), None
        if match := re.search(r" \(at line (\d+), column \d+\)$", message):
            message, line = message[: match.start()], int(match[1])
        return _broken(file, f"this file is not valid TOML: {message[:1].lower()}{message[1:]}", line)
    except RecursionError:
        return _broken(file, "this file is nested too deeply to be read")
    for key in _prefix(file):
        table = table.get(key) if isinstance(table, dict) else None
        if table is None:
            return None
    if not isinstance(table, dict):
        return _broken(file, "tool.t4lint must be a table: [tool.t4lint]", find_line(text, _prefix(file)))
    return table


def _validated(file: Path, text: str, table: dict[str, Any]) -> Loaded:
    from pydantic import ValidationError

    try:
        loaded = Loaded(_adapter().validate_python(table), (), file, text)
        return loaded._replace(problems=_version_problems(loaded))
    except ValidationError as error:
        problems: dict[Problem, None] = {}
        for detail in error.errors(include_url=False):
            line = find_line(text, (*_prefix(file), *_keys_of(detail)))
            problems[Problem(_shown(file), _explained(detail), line)] = None
        return Loaded(Settings(), tuple(sorted(problems, key=lambda it: it.line or 0)), file, text)


def _version_problems(loaded: Loaded) -> tuple[Problem, ...]:
    """What is wrong with `versions`: a library that no model asks about, or text that is no version."""
    if not loaded.settings.versions:
        return ()
    from packaging.version import InvalidVersion, Version

    known = _libraries()
    problems: list[Problem] = []
    for name, version in loaded.settings.versions.items():
        if name not in known:
            hint = _suggestion(name, sorted(known))
            message = f"versions names a library that t4lint does not know: {name!r}{hint}"
            problems.append(loaded.problem(message, "versions", name))
            continue
        try:
            Version(version)
        except InvalidVersion:
            problems.append(
                loaded.problem(f'{version!r} is not a version of {name}, e.g. {name} = "2.4.1"', "versions", name)
            )
    return tuple(sorted(problems, key=lambda it: it.line or 0))


def _libraries() -> frozenset[str]:
    """The libraries whose version can matter, as package indexes spell them."""
    from t4lint.libraries.registry import KNOWN, NEWEST

    return frozenset({"python", "cuda", *NEWEST, *(name.replace("_", "-") for name in KNOWN), *KNOWN})


def _adapter() -> TypeAdapter[Settings]:
    from pydantic import TypeAdapter

    return TypeAdapter(Settings)


def _broken(file: Path, message: str, line: int | None = None) -> Loaded:
    return Loaded(Settings(), (Problem(_shown(file), message, line),), file)


def _shown(file: Path) -> str:
    """The path as people see it: relative to the working directory where it is below it."""
    try:
        return file.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file.as_posix()


def _prefix(file: Path | None) -> tuple[str, ...]:
    return ("tool", "t4lint") if file is not None and file.name == "pyproject.toml" else ()


# --- what is wrong -----------------------------------------------------------------------------------------------


def _explained(detail: ErrorDetails) -> str:
    """One mistake, in words: what is there, what may be there."""
    *_, key = [part for part in detail["loc"] if isinstance(part, str)]
    kind, value = detail["type"], detail["input"]
    if kind == "unexpected_keyword_argument":
        return _unknown_key(key)
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        return f"{key} must be one of {', '.join(choices)}, not {value!r}{_suggestion(value, choices)}"
    if kind == "tuple_type":
        shown = value if isinstance(value, str) else "..."
        return f'{key} must be a list, e.g. {key} = ["{shown}"]'
    if kind == "string_type" and detail["loc"][0] == "versions":
        return f'the version of {key} must be text in quotes, e.g. {key} = "{value}"'
    if kind == "string_type":
        return f"{key} must be text in quotes, not {value!r}"
    if kind in ("mapping_type", "dict_type"):
        return f'{key} must be a table, e.g. {key} = {{ torch = "2.4" }}'
    return f"{key}: {detail['msg']}"


def _unknown_key(key: str) -> str:
    known = [_kebab(item.name) for item in fields(Settings)]
    hint = _suggestion(_kebab(key.lower()), known)
    return f"unknown setting {key!r}{hint}" if hint else f"unknown setting {key!r}; the settings are {', '.join(known)}"


def _suggestion(name: object, known: list[str]) -> str:
    close = difflib.get_close_matches(str(name).lower(), known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _keys_of(detail: ErrorDetails) -> tuple[str, ...]:
    """The path of keys to a mistake; for an item of a list its value stands last."""
    keys = tuple(part for part in detail["loc"] if isinstance(part, str))
    return (*keys, str(detail["input"])) if isinstance(detail["loc"][-1], int) else keys


# --- where it stands ---------------------------------------------------------------------------------------------

_BARE = r"[A-Za-z0-9_-]+"
_KEY = rf"""(?:{_BARE}|"[^"]*"|'[^']*')"""
_PATH = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_PATH})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_PATH})\s*=")
_INLINE = re.compile(rf"[{{,]\s*({_PATH})\s*=")


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The keys of TOML text with their lines, in order. Good enough to point at a line, without a second parser."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.match(line):
            table = _split(match[1])
            yield number, table
        elif match := _ASSIGNMENT.match(line):
            keys = (*table, *_split(match[1]))
            yield number, keys
            for inner in _INLINE.finditer(line, match.end()):
                yield number, (*keys, *_split(inner[1]))


def _split(path: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, path))


def _shared(keys: tuple[str, ...], path: tuple[str, ...]) -> int:
    """How much of `path` the keys lead to; 0 when they lead elsewhere."""
    return len(keys) if keys == path[: len(keys)] else 0


def _value_line(text: str, start: int, value: str) -> int:
    """The first line from `start` on that holds the value, as far as its list goes; else `start`."""
    lines = text.splitlines()
    for number in range(start, len(lines) + 1):
        line = lines[number - 1]
        if number > start and (_HEADER.match(line) or _ASSIGNMENT.match(line)):
            break
        if re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", line):
            return number
    return start
