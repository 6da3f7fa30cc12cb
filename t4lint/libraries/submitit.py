"""submitit: a program that sends its own functions to Slurm (read in 1.5). The trace is that of the job's first process."""

from __future__ import annotations

from t4lint.interpret.values import (
    LOCAL_RANK,
    NONE,
    PER_PROCESS,
    RANK,
    Abstract,
    Bound,
    Const,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Unknown,
)
from t4lint.libraries.api import Arguments, Call, calls, methods

LAYOUT = "$submitit"  # what was asked of the executor that runs the job
ASKED = ("nodes", "tasks_per_node")
# Slurm's own names for them, which `update_parameters` of the executors for Slurm takes
PREFIX = "slurm_"


@calls("submitit.AutoExecutor", "submitit.SlurmExecutor", "submitit.LocalExecutor", "submitit.DebugExecutor")
def executor(call: Call) -> Abstract:
    return Object("submitit executor", call.name)


@methods("submitit executor", "update_parameters")
def update_parameters(call: Call) -> Abstract:
    for name in ASKED:
        given = call.argument(PREFIX + name, None, call.argument(name, None, NONE))
        if given is not NONE:
            call.machine.write(call.receiver.attributes, name, given)
    return NONE


@methods("submitit executor", "submit", "map_array")
def submit(call: Call) -> Abstract:
    """Calls a function, or an object that can be called, in processes of a job; of an array of jobs the first is followed."""
    m = call.machine
    function, *given = call.arguments.positional or (NONE,)
    if call.name.endswith("map_array"):
        given = [first_of(m.resolve(value)) for value in given]
    m.write(m.globals, "$spawned", True)
    m.write(m.globals, LAYOUT, call.receiver)
    if isinstance(m.resolve(function), (Function, Bound, Partial, Instance)):
        m.call(function, Arguments(tuple(given), dict(call.arguments.keywords), open=call.arguments.open))
    return Unknown("a job of Slurm")


def first_of(values: Abstract) -> Abstract:
    if isinstance(values, ListValue) and values.items:
        return values.items[0]
    return Unknown("which of the jobs this is")


@calls("submitit.JobEnvironment")
def job_environment(call: Call) -> Abstract:
    return Object("submitit job", call.name)


@methods("submitit job", "getattr")
def of_job(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name in ("global_rank", "node"):
        return Const(0, (RANK if name == "global_rank" else PER_PROCESS,))
    if name == "local_rank":
        return Const(0, (LOCAL_RANK,))
    layout = call.machine.globals.get(LAYOUT)
    asked = [
        call.machine.resolve(layout.attributes.get(one, Const(1))) if layout is not None else NONE for one in ASKED
    ]
    counts = [value.value for value in asked if isinstance(value, Const) and isinstance(value.value, int)]
    if name == "num_nodes" and len(counts) == len(ASKED):
        return Const(counts[0])
    if name == "num_tasks" and len(counts) == len(ASKED):
        return Const(counts[0] * counts[1])
    return Unknown(f"the job's {name}")
