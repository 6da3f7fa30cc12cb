"""Launch commands and exported variables of a shell script, by evaluating it as far as its text goes.

Assignments, arrays, quotes, defaults, functions and `cd` are carried out; no command is. What only a run can know
(`$(...)`, arguments, the environment) is unknown, with the reason, and so is a variable that branches leave different.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from t4lint.sources import containers, disk, gpus
from t4lint.sources.document import (
    FILLED_IN_EARLY,
    UNKNOWN_TEXT,
    Container,
    Document,
    Kind,
    LaunchCommand,
    ShellFragment,
    Word,
)
from t4lint.sources.files import display_path, read
from t4lint.sources.fragments import SHELLS
from t4lint.sources.launchers import (
    Start,
    Token,
    base_name,
    counts,
    is_python,
    shell_code,
    some,
    start_of,
    tasks_per_node,
    trains,
    unwrap,
)
from t4lint.sources.positions import TextBuilder
from t4lint.sources.programs import as_started, is_program, program_of_module, program_of_script, start_of_program
from t4lint.sources.shell_words import (
    MAX_WORDS,
    Code,
    Expander,
    Joined,
    Piece,
    Places,
    Scalar,
    Scope,
    Variable,
    text_of,
)
from t4lint.trace import NOT_SAID, Location, Value

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_CODE = 1_000_000  # characters of a script
MAX_STEPS = 20_000  # statements that are carried out
MAX_DEPTH = 50  # of statements inside one another
MAX_CALLS = 8  # of functions, `bash -c` and `eval` inside one another
MAX_LAUNCHES = 64
MAX_PASSES = 4  # of a loop over known words, each carried out
MAX_SOURCED = 8  # scripts that one script sources or calls
MAX_WRITTEN = 8  # files that a script writes
MAX_PARENTS = 12  # folders above the script that are searched for what it starts


def launches(
    document: Document | ShellFragment,
    root: Path | None = None,
    written: Collection[Path] = (),
    consoles: Mapping[str, str] = MappingProxyType({}),
) -> list[LaunchCommand]:
    """The commands of a shell script that start Python training scripts, in order.

    `root` is the project's: scripts are looked for no higher. Without it, the nearest folder with .git or pyproject.toml.
    `written` are files that are not on the disk yet: those that the cells of a notebook write. `consoles` are the commands
    that the project declares, each with its `module:function`.
    """
    return _evaluate(document, root, frozenset(written), consoles).launches


def exports(document: Document | ShellFragment) -> list[tuple[str, Word]]:
    """The environment variables that a shell script exports, in order, each time that it does."""
    return _evaluate(document, None).exports


def _evaluate(
    document: Document | ShellFragment,
    root: Path | None,
    written: frozenset[Path] = frozenset(),
    consoles: Mapping[str, str] = MappingProxyType({}),
) -> _Shell:
    shell = _Shell(document, tuple(_bases(document.file, root)), written, consoles)
    if len(document.text) <= MAX_CODE:
        shell.headers(document.text)
        shell.code(Code(document.text))
        shell.uncalled()
    return shell


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _bases(file: Path, root: Path | None) -> Iterator[Path]:
    """The folders that a script may have been started in: its own, and those above it in the project."""
    folder = Path(os.path.normpath(Path.cwd() / file)).parent
    stop = Path(os.path.normpath(Path.cwd() / root)) if root else None
    for base in [folder, *folder.parents][:MAX_PARENTS]:
        yield base
        if base == stop or (stop is None and (disk.exists(base / ".git") or disk.is_file(base / "pyproject.toml"))):
            return


@dataclass(slots=True)
class _Function:
    body: Node
    code: Code
    scope: Scope
    called: bool = False


@dataclass(slots=True)
class _Shell:
    document: Document | ShellFragment
    bases: tuple[Path, ...]
    written: frozenset[Path] = frozenset()
    consoles: Mapping[str, str] = field(default_factory=dict)
    files: dict[Path, Scalar] = field(default_factory=dict)  # that were written, with their texts
    sourced: int = 0
    launches: list[LaunchCommand] = field(default_factory=list)
    exports: list[tuple[str, Word]] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)
    functions: dict[str, _Function] = field(default_factory=dict)
    slurm: dict[str, Word] = field(default_factory=dict)
    places: Joined = field(init=False)
    project: tuple[str, ...] = field(init=False)  # folders of the project: scripts outside of them are not read
    now: Code = field(init=False)
    running: list[str] = field(default_factory=list)  # functions and nested code
    local: list[dict[str, Variable | None]] = field(default_factory=list)  # what a function must give back
    depth: int = 0
    steps: int = 0
    export_all: bool = False
    wrapping: Start | None = None  # what runs the shell whose `-c` string this is

    def __post_init__(self) -> None:
        document = self.document
        own = document.positions if isinstance(document, ShellFragment) else Places(document.path, document.text)
        self.places = Joined(own, len(document.text))
        self.project = tuple(os.path.realpath(base) for base in self.bases)

    # --- Slurm ---------------------------------------------------------------------------------------------------

    def headers(self, text: str, offset: int = 0) -> None:
        """`#SBATCH` lines stand before the first command; Slurm turns them into variables."""
        for line in text.splitlines(keepends=True):
            if line.strip() and not line.startswith("#"):
                break
            found = re.match(r"#SBATCH\s+(?:--([\w-]+)(?:[=\s]\s*(\S+))?|-(\w)\s*=?\s*(\S+))", line)
            if found:
                name, at = (found[1], 2) if found[1] else (found[3], 4)
                value = found[at] or "true"
                start, end = found.span(at) if found[at] else found.span(0)
                self.slurm[name.replace("-", "_")] = Word(value, self.places.location(offset + start, offset + end))
                self.slurm_variables(name, Piece(value, offset + start, offset + end))
            offset += len(line)

    def slurm_variables(self, name: str, piece: Piece) -> None:
        text = piece.text or ""
        gpus = re.fullmatch(r"(?:gpu:)?(?:[\w-]+:)?(\d+)", text)
        if name in ("gres", "gpus-per-node", "gpus") and gpus:
            piece = piece.part(gpus.start(1), gpus.end(1))
        elif not text.isdecimal():
            return
        for variable in _SLURM.get(name, ()):
            self.scope.variables[variable] = Variable((piece,), None, True)

    # --- statements ----------------------------------------------------------------------------------------------

    def code(self, code: Code) -> None:
        """Parse and carry out a piece of bash."""
        before = getattr(self, "now", None)
        self.now = code
        self.block(_parser().parse(code.data).root_node)
        if before is not None:
            self.now = before

    def block(self, node: Node) -> None:
        """The statements inside a node, one after the other."""
        for child in node.named_children:
            if self.scope.over:
                return
            self.run(child)

    def run(self, node: Node) -> None:
        """Carry out one statement."""
        self.steps += 1
        if self.steps > MAX_STEPS or self.depth >= MAX_DEPTH:
            return
        self.depth += 1
        try:
            self.statement(node)
        finally:
            self.depth -= 1

    def statement(self, node: Node) -> None:
        match node.type:
            case "command":
                self.command(node)
            case "variable_assignment":
                self.assign(node)
            case "declaration_command":
                self.declare(node)
            case "unset_command":
                for child in node.named_children:
                    self.scope.variables.pop(self.now.text(child), None)
            case "if_statement":
                self.branches(node)
            case "case_statement":
                self.cases(node)
            case "for_statement" | "while_statement" | "c_style_for_statement":
                self.loop(node)
            case "function_definition":
                self.define(node)
            case "subshell":
                self.apart(node.named_children)
            case "pipeline":
                for child in node.named_children:
                    self.apart([child])
            case "list":
                self.either(node)
            case "redirected_statement":
                if self.fed(node):
                    return
                for child in node.named_children:
                    if not child.type.endswith("redirect"):
                        self.run(child)
                self.writes(node)
                self.reads(node)
            case "comment" | "test_command" | "heredoc_redirect" | "file_redirect":
                pass
            case _:  # variable_assignments, compound_statement, negated_command, ERROR, ...
                self.block(node)

    def apart(self, nodes: Sequence[Node]) -> None:
        """In a subshell: what it changes is lost."""
        before = self.scope
        self.scope = before.copy()
        for node in nodes:
            if not self.scope.over:
                self.run(node)
        self.scope = before

    def either(self, node: Node) -> None:
        """`a && b`, `a || b`"""
        left, right = node.children[0], node.children[-1]
        self.run(left)
        if self.scope.over or len(node.children) < 3:
            return
        before = self.scope
        if node.children[1].type == "&&" and left.type != "test_command":
            self.scope = before.copy()
            self.run(right)
            self.scope = before if self.scope.over and not _ends(right) else self.scope
        elif left.type in ("test_command", "list"):
            self.merge([before, self.within(before, [right])], node)
        else:
            self.within(before, [right])  # only when the first fails
            self.scope = before

    def branches(self, node: Node) -> None:
        """`if`: each branch starts from the same state, and what they leave different is unknown."""
        groups: list[list[Node]] = [[]]
        conditions: list[list[Node]] = [[]]
        has_else, in_condition = False, True
        for child in node.children:
            if child.type == "then":
                in_condition = False
            elif child.type in ("elif_clause", "else_clause"):
                has_else = has_else or child.type == "else_clause"
                test, body = _clause(child)
                groups.append(body)
                conditions += [test] if child.type == "elif_clause" else []
            elif child.is_named and in_condition:
                self.run(child)
                conditions[0].append(child)
            elif child.is_named:
                groups[0].append(child)
        taken = self.decided(groups, conditions)
        if taken is not None:
            for child in taken:
                if not self.scope.over:
                    self.run(child)
            return
        self.fork(groups, has_else, node)

    def cases(self, node: Node) -> None:
        items = [child for child in node.named_children if child.type == "case_item"]
        bodies: list[list[Node]] = []
        patterns: list[list[str]] = []
        for item in items:
            closed = next((i for i, child in enumerate(item.children) if child.type == ")"), 0)
            bodies.append([child for child in item.children[closed + 1 :] if child.is_named])
            patterns.append([self.now.text(child).strip("\"'") for child in item.children[:closed] if child.is_named])
        subject = self.subject(node)
        if subject is not None and all(_plain_pattern(pattern) for group in patterns for pattern in group):
            found = next(
                (body for body, group in zip(bodies, patterns, strict=True) if subject in group or "*" in group), []
            )
            for child in found:
                if not self.scope.over:
                    self.run(child)
            return
        complete = any(self.now.text(item).lstrip("( ").startswith("*)") for item in items)
        self.fork(bodies, complete, node)

    def subject(self, node: Node) -> str | None:
        """The word that a `case` looks at; None where it is not known."""
        words = [child for child in node.named_children if child.type != "case_item"]
        scalars = self.words(words[0]) if words else []
        return text_of(scalars[0]) if len(scalars) == 1 else None

    def each(self, node: Node, name: str, listed: list[Scalar]) -> None:
        """A `for` over words that are known: the body for each of them."""
        body = [child for child in node.named_children if child.type == "do_group"]
        for word in listed:
            if self.scope.over:
                return
            self.scope.variables[name] = Variable(word)
            for child in body:
                self.block(child)

    def loop(self, node: Node) -> None:
        """The body once: the first pass is known, what it changes is not known afterwards."""
        before = self.scope.copy()
        children = list(node.named_children)
        if node.type == "for_statement" and children:
            name = self.now.text(children[0])
            listed = [word for child in children[1:] if child.type != "do_group" for word in self.words(child)]
            if 1 <= len(listed) <= MAX_PASSES and all(text_of(word) is not None for word in listed):
                self.each(node, name, listed)
                return
            self.scope.variables[name] = Variable(self.one_of(name, listed, children[0]))
        elif node.type == "while_statement" and children and children[0].type != "do_group":
            self.run(children[0])
        elif node.type == "c_style_for_statement":
            for child in children:
                if child.type == "variable_assignment":
                    self.assign(child)
        for child in children:
            if child.type == "do_group":
                self.block(child)
        self.merge([before, self.scope], node)

    def one_of(self, name: str, listed: list[Scalar], node: Node) -> Scalar:
        if len(listed) == 1:
            return listed[0]
        texts = [text_of(word) for word in listed[:4]]
        values = ", ".join(text for text in texts if text is not None)
        more = ", ..." if len(listed) > 4 or None in texts else ""
        return (Piece(None, *self.now.span(node), f"${name} is one of {values or 'several words'}{more}"),)

    def decided(self, groups: list[list[Node]], conditions: list[list[Node]]) -> list[Node] | None:
        """The branch that is taken where all tests before it can be told; None where one cannot."""
        for condition, body in zip(conditions, groups, strict=False):
            verdict = self.holds(condition[-1]) if condition else None
            if verdict is None:
                return None
            if verdict:
                return body
        return groups[len(conditions)] if len(groups) > len(conditions) else []

    def holds(self, node: Node) -> bool | None:
        """Does `[ "$MODE" = fast ]` hold? None unless every word in it is known."""
        if node.type == "negated_command":
            inner = self.holds(node.named_children[-1])
            return None if inner is None else not inner
        if node.type == "list" and len(node.children) == 3:
            left, right = self.holds(node.children[0]), self.holds(node.children[2])
            if node.children[1].type == "&&":
                return False if False in (left, right) else None if None in (left, right) else True
            return True if True in (left, right) else None if None in (left, right) else False
        if node.type != "test_command":
            return None
        texts = self.test_words(node)
        return None if texts is None else _test(texts)

    def test_words(self, node: Node) -> list[str] | None:
        """The words between the brackets of a test, expanded; None where one is not known."""
        texts: list[str] = []
        pending = list(node.children)[1:-1]
        while pending:
            child = pending.pop(0)
            if child.type in ("binary_expression", "unary_expression", "negation_expression"):
                pending[:0] = child.children
            elif not child.is_named or child.type in ("test_operator", "extglob_pattern", "regex"):
                texts.append(self.now.text(child))
            else:
                scalars = self.words(child)
                text = text_of(scalars[0]) if len(scalars) == 1 else "" if not scalars else None
                if text is None:
                    return None
                texts.append(text)
        return texts

    def fork(self, bodies: list[list[Node]], complete: bool, node: Node) -> None:
        before = self.scope
        after = [self.within(before, body) for body in bodies]
        self.merge(after if complete else [before, *after], node)

    def within(self, before: Scope, nodes: Sequence[Node]) -> Scope:
        """The state after some statements; `scope` itself is left for the caller to set."""
        self.scope = before.copy()
        for node in nodes:
            if not self.scope.over:
                self.run(node)
        return self.scope

    def merge(self, scopes: list[Scope], node: Node) -> None:
        alive = [scope for scope in scopes if not scope.over]
        if len(alive) < 2:
            self.scope = alive[0] if alive else scopes[-1]
            return
        first, *others = alive
        merged = first.copy()
        span = self.now.span(node)
        line = self.places.location(*span).line
        for name in dict.fromkeys(name for scope in alive for name in scope.variables):
            seen = [scope.variables.get(name) for scope in alive]
            if not all(_same(variable, seen[0]) for variable in seen[1:]):
                why = f"${name} depends on the branch taken at line {line} of {self.document.path}"
                exported = any(variable is not None and variable.exported for variable in seen)
                merged.variables[name] = Variable((Piece(None, *span, why),), None, exported)
        if any(scope.folder != first.folder for scope in others):
            merged.folder = None
        self.scope = merged

    # --- variables -----------------------------------------------------------------------------------------------

    def expander(self) -> Expander:
        return Expander(self.now, self.scope, self.places, self.bases[0] / self.document.file.name)

    def words(self, node: Node) -> list[Scalar]:
        return self.expander().words(node)

    def assign(self, node: Node, export: bool = False, local: bool = False) -> tuple[str, Variable]:
        """`X=1`, `X+=1`, `X=(1 2)`, `X+=(3)`, `X[0]=1`"""
        target, value = node.children[0], node.children[-1]
        value_node = value if len(node.children) > 2 else None
        name = self.now.text(target).partition("[")[0]
        known = self.scope.variables.get(name)
        exported = export or self.export_all or (known is not None and known.exported)
        appends = any(child.type == "+=" for child in node.children[1:2])
        variable = self.value(value_node, exported)
        if target.type == "subscript":
            why = f"an element of ${name} is set at line {self.places.location(*self.now.span(node)).line}"
            variable = Variable((Piece(None, *self.now.span(node), why),), None, exported)
        elif appends and known is not None:
            if known.items is not None and variable.items is not None:
                variable = replace(known, items=(*known.items, *variable.items)[:MAX_WORDS])
            elif known.items is None and variable.items is None:
                variable = Variable((*known.value, *variable.value)[:MAX_WORDS], None, exported)
        self.store(name, variable, local)
        if exported:
            self.exported(name, variable, node)
        return name, variable

    def value(self, node: Node | None, exported: bool) -> Variable:
        if node is not None and node.type == "array":
            items = [word for child in node.named_children if child.type != "comment" for word in self.words(child)]
            return Variable((), tuple(items[:MAX_WORDS]), exported)
        return Variable(self.expander().scalar(node), None, exported)

    def store(self, name: str, variable: Variable, local: bool = False) -> None:
        if local and self.local:
            self.local[-1].setdefault(name, self.scope.variables.get(name))
        self.scope.variables[name] = variable

    def exported(self, name: str, variable: Variable, node: Node) -> None:
        self.exports.append((name, self.word(variable.value, node)))

    def word(self, scalar: Scalar, node: Node) -> Word:
        if not scalar:
            return Word("", self.places.location(*self.now.span(node)))
        first = next(self.expander().token(scalar, node)).word
        text = text_of(scalar)
        why = next((piece.why for piece in scalar if piece.text is None), "")
        return Word(text, first.location, why)

    def declare(self, node: Node) -> None:
        """`export`, `declare`, `local`, `readonly`, `typeset`"""
        how = self.now.text(node.children[0])
        options = "".join(self.now.text(child) for child in node.named_children if child.type == "word")
        export = (how == "export" and "-n" not in options) or "-x" in options
        local = how in ("local", "declare", "typeset") and "-g" not in options
        for child in node.named_children:
            if child.type == "variable_assignment":
                self.assign(child, export, local)
            elif child.type == "variable_name" and (known := self.scope.variables.get(self.now.text(child))):
                name = self.now.text(child)
                self.scope.variables[name] = replace(known, exported=export or (known.exported and how != "export"))
                if export:
                    self.exported(name, known, child)

    # --- commands ------------------------------------------------------------------------------------------------

    def command(self, node: Node) -> None:
        tokens: list[Token] = []
        given: dict[str, Word] = {}
        expander = self.expander()
        for child in node.named_children:
            if child.type == "variable_assignment" and not tokens:
                value = self.value(child.children[-1] if len(child.children) > 2 else None, True)
                given[self.now.text(child.children[0])] = self.word(value.value, child)
            elif child.type.endswith("_redirect") or child.type in ("comment", "process_substitution"):
                continue
            elif len(tokens) < MAX_WORDS:
                tokens.extend(token for scalar in expander.words(child) for token in expander.token(scalar, child))
        if tokens and tokens[0].text == ":":
            self.defaults(node)
        elif tokens:
            self.dispatch(tokens, given, node)

    def defaults(self, node: Node) -> None:
        """`: ${X:=1}`, the usual way to give variables a value that the environment may override."""
        for child in node.named_children:
            part = child.named_children[0] if child.type == "string" and len(child.named_children) == 1 else child
            parts = part.children[1:-1] if part.type == "expansion" else []
            if len(parts) < 2 or parts[0].type != "variable_name" or parts[1].type not in (":=", "="):
                continue
            name = self.now.text(parts[0])
            known = self.scope.variables.get(name)
            exported = self.export_all or (known is not None and known.exported)
            self.scope.variables[name] = self.value(part, exported)

    def dispatch(self, tokens: list[Token], given: dict[str, Word], node: Node) -> None:
        name = tokens[0].text
        function = self.functions.get(name)
        if function is not None:
            self.call(name, function, tokens[1:])
        elif name in ("cd", "pushd"):
            self.change_folder(tokens[1:])
        elif name == "exit" or (name == "return" and self.running):
            self.scope.over, self.scope.returned = True, name == "return"
        elif name == "set":
            self.options(tokens[1:])
        elif name in ("source", ".") and len(tokens) > 1:
            self.source(tokens[1:])
        elif name == "eval":
            self.nested(" ".join(token.text for token in tokens[1:]), 0, self.now.span(node))
        else:
            self.outside(tokens, given, node)
            self.scope.over = self.scope.over or (name == "exec" and len(tokens) > 1)

    def options(self, tokens: Sequence[Token]) -> None:
        words = [token.text for token in tokens]
        if "allexport" in words or any(re.fullmatch(r"-\w*a\w*", word) for word in words):
            self.export_all = "+o" not in words
        if "+a" in words:
            self.export_all = False

    def outside(self, tokens: list[Token], given: dict[str, Word], node: Node) -> None:
        """A command that is no builtin: does it start a script?"""
        inner, assignments, wrapping = unwrap(tokens, self.consoles)
        for token in assignments:
            name, _, value = token.text.partition("=")
            given[name] = Word(value, token.word.location)
        code = shell_code(inner)
        if code is not None:
            self.shell_string(code, given, wrapping, node)
            return
        if self.calls_script(inner, given, wrapping, node):
            return
        start = start_of(inner, wrapping is not None and wrapping.runs_scripts) or self.program(inner)
        if start is None:
            return
        self.wrap(start, wrapping)
        self.launch(start, given, node)

    def program(self, tokens: Sequence[Token]) -> Start | None:
        """A program of an installed library, or a console script of the project."""
        name = base_name(tokens[0]) if tokens else ""
        if is_program(name):
            return start_of_program(name, tokens)
        if name in self.consoles:
            return Start("python", tokens[0], False, tuple(tokens[1:]), {}, program=self.consoles[name])
        return None

    def wrap(self, start: Start, wrapping: Start | None) -> None:
        outer = [known for known in (self.wrapping, wrapping) if known is not None]
        start.slurm = dict(self.slurm)
        if isinstance(self.document, ShellFragment):
            start.pods, start.slots = self.document.pods, self.document.slots
        for known in outer:
            start.under_srun = start.under_srun or known.under_srun
            start.in_container = start.in_container or known.in_container
            start.container = start.container or known.container
            start.mpi = start.mpi or known.mpi
            for name, word in known.slurm.items():
                start.slurm[_LONG.get(name, name)] = word

    def shell_string(self, code: Token, given: dict[str, Word], wrapping: Start | None, node: Node) -> None:
        """`bash -c "..."`: as it is written where possible, so that places are exact and variables are those in force."""
        before, self.wrapping = self.wrapping, wrapping or self.wrapping
        outer = self.scope
        self.scope = outer.copy()
        for name, word in given.items():
            span = self.now.span(node)
            self.scope.variables[name] = Variable((Piece(word.text, *span, word.why),), None, True)
        written = next((child for child in reversed(node.named_children) if self.now.text(child) == code.raw), None)
        written = written or next((child for child in node.named_children if self.is_text(child, code)), None)
        inside = self.now.text(written)[1:-1] if written is not None else ""
        if written is not None and written.type in ("string", "raw_string") and '\\"' not in inside:
            start, end = written.start_byte + 1, written.end_byte - 1
            fixed = self.now.fixed
            self.nested(
                inside, self.now.at(start, end)[0], fixed, written.type == "string", written.type == "raw_string"
            )
        else:
            self.nested(code.text, 0, self.now.span(node), inner=True)
        self.scope, self.wrapping = outer, before

    # --- other scripts -------------------------------------------------------------------------------------------

    def source(self, tokens: Sequence[Token]) -> None:
        """`source FILE`: its statements, as if they stood here."""
        file = self.find(tokens[0])
        if file is None:
            return
        before = self.scope.arguments
        if len(tokens) > 1:
            self.scope.arguments = tuple(self.piece_of(token) for token in tokens[1:])
        self.other(file)
        if self.scope.returned:
            self.scope.over = self.scope.returned = False
        self.scope.arguments = before

    def calls_script(self, tokens: Sequence[Token], given: dict[str, Word], wrapping: Start | None, node: Node) -> bool:
        """`bash inner.sh a`, `sbatch job.sh`, `./inner.sh`: carried out with its arguments and what is exported to it."""
        starters = SHELLS | {"sbatch"}
        rest = list(tokens[1:]) if tokens and base_name(tokens[0]) in starters else list(tokens)
        while len(rest) < len(tokens) and rest and rest[0].text.startswith("-"):
            rest = rest[1:]  # flags of the shell, and of sbatch as `--nodes=2`
        if not rest or not _SCRIPT.search(rest[0].tail) or (len(rest) == len(tokens) and "/" not in rest[0].tail):
            return False
        file = self.find(rest[0])
        if file is None:
            return False
        outer, functions, slurm, before = self.scope, self.functions, self.slurm, self.wrapping
        variables = {name: variable for name, variable in outer.variables.items() if variable.exported}
        for name, word in given.items():
            variables[name] = Variable((Piece(word.text, *self.now.span(node), word.why),), None, True)
        self.scope = Scope(variables, tuple(self.piece_of(token) for token in rest[1:]), outer.folder)
        self.functions, self.wrapping = {}, wrapping or before
        self.other(file)
        self.scope, self.functions, self.slurm, self.wrapping = outer, functions, slurm, before
        return True

    def other(self, file: Path) -> None:
        """Carry out the statements of another script, at their places in it."""
        name = str(file)
        if not any(Path(os.path.realpath(file)).is_relative_to(base) for base in self.project):
            return
        if name in self.running or len(self.running) >= MAX_CALLS or self.sourced >= MAX_SOURCED:
            return
        document = read(file, display_path(file, Path.cwd())) if file not in self.files else None
        if not isinstance(document, Document) or len(document.text) > MAX_CODE:
            return
        # shown as the script that names it is: relative to the same folder
        path = display_path(file, self.shown_from())
        self.sourced += 1
        self.running.append(name)
        bases, self.bases = self.bases, tuple(dict.fromkeys([*self.bases, file.parent]))
        base = self.places.add(Places(path, document.text), len(document.text))
        self.headers(document.text, base)
        self.code(Code(document.text, base))
        self.bases = bases
        self.running.pop()

    def shown_from(self) -> Path:
        """The folder that shown paths are relative to, as those of this script tell."""
        file, shown = Path(os.path.normpath(Path.cwd() / self.document.file)), PurePosixPath(self.document.path)
        if shown.is_absolute() or not file.as_posix().endswith(shown.as_posix()):
            return Path.cwd()
        return Path(*file.parts[: len(file.parts) - len(shown.parts)])

    # --- files that the script writes ----------------------------------------------------------------------------

    def writes(self, node: Node) -> None:
        """`cat > FILE <<EOF`, `tee FILE <<EOF`, `echo TEXT > FILE`: kept, since what is started later may read it."""
        redirects = [child for child in _within(node) if child.type == "file_redirect"]
        heredoc = next((child for child in node.children if child.type == "heredoc_redirect"), None)
        commands = [child for child in _within(node) if child.type == "command"]
        named: Node | None = None
        appends = False
        for redirect in redirects:
            kinds = [child.type for child in redirect.children]
            if kinds and kinds[0] in (">", ">>", ">|"):
                named, appends = redirect.children[-1], kinds[0] == ">>"
        tee = next((it for it in commands if self.now.text(it).startswith("tee ")), None)
        if named is None and tee is not None:
            words = [child for child in tee.named_children[1:] if not self.now.text(child).startswith("-")]
            named, appends = (words[0] if words else None), "-a" in self.now.text(tee).split()
        if named is None or not commands:
            return
        text = self.heredoc_text(heredoc) if heredoc is not None else self.echoed(commands[0])
        file = self.written_file(named)
        if text is None or file is None:
            return
        before = self.files.get(file, ()) if appends else ()
        self.files[file] = (*before, *text)

    def heredoc_text(self, node: Node) -> Scalar | None:
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        if body is None or start is None:
            return None
        return self.expander().heredoc(body, plain=any(mark in self.now.text(start) for mark in "'\\\""))

    def echoed(self, node: Node) -> Scalar | None:
        """The one word of an `echo` or `printf`."""
        words = [scalar for child in node.named_children for scalar in self.words(child)]
        if len(words) != 2 or text_of(words[0]) not in ("echo", "printf"):
            return None
        return words[1]

    def reads(self, node: Node) -> None:
        """`read -r -d '' NAME <<EOF`: the whole text below."""
        command = next((child for child in node.named_children if child.type == "command"), None)
        heredoc = next((child for child in node.children if child.type == "heredoc_redirect"), None)
        said = self.now.text(command) if command is not None else ""
        words = said.split()
        if heredoc is None or words[:1] != ["read"] or not re.search(r"\s-\w*d\s*(?:''|\"\")\s", said):
            return
        text = self.heredoc_text(heredoc)
        if text is not None and re.fullmatch(r"[A-Za-z_]\w*", words[-1]):
            known = self.scope.variables.get(words[-1])
            self.scope.variables[words[-1]] = Variable(text, None, known is not None and known.exported)

    def written_file(self, node: Node) -> Path | None:
        words = self.words(node)
        text = text_of(words[0]) if len(words) == 1 else None
        if not text or "\0" in text or text.startswith("/dev/") or len(text) > 4096:
            return None
        return Path(os.path.normpath((self.scope.folder or self.bases[0]) / text))

    def documents(self) -> tuple[Document, ...]:
        """The files that were written so far, as far as their texts are known."""
        made = []
        for file, pieces in list(self.files.items())[:MAX_WRITTEN]:
            builder = TextBuilder()
            for piece in pieces:
                self.add(builder, piece)
            positions = builder.build(self.places.path)
            kind: Kind = "python" if file.suffix == ".py" else "shell"
            made.append(Document(self.places.path, file, kind, positions.text, positions))
        return (*made, *self.held())

    def held(self) -> tuple[Document, ...]:
        """The programs that the file itself holds and mounts."""
        return self.document.files if isinstance(self.document, ShellFragment) else ()

    def add(self, builder: TextBuilder, piece: Piece) -> None:
        """A piece of a file with its places, line by line; what is not known is marked."""
        text = UNKNOWN_TEXT if piece.text is None else piece.text
        exact = piece.text is not None and piece.end - piece.start == len(text)
        offset = piece.start
        for line in text.splitlines(keepends=True):
            length = len(line) if exact else 0
            place = self.places.location(offset, offset + len(line.rstrip("\r\n")) if exact else piece.end)
            builder.cell, builder.cell_line = place.cell, place.cell_line
            if exact:
                builder.add(line, place.line, place.column)
            else:
                builder.stand_in(line, place.line, place.column, place.end_line, place.end_column)
            offset += length

    def is_text(self, node: Node, code: Token) -> bool:
        """Is this the node that a word of the command was written as?"""
        if node.type not in ("string", "raw_string"):
            return False
        words = self.words(node)
        return len(words) == 1 and text_of(words[0]) == code.word.text and code.word.text is not None

    def nested(
        self, text: str, base: int, fixed: tuple[int, int] | None, deferred: bool = False, inner: bool = False
    ) -> None:
        if text.strip() and len(self.running) < MAX_CALLS:
            self.running.append("")
            self.code(Code(text, base, fixed, deferred, inner or self.now.inner))
            self.running.pop()

    def change_folder(self, tokens: Sequence[Token]) -> None:
        targets = [token for token in tokens if not token.text.startswith("-")]
        if not targets:
            return
        self.scope.folder = self.find(targets[0], want_folder=True)

    def launch(self, start: Start, given: dict[str, Word], node: Node, code: Scalar | None = None) -> None:
        file, program = None, start.program
        if start.inline:
            file = self.program_in(node, start.script, code)
        elif not program:
            file = self.find_module(start.script) if start.is_module else self.find(start.script)
        if file is None and not program:
            name = start.script.text or start.script.tail
            program = program_of_module(name) if start.is_module else program_of_script(name)
        if start.is_module and file is None and not program and start.launcher == "python":
            return  # `python -m pip`: a tool, not a script of the project
        if len(self.launches) >= MAX_LAUNCHES:
            return
        where = self.places.location(*self.now.span(node))
        if start.under_srun and not self.now.inner:
            start.flags = {name: _filled_in_early(name, word) for name, word in start.flags.items()}
        environment = {
            name: self.environment_word(variable, node)
            for name, variable in self.scope.variables.items()
            if variable.exported
        }
        environment.update(given)
        start = as_started(start, environment)
        nodes, per_node = counts(start, environment, where)
        command = LaunchCommand(
            where=where,
            launcher=start.launcher,
            script=start.script.word.text or start.script.raw,
            file=self.stand_in(start, where) if program else file,
            program=program,
            gpus=self.gpus(start, environment),
            arguments=tuple(token.word for token in start.arguments),
            environment=environment,
            launcher_flags=start.flags,
            nodes=some(nodes),
            processes_per_node=some(per_node),
            text=_one_line(self.now.text(node)),
            in_container=start.in_container
            or (isinstance(self.document, ShellFragment) and self.document.in_container),
            container=containers.of_command(start.container) if start.container else self.around(),
            tasks_per_node=tasks_per_node(start),
            written=self.documents(),
        )
        if command not in self.launches:
            self.launches.append(command)

    def program_in(self, node: Node, token: Token, code: Scalar | None) -> Path:
        """A name for the program that a command is given as a text, which is kept as a file."""
        pieces = code or next(
            (scalar for child in node.named_children for scalar in self.words(child) if text_of(scalar) == token.text),
            self.piece_of(token),
        )
        where = self.places.location(pieces[0].start, pieces[0].start)
        file = self.bases[0] / f"<code of {PurePosixPath(where.path).name}:{where.line}>.py"
        self.files[file] = pieces
        return file

    def fed(self, node: Node) -> bool:
        """`python - <<EOF`: does the text below hold the program?"""
        command = next((child for child in node.named_children if child.type == "command"), None)
        heredoc = next((child for child in node.children if child.type == "heredoc_redirect"), None)
        words = [scalar for child in command.named_children for scalar in self.words(child)] if command else []
        texts = [text_of(word) or "" for word in words]
        if command is None or heredoc is None or not texts or not is_python(texts[0]):
            return False
        if any(text not in ("-", "-u") for text in texts[1:]):
            return False
        code = self.heredoc_text(heredoc)
        text = text_of(code) if code else None
        if code is None or text is None or not trains(text):
            return False
        (script,) = self.expander().token(words[-1], command)
        start = Start("python", script, False, (), {}, inline=True)
        self.wrap(start, None)
        self.launch(start, {}, command, code)
        return True

    def stand_in(self, start: Start, where: Location) -> Path:
        """A name for a program that is no file of the project: it lies where its command stands."""
        name = PurePosixPath(start.script.text or start.script.tail).name
        # beside the root, so that the packages of the project are found from it
        base = self.bases[-1] if start.program in self.consoles.values() else self.bases[0]
        return base / f"<{name} of {PurePosixPath(where.path).name}:{where.line}>"

    def around(self) -> Container | None:
        """The container that the whole text runs in."""
        return self.document.container if isinstance(self.document, ShellFragment) else None

    def gpus(self, start: Start, environment: Mapping[str, Word]) -> Value:
        """0 where something leaves the command without a GPU."""
        given = self.document.gpus if isinstance(self.document, ShellFragment) else NOT_SAID
        said = gpus.hidden(environment), gpus.on_cpu(start.launcher, start.flags), given
        return next((value for value in said if value != NOT_SAID), NOT_SAID)

    def environment_word(self, variable: Variable, node: Node) -> Word:
        return self.word(variable.value, node) if variable.items is None else Word("", self.location(node))

    def location(self, node: Node) -> Location:
        return self.places.location(*self.now.span(node))

    # --- files ---------------------------------------------------------------------------------------------------

    def find(self, token: Token, want_folder: bool = False) -> Path | None:
        """The file or folder that a word names: from the working directory, the script's folder, and those above it."""
        text = token.word.text
        if text is None:
            # `$HOME/project/train.py`: what follows the unknown part is looked for in the project.
            text = token.tail.lstrip("/") if token.tail.startswith("/") else ""
        if not text or "\0" in text or len(text) > 4096:
            return None
        folders = [self.scope.folder] if self.scope.folder is not None else []
        held = {document.file for document in self.held()}
        for base in [*folders, *self.bases]:
            for name in self.names(text):
                path = Path(os.path.normpath(base / name))
                try:
                    there = disk.is_folder(path) if want_folder else disk.is_file(path)
                    if there or (not want_folder and (path in self.written or path in self.files or path in held)):
                        return path
                except (OSError, ValueError):
                    continue
        return None

    def names(self, text: str) -> Iterator[str]:
        """A path as written; in a file of another kind, also as the project may lie elsewhere than `/app` or `/content`."""
        yield text
        if isinstance(self.document, ShellFragment) and text.startswith("/"):
            parts = [part for part in text.split("/") if part]
            yield from ("/".join(parts[index:]) for index in range(1, min(len(parts), MAX_PARENTS)))

    def find_module(self, token: Token) -> Path | None:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", token.text):
            return None
        path = token.text.replace(".", "/")
        for candidate in (f"{path}.py", f"{path}/__main__.py", f"src/{path}.py", f"src/{path}/__main__.py"):
            file = self.find(replace(token, word=replace(token.word, text=candidate)))
            if file is not None:
                return file
        return None

    # --- functions -----------------------------------------------------------------------------------------------

    def define(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[self.now.text(name)] = _Function(body, self.now, self.scope)

    def call(self, name: str, function: _Function, tokens: Sequence[Token]) -> None:
        function.called = True
        if name in self.running or len(self.running) >= MAX_CALLS:
            return
        arguments = tuple(self.piece_of(token) for token in tokens)
        before_code, before_arguments = self.now, self.scope.arguments
        self.running.append(name)
        self.local.append({})
        self.now, self.scope.arguments = function.code, arguments
        self.run(function.body)
        self.now, self.scope.arguments = before_code, before_arguments
        if self.scope.returned:
            self.scope.over = self.scope.returned = False
        for variable, value in self.local.pop().items():
            if value is None:
                self.scope.variables.pop(variable, None)
            else:
                self.scope.variables[variable] = value
        self.running.pop()

    def piece_of(self, token: Token) -> Scalar:
        start, end = self.places.span(token.word.location)
        return (Piece(token.word.text, start, end, token.word.why),)

    def uncalled(self) -> None:
        """A function that the script does not call itself may be called by whoever sources it."""
        for name, function in list(self.functions.items()):
            if not function.called:
                self.scope = function.scope.copy()
                self.scope.over, self.scope.arguments = False, None
                self.running.append(name)
                self.now = function.code
                self.run(function.body)
                self.running.pop()


_SCRIPT = re.compile(r"\.(?:sh|bash|sbatch|slurm)$")


def _within(node: Node) -> Iterator[Node]:
    """The nodes of a statement and of the redirections in it."""
    for child in node.children:
        yield child
        if child.type.endswith("redirect") or child.type == "pipeline":
            yield from _within(child)


_SLURM = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "N": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "n": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "c": ("SLURM_CPUS_PER_TASK",),
    "gres": ("SLURM_GPUS_ON_NODE",),
    "gpus-per-node": ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"),
    "gpus": ("SLURM_GPUS",),
}


def _filled_in_early(name: str, word: Word) -> Word:
    """The rank of a node that the batch script fills in before `srun` starts anything: there it is 0, for all nodes."""
    if name not in ("node_rank", "machine_rank") or word.text is not None:
        return word
    found = re.match(r"\$(SLURM_PROCID|SLURM_NODEID) is not set in ", word.why)
    return Word("0", word.location, f"${found[1]}, {FILLED_IN_EARLY}") if found else word


_LONG = {"N": "nodes", "n": "ntasks", "c": "cpus_per_task"}


def _clause(node: Node) -> tuple[list[Node], list[Node]]:
    """The test and the body of an `elif`, or the body of an `else`."""
    parts = list(node.children)
    then = next((i for i, part in enumerate(parts) if part.type == "then"), 0)
    return [p for p in parts[:then] if p.is_named], [p for p in parts[then:] if p.is_named]


def _plain_pattern(pattern: str) -> bool:
    return pattern == "*" or not re.search(r"[*?\[\]$`]", pattern)


_NUMBER = r"-?\d{1,18}"
_NUMBERS = {
    "-eq": int.__eq__, "-ne": int.__ne__, "-lt": int.__lt__, "-le": int.__le__, "-gt": int.__gt__, "-ge": int.__ge__,
}  # fmt: skip


def _test(words: list[str]) -> bool | None:
    """What a test of known words says; None for one that asks for files or patterns."""
    for operator, decides in (("||", True), ("&&", False)):
        if operator in words:
            at = words.index(operator)
            sides = [_test(words[:at]), _test(words[at + 1 :])]
            return decides if decides in sides else None if None in sides else not decides
    if words[:1] == ["!"]:
        inner = _test(words[1:])
        return None if inner is None else not inner
    if len(words) == 1:
        return bool(words[0])
    if len(words) == 2 and words[0] in ("-z", "-n"):
        return bool(words[1]) is (words[0] == "-n")
    if len(words) != 3:
        return None
    left, operator, right = words
    if operator in ("=", "==", "!=") and not re.search(r"[*?\[]", right):
        return (left == right) is (operator != "!=")
    if operator in ("<", ">"):  # between `[[` and `]]`: as text
        return left < right if operator == "<" else left > right
    if operator in _NUMBERS and re.fullmatch(_NUMBER, left) and re.fullmatch(_NUMBER, right):
        return bool(_NUMBERS[operator](int(left), int(right)))
    return None


def _ends(node: Node) -> bool:
    """`python train.py && exit`: after it nothing runs. A group that ends so inside itself may not get there."""
    return node.type == "command"


def _same(one: Variable | None, other: Variable | None) -> bool:
    """Do two branches leave the same value, wherever it is written?"""
    if one is None or other is None or one == other:
        return one == other
    if one.exported != other.exported or (one.items is None) != (other.items is None):
        return False
    ones, others = one.items or (one.value,), other.items or (other.value,)
    texts = [text_of(item) for item in ones]
    return None not in texts and texts == [text_of(item) for item in others]


def _one_line(text: str) -> str:
    text = " ".join(re.sub(r"\\\r?\n", " ", text).split())
    return text if len(text) <= 500 else f"{text[:497]}..."
