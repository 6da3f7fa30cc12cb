"""The language server itself: what the editor asks, and when documents are looked at.

Checks run one at a time in a thread, always on the newest text; answers that have become old are thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote
from uuid import uuid4

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from t4lint import __version__, language
from t4lint.devices import find_target
from t4lint.fit import Fit
from t4lint.lsp import actions as quick
from t4lint.lsp import hover as hovers
from t4lint.lsp.board import Board
from t4lint.lsp.buffers import (
    Buffer,
    Stamp,
    buffer_of,
    file_at,
    folders,
    is_foreign,
    open_buffers,
    root_of,
    stamp,
    uri_of,
)
from t4lint.lsp.diagnostics import Documents, Shown, problem_diagnostics, shown
from t4lint.lsp.lens import lenses, lenses_after
from t4lint.lsp.places import touch
from t4lint.lsp.results import Results, Wishes, fits_of, results_of, target_of
from t4lint.lsp.texts import workspace_like

T = TypeVar("T")

# Seconds without typing before a document is looked at: what the last look took, between these.
SHORTEST, LONGEST = 0.15, 0.2  # who types fast has a key each 0.15 seconds
CALM = 0.2  # seconds without changes of files on disk before what is open is looked at again
NOTEBOOK = ".ipynb"
BULB = types.CodeActionTriggerKind.Automatic
SECTION = "t4lint"  # of the editor's settings
NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook="jupyter-notebook", cells=[types.NotebookCellLanguage("python")]
        )
    ],
    save=True,
)
SETTINGS_FILES = "**/{t4lint.toml,pyproject.toml,requirements*.txt,*.sh,*.yaml,*.yml,*.json,*.py}"


class Server(LanguageServer):
    """The state of one connection: wishes of the editor, the last results of each document, what is published."""

    def __init__(self) -> None:
        super().__init__("t4lint", __version__, notebook_document_sync=NOTEBOOKS)
        self.wishes = Wishes()
        self.asked: str | None = None  # the language of `t4lint server --language`
        self.language = language.ENGLISH  # of the person at the editor
        self.shows_pages = False  # has the editor a command that shows the page of a rule?
        self.generation = 0  # counts changes of settings and of files on disk
        self.pool = ThreadPoolExecutor(1, "t4lint")
        self.lock: asyncio.Lock | None = None
        self.known: dict[Path, tuple[tuple[int, Stamp], Results, bool]] = {}
        self.good: dict[Path, Results] = {}  # the last results of a document that could be read
        self.board = Board(self._send, self.counts)
        self.looking: asyncio.Task[None] | None = None
        self.fits: dict[Path, tuple[tuple[int, Stamp], tuple[Fit, ...]]] = {}
        self.lenses: dict[str, tuple[str, list[types.CodeLens]]] = {}  # of documents when they could last be read
        self.hints: dict[str, tuple[str, list[types.InlayHint]]] = {}
        self.timers: dict[Path, asyncio.Task[None]] = {}
        self.took: dict[Path, float] = {}  # seconds that the last check of a document took
        self._buffers: tuple[Stamp, dict[Path, Buffer]] = ((), {})

    @property
    def buffers(self) -> dict[Path, Buffer]:
        """The open documents as they are now; put together once for each state of them."""
        now = stamp(self.workspace)
        if self._buffers[0] != now:
            self._buffers = (now, open_buffers(self.workspace))
        return self._buffers[1]

    def say(self, text: str) -> str:
        """A label or sentence in the language of the editor."""
        return language.phrase(text, self.language, "editor")

    # --- results ---

    @property
    def pulls(self) -> bool:
        """Does the editor ask for diagnostics, so that none are to be sent?"""
        documents = self.client_capabilities.text_document
        return documents is not None and documents.diagnostic is not None

    async def results(self, path: Path, *, fixes: bool = False) -> Results:
        """The findings of a document as it is now; with their fixes only for who needs these, since they take longer."""
        self.lock = self.lock or asyncio.Lock()
        async with self.lock:
            now = (self.generation, stamp(self.workspace))
            known = self.known.get(path)
            if known is not None and known[0] == now and (known[2] or not fixes):
                return known[1]
            texts = {file: buffer.text for file, buffer in self.buffers.items()}
            work = partial(results_of, path, root_of(path, self.workspace), texts, self.wishes, fixes=fixes)
            started = time.perf_counter()
            results = await self.away(work)
            self.took[path] = time.perf_counter() - started
            self.known[path] = (now, results, fixes)
            if not results.broken:
                self.good[path] = results
            return results

    async def fits_now(self, results: Results) -> tuple[Fit, ...]:
        """What the steps of a document take of the card, worked out once for each state of it."""
        now = (self.generation, stamp(self.workspace))
        known = self.fits.get(results.path)
        if known is None or known[0] != now:
            known = self.fits[results.path] = (now, await self.away(fits_of, results))
        return known[1]

    def text_at(self, uri: str) -> str:
        """The text of an open document, or of a cell."""
        document = self.workspace.text_documents.get(unquote(uri))
        return document.source if document is not None else ""

    async def away(self, work: Callable[..., T], *arguments: Any) -> T:
        """Work in the thread of checks, so that the editor is answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work, *arguments)

    def documents(self, results: Results) -> Documents:
        return Documents(results, self.buffers, self.workspace.position_codec, self.language)

    def path_at(self, uri: str) -> Path | None:
        buffer = buffer_of(uri, self.buffers)
        return buffer.path if buffer is not None else None

    def path_before(self, uri: str) -> Path | None:
        """The file of a document that was open when the buffers were last put together."""
        buffer = buffer_of(uri, self._buffers[1])
        return buffer.path if buffer is not None else None

    # --- diagnostics ---

    def soon(self, path: Path) -> None:
        """Look at a document once the person has stopped typing; one that the editor asks about is left to it."""
        if self.pulls and path in self.buffers and not self.buffers[path].is_notebook:
            return
        if path in self.timers:
            self.timers[path].cancel()
        self.timers[path] = asyncio.get_running_loop().create_task(self._later(path))

    async def _later(self, path: Path) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(self.pause(path))
            await self.publish(path)

    def pause(self, path: Path) -> float:
        """Seconds without typing before a document is looked at again."""
        return min(max(self.took.get(path, LONGEST), SHORTEST), LONGEST)

    async def calm(self, path: Path) -> None:
        """Wait for a pause in the typing, where there is something new to look at. Whoever asks again cancels this."""
        known = self.known.get(path)
        if known is not None and known[0] != (self.generation, stamp(self.workspace)):
            await asyncio.sleep(self.pause(path))

    async def publish(self, path: Path) -> None:
        """Send the diagnostics of a document. While it is half typed, those that it had stay where they are."""
        results = await self.results(path)
        if not (results.broken and path in self.good):
            self.board.put(path, self.diagnostics(results))

    def counts(self, name: str, path: Path) -> bool:
        """Are findings of the check of a file to be sent for a document?

        Those of any check for one that is not open, else only its own; and none where the editor asks itself.
        """
        buffer = buffer_of(name, self.buffers)
        if buffer is None:
            return True
        return buffer.path == path and (buffer.is_notebook or not self.pulls)

    def _send(self, uri: str, found: list[types.Diagnostic]) -> None:
        document = self.workspace.text_documents.get(unquote(uri))
        version = document.version if document is not None else None
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def diagnostics(self, results: Results) -> dict[str, list[types.Diagnostic]]:
        """The diagnostics of a check by document; the checked one is always among them, with all its cells."""
        buffers = self.buffers
        documents = self.documents(results)
        buffer = buffers.get(results.path)
        own = [cell.uri for cell in buffer.cells] if buffer is not None and buffer.is_notebook else []
        found: dict[str, list[types.Diagnostic]] = {uri: [] for uri in own or [uri_of(results.path, buffers)]}
        for one in shown(results, documents):
            found.setdefault(one.uri, []).append(one.diagnostic)
        for uri, diagnostic in problem_diagnostics(results, documents):
            found.setdefault(uri, []).append(diagnostic)
        return found

    def forget(self, path: Path, uri: str) -> None:
        """A document was closed: what was said about it goes, but for what other checks say."""
        self.known.pop(path, None)
        self.good.pop(path, None)
        self.took.pop(path, None)
        self.fits.pop(path, None)
        self.lenses.pop(uri, None)
        self.hints.pop(uri, None)
        if path in self.timers:
            self.timers.pop(path).cancel()
        self.board.put(path, {})
        self.board.refresh([uri])

    def look_soon(self) -> None:
        """Look at all that is open again, once files on disk have stopped changing: many come at once."""
        if self.looking is not None:
            self.looking.cancel()
        self.looking = asyncio.get_running_loop().create_task(self._look_later())

    async def _look_later(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(CALM)
            self.look_again()

    def look_again(self) -> None:
        """Settings or files on disk have changed: all that is open is looked at again."""
        self.generation += 1
        workspace = self.client_capabilities.workspace
        if workspace is not None:
            if self.pulls and workspace.diagnostics is not None and workspace.diagnostics.refresh_support:
                self.workspace_diagnostic_refresh(None)
            if workspace.code_lens is not None and workspace.code_lens.refresh_support:
                self.workspace_code_lens_refresh(None)
            if workspace.inlay_hint is not None and workspace.inlay_hint.refresh_support:
                self.workspace_inlay_hint_refresh(None)
        for path in self.buffers:
            self.soon(path)

    def look_at_closed(self) -> None:
        """Settings have changed: files that are not open but have findings in the editor are looked at again."""
        for path in self.board.checked - self.buffers.keys():
            self.soon(path)

    async def read_wishes(self) -> None:
        """Ask the editor for its settings of ours."""
        workspace = self.client_capabilities.workspace
        if workspace is None or not workspace.configuration:
            return
        asked = types.ConfigurationParams([types.ConfigurationItem(section=SECTION)])
        answer = await self.workspace_configuration_async(asked)
        if answer and isinstance(answer[0], Mapping):
            self.wishes = Wishes.read(answer[0])


server = Server()


# --- life --------------------------------------------------------------------------------------------------------


@server.feature(types.INITIALIZE)
def initialize(ls: Server, params: types.InitializeParams) -> None:
    ls.protocol._workspace = workspace_like(ls.workspace)  # pygls has no other way to say how texts are kept
    ls.language = language_of(params.locale, ls.asked)
    if isinstance(params.initialization_options, Mapping):
        ls.wishes = Wishes.read(params.initialization_options)
        ls.shows_pages = params.initialization_options.get("showPage") is True
    if ls.pulls:
        options = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier=SECTION)
        ls.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)(pull)


def language_of(locale: str | None, flag: str | None = None) -> str:
    """What `--language` or `T4LINT_LANG` asks for, else what the editor itself is in, else that of the system."""
    own = (language.known(locale) or language.ENGLISH) if locale else language.of_locale()
    return language.asked(flag) or own


@server.feature(types.INITIALIZED)
async def initialized(ls: Server, _: types.InitializedParams) -> None:
    await ls.read_wishes()
    registrations = list(_registrations(ls.client_capabilities.workspace))
    if registrations:
        await ls.client_register_capability_async(types.RegistrationParams(registrations))


def _registrations(workspace: types.WorkspaceClientCapabilities | None) -> Iterator[types.Registration]:
    """What an editor tells only those who ask for it: changed files, and changed settings (VS Code sends none unasked)."""
    watching = workspace.did_change_watched_files if workspace is not None else None
    if watching is not None and watching.dynamic_registration:
        files = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(SETTINGS_FILES)])
        yield types.Registration("t4lint-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, files)
    configuring = workspace.did_change_configuration if workspace is not None else None
    if configuring is not None and configuring.dynamic_registration:
        section = types.DidChangeConfigurationRegistrationOptions(SECTION)
        yield types.Registration("t4lint-settings", types.WORKSPACE_DID_CHANGE_CONFIGURATION, section)


@server.feature(types.SHUTDOWN)
def shutdown(ls: Server, _: None) -> None:
    """Nothing is looked at any more. pygls would stumble over the questions that are still open (2.1: it changes what it walks)."""
    for task in ls.timers.values():
        task.cancel()
    open_now = list(ls.protocol._request_futures.items())
    for number, future in open_now:
        if number != ls.protocol.msg_id:
            future.cancel()


@server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
async def configuration_changed(ls: Server, params: types.DidChangeConfigurationParams) -> None:
    given = params.settings
    if isinstance(given, Mapping) and isinstance(given.get(SECTION), Mapping):
        ls.wishes = Wishes.read(given[SECTION])
    else:
        await ls.read_wishes()
    ls.look_again()
    ls.look_at_closed()


@server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
async def files_changed(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
    changes = {path: change.type for change in params.changes if (path := file_at(change.uri)) is not None}
    closed = {path for path in changes if path not in ls.buffers and not is_foreign(path, root_of(path, ls.workspace))}
    if closed:  # open ones are known already
        ls.look_soon()
    for path in closed & ls.board.checked:
        if changes[path] == types.FileChangeType.Deleted:
            ls.board.put(path, {})
        else:
            ls.soon(path)


@server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
async def folders_changed(ls: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
    removed = [path for folder in params.event.removed if (path := file_at(folder.uri)) is not None]
    for path in ls.board.checked - ls.buffers.keys():
        if any(path.is_relative_to(folder) for folder in removed):
            ls.board.put(path, {})
    ls.look_again()


# --- documents ---------------------------------------------------------------------------------------------------


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
async def edited(ls: Server, params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
    touched(ls, params.text_document.uri)


@server.feature(types.TEXT_DOCUMENT_DID_SAVE)
async def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    """What other open documents show may come from this one."""
    for path in ls.buffers:
        ls.soon(path)


@server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    shut(ls, params.text_document.uri)


@server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
@server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
@server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
async def notebook_edited(
    ls: Server,
    params: types.DidOpenNotebookDocumentParams
    | types.DidChangeNotebookDocumentParams
    | types.DidSaveNotebookDocumentParams,
) -> None:
    touched(ls, params.notebook_document.uri)


@server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
def notebook_closed(ls: Server, params: types.DidCloseNotebookDocumentParams) -> None:
    shut(ls, params.notebook_document.uri)


def touched(ls: Server, uri: str) -> None:
    path = ls.path_at(uri)
    if path is not None:
        ls.soon(path)


def shut(ls: Server, uri: str) -> None:
    """A document is not open any more: which file it stood for was known before."""
    path = ls.path_before(uri)
    if path is not None:
        ls.forget(path, uri)


async def pull(ls: Server, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    """Diagnostics as an answer. Those of other files are sent: few editors take them as a part of it."""
    uri = params.text_document.uri
    path = ls.path_at(uri)
    if path is None or path.suffix.lower() == NOTEBOOK:
        return types.RelatedFullDocumentDiagnosticReport([])
    await ls.calm(path)
    results = await ls.results(path)
    if results.broken and path in ls.good and params.previous_result_id is not None:
        return types.RelatedUnchangedDocumentDiagnosticReport(params.previous_result_id)
    by_uri = ls.diagnostics(results)
    own = [it for name, found in by_uri.items() if unquote(name) == unquote(uri) for it in found]
    ls.board.put(path, {name: found for name, found in by_uri.items() if unquote(name) != unquote(uri)})
    ls.board.refresh([uri])  # what had been sent for it before it was open gives way to the answer
    result = f"{ls.generation}:{hash(stamp(ls.workspace))}"
    return types.RelatedFullDocumentDiagnosticReport(own, result_id=result)


# --- requests ----------------------------------------------------------------------------------------------------


@server.feature(
    types.TEXT_DOCUMENT_CODE_ACTION,
    types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, quick.FIX_ALL], resolve_provider=True),
)
async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    found = await _settled(ls, uri)
    if found is None or (params.context.trigger_kind == BULB and not _here(found[1], params)):
        return []  # the bulb follows the cursor: where there is nothing, fixes are not worth their time
    found = await _settled(ls, uri, fixes=True)
    if found is None:
        return []
    results, everything = found
    here = _here(everything, params)
    editor = _editor(ls, results)
    made = await ls.away(lambda: list(quick.actions(editor, here, params.context)))
    for action in made:
        if isinstance(action.data, dict):
            action.data["uri"] = uri
            if not _resolves(ls):
                action.edit = await ls.away(quick.group_edit, editor, action.data["fix"])
    return made


def _here(everything: Sequence[Shown], params: types.CodeActionParams) -> list[Shown]:
    uri = unquote(params.text_document.uri)
    return [it for it in everything if unquote(it.uri) == uri and touch(it.diagnostic.range, params.range)]


@server.feature(types.CODE_ACTION_RESOLVE)
async def resolve(ls: Server, action: types.CodeAction) -> types.CodeAction:
    data = action.data if isinstance(action.data, Mapping) else {}
    found = await _settled(ls, str(data.get("uri", "")), fixes=True)
    if found is not None and action.edit is None:
        action.edit = await ls.away(quick.group_edit, _editor(ls, found[0]), str(data.get("fix", "")))
    return action


@server.feature(types.TEXT_DOCUMENT_HOVER)
async def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    uri = params.text_document.uri
    found = await _settled(ls, uri)
    if found is None:
        return None
    results, everything = found
    names = _same_name(uri, everything, ls)
    return hovers.hover(params.position, names, everything, results.arguments, ls.documents(results))


@server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
async def inlay_hint(ls: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    uri = params.text_document.uri
    if not ls.wishes.inlay_hints:
        return []
    found = await _settled(ls, uri)
    if found is None:
        return hovers.hints_after(*ls.hints.get(uri, ("", [])), ls.text_at(uri))
    results, everything = found
    names = _same_name(uri, everything, ls)
    made = list(hovers.hints(params.range, names, results.arguments, ls.documents(results)))
    ls.hints[uri] = (ls.text_at(uri), made)
    return made


@server.feature(types.TEXT_DOCUMENT_CODE_LENS)
async def code_lens(ls: Server, params: types.CodeLensParams) -> list[types.CodeLens]:
    """Only for our own extension: other editors do not have the commands."""
    uri = params.text_document.uri
    if not (ls.wishes.code_lens and ls.shows_pages):
        return []
    found = await _settled(ls, uri)
    if found is None:
        return lenses_after(*ls.lenses.get(uri, ("", [])), ls.text_at(uri))
    results, everything = found
    fits = await ls.fits_now(results)
    names = _same_name(uri, everything, ls)
    made = list(lenses(names, fits, ls.documents(results), find_target(results.options.target)))
    ls.lenses[uri] = (ls.text_at(uri), made)
    return made


async def _settled(ls: Server, uri: str, *, fixes: bool = False) -> tuple[Results, Sequence[Shown]] | None:
    """The results of the document that a request is about, with their diagnostics; None when it is half typed."""
    path = ls.path_at(uri)
    if path is None:
        return None
    results = await ls.results(path, fixes=fixes)
    return None if results.broken else (results, shown(results, ls.documents(results)))


def _same_name(uri: str, everything: Sequence[Shown], ls: Server) -> str:
    """A document as it was opened: editors escape the same address in different ways."""
    buffer = buffer_of(uri, ls.buffers)
    names = [cell.uri for cell in buffer.cells] + [buffer.uri] if buffer is not None else []
    return next((name for name in names if unquote(name) == unquote(uri)), uri)


def _editor(ls: Server, results: Results) -> quick.Editor:
    codec = ls.workspace.position_codec
    return quick.Editor(results, ls.buffers, codec, shows_pages=ls.shows_pages, language=ls.language)


def _resolves(ls: Server) -> bool:
    """Can the editor ask for an edit when an action is chosen?"""
    documents = ls.client_capabilities.text_document
    actions = documents.code_action if documents is not None else None
    support = actions.resolve_support if actions is not None else None
    return support is not None and "edit" in support.properties


# --- commands ----------------------------------------------------------------------------------------------------


@server.command("t4lint.server.explain")
def explain(ls: Server, rule: str) -> str | None:
    """The page of a rule, as Markdown."""
    return hovers.page(rule, ls.language)


@server.command("t4lint.server.rules")
def list_rules(ls: Server) -> list[dict[str, str]]:
    """The rules, for a picker."""
    from t4lint.ruleset import rules

    return [{"name": it.name, "summary": language.of_rule(it, "summary", it.summary, ls.language)} for it in rules()]


@server.command("t4lint.server.targets")
def targets(ls: Server) -> list[dict[str, str]]:
    """The targets that can be chosen, for a picker."""
    from t4lint.devices import targets as known
    from t4lint.report.page import target_rows

    return [{"name": name, "description": ", ".join(filter(None, rest))} for name, *rest in target_rows(known())]


@server.command("t4lint.server.target")
async def target(ls: Server, uri: str) -> str:
    """What a document, or a folder of the workspace, is checked for."""
    path = file_at(uri) or ls.path_at(uri) or Path.cwd()
    path = path / "train.py" if path in folders(ls.workspace) else path
    return await ls.away(target_of, path, root_of(path, ls.workspace), ls.wishes)


@server.command("t4lint.server.checkWorkspace")
async def check_workspace(ls: Server) -> dict[str, int]:
    """Look at all files of the workspace, with progress, and publish what is found; how many files and findings."""
    files = await ls.away(sources_below, folders(ls.workspace))
    token = f"t4lint-{uuid4()}"
    shows = await _begin(ls, token)
    seen: set[str] = set()
    done = 0
    for file in files:
        if shows:
            if ls.work_done_progress.tokens[token].cancelled():
                break
            share = 100 * done // len(files)
            ls.work_done_progress.report(token, types.WorkDoneProgressReport(message=file.name, percentage=share))
        results = await ls.results(file)
        seen |= {finding.fingerprint for finding in results.report.findings}
        ls.board.put(file, ls.diagnostics(results))
        done += 1
    if shows:
        ls.work_done_progress.end(token, types.WorkDoneProgressEnd(message=ls.say(f"{len(seen)} findings")))
    return {"files": done, "findings": len(seen)}


def sources_below(folders: Sequence[Path]) -> list[Path]:
    """The files of a workspace that are looked at."""
    from t4lint.engine import is_source
    from t4lint.sources.files import find

    return [file for folder in folders for file in find([folder], problems=[], wanted=is_source)]


async def _begin(ls: Server, token: str) -> bool:
    """Progress in the editor, where it can show some."""
    window = ls.client_capabilities.window
    if window is None or not window.work_done_progress:
        return False
    await ls.work_done_progress.create_async(token)
    begin = types.WorkDoneProgressBegin(title="t4lint", percentage=0, cancellable=True)
    ls.work_done_progress.begin(token, begin)
    return True


def serve(asked: str | None = None) -> int:
    """Answer an editor over stdin and stdout until it says goodbye, in the language that was asked for."""
    server.asked = asked
    # The editor gets a stream of its own: nothing that is printed can end up between answers.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        server.start_io(sys.stdin.buffer, answers)
    return 0
