"""Hold the closed form of memory against traced peaks, and against what others measured on real GPUs.

    python benchmarks/memory_model.py --trace                          trace the cases anew into memory_traces.csv
    python benchmarks/memory_model.py [--peaks FILE] [--write]         compare; write the tables of docs/memory.md

Each configuration is traced (benchmarks/tracing.py) for two training steps on a GPU that is not there, with the real model
of transformers and the real optimizer; `t4lint/memory/plan.py` says its band without seeing the trace.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from t4lint.memory.adapters import lora  # noqa: E402
from t4lint.memory.plan import MIB, Plan, Usage, usage  # noqa: E402
from t4lint.memory.shapes import Shape, find_shape  # noqa: E402

GIB = 2**30
PAGE = ROOT / "docs" / "memory.md"
TRACES = ROOT / "benchmarks" / "memory_traces.csv"
BEGIN, END = "<!-- tables: python benchmarks/memory_model.py --write -->", "<!-- end of tables -->"


@dataclass(frozen=True)
class Case:
    """One training step: a checkpoint of the table and a recipe."""

    name: str
    batch: int
    length: int
    precision: str = "fp16"  # no, fp16; "half": 16-bit weights
    optimizer: str = "adamw"  # adamw (foreach), adamw_fused, sgd, adafactor
    checkpointing: bool = False
    lora: tuple[str, ...] = ()
    rank: int = 16
    eager: bool = False
    accumulation: int = 1
    head: str = "lm"  # lm, class
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> str:
        parts = [{"no": "fp32", "fp16": "fp16 autocast", "half": "16-bit weights"}[self.precision]]
        parts += [f"LoRA r={self.rank} on {len(self.lora)} kinds of layers"] if self.lora else []
        parts += [self.optimizer]
        parts += ["checkpointing"] if self.checkpointing else []
        parts += ["eager attention"] if self.eager else []
        parts += [f"accumulation {self.accumulation}"] if self.accumulation > 1 else []
        return ", ".join(parts)


QV = ("q_proj", "v_proj")
ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
CASES = [
    Case("google-t5/t5-small", 16, 128, "no", "adamw"),
    Case("google-t5/t5-base", 8, 256, "fp16", "adafactor"),
    Case("google/flan-t5-base", 8, 256, "no", "adamw_fused"),
    Case("distilbert/distilbert-base-uncased", 32, 128, "fp16", "adamw_fused", head="class"),
    Case("google-bert/bert-base-uncased", 32, 128, "no", "adamw", head="class"),
    Case("google-bert/bert-base-uncased", 16, 512, "fp16", "adamw_fused", head="class"),
    Case("google-bert/bert-large-uncased", 8, 512, "fp16", "adamw_fused"),
    Case("google-bert/bert-large-uncased", 4, 512, "no", "adamw", head="class"),
    Case("FacebookAI/roberta-base", 16, 256, "fp16", "adamw_fused", head="class"),
    Case("microsoft/deberta-v3-base", 8, 256, "fp16", "adamw_fused", head="class"),
    Case("openai-community/gpt2", 4, 512, "fp16", "adamw"),
    Case("openai-community/gpt2", 8, 1024, "fp16", "adamw_fused"),
    Case("openai-community/gpt2", 4, 512, "no", "sgd"),
    Case("openai-community/gpt2", 4, 512, "fp16", "adamw_fused", eager=True),
    Case("openai-community/gpt2-medium", 4, 512, "fp16", "adamw_fused", checkpointing=True),
    Case("openai-community/gpt2-large", 2, 512, "fp16", "adafactor", accumulation=2),
    Case("facebook/opt-125m", 8, 512, "fp16", "adamw_fused"),
    Case("EleutherAI/pythia-160m", 8, 512, "fp16", "adamw_fused"),
    Case("EleutherAI/pythia-410m", 4, 1024, "fp16", "adamw_fused", accumulation=2),
    Case("bigscience/bloom-560m", 2, 512, "fp16", "adamw_fused"),
    Case("HuggingFaceTB/SmolLM2-135M", 8, 1024, "fp16", "adamw_fused"),
    Case("HuggingFaceTB/SmolLM2-360M", 4, 1024, "fp16", "adamw_fused", checkpointing=True),
    Case("Qwen/Qwen2.5-0.5B", 2, 1024, "fp16", "adamw_fused"),
    Case("Qwen/Qwen2.5-0.5B", 8, 1024, "half", "adamw_fused", checkpointing=True),
    Case("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 2, 1024, "half", "adamw_fused", lora=QV),
    Case("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 4, 1024, "half", "adamw_fused", lora=ALL, checkpointing=True),
    Case("meta-llama/Llama-3.2-1B", 1, 1024, "half", "adamw_fused", lora=ALL),
    Case("Qwen/Qwen2.5-1.5B", 2, 1024, "half", "adamw_fused", lora=QV),
    Case("google/gemma-2b", 1, 512, "half", "adamw_fused", lora=QV),
    Case("Qwen/Qwen3-4B", 1, 1024, "half", "adamw_fused", lora=ALL, checkpointing=True),
    Case("mistralai/Mistral-7B-v0.1", 1, 1024, "half", "adamw_fused", lora=QV),
    Case("meta-llama/Llama-2-7b-hf", 1, 1024, "half", "adamw_fused", lora=ALL, checkpointing=True),
    Case("Qwen/Qwen3-8B", 1, 1024, "half", "adamw_fused", lora=QV, checkpointing=True),
    Case("meta-llama/Llama-3.1-8B", 1, 2048, "half", "adamw_fused", lora=QV, checkpointing=True),
]


# --- the two sides ------------------------------------------------------------------------------------------------


def plan_of(case: Case) -> Plan:
    """What the closed form is told."""
    shape = find_shape(case.name)
    assert shape is not None, case.name
    plan = Plan(
        parameters=shape.parameters, trainable=shape.parameters, embedding=shape.embedding, layers=shape.layers,
        widths=shape.widths, kind=shape.block, vocabulary=shape.vocabulary if case.head == "lm" else 0,
        weights="float16" if case.precision == "half" else "float32", autocast=case.precision != "no",
        optimizer=case.optimizer.partition("_")[0], fused=case.optimizer.endswith("fused") or None, batch=case.batch,
        length=case.length, accumulation=case.accumulation, checkpointing=case.checkpointing, eager=case.eager,
    )  # fmt: skip
    if case.lora:
        adapters = lora(shape, case.lora, case.rank)
        assert adapters is not None
        plan = replace(plan, adapters=adapters, parameters=shape.parameters + adapters.parameters,
                       trainable=adapters.parameters)  # fmt: skip
    return plan


def configuration(shape: Shape) -> Any:
    """transformers' configuration for a row of the table."""
    import transformers

    kind = MODEL_TYPES.get(shape.family, shape.family)
    if shape.block == "qwen3":
        kind = "qwen3"
    fields: dict[str, Any] = {
        "vocab_size": shape.vocabulary, "hidden_size": shape.hidden, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "intermediate_size": shape.intermediate,
        "head_dim": shape.head_size, "tie_word_embeddings": shape.tied is not False, "max_position_embeddings": 2048,
    }  # fmt: skip
    if kind in ("t5",):
        fields = {"vocab_size": shape.vocabulary, "d_model": shape.hidden, "num_layers": shape.layers // 2, "d_kv":
                  shape.head_size, "num_heads": shape.heads, "d_ff": shape.intermediate, "decoder_start_token_id": 0}  # fmt: skip
        if shape.block == "t5-gated":
            fields["feed_forward_proj"] = "gated-gelu"
    if kind in ("distilbert",):
        fields = {"vocab_size": shape.vocabulary}
    if kind == "gpt2":
        fields = {"n_embd": shape.hidden, "n_layer": shape.layers, "n_head": shape.heads}
    if kind == "bloom":
        fields = {"vocab_size": shape.vocabulary, "hidden_size": shape.hidden, "n_layer": shape.layers, "n_head":
                  shape.heads}  # fmt: skip
    if kind == "opt":
        fields = {"hidden_size": shape.hidden, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
                  "ffn_dim": shape.intermediate, "word_embed_proj_dim": shape.hidden}  # fmt: skip
    if kind == "deberta-v2":
        fields |= {"type_vocab_size": 0, "relative_attention": True, "position_buckets": 256, "norm_rel_ebd":
                   "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"],
                   "position_biased_input": False}  # fmt: skip
    if kind in ("bert", "roberta", "deberta-v2"):
        fields["max_position_embeddings"] = 514
    return transformers.AutoConfig.for_model(kind, **fields)


MODEL_TYPES = {"tinyllama": "llama", "smollm": "llama", "pythia": "gpt_neox", "qwen": "qwen2"}


def traced(case: Case) -> tuple[int, dict[str, int]]:
    """The peak of two steps, in bytes, and the peaks by phase."""
    import torch
    import tracing
    import transformers
    from torch._subclasses.fake_tensor import FakeTensorMode

    shape = find_shape(case.name)
    assert shape is not None
    config = configuration(shape)
    if case.eager:
        config._attn_implementation = "eager"
    auto = {"class": "AutoModelForSequenceClassification", "lm": "AutoModelForCausalLM"}[case.head]
    if case.head == "lm" and config.model_type in ("bert",):
        auto = "AutoModelForMaskedLM"
    if config.model_type == "t5":
        auto = "AutoModelForSeq2SeqLM"
    dtype = torch.float16 if case.precision == "half" else torch.float32
    tracer = tracing.Tracer()
    with FakeTensorMode(allow_non_fake_inputs=True), tracer:
        model = getattr(transformers, auto).from_config(config, dtype=dtype).to("cuda")
        if case.lora:
            model = adapted(model, case)
        if case.checkpointing:
            model.gradient_checkpointing_enable()
        model.train()
        optimizer = optimizer_of(case, [it for it in model.parameters() if it.requires_grad])
        ids = torch.zeros(case.batch, case.length, dtype=torch.long, device="cuda")
        labels = torch.zeros(case.batch, dtype=torch.long, device="cuda") if case.head == "class" else ids
        for _ in range(2):
            for _ in range(case.accumulation):
                tracer.phase = "forward"
                with torch.autocast("cuda", dtype=torch.float16, enabled=case.precision != "no"):
                    loss = model(input_ids=ids, labels=labels).loss
                tracer.phase = "backward"
                loss.backward()
                del loss
            tracer.phase = "optimizer"
            optimizer.step()
            optimizer.zero_grad()
    return tracer.peak, dict(tracer.peaks)


def adapted(model: Any, case: Case) -> Any:
    import peft

    model.requires_grad_(False)
    model.enable_input_require_grads()
    config = peft.LoraConfig(r=case.rank, lora_dropout=0.05, target_modules=list(case.lora), task_type="CAUSAL_LM")
    return peft.get_peft_model(model, config)


def optimizer_of(case: Case, parameters: list[Any]) -> Any:
    import torch

    if case.optimizer == "sgd":
        return torch.optim.SGD(parameters, 0.1, momentum=0.9)
    if case.optimizer == "adafactor":
        import transformers

        return transformers.optimization.Adafactor(parameters, lr=1e-3, relative_step=False, scale_parameter=False)
    # `fused` has no fake kernel on this device: `foreach=False` makes temporaries of one tensor only, as fused makes none.
    return torch.optim.AdamW(parameters, foreach=None if case.optimizer == "adamw" else False)


# --- stored traces ------------------------------------------------------------------------------------------------


def trace_all(only: str) -> None:
    """Trace the cases anew, and store each peak as soon as it is known."""
    import bitsandbytes  # noqa: F401  before torch.cuda answers as a T4 does
    import peft  # noqa: F401
    import torch
    import tracing
    import transformers

    tracing.install()
    transformers.logging.set_verbosity_error()
    versions = f"torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}"
    for case in CASES:
        if only not in f"{case.name} {case.recipe}":
            continue
        try:
            peak, phases = traced(case)
        except Exception as error:
            print(case.name, case.recipe, type(error).__name__, str(error)[:200], file=sys.stderr)
            continue
        moment = max(phases, key=lambda phase: phases[phase])
        store({**key_of(case), "peak": str(peak), "phase": moment, "versions": versions})
        print(line_of(case, peak), flush=True)


def key_of(case: Case) -> dict[str, str]:
    return {
        "model": case.name,
        "batch": str(case.batch),
        "length": str(case.length),
        "recipe": case.recipe,
        "head": case.head,
    }


def store(row: dict[str, str]) -> None:
    rows = {tuple(list(it.values())[:5]): it for it in stored()}
    rows[tuple(list(row.values())[:5])] = row
    with TRACES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*key_of(CASES[0]), "peak", "phase", "versions"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


def stored() -> list[dict[str, str]]:
    if not TRACES.exists():
        return []
    with TRACES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compared() -> Iterator[tuple[Case, int, Usage]]:
    """Each case that was traced, with its peak and what the closed form says."""
    peaks = {tuple(list(row.values())[:5]): int(row["peak"]) for row in stored()}
    for case in CASES:
        if (key := tuple(key_of(case).values())) in peaks:
            yield case, peaks[key], usage(plan_of(case))


def line_of(case: Case, peak: int) -> str:
    use = usage(plan_of(case))
    low, high = use.peak
    moments = {name: f"{sum(band) / 2 / GIB:.2f}" for name, band in use.moments.items()}
    parts = {name: f"{band[0] / GIB:.2f}-{band[1] / GIB:.2f}" for name, band in use.components.items()}
    outside = "" if low <= peak <= high else "OUTSIDE "
    return (
        f"{case.name} {case.batch} x {case.length} {case.recipe}: traced {peak / GIB:.2f}, expected {use.expected / GIB:.2f} "
        f"({use.expected / peak - 1:+.1%}), band {low / GIB:.2f} to {high / GIB:.2f} {outside}{use.moment} {parts} {moments}"
    )


# --- published measurements ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """A peak that others measured: bytes that a monitor saw, of which the context takes its part."""

    name: str
    measured: float  # MiB
    context: float  # MiB that the source states for the context, or an offset that was estimated
    plan: Plan
    extra: float  # MiB of what the software of its time kept besides
    source: str


def bert_large(**recipe: Any) -> Plan:
    shape = find_shape("google-bert/bert-large-uncased")
    assert shape is not None
    plan = Plan(parameters=shape.parameters, trainable=shape.parameters, embedding=shape.embedding, layers=shape.layers,
                widths=shape.widths, kind="bert", length=512, eager=True, keeps_gradients=True)  # fmt: skip
    return replace(plan, **recipe)


def published() -> list[Published]:
    """BERT-large, 512 tokens, on a V100 under transformers of January 2022: eager attention, gradients kept by zero_grad."""
    source = "transformers documentation, perf_train_gpu_one, 2022"
    rows: list[tuple[str, float, dict[str, Any]]] = [
        ("batch 4, fp32", 14949, {"batch": 4}),
        ("batch 1 x accumulation 4", 8681, {"batch": 1, "accumulation": 4}),
        ("the same with checkpointing", 6775, {"batch": 1, "accumulation": 4, "checkpointing": True}),
        ("batch 4, fp16", 13939, {"batch": 4, "autocast": True}),
        ("fp16, accumulation, checkpointing", 7275, {"batch": 1, "accumulation": 4, "checkpointing": True, "autocast": True}),
        ("Adafactor, batch 4", 12295, {"batch": 4, "optimizer": "adafactor"}),
        ("Adafactor and all of it", 4847, {"batch": 1, "accumulation": 4, "checkpointing": True, "autocast": True,
                                           "optimizer": "adafactor"}),
    ]  # fmt: skip
    # AdamW of transformers 2022 made its temporaries for one tensor at a time.
    return [
        Published(
            f"BERT-large, {name}",
            measured,
            1343,
            bert_large(**{"fused": True, **recipe}),
            softmax_input(recipe),
            source,
        )
        for name, measured, recipe in rows
    ]


def softmax_input(recipe: dict[str, Any]) -> float:
    """MiB that softmax kept of its input until torch 1.11: in float32, for each head and pair of tokens of 24 layers."""
    layers = 1 if recipe.get("checkpointing") else 24
    return float(recipe["batch"] * layers * 16 * 512**2 * 4 / MIB)


def timm_rows(path: Path) -> Iterator[tuple[str, int, float, float]]:
    """(model, batch, measured MiB, expected MiB) of the models that are in the table."""
    from t4lint.memory.images import find_image_model

    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            image = find_image_model(row["model"])
            if image is None or row["model"].startswith("eva02"):  # its rows are constant: a run that failed
                continue
            plan = Plan(parameters=image.parameters, trainable=image.parameters, layers=1, optimizer="sgd", batch=int(row["batch"]),
                        image_kept=image.kept_fp32, image_work=image.work_fp32, image_kind=image.kind)  # fmt: skip
            yield row["model"], int(row["batch"]), float(row["measured_peak_mib"]), usage(plan).expected / MIB


# --- the page -----------------------------------------------------------------------------------------------------


def tables(peaks: Path | None) -> str:
    """The tables of docs/memory.md."""
    lines = ["### Against traces", "", "| model | batch x length | recipe | traced GiB | expected | error | band |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    errors, inside = [], 0
    for case, peak, use in compared():
        low, high = use.peak
        errors.append(use.expected / peak - 1)
        inside += low <= peak <= high
        lines.append(
            f"| {case.name} | {case.batch} x {case.length} | {case.recipe} | {peak / GIB:.2f} | {use.expected / GIB:.2f} | "
            f"{errors[-1]:+.1%} | {low / GIB:.2f} to {high / GIB:.2f}{'' if low <= peak <= high else ' (outside)'} |"
        )
    lines += ["", said(errors, inside), "", "### Against published measurements", "",
              "| run | measured MiB | expected, with the context | error | band |", "| --- | --- | --- | --- | --- |"]  # fmt: skip
    errors, inside = [], 0
    for row in published():
        use = usage(row.plan)
        low, high = (edge / MIB + row.context + row.extra for edge in use.peak)
        expected = use.expected / MIB + row.context + row.extra
        errors.append(expected / row.measured - 1)
        inside += low <= row.measured <= high
        lines.append(
            f"| {row.name} | {row.measured:.0f} | {expected:.0f} | {errors[-1]:+.1%} | {low:.0f} to {high:.0f}"
            f"{'' if low <= row.measured <= high else ' (outside)'} |"
        )
    lines += [
        "",
        f"{said(errors, inside)} Source: {published()[0].source}; the context is the 1343 MiB that it states.",
        "Softmax kept its input until torch 1.11, which is added.",
        "",
    ]
    return "\n".join(lines + (timm_table(peaks) if peaks else []))


def timm_table(peaks: Path) -> list[str]:
    """Image models on an A100: one offset for context, workspaces and the monitor, the median of all rows."""
    rows = list(timm_rows(peaks))
    offset = statistics.median(measured - expected for _, batch, measured, expected in rows if batch == 8)
    errors = [(expected + offset) / measured - 1 for _, _, measured, expected in rows]
    inside = sum(low <= measured - offset <= high for measured, low, high in timm_bands(peaks))
    lines = ["### Image models on an A100 (GPUMemNet's measurements, timm, float32)", "",
             "| model | batch | measured MiB | expected, with the offset | error |", "| --- | --- | --- | --- | --- |"]  # fmt: skip
    lines += [
        f"| {name} | {batch} | {measured:.0f} | {expected + offset:.0f} | {error:+.1%} |"
        for (name, batch, measured, expected), error in zip(rows, errors, strict=True)
    ]
    note = f"One offset for all rows, {offset:.0f} MiB, the median at batch 8, where activations are small: context, workspaces,"
    note += " what the monitor counts."
    return [*lines, "", f"{said(errors, inside)} {note}", ""]


def timm_bands(peaks: Path) -> Iterator[tuple[float, float, float]]:
    from t4lint.memory.images import find_image_model

    for name, batch, measured, _ in timm_rows(peaks):
        image = find_image_model(name)
        assert image is not None
        use = usage(Plan(parameters=image.parameters, trainable=image.parameters, layers=1, optimizer="sgd", batch=batch,
                         image_kept=image.kept_fp32, image_work=image.work_fp32, image_kind=image.kind))  # fmt: skip
        yield measured, use.peak[0] / MIB, use.peak[1] / MIB


def said(errors: list[float], inside: int) -> str:
    """Bias, spread and coverage in a sentence."""
    ordered = sorted(map(abs, errors))
    tenth = ordered[min(len(ordered) - 1, round(0.9 * (len(ordered) - 1)))]
    return (
        f"{len(errors)} rows: bias {statistics.mean(errors):+.1%}, median error {statistics.median(ordered):.1%}, 90 % of them within "
        f"{tenth:.1%}; the band holds {inside} of {len(errors)} ({inside / len(errors):.0%})."
    )


def write(peaks: Path | None) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables(peaks)}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="The closed form of memory against traces and measurements")
    parser.add_argument("--trace", action="store_true", help="trace the cases anew, and store their peaks")
    parser.add_argument("--only", default="", help="with --trace: the cases with this text")
    parser.add_argument(
        "--peaks", type=Path, metavar="FILE", help="measured peaks of timm models: model,batch,measured_peak_mib"
    )
    parser.add_argument("--write", action="store_true", help="write the tables of docs/memory.md")
    args = parser.parse_args()
    if args.trace:
        trace_all(args.only)
        sys.stdout.flush()
        os._exit(0)  # C++ still points at what Python would free now
    if args.write:
        write(args.peaks)
    else:
        print(tables(args.peaks))


if __name__ == "__main__":
    main()
