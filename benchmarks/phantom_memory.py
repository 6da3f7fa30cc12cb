"""Hold the memory of the phantom against what was measured: on real GPUs by others, and here on the CPU.

    python benchmarks/phantom_memory.py --trace [--only WORD]     run the cases on the phantom into phantom_traces.csv
    python benchmarks/phantom_memory.py --cpu                     fake against real peaks of the CPU's allocator
    python benchmarks/phantom_memory.py [--peaks FILE] [--write]  compare; write table and plot of docs/phantom-memory.md

A monitor of the card counts what no allocator knows: the CUDA context and the libraries. This is taken for one constant,
the median over one half of the models; the error is that of the other half, and then the other way round. Which half a
model is in follows from its name. timm, transformers and (for the plot) matplotlib have to be installed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MIB, GIB = 2**20, 2**30
HERE = Path(__file__).resolve().parent
PEAKS, TRACES, ON_CPU = HERE / "timm_a100_peaks.csv", HERE / "phantom_traces.csv", HERE / "phantom_cpu.csv"
PAGE, PLOT = ROOT / "docs" / "phantom-memory.md", ROOT / "docs" / "phantom-memory.svg"
BEGIN, END = "<!-- tables: python benchmarks/phantom_memory.py --write -->", "<!-- end of tables -->"
A100 = {
    "name": "NVIDIA A100-SXM4-40GB", "capability": [8, 0], "total_memory": 42_298_834_944, "context": 0,
    "processors": 108, "shared": 166912,
}  # fmt: skip
V100 = {
    "name": "Tesla V100-SXM2-16GB", "capability": [7, 0], "total_memory": 16_945_512_448, "context": 0,
    "processors": 80, "shared": 98304,
}  # fmt: skip
CRASHED = ("eva02",)  # 2.4 GB whatever the batch is: runs that ended before they had begun
T4_LIMIT = 15360  # MiB, as the monitor of a T4 says it
# huggingface/transformers, docs of January 2022 (perf_train_gpu_one.mdx): BERT-large, 512 tokens, V100 16 GB, MB by
# nvidia-smi; 1343 of them were there before the model
BERT_LARGE = {
    "vanilla": (14949, {"per_device_train_batch_size": 4}),
    "accumulation": (8681, {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}),
    "+ checkpointing": (
        6775,
        {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "gradient_checkpointing": True},
    ),
    "fp16": (13939, {"per_device_train_batch_size": 4, "fp16": True}),
    "fp16 + accumulation + checkpointing": (
        7275,
        {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "gradient_checkpointing": True, "fp16": True},
    ),
    "Adafactor": (12295, {"per_device_train_batch_size": 4, "optim": "adafactor"}),
    "all of them": (
        4847,
        {
            "per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "gradient_checkpointing": True, "fp16": True,
            "optim": "adafactor",
        },
    ),
}  # fmt: skip
BEFORE = 1343  # MB of the table above that the context took


# --- the phantom ------------------------------------------------------------------------------------------------------


class Told:
    """What the phantom wants to know of the program; nothing is written down."""

    def __init__(self) -> None:
        self.now = "setup"

    def fact(self, kind: str, **data: Any) -> None: ...

    def trouble(self, probe: str, error: BaseException) -> None:
        raise error

    def phase(self) -> str:
        return self.now

    def step(self) -> int:
        return 0

    def count(self, what: str) -> None: ...

    def place(self) -> None:
        return None


def traced(kind: str, name: str, batches: Sequence[int]) -> list[dict[str, Any]]:
    """Cases of one model on the phantom, in this process; each has a card for itself."""
    import torch

    from t4lint.phantom import start
    from t4lint.phantom.ledger import Ledger

    told = Told()
    phantom = start.install(torch, A100 if kind == "timm" else V100, told)
    found = []
    for batch in batches:
        begin = time.time()
        ledger = phantom.membrane.ledger = Ledger(told, phantom.card.usable)
        phantom.membrane.plans.clear()
        told.now = "setup"
        {"timm": train_timm, "bert": train_bert}[kind](torch, told, name, batch)
        found.append(
            {
                "kind": kind,
                "name": name,
                "batch": batch,
                "allocated": ledger.allocator.peak_allocated,
                "reserved": ledger.allocator.peak_reserved,
                "with_workspaces": ledger.reserved_with_optional(),
                "seconds": round(time.time() - begin, 1),
                "versions": f"torch {torch.__version__}",
            }
        )
    return found


def train_timm(torch: Any, told: Told, name: str, batch: int) -> None:
    """Two updates as timm's train.py makes them by default (1.0, whose models the artifact has): SGD with Nesterov
    momentum in fp32, `cudnn.benchmark`, gradients dropped after the step, and a loader that has the next batch on the
    card while this one is used. That the runs were made with it is an assumption, the artifact does not say."""
    _without_torchvision()
    import timm
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.optim import create_optimizer_v2

    torch.backends.cudnn.benchmark = True
    model = timm.create_model(name).cuda().train()
    size = model.default_cfg.get("input_size", (3, 224, 224))
    optimizer = create_optimizer_v2(model, opt="sgd", lr=0.05, momentum=0.9, weight_decay=2e-5)
    loss_of = LabelSmoothingCrossEntropy(0.1).cuda()
    middle = torch.zeros(1, size[0], 1, 1, device="cuda")
    following = _batch(torch, batch, size, middle)
    for _ in range(2):
        told.now = "forward"
        images, labels = following
        following = _batch(torch, batch, size, middle)
        loss = loss_of(model(images), labels)
        told.now = "backward"
        loss.backward()
        told.now = "optimizer"
        optimizer.step()
        optimizer.zero_grad()


def _batch(torch: Any, batch: int, size: Sequence[int], middle: Any) -> tuple[Any, Any]:
    """As timm's PrefetchLoader makes it: bytes come to the card, and are made float32 and normalised there."""
    images = torch.empty((batch, *size), dtype=torch.uint8, device="cuda")
    return images.to(torch.float32).sub_(middle).div_(middle), torch.zeros(batch, dtype=torch.int64, device="cuda")


def train_bert(torch: Any, told: Told, name: str, batch: int) -> None:
    """As in the documentation: random data and `Trainer`. Of the torch of then (1.10): gradients are kept, as `zero_grad`
    wrote zeros before torch 2.0, and softmax keeps its input for backward, as it did before torch 1.11."""
    import transformers

    zero_grad = torch.optim.Optimizer.zero_grad
    torch.optim.Optimizer.zero_grad = lambda self, set_to_none=True: zero_grad(self, set_to_none=False)
    softmax = torch.nn.functional.softmax

    def keeps_its_input(given: Any, *args: Any, **kwargs: Any) -> Any:
        out = softmax(given, *args, **kwargs)
        if out.grad_fn is not None:
            out.grad_fn.metadata["input"] = given
        return out

    torch.nn.functional.softmax = keeps_its_input
    transformers.logging.set_verbosity_error()
    config = transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, num_labels=2,
        attn_implementation="eager",
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    data = [{"input_ids": torch.randint(100, 30000, (512,)), "labels": torch.tensor(it % 2)} for it in range(16)]
    args = transformers.TrainingArguments(
        output_dir="out", max_steps=2, report_to="none", save_strategy="no", disable_tqdm=True, **BERT_LARGE[name][1]
    )
    backward = torch.autograd.backward

    def entered(*args: Any, **kwargs: Any) -> None:
        told.now = "backward"
        backward(*args, **kwargs)
        told.now = "forward"

    torch.autograd.backward = entered
    transformers.Trainer(model=model, args=args, train_dataset=data).train()


def _without_torchvision() -> None:
    """timm imports it for its transforms, and its models use none of them; a CUDA build of it beside a torch of the CPU
    does not load."""
    try:
        import torchvision  # noqa: F401
    except Exception:
        import enum
        import importlib.machinery
        import types

        class Modes(enum.Enum):
            NEAREST, NEAREST_EXACT, BILINEAR, BICUBIC, BOX, HAMMING, LANCZOS = range(7)

        class Anything(types.ModuleType):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return (
                    Modes if name == "InterpolationMode" else type(name, (), {"__init__": lambda self, *a, **k: None})
                )

        names = (
            "", ".transforms", ".transforms.functional", ".transforms.v2", ".transforms.v2.functional", ".datasets",
            ".datasets.folder", ".ops", ".ops.misc", ".models", ".models.feature_extraction", ".io", ".utils",
        )  # fmt: skip
        for name in names:
            made = Anything(f"torchvision{name}")
            made.__path__ = []
            made.__spec__ = importlib.machinery.ModuleSpec(made.__name__, None, is_package=True)
            made.__version__ = "0"
            sys.modules[made.__name__] = made
            parent, _, child = made.__name__.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, made)


def trace_all(peaks: Path, only: str) -> None:
    """Each model in a process of its own; rows that are there already are kept."""
    import torch

    from t4lint.phantom import start

    refused = start.works(torch)  # the processes below need not try it again
    if refused:
        raise SystemExit(refused)
    wanted: dict[tuple[str, str], list[int]] = {}
    for row in read(peaks):
        if not row["model"].startswith(CRASHED):
            wanted.setdefault(("timm", row["model"]), []).append(int(row["batch"]))
    wanted |= {("bert", name): [0] for name in BERT_LARGE}
    done: list[dict[str, Any]] = list(read(TRACES)) if TRACES.exists() else []
    there = {(row["kind"], row["name"], int(row["batch"])) for row in done}
    for (kind, name), batches in sorted(wanted.items(), key=lambda it: zlib.crc32(it[0][1].encode())):
        batches = [batch for batch in batches if (kind, name, batch) not in there]
        if not batches or only not in f"{kind} {name}":
            continue
        command = [sys.executable, __file__, "--one", kind, name, ",".join(map(str, batches))]
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        rows = next((json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[{")), [])
        if not rows:
            print(f"{kind} {name}: {(ran.stderr.strip().splitlines() or [''])[-1][:200]}", flush=True)
            continue
        told = ", ".join(f"{row['reserved'] / MIB:.0f}" for row in rows)
        print(f"{kind} {name}: {told} MiB, {sum(row['seconds'] for row in rows):.0f} s", flush=True)
        done += rows
        write_rows(TRACES, done)


# --- the CPU ----------------------------------------------------------------------------------------------------------


def on_the_cpu(write: bool) -> None:
    """The same program for real, its allocations recorded by torch's profiler, and with fakes of the CPU."""
    rows = []
    for name in CPU_CASES:
        found = []
        for how in ("real", "fake"):
            command = [sys.executable, __file__, "--one", f"cpu-{how}", name, "0"]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = [line for line in ran.stdout.splitlines() if line.startswith("[{")]
            assert lines, ran.stderr[-2000:]
            found.append(json.loads(lines[-1])[0]["peak"])
        rows.append({"name": name, "real": found[0], "fake": found[1]})
        print(f"{name}: real {found[0] / MIB:.1f} MiB, fake {(found[1] / found[0] - 1) * 100:+.4f} %", flush=True)
    if write:
        write_rows(ON_CPU, rows)


def _small(kind: str) -> Any:
    def make() -> Any:
        import transformers as t

        if kind == "gpt2":
            return t.GPT2LMHeadModel(t.GPT2Config(n_embd=256, n_layer=4, n_head=4, vocab_size=5000))
        if kind == "bert":
            return t.BertForMaskedLM(
                t.BertConfig(
                    hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, vocab_size=5000
                )
            )
        if kind == "llama":
            return t.LlamaForCausalLM(
                t.LlamaConfig(
                    hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8,
                    num_key_value_heads=2, vocab_size=5000,
                )
            )  # fmt: skip
        return t.ResNetForImageClassification(t.ResNetConfig(depths=[1, 1, 1, 1]))

    return make


CPU_CASES = {
    "gpt2, AdamW": ("gpt2", False), "gpt2, AdamW foreach": ("gpt2", True), "bert, AdamW": ("bert", False),
    "llama, AdamW": ("llama", False), "llama, AdamW foreach": ("llama", True), "resnet, AdamW": ("resnet", False),
}  # fmt: skip


def train_on_cpu(torch: Any, name: str) -> None:
    kind, foreach = CPU_CASES[name]
    torch.manual_seed(0)
    model = _small(kind)().train()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    for _ in range(2):
        if kind == "resnet":
            loss = model(pixel_values=torch.randn(4, 3, 96, 96), labels=torch.zeros(4, dtype=torch.int64)).loss
        else:
            ids = torch.randint(0, 5000, (4, 128))
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def peak_on_cpu(how: str, name: str) -> int:
    """Bytes. Real: the profiler's record of each allocation. Fake: storages of fakes, as the phantom counts them."""
    import torch

    torch.set_num_threads(1)
    if how == "fake":
        import weakref

        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        class Count(TorchDispatchMode):  # type: ignore[misc]
            now, peak = 0, 0

            def __init__(self) -> None:
                super().__init__()
                self.live: dict[int, Any] = {}

            def gone(self, key: int) -> None:
                self.now -= self.live.pop(key)[1]

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = func(*args, **(kwargs or {}))
                for it in tree_leaves(out):
                    if isinstance(it, torch.Tensor) and it.device.type == "cpu":
                        storage = it.untyped_storage()
                        key = storage._cdata
                        if key not in self.live:
                            self.live[key] = (weakref.ref(storage, lambda _, key=key: self.gone(key)), storage.nbytes())
                            self.now += storage.nbytes()
                            self.peak = max(self.peak, self.now)
                return out

        with FakeTensorMode(allow_non_fake_inputs=True), Count() as count:
            train_on_cpu(torch, name)
        return count.peak
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        train_on_cpu(torch, name)
    events: list[tuple[int, int]] = []

    def walk(nodes: Any) -> None:
        for node in nodes:
            if node.tag == torch._C._profiler._EventType.Allocation:
                events.append((node.start_time_ns, node.extra_fields.alloc_size))
            walk(node.children)

    walk(profiled.profiler.kineto_results.experimental_event_tree())
    now = peak = 0
    for _, size in sorted(events, key=lambda it: it[0]):
        now += size
        peak = max(peak, now)
    return peak


# --- comparing --------------------------------------------------------------------------------------------------------


def half(model: str) -> int:
    """0 or 1, by the name of the model: all of its batches are on one side."""
    return zlib.crc32(model.encode()) % 2


def errors(rows: Sequence[dict[str, Any]], estimate: str) -> list[tuple[dict[str, Any], float]]:
    """Relative error of each row with the constant of the other half; no constant for "published"."""
    found = []
    for side in (0, 1):
        others = [row["measured"] - row[estimate] for row in rows if half(row["model"]) != side]
        constant = statistics.median(others) if estimate != "published" else 0.0
        found += [(row, (row[estimate] + constant) / row["measured"] - 1) for row in rows if half(row["model"]) == side]
    return found


def joined(peaks: Path) -> list[dict[str, Any]]:
    """Measured rows below the card's memory with their traces, in MiB."""
    traces = {(row["name"], int(row["batch"])): row for row in read(TRACES) if row["kind"] == "timm"}
    found = []
    for row in read(peaks):
        trace = traces.get((row["model"], int(row["batch"])))
        if trace is None or float(row["measured_peak_mib"]) > A100["total_memory"] / MIB - 512:
            continue
        found.append(
            {
                "model": row["model"],
                "batch": int(row["batch"]),
                "measured": float(row["measured_peak_mib"]),
                "published": float(row["faketensor_estimate_mib"]),
                "allocated": int(trace["allocated"]) / MIB,
                "reserved": int(trace["reserved"]) / MIB,
                "with_workspaces": int(trace["with_workspaces"]) / MIB,
            }
        )
    return found


NAMES = {
    "reserved": "phantom: reserved", "allocated": "phantom: allocated",
    "with_workspaces": "phantom: reserved, had Winograd's workspaces been taken", "published": "FakeTensor as published",
}  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| estimate | runs | median | 90th percentile | within 10 % | fits a T4 by it and did not | does not fit and did |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for estimate, name in NAMES.items():
        found = errors(rows, estimate)
        sizes = sorted(abs(error) for _, error in found)
        high = _ninetieth(sizes)
        over = [(row["measured"] > T4_LIMIT, row["measured"] * (1 + error) > T4_LIMIT) for row, error in found]
        lines.append(
            f"| {name} | {len(sizes)} | {statistics.median(sizes):.1%} | {high:.1%} | "
            f"{sum(it <= 0.1 for it in sizes) / len(sizes):.0%} | {sum(real and not said for real, said in over)} of "
            f"{sum(real for real, _ in over)} | {sum(said and not real for real, said in over)} |"
        )
    return "\n".join(lines)


def halves(rows: list[dict[str, Any]]) -> str:
    """Each half by itself, with the constant of the other one."""
    lines = ["| reserved, the half whose constant is not its own | models | runs | median | 90th percentile |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for side, name in ((0, "first"), (1, "second")):
        found = [(row, abs(error)) for row, error in errors(rows, "reserved") if half(row["model"]) == side]
        sizes = sorted(size for _, size in found)
        constant = statistics.median(row["measured"] - row["reserved"] for row in rows if half(row["model"]) != side)
        lines.append(
            f"| {name}, with {constant:.0f} MiB | {len({row['model'] for row, _ in found})} | {len(sizes)} | "
            f"{statistics.median(sizes):.1%} | {_ninetieth(sizes):.1%} |"
        )
    return "\n".join(lines)


def _ninetieth(sizes: Sequence[float]) -> float:
    return sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]


def worst(rows: list[dict[str, Any]]) -> str:
    found = sorted(errors(rows, "reserved"), key=lambda it: -abs(it[1]))[:6]
    named = [f"{row['model']} at {row['batch']} ({error:+.0%})" for row, error in found]
    return f"The largest errors of reserved memory: {', '.join(named)}."


def bert_table() -> str:
    traces = {row["name"]: row for row in read(TRACES) if row["kind"] == "bert"}
    lines = ["| run | measured, MB | phantom, MB | error |", "| --- | --- | --- | --- |"]
    found = []
    for name, (measured, _) in BERT_LARGE.items():
        if name in traces:
            said = int(traces[name]["reserved"]) / MIB + BEFORE
            found.append(abs(said / measured - 1))
            lines.append(f"| {name} | {measured} | {said:.0f} | {said / measured - 1:+.1%} |")
    if found:
        lines.append(f"\nMedian {statistics.median(found):.1%}, largest {max(found):.1%}.")
    return "\n".join(lines)


def cpu_table() -> str:
    lines = ["| program | real peak, MiB | fake | error |", "| --- | --- | --- | --- |"]
    for row in read(ON_CPU) if ON_CPU.exists() else []:
        real, fake = int(row["real"]) / MIB, int(row["fake"]) / MIB
        lines.append(f"| {row['name']} | {real:.1f} | {fake:.1f} | {fake / real - 1:+.3%} |")
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "phantom"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 6))
    for estimate, marker in (("reserved", "o"), ("published", "x")):
        found = errors(rows, estimate)
        axes.scatter(
            [row["measured"] / 1024 for row, _ in found], [row["measured"] * (1 + it) / 1024 for row, it in found],
            marker=marker, s=22, label=NAMES[estimate],
        )  # fmt: skip
    largest = max(row["measured"] for row in rows) / 1024
    axes.plot([0, largest], [0, largest], color="0.5", linewidth=1)
    axes.set(xlabel="measured on an A100, GiB", ylabel="estimated, GiB", title="Memory of timm training runs")
    axes.legend()
    figure.savefig(PLOT, metadata={"Date": None}, bbox_inches="tight")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--peaks", type=Path, default=PEAKS)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "NAME", "BATCHES"))
    options = parser.parse_args()
    if options.one:
        kind, name, batch = options.one
        how = kind.partition("-")[2]
        batches = [int(it) for it in batch.split(",")]
        print(json.dumps([{"peak": peak_on_cpu(how, name)}] if how else traced(kind, name, batches)), flush=True)
        os._exit(0)
    if options.trace:
        trace_all(options.peaks, options.only)
        return 0
    if options.cpu:
        on_the_cpu(options.write)
        return 0
    rows = joined(options.peaks)
    parts = [f"{len({row['model'] for row in rows})} timm models on an A100:", table(rows), halves(rows), worst(rows)]
    if any(row["kind"] == "bert" for row in read(TRACES)):
        parts += ["BERT-large with the Trainer on a V100:", bert_table()]
    if ON_CPU.exists():
        parts += ["Fakes of the CPU against its allocator:", cpu_table()]
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN, 1)
        PAGE.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
        plot(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
