"""The language server, asked by a real client over stdio, as VS Code and Neovim introduce themselves."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")
pytest_lsp = pytest.importorskip("pytest_lsp")

from lsprotocol import types  # noqa: E402
from pytest_lsp import LanguageClient, client_capabilities, make_test_lsp_client  # noqa: E402

PROFILES = ("visual_studio_code", "neovim")
LOADER = """\
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(range(64), batch_size=8, pin_memory=False)
for batch in loader:
    loss = model(batch.cuda(non_blocking=True)).sum()
    loss.backward()
    optimizer.step()
"""
RULE = "pin-memory-disabled"


def uri_of(path: Path) -> str:
    return path.as_uri()


@asynccontextmanager
async def session(
    root: Path, profile: str = "visual_studio_code", change: Callable[[types.ClientCapabilities], None] | None = None,
    options: dict[str, Any] | None = None, roots: tuple[Path, ...] = (),
) -> AsyncIterator[LanguageClient]:  # fmt: skip
    """A server over a folder, with a client of this profile; it must end well."""
    client = make_test_lsp_client()

    @client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(params: types.RegistrationParams) -> None:
        client.registered = {**getattr(client, "registered", {}), **{it.method: it for it in params.registrations}}

    await client.start_io(sys.executable, "-m", "t4lint", "server")
    capabilities = client_capabilities(profile)
    if change is not None:
        change(capabilities)
    folders = [types.WorkspaceFolder(uri_of(folder), folder.name) for folder in (roots or (root,))]
    await client.initialize_session(
        types.InitializeParams(
            capabilities=capabilities, root_uri=uri_of(root), workspace_folders=folders, initialization_options=options
        )
    )
    client.capabilities = capabilities
    yield client
    await client.shutdown_session()
    await client.stop()


def opened(client: LanguageClient, path: Path, text: str, language: str = "python", version: int = 1) -> str:
    uri = uri_of(path)
    item = types.TextDocumentItem(uri, language, version, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    return uri


def typed(client: LanguageClient, uri: str, version: int, text: str, at: types.Range | None = None) -> None:
    change: Any = (
        types.TextDocumentContentChangeWholeDocument(text)
        if at is None
        else types.TextDocumentContentChangePartial(at, text)
    )
    document = types.VersionedTextDocumentIdentifier(version, uri)
    client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))


async def diagnosed(client: LanguageClient, uri: str) -> list[types.Diagnostic]:
    """The diagnostics of a document: the answer where the client pulls, else the next ones that the server sends."""
    documents = client.capabilities.text_document
    if documents is not None and documents.diagnostic is not None:
        asked = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
        answer = await asyncio.wait_for(client.text_document_diagnostic_async(asked), 30)
        return list(getattr(answer, "items", ()))
    while True:
        await asyncio.wait_for(client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS), 30)
        if uri in client.diagnostics:
            return list(client.diagnostics.pop(uri))


def everything_said(client: LanguageClient) -> list[types.Diagnostic]:
    return [diagnostic for found in client.diagnostics.values() for diagnostic in found]


async def actions(
    client: LanguageClient, uri: str, at: types.Range, only: list[types.CodeActionKind | str] | None = None
) -> list[types.CodeAction]:
    context = types.CodeActionContext([], only=only)
    asked = types.CodeActionParams(types.TextDocumentIdentifier(uri), at, context)
    found = await client.text_document_code_action_async(asked)
    return [it for it in found or [] if isinstance(it, types.CodeAction)]


def applied(text: str, edits: list[types.TextEdit], units: str) -> str:
    """A text after edits, whose columns count in these units."""
    lines = [*text.splitlines(keepends=True), ""]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(position: types.Position) -> int:
        line = lines[position.line]
        if units == "utf-32":
            column = position.character
        else:
            width = {"utf-16": lambda c: len(c.encode("utf-16-le")) // 2, "utf-8": lambda c: len(c.encode())}[units]
            column, seen = 0, 0
            while seen < position.character:
                seen += width(line[column])
                column += 1
        return starts[position.line] + column

    for edit in sorted(edits, key=lambda it: offset(it.range.start), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def only(found: list[types.Diagnostic], rule: str = RULE) -> types.Diagnostic:
    (one,) = [it for it in found if it.code == rule]
    return one


async def check(path: Path, text: str, profile: str) -> None:
    """Open, fix, see the finding go."""
    async with session(path.parent, profile) as client:
        uri = opened(client, path, text)
        diagnostic = only(await diagnosed(client, uri))
        assert diagnostic.severity == types.DiagnosticSeverity.Warning
        assert diagnostic.source == "t4lint"
        assert "page-locked" in diagnostic.message
        (fix, *_) = await actions(client, uri, diagnostic.range)
        assert fix.is_preferred and fix.edit is not None and fix.edit.changes is not None
        after = applied(text, list(fix.edit.changes[uri]), "utf-16")
        assert after == text.replace("pin_memory=False", "pin_memory=True")
        typed(client, uri, 2, after)
        assert RULE not in {it.code for it in await diagnosed(client, uri)}


@pytest.mark.parametrize("profile", PROFILES)
def test_open_fix_and_gone(tmp_path: Path, profile: str) -> None:
    asyncio.run(check(tmp_path / "train.py", LOADER, profile))


@pytest.mark.parametrize(("offered", "column"), [(["utf-16"], 62), (["utf-8", "utf-16"], 64), (["utf-32"], 61)])
def test_columns_after_an_emoji(tmp_path: Path, offered: list[str], column: int) -> None:
    text = LOADER.replace("range(64)", 'list("\U0001f600" * 64)')
    plain = text.splitlines()[5].index("False")
    expected = {61: plain, 62: plain + 1, 64: plain + 3}[column]

    def change(capabilities: types.ClientCapabilities) -> None:
        capabilities.general = types.GeneralClientCapabilities(position_encodings=offered)

    async def run() -> None:
        async with session(tmp_path, change=change) as client:
            uri = opened(client, tmp_path / "train.py", text)
            found = only(await diagnosed(client, uri))
            assert found.range.start == types.Position(5, expected)
            (fix, *_) = await actions(client, uri, found.range)
            assert fix.edit is not None and fix.edit.changes is not None
            after = applied(text, list(fix.edit.changes[uri]), offered[0])
            assert after == text.replace("pin_memory=False", "pin_memory=True")

    asyncio.run(run())


def test_ignore_here(tmp_path: Path) -> None:
    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "train.py", LOADER)
            found = only(await diagnosed(client, uri))
            (ignore,) = [it for it in await actions(client, uri, found.range) if it.title.startswith("Ignore")]
            assert ignore.edit is not None and ignore.edit.changes is not None
            after = applied(LOADER, list(ignore.edit.changes[uri]), "utf-16")
            assert f"pin_memory=False)  # t4lint: ignore[{RULE}]" in after
            typed(client, uri, 2, after)
            assert RULE not in {it.code for it in await diagnosed(client, uri)}

    asyncio.run(run())


def test_fix_all_is_made_when_it_is_chosen(tmp_path: Path) -> None:
    text = LOADER + LOADER.split("\n\n", 1)[1]

    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "train.py", text)
            await diagnosed(client, uri)
            whole = types.Range(types.Position(0, 0), types.Position(99, 0))
            (action,) = await actions(client, uri, whole, [types.CodeActionKind.SourceFixAll])
            assert action.edit is None
            chosen = await client.code_action_resolve_async(action)
            assert chosen.edit is not None and chosen.edit.changes is not None
            after = applied(text, list(chosen.edit.changes[uri]), "utf-16")
            assert after == text.replace("pin_memory=False", "pin_memory=True")

    asyncio.run(run())


def test_values_and_pages_on_hover(tmp_path: Path) -> None:
    text = LOADER.replace("pin_memory=False", "pin_memory=args.pin").replace(
        "model =",
        "import argparse\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--pin", action="store_true")\nargs = parser.parse_args()\nmodel =',
    )
    (tmp_path / "run.sh").write_text("python train.py --pin\n", encoding="utf-8")

    (tmp_path / "train.py").write_text(text, encoding="utf-8")

    async def run() -> None:
        async with session(tmp_path, options={"inlayHints": True}) as client:
            uri = opened(client, tmp_path / "train.py", text)
            await diagnosed(client, uri)
            line = text.splitlines().index(next(it for it in text.splitlines() if "args.pin" in it))
            position = types.Position(line, text.splitlines()[line].index("args.pin"))
            asked = types.HoverParams(types.TextDocumentIdentifier(uri), position)
            hover = await client.text_document_hover_async(asked)
            assert hover is not None
            said = hover.contents.value  # type: ignore[union-attr]
            assert "`pin_memory` of `torch.utils.data.DataLoader`" in said
            assert "* `True`" in said
            assert "run.sh:1" in said
            whole = types.Range(types.Position(0, 0), types.Position(99, 0))
            hints = await client.text_document_inlay_hint_async(
                types.InlayHintParams(types.TextDocumentIdentifier(uri), whole)
            )
            assert [it.label for it in hints or []] == [" = True"]

    asyncio.run(run())


def test_findings_of_launch_files_show_in_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from transformers import HfArgumentParser, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n",
        encoding="utf-8",
    )
    script = "torchrun train.py --output_dir out \\\n  --tf32 True\n"

    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "run.sh", script, "shellscript")
            found = only(await diagnosed(client, uri), "training-arguments-tf32")
            assert found.range.start.line == 1
            assert found.severity == types.DiagnosticSeverity.Error

    asyncio.run(run())


def test_settings_of_the_project_and_of_the_editor(tmp_path: Path) -> None:
    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "train.py", LOADER)
            assert RULE in {it.code for it in await diagnosed(client, uri)}
            (tmp_path / "t4lint.toml").write_text(f'ignore = ["{RULE}"]\n', encoding="utf-8")
            changed = types.FileEvent(uri_of(tmp_path / "t4lint.toml"), types.FileChangeType.Created)
            client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
            assert RULE not in {it.code for it in await diagnosed(client, uri)}
            (tmp_path / "t4lint.toml").write_text('ignroe = ["x"]\n', encoding="utf-8")
            client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
            while not any("did you mean 'ignore'" in it.message for it in everything_said(client)):
                await asyncio.wait_for(client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS), 30)
            client.diagnostics.clear()
            (tmp_path / "t4lint.toml").unlink()
            wish = {"t4lint": {"select": ["fp32-training"]}}
            client.workspace_did_change_configuration(types.DidChangeConfigurationParams(wish))
            while {it.code for it in await diagnosed(client, uri)} != {"fp32-training"}:
                pass

    asyncio.run(run())


def test_half_typed_text_keeps_what_was_known(tmp_path: Path) -> None:
    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "train.py", LOADER)
            await diagnosed(client, uri)
            typed(client, uri, 2, LOADER + "def f(\n")
            await asyncio.sleep(1.5)
            assert uri not in client.diagnostics
            typed(client, uri, 3, LOADER)
            assert RULE in {it.code for it in await diagnosed(client, uri)}

    asyncio.run(run())


def test_a_document_that_never_could_be_read_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / "train.py", "import torch\nprint 'DataLoader'\n")
            (found,) = await diagnosed(client, uri)
            assert found.range.start.line == 1

    asyncio.run(run())


def notebook_item(path: Path, cells: list[tuple[types.NotebookCellKind, str]]) -> types.DidOpenNotebookDocumentParams:
    uri = uri_of(path)
    kinds = {types.NotebookCellKind.Code: "python", types.NotebookCellKind.Markup: "markdown"}
    names = [f"vscode-notebook-cell://{path}#W{number}" for number in range(len(cells))]
    listed = [types.NotebookCell(kind, name) for (kind, _), name in zip(cells, names, strict=True)]
    items = [
        types.TextDocumentItem(name, kinds[kind], 1, text) for (kind, text), name in zip(cells, names, strict=True)
    ]
    return types.DidOpenNotebookDocumentParams(types.NotebookDocument(uri, "jupyter-notebook", 1, listed), items)


def test_notebook_cells(tmp_path: Path) -> None:
    code, markup = types.NotebookCellKind.Code, types.NotebookCellKind.Markup
    head, rest = LOADER.split("\nmodel", 1)
    params = notebook_item(tmp_path / "t.ipynb", [(markup, "# Training\n"), (code, head), (code, f"model{rest}")])
    cell = params.cell_text_documents[2].uri

    async def run() -> None:
        async with session(tmp_path) as client:
            client.notebook_document_did_open(params)
            found = only(await diagnosed(client, cell))
            text = params.cell_text_documents[2].text
            line = next(n for n, it in enumerate(text.splitlines()) if "pin_memory" in it)
            assert found.range.start == types.Position(line, text.splitlines()[line].index("False"))
            (fix, *_) = await actions(client, cell, found.range)
            assert fix.edit is not None and fix.edit.changes is not None and list(fix.edit.changes) == [cell]
            after = applied(text, list(fix.edit.changes[cell]), "utf-16")
            assert after == text.replace("pin_memory=False", "pin_memory=True")
            content = types.NotebookDocumentCellContentChanges(
                types.VersionedTextDocumentIdentifier(2, cell), [types.TextDocumentContentChangeWholeDocument(after)]
            )
            change = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=[content]))
            client.notebook_document_did_change(
                types.DidChangeNotebookDocumentParams(
                    types.VersionedNotebookDocumentIdentifier(2, params.notebook_document.uri), change
                )
            )
            assert RULE not in {it.code for it in await diagnosed(client, cell)}

    asyncio.run(run())


def test_cells_are_sent_to_editors_that_pull_files(tmp_path: Path) -> None:
    """VS Code asks about files, and not about cells."""
    params = notebook_item(tmp_path / "t.ipynb", [(types.NotebookCellKind.Code, LOADER)])
    cell = params.cell_text_documents[0].uri

    def change(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.text_document is not None
        capabilities.text_document.diagnostic = types.DiagnosticClientCapabilities()

    async def run() -> None:
        async with session(tmp_path, change=change) as client:
            client.notebook_document_did_open(params)
            while cell not in client.diagnostics:
                await asyncio.wait_for(client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS), 30)
            assert RULE in {it.code for it in client.diagnostics[cell]}

    asyncio.run(run())


def test_an_editor_that_pulls_gets_answers_and_no_pushes(tmp_path: Path) -> None:
    def change(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.text_document is not None
        capabilities.text_document.diagnostic = types.DiagnosticClientCapabilities(related_document_support=True)

    async def run() -> None:
        async with session(tmp_path, change=change) as client:
            uri = opened(client, tmp_path / "train.py", LOADER)
            document = types.TextDocumentIdentifier(uri)
            answer = await client.text_document_diagnostic_async(types.DocumentDiagnosticParams(document))
            assert isinstance(answer, types.RelatedFullDocumentDiagnosticReport)
            assert RULE in {it.code for it in answer.items}
            typed(client, uri, 2, LOADER + "def f(\n")
            asked = types.DocumentDiagnosticParams(document, previous_result_id=answer.result_id)
            again = await client.text_document_diagnostic_async(asked)
            assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)
            assert not client.diagnostics

    asyncio.run(run())


def test_workspace_command_and_pages(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOADER, encoding="utf-8")
    (tmp_path / "other.py").write_text("print('nothing here')\n", encoding="utf-8")

    async def run() -> None:
        async with session(tmp_path) as client:
            done = await client.workspace_execute_command_async(
                types.ExecuteCommandParams("t4lint.server.checkWorkspace")
            )
            assert done["files"] == 2 and done["findings"] >= 1
            assert RULE in {it.code for it in client.diagnostics[uri_of(tmp_path / "train.py")]}
            page = await client.workspace_execute_command_async(
                types.ExecuteCommandParams("t4lint.server.explain", [RULE])
            )
            assert page.startswith(f"# {RULE}")
            targets = await client.workspace_execute_command_async(types.ExecuteCommandParams("t4lint.server.targets"))
            assert "t4" in {it["name"] for it in targets}

    asyncio.run(run())


@pytest.mark.heavy
def test_two_hundred_random_edits(tmp_path: Path) -> None:
    """Typing, deleting and pasting anywhere; the server answers to the end, and then sees what is there."""
    words = ("(", ")", ":", "\n", "    ", "bf16=True", "torch.", "def f(", '"', "#", "\\", "\U0001f600", "é", "\t", "")
    random_ = random.Random(20261130)
    text = (Path(__file__).parent.parent / "examples" / "finetune.py").read_text(encoding="utf-8")

    async def run() -> None:
        nonlocal text
        async with session(tmp_path, "neovim") as client:
            uri = opened(client, tmp_path / "train.py", text)
            await diagnosed(client, uri)
            for version in range(2, 202):
                lines = text.split("\n")
                line = random_.randrange(len(lines))
                start = random_.randint(0, len(lines[line]))
                end = min(len(lines[line]), start + random_.choice((0, 0, 1, 5, 40)))
                word = random_.choice(words)
                lines[line] = lines[line][:start] + word + lines[line][end:]
                text = "\n".join(lines)
                typed(client, uri, version, text)
                if version % 20 == 0:
                    asked = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, 0))
                    await asyncio.wait_for(client.text_document_hover_async(asked), 30)
            typed(client, uri, 300, LOADER)
            found = await diagnosed(client, uri)
            while RULE not in {it.code for it in found}:
                found = await diagnosed(client, uri)

    asyncio.run(run())


def test_json_of_a_notebook_has_a_line_for_each_line_of_a_cell() -> None:
    from t4lint.lsp.buffers import Cell, notebook_text

    text = notebook_text((Cell("a", True, "x = 1\ny = 2"), Cell("b", False, "")), "python")
    assert json.loads(text)["cells"][0]["source"] == ["x = 1\n", "y = 2"]
    assert sum('"x = 1' in line or '"y = 2' in line for line in text.splitlines()) == 2


def test_a_lens_says_what_a_step_takes_of_the_card(tmp_path: Path) -> None:
    text = (
        "from transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n"
        'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="float32")\n'
        'args = SFTConfig("out", fp16=True, per_device_train_batch_size=1, max_length=256)\n'
        "trainer = SFTTrainer(model, args, train_dataset=data)\n"
        "trainer.train()\n"
    )

    async def lenses(client: LanguageClient) -> list[types.CodeLens]:
        uri = opened(client, tmp_path / "train.py", text)
        asked = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        return list(await client.text_document_code_lens_async(asked) or [])

    async def run() -> None:
        async with session(tmp_path, options={"showPage": True}) as client:
            fit, verify = await lenses(client)
            assert fit.range.start.line == 5
            assert fit.command is not None and verify.command is not None
            assert fit.command.command == "t4lint.fit" and "GiB on the T4" in fit.command.title
            assert (verify.command.command, verify.command.title) == (
                "t4lint.verifyPhantom",
                "verify on a phantom T4 (runs it)",
            )
        async with session(tmp_path) as client:
            assert await lenses(client) == []

    asyncio.run(run())


def test_an_editor_is_asked_to_tell_what_changes(tmp_path: Path) -> None:
    """VS Code sends new settings only to servers that registered for them."""

    async def run() -> None:
        async with session(tmp_path) as client:
            await diagnosed(client, opened(client, tmp_path / "train.py", LOADER))
            assert set(client.registered) == {
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.WORKSPACE_DID_CHANGE_CONFIGURATION,
            }
            assert client.registered[types.WORKSPACE_DID_CHANGE_CONFIGURATION].register_options["section"] == "t4lint"

    asyncio.run(run())


def test_folders_of_a_workspace_have_their_own_settings_and_paths(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, text in ((one, f'ignore = ["{RULE}"]\n'), (two, 'target = "l4"\n')):
        folder.mkdir()
        (folder / "t4lint.toml").write_text(text)

    async def run() -> None:
        async with session(tmp_path, roots=(one, two)) as client:
            first = await diagnosed(client, opened(client, one / "train.py", LOADER))
            assert first and RULE not in {it.code for it in first} and "T4" in first[0].message
            second = await diagnosed(client, opened(client, two / "train.py", LOADER))
            for place, name in ((one, "t4"), (two, "l4"), (two / "train.py", "l4")):
                asked = types.ExecuteCommandParams("t4lint.server.target", [uri_of(place)])
                assert await client.workspace_execute_command_async(asked) == name
            assert RULE in {it.code for it in second} and all("T4" not in it.message for it in second)

    asyncio.run(run())


SCRIPT_WITH_CONFIG = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
parser = HfArgumentParser(TrainingArguments)
args, = parser.parse_NAME_file("train.NAME")
Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=args, train_dataset=[]).train()
"""


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("json", '{\n "output_dir": "out",\n "fp16": true,\n "tf32": true\n}\n', 3),
        ("yaml", "output_dir: out\nfp16: true\ntf32: true\n", 2),
    ],
)
def test_a_configuration_while_it_is_typed(name: str, text: str, line: int, tmp_path: Path) -> None:
    """The file on disk is another one: what counts is what is in the editor."""
    (tmp_path / "t4lint.toml").write_text("")
    (tmp_path / "train.py").write_text(SCRIPT_WITH_CONFIG.replace("NAME", name))
    (tmp_path / f"train.{name}").write_text("{}\n")

    async def run() -> None:
        async with session(tmp_path) as client:
            uri = opened(client, tmp_path / f"train.{name}", text, name)
            found = await diagnosed(client, uri)
            assert [(it.code, it.range.start.line) for it in found] == [("training-arguments-tf32", line)]
            (fix,) = [it for it in await actions(client, uri, found[0].range) if it.edit and "Remove" in it.title]
            assert fix.edit is not None and fix.edit.changes is not None
            assert "tf32" not in applied(text, list(fix.edit.changes[uri]), "utf-16")

    asyncio.run(run())


def test_accepted_findings_are_hints(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOADER)
    command = [sys.executable, "-m", "t4lint", ".", "--select", RULE, "--baseline", "old.json", "--write-baseline"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    async def run() -> None:
        async with session(tmp_path, options={"baseline": "old.json", "select": [RULE]}) as client:
            new = (
                LOADER
                + "DataLoader(range(9), pin_memory=False)\nfor batch in DataLoader(range(9), pin_memory=False):\n    batch.cuda()\n"
            )
            found = await diagnosed(client, opened(client, tmp_path / "train.py", new))
            kinds = {it.range.start.line: it.severity for it in found}
            assert kinds.pop(5) == types.DiagnosticSeverity.Hint
            assert set(kinds.values()) == {types.DiagnosticSeverity.Warning}
            assert "accepted in the baseline" in next(it.message for it in found if it.range.start.line == 5)

    asyncio.run(run())
