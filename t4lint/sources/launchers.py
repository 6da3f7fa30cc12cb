"""Which commands start a Python training script, and with how many processes. Knows no shell: it is given words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePosixPath

from t4lint.sources.document import Word
from t4lint.sources.shell_results import EACH_GPU
from t4lint.trace import NOT_SAID, Location, Origin, Value, unknown


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a command and how it is written.

    `tail` is what is known of its end where the whole is not; `flag` and `value` are set for `--flag=value`.
    """

    word: Word
    raw: str
    tail: str
    flag: str = ""
    value: Word | None = None

    @property
    def text(self) -> str:
        return self.word.text or ""


@dataclass(slots=True)
class Start:
    """A command that starts a script. `flags` are the launcher's own, `slurm` those of `srun` or of `#SBATCH` lines."""

    launcher: str
    script: Token
    is_module: bool
    arguments: tuple[Token, ...]
    flags: dict[str, Word]
    slurm: dict[str, Word] = field(default_factory=dict)
    under_srun: bool = False
    in_container: bool = False
    container: Sequence[Token] = ()  # the command that starts the container
    runs_scripts: bool = False  # of a wrapper: `uv run train.py`
    mpi: Sequence[Token] = ()  # the `mpirun` that starts it, with its flags
    pods: Value = NOT_SAID  # how many pods of a job run it, or are workers of its `mpirun`
    slots: Value = NOT_SAID  # processes that an MPI job allows in each of them
    program: str = ""  # of an installed library, where the command starts one: see `programs.py`
    inline: bool = False  # `script` is the program itself: `python -c CODE`


# Switches: every other flag of these launchers takes a value. Read from torch 2.13, accelerate 1.15 and DeepSpeed 0.19.
_SWITCHES: Mapping[str, frozenset[str]] = {
    "torchrun": frozenset({
        "h", "help", "standalone", "m", "module", "no_python", "run_path", "virtual_local_rank", "use_env",
    }),
    "accelerate": frozenset({
        "h", "help", "quiet", "q", "cpu", "multi_gpu", "tpu", "enable_cpu_affinity", "dynamo_use_fullgraph",
        "dynamo_use_dynamic", "dynamo_use_regional_compilation", "use_deepspeed", "use_fsdp", "use_parallelism_config",
        "use_megatron_lm", "same_network", "m", "module", "no_python", "tpu_cluster", "no_tpu_cluster", "tpu_use_sudo",
        "downcast_bf16", "fp8_use_autocast_during_eval", "debug", "fp16", "ipex", "use_xpu", "use_mps_device",
    }),
    "deepspeed": frozenset({
        "h", "help", "module", "no_python", "no_local_rank", "no_ssh", "no_ssh_check", "save_pid", "elastic_training",
        "force_multi", "bind_cores_to_rank",
    }),
    "fabric": frozenset({"h", "help"}),
    "python": frozenset("bBdEhiIOPqsSuvVx") | {"OO"},
    "srun": frozenset({
        "h", "help", "l", "label", "u", "unbuffered", "exclusive", "overlap", "O", "overcommit", "K", "kill_on_bad_exit",
        "pty", "v", "verbose", "Q", "quiet", "s", "oversubscribe", "E", "preserve_env", "k", "no_kill", "container_writable",
        "container_remap_root", "no_container_mount_home", "container_mount_home",
    }),
}  # fmt: skip
_SWITCHES = {**_SWITCHES, "torch.distributed.launch": _SWITCHES["torchrun"]}

_LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate",
    "deepspeed": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
}
_PYTHON = re.compile(r"^(?:python|pypy)(?:\d+(?:\.\d+)*)?w?(?:\.exe)?$")
_PYTHON_VARIABLE = re.compile(r"^\$\{?\w*(?:python|PYTHON)\w*\}?$")
_CONTAINERS = frozenset({"docker", "podman", "nvidia-docker", "singularity", "apptainer", "enroot", "shifter"})
_WRAPPERS = frozenset({
    "chrt", "conda", "coverage", "env", "exec", "gosu", "horovodrun", "ionice", "kernprof", "mamba", "micromamba", "mpiexec",
    "mpirun", "ncu", "nice", "nohup", "nsys", "numactl", "pdm", "pipenv", "pixi", "poetry", "setsid", "srun", "stdbuf",
    "sudo", "systemd-run", "taskset", "time", "timeout", "unbuffer", "uv", "uvx", "xvfb-run", "command", "hatch", "rye",
}) | _CONTAINERS  # fmt: skip
# Commands that start programs of installed libraries: `programs.py` reads them.
PROGRAMS = frozenset({"trl", "axolotl", "llamafactory-cli", "lmf", "swift", "tune", "yolo", "fabric", "lightning"})
_RUN_SCRIPTS = frozenset({"uv", "pdm"})  # `uv run train.py` is `uv run python train.py`
_VARIABLE_FLAGS = {
    **dict.fromkeys(("docker", "podman", "nvidia-docker", "singularity", "apptainer"), ("-e", "--env")),
    **dict.fromkeys(("mpirun", "mpiexec"), ("-x",)),
}
_MPI = frozenset({"mpirun", "mpiexec", "horovodrun"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_TRAINS = re.compile(r"backward\(|\.train\(|\.fit\(|Trainer\b|init_process_group")
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")


def base_name(token: Token) -> str:
    """The command's name without its folder; `python` for a variable that is named after it."""
    if token.word.text is None and _PYTHON_VARIABLE.match(token.raw.strip("\"'")):
        return "python"
    return PurePosixPath(token.word.text or token.tail).name


def unwrap(tokens: Sequence[Token], commands: Collection[str] = ()) -> tuple[list[Token], list[Token], Start | None]:
    """Strip what only runs another command: the command, assignments given to it, and what the wrappers say.

    `commands` are names of commands that start programs, besides those that are known.
    """
    rest, assignments = list(tokens), list[Token]()
    wrapping: Start | None = None
    for _ in range(8):
        if not rest or base_name(rest[0]) not in _WRAPPERS:
            break
        name, inner = base_name(rest[0]), _inner(rest, commands)
        if inner is None:
            break
        wrapping = wrapping or Start("", rest[0], False, (), {})
        if name in _CONTAINERS:
            wrapping.in_container = True
            wrapping.container = wrapping.container or rest[:inner]
        if name in _MPI:
            wrapping.mpi = rest[:inner]
        wrapping.runs_scripts = name in _RUN_SCRIPTS
        if name == "srun":
            wrapping.under_srun = True
            wrapping.slurm.update(_flags("srun", rest[1:inner])[0])
        assignments.extend(_assigned(name, rest[1:inner]))
        rest = rest[inner:]
    return rest, assignments, wrapping


def _assigned(name: str, tokens: Sequence[Token]) -> Iterator[Token]:
    """What a wrapper puts into the environment: `env A=b`, `docker run -e A=b`, `mpirun -x A=b`."""
    flags = _VARIABLE_FLAGS.get(name, ())
    for before, token in pairwise((None, *tokens)):
        if token is None:
            continue
        if name == "env" or (before is not None and before.text in flags):
            if _ASSIGNMENT.match(token.text):
                yield token
        elif token.flag in flags and token.value is not None and _ASSIGNMENT.match(token.value.text or ""):
            yield replace(token, word=token.value, flag="", value=None)


def _inner(tokens: Sequence[Token], commands: Collection[str]) -> int | None:
    """Where the command inside a wrapper starts: wrappers have too many flags to know each of them."""
    runs_scripts = base_name(tokens[0]) in _RUN_SCRIPTS
    for index, token in enumerate(tokens[1:], start=1):
        if token.text.startswith("-"):
            continue
        name = base_name(token)
        if is_launcher(name) or name in _WRAPPERS or name in _SHELLS or name in commands:
            return index
        if name.endswith(".py") and (runs_scripts or token.text.startswith(("./", "/"))):
            return index
    return None


def is_launcher(name: str) -> bool:
    """Does a command of this name start Python scripts?"""
    starts = name in ("torchrun", "accelerate", "accelerate-launch", "deepspeed") or name in PROGRAMS
    return starts or bool(_PYTHON.match(name))


def is_python(name: str) -> bool:
    """`python3.11`, `/opt/conda/bin/python`"""
    return bool(_PYTHON.match(PurePosixPath(name).name))


def shell_code(tokens: Sequence[Token]) -> Token | None:
    """The code in `bash -c CODE`."""
    if tokens and base_name(tokens[0]) in _SHELLS:
        for index, token in enumerate(tokens[1:-1], start=1):
            if not token.text.startswith("-"):
                return None
            if not token.text.startswith("--") and "c" in token.text:
                return tokens[index + 1]
    return None


def start_of(tokens: Sequence[Token], runs_scripts: bool = False) -> Start | None:
    """The script that a command starts; None for any other command. `runs_scripts`: a bare `train.py` is one."""
    if not tokens:
        return None
    name = base_name(tokens[0])
    if _PYTHON.match(name):
        return _python(tokens[1:])
    if name == "torchrun":
        return _launcher("torchrun", tokens[1:])
    if name == "accelerate" and len(tokens) > 1 and tokens[1].text == "launch":
        return _launcher("accelerate", tokens[2:])
    if name == "accelerate-launch":
        return _launcher("accelerate", tokens[1:])
    if name == "deepspeed":
        return _launcher("deepspeed", tokens[1:])
    if name.endswith(".py") and (runs_scripts or "/" in tokens[0].text or tokens[0].word.text is None):
        return Start("python", tokens[0], False, tuple(tokens[1:]), {})
    return None


def _python(tokens: Sequence[Token]) -> Start | None:
    index = 0
    while index < len(tokens):
        text = tokens[index].text
        if text == "-m" and index + 1 < len(tokens):
            module = tokens[index + 1]
            launcher = _LAUNCHER_MODULES.get(module.text)
            if launcher:
                return _launcher(launcher, tokens[index + 2 :])
            return Start("python", module, True, tuple(tokens[index + 2 :]), {})
        if text == "-c" and index + 1 < len(tokens) and trains(tokens[index + 1].text):
            return Start("python", tokens[index + 1], False, tuple(tokens[index + 2 :]), {}, inline=True)
        if text in ("-", "-c") or text.startswith("-c"):
            return None
        if not text.startswith("-") and not _before_script(tokens, index):
            return Start("python", tokens[index], False, tuple(tokens[index + 1 :]), {})
        index += 2 if text in ("-W", "-X") else 1
    return None


def trains(code: str) -> bool:
    """Is this text a program that may train? A line that asks for a version is none."""
    return code.count("\n") > 2 and bool(_TRAINS.search(code))


def _launcher(name: str, tokens: Sequence[Token]) -> Start | None:
    flags, used = _flags(name, tokens)
    if used >= len(tokens):
        return None
    if "no_python" in flags:
        started = start_of(tokens[used:])  # `torchrun --no-python python train.py`
        return replace(started, launcher=name, flags=flags) if started and started.launcher == "python" else None
    is_module = "m" in flags or "module" in flags
    return Start(name, tokens[used], is_module, tuple(tokens[used + 1 :]), flags)


def launcher_flags(launcher: str, tokens: Sequence[Token]) -> dict[str, Word]:
    """The flags that a launcher is given, by their names."""
    return _flags(launcher, tokens)[0]


def _flags(launcher: str, tokens: Sequence[Token]) -> tuple[dict[str, Word], int]:
    """The launcher's flags, and where the first word that is none of them stands."""
    flags: dict[str, Word] = {}
    index = 0
    while index < len(tokens):
        token = tokens[index]
        text = token.flag or token.text
        if _before_script(tokens, index):
            flags[""] = token.word  # stands for any flag
            index += 1
            continue
        if not text.startswith("-") or text == "-":
            break
        index += 1
        if text == "--":
            break
        name = text.lstrip("-").replace("-", "_")
        if token.value is not None:
            flags[name] = token.value
        elif name in _SWITCHES[launcher]:
            flags[name] = Word("true", token.word.location)
        elif not text.startswith("--") and len(text) > 2 and launcher == "srun":
            flags[text[1]] = Word(text[2:], token.word.location)  # -N2
        elif index < len(tokens) and not _looks_like_script(tokens[index]):
            flags[name] = tokens[index].word
            index += 1
        else:
            flags[name] = Word("true", token.word.location)
    return flags, index


def _looks_like_script(token: Token) -> bool:
    """A flag that is not known may be a switch: the script after it is not its value."""
    return token.tail.endswith(".py")


def _before_script(tokens: Sequence[Token], index: int) -> bool:
    """`torchrun $FLAGS train.py`: what is not known before a script are flags."""
    if tokens[index].word.text is not None or _looks_like_script(tokens[index]):
        return False
    # `torchrun $SCRIPT --config c.py`: that one is the value of a flag.
    return any(
        _looks_like_script(token) and not (before.text.startswith("-") and before.value is None)
        for before, token in pairwise(tokens[index:])
    )


# --- how many ----------------------------------------------------------------------------------------------------


def some(count: Value) -> Value:
    """A number of nodes or processes. One below 1 is not known: launchers refuse it, or take it for all that are there."""
    refused = count.known and isinstance(count.it, int) and count.it < 1
    return Value(None, count.origins, unknown=f"{count.it} is no number of processes") if refused else count


def counts(start: Start, environment: Mapping[str, Word], where: Location) -> tuple[Value, Value]:
    """Nodes and processes per node that a command starts."""
    if start.launcher in ("torchrun", "torch.distributed.launch"):
        return _torchrun(start, environment, where)
    if start.launcher == "accelerate":
        return _accelerate(start, where)
    if start.launcher == "deepspeed":
        return _deepspeed(start, where)
    if start.launcher == "fabric":
        return _fabric(start, where)
    if start.launcher == "llamafactory":
        return _llamafactory(environment, where)
    return _plain(start, where)


def tasks_per_node(start: Start) -> Value:
    """How often `srun` starts a command on each node; not said where no `srun` does."""
    if not start.under_srun:
        return NOT_SAID
    nodes_word = start.slurm.get("nodes") or start.slurm.get("N")
    nodes = _number(nodes_word, "--nodes") if nodes_word else Value(1)
    each_word, total_word = start.slurm.get("ntasks_per_node"), start.slurm.get("ntasks") or start.slurm.get("n")
    each = _number(each_word, "--ntasks-per-node") if each_word else None
    if total_word is not None:
        total = _number(total_word, "--ntasks")
        if not (total.known and nodes.known and nodes.it):
            return unknown("how many tasks start on a node is not known", total.origins)
        spread = Value(max(total.it // nodes.it, 1), total.origins)
        return spread if each is None or not each.known else min(each, spread, key=lambda value: int(value.it))
    return each if each is not None else Value(1)


def _torchrun(start: Start, environment: Mapping[str, Word], where: Location) -> tuple[Value, Value]:
    flags = start.flags
    # Its fallback for every flag is PET_<FLAG>, not the bare name.
    nodes_word = flags.get("nnodes") or environment.get("PET_NNODES")
    per_node_word = flags.get("nproc_per_node") or environment.get("PET_NPROC_PER_NODE")
    if "standalone" in flags:
        nodes = _said(1, "--standalone", flags["standalone"])
    else:
        nodes = _number(nodes_word, "--nnodes") if nodes_word else _default(1, "--nnodes", where, start.flags)
    per_node = (
        _number(per_node_word, "--nproc_per_node")
        if per_node_word
        else _default(1, "--nproc_per_node", where, start.flags)
    )
    return nodes, per_node


def _accelerate(start: Start, where: Location) -> tuple[Value, Value]:
    """`--num_processes` is the total over all machines."""
    flags = start.flags
    from_config = Origin(
        "key", "accelerate's configuration", flags["config_file"].location if "config_file" in flags else where
    )
    machines = (
        _number(flags["num_machines"], "--num_machines")
        if "num_machines" in flags
        else unknown("the configuration of accelerate says how many machines", (from_config,))
        if "config_file" in flags
        else _default(1, "--num_machines", where, start.flags)
    )
    if "num_processes" not in flags:
        return machines, unknown(
            "accelerate's configuration, or the GPUs that are there, say how many processes", (from_config,)
        )
    total = _number(flags["num_processes"], "--num_processes")
    if not total.known:
        return machines, total
    if not machines.known:
        return machines, unknown(machines.unknown, (*total.origins, *machines.origins))
    # As accelerate: what does not divide is lost.
    return machines, Value(total.it // max(machines.it, 1), (*total.origins, *machines.origins))


def _deepspeed(start: Start, where: Location) -> tuple[Value, Value]:
    flags = start.flags
    several = next((flags[name] for name in ("hostfile", "H") if name in flags), None)
    include = next((flags[name] for name in ("include", "i") if name in flags), None)
    if include and include.text:
        return _included(include, include.text)
    if "num_nodes" in flags:
        nodes = _number(flags["num_nodes"], "--num_nodes")
    elif several:
        nodes = unknown("the hostfile says how many nodes", (Origin("flag", "--hostfile", several.location),))
    else:
        nodes = _default(1, "--num_nodes", where, start.flags)
    gpus = flags.get("num_gpus") or flags.get("num_accelerators")
    if gpus and gpus.text != "-1":
        return nodes, _number(gpus, "--num_gpus")
    return nodes, unknown(f"deepspeed starts {EACH_GPU}", (Origin("default", "--num_gpus", where),))


def _fabric(start: Start, where: Location) -> tuple[Value, Value]:
    """Lightning 2.6 (`fabric/cli.py`): one device and one node unless told otherwise."""
    nodes, devices = start.flags.get("num_nodes"), start.flags.get("devices")
    return (
        _number(nodes, "--num-nodes") if nodes else _default(1, "--num-nodes", where, start.flags),
        _number(devices, "--devices") if devices else _default(1, "--devices", where, start.flags),
    )


def _llamafactory(environment: Mapping[str, Word], where: Location) -> tuple[Value, Value]:
    """LLaMA-Factory 0.9.5 (`launcher.py`): variables say how many; else one process for each GPU that is there."""
    nodes, each = environment.get("NNODES"), environment.get("NPROC_PER_NODE")
    found = _number(nodes, "NNODES") if nodes else _default(1, "NNODES", where, {})
    if each is not None:
        return found, _number(each, "NPROC_PER_NODE")
    return found, unknown(f"llamafactory-cli starts {EACH_GPU}")


def _included(word: Word, text: str) -> tuple[Value, Value]:
    """`--include host:0,1@other:0,1`"""
    hosts = text.split("@")
    slots = {len(host.partition(":")[2].split(",")) if ":" in host else 0 for host in hosts}
    origins = (Origin("flag", f"--include {text}", word.location),)
    per_node = slots.pop() if len(slots) == 1 else 0
    processes = (
        Value(per_node, origins) if per_node else unknown("the hosts start different numbers of processes", origins)
    )
    return Value(len(hosts), origins), processes


def _plain(start: Start, where: Location) -> tuple[Value, Value]:
    """`python`, which `srun`, `mpirun` or a job's pods may start many times."""
    if start.mpi and not start.under_srun:
        return _mpi(start, where)
    if not start.under_srun and start.pods != NOT_SAID:
        return start.pods, _default(1, "processes in a pod", where, start.flags)
    if not start.under_srun:
        return _default(1, "nodes", where, start.flags), _default(1, "processes", where, start.flags)
    slurm = start.slurm
    nodes_word = slurm.get("nodes") or slurm.get("N")
    nodes = _number(nodes_word, "--nodes") if nodes_word else _default(1, "srun --nodes", where, start.flags)
    if "ntasks_per_node" in slurm:
        return nodes, _number(slurm["ntasks_per_node"], "--ntasks-per-node")
    tasks_word = slurm.get("ntasks") or slurm.get("n")
    if not tasks_word:
        return nodes, _default(1, "srun --ntasks-per-node", where, start.flags)
    tasks = _number(tasks_word, "--ntasks")
    if tasks.known and nodes.known and nodes.it:
        return nodes, Value(max(tasks.it // nodes.it, 1), (*tasks.origins, *nodes.origins))
    return nodes, unknown(tasks.unknown or nodes.unknown, (*tasks.origins, *nodes.origins))


_NP = ("-np", "-n", "--np", "-c", "--n")
_EACH = ("-npernode", "--npernode", "-N", "-ppn", "--ppn")
_HOSTS = ("-H", "-host", "--host", "-hosts", "--hosts")
_HOSTFILE = ("-hostfile", "--hostfile", "-machinefile", "--machinefile", "-f")


def _mpi(start: Start, where: Location) -> tuple[Value, Value]:
    """`mpirun -np 4 -H a:2,b:2`: a total, over the hosts that it is given. Without hosts it is one, outside of a batch system."""
    given = {before.text: token for before, token in pairwise(start.mpi) if before.text.startswith("-")}
    said = [next((given[name] for name in names if name in given), None) for names in (_NP, _EACH, _HOSTS, _HOSTFILE)]
    total_word, each_word, hosts, hostfile = said
    total = _number(total_word.word, "-np") if total_word else NOT_SAID
    each = _number(each_word.word, "-npernode") if each_word else start.slots
    if hosts is not None and hosts.word.text:
        nodes = _said(len({host.partition(":")[0] for host in hosts.word.text.split(",")}), hosts.text, hosts.word)
    elif start.pods != NOT_SAID:
        nodes = start.pods
    elif hosts is not None or hostfile is not None or start.slurm:
        nodes = unknown("the hosts of mpirun are not known")
    elif each_word is not None and total.known and each.known and each.it:
        return Value(max(total.it // each.it, 1), (*total.origins, *each.origins)), each
    else:
        nodes = _default(1, "hosts of mpirun", where, start.flags)
    if total_word is None:
        return nodes, each if each != NOT_SAID else unknown("nothing says how many processes mpirun starts")
    if total.known and nodes.known:
        return nodes, Value(max(total.it // max(nodes.it, 1), 1), (*total.origins, *nodes.origins))
    return nodes, each if each_word is not None else unknown("the processes of mpirun are not known", total.origins)


def _default(number: int, what: str, where: Location, flags: Mapping[str, Word]) -> Value:
    if "" in flags:
        return unknown(
            flags[""].why or "not all flags of the launcher are known", (Origin("flag", what, flags[""].location),)
        )
    return Value(number, (Origin("default", f"{number} without {what}", where),))


def _said(number: int, note: str, word: Word) -> Value:
    return Value(number, (Origin("flag", note, word.location),))


def _number(word: Word, flag: str) -> Value:
    """A count as it is given to a launcher, or why it is not known."""
    if word.text is None:
        return unknown(word.why or f"the value of {flag} is not known", (Origin("flag", flag, word.location),))
    text = word.text.strip()
    origins = (Origin("flag", f"{flag} {text}", word.location),)
    if re.fullmatch(r"\d{1,6}", text):
        return Value(int(text), origins)
    low, separator, high = text.replace("-", ":").partition(":")
    if separator and low == high and low.isdecimal() and len(low) < 7:
        return Value(int(low), origins)
    if separator:
        return unknown(f"{flag} {text} leaves the number open", origins)
    if text in ("gpu", "auto"):
        return unknown(f"{flag} {text} starts {EACH_GPU}", origins)
    if text in ("cpu", "xpu"):
        return unknown(f"{flag} {text} starts one process per device that is there", origins)
    return unknown(f"{flag} {text} is not a number", origins)
