"""What a launch command says beside its script: its launcher's flags, where the processes meet, which node this is.

Read from torch 2.13 (`distributed/run.py`: the environment's say is `PET_<FLAG>`, `MASTER_ADDR` has none), accelerate 1.15
and DeepSpeed 0.19.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from t4lint.sources.document import LaunchCommand, Word
from t4lint.trace import Location, Origin, Value, unknown, whole_number

TORCHRUN = ("torchrun", "torch.distributed.launch")


def said(word: Word, name: str) -> Value:
    """The value of a flag or variable, with its place."""
    how, note = ("flag", f"{name} {word.text}") if name.startswith("-") else ("environment", f"{name}={word.text}")
    origins = (Origin(how, note, word.location),)  # type: ignore[arg-type]
    if word.text is None:
        return unknown(word.why or f"{name} is not known", origins)
    if word.why:  # what gave the text
        origins = (Origin("environment", word.why, word.location),)
    return Value(word.text, origins)


def flags_of(launch: LaunchCommand) -> Mapping[str, Value]:
    """The launcher's own flags; under the empty name one that is not known and stands for any."""
    return {name: said(word, f"--{name}" if name else "--") for name, word in launch.launcher_flags.items()}


def rendezvous(launch: LaunchCommand) -> Value:
    """The host that the processes of all nodes are told to meet at; a known None where nothing names one."""
    flags, environment = launch.launcher_flags, launch.environment
    if launch.launcher in TORCHRUN:
        return _torchrun(launch)
    if launch.launcher == "accelerate":
        if "main_process_ip" in flags:
            return said(flags["main_process_ip"], "--main_process_ip")
        if "config_file" in flags or "" in flags:
            return unknown("accelerate's configuration says where the processes meet")
        # the machine's own default configuration may name one: seen nowhere in the project
        return Value(None, (Origin("default", "no --main_process_ip", launch.where),), likely=True)
    if launch.launcher == "deepspeed":
        if "master_addr" in flags:
            return said(flags["master_addr"], "--master_addr")
        return unknown("deepspeed takes the first host")
    if "MASTER_ADDR" in environment:
        return said(environment["MASTER_ADDR"], "MASTER_ADDR")
    return unknown("nothing that was read names the host of rank 0")


def _torchrun(launch: LaunchCommand) -> Value:
    flags, environment = launch.launcher_flags, launch.environment
    if "standalone" in flags:
        return Value("localhost", (Origin("flag", "--standalone", flags["standalone"].location),))
    for place, flag, variable in (
        ("rdzv_endpoint", "--rdzv_endpoint", "PET_RDZV_ENDPOINT"),
        ("master_addr", "--master_addr", "PET_MASTER_ADDR"),
    ):
        word, name = (flags[place], flag) if place in flags else (environment.get(variable), variable)
        if word is not None:
            value = said(word, name)
            return replace(value, it=host(value.it)) if value.known and place == "rdzv_endpoint" else value
    if "" in flags:
        return unknown(flags[""].why or "not all flags of the launcher are known")
    note = "torchrun's --master_addr is 127.0.0.1 unless it is given"
    # a cluster may set PET_MASTER_ADDR on the nodes
    return Value("127.0.0.1", (Origin("default", note, launch.where),), likely=True)


def host(endpoint: str) -> str:
    """`host` of `host:port`, `[::1]:port`."""
    if endpoint.startswith("["):
        return endpoint[1:].partition("]")[0]
    return endpoint.rpartition(":")[0] if endpoint.count(":") == 1 else endpoint


def likeness(launch: LaunchCommand, folder: str) -> str:
    """Equal for launches whose runs can only differ in the places that provenance names. `folder` is the one around it."""
    parts = [_without_places(getattr(launch, item.name)) for item in fields(launch) if item.name != "where"]
    return repr((folder, *parts))


def _without_places(part: Any) -> Any:
    if isinstance(part, Word):
        return (part.text, part.why)
    if isinstance(part, Value):
        return (part.it, part.unknown, part.likely, [(origin.how, origin.note) for origin in part.origins])
    if isinstance(part, dict):
        return [(name, _without_places(value)) for name, value in part.items()]
    return [_without_places(item) for item in part] if isinstance(part, tuple) else part


def moves(before: LaunchCommand, after: LaunchCommand) -> dict[Location, Location] | None:
    """Where the places of a launch stand in one that is like it; None where that is ambiguous."""
    moved: dict[Location, Location] = {}
    for old, new in zip(_places(before), _places(after), strict=True):
        if moved.setdefault(old, new) != new:
            return None
    return moved


def _places(launch: LaunchCommand) -> list[Location]:
    words = [*launch.arguments, *launch.environment.values(), *launch.launcher_flags.values()]
    origins = [*launch.nodes.origins, *launch.processes_per_node.origins]
    return [launch.where, *(word.location for word in words), *(it.location for it in origins if it.location)]


def node_rank(launch: LaunchCommand) -> Value:
    """Which node the command is for: as given, else the launcher's default with that origin."""
    flags = launch.launcher_flags
    if launch.launcher in TORCHRUN:
        backend = flags.get("rdzv_backend") or launch.environment.get("PET_RDZV_BACKEND")
        if backend is not None and backend.text != "static":
            return unknown("the rendezvous gives out the ranks of the nodes")
        word, name = flags.get("node_rank"), "--node_rank"
        if word is None and "PET_NODE_RANK" in launch.environment:
            word, name = launch.environment["PET_NODE_RANK"], "PET_NODE_RANK"
        if word is None and "" in flags:
            return unknown(flags[""].why or "not all flags of the launcher are known")
        if word is None:
            return Value(0, (Origin("default", "torchrun's --node_rank is 0 unless it is given", launch.where),))
    elif launch.launcher == "accelerate" and "machine_rank" in flags:
        word, name = flags["machine_rank"], "--machine_rank"
    elif launch.launcher == "deepspeed" and "node_rank" in flags:
        word, name = flags["node_rank"], "--node_rank"
    else:
        return unknown("nothing that was read says which node this is")
    value = said(word, name)
    number = whole_number(value.it) if value.known else None
    return value if number is None else replace(value, it=number)
