"""How long an editor waits for findings after a key: the real server over stdio, a script of about 600 lines.

    python benchmarks/lsp_latency.py [--edits 20] [--lines 600]

Prints the median and the slowest time from the change to the diagnostics, the server's pause for typing included. The script
is examples/finetune.py with further functions of a training script below it. Needs the extras `lsp` and `dev`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities, make_test_lsp_client

ROOT = Path(__file__).parent.parent
FUNCTION = '''

def train_{number}(model, data, steps):
    """One of many loops of a long script."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(data, batch_size=16, num_workers=2, pin_memory=True)
    total = 0.0
    for step, batch in enumerate(loader):
        batch = {{name: tensor.to("cuda", non_blocking=True) for name, tensor in batch.items()}}
        loss = model(**batch).loss / 4
        loss.backward()
        if step % 4 == 3:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if step >= steps:
            break
    return total
'''


def script(lines: int) -> str:
    text = (ROOT / "examples" / "finetune.py").read_text(encoding="utf-8")
    number = 0
    while text.count("\n") < lines:
        text += FUNCTION.format(number=number)
        number += 1
    return text


async def measure(edits: int, lines: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).as_uri()
        client = make_test_lsp_client()
        client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: None)
        await client.start_io(sys.executable, "-m", "t4lint", "server")
        capabilities = client_capabilities("visual_studio_code")
        workspace = [types.WorkspaceFolder(root, "project")]
        await client.initialize_session(
            types.InitializeParams(capabilities=capabilities, root_uri=root, workspace_folders=workspace)
        )
        uri, text = f"{root}/train.py", script(lines)
        client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text)))
        await published(client, uri)
        times = []
        for version in range(2, 2 + edits):
            start = time.perf_counter()
            change = types.TextDocumentContentChangeWholeDocument(f"{text}\nprint({version})\n")
            document = types.VersionedTextDocumentIdentifier(version, uri)
            client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
            await published(client, uri)
            times.append(time.perf_counter() - start)
        await client.shutdown_session()
        await client.stop()
        return times


async def published(client: LanguageClient, uri: str) -> None:
    while uri not in client.diagnostics:
        await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    client.diagnostics.pop(uri)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=20)
    parser.add_argument("--lines", type=int, default=600)
    args = parser.parse_args()
    times = asyncio.run(measure(args.edits, args.lines))
    print(f"{args.lines} lines, {args.edits} edits: median {median(times):.2f} s, slowest {max(times):.2f} s")


if __name__ == "__main__":
    main()
