"""Paths: `os.path` and `pathlib`, as far as programs use them to find their own files."""

from __future__ import annotations

import posixpath
from pathlib import PurePath, PurePosixPath
from typing import Any

from t4lint.interpret.operators import origins_of, unknown_from
from t4lint.interpret.values import Abstract, Const, ListValue, Object
from t4lint.libraries.api import Call, calls

MAX_PATH = 2_000  # characters of a path that is kept


def text_of(value: Abstract) -> str | None:
    """A path as text; None for anything else than a known path."""
    if isinstance(value, Const) and isinstance(value.value, (str, PurePath)):
        text = str(value.value)
        return text if len(text) <= MAX_PATH else None
    return None


@calls("os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "pathlib.PurePosixPath")
def join(call: Call) -> Abstract:
    values = [call.machine.resolve(value) for value in call.arguments.positional]
    texts = [text_of(value) for value in values]
    if not values or None in texts:
        return unknown_from(call.name, *values)
    joined = posixpath.join(*(text for text in texts if text is not None))
    return Const(joined if call.name == "os.path.join" else PurePosixPath(joined), origins_of(*values))


# What each function makes of a path. Where the program stands is not known, so a relative path stays one.
FUNCTIONS: dict[str, Any] = {
    "basename": posixpath.basename,
    "dirname": posixpath.dirname,
    "abspath": posixpath.normpath,
    "realpath": posixpath.normpath,
    "normpath": posixpath.normpath,
    "expanduser": str,
    "expandvars": str,
    "fspath": str,
    "split": posixpath.split,
    "splitext": posixpath.splitext,
}


@calls("os.path.*", "os.fspath", "hydra.utils.to_absolute_path")
def path_function(call: Call) -> Abstract:
    values = [call.machine.resolve(value) for value in call.arguments.positional]
    name = call.name.rpartition(".")[2]
    text = text_of(values[0]) if values else None
    if name == "to_absolute_path" and values:
        given: Abstract = values[0]
        return given
    if text is None:
        return unknown_from(call.name, *values)
    if name in FUNCTIONS:
        result: Any = FUNCTIONS[name](text)
        if isinstance(result, tuple):
            return ListValue(tuple(Const(part, values[0].origins) for part in result), "tuple")
        return Const(result, values[0].origins)
    if name in ("exists", "isfile", "isdir"):
        return existence(call, text, values[0])
    if name == "isabs":
        return Const(text.startswith("/"), values[0].origins)
    return unknown_from(call.name, *values)


def existence(call: Call, text: str, value: Abstract) -> Abstract:
    """A file of the project is there; whether any other is cannot be told."""
    from t4lint.libraries.configs import find_file

    return Const(True, value.origins) if find_file(call.machine, text) else unknown_from(call.name, value)


# --- methods and attributes of path objects ------------------------------------------------------------------------

PURE = frozenset(
    {"joinpath", "with_suffix", "with_name", "with_stem", "as_posix", "relative_to", "is_absolute", "match"}
)
SAME = frozenset({"resolve", "absolute", "expanduser"})
PARTS = frozenset({"parent", "name", "stem", "suffix", "parents", "parts"})


def path_attribute(value: Const, name: str) -> Abstract | None:
    """An attribute of a path object; None for what is no plain attribute of one."""
    if name not in PARTS:
        return None
    path: PurePath = value.value
    found = getattr(path, name)
    if name in ("parents", "parts"):
        return ListValue(tuple(Const(part, value.origins) for part in found), "tuple")
    return Const(found, value.origins)


def path_method(call: Call) -> Abstract:
    """`path.method(...)`."""
    receiver: Const = call.receiver
    path: PurePath = receiver.value
    name = call.name.rpartition(".")[2]
    values = [call.machine.resolve(value) for value in call.arguments.positional]
    if name in SAME:
        return Const(PurePosixPath(posixpath.normpath(str(path))), receiver.origins)
    if name in PURE and all(text_of(value) is not None for value in values):
        try:
            result = getattr(path, name)(*(text_of(value) for value in values))
        except (ValueError, TypeError):
            return unknown_from(name, receiver, *values)
        return Const(result, origins_of(receiver, *values))
    if name in ("exists", "is_file", "is_dir"):
        return existence(call, str(path), receiver)
    if name in ("open", "read_text", "read_bytes"):
        return Object("file", "io.TextIOWrapper", {"path": receiver})
    if name == "__fspath__":
        return Const(str(path), receiver.origins)
    return unknown_from(name, receiver, *values)
