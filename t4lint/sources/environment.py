"""What a project asks to be installed and rented: requirements and instance types, each with its place.

These are read from the files alone, whatever program they are for. A file that names many instance types is a table of
them, not a request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from t4lint.findings import Problem
from t4lint.sources.configs import ConfigNode, config_from
from t4lint.sources.document import Document
from t4lint.sources.files import SHELL_SUFFIXES
from t4lint.sources.positions import Lines
from t4lint.sources.requirements import Need, conda, need
from t4lint.trace import Location

MAX_TEXT = 1_000_000  # characters
MAX_TYPES = 4  # different instance types in one file that still are requests
REQUIREMENT_FILE = re.compile(r"(?:^|[-_.])requirements[\w.-]*\.txt$|^requirements$")
ENVIRONMENTS = ("environment.yml", "environment.yaml", "env.yml", "conda.yml", "conda.yaml")
PYPROJECT = "pyproject.toml"
# Requirement files that nobody needs for a run: of documentation, tests and tools, of extras and of other hardware.
OPTIONAL = re.compile(
    r"(?:^|[-_./])(?:doc|docs|test|tests|dev|lint|optional|extra|extras|benchmark|flash|flash-attn|flash_attn|npu|rocm|amd|xpu|"
    r"hpu|gaudi|tpu|mps|macos|cpu|a100|h100|ampere|hopper)(?:$|[-_./])"
)
# Images and scripts for other hardware.
ELSEWHERE = re.compile(r"(?:^|[-_./])(?:npu|rocm|amd|xpu|hpu|gaudi|tpu|mps|macos|cpu)(?:$|[-_./])")
_INSTALL = re.compile(r"(?:\bpip3?(?:\.\d+)?|\buv\s+pip)\s+install\b")
_END = re.compile(r"&&|\|\||[;|&>]|(?<=\s)#")
_WORD = re.compile(r"\"[^\"]*\"|'[^']*'|\S+")
_TAKES_VALUE = frozenset({
    "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--constraint", "-r", "--requirement", "-e",
    "--editable", "-t", "--target", "--python", "-p", "--platform", "--index", "--torch-backend", "--extra", "--group",
})  # fmt: skip
# Names of machines with GPUs, as their providers write them.
_INSTANCE = re.compile(
    r"(?<![\w.-])(?:GN7\.\w+|GI3X\.\w+|(?:ecs\.)?(?:ebm|v)?gn[67]\w*-?[\w-]*(?:\.\w+)+|g4dn\.\w+|Standard_NC\w*T4_v3|"
    r"pi2\.\w+\.\d+)(?![\w.-])"
)
_COMMENT = re.compile(r"^\s*(?:#|//|\*|--)")


@dataclass(frozen=True, slots=True)
class Asked:
    """A library that is asked for. `how`: "file", "command" or "optional"; `elsewhere`: its wheels come from another index."""

    need: Need
    where: Location
    how: str
    elsewhere: bool = False


def is_environment(name: str) -> bool:
    """Could a file of this name, in lower case, ask for libraries or machines?"""
    return bool(REQUIREMENT_FILE.search(name)) or name in ENVIRONMENTS or name == PYPROJECT or is_request(name)


def is_request(name: str) -> bool:
    """Could it install by commands, or request a machine?"""
    return (
        name.startswith(("dockerfile", "containerfile"))
        or name.endswith((".dockerfile", ".tf", ".tfvars", ".yaml", ".yml", *SHELL_SUFFIXES))
    )  # fmt: skip


def libraries(document: Document) -> list[Asked]:
    """The libraries that a file asks for, with their places."""
    name = document.file.name.lower()
    if len(document.text) > MAX_TEXT:
        return []
    if REQUIREMENT_FILE.search(name):
        return list(_lines(document, "optional" if OPTIONAL.search(document.path.lower()) else "file"))
    if name in ENVIRONMENTS:
        return list(_conda(document))
    if name == PYPROJECT:
        return list(_pyproject(document))
    if ELSEWHERE.search(document.path.lower()):
        return []
    return list(_commands(document))


def machines(document: Document) -> list[tuple[str, Location]]:
    """The instance types that a file requests, with their places; none of a table of many."""
    if len(document.text) > MAX_TEXT or document.file.suffix == ".ipynb":
        return []
    lines = Lines(document.text)
    found = []
    for match in _INSTANCE.finditer(document.text):
        start = document.text.rfind("\n", 0, match.start()) + 1
        if not _COMMENT.match(document.text[start : match.start() + 1]):
            found.append((match[0], lines.location(document.path, match.start(), match.end())))
    return found if len({name for name, _ in found}) <= MAX_TYPES else []


def _lines(document: Document, how: str) -> Iterator[Asked]:
    """A requirement file, line by line."""
    lines = Lines(document.text)
    elsewhere = "download.pytorch.org" in document.text or "--find-links" in document.text
    offset = 0
    for line in document.text.splitlines(keepends=True):
        found = need(line.rstrip("\\\r\n"))
        if found is not None:
            start = offset + len(line) - len(line.lstrip())
            end = start + len(re.split(r"\s*(?:#|;|\s--)", line.strip())[0])
            yield Asked(found, lines.location(document.path, start, end), how, elsewhere)
        offset += len(line)


def _conda(document: Document) -> Iterator[Asked]:
    """conda's `dependencies` and its `pip:` list."""
    config = config_from(document.text, document.file, document.path)
    listed = None if isinstance(config, Problem) else config.data.find("dependencies")
    for node in listed.items if listed is not None else ():
        if isinstance(node.value, str):
            yield from _node(node, conda(node.value))
        pip = node.find("pip") if node.kind == "mapping" else None
        for line in pip.items if pip is not None else ():
            yield from _node(line, need(str(line.value)))


def _node(node: ConfigNode, found: Need | None) -> Iterator[Asked]:
    if found is not None:
        yield Asked(found, node.location, "file", elsewhere=True)


def _pyproject(document: Document) -> Iterator[Asked]:
    """`project.dependencies`, whose strings are looked up in the text; extras are optional."""
    from t4lint.sources.versions import project_lists

    lines = Lines(document.text)
    required, optional = project_lists(document.text)
    for texts, how in ((required, "file"), (optional, "optional")):
        for text in texts:
            found = need(text)
            start = document.text.find(text)
            if found is not None and start >= 0:
                yield Asked(found, lines.location(document.path, start, start + len(text)), how)


def _commands(document: Document) -> Iterator[Asked]:
    """What `pip install` in a script, a Dockerfile, a workflow or a notebook asks for."""
    lines = Lines(document.text)
    for match in _INSTALL.finditer(document.text):
        first = document.text.rfind("\n", 0, match.start()) + 1
        if _COMMENT.match(document.text[first : match.start() + 1]) or "echo " in document.text[first : match.start()]:
            continue
        end = _command_end(document.text, match.end())
        text = document.text[match.end() : end]
        elsewhere = "--index-url" in text or "-f " in text or "--find-links" in text or "--extra-index-url" in text
        how = "optional" if _switched_off(document.text, match.start()) else "command"
        skip = False
        for word in _WORD.finditer(text.replace("\\", " ")):
            if skip or word[0].startswith("-"):
                skip = not skip and word[0] in _TAKES_VALUE
                continue
            plain = word[0].strip("\"'")
            found = need(plain) if "/" not in plain.partition("@")[0] and "$" not in plain else None
            if found is not None:
                quote = 1 if plain != word[0] else 0
                start = match.end() + word.start() + quote
                yield Asked(found, lines.location(document.path, start, start + len(plain)), how, elsewhere)


# `if [ "${WITH_FLASH}" == "true" ]`, before a command that only then runs.
_GUARD = re.compile(r"""\bif \[+ *"?\$\{?(\w+)\}?"? *={1,2} *["']?([\w.-]+)["']? *\]""")
_GUARD_ENDS = re.compile(r"(?:^|[;&\s])(?:fi|else|elif)\b")
_GUARDED = 600  # characters after the test


def _switched_off(text: str, start: int) -> bool:
    """Does the command stand under a test on a variable whose default in the same file is another value?"""
    before = text[max(0, start - _GUARDED) : start]
    guards = list(_GUARD.finditer(before))
    if not guards or _GUARD_ENDS.search(before, guards[-1].end()):
        return False
    name, wanted = guards[-1].groups()
    default = re.search(
        rf"""^[ \t]*(?:ARG|ENV|export)?[ \t]*{name}=["']?(?:\$\{{{name}:-)?([\w.-]*)""", text, re.MULTILINE
    )
    return default is not None and default[1] != wanted


def _command_end(text: str, start: int) -> int:
    """Where the command ends: at its line's end that no backslash continues, or at what separates commands."""
    position = start
    while True:
        newline = text.find("\n", position)
        stop = len(text) if newline < 0 else newline
        ended = _END.search(text, position, stop)
        # `torch>=2.0` holds no redirection
        while ended is not None and ended[0] == ">" and text[ended.start() : ended.start() + 2] in (">=", "> "):
            ended = _END.search(text, ended.end(), stop)
        if ended is not None:
            return ended.start()
        if newline < 0 or not text[:newline].rstrip("\r").endswith("\\"):
            return stop
        position = newline + 1
