"""A notebook as a Python module: its code cells in order, and where each line of them stands in the .ipynb file.

Line numbers of the module are made of whole cells, one after the other. What IPython handles itself is replaced on its own
line: `%env` becomes an assignment to `os.environ`, shell lines become fragments of shell, other magics become `pass`.

Places: `line` is the physical line of the .ipynb file, `cell` the index over all cells from 0, `cell_line` the line in the
cell from 1. `column` counts code points of the cell's own line, as people see it: JSON escapes and indentation do not shift
it. Where a file keeps a whole cell in one physical line, a span ends in the line of the cell that it starts in.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from t4lint.findings import Problem
from t4lint.sources import notebook_magics as magics
from t4lint.sources.document import Document, ShellFragment
from t4lint.sources.files import read_bytes
from t4lint.sources.fragments import STARTS
from t4lint.sources.json_text import JsonError, JsonNode, parse_json
from t4lint.sources.positions import Lines, PositionMap, TextBuilder, split_lines
from t4lint.sources.requirements import pins_of_command

LARGEST = 100_000_000  # bytes: notebooks carry images; what is not code is passed over
MAX_CODE = 2_000_000  # characters of code
MAX_FRAGMENTS = 200
_NOT_CODE = frozenset({"outputs", "attachments", "widgets"})
MAX_ENVIRONMENT = 100


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a cell writes (`%%writefile`). `name` is as written; `file` is where it would lie in the project."""

    name: str
    file: Path
    text: str
    positions: PositionMap


@dataclass(frozen=True, slots=True)
class NotebookDocument:
    """A notebook that was read. `text` is its Python module, empty for a kernel of another language.

    `shell` are the commands of `!` lines and `%%bash` cells, each with the environment in force; `pins` are the versions
    that it installs; `sources` are the texts of all cells. `listing` has the lines of the code cells at their physical
    lines, so that code frames and fingerprints of a location read as for any file; `lines` are the physical lines of each
    code cell's lines, `squeezed` the cells of which several share one. `problems` are cells that are no Python: they are
    blank in the module.
    `likely_target` names the place that the notebook was written for, where its metadata says so.
    """

    path: str
    file: Path
    text: str
    positions: PositionMap
    shell: tuple[ShellFragment, ...] = ()
    written: tuple[WrittenFile, ...] = ()
    pins: dict[str, str] = field(default_factory=dict)
    language: str = "python"
    likely_target: str | None = None
    sources: tuple[str, ...] = ()
    listing: str = ""
    lines: tuple[tuple[int, ...], ...] = ()
    squeezed: frozenset[int] = frozenset()
    problems: tuple[Problem, ...] = ()

    def document(self) -> Document:
        """The module, as the interpreter takes it."""
        return Document(self.path, self.file, "python", self.text, self.positions)

    def written_documents(self) -> list[Document]:
        """All files that cells write, modules and configurations, at the places of the cells."""
        return [
            Document(self.path, it.file, "python" if it.name.endswith(".py") else "shell", it.text, it.positions)
            for it in self.written
        ]

    def modules(self) -> list[Document]:
        """The Python files that its cells write."""
        return [
            Document(self.path, written.file, "python", written.text, written.positions)
            for written in self.written
            if written.name.endswith(".py")
        ]


def read_notebook(file: Path, display: str) -> NotebookDocument | Problem:
    """Read a notebook, or say why that cannot be done."""
    text = notebook_text(file, display)
    return text if isinstance(text, Problem) else notebook_from(text, file, display)


def notebook_text(file: Path, display: str) -> str | Problem:
    """The text of a notebook's file."""
    data = read_bytes(file, display, LARGEST)
    if isinstance(data, Problem):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Problem(display, f"is not text: byte 0x{data[error.start]:02x} is not utf-8", line, 1)


def notebook_from(text: str, file: Path, display: str) -> NotebookDocument | Problem:
    """A notebook from the text of its file (an open buffer)."""
    try:
        root = parse_json(text, skip=_NOT_CODE)
    except JsonError as error:
        line, column = Lines(text).place(error.offset)
        return Problem(display, f"is not valid JSON: {error.message}", line, column)
    cells = _cells(root)
    if cells is None:
        return Problem(display, "is not a notebook: it has no list of cells")
    language = _language(root, cells)
    sources = _sources(cells, text)
    texts = tuple(source.text for source in sources)
    target = _likely_target(root, texts)
    if not language.startswith(("python", "ipython")):
        return NotebookDocument(
            display, file, "", PositionMap(display, "", ()), language=language, likely_target=target, sources=texts
        )
    if sum(map(len, texts)) > MAX_CODE:
        return Problem(display, f"has too much code: over {MAX_CODE // 1_000_000} million characters")
    reader = _Reader(file, display)
    for index, (cell, source) in enumerate(zip(cells, sources, strict=True)):
        if _is_code(cell):
            reader.cell(index, source)
    positions = reader.module()
    return NotebookDocument(
        path=display,
        file=file,
        text=positions.text,
        positions=positions,
        shell=tuple(reader.fragments),
        written=tuple(reader.written()),
        pins=reader.pins,
        language=language,
        likely_target=target,
        sources=texts,
        listing=_listing([source for cell, source in zip(cells, sources, strict=True) if _is_code(cell)]),
        lines=tuple(
            tuple(source.physical) if _is_code(cell) else () for cell, source in zip(cells, sources, strict=True)
        ),
        squeezed=_squeezed(sources),
        problems=tuple(reader.problems),
    )


# --- the file ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source:
    """The text of a cell, and the physical line on which each of its lines stands."""

    text: str
    lines: list[str]
    physical: list[int]


def _cells(root: JsonNode) -> list[JsonNode] | None:
    """All cells in order; in a notebook of format 3 they stand in worksheets."""
    cells = root.get("cells")
    if cells is not None and cells.kind == "array":
        return [cell for cell in cells.items if cell.kind == "object"]
    sheets = root.get("worksheets")
    if sheets is None or sheets.kind != "array":
        return None
    lists = [sheet.get("cells") for sheet in sheets.items]
    return [cell for found in lists if found is not None for cell in found.items if cell.kind == "object"]


def _is_code(cell: JsonNode) -> bool:
    return cell.text("cell_type") == "code"


def _listing(sources: Sequence[_Source]) -> str:
    """The lines of cells at their physical lines; a physical line that holds several of them stays empty."""
    at: dict[int, list[str]] = {}
    for source in sources:
        for line, physical in zip(source.lines, source.physical, strict=True):
            at.setdefault(physical, []).append(line)
    return "\n".join(at[line][0] if len(at.get(line, ())) == 1 else "" for line in range(1, max(at, default=0) + 1))


def _squeezed(sources: Sequence[_Source]) -> frozenset[int]:
    """The cells with lines that share a physical line: Kaggle and others write the whole file as one."""
    held = Counter(physical for source in sources for physical in source.physical)
    return frozenset(
        index for index, source in enumerate(sources) if any(held[physical] > 1 for physical in source.physical)
    )


def _sources(cells: Sequence[JsonNode], text: str) -> list[_Source]:
    lines = Lines(text)
    return [_source(cell, lines) for cell in cells]


def _source(cell: JsonNode, lines: Lines) -> _Source:
    node = cell.get("source") or cell.get("input")
    if node is None:
        return _Source("", [], [])
    parts = node.items if node.kind == "array" else [node]
    texts = [(part.value, lines.place(part.start)[0]) for part in parts if isinstance(part.value, str)]
    physical: list[int] = []
    at_start = True
    for text, line in texts:
        if not text:
            continue
        starts = len(split_lines(text)) - 1 + (1 if at_start else 0) - (1 if text.endswith(("\n", "\r")) else 0)
        physical.extend([line] * starts)
        at_start = text.endswith(("\n", "\r"))
    whole = "".join(text for text, _ in texts)
    split = split_lines(whole)
    if split and not split[-1]:
        split.pop()
    # A pair \r\n that is torn over two strings counts once more above: the lines of the text decide.
    last = physical[-1] if physical else lines.place(node.start)[0]
    return _Source(whole, split, (physical + [last] * len(split))[: len(split)])


def _language(root: JsonNode, cells: Sequence[JsonNode]) -> str:
    for keys in (("kernelspec", "language"), ("language_info", "name")):
        name = root.text("metadata", *keys)
        if name:
            return name.lower()
    kernel = (root.text("metadata", "kernelspec", "name") or "").lower()
    if kernel in ("ir", "bash", "javascript", "deno", "rust") or kernel.startswith("julia"):
        return kernel
    return next((found.lower() for cell in cells if (found := cell.text("language"))), "python")


def _likely_target(root: JsonNode, texts: Sequence[str]) -> str | None:
    """The place with a T4 that a notebook was written for; None where it says nothing, or another GPU."""
    kaggle = root.text("metadata", "kaggle", "accelerator")
    if kaggle is not None:
        return "kaggle-2xt4" if kaggle == "nvidiaTeslaT4" else None
    gpu = root.text("metadata", "colab", "gpuType")
    accelerator = root.text("metadata", "accelerator")
    if gpu is not None:
        return "colab" if gpu == "T4" else None
    if accelerator is not None:
        # Colab's "GPU" without a type is the one that everybody gets.
        return "colab" if accelerator == "GPU" else None
    if root.get("metadata", "kaggle") is not None or any("/kaggle/input" in text for text in texts):
        return "kaggle-2xt4"
    return None


# A character of a JSON string as it is written.
CHARACTER = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CodeCell:
    """A code cell for those who edit it: its index over all cells, its text, the JSON that holds the text, and the
    physical line on which each of its lines stands.
    """

    index: int
    text: str
    node: JsonNode
    physical: list[int]


def code_cells(text: str) -> list[CodeCell]:
    """The code cells of a notebook that can be read, in order."""
    found = []
    cells = _cells(parse_json(text, skip=_NOT_CODE)) or []
    for index, (cell, source) in enumerate(zip(cells, _sources(cells, text), strict=True)):
        node = cell.get("source") or cell.get("input")
        if _is_code(cell) and node is not None:
            found.append(CodeCell(index, source.text, node, source.physical))
    return found


# --- cells -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """A stretch of a cell's line."""

    cell: int
    cell_line: int
    line: int
    column: int
    text: str

    def add_to(self, builder: TextBuilder, start: int = 0, end: int | None = None) -> None:
        """Append (part of) the stretch as it is written."""
        builder.cell, builder.cell_line = self.cell, self.cell_line
        builder.add(self.text[start:end], self.line, self.column + start)

    def part(self, start: int, end: int | None = None) -> _Place:
        return _Place(self.cell, self.cell_line, self.line, self.column + start, self.text[start:end])

    def stand_in(self, builder: TextBuilder, text: str) -> None:
        builder.cell, builder.cell_line = self.cell, self.cell_line
        builder.stand_in(text, self.line, self.column, self.line, self.column + len(self.text))


_ENVIRON = re.compile(r"""\s*os\.environ\[\s*(['"])([A-Za-z_]\w*)\1\s*\]\s*=\s*(['"])([^'"\\]*)\3\s*(?:#.*)?$""")
_CONSTANT = re.compile(r"""([A-Za-z_]\w*)\s*=\s*(?:(['"])([^'"\\]*)\2|(-?\d[\w.+-]*))\s*(?:#.*)?$""")
_CHANGE = re.compile(r"""(?:%?cd[ \t]+|os\.chdir\(\s*['"])([^\s'"]+)['"]?\)?[ \t]*$""")
_BRACES = re.compile(r"(?<![$\w{])\{([A-Za-z_]\w*)((?:[.\[(][^{}]*)?(?:![rsa])?(?::[^{}]*)?)\}")


class _Reader:
    """Reads the cells of one notebook one after the other, as IPython would run them."""

    def __init__(self, file: Path, path: str) -> None:
        self.file = file
        self.path = path
        self.done: list[tuple[int, list[_Place], TextBuilder]] = []  # cell, its lines, its module text
        self.fragments: list[ShellFragment] = []
        self.files: dict[str, TextBuilder] = {}
        self.pins: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.environment: dict[str, _Place] = {}
        self.constants: dict[str, _Place] = {}
        self.folder: _Place | None = None

    def cell(self, index: int, source: _Source) -> None:
        lines = [
            _Place(index, number, physical, 1, text)
            for number, (text, physical) in enumerate(zip(source.lines, source.physical, strict=True), start=1)
        ]
        builder = TextBuilder()
        self.done.append((index, lines, builder))
        self.body(_dedented(lines), builder)

    def body(self, lines: Sequence[_Place], builder: TextBuilder) -> None:
        """The lines of a cell; a cell magic on the first one that is not blank decides what the rest is."""
        first = next((number for number, place in enumerate(lines) if place.text.strip()), len(lines))
        magic = magics.cell_magic(lines[first].text.lstrip()) if first < len(lines) else None
        if magic is None:
            self.code(lines, builder)
            return
        name, arguments = magic
        rest = lines[first + 1 :]
        _blank(lines[: first + 1], builder)
        if name in magics.WRITE_CELLS:
            self.write(arguments, rest)
            _blank(rest, builder)
        elif name in magics.SHELL_CELLS or (name == "script" and magics.shell_of_script(arguments)):
            self.shell_cell(rest)
            _blank(rest, builder)
        elif name in magics.KEEP_CODE or (name != "script" and self.is_code(rest)):
            self.body(rest, builder)
        else:
            _blank(rest, builder)

    def is_code(self, lines: Sequence[_Place]) -> bool:
        """Is a cell under a magic that is not known Python? Most magics of libraries run their cell."""
        languages = (
            "html",
            "javascript",
            "js",
            "latex",
            "markdown",
            "svg",
            "R",
            "sql",
            "perl",
            "ruby",
            "cython",
            "pypy",
        )
        name = magics.cell_magic(lines[0].text) if lines else None
        return (name is None or name[0] not in languages) and magics.is_python(_text(lines))

    def code(self, lines: Sequence[_Place], builder: TextBuilder) -> None:
        lexer = magics.Lexer()
        number = 0
        while number < len(lines):
            place = lines[number]
            line = magics.classify(place.text) if lexer.fresh else magics.Line("python")
            if line.kind == "python":
                place.add_to(builder)
                builder.fill("\n")
                if lexer.fresh:
                    self.note(place)
                lexer.feed(place.text)
                number += 1
                continue
            count = _continued(lines, number) if line.kind in ("shell", "magic") else 1
            self.special(line, lines[number : number + count], builder)
            number += count

    def note(self, place: _Place) -> None:
        """Constants and variables of the environment that shell lines may use."""
        found = _ENVIRON.match(place.text)
        if found:
            self.environment[found[2]] = place.part(found.start(4) - 1, found.end(4) + 1)
            return
        change = _CHANGE.match(place.text)
        if change:
            self.folder = place.part(change.start(1), change.end(1))
            return
        constant = _CONSTANT.match(place.text)
        if constant:
            group = 4 if constant[4] is not None else 3
            self.constants[constant[1]] = place.part(constant.start(group), constant.end(group))
        else:
            assigned = re.match(r"([A-Za-z_]\w*)\s*(?:[-+*/|&]|//)?=(?!=)", place.text)
            if assigned:
                self.constants.pop(assigned[1], None)

    def special(self, line: magics.Line, lines: Sequence[_Place], builder: TextBuilder) -> None:
        """A line that is not Python, with those that continue it."""
        place = lines[0]
        indent = len(place.text) - len(place.text.lstrip())
        if line.target:
            place.part(0, len(line.target)).add_to(builder)
            place.part(len(line.target)).stand_in(builder, "get_ipython()")
        elif line.kind == "magic" and (assignment := magics.parameters(line.rest)):
            name, value, offset = assignment
            start = line.column + offset
            self.assign(name, place.part(start, start + len(value)), place, indent, builder)
        else:
            builder.fill(place.text[:indent])
            place.part(indent).stand_in(builder, "pass")
        builder.fill("\n")
        _blank(lines[1:], builder)
        command = [place.part(line.column), *lines[1:]]
        if line.kind == "shell":
            self.command(command)
        elif line.kind == "magic":
            self.magic(line.rest, command)

    def assign(self, name: str, value: _Place, place: _Place, indent: int, builder: TextBuilder) -> None:
        """`%env NAME=value`"""
        builder.fill(f"{place.text[:indent]}import os; os.environ[{name!r}] = ")
        variable = re.fullmatch(r"\$([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}", value.text)
        if variable:
            builder.fill("str(")
            group = 1 if variable[1] else 2
            value.part(variable.start(group), variable.end(group)).add_to(builder)
            builder.fill(")")
        elif repr(value.text) == f"'{value.text}'":
            builder.fill("'")
            value.add_to(builder)
            builder.fill("'")
        else:
            value.stand_in(builder, repr(value.text))
        known = self.constants.get(variable[1] or variable[2]) if variable else value
        if known is not None:
            self.environment[name] = known

    def magic(self, rest: str, command: Sequence[_Place]) -> None:
        change = _CHANGE.match(rest.strip())
        if magics.is_installer(rest):
            self.install(_text(command))
        elif change:
            start = len(rest) - len(rest.lstrip()) + change.start(1)
            self.folder = command[0].part(start, start + len(change[1]))
        elif found := re.match(r"run[ \t]+(?:-[a-z][ \t]+)*(?=\S+\.py\b)", rest):
            self.command([command[0].part(found.end()), *command[1:]], prefix="python ")
        elif found := re.match(r"(?:sx|system|time)[ \t]+!?", rest):
            self.command([command[0].part(found.end()), *command[1:]])

    # --- shell ---------------------------------------------------------------------------------------------------

    def install(self, text: str) -> None:
        if magics.installs(text):
            pins_of_command(text, self.pins)

    def command(self, lines: Sequence[_Place], prefix: str = "") -> None:
        """A `!` line: a shell of its own, with Python's variables in braces."""
        text = _text(lines)
        self.install(text)
        only_installs = magics.installs(text) and not re.search(r"&&|[;|]", text)
        if only_installs or not (prefix or STARTS.search(text)):
            return
        builder = self.preamble(text)
        builder.fill(prefix)
        for place in lines:
            last = 0
            for found in _BRACES.finditer(place.text):
                place.part(last, found.start()).add_to(builder)
                place.part(found.start(), found.end()).stand_in(builder, f"${{{found[1] if not found[2] else '_'}}}")
                last = found.end()
            place.part(last).add_to(builder)
            builder.fill("\n")
        self.fragment(builder)

    def shell_cell(self, lines: Sequence[_Place]) -> None:
        """`%%bash`: a script of its own, which sees the environment but no variable of Python's."""
        for place in lines:
            self.install(place.text)
        text = _text(lines)
        if not STARTS.search(text):
            return
        builder = self.preamble("")
        for place in lines:
            place.add_to(builder)
            builder.fill("\n")
        self.fragment(builder)

    def preamble(self, used_in: str) -> TextBuilder:
        """What is in force: the folder, the environment, and the constants that a command uses."""
        builder = TextBuilder()
        for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", used_in)):
            if name in self.constants and re.search(rf"[${{]{name}\b", used_in):
                _assignment(builder, f"{name}=", self.constants[name])
        for name, place in list(self.environment.items())[:MAX_ENVIRONMENT]:
            _assignment(builder, f"export {name}=", place)
        if self.folder is not None:
            _assignment(builder, "cd ", self.folder)
        return builder

    def fragment(self, builder: TextBuilder) -> None:
        if len(self.fragments) < MAX_FRAGMENTS:
            self.fragments.append(ShellFragment(self.path, self.file, builder.build(self.path)))

    # --- files ---------------------------------------------------------------------------------------------------

    def write(self, arguments: str, lines: Sequence[_Place]) -> None:
        """`%%writefile [-a] NAME`"""
        words = arguments.split()
        append = any(word in ("-a", "--append") for word in words)
        names = [word.strip("\"'") for word in words if not word.startswith("-")]
        if len(names) != 1 or re.search(r"[{}$\0]", names[0]) or len(names[0]) > 1000:
            return  # the name is only known when it runs
        builder = self.files[names[0]] if append and names[0] in self.files else TextBuilder()
        for place in lines:
            place.add_to(builder)
            builder.fill("\n")
        self.files[names[0]] = builder

    def written(self) -> Iterator[WrittenFile]:
        for name, builder in self.files.items():
            positions = builder.build(self.path)
            yield WrittenFile(name, self.file.parent / _local(name), positions.text, positions)

    # --- the module ----------------------------------------------------------------------------------------------

    def module(self) -> PositionMap:
        """All cells together. Where they do not parse, the cells at fault are left blank: IPython would go on too."""
        if not magics.is_python("".join(builder.text for _, _, builder in self.done)):
            self.done = [self.repaired(*cell) for cell in self.done]
        whole = TextBuilder()
        for _, _, builder in self.done:
            whole.splice(builder)
        return whole.build(self.path)

    def repaired(self, index: int, lines: list[_Place], builder: TextBuilder) -> tuple[int, list[_Place], TextBuilder]:
        error = _error(builder.text)
        if error is None:
            return index, lines, builder
        place = builder.build(self.path).locate(error.lineno or 1, error.offset or 1)
        message = f"cell {index} is not Python and was left out: {error.msg}"
        self.problems.append(Problem(self.path, message, place.line, place.column))
        blank = TextBuilder()
        _blank(lines, blank)
        return index, lines, blank


def _error(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or type(error).__name__)
    return None


def _assignment(builder: TextBuilder, start: str, place: _Place) -> None:
    """`NAME='value'` for a value that is written elsewhere."""
    if (literal := re.fullmatch(r"""(['"])([^'"]*)\1""", place.text)) is not None:
        builder.fill(start)  # Python's, which a finding in the program points at too
        place.stand_in(builder, f"'{literal[2]}'")
        builder.fill("\n")
        return
    if "'" in place.text:
        return
    builder.fill(f"{start}'")
    place.add_to(builder)
    builder.fill("'\n")


def _dedented(lines: Sequence[_Place]) -> list[_Place]:
    """As IPython: the indentation of the first line is taken off all of them."""
    first = next((place.text for place in lines if place.text.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    if not indent:
        return list(lines)
    return [place.part(len(indent)) if place.text.startswith(indent) else place for place in lines]


def _blank(lines: Sequence[_Place], builder: TextBuilder) -> None:
    """Empty lines in place of some: they still count."""
    for place in lines:
        place.part(0, 0).add_to(builder)
        builder.fill("\n")


def _continued(lines: Sequence[_Place], number: int) -> int:
    """How many lines a command takes: a backslash at the end continues it."""
    count = 1
    while number + count < len(lines) and lines[number + count - 1].text.rstrip("\r\n").endswith("\\"):
        count += 1
    return count


def _text(lines: Sequence[_Place]) -> str:
    return "\n".join(place.text for place in lines)


def _local(name: str) -> str:
    """Where a file lies in the project: /content and /kaggle/working are the folder of the notebook there."""
    for folder in ("/content/", "/kaggle/working/", "./"):
        name = name.removeprefix(folder)
    return name.lstrip("/") if name.startswith("/") else name
