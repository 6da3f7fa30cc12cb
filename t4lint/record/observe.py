"""From a recording to a trace: the journal's records in the words of the vocabulary."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from t4lint.devices import Target
from t4lint.record.journal import Record
from t4lint.record.launch import Outcome, Recording
from t4lint.sources.statements import enclosing_loops, keeps, spelled_out, statement_span
from t4lint.trace import (
    NOT_SAID,
    Allocation,
    Attention,
    Autocast,
    Backward,
    Basis,
    Call,
    Collective,
    Compile,
    Copy,
    DataRead,
    DeviceChoice,
    Engine,
    EnvironmentVariable,
    Evaluation,
    Event,
    Exit,
    Forward,
    Gap,
    GradientRead,
    HostSync,
    InstanceRequest,
    Keep,
    Launch,
    Loader,
    Location,
    Model,
    Operation,
    Optimizer,
    Origin,
    Predicate,
    ProcessGroup,
    Requirement,
    Save,
    Scaler,
    Setting,
    Step,
    Switch,
    Trace,
    TrainerFile,
    Value,
    Wrap,
    ZeroGrad,
    unknown,
)

NO_DEVICE = "a CPU run cannot show the device"
NO_ANSWER = "a CPU run cannot show what the GPU answers"
SAME_TENSOR = (
    "the scaler is off without CUDA and returns its input: a CPU run cannot tell the scaled loss from the plain one"
)
OTHER_WAY = "the program asks whether CUDA is there: a CPU run cannot show what it picks on a GPU"
OTHER_DTYPE = "the program asks what the GPU can do: a CPU run cannot show the dtype that it picks"
LOWERED = "autocast decides the dtype of this tensor on a GPU, which a CPU run does not show"
NOT_ENTERED = "the program has an autocast region that a CPU run does not enter"
COMMAND = "<command line>"  # the path of events that belong to the command line itself

# What this recorder does not look for: absence of these says nothing.
UNSEEN: frozenset[type[Event]] = frozenset({Allocation, Keep, Setting, InstanceRequest, Requirement, TrainerFile})
# What a run that ended early may still have done.
LATER: frozenset[type[Event]] = frozenset(
    {
        Evaluation, Save, Exit, Loader, Model, Forward, HostSync, Collective, Copy, Attention, Predicate, Switch, Wrap,
        DataRead, Operation, DeviceChoice,
    }
)  # fmt: skip
EVERYTHING: frozenset[type[Event]] = frozenset(
    {
        Attention, Autocast, Backward, Call, Compile, Engine, EnvironmentVariable, GradientRead, Launch, Optimizer,
        ProcessGroup, Scaler, Step, ZeroGrad, *LATER, *UNSEEN,
    }
)  # fmt: skip


def trace_of(recording: Recording, target: Target) -> Trace:
    """The observed trace. Rank 0 is the base; of other ranks only what it did not do is added."""
    records = _dense(recording.journal.records)
    basis = basis_of(recording, target)
    context = _Context(recording, target)
    base = [record for record in records if record.rank in (None, 0)]
    subjects = _Subjects()
    events = [event for record in base for event in _events(context, record, subjects)]
    seen = {event.key for event in events}
    for rank in sorted({record.rank for record in records if record.rank}):
        own = _Subjects(f"@{rank}")
        for record in records:
            if record.rank == rank and record.k not in ("process", "exception"):
                extra = [event for event in _events(context, record, own) if event.key not in seen]
                events += extra
        seen |= {event.key for event in events}
    return Trace(
        basis=basis,
        target=target,
        versions=_versions(base),
        events=tuple(events),
        gaps=_gaps(recording.outcome),
        imported=frozenset(name for record in base if record.k == "imports" for name in record.d.get("libraries", ())),
    )


def _events(context: _Context, record: Record, subjects: _Subjects) -> list[Event]:
    """The events of a record; none where the program wrote something else into its journal than the recorder does."""
    try:
        return list(context.read(record, subjects))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return []


def basis_of(recording: Recording, target: Target) -> Basis:
    """On what it ran: "t4" where the GPU is the target's own, "gpu" on another, "phantom" on one that is not there, "cpu"
    where CUDA was never initialised."""
    cards = [record.d for record in recording.journal.records if record.k == "card"]
    if not cards:
        return "cpu"
    if cards[0].get("phantom"):
        return "phantom"
    names = [card.get("name") for card in cards]
    return "t4" if target.gpu is not None and names[0] == target.gpu.device_name else "gpu"


def _dense(records: Iterable[Record]) -> list[Record]:
    """Ranks are known late where the program sets up its processes itself: give each process the one it got."""
    listed = list(records)
    ranks = {record.pid: record.rank for record in listed if record.rank is not None}
    return [
        record if record.rank is not None else record.model_copy(update={"rank": ranks.get(record.pid)})
        for record in listed
    ]


def _versions(records: Iterable[Record]) -> dict[str, Value]:
    versions: dict[str, Value] = {}
    for record in records:
        if record.k == "torch":
            versions["torch"] = _observed(record.d.get("version"))
        elif record.k == "imports":
            for name, version in record.d.get("libraries", {}).items():
                if isinstance(version, str):
                    versions[name.replace("_", "-") if name == "huggingface_hub" else name] = _observed(version)
    return versions


def _gaps(outcome: Outcome) -> tuple[Gap, ...]:
    gaps = [Gap(UNSEEN, "the recorder does not look for this")]
    if outcome.how == "stopped":
        gaps.append(Gap(LATER, outcome.detail, later=True))
    elif outcome.how != "finished":
        gaps.append(Gap(EVERYTHING, outcome.detail, later=True))
    return tuple(gaps)


def _peaks(recording: Recording) -> dict[int, float]:
    """Bytes that a process has had allocated on the GPU at most; none on a CPU run."""
    found: dict[int, float] = {}
    for record in recording.journal.records:
        if record.k == "memory" and record.d.get("counted") == "allocated":
            found[record.pid] = max(found.get(record.pid, 0.0), float(record.d.get("peak") or 0))
        elif record.k == "out_of_memory":  # of a phantom: what was reserved already, and the segment that was refused
            wanted = float(record.d.get("reserved") or 0) + float(record.d.get("segment") or 0)
            found[record.pid] = max(found.get(record.pid, 0.0), wanted)
    return found


def _components(recording: Recording) -> dict[int, dict[str, tuple[float, float]]]:
    """Of a phantom: what the fullest moment of a process was made of, in bytes."""
    return {
        record.pid: {str(name): (float(size), float(size)) for name, size in (record.d.get("components") or {}).items()}
        for record in recording.journal.records
        if record.k == "held"
    }


def _observed(value: Any) -> Value:
    """A value from the journal. An object that JSON could not carry is unknown."""
    if isinstance(value, Mapping) and set(value) == {"?"}:
        return unknown(f"an object of type {value['?']}")
    return Value(value, (Origin("observed", "seen in the run"),))


@dataclass(slots=True)
class _Subjects:
    """Names of objects are per process: those of a second process in the same trace get another name."""

    suffix: str = ""
    owners: dict[str, int] = field(default_factory=dict)

    def name(self, subject: str, pid: int) -> str:
        if not subject:
            return ""
        owner = self.owners.setdefault(subject, pid)
        return subject + self.suffix if owner == pid else f"{subject}{self.suffix}@{pid}"


Reader = Callable[["_Context", Record, dict[str, Any]], Event | None]


class _Context:
    """What a record needs to become an event: the target, the project and its texts."""

    def __init__(self, recording: Recording, target: Target) -> None:
        self.recording = recording
        # Is the program meant for a GPU that it does not have here?
        self.gpu = target.gpu is not None and basis_of(recording, target) == "cpu"
        self.peaks = _peaks(recording)
        self.components = _components(recording)
        self.recent = target.gpu is None or target.gpu.capability >= (8, 0)
        self.texts: dict[str, str] = {}
        self.launched = False
        self.open: dict[int, str] = {}  # processes whose math depends on the machine, and why
        self.scalers_off: dict[int, str] = {}  # processes with a scaler that may be on where CUDA is
        self.pins_spelled: set[int] = set()  # processes whose Trainer is told outright whether to pin batches
        self.regions: set[int] = set()  # processes that have entered an autocast region
        self.cuda_asked = self._first_asked(lambda name: True)
        self.precision_asked = self._first_asked(lambda name: "available" not in name and "count" not in name)

    def _first_asked(self, counts: Callable[[str], bool]) -> float:
        """When the user's code first asked such a question about the GPU; infinity where it never did."""
        records = self.recording.journal.records
        times = (record.t for record in records if record.k == "predicate" and counts(str(record.d.get("function"))))
        return min(times, default=math.inf)

    def depends(self, record: Record, off: bool, spelled: bool | None) -> str:
        """Why a value that was seen here may be another on a GPU, or "". `off`: the value is the one without CUDA;
        `spelled`: the program says it outright."""
        if not self.gpu or spelled:
            return ""
        if record.t >= self.precision_asked:
            return OTHER_DTYPE
        return OTHER_WAY if off and record.t >= self.cuda_asked else ""

    def likely(self, record: Record, values: dict[str, Any]) -> dict[str, Any]:
        """What follows from a path that the program may take otherwise where CUDA is."""
        if not self.gpu or record.t < self.cuda_asked:
            return values
        return {name: replace(value, likely=True) if value.known else value for name, value in values.items()}

    def spelled(self, record: Record, function: str, argument: str, index: int) -> bool | None:
        """Does the user's statement say the argument outright? None where it does not make this call."""
        below, line = record.d.get("made_at") or record.u[0]
        return spelled_out(self.text(below), line, function, argument, index)

    def left_out(self, record: Record, function: str, argument: str) -> bool:
        """Does the user's statement call `function` and plainly not name this argument, so that its default counts?"""
        below, line = record.u[0]
        first, last = statement_span(self.text(below), line)
        statement = "\n".join(self.text(below).splitlines()[first - 1 : last])
        return f"{function}(" in statement and argument not in statement and "**" not in statement

    def read(self, record: Record, subjects: _Subjects) -> list[Event]:
        """The events of one record. A repeated fact (n > 1) is one that we have."""
        reader = READERS.get(record.k)
        if reader is None or record.n > 1:
            return []
        if record.k == "process":
            return list(_launch(self, record))
        if not record.u:
            return []
        if record.k == "keep":
            record = self.at_keeping(record)
        where = self.placed(record, self.where(record))
        common: dict[str, Any] = {
            "where": where,
            "subject": subjects.name(str(record.d.get("subject", "")), record.pid),
            "loops": self.loops(record),
            "step": record.st,
            "micro": record.mi,
            "phase": record.ph,
        }
        if record.d.get("optimizer") and record.k == "scaler":
            common["optimizer"] = subjects.name(str(record.d["optimizer"]), record.pid)
        event = reader(self, record, common)
        return [] if event is None else [_with_evidence(event)]

    def at_keeping(self, record: Record) -> Record:
        """A tensor that is kept is seen at the loop's header: go to the statement that keeps it."""
        below, line = record.u[0]
        text = self.text(below)
        header = statement_span(text, line)[0]
        found = keeps(text, header, str(record.d.get("name")), str(record.d.get("role")))
        return record.model_copy(update={"u": [(below, found or 0), *record.u[1:]]})

    def hidden(self, record: Record) -> str:
        """Why the dtype of the math here says nothing about the GPU, or ""."""
        if not self.gpu:
            return ""
        if record.pid in self.open:
            return self.open[record.pid]
        entered = record.pid in self.regions or record.t < self.cuda_asked
        return NOT_ENTERED if not entered and any("autocast" in text for text in self.texts.values()) else ""

    def where(self, record: Record) -> Location:
        """The person's own statement."""
        below, line = record.u[0]
        text = self.text(below)
        first, last = statement_span(text, line)
        lines = text.splitlines()
        width = len(lines[last - 1]) if last <= len(lines) else 0
        opening = lines[first - 1] if first <= len(lines) else ""
        column = len(opening) - len(opening.lstrip()) + 1
        return Location(self.path(below), first, column, last, max(width, column - 1) + 1)

    def placed(self, record: Record, where: Location) -> Location:
        """A statement of a notebook: where it is written in the file."""
        below = record.u[0][0]
        positions = self.recording.places.get(below)
        if positions is None:
            return where
        first = next(iter(self.text(below).splitlines()[where.line - 1 : where.line]), "")
        indent = len(first) - len(first.lstrip())
        found = positions.locate(where.line, indent + 1, where.end_line, where.end_column)
        return replace(found, path=where.path)

    def loops(self, record: Record) -> tuple[str, ...]:
        """The nest of loops, also through the functions that led here; the outermost first."""
        return tuple(
            f"{self.path(below)}:{header}"
            for below, line in reversed(record.u)
            for header in enclosing_loops(self.text(below), line)
        )

    def path(self, below: str) -> str:
        """Relative to where the command was given, as findings name files."""
        return Path(os.path.relpath(self.recording.root / below, self.recording.cwd)).as_posix()

    def text(self, below: str) -> str:
        if below not in self.texts and below in self.recording.places:
            self.texts[below] = self.recording.places[below].text
        if below not in self.texts:
            try:
                self.texts[below] = (self.recording.root / below).read_bytes().decode("utf-8-sig", "replace")
            except OSError:
                self.texts[below] = ""
        return self.texts[below]

    def device(self, value: Any) -> Value:
        return unknown(NO_DEVICE) if self.gpu else _observed(value)


def _with_evidence(event: Event) -> Event:
    """The known values in words, for verdicts."""
    return replace(event, evidence=", ".join(in_words(event).values()))


def in_words(event: Event) -> dict[str, str]:
    """The known values of an event by field, each as `name=value`."""
    values = {item.name: getattr(event, item.name) for item in fields(event)}
    return {
        name: f"{name}={_short(value.it)}"
        for name, value in values.items()
        if isinstance(value, Value) and value.known and value.it is not None
    }


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name} {share:.1%}" if isinstance(share, float) else f"{name}" for name, share in value.items()
        )
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _pick(record: Record, *names: str, skip_none: bool = False) -> dict[str, Any]:
    """Fields that both name alike. With `skip_none` a missing value means that nothing was said."""
    values = {name: record.d[name] for name in names if name in record.d}
    return {name: NOT_SAID if skip_none and value is None else _observed(value) for name, value in values.items()}


# --- one reader a kind -------------------------------------------------------------------------------------------


def _launch(context: _Context, record: Record) -> Iterable[Event]:
    """Once, from the first process that has a rank, else from the first of all: what the launch gave it."""
    if context.launched:
        return
    ranks = {name: int(value) for name, value in record.d.get("ranks", {}).items() if str(value).isdigit()}
    records = context.recording.journal.records
    if not ranks.get("WORLD_SIZE") and any(other.d.get("ranks", {}).get("WORLD_SIZE") for other in records):
        return
    context.launched = True
    command = " ".join(context.recording.command)
    where = Location(COMMAND, 1, 1, 1, len(command) + 1)
    world, local = ranks.get("WORLD_SIZE", 1), ranks.get("LOCAL_WORLD_SIZE", ranks.get("WORLD_SIZE", 1))
    environment = {name: _observed(value) for name, value in record.d.get("environment", {}).items()}
    launch = Launch(
        where=where,
        launcher=launcher_of(context.recording.command),
        nodes=_observed(max(1, world // max(1, local))),
        processes_per_node=_observed(local),
        environment=environment,
    )
    yield _with_evidence(launch)
    for name, value in environment.items():
        yield EnvironmentVariable(where=where, name=name, value=value, set_in="launch")


def launcher_of(command: tuple[str, ...]) -> str:
    """The launcher that a command names: python, torchrun, accelerate, deepspeed, ..."""
    name = Path(command[0]).name if command else ""
    if name.startswith("python"):
        module = command[command.index("-m") + 1] if "-m" in command[:-1] else ""
        return {
            "torch.distributed.run": "torchrun",
            "torch.distributed.launch": "torch.distributed.launch",
            "accelerate.commands.launch": "accelerate",
            "deepspeed": "deepspeed",
        }.get(module, "python")
    return name


def _environment(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return EnvironmentVariable(
        **common,
        name=str(record.d.get("name")),
        value=_observed(record.d.get("value")),
        set_in="program",
        **_pick(record, "after_torch"),
    )


def _call(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    arguments = {name: _observed(value) for name, value in record.d.get("arguments", {}).items()}
    raises = record.d.get("raises")
    return Call(
        **common,
        role=str(record.d.get("function")).rpartition(".")[2],
        function=str(record.d.get("function")),
        arguments=arguments,
        raises=NOT_SAID if raises is None else _observed(raises),
    )


def _predicate(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    result = unknown(NO_ANSWER) if context.gpu else _observed(record.d.get("result"))
    if record.d.get("raised") and not context.gpu:
        result = unknown(f"it raised {record.d['raised']}")
    function = str(record.d.get("function"))
    return Predicate(**common, role=function, function=function, result=result)


def _switch(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return Switch(**common, name=str(record.d.get("name")), value=_observed(record.d.get("value")))


def _exit(context: _Context, record: Record, common: dict[str, Any]) -> Event | None:
    """Only what the program raises itself; a library's exception is how the run ended, not its own will."""
    if not record.d.get("own"):
        return None
    return Exit(**common, reason=_observed(f"{record.d.get('type')}: {record.d.get('message')}"))


def _model(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    names = ("name", "dtype", "parameters", "trainable", "quantization", "compute_dtype", "attention", "device_map")
    values = _pick(record, *names, skip_none=True)
    if record.d.get("role") == "load":
        values["requested_dtype"] = _observed(record.d.get("requested_dtype"))
    elif reason := context.depends(record, off=False, spelled=_says_dtype(context, record)):
        values["dtype"] = unknown(reason)
        context.open[record.pid] = reason
    raised = record.d.get("raised")
    if raised:
        values["dtype"] = unknown(f"it raised {raised}")
    return Model(**common, role=str(record.d.get("role", "")), device=unknown(NO_DEVICE), **values)


def _says_dtype(context: _Context, record: Record) -> bool:
    """`.half()` says its dtype by its name; `.to(...)` does where the argument is a constant."""
    said = [context.spelled(record, "to", "dtype", index) for index in (0, 1)]
    return said[0] is None or any(said)


# the arguments that decide the precision of an engine, where they are not `fp16` and `bf16`
FLAGS = {"Accelerator": ("mixed_precision",), "Trainer": ("precision",), "Fabric": ("precision",)}


def _engine(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    names = (
        "mixed_precision", "micro_batch", "eval_micro_batch", "accumulation", "sequence_length",
        "activation_checkpointing", "reentrant", "optimizer", "workers", "pin_memory", "evaluates", "sharding",
    )  # fmt: skip
    values = _pick(record, *names, skip_none=True)
    values.update(_pick(record, "tf32"))
    precision = record.d.get("mixed_precision")
    if not record.d.get("given") and precision is not None:
        values["mixed_precision"] = Value(precision, (Origin("default", f"default of {record.d.get('role')}"),))
    flags = FLAGS.get(str(record.d.get("role")), ("fp16", "bf16"))
    said = [context.spelled(record, str(record.d.get("role")), flag, 99) for flag in flags]
    if reason := context.depends(record, off=precision == "no", spelled=all(one is not False for one in said)):
        values["mixed_precision"] = unknown(reason)
        context.open[record.pid] = reason
    if context.spelled(record, str(record.d.get("role")), "dataloader_pin_memory", 99):
        context.pins_spelled.add(record.pid)
    return Engine(**common, role=str(record.d.get("role", "")), **values)


def _autocast(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    device = record.d.get("device")
    dtype = _observed(record.d.get("dtype"))
    if context.gpu and device == "cpu" and not record.d.get("dtype_given"):
        dtype = unknown("the default dtype of autocast depends on the device")
    enabled = _observed(record.d.get("enabled"))
    role = "engine" if record.d.get("engine") or record.e else ""
    context.regions.add(record.pid)
    if not role:
        said = context.spelled(record, "autocast", "enabled", 2)
        if reason := context.depends(record, off=not record.d.get("enabled"), spelled=said):
            enabled = unknown(reason)
            context.open[record.pid] = reason
        said = context.spelled(record, "autocast", "dtype", 1)
        if reason := context.depends(record, off=False, spelled=said):
            dtype = unknown(reason)
            context.open[record.pid] = reason
    # A region asked for on CUDA is one whatever the machine; "cpu" may be what a test for CUDA has picked.
    asked = context.device(device) if device == "cpu" else _observed(device)
    return Autocast(**common, role=role, device=asked, dtype=dtype, enabled=enabled)


def _attention(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    values = _pick(record, "implementation", "dtype", "head_dim", "length", "kernel")
    if "allowed" in record.d:
        values["kernel"] = _observed(kernel_of(record.d["allowed"], context.recent))
    return Attention(**common, role=str(record.d.get("role", "")), **values)


# the kernels of SDPA as torch names them, best first, and those that need compute capability 8.0
KERNELS = {"FLASH_ATTENTION": "flash", "CUDNN_ATTENTION": "cudnn", "EFFICIENT_ATTENTION": "efficient", "MATH": "math"}
AMPERE_ONLY = frozenset({"FLASH_ATTENTION", "CUDNN_ATTENTION"})


def kernel_of(allowed: Iterable[str], recent: bool) -> str:
    """The best of the kernels that are allowed and that the target has, or "none". `recent`: from Ampere on."""
    named = set(allowed)
    return next(
        (short for name, short in KERNELS.items() if name in named and (recent or name not in AMPERE_ONLY)), "none"
    )


def _compile(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return Compile(**common, **_pick(record, "mode"), **_pick(record, "late", skip_none=True))


def _loader(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    values = _pick(
        record, "workers", "pin_memory", "persistent_workers", "prefetch_factor", "shuffle", "sampler", "drop_last"
    )
    said = context.spelled(record, "DataLoader", "pin_memory", 7)
    if record.e == "Trainer" and record.pid in context.pins_spelled:
        said = True
    if reason := context.depends(record, record.d.get("pin_memory") is False, said):
        values["pin_memory"] = unknown(reason)
    elif not said:
        values = context.likely(record, values)
    if not values["pin_memory"].unknown and context.left_out(record, "DataLoader", "pin_memory"):
        values["pin_memory"] = replace(values["pin_memory"], origins=(Origin("default", "default of DataLoader"),))
    values["work"] = _sample_work(context, record)
    size = record.d.get("batch_size")
    batch = unknown("the batch sampler decides") if size is None else _observed(size)
    return Loader(**common, role=str(record.d.get("role", "")), batch_size=batch, **values)


def _sample_work(context: _Context, record: Record) -> Value:
    """What was seen to be done for a sample of this loader's dataset; nothing seen says nothing."""
    records = context.recording.journal.records
    mine = [it for it in records if it.k == "sample_work" and it.pid == record.pid]
    found = {str(it.d.get("work")) for it in mine if it.d.get("dataset") == record.d.get("dataset")}
    return _observed(tuple(sorted(found))) if found else unknown("nothing was seen of what a sample costs")


def _copy(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    pinned = record.d.get("pinned")
    return Copy(
        **common,
        source=context.device(record.d.get("source")),
        destination=context.device(record.d.get("destination")),
        pinned=unknown("a CPU run cannot show pinned memory") if pinned is None else _observed(pinned),
        **_pick(record, "non_blocking", "size"),
    )


def _backward(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    values = _pick(record, "dtype", "autocast", "scaled_by", "inside_autocast", "retain_graph")
    if not context.gpu and "ran" in record.d:
        values["dtype"] = _observed(record.d["ran"])
    if record.d.get("dtype") is None:
        values["dtype"] = unknown("no matmul was seen in the forward")
    if reason := context.hidden(record):
        values.update(dtype=unknown(reason), autocast=unknown(reason), inside_autocast=unknown(reason))
    if record.d.get("scaler_off") and context.spelled(record, "scale", "outputs", 0) is None:
        values["scaled_by"] = unknown(SAME_TENSOR)
    if record.d.get("scaled_by") == "none" and record.pid in context.scalers_off:
        values["scaled_by"] = unknown(OTHER_WAY)
    values.update(_pick(record, "divided_by", "engine_divides", "in_no_sync", "forward_in_no_sync", skip_none=True))
    return Backward(
        **common, device=context.device(record.d.get("device")), engine=record.e, **context.likely(record, values)
    )


def _forward(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    values = _pick(record, "grad", "training", "layout")
    if record.d.get("dtype") is not None:
        reason = context.hidden(record)
        values["dtype"] = unknown(reason) if reason else _observed(record.d["dtype" if context.gpu else "ran"])
    return Forward(**common, device=context.device(record.d.get("device")), **values)


def _operation(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    values = _pick(record, "autocast", "dtype", "constant")
    region = record.d.get("autocast", "none")
    if context.gpu and region != "none":
        values["dtype"] = unknown(LOWERED)
        if not str(record.d.get("autocast_device")).startswith("cuda"):
            values["autocast"] = unknown(OTHER_WAY)
    if context.gpu and (reason := context.hidden(record)):
        values = {name: unknown(reason) if name != "constant" else value for name, value in values.items()}
    if "device" in record.d:
        values["device"] = context.device(record.d["device"])
    return Operation(**common, role=str(record.d.get("role", "")), **values)


def _sync(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return HostSync(**common, role=str(record.d.get("role", "")), device=context.device(record.d.get("device")))


def _read(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return DataRead(**common, role=str(record.d.get("role", "")), root=_observed(record.d.get("root")))


def _collective(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    """`ranks`: "all", or those that were seen at this very statement."""
    operation = record.d.get("operation")
    records = context.recording.journal.records
    there = {
        it.rank for it in records if it.k == "collective" and it.u == record.u and it.d.get("operation") == operation
    }
    everyone = {it.rank for it in records if it.rank is not None}
    ranks = (
        "all"
        if everyone <= there
        else ", ".join(f"rank {rank}" for rank in sorted(rank for rank in there if rank is not None))
    )
    return Collective(
        **common,
        role=str(operation),
        operation=str(operation),
        ranks=_observed(ranks),
        bytes_sent=_observed(record.d.get("bytes")),
    )


def _scaler(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    enabled = _observed(record.d.get("enabled"))
    operation = str(record.d.get("operation"))
    if operation == "init" and not record.d.get("enabled"):
        said = context.spelled(record, "GradScaler", "enabled", 5)
        if reason := context.depends(record, True, said):
            context.scalers_off[record.pid] = reason
    if not record.d.get("enabled") and record.pid in context.scalers_off:
        enabled = unknown(context.scalers_off[record.pid])
    return Scaler(**common, operation=operation, enabled=enabled)


def _clip(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return GradientRead(**common, role="clip", **_pick(record, "error_if_nonfinite"))


def _optimizer(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return Optimizer(
        **common,
        **_pick(record, "name", "implementation", "parameters", "dtype", skip_none=True),
        **_pick(record, "fused", "foreach", "eps"),
    )


def _step(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    table = record.d.get("asked" if context.gpu else "ran")
    reason = context.hidden(record)
    if not reason and table is None:
        reason = "the forward is compiled" if record.d.get("compiled") else "no matmul was seen"
    return Step(
        **common,
        device=context.device(record.d.get("device")),
        **context.likely(record, {"math": unknown(reason) if reason else _observed(table)}),
        micro_batch=unknown("the recorder does not see samples"),
        peak=NOT_SAID if record.pid not in context.peaks else _observed((context.peaks[record.pid],) * 2),
        components=NOT_SAID if record.pid not in context.components else Value(context.components[record.pid]),
        engine=record.e,
        **_pick(record, "backwards", "parameters", "through_scaler"),
    )


def _zero_grad(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return ZeroGrad(**common, **_pick(record, "set_to_none"))


def _evaluation(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return Evaluation(**common, device=context.device(None))


def _keep(context: _Context, record: Record, common: dict[str, Any]) -> Event | None:
    if not record.u[0][1]:
        return None  # no statement of the loop keeps it
    records = context.recording.journal.records
    gone = any(it.k == "kept_backward" and it.d.get("key") == record.d.get("key") for it in records)
    return Keep(
        **common,
        role=str(record.d.get("role")),
        graph=_observed(True),
        batches=_observed(True),
        backward=_observed(gone),
    )


def _save(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    target = record.d.get("target")
    holds, keys = (
        _observed(tuple(record.d[name])) if name in record.d else unknown("what is saved was not seen")
        for name in ("holds", "keys")
    )
    return Save(
        **common,
        target=unknown("not a path") if target is None else _observed(target),
        ranks=unknown("the recorder does not compare ranks"),
        holds=holds,
        keys=keys,
    )


def _process_group(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    backend = record.d.get("backend")
    if context.gpu and backend != "nccl":
        value = unknown("a CPU run cannot use NCCL: which backend the GPU run takes is open")
    else:
        value = _observed(backend)
    seen = next(
        (other.d for other in context.recording.journal.records if other.k == "ranks" and other.pid == record.pid), {}
    )
    rank, world = seen.get("rank_seen"), seen.get("world_size")
    return ProcessGroup(
        **common,
        backend=value,
        rank=NOT_SAID if rank is None else _observed(rank),
        world_size=NOT_SAID if world is None else _observed(world),
    )


def _wrap(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    options = {name: _observed(value) for name, value in record.d.get("options", {}).items()}
    return Wrap(
        **common,
        role=str(record.d.get("role", "")),
        how=_observed(record.d.get("how")),
        options=options,
        **_pick(record, "replicated", "gradient_bytes", "normalization", skip_none=True),
    )


def _device_choice(context: _Context, record: Record, common: dict[str, Any]) -> Event:
    return DeviceChoice(**common, role=str(record.d.get("role")), index=_observed(record.d.get("index")))


def _process(context: _Context, record: Record, common: dict[str, Any]) -> None:
    """Read by `_launch`."""


READERS: dict[str, Reader] = {
    "process": _process,
    "environment": _environment,
    "call": _call,
    "predicate": _predicate,
    "switch": _switch,
    "exception": _exit,
    "model": _model,
    "engine": _engine,
    "autocast": _autocast,
    "attention": _attention,
    "compile": _compile,
    "loader": _loader,
    "copy": _copy,
    "backward": _backward,
    "forward": _forward,
    "operation": _operation,
    "sync": _sync,
    "read": _read,
    "collective": _collective,
    "scaler": _scaler,
    "clip": _clip,
    "optimizer": _optimizer,
    "step": _step,
    "zero_grad": _zero_grad,
    "evaluation": _evaluation,
    "save": _save,
    "keep": _keep,
    "process_group": _process_group,
    "wrap": _wrap,
    "device_choice": _device_choice,
}
