"""What a trace says about the training that a step belongs to: one value for each thing that the closed forms need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from t4lint.memory.configs import shape_of_config
from t4lint.memory.estimate import optimizer_kind
from t4lint.memory.shapes import Shape, find_shape, presumed_shape
from t4lint.trace import (
    NOT_SAID,
    Autocast,
    Call,
    Compile,
    Engine,
    Launch,
    Loader,
    Model,
    Optimizer,
    Origin,
    ProcessGroup,
    Step,
    Trace,
    Value,
    Wrap,
    unknown,
)

_AUTOCAST = {"float16": "fp16", "bfloat16": "bf16"}
_MAY_SHARD = ("accelerate", "deepspeed")
_SHARDED = frozenset({"zero1", "zero2", "zero3", "fsdp"})
# Losses that never make the logits of a whole batch.
SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")  # device maps that are made from what is free
_CHUNKED_LOSS = frozenset({"liger_kernel", "unsloth", "cut_cross_entropy"})
UNSEEN = "no model in sight"
_CAUSAL = ("ForCausalLM", "LMHeadModel", "FastLanguageModel", "SFTTrainer", "SFTConfig")


@dataclass(slots=True)
class Evidence:
    """The values that a result rests on."""

    used: list[Value] = field(default_factory=list)

    def take(self, value: Value) -> Value:
        if value.known:
            self.used.append(value)
        return value

    def conclude(self, it: object) -> Value:
        """A value with the origins of all that was taken."""
        origins: dict[Origin, None] = {}
        for value in self.used:
            origins.update(dict.fromkeys(value.origins))
        return Value(it, tuple(origins), likely=any(value.likely for value in self.used))


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """One model of a trace, with what its events say last."""

    subject: str
    name: Value
    dtype: Value
    parameters: Value
    trainable: Value
    quantization: Value
    shape: Shape | None
    causal: bool
    evidence: tuple[str, ...]
    spread: bool  # may a device map place parts of it elsewhere


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the one trained model of a trace is trained. Unknown values carry the reason."""

    model: TrainedModel
    optimizer: Value
    mixed_precision: Value
    micro_batch: Value
    accumulation: Value
    length: Value
    checkpointing: Value
    sharding: Value  # "none", "zero1".."zero3", "fsdp"
    offloads: bool  # may states leave the card
    wrap: Wrap | None
    nodes: Value
    per_node: Value
    instance: Value
    chunked_loss: bool
    chunked_kernels: bool  # may blocks keep less than those of transformers
    peft: bool
    adapters: Mapping[str, Value] | None  # the fields of the one LoRA configuration in sight
    engines: tuple[str, ...]  # their roles
    compiled: bool  # may the model be compiled, which keeps less
    eager: bool | None  # is attention eager; None where nothing says
    offloaded: frozenset[str]  # what certainly leaves the card: "optimizer", "weights"
    hook: Value  # the hook that compresses DDP's gradients, by its name; NOT_SAID without one


def _one_process(trace: Trace) -> Value:
    """Without a launch in sight a program is one process, unless it joins a group of them."""
    group = next(trace.all(ProcessGroup), None)
    return Value(1) if group is None else unknown("no launch command says how many processes there are")


def recipe_of(trace: Trace, step: Step, presumed: str = "") -> Recipe | Value:
    """The recipe of a step, or an unknown value with the reason why there is none.

    `presumed` names the checkpoint that is trained where no model is in sight.
    """
    models = [model for model in models_of(trace) if model.trainable.it != 0 or not model.trainable.known]
    if not models and presumed:
        models = [_merge(trace, [Model(where=step.where, name=Value(presumed))], [])]
    if step.trains.known and any(model.subject == step.trains.it for model in models):
        models = [model for model in models if model.subject == step.trains.it]
    if not models:
        return unknown(UNSEEN)
    if len(models) > 1:
        return unknown("several models are trained")
    engines = list(trace.all(Engine))
    wraps = list(trace.all(Wrap))
    launch = next(reversed(list(trace.all(Launch))), None)
    return Recipe(
        model=models[0],
        optimizer=_optimizer(trace, step, engines),
        mixed_precision=_mixed_precision(trace, engines),
        micro_batch=_micro_batch(trace, step, engines),
        accumulation=agreed([step.backwards, *(e.accumulation for e in engines)], "the accumulation"),
        length=agreed([e.sequence_length for e in engines], "the sequence length"),
        checkpointing=_checkpointing(trace, engines),
        sharding=_sharding(trace, engines, wraps, launch),
        offloads=_offloads(wraps),
        wrap=wraps[-1] if wraps else None,
        nodes=launch.nodes if launch else Value(1),
        per_node=launch.processes_per_node if launch else _one_process(trace),
        instance=launch.instance if launch else NOT_SAID,
        chunked_loss=_chunked_loss(trace, engines),
        chunked_kernels=bool(_CHUNKED_LOSS & trace.imported),
        peft="peft" in trace.imported or "unsloth" in trace.imported,
        adapters=_adapters(trace),
        engines=tuple(engine.role for engine in engines),
        compiled=_compiled(trace),
        eager=_eager(trace),
        offloaded=_offloaded(wraps),
        hook=comm_hook(trace),
    )


def _compiled(trace: Trace) -> bool:
    switches = [call.arguments["torch_compile"] for call in trace.all(Call) if "torch_compile" in call.arguments]
    return any(trace.all(Compile)) or any(not value.known or value.it not in (None, False) for value in switches)


def _eager(trace: Trace) -> bool | None:
    """transformers takes scaled dot product attention by itself since 4.36 (all of its larger families since 4.48)."""
    said = [
        model.attention.it for model in trace.all(Model) if model.attention.known and model.attention.it is not None
    ]
    if said:
        return str(said[-1]) == "eager"
    return False if trace.version_at_least("transformers", "4.48").holds else None


def _adapters(trace: Trace) -> Mapping[str, Value] | None:
    """The fields of the LoRA configuration, if there is just one."""
    made = [call for call in trace.all(Call) if call.function.rpartition(".")[2] in ("LoraConfig", "FastLoraConfig")]
    unique = {tuple(sorted((name, str(value.it)) for name, value in call.arguments.items())): call for call in made}
    one = next(iter(unique.values())).arguments if len(unique) == 1 else {"**": NOT_SAID}
    return None if "**" in one else one


def _offloaded(wraps: list[Wrap]) -> frozenset[str]:
    said = [(name, value.it) for wrap in wraps for name, value in wrap.options.items() if value.known]
    on = [name for name, value in said if value not in (None, False, "none")]
    return frozenset(
        part for part, words in (("optimizer", ("offload_optimizer",)), ("weights", ("offload_param", "cpu_offload")))
        if any(word in name for name in on for word in words)
    )  # fmt: skip


def comm_hook(trace: Trace) -> Value:
    """The communication hook that DDP is given, by its name, in the program or by accelerate's keyword arguments."""
    for call in trace.all(Call):
        for name in ("hook", "comm_hook"):
            said = call.arguments.get(name)
            if (
                said is not None
                and said.it != "NO"
                and call.function.endswith(("register_comm_hook", "DistributedDataParallelKwargs"))
            ):
                return said
    return NOT_SAID


def _checkpointing(trace: Trace, engines: list[Engine]) -> Value:
    """What the engine says of it, unless the program switches it on for the model itself."""
    if any(call.function.endswith("gradient_checkpointing_enable") for call in trace.all(Call)):
        return Value(True)
    return agreed([engine.activation_checkpointing for engine in engines], "activation checkpointing")


def models_of(trace: Trace) -> list[TrainedModel]:
    """The models of a trace: events of one subject are one model; a cast without a subject is of the last."""
    groups: dict[object, list[Model]] = {}
    for event in trace.all(Model):
        if event.role == "cast" and not event.subject and groups:
            groups[next(reversed(groups))].append(event)
        else:
            groups.setdefault(event.subject or event.where, []).append(event)
    calls = [call for call in trace.all(Call) if any(word in call.function for word in _CAUSAL)]
    return [_merge(trace, events, calls) for events in groups.values()]


def agreed(values: Iterable[Value], what: str) -> Value:
    """The one value that all who say something say."""
    said = list(values)
    known = [value for value in said if value.known and value.it is not None]
    if not known:
        reasons = [value.unknown for value in said if value.unknown and value.unknown != NOT_SAID.unknown]
        return unknown(reasons[0] if reasons else f"{what} is not known")
    if any(value.it != known[0].it for value in known[1:]):
        return unknown(f"{what} has several values")
    return known[0]


def _merge(trace: Trace, events: list[Model], calls: list[Call]) -> TrainedModel:
    engines = list(trace.all(Engine))
    name = _first(event.name for event in events)
    shape = find_shape(name.it) if name.known and isinstance(name.it, str) else _built_shape(events)
    if shape is None and isinstance(name.it, str) and (shape := presumed_shape(name.it)) is not None:
        name = replace(name, likely=True)
    said = [str(name.it), *(event.evidence for event in events), *(engine.role for engine in engines)]
    places = {event.where for event in events}
    causal = any(word in text for word in _CAUSAL for text in said) or any(call.where in places for call in calls)
    return TrainedModel(
        subject=events[0].subject,
        name=name,
        dtype=_first(event.dtype for event in reversed(events)),
        parameters=_first(event.parameters for event in reversed(events)),
        trainable=_first(event.trainable for event in reversed(events)),
        quantization=_quantization(name, _first(event.quantization for event in reversed(events))),
        shape=shape,
        causal=causal,
        evidence=tuple(said),
        spread=any(_spreads(trace, event.device_map) for event in events),
    )


def _built_shape(events: list[Model]) -> Shape | None:
    """The shape of a model that the code builds from a configuration of its own."""
    said = [event.config.it for event in events if event.config.known and isinstance(event.config.it, dict)]
    return shape_of_config(said[0]) if said else None


def _spreads(trace: Trace, device_map: Value) -> bool:
    """May it place parts on another device? A map that is not known may.

    With one GPU `auto` fills it first, and only what does not fit goes to the host (accelerate 1.15 `infer_auto_device_map`).
    """
    if trace.target.gpus == 1 and device_map.it in SPREADING:
        return False
    if not device_map.known:
        return device_map != NOT_SAID
    return device_map.it not in (None, 0, "cuda", "cuda:0", {"": 0}, {"": "cuda"}, {"": "cuda:0"})


def _quantization(name: Value, said: Value) -> Value:
    """What is said of it, else what the checkpoint's own name says (`...-bnb-4bit`)."""
    if said.known or not isinstance(name.it, str):
        return said
    bits = re.search(r"-([48])bit$|-(awq|gptq)(-int4)?$", name.it.lower())
    return replace(name, it=f"{bits[1] or 4}bit") if bits else said


def _first(values: Iterable[Value]) -> Value:
    """The first known value, else the first reason."""
    said = list(values)
    return next((value for value in said if value.known), said[0])


def _optimizer(trace: Trace, step: Step, engines: list[Engine]) -> Value:
    built = list(trace.all(Optimizer))
    own = [it.name for it in built if it.subject == step.subject] or ([built[0].name] if len(built) == 1 else [])
    return agreed(own or [engine.optimizer for engine in engines], "the optimizer")


def _mixed_precision(trace: Trace, engines: list[Engine]) -> Value:
    said = agreed([engine.mixed_precision for engine in engines], "the mixed precision")
    if said.known or engines:
        return said
    regions = [region for region in trace.all(Autocast) if region.enabled.it is not False]
    if not regions:
        return Value("no")
    dtype = agreed([region.dtype for region in regions], "the autocast dtype")
    return replace(dtype, it=_AUTOCAST.get(dtype.it, "no")) if dtype.known else dtype


def _micro_batch(trace: Trace, step: Step, engines: list[Engine]) -> Value:
    said = agreed([step.micro_batch, *(engine.micro_batch for engine in engines)], "the batch size")
    if said.known:
        return said
    loaders = list(trace.all(Loader))
    read = [it for it in loaders if it.read_in.known and set(it.read_in.it) & set(step.loops)]
    train = [it for it in loaders if it.role == "train"] or read or (loaders if len(loaders) == 1 else [])
    return agreed([it.batch_size for it in train], "the batch size") if train else said


def _sharding(trace: Trace, engines: list[Engine], wraps: list[Wrap], launch: Launch | None) -> Value:
    """How the state is sharded; unknown where a launcher or DeepSpeed may do it in a way that is not followed."""
    silent = all(engine.sharding == NOT_SAID for engine in engines)
    if silent and not wraps and ("deepspeed" in trace.imported or (launch and launch.launcher in _MAY_SHARD)):
        return unknown("the launch may shard or offload the training state")
    said = [engine.sharding for engine in engines if engine.sharding.known or engine.sharding != NOT_SAID]
    said += [wrap.how if wrap.how.it in _SHARDED or not wrap.how.known else Value("none") for wrap in wraps]
    sharded = [value for value in said if value.it in _SHARDED]
    return agreed(sharded or said, "the sharding") if said else Value("none")


def _offloads(wraps: list[Wrap]) -> bool:
    """May states or weights go to the host? Only a wrap whose options say nothing of it, or no, rules it out."""
    options = [option for wrap in wraps for option in wrap.options.items() if "offload" in option[0]]
    return not wraps or any(not value.known or value.it not in (None, False, "none") for _, value in options)


def _chunked_loss(trace: Trace, engines: list[Engine]) -> bool:
    """May the loss be computed in chunks? So does TRL's SFT from 1.6 on, and kernels made for it."""
    supervised = any(engine.role.startswith("SFT") for engine in engines)
    recent = trace.version_at_least("trl", "1.6").holds is not False
    return bool(_CHUNKED_LOSS & trace.imported) or (supervised and recent)


def known_optimizer(value: Value) -> str:
    """The optimizer's name where the closed form knows it, else an empty string."""
    return str(value.it) if value.known and optimizer_kind(str(value.it)) else ""
