"""The batch sizes of a DeepSpeed configuration contradict each other, or the training arguments.

## What happens on a T4

DeepSpeed asserts `train_batch_size == train_micro_batch_size_per_gpu * gradient_accumulation_steps * world_size` and ends
when it does not hold. A configuration that was written for eight GPUs does so on a machine with one or two T4s. Under the
Trainer a number that differs from its own argument ends in `Please correct the following DeepSpeed config values`.

## How to fix it

Under the Trainer write `"auto"` for all three. Otherwise leave `train_batch_size` out and give the other two.

## When it is right to ignore it

Never; it does not start.

## Sources

* DeepSpeed 0.19.6, `runtime/config.py` (`_batch_assertion`); transformers 5.24 `integrations/deepspeed.py` (`fill_match`), run
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Engine, Fact, Launch, Trace, Value, Wrap
from t4lint.trace.questions import ranks_of

MICRO, ACCUMULATION, TOTAL = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"


@rule(
    name="deepspeed-batch-size-mismatch",
    severity="error",
    summary="Batch sizes of DeepSpeed that contradict each other",
    message="{what}: DeepSpeed refuses to start.",
    help='Write `"auto"` for all three under the Trainer; else leave `train_batch_size` out.',
    triggers=("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"),
    reads=(Wrap, Launch, Engine),
)
def deepspeed_batch_size_mismatch(trace: Trace) -> Iterator[Candidate]:
    ranks = ranks_of(trace)
    for wrap in trace.all(Wrap):
        if TOTAL not in wrap.options:
            continue
        if wrap.options["by_trainer"].it is True:
            yield from _against_arguments(trace, wrap)
        total, micro, steps = (wrap.options[name] for name in (TOTAL, MICRO, ACCUMULATION))
        product, words = _product(micro, steps, ranks)
        differs = Fact(total.it != product.it if _count(total) and product.known else None, (total, product))
        if _count(total) and product.known and not _count(steps):
            differs = Fact(total.it % product.it != 0, (total, product))
        yield Candidate(wrap, differs, blame=total, words={"what": f"`train_batch_size` is {total.it}, and {words}"})


def _count(value: Value) -> bool:
    return value.known and isinstance(value.it, int) and not isinstance(value.it, bool)


def _product(micro: Value, steps: Value, ranks: Value) -> tuple[Value, str]:
    """What the total must be, or be a multiple of where the steps are left to DeepSpeed."""
    if not (_count(micro) and _count(ranks)) or not (_count(steps) or (steps.known and steps.it is None)):
        return Value(unknown="not all of the batch sizes are known"), ""
    if not _count(steps):
        made = micro.it * ranks.it
        return Value(made), f"no multiple of {micro.it} x {ranks.it} GPUs = {made}"
    made = micro.it * steps.it * ranks.it
    return Value(made), f"{micro.it} x {steps.it} steps x {ranks.it} GPUs make {made}"


def _against_arguments(trace: Trace, wrap: Wrap) -> Iterator[Candidate]:
    """A number in the file against the Trainer's own argument."""
    engine = next((e for e in trace.all(Engine) if e.role.endswith(("TrainingArguments", "Config"))), None)
    if engine is None:
        return
    for name, argument, own in (
        (MICRO, "per_device_train_batch_size", engine.micro_batch),
        (ACCUMULATION, "gradient_accumulation_steps", engine.accumulation),
    ):
        written = wrap.options[name]
        both = _count(written) and _count(own)
        yield Candidate(
            wrap,
            Fact(written.it != own.it if both else None, (written, own)),
            blame=written,
            words={"what": f"`{name}` is {written.it}, and `{argument}` is {own.it}"},
        )
