"""What several rules ask of a trace, each written once. The vocabulary only: nothing here knows a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from t4lint.trace.events import (
    NOT_SAID,
    Autocast,
    Backward,
    Engine,
    Event,
    Forward,
    Launch,
    Model,
    Predicate,
    Scaler,
    Step,
)
from t4lint.trace.trace import Trace
from t4lint.trace.values import FALSE, Fact, Value

E = TypeVar("E", bound=Event)
GROWS_WITH_BATCH = ("activations", "logits")


def on_gpu(device: Value) -> Fact:
    """Is it a CUDA device? One that is not known is taken for one: it is what the code is checked for."""
    return device.test(lambda it: str(it).startswith("cuda"), if_unknown=True)


def trains_on_cpu(trace: Trace) -> bool:
    """Are there optimizer steps, and all of them on the CPU?"""
    devices = [step.device.it for step in trace.all(Step)]
    return bool(devices) and all(device == "cpu" for device in devices)


def asked_for_bf16(trace: Trace, value: Value) -> bool:
    """Did a question about bf16, answered with yes, decide the value? Only source can tell; a run cannot."""
    return trace.basis == "predicted" and any(
        predicate.result.it is True and trace.led_to(predicate, value).holds is True
        for predicate in trace.all(Predicate)
        if "bf16" in predicate.function or "bfloat16" in predicate.function
    )


def used_later(trace: Trace, model: Model) -> Fact:
    """Does anything compute after a model was made? A script that only loads and stores it does no arithmetic."""
    later = trace.events[trace.events.index(model) + 1 :]
    if any(isinstance(event, (Forward, Backward, Step)) for event in later):
        return Fact(True)
    return ~trace.never(Forward, lambda event: FALSE)


def refused_by_scaler(trace: Trace, dtype: str) -> bool:
    """Does a gradient scaler step on gradients of a dtype that it refuses? The crash has a finding of its own."""
    return any(
        step.gradients.known and dtype in step.gradients.it and step.through_scaler.it is True
        for step in trace.all(Step)
    )


def scaled_steps(trace: Trace) -> Iterator[tuple[Step, Fact]]:
    """Each optimizer step, with whether a gradient scaler that is switched on unscales its gradients.

    A step of the program's own says whether it went through a scaler; of an engine's the backward before it does.
    """
    switches: dict[str, Value] = {}
    enabled, scaled = FALSE, FALSE
    for event in trace.events:
        if isinstance(event, Scaler) and event.operation == "init":
            switches[event.subject] = event.enabled
        elif isinstance(event, Scaler) and event.operation == "step":
            given = event.enabled if event.enabled != NOT_SAID else switches.get(event.subject, NOT_SAID)
            enabled = given.equals(True, if_unknown=True if given == NOT_SAID else None)
        elif isinstance(event, Backward):
            scaled = event.scaled_by.test(lambda scaler: scaler != "none")
        elif isinstance(event, Step):
            yield event, scaled if event.engine else event.through_scaler.equals(True) & enabled


def in_fp16(trace: Trace) -> bool:
    """Is fp16 asked for anywhere: by an engine, an autocast region or the dtype of a model?"""
    asked = [engine.mixed_precision.it for engine in trace.all(Engine)]
    asked += [region.dtype.it for region in trace.all(Autocast) if region.enabled.it is True]
    asked += [model.dtype.it for model in trace.all(Model)]
    return any(dtype in ("fp16", "float16") for dtype in asked)


def first_of_each(trace: Trace, kind: type[E]) -> Iterator[E]:
    """The first event of each place: a loop is traced for several steps, and one judgement for each is enough."""
    seen = set()
    for event in trace.all(kind):
        if event.key not in seen:
            seen.add(event.key)
            yield event


def lowest(step: Step, *parts: str) -> float:
    """The lower edge of some parts of the memory of a step, in bytes; a part that is not known counts as nothing."""
    bands: Mapping[str, tuple[float, float]] = step.components.it or {}
    return float(sum(bands[part][0] for part in parts if part in bands))


def one_sample(step: Step) -> tuple[float, float]:
    """(bytes that stay whatever the batch is, bytes of one sample more), by the lower edges of the estimate."""
    bands: Mapping[str, tuple[float, float]] = step.components.it or {}
    growing = sum(band[0] for name, band in bands.items() if name in GROWS_WITH_BATCH)
    state = sum(bands[name][0] for name in ("weights", "optimizer") if name in bands)
    batch = step.micro_batch.it if isinstance(step.micro_batch.it, int) and step.micro_batch.it > 0 else 1
    return float(state), growing / batch


def written_length(trace: Trace) -> Value | None:
    """The longest sequence that the engine allows, where it is known."""
    lengths = [engine.sequence_length for engine in trace.all(Engine) if engine.sequence_length.known]
    return lengths[-1] if lengths and lengths[-1].it else None


def only_checkpoint(trace: Trace) -> Value | None:
    """The name of the only checkpoint that is loaded, which gives the size."""
    names = [model.name for model in trace.all(Model) if model.role == "load" and model.name.known]
    return names[0] if len(names) == 1 else None


def any_launch(trace: Trace, judge: Callable[[Launch], Fact]) -> Fact:
    """Does one of the launches fulfil it?"""
    found = FALSE
    for launch in trace.all(Launch):
        found |= judge(launch)
    return found


def windows(trace: Trace) -> Iterator[tuple[Step, list[Backward]]]:
    """Each optimizer step of the program's own, with the backwards since the step before it. A step of which it is not known
    when it comes ends no window."""
    since: list[Backward] = []
    for event in trace.events:
        if isinstance(event, Backward) and not event.engine:
            since.append(event)
        elif isinstance(event, Step) and not event.engine and event.backwards.known:
            yield event, since
            since = []


def accumulated(step: Step, since: list[Backward]) -> list[Backward]:
    """The micro-batches of a step that comes in some iterations only: one backward, again and again in the step's own loop.
    Empty where each iteration steps, and for a loop of its own over losses or tasks."""
    for backward in since:
        again = [it for it in since if it.key == backward.key]
        if len(again) > 1 and step.loops and backward.loops == step.loops:
            return again
    return []
