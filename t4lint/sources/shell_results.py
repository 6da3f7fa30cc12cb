"""What a few commands print that scripts count and calculate with: `expr`, `echo`, `tr`, `wc`, `awk '{print NF}'`, the GPUs that
`nvidia-smi` or torch lists. Nothing is run; any other command is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence

EACH_GPU = "one process for each GPU that is there"  # why a number is not known: the machine says it
ALL_GPUS = f"the number of GPUs: {EACH_GPU}"
_SETS = {"\\n": "\n", "\\t": "\t", "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "[:lower:]": "abcdefghijklmnopqrstuvwxyz"}
_COUNTS_GPUS = re.compile(r"(?:torch\.cuda|accelerator)\.device_count\(\)")
_FIELDS = re.compile(r"\s*\{\s*print\s+NF\s*;?\s*\}\s*")
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
MAX_TEXT = 65_536


def counts_gpus(commands: Sequence[Sequence[str | None]]) -> bool:
    """`nvidia-smi -L | wc -l`, `python -c "import torch; print(torch.cuda.device_count())"`"""
    first, last = commands[0], commands[-1]
    if len(commands) == 1 and len(first) == 3 and first[1] == "-c" and _PYTHON.fullmatch(first[0] or ""):
        code = (first[2] or "").strip()
        return bool(_COUNTS_GPUS.search(code)) and code.count("print(") == 1 and " if " not in code
    if (first[0] or "").rpartition("/")[2] != "nvidia-smi" or len(commands) != 2:
        return False
    lists = first[1:] in (["-L"], ["--list-gpus"]) or (
        any(word and word.startswith("--query-gpu") for word in first)
        and any("noheader" in (word or "") for word in first)
    )
    counts = list(last) == ["wc", "-l"] or (last[0] == "grep" and "-c" in last[1:2] and len(last) == 3)
    return lists and counts


def printed(commands: Sequence[Sequence[str | None]]) -> str | None:
    """What a pipeline of known words prints; None where that cannot be told."""
    text = ""
    for number, words in enumerate(commands):
        if not words or None in words:
            return None
        found = _start([word or "" for word in words]) if number == 0 else _filter([word or "" for word in words], text)
        if found is None or len(found) > MAX_TEXT:
            return None
        text = found
    return text.rstrip("\n")


def _start(words: list[str]) -> str | None:
    if words[0] == "echo":
        flags = words[1:2] in (["-n"], ["-E"])
        rest = words[2:] if flags else words[1:]
        plain = not any(word.startswith("-") or "\\" in word for word in rest)
        return " ".join(rest) + ("" if words[1:2] == ["-n"] else "\n") if plain else None
    if words[0] == "printf" and len(words) == 2 and not re.search(r"[%\\]", words[1]):
        return words[1]
    if words[0] == "expr":
        from t4lint.sources.shell_words import calculate

        value = calculate(" ".join(words[1:]))
        return None if value is None else str(value)
    return None


def _filter(words: list[str], text: str) -> str | None:
    name, rest = words[0], words[1:]
    if name == "tr" and len(rest) == 2:
        return _translated(rest[0], rest[1], text)
    if name == "wc" and rest in (["-l"], ["-w"]):
        return f"{text.count(chr(10)) if rest == ['-l'] else len(text.split())}\n"
    if name == "awk" and rest and _FIELDS.fullmatch(rest[-1]) and len(rest) <= 3:
        separator = "".join(rest[:-1]).removeprefix("-F").strip("'\"")
        if len(separator) > 1 or (rest[:-1] and not rest[0].startswith("-F")):
            return None
        lines = text.splitlines()
        return "".join(f"{len(line.split(separator) if separator else line.split())}\n" for line in lines)
    return None


def _translated(of: str, to: str, text: str) -> str | None:
    one, other = _SETS.get(of, of), _SETS.get(to, to)
    if len(one) != len(other) or any(mark in pair for pair in (one, other) for mark in "\\[-"):
        return None
    return text.translate(str.maketrans(one, other))
