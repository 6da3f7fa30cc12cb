"""The settings of a project: `[tool.t4lint]` in pyproject.toml, or t4lint.toml. For each file the nearest of these wins.

Without such a file nothing heavy is imported.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from t4lint.findings import Problem
from t4lint.rule import Confidence, Severity
from t4lint.sources import disk
from t4lint.sources.paths import below
from t4lint.sources.toml_text import find_line

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

FILES = ("t4lint.toml", "pyproject.toml")
LARGEST = 5_000_000  # bytes: a pyproject.toml holds more than settings
MAX_EXTENDS = 10  # files that extend one another
DEFAULT = "default"
MAX_PROBLEMS = 50  # mistakes of one file that are told
LONGEST_SHOWN = 60  # characters of a wrong value in a message


def _kebab(name: str) -> str:
    return name.replace("_", "-")


# Read by pydantic, which is imported only when there is a file to validate.
_CONFIG: dict[str, Any] = {"extra": "forbid", "alias_generator": _kebab, "use_attribute_docstrings": True}

OptionValue = bool | int | float | str | list[bool | int | float | str]


@dataclass(frozen=True)
class Override:
    """Settings for some files. What it says comes on top of the other settings: lists and tables add, `select` starts afresh."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _CONFIG

    paths: tuple[str, ...]
    """The files that it holds for, as patterns in the style of .gitignore, from the folder of the settings file."""
    target: str | None = None
    """The GPU, place or instance that these files are meant for."""
    select: tuple[str, ...] = ()
    """Run only these."""
    ignore: tuple[str, ...] = ()
    """Do not run these."""
    extend_select: tuple[str, ...] = ()
    """Run these too."""
    min_confidence: Confidence | None = None
    """Show findings that are at least this sure."""
    fail_on: Severity | None = None
    """The exit code is 1 when there is a finding at least this severe."""
    severity: Mapping[str, Severity] = field(default_factory=dict)
    """Another severity for the findings of a rule or family."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of libraries that these files run with."""
    rules: Mapping[str, Mapping[str, OptionValue]] = field(default_factory=dict)
    """Options of rules."""


@dataclass(frozen=True)
class Settings:
    """What a project may set, with its defaults. In the file `extend_select` is `extend-select`, and so on."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _CONFIG

    extend: str | None = None
    """Another settings file, from the folder of this one, which comes on top: lists and tables add, `select` starts afresh."""
    target: str = "t4"
    """The GPU, place or instance that the code is meant for: a name that `t4lint targets` lists."""
    select: tuple[str, ...] = ()
    """Run only these: rule names, families, or `all`. Empty: the default rules."""
    ignore: tuple[str, ...] = ()
    """Do not run these: rule names or families."""
    extend_select: tuple[str, ...] = ()
    """Run these too."""
    exclude: tuple[str, ...] = ()
    """Files and folders to leave out, as patterns in the style of .gitignore, from the folder of the settings file."""
    min_confidence: Confidence = "likely"
    """Show findings that are at least this sure."""
    fail_on: Severity = "warning"
    """The exit code is 1 when there is a finding at least this severe."""
    severity: Mapping[str, Severity] = field(default_factory=dict)
    """Another severity for the findings of a rule or family, e.g. `fp32-training = "note"`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of libraries that the code runs with, e.g. `torch = "2.4"`. They win over what requirements say."""
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Rules or families that are not run on some files, by pattern: `"tests/**" = ["precision"]`."""
    rules: Mapping[str, Mapping[str, OptionValue]] = field(default_factory=dict)
    """Options of rules, by the rule's name; `t4lint explain RULE` lists those that it has."""
    own_rules: tuple[str, ...] = ()
    """Rules of your own: folders, from that of this file, or names of installed modules. t4lint runs their code."""
    overrides: tuple[Override, ...] = ()
    """Settings for some files only: `[[overrides]]` tables, of which later ones come on top of earlier ones."""


Sources = Mapping[str, tuple[str, ...]]  # where each setting comes from, as `path:line`


class Loaded(NamedTuple):
    """The settings in force, the file that they come from, and what is wrong with it."""

    settings: Settings
    problems: tuple[Problem, ...] = ()
    file: Path | None = None
    text: str = ""
    sources: Sources = MappingProxyType({})

    @property
    def folder(self) -> Path | None:
        """What the patterns are relative to."""
        return self.file.parent if self.file is not None else None

    def problem(self, message: str, *keys: str) -> Problem:
        """Something that turned out to be wrong with a setting; the last of `keys` may be a value in a list."""
        if self.file is None:
            return Problem("", message)
        return Problem(_shown(self.file), message, find_line(self.text, (*_prefix(self.file), *keys)))


NOTHING = Loaded(Settings())


def load(start: Path) -> Loaded:
    """The settings for `start`, a file or folder that need not exist: from its folder upwards, the first file that has any."""
    return Nearest().loaded(start)


def common_folder(paths: Sequence[Path]) -> Path:
    """Where to look for the settings of several paths as a whole: their common folder, so that their order does not matter."""
    if len(paths) == 1:
        return paths[0]
    try:
        folders = [os.path.abspath(path if disk.is_folder(path) else path.parent) for path in paths]  # noqa: PTH100  (as in `_absolute`)
        return Path(os.path.commonpath(folders))
    except (OSError, ValueError):  # a path too long to ask about; two drives
        return Path()


def schema() -> dict[str, Any]:
    """The JSON schema of the table, for completion in editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_adapter().json_schema(by_alias=True),
        "title": "t4lint",
    }


# --- the settings of each file -----------------------------------------------------------------------------------


class Nearest:
    """The settings of files: of each the nearest settings file's, with the overrides that match. Each is read once."""

    def __init__(self) -> None:
        self._by_folder: dict[Path, Loaded] = {}
        self._matched: dict[tuple[int, tuple[int, ...], tuple[str, ...]], tuple[Settings, Sources]] = {}
        self.files: dict[Path, Loaded] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For another process; what was matched is named by the memory of this one."""
        return {**self.__dict__, "_matched": {}}

    def loaded(self, start: Path) -> Loaded:
        """What the nearest settings file says."""
        try:
            folder = _absolute(start)
        except OSError:
            return NOTHING  # the working directory is gone
        passed = []
        for parent in (folder, *folder.parents):
            if parent in self._by_folder:
                found = self._by_folder[parent]
                break
            passed.append(parent)
            if (read := self._read(parent)) is not None:
                found = read
                break
        else:
            found = NOTHING
        self._by_folder |= dict.fromkeys(passed, found)
        return found

    def _read(self, folder: Path) -> Loaded | None:
        for name in FILES:
            loaded = read(folder / name)
            if loaded is not None:
                self.files[folder / name] = loaded
                return loaded
        return None

    def of(self, file: Path) -> Settings:
        """The settings that hold for a file. The same object for files for which the same holds."""
        return self.explained(file)[0]

    def explained(self, file: Path) -> tuple[Settings, Sources]:
        """The settings that hold for a file, and where each comes from; of what is ignored by pattern only what matches."""
        loaded = self.loaded(file.parent)
        given = loaded.settings
        if not given.overrides and not given.per_file_ignores:
            return given, loaded.sources
        overrides = tuple(n for n, it in enumerate(given.overrides) if self.matches(it.paths, file, loaded))
        patterns = tuple(it for it in given.per_file_ignores if self.matches((it,), file, loaded))
        key = id(loaded), overrides, patterns
        if key not in self._matched:
            self._matched[key] = _overridden(loaded, overrides, patterns)
        return self._matched[key]

    def matches(self, patterns: tuple[str, ...], file: Path, loaded: Loaded, *, folder: bool = False) -> bool:
        """Do patterns of a settings file name a file, or one of the folders above it?"""
        if loaded.folder is None or not patterns:
            return False
        relative = below(_absolute(file), _absolute(loaded.folder))
        if relative in (None, "."):
            return False
        return bool(ignore_spec(patterns).match_file(f"{relative}/" if folder else relative))

    def excludes(self, path: Path, *, folder: bool = False) -> bool:
        """Does the nearest settings file leave a path out?"""
        loaded = self.loaded(path if folder else path.parent)
        return self.matches(loaded.settings.exclude, path, loaded, folder=folder)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the settings files that were read."""
        return tuple(problem for loaded in self.files.values() for problem in loaded.problems)


def _overridden(loaded: Loaded, overrides: Iterable[int], patterns: Iterable[str]) -> tuple[Settings, Sources]:
    """Settings with some overrides on top, and of what is ignored by pattern that of some patterns."""
    settings, sources = loaded.settings, loaded.sources
    for number in overrides:
        override = settings.overrides[number]
        table = {it.name: getattr(override, it.name) for it in fields(Override) if it.name != "paths"}
        given = {name: value for name, value in table.items() if value not in (None, (), {})}
        where = {name: _where(loaded, "overrides", str(number), _kebab(name)) for name in given}
        settings, sources = _merged(settings, sources, given, where)
    matched = {pattern: settings.per_file_ignores[pattern] for pattern in patterns}
    places = tuple(_where(loaded, "per-file-ignores", pattern) for pattern in matched)
    said = {name: place for name, place in sources.items() if name != "per_file_ignores"}
    return replace(settings, per_file_ignores=matched), {**said, "per_file_ignores": places} if matched else said


def _merged(
    settings: Settings, sources: Sources, given: Mapping[str, Any], where: Mapping[str, str]
) -> tuple[Settings, Sources]:
    """Settings on top of others: lists and tables add, `select` starts afresh, anything else replaces."""
    said: dict[str, tuple[str, ...]] = dict(sources)
    values: dict[str, Any] = {}
    if "select" in given:
        values = {"ignore": (), "extend_select": ()}
        said = {name: place for name, place in said.items() if name not in ("select", *values)}
    for name, value in given.items():
        before = values.get(name, getattr(settings, name))
        adds = name != "select" and bool(before) and isinstance(value, (tuple, Mapping))
        values[name] = _added(before, value) if adds else value
        said[name] = (*said.get(name, ()), where[name]) if adds else (where[name],)
    return replace(settings, **values), said


def _added(before: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        nested = {key: {**before[key], **it} for key, it in value.items() if isinstance(it, Mapping) and key in before}
        return {**before, **value, **nested}
    return (*before, *(it for it in value if it not in before))


# --- reading -----------------------------------------------------------------------------------------------------


def read(file: Path) -> Loaded | None:
    """The settings in a file, with those of the files that it extends; None when it is not there or says nothing to t4lint."""
    return _extended(file, ())


def _extended(file: Path, above: tuple[Path, ...]) -> Loaded | None:
    own = _read(file)
    if own is None or own.problems:
        return own
    name = own.settings.extend
    given = {key: getattr(own.settings, key) for key in own.sources}
    where = {key: places[0] for key, places in own.sources.items()}
    if name is None:
        return own
    base = _absolute(file.parent / name)
    if base in above or len(above) >= MAX_EXTENDS:
        return own._replace(problems=(own.problem("the files that extend one another go in a circle", "extend"),))
    lower = _extended(base, (*above, _absolute(file)))
    if lower is None:
        message = f"there are no settings to extend in {name}"
        return own._replace(problems=(own.problem(message, "extend"),))
    settings, sources = _merged(lower.settings, lower.sources, given, where)
    return own._replace(settings=settings, sources=sources, problems=lower.problems)


def _read(file: Path) -> Loaded | None:
    """The settings in one file; None when it is not there or says nothing to t4lint."""
    try:
        data = disk.read_start(file, LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            return None  # below something that is no folder: it is not there
        if file.name == "pyproject.toml":
            return None  # somebody else's file
        return _broken(file, f"cannot read this file: {error.strerror or error}")
    if file.name == "pyproject.toml" and b"t4lint" not in data:
        return None
    if len(data) > LARGEST:
        return _broken(file, f"this file is too large for settings: over {LARGEST // 1_000_000} MB")
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
    except ValueError as error:  # TOML that is none, or a number of too many digits
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
        settings = _adapter().validate_python(table)
    except ValidationError as error:
        problems: dict[Problem, None] = {}
        details = error.errors(include_url=False)
        for detail in details[:MAX_PROBLEMS]:
            line = find_line(text, (*_prefix(file), *_keys_of(detail)))
            problems[Problem(_shown(file), _explained(detail), line)] = None
        found = sorted(problems, key=lambda it: it.line or 0)
        if len(details) > MAX_PROBLEMS:
            found.append(Problem(_shown(file), f"and {len(details) - MAX_PROBLEMS} more mistakes in these settings"))
        return Loaded(Settings(), tuple(found), file, text)
    settings = replace(settings, own_rules=tuple(_module_or_folder(file.parent, it) for it in settings.own_rules))
    loaded = Loaded(settings, (), file, text)
    names = {item.name for item in fields(Settings)} & {key.replace("-", "_") for key in table}
    loaded = loaded._replace(sources={name: (_where(loaded, _kebab(name)),) for name in names})
    return loaded._replace(problems=tuple(sorted(_value_problems(loaded), key=lambda it: it.line or 0)))


def _module_or_folder(folder: Path, name: str) -> str:
    """Where own rules are: an absolute path, or the name of a module."""
    path = folder / name
    return str(path) if "/" in name or "\\" in name or disk.exists(path) else name


def _where(loaded: Loaded, *keys: str) -> str:
    at = loaded.problem("", *keys)
    return f"{at.path}:{at.line}" if at.line else at.path


def _adapter() -> TypeAdapter[Settings]:
    from pydantic import TypeAdapter

    return TypeAdapter(Settings)


def _broken(file: Path, message: str, line: int | None = None) -> Loaded:
    return Loaded(Settings(), (Problem(_shown(file), message, line),), file)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow links out of the project)


def _shown(file: Path) -> str:
    """The path as people see it: relative to the working directory where it is below it."""
    try:
        return file.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file.as_posix()


def _prefix(file: Path | None) -> tuple[str, ...]:
    return ("tool", "t4lint") if file is not None and file.name == "pyproject.toml" else ()


@cache
def ignore_spec(patterns: tuple[str, ...]) -> Any:
    """Patterns in the style of .gitignore, ready to match; pathspec's own error where one is none."""
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)


# --- what is wrong -----------------------------------------------------------------------------------------------


def _value_problems(loaded: Loaded) -> Iterator[Problem]:
    """What is wrong with values whose types are right. Names of rules are checked by the engine, which knows them."""
    given = loaded.settings
    places: list[tuple[tuple[str, ...], Any]] = [((), given)]
    places += [(("overrides", str(number)), it) for number, it in enumerate(given.overrides)]
    for keys, part in places:
        yield from _version_problems(loaded, keys, part.versions)
        yield from _target_problems(loaded, keys, part.target)
    patterns: list[tuple[tuple[str, ...], str]] = []
    patterns += [(("overrides", str(n), "paths"), it) for n, one in enumerate(given.overrides) for it in one.paths]
    patterns += [(("per-file-ignores",), it) for it in given.per_file_ignores]
    for keys, pattern in patterns:
        try:
            ignore_spec((pattern,))
        except Exception:  # pathspec's own errors have changed their base
            yield loaded.problem(f"{pattern!r} is not a pattern", *keys, pattern)
    for name in given.own_rules:
        if not name.replace(".", "").isidentifier() and not disk.is_folder(Path(name)):
            yield loaded.problem(f"there is no folder {_shown(Path(name))!r} with rules", "own-rules")


def _target_problems(loaded: Loaded, keys: tuple[str, ...], target: str | None) -> Iterator[Problem]:
    if target in (None, "t4"):
        return
    from t4lint.devices import UnknownTarget, find_target

    try:
        find_target(str(target))
    except UnknownTarget as error:
        yield loaded.problem(str(error), *keys, "target")


def _version_problems(loaded: Loaded, keys: tuple[str, ...], versions: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with `versions`: a library that no model asks about, or text that is no version."""
    if not versions:
        return
    from packaging.version import Version

    known = _libraries()
    for name, version in versions.items():
        if name not in known:
            hint = _suggestion(name, sorted(known))
            message = f"versions names a library that t4lint does not know: {name!r}{hint}"
            yield loaded.problem(message, *keys, "versions", name)
            continue
        try:
            Version(version)
        except ValueError:  # also one of more digits than Python turns into a number
            message = f'{version[:LONGEST_SHOWN]!r} is not a version of {name}, e.g. {name} = "2.4.1"'
            yield loaded.problem(message, *keys, "versions", name)


def _libraries() -> frozenset[str]:
    """The libraries whose version can matter, as package indexes spell them."""
    from t4lint.libraries.registry import KNOWN, NEWEST

    return frozenset({"python", "cuda", *NEWEST, *(name.replace("_", "-") for name in KNOWN), *KNOWN})


def _explained(detail: ErrorDetails) -> str:
    """One mistake, in words: what is there, what may be there."""
    *_, key = [part for part in detail["loc"] if isinstance(part, str)]
    kind, value = detail["type"], detail["input"]
    if kind == "unexpected_keyword_argument":
        return _unknown_key(key, Override if detail["loc"][0] == "overrides" else Settings)
    if kind in ("missing", "missing_argument"):
        return f'an override needs {key}, e.g. {key} = ["legacy/**"]'
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        return f"{key} must be one of {', '.join(choices)}, not {value!r}{_suggestion(value, choices)}"
    if kind == "tuple_type" and key == "overrides":
        return "overrides must be tables: [[overrides]], or [[tool.t4lint.overrides]] in pyproject.toml"
    if kind == "tuple_type":
        shown = value if isinstance(value, str) else "..."
        return f'{_quoted(key)} must be a list, e.g. {_quoted(key)} = ["{shown}"]'
    if kind == "string_type" and "versions" in detail["loc"]:
        return f'the version of {key} must be text in quotes, e.g. {key} = "{value}"'
    if kind == "string_type":
        return f"{key} must be text in quotes, not {value!r}"
    if kind in ("mapping_type", "dict_type", "dataclass_type"):
        return f"{key} must be a table, e.g. {_TABLES.get(key, '{ ... }')}"
    return f"{key}: {detail['msg']}"


_TABLES = {
    "versions": 'versions = { torch = "2.4" }',
    "severity": 'severity = { fp32-training = "note" }',
    "per-file-ignores": 'per-file-ignores = { "tests/**" = ["precision"] }',
    "rules": "rules = { too-many-dataloader-workers = { per-cpu = 2 } }",
}


def _quoted(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'


def _unknown_key(key: str, table: type) -> str:
    known = [_kebab(item.name) for item in fields(table)]
    hint = _suggestion(_kebab(key.lower()), known)
    return f"unknown setting {key!r}{hint}" if hint else f"unknown setting {key!r}; the settings are {', '.join(known)}"


def _suggestion(name: object, known: list[str]) -> str:
    close = difflib.get_close_matches(str(name).lower(), known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _keys_of(detail: ErrorDetails) -> tuple[str, ...]:
    """The path of keys to a mistake; for an item of a list its value stands last."""
    keys = tuple(str(part) for part in detail["loc"])
    return (*keys[:-1], str(detail["input"])) if isinstance(detail["loc"][-1], int) else keys
