"""Commands in YAML: GitHub and GitLab workflows, Kubernetes and its training operators, docker compose, cloud jobs.

Which tool reads a file is not asked: `run`, `command`, `args`, `script` and the like mean the same everywhere, and so do
`env`, `environment` and `working-directory` above them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from t4lint.findings import Problem
from t4lint.sources import containers, gpus
from t4lint.sources.configs import ConfigNode, config_from
from t4lint.sources.document import Container, Document, ShellFragment
from t4lint.sources.fragments import (
    MAX_FRAGMENTS,
    STARTS,
    Text,
    Written,
    add,
    add_command,
    add_export,
    add_folder,
    expressions,
    text_of,
)
from t4lint.sources.jobs import Job, job_of
from t4lint.sources.positions import Lines, TextBuilder, split_lines
from t4lint.trace import NOT_SAID, Value

# A list under these is a script, line by line; under those a command, word by word.
_SCRIPTS = ("before_script", "setup", "script", "run", "commands", "cmds", "launch_command")
# A container's own command first: with it, `command` is what compose calls the arguments.
_COMMANDS = (("entrypoint", "command"), ("command", "args"), ("cmd", "args"))
_ENVIRONMENTS = ("env", "environment", "envs", "variables", "env_vars", "environment_variables")
MAX_HELD = 16  # programs of one ConfigMap
_POD = ("hostIPC", "hostNetwork")
_FOLDERS = ("working-directory", "workingDir", "working_dir", "workdir")


@dataclass(frozen=True, slots=True)
class _Around:
    """What holds for the commands inside a mapping."""

    exports: tuple[tuple[str, ConfigNode, int], ...] = ()  # name, value, where the value starts in its text
    folder: ConfigNode | None = None
    in_container: bool = False
    container: Container | None = None
    kind: str = ""  # "compose" or "kubernetes", where the file says that it is one
    pod: Mapping[str, ConfigNode] = field(default_factory=dict)
    job: Job = field(default_factory=Job)
    gpus: Value = NOT_SAID


def fragments(document: Document) -> list[ShellFragment]:
    """The commands of a YAML file."""
    config = config_from(document.text, document.file.with_suffix(".yaml"), document.path)
    if isinstance(config, Problem):
        return []
    walker = _Walker(document)
    walker.files = tuple(walker.programs(config.documents))
    for root in config.documents:
        job = job_of(root)
        trains = root.find("spec.trainer") is not None and bool(job.variables)
        kind = _kind(root)
        held = containers.of_runtime(root) if trains else None
        given = gpus.of_manifest(root) if kind == "kubernetes" else NOT_SAID
        walker.walk(root, _Around(kind=kind, job=job, in_container=trains, gpus=given, container=held))
    return walker.found


class _Walker:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.lines = Lines(document.text)
        self.found: list[ShellFragment] = []
        self.files: tuple[Document, ...] = ()
        self.seen: set[int] = set()

    def walk(self, node: ConfigNode, around: _Around) -> None:
        """A value and all below it; as deep as YAML was let in."""
        if id(node) in self.seen or len(self.found) >= MAX_FRAGMENTS:
            return
        self.seen.add(id(node))
        if node.kind == "mapping":
            around = self.inside(node, around)
            self.commands(node, around)
        for child in (*node.entries.values(), *node.items):
            if child.kind in ("mapping", "sequence"):
                self.walk(child, around)

    def inside(self, node: ConfigNode, around: _Around) -> _Around:
        entries = node.entries
        exports = [one for name in _ENVIRONMENTS if name in entries for one in self.exports(entries[name])]
        folder = next((entries[name] for name in _FOLDERS if name in entries and entries[name].kind == "scalar"), None)
        default = node.find("defaults.run.working-directory")
        return replace(
            around,
            exports=(*around.exports, *exports)[-200:],
            folder=folder or default or around.folder,
            in_container=around.in_container or ("image" in entries and "runs-on" not in entries),
            container=self.container(node, around),
            gpus=gpus.of_service(node) if around.kind == "compose" and _is_service(node) else around.gpus,
            pod={**around.pod, **{name: entries[name] for name in _POD if name in entries}},
        )

    def container(self, node: ConfigNode, around: _Around) -> Container | None:
        """What the container that starts here gives its commands; else that around it."""
        if around.kind == "compose" and _is_service(node):
            return containers.of_service(node)
        if around.kind == "kubernetes" and "image" in node.entries:
            return containers.of_pod(node, around.pod)
        return around.container

    def exports(self, node: ConfigNode) -> Iterator[tuple[str, ConfigNode, int]]:
        """`A: b`, `- A=b`, `- name: A, value: b`"""
        for name, value in node.entries.items():
            if value.kind == "scalar" and value.value is not None:
                yield name, value, 0
        for item in node.items:
            name_node, value_node = item.entries.get("name"), item.entries.get("value")
            if name_node is not None and value_node is not None and value_node.kind == "scalar":
                yield str(name_node.value), value_node, 0
            elif isinstance(item.value, str) and "=" in item.value:
                name = item.value.partition("=")[0]
                yield name, item, len(name) + 1

    # --- commands ------------------------------------------------------------------------------------------------

    def commands(self, node: ConfigNode, around: _Around) -> None:
        entries = node.entries
        used: set[str] = set()
        for first, second in _COMMANDS:
            if first in entries and not used:
                used |= {first, second}
                self.command([entries[name] for name in (first, second) if name in entries], around)
        if "args" in entries and "args" not in used:
            self.command([entries["args"]], around)
        for name in _SCRIPTS:
            if name in entries:
                self.script(entries[name], around)

    def command(self, nodes: list[ConfigNode], around: _Around) -> None:
        """`command: [python, train.py]` with `args: [...]`, or either as a text."""
        words: list[Text] = []
        for node in nodes:
            if node.kind == "scalar" and len(nodes) == 1:
                self.script(node, around)
                return
            if node.kind == "scalar" and isinstance(node.value, str):
                words.extend(_split(self.text(node)))
            words.extend(self.text(item) for item in node.items if item.kind == "scalar")
        if words:
            builder = self.preamble(around)
            add_command(builder, words, expanded=True)
            self.fragment(builder, around)

    def script(self, node: ConfigNode, around: _Around) -> None:
        """A text, or a list of lines."""
        texts = [self.text(item) for item in (node.items or [node]) if isinstance(item.value, str)]
        if not any(STARTS.search(text_of(text)) for text in texts):
            return
        builder = self.preamble(around)
        for text in texts:
            add(builder, list(expressions(text)))
            builder.fill("\n")
        self.fragment(builder, around)

    def preamble(self, around: _Around) -> TextBuilder:
        builder = TextBuilder()
        for given in around.job.variables:
            place = given.where.key or given.where.location
            builder.fill(f"export {given.name}=")
            builder.stand_in(
                given.value or f"${given.name}_OF_THE_POD", place.line, place.column, place.end_line, place.end_column
            )
            builder.fill("\n")
        for name, value, start in around.exports:
            text = self.text(value)
            if len(text) == 1 and isinstance(text[0], Written):
                add_export(builder, name, [text[0].part(start)])
        if around.folder is not None:
            add_folder(builder, list(expressions(self.text(around.folder))))
        return builder

    def fragment(self, builder: TextBuilder, around: _Around) -> None:
        path = self.document.path
        fragment = ShellFragment(
            path, self.document.file, builder.build(path), around.in_container, around.container,
            around.job.pods, around.job.slots, around.gpus, self.files,
        )  # fmt: skip
        self.found.append(fragment)

    def programs(self, roots: Sequence[ConfigNode]) -> Iterator[Document]:
        """The Python files that ConfigMaps hold, which pods mount anywhere: as if they lay beside the manifest."""
        for root in roots:
            kind, data = root.entries.get("kind"), root.entries.get("data")
            if kind is None or kind.value != "ConfigMap" or data is None:
                continue
            for name, node in list(data.entries.items())[:MAX_HELD]:
                if name.endswith(".py") and isinstance(node.value, str) and "/" not in name:
                    builder = TextBuilder()
                    add(builder, self.text(node))
                    positions = builder.build(self.document.path)
                    file = Path(os.path.normpath(Path.cwd() / self.document.file)).parent / name
                    yield Document(self.document.path, file, "python", positions.text, positions)

    # --- scalars -------------------------------------------------------------------------------------------------

    def text(self, node: ConfigNode) -> Text:
        """A scalar as it is written, line by line where that can be said."""
        place = node.location
        whole = Written(
            "" if node.value is None else str(node.value),
            place.line, place.column, place.end_line, place.end_column, False,
        )  # fmt: skip
        start = self.lines.offset(place.line, place.column)
        raw = self.document.text[start : self.lines.offset(place.end_line, place.end_column)]
        tag = re.match(r"(?:[&!]\S*\s+)+", raw)
        if tag is not None:
            start, raw = start + tag.end(), raw[tag.end() :]
        if node.style in ("literal", "folded"):
            return self.block(start, raw, node.style == "folded") or [whole]
        if node.style == "quoted":
            quote, inner = raw[:1], raw[1:-1]
            if quote not in ("'", '"') or ("\\" in inner if quote == '"' else "''" in inner):
                return [whole]
            return self.flow(start + 1, inner)
        return self.flow(start, raw)

    def flow(self, start: int, raw: str) -> Text:
        """A plain or quoted scalar: its lines are joined by blanks, and an empty one ends a line."""
        found: Text = []
        offset = start
        for number, line in enumerate(raw.splitlines(keepends=True) or [raw]):
            stripped = line.strip() if number else line.rstrip("\r\n")
            if number:
                found.append(" " if stripped else "\n")
            if stripped:
                found.append(Written.at(stripped, *self.lines.place(offset + line.index(stripped))))
            offset += len(line)
        return found

    def block(self, start: int, raw: str, folded: bool) -> Text:
        """`|` and `>`: the lines below, without their indentation."""
        header, *lines = split_lines(raw)
        explicit = re.search(r"[1-9]", header.partition("#")[0])
        first = next((line for line in lines if line.strip()), "")
        indent = len(first) - len(first.lstrip(" "))
        if explicit is not None:
            indent = min(indent, self.lines.place(start)[1] - 1 + int(explicit[0]))
        number = self.lines.place(start)[0]
        found: Text = []
        before = ""
        for index, line in enumerate(lines, start=1):
            if line.strip() and len(line) - len(line.lstrip(" ")) < indent:
                break  # a comment after the block
            body = line[indent:]
            if found:
                found.append(" " if folded and _folds(before, body) else "\n")
            found.append(Written.at(body, number + index, indent + 1))
            before = body
        return found


def _kind(root: ConfigNode) -> str:
    if "services" in root.entries and "kind" not in root.entries:
        return "compose"
    return "kubernetes" if {"apiVersion", "kind"} <= root.entries.keys() else ""


def _is_service(node: ConfigNode) -> bool:
    return "image" in node.entries or "build" in node.entries


def _folds(before: str, body: str) -> bool:
    """Are two lines of a folded block one? Not where they are indented further, but a flag on a line of its own is meant
    for the command above, and what splits words at blanks (compose, Kubernetes operators) takes it so.
    """
    if not before or not body:
        return False
    return body.lstrip().startswith("-") or not (before[0] in " \t" or body[0] in " \t")


def _split(text: Text) -> list[Text]:
    """The words of a short command in one line: `entrypoint: python train.py`."""
    words: list[Text] = []
    for part in text:
        if isinstance(part, Written):
            words.extend([part.part(found.start(), found.end())] for found in re.finditer(r"\S+", part.text))
    return words
