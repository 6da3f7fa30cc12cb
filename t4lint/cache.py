"""Results kept between invocations.

An entry holds a report, and every question that making it asked of the file system with its answer (`sources/disk.py`): files
read, files looked for and not found, folders listed. It stands as long as all answers are the same today, whatever the times
of the files are. Its name is made from everything else that the result depends on: what was asked for, where, and by which
t4lint with which libraries on which Python.

Entries are JSON: reading one runs no code. Each is written whole and then renamed, so that invocations that run at the same
time see all of it or nothing; an entry that is damaged, or of another format, is not there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from t4lint.sources import disk

if TYPE_CHECKING:
    from t4lint.findings import Report

FORMAT = 1  # raise it when an entry is to be read in another way
FOLDER = "T4LINT_CACHE_DIR"
MAX_ENTRIES = 2_000  # in a folder; the oldest go
# Installed packages that results depend on, by the name of their folder.
LIBRARIES = ("libcst", "packaging", "pathspec", "pydantic", "tree_sitter", "tree_sitter_bash", "yaml")
LANGUAGE = ("T4LINT_LANG", "LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE")  # what messages are written in


class CacheError(ValueError):
    """The place that was named for the cache cannot be used."""


# --- where entries are -------------------------------------------------------------------------------------------


class Store(Protocol):
    """A place with named entries. Nothing in it raises: a cache that fails is no cache."""

    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, data: bytes) -> None: ...


class Folder:
    """A folder on this machine. It is made when something is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except OSError:
            return None

    def write(self, name: str, data: bytes) -> None:
        fresh = self.folder / f".{name}.{os.getpid()}.{time.monotonic_ns()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(data)
            fresh.replace(self.folder / name)
        except OSError:
            with suppress(OSError):
                fresh.unlink()
        else:
            self.prune()

    def prune(self) -> None:
        """Keep the folder small: of too many entries the oldest half goes."""
        with suppress(OSError):
            entries = list(self.folder.iterdir())
            if len(entries) > MAX_ENTRIES:
                entries.sort(key=lambda entry: entry.stat().st_mtime)
                for entry in entries[: MAX_ENTRIES // 2]:
                    entry.unlink(missing_ok=True)


class Remote:
    """Any place that fsspec knows: `s3://...`, `gs://...`, `memory://...`."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise CacheError(
                f"{FOLDER} is a URL, and those need an extra: pip install 't4lint[fsspec]' and what it asks for"
            ) from None
        try:
            self.files, self.folder = url_to_fs(url)
        except Exception as error:  # of whichever library serves the URL
            raise CacheError(f"{FOLDER}={url} cannot be used: {error}") from None

    def read(self, name: str) -> bytes | None:
        try:
            data: bytes = self.files.cat_file(f"{self.folder}/{name}")
        except Exception:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        fresh = f"{self.folder}/.{name}.{os.getpid()}.{time.monotonic_ns()}"
        with suppress(Exception):
            self.files.makedirs(self.folder, exist_ok=True)
            self.files.pipe_file(fresh, data)
            self.files.mv(fresh, f"{self.folder}/{name}")


def store() -> Store:
    """The place that `T4LINT_CACHE_DIR` names: a folder or a URL; without it a folder where this system keeps caches."""
    given = os.environ.get(FOLDER)
    if given and "://" in given:
        return Remote(given)
    return Folder(Path(given) if given else usual_folder())


def usual_folder() -> Path:
    """Where results are kept when nothing else is said, as each system has it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "t4lint" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "t4lint"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "t4lint"


# --- an entry ----------------------------------------------------------------------------------------------------


class Kept:
    """What is kept for one thing that was asked for, and the ways in which it was shown."""

    def __init__(self, asked_for: Any, where: Store) -> None:
        self.where = where
        self.name = _digest(json.dumps([FORMAT, asked_for, _environment()], sort_keys=True, default=str).encode())
        self.stamp = ""  # of the entry that was found, or written
        self._found: dict[str, Any] | None = None

    def load(self) -> bool:
        """Is there an entry, and does it still hold?"""
        found = _opened(self.where.read(f"{self.name}.json"))
        if found is None or not _holds(found.get("asked")):
            return False
        self._found, self.stamp = found, str(found.get("stamp"))
        return True

    @property
    def code(self) -> int:
        """The exit code of the entry that was found."""
        assert self._found is not None
        return int(self._found["code"])

    def report(self) -> Report | None:
        """The report of the entry that was found; None where it cannot be read."""
        assert self._found is not None
        try:
            report: Report = decoded(self._found["report"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        return report

    def save(self, report: Report, code: int, asked: disk.Asked) -> None:
        """Keep a result. One that names a fault of t4lint's own, or rests on people's own rules, is made anew each time."""
        if report.own_rules or any("please report it" in problem.message for problem in report.problems):
            return
        entry = {"code": code, "report": encoded(report), "asked": disk.condensed(asked)}
        self.stamp = entry["stamp"] = _digest(json.dumps(entry).encode())
        self.where.write(f"{self.name}.json", _closed(entry))

    def shown(self, how: Any) -> str | None:
        """The text that the result was shown as, in some way."""
        found = _opened(self.where.read(self._picture(how)))
        text = found.get("text") if found is not None and found.get("stamp") == self.stamp else None
        return text if isinstance(text, str) else None

    def keep_shown(self, how: Any, text: str) -> None:
        if self.stamp:
            self.where.write(self._picture(how), _closed({"stamp": self.stamp, "text": text}))

    def _picture(self, how: Any) -> str:
        return f"{self.name}.{_digest(json.dumps(how).encode())}.json"


def _closed(entry: Any) -> bytes:
    """An entry with its check sum in front."""
    body = json.dumps(entry, ensure_ascii=True, separators=(",", ":")).encode()
    return _digest(body).encode() + b"\n" + body


def _opened(data: bytes | None) -> dict[str, Any] | None:
    sum_, newline, body = (data or b"").partition(b"\n")
    if not newline or _digest(body).encode() != sum_:
        return None
    try:
        entry = json.loads(body)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _holds(asked: Any) -> bool:
    return isinstance(asked, dict) and disk.still(asked)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


# --- what results depend on besides files -------------------------------------------------------------------------


def _environment() -> list[Any]:
    """This t4lint with its libraries and Python, where it runs, and the language of its messages."""
    language = {name: os.environ[name] for name in LANGUAGE if name in os.environ}
    return [_code(), _libraries(), sys.version, sys.platform, os.getcwd(), language]  # noqa: PTH109


def _code() -> str:
    """t4lint's own code and data, rules included, by the sizes and times of the files."""
    import t4lint

    lines = [t4lint.__version__]
    folders = [str(Path(t4lint.__file__).parent), *(os.path.join(root, "rules") for root in t4lint.__path__)]  # noqa: PTH118
    for folder in dict.fromkeys(folders):
        lines += sorted(_below(folder))
    return _digest("\n".join(lines).encode("utf-8", "surrogateescape"))


def _below(folder: str) -> Iterator[str]:
    pending = [folder]
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        pending.append(entry.path)
                elif not entry.name.endswith(".pyc"):
                    found = entry.stat()
                    yield f"{entry.path}\0{found.st_size}\0{found.st_mtime_ns}"


def _libraries() -> list[tuple[str, int, int]]:
    found = []
    for name in LIBRARIES:
        for folder in sys.path:
            try:
                at = os.stat(os.path.join(folder, name, "__init__.py"))  # noqa: PTH116, PTH118
            except (OSError, ValueError):
                continue
            found.append((name, at.st_size, at.st_mtime_ns))
            break
    return found


# --- reports as JSON ---------------------------------------------------------------------------------------------


def encoded(value: Any) -> Any:
    """A report, or a part of one, as plain data: lists are tuples, and an object names its class."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", None)
    if fields is not None:
        return {type(value).__name__: [encoded(getattr(value, name)) for name in fields]}
    if isinstance(value, Mapping):
        return {"": [[encoded(key), encoded(item)] for key, item in value.items()]}
    if isinstance(value, (tuple, list)):
        return [encoded(item) for item in value]
    raise TypeError(f"a report holds a {type(value).__name__}")


def decoded(value: Any) -> Any:
    """The opposite of `encoded`. Raises KeyError, TypeError or ValueError for anything else."""
    if isinstance(value, list):
        return tuple(decoded(item) for item in value)
    if not isinstance(value, dict):
        return value
    ((name, parts),) = value.items()
    if not name:
        return {decoded(key): decoded(item) for key, item in parts}
    return _classes()[name](*(decoded(part) for part in parts))


def _classes() -> dict[str, Any]:
    from t4lint import findings
    from t4lint.trace import Key, Location, Origin

    own = (
        findings.Report, findings.Finding, findings.Problem, findings.RunInfo, findings.Related, findings.Fix,
        findings.TextEdit, findings.Suppressed,
    )  # fmt: skip
    return {made.__name__: made for made in (*own, Key, Location, Origin)}
