"""The vocabulary of a training program: what both witnesses say about it.

The interpreter predicts these events from source; the recorder observes them in a run. A rule reads them and never
knows which witness spoke. Each class says *what happened*, in the field's terms; each field is a `Value`, so that it can
be unknown and carries its provenance. Fields that a basis cannot carry (a device on a CPU run) are unknown there.

Bytes are plain bytes, times are seconds, lengths are tokens. dtypes are the names torch uses, without the prefix
(`"float16"`, `"bfloat16"`, `"float32"`). Mixed precision is `"no"`, `"fp16"`, `"bf16"` or `"fp8"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from t4lint.trace.location import Location
from t4lint.trace.values import Value

NOT_SAID = Value(unknown="the trace does not say")


class Key(NamedTuple):
    """What both witnesses agree on: an event's kind and role, and the lines of the person's own statement."""

    kind: str
    role: str
    path: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something the program does.

    `where` is the person's own statement, also for what a library does inside it. `subject` names the object that it
    happens to (equal names are the same object within one trace). `loops` is the nest of loop headers around it, as
    `path:line`. `step` and `micro` count optimizer steps and micro-batches from 0. `guards` are the undecided tests
    (and their side) under which it happens: empty when it happens in every run.
    """

    where: Location
    role: str = ""
    subject: str = ""
    loops: tuple[str, ...] = ()
    step: int = 0
    micro: int = 0
    phase: str = "setup"  # setup, forward, backward, optimizer, eval
    guards: frozenset[tuple[str, bool]] = frozenset()
    evidence: str = ""

    @property
    def key(self) -> Key:
        return Key(type(self).__name__, self.role, self.where.path, self.where.line, self.where.end_line)


# --- the run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Event):
    """Processes are started. `environment` holds what the launch gives them. Observed: from RANK, WORLD_SIZE, ...

    `flags` are the launcher's own, without dashes and with `_` for `-`; a bare switch has the text "true". A flag under
    the empty name stands for flags that are not known. `rendezvous` is the host that all processes are told to meet at, a
    known None where nothing names one; `node_rank` the node that the command is for. What a launcher presumes has a
    "default" as its origin. `tasks_per_node`: how often Slurm starts the launcher on each node. Of the container that it
    runs in: `shared_memory` is the size of /dev/shm in bytes, or "host"; `network` is "host", "bridge" or "flat"; `ports`
    those that are published, as a tuple.
    """

    launcher: str  # python, torchrun, accelerate, deepspeed, notebook_launcher, ...
    nodes: Value
    processes_per_node: Value
    instance: Value = NOT_SAID  # name of a row in devices/instances
    environment: Mapping[str, Value] = field(default_factory=dict)
    in_container: Value = NOT_SAID  # a container, VPN or overlay network is in sight
    flags: Mapping[str, Value] = field(default_factory=dict)
    rendezvous: Value = NOT_SAID
    node_rank: Value = NOT_SAID
    tasks_per_node: Value = NOT_SAID
    shared_memory: Value = NOT_SAID
    network: Value = NOT_SAID
    ports: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable(Event):
    """A variable is set, by a shell line or by the program itself; `set_in` is "launch" or "program".

    `after_torch`: was torch already loaded when the program set it.
    """

    name: str
    value: Value
    set_in: str
    after_torch: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Event):
    """A library call as it is written, for rules where the writing itself is the fault. `function` is its dotted name.

    `accepts` are the arguments that the project's own subclass takes besides, where it is one that is called.
    """

    function: str
    arguments: Mapping[str, Value]
    raises: Value = NOT_SAID  # the exception that it ends in, as text
    accepts: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate(Event):
    """The program asks what the hardware can do (`torch.cuda.is_bf16_supported`, a compute capability)."""

    function: str
    result: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Event):
    """A flag or configuration field that the program offers; `reads` counts the places that use it."""

    name: str
    given: Value
    reads: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Event):
    """A global switch of a library is set (`torch.backends.cuda.matmul.allow_tf32`, anomaly detection, SDP kernels)."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(Event):
    """The program ends here by its own will: a raise, an assert, an exit."""

    reason: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement(Event):
    """A library that a project asks for: `role` is "file", "command" or "optional" (an extra, tests, documentation).

    `version`: the only one that is allowed, a known None where there are several. `low` and `high` bound what is allowed;
    a known None leaves that end open. `elsewhere`: may its wheels come from another index than PyPI.
    """

    name: str  # as indexes compare it
    version: Value
    low: Value = NOT_SAID
    high: Value = NOT_SAID
    elsewhere: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerFile(Event):
    """A file that configures a trainer which is no program of the project: `role` is "axolotl" or "torchtune".

    `fields` are its plain values by dotted key, those that are not written are absent.
    """

    fields: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRequest(Event):
    """A cloud machine that a project asks for, by the name of its type."""

    name: Value


# --- models and precision ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(Event):
    """A model is created, loaded or cast: `role` is "create", "load" or "cast"; `dtype` is that of the result."""

    name: Value = NOT_SAID  # checkpoint id or class
    dtype: Value = NOT_SAID
    requested_dtype: Value = NOT_SAID
    device: Value = NOT_SAID
    parameters: Value = NOT_SAID  # count
    trainable: Value = NOT_SAID  # count
    quantization: Value = NOT_SAID  # "none", "4bit", "8bit", "fp8", ...
    compute_dtype: Value = NOT_SAID  # of 4-bit layers
    attention: Value = NOT_SAID  # attention implementation asked for
    device_map: Value = NOT_SAID
    family: Value = NOT_SAID  # the architecture, as transformers' model_type names it
    overflow: Value = NOT_SAID  # where the family leaves the range of float16: "forward", "backward", "none"
    config: Value = NOT_SAID  # fields of a configuration that the code gives, with its class under "$class"
    keeps: Value = NOT_SAID  # modules that a load in float16 keeps in float32, as text; empty for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(Event):
    """A training engine is configured: TrainingArguments and its kin, Accelerator, Lightning's Trainer, DeepSpeed.

    The values are those after the library has applied its defaults. `role` is the engine's class name.
    """

    mixed_precision: Value = NOT_SAID
    tf32: Value = NOT_SAID
    micro_batch: Value = NOT_SAID  # samples per device
    eval_micro_batch: Value = NOT_SAID
    accumulation: Value = NOT_SAID  # micro-batches per optimizer step
    sequence_length: Value = NOT_SAID  # tokens
    activation_checkpointing: Value = NOT_SAID
    reentrant: Value = NOT_SAID  # is its checkpointing of the reentrant kind
    optimizer: Value = NOT_SAID
    workers: Value = NOT_SAID
    pin_memory: Value = NOT_SAID
    evaluates: Value = NOT_SAID
    sharding: Value = NOT_SAID  # "none", "zero1".."zero3", "fsdp"
    # who asks for which precision, where DeepSpeed's configuration has a say: "program" and "launch" name one ("fp16", "bf16",
    # "no"), "fp16.enabled" and "bf16.enabled" are what the configuration says
    asked: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Autocast(Event):
    """An autocast region is entered, by the program or by an engine on its behalf. Values are as asked for."""

    device: Value
    dtype: Value
    enabled: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention(Event):
    """Attention is asked for in a certain way: `role` is "config", "call" or "backend".

    `implementation`: "flash_attention_2", "sdpa", "eager", ...; `kernel`: what runs: "math", "efficient", "flash", "none".
    """

    implementation: Value = NOT_SAID
    kernel: Value = NOT_SAID
    dtype: Value = NOT_SAID
    head_dim: Value = NOT_SAID
    length: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Event):
    """An operation on tensors that the precision around it decides about: `role` is its name, such as "masked_fill".

    `dtype`: that of the tensor; `autocast`: dtype of the CUDA autocast region around it, "none" outside one;
    `constant`: the number that goes into the tensor. `absorbed`: is what overflows used only where inf and a large number give
    the same, as in tanh or a comparison.
    """

    dtype: Value = NOT_SAID
    autocast: Value = NOT_SAID
    constant: Value = NOT_SAID
    device: Value = NOT_SAID
    absorbed: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile(Event):
    """`torch.compile` or an engine's switch for it. `late`: a trainer had taken the model before, which is not compiled."""

    mode: Value = NOT_SAID
    dtype: Value = NOT_SAID
    late: Value = NOT_SAID


# --- data --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader(Event):
    """A DataLoader is built, by the program or by an engine. `role`: "train", "eval" or "" when nothing says which.

    `device` is where its batches go; `work` what each sample costs: some of "decode", "augment", "extract" and
    "tokenize", as a tuple. `read_in`: the loops that run over its batches, as in `loops` of other events.
    """

    batch_size: Value
    workers: Value
    pin_memory: Value
    persistent_workers: Value = NOT_SAID
    prefetch_factor: Value = NOT_SAID
    shuffle: Value = NOT_SAID
    sampler: Value = NOT_SAID  # class of the sampler, "none" without one
    drop_last: Value = NOT_SAID
    device: Value = NOT_SAID
    work: Value = NOT_SAID
    repeats: Value = NOT_SAID  # does each worker read all of an iterable dataset
    read_in: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation(Event):
    """A large array is made in host memory; `size` in bytes. Small ones are not told."""

    size: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRead(Event):
    """Training data is read from a place; `file_system` is "local", "fuse", "nfs", ..."""

    root: Value
    file_system: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Event):
    """A tensor moves between devices.

    `pinned`: who put it into page-locked memory, "loader", "call" (`.pin_memory()` on the tensor itself) or "no".
    `read_early`: does the host read the result before it waits for the copy. `made`: was it filled on the host by a call just
    before, such as `torch.zeros`.
    """

    source: Value
    destination: Value
    non_blocking: Value
    pinned: Value = NOT_SAID
    read_early: Value = NOT_SAID
    made: Value = NOT_SAID
    always: Value = NOT_SAID  # as of a HostSync
    size: Value = NOT_SAID  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSync(Event):
    """The host waits for the device (`.item()`, `.cpu()`, a tensor in an `if`); `role` is the operation.

    `always`: does it happen whenever the loop goes backward, under no test that is decided anew in each iteration.
    """

    device: Value
    always: Value = NOT_SAID


# --- the loop ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(Event):
    """A model is called. `grad`: does autograd record it; `training`: is the module in training mode.

    `layout`: the memory format of a network of 2-d convolutions ("channels_last", "contiguous"), "none" for any other.
    """

    grad: Value
    training: Value
    dtype: Value = NOT_SAID  # of its matmuls
    device: Value = NOT_SAID  # of its weights
    layout: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward(Event):
    """Gradients are computed. `dtype`: that of the forward's matmuls; `autocast`: dtype of the autocast region that the
    forward ran in, "none" outside one; `scaled_by`: the scaler whose `scale` made the loss, "none" without one.

    `divided_by`: the number that the mean loss was divided by before it came here, 1 where it was not; without
    `engine_divides`, what an engine divides it by itself. Unknown for a loss that is no mean, or that something unknown
    changed.
    """

    device: Value = NOT_SAID
    dtype: Value = NOT_SAID
    autocast: Value = NOT_SAID
    scaled_by: Value = NOT_SAID
    inside_autocast: Value = NOT_SAID
    retain_graph: Value = NOT_SAID
    divided_by: Value = NOT_SAID
    engine_divides: Value = NOT_SAID
    batches: Value = NOT_SAID  # does its innermost loop run over what a loader gives
    engine: str = ""  # "Accelerator", "Trainer", ... where an engine owns the backward
    in_no_sync: Value = NOT_SAID  # is it inside `no_sync()`
    forward_in_no_sync: Value = NOT_SAID  # was the forward


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler(Event):
    """A call on a GradScaler. `operation`: init, scale, unscale, step, update. `subject` is the scaler."""

    operation: str
    optimizer: str = ""  # the optimizer it was called with
    enabled: Value = NOT_SAID
    sharded: Value = NOT_SAID  # is it FSDP's ShardedGradScaler


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRead(Event):
    """Gradients are read or changed before the step; `role` is "clip", "norm" or "read". `subject`: whose parameters."""

    error_if_nonfinite: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer(Event):
    """An optimizer is built. `subject` names it for Scaler and Step; `implementation` is the dotted name of its class."""

    name: Value
    implementation: Value = NOT_SAID
    fused: Value = NOT_SAID
    foreach: Value = NOT_SAID
    eps: Value = NOT_SAID
    parameters: Value = NOT_SAID
    dtype: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Event):
    """One optimizer step, and what it cost since the one before. `subject` is the optimizer.

    `math`: share of matmul and convolution FLOPs by dtype. `peak`, `components`: bytes, as (low, high) bands.
    `communication`: seconds on the wire a step, as a band; `compute`: seconds of matmuls a step, as a band.
    """

    device: Value = NOT_SAID
    math: Value = NOT_SAID
    backwards: Value = NOT_SAID  # micro-batches in this step
    counted: Value = NOT_SAID  # does nothing but the number of the iteration decide when it comes
    micro_batch: Value = NOT_SAID  # samples per device
    parameters: Value = NOT_SAID
    peak: Value = NOT_SAID
    components: Value = NOT_SAID  # Mapping[str, (low, high)]
    communication: Value = NOT_SAID
    compute: Value = NOT_SAID
    through_scaler: Value = NOT_SAID
    gradients: Value = NOT_SAID  # dtypes of the gradients that it takes, as a tuple of names
    trains: Value = NOT_SAID  # the subject of the model whose parameters it changes
    trained_vocabulary: Value = NOT_SAID  # parameters of embedding and output layer that adapters train in full
    engine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGrad(Event):
    """Gradients are cleared."""

    set_to_none: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(Event):
    """A tensor outlives its iteration; `role` is "sum" or "list". `graph`: does it hold its autograd graph.

    `value`: what is kept, as it is written. `backward`: does something go backward through what was kept; `batches`: is
    it kept over the batches of a loader.
    """

    graph: Value
    value: Value = NOT_SAID
    batches: Value = NOT_SAID
    backward: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Event):
    """An evaluation pass; what it keeps, in bytes and where."""

    kept: Value = NOT_SAID
    device: Value = NOT_SAID


# --- several processes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup(Event):
    """A process group is initialised."""

    backend: Value
    rank: Value = NOT_SAID
    world_size: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrap(Event):
    """A model is wrapped for several GPUs. `how`: "ddp", "data_parallel", "fsdp", "zero1".."zero3".

    `reduces`: "always" where every backward exchanges gradients, "chosen" where the program says when (`no_sync`).
    `devices`: "same" where nothing that was read gives each process a GPU of its own. `data`: "whole" where nothing that was
    read gives each rank its own part of the data, "split" where something does. Of `options`, those that were not written are
    absent, unless "**" says that there may be more. `normalization`: "BatchNorm" where a module of that kind keeps running
    statistics, "SyncBatchNorm", or "none".
    """

    how: Value
    replicated: Value = NOT_SAID  # parameters that each rank keeps in full and whose gradients it reduces
    gradient_bytes: Value = NOT_SAID  # per parameter on the wire
    options: Mapping[str, Value] = field(default_factory=dict)
    reduces: Value = NOT_SAID
    data: Value = NOT_SAID
    devices: Value = NOT_SAID
    normalization: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChoice(Event):
    """A process picks its GPU: `role` is "set_device", "to", "device_ids" or "device_id".

    `index` is what it is picked by, a number or a name such as "cuda:0"; its provenance says whether it is a rank.
    """

    index: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Event):
    """An operation that all processes must take part in; `bytes_sent` per rank.

    `ranks`: "all", or "some" where a test on the number of the process lets only some of them get there.
    """

    operation: str
    ranks: Value
    bytes_sent: Value = NOT_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Save(Event):
    """Something is written to a path; `ranks` as in Collective. `apart`: does each process write to a path of its own.

    `holds`: the classes of what is written beside tensors and plain containers, as a tuple of names; `keys` those of the dict.
    """

    target: Value
    ranks: Value
    apart: Value = NOT_SAID
    holds: Value = NOT_SAID
    keys: Value = NOT_SAID
