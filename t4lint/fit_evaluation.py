"""The part of `t4lint fit` on evaluation: what transformers' Trainer keeps of it, and for how many samples the card has room.

With `compute_metrics` the Trainer keeps the outputs of every batch until the evaluation ends, on the GPU unless it is told
otherwise, and joins them as they come, which takes twice their size for a moment (transformers 4.30 to 5.24, `evaluation_loop`
and `trainer_pt_utils.py`; executed in tests/test_claims_loop_and_data.py).
"""

from __future__ import annotations

from t4lint.devices import Target
from t4lint.fit_communication import Row, Section
from t4lint.memory.plan import Plan, usage
from t4lint.memory.reading import Given, read
from t4lint.trace import Call, Engine, Step, Trace, Value

TITLE = "Evaluation during training"
MIB = 2**20
GIB = 2**30
JOINED = 2  # times the size of what is kept, while a batch is joined to it
STAYS = ("weights", "optimizer")  # components of a step that are there during an evaluation too
NOTHING = Value(None)


def evaluation(trace: Trace, step: Step, target: Target, given: Given) -> Section | None:
    """The section of a training step, or None where nothing is kept or it is not the Trainer that evaluates."""
    trainer = next((call for call in trace.all(Call) if call.function.endswith("Trainer")), None)
    if trainer is None or not _given(trainer, "compute_metrics") or not _evaluates(trace):
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
