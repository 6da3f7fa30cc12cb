"""Sentences broken into lines of a terminal, also where a language writes without spaces."""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
# A piece that stays together: a wide character with the closing marks behind it and the opening ones before it, or a word.
_PIECE = re.compile(rf"\s+|[（《“]*(?:[{_WIDE}]|[^\s{_WIDE}]+)[，。；：、！？）》”,.;:!?)]*")


def wrapped(text: str, width: int) -> list[str]:
    """The lines that a text takes, each at most `width` cells; a word that is longer is cut."""
    lines, line = [], ""
    for piece in _PIECE.findall(text) or [""]:
        if cell_len(line + piece.rstrip()) <= width:
            line += piece
            continue
        if line.strip():
            lines.append(line.rstrip())
        *full, line = chop_cells(piece.lstrip(), width) or [""]
        lines += full
    return [*lines, line.rstrip()] if line.strip() or not lines else lines
