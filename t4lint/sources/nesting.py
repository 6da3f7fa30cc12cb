"""How deep a text nests, without a parser: what no parser could stand has to be found before one sees the text.

libcst's parser recurses natively, and so ends the process where other parsers raise: its stack of 8 MB holds about 6,800
levels of the cheapest kind. What is counted here is an upper bound of the levels: operators, attribute accesses,
calls, strings that stand side by side, `elif` branches and brackets, as far as they are parts of one another.
"""

from __future__ import annotations

import re

# CPython itself refuses more than 200 nested brackets ("too many nested parentheses") and 100 levels of indentation.
MAX_BRACKETS = 200
MAX_INDENTS = 100
# The deepest of 3,700 files of well-known projects has 48. The parser's time and memory grow with the square for some
# kinds (600 calls in a chain take a second, 2,000 take gigabytes), and it is out of stack at 3,000 to 7,000.
MAX_DEPTH = 600
# Statements shorter than this may pass unlooked at: not even one level a character would exhaust the stack.
SHORT = 2000

_WORDS = r"and|or|not|if|else|for|in|is|lambda|await"
# Lines that go on with an expression of the line before, or leave one to the next line.
_GOES_ON = (
    tuple("-+*/%&|^~<>.=!\"')]}") + tuple(f"{prefix}{quote}" for prefix in "rbfu" for quote in "\"'") + ("lambda",)
)
_WORD_FIRST = tuple(f"{word} " for word in _WORDS.split("|"))
_ALONE = frozenset(_WORDS.split("|"))
_LEFT_OPEN = (*"-+*/%&|^~<>.\\", *(f" {word}" for word in _WORDS.split("|")))
_TOKEN = re.compile(
    rf"""#[^\n]*|([rRbBuUfFtT]{{0,2}}(?:\"\"\"|'''|"|'))|\b({_WORDS}|elif)\b|\w+|(\\?\r?\n|\r)|([(\[{{])|([)\]}}])"""
    r"""|([,;])|([-+*/%&|^~<>.=!@:]=?|\*\*|//)""",
)
_STRING_END = {
    '"""': re.compile(r'\\.|"""', re.DOTALL),
    "'''": re.compile(r"\\.|'''", re.DOTALL),
    '"': re.compile(r'\\.|["\n]', re.DOTALL),
    "'": re.compile(r"\\.|['\n]", re.DOTALL),
}


def too_deep(text: str) -> tuple[int, str] | None:
    """The line where a text nests too deeply to be followed, and what does; None for what real programs have."""
    if text.count("(") + text.count("[") + text.count("{") > MAX_BRACKETS:
        line = _brackets(text)
        if line:
            return line, f"brackets are nested more than {MAX_BRACKETS} deep: Python refuses this too"
    return _Pass(text).run() if _suspicious(text) else None


def _suspicious(text: str) -> bool:
    """Could a statement be too deep? A statement has no more levels than characters, so long ones are what matters."""
    lines = text.split("\n")
    if text.count("elif") > MAX_DEPTH or max(map(len, lines)) > SHORT:
        return True
    if f"\n{' ' * MAX_INDENTS}" in text or f"\n{chr(9) * (MAX_INDENTS // 8)}" in text:
        return True
    # Old Macintosh line ends are not worth a second way of counting.
    return (
        "\r" in text.replace("\r\n", "") or sum(len(line) for line in map(str.strip, lines) if _continues(line)) > SHORT
    )


def _continues(line: str) -> bool:
    """Does a line, without the blanks around it, belong to an expression of several lines?"""
    if line.endswith(","):
        return False
    if line.startswith(_GOES_ON) or line.endswith(_LEFT_OPEN) or line in _ALONE:
        return True
    return line.startswith(_WORD_FIRST) and not line.endswith(":")


def _brackets(text: str) -> int:
    """The line where brackets get too deep, or 0; those in strings count too: an upper bound that costs one pass."""
    depth = 0
    for match in re.finditer(r"[(\[{]+|[)\]}]+", text):
        run = match[0]
        if run[0] in "([{":
            depth += len(run)
            if depth > MAX_BRACKETS:
                return text.count("\n", 0, match.start()) + 1
        else:
            depth = max(0, depth - len(run))
    return 0


class _Pass:
    """One pass over the tokens, with the levels of the statement at hand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.blocks: list[list[int]] = []  # indentation and `elif` branches of the blocks around
        self.open: list[int] = [0]  # levels in each open bracket
        self.levels = 0  # their sum

    def run(self) -> tuple[int, str] | None:
        text, position, fresh = self.text, 0, True
        line_start = 0
        while match := _TOKEN.search(text, position):
            position = match.end()
            kind = match.lastindex
            if kind == 3:  # a line end; one after a backslash ends no statement
                if len(self.open) == 1 and match[3][0] != "\\":
                    self.open, self.levels, fresh = [0], 0, True
                line_start = position
                continue
            if match[0][0] == "#":
                continue
            if fresh:
                fresh = False
                outer = self.block(match.start() - line_start, match[0])
                if len(self.blocks) > MAX_INDENTS:
                    return self.at(
                        match.start()
                    ), f"blocks are nested more than {MAX_INDENTS} deep: Python refuses this too"
            if kind == 1:
                position = end_of_string(text, match)
            self.count(kind)
            if self.levels + outer > MAX_DEPTH:
                return self.at(
                    match.start()
                ), "the expression or the chain of branches is nested too deeply to be followed"
        return None

    def at(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def block(self, indent: int, word: str) -> int:
        """Take note of the start of a statement: the levels that the blocks around it make."""
        blocks = self.blocks
        while blocks and blocks[-1][0] > indent:
            blocks.pop()
        if not blocks or blocks[-1][0] < indent:
            blocks.append([indent, 0])
        elif word == "elif":
            blocks[-1][1] += 1
        elif word != "else":
            blocks[-1][1] = 0
        return len(blocks) + sum(block[1] for block in blocks)

    def count(self, kind: int | None) -> None:
        if kind in (1, 2, 7):
            self.open[-1] += 1
            self.levels += 1
        elif kind == 4:
            self.open[-1] += 1
            self.levels += 1
            self.open.append(0)
        elif kind == 5:
            if len(self.open) > 1:
                self.levels -= self.open.pop()
        elif kind == 6:
            self.levels -= self.open[-1]
            self.open[-1] = 0


def end_of_string(text: str, opening: re.Match[str], group: int = 1) -> int:
    """Where a string ends whose quotes are in a group of `opening`; one that is not closed ends with its line, or with the text."""
    quotes = opening[group].lstrip("rRbBuUfFtT")
    for match in _STRING_END[quotes].finditer(text, opening.end()):
        if match[0][0] != "\\":
            return match.end() if match[0] != "\n" else match.start()
    return len(text)
