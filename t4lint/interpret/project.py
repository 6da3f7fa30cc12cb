"""The files of a project: which module a name means, parsed once and shared by all runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.findings import Problem
from t4lint.sources import disk
from t4lint.sources.document import Document
from t4lint.sources.files import display_path, is_file, kind_of, read

if TYPE_CHECKING:
    from t4lint.interpret.source import SourceModule

ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", ".hg")
# What stands at the top of a project that came without its history, as an archive does.
WEAK_MARKS = ("README.md", "README.rst", "README", "LICENSE", "requirements.txt", "environment.yml")
MAX_MODULES = 400  # modules of one project that are read


class Project:
    """The root folder of a project and the modules read from it. `texts` replaces files by open buffers."""

    def __init__(self, root: Path, cwd: Path, texts: dict[Path, str] | None = None) -> None:
        self.root = root
        self.cwd = cwd
        self.texts = texts or {}
        self.documents: dict[
            Path, Document
        ] = {}  # modules that stand in no file of their own: notebooks, %%writefile cells
        self.modules: dict[Path, SourceModule | Problem] = {}
        self.read_texts: dict[str, str] = {}  # other files that runs have read, by path as shown
        self.places: dict[tuple[str, Path], Path | None] = {}
        # project files and libraries that modules import, as runs saw it
        self.imports: dict[Path, set[Path | str]] = {}
        self.configs: dict[Path, Any] = {}  # configuration files that runs have read; None: not readable
        self._inside: dict[Path, bool] = {}

    def afresh(self) -> Project:
        """The same project as no run has seen it. What only the disk decides is shared."""
        fresh = Project(self.root, self.cwd, self.texts)
        fresh.documents, fresh.places, fresh._inside = self.documents, self.places, self._inside
        return fresh

    def load(self, file: Path, name: str) -> SourceModule | Problem:
        """Read and parse a file once."""
        if file not in self.modules:
            self.modules[file] = self._load(file, name)
        return self.modules[file]

    def _load(self, file: Path, name: str) -> SourceModule | Problem:
        from t4lint.interpret.source import parse

        display = display_path(file, self.cwd)
        if file in self.documents:
            return parse(self.documents[file], name)
        if file not in self.texts and len(self.modules) >= MAX_MODULES:
            return Problem(display, f"not read: the project has more than {MAX_MODULES} modules")
        document = self.read(file)
        return document if isinstance(document, Problem) else parse(replace(document, kind="python"), name)

    def read(self, file: Path) -> Document | Problem:
        """A file as text; an open buffer stands for the file, and so does what a cell of a notebook writes."""
        if file not in self.texts and file in self.documents:
            return self.documents[file]
        display = display_path(file, self.cwd)
        if file in self.texts:
            text = self.texts[file]
            return Document(display, file, kind_of(file, text[:200].encode("utf-8", "replace")), text)
        return read(file, display)

    def has(self, file: Path) -> bool:
        """Is there such a file, or an open buffer of its name?"""
        return file in self.texts or file in self.documents or is_file(file)

    def find(self, name: str, script: Path) -> Path | None:
        """The file of a module as a script would import it: beside the script, at the root, under src/ or lib/."""
        key = (name, script)
        if key not in self.places:
            self.places[key] = self._find(name, script)
        return self.places[key]

    def _find(self, name: str, script: Path) -> Path | None:
        found = (file for base in self.search_path(script) if (file := self.find_in(base, name)))
        return next((file for file in found if file != script), None)  # no module imports itself by its own name

    def find_in(self, base: Path, name: str) -> Path | None:
        """The file of a module below a folder of the search path."""
        for relative in files_of(name):
            candidate = base / relative
            if candidate in self.documents:
                return candidate
            if (candidate in self.texts or is_file(candidate)) and self.contains(candidate):
                return candidate
        return None

    def brings(self, file: Path) -> set[Path | str]:
        """The project files and libraries that importing a module brings with it, as far as runs have loaded it."""
        found: set[Path | str] = set()
        pending: list[Path | str] = [file]
        while pending:
            fresh = self.imports.get(pending.pop(), set()) - found  # type: ignore[arg-type]
            found |= fresh
            pending.extend(item for item in fresh if isinstance(item, Path))
        return found

    def search_path(self, script: Path) -> list[Path]:
        bases = [script.parent]
        parent = script.parent
        while self.contains(parent) and parent != self.root:
            parent = parent.parent
            bases.append(parent)
        return [*dict.fromkeys([*bases, self.root, self.root / "src", self.root / "lib"])]

    def contains(self, file: Path) -> bool:
        """Is a file inside the project? Links that lead outside are not followed."""
        if file not in self._inside:
            try:
                self._inside[file] = disk.real(file).is_relative_to(self.root)
            except (OSError, RuntimeError):
                self._inside[file] = False
        return self._inside[file]


@cache
def files_of(name: str) -> tuple[str, str]:
    """The files, below a folder of the search path, that a module may be."""
    relative = Path(*name.split("."))
    return str(relative.with_suffix(".py")), str(relative / "__init__.py")


def find_root(file: Path) -> Path:
    """The nearest folder above a file that carries the mark of a project, else the file's own folder."""
    folder = disk.real(file if disk.is_folder(file) else file.parent)
    for marks in (ROOT_MARKS, WEAK_MARKS):
        for parent in (folder, *folder.parents):
            if any(disk.exists(parent / mark) for mark in marks):
                return parent
    return folder
