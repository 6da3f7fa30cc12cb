"""What recording costs a program: pairs of a plain and a recorded run of one training loop, for two sizes of a model.

    python benchmarks/verify_overhead.py [--pairs 7] [--write docs/verify.md]

Each run is a process of its own; the order within a pair alternates. CPU time is compared, not wall time, so that other
work on the machine weighs less: of the loop after its first steps (`per step`), and of everything before it (`start`:
imports, building the model, the first steps, for the recorded run with the sandbox's own start). Prints a table, and
with `--write` puts it into a page, between the comments `overhead` and `end of overhead`.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from t4lint.record.launch import record

SCRIPT = """
import sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

width, layers, length, steps = map(int, sys.argv[1:])
torch.set_num_threads(1)
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
model = nn.Sequential(nn.Embedding(512, width), nn.TransformerEncoder(layer, layers), nn.Linear(width, 512))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randint(0, 512, (4 * (steps + 5), length)))
start = 0.0
for number, (tokens,) in enumerate(DataLoader(data, batch_size=4)):
    if number == 5:
        start = time.process_time()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
print("measured", start, (time.process_time() - start) / steps)
"""

# width, layers, length of the sequence, steps that are measured
MODELS = {"tiny": ("64", "2", "16", "60"), "small": ("256", "4", "128", "12")}


def plain(folder: Path, arguments: Sequence[str]) -> tuple[float, float]:
    command = [sys.executable, "train.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return measured(done.stdout)


def recorded(folder: Path, arguments: Sequence[str]) -> tuple[float, float]:
    recording = record([sys.executable, "train.py", *arguments], cwd=folder, steps=0)
    if recording.outcome.how != "finished":
        raise SystemExit(f"{recording.outcome}\n{recording.stderr}")
    return measured(recording.stdout)


def measured(output: str) -> tuple[float, float]:
    """CPU seconds until the loop was warm, and per step after that."""
    _, start, step = next(line for line in output.splitlines() if line.startswith("measured ")).split()
    return float(start), float(step)


def row(name: str, pairs: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> str:
    cells = [name]
    for index, unit, scale in ((0, "s", 1.0), (1, "ms", 1e3)):
        ratios = [with_us[index] / without[index] for without, with_us in pairs]
        before = statistics.median(without[index] for without, _ in pairs) * scale
        after = statistics.median(with_us[index] for _, with_us in pairs) * scale
        low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
        cells += [f"{before:.3g} {unit}", f"{after:.3g} {unit}", f"{middle:.2f} ({low:.2f} to {high:.2f})"]
    return "| " + " | ".join(cells) + " |"


BEGIN, END = "<!-- overhead -->\n", "<!-- end of overhead -->\n"


def written(page: str, table: Sequence[str], pairs: int) -> str:
    """The page with this table in the place of the one before."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    said = f"{pairs} pairs a model, torch {torch_version()}, Python {platform.python_version()}, one thread."
    return "\n".join([before + BEGIN, *table, "", said, END]) + after


def torch_version() -> str:
    from importlib.metadata import version

    return version("torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    table = [
        "| model | start, plain | recorded | ratio | per step, plain | recorded | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(table))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        for model, arguments in MODELS.items():
            pairs = []
            for number in range(args.pairs):
                if number % 2:
                    after = recorded(folder, arguments)
                    pairs.append((plain(folder, arguments), after))
                else:
                    before = plain(folder, arguments)
                    pairs.append((before, recorded(folder, arguments)))
            table.append(row(model, pairs))
            print(table[-1], flush=True)
    if args.write is not None:
        args.write.write_text(written(args.write.read_text(encoding="utf-8"), table, args.pairs), encoding="utf-8")


if __name__ == "__main__":
    main()
