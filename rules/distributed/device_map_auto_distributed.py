"""A model is loaded with `device_map="auto"` in a run of several processes.

## What happens on a T4

`"auto"` spreads the layers of one model over all cards, and each process does it for itself. accelerate then refuses to
train: `You can't train a model that has been loaded with device_map='auto' in any distributed mode.` A model that is small
enough for one card is not refused, and every process puts it on GPU 0, beside the others.

## How to fix it

One whole copy for each process: `device_map={"": int(os.environ.get("LOCAL_RANK", 0))}` for a quantized model, no
`device_map` otherwise. If the model needs several cards, start a single process.

## When it is right to ignore it

For inference. A single process is not reported, nor is one with `ACCELERATE_BYPASS_DEVICE_MAP=true`.

## Sources

* accelerate 1.15, `Accelerator.prepare_model`, run with two ranks: a map over two devices raises, one over one passes
* transformers 5.24: `DeepSpeed Zero-3 is not compatible with passing a device_map`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddImport, Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, NOT_SAID, Backward, EnvironmentVariable, Fact, Launch, Model, Step, Trace, unknown

SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")
BYPASS = "ACCELERATE_BYPASS_DEVICE_MAP"


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """A copy on each process's own card."""
    if candidate.blame is not None:
        yield SetValue(candidate.blame, '{"": int(os.environ.get("LOCAL_RANK", 0))}')
        yield AddImport(candidate.blame, "os")


@rule(
    name="device-map-auto-distributed",
    severity="error",
    summary='device_map="auto" in a run of several processes',
    message='`device_map="{device_map}"` with {processes} processes: accelerate refuses to train such a model, and one '
    "that fits on a single GPU is put on GPU 0 by every process.",
    help="Give each process a copy on its own card: a `device_map` of the empty name to LOCAL_RANK, or drop the argument.",
    triggers=("device_map",),
    reads=(Model, Launch, Step, Backward, EnvironmentVariable),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Put a copy on the card of each process",
)
def device_map_auto_distributed(trace: Trace) -> Iterator[Candidate]:
    trains = trace.ever(Backward) | trace.ever(Step)
    several, processes = _several(trace)
    for model in trace.all(Model):
        if model.role != "load" or model.device_map == NOT_SAID:
            continue
        yield Candidate(
            model,
            model.device_map.test(lambda value: isinstance(value, str) and value in SPREADING) & several & trains,
            blame=model.device_map,
            words={"device_map": model.device_map.it, "processes": processes},
        )


def _several(trace: Trace) -> tuple[Fact, int]:
    launch = next(trace.all(Launch), None)
    if launch is None:
        return Fact(None, (unknown("no launch is in sight"),)), 1
    given = [launch.environment.get(BYPASS, NOT_SAID)]
    given += [variable.value for variable in trace.all(EnvironmentVariable) if variable.name == BYPASS]
    if any(value != NOT_SAID for value in given):
        return FALSE, 1
    counts = (launch.nodes, launch.processes_per_node)
    if all(count.known for count in counts):
        total = launch.nodes.it * launch.processes_per_node.it
        return Fact(total > 1, counts), total
    return Fact(None, counts), 1
