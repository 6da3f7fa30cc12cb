"""Build `t4lint/memory/blocks.csv`: what one block of a transformer keeps for backward, from traces.

    python scripts/build_blocks.py [KIND ...]

For each kind of block, precision and way of training, small models of different widths are traced on a GPU that is not
there (`benchmarks/tracing.py`). The bytes a token and layer are linear in the widths; their coefficients come from a
least-squares fit, whose largest relative error is in the column `misfit`. Dropout and attention are as in the family's own
configuration, without padding mask. Columns:

* `hidden`, `queries`, `keys`, `intermediate`, `heads`: bytes a token and layer and unit of that width, kept at the end of
  the forward (`queries` and `keys` are all heads together);
* `pairs`: bytes a pair of tokens, head and layer that the family's own attention keeps, where it is always eager;
* `scores`: the same for eager attention, where it is asked for;
* `sample`: bytes a sample, layer and unit of hidden width that do not grow with the length;
* `outside`: bytes a token and unit of hidden width outside the blocks, without a head;
* `working`: bytes a token and unit of hidden width, and `working_wide` of intermediate width, that the backward of one
  block needs more at its peak;
* `checkpointed`: bytes a token, layer and unit of hidden width that stay with activation checkpointing.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import torch  # noqa: E402
import tracing  # noqa: E402
import transformers  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from transformers.initialization import no_init_weights  # noqa: E402

TARGET = ROOT / "t4lint" / "memory" / "blocks.csv"
Widths = dict[str, int]  # hidden, queries, keys, intermediate, heads
COEFFICIENTS = ("hidden", "queries", "keys", "intermediate", "heads")
COLUMNS = ["kind", "weights", "autocast", "trained", *COEFFICIENTS, "pairs", "sample", "scores", "outside", "working", "working_wide",
           "checkpointed", "misfit", "source"]  # fmt: skip
VOCABULARY, LENGTH = 512, 128
# One layer of the encoder and one of the decoder are traced together, with equal lengths: a layer has half of it.
TWO_STACKS = ("t5", "t5-gated", "bart")


def _plain(w: Widths, layers: int) -> dict[str, int]:
    return {"vocab_size": VOCABULARY, "hidden_size": w["hidden"], "num_hidden_layers": layers,
            "num_attention_heads": w["heads"], "intermediate_size": w["intermediate"]}  # fmt: skip


def _grouped(w: Widths, layers: int) -> dict[str, int]:
    size = w["queries"] // w["heads"]
    return {**_plain(w, layers), "num_key_value_heads": w["keys"] // size, "head_dim": size}


def _two_stacks(w: Widths, layers: int) -> dict[str, int]:
    return {"vocab_size": VOCABULARY, "d_model": w["hidden"], "encoder_layers": layers, "decoder_layers": layers,
            "encoder_ffn_dim": w["intermediate"], "decoder_ffn_dim": w["intermediate"],
            "encoder_attention_heads": w["heads"], "decoder_attention_heads": w["heads"]}  # fmt: skip


# kind → (transformers' model_type, fields of its configuration, which widths are free)
KINDS: dict[str, tuple[str, Callable[[Widths, int], dict[str, Any]], str]] = {
    "gpt2": ("gpt2", lambda w, n: {"vocab_size": VOCABULARY, "n_embd": w["hidden"], "n_layer": n, "n_head": w["heads"],
                                   "n_inner": w["intermediate"]}, "plain"),
    "bert": ("bert", _plain, "plain"),
    "distilbert": ("distilbert", lambda w, n: {"vocab_size": VOCABULARY, "dim": w["hidden"], "n_layers": n,
                                               "n_heads": w["heads"], "hidden_dim": w["intermediate"]}, "plain"),
    "deberta-v2": ("deberta-v2", lambda w, n: {**_plain(w, n), "relative_attention": True, "position_buckets": 256,
                   "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"}, "plain"),
    "opt": ("opt", lambda w, n: {"vocab_size": VOCABULARY, "hidden_size": w["hidden"], "num_hidden_layers": n,
            "num_attention_heads": w["heads"], "ffn_dim": w["intermediate"], "word_embed_proj_dim": w["hidden"]},
            "plain"),
    "gpt_neox": ("gpt_neox", _plain, "plain"),
    "gpt_neo": ("gpt_neo", lambda w, n: {"vocab_size": VOCABULARY, "hidden_size": w["hidden"], "num_layers": n, "num_heads":
                w["heads"], "intermediate_size": w["intermediate"], "attention_types": [[["global"], n]]}, "plain"),
    "gptj": ("gptj", lambda w, n: {"vocab_size": VOCABULARY, "n_embd": w["hidden"], "n_layer": n, "n_head": w["heads"],
                                   "n_inner": w["intermediate"], "rotary_dim": 16}, "plain"),
    "modernbert": ("modernbert", lambda w, n: {**_plain(w, n), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1,
                                               "cls_token_id": 1, "sep_token_id": 1}, "plain"),
    "mpnet": ("mpnet", _plain, "plain"),
    "bloom": ("bloom", lambda w, n: {"vocab_size": VOCABULARY, "hidden_size": w["hidden"], "n_layer": n,
                                     "n_head": w["heads"]}, "fourfold"),
    "phi": ("phi", _plain, "plain"),
    "llama": ("llama", _grouped, "grouped"),
    "qwen3": ("qwen3", _grouped, "grouped"),
    "gemma": ("gemma", _grouped, "grouped"),
    "gemma2": ("gemma2", _grouped, "grouped"),
    "gemma3": ("gemma3_text", _grouped, "grouped"),
    "olmo2": ("olmo2", _grouped, "grouped"),
    "t5": ("t5", lambda w, n: {"vocab_size": VOCABULARY, "d_model": w["hidden"], "num_layers": n, "num_heads":
           w["heads"], "d_kv": w["queries"] // w["heads"], "d_ff": w["intermediate"]}, "own queries"),
    "t5-gated": ("t5", lambda w, n: {"vocab_size": VOCABULARY, "d_model": w["hidden"], "num_layers": n, "num_heads":
                 w["heads"], "d_kv": w["queries"] // w["heads"], "d_ff": w["intermediate"],
                 "feed_forward_proj": "gated-gelu"}, "own queries"),
    "bart": ("bart", _two_stacks, "plain"),
    "vit": ("vit", lambda w, n: {k: v for k, v in _plain(w, n).items() if k != "vocab_size"}, "plain"),
}  # fmt: skip


def widths_of(free: str) -> list[Widths]:
    """Shapes that tell the coefficients apart: as many as are free, and two more."""
    made = []
    for hidden, heads, size, groups, wide in [
        (128, 4, 32, 2, 512), (256, 4, 64, 4, 512), (256, 8, 32, 2, 1024), (128, 2, 64, 1, 384), (384, 6, 64, 3, 1536),
        (512, 4, 64, 1, 768), (256, 4, 128, 2, 1280),
    ]:  # fmt: skip
        if free in ("plain", "fourfold"):
            size, groups = hidden // heads, heads
        if free == "own queries":
            groups = heads
        wide = 4 * hidden if free == "fourfold" else wide
        made.append({"hidden": hidden, "heads": heads, "queries": heads * size, "keys": groups * size,
                     "intermediate": wide})  # fmt: skip
    return made


FREE = {"plain": ("hidden", "intermediate", "heads"), "fourfold": ("hidden", "heads"), "grouped": COEFFICIENTS,
        "own queries": ("hidden", "queries", "intermediate", "heads")}  # fmt: skip


def main(only: list[str]) -> None:
    tracing.install()
    transformers.logging.set_verbosity_error()
    rows = [row for kind in KINDS if not only or kind in only for row in rows_of(kind)]
    if only:
        with TARGET.open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["kind"] not in only] + rows
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["kind"], row["weights"], row["autocast"], row["trained"])))


def rows_of(kind: str) -> Iterator[dict[str, Any]]:
    versions = f"traced: transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    # 16-bit weights keep the same with and without autocast: traced for eight kinds, and then no more. Encoder-decoder models and
    # vision transformers are traced as they are mostly trained.
    ways = list(product((("float32", True), ("float32", False), ("float16", True)), (True, False)))
    if kind in (*TWO_STACKS, "vit", "deberta-v2"):
        ways = [(("float32", True), True), (("float32", False), True)]
    for (weights, autocast), trained in ways:
        try:
            row = row_of(kind, weights, autocast, trained)
        except Exception as error:
            print(f"{kind} {weights} {autocast} {trained}: {type(error).__name__} {str(error)[:150]}", file=sys.stderr)
            continue
        yield {"kind": kind, "weights": weights, "autocast": "yes" if autocast else "no",
               "trained": "yes" if trained else "no", **row, "source": versions}  # fmt: skip
        print(kind, weights, autocast, trained, row, flush=True)


def row_of(kind: str, weights: str, autocast: bool, trained: bool) -> dict[str, Any]:
    free = KINDS[kind][2]
    stacks = 2 if kind in TWO_STACKS else 1
    shapes = widths_of(free)

    def more(widths: Widths, layers: int, **how: Any) -> tuple[float, float]:
        """Bytes a token kept, and needed more in backward: the difference of two batches."""
        small, large = (traced(kind, widths, layers, batch, weights, autocast, trained, **how) for batch in (2, 4))
        tokens = 2 * how.get("length", LENGTH) * (1 if kind != "vit" else 197 / how.get("length", LENGTH))
        return (large[0] - small[0]) / tokens, (large[1] - small[1]) / tokens

    pairs, sample = (each / stacks for each in own_pairs(kind, shapes[1], more))
    kept, rest, working = [], [], []
    for widths in shapes:
        one, two = more(widths, 1), more(widths, 2)
        kept.append((two[0] - one[0]) / stacks - pairs * widths["heads"] * LENGTH - sample * widths["hidden"] / LENGTH)
        rest.append((2 * one[0] - two[0]) / widths["hidden"])
        working.append(two[1] - two[0])
    names = FREE[free]
    left = torch.tensor([[float(widths[name]) for name in names] for widths in shapes], dtype=torch.float64)
    found, misfit = solved(left, kept)
    wide = torch.tensor([[float(w["hidden"]), float(w["intermediate"])] for w in shapes], dtype=torch.float64)
    work, _ = solved(wide, working)
    row = {name: round(value, 3) for name, value in zip(names, found, strict=True)}
    row["misfit"] = round(misfit, 4)
    row["outside"] = round(sum(rest) / len(rest), 2)
    row["working"], row["working_wide"] = (round(value, 2) for value in work)
    row["pairs"], row["sample"] = round(pairs, 2) or "", round(sample, 1) or ""
    row["scores"] = round(scores(kind, shapes[1], more, kept[1]) / stacks, 2)
    shape = shapes[1]
    try:
        one, two = (more(shape, layers, checkpointing=True)[0] for layers in (1, 2))
        row["checkpointed"] = round((two - one) / shape["hidden"] / stacks, 2)
    except ValueError:  # the family has none
        row["checkpointed"] = ""
    except NotImplementedError:  # its backward copies a number to the GPU; a checkpoint is the block's input
        row["checkpointed"] = 2.0 if weights == "float16" else 4.0
    return row


def solved(left: Any, right: list[float]) -> tuple[list[float], float]:
    goal = torch.tensor(right, dtype=torch.float64)
    found = torch.linalg.lstsq(left, goal).solution
    misfit = float(((left @ found - goal).abs() / goal.abs().clamp(min=1)).max())
    return [float(value) for value in found], misfit


def own_pairs(kind: str, widths: Widths, more: Callable[..., tuple[float, float]]) -> tuple[float, float]:
    """What attention as the family does it by itself keeps for each pair of tokens and head, and for each sample and unit of hidden
    width: nothing, unless it is eager, and unless positions are multiplied for each sample anew."""
    if kind == "vit":
        return 0.0, 0.0
    lengths = (LENGTH, 2 * LENGTH, 4 * LENGTH) if kind == "deberta-v2" else (LENGTH, 2 * LENGTH)
    kept = [more(widths, 2, length=n)[0] - more(widths, 1, length=n)[0] for n in lengths]
    if len(lengths) == 2:
        each = (kept[1] - kept[0]) / widths["heads"] / LENGTH
        return (each if each > 1.5 else 0.0), 0.0  # less: masks that are shared by the heads
    left = torch.tensor([[1.0, widths["heads"] * n, widths["hidden"] / n] for n in lengths], dtype=torch.float64)
    (_, pairs, sample), _ = solved(left, kept)
    return pairs, sample


def scores(kind: str, widths: Widths, more: Callable[..., tuple[float, float]], kept: float) -> float:
    """Eager attention grows with the square of the length."""
    if kind == "vit":
        eager = more(widths, 2, attention="eager")[0] - more(widths, 1, attention="eager")[0]
        return (eager - kept) / widths["heads"] / 197
    long, short = (
        more(widths, 2, attention="eager", length=n)[0] - more(widths, 1, attention="eager", length=n)[0]
        for n in (2 * LENGTH, LENGTH)
    )
    return (long - short) / widths["heads"] / LENGTH


def traced(
    kind: str, widths: Widths, layers: int, batch: int, weights: str, autocast: bool, trained: bool, *,
    length: int = LENGTH, attention: str | None = None, checkpointing: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """Bytes at the end of the forward without what was there before, and at the peak of the backward."""
    name, fields, _ = KINDS[kind]
    config = transformers.AutoConfig.for_model(name, **fields(widths, layers))
    if attention:
        config._attn_implementation = attention
    tracer = tracing.Tracer()
    with FakeTensorMode(allow_non_fake_inputs=True), tracer:
        with no_init_weights():
            model = transformers.AutoModel.from_config(config, dtype=getattr(torch, weights)).to("cuda").train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        if not trained:
            model.requires_grad_(False)
            for module in model.modules():
                if isinstance(module, torch.nn.Embedding) or (kind == "vit" and isinstance(module, torch.nn.Conv2d)):
                    module.register_forward_hook(lambda module, inputs, out: out.requires_grad_(True))
        inputs = inputs_of(kind, batch, length)
        before = tracer.now
        with torch.autocast("cuda", dtype=torch.float16, enabled=autocast):
            loss = model(**inputs)[0].float().sum()
        kept = tracer.now - before
        tracer.peaks.clear()
        loss.backward()
        peak = max(tracer.peaks.values()) - before
    return kept, peak


def inputs_of(kind: str, batch: int, length: int) -> dict[str, Any]:
    if kind == "vit":
        return {"pixel_values": torch.zeros(batch, 3, 224, 224, device="cuda")}
    ids = torch.zeros(batch, length, dtype=torch.long, device="cuda")
    return {"input_ids": ids, **({"decoder_input_ids": ids} if kind in TWO_STACKS else {})}


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # C++ still points at what Python would free now
