"""Which scripts have to be checked together: those that share modules, one way or another.

What one run has entered is not looked at again in another, and a module that a run imports is no program of its own. So scripts
belong together when one imports the other or both import a third file. Nothing passes between the parts: they can be checked in
any order, at the same time and on other machines, and give the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from t4lint.sources.gate import Gate


class Together:
    """Sets of files that belong together (a union-find)."""

    def __init__(self) -> None:
        self.above: dict[Path, Path] = {}

    def head(self, file: Path) -> Path:
        while (above := self.above.setdefault(file, file)) != file:
            self.above[file] = self.above[above]
            file = above
        return file

    def join(self, one: Path, other: Path) -> None:
        self.above[self.head(one)] = self.head(other)


class Names:
    """Where the Python files of a project are found that a program may import after a change of `sys.path`."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.files: dict[str, list[Path]] = {}
        for file in files:
            for name in (file.stem, file.parent.name):
                self.files.setdefault(name, []).append(file)

    def of(self, module: str) -> list[Path]:
        first = module.lstrip(".").partition(".")[0]
        return [] if first in sys.stdlib_module_names else self.files.get(first, [])


def parts(
    scripts: Sequence[Path], root_of: Callable[[Path], Path], gate_of: Callable[[Path], Gate]
) -> list[list[Path]]:
    """The scripts in sets that belong together, each in the given order."""
    by_root: dict[Path, list[Path]] = {}
    for script in scripts:
        by_root.setdefault(root_of(script), []).append(script)
    together = Together()
    for files in by_root.values():
        names, seen = Names(files), set[Path]()
        for script in files:
            follow(script, gate_of(script), names, together, seen)
    found: dict[tuple[Path, Path], list[Path]] = {}
    for script in scripts:
        found.setdefault((root_of(script), together.head(script)), []).append(script)
    return list(found.values())


def follow(script: Path, gate: Gate, names: Names, together: Together, seen: set[Path]) -> None:
    """Join a script with all files that it may import, and those that these import."""
    pending = [script]
    while pending:
        file = pending.pop()
        if file in seen:
            continue
        seen.add(file)
        gate.look(file, script)
        reached = list(gate.imports[file])
        for name in gate.unresolved[file]:
            reached += names.of(name)
        for other in reached:
            together.join(file, other)
            pending.append(other)
