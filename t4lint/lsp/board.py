"""What has been sent to the editor: the diagnostics of each document, from each check that has some for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote

from lsprotocol import types

Send = Callable[[str, list[types.Diagnostic]], None]
Counts = Callable[[str, Path], bool]


class Board:
    """The check of one file has findings in others too: a launch script, a configuration.

    `send` hands the diagnostics of a document to the editor; `counts` says whether those of a file's check are to be seen in
    a document, given by its unquoted address.
    """

    def __init__(self, send: Send, counts: Counts) -> None:
        self._send = send
        self._counts = counts
        self._found: dict[str, dict[Path, list[types.Diagnostic]]] = {}
        self._names: dict[str, str] = {}  # the editor's own spelling of an address
        self._sent: dict[str, list[types.Diagnostic]] = {}

    @property
    def checked(self) -> set[Path]:
        """The files whose checks have something here."""
        return {path for found in self._found.values() for path in found}

    def put(self, path: Path, by_uri: Mapping[str, list[types.Diagnostic]]) -> None:
        """What the check of a file found now, in the place of what it had found before."""
        gone = {name for name, found in self._found.items() if found.pop(path, None) is not None}
        for uri, diagnostics in by_uri.items():
            name = unquote(uri)
            gone.discard(name)
            self._names[name] = uri
            self._found.setdefault(name, {})[path] = diagnostics
            if self._counts(name, path):
                self._sent.pop(name, None)  # also where it has not changed: the editor hears that it was looked at
                self._show(name)
        self.refresh(gone)

    def refresh(self, uris: Iterable[str]) -> None:
        """Send documents again where something changed: one was opened or closed, or a check ended."""
        for name in map(unquote, uris):
            if self._sent.get(name, []) != self._now(name):
                self._show(name)
            if not self._found.get(name):
                for kept in (self._found, self._sent, self._names):
                    kept.pop(name, None)

    def _show(self, name: str) -> None:
        self._sent[name] = self._now(name)
        self._send(self._names.get(name, name), self._sent[name])

    def _now(self, name: str) -> list[types.Diagnostic]:
        distinct: list[types.Diagnostic] = []
        for path, diagnostics in self._found.get(name, {}).items():
            if self._counts(name, path):
                distinct += [it for it in diagnostics if it not in distinct]
        return distinct
