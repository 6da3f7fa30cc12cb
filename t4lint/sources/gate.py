"""The byte gate: can any enabled rule have something to say about a run? Decided on text alone, before any parse.

A run is more than its script: what the script imports from its project, and the shell lines that launch it, count too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from t4lint.sources.files import is_file

IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n#;]*)|import[ \t]+([\w. ,\t]+))", re.MULTILINE
)
WORD = re.compile(r"^[ \t(]*(\w+)")
READS = (
    "yaml", "json", "OmegaConf", "hydra", "HfArgumentParser", "TrlParser", "deepspeed", "LightningCLI", "toml", "configparser",
    "yacs", "dotenv", "ml_collections", "import_module", "spec_from_file_location", "exec(", "Fabric(", "environ",
)  # fmt: skip
TRAINS = ("torch", "transformers", "trl", "accelerate", "lightning", "instantiate(", "deepspeed")
MAX_FILES = 300  # of one run that are looked at before it is taken as relevant

Finder = Callable[[str, Path], "Path | None"]
Reader = Callable[[Path], "str | None"]


class Gate:
    """Remembers per file whether it holds a trigger, and which project files it imports."""

    def __init__(self, triggers: Iterable[str], find: Finder, read: Reader) -> None:
        self.triggers = tuple(dict.fromkeys(triggers))
        self.find = find
        self.read = read
        self.holds: dict[Path, bool] = {}
        self.imports: dict[Path, tuple[Path, ...]] = {}
        self.unresolved: dict[Path, tuple[str, ...]] = {}  # names in import lines that lead to no file of the project

    def passes(self, script: Path, launches: Iterable[str] = ()) -> bool:
        """Does the script, a file that it imports, or a launch of it hold a trigger of an enabled rule?"""
        if any(self.triggered(text) for text in launches):
            return True
        pending, seen = [script], {script}
        while pending:
            file = pending.pop()
            self.look(file, script)
            if self.holds[file] or len(seen) > MAX_FILES:
                return True
            new = [found for found in self.imports[file] if found not in seen]
            seen.update(new)
            pending.extend(new)
        return False

    def triggered(self, text: str) -> bool:
        if any(trigger in text for trigger in self.triggers):
            return True
        # a training program that reads a configuration file may hold the trigger there
        return any(word in text for word in READS) and any(word in text for word in TRAINS)

    def look(self, file: Path, script: Path) -> None:
        if file in self.holds:
            return
        text = self.read(file) or ""
        self.holds[file] = self.triggered(text)
        found: dict[Path, None] = {}
        nowhere: list[str] = []
        for name, inside in imported(text):
            module = self.resolve(name, file, script)
            if module is not None:
                found[module] = None
            if module is None or module.name == "__init__.py":
                submodules = [self.submodule(name, item, file, script) for item in inside]
                found |= dict.fromkeys(path for path in submodules if path is not None)
                if module is None and not any(submodules):
                    nowhere.append(name)
        self.imports[file], self.unresolved[file] = tuple(found), tuple(dict.fromkeys(nowhere))

    def submodule(self, name: str, item: str, file: Path, script: Path) -> Path | None:
        """The file of `item` in `from name import item`, where that is a module."""
        if name.startswith("."):
            return self.resolve(name + item if name.strip(".") == "" else f"{name}.{item}", file, script)
        return self.find(f"{name}.{item}", file) or self.find(f"{name}.{item}", script)

    def resolve(self, name: str, file: Path, script: Path) -> Path | None:
        if not name.startswith("."):
            return self.find(name, file) or self.find(name, script) or self.find(name.partition(".")[0], script)
        level = len(name) - len(name.lstrip("."))
        folder = file.parent
        for _ in range(level - 1):
            folder = folder.parent
        base = folder.joinpath(*[part for part in name.lstrip(".").split(".") if part])
        module = [base.with_suffix(".py")] if base.name else []  # `from ..... import a` may lead above all folders
        return next((path for path in (*module, base / "__init__.py") if is_file(path)), None)


def imported(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The module names in import lines, wherever they stand, each with what is taken from it."""
    for source, items, names in IMPORT.findall(text):
        if source:
            found = (WORD.match(item) for line in items.splitlines() for item in line.partition("#")[0].split(","))
            yield source, tuple(item[1] for item in found if item)
        for name in names.split(","):
            word = name.split()[0] if name.split() else ""
            if word:
                yield word, ()
