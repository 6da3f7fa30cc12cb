"""What a rule's edits are in the text of the files that they land in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from t4lint.findings import Fix, TextEdit
from t4lint.fix.python import PythonFile
from t4lint.fix.shell import ShellFile
from t4lint.fix.text import NoPlace, Splice, as_edits, spliced, surface
from t4lint.rule import (
    AddArgument,
    AddImport,
    DropArgument,
    DropStatement,
    DropUnusedImport,
    Edit,
    FixSafety,
    InsertAfter,
    InsertBefore,
    Place,
    RenameArgument,
    SetArgument,
    SetValue,
    Written,
)
from t4lint.trace import Event, Location, Origin, Value

Texts = Callable[[str], str | None]  # the text of a file, by its path as shown


def rendered(edits: Iterable[Edit], texts: Texts, safety: FixSafety, title: str) -> Fix | None:
    """The fix as text edits; None when one of the edits has no place, or when nothing would change."""
    try:
        done = _Rendering(texts)
        for edit in sorted(edits, key=lambda it: isinstance(it, DropUnusedImport)):
            done.add(edit)
        found = done.result()
    except NoPlace:
        return None
    return Fix(safety, title, tuple(found)) if found else None


class _Rendering:
    """The edits of one fix, over all files."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.files: dict[str, PythonFile | ShellFile] = {}
        self.splices: dict[str, list[Splice]] = {}

    def add(self, edit: Edit) -> None:
        place = _place(edit.at)
        location = place.location
        assert location is not None
        file = self._file(location.path)
        if isinstance(edit, DropUnusedImport):
            self._tidy(location.path, edit)
            return
        done = _in_shell(file, edit, place) if isinstance(file, ShellFile) else _in_python(file, edit, location)
        self.splices.setdefault(location.path, []).extend(done)

    def _file(self, path: str) -> PythonFile | ShellFile:
        if path not in self.files:
            text = self.texts(path)
            if text is None:
                raise NoPlace("the file is not there")
            kind = surface(path, text)
            if kind == "other":
                raise NoPlace("files of this kind are not edited yet")
            self.files[path] = ShellFile(text) if kind == "shell" else PythonFile(text)
        return self.files[path]

    def _tidy(self, path: str, edit: DropUnusedImport) -> None:
        """Whether an import is still used shows only after the other edits."""
        file = self.files[path]
        done = self.splices.setdefault(path, [])
        if isinstance(file, PythonFile) and not PythonFile(spliced(file.text, done)).uses(edit.name):
            done.extend(file.drop_import(edit.name))

    def result(self) -> list[TextEdit]:
        found: list[TextEdit] = []
        for path, given in self.splices.items():
            text = self.files[path].text
            if spliced(text, given) != text:
                found += as_edits(path, text, given)
        return found


def _place(at: Place) -> Origin:
    """The origin that an edit goes to; an event's statement and a bare location count as literals."""
    if isinstance(at, Value):
        for origin in at.origins:
            if origin.location is not None:
                return origin
        raise NoPlace("nothing in the program gives this value")
    if isinstance(at, Origin):
        if at.location is None:
            raise NoPlace("this origin has no place")
        return at
    return Origin("literal", "", at.where if isinstance(at, Event) else at)


def _location(at: Place) -> Location:
    location = _place(at).location
    assert location is not None
    return location


def _in_shell(file: ShellFile, edit: Edit, origin: Origin) -> list[Splice]:
    if isinstance(edit, SetValue):
        return file.set_value(origin, edit.text)
    if isinstance(edit, DropArgument):
        return file.drop(origin)
    if isinstance(edit, RenameArgument):
        return file.rename(origin, edit.name, edit.to)
    raise NoPlace("this edit has no form on a command line")


def _in_python(file: PythonFile, edit: Edit, at: Location) -> list[Splice]:
    if isinstance(edit, SetValue):
        return file.set_value(at, edit.text)
    if isinstance(edit, (SetArgument, AddArgument)):
        return file.set_argument(at, edit.callee, edit.name, edit.text, replace=isinstance(edit, SetArgument))
    if isinstance(edit, DropArgument):
        return file.drop_argument(at, edit.name, edit.otherwise)
    if isinstance(edit, RenameArgument):
        return file.rename_argument(at, edit.name, edit.to)
    if isinstance(edit, DropStatement):
        return file.drop_statement(at)
    if isinstance(edit, (InsertBefore, InsertAfter)):
        words = file.words(at, _words(at, edit.words))
        return file.insert(at, edit.code, words, after=isinstance(edit, InsertAfter))
    if isinstance(edit, AddImport):
        return file.add_import(edit.module)
    raise NoPlace("this edit has no form in Python")


def _words(at: Location, given: Mapping[str, Written]) -> dict[str, tuple[Location, Written]]:
    places = {name: (_location(word.at), word) for name, word in given.items()}
    if any(place.path != at.path for place, _ in places.values()):
        raise NoPlace("the names stand in another file")
    return places
