"""What files ask for by themselves: libraries, machines, trainers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from t4lint.devices import Target
from t4lint.engine.judging import FILES_ONLY, NO_RUN, judge
from t4lint.findings import Problem
from t4lint.sources.document import Document
from t4lint.sources.files import find
from t4lint.trace import Event, InstanceRequest, Origin, Requirement, Trace, Value

if TYPE_CHECKING:
    from t4lint.engine.session import Session
    from t4lint.sources.environment import Asked
    from t4lint.sources.notebook import NotebookDocument

MAX_ENVIRONMENT_FILES = 200


def check_environment(session: Session, files: Sequence[Path]) -> None:
    """Judge what the files themselves ask for, by the rules over files only; one trace for each project."""
    if not any(FILES_ONLY.intersection(rule.reads) for rule in session.rules):
        return
    from t4lint.sources.environment import is_environment

    asked = [file for file in files if is_environment(file.name.lower()) or file.suffix.lower() == ".ipynb"]
    options = session.options
    below = find(
        session.folders, exclude=options.exclude, root=options.exclude_root, problems=[], wanted=is_environment
    )  # fmt: skip
    by_root: dict[Path, list[Path]] = {}
    for file in dict.fromkeys([*asked, *islice(below, MAX_ENVIRONMENT_FILES)]):
        by_root.setdefault(session.root_of(file), []).append(file)
    for listed in by_root.values():
        held = session.near(listed[0])
        trace = environment_trace(session, [file for file in listed if not session.is_excluded(file)], held.target)
        for rule in held.rules:
            if FILES_ONLY.intersection(rule.reads):
                judge(session, rule, [trace], False, NO_RUN)


def environment_trace(session: Session, files: Sequence[Path], target: Target) -> Trace:
    """What some files ask for, and the trainers that they configure, as events."""
    from t4lint.sources.environment import libraries, machines
    from t4lint.sources.trainers import trainer_file

    events: list[Event] = []
    for file in files:
        notebook = session.notebooks.get(file)
        read_as = session.read(file)
        if isinstance(read_as, Problem):
            continue
        document = replace(read_as, text=notebook.listing) if notebook is not None else read_as
        asked = libraries(read_as) if notebook is None else libraries_of_cells(notebook, read_as)
        events += [requirement_of(it) for it in asked]
        events += [
            InstanceRequest(where=where, name=Value(name, (Origin("literal", name, where),)))
            for name, where in machines(document)
        ]
        configured = trainer_file(document)
        if configured is not None:
            events.append(configured)
        session.sources.setdefault(document.path, document.text)
    return Trace("predicted", target, {}, tuple(events))


def libraries_of_cells(notebook: NotebookDocument, document: Document) -> Iterator[Asked]:
    """The libraries that the code cells of a notebook ask for, with their places."""
    from t4lint.sources.environment import libraries

    for cell, lines in enumerate(notebook.lines):
        for asked in libraries(replace(document, text=notebook.sources[cell])) if lines else ():
            where = asked.where
            first, last = lines[where.line - 1], lines[min(where.end_line, len(lines)) - 1]
            place = replace(where, line=first, end_line=last, cell=cell, cell_line=where.line)
            yield replace(asked, where=place)


def requirement_of(asked: Asked) -> Requirement:
    """A library that a file asks for, as an event."""
    need = asked.need
    origins = (Origin("key", f"{need.name} {need.bounds.text if need.bounds else ''}".strip(), asked.where),)
    bounds = need.bounds
    return Requirement(
        where=asked.where,
        role=asked.how,
        name=need.name,
        version=Value(need.pin, origins),
        low=Value(bounds.low if bounds else None, origins),
        high=Value(bounds.high if bounds else None, origins),
        elsewhere=Value(asked.elsewhere, origins),
    )
