"""`device_map="auto"` in one process splits the layers over the cards, which then work one after the other.

## What happens on a T4

With two T4s in sight "auto" puts half of the layers on each, also where the model fits on one (TRL does it by itself for a
model that is given by name). A batch goes through the first card, then through the second: each idles half of the time, and
the Trainer does not use data parallelism. Where the cards are too small, layers go to the CPU or the disk without a word,
and a step takes minutes.

## How to fix it

One copy for each card: `device_map={"": PartialState().process_index}` and `accelerate launch --num_processes 2`; or one card:
`device_map={"": 0}`.

## When it is right to ignore it

When the model with its activations needs both cards. Then it is reported on request only, and on a target whose number of
GPUs is not known not at all.

## Sources

* transformers 5.24 (`is_model_parallel` sets the number of GPUs to 1), run with two devices; accelerate 1.15 documentation
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import NOT_SAID, Backward, Fact, Launch, Model, Step, Trace, Value

SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")
BYTES = {"4bit": 0.55, "8bit": 1.05}  # a weight; nf4 with its constants, int8
DTYPES = {"float16": 2.0, "bfloat16": 2.0, "float32": 4.0}
HALF = 0.5  # of a card: the rest is for adapters, activations and logits
FULL = 16  # bytes a parameter that Adam trains in mixed precision


@rule(
    name="device-map-auto-layer-split",
    severity="warning",
    summary='device_map="auto" splits layers over cards that then take turns',
    message='`device_map="{device_map}"` splits the layers over {gpus} T4s, which work one after the other{why}.',
    help="Use one copy for each card (a `device_map` of the empty name to the local rank, and a launcher), or one card.",
    triggers=("device_map",),
    reads=(Model, Launch, Step, Backward),
)
def device_map_auto_layer_split(trace: Trace) -> Iterator[Candidate]:
    trains = trace.ever(Backward) | trace.ever(Step)
    gpus = trace.target.gpus or 1
    if trace.target.instance is None or trace.target.gpu is None or gpus < 2:
        return
    card = trace.target.gpu.usable_bytes
    for model in trace.all(Model):
        if model.role != "load" or model.device_map == NOT_SAID:
            continue
        weights, whole = _bytes(trace, model)
        fits = whole.test(lambda size: size <= HALF * card)
        spills = weights.test(lambda size: size > gpus * card)
        split = model.device_map.test(lambda value: isinstance(value, str) and value in SPREADING)
        clear = bool(fits.holds or spills.holds)
        yield Candidate(
            model,
            split & _alone(trace) & trains & (fits | spills if clear else Fact(True)),
            blame=model.device_map,
            severity=None if clear else "note",
            words={
                "device_map": model.device_map.it,
                "gpus": gpus,
                "why": ", and what is left goes to the CPU"
                if spills.holds
                else ", and the model fits one"
                if clear
                else "",
            },
            on_request=not clear,
        )


def _bytes(trace: Trace, model: Model) -> tuple[Value, Value]:
    """Bytes of the weights, and of all that training keeps beside activations."""
    count = next((step.parameters for step in trace.all(Step)), Value(unknown="no optimizer step was seen"))
    if not count.known:
        return count, count
    quantized = model.quantization.it if model.quantization.known else None
    size = BYTES.get(str(quantized)) or DTYPES.get(str(model.dtype.it))
    if size is None:
        reason = Value(unknown="the dtype of the weights is not known")
        return reason, reason
    adapters = quantized in BYTES or "peft" in trace.imported
    weights = Value(count.it * size, likely=count.likely)
    return weights, weights if adapters else Value(count.it * FULL, likely=count.likely)


def _alone(trace: Trace) -> Fact:
    """One process, as launched, or presumed where no launch is in sight."""
    alone = Fact(True, (Value("one process is presumed", likely=True),))
    for launch in trace.all(Launch):
        alone = launch.nodes.equals(1) & launch.processes_per_node.equals(1)
    return alone
