"""What is open in the editor: texts in the place of files, notebooks put together from their cells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import Workspace

from t4lint.sources.files import DEFAULT_EXCLUDES

EXTENSIONS = {"python": ".py", "shellscript": ".sh", "yaml": ".yaml", "json": ".json", "dockerfile": ".dockerfile"}
INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of an open notebook."""

    uri: str
    is_code: bool
    text: str


@dataclass(frozen=True, slots=True)
class Buffer:
    """An open document. The `text` of a notebook is that of its file, as far as its code goes."""

    uri: str
    path: Path
    text: str
    cells: tuple[Cell, ...] = ()
    is_notebook: bool = False


Stamp = tuple[tuple[str, int | None], ...]


def stamp(workspace: Workspace) -> Stamp:
    """What tells one state of the open documents from another: their versions, and the order of cells."""
    notebooks = ((uri, it.version) for uri, it in workspace.notebook_documents.items())
    documents = ((uri, it.version) for uri, it in workspace.text_documents.items())
    return (*notebooks, *documents)


def open_buffers(workspace: Workspace) -> dict[Path, Buffer]:
    """The open documents by path. Those that are no file (a git view, an output) are left out."""
    notebooks = [_notebook(it, workspace) for it in workspace.notebook_documents.values()]
    cells = {unquote(cell.uri) for notebook in notebooks for cell in notebook.cells}
    buffers = {notebook.path: notebook for notebook in notebooks}
    for uri, document in list(workspace.text_documents.items()):
        path = path_of(document.uri, document.language_id, workspace)
        if uri not in cells and path is not None:
            buffers[path] = Buffer(document.uri, path, document.source)
    return buffers


def path_of(uri: str, language: str | None, workspace: Workspace) -> Path | None:
    """Where a document lies, or would lie: a new one stands in the first folder. None where it is no file."""
    if uri.startswith("untitled:"):
        name = uri.removeprefix("untitled:").replace("/", "-") or "Untitled"
        suffix = EXTENSIONS.get(language or "", "")
        return Path(workspace.root_path or ".").absolute() / (name if name.endswith(suffix) else name + suffix)
    return file_at(uri)


def file_at(uri: str) -> Path | None:
    """The path of a file; None for an address of anything else."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None


def is_foreign(path: Path, root: Path) -> bool:
    """Is it other people's code: an environment into which something is being installed, a library that was jumped to?"""
    below = path.relative_to(root).parts if path.is_relative_to(root) else path.parts
    return any(part in DEFAULT_EXCLUDES for part in below[:-1]) or not INSTALLED.isdisjoint(path.parts)


def uri_of(path: Path, buffers: Mapping[Path, Buffer]) -> str:
    """The editor's own name of a file: as it was opened, else made from the path."""
    return buffers[path].uri if path in buffers else from_fs_path(str(path)) or path.as_uri()


def buffer_of(uri: str, buffers: Mapping[Path, Buffer]) -> Buffer | None:
    """The open document, or the notebook of a cell."""
    plain = unquote(uri)
    for buffer in buffers.values():
        if unquote(buffer.uri) == plain or any(unquote(cell.uri) == plain for cell in buffer.cells):
            return buffer
    return None


def root_of(path: Path, workspace: Workspace) -> Path:
    """The workspace folder that a file is in (the innermost), else its own folder."""
    inside = [folder for folder in folders(workspace) if path.is_relative_to(folder)]
    return max(inside, key=lambda it: len(it.parts)) if inside else path.parent


def folders(workspace: Workspace) -> list[Path]:
    found = [to_fs_path(folder.uri) for folder in workspace.folders.values()]
    if not found and workspace.root_path:
        found = [workspace.root_path]
    return [Path(path) for path in found if path]


def notebook_text(cells: tuple[Cell, ...], language: str) -> str:
    """The text of a notebook's file: one line of a cell a line, so that places can be told."""
    listed: list[dict[str, object]] = [
        {
            "cell_type": "code" if cell.is_code else "markdown",
            "metadata": {},
            "source": cell.text.splitlines(keepends=True),
            **({"outputs": [], "execution_count": None} if cell.is_code else {}),
        }
        for cell in cells
    ]
    metadata = {"language_info": {"name": language}}
    return json.dumps({"cells": listed, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _notebook(notebook: types.NotebookDocument, workspace: Workspace) -> Buffer:
    cells = tuple(_cells(notebook, workspace))
    path = path_of(notebook.uri, None, workspace) or Path(to_fs_path(notebook.uri) or "notebook.ipynb").absolute()
    return Buffer(notebook.uri, path, notebook_text(cells, _language(notebook, workspace)), cells, is_notebook=True)


def _cells(notebook: types.NotebookDocument, workspace: Workspace) -> Iterator[Cell]:
    for cell in notebook.cells:
        document = workspace.text_documents.get(unquote(cell.document))
        text = document.source if document is not None else ""
        yield Cell(cell.document, cell.kind == types.NotebookCellKind.Code, text)


def _language(notebook: types.NotebookDocument, workspace: Workspace) -> str:
    """What most code cells are written in; the metadata of the file need not be among what the editor sends."""
    seen = [
        document.language_id or ""
        for cell in notebook.cells
        if cell.kind == types.NotebookCellKind.Code
        and (document := workspace.text_documents.get(unquote(cell.document))) is not None
    ]
    return max(set(seen), key=seen.count) if seen else "python"
