"""What the words of a bash command expand to, with the place in the file where each part of them is written."""

from __future__ import annotations

import ast
import fnmatch
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from t4lint.sources.document import Word
from t4lint.sources.launchers import Token
from t4lint.sources.positions import Locator
from t4lint.sources.shell_results import ALL_GPUS, counts_gpus, printed
from t4lint.trace import Location

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_WORDS = 2048  # of one command or array
MAX_PIECES = 256  # of one word
MAX_TEXT = 65_536  # of one piece
MAX_NESTING = 20  # of expansions inside one another


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word. `text` is None where it cannot be known; `start` and `end` are offsets in the file's text."""

    text: str | None
    start: int
    end: int
    why: str = ""

    def part(self, start: int, end: int) -> Piece:
        """A part of the piece, at its own place if what is written is what it says."""
        assert self.text is not None
        if len(self.text) != self.end - self.start:
            return Piece(self.text[start:end], self.start, self.end)
        return Piece(self.text[start:end], self.start + start, self.start + end)


Scalar = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the shell; `items` is set for an array."""

    value: Scalar
    items: tuple[Scalar, ...] | None = None
    exported: bool = False


@dataclass(slots=True)
class Scope:
    """What the shell knows at a point. `arguments` are those of a function, None for those of the script.

    `folder` is the working directory, None for the one that the script was started in. `over` is set once nothing
    further can run, `returned` where that holds in the function only.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    arguments: tuple[Scalar, ...] | None = None
    folder: Path | None = None
    over: bool = False
    returned: bool = False

    def copy(self) -> Scope:
        return Scope(dict(self.variables), self.arguments, self.folder, self.over, self.returned)


def text_of(scalar: Scalar) -> str | None:
    """The text of a word, None if a part of it is not known."""
    parts = [piece.text for piece in scalar]
    return None if None in parts else "".join(part for part in parts if part is not None)


class Code:
    """A piece of bash that was parsed, and where it stands in the file."""

    __slots__ = ("_offsets", "base", "data", "deferred", "fixed", "inner")

    def __init__(
        self,
        text: str,
        base: int = 0,
        fixed: tuple[int, int] | None = None,
        deferred: bool = False,
        inner: bool = False,
    ) -> None:
        # A backslash at the end of a line with \r\n continues it; elsewhere \r is a space. Lengths stay as they are.
        text = text.replace("\\\r\n", " \\\n").replace("\r\n", " \n")
        self.data = text.encode("utf-8", "replace")
        self.base = base
        self.fixed = fixed
        self.deferred = (
            deferred  # the inside of a double-quoted string: `\$X` is expanded by the shell that is given it
        )
        self.inner = inner  # handed over as it is: its variables are those of the shell that is given it
        self._offsets = None if len(self.data) == len(text) else _offsets(text)

    def span(self, node: Node) -> tuple[int, int]:
        return self.at(node.start_byte, node.end_byte)

    def at(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the file's text for a range of bytes."""
        if self.fixed:
            return self.fixed
        if self._offsets:
            start, end = self._offsets[start], self._offsets[end]
        return self.base + start, self.base + end

    def text(self, node: Node) -> str:
        return self.slice(node.start_byte, node.end_byte)

    def slice(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "replace")


def _offsets(text: str) -> list[int]:
    """For each byte of the UTF-8 form, the offset of its code point."""
    offsets: list[int] = []
    for index, character in enumerate(text):
        offsets.extend([index] * len(character.encode("utf-8", "replace")))
    offsets.append(len(text))
    return offsets


class Places:
    """Offsets in a file's text as locations."""

    __slots__ = ("_starts", "path", "text")

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._starts = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]

    def location(self, start: int, end: int) -> Location:
        line, column = self._place(start)
        end_line, end_column = self._place(end)
        return Location(self.path, line, column, end_line, end_column)

    def span(self, location: Location) -> tuple[int, int]:
        """A location of this file as offsets."""
        start, end = self._starts[location.line - 1], self._starts[location.end_line - 1]
        return start + location.column - 1, end + location.end_column - 1

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


class Joined:
    """The places of several texts, one after the other: those of a script, and of the scripts that it sources or calls."""

    __slots__ = ("_bases", "_parts", "path")

    def __init__(self, first: Locator, length: int) -> None:
        self._bases = [0, length + 1]  # where each text starts, and where the next one will
        self._parts = [first]
        self.path = first.path

    def add(self, part: Locator, length: int) -> int:
        """Append a text; the offset that it starts at."""
        base = self._bases[-1]
        self._parts.append(part)
        self._bases.append(base + length + 1)
        return base

    def location(self, start: int, end: int) -> Location:
        index = max(bisect_right(self._bases, start) - 1, 0)
        base = self._bases[index]
        return self._parts[index].location(start - base, max(end, start) - base)

    def span(self, location: Location) -> tuple[int, int]:
        index = next((i for i, part in enumerate(self._parts) if part.path == location.path), 0)
        start, end = self._parts[index].span(location)
        return start + self._bases[index], end + self._bases[index]


# --- fields ------------------------------------------------------------------------------------------------------


class _Fields:
    """Words as they come out of an expansion: what is quoted holds together, what is not is split at blanks."""

    __slots__ = ("_current", "done")

    def __init__(self) -> None:
        self.done: list[Scalar] = []
        self._current: list[Piece] | None = None

    def whole(self, piece: Piece) -> None:
        self._current = self._current if self._current is not None else []
        if len(self._current) >= MAX_PIECES:
            self._current = [Piece(None, piece.start, piece.end, "the word is too long to follow")]
        elif piece.text is not None and len(piece.text) > MAX_TEXT:
            self._current.append(Piece(None, piece.start, piece.end, "the word is too long to follow"))
        else:
            self._current.append(piece)

    def split(self, piece: Piece) -> None:
        if piece.text is None:
            self.whole(piece)
            return
        last = 0
        for found in re.finditer(r"\S+", piece.text):
            if found.start() > last:
                self.end()
            self.whole(piece.part(found.start(), found.end()))
            last = found.end()
            if len(self.done) > MAX_WORDS:
                return
        if last < len(piece.text):
            self.end()

    def end(self) -> None:
        if self._current is not None and len(self.done) <= MAX_WORDS:
            self.done.append(tuple(self._current))
        self._current = None


class Expander:
    """Expands the words of one piece of code in one scope. `${X:=...}` assigns nothing here, but with `:` as the command."""

    __slots__ = ("code", "depth", "path", "places", "scope", "script")

    def __init__(self, code: Code, scope: Scope, places: Locator, script: Path) -> None:
        self.code = code
        self.scope = scope
        self.places = places
        self.path = places.path
        self.script = script
        self.depth = 0

    def words(self, node: Node) -> list[Scalar]:
        """The words that one written word becomes: none, one or many."""
        fields = _Fields()
        self._add(node, fields, quoted=False)
        fields.end()
        return fields.done

    def scalar(self, node: Node | None) -> Scalar:
        """The value of an assignment: nothing is split."""
        fields = _Fields()
        if node is not None:
            self._add(node, fields, quoted=True)
        fields.end()
        return (
            fields.done[0] if len(fields.done) == 1 else tuple(piece for done in fields.done for piece in _spaced(done))
        )

    def heredoc(self, body: Node, plain: bool) -> Scalar:
        """The text between `<<EOF` and `EOF`; `plain` where the word is quoted, so that nothing in it is expanded."""
        if plain:
            text = self.code.slice(body.start_byte, body.end_byte)
            return (Piece(text, *self.code.at(body.start_byte, body.end_byte)),)
        fields = _Fields()
        start = body.start_byte
        for child in body.children:
            if child.type not in _EXPANSIONS:
                continue
            self._lines(start, child.start_byte, fields)
            self._add(child, fields, quoted=True)
            start = child.end_byte
        self._lines(start, body.end_byte, fields)
        fields.end()
        return fields.done[0] if fields.done else ()

    def _lines(self, start: int, end: int, fields: _Fields) -> None:
        """A text whose lines are continued by backslashes, in pieces that stand where they are written."""
        while start < end:
            at = self.code.data.find(b"\\\n", start, end)
            stop = end if at < 0 else at
            if stop > start:
                fields.whole(self._literal(start, stop, in_quotes=True))
            start = end if at < 0 else at + 2

    def token(self, scalar: Scalar, written: Node | None = None) -> Iterator[Token]:
        """Words for the launchers; `--flag=$UNKNOWN` becomes two, so that the flag is still seen."""
        text = text_of(scalar)
        around = self.code.span(written) if written is not None else (scalar[0].start, scalar[-1].end)
        if text is not None:
            word = Word(text, self._location(scalar, around))
            found = re.match(r"--?[\w.-]+=", text)
            if not found:
                yield Token(word, text, text)
                return
            value = Word(text[found.end() :], self._location(_drop(scalar, found.end()), around))
            yield Token(word, text, text, text[: found.end() - 1], value)
            return
        raw = " ".join(self.code.text(written).split()) if written is not None else ""
        why = next((piece.why for piece in scalar if piece.text is None), "")
        tail = ""
        for piece in reversed(scalar):
            if piece.text is None:
                break
            tail = piece.text + tail
        value = Word(None, self._location(scalar, around), why)
        first = scalar[0]
        if first.text is not None and re.fullmatch(r"--?[\w.-]+=", first.text):
            flag = first.part(0, len(first.text) - 1)
            name = flag.text or ""
            yield Token(Word(name, self._location((flag,), around)), name, name)
            yield Token(Word(None, self._location(scalar[1:], around), why), raw.partition("=")[2], tail)
            return
        yield Token(value, raw, tail)

    def _location(self, scalar: Scalar, around: tuple[int, int]) -> Location:
        """The place of a word: where it is written, if that is one place, else the word that it is expanded in."""
        if not scalar:
            return self.places.location(*around)
        if all(left.end <= right.start <= left.end + 1 for left, right in pairwise(scalar)):
            return self.places.location(scalar[0].start, scalar[-1].end)
        return self.places.location(*around)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def _add(self, node: Node, fields: _Fields, quoted: bool) -> None:
        handler = _HANDLERS.get(node.type)
        if handler and self.depth < MAX_NESTING:
            self.depth += 1
            handler(self, node, fields, quoted)
            self.depth -= 1
        else:
            fields.whole(self._unknown(node, f"`{self._short(node)}` is only known when it runs"))

    def _joined(self, node: Node, fields: _Fields, quoted: bool) -> None:
        end = node.start_byte
        for child in node.children:
            if child.start_byte > end:
                fields.whole(self._literal(end, child.start_byte))
            self._add(child, fields, quoted)
            end = child.end_byte
        if node.end_byte > end:
            fields.whole(self._literal(end, node.end_byte))

    def _word(self, node: Node, fields: _Fields, quoted: bool) -> None:
        fields.whole(self._literal(node.start_byte, node.end_byte))

    def _raw(self, node: Node, fields: _Fields, quoted: bool) -> None:
        start, end = node.start_byte + 1, max(node.end_byte - 1, node.start_byte + 1)
        fields.whole(Piece(self.code.slice(start, end), *self.code.at(start, end)))

    def _ansi(self, node: Node, fields: _Fields, quoted: bool) -> None:
        start, end = node.start_byte + 2, max(node.end_byte - 1, node.start_byte + 2)
        text = re.sub(
            r"\\(.)", lambda found: _ANSI.get(found[1], found[0]), self.code.slice(start, end), flags=re.DOTALL
        )
        fields.whole(Piece(text, *self.code.at(start, end)))

    def _string(self, node: Node, fields: _Fields, quoted: bool) -> None:
        """What stands between expansions is taken from the text: the grammar leaves out blanks there."""
        start, end = node.start_byte, node.end_byte
        start += 2 if self.code.slice(start, start + 1) == "$" else 1
        end = max(end - 1, start)
        inner = node.children[-1].children if node.type == "translated_string" and node.children else node.children
        expansions = [child for child in inner if child.type in _EXPANSIONS]
        if not expansions:
            fields.whole(self._literal(start, end, in_quotes=True))
            return
        for child in expansions:
            if child.start_byte > start:
                fields.whole(self._literal(start, child.start_byte, in_quotes=True))
            self._add(child, fields, quoted=True)
            start = child.end_byte
        if end > start:
            fields.whole(self._literal(start, end, in_quotes=True))

    def _simple(self, node: Node, fields: _Fields, quoted: bool) -> None:
        self._variable(self.code.slice(node.start_byte + 1, node.end_byte), node, fields, quoted)

    def _expansion(self, node: Node, fields: _Fields, quoted: bool) -> None:
        """`${...}`"""
        parts = node.children[1:-1]
        name_at = next((i for i, part in enumerate(parts) if part.type in _NAMES), None)
        if name_at is None or node.has_error:
            fields.whole(self._unknown(node, f"`{self._short(node)}` is not followed"))
            return
        name, rest = self.code.text(parts[name_at]), parts[name_at + 1 :]
        if name_at == 0 and not rest:
            self._variable(name, node, fields, quoted)
        elif name_at == 0 and rest[0].type in (":-", "-", ":=", "="):
            self._with_default(name, node, rest, fields, quoted)
        elif name_at == 0 and rest[0].type in ("%", "%%", "#", "##"):
            fields.whole(self._trimmed(name, node, rest))
        elif name_at == 1 and parts[0].type == "#" and not rest:
            fields.whole(self._length(name, node))
        else:
            fields.whole(self._unknown(node, f"`{self._short(node)}` is not followed"))

    def _with_default(self, name: str, node: Node, rest: list[Node], fields: _Fields, quoted: bool) -> None:
        known = self._lookup(name)
        if known is not None and not (rest[0].type.startswith(":") and text_of(known.value) == ""):
            self._variable(name, node, fields, quoted)
        elif len(rest) > 1 and not any(child.type in _EXPANSIONS or child.type in _QUOTES for child in rest[1:]):
            piece = self._literal(rest[0].end_byte, node.end_byte - 1)
            if quoted:
                fields.whole(piece)
            else:
                fields.split(piece)
        else:
            for child in rest[1:]:
                self._add(child, fields, quoted)

    def _trimmed(self, name: str, node: Node, rest: list[Node]) -> Piece:
        known = self._lookup(name)
        text = text_of(known.value) if known and known.items is None else None
        pattern = self.code.slice(rest[0].end_byte, node.end_byte - 1)
        if text is None or len(text) > 512 or len(pattern) > 64 or re.search(r"[$`\"'\\]", pattern):
            return self._unknown(node, f"`{self._short(node)}` is only known when it runs")
        return Piece(_trim(text, rest[0].type, pattern), *self.code.span(node))

    def _length(self, name: str, node: Node) -> Piece:
        known = self._lookup(name.partition("[")[0])
        span = self.code.span(node)
        if known and known.items is not None and name.endswith(("[@]", "[*]")):
            return Piece(str(len(known.items)), *span)
        text = text_of(known.value) if known and "[" not in name else None
        return Piece(str(len(text)), *span) if text is not None else self._unknown(node, self._unset(name))

    def _variable(self, name: str, node: Node, fields: _Fields, quoted: bool) -> None:
        array, _, index = name.partition("[")
        if name in ("@", "*"):
            self._arguments(node, fields, quoted)
            return
        known = self._lookup(array)
        if known is None or (index and known.items is None and index[:-1] not in ("0", "@", "*")):
            fields.whole(self._unknown(node, self._unset(name)))
        elif known.items is None:
            self._put(known.value, node, fields, quoted)
        elif index[:-1] in ("@", "*"):
            self._many(known.items, node, fields, quoted)
        else:
            position = index[:-1] or "0"
            inside = position.isdecimal() and int(position[:6]) < len(known.items)
            value = known.items[int(position)] if inside else (self._unknown(node, self._unset(name)),)
            self._put(value, node, fields, quoted)

    def _arguments(self, node: Node, fields: _Fields, quoted: bool) -> None:
        if self.scope.arguments is None:
            fields.whole(self._unknown(node, f"`{self._short(node)}`: the arguments that {self.path} is given"))
        else:
            self._many(self.scope.arguments, node, fields, quoted)

    def _many(self, items: tuple[Scalar, ...], node: Node, fields: _Fields, quoted: bool) -> None:
        for number, item in enumerate(items):
            if number:
                fields.end()
            self._put(item, node, fields, quoted)

    def _put(self, value: Scalar, node: Node, fields: _Fields, quoted: bool) -> None:
        if quoted and not value:
            fields.whole(Piece("", *self.code.span(node)))
        for piece in value:
            if quoted:
                fields.whole(piece)
            else:
                fields.split(piece)

    def _lookup(self, name: str) -> Variable | None:
        if name in ("0", "BASH_SOURCE"):
            at = (0, 0)
            return Variable((Piece(self.script.as_posix(), *at),))
        if name.isdecimal():
            arguments = self.scope.arguments
            position = int(name[:6])
            inside = arguments is not None and 0 < position <= len(arguments)
            return Variable(arguments[position - 1]) if arguments is not None and inside else None
        if name == "PWD" and self.scope.folder is not None:
            return Variable((Piece(self.scope.folder.as_posix(), 0, 0),))
        return self.scope.variables.get(name)

    def _unset(self, name: str) -> str:
        if name.isdecimal():
            return f"${name} is an argument that {self.path} is given"
        return f"${name} is not set in {self.path}"

    def _arithmetic(self, node: Node, fields: _Fields, quoted: bool) -> None:
        start, end = node.start_byte + 3, node.end_byte - 2
        text = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", self._number, self.code.slice(start, end))
        result = calculate(text)
        if result is None:
            fields.whole(self._unknown(node, f"`{self._short(node)}` is only known when it runs"))
        else:
            fields.whole(Piece(str(result), *self.code.span(node)))

    def _number(self, found: re.Match[str]) -> str:
        known = self.scope.variables.get(found[1])
        text = text_of(known.value) if known and known.items is None else None
        return text if text is not None and re.fullmatch(r"-?\d{1,18}", text) else "?"

    def _substitution(self, node: Node, fields: _Fields, quoted: bool) -> None:
        """The few commands that scripts find their own folder with, or count with; any other is not run."""
        text_below = self._heredoc_of(node)
        for piece in text_below or ():
            fields.whole(piece) if quoted else fields.split(piece)
        if text_below is not None:
            return
        folder = self._folder_of(node)
        pipeline = self._pipeline_of(node) if folder is None else None
        text = folder.as_posix() if folder is not None else printed(pipeline) if pipeline else None
        if text is not None:
            piece = Piece(text, *self.code.span(node))
            fields.whole(piece) if quoted else fields.split(piece)
        elif pipeline and counts_gpus(pipeline):
            fields.whole(self._unknown(node, ALL_GPUS))
        else:
            fields.whole(self._unknown(node, f"`{self._short(node)}` is only known when it runs"))

    def _heredoc_of(self, node: Node) -> Scalar | None:
        """The text of `$(cat <<EOF ...)`."""
        inside = [child for child in node.named_children if child.type != "comment"]
        if len(inside) != 1 or inside[0].type != "redirected_statement":
            return None
        command, *redirects = inside[0].named_children
        body = next((child for it in redirects for child in it.children if child.type == "heredoc_body"), None)
        start = next((child for it in redirects for child in it.children if child.type == "heredoc_start"), None)
        if body is None or start is None or len(redirects) > 1 or self.code.text(command).strip() != "cat":
            return None
        return self.heredoc(body, plain=any(mark in self.code.text(start) for mark in "'\\\""))

    def _pipeline_of(self, node: Node) -> list[list[str | None]] | None:
        """The words of the commands of a pipeline, without what they say on stderr; None for what is more than that."""
        found = []
        inside = [child for child in node.named_children if child.type != "comment"]
        if len(inside) == 1 and inside[0].type == "pipeline":
            inside = list(inside[0].named_children)
        elif len(inside) != 1:
            return None
        for child in inside:
            if child.type == "redirected_statement":
                command, *redirects = child.named_children
                if any(not self.code.text(redirect).startswith("2>") for redirect in redirects):
                    return None
                child = command
            if child.type != "command":
                return None
            found.append([text_of(word) for inner in child.named_children for word in self.words(inner)])
        return found if all(found) else None

    def _folder_of(self, node: Node) -> Path | None:
        commands = [child for child in _flat(node) if child.type == "command"]
        here: Path | None = self.scope.folder
        for number, command in enumerate(commands[:4]):
            arguments = [text_of(word) for child in command.named_children for word in self.words(child)]
            name, last = arguments[0] if arguments else None, arguments[-1] if arguments else None
            final = number == len(commands) - 1
            if name == "cd" and last is not None and not final:
                here = (here or Path()) / last
            elif not final or last is None or len(commands) > 4:
                return None
            elif name == "pwd":
                return here
            elif name == "dirname" and len(arguments) > 1:
                return Path(last).parent
            elif name in ("realpath", "readlink") and len(arguments) > 1:
                return (here or Path()) / last
        return None

    # --- pieces --------------------------------------------------------------------------------------------------

    def _literal(self, start: int, end: int, in_quotes: bool = False) -> Piece:
        text = self.code.slice(start, end)
        span = self.code.at(start, end)
        if "\\" not in text:
            return Piece(text, *span)
        if self.code.deferred and "\\$" in text:
            return Piece(None, *span, f"`{text[text.index('$') :][:40]}` is only known when it runs")
        text = text.replace("\\\n", "")
        return Piece(re.sub(r"\\([$`\"\\])" if in_quotes else r"\\(.)", r"\1", text, flags=re.DOTALL), *span)

    def _unknown(self, node: Node, why: str) -> Piece:
        return Piece(None, *self.code.span(node), why)

    def _short(self, node: Node) -> str:
        text = " ".join(self.code.text(node).split())
        return text if len(text) <= 40 else f"{text[:37]}..."


_EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})
_QUOTES = frozenset({"string", "raw_string", "ansi_c_string", "concatenation", "array"})
_NAMES = frozenset({"variable_name", "special_variable_name", "subscript"})
_ANSI = {"n": "\n", "t": "\t", "'": "'", '"': '"', "\\": "\\", "r": "\r"}
_Handler = Callable[[Expander, "Node", _Fields, bool], None]
_WORDS = (
    "word",
    "number",
    "variable_name",
    "extglob_pattern",
    "regex",
    "test_operator",
    "brace_expression",
    "string_content",
)
_HANDLERS: Mapping[str, _Handler] = {
    **dict.fromkeys(_WORDS, Expander._word),
    "command_name": Expander._joined,
    "concatenation": Expander._joined,
    "raw_string": Expander._raw,
    "ansi_c_string": Expander._ansi,
    "string": Expander._string,
    "translated_string": Expander._string,
    "simple_expansion": Expander._simple,
    "expansion": Expander._expansion,
    "arithmetic_expansion": Expander._arithmetic,
    "command_substitution": Expander._substitution,
}


def _spaced(scalar: Scalar) -> Scalar:
    """The words of `X="${array[*]}"`, which become one text."""
    return (*scalar, Piece(" ", scalar[-1].end, scalar[-1].end)) if scalar else scalar


def _drop(scalar: Scalar, count: int) -> Scalar:
    """A known word without its first characters."""
    kept: list[Piece] = []
    for piece in scalar:
        length = len(piece.text or "")
        if count < length:
            kept.append(piece.part(count, length))
        count = max(count - length, 0)
    return tuple(kept)


def _flat(node: Node) -> Iterator[Node]:
    """The commands of a list, in order."""
    for child in node.named_children:
        if child.type in ("list", "redirected_statement"):
            for inner in child.named_children:
                yield from (inner.named_children if inner.type in ("list", "redirected_statement") else (inner,))
        else:
            yield child


def _trim(text: str, how: str, pattern: str) -> str:
    """`${text%pattern}` and its kin."""
    cuts = range(len(text) + 1)
    if how.startswith("%"):
        ends = [cut for cut in cuts if fnmatch.fnmatchcase(text[cut:], pattern)]
        return text if not ends else text[: ends[0] if how == "%%" else ends[-1]]
    starts = [cut for cut in cuts if fnmatch.fnmatchcase(text[:cut], pattern)]
    return text if not starts else text[starts[-1] if how == "##" else starts[0] :]


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1),
    ast.Mod: lambda left, right: abs(left) % abs(right) * (1 if left >= 0 else -1),
}


def calculate(text: str) -> int | None:
    """The value of simple integer arithmetic as bash does it; None for anything else."""
    text = text.strip()
    if len(text) > 200 or not re.fullmatch(r"[\d+\-*/%()\s]+", text) or "**" in text or "//" in text:
        return None
    try:
        return _calculated(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _calculated(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_calculated(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = _OPERATORS[type(node.op)](_calculated(node.left), _calculated(node.right))
        if abs(result) < 2**63:
            return result
    raise ValueError("not simple arithmetic")
