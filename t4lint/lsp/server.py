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

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from t4lint import __version__, language
from t4lint.devices import find_target
from t4lint.lsp import actions as quick
from t4lint.lsp import hover as hovers
from t4lint.lsp.buffers import Buffer, Stamp, buffer_of, folders, open_buffers, root_of, stamp, uri_of
from t4lint.lsp.diagnostics import Documents, Shown, problem_diagnostics, shown
from t4lint.lsp.lens import lenses
from t4lint.lsp.places import touch
from t4lint.lsp.results import Results, Wishes, fits_of, results_of

T = TypeVar("T")

# Seconds without typing before a document is looked at: half of what the last look took, between these.
SHORTEST, LONGEST = 0.05, 0.2
NOTEBOOK = ".ipynb"
SECTION = "t4lint"  # of the editor's settings
LANGUAGES = ("python", "shellscript", "dockerfile", "makefile", "yaml", "json", "markdown")
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
        self.published: dict[Path, set[str]] = {}  # documents that the check of a file has published to
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

    async def away(self, work: Callable[..., T], *arguments: Any) -> T:
        """Work in the thread of checks, so that the editor is answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work, *arguments)

    def documents(self, results: Results) -> Documents:
        return Documents(results, self.buffers, self.workspace.position_codec, self.language)

    def path_at(self, uri: str) -> Path | None:
        buffer = buffer_of(uri, self.buffers)
        return buffer.path if buffer is not None else None

    # --- diagnostics ---

    def soon(self, path: Path) -> None:
        """Look at a document once the person has stopped typing; one that the editor asks about is left to it."""
        if self.pulls and path.suffix.lower() != NOTEBOOK:
            return
        if path in self.timers:
            self.timers[path].cancel()
        self.timers[path] = asyncio.get_running_loop().create_task(self._later(path))

    async def _later(self, path: Path) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(min(max(self.took.get(path, LONGEST) / 2, SHORTEST), LONGEST))
            await self.publish(path)

    async def publish(self, path: Path) -> None:
        """Send the diagnostics of a document. While it is half typed, those that it had stay where they are."""
        results = await self.results(path)
        if results.broken and path in self.good:
            return
        by_uri = self.diagnostics(results)
        if self.pulls:  # then only cells are sent: editors that ask do not ask about these
            cells = {cell.uri for cell in self.buffers[path].cells}
            by_uri = {uri: found for uri, found in by_uri.items() if uri in cells}
        self.send(path, by_uri)

    def send(self, path: Path, by_uri: Mapping[str, list[types.Diagnostic]]) -> None:
        """Send the diagnostics that the check of a file gave, and take those back that it gave before."""
        for uri in self.published.get(path, set()) - by_uri.keys():
            self._send(uri, [])
        for uri, found in by_uri.items():
            self._send(uri, found)
        self.published[path] = set(by_uri)

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

    def forget(self, path: Path) -> None:
        """A document was closed: what was said about it goes."""
        self.known.pop(path, None)
        self.good.pop(path, None)
        self.took.pop(path, None)
        if path in self.timers:
            self.timers.pop(path).cancel()
        for uri in self.published.pop(path, set()):
            self._send(uri, [])

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


@server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
async def configuration_changed(ls: Server, params: types.DidChangeConfigurationParams) -> None:
    given = params.settings
    if isinstance(given, Mapping) and isinstance(given.get(SECTION), Mapping):
        ls.wishes = Wishes.read(given[SECTION])
    else:
        await ls.read_wishes()
    ls.look_again()


@server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
def files_changed(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
    buffers = ls.buffers
    if any(buffer_of(change.uri, buffers) is None for change in params.changes):  # open ones are known already
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
    path = _file(params.text_document.uri)
    if path is not None:
        ls.forget(path)


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
    path = _file(params.notebook_document.uri)
    if path is not None:
        ls.forget(path)


def touched(ls: Server, uri: str) -> None:
    path = ls.path_at(uri)
    if path is not None:
        ls.soon(path)


def _file(uri: str) -> Path | None:
    from pygls.uris import to_fs_path

    path = to_fs_path(uri)
    return Path(path) if path else None


async def pull(ls: Server, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    """Diagnostics as an answer; those of other files go with them where the editor takes them."""
    uri = params.text_document.uri
    path = ls.path_at(uri)
    if path is None or path.suffix.lower() == NOTEBOOK:
        return types.RelatedFullDocumentDiagnosticReport([])
    results = await ls.results(path)
    if results.broken and path in ls.good and params.previous_result_id is not None:
        return types.RelatedUnchangedDocumentDiagnosticReport(params.previous_result_id)
    by_uri = {unquote(name): found for name, found in ls.diagnostics(results).items()}
    own = by_uri.pop(unquote(uri), [])
    documents = ls.client_capabilities.text_document
    related: dict[str, types.FullDocumentDiagnosticReport | types.UnchangedDocumentDiagnosticReport] | None = None
    if documents is not None and documents.diagnostic is not None and documents.diagnostic.related_document_support:
        open_now = {unquote(it.uri) for it in ls.buffers.values()}
        related = {name: types.FullDocumentDiagnosticReport(it) for name, it in by_uri.items() if name not in open_now}
    result = f"{ls.generation}:{hash(stamp(ls.workspace))}"
    return types.RelatedFullDocumentDiagnosticReport(own, result_id=result, related_documents=related or None)


# --- requests ----------------------------------------------------------------------------------------------------


@server.feature(
    types.TEXT_DOCUMENT_CODE_ACTION,
    types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, quick.FIX_ALL], resolve_provider=True),
)
async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    found = await _settled(ls, uri, fixes=True)
    if found is None:
        return []
    results, everything = found
    here = [it for it in everything if unquote(it.uri) == unquote(uri) and touch(it.diagnostic.range, params.range)]
    editor = _editor(ls, results)
    made = await ls.away(lambda: list(quick.actions(editor, here, params.context)))
    for action in made:
        if isinstance(action.data, dict):
            action.data["uri"] = uri
            if not _resolves(ls):
                action.edit = await ls.away(quick.group_edit, editor, action.data["fix"])
    return made


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
    found = await _settled(ls, uri) if ls.wishes.inlay_hints else None
    if found is None:
        return []
    results, everything = found
    names = _same_name(uri, everything, ls)
    return list(hovers.hints(params.range, names, results.arguments, ls.documents(results)))


@server.feature(types.TEXT_DOCUMENT_CODE_LENS)
async def code_lens(ls: Server, params: types.CodeLensParams) -> list[types.CodeLens]:
    """Only for our own extension: other editors do not have the commands."""
    uri = params.text_document.uri
    found = await _settled(ls, uri) if ls.wishes.code_lens and ls.shows_pages else None
    if found is None:
        return []
    results, everything = found
    fits = await ls.away(fits_of, results)
    names = _same_name(uri, everything, ls)
    return list(lenses(names, fits, ls.documents(results), find_target(results.options.target)))


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


@server.command("t4lint.server.checkWorkspace")
async def check_workspace(ls: Server) -> dict[str, int]:
    """Look at all files of the workspace, with progress, and publish what is found; how many files and findings."""
    from t4lint.engine import is_source
    from t4lint.sources.files import find

    files = [file for folder in folders(ls.workspace) for file in find([folder], problems=[], wanted=is_source)]
    token = f"t4lint-{ls.generation}-{len(files)}"
    shows = await _begin(ls, token)
    count = 0
    for number, file in enumerate(files):
        if shows:
            share = 100 * number // len(files)
            ls.work_done_progress.report(token, types.WorkDoneProgressReport(message=file.name, percentage=share))
        results = await ls.results(file)
        count += len(results.report.findings)
        ls.send(file, ls.diagnostics(results))
    if shows:
        ls.work_done_progress.end(token, types.WorkDoneProgressEnd(message=ls.say(f"{count} findings")))
    return {"files": len(files), "findings": count}


async def _begin(ls: Server, token: str) -> bool:
    """Progress in the editor, where it can show some."""
    window = ls.client_capabilities.window
    if window is None or not window.work_done_progress:
        return False
    await ls.work_done_progress.create_async(token)
    begin = types.WorkDoneProgressBegin(title="t4lint", percentage=0)
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
