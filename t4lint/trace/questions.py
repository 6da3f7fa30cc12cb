"""What several rules ask of a trace, each written once. The vocabulary only: nothing here knows a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from t4lint.trace.events import (
    NOT_SAID,
    Autocast,
    Backward,
    Copy,
    Engine,
    EnvironmentVariable,
    Event,
    Forward,
    HostSync,
    Key,
    Launch,
    Model,
    Predicate,
    ProcessGroup,
    Scaler,
    Step,
    Wrap,
    ZeroGrad,
)
from t4lint.trace.trace import Trace
from t4lint.trace.values import FALSE, Fact, Value, whole_number

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


def left_to_auto(precision: Value) -> bool:
    """Did a file of axolotl leave the precision to the library?"""
    return bool(precision.origins) and precision.origins[0].note == "bf16: auto"


def used_later(trace: Trace, model: Model) -> Fact:
    """Does a GPU compute after a model was made? A script that only makes, tries on the CPU and stores it asks nothing of one."""
    later = trace.events[trace.events.index(model) + 1 :]
    elsewhere = (
        ("cpu",) if trace.basis in ("predicted", "phantom") else ()
    )  # a run on a CPU says nothing of the program's wish
    if any(
        isinstance(event, (Backward, Step)) or (isinstance(event, Forward) and event.device.it not in elsewhere)
        for event in later
    ):
        return Fact(True)
    return ~trace.never(Forward, lambda event: FALSE)


def loads_any(trace: Trace, kinds: Sequence[str]) -> bool:
    """Is a model loaded or built whose class says one of these words, such as "ForCausalLM"?"""
    return any(kind in model.evidence for model in trace.all(Model) for kind in kinds)


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
    when it comes ends no window; gradients that are cleared between two epochs begin one."""
    since: list[Backward] = []
    for event in trace.events:
        if isinstance(event, Backward) and not event.engine:
            since.append(event)
        elif isinstance(event, ZeroGrad) and since and len(event.loops) < len(since[-1].loops):
            since = []
        elif isinstance(event, Step) and not event.engine and event.backwards.known:
            yield event, since
            since = []


def accumulated(step: Step, since: list[Backward]) -> list[Backward]:
    """The micro-batches of a step that comes in some iterations only: one backward, again and again in the step's own loop.
    Empty where each iteration steps, and for a loop of its own over losses or tasks."""
    again: dict[Key, list[Backward]] = {}
    for backward in since:
        if step.loops and backward.loops == step.loops:
            again.setdefault(backward.key, []).append(backward)
    return next((its for its in again.values() if len(its) > 1), [])


def in_step_loop(trace: Trace, event: HostSync | Copy) -> Fact:
    """Does it happen in a loop that an optimizer steps in, as often as that steps at least?"""
    steps = [step for step in trace.all(Step) if step.loops == event.loops and step.key == _first_step(trace, event)]
    same = [other for other in trace.all(type(event)) if other.key == event.key]
    always = len(same) >= len(steps) and not any(other.guards or other.always.it is False for other in same)
    return Fact(bool(event.loops) and bool(steps) and always)


def _first_step(trace: Trace, event: Event) -> Key | None:
    return next((step.key for step in trace.all(Step) if step.loops == event.loops), None)


def settings_of(trace: Trace, name: str) -> Iterator[tuple[Event, Value]]:
    """Every place that sets an environment variable, once: a launch repeats what a line before it has exported."""
    seen: list[Value] = []
    for variable in trace.all(EnvironmentVariable):
        if variable.name == name:
            seen.append(variable.value)
            yield variable, variable.value
    for launch in trace.all(Launch):
        value = launch.environment.get(name)
        if value is not None and all(value.it != other.it for other in seen):
            seen.append(value)
            yield launch, value


def switched_on(value: Value) -> Fact:
    """Is a variable such as `NCCL_P2P_DISABLE` set to a number above 0?"""
    return value.test(lambda text: (whole_number(text) or 0) > 0)


def uses_nccl(trace: Trace) -> bool:
    """Only a program that names other backends for all of its process groups does not, or that has no GPU."""
    if trace.target.gpu is None:
        return False
    backends = [group.backend.it for group in trace.all(ProcessGroup)]
    return not backends or any(backend is None or "nccl" in str(backend) for backend in backends)


def several_nodes(trace: Trace) -> Fact:
    """Does one of the launches start more than one node?"""
    return any_launch(trace, lambda launch: launch.nodes.test(lambda nodes: nodes > 1))


def several_processes(trace: Trace) -> Fact:
    """More than one process: as launched, else presumed of a program that is made for it.

    A `python` command that starts one process may start others itself.
    """
    launch = next(trace.all(Launch), None)
    if launch is None or launch.launcher == "python":
        return Fact(True, (Value("several processes are presumed", likely=True),))
    return ~(launch.nodes.equals(1, if_unknown=False) & launch.processes_per_node.equals(1, if_unknown=False))


def on_several_nodes(trace: Trace) -> Fact:
    """Does the program run on more than one node? Presumed possible where no launch says how many there are."""
    launches = list(trace.all(Launch))
    if not launches:
        return Fact(True, (Value("several nodes are presumed", likely=True),))
    found = FALSE
    for launch in launches:
        found |= launch.nodes.test(lambda nodes: nodes > 1, if_unknown=True)
    return found


def follows(value: Value, mark: str) -> Fact:
    """Is the value the number of a process, as its provenance says? A run cannot tell, and an unknown value may be one."""
    if any(origin.note == mark for origin in value.origins):
        return Fact(True, (value,) if value.known else ())
    return Fact(False if value.known and not _observed(value) else None, (value,))


def _observed(value: Value) -> bool:
    return any(origin.how == "observed" for origin in value.origins)


def option_of(wrap: Wrap, name: str, default: object) -> Value:
    """An option of a wrapper, or its default where it is not written and cannot be."""
    if name in wrap.options:
        return wrap.options[name]
    return wrap.options["**"] if "**" in wrap.options else Value(default)


def ranks_of(trace: Trace) -> Value:
    """How many processes the run has, where every launch says the same."""
    counts = [(launch.nodes, launch.processes_per_node) for launch in trace.all(Launch)]
    if not counts:
        return Value(unknown="nothing says how many processes run")
    nodes, each = counts[-1]
    if not (nodes.known and each.known):
        return each if not each.known else nodes
    return Value(nodes.it * each.it, (*nodes.origins, *each.origins), likely=nodes.likely or each.likely)


def parameters_of(trace: Trace) -> Value:
    """How many parameters the model has that the steps train, as far as all of them agree."""
    counts = [step.parameters for step in trace.all(Step)]
    return counts[0] if counts else Value(unknown="no optimizer step was seen")


def sustained_gbps(trace: Trace) -> Value:
    """The network rate of a node of the target that holds for long, in Gbit/s."""
    instance = trace.target.instance
    rate = (instance.network_gbps_baseline or instance.network_gbps_max) if instance is not None else None
    return (
        Value(rate) if rate else Value(unknown="the network of the nodes is not known: name the instance as the target")
    )
