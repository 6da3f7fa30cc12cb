"""What a rule's edits are in the text of the files that they land in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from t4lint.findings import Fix, TextEdit
from t4lint.fix.config import ConfigFile
from t4lint.fix.environment import CommandText, Given
from t4lint.fix.notebook import NotebookFile, View
from t4lint.fix.shell import ShellFile
from t4lint.fix.text import NoPlace, Splice, as_edits, kind_of, spliced
from t4lint.rule import (
    AddArgument,
    AddFlag,
    AddImport,
    AddVariable,
    DropArgument,
    DropStatement,
    DropUnusedImport,
    Edit,
    FixSafety,
    InsertAfter,
    InsertBefore,
    InsertBeforeUse,
    InsertFirst,
    InsertInRange,
    LeaveToInnerShell,
    PassFunction,
    Place,
    PutUnder,
    RenameArgument,
    SetArgument,
    SetValue,
    StartBlockEarlier,
    UseModule,
    Written,
)
from t4lint.trace import Event, Location, Origin, Value

if TYPE_CHECKING:
    from t4lint.fix.python import PythonFile

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


File: TypeAlias = "PythonFile | ShellFile | ConfigFile | CommandText"
IN_COMMANDS = (AddFlag, AddVariable, LeaveToInnerShell, UseModule)
IN_BLOCKS = (PutUnder, StartBlockEarlier, InsertBeforeUse, InsertFirst)
_MARKUP = (".md", ".markdown", ".rst")


class _Target(NamedTuple):
    """A text that edits are found in. `view` is set where it is made of the cells of a notebook."""

    file: File
    view: View | None = None

    def local(self, location: Location) -> Location:
        return location if self.view is None else self.view.local(location)


class _Rendering:
    """The edits of one fix, over all files."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.targets: dict[tuple[str, str], _Target] = {}  # by path, and by which of its texts
        self.notebooks: dict[str, NotebookFile] = {}
        self.splices: dict[tuple[str, str], list[Splice]] = {}

    def add(self, edit: Edit) -> None:
        place = _place(edit.at)
        location = place.location
        assert location is not None
        requirement = isinstance(edit, DropStatement) and location.path.endswith(".txt")
        if (
            isinstance(edit, IN_COMMANDS)
            or requirement
            or place.how == "environment"
            or self._is_magic(place, location)
        ):
            key = self._commands(location)
        else:
            key = self._target(place, location)
        if isinstance(edit, DropUnusedImport):
            self._tidy(key, edit)
            return
        target = self.targets[key]
        origin = replace(place, location=target.local(location))
        self.splices.setdefault(key, []).extend(_made(target, edit, origin))

    def _target(self, origin: Origin, location: Location) -> tuple[str, str]:
        """The text that an edit at an origin is found in: a flag stands in shell, whatever the file is."""
        path = location.path
        text = self.texts(path)
        if text is None:
            raise NoPlace("the file is not there")
        kind = kind_of(path, text)
        if kind == "notebook":
            return self._cells(path, text, origin, location)
        if kind in ("shell", "yaml", "json") and origin.how in ("literal", "default", "derived"):
            # what a program does that is no file of the project has the place of the command that starts it
            raise NoPlace("the program is not in the project")
        form = "shell" if origin.how == "flag" else kind
        key = path, form
        if key not in self.targets:
            self.targets[key] = _Target(_file(text, form))
        return key

    def _commands(self, location: Location) -> tuple[str, str]:
        """The text of a file as commands and what they are given, whatever else the file is."""
        path = location.path
        text = self.texts(path)
        if text is None:
            raise NoPlace("the file is not there")
        key = path, "commands"
        kind = "shell" if path.lower().endswith(_MARKUP) else kind_of(path, text)
        if key not in self.targets:
            self.targets[key] = self._cell_commands(path, text) if kind == "notebook" else _Target(_text(text, kind))
        return key

    def _is_magic(self, origin: Origin, location: Location) -> bool:
        """Is it the value of `%env NAME=value`, which counts as Python's?"""
        text = self.texts(location.path)
        if (
            origin.how != "literal"
            or location.cell is None
            or text is None
            or kind_of(location.path, text) != "notebook"
        ):
            return False
        notebook = self.notebooks.setdefault(location.path, _notebook(location.path, text))
        return notebook.line(location.cell, location.cell_line or 0).lstrip().startswith(("%env", "%set_env"))

    def _cell_commands(self, path: str, text: str) -> _Target:
        if path not in self.notebooks:
            self.notebooks[path] = _notebook(path, text)
        view = self.notebooks[path].code
        return _Target(CommandText(view.text, "cells", view.first_line), view)

    def _cells(self, path: str, text: str, origin: Origin, location: Location) -> tuple[str, str]:
        if path not in self.notebooks:
            self.notebooks[path] = _notebook(path, text)
        notebook = self.notebooks[path]
        form = "shell" if origin.how == "flag" else "python"
        view = notebook.code if form == "shell" else notebook.python_at(location)
        key = path, f"{form} {id(view)}"
        if key not in self.targets:
            self.targets[key] = _Target(_file(view.text, form), view)
        return key

    def _tidy(self, key: tuple[str, str], edit: DropUnusedImport) -> None:
        """Whether an import is still used shows only after the other edits."""
        from t4lint.fix.python import PythonFile

        file = self.targets[key].file
        done = self.splices.setdefault(key, [])
        if isinstance(file, PythonFile) and not PythonFile(spliced(file.text, done)).uses(edit.name):
            done.extend(file.drop_import(edit.name))

    def result(self) -> list[TextEdit]:
        found: list[TextEdit] = []
        for key, given in self.splices.items():
            file, view = self.targets[key]
            if spliced(file.text, given) != file.text:
                found += as_edits(key[0], file.text, given) if view is None else view.edits(given)
        return found


@lru_cache(maxsize=8)
def _text(text: str, kind: str) -> CommandText:
    return CommandText(text, kind)


@lru_cache(maxsize=8)  # the fixes of one report are mostly in the same few files
def _file(text: str, form: str) -> File:
    if form == "python":
        from t4lint.fix.python import PythonFile  # libcst takes long to import, and most findings have no fix

        return PythonFile(text)
    if form == "shell":
        return ShellFile(text)
    if form in ("yaml", "json"):
        return ConfigFile(text, form)
    raise NoPlace("files of this kind are not edited")


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


@lru_cache(maxsize=8)
def _notebook(path: str, text: str) -> NotebookFile:
    return NotebookFile(path, text)


def _made(target: _Target, edit: Edit, origin: Origin) -> list[Splice]:
    file, at = target.file, origin.location
    assert at is not None
    if isinstance(file, ShellFile):
        return _in_shell(file, edit, origin)
    if isinstance(file, ConfigFile):
        return _in_config(file, edit, at)
    if isinstance(file, CommandText):
        return _in_commands(target, file, edit, at)
    return _in_python(target, file, edit, at)


def _in_config(file: ConfigFile, edit: Edit, at: Location) -> list[Splice]:
    if isinstance(edit, SetValue):
        return file.set_value(at, edit.text)
    if isinstance(edit, DropArgument):
        return file.drop(at, edit.name, edit.otherwise)
    if isinstance(edit, RenameArgument):
        return file.rename(at, edit.name, edit.to)
    raise NoPlace("this edit has no form in a configuration")


def _in_shell(file: ShellFile, edit: Edit, origin: Origin) -> list[Splice]:
    if isinstance(edit, SetValue):
        return file.set_value(origin, edit.text)
    if isinstance(edit, DropArgument):
        return file.drop(origin, edit.name, edit.otherwise)
    if isinstance(edit, RenameArgument):
        return file.rename(origin, edit.name, edit.to)
    raise NoPlace("this edit has no form on a command line")


def _in_commands(target: _Target, file: CommandText, edit: Edit, at: Location) -> list[Splice]:
    if isinstance(edit, SetValue):
        return file.set_value(at, edit.at.it if isinstance(edit.at, Value) else None, edit.text)
    if isinstance(edit, RenameArgument):
        return file.rename(at, edit.name, edit.to)
    if isinstance(edit, AddFlag):
        path = _location(edit.at).path
        given = {name: _given(target, path, value) for name, value in edit.variables.items()}
        return file.add_flag(at, edit.name, edit.text, given, edit.to)
    if isinstance(edit, UseModule):
        return file.use_module(at, edit.module, edit.to)
    if isinstance(edit, DropStatement):
        return file.drop_requirement(at)
    if isinstance(edit, LeaveToInnerShell):
        return file.leave_to_inner_shell(at)
    if isinstance(edit, AddVariable):
        return file.export(at, edit.name, edit.value)
    raise NoPlace("this edit has no form among commands")


def _given(target: _Target, path: str, value: Value) -> Given:
    places = (origin.location for origin in value.origins if origin.location is not None)
    place = next((it for it in places if it.path == path), None)
    return Given(str(value.it) if value.known else None, target.local(place) if place is not None else None)


def _in_python(target: _Target, file: PythonFile, edit: Edit, at: Location) -> list[Splice]:
    if isinstance(edit, SetValue):
        return file.set_value(at, edit.text)
    if isinstance(edit, SetArgument):
        return file.set_argument(at, edit.callee, edit.name, edit.text, replace=True, position=edit.position)
    if isinstance(edit, AddArgument):
        return file.set_argument(at, edit.callee, edit.name, edit.text, replace=False)
    if isinstance(edit, PassFunction):
        return file.pass_function(at, edit.callee)
    if isinstance(edit, InsertInRange):
        return file.insert_in_range(at, edit.code)
    if isinstance(edit, DropArgument):
        return file.drop_argument(at, edit.name, edit.otherwise)
    if isinstance(edit, RenameArgument):
        return file.rename_argument(at, edit.name, edit.to)
    if isinstance(edit, DropStatement):
        return file.drop_statement(at)
    if isinstance(edit, (InsertBefore, InsertAfter)):
        words = file.words(at, _words(target, _location(edit.at).path, edit.words))
        return file.insert(at, edit.code, words, after=isinstance(edit, InsertAfter))
    if isinstance(edit, AddImport):
        return file.add_import(edit.module)
    if isinstance(edit, IN_BLOCKS):
        return _in_blocks(target, file, edit, at)
    raise NoPlace("this edit has no form in Python")


def _in_blocks(target: _Target, file: PythonFile, edit: Edit, at: Location) -> list[Splice]:
    from t4lint.fix import blocks  # as libcst

    if isinstance(edit, PutUnder):
        return blocks.put_under(file, at, edit.header, edit.module)
    if isinstance(edit, StartBlockEarlier):
        return blocks.start_block_earlier(file, at, edit.method)
    if isinstance(edit, InsertFirst):
        return blocks.insert_first(file, edit.module, edit.code)
    assert isinstance(edit, InsertBeforeUse)
    made = _location(edit.made)
    if made.path != _location(edit.at).path:
        raise NoPlace("the name stands in another file")
    return blocks.insert_before_use(file, at, target.local(made), edit.code)


def _words(target: _Target, path: str, given: Mapping[str, Written]) -> dict[str, tuple[Location, Written]]:
    places = {name: (_location(word.at), word) for name, word in given.items()}
    if any(place.path != path for place, _ in places.values()):
        raise NoPlace("the names stand in another file")
    return {name: (target.local(place), word) for name, (place, word) in places.items()}
