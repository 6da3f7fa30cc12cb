"""Hold the closed form of memory against traced peaks, and against what others measured on real GPUs.

    python benchmarks/memory_model.py --trace                          trace the cases anew into memory_traces.csv
    python benchmarks/memory_model.py [--write]                        compare; write the tables of docs/memory.md

Each configuration is traced (benchmarks/tracing.py) for two training steps on a GPU that is not there, with the real model
of transformers and the real optimizer; `t4lint/memory/plan.py` says its band without seeing the trace.

Rows are split in two halves by a hash of the model's name. What a comparison has to be told (what a monitor of the card counts
beside the tensors) is taken from one half alone; the other is held out. Both are reported.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from t4lint.memory.adapters import lora  # noqa: E402
from t4lint.memory.plan import MIB, Adapters, Plan, Usage, usage  # noqa: E402
from t4lint.memory.shapes import Shape, find_shape  # noqa: E402

GIB = 2**30
PAGE = ROOT / "docs" / "memory.md"
TRACES = ROOT / "benchmarks" / "memory_traces.csv"
PEAKS = ROOT / "benchmarks" / "timm_a100_peaks.csv"
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

# Traced after the model had been made: nothing of it was changed since with these in sight.
BLIND = [
    Case("EleutherAI/pythia-70m", 16, 512, "no", "sgd"),
    Case("microsoft/deberta-v3-large", 4, 512, "fp16", "adamw_fused", head="class"),
    Case("microsoft/deberta-v3-small", 16, 384, "no", "adamw", head="class"),
    Case("answerdotai/ModernBERT-base", 8, 512, "fp16", "adamw_fused", head="class"),
    Case("sentence-transformers/all-mpnet-base-v2", 16, 256, "fp16", "adamw", head="class"),
    Case("EleutherAI/gpt-neo-1.3B", 1, 1024, "fp16", "adafactor"),
    Case("EleutherAI/gpt-j-6B", 1, 512, "half", "adamw_fused", lora=QV),
    Case("google/gemma-2-2b", 1, 1024, "half", "adamw_fused", lora=QV),
    Case("bigscience/bloomz-1b1", 1, 1024, "half", "adamw_fused", checkpointing=True),
    Case("distilbert/distilgpt2", 16, 512, "fp16", "adamw"),
    Case("google/gemma-3-270m", 4, 1024, "fp16", "adamw"),
    Case("Qwen/Qwen2-0.5B", 2, 512, "no", "adamw"),
]


def held_out(model: str) -> bool:
    """Is a model in the half that nothing is calibrated on? By the first bit of a hash of its name."""
    return hashlib.blake2b(model.encode(), digest_size=1).digest()[0] % 2 == 1


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
    if shape.block in ("qwen3", "gemma2"):
        kind = shape.block
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
    if kind == "gpt_neo":
        fields = {"hidden_size": shape.hidden, "num_layers": shape.layers, "num_heads": shape.heads,
                  "attention_types": [[["global", "local"], shape.layers // 2]]}  # fmt: skip
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
    from transformers.initialization import no_init_weights

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
        with no_init_weights():
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
                    loss = loss_of(model, ids, labels)
                tracer.phase = "backward"
                loss.backward()
                del loss
            tracer.phase = "optimizer"
            optimizer.step()
            optimizer.zero_grad()
    return tracer.peak, dict(tracer.peaks)


def loss_of(model: Any, ids: Any, labels: Any) -> Any:
    """Its own loss, but that of DeBERTa's classifier, which picks rows by the values of its labels."""
    if labels.dim() == 1 and model.config.model_type.startswith("deberta"):
        import torch

        return torch.nn.functional.cross_entropy(model(input_ids=ids).logits.float(), labels)
    return model(input_ids=ids, labels=labels).loss


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
    for case in [*CASES, *BLIND]:
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


def compared(cases: Sequence[Case] = CASES) -> Iterator[tuple[Case, int, Usage]]:
    """Each case that was traced, with its peak and what the closed form says."""
    peaks = {tuple(list(row.values())[:5]): int(row["peak"]) for row in stored()}
    for case in cases:
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
    """A peak that others measured: bytes that a monitor saw, of which the context takes its part, or that torch counted."""

    name: str
    measured: float  # MiB
    context: float  # MiB that the source states for the context; 0 where torch counted
    plan: Plan
    extra: float  # MiB of what the software of its time kept besides, or less, than what is modelled
    source: str


def bert_large(**recipe: Any) -> Plan:
    shape = find_shape("google-bert/bert-large-uncased")
    assert shape is not None
    plan = Plan(parameters=shape.parameters, trainable=shape.parameters, embedding=shape.embedding, layers=shape.layers,
                widths=shape.widths, kind="bert", length=512, eager=True, keeps_gradients=True)  # fmt: skip
    return replace(plan, **recipe)


def published() -> list[Published]:
    return [*of_transformers(), *of_litgpt(), *of_torchtune()]


# litgpt's resource tables: tokens of the longest sample, which its script takes first, and GB (1e9 bytes) by quantization and batch
LITGPT: list[tuple[str, int, list[tuple[str, int, float]]]] = [
    ("microsoft/phi-1_5", 1044, [("", 1, 4.82), ("nf4", 1, 3.78), ("nf4-dq", 1, 3.72), ("", 2, 6.76), ("", 4, 10.68)]),
    ("stabilityai/stablelm-base-alpha-3b", 1034,
     [("", 1, 9.69), ("nf4", 1, 6.35), ("nf4-dq", 1, 6.19), ("", 2, 12.10), ("", 4, 16.92)]),
    ("meta-llama/Llama-2-7b-hf", 1304, [("", 1, 21.30), ("nf4", 1, 14.14), ("nf4-dq", 1, 13.84), ("", 2, 29.07)]),
    ("meta-llama/Llama-2-13b-hf", 1304, [("", 1, 38.12), ("nf4", 1, 23.14), ("nf4-dq", 1, 22.55)]),
]  # fmt: skip


def of_litgpt() -> Iterator[Published]:
    """LoRA of rank 8 on queries and values (the parameters that it states), weights in bfloat16, on an A100."""
    source = "litgpt tutorials/resource-tables.md, October 2023, torch 2.1, bitsandbytes 0.41.1"
    for name, length, rows in LITGPT:
        shape = find_shape(name)
        assert shape is not None
        assert shape.widths is not None
        width = 2 * shape.widths.hidden * shape.layers
        adapters = Adapters(parameters=16 * width, inputs=width, outputs=width, in_float32=False)
        for quantization, batch, measured in rows:
            plan = Plan(
                parameters=shape.parameters + adapters.parameters, trainable=adapters.parameters, embedding=shape.embedding,
                layers=shape.layers, widths=shape.widths, kind=shape.block, vocabulary=shape.vocabulary, weights="bfloat16",
                quantization="4bit" if quantization else "none", double_quantization=quantization.endswith("dq"),
                batch=batch, length=length, accumulation=128 / batch, adapters=adapters,
            )  # fmt: skip
            title = f"{name.rpartition('/')[2]}, LoRA, {quantization or 'bf16'}, {batch} x {length}"
            yield Published(title, measured * 1e9 / MIB, 0, plan, of_its_kernels(shape, plan), source)


def of_its_kernels(shape: Shape, plan: Plan) -> float:
    """MiB that litgpt of 2023 kept more or less than transformers and bitsandbytes of today, read in their sources.

    bitsandbytes 0.41's MatMul4Bit keeps its input (0.50 does not): the norms' results and the input of the last matrix, which nothing
    else keeps. transformers writes Phi's GELU in single operations, which keep three tensors more than litgpt's.
    """
    assert shape.widths is not None
    values = 0.0
    if plan.quantization == "4bit":
        values += (1 if shape.block == "phi" else 2) * shape.widths.hidden + shape.widths.intermediate
    if shape.block == "phi":
        values -= 3 * shape.widths.intermediate
    return 2 * values * plan.tokens * plan.layers / MIB


def of_torchtune() -> Iterator[Published]:
    """Llama 3.1 8B with batch 2 and 2048 tokens: LoRA of rank 8 on all layers, a loss in chunks, activations checkpointed, as in its
    recipes for one device."""
    source = "torchtune README, 2024: memory and training speed"
    shape = find_shape("meta-llama/Llama-3.1-8B")
    assert shape is not None
    adapters = lora(shape, ALL, 8, dropout=False, in_float32=False)
    assert adapters is not None
    for title, measured, quantization in (("LoRA", 16.2, "none"), ("QLoRA", 7.4, "4bit")):
        plan = Plan(
            parameters=shape.parameters + adapters.parameters, trainable=adapters.parameters, embedding=shape.embedding,
            layers=shape.layers, widths=shape.widths, kind=shape.block, vocabulary=shape.vocabulary, weights="bfloat16",
            quantization=quantization, double_quantization=True, fused=True, batch=2, length=2048, adapters=adapters,
            checkpointing=True, chunked_loss=True,
        )  # fmt: skip
        yield Published(f"Llama 3.1 8B, {title}, 2 x 2048", measured * 1024, 0, plan, 0, source)


def of_transformers() -> list[Published]:
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
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            image = find_image_model(row["model"])
            if image is None or row["model"].startswith("eva02"):  # its rows are constant: a run that failed
                continue
            plan = Plan(parameters=image.parameters, trainable=image.parameters, layers=1, optimizer="sgd", batch=int(row["batch"]),
                        image_kept=image.kept_fp32, image_work=image.work_fp32, image_kind=image.kind)  # fmt: skip
            yield row["model"], int(row["batch"]), float(row["measured_peak_mib"]), usage(plan).expected / MIB


# --- the page -----------------------------------------------------------------------------------------------------

# What differs from the model for a reason, by the beginning of a source.
NOTES = {
    "transformers": "The context is the 1343 MiB that it states. Softmax kept its input until torch 1.11, which is added. The model was"
    " made with these rows in sight.",
    "litgpt": "Blind: added after the model had been made. bitsandbytes 0.41 kept the input of each 4-bit layer, which is added;"
    " litgpt's GELU"
    " keeps three tensors less than the one that transformers takes for Phi, which is taken off. Both were found by reading these"
    " libraries after the rows had been seen to be outside; without them the band holds 6 of 17, all in 16 bits but Phi's.",
    "torchtune": "Blind. Both are outside: the runs were compiled, which keeps less by an amount that is not modelled, and the table"
    " states no other switch than batch and length.",
}


def tables(peaks: Path) -> str:
    """The tables of docs/memory.md."""
    seen, blind = [list(traced_table(cases)) for cases in (CASES, BLIND)]
    lines = ["### Against traces", "", "With these in sight the widths of the bands were set:", "", *seen]
    lines += [
        "",
        "Blind, traced after the model had been made:",
        "",
        *blind,
        "",
        *published_tables(),
        *timm_table(peaks),
    ]
    return "\n".join(lines)


def traced_table(cases: Sequence[Case]) -> Iterator[str]:
    yield "| model | batch x length | recipe | traced GiB | expected | error | band |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    judged: list[tuple[str, float, bool]] = []
    for case, peak, use in compared(cases):
        low, high = use.peak
        judged.append((case.name, use.expected / peak - 1, low <= peak <= high))
        yield (
            f"| {case.name} | {case.batch} x {case.length} | {case.recipe} | {peak / GIB:.2f} | {use.expected / GIB:.2f} | "
            f"{judged[-1][1]:+.1%} | {low / GIB:.2f} to {high / GIB:.2f}{outside(judged[-1][2])} |"
        )
    yield from ("", said(judged))


def outside(inside: bool) -> str:
    return "" if inside else " (outside)"


def published_tables() -> Iterator[str]:
    """One table for each source, and a sentence over all of them."""
    yield from ("### Against published measurements", "")
    judged: list[tuple[str, float, bool]] = []
    rows = published()
    for source in dict.fromkeys(row.source for row in rows):
        yield from (f"{source[0].upper()}{source[1:]}:", "")
        yield from ("| run | measured MiB | expected | error | band |", "| --- | --- | --- | --- | --- |")
        here: list[tuple[str, float, bool]] = []
        for row in (it for it in rows if it.source == source):
            use = usage(row.plan)
            low, high = (edge / MIB + row.context + row.extra for edge in use.peak)
            expected = use.expected / MIB + row.context + row.extra
            here.append((row.name, expected / row.measured - 1, low <= row.measured <= high))
            yield (
                f"| {row.name} | {row.measured:.0f} | {expected:.0f} | {here[-1][1]:+.1%} | {low:.0f} to {high:.0f}"
                f"{outside(here[-1][2])} |"
            )
        yield from ("", f"{said(here)} {next(note for word, note in NOTES.items() if word in source)}", "")
        judged += here
    yield from (f"All published rows: {said(judged)}", "")


@dataclass(frozen=True)
class Monitored:
    """What the monitor of a card counts beside tensors, in MiB: the median of the calibrated half at batch 8, where activations are
    small, and all of them but the smallest and the largest."""

    middle: float
    low: float
    high: float


def monitored(rows: list[tuple[str, int, float, float]]) -> Monitored:
    left = sorted(measured - expected for name, batch, measured, expected in rows if batch == 8 and not held_out(name))
    return Monitored(statistics.median(left), left[1], left[-2])


def timm_judged(peaks: Path) -> tuple[Monitored, list[tuple[str, float, bool]]]:
    """(model, error, in the band) of each row, with what the calibrated half says of the monitor."""
    rows = list(timm_rows(peaks))
    beside = monitored(rows)
    return beside, [
        (name, (expected + beside.middle) / measured - 1, low + beside.low <= measured <= high + beside.high)
        for (name, _, measured, expected), (_, low, high) in zip(rows, timm_bands(peaks), strict=True)
    ]


def timm_table(peaks: Path) -> list[str]:
    """Image models on an A100."""
    beside, judged = timm_judged(peaks)
    blind = [
        (name, *band) for (name, *_), band in zip(timm_rows(peaks), timm_bands(peaks), strict=True) if held_out(name)
    ]
    strict = sum(low <= measured - beside.middle <= high for _, measured, low, high in blind)
    lines = ["### Image models on an A100 (GPUMemNet's measurements, timm, float32)", "",
             "| model | half | batch | measured MiB | expected | error |", "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    lines += [
        f"| {name} | {'held out' if held_out(name) else 'calibrated'} | {batch} | {measured:.0f} | {expected + beside.middle:.0f} | "
        f"{error:+.1%}{outside(inside)} |"
        for (name, batch, measured, expected), (_, error, inside) in zip(timm_rows(peaks), judged, strict=True)
    ]
    note = f"The monitor counts context, workspaces and what the allocator holds besides: {beside.low:.0f} to {beside.high:.0f} MiB, by"
    note += " the calibrated half at batch 8 without its smallest and largest. The spreads of image models had been set with all rows in"
    note += " sight; what is typical of a convolutional network, by the calibrated half alone."
    note += f" With the median alone, {beside.middle:.0f} MiB, the band holds {strict} of {len(blind)} of the held-out half."
    return [*lines, "", f"{said(judged)} {halves(judged)} {note}", ""]


def timm_bands(peaks: Path) -> Iterator[tuple[float, float, float]]:
    from t4lint.memory.images import find_image_model

    for name, batch, measured, _ in timm_rows(peaks):
        image = find_image_model(name)
        assert image is not None
        use = usage(Plan(parameters=image.parameters, trainable=image.parameters, layers=1, optimizer="sgd", batch=batch,
                         image_kept=image.kept_fp32, image_work=image.work_fp32, image_kind=image.kind))  # fmt: skip
        yield measured, use.peak[0] / MIB, use.peak[1] / MIB


def halves(judged: list[tuple[str, float, bool]]) -> str:
    """The two halves, each by itself."""
    blind = [row for row in judged if held_out(row[0])]
    seen = [row for row in judged if not held_out(row[0])]
    return f"Calibrated half: {said(seen)} Held-out half: {said(blind)}"


def said(judged: list[tuple[str, float, bool]]) -> str:
    """Bias, spread and coverage in a sentence."""
    errors = [error for _, error, _ in judged]
    inside = sum(held for _, _, held in judged)
    ordered = sorted(map(abs, errors))
    tenth = ordered[min(len(ordered) - 1, round(0.9 * (len(ordered) - 1)))]
    return (
        f"{len(errors)} rows: bias {statistics.mean(errors):+.1%}, median error {statistics.median(ordered):.1%}, 90 % of them within "
        f"{tenth:.1%}; the band holds {inside} of {len(errors)} ({inside / len(errors):.0%})."
    )


def write(peaks: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables(peaks)}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="The closed form of memory against traces and measurements")
    parser.add_argument("--trace", action="store_true", help="trace the cases anew, and store their peaks")
    parser.add_argument("--only", default="", help="with --trace: the cases with this text")
    parser.add_argument(
        "--peaks",
        type=Path,
        default=PEAKS,
        metavar="FILE",
        help="measured peaks of timm models: model,batch,measured_peak_mib",
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
