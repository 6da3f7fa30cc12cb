"""Shell inside files of other kinds: workflows and other YAML, Dockerfiles, Makefiles, Markdown."""

from __future__ import annotations

from collections.abc import Callable

from t4lint.sources.document import Document, ShellFragment
from t4lint.sources.files import SUFFIXES
from t4lint.sources.fragments import MAX_FRAGMENTS, STARTS

MAX_TEXT = 2_000_000  # characters of a file
YAML = (".yaml", ".yml")
TASK_FILES = ("justfile", ".justfile", "tox.ini", "pyproject.toml", "pixi.toml")
MARKDOWN = (".md", ".markdown", ".mdx")


def is_launch_file(name: str) -> bool:
    """Could a file of this name hold launch commands? (A shell script is one itself, and none of these.)"""
    return _reader(name) is not None


def embedded_shell(document: Document) -> list[ShellFragment]:
    """The shell commands in a file, each with what is in force where it runs; only those that could start a script."""
    reader = _reader(document.file.name)
    if reader is None or len(document.text) > MAX_TEXT or not (reader is _editor or STARTS.search(document.text)):
        return []
    found = [fragment for fragment in reader(document) if STARTS.search(fragment.text)]
    return found[:MAX_FRAGMENTS]


def _reader(name: str) -> Callable[[Document], list[ShellFragment]] | None:
    name = name.lower()
    if name.endswith(SUFFIXES):
        return None
    if name.endswith(YAML):
        return _yaml
    if name.endswith(MARKDOWN):
        return _markdown
    if name.startswith(("dockerfile", "containerfile")) or name.endswith((".dockerfile", ".containerfile")):
        return _dockerfile
    if name in ("makefile", "gnumakefile") or name.startswith("makefile.") or name.endswith((".mk", ".mak")):
        return _makefile
    if name == "launch.json":
        return _editor
    if name in TASK_FILES or name.endswith(".rst"):
        return _tasks
    return None


# Each is imported when a file of its kind is met: most projects have one or two of them.


def _yaml(document: Document) -> list[ShellFragment]:
    from t4lint.sources.launch_yaml import fragments

    return fragments(document)


def _markdown(document: Document) -> list[ShellFragment]:
    from t4lint.sources.launch_markdown import fragments

    return fragments(document)


def _dockerfile(document: Document) -> list[ShellFragment]:
    from t4lint.sources.launch_dockerfile import fragments

    return fragments(document)


def _makefile(document: Document) -> list[ShellFragment]:
    from t4lint.sources.launch_makefile import fragments

    return fragments(document)


def _editor(document: Document) -> list[ShellFragment]:
    from t4lint.sources.launch_editor import fragments

    return fragments(document)


def _tasks(document: Document) -> list[ShellFragment]:
    from t4lint.sources import launch_tasks

    name = document.file.name.lower()
    if name.endswith(".rst"):
        return launch_tasks.rst(document)
    if name.endswith(".toml"):
        return launch_tasks.toml_tasks(document)
    return launch_tasks.tox(document) if name == "tox.ini" else launch_tasks.justfile(document)
