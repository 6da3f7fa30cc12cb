"""The language server and what happens to documents: odd characters, closing, deleting, findings that lie in other files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pygls")
pytest.importorskip("pytest_lsp")

from lsprotocol import types
from pytest_lsp import LanguageClient

from t4lint.lsp.buffers import is_foreign
from t4lint.lsp.places import lines_after
from t4lint.lsp.results import Wishes, results_of
from t4lint.lsp.texts import EditorWorkspace
from tests.test_lsp import LOADER, RULE, actions, diagnosed, opened, session, typed, uri_of

PARSED = """\
from transformers import HfArgumentParser, TrainingArguments, Trainer
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(args=args).train()
"""
LAUNCH = "python {} --output_dir out --fp16 True --tf32 True\n"


def pulls(capabilities: types.ClientCapabilities) -> None:
    """As VS Code's client: it asks about open files, and takes nothing about others with the answer."""
    assert capabilities.text_document is not None
    capabilities.text_document.diagnostic = types.DiagnosticClientCapabilities(related_document_support=False)


async def sent(client: LanguageClient, uri: str, wanted: bool = True) -> list[types.Diagnostic]:
    """The next diagnostics that are sent for a document: some, or (not `wanted`) none."""
    while uri not in client.diagnostics or bool(client.diagnostics[uri]) != wanted:
        await asyncio.wait_for(client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS), 90)
    return list(client.diagnostics.pop(uri))


def close(client: LanguageClient, uri: str) -> None:
    client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))


def changed(client: LanguageClient, path: Path, kind: types.FileChangeType) -> None:
    event = types.FileEvent(uri_of(path), kind)
    client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))


async def check_workspace(client: LanguageClient) -> None:
    await client.workspace_execute_command_async(types.ExecuteCommandParams("t4lint.server.checkWorkspace"))


@pytest.mark.parametrize("odd", ["\x0c\n", "# \u2028 \x0b \x85\n", "x = 1\r"])
def test_edits_below_characters_that_only_python_takes_for_line_ends(odd: str, tmp_path: Path) -> None:
    text = odd + LOADER
    lines = text.replace("\r", "\n").split("\n")
    line = next(number for number, it in enumerate(lines) if "pin_memory" in it)
    column = lines[line].index("False")

    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "train.py", text)
            (found,) = [it for it in await diagnosed(client, uri) if it.code == RULE]
            assert found.range.start == types.Position(line, column)
            at = types.Range(types.Position(line, column), types.Position(line, column + len("False")))
            typed(client, uri, 2, "True", at)
            assert RULE not in {it.code for it in await diagnosed(client, uri)}

    asyncio.run(run())


def test_half_of_an_emoji_is_a_character() -> None:
    workspace = EditorWorkspace(None)
    workspace.put_text_document(types.TextDocumentItem("file:///a.py", "python", 1, "x = '\ud83d'\n"))
    document = workspace.text_documents["file:///a.py"]
    assert document.source == "x = '\N{REPLACEMENT CHARACTER}'\n"
    assert document.lines == ["x = '\N{REPLACEMENT CHARACTER}'\n"]


def test_what_is_closed_shows_nothing(tmp_path: Path) -> None:
    """Also a text that was never saved. A view of the same file at another revision is no file."""

    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "train.py", LOADER)
            assert await sent(client, uri)
            for address in ("untitled:Untitled-1", f"git:{tmp_path}/train.py"):
                item = types.TextDocumentItem(address, "python", 1, LOADER)
                client.text_document_did_open(types.DidOpenTextDocumentParams(item))
            assert await sent(client, "untitled:Untitled-1")
            close(client, f"git:{tmp_path}/train.py")
            close(client, "untitled:Untitled-1")
            assert await sent(client, "untitled:Untitled-1", wanted=False) == []
            assert uri not in client.diagnostics or client.diagnostics[uri]

    asyncio.run(run())


def test_a_finding_is_shown_once(tmp_path: Path) -> None:
    """An editor that asks about open files is sent what it cannot ask about, and only that."""
    (tmp_path / "train.py").write_text(LOADER)
    (tmp_path / "other.py").write_text(LOADER)
    train, other = uri_of(tmp_path / "train.py"), uri_of(tmp_path / "other.py")

    async def run() -> None:
        async with session(tmp_path, change=pulls) as client:
            opened(client, tmp_path / "train.py", LOADER)
            assert await diagnosed(client, train)
            await check_workspace(client)
            assert await sent(client, other)
            assert train not in client.diagnostics
            opened(client, tmp_path / "other.py", LOADER)
            assert await diagnosed(client, other)
            assert await sent(client, other, wanted=False) == []
            close(client, other)
            await check_workspace(client)
            assert await sent(client, other)
            (tmp_path / "other.py").unlink()
            changed(client, tmp_path / "other.py", types.FileChangeType.Deleted)
            assert await sent(client, other, wanted=False) == []

    asyncio.run(run())


@pytest.mark.parametrize("asks", [True, False])
def test_findings_that_lie_in_another_file(asks: bool, tmp_path: Path) -> None:
    """A flag of a launch script, while only the script that it starts is open. Two checks have something about one file."""
    script = LAUNCH.format("one.py") + LAUNCH.format("two.py")
    (tmp_path / "run.sh").write_text(script)
    launch = uri_of(tmp_path / "run.sh")
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(PARSED)

    async def run() -> None:
        async with session(tmp_path, change=pulls if asks else None) as client:
            one = opened(client, tmp_path / "one.py", PARSED)
            if asks:
                assert await diagnosed(client, one) == []
            assert [it.range.start.line for it in await sent(client, launch)] == [0]
            two = opened(client, tmp_path / "two.py", PARSED)
            if asks:
                assert await diagnosed(client, two) == []
            assert [it.range.start.line for it in await sent(client, launch)] == [0, 1]
            opened(client, tmp_path / "run.sh", script, "shellscript")
            if asks:
                assert len(await diagnosed(client, launch)) == 2
                assert await sent(client, launch, wanted=False) == []
                typed(client, one, 2, f"{PARSED}\n")
                assert await diagnosed(client, one) == []
                assert launch not in client.diagnostics
            else:
                while len(await sent(client, launch)) != 2:
                    pass
                typed(client, one, 2, f"{PARSED}\n")
                await sent(client, one, wanted=False)
                assert len(client.diagnostics.get(launch, [0, 1])) == 2
            close(client, launch)
            close(client, two)
            while [it.range.start.line for it in await sent(client, launch)] != [0]:
                pass

    asyncio.run(run())


def test_settings_that_cannot_be_read_are_told_to_an_editor_that_asks(tmp_path: Path) -> None:
    async def run() -> None:
        async with session(tmp_path, change=pulls) as client:
            uri = opened(client, tmp_path / "train.py", LOADER)
            assert await diagnosed(client, uri)
            (tmp_path / "pyproject.toml").write_text("[tool.t4lint\n")
            typed(client, uri, 2, f"{LOADER}\n")
            assert await diagnosed(client, uri) == []
            (problem,) = await sent(client, uri_of(tmp_path / "pyproject.toml"))
            assert "not valid TOML" in problem.message
            (tmp_path / "pyproject.toml").write_text("[tool.t4lint]\n")
            typed(client, uri, 3, LOADER)
            assert await diagnosed(client, uri)
            assert await sent(client, uri_of(tmp_path / "pyproject.toml"), wanted=False) == []

    asyncio.run(run())


def test_folders_that_leave_the_workspace_take_their_findings_along(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "train.py").write_text(LOADER)

    async def run() -> None:
        async with session(tmp_path, roots=(one, two)) as client:
            await check_workspace(client)
            for folder in (one, two):
                assert await sent(client, uri_of(folder / "train.py"))
            removed = types.WorkspaceFoldersChangeEvent([], [types.WorkspaceFolder(uri_of(two), "two")])
            client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(removed))
            assert await sent(client, uri_of(two / "train.py"), wanted=False) == []
            assert uri_of(one / "train.py") not in client.diagnostics

    asyncio.run(run())


def test_lenses_hints_and_hovers_stay_where_they_are_of_use(tmp_path: Path) -> None:
    """While a line is half typed, those of other lines move with their lines. What is written there needs no hover."""
    text = LOADER.replace("pin_memory=False", "pin_memory=not 1").replace("import torch\n", "import torch\n\n", 1)
    options = {"showPage": True, "inlayHints": True}

    async def run() -> None:
        async with session(tmp_path, options=options) as client:
            uri = opened(client, tmp_path / "train.py", text)
            document = types.TextDocumentIdentifier(uri)
            whole = types.Range(types.Position(0, 0), types.Position(99, 0))

            async def lines() -> tuple[list[int], list[int]]:
                lenses = await client.text_document_code_lens_async(types.CodeLensParams(document))
                hints = await client.text_document_inlay_hint_async(types.InlayHintParams(document, whole))
                return [it.range.start.line for it in lenses or []], [it.position.line for it in hints or []]

            (lens, _), (hint,) = await lines()
            typed(client, uri, 2, text.replace("import torch\n", "import torch\nimport os\ndef f(", 1))
            assert await lines() == ([lens + 1, lens + 1], [hint + 1])
            typed(client, uri, 3, text.replace("pin_memory", "pin_memory(", 1))
            assert await lines() == ([lens, lens], [])
            typed(client, uri, 4, text)
            place = types.Position(hint, text.splitlines()[hint].index("8"))
            assert await client.text_document_hover_async(types.HoverParams(document, place)) is None
            place = types.Position(hint, text.splitlines()[hint].index("not 1"))
            assert await client.text_document_hover_async(types.HoverParams(document, place)) is not None

    asyncio.run(run())


def test_the_bulb_finds_nothing_where_nothing_is(tmp_path: Path) -> None:
    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "train.py", LOADER)
            (found,) = [it for it in await diagnosed(client, uri) if it.code == RULE]
            start = types.Range(types.Position(0, 0), types.Position(0, 0))
            for kind, at, count in (
                (types.CodeActionTriggerKind.Automatic, start, 0),
                (types.CodeActionTriggerKind.Automatic, found.range, 3),
                (types.CodeActionTriggerKind.Invoked, start, 1),
            ):
                context = types.CodeActionContext([], trigger_kind=kind)
                asked = types.CodeActionParams(types.TextDocumentIdentifier(uri), at, context)
                assert len(await client.text_document_code_action_async(asked) or []) == count
            assert await actions(client, uri, found.range)

    asyncio.run(run())


def test_lines_after_an_edit() -> None:
    before = "a\nb\nc\nd\n"
    moved = lines_after(before, "a\nb1\nb2\nc\nd\n")
    assert [moved(line) for line in range(4)] == [0, None, 3, 4]
    moved = lines_after(before, "a\nd\n")
    assert [moved(line) for line in range(4)] == [0, None, None, 1]
    moved = lines_after(before, before)
    assert [moved(line) for line in range(4)] == [0, 1, 2, 3]


def test_other_peoples_code_is_not_looked_at(tmp_path: Path) -> None:
    """Nor are changes of it: an installation writes thousands of files."""
    assert is_foreign(tmp_path / ".venv" / "lib" / "torch" / "nn.py", tmp_path)
    assert is_foreign(tmp_path / "web" / "node_modules" / "a.json", tmp_path)
    assert is_foreign(Path("/usr/lib/python3/dist-packages/torch/nn.py"), Path("/usr/lib/python3/dist-packages/torch"))
    assert not is_foreign(tmp_path / "src" / "build.py", tmp_path)
    assert not is_foreign(Path("/home/build/train.py"), Path("/home/build"))


def test_what_the_settings_leave_out_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "t4lint.toml").write_text('exclude = ["theirs"]\n')
    for folder, count in (("theirs", 0), (".venv", 0), ("ours", 1)):
        path = tmp_path / folder / "train.py"
        found = results_of(path, tmp_path, {path: LOADER}, Wishes()).report.findings
        assert [it.rule for it in found].count(RULE) == count


def test_a_goodbye_while_questions_are_open(tmp_path: Path) -> None:
    """The server ends well, whatever it has not answered yet."""
    text = LOADER + "".join(f"x{number} = {number}\n" for number in range(3000))

    async def run() -> None:
        async with session(tmp_path, change=pulls) as client:
            uri = opened(client, tmp_path / "train.py", text)
            document = types.TextDocumentIdentifier(uri)
            for version in range(2, 7):
                typed(client, uri, version, f"{text}#\n")
                asked = types.DocumentDiagnosticParams(document)
                client.protocol.send_request("textDocument/diagnostic", asked)
                client.protocol.send_request("textDocument/codeLens", types.CodeLensParams(document))

    asyncio.run(run())
