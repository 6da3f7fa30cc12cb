"""Found through PYTHONPATH by every Python child: runs the next `sitecustomize`, then starts the recorder.

It must not import torch, and must never break the program that it is loaded into.
"""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH100, PTH118, PTH120

import contextlib
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _leave_path() -> None:
    """Take our folder off the path again: children find it through PYTHONPATH."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]


def _chain() -> None:
    """Run the `sitecustomize` that would have run without us: distributions, conda and CI images have one."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _boot() -> None:
    """Load the folder above as the package `_t4lint_inside` and start it."""
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location(
        "_t4lint_inside", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        return
    package = importlib.util.module_from_spec(spec)
    sys.modules["_t4lint_inside"] = package
    spec.loader.exec_module(package)
    importlib.import_module("_t4lint_inside.boot").boot()


_leave_path()
try:
    _chain()
except Exception as error:  # what site.py itself does with a broken sitecustomize
    sys.stderr.write(f"Error in sitecustomize: {type(error).__name__}: {error}\n")
if os.environ.get("T4LINT_JOURNAL"):
    with contextlib.suppress(Exception):  # fails open: the parent sees that the journal has no process record
        _boot()
