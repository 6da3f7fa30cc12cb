"""Imports: project files are loaded and run once, everything else is a library."""

from __future__ import annotations

import ast
import os.path
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from t4lint.findings import Problem
from t4lint.interpret.values import Abstract, Const, ListValue, ProjectModule, Scope, Symbol, Unknown
from t4lint.libraries import registry
from t4lint.sources import disk
from t4lint.sources.files import is_folder
from t4lint.sources.versions import required
from t4lint.trace import Call

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine

MAX_IMPORT_DEPTH = 25


def import_names(m: Machine, node: ast.Import) -> object:
    from t4lint.interpret.statements import DEAD, bind

    for alias in node.names:
        if missing_library(m, alias.name):
            return DEAD
        say_import(m, alias.name, node)
        value = import_module(m, alias.name)
        if alias.asname is not None:
            bind(m, alias.asname, value)
        else:
            top = alias.name.partition(".")[0]
            bind(m, top, value if top == alias.name else import_module(m, top))
    return None


def import_from(m: Machine, node: ast.ImportFrom) -> object:
    from t4lint.interpret.statements import DEAD, bind

    name = node.module or ""
    if not node.level and missing_library(m, name):
        return DEAD
    if not node.level:
        say_import(m, name, node)
    module = relative_module(m, name, node.level) if node.level else import_module(m, name)
    for alias in node.names:
        if alias.name != "*":
            bind(m, alias.asname or alias.name, member(m, module, alias.name))
        elif isinstance(module, ProjectModule):
            for key, value in list(module.scope.names.items()):
                if not key.startswith("_"):
                    bind(m, key, value)
    return None


def missing_library(m: Machine, name: str) -> bool:
    """Libraries whose absence a program guards against; one that does not needs it, and is run where it is."""
    return bool(m.catching) and registry.is_absent(name.partition(".")[0]) and local_file(m, name) is None


# Libraries that are built for the GPU that they run on.
KERNELS = frozenset({"flash_attn", "flash_attn_interface"})


def say_import(m: Machine, name: str, node: ast.AST) -> None:
    """An import of kernels that nothing catches when they are missing."""
    top = name.partition(".")[0]
    helpers = name.startswith("flash_attn.bert_padding")  # plain PyTorch
    if top in KERNELS and not helpers and not m.catching and not m.uncalled and local_file(m, top) is None:
        with m.at(m.frames[-1].source, node):
            m.emit(Call, "import", function=f"import {top}", arguments={})


def member(m: Machine, module: Abstract, name: str) -> Abstract:
    if isinstance(module, ProjectModule):
        if name in module.scope.names:
            return m.resolve(module.scope.names[name])
        return submodule(m, module, name) or Unknown(
            f"{name} is not defined in {module.source.path}", uid=f"{module.source.name}.{name}"
        )
    return m.attribute(module, name)


# Libraries that a training environment for the target has; others that a program guards may be missing.
PRESENT = frozenset({
    "torch", "torchvision", "torchaudio", "transformers", "numpy", "accelerate", "trl", "peft", "datasets", "tqdm", "yaml",
    "tokenizers", "safetensors", "huggingface_hub", "lightning", "pytorch_lightning", "timm",
})  # fmt: skip
MISSING_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})


def optional(m: Machine, node: ast.Try) -> str:
    """The third-party library whose import a `try` guards; empty when it guards none that may be missing."""
    if not node.handlers or not any(_catches_missing(handler) for handler in node.handlers):
        return ""
    for statement in node.body:
        top = _imported_top(statement)
        if top and is_installed(m, top) is None:
            return top
    return ""


def _catches_missing(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) and handler.type.elts else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in MISSING_ERRORS for kind in kinds)


def _imported_top(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Import):
        return statement.names[0].name.partition(".")[0]
    if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        return statement.module.partition(".")[0]
    return ""


def script_of(m: Machine) -> Path:
    return Path(m.frames[0].source.document.file)


def local_file(m: Machine, name: str) -> Path | None:
    """The project's file for an absolute name: beside the script, where the program looks too, else near the file."""
    file, script = Path(m.frames[-1].source.document.file), script_of(m)
    if file.parent != script.parent:
        first = next((it for base in (script.parent, *added_folders(m)) if (it := m.project.find_in(base, name))), None)
        if first is not None and first != file:
            return first
    found = m.project.find(name, file) or m.project.find(name, script)
    return found or next((it for base in added_folders(m) if (it := m.project.find_in(base, name))), None)


def added_folders(m: Machine) -> list[Path]:
    """Folders of the project that the program put on `sys.path`: relative ones from the script, the root or where it runs."""
    added = m.globals.get("sys.path")
    folders = []
    for item in added.items if isinstance(added, ListValue) else ():
        value = m.resolve(item)
        if isinstance(value, Const) and isinstance(value.value, (str, PurePath)) and str(value.value):
            for base in (script_of(m).parent, m.project.root, m.project.cwd):
                folder = Path(os.path.normpath(base / value.value))
                if is_folder(folder) and m.project.contains(folder):
                    folders.append(folder)
    return folders


def is_installed(m: Machine, name: str) -> bool | None:
    """Is a module there where the program runs? Known for the project's own, for what the project pins, and what is never."""
    top = name.partition(".")[0]
    if top in PRESENT or top in sys.stdlib_module_names or local_file(m, name) is not None:
        return True
    if registry.is_absent(top):
        return False
    distribution = DISTRIBUTIONS.get(top, top.replace("_", "-"))
    if "$required" not in m.globals:
        m.globals["$required"] = required(m.project.root, script_of(m).parent)
    return True if distribution in m.versions or distribution in m.globals["$required"] else None


# import name → distribution, where they differ
DISTRIBUTIONS = {
    "flash_attn": "flash-attn", "PIL": "pillow", "cv2": "opencv-python", "sklearn": "scikit-learn",
    "transformer_engine": "transformer-engine", "liger_kernel": "liger-kernel", "pytorch_lightning": "pytorch-lightning",
}  # fmt: skip


# Libraries whose name many projects give to a module of their own, which is found first when it stands beside the script.
SHADOWED = frozenset({"datasets"})


def beside(m: Machine, name: str) -> Path | None:
    """The file of a module where Python looks before the installed packages, or where the program tells it to look."""
    folders = (script_of(m).parent, *added_folders(m))
    return next((file for folder in folders if (file := m.project.find_in(folder, name))), None)


def import_module(m: Machine, name: str) -> Abstract:
    """A module by its absolute name."""
    top = name.partition(".")[0]
    find = beside if top in SHADOWED else local_file
    file = None if registry.is_library(top) and top not in SHADOWED else find(m, name)
    if file is None and top == name and not registry.is_library(top) and (folder := bare_folder(m, name)):
        return namespace(m, folder)
    if file is None:
        m.imported.add(top)
        importing(m).add(top)
        return Symbol(registry.canonical(name))
    return load(m, file, name)


def is_no_module(m: Machine, name: str) -> bool:
    """Does a dotted name begin with a package of the project, and name no module in it?"""
    top, dot, _ = name.partition(".")
    if not dot or registry.is_library(top) or local_file(m, name) is not None:
        return False
    if local_file(m, top) is None and bare_folder(m, top) is None:
        return False
    return bare_folder(m, name.replace(".", os.sep)) is None


def bare_folder(m: Machine, name: str) -> Path | None:
    """A folder of the project that is imported as a package and has no `__init__.py`."""
    places = (script_of(m).parent, *added_folders(m), m.project.root)
    folders = (base / name for base in places)
    return next((it for it in folders if is_folder(it) and m.project.contains(it) and has_module(it)), None)


def has_module(folder: Path) -> bool:
    return any(name.endswith(".py") for name in disk.names(folder))


def relative_module(m: Machine, name: str, level: int) -> Abstract:
    folder = Path(m.frames[-1].source.document.file).parent
    for _ in range(level - 1):
        folder = folder.parent
    base = folder.joinpath(*name.split(".")) if name else folder
    for candidate in (base.with_suffix(".py") if name else None, base / "__init__.py"):
        if candidate is not None and m.project.has(candidate) and m.project.contains(candidate):
            return load(m, candidate, name or folder.name)
    if is_folder(base) and m.project.contains(base):
        return namespace(m, base)
    return Unknown(f"the module {'.' * level}{name} was not found", uid=f"module {base}")


def namespace(m: Machine, folder: Path) -> Abstract:
    """A folder without `__init__.py`: only its submodules can be reached."""
    module = ProjectModule(m.frames[-1].source, Scope())
    m.globals[f"folder {id(module)}"] = folder
    return module


def submodule(m: Machine, module: ProjectModule, name: str) -> Abstract | None:
    folder = m.globals.get(f"folder {id(module)}")
    if folder is None:
        file = Path(module.source.document.file)
        if file.name != "__init__.py":
            return None
        folder = file.parent
    for candidate in (folder / f"{name}.py", folder / name / "__init__.py"):
        if m.project.has(candidate) and m.project.contains(candidate):
            return load(m, candidate, f"{module.source.name}.{name}")
    return None


def importing(m: Machine) -> set[Path | str]:
    """What the module at hand imports, project files and libraries; what its functions import when called is not noted."""
    frame = m.frames[-1]
    if frame.function is not None:
        return set()
    return m.project.imports.setdefault(Path(frame.source.document.file), set())


def load(m: Machine, file: Path, name: str) -> Abstract:
    """Load a module of the project and run it once in this interpretation."""
    importing(m).add(file)
    key = f"module {file}"
    if key in m.globals:
        loaded: Abstract = m.globals[key]
        return loaded
    source = m.project.load(file, name)
    if isinstance(source, Problem):
        return Unknown(f"{source.path} {source.message}", uid=key)
    module = ProjectModule(source, Scope())
    m.globals[key] = module
    if sum(1 for frame in m.frames if frame.function is None) > MAX_IMPORT_DEPTH:
        m.notes.append(f"{source.path} was not read: imports are nested too deeply")
        return module
    run_module(m, module)
    return module


def run_module(m: Machine, module: ProjectModule, main: bool = False) -> None:
    from t4lint.interpret import statements
    from t4lint.interpret.machine import Frame
    from t4lint.interpret.values import Const

    module.scope.names["__name__"] = Const("__main__" if main else module.source.name)
    module.scope.names["__file__"] = Const(str(module.source.document.file))
    control, path, last = m.control, m.path, m.last
    m.last = main
    m.frames.append(Frame(module.source, module.scope, ends=main, forks=m.forks))
    try:
        statements.run(m, module.source.tree.body)
    finally:
        m.frames.pop()
        m.control, m.path, m.last = control, path, last
