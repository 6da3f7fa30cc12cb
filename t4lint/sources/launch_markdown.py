"""Commands in Markdown: fenced blocks of shell, with or without prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from t4lint.sources.document import Document, ShellFragment
from t4lint.sources.fragments import STARTS, Text, Written, add
from t4lint.sources.positions import TextBuilder, split_lines

_LANGUAGES = frozenset({
    "bash", "sh", "shell", "zsh", "console", "shell-session", "shellsession", "terminal", "sh-session", "bash-session", "cmd",
})  # fmt: skip
_FENCE = re.compile(r"^([ \t>]*(?:[-*+]\s+|\d{1,4}[.)]\s+)?)(`{3,}|~{3,})[ \t]*(.*)$")
# `<your_output_dir>`: for the reader to fill in, not a redirection
_PLACEHOLDER = re.compile(r"(?<![<\w$])<([A-Za-z][\w ./:-]*)>")
_PROMPT = re.compile(r"^(?:\([\w.-]+\)\s*)?(?:[\w.@:~/-]*[$%❯])[ \t]+")


def fragments(document: Document) -> list[ShellFragment]:
    """One fragment a block."""
    found: list[ShellFragment] = []
    for language, lines in _blocks(document.text):
        if not any(STARTS.search(line.text) for line in lines):
            continue
        if language not in _LANGUAGES and (language or not _all_commands(lines)):
            continue
        builder = TextBuilder()
        for line in _commands(lines):
            add(builder, [*_to_fill_in(line), "\n"])
        found.append(ShellFragment(document.path, document.file, builder.build(document.path)))
    return found


# What a command begins with, after variables that are set for it.
_COMMAND = re.compile(
    r"(?:[A-Z_][A-Z0-9_]*=\S*\s+)*(?:sudo\s+|nohup\s+|time\s+|srun\s+|sbatch\s+|env\s+|export\s+|!\s*)*"
    r"(?:python[\d.]*|torchrun|accelerate|deepspeed|mpirun|horovodrun|bash|sh|uv|pip[\d.]*|conda|mamba|git|cd|mkdir|cp|mv|rm|ln"
    r"|ls|cat|echo|wget|curl|gdown|unzip|tar|source|set|apt|apt-get|docker|make|tensorboard|huggingface-cli|kaggle|wandb"
    r"|trl|axolotl|llamafactory-cli|tune|yolo|fabric|[A-Z_][A-Z0-9_]*=\S*|\.?/?[\w./-]+\.sh)(?:\s|$)"
)


def _all_commands(lines: Sequence[Written]) -> bool:
    """Is a block that names no language nothing but shell commands and comments, with or without prompts?"""
    continued = False
    for line in lines:
        text = line.text.strip()
        if not continued and text and not text.startswith("#"):
            prompt = _PROMPT.match(text)
            if not _COMMAND.match(text[prompt.end() :] if prompt is not None else text):
                return False
        continued = text.endswith("\\")
    return True


def _to_fill_in(line: Written) -> Text:
    """The line, with what the reader has to fill in as a variable that is not known."""
    parts: Text = []
    end = 0
    for found in _PLACEHOLDER.finditer(line.text):
        name = re.sub(r"\W", "_", found[1])
        parts += [line.part(end, found.start()), line.part(found.start(), found.end()).stand_in(f"${{{name}}}")]
        end = found.end()
    return [*parts, line.part(end)]


def _blocks(text: str) -> Iterator[tuple[str, list[Written]]]:
    """Language and lines of each fenced block; one that is not closed runs to the end."""
    fence, indent, language = "", 0, ""
    lines: list[Written] = []
    for number, line in enumerate(split_lines(text), start=1):
        opening = _FENCE.match(line)
        if fence:
            stripped = line.lstrip(" \t>")
            if stripped.startswith(fence) and not stripped.strip().strip(fence[0]):
                yield language, lines
                fence = ""
                continue
            start = min(indent, len(line) - len(stripped))
            lines.append(Written.at(line[start:], number, start + 1))
        elif opening:
            fence, indent = opening[2], len(opening[1])
            language, lines = _language(opening[3]), []
    if fence:
        yield language, lines


def _language(info: str) -> str:
    """The language of `bash`, `{.bash}`, `bash title="run"`, `sh,ignore`."""
    found = re.match(r"[{.\s]*([\w-]+)", info)
    return found[1].lower() if found else ""


def _commands(lines: Sequence[Written]) -> Iterator[Written]:
    """The commands of a block: where there are prompts, what follows them, and the rest is output."""
    dollar = [re.match(r"^\s*(?:\([\w.-]+\)\s*)?[\w.@:~/-]*[$❯%][ \t]+\S", line.text) for line in lines]
    if not any(dollar):
        yield from lines
        return
    continued = False
    for line in lines:
        indent = len(line.text) - len(line.text.lstrip())
        prompt = _PROMPT.match(line.text[indent:])
        if prompt is not None:
            line = line.part(indent + prompt.end())
        elif not continued:
            yield line.part(0, 0)
            continue
        elif line.text.startswith("> "):
            line = line.part(2)
        continued = line.text.rstrip().endswith("\\")
        yield line
