"""Comments that hide findings: `# t4lint: ignore[rule] reason`, and `# t4lint: ignore-file[rule]`.

A comment on a line of its own is about the statement below it, one at the end of a line about the statement that the line
belongs to; without rules in brackets it is about all rules, and about that one line.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from t4lint.findings import Finding, Fix, Report, Suppressed, TextEdit
from t4lint.fix.text import Lines, NoPlace, Splice, as_edits, edited, kind_of, spliced
from t4lint.rule import Rule
from t4lint.trace import Location

if TYPE_CHECKING:
    from t4lint.fix.notebook import View

MARK = "t4lint:"
_COMMENT = re.compile(
    r"#\s*t4lint:\s*(?P<kind>ignore-file|ignore)(?![\w-])[ \t]*(?P<rules>\[(?P<names>[^\]#]*)\])?[ \t]*(?P<reason>[^#\r\n]*)"
)

UNUSED = Rule(
    name="unused-suppression",
    family="suppression",
    severity="note",
    summary="A `# t4lint: ignore` comment that hides nothing",
    message="{what}",
    help="Remove the comment.",
    triggers=(),
    reads=(),
    check=lambda trace: iter(()),
    fix="safe",
    verifiable=False,
    fix_title="Remove the comment",
    page="""A `# t4lint: ignore` comment that hides nothing.

## What happens

The finding that the comment was written for is not there any more, or the comment names a rule that does not exist. If the
fault comes back one day, the comment will hide it.

## How to fix it

Remove the comment, or the name in it; where a name is misspelt, correct it: `t4lint --fix` does.

## When it is right to ignore it

It is only reported for rules that ran, and only where t4lint has seen the whole program: when it is given a folder, or the
script that is started. Where the same file is also checked for another target, whose findings the comment hides, switch this
off: `--ignore unused-suppression`.

## Sources

* none: it is about t4lint's own comments
""",
)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of ours. `rules` are the names as written, None where there are no brackets; `span` is its part of the text."""

    path: str
    line: int
    span: tuple[int, int]
    whole_file: bool
    rules: tuple[str, ...] | None
    reason: str
    alone: bool  # nothing else stands on its line


class Names(NamedTuple):
    """What the engine knows: which rules a name stands for (nothing: it is no name), and which rules ran."""

    resolve: Callable[[str], Collection[str]]
    ran: Collection[str]
    all_ran: bool  # all rules that are on by default did
    near: Callable[[str], str | None] = lambda name: None  # a name like one that stands for nothing


# --- finding comments ----------------------------------------------------------------------------------------------


class File:
    """A text with its comments, and the statements that lines belong to. Of a notebook it is the text of the code cells."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.kind = kind_of(path, text)
        self.view = _cells(path, text) if self.kind == "notebook" else None
        self.text = self.view.text if self.view is not None else text
        self.lines = Lines(self.text)

    @cached_property
    def comments(self) -> tuple[Comment, ...]:
        return tuple(comment for start, end in self._places() for comment in self._ours(start, end))

    def _places(self) -> Iterable[tuple[int, int]]:
        """The comments of the file, whoever they are for."""
        if MARK not in self.text or self.kind == "json":
            return ()
        if self.view is not None:
            return _cell_comments(self.view)
        if self.kind == "python":
            return _python_comments(self.text)
        return _shell_comments(self.text) if self.kind == "shell" else _line_comments(self.text)

    def _ours(self, start: int, end: int) -> Iterator[Comment]:
        line = self.lines.line_of(start)
        alone = not self.text[self.lines.start_of(line) : start].strip()
        for match in _COMMENT.finditer(self.text, start, end):
            names = match["names"]
            rules = None if match["rules"] is None else tuple(it.strip() for it in names.split(",") if it.strip())
            span = match.start(), match.start() + len(match[0].rstrip())
            yield Comment(self.path, line, span, match["kind"] == "ignore-file", rules, match["reason"].strip(), alone)

    def line_of(self, location: Location) -> int | None:
        """The line of the text at which a location starts."""
        return location.line if self.view is None else self.view.line_of(location)

    def location(self, span: tuple[int, int]) -> Location:
        if self.view is not None:
            return self.view.location(*span)
        return Location(self.path, *self.lines.place(span[0]), *self.lines.place(span[1]))

    def edits(self, splices: Iterable[Splice]) -> list[TextEdit]:
        """Edits of the text as edits of the file."""
        return as_edits(self.path, self.text, splices) if self.view is None else self.view.edits(splices)

    def statement(self, line: int) -> tuple[int, int]:
        """The lines of the statement that a line belongs to; of a command, those that a backslash joins."""
        if self.kind == "python":
            from t4lint.sources.statements import statement_span

            return statement_span(self.text, line)
        if self.view is not None and (found := _cell_statement(self.view, line)):
            return found
        first = last = line
        while first > 1 and self.lines.line(first - 1).endswith("\\"):
            first -= 1
        while last < len(self.lines.starts) and self.lines.line(last).endswith("\\"):
            last += 1
        return first, last

    def above(self, line: int) -> range:
        """The lines of comments that stand directly above a line."""
        first = line
        while first > 1 and self.lines.line(first - 1).lstrip().startswith("#"):
            first -= 1
        return range(first, line)

    def covers(self, comment: Comment, rule: str, names: Names, line: int) -> bool:
        """Does a comment hide a finding of `rule` at `line`?"""
        if comment.rules is not None and not any(rule in names.resolve(name) for name in comment.rules):
            return False
        if comment.whole_file:
            return True
        first, last = self.statement(line)
        if comment.alone and comment.line in (*self.above(first), *self.above(line)):
            return True
        if comment.rules is None:
            return comment.line == line
        return first <= comment.line <= last


def _python_comments(text: str) -> Iterator[tuple[int, int]]:
    import tokenize

    lines = Lines(text)
    source = "".join(lines.line(number) + "\n" for number in range(1, len(lines.starts) + 1))
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                start = lines.offset(token.start[0], token.start[1] + 1)
                yield start, start + len(token.string)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


_SHELL_TOKEN = re.compile(
    r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|<<-?\s*(?P<quote>['"]?)(?P<here>\w+)(?P=quote)|(?P<comment>(?:(?<=[\s;|&(])|\A)\#[^\r\n]*)""",
    re.DOTALL,
)


def _shell_comments(text: str) -> Iterator[tuple[int, int]]:
    """A `#` at the start of a word, outside quotes and here-documents."""
    position = 0
    while match := _SHELL_TOKEN.search(text, position):
        position = match.end()
        if match["comment"]:
            yield match.span("comment")
        elif match["here"]:
            end = re.compile(rf"^[ \t]*{re.escape(match['here'])}[ \t]*\r?$", re.MULTILINE).search(text, position)
            line = text.find("\n", position)
            if end and line >= 0:
                rest = text[position:line]
                if " #" in rest:
                    yield position + rest.index(" #") + 1, line
                position = end.end()


# A comment of ours in YAML, a Makefile, a Dockerfile or a README: outside quotes, as far as its own line shows.
_LINE_COMMENT = re.compile(
    r"""^(?:[^'"\r\n]|'[^'\r\n]*'|"[^"\r\n]*"|(?<=\w)')*?(?:^|(?<=\s))(#[ \t]*t4lint:[^\r\n]*)""", re.MULTILINE
)


def _line_comments(text: str) -> Iterator[tuple[int, int]]:
    return (match.span(1) for match in _LINE_COMMENT.finditer(text))


def _cells(path: str, text: str) -> View | None:
    """The code cells of a notebook; None where it cannot be read."""
    from t4lint.fix.notebook import NotebookFile

    try:
        return NotebookFile(path, text).code
    except NoPlace:
        return None


def _cell_comments(view: View) -> Iterator[tuple[int, int]]:
    """Comments in the Python of cells (and in the files that they write), and in lines of shell."""
    notebook = view.notebook
    python: set[int] = set()
    for module in (notebook.module, *notebook.written):
        numbers = [view.numbers.get((row.cell, row.line), 0) for row in module.rows]
        for number, ours in enumerate(numbers, 1):
            if module.rows[number - 1].shift is not None and module.lines.line(number).strip():
                python.add(ours)
        for start, end in _python_comments(module.text):
            line, column = module.lines.place(start)
            row = module.rows[line - 1]
            if row.shift is not None:
                begin = view.lines.offset(numbers[line - 1], column + row.shift)
                yield begin, begin + end - start
    for number in range(1, len(view.rows) + 1):
        text = view.lines.line(number)
        if number not in python and MARK in text:
            start = view.lines.start_of(number)
            yield from ((start + first, start + last) for first, last in _line_comments(text))


def _cell_statement(view: View, line: int) -> tuple[int, int] | None:
    """The lines of a Python statement of a notebook; None where the line is none of Python."""
    from t4lint.sources.statements import statement_span

    row = view.rows[line - 1]
    for module in (view.notebook.module, *view.notebook.written):
        number = module.numbers.get((row.cell, row.line))
        if number is not None and module.rows[number - 1].shift is not None and module.lines.line(number).strip():
            first, last = statement_span(module.text, number)
            ends = [module.rows[it - 1] for it in (first, last)]
            return view.numbers[ends[0].cell, ends[0].line], view.numbers[ends[1].cell, ends[1].line]
    return None


# --- hiding findings -----------------------------------------------------------------------------------------------


def hide(
    findings: Iterable[Finding],
    texts: Mapping[str, str],
    names: Names,
    judged: Collection[str],
    shown_paths: Collection[str] = (),
    *,
    report_unused: bool,
) -> tuple[list[Finding], list[Finding]]:
    """The findings that stay, those that a comment hides, and (among the first) the comments that hide nothing.

    `judged` are the paths of files of which everything is known that could be found in them. In the files of `shown_paths`
    names that stand for no rule are told as well: whatever else uses the file, they hide nothing.
    """
    files = {path: File(path, text) for path, text in texts.items() if MARK in text}
    shown: list[Finding] = []
    hidden: list[Finding] = []
    used: set[tuple[Comment, str]] = set()
    for finding in findings:
        file = files.get(finding.location.path)
        line = file.line_of(finding.location) if file else None
        covering = [it for it in file.comments if file.covers(it, finding.rule, names, line)] if file and line else []
        used |= {(comment, finding.rule) for comment in covering}
        if covering and file:
            why = Suppressed("comment", covering[0].reason, file.location(covering[0].span))
            hidden.append(replace(finding, suppressed=why))
        else:
            shown.append(finding)
    if report_unused:
        for path in sorted(files.keys() & {*judged, *shown_paths}):
            visible = [finding for finding in shown if finding.location.path == path]
            shown += _unused(files[path], used, visible, names, whole=path in judged)
    return shown, hidden


def _unused(
    file: File, used: set[tuple[Comment, str]], visible: Sequence[Finding], names: Names, *, whole: bool
) -> Iterator[Finding]:
    """`whole`: is everything known that could be found in the file?"""
    for comment in file.comments:
        hides = {rule for other, rule in used if other == comment}
        if comment.rules is None:
            if whole and not hides and names.all_ran:
                yield _finding(file, comment, {}, "This comment hides no finding.")
            continue
        idle = [name for name in comment.rules if whole and _is_idle(name, hides, names)]
        unknown = [name for name in comment.rules if not names.resolve(name)]
        if idle or unknown:
            instead = dict.fromkeys(idle) | {name: _meant(file, comment, name, visible, names) for name in unknown}
            yield _finding(file, comment, instead, _said(idle, unknown, names))


def _meant(file: File, comment: Comment, name: str, visible: Sequence[Finding], names: Names) -> str | None:
    """The rule whose name was misspelt, if the comment would then hide a finding."""
    near = names.near(name)
    if near is None:
        return None
    corrected = replace(comment, rules=(near,))
    lines = ((finding.rule, file.line_of(finding.location)) for finding in visible)
    return near if any(line and file.covers(corrected, rule, names, line) for rule, line in lines) else None


def _is_idle(name: str, hides: set[str], names: Names) -> bool:
    meant = names.resolve(name)
    return bool(meant) and not hides & set(meant) and set(meant) <= set(names.ran)


def _said(idle: list[str], unknown: list[str], names: Names) -> str:
    said = []
    for name in unknown:
        near = names.near(name)
        said.append(f"There is no rule `{name}` (did you mean `{near}`?)." if near else f"There is no rule `{name}`.")
    if idle:
        listed = ", ".join(f"`{name}`" for name in idle)
        said.append(f"There is no finding of {listed} to hide here.")
    return " ".join(said)


def _finding(file: File, comment: Comment, instead: Mapping[str, str | None], message: str) -> Finding:
    """`instead`: what should stand in the place of names of the comment, None where nothing should."""
    if any(instead.values()):
        help, title = "Write the name of the rule.", "Write the name of the rule"
    else:
        stays = len(instead) < len(comment.rules or ())
        help, title = "Remove the name from the comment." if stays else UNUSED.help, UNUSED.fix_title
    return Finding(
        rule=UNUSED.name,
        severity=UNUSED.severity,
        confidence="certain",
        location=file.location(comment.span),
        message=message,
        help=help,
        fix_safety="safe",
        fix=_fix(file, title, _rewritten(file, comment, instead)),
    )


def _fix(file: File, title: str, splice: Splice) -> Fix | None:
    try:
        return Fix("safe", title, tuple(file.edits([splice])))
    except NoPlace:  # e.g. the cell would be empty
        return None


def _rewritten(file: File, comment: Comment, instead: Mapping[str, str | None]) -> Splice:
    """The comment with other or fewer names, or without it: with its line, or with the blanks before it."""
    start, end = comment.span
    names = [instead.get(name, name) for name in comment.rules or ()]
    kept = list(dict.fromkeys(name for name in names if name))
    if kept:
        text = file.text[start:end]
        return Splice(start, end, re.sub(r"\[[^\]]*\]", f"[{', '.join(kept)}]", text, count=1))
    line_start, line_stop = file.lines.start_of(comment.line), file.lines.stop_of(comment.line)
    rest = file.text[end:line_stop]
    before = file.text[line_start:start]
    if comment.alone and not before.strip() and not rest.strip():
        return Splice(line_start, file.lines.end_of(comment.line), "")
    if rest.strip():
        return Splice(start, end + len(rest) - len(rest.lstrip()), "")
    return Splice(line_start + len(before.rstrip()), line_stop, "")


# --- writing comments ----------------------------------------------------------------------------------------------


def add_ignores(report: Report, text_of: Callable[[str], str | None], reason: str) -> dict[str, str]:
    """The texts of files with a comment for each finding that the report shows, as far as one can stand there."""
    wanted: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.rule != UNUSED.name:
            wanted.setdefault(finding.location.path, []).append(finding)
    changed: dict[str, str] = {}
    for path, findings in wanted.items():
        text = text_of(path)
        if text is not None and kind_of(path, text) != "json":
            changed[path] = _with_comments(path, text, findings, reason)
    return {path: text for path, text in changed.items() if text != text_of(path)}


def with_ignore(report: Report, finding: Finding, text_of: Callable[[str], str | None]) -> dict[str, str]:
    """The texts with a comment for one finding."""
    return add_ignores(replace(report, findings=(finding,)), text_of, "")


def _with_comments(path: str, text: str, findings: Iterable[Finding], reason: str) -> str:
    file = File(path, text)
    by_line: dict[int, list[str]] = {}
    for finding in findings:
        if line := file.line_of(finding.location):
            rules = by_line.setdefault(line, [])
            rules += [finding.rule] if finding.rule not in rules else []
    for line in sorted(by_line, reverse=True):  # from the end, so that the lines above stay where they are
        try:
            text = edited(text, File(path, text).edits([_comment(File(path, text), line, by_line[line], reason)]))
        except NoPlace:
            continue
    return text


def _comment(file: File, line: int, rules: list[str], reason: str) -> Splice:
    """The comment for a line: added to one that is there, behind the line, or above its statement."""
    for comment in file.comments:
        if comment.line == line and comment.rules is not None and not comment.whole_file:
            names = ", ".join(dict.fromkeys([*comment.rules, *rules]))
            start, end = comment.span
            return Splice(start, end, re.sub(r"\[[^\]]*\]", f"[{names}]", file.text[start:end], count=1))
    text = f"# t4lint: ignore[{', '.join(rules)}]{f' {reason}' if reason else ''}"
    stop = file.lines.stop_of(line)
    start = file.lines.start_of(line) + len(file.lines.line(line).rstrip())
    behind = Splice(start, stop, f"  {text}")
    goes_on = file.lines.line(line).endswith("\\")
    if not goes_on and _is_comment(file, behind, line):
        return behind
    first = file.statement(line)[0]  # the line goes on in the next one, or ends inside a string
    start = file.lines.start_of(first)
    return Splice(start, start, f"{file.lines.indent(first)}{text}\n")


def _is_comment(file: File, splice: Splice, line: int) -> bool:
    """Does text behind a line become a comment there?"""
    if file.view is None:
        after = File(file.path, spliced(file.text, [splice]))
    else:
        notebook = file.view.notebook
        after = File(file.path, edited(notebook.text, file.edits([splice])))
    return any(it.line == line and not it.alone for it in after.comments)
