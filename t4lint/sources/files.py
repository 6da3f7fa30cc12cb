"""Which files are read, and how their bytes become text. Nothing here raises: what cannot be read is a `Problem`."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from t4lint.findings import Problem
from t4lint.sources import disk
from t4lint.sources.document import Document, Kind
from t4lint.sources.paths import below
from t4lint.sources.positions import LINE_END

PYTHON_SUFFIXES = (".py", ".pyw")
SHELL_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm")
SUFFIXES = PYTHON_SUFFIXES + SHELL_SUFFIXES
LARGEST = 20_000_000  # bytes
LARGEST_IGNORE_FILE = 1_000_000  # bytes of a .gitignore that are read
LONGEST_PATTERN = 4096  # characters: no path is longer, and long patterns take a time that grows with their square

# Folders that hold other people's code, or nothing that a person wrote.
DEFAULT_EXCLUDES = frozenset({
    ".bzr", ".direnv", ".eggs", ".git", ".hg", ".hypothesis", ".ipynb_checkpoints", ".mypy_cache", ".nox", ".pytest_cache",
    ".ruff_cache", ".svn", ".t4lint_cache", ".tox", ".venv", ".virtualenv", "__pycache__", "__pypackages__", "_build",
    "build", "dist", "node_modules", "site-packages", "venv",
})  # fmt: skip

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
_SHELL_SHEBANG = re.compile(rb"^#!.*\b(?:ba|da|z|k)?sh\b")
# Codecs that no source file has: what they decode to is not what the bytes show, or takes quadratic time.
_NOT_FOR_SOURCE = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"})


# --- finding -----------------------------------------------------------------------------------------------------


def find(
    paths: Sequence[Path],
    *,
    exclude: Sequence[str] = (),
    respect_gitignore: bool = True,
    root: Path | None = None,
    problems: list[Problem],
    wanted: Callable[[str], bool] | None = None,
) -> Iterator[Path]:
    """The files to read, each real file once. A file that is named is always one; folders are walked in sorted order.

    `wanted` says of a name in lower case whether such files are looked for: Python and shell files without it.
    `exclude` are patterns as in .gitignore, relative to `root` (to each folder given, without one). What cannot be read
    is added to `problems` and the others go on.
    """
    search = _Search(tuple(exclude), respect_gitignore, root, problems, wanted or _is_source)
    for path in paths:
        yield from search.start(path)


def _is_source(name: str) -> bool:
    return name.endswith(SUFFIXES)


@dataclass(slots=True)
class _Search:
    exclude: tuple[str, ...]
    respect_gitignore: bool
    root: Path | None
    problems: list[Problem]
    wanted: Callable[[str], bool]
    yielded: set[str] = field(default_factory=set)  # real paths: links lead to the same file
    walked: set[str] = field(default_factory=set)

    def start(self, path: Path) -> Iterator[Path]:
        """Everything under a path that a person named."""
        try:
            disk.kind(path)
            mode = path.stat().st_mode
        except (OSError, ValueError) as error:
            self.cannot(path, _missing(path, error))
            return
        if stat.S_ISDIR(mode):
            yield from self.walk(path)
        elif stat.S_ISREG(mode):
            yield from self.once(path, os.path.realpath(path))
        else:
            self.cannot(path, "is not a regular file")

    def walk(self, start: Path) -> Iterator[Path]:
        """A folder and what is below it, with a stack of its own: depth is the file system's business."""
        pending = [_Entry(start, os.path.realpath(start), self.ignores_above(start))]
        while pending:
            folder, real, ignores = pending.pop()
            if ignores is None:
                yield from self.once(folder, real)
                continue
            if real in self.walked:
                continue
            self.walked.add(real)
            if self.respect_gitignore and folder != start:
                # Before the settings' own patterns, which stand last.
                ignores = _insert(ignores, self.ignore_file(folder, folder), bool(self.exclude))
            inside = [found for entry in self.entries(folder) if (found := self.keep(entry, folder, real, ignores))]
            pending.extend(reversed(inside))

    def entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            return disk.entries(folder)
        except (OSError, ValueError) as error:
            self.cannot(folder, f"cannot be read: {_reason(error)}")
            return []

    def keep(self, entry: os.DirEntry[str], folder: Path, real: str, ignores: tuple[_Ignore, ...]) -> _Entry | None:
        """What an entry of a folder adds to the walk: a folder, a file or nothing."""
        ours = self.wanted(entry.name.lower())
        try:
            is_folder, is_file, is_link = entry.is_dir(), entry.is_file(), entry.is_symlink()
        except OSError as error:
            path = folder / entry.name
            if ours and not _ignored(path, False, ignores):
                self.cannot(path, f"cannot be read: {_reason(error)}")
            return None
        if entry.name in DEFAULT_EXCLUDES if is_folder else not ours:
            return None
        path = folder / entry.name
        if _ignored(path, is_folder, ignores):
            return None
        if is_folder or is_file:
            # only a link can lead elsewhere: asking the system for each path costs a call for each of its folders
            place = os.path.realpath(path) if is_link else os.path.join(real, entry.name)  # noqa: PTH118
            return _Entry(path, place, ignores if is_folder else None)
        if is_link:
            self.cannot(path, "is not a regular file" if path.exists() else "is a broken symbolic link")
        return None

    def once(self, path: Path, real: str) -> Iterator[Path]:
        if real not in self.yielded:
            self.yielded.add(real)
            yield path

    def ignores_above(self, start: Path) -> tuple[_Ignore, ...]:
        """The patterns that hold in a folder before it is walked: the settings', and the .gitignore files above it."""
        parts = _below(self.root, start)
        ignores: list[_Ignore] = []
        for depth in range(len(parts) + 1) if self.respect_gitignore else ():
            folder = Path(os.path.realpath(start), *[".."] * (len(parts) - depth)) if depth < len(parts) else start
            ignores.extend(self.ignore_file(folder, start, parts[depth:]))
        if self.exclude:
            # Last, and so first to decide: the settings are the more explicit wish; a folder that is named is even more so.
            prefix, spec = "".join(f"{part}/" for part in parts), self.spec(self.exclude, "exclude")
            if not (prefix and spec.check_file(prefix).include):
                ignores.append(_Ignore(start, prefix, spec))
        return tuple(ignores)

    def ignore_file(self, folder: Path, start: Path, parts: tuple[str, ...] = ()) -> list[_Ignore]:
        """The .gitignore of a folder, as it is applied to paths below `start`, which is `parts` below that folder."""
        file = folder / ".gitignore"
        try:
            text = disk.read_start(file, LARGEST_IGNORE_FILE).decode("utf-8", "replace")
        except (OSError, ValueError):
            return []  # mostly: there is none
        prefix = "".join(f"{part}/" for part in parts)
        spec = self.spec([line for line in text.splitlines() if len(line) <= LONGEST_PATTERN], str(file))
        if prefix and spec.check_file(prefix).include:
            return []  # it ignores the folder that a person named: they know better
        return [_Ignore(start, prefix, spec, git=True)]

    def spec(self, lines: Sequence[str], source: str) -> GitIgnoreSpec:
        """Compiled patterns; a bad one is named and left out, as git does."""
        try:
            return GitIgnoreSpec.from_lines(lines)
        except Exception:  # pathspec's own errors have changed their base over its versions
            good = [line for line in lines if self.compiles(line, source)]
            return GitIgnoreSpec.from_lines(good)

    def compiles(self, line: str, source: str) -> bool:
        try:
            GitIgnoreSpec.from_lines([line])
        except Exception:
            self.problems.append(Problem(_printable(source), f"has a pattern that is not valid: {line.strip()}"))
            return False
        return True

    def cannot(self, path: Path, message: str) -> None:
        self.problems.append(Problem(_printable(path.as_posix()), message))


class _Entry(NamedTuple):
    """What is to be walked: a folder with what is ignored in it, or a file. `real` is where its links lead."""

    path: Path
    real: str
    ignores: tuple[_Ignore, ...] | None


@dataclass(frozen=True, slots=True)
class _Ignore:
    """The patterns of one place, which lies at or above `folder`; `prefix` leads from there to `folder`."""

    folder: Path
    prefix: str
    spec: GitIgnoreSpec
    git: bool = False  # of a .gitignore, which says nothing of files that are tracked


def _ignored(path: Path, is_folder: bool, ignores: tuple[_Ignore, ...]) -> bool:
    """As git: the innermost file that says something decides. What is in an ignored folder is never looked at, unless git
    tracks it: then .gitignore says nothing."""
    for ignore in reversed(ignores):
        relative = ignore.prefix + path.relative_to(ignore.folder).as_posix()
        decision = ignore.spec.check_file(relative + "/" if is_folder else relative).include
        if decision:
            return not ignore.git or not disk.is_tracked(path)
        if decision is not None:
            return False
    return False


def _insert(ignores: tuple[_Ignore, ...], more: list[_Ignore], before_last: bool) -> tuple[_Ignore, ...]:
    return (*ignores[:-1], *more, ignores[-1]) if before_last else (*ignores, *more)


def _below(root: Path | None, start: Path) -> tuple[str, ...]:
    """The names that lead from the root to `start`; none where it does not lie below."""
    if root is None:
        return ()
    try:
        return Path(os.path.realpath(start)).relative_to(os.path.realpath(root)).parts
    except ValueError:
        return ()


def is_file(path: Path) -> bool:
    """`Path.is_file`, also for names that no file can have: they come out of the texts that are read."""
    try:
        return disk.is_file(path)
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """`Path.is_dir`, also for names that no folder can have."""
    try:
        return disk.is_folder(path)
    except (OSError, ValueError):
        return False


def _missing(path: Path, error: Exception) -> str:
    try:
        if path.is_symlink():
            return "is a broken symbolic link"
    except (OSError, ValueError):
        pass
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return f"cannot be read: {_reason(error)}"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _printable(path: str) -> str:
    """A path that can be printed and put into JSON: names on disk need not be valid Unicode."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# --- reading -----------------------------------------------------------------------------------------------------


def display_path(file: Path, cwd: Path) -> str:
    """A path as people see it: relative to the working directory where it lies below, with `/`."""
    absolute = os.path.normpath(cwd / file)
    found = below(Path(absolute), Path(os.path.normpath(cwd)))
    if found is None:  # only then are links followed, which asks the file system for each folder on the way
        found = below(Path(os.path.realpath(absolute)), Path(os.path.realpath(cwd)))
    return _printable(Path(absolute).as_posix() if found is None else found)


def read_bytes(file: Path, display: str, largest: int) -> bytes | Problem:
    """What stands in a file of at most `largest` bytes, or why that cannot be read."""
    try:
        data = disk.read_start(file, largest + 1)
    except IsADirectoryError:
        return Problem(display, "is not a regular file")
    except (OSError, ValueError) as error:
        return Problem(display, _missing(file, error))
    if len(data) > largest:
        return Problem(display, f"is too large: over {largest // 1_000_000} MB")
    return data


def read(file: Path, display: str) -> Document | Problem:
    """A file as text, decoded as Python decodes its own source, or why that cannot be done."""
    data = read_bytes(file, display, LARGEST)
    if isinstance(data, Problem):
        return data
    kind = kind_of(file, data)
    text = decode(data, display, kind)
    return text if isinstance(text, Problem) else Document(display, file, kind, text)


def kind_of(file: Path, data: bytes = b"") -> Kind:
    """Python or shell: by the name, else by the first line."""
    name = file.name.lower()
    if name.endswith(SHELL_SUFFIXES):
        return "shell"
    if name.endswith(PYTHON_SUFFIXES):
        return "python"
    return "shell" if _SHELL_SHEBANG.match(data) else "python"


def decode(data: bytes, display: str, kind: Kind) -> str | Problem:
    """The text of a file, without byte order mark and with its line endings; a `Problem` names the offending place."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        encoding, line = "utf-32", 1
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding, line = "utf-16", 1
    elif b"\0" in data:
        return _not_text(data.decode("utf-8", "replace"), display)
    elif data.startswith(codecs.BOM_UTF8):
        data, encoding, line = data[len(codecs.BOM_UTF8) :], "utf-8", 1
    elif kind == "shell":
        return data.decode("utf-8", "replace")  # bash reads bytes: an odd comment is no reason to give up
    else:
        encoding, line = _declared(data)
    text = _decode_as(data, encoding, line, display)
    return _not_text(text, display) if isinstance(text, str) and "\0" in text else text


def _declared(data: bytes) -> tuple[str, int]:
    """The encoding that a comment on the first two lines declares (PEP 263), and that line."""
    for number, line in enumerate(re.split(rb"\r\n|\r|\n", data[:4096], maxsplit=2)[:2], start=1):
        found = _COOKIE.match(line)
        if found:
            return found[1].decode("ascii", "replace"), number
        if not _BLANK.match(line):
            break
    return "utf-8", 1


def _decode_as(data: bytes, encoding: str, declared_at: int, display: str) -> str | Problem:
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError, UnicodeError):
        name = ""
    if not name or name.replace("-", "_") in _NOT_FOR_SOURCE:
        return Problem(display, f"declares an encoding that is not known: {encoding}", declared_at, 1)
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        line, column = _end_of(data[: error.start].decode(name, "replace"))
        what = f"byte 0x{data[error.start]:02x}" if error.start < len(data) else "its end"
        return Problem(display, f"is not text: {what} is not {name}", line, column)
    except (LookupError, ValueError) as error:  # a codec from bytes to bytes, such as "hex"
        return Problem(
            display, f"declares an encoding that it cannot be read with: {encoding} ({error})", declared_at, 1
        )
    return text.removeprefix("\ufeff")


def _not_text(text: str, display: str) -> Problem:
    line, column = _end_of(text[: text.index("\0")])
    return Problem(display, "is not text: it has a NUL byte", line, column)


def _end_of(text: str) -> tuple[int, int]:
    """The 1-based line and column just after a text."""
    *before, last = LINE_END.split(text)
    return len(before) + 1, len(last) + 1
