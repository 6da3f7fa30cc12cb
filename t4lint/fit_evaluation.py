"""The part of `t4lint fit` on evaluation: what it needs and keeps, and for how many samples the card has room.

With `compute_metrics` the Trainer keeps the outputs of every batch until the evaluation ends, on the GPU unless it is told
otherwise, and joins them as they come, which takes twice their size for a moment (transformers 4.30 to 5.24, `evaluation_loop`
and `trainer_pt_utils.py`; executed in tests/test_claims_loop_and_data.py).

In a loop of one's own the forward itself is measured: its batch, whether autograd keeps its activations, and what the loop
collects on the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from t4lint.devices import Target
from t4lint.fit_communication import Row, Section
from t4lint.memory.plan import Plan, forward_alone, usage
from t4lint.memory.reading import Given, read
from t4lint.trace import Backward, Call, Engine, Forward, Keep, Loader, Step, Trace, Value

TITLE = "Evaluation during training"
MIB = 2**20
GIB = 2**30
JOINED = 2  # times the size of what is kept, while a batch is joined to it
STAYS = ("weights", "optimizer state")  # components of a step that are there during an evaluation too
NOTHING = Value(None)


def evaluation(trace: Trace, step: Step, target: Target, given: Given) -> Section | None:
    """The section of a training step, or None where nothing is evaluated, or the Trainer keeps nothing of it."""
    trainer = next((call for call in trace.all(Call) if call.function.endswith("Trainer")), None)
    if trainer is None:
        return _in_a_loop(trace, step, target, given)
    if not _given(trainer, "compute_metrics") or not _evaluates(trace):
        return None
    reading = read(trace, step, given)
    if not reading.plans or not reading.causal or "**" in trainer.arguments:
        return None
    plan = max(reading.plans, key=lambda it: usage(it).expected)
    if not plan.vocabulary or plan.chunked_loss:
        return None
    gpu = target.gpu
    limit = gpu.total_memory - gpu.context_bytes[1] if gpu is not None else 0
    rows, values = _rows(trace, trainer, plan, limit)
    return Section(TITLE, tuple(rows), _note(values), values)


def _in_a_loop(trace: Trace, step: Step, target: Target, given: Given) -> Section | None:
    """The first evaluation in a loop of the program's own whose batch is known."""
    found = next(((it, size) for it in _forwards(trace, step) if (size := _batch_in(trace, it))), None)
    reading = read(trace, step, given) if found is not None else None
    if found is None or reading is None or not reading.plans:
        return None
    forward, batch = found
    plan = replace(max(reading.plans, key=lambda it: usage(it).expected), batch=batch, chunked_loss=False)
    if forward.dtype.it == "float32":  # outside of the region that training runs in
        plan = replace(plan, autocast=False)
    recorded = forward.grad.it is not False
    components = forward_alone(plan, recorded=recorded)
    peak = (sum(it[0] for it in components.values()), sum(it[1] for it in components.values()))
    gpu = target.gpu
    limit = gpu.total_memory - gpu.context_bytes[1] if gpu is not None else 0
    usable = gpu.usable_bytes if gpu is not None else 0
    answer = "fits" if peak[1] <= limit else "does not fit" if peak[0] > usable else "may not fit"
    rows: list[Row] = [
        ("a batch", f"{batch:g} x {plan.length:g} tokens" if plan.widths is not None else f"{batch:g} images"),
        ("autograd", "on: it keeps the activations of a batch" if recorded else "off"),
        ("at the peak", f"{_size(peak[0])} to {_size(peak[1])}: {answer}"),
    ]
    values: dict[str, object] = {
        "batch_size": batch, "recorded": recorded, "low": int(peak[0]),
        "high": int(peak[1]) if math.isfinite(peak[1]) else None, "kept": None, "samples": None,
    }  # fmt: skip
    if plan.vocabulary:
        rows.insert(1, ("logits of a batch", _size(components["logits"][0])))
        rows += _collected(trace, forward, plan, limit, values)
    note = "Put `@torch.no_grad()` above it: nothing goes backward there." if recorded else ""
    return Section(TITLE, tuple(rows), note, values)


def _forwards(trace: Trace, step: Step) -> Iterator[Forward]:
    """Forwards of the trained model in evaluation mode, in a loop in which nothing goes backward."""
    backwards = {loop for backward in trace.all(Backward) for loop in backward.loops[-1:]}
    for forward in trace.all(Forward):
        same = not step.trains.known or forward.subject == step.trains.it
        if forward.training.it is False and forward.loops and forward.loops[-1] not in backwards and same:
            if str(forward.device.it).startswith("cuda"):
                yield forward


def _batch_in(trace: Trace, forward: Forward) -> float | None:
    """The batch of the loader that the loop around a forward reads."""
    for loader in trace.all(Loader):
        if loader.read_in.known and forward.loops[-1] in loader.read_in.it and loader.batch_size.known:
            size = loader.batch_size.it
            return float(size) if isinstance(size, (int, float)) and size else None
    return None


def _collected(trace: Trace, forward: Forward, plan: Plan, limit: float, values: dict[str, object]) -> Iterator[Row]:
    """What the loop appends to a list on the GPU; how large it is depends on what is made of the logits."""
    kept = next((it for it in trace.all(Keep) if it.role == "list" and it.loops[-1:] == forward.loops[-1:]), None)
    if kept is None or not kept.value.known:
        return
    values["kept"] = str(kept.value.it)
    if kept.graph.it is True:
        yield (
            "kept on the GPU",
            f"`{kept.value.it}` of every batch with its graph, and so all that autograd keeps of each",
        )
        return
    sample = plan.length * plan.vocabulary * (2 if plan.autocast or plan.weights in ("float16", "bfloat16") else 4)
    if plan.copies_logits and plan.autocast:
        sample *= 2  # accelerate hands them out in float32
    stays = forward_alone(plan, recorded=False)
    samples = max(0, int((limit - sum(stays[name][0] for name in STAYS if name in stays)) // (JOINED * sample)))
    values |= {"samples": samples, "sample": int(sample)}
    yield ("kept on the GPU", f"`{kept.value.it}` of every batch until the list is dropped")
    yield (
        "room",
        f"as whole logits {_size(sample)} a sample, so for {samples} samples at most; token ids are 8 bytes a token",
    )


def _given(trainer: Call, name: str) -> bool:
    """Is an argument given: a function that is not known is one too."""
    value = trainer.arguments.get(name, NOTHING)
    return not value.known or value.it is not None


def _evaluates(trace: Trace) -> bool:
    said = [engine.evaluates for engine in trace.all(Engine) if engine.evaluates.known]
    return any(str(value.it).rpartition(".")[2].lower() not in ("no", "none", "false") for value in said)


def _rows(trace: Trace, trainer: Call, plan: Plan, limit: float) -> tuple[list[Row], dict[str, object]]:
    size = (
        4 if plan.autocast or plan.weights == "float32" else 2
    )  # accelerate returns float32 from a forward under autocast
    sample = plan.length * plan.vocabulary * size
    batch = _eval_batch(trace) or plan.batch
    rows: list[Row] = [("logits of a batch", f"{_size(batch * sample)}: {batch:g} x {_product(plan, size)}")]
    values: dict[str, object] = {"sample": int(sample), "batch": int(batch * sample), "kept": "gpu", "samples": None}
    if _given(trainer, "preprocess_logits_for_metrics"):
        rows.append(("kept", "what `preprocess_logits_for_metrics` makes of them; token ids are 8 bytes a token"))
        values["kept"] = "reduced"
        return rows, values
    for name, how, where in _REMEDIES:
        if _argument(trace, name).it not in (None, False):
            steps = _argument(trace, name).it
            rows.append(("kept", how.format(size=_size(sample), on_gpu=_size(sample * batch * steps))))
            values["kept"] = where
            return rows, values
    components = usage(plan).components
    left = limit - sum(components[name][0] for name in STAYS if name in components)
    samples = max(0, int(left // (JOINED * sample)))
    rows += [
        ("kept on the GPU", f"{_size(sample)} for each sample, until the evaluation ends"),
        ("room", f"for {samples} samples at most, beside weights and optimizer"),
    ]
    values["samples"] = samples
    return rows, values


# what changes it: the argument, what it does, and where the logits are then
_REMEDIES = (
    ("prediction_loss_only", "nothing but the loss", "nothing"),
    ("batch_eval_metrics", "one batch at a time", "batch"),
    ("eval_accumulation_steps", "{on_gpu} on the GPU, then {size} for each sample in the host's memory", "host"),
)


def _note(values: dict[str, object]) -> str:
    if values["kept"] == "gpu":
        return (
            "Pass `preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)` to keep token ids instead."
        )
    return ""


def _argument(trace: Trace, name: str) -> Value:
    found = [call.arguments[name] for call in trace.all(Call) if name in call.arguments]
    return found[-1] if found else NOTHING


def _eval_batch(trace: Trace) -> float | None:
    said = [engine.eval_micro_batch.it for engine in trace.all(Engine) if engine.eval_micro_batch.known]
    return float(said[-1]) if said and isinstance(said[-1], (int, float)) else None


def _product(plan: Plan, size: int) -> str:
    return f"{plan.length:g} tokens x {plan.vocabulary:g} x {size} bytes"


def _size(count: float) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"
