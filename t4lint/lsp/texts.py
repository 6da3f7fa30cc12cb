"""Open texts whose lines are those of the protocol.

pygls splits lines as `str.splitlines` does, also at a form feed or U+2028. Editors do not, so that every edit below such a
character would be made in a wrong line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pygls.workspace import TextDocument, Workspace

from t4lint.fix.text import Lines

HALVES = re.compile("[\ud800-\udfff]")  # JavaScript cuts an emoji in two where a person deletes half of it


class EditorText(TextDocument):
    """A text in lines that end with a line feed, a carriage return or both; halves of characters are replaced."""

    @property
    def source(self) -> str:
        text = super().source
        return text if text.isascii() else HALVES.sub("\N{REPLACEMENT CHARACTER}", text)

    @property
    def lines(self) -> Sequence[str]:
        text = self.source
        starts = Lines(text).starts
        return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True) if start < end]


class EditorWorkspace(Workspace):
    """The folders and documents of an editor."""

    def _create_text_document(
        self, doc_uri: str, source: str | None = None, version: int | None = None, language_id: str | None = None
    ) -> TextDocument:
        return EditorText(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self.position_codec,
        )


def workspace_like(workspace: Workspace) -> EditorWorkspace:
    """A workspace of the same folders, in which nothing is open yet."""
    folders = list(workspace.folders.values())
    return EditorWorkspace(workspace.root_uri, workspace._sync_kind, folders, workspace.position_encoding)
