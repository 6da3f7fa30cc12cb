"""Hold the closed form of memory against traced peaks, and against what others measured on real GPUs.

    python benchmarks/memory_model.py [--peaks timm_a100_peaks.csv] [--write]

Each configuration is traced (benchmarks/tracing.py) for two training steps on a GPU that is not there, with the real model
of transformers and the real optimizer; `t4lint/memory/plan.py` says its band without seeing the trace. With `--write` the
tables of docs/memory.md are made anew.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from t4lint.memory.adapters import lora  # noqa: E402
from t4lint.memory.plan import Plan, usage  # noqa: E402
from t4lint.memory.shapes import Shape, find_shape  # noqa: E402

GIB = 2**30
PAGE = ROOT / "docs" / "memory.md"


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
                  shape.head_size, "num_heads": shape.heads, "d_ff": shape.intermediate}  # fmt: skip
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peaks", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    import bitsandbytes  # noqa: F401  before torch.cuda answers as a T4 does
    import peft  # noqa: F401
    import tracing
    import transformers

    tracing.install()
    transformers.logging.set_verbosity_error()
    for case in CASES:
        if args.only not in f"{case.name} {case.recipe}":
            continue
        use = usage(plan_of(case))
        try:
            peak, phases = traced(case)
        except Exception as error:
            print(case.name, case.recipe, type(error).__name__, str(error)[:200])
            continue
        low, high = use.peak
        print(
            f"{case.name:38} B{case.batch} T{case.length} {case.recipe:50} traced {peak / GIB:.2f} "
            f"expected {use.expected / GIB:.2f} {100 * (use.expected / peak - 1):+.0f}% band {low / GIB:.2f}-{high / GIB:.2f} "
            f"{'' if low <= peak <= high else 'OUTSIDE'} {use.moment}",
            {k: round(v / GIB, 2) for k, v in phases.items()},
            {k: (round(v[0] / GIB, 2), round(v[1] / GIB, 2)) for k, v in use.components.items()},
            {k: round((v[0] + v[1]) / 2 / GIB, 2) for k, v in use.moments.items()},
            flush=True,
        )
    sys.stdout.flush()
    os._exit(0)  # C++ still points at what Python would free now


if __name__ == "__main__":
    main()
