"""Quick fixes: one finding, all of a rule, all safe ones; a comment that hides a finding; the page of its rule."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lsprotocol import types
from pygls.workspace import PositionCodec

from t4lint import suppress
from t4lint.findings import Finding
from t4lint.fix.loop import texts_after
from t4lint.fix.text import Splice
from t4lint.language import ENGLISH, phrase, translated
from t4lint.lsp.buffers import Buffer, uri_of
from t4lint.lsp.diagnostics import Shown
from t4lint.lsp.places import Places
from t4lint.lsp.results import Results, fixed, with_proof
from t4lint.sources.notebook import NotebookDocument, notebook_from
from t4lint.suppress import UNUSED

FIX_ALL = "source.fixAll.t4lint"
SHOW_PAGE = "t4lint.showPage"  # a command of the editor's extension


class Editor:
    """What actions have to know of the editor: its buffers, its units, and whether it has our command for pages."""

    def __init__(
        self,
        results: Results,
        buffers: Mapping[Path, Buffer],
        codec: PositionCodec,
        *,
        shows_pages: bool = False,
        language: str = ENGLISH,
    ) -> None:
        self.results = results
        self.shows_pages = shows_pages
        self.language = language
        self.buffers = buffers
        self.codec = codec

    def say(self, text: str) -> str:
        """A label or sentence in the language of the editor."""
        return phrase(text, self.language, "editor")

    def title(self, finding: Finding) -> str:
        """What the fix of a finding does, in that language."""
        said = translated(replace(self.results.report, findings=(finding,), suppressed=()), self.language).findings[0]
        return said.fix.title if said.fix is not None else ""

    def edit(self, texts: Mapping[str, str]) -> types.WorkspaceEdit | None:
        """The edit that turns documents into other texts, given by path as shown; None where nothing changes."""
        changes: dict[str, list[types.TextEdit]] = {}
        for shown, text in texts.items():
            path = self.results.file_of(shown)
            buffer = self.buffers.get(path)
            if buffer is not None and buffer.is_notebook:
                changes |= self._cells(buffer, text)
                continue
            before = buffer.text if buffer is not None else self.results.text_of(shown)
            if before is not None and before != text:
                changes[uri_of(path, self.buffers)] = self._edits(before, text)
        return types.WorkspaceEdit(changes=changes) if changes else None

    def _cells(self, buffer: Buffer, text: str) -> dict[str, list[types.TextEdit]]:
        notebook = notebook_from(text, buffer.path, buffer.path.name)
        if not isinstance(notebook, NotebookDocument) or len(notebook.sources) != len(buffer.cells):
            return {}
        pairs = zip(buffer.cells, notebook.sources, strict=True)
        return {cell.uri: self._edits(cell.text, source) for cell, source in pairs if cell.text != source}

    def _edits(self, before: str, after: str) -> list[types.TextEdit]:
        places = Places(before, self.codec)
        return [types.TextEdit(places.of_splice(it), it.text) for it in differences(before, after)]


def differences(before: str, after: str) -> list[Splice]:
    """The edits between two texts: whole lines, and only the characters that change where a line became another."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    found = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            found.append(_narrow("".join(old[i:j]), "".join(new[k:m]), starts[i]))
    return found


def _narrow(old: str, new: str, start: int) -> Splice:
    """Without what both texts begin and end with, words left whole."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    while head and old[head - 1].isalnum():
        head -= 1
    tail = next((n for n in range(shorter - head) if old[-1 - n] != new[-1 - n]), shorter - head)
    while tail and old[len(old) - tail].isalnum():
        tail -= 1
    return Splice(start + head, start + len(old) - tail, new[head : len(new) - tail])


def actions(editor: Editor, shown: Sequence[Shown], context: types.CodeActionContext) -> Iterator[types.CodeAction]:
    """What can be done about some findings. Edits of whole files are made when one is chosen (`resolve`)."""
    if wants(context, types.CodeActionKind.QuickFix):
        for one in shown:
            yield from _for_one(editor, one)
    if wants(context, FIX_ALL) and any(_is_safe(it) for it in editor.results.report.findings):
        yield types.CodeAction(editor.say("Fix all safe t4lint findings"), kind=FIX_ALL, data={"fix": "all"})


def wants(context: types.CodeActionContext, kind: types.CodeActionKind | str) -> bool:
    """Did the editor ask for this kind, or for a wider one? Without a wish it asks for all."""
    name = _name(kind)
    return not context.only or any(name == _name(it) or name.startswith(f"{_name(it)}.") for it in context.only)


def group_edit(editor: Editor, wish: str) -> types.WorkspaceEdit | None:
    """All safe fixes, or all of one rule; each is tried, and those that do not help are left out."""
    findings = editor.results.report.findings
    chosen = tuple(it for it in findings if it.fix is not None and (_is_safe(it) if wish == "all" else it.rule == wish))
    return editor.edit(fixed(editor.results, chosen))


def _for_one(editor: Editor, one: Shown) -> Iterator[types.CodeAction]:
    finding = one.finding
    if finding.suppressed is None:
        yield from _fixes(editor, one)
        yield from _ignore(editor, one)
    if editor.shows_pages:
        page = types.Command(editor.say("Open rule page"), SHOW_PAGE, arguments=[finding.rule])
        title = editor.say(f"Open the page of {finding.rule}")
        yield types.CodeAction(title, kind=types.CodeActionKind.QuickFix, diagnostics=[one.diagnostic], command=page)


def _fixes(editor: Editor, one: Shown) -> Iterator[types.CodeAction]:
    if one.finding.fix is None:
        return
    finding = with_proof(editor.results, one.finding)
    edit = editor.edit(texts_after([finding], editor.results.text_of) or {}) if finding.fix is not None else None
    if finding.fix is None or edit is None:
        return
    is_safe = finding.fix.safety == "safe"
    title = editor.title(finding)
    yield types.CodeAction(
        title if is_safe else editor.say(f"{title} (changes more than the finding: look at it)"),
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[one.diagnostic],
        is_preferred=is_safe,
        edit=edit,
    )
    same = [it for it in editor.results.report.findings if it.rule == finding.rule and it.fix is not None]
    if len(same) > 1:
        yield types.CodeAction(
            editor.say(f"Fix all {len(same)} of {finding.rule}"),
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[one.diagnostic],
            data={"fix": finding.rule},
        )


def _ignore(editor: Editor, one: Shown) -> Iterator[types.CodeAction]:
    if one.finding.rule == UNUSED.name:
        return
    only = replace(editor.results.report, findings=(one.finding,))
    edit = editor.edit(suppress.add_ignores(only, editor.results.text_of, ""))
    if edit is not None:
        yield types.CodeAction(
            editor.say(f"Ignore {one.finding.rule} here"),
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[one.diagnostic],
            edit=edit,
        )


def _is_safe(finding: Finding) -> bool:
    return finding.fix is not None and finding.fix.safety == "safe"


def _name(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind
