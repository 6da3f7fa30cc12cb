"""What a requirement says about a version: an exact pin, bounds, or nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# Where training on a T4 runs: markers are judged for it, not for the machine that lints.
PLACE = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "python_version": "3.12",
    "python_full_version": "3.12.0",
    "extra": "",
}

LONGEST = 1_000  # characters of one requirement
_QUICK = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*===?\s*v?([0-9][0-9A-Za-z.+!_-]*)\s*$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_OPTION = re.compile(r"\s--?[A-Za-z].*$")  # `torch==2.1 --hash=sha256:...`
_COMMAND_END = frozenset({"&&", "||", ";", "|", "&"})
# Options of pip, uv and conda that take a value of their own.
_TAKES_VALUE = frozenset({
    "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--constraint", "-r", "--requirement", "-e",
    "--editable", "-t", "--target", "--python", "-p", "--platform", "--python-version", "--root", "--prefix", "--src",
    "--upgrade-strategy", "--no-binary", "--only-binary", "--progress-bar", "--timeout", "--retries", "--trusted-host",
    "--cache-dir", "--log", "--proxy", "--config-settings", "--default-index", "--index", "--torch-backend", "-n",
    "--name", "--channel", "--extra", "--group",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which versions are allowed: from `low` to `high`, each with whether it is allowed itself. `text` is as written."""

    low: str | None = None
    high: str | None = None
    low_included: bool = True
    high_included: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """A library that is asked for, by its normal name."""

    name: str
    pin: str | None = None
    bounds: Bounds | None = None


def normal(name: str) -> str:
    """A name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def need(text: str) -> Need | None:
    """What one requirement says (PEP 508); None for what is none, or holds elsewhere only."""
    text = _OPTION.sub("", _COMMENT.sub("", text)).strip()
    if not text or len(text) > LONGEST or text.startswith("-"):
        return None
    quick = _QUICK.fullmatch(text)
    if quick:
        return Need(normal(quick[1]), quick[2], Bounds(quick[2], quick[2], True, True, f"=={quick[2]}"))
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate(dict(PLACE)):
            return None
    except (InvalidRequirement, ValueError, RecursionError, KeyError):
        return None
    except Exception:  # undefined names in markers have raised classes of their own over packaging's versions
        return None
    name = normal(requirement.name)
    clauses = [(clause.operator, clause.version) for clause in requirement.specifier]
    return Need(name, pin_of(clauses), bounds_of(clauses, str(requirement.specifier)))


def pin_of(clauses: Sequence[tuple[str, str]]) -> str | None:
    """The one version that is allowed, if there is only one."""
    for operator, version in clauses:
        if operator in ("==", "===") and not version.endswith("*"):
            return version
    return None


def bounds_of(clauses: Sequence[tuple[str, str]], text: str) -> Bounds | None:
    """The range that all clauses leave; None where none of them bounds anything."""
    bounds = Bounds(text=text)
    for operator, version in clauses:
        bounds = _narrowed(bounds, operator, version)
    return None if bounds.low is None and bounds.high is None else bounds


def _narrowed(bounds: Bounds, operator: str, version: str) -> Bounds:
    if operator in (">=", ">"):
        return _raised(bounds, version, operator == ">=")
    if operator in ("<=", "<"):
        return _lowered(bounds, version, operator == "<=")
    if operator == "~=":
        return _lowered(_raised(bounds, version, True), _next(version.split(".")[:-1]), False)
    if operator in ("==", "===") and version.endswith(".*"):
        return _lowered(_raised(bounds, version[:-2], True), _next(version[:-2].split(".")), False)
    if operator in ("==", "==="):
        return _lowered(_raised(bounds, version, True), version, True)
    return bounds  # `!=` bounds nothing


def _raised(bounds: Bounds, version: str, included: bool) -> Bounds:
    if bounds.low is not None and _key(version) <= _key(bounds.low):
        return bounds
    return replace(bounds, low=version, low_included=included)


def _lowered(bounds: Bounds, version: str, included: bool) -> Bounds:
    if not version or (bounds.high is not None and _key(version) >= _key(bounds.high)):
        return bounds
    return replace(bounds, high=version, high_included=included)


def _key(version: str) -> tuple[int, ...]:
    """The release numbers, enough to compare the bounds of one requirement."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version.partition("+")[0])[:6])


def _next(parts: Sequence[str]) -> str:
    """The version after all those that start with some numbers: 2.1 -> 2.2."""
    if not parts or not re.fullmatch(r"\d{1,9}", parts[-1]):
        return ""
    return ".".join([*parts[:-1], str(int(parts[-1]) + 1)])


def caret(name: str, text: str) -> Need | None:
    """A version as Poetry writes it: `^1.2`, `~1.2`, `1.2.*`, `1.2`, `>=1,<2`."""
    clauses: list[tuple[str, str]] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\^|~(?!=)|[=!<>~]=?=?)?\s*v?([0-9][\w.+!*-]*)\s*", part)
        if found is None:
            continue
        operator, version = found[1] or "==", found[2]
        if operator == "^":
            clauses += [(">=", version), ("<", _caret_end(version))]
        elif operator == "~":
            clauses += [(">=", version), ("<", _next(version.split(".")[:2]))]
        else:
            clauses.append(("==" if operator == "=" else operator, version))
    return Need(normal(name), pin_of(clauses), bounds_of(clauses, text))


def _caret_end(version: str) -> str:
    """The first number that is not zero may not change."""
    parts = version.split(".")
    for index, part in enumerate(parts):
        if part.strip("0"):
            return _next(parts[: index + 1])
    return _next(parts)


def conda(text: str) -> Need | None:
    """A requirement as conda writes it: `pytorch=2.1.0`, `pytorch::pytorch>=2.0`, `numpy 1.26.*`."""
    text = _COMMENT.sub("", text).strip().rpartition("::")[2]
    found = re.match(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*([=<>!~]*)\s*([^\s=]*)", text)
    if found is None or len(text) > LONGEST:
        return None
    name = normal({"pytorch": "torch", "pytorch-gpu": "torch"}.get(found[1].lower(), found[1]))
    operator, version = found[2], found[3]
    if not version:
        return Need(name)
    if "," in version or operator not in ("", "=", "=="):
        return caret(name, operator + version)
    if version.endswith("*") or (operator == "=" and version.count(".") < 2):
        # `=2.1` is any 2.1.x
        prefix = version.rstrip("*").rstrip(".")
        return Need(name, None, bounds_of([("==", f"{prefix}.*")], operator + version)) if prefix else Need(name)
    return Need(name, version, Bounds(version, version, True, True, operator + version))


def pins_of_command(text: str, pins: dict[str, str]) -> None:
    """What `pip install ...` in a command leaves installed; `pins` is updated. A later command wins.

    A library that is brought to a newer version, or within bounds, has an empty text: no earlier pin of it holds.
    """
    for words in _installs(text.replace("\\\r\n", " ").replace("\\\n", " ")):
        upgrade = any(word in ("-U", "--upgrade") for word in words)
        for word in words:
            found = need(word) if not word.startswith("-") and "/" not in word.partition("@")[0] else None
            if found is None:
                continue
            if found.pin is not None:
                pins[found.name] = found.pin
            elif found.bounds is not None or upgrade:
                pins[found.name] = ""


def _installs(text: str) -> Iterator[list[str]]:
    """The words after each `install` of pip, uv or `python -m pip`."""
    for line in text.splitlines():
        if "install" not in line or len(line) > 100_000:
            continue
        words = _words(line)
        for index, word in enumerate(words):
            before = [one.rpartition("/")[2] for one in words[max(index - 3, 0) : index]]
            if word == "install" and any(re.fullmatch(r"[!%]?pip[\d.]*", one) for one in before):
                yield list(_arguments(words[index + 1 :]))


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # quotes that do not close
        return line.replace('"', "").replace("'", "").split()


def _arguments(words: Sequence[str]) -> Iterator[str]:
    skip = False
    for word in words:
        if word in _COMMAND_END or word.startswith("#"):
            return
        if not skip:
            yield word
        skip = not skip and word in _TAKES_VALUE
