"""Interpret one run: a script with its launch, then the functions that nothing called."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from t4lint.devices import Target, find_target
from t4lint.findings import Problem
from t4lint.interpret import keeping, launching
from t4lint.interpret.calls import enter_uncalled
from t4lint.interpret.imports import run_module
from t4lint.interpret.machine import MAX_STEPS, Draft, Exhausted, Machine
from t4lint.interpret.project import Project
from t4lint.interpret.source import SourceModule, parse
from t4lint.interpret.values import PRESUMED, Abstract, Const, DictValue, Function, ProjectModule, Scope, Step, Unknown
from t4lint.interpret.worlds import Segment
from t4lint.libraries.configs import accelerate_config
from t4lint.sources.document import Document, LaunchCommand, Word
from t4lint.sources.launchers import some
from t4lint.sources.shell_results import EACH_GPU
from t4lint.trace import Event, Launch, Loader, Model, Origin, Value, unknown, whole_number


@dataclass(slots=True)
class Interpretation:
    """What interpreting a run gave: the machine with its notes, and the parts to judge."""

    machine: Machine
    segments: list[Segment]


def interpret(
    project: Project,
    script: Path,
    target: Target,
    versions: Mapping[str, str],
    launch: LaunchCommand | None = None,
    entered: set[int] | None = None,
    main: bool = True,
    listen: bool = False,
    most_steps: int = MAX_STEPS,
    presumed: Mapping[str, str] = MappingProxyType({}),
) -> Interpretation | Problem:
    """Interpret a script. `entered` collects the functions that some run has entered, over several calls.

    `listen` keeps the library calls with their arguments in `Machine.heard`. `presumed` are versions that nothing pins.
    """
    source = project.load(script, script.stem)
    if isinstance(source, Problem):
        return source
    arguments = launch.arguments if launch is not None else ()
    written = accelerate_config(project, launch) if launch is not None else None
    if launch is not None and written is not None:
        launch = counted(launch, written)
    launch = on_each_gpu(launch, target) if launch is not None else None
    machine = Machine(project, target, {**versions, **presumed}, arguments, environment_of(launch, project), launch)
    machine.presumed = frozenset(presumed)
    if written is not None:
        machine.globals["$accelerate config"] = written
        if machine.truth(written.items.get("use_cpu") or Const(False)) is True:
            machine.target = find_target("cpu")
    machine.entered = entered if entered is not None else set()
    machine.heard = [] if listen else None
    machine.most_steps = most_steps
    module = ProjectModule(source, Scope())
    machine.globals[f"module {script}"] = module
    with deep_recursion():
        try:
            run_module(machine, module, main)
        except (Exhausted, RecursionError) as error:
            give_up(machine, error)
            reset(machine)
    if launch is not None:
        machine.drafts.insert(0, launch_draft(source, launch, written))
    segments = [Segment(machine.drafts, machine.gaps)]
    finish(machine, machine.drafts, uncalled=False)
    with deep_recursion():
        segments.extend(uncalled_segments(machine, source))
    return Interpretation(machine, segments)


def interpret_command(
    project: Project, target: Target, versions: Mapping[str, str], launch: LaunchCommand
) -> Interpretation | Problem:
    """A launch command whose program is not in sight: what the command says is known, what runs is not."""
    document = Document(launch.where.path, project.root / launch.where.path, "python", "")
    source = parse(document, "")
    if isinstance(source, Problem):
        return source
    written = accelerate_config(project, launch)
    if written is not None:
        launch = counted(launch, written)
    launch = on_each_gpu(launch, target)
    machine = Machine(project, target, versions, launch.arguments, environment_of(launch, project), launch)
    machine.gap(set(all_kinds(Event)) - {Launch}, "the program that is started is not in sight")
    return Interpretation(machine, [Segment([launch_draft(source, launch, written)], machine.gaps)])


def all_kinds(kind: type[Event]) -> Iterator[type[Event]]:
    for one in kind.__subclasses__():
        yield one
        yield from all_kinds(one)


def repeated(done: Interpretation, launch: LaunchCommand) -> Interpretation | None:
    """What a launch like that of a run gives: the same, with the places of this launch. None where they are ambiguous."""
    written = done.machine.globals.get("$accelerate config")
    if written is not None:
        launch = counted(launch, written)
    launch = on_each_gpu(launch, done.machine.target)
    moved = launching.moves(done.machine.launch, launch)
    if moved is None:
        return None
    machine = copy(done.machine)
    machine.launch, machine.moved = launch, moved
    run = done.segments[0]
    first = launch_draft(run.drafts[0].source.source, launch, written)  # type: ignore[attr-defined]
    return Interpretation(machine, [Segment([first, *run.drafts[1:]], run.gaps)])


# Frames that one interpretation may nest: about 2,000 levels of syntax. CPython 3.11 and later keep Python frames off the
# C stack; before that the default limit stays.
RECURSION_LIMIT = 12_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    if sys.version_info >= (3, 11):
        sys.setrecursionlimit(max(before, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def give_up(machine: Machine, error: BaseException) -> None:
    """A part of the program was not followed: every absence is unknown from here on, and the report says so."""
    machine.given_up.append(str(error) if isinstance(error, Exhausted) else "it is nested too deeply")
    machine.gap(Event.__subclasses__(), "t4lint gave up on a part of the program")


def reset(machine: Machine) -> None:
    machine.frames.clear()
    machine.loops.clear()
    machine.regions.clear()
    machine.sites.clear()
    machine.logs.clear()
    machine.path = {}
    machine.stopping.clear()
    machine.last = False
    machine.control = ()
    machine.in_forward = 0
    machine.later, machine.sometimes, machine.numbered = False, 0, 0


MAX_UNCALLED = 60  # functions of one file that are entered on their own


def uncalled_segments(machine: Machine, source: SourceModule) -> list[Segment]:
    """Enter each function of the script's own file that nothing called."""
    segments = []
    functions = [function for function in machine.defined if function.source is source]
    for function in functions[:MAX_UNCALLED]:
        if id(function.node) in machine.entered or is_test(function):
            continue
        reset(machine)
        machine.spent += machine.steps
        machine.drafts, machine.gaps, machine.steps = [], [], 0
        machine.backward_in, machine.stepped_in, machine.surely_stepped_in = set(), set(), set()
        machine.uncalled = True
        machine.globals.pop("$backwards", None)
        machine.globals.pop("$cuda", None)
        module = machine.globals.get(f"module {source.document.file}")
        from t4lint.interpret.machine import Frame

        machine.frames.append(Frame(source, module.scope if module is not None else Scope()))
        try:
            enter_uncalled(machine, [function])
        except (Exhausted, RecursionError) as error:
            give_up(machine, error)
        finish(machine, machine.drafts, uncalled=True)
        if machine.drafts:
            segments.append(Segment(machine.drafts, machine.gaps, uncalled=True))
        reset(machine)
    return segments


def is_test(function: Function) -> bool:
    return function.name.startswith("test_")


def finish(machine: Machine, drafts: list[Draft], uncalled: bool) -> None:
    """Where the batches of a loader go is known once the whole program was seen."""
    keeping.finish(machine, uncalled)
    if "$settings" in machine.globals:
        from t4lint.libraries.arguments import counted

        counted(machine)
    fed: dict[str, set[str]] = machine.globals.get("$fed", {})
    placed: dict[str, set[str]] = machine.globals.get("$placed", {})
    gpu = "cuda" if machine.target.gpu is not None else "cpu"
    work: dict[str, Abstract] = machine.globals.get("$sample work", {})
    read_in: dict[str, set[str]] = machine.globals.get("$read in", {})
    for draft in drafts:
        if draft.kind is Loader and draft.subject in read_in:
            draft.fields["read_in"] = Const(tuple(sorted(read_in[draft.subject])))
        if draft.kind is Loader and draft.subject in work and "work" not in draft.fields:
            draft.fields["work"] = work[draft.subject]
        if draft.kind is Loader and "device" not in draft.fields:
            devices = fed.get(draft.subject, set())
            if "cuda" in devices:
                draft.fields["device"] = Const(gpu)
            elif devices == {"none"}:
                draft.fields["device"] = Const("none", (Step("derived", "its batches are made on the GPU"),))
            elif not machine.globals.get("$cuda") and not uncalled:
                draft.fields["device"] = Const("cpu")
        if draft.kind is Model and "device" not in draft.fields and draft.role in ("load", "create", "cast"):
            if not placed.get(draft.subject, set()) - {"cpu"} and draft.subject and not uncalled:
                draft.fields["device"] = Const("cpu", (Step("derived", "nothing moves this model to the GPU"),))


def environment_of(launch: LaunchCommand | None, project: Project) -> dict[str, Abstract]:
    """The environment that a launch gives the script, with accelerate's own variables."""
    if launch is None:
        return {}
    result = {name: word_value(word, name) for name, word in launch.environment.items()}
    if launch.launcher == "fabric" and "precision" in launch.launcher_flags:
        result["LT_PRECISION"] = word_value(launch.launcher_flags["precision"], "--precision", "flag")
    precision = launch.launcher_flags.get("mixed_precision")
    if launch.launcher != "accelerate" or "ACCELERATE_MIXED_PRECISION" in result:
        return result
    config = launch.launcher_flags.get("config_file")
    if precision is not None:
        result["ACCELERATE_MIXED_PRECISION"] = word_value(precision, "--mixed_precision", "flag")
    elif (written := accelerate_config(project, launch)) is not None:
        result["ACCELERATE_MIXED_PRECISION"] = written.items.get("mixed_precision") or Const("no")
    elif config is not None:
        step = Step("flag", f"--config_file {config.text}", location=config.location)
        result["ACCELERATE_MIXED_PRECISION"] = Unknown(
            "accelerate's configuration file", (step,), uid="accelerate config file"
        )
    else:
        # the machine's own default configuration may name a precision: seen nowhere in the project
        step = Step("default", "accelerate launch without --mixed_precision")
        result["ACCELERATE_MIXED_PRECISION"] = Const("no", (step, PRESUMED))
    return result


def word_value(word: Word, name: str, how: str = "environment") -> Abstract:
    shown = name if word.text is None else f"{name} {word.text}" if how == "flag" else f"{name}={word.text}"
    step = Step(how, shown, location=word.location)  # type: ignore[arg-type]
    if word.text is None:
        return Unknown(word.why or f"{name} is not known", (step,), uid=f"environment {name}")
    return Const(word.text, (step,))


def counted(launch: LaunchCommand, config: DictValue) -> LaunchCommand:
    """The launch with the numbers that accelerate's configuration gives, where the command does not."""
    flags = launch.launcher_flags
    machines, total = (
        launch.nodes if "num_machines" in flags else key_value(config, "num_machines", 1),
        key_value(config, "num_processes", None),
    )
    per_node = launch.processes_per_node
    if "num_processes" in flags:
        word = flags["num_processes"]
        total = Value(whole_number(word.text), (Origin("flag", f"--num_processes {word.text}", word.location),))
    if total.known and isinstance(total.it, int) and machines.known and isinstance(machines.it, int):
        per_node = Value(total.it // max(machines.it, 1), (*total.origins, *machines.origins))
    return replace(launch, nodes=some(machines), processes_per_node=some(per_node))


def on_each_gpu(launch: LaunchCommand, target: Target) -> LaunchCommand:
    """The launch with as many processes as the target shows GPUs, where the launcher starts one for each of them."""
    each = launch.processes_per_node
    if not each.unknown.endswith(EACH_GPU) or target.instance is None or not target.gpus:
        return launch
    count = target.gpus
    visible = launch.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        if not visible.text:
            return launch
        count = min(count, len([part for part in visible.text.split(",") if part.strip()]))
    there = Origin("target", f"{target.gpus} GPU{'s' if target.gpus > 1 else ''} on {target.name}")
    return replace(launch, processes_per_node=Value(count, (*each.origins, there)))


def key_value(config: DictValue, name: str, default: object) -> Value:
    """A key of accelerate's configuration with its place."""
    found = config.items.get(name)
    if not isinstance(found, Const):
        return Value(default) if found is None and default is not None else unknown(f"{name} is not known")
    return Value(found.value, tuple(Origin(step.how, step.note, step.location) for step in found.origins))


def launch_draft(source: SourceModule, launch: LaunchCommand, config: DictValue | None = None) -> Draft:
    environment = {name: word_value(word, name) for name, word in launch.environment.items()}
    fields: dict[str, Any] = {
        "launcher": launch.launcher,
        "nodes": launch.nodes,
        "processes_per_node": launch.processes_per_node,
        "environment": environment,
        "in_container": Value(launch.in_container),
        "flags": launching.flags_of(launch),
        "rendezvous": launching.rendezvous(launch),
        "node_rank": launching.node_rank(launch),
        "tasks_per_node": launch.tasks_per_node,
    }
    if config is not None and launch.launcher == "accelerate":
        if "main_process_ip" not in launch.launcher_flags and "main_process_ip" in config.items:
            fields["rendezvous"] = key_value(config, "main_process_ip", None)
        if "num_processes" not in launch.launcher_flags and "num_processes" in config.items:
            total = key_value(config, "num_processes", None)
            fields["flags"] = {**fields["flags"], "num_processes": replace(total, it=str(total.it))}
    if launch.container is not None:
        container = launch.container
        fields |= {"shared_memory": container.shared_memory, "network": container.network, "ports": container.ports}
    return Draft(Launch, LaunchSite(launch, source), source.tree, {}, (), "", "", "setup", fields)  # type: ignore[arg-type]


class LaunchSite:
    """Stands in for a source module: a launch has its place already."""

    def __init__(self, launch: LaunchCommand, source: SourceModule) -> None:
        self.launch = launch
        self.source = source
        self.document = _NoText()

    def location(self, node: object) -> object:
        return self.launch.where


class _NoText:
    text = ""
    positions = None
