"""Each rule over traces made by hand: a faulty one, an innocent one, and one where a value is unknown."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from t4lint.devices import find_target
from t4lint.rule import Candidate, Rule
from t4lint.trace import (
    NOT_SAID,
    OF_LOCAL_RANK,
    OF_RANK,
    Allocation,
    Attention,
    Autocast,
    Backward,
    Call,
    Collective,
    Compile,
    Copy,
    DataRead,
    DeviceChoice,
    Engine,
    EnvironmentVariable,
    Event,
    Exit,
    Forward,
    Gap,
    GradientRead,
    HostSync,
    How,
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

ROOT = Path(__file__).resolve().parents[1]
GIB = 2**30
T4 = find_target("t4")
CUDA = Value("cuda")
DARK = unknown("it comes from an unknown call")


def rules() -> dict[str, Rule]:
    found = {}
    for path in sorted((ROOT / "rules").glob("*/[a-z]*.py")):
        module = importlib.import_module(f"t4lint.rules.{path.parent.name}.{path.stem}")
        rule: Rule = getattr(module, path.stem)
        found[rule.name] = rule
    return found


RULES = rules()


def at(line: int) -> Location:
    return Location("train.py", line, 1, line, 10)


def written(it: Any, line: int = 1, how: How = "literal") -> Value:
    return Value(it, (Origin(how, repr(it), at(line)),))


def by_default(it: Any) -> Value:
    return Value(it, (Origin("default", "a default of the library"),))


def trace(
    *events: Event, basis: Any = "predicted", imported: tuple[str, ...] = (), gaps: Any = (), **pins: str
) -> Trace:
    versions = {library: Value(version) for library, version in pins.items()}
    return Trace(basis, T4, versions, events, tuple(gaps), frozenset(imported))


def engine(precision: Value, role: str = "TrainingArguments", **fields: Any) -> Engine:
    return Engine(where=at(10), role=role, mixed_precision=precision, **fields)


def deepspeed(program: str | None, **enabled: bool) -> Engine:
    asked = {"program": written(program) if program is not None else DARK}
    asked |= {f"{section}.enabled": written(on) for section, on in enabled.items()}
    return engine(DARK, "DeepSpeed", asked=asked)


def autocast(dtype: Value, enabled: Any = True, device: Value = CUDA, role: str = "") -> Autocast:
    return Autocast(where=at(20), role=role, device=device, dtype=dtype, enabled=Value(enabled))


def step(line: int = 40, subject: str = "optimizer", device: Value = CUDA, **fields: Any) -> Step:
    return Step(where=at(line), subject=subject, device=device, **fields)


def backward(scaled_by: str = "none", autocast: str = "float16", **fields: Any) -> Backward:
    fields.setdefault("device", Value("cuda"))
    return Backward(where=at(30), autocast=Value(autocast), scaled_by=Value(scaled_by), **fields)


def scaler(*operations: str, enabled: Any = True) -> list[Event]:
    """`"scale"`, `"step:optimizer"`, ... on one scaler, after its construction; "backward" is a scaled backward."""
    events: list[Event] = [Scaler(where=at(5), subject="scaler", operation="init", enabled=Value(enabled))]
    for number, text in enumerate(operations):
        operation, _, optimizer = text.partition(":")
        if operation == "backward":
            events.append(backward("scaler"))
            continue
        events.append(Scaler(where=at(50 + number), subject="scaler", operation=operation, optimizer=optimizer))
    return events


def asked(result: Any, function: str = "torch.cuda.is_bf16_supported") -> Predicate:
    answer = (Origin("target", f"{function}() on a T4", at(3)),)
    return Predicate(
        where=at(3), function=function, result=dark_at(answer) if result is None else Value(result, answer)
    )


def dark_at(origins: tuple[Origin, ...]) -> Value:
    return unknown("it comes from an unknown call", origins)


BF16_ASKED = asked(True)


def from_guard(it: Any, line: int = 3) -> Value:
    return Value(it, (Origin("target", "torch.cuda.is_bf16_supported() on a T4", at(line)),))


def launch(nodes: Any = 2, per_node: Any = 1, environment: Any = None, in_container: Any = False) -> Launch:
    return Launch(
        where=at(1),
        launcher="torchrun",
        nodes=written(nodes) if nodes is not None else DARK,
        processes_per_node=Value(per_node),
        environment=environment or {},
        in_container=Value(in_container),
    )


def variable(value: Value, name: str = "NCCL_SOCKET_IFNAME") -> EnvironmentVariable:
    return EnvironmentVariable(where=at(2), name=name, value=value, set_in="launch")


def loader(**fields: Any) -> Loader:
    given: dict[str, Any] = {
        "batch_size": Value(8),
        "workers": Value(0),
        "pin_memory": by_default(False),
        "persistent_workers": by_default(False),
        "prefetch_factor": by_default(None),
        "device": Value("cuda"),
    }
    return Loader(where=at(15), **{**given, **fields})


def loaded(dtype: Value, role: str = "load", **fields: Any) -> Model:
    return Model(where=at(12), role=role, dtype=Value(dtype.it), requested_dtype=dtype, **fields)


def loaded_as(asked: Any, dtype: str) -> Model:
    return Model(where=at(12), role="load", requested_dtype=written(asked), dtype=Value(dtype))


def full(batch: Any = 32, peak: Any = (20 * GIB, 26 * GIB), state: float = 4 * GIB, **fields: Any) -> Step:
    parts = {"weights": (state, state), "activations": (16 * GIB, 22 * GIB)}
    return step(micro_batch=written(batch), peak=Value(peak), components=Value(parts), backwards=Value(1), **fields)


def both(fp16: Value, bf16: Value) -> Call:
    return Call(where=at(10), function="transformers.TrainingArguments", arguments={"fp16": fp16, "bf16": bf16})


def needs_network(communication: Any, compute: Any = (0.5, 1.0)) -> Step:
    return step(communication=Value(communication), compute=Value(compute))


def stepped(*dtypes: str, through: Any = True, engine: str = "", **fields: Any) -> Step:
    """A step whose gradients have these dtypes, by default through a scaler."""
    gradients = written(tuple(dtypes)) if dtypes else DARK
    return step(gradients=gradients, through_scaler=Value(through), engine=engine, **fields)


def operation(role: str, **fields: Any) -> Operation:
    return Operation(where=at(33), role=role, device=fields.pop("device", CUDA), **fields)


def switch(name: str, value: Value) -> Switch:
    return Switch(where=at(6), name=f"torch.backends.cuda.{name}", value=value)


def quantized(kind: str = "4bit", compute: Value = DARK, **fields: Any) -> Model:
    return Model(where=at(12), role="load", quantization=Value(kind), compute_dtype=compute, **fields)


NOT_GIVEN = Value("float32", (Origin("default", "no bnb_4bit_compute_dtype: transformers takes float32", at(11)),))
SCALED = backward("scaler of the trainer")
FORWARD = Forward(where=at(29), grad=Value(True), training=Value(True))


def compiled(dtype: Value, **fields: Any) -> Compile:
    return Compile(where=at(14), dtype=dtype, **fields)


def built(raises: Value) -> Call:
    return Call(where=at(16), function="transformers.Trainer", arguments={}, raises=raises)


def called(implementation: str, **fields: Any) -> Attention:
    return Attention(where=at(33), role="call", implementation=Value(implementation), **fields)


def configured(implementation: str, **fields: Any) -> Attention:
    return Attention(where=at(12), role="config", implementation=written(implementation), **fields)


def heads(size: int | None) -> Attention:
    return Attention(where=at(12), role="layer", head_dim=DARK if size is None else Value(size))


def maps(**told: Value) -> Call:
    asked = {"asked": written(True), "implementation": Value(None), "family": Value("bert")}
    return asks("output_attentions", **{**asked, **told})


def allowed(kernel: Value) -> Attention:
    return Attention(where=at(32), role="backend", kernel=kernel)


def asks(function: str, **arguments: Value) -> Call:
    return Call(where=at(16), function=function, arguments=arguments)


def adapters(config: str = "LoraConfig", **arguments: Value) -> Call:
    return asks("peft.get_peft_model", config=Value(config), **arguments)


def fitted(clip: Any = 1.0) -> Call:
    return asks("lightning.pytorch.Trainer", precision=Value("fp16"), gradient_clip_val=written(clip))


def built_optimizer(name: str = "AdamW", **fields: Any) -> Optimizer:
    return Optimizer(where=at(18), subject="o", name=Value(name), **fields)


def convolved(layout: str | None) -> Forward:
    known = DARK if layout is None else Value(layout)
    return Forward(
        where=at(29), grad=Value(True), training=Value(True), dtype=Value("float16"), device=CUDA, layout=known
    )


def prepared_for(tokens: int | None) -> Call:
    vocabulary = DARK if tokens is None else Value(tokens)
    added = DARK if tokens is None else Value(tokens * 4096 * 4)
    return asks("peft.prepare_model_for_kbit_training", vocabulary=vocabulary, added=added)


def cast(dtype: str, keeps: Value) -> Model:
    return Model(where=at(13), role="cast", dtype=written(dtype), keeps=keeps)


def clipped(strict: Value) -> GradientRead:
    return GradientRead(where=at(35), role="clip", error_if_nonfinite=strict)


def fsdp(dtype: Value, scaler: Scaler) -> Trace:
    precision = asks("torch.distributed.fsdp.MixedPrecision", param_dtype=dtype)
    return trace(precision, Wrap(where=at(25), how=Value("fsdp")), scaler)


def made(loops: tuple[str, ...], sharded: Any = False) -> list[Event]:
    """A scaler that is built in this nest of loops, and steps in one loop."""
    init = Scaler(where=at(5), subject="s", operation="init", enabled=Value(True), sharded=Value(sharded), loops=loops)
    return [init, Scaler(where=at(6), subject="s", operation="step", loops=("train.py:4",))]


TF32 = "torch.backends.cuda.matmul.allow_tf32"
FP32 = "torch.backends.cuda.matmul.fp32_precision"
SDPA = "torch.nn.functional.scaled_dot_product_attention"
FP8 = "transformer_engine.pytorch.fp8_autocast"
DEEPSPEED = "deepspeed.initialize"
PLUGIN = "lightning.pytorch.plugins.BitsandbytesPrecision"
ACCUMULATION = "torch.backends.cuda.matmul.allow_fp16_accumulation"
FLEX = "torch.nn.attention.flex_attention.flex_attention"
CCE = "cut_cross_entropy.linear_cross_entropy"
QUANTIZE = "torchao.quantization.quantize_"


def named(name: str, value: Any) -> Switch:
    return Switch(where=at(6), name=name, value=written(value))


DDP = Wrap(where=at(25), how=Value("ddp"))
HOOK = "torch.nn.parallel.DistributedDataParallel.register_comm_hook"
POWER_SGD = "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState"
HALVED = Call(where=at(26), role="register_comm_hook", function=HOOK, arguments={"hook": Value("fp16_compress_hook")})
MIXED = autocast(written("float16"))
FLOAT32 = stepped("float32")


def replicas(normalization: str = "none", gradient_bytes: Value = NOT_SAID, **options: Any) -> Wrap:
    said = {name: value if isinstance(value, Value) else Value(value) for name, value in options.items()}
    known = Value(normalization)
    return Wrap(where=at(25), how=Value("ddp"), options=said, normalization=known, gradient_bytes=gradient_bytes)


def power_sgd(**arguments: Any) -> Call:
    said = {name: written(value) for name, value in arguments.items()}
    return Call(where=at(26), role="PowerSGDState", function=POWER_SGD, arguments=said)


def on(place: str, *events: Event) -> Trace:
    return Trace("predicted", find_target(place), {}, events)


YES, NO, MAYBE = True, False, None
Case = tuple[str, str, list[bool | None], Trace]


def product(shared: int, configuration: int = 0, configurations: int = 1) -> Call:
    """A `tl.dot` in a kernel that is launched with so many configurations."""
    return asks(
        "triton.language.dot",
        shared=written(shared),
        launch=Value(0),
        configuration=Value(configuration),
        configurations=Value(configurations),
    )


CASES: list[Case] = [
    # what the rule says of each candidate, in order
    ("bf16-mixed-precision", "engine", [YES], trace(engine(written("bf16")))),
    ("bf16-mixed-precision", "autocast", [YES], trace(autocast(written("bfloat16")))),
    ("bf16-mixed-precision", "autocast on an unknown device", [YES], trace(autocast(written("bfloat16"), device=DARK))),
    ("bf16-mixed-precision", "fp16", [NO, NO], trace(engine(written("fp16")), autocast(written("float16")))),
    ("bf16-mixed-precision", "switched off", [NO], trace(autocast(written("bfloat16"), enabled=False))),
    ("bf16-mixed-precision", "autocast on the CPU", [NO], trace(autocast(written("bfloat16"), device=Value("cpu")))),
    ("bf16-mixed-precision", "trains on the CPU", [NO], trace(engine(written("bf16")), step(device=Value("cpu")))),
    ("bf16-mixed-precision", "an engine's own autocast", [], trace(autocast(written("bfloat16"), role="engine"))),
    ("bf16-mixed-precision", "default of TRL", [NO], trace(engine(by_default("bf16"), "SFTConfig"))),
    ("bf16-mixed-precision", "default of a parser", [YES], trace(engine(written("bf16", 4, "default"), "SFTConfig"))),
    ("bf16-mixed-precision", "a guard decided", [NO], trace(BF16_ASKED, engine(from_guard("bf16")))),
    ("bf16-mixed-precision", "another guard", [YES], trace(BF16_ASKED, engine(from_guard("bf16", line=4)))),
    ("bf16-mixed-precision", "both flags", [NO], trace(both(Value(True), Value(True)), engine(written("bf16")))),
    ("bf16-mixed-precision", "unknown", [MAYBE], trace(engine(DARK))),
    ("bf16-guard-always-true", "engine", [YES], trace(BF16_ASKED, engine(from_guard("bf16")))),
    ("bf16-guard-always-true", "autocast", [YES], trace(BF16_ASKED, autocast(from_guard("bfloat16")))),
    ("bf16-guard-always-true", "weights", [YES], trace(BF16_ASKED, loaded(from_guard("bfloat16")))),
    ("bf16-guard-always-true", "observed", [YES], trace(BF16_ASKED, engine(Value("bf16")), basis="phantom")),
    ("bf16-guard-always-true", "only printed", [NO], trace(BF16_ASKED, engine(written("bf16")))),
    ("bf16-guard-always-true", "unsloth", [NO], trace(BF16_ASKED, engine(from_guard("bf16")), imported=("unsloth",))),
    (
        "bf16-guard-always-true",
        "a guard that is right",
        [NO],
        trace(
            asked(False, "unsloth.is_bfloat16_supported"),
            engine(from_guard("no")),
        ),
    ),
    (
        "bf16-guard-always-true",
        "a capability",
        [],
        trace(asked((7, 5), "torch.cuda.get_device_capability")),
    ),
    (
        "bf16-guard-always-true",
        "unknown answer",
        [MAYBE],
        trace(asked(None), engine(from_guard("bf16"))),
    ),
    ("trl-bf16-default", "nothing set", [YES], trace(engine(by_default("bf16"), "SFTConfig"))),
    ("trl-bf16-default", "set by hand", [NO], trace(engine(written("bf16"), "SFTConfig"))),
    ("trl-bf16-default", "fp16", [NO], trace(engine(written("fp16"), "DPOConfig"))),
    ("trl-bf16-default", "no TRL config", [], trace(engine(by_default("no")))),
    ("trl-bf16-default", "unsloth", [NO], trace(engine(by_default("bf16"), "SFTConfig"), imported=("unsloth",))),
    ("trl-bf16-default", "unknown", [MAYBE], trace(engine(DARK, "SFTConfig"))),
    ("bf16-weights", "loaded", [YES], trace(loaded(written("bfloat16")))),
    ("bf16-weights", "cast and trained", [YES], trace(loaded(written("bfloat16"), "cast"), step())),
    ("bf16-weights", "cast for saving", [NO], trace(step(), loaded(written("bfloat16"), "cast"))),
    ("bf16-weights", "kept on the CPU", [NO], trace(loaded(written("bfloat16"), device=written("cpu")))),
    ("bf16-weights", "the CPU only at first", [YES], trace(loaded(written("bfloat16"), device=by_default("cpu")))),
    ("bf16-weights", "fp16", [NO], trace(loaded(written("float16")))),
    ("bf16-weights", "no dtype asked for", [MAYBE], trace(Model(where=at(12), role="load", dtype=Value("bfloat16")))),
    ("bf16-weights", "beside bf16", [NO], trace(loaded(written("bfloat16")), engine(written("bf16")))),
    ("bf16-weights", "a guard decided", [NO], trace(BF16_ASKED, loaded(from_guard("bfloat16")))),
    (
        "bf16-weights",
        "cast before an unknown call",
        [MAYBE],
        trace(loaded(written("bfloat16"), "cast"), gaps=[Gap(frozenset({Forward}), "an unknown call")]),
    ),
    ("training-arguments-tf32", "on", [YES], trace(engine(written("fp16"), tf32=written(True)))),
    ("training-arguments-tf32", "off", [NO], trace(engine(written("fp16"), tf32=written(False)))),
    ("training-arguments-tf32", "unset", [NO], trace(engine(written("fp16"), tf32=by_default(None)))),
    ("training-arguments-tf32", "unknown", [MAYBE], trace(engine(written("fp16"), tf32=DARK))),
    ("contradicting-precision-settings", "two precisions", [YES], trace(deepspeed("fp16", bf16=True), engine(DARK))),
    ("contradicting-precision-settings", "agreed", [NO], trace(deepspeed("fp16", fp16=True), engine(DARK))),
    (
        "contradicting-precision-settings",
        "asked for, switched off",
        [YES],
        trace(deepspeed("fp16", fp16=False), engine(DARK)),
    ),
    ("contradicting-precision-settings", "unknown", [MAYBE], trace(deepspeed(None, bf16=True), engine(DARK))),
    ("contradicting-precision-settings", "accelerate without a say", [NO], trace(deepspeed("no", bf16=True))),
    ("contradicting-precision-settings", "auto", [], trace(deepspeed("fp16"), engine(DARK))),
    ("deepspeed-precision-unset", "no block", [YES], trace(asks(DEEPSPEED, precision_block=written(False)))),
    ("deepspeed-precision-unset", "a block", [NO], trace(asks(DEEPSPEED, precision_block=written(True)))),
    ("deepspeed-precision-unset", "unknown", [MAYBE], trace(asks(DEEPSPEED, precision_block=DARK))),
    (
        "deepspeed-precision-unset",
        "autocast by hand",
        [NO],
        trace(autocast(Value("float16")), asks(DEEPSPEED, precision_block=written(False))),
    ),
    ("bf16-auto", "nf4", [YES], trace(asks(PLUGIN, mode=written("nf4"), dtype=by_default(None)))),
    ("bf16-auto", "with a dtype", [NO], trace(asks(PLUGIN, mode=written("nf4"), dtype=written("float16")))),
    ("bf16-auto", "int8", [NO], trace(asks(PLUGIN, mode=written("int8"), dtype=by_default(None)))),
    ("bf16-auto", "unknown", [MAYBE], trace(asks(PLUGIN, mode=DARK, dtype=by_default(None)))),
    ("lightning-clip-with-fused-optimizer", "fused", [YES], trace(fitted(), built_optimizer(fused=written(True)))),
    ("lightning-clip-with-fused-optimizer", "not fused", [NO], trace(fitted(), built_optimizer(fused=written(False)))),
    (
        "lightning-clip-with-fused-optimizer",
        "no clipping",
        [NO],
        trace(fitted(clip=None), built_optimizer(fused=written(True))),
    ),
    ("lightning-clip-with-fused-optimizer", "L-BFGS", [YES], trace(fitted(clip=None), built_optimizer("LBFGS"))),
    ("lightning-clip-with-fused-optimizer", "unknown", [MAYBE], trace(fitted(), built_optimizer(fused=DARK))),
    ("lightning-clip-with-fused-optimizer", "no Lightning", [], trace(built_optimizer(fused=written(True)))),
    ("eps-below-fp16", "lost", [YES], trace(operation("lost epsilon", dtype=Value("float16"), constant=written(1e-8)))),
    (
        "eps-below-fp16",
        "float32",
        [NO],
        trace(operation("lost epsilon", dtype=Value("float32"), constant=written(1e-8))),
    ),
    ("eps-below-fp16", "unknown", [MAYBE], trace(operation("lost epsilon", dtype=DARK, constant=written(1e-8)))),
    ("fp16-reduction", "square", [YES], trace(operation("square", dtype=Value("float16"), autocast=Value("none")))),
    ("fp16-reduction", "on the CPU", [NO], trace(operation("square", dtype=Value("float16"), device=Value("cpu")))),
    ("fp16-reduction", "unknown", [MAYBE], trace(operation("var", dtype=DARK))),
    ("fp16-reduction", "in tanh", [NO], trace(operation("square", dtype=Value("float16"), absorbed=Value(True)))),
    ("fp16-reduction", "somewhere", [MAYBE], trace(operation("square", dtype=Value("float16"), absorbed=DARK))),
    ("softmax-over-fully-masked-row", "two", [YES], trace(operation("masked softmax", constant=Value(2)))),
    ("softmax-over-fully-masked-row", "one", [NO], trace(operation("masked softmax", constant=Value(1)))),
    ("softmax-over-fully-masked-row", "unknown", [MAYBE], trace(operation("masked softmax", constant=DARK))),
    ("backward-inside-autocast", "inside", [YES], trace(backward(inside_autocast=Value(True)))),
    ("backward-inside-autocast", "outside", [NO], trace(backward(inside_autocast=Value(False)))),
    (
        "backward-inside-autocast",
        "an engine's",
        [NO],
        trace(backward(inside_autocast=Value(True), engine="Accelerator")),
    ),
    ("backward-inside-autocast", "unknown", [MAYBE], trace(backward(inside_autocast=DARK))),
    ("fp16-accumulation", "training", [YES], trace(named(ACCUMULATION, True), step())),
    ("fp16-accumulation", "inference", [NO], trace(named(ACCUMULATION, True))),
    ("fp16-accumulation", "off", [NO], trace(named(ACCUMULATION, False), step())),
    ("fp16-accumulation", "unknown", [MAYBE], trace(Switch(where=at(6), name=ACCUMULATION, value=DARK), step())),
    ("tf32-switch", "on", [YES], trace(named(TF32, True))),
    ("tf32-switch", "off", [NO], trace(named(TF32, False))),
    ("tf32-switch", "precision", [YES], trace(named("torch.set_float32_matmul_precision", "high"))),
    ("tf32-switch", "unknown", [MAYBE], trace(Switch(where=at(6), name=TF32, value=DARK))),
    (
        "dims-not-multiple-of-8",
        "50257",
        [YES],
        trace(engine(written("fp16")), operation("layer", constant=written(50257))),
    ),
    (
        "dims-not-multiple-of-8",
        "50304",
        [NO],
        trace(engine(written("fp16")), operation("layer", constant=written(50304))),
    ),
    (
        "dims-not-multiple-of-8",
        "float32",
        [],
        trace(engine(written("no")), operation("layer", constant=written(50257))),
    ),
    ("dims-not-multiple-of-8", "unknown", [MAYBE], trace(engine(written("fp16")), operation("layer", constant=DARK))),
    ("fp16-conv-without-channels-last", "contiguous", [YES], trace(convolved("contiguous"))),
    ("fp16-conv-without-channels-last", "channels last", [NO], trace(convolved("channels_last"))),
    ("fp16-conv-without-channels-last", "no convolution", [], trace(convolved("none"))),
    ("fp16-conv-without-channels-last", "unknown", [MAYBE], trace(convolved(None))),
    (
        "fp32-training",
        "fp32",
        [YES, YES],
        trace(step(math=Value({"float32": 1.0})), step(math=Value({"float32": 1.0}))),
    ),
    (
        "fp32-training",
        "one finding",
        [YES],
        trace(step(math=Value({"float32": 1.0})), step(41, math=Value({"float32": 1.0}))),
    ),
    ("fp32-training", "device unknown", [YES], trace(step(device=DARK, math=Value({"float32": 1.0})))),
    ("fp32-training", "fp16", [NO], trace(step(math=Value({"float16": 0.98, "float32": 0.02})))),
    ("fp32-training", "on the CPU", [NO], trace(step(device=Value("cpu"), math=Value({"float32": 1.0})))),
    ("fp32-training", "fp16 somewhere", [NO], trace(autocast(written("float16")), step(math=Value({"float32": 1.0})))),
    ("fp32-training", "unknown", [MAYBE], trace(step(math=DARK))),
    ("autocast-without-gradscaler", "bare", [YES], trace(backward())),
    ("autocast-without-gradscaler", "device unknown", [YES], trace(backward(device=DARK))),
    ("autocast-without-gradscaler", "scaler off", [YES], trace(*scaler("backward", enabled=False))),
    ("autocast-without-gradscaler", "scaled", [NO], trace(*scaler("scale", "backward", "step:o", "update"))),
    ("autocast-without-gradscaler", "bf16", [NO], trace(backward(autocast="bfloat16"))),
    ("autocast-without-gradscaler", "no autocast", [NO], trace(backward(autocast="none"))),
    ("autocast-without-gradscaler", "an engine's", [NO], trace(backward(engine="Accelerator"))),
    ("autocast-without-gradscaler", "the scaled loss is dropped", [NO], trace(*scaler("scale"), backward())),
    ("autocast-without-gradscaler", "never scaled", [NO], trace(backward(), *scaler("step:o"))),
    (
        "autocast-without-gradscaler",
        "unknown",
        [MAYBE],
        trace(Backward(where=at(30), autocast=DARK, scaled_by=Value("none"))),
    ),
    ("gradscaler-call-order", "right", [NO] * 8, trace(*scaler(*["scale", "unscale:o", "step:o", "update"] * 2))),
    (
        "gradscaler-call-order",
        "unscaled twice",
        [NO, NO, YES],
        trace(*scaler("scale", "unscale:o", "unscale:o", "step:o")),
    ),
    ("gradscaler-call-order", "unscaled after step", [NO, NO, YES], trace(*scaler("scale", "step:o", "unscale:o"))),
    ("gradscaler-call-order", "no update", [NO, NO, NO, YES], trace(*scaler(*["scale", "step:o"] * 2, "update"))),
    ("gradscaler-call-order", "nothing scaled", [YES], trace(*scaler("step:o", "update"))),
    (
        "gradscaler-call-order",
        "updated twice",
        [NO, NO, NO, YES],
        trace(*scaler("scale", "step:o", "update", "update")),
    ),
    ("gradscaler-call-order", "two optimizers", [NO] * 4, trace(*scaler("scale", "step:a", "step:b", "update"))),
    ("gradscaler-call-order", "updated after unscale", [NO] * 3, trace(*scaler("scale", "unscale:o", "update"))),
    (
        "gradscaler-call-order",
        "the optimizer steps around the scaler",
        [NO, NO],
        trace(*scaler("scale", "backward"), step(), *scaler("update")[1:]),
    ),
    ("gradscaler-call-order", "off", [NO, NO], trace(*scaler("step:o", "step:o", enabled=False))),
    ("gradscaler-call-order", "which optimizer", [NO, MAYBE, MAYBE], trace(*scaler("scale", "step", "step:o"))),
    (
        "gradscaler-call-order",
        "an unknown call may update",
        [NO, NO, NO, MAYBE],
        trace(*scaler(*["scale", "step:o"] * 2), gaps=[Gap(frozenset({Scaler}), "an unknown call")]),
    ),
    (
        "gradscaler-call-order",
        "a run that ended by the exception hides nothing before it",
        [NO, NO, NO, YES],
        trace(*scaler(*["scale", "step:o"] * 2), gaps=[Gap(frozenset({Scaler}), "RuntimeError", later=True)]),
    ),
    ("gradscaler-bypassed", "plain step", [NO, YES], trace(*scaler("scale", "backward"), step())),
    (
        "gradscaler-bypassed",
        "loss dropped",
        [YES, NO],
        trace(*scaler("scale"), backward(), *scaler("step:optimizer")[1:], step()),
    ),
    ("gradscaler-bypassed", "right", [NO, NO], trace(*scaler("scale", "backward", "step:optimizer"), step())),
    (
        "gradscaler-bypassed",
        "unscaled by hand",
        [NO, NO],
        trace(*scaler("scale", "backward", "unscale:optimizer"), step()),
    ),
    ("gradscaler-bypassed", "no scaler", [NO, NO], trace(backward(), step())),
    ("gradscaler-bypassed", "off", [NO, NO], trace(*scaler("scale", "backward", enabled=False), step())),
    (
        "gradscaler-bypassed",
        "two optimizers in turn",
        [NO, NO, NO, NO],
        trace(
            *scaler("scale", "backward", "step:a"),
            step(subject="a"),
            *scaler("update")[1:],
            backward(),
            step(subject="b"),
        ),
    ),
    (
        "gradscaler-bypassed",
        "unknown",
        [NO, MAYBE],
        trace(Backward(where=at(30), scaled_by=DARK), step()),
    ),
    (
        "gradient-clipping-before-unscale",
        "clipped",
        [YES],
        trace(*scaler("scale", "backward"), GradientRead(where=at(35), role="clip"), *scaler("step:o", "update")[1:]),
    ),
    (
        "gradient-clipping-before-unscale",
        "unscaled first",
        [NO],
        trace(
            *scaler("scale", "backward", "unscale:o"), GradientRead(where=at(35), role="clip"), *scaler("step:o")[1:]
        ),
    ),
    (
        "gradient-clipping-before-unscale",
        "off",
        [NO],
        trace(*scaler("backward", enabled=False), GradientRead(where=at(35), role="clip"), *scaler("step:o")[1:]),
    ),
    (
        "gradient-clipping-before-unscale",
        "unknown",
        [MAYBE],
        trace(Backward(where=at(30), scaled_by=DARK), GradientRead(where=at(35), role="clip"), *scaler("step:o")),
    ),
    ("fp16-and-bf16-both-set", "both", [YES], trace(both(written(True), written(True, 2)))),
    ("fp16-and-bf16-both-set", "one", [NO], trace(both(written(True), written(False)))),
    ("fp16-and-bf16-both-set", "unknown", [MAYBE], trace(both(written(True), DARK))),
    (
        "flash-attention-backend",
        "flash",
        [YES] * 3,
        trace(
            Attention(where=at(12), role="config", implementation=written("flash_attention_2")),
            Attention(where=at(13), role="config", implementation=written("paged|flash_attention_2")),
            Attention(where=at(14), role="config", implementation=written("kernels-community/vllm-flash-attn3")),
        ),
    ),
    (
        "flash-attention-backend",
        "others",
        [NO, NO],
        trace(
            Attention(where=at(12), role="config", implementation=written("sdpa")),
            Attention(where=at(13), role="config", implementation=by_default(None)),
            Attention(where=at(14), role="call", implementation=written("flash_attention_2")),
        ),
    ),
    ("flash-attention-backend", "unknown", [MAYBE], trace(Attention(where=at(12), role="config", implementation=DARK))),
    ("micro-batch-too-large", "over", [YES], trace(full())),
    ("micro-batch-too-large", "fits", [NO], trace(full(peak=(8 * GIB, 12 * GIB)))),
    ("micro-batch-too-large", "states alone are over", [NO], trace(full(state=15 * GIB))),
    ("micro-batch-too-large", "straddles", [MAYBE], trace(full(peak=(12 * GIB, 20 * GIB)))),
    ("micro-batch-too-large", "unknown", [MAYBE], trace(step(micro_batch=written(32), peak=DARK))),
    ("pin-memory-disabled", "written", [YES], trace(loader(pin_memory=written(False)))),
    ("pin-memory-disabled", "default of a parser", [YES], trace(loader(pin_memory=written(False, 3, "default")))),
    ("pin-memory-disabled", "observed", [YES], trace(loader(pin_memory=Value(False, (Origin("observed", "False"),))))),
    ("pin-memory-disabled", "default of torch", [NO], trace(loader())),
    ("pin-memory-disabled", "pinned", [NO], trace(loader(pin_memory=written(True)))),
    ("pin-memory-disabled", "stays on the CPU", [NO], trace(loader(pin_memory=written(False), device=Value("cpu")))),
    ("pin-memory-disabled", "unknown", [MAYBE], trace(loader(pin_memory=DARK))),
    ("worker-options-without-workers", "persistent", [YES], trace(loader(persistent_workers=written(True)))),
    ("worker-options-without-workers", "prefetch", [YES], trace(loader(prefetch_factor=written(4)))),
    (
        "worker-options-without-workers",
        "workers",
        [NO],
        trace(loader(persistent_workers=written(True), workers=Value(2))),
    ),
    ("worker-options-without-workers", "no options", [NO], trace(loader())),
    (
        "worker-options-without-workers",
        "unknown",
        [MAYBE],
        trace(loader(persistent_workers=written(True), workers=DARK)),
    ),
    ("broadcast-buffers-every-step", "batch norm", [YES], trace(replicas("BatchNorm"), SCALED)),
    ("broadcast-buffers-every-step", "off", [NO], trace(replicas("BatchNorm", broadcast_buffers=False), SCALED)),
    (
        "broadcast-buffers-every-step",
        "new name",
        [NO],
        trace(replicas("BatchNorm", forward_sync_buffers=False), SCALED),
    ),
    ("broadcast-buffers-every-step", "observed", [YES], trace(replicas("BatchNorm", broadcast_buffers=None), SCALED)),
    ("broadcast-buffers-every-step", "shared statistics", [NO], trace(replicas("SyncBatchNorm"), SCALED)),
    ("broadcast-buffers-every-step", "unknown model", [MAYBE], trace(DDP, SCALED)),
    ("broadcast-buffers-every-step", "more options", [MAYBE], trace(replicas("BatchNorm", **{"**": DARK}), SCALED)),
    ("batchnorm-on-small-ddp-batch", "two", [YES], trace(replicas("BatchNorm"), SCALED, step(micro_batch=written(2)))),
    ("batchnorm-on-small-ddp-batch", "eight", [NO], trace(replicas("BatchNorm"), SCALED, step(micro_batch=written(8)))),
    ("batchnorm-on-small-ddp-batch", "unknown", [MAYBE], trace(replicas("BatchNorm"), SCALED, step())),
    ("gradient-bucket-view-off", "default", [YES], trace(replicas(), step(parameters=Value(300_000_000)))),
    ("gradient-bucket-view-off", "small", [NO], trace(replicas(), step(parameters=Value(3_000_000)))),
    (
        "gradient-bucket-view-off",
        "on",
        [NO],
        trace(replicas(gradient_as_bucket_view=True), step(parameters=Value(3e8))),
    ),
    ("gradient-bucket-view-off", "size unknown", [MAYBE], trace(replicas(), step())),
    ("gradient-bucket-view-off", "of the Trainer", [], trace(Wrap(where=at(25), role="engine", how=Value("ddp")))),
    (
        "gradient-bucket-view-off",
        "on the CPU",
        [NO],
        trace(replicas(), step(parameters=Value(3e8), device=Value("cpu"))),
    ),
    ("fp32-gradients-on-slow-network", "slow", [YES], on("GN7.2XLARGE32", launch(), MIXED, DDP, FLOAT32)),
    ("fp32-gradients-on-slow-network", "fast", [NO], on("g4dn.8xlarge", launch(), MIXED, DDP, FLOAT32)),
    ("fp32-gradients-on-slow-network", "nowhere", [MAYBE], trace(launch(), MIXED, DDP, FLOAT32)),
    (
        "fp32-gradients-on-slow-network",
        "hook",
        [NO],
        on("GN7.2XLARGE32", launch(), MIXED, DDP, HALVED, FLOAT32),
    ),
    (
        "fp32-gradients-on-slow-network",
        "seen in 16 bits",
        [NO],
        on("GN7.2XLARGE32", launch(), MIXED, replicas(gradient_bytes=Value(2.0)), FLOAT32),
    ),
    ("powersgd-hook", "a copy", [YES], trace(power_sgd())),
    ("powersgd-hook", "too early", [YES], trace(power_sgd(start_powerSGD_iter=1, use_error_feedback=False))),
    ("powersgd-hook", "no feedback", [NO], trace(power_sgd(use_error_feedback=False))),
    (
        "powersgd-hook",
        "unknown",
        [MAYBE],
        trace(Call(where=at(26), role="PowerSGDState", function=POWER_SGD, arguments={"use_error_feedback": DARK})),
    ),
    ("powersgd-hook", "another hook", [], trace(HALVED)),
    ("ddp-across-nodes", "network-bound", [YES], trace(launch(), DDP, needs_network((5.0, 9.0)))),
    ("ddp-across-nodes", "compute-bound", [NO], trace(launch(), DDP, needs_network((0.1, 0.4)))),
    ("ddp-across-nodes", "one node", [NO], trace(launch(nodes=1), DDP, needs_network((5.0, 9.0)))),
    (
        "ddp-across-nodes",
        "sharded",
        [NO],
        trace(launch(), Wrap(where=at(25), how=Value("zero1")), needs_network((5.0, 9.0))),
    ),
    ("ddp-across-nodes", "overlap", [MAYBE], trace(launch(), DDP, needs_network((0.8, 4.0)))),
    ("ddp-across-nodes", "unknown", [MAYBE], trace(launch(), DDP, step())),
    ("nccl-interface-unset", "unset", [YES], trace(launch())),
    ("nccl-interface-unset", "exported", [NO], trace(variable(written("^lo,docker")), launch())),
    ("nccl-interface-unset", "in the launch", [NO], trace(launch(environment={"NCCL_SOCKET_IFNAME": written("^lo")}))),
    ("nccl-interface-unset", "one node", [NO], trace(launch(nodes=1))),
    ("nccl-interface-unset", "gloo", [NO], trace(launch(), ProcessGroup(where=at(9), backend=Value("gloo")))),
    ("nccl-interface-unset", "unknown", [MAYBE], trace(launch(nodes=None))),
    ("nccl-interface-hard-coded", "name", [YES], trace(variable(written("eth0")), launch())),
    (
        "nccl-interface-hard-coded",
        "in the launch",
        [YES],
        trace(launch(environment={"NCCL_SOCKET_IFNAME": written("=ens5")})),
    ),
    ("nccl-interface-hard-coded", "loopback", [YES], trace(variable(written("lo")), launch())),
    (
        "nccl-interface-hard-coded",
        "loopback in one node",
        [NO],
        trace(variable(written("lo")), launch(nodes=1, per_node=2)),
    ),
    (
        "nccl-interface-hard-coded",
        "several in one node",
        [YES],
        trace(variable(written("eth0")), launch(nodes=1, per_node=2)),
    ),
    ("nccl-interface-hard-coded", "one process", [NO], trace(variable(written("eth0")), launch(nodes=1))),
    ("nccl-interface-hard-coded", "exclusion", [NO], trace(variable(written("^docker0,lo")), launch())),
    ("nccl-interface-hard-coded", "prefix", [NO], trace(variable(written("ens")), launch())),
    ("nccl-interface-hard-coded", "another variable", [], trace(variable(written("INFO"), "NCCL_DEBUG"), launch())),
    ("nccl-interface-hard-coded", "unknown", [MAYBE], trace(variable(DARK), launch())),
    ("gradscaler-bf16-gradients", "engine", [YES], trace(SCALED, stepped("bfloat16", engine="Trainer"))),
    (
        "gradscaler-bf16-gradients",
        "by hand",
        [YES],
        trace(*scaler("scale", "backward", "step:optimizer"), stepped("bfloat16", "float32")),
    ),
    ("gradscaler-bf16-gradients", "fp32", [NO], trace(SCALED, stepped("float32", engine="Trainer"))),
    ("gradscaler-bf16-gradients", "no scaler", [NO], trace(backward(), stepped("bfloat16", through=False))),
    (
        "gradscaler-bf16-gradients",
        "scaler off",
        [NO],
        trace(*scaler("scale", "step:optimizer", enabled=False), stepped("bfloat16")),
    ),
    (
        "gradscaler-bf16-gradients",
        "TRL casts",
        [NO],
        trace(quantized(), engine(written("fp16"), "SFTConfig"), SCALED, stepped("bfloat16", engine="Trainer")),
    ),
    ("gradscaler-bf16-gradients", "unknown", [MAYBE], trace(SCALED, stepped(engine="Trainer"))),
    ("gradscaler-fp16-gradients", "engine", [YES], trace(SCALED, stepped("float16", engine="Accelerator"))),
    ("gradscaler-fp16-gradients", "adapters", [NO], trace(SCALED, stepped("float32", engine="Trainer"))),
    ("gradscaler-fp16-gradients", "unknown", [MAYBE], trace(SCALED, stepped(engine="Trainer"))),
    ("pure-fp16-training", "no scaler", [YES], trace(backward(), stepped("float16", through=False))),
    ("pure-fp16-training", "scaler", [NO], trace(SCALED, stepped("float16", engine="Trainer"))),
    ("pure-fp16-training", "adapters in fp32", [NO], trace(stepped("float16", "float32", through=False))),
    ("pure-fp16-training", "unknown", [MAYBE], trace(stepped(through=False))),
    (
        "fp16-overflow-prone-model",
        "t5",
        [YES],
        trace(
            Model(
                where=at(12),
                role="load",
                subject="m",
                name=Value("t5-small"),
                family=Value("t5"),
                overflow=Value("forward"),
            ),
            step(trains=Value("m"), math=Value({"float16": 1.0})),
        ),
    ),
    (
        "fp16-overflow-prone-model",
        "t5 in fp32, and another family",
        [NO, NO],
        trace(
            Model(where=at(12), role="load", subject="m", family=Value("t5"), overflow=Value("forward")),
            Model(where=at(13), role="load", subject="n", family=Value("bert"), overflow=Value("none")),
            step(trains=Value("m"), math=Value({"float32": 1.0})),
            step(trains=Value("n"), math=Value({"float16": 1.0})),
        ),
    ),
    (
        "fp16-overflow-prone-model",
        "unknown",
        [MAYBE],
        trace(
            Model(where=at(12), role="load", subject="m", family=DARK, overflow=DARK),
            step(trains=Value("m"), math=Value({"float16": 1.0})),
        ),
    ),
    ("implicit-checkpoint-dtype", "auto", [YES], trace(loaded_as("auto", "bfloat16"), FORWARD)),
    ("implicit-checkpoint-dtype", "nothing given", [YES], trace(loaded_as(None, "bfloat16"), FORWARD)),
    ("implicit-checkpoint-dtype", "stored in fp32", [NO], trace(loaded_as("auto", "float32"), FORWARD)),
    ("implicit-checkpoint-dtype", "only loaded", [NO], trace(loaded_as("auto", "bfloat16"))),
    ("implicit-checkpoint-dtype", "written", [NO], trace(loaded_as("float16", "float16"), FORWARD)),
    (
        "implicit-checkpoint-dtype",
        "bf16 run",
        [NO],
        trace(loaded_as("auto", "bfloat16"), engine(written("bf16")), FORWARD),
    ),
    (
        "implicit-checkpoint-dtype",
        "unknown",
        [MAYBE],
        trace(Model(where=at(12), role="load", requested_dtype=written("auto"), dtype=DARK), FORWARD),
    ),
    ("bce-loss-under-autocast", "inside", [YES], trace(operation("binary_cross_entropy", autocast=Value("float16")))),
    (
        "bce-loss-under-autocast",
        "outside, and on the CPU",
        [NO, NO],
        trace(
            operation("binary_cross_entropy", autocast=Value("none")),
            operation("binary_cross_entropy", autocast=Value("float16"), device=Value("cpu")),
            operation("masked_fill", autocast=Value("float16")),
        ),
    ),
    ("bce-loss-under-autocast", "unknown", [MAYBE], trace(operation("binary_cross_entropy", autocast=DARK))),
    (
        "mask-constant-beyond-fp16",
        "beyond",
        [YES],
        trace(operation("masked_fill", dtype=Value("float16"), constant=written(-1e9))),
    ),
    (
        "mask-constant-beyond-fp16",
        "in range, infinite, in fp32",
        [NO, NO, NO],
        trace(
            operation("masked_fill", dtype=Value("float16"), constant=written(-1e4)),
            operation("full", dtype=Value("float16"), constant=written(float("-inf"))),
            operation("masked_fill", dtype=Value("float32"), constant=written(-1e9)),
        ),
    ),
    (
        "mask-constant-beyond-fp16",
        "unknown",
        [MAYBE, MAYBE],
        trace(
            operation("masked_fill", dtype=DARK, constant=written(-1e9)),
            operation("masked_fill", dtype=Value("float16"), constant=DARK),
        ),
    ),
    ("flash-attn-direct-call", "called", [YES], trace(called("flash_attn", kernel=Value("flash")))),
    ("flash-attn-direct-call", "version 1", [NO], trace(called("flash_attn", kernel=Value("flash 1")))),
    ("flash-attn-direct-call", "others", [], trace(called("sdpa", kernel=Value("flash")))),
    ("flash-attn-direct-call", "a fallback", [MAYBE], trace(called("flash_attn", kernel=DARK))),
    ("sdpa-restricted-to-flash", "context", [YES], trace(allowed(Value("none")))),
    (
        "sdpa-restricted-to-flash",
        "switches",
        [NO, YES],
        trace(switch("enable_math_sdp", written(False)), switch("enable_mem_efficient_sdp", written(False))),
    ),
    ("sdpa-restricted-to-flash", "efficient", [NO], trace(allowed(Value("efficient")))),
    ("sdpa-restricted-to-flash", "unknown", [MAYBE], trace(allowed(DARK))),
    ("mem-efficient-sdp-disabled", "off", [YES], trace(switch("enable_mem_efficient_sdp", written(False)))),
    ("mem-efficient-sdp-disabled", "on", [NO], trace(switch("enable_mem_efficient_sdp", written(True)))),
    (
        "mem-efficient-sdp-disabled",
        "nothing left",
        [NO],
        trace(switch("enable_math_sdp", written(False)), switch("enable_mem_efficient_sdp", written(False))),
    ),
    ("mem-efficient-sdp-disabled", "unknown", [MAYBE], trace(switch("enable_mem_efficient_sdp", DARK))),
    (
        "trl-qlora-with-fp16",
        "cast by TRL",
        [YES],
        trace(quantized(), engine(written("fp16"), "SFTConfig"), SCALED, stepped("bfloat16", engine="Trainer")),
    ),
    (
        "trl-qlora-with-fp16",
        "cast back",
        [NO],
        trace(quantized(), engine(written("fp16"), "SFTConfig"), SCALED, stepped("float32", engine="Trainer")),
    ),
    (
        "trl-qlora-with-fp16",
        "not quantized",
        [NO],
        trace(engine(written("fp16"), "SFTConfig"), SCALED, stepped("bfloat16", engine="Trainer")),
    ),
    (
        "trl-qlora-with-fp16",
        "unknown",
        [MAYBE],
        trace(quantized(), engine(written("fp16"), "SFTConfig"), SCALED, stepped(engine="Trainer")),
    ),
    ("bnb-compute-dtype-unset", "left out", [YES], trace(quantized(compute=NOT_GIVEN))),
    ("bnb-compute-dtype-unset", "float32 written", [NO], trace(quantized(compute=written("float32")))),
    ("bnb-compute-dtype-unset", "float16", [NO], trace(quantized(compute=written("float16")))),
    ("bnb-compute-dtype-unset", "overflows", [NO], trace(quantized(compute=NOT_GIVEN, overflow=Value("forward")))),
    ("bnb-compute-dtype-unset", "8 bits", [], trace(quantized("8bit"))),
    ("bnb-compute-dtype-unset", "unknown", [MAYBE], trace(quantized())),
    ("bnb-bf16-compute-dtype", "written", [YES], trace(quantized(compute=written("bfloat16")))),
    ("bnb-bf16-compute-dtype", "float16", [NO], trace(quantized(compute=written("float16")))),
    ("bnb-bf16-compute-dtype", "a guard", [NO], trace(BF16_ASKED, quantized(compute=from_guard("bfloat16")))),
    (
        "bnb-bf16-compute-dtype",
        "one flag for both",
        [NO],
        trace(quantized(compute=written("bfloat16", 4)), engine(written("bf16", 4))),
    ),
    ("bnb-bf16-compute-dtype", "unknown", [MAYBE], trace(quantized())),
    ("quantized-base-without-adapters", "refused", [YES], trace(built(Value("ValueError: purely quantized models")))),
    ("quantized-base-without-adapters", "accepted", [NO], trace(built(Value(None)))),
    ("quantized-base-without-adapters", "observed", [YES], trace(Exit(where=at(16), reason=Value("purely quantized")))),
    ("quantized-base-without-adapters", "unknown", [MAYBE], trace(built(DARK))),
    ("torch-compile-with-bf16", "bf16", [YES], trace(compiled(written("bfloat16")))),
    ("torch-compile-with-bf16", "fp16", [NO], trace(compiled(written("float16")))),
    ("torch-compile-with-bf16", "named elsewhere", [NO], trace(compiled(written("bfloat16")), engine(written("bf16")))),
    ("torch-compile-with-bf16", "unknown", [MAYBE], trace(compiled(DARK))),
    ("vllm-bfloat16", "asked for", [YES], trace(asks("vllm.LLM", dtype=written("bfloat16")))),
    ("vllm-bfloat16", "half", [NO], trace(asks("vllm.LLM", dtype=written("half")), asks("vllm.LLM"))),
    ("vllm-bfloat16", "unknown", [MAYBE], trace(asks("vllm.EngineArgs", dtype=DARK))),
    ("nonfinite-check-with-gradscaler", "strict", [YES], trace(backward("scaler"), clipped(written(True)))),
    ("nonfinite-check-with-gradscaler", "no scaler", [NO], trace(backward(), clipped(written(True)))),
    ("nonfinite-check-with-gradscaler", "lenient", [NO], trace(backward("scaler"), clipped(written(False)))),
    (
        "nonfinite-check-with-gradscaler",
        "scaler off",
        [NO],
        trace(*scaler("backward", enabled=False), clipped(written(True))),
    ),
    ("nonfinite-check-with-gradscaler", "unknown", [MAYBE], trace(backward("scaler"), clipped(DARK))),
    ("gradscaler-recreated-in-loop", "in the loop", [YES], trace(*made(("train.py:4",)))),
    ("gradscaler-recreated-in-loop", "before", [NO], trace(*made(()))),
    ("gradscaler-recreated-in-loop", "in an outer loop", [NO], trace(*made(("train.py:2",)))),
    (
        "gradscaler-recreated-in-loop",
        "unknown",
        [MAYBE],
        trace(replace(made(("train.py:4",))[0], enabled=DARK), made(("train.py:4",))[1]),  # type: ignore[call-arg]
    ),
    ("half-after-from-pretrained", "t5", [YES], trace(cast("float16", Value("wo")))),
    ("half-after-from-pretrained", "gpt2", [NO], trace(cast("float16", Value("")), cast("float32", Value("wo")))),
    ("half-after-from-pretrained", "unknown", [MAYBE], trace(cast("float16", DARK))),
    ("float64-on-cuda", "float64", [YES], trace(step(math=Value({"float64": 1.0})))),
    (
        "float64-on-cuda",
        "on the CPU, and float32",
        [NO, NO],
        trace(step(math=Value({"float64": 1.0}), device=Value("cpu")), step(math=Value({"float32": 1.0}))),
    ),
    ("float64-on-cuda", "unknown", [MAYBE], trace(step(math=DARK))),
    (
        "fsdp-fp16-with-plain-gradscaler",
        "plain",
        [YES],
        fsdp(written("float16"), made(())[0]),  # type: ignore[arg-type]
    ),
    (
        "fsdp-fp16-with-plain-gradscaler",
        "sharded",
        [NO],
        fsdp(written("float16"), made((), sharded=True)[0]),  # type: ignore[arg-type]
    ),
    (
        "fsdp-fp16-with-plain-gradscaler",
        "unknown",
        [MAYBE],
        fsdp(DARK, made(())[0]),  # type: ignore[arg-type]
    ),
    ("mixed-tf32-apis", "differ", [YES], trace(named(TF32, True), named(FP32, "ieee"))),
    ("mixed-tf32-apis", "agree", [NO], trace(named(TF32, True), named(FP32, "tf32"))),
    ("mixed-tf32-apis", "one of them", [], trace(named(FP32, "ieee"))),
    ("mixed-tf32-apis", "older torch", [NO], trace(named(TF32, True), named(FP32, "ieee"), torch="2.8.0")),
    (
        "mixed-tf32-apis",
        "unknown",
        [MAYBE],
        trace(named(TF32, True), Switch(where=at(6), name=FP32, value=DARK)),
    ),
    ("sdpa-enable-gqa", "torch 2.6", [YES], trace(asks(SDPA, enable_gqa=written(True)), torch="2.6.0")),
    ("sdpa-enable-gqa", "torch 2.14", [NO], trace(asks(SDPA, enable_gqa=written(True)), torch="2.14.0")),
    ("sdpa-enable-gqa", "no pin", [NO], trace(asks(SDPA, enable_gqa=written(True)))),
    ("sdpa-enable-gqa", "unknown", [MAYBE], trace(asks(SDPA, enable_gqa=DARK), torch="2.6.0")),
    ("flex-attention", "configuration", [YES], trace(configured("flex_attention"))),
    ("flex-attention", "call", [YES], trace(asks(FLEX, kernel_options=by_default(None)))),
    ("flex-attention", "call with tiles", [NO], trace(asks(FLEX, kernel_options=written({"BLOCK_M": 32})))),
    ("flex-attention", "sdpa", [NO], trace(configured("sdpa"))),
    ("flex-attention", "unknown", [MAYBE], trace(Attention(where=at(12), role="config", implementation=DARK))),
    ("eager-attention", "eager", [YES], trace(configured("eager"))),
    ("eager-attention", "sdpa", [NO], trace(configured("sdpa"))),
    ("eager-attention", "maps are wanted", [NO], trace(configured("eager"), maps())),
    (
        "eager-attention",
        "a family without SDPA",
        [NO],
        trace(Model(where=at(12), role="load", subject="m", family=Value("gemma2")), configured("eager", subject="m")),
    ),
    ("eager-attention", "unknown", [MAYBE], trace(Attention(where=at(12), role="config", implementation=DARK))),
    ("output-attentions-with-sdpa", "asked for", [YES], trace(maps())),
    ("output-attentions-with-sdpa", "eager", [NO], trace(maps(implementation=written("eager")))),
    ("output-attentions-with-sdpa", "switched off", [NO], trace(maps(asked=written(False)))),
    ("output-attentions-with-sdpa", "older transformers", [NO], trace(maps(), transformers="4.57.0")),
    ("output-attentions-with-sdpa", "another family", [MAYBE], trace(maps(family=Value("deberta")))),
    ("packing-without-varlen-attention", "packing", [YES], trace(asks("trl.SFTConfig", packing=written(True)))),
    ("packing-without-varlen-attention", "no packing", [NO], trace(asks("trl.SFTConfig", packing=written(False)))),
    ("packing-without-varlen-attention", "unknown", [MAYBE], trace(asks("trl.SFTConfig", packing=DARK))),
    (
        "packing-without-varlen-attention",
        "padding-free",
        [YES],
        trace(asks("trl.SFTConfig", padding_free=written(True))),
    ),
    (
        "packing-without-varlen-attention",
        "wrapped",
        [],
        trace(asks("trl.SFTConfig", packing=written(True), packing_strategy=written("wrapped"))),
    ),
    (
        "packing-without-varlen-attention",
        "flash attention has its own error",
        [NO],
        trace(asks("trl.SFTConfig", packing=written(True)), configured("flash_attention_2")),
    ),
    ("bf16-sdpa", "call", [YES], trace(called("sdpa", dtype=Value("bfloat16")))),
    ("bf16-sdpa", "fp16", [NO], trace(called("sdpa", dtype=Value("float16")))),
    ("bf16-sdpa", "unknown", [MAYBE], trace(called("sdpa", dtype=DARK))),
    (
        "bf16-sdpa",
        "long",
        [YES],
        trace(loaded(written("float32")), engine(written("bf16"), sequence_length=written(4096))),
    ),
    (
        "bf16-sdpa",
        "short",
        [NO],
        trace(loaded(written("float32")), engine(written("bf16"), sequence_length=written(512))),
    ),
    (
        "bf16-sdpa",
        "eager",
        [NO],
        trace(loaded(written("float32")), configured("eager"), engine(written("bf16"), sequence_length=written(4096))),
    ),
    ("head-dim-not-multiple-of-8", "50", [YES], trace(engine(written("fp16")), heads(50))),
    ("head-dim-not-multiple-of-8", "64", [NO], trace(engine(written("fp16")), heads(64))),
    ("head-dim-not-multiple-of-8", "float32", [], trace(engine(written("no")), heads(50))),
    ("head-dim-not-multiple-of-8", "unknown", [MAYBE], trace(engine(written("fp16")), heads(None))),
    ("xformers-bf16-attention", "bf16", [YES], trace(called("xformers", dtype=Value("bfloat16")))),
    ("xformers-bf16-attention", "fp16", [NO], trace(called("xformers", dtype=Value("float16")), called("sdpa"))),
    ("xformers-bf16-attention", "unknown", [MAYBE], trace(called("xformers", dtype=DARK))),
    ("transformer-engine-fp8", "on", [YES], trace(asks(FP8, enabled=written(True)))),
    ("transformer-engine-fp8", "off", [NO], trace(asks(FP8, enabled=written(False)))),
    ("transformer-engine-fp8", "unknown", [MAYBE], trace(asks(FP8, enabled=DARK))),
    (
        "torchao-float8",
        "training",
        [YES],
        trace(asks("torchao.float8.convert_to_float8_training", emulate=Value(False))),
    ),
    (
        "torchao-float8",
        "dynamic",
        [YES],
        trace(asks(QUANTIZE, config=Value("Float8DynamicActivationFloat8WeightConfig"))),
    ),
    ("lora-target-modules-unset", "no default", [YES], trace(adapters(targets=written("none")))),
    ("lora-target-modules-unset", "a default", [NO], trace(adapters(targets=written("default")))),
    ("lora-target-modules-unset", "named", [NO], trace(adapters(targets=written("named")))),
    ("lora-target-modules-unset", "unknown", [MAYBE], trace(adapters(targets=DARK))),
    ("lora-target-modules-unset", "another method", [], trace(adapters("IA3Config", targets=written("none")))),
    ("fp8-checkpoint", "fp8", [YES], trace(quantized("fp8"))),
    ("fp8-checkpoint", "fbgemm", [YES], trace(quantized("fbgemm_fp8"))),
    ("fp8-checkpoint", "4 bits", [NO], trace(quantized("4bit"))),
    ("fp8-checkpoint", "unknown", [MAYBE], trace(Model(where=at(12), role="load", quantization=DARK))),
    ("mxfp4-checkpoint", "mxfp4", [YES], trace(quantized("mxfp4"))),
    ("mxfp4-checkpoint", "unsloth", [], trace(quantized("mxfp4"), imported=("unsloth",))),
    ("mxfp4-checkpoint", "nvfp4", [YES], trace(asks("transformers.FPQuantConfig", pseudoquantization=written(True)))),
    (
        "mxfp4-checkpoint",
        "emulated",
        [NO],
        trace(asks("transformers.FPQuantConfig", pseudoquantization=written(True), forward_dtype=written("mxfp4"))),
    ),
    ("mxfp4-checkpoint", "unknown", [MAYBE], trace(Model(where=at(12), role="load", quantization=DARK))),
    ("unsupported-quantization-kernel", "AWQ", [YES], trace(asks("transformers.AwqConfig", backend=written("marlin")))),
    ("unsupported-quantization-kernel", "auto", [NO], trace(asks("transformers.AwqConfig", backend=written("auto")))),
    ("unsupported-quantization-kernel", "unsaid", [], trace(asks("transformers.AwqConfig"))),
    ("unsupported-quantization-kernel", "unknown", [MAYBE], trace(asks("transformers.AwqConfig", backend=DARK))),
    (
        "unsupported-quantization-kernel",
        "GPTQ in bf16",
        [YES],
        trace(
            asks("transformers.GPTQConfig", backend=written("marlin")),
            quantized("gptq", requested_dtype=written("bfloat16")),
        ),
    ),
    (
        "unsupported-quantization-kernel",
        "GPTQ in fp16",
        [NO],
        trace(
            asks("transformers.GPTQConfig", backend=written("marlin")),
            quantized("gptq", requested_dtype=written("float16")),
        ),
    ),
    ("accelerate-fp8", "fp8", [YES], trace(engine(written("fp8"), "Accelerator"))),
    ("accelerate-fp8", "fp16", [NO], trace(engine(written("fp16"), "Accelerator"))),
    ("accelerate-fp8", "unknown", [MAYBE], trace(engine(DARK, "Accelerator"))),
    ("accelerate-fp8", "another engine", [], trace(engine(written("fp8"), "Trainer"))),
    ("prepare-kbit-fp32-upcast", "large", [YES], trace(prepared_for(128_256))),
    ("prepare-kbit-fp32-upcast", "small", [NO], trace(prepared_for(32_000))),
    ("prepare-kbit-fp32-upcast", "unknown", [MAYBE], trace(prepared_for(None))),
    ("llm-int8-bf16-activations", "weights", [YES], trace(quantized("8bit", dtype=written("bfloat16")))),
    (
        "llm-int8-bf16-activations",
        "autocast",
        [YES],
        trace(quantized("8bit", dtype=written("float16")), engine(written("bf16"))),
    ),
    ("llm-int8-bf16-activations", "fp16", [NO], trace(quantized("8bit", dtype=written("float16")))),
    ("llm-int8-bf16-activations", "4 bits", [], trace(quantized("4bit", dtype=written("bfloat16")))),
    ("llm-int8-bf16-activations", "unknown", [MAYBE], trace(quantized("8bit", dtype=DARK))),
    (
        "torchao-float8",
        "emulated, and int8",
        [NO, NO],
        trace(
            asks("torchao.float8.convert_to_float8_training", emulate=Value(True)),
            asks(QUANTIZE, config=Value("Int8WeightOnlyConfig")),
        ),
    ),
    ("torchao-float8", "unknown", [MAYBE], trace(asks(QUANTIZE, config=DARK))),
    ("torchao-int4", "int4", [YES], trace(asks(QUANTIZE, config=Value("Int4WeightOnlyConfig")))),
    ("torchao-int4", "int8", [NO], trace(asks(QUANTIZE, config=Value("Int8WeightOnlyConfig")))),
    ("torchao-int4", "unknown", [MAYBE], trace(asks(QUANTIZE, config=DARK))),
    ("compile-max-autotune", "mode", [YES], trace(compiled(DARK, mode=written("max-autotune-no-cudagraphs")))),
    ("compile-max-autotune", "default mode", [NO], trace(compiled(DARK, mode=written("default")))),
    ("compile-max-autotune", "unknown mode", [MAYBE], trace(compiled(DARK, mode=DARK))),
    ("compile-max-autotune", "configuration", [YES], trace(named("torch._inductor.config.max_autotune", True))),
    ("compile-max-autotune", "another switch", [], trace(named("torch.backends.cudnn.benchmark", True))),
    ("torch-compile-in-trainer", "on", [YES], trace(asks("trl.SFTConfig", torch_compile=written(True)))),
    ("torch-compile-in-trainer", "off", [NO], trace(asks("trl.SFTConfig", torch_compile=written(False)))),
    ("torch-compile-in-trainer", "unknown", [MAYBE], trace(asks("transformers.TrainingArguments", torch_compile=DARK))),
    ("torch-compile-in-trainer", "not given", [], trace(asks("transformers.TrainingArguments"))),
    ("compiled-model-not-trained", "late", [YES], trace(compiled(DARK, late=written(True)), step(engine="Trainer"))),
    ("compiled-model-not-trained", "before", [NO], trace(compiled(DARK, late=written(False)), step(engine="Trainer"))),
    (
        "compiled-model-not-trained",
        "no training follows",
        [NO],
        trace(step(engine="Trainer"), compiled(DARK, late=written(True))),
    ),
    (
        "compiled-model-not-trained",
        "handed over",
        [NO],
        trace(compiled(DARK, late=written(True)), Compile(where=at(15), role="handed over"), step(engine="Trainer")),
    ),
    ("compiled-model-not-trained", "unknown", [MAYBE], trace(compiled(DARK, late=DARK), step(engine="Trainer"))),
    ("triton-tile-exceeds-shared-memory", "one way, too large", [YES], trace(product(98304))),
    ("triton-tile-exceeds-shared-memory", "exactly what there is", [NO], trace(product(65536))),
    (
        "triton-tile-exceeds-shared-memory",
        "one configuration fits",
        [NO],
        trace(product(98304, 0, 2), product(32768, 1, 2)),
    ),
    (
        "triton-tile-exceeds-shared-memory",
        "a configuration that is not known",
        [MAYBE],
        trace(product(98304, 0, 2), asks("triton.language.dot", shared=DARK)),
    ),
    (
        "triton-tile-exceeds-shared-memory",
        "the larger of two products",
        [YES],
        trace(product(32768), product(98304)),
    ),
    ("triton-unsupported-dtype", "fp8", [YES], trace(asks("triton.language.float8e4nv", dtype=written("fp8")))),
    ("triton-unsupported-dtype", "bf16", [YES], trace(asks("triton.language.bfloat16", dtype=written("bf16")))),
    ("triton-unsupported-dtype", "unknown", [MAYBE], trace(asks("triton.language.bfloat16", dtype=DARK))),
    ("triton-unsupported-dtype", "another type", [], trace(asks("triton.language.float16", dtype=written("fp16")))),
    ("triton-heavy-library", "group norm", [YES], trace(asks("liger_kernel.transformers.LigerGroupNorm"))),
    ("triton-heavy-library", "cross entropy", [YES], trace(asks(CCE, impl=by_default("cce")))),
    ("triton-heavy-library", "compiled cross entropy", [NO], trace(asks(CCE, impl=written("torch_compile")))),
    ("triton-heavy-library", "unknown", [MAYBE], trace(asks(CCE, impl=DARK))),
    ("triton-tl-dot", "dot", [YES], trace(asks("triton.language.dot"))),
    ("triton-tl-dot", "older triton", [NO], trace(asks("triton.language.dot"), triton="3.2.0")),
    ("triton-tl-dot", "older torch", [NO], trace(asks("triton.language.dot"), torch="2.6.0")),
]


# --- several processes -------------------------------------------------------------------------------------------

KAGGLE = find_target("kaggle-2xt4")
PRESUMED_ADDRESS = Value("127.0.0.1", (Origin("default", "unless it is given", at(1)),), likely=True)
PRESUMED_RANK = Value(0, (Origin("default", "unless it is given", at(1)),))
DARK_FLAGS = {"": unknown("$FLAGS is not known")}


def started(launcher: str = "torchrun", nodes: Any = 1, per_node: Any = 2, **fields: Any) -> Launch:
    return Launch(
        where=at(1),
        launcher=launcher,
        nodes=written(nodes) if nodes is not None else DARK,
        processes_per_node=written(per_node) if per_node is not None else DARK,
        **fields,
    )


def on_kaggle(*events: Event) -> Trace:
    return Trace("predicted", KAGGLE, {}, events)


GLOO = ProcessGroup(where=at(9), backend=written("gloo"))
NCCL = ProcessGroup(where=at(9), backend=written("nccl"))
SHM_OFF = {"NCCL_SHM_DISABLE": written("1")}
CASES += [
    ("more-processes-than-gpus", "four on two", [YES], on_kaggle(started(per_node=4))),
    ("more-processes-than-gpus", "two on two", [NO], on_kaggle(started())),
    ("more-processes-than-gpus", "an unknown machine", [MAYBE], trace(started(per_node=4))),
    ("more-processes-than-gpus", "unknown", [MAYBE], on_kaggle(started(per_node=None))),
    ("more-processes-than-gpus", "gloo", [NO], on_kaggle(GLOO, started(per_node=4))),
    ("more-processes-than-gpus", "python under srun", [NO], on_kaggle(started("python", per_node=4))),
    ("more-processes-than-gpus", "python with NCCL", [YES], on_kaggle(NCCL, started("python", per_node=4))),
    (
        "more-processes-than-gpus",
        "visible devices",
        [YES],
        trace(started(environment={"CUDA_VISIBLE_DEVICES": written("0")})),
    ),
    (
        "more-processes-than-gpus",
        "the program chooses",
        [MAYBE],
        trace(variable(written("0"), "CUDA_VISIBLE_DEVICES"), started()),
    ),
    (
        "more-processes-than-gpus",
        "shared on purpose",
        [NO],
        on_kaggle(started(per_node=4, environment={"NCCL_MULTI_RANK_GPU_ENABLE": written("1")})),
    ),
    ("more-processes-than-gpus", "on the CPU", [NO], on_kaggle(started(per_node=4, flags={"cpu": written("true")}))),
    (
        "master-addr-env-with-torchrun",
        "exported",
        [YES],
        trace(started(nodes=2, environment={"MASTER_ADDR": DARK}, rendezvous=PRESUMED_ADDRESS)),
    ),
    (
        "master-addr-env-with-torchrun",
        "handed over",
        [NO],
        trace(started(nodes=2, environment={"MASTER_ADDR": DARK}, rendezvous=written("node-0", how="flag"))),
    ),
    (
        "master-addr-env-with-torchrun",
        "a loopback address",
        [NO],
        trace(started(nodes=2, environment={"MASTER_ADDR": Value("localhost")}, rendezvous=PRESUMED_ADDRESS)),
    ),
    (
        "master-addr-env-with-torchrun",
        "accelerate",
        [NO],
        trace(started("accelerate", nodes=2, environment={"MASTER_ADDR": DARK})),
    ),
    (
        "master-addr-env-with-torchrun",
        "unknown flags",
        [MAYBE],
        trace(started(nodes=2, environment={"MASTER_ADDR": DARK}, flags=DARK_FLAGS, rendezvous=DARK)),
    ),
    (
        "master-addr-env-with-torchrun",
        "unknown nodes",
        [MAYBE],
        trace(started(nodes=None, environment={"MASTER_ADDR": DARK}, rendezvous=PRESUMED_ADDRESS)),
    ),
    ("loopback-rendezvous", "localhost", [YES], trace(started(nodes=2, rendezvous=written("localhost", how="flag")))),
    (
        "loopback-rendezvous",
        "nobody",
        [YES],
        trace(started("accelerate", nodes=2, rendezvous=Value(None, likely=True))),
    ),
    ("loopback-rendezvous", "presumed", [YES], trace(started(nodes=2, rendezvous=PRESUMED_ADDRESS))),
    ("loopback-rendezvous", "a name", [NO], trace(started(nodes=2, rendezvous=written("node-0", how="flag")))),
    ("loopback-rendezvous", "one node", [NO], trace(started(rendezvous=written("127.0.0.1", how="flag")))),
    (
        "loopback-rendezvous",
        "the first node",
        [MAYBE],
        trace(started(nodes=2, rendezvous=written("127.0.0.1"), node_rank=written(0, how="flag"))),
    ),
    (
        "loopback-rendezvous",
        "exported and not read",
        [NO],
        trace(started(nodes=2, environment={"MASTER_ADDR": Value("10.0.0.1")}, rendezvous=PRESUMED_ADDRESS)),
    ),
    (
        "loopback-rendezvous",
        "set by a program under srun",
        [YES],
        trace(started("python", nodes=2), variable(written("localhost"), "MASTER_ADDR")),
    ),
    ("loopback-rendezvous", "unknown", [MAYBE], trace(started(nodes=2))),
    ("torch-distributed-launch", "used", [YES], trace(started("torch.distributed.launch"))),
    ("torch-distributed-launch", "torchrun", [NO], trace(started())),
    ("torch-distributed-launch", "an old torch", [NO], trace(started("torch.distributed.launch"), torch="1.13.1")),
    ("torch-distributed-launch", "unknown", [MAYBE], trace(started("torch.distributed.launch", flags=DARK_FLAGS))),
    ("nccl-shm-disabled", "in the launch", [YES], trace(started(environment=SHM_OFF))),
    ("nccl-shm-disabled", "in the program", [YES], trace(started(), variable(written("1"), "NCCL_SHM_DISABLE"))),
    ("nccl-shm-disabled", "one process", [NO], trace(started(per_node=1, environment=SHM_OFF))),
    ("nccl-shm-disabled", "on", [NO], trace(started(environment={"NCCL_SHM_DISABLE": written("0")}))),
    ("nccl-shm-disabled", "gloo", [NO], trace(GLOO, started(environment=SHM_OFF))),
    ("nccl-shm-disabled", "unknown", [MAYBE], trace(started(per_node=None, environment=SHM_OFF))),
    (
        "num-processes-not-divisible",
        "three on two",
        [YES],
        trace(started("accelerate", nodes=2, flags={"num_processes": written("3")})),
    ),
    (
        "num-processes-not-divisible",
        "four on two",
        [NO],
        trace(started("accelerate", nodes=2, flags={"num_processes": written("4")})),
    ),
    (
        "num-processes-not-divisible",
        "one machine",
        [NO],
        trace(started("accelerate", flags={"num_processes": written("3")})),
    ),
    ("num-processes-not-divisible", "no total", [], trace(started("accelerate", nodes=2))),
    (
        "num-processes-not-divisible",
        "unknown",
        [MAYBE],
        trace(started("accelerate", nodes=2, flags={"num_processes": DARK})),
    ),
    (
        "node-rank-missing-or-frozen",
        "missing",
        [YES],
        trace(started(nodes=2, rendezvous=written("node-0", how="flag"), node_rank=PRESUMED_RANK)),
    ),
    (
        "node-rank-missing-or-frozen",
        "nothing said",
        [NO],
        trace(started(nodes=2, rendezvous=PRESUMED_ADDRESS, node_rank=PRESUMED_RANK)),
    ),
    (
        "node-rank-missing-or-frozen",
        "given by a variable",
        [NO],
        trace(started(nodes=2, rendezvous=DARK, node_rank=dark_at((Origin("flag", "--node_rank", at(1)),)))),
    ),
    ("node-rank-missing-or-frozen", "one node", [NO], trace(started(node_rank=PRESUMED_RANK))),
    (
        "node-rank-missing-or-frozen",
        "unknown",
        [MAYBE],
        trace(started(nodes=2, flags=DARK_FLAGS, rendezvous=DARK, node_rank=unknown("not all flags are known"))),
    ),
]


def holding(weights: float, gradients: float = 0, optimizer: float = 0, **fields: Any) -> Step:
    """A step whose components are known, in GiB."""
    bands = {"weights": weights, "gradients": gradients, "optimizer": optimizer}
    fields.setdefault("components", Value({name: (size * GIB, 2 * size * GIB) for name, size in bands.items()}))
    return step(**fields)


def emptied(loops: tuple[str, ...] = ("train.py:20",), **fields: Any) -> Call:
    return Call(where=at(36), function="torch.cuda.empty_cache", arguments={}, loops=loops, **fields)


def looped(retain: Value = NOT_SAID, loops: tuple[str, ...] = ("train.py:20",), line: int = 30) -> Backward:
    return Backward(where=at(line), loops=loops, retain_graph=retain)


def ran(grad: Any = True, training: Any = False, loops: tuple[str, ...] = ("train.py:60",), line: int = 61) -> Forward:
    known = Value(grad) if grad is not None else DARK
    return Forward(where=at(line), grad=known, training=Value(training), device=CUDA, loops=loops)


def evaluating(train: Any = 1, batch: Any = 8, strategy: Any = "steps") -> list[Event]:
    """A language model of three billion parameters that is trained and evaluated."""
    said = written(batch) if batch is not None else DARK
    return [
        Model(where=at(12), role="load", evidence="AutoModelForCausalLM"),
        engine(Value("fp16"), micro_batch=Value(train), eval_micro_batch=said, evaluates=Value(strategy)),
        step(parameters=Value(3_000_000_000)),
    ]


def trainer_given(model: str = "AutoModelForCausalLM", strategy: Any = "steps", **arguments: Value) -> list[Event]:
    return [
        Model(where=at(12), role="load", evidence=model),
        engine(Value("fp16"), evaluates=Value(strategy)),
        Call(where=at(16), function="transformers.Trainer", arguments=arguments),
    ]


NOTHING = Value(None)


def base_model(dtype: str = "float32", requested: Value = NOTHING, **fields: Any) -> Model:
    fields.setdefault("quantization", Value("none"))
    return Model(where=at(12), role="load", dtype=Value(dtype), requested_dtype=requested, **fields)


STEP_LOOP = ("train.py:18", "train.py:20")
METRICS = Value("compute_metrics")
ANOMALY = "torch.autograd.set_detect_anomaly"
THREE_BILLION = holding(11, parameters=Value(3_000_000_000))
LOST = [Gap(frozenset({Backward}), "an unknown call")]


def growing(activations: float, length: Any = 1024, off: Any = False, **fields: Any) -> list[Event]:
    """A step of which activations take so many GiB beside 4 GiB of state."""
    band = (activations * GIB, 1.3 * activations * GIB)
    parts = Value({"weights": (4 * GIB, 4 * GIB), "activations": band})
    settings = engine(Value("fp16"), activation_checkpointing=Value(off), sequence_length=Value(length))
    fields.setdefault("peak", Value(((4 + activations) * GIB, (4 + 1.3 * activations) * GIB)))
    return [settings, step(micro_batch=Value(4), components=parts, **fields)]


def random_weights() -> Model:
    return Model(where=at(5), role="create", dtype=Value("float32"))


def saves(names: Value | None = None) -> Call:
    given = {"modules_to_save": names or written(["lm_head", "embed_tokens"])}
    return Call(where=at(8), function="peft.LoraConfig", arguments=given)


def vocabulary(count: float) -> Step:
    return holding(3, trained_vocabulary=Value(count))


def sdxl(name: str = "stabilityai/stable-diffusion-xl-base-1.0") -> Model:
    return Model(where=at(5), role="load", name=written(name), evidence="diffusers.UNet2DConditionModel")


def noticed(value: Value) -> Switch:
    return Switch(where=at(6), name=ANOMALY, value=value)


CASES += [
    ("activation-checkpointing-off", "nearly full", [YES], trace(*growing(9))),
    ("activation-checkpointing-off", "room", [NO], trace(*growing(4))),
    ("activation-checkpointing-off", "over the card", [NO], trace(*growing(12))),
    ("activation-checkpointing-off", "on", [NO], trace(*growing(9, off=True))),
    ("activation-checkpointing-off", "few activations", [NO], trace(*growing(1, peak=Value((13 * GIB, 15 * GIB))))),
    ("activation-checkpointing-off", "unknown", [MAYBE], trace(*growing(9, peak=DARK))),
    ("sequence-length-too-long", "one sample is over", [YES], trace(*growing(44))),
    ("sequence-length-too-long", "a smaller batch fits", [NO], trace(*growing(16))),
    (
        "sequence-length-too-long",
        "the state alone is over",
        [NO],
        trace(engine(Value("fp16"), sequence_length=Value(64)), holding(16)),
    ),
    (
        "sequence-length-too-long",
        "unknown",
        [MAYBE],
        trace(engine(Value("fp16"), sequence_length=Value(64)), step(components=DARK)),
    ),
    ("large-model-pretraining", "large", [YES], trace(random_weights(), step(parameters=Value(1.1e9)))),
    ("large-model-pretraining", "small", [NO], trace(random_weights(), step(parameters=Value(1.2e8)))),
    (
        "large-model-pretraining",
        "a checkpoint beside it",
        [NO],
        trace(random_weights(), base_model(), step(parameters=Value(1.1e9))),
    ),
    ("large-model-pretraining", "unknown", [MAYBE], trace(random_weights(), step(parameters=DARK))),
    ("lora-trains-full-embeddings", "large", [YES], trace(saves(), vocabulary(0.5e9))),
    ("lora-trains-full-embeddings", "small", [NO], trace(saves(), vocabulary(0.06e9))),
    ("lora-trains-full-embeddings", "none", [NO], trace(saves(Value(None)), vocabulary(0))),
    ("lora-trains-full-embeddings", "unknown", [MAYBE], trace(saves(), holding(3, trained_vocabulary=DARK))),
    (
        "adam-fp32-state",
        "many",
        [YES],
        trace(engine(Value("fp16"), optimizer=written("adamw_torch")), holding(3, 3, 6)),
    ),
    ("adam-fp32-state", "few", [NO], trace(engine(Value("fp16"), optimizer=written("adamw_torch")), holding(1, 1, 2))),
    (
        "adam-fp32-state",
        "8 bits",
        [NO],
        trace(engine(Value("fp16"), optimizer=written("adamw_8bit")), holding(6, 6, 3)),
    ),
    ("adam-fp32-state", "unknown", [MAYBE], trace(engine(Value("fp16"), optimizer=DARK), holding(3, 3, 6))),
    ("sdxl-without-memory-savings", "full", [YES], trace(sdxl(), step())),
    (
        "sdxl-without-memory-savings",
        "adapters and checkpointing",
        [NO],
        trace(sdxl(), asks("peft.LoraConfig"), asks("gradient_checkpointing_enable"), step()),
    ),
    ("sdxl-without-memory-savings", "the first version", [NO], trace(sdxl("runwayml/stable-diffusion-v1-5"), step())),
    ("sdxl-without-memory-savings", "unknown", [MAYBE], trace(replace(sdxl(), name=DARK), step())),
]
CASES += [
    ("training-state-exceeds-gpu", "full", [YES], trace(holding(6, 6, 12))),
    ("training-state-exceeds-gpu", "one place, two steps", [YES], trace(holding(6, 6, 12), holding(6, 6, 12))),
    ("training-state-exceeds-gpu", "fits", [NO], trace(holding(2, 2, 4))),
    ("training-state-exceeds-gpu", "the weights alone", [NO], trace(holding(26, 26, 52))),
    ("training-state-exceeds-gpu", "on the CPU", [NO], trace(holding(6, 6, 12, device=Value("cpu")))),
    ("training-state-exceeds-gpu", "unknown", [MAYBE], trace(holding(0, components=DARK))),
    ("weights-exceed-gpu-memory", "too large", [YES], trace(holding(24))),
    ("weights-exceed-gpu-memory", "no room", [YES], trace(holding(12.6))),
    ("weights-exceed-gpu-memory", "fits", [NO], trace(holding(5.2))),
    ("weights-exceed-gpu-memory", "the whole state", [NO], trace(holding(12.6, 12.6, 25))),
    ("weights-exceed-gpu-memory", "on the CPU", [NO], trace(holding(24, device=Value("cpu")))),
    ("weights-exceed-gpu-memory", "unknown", [MAYBE], trace(holding(0, components=DARK))),
    ("implicit-fp32-weights", "adapters", [YES], trace(base_model(), THREE_BILLION, imported=("peft",))),
    (
        "implicit-fp32-weights",
        "a library asked for it",
        [YES],
        trace(base_model(requested=by_default("float32")), THREE_BILLION, imported=("peft",)),
    ),
    (
        "implicit-fp32-weights",
        "asked for",
        [NO],
        trace(base_model(requested=written("float32")), THREE_BILLION, imported=("peft",)),
    ),
    ("implicit-fp32-weights", "float16", [NO], trace(base_model("float16"), THREE_BILLION, imported=("peft",))),
    ("implicit-fp32-weights", "unsloth", [NO], trace(base_model(), THREE_BILLION, imported=("peft", "unsloth"))),
    (
        "implicit-fp32-weights",
        "small",
        [NO],
        trace(base_model(), holding(1, parameters=Value(300_000_000)), imported=("peft",)),
    ),
    (
        "implicit-fp32-weights",
        "does not fit at all",
        [NO],
        trace(base_model(), holding(26, parameters=Value(7_000_000_000)), imported=("peft",)),
    ),
    ("implicit-fp32-weights", "nothing says what is frozen", [MAYBE], trace(base_model(), THREE_BILLION)),
    ("too-many-dataloader-workers", "eight on Colab", [YES], on("colab", loader(workers=written(8)))),
    ("too-many-dataloader-workers", "two on Colab", [NO], on("colab", loader(workers=written(2)))),
    (
        "too-many-dataloader-workers",
        "four in each of two processes",
        [YES],
        on("kaggle", launch(nodes=1, per_node=2), loader(workers=written(4))),
    ),
    ("too-many-dataloader-workers", "an unknown machine", [], trace(loader(workers=written(8)))),
    ("too-many-dataloader-workers", "unknown", [MAYBE], on("colab", loader(workers=DARK))),
    (
        "dataset-on-network-mount",
        "Drive",
        [YES],
        trace(DataRead(where=at(14), root=written("/content/drive/MyDrive/images"))),
    ),
    ("dataset-on-network-mount", "a bucket", [YES], trace(DataRead(where=at(14), root=written("/gcs/bucket")))),
    ("dataset-on-network-mount", "local", [NO], trace(DataRead(where=at(14), root=written("/content/images")))),
    ("dataset-on-network-mount", "a like name", [NO], trace(DataRead(where=at(14), root=written("/gcs2/images")))),
    ("dataset-on-network-mount", "unknown", [MAYBE], trace(DataRead(where=at(14), root=DARK))),
    ("iterable-dataset-not-sharded", "two", [YES], trace(loader(repeats=Value(True), workers=written(2)))),
    ("iterable-dataset-not-sharded", "one", [NO], trace(loader(repeats=Value(True), workers=written(1)))),
    ("iterable-dataset-not-sharded", "split", [NO], trace(loader(repeats=Value(False), workers=written(2)))),
    ("iterable-dataset-not-sharded", "unknown", [MAYBE], trace(loader(workers=written(2)))),
    ("empty-cache-in-loop", "every step", [YES], trace(*[looped(), emptied()] * 2)),
    ("empty-cache-in-loop", "the first of two", [NO], trace(looped(), emptied(), looped())),
    (
        "empty-cache-in-loop",
        "an outer loop",
        [NO],
        trace(*[looped(loops=STEP_LOOP), looped(loops=STEP_LOOP), emptied()]),
    ),
    ("empty-cache-in-loop", "no loop", [NO], trace(emptied(()), looped(), looped())),
    ("empty-cache-in-loop", "a test", [MAYBE], trace(*[looped(), emptied(guards=frozenset({("low", True)}))] * 2)),
    ("empty-cache-in-loop", "a backward may be lost", [MAYBE], trace(emptied(), gaps=LOST)),
    ("anomaly-detection-left-on", "on", [YES], trace(noticed(written(True)), step())),
    ("anomaly-detection-left-on", "off", [NO], trace(noticed(written(False)), step())),
    (
        "anomaly-detection-left-on",
        "off again",
        [NO, NO],
        trace(noticed(written(True)), noticed(written(False)), step()),
    ),
    ("anomaly-detection-left-on", "nothing trains", [NO], trace(noticed(written(True)))),
    ("anomaly-detection-left-on", "another switch", [], trace(switch("matmul.allow_tf32", written(True)), step())),
    ("anomaly-detection-left-on", "unknown", [MAYBE], trace(noticed(DARK), step())),
    ("retain-graph-in-loop", "alone", [YES], trace(*[ran(loops=STEP_LOOP), looped(written(True), STEP_LOOP)] * 2)),
    ("retain-graph-in-loop", "not kept", [NO], trace(*[ran(loops=STEP_LOOP), looped(written(False), STEP_LOOP)] * 2)),
    (
        "retain-graph-in-loop",
        "two losses",
        [NO, NO],
        trace(ran(loops=STEP_LOOP), looped(written(True), STEP_LOOP), looped(written(False), STEP_LOOP, line=31)),
    ),
    (
        "retain-graph-in-loop",
        "a loop over losses",
        [NO],
        trace(ran(loops=STEP_LOOP), *[looped(written(True), (*STEP_LOOP, "train.py:29"))] * 2),
    ),
    (
        "retain-graph-in-loop",
        "gradients by hand",
        [NO],
        trace(
            ran(loops=STEP_LOOP),
            looped(written(True), STEP_LOOP),
            Call(where=at(31), function="torch.autograd.grad", arguments={}),
        ),
    ),
    ("retain-graph-in-loop", "unknown", [MAYBE], trace(ran(loops=STEP_LOOP), looped(DARK, STEP_LOOP))),
    ("retain-graph-in-loop", "lost", [MAYBE], trace(ran(loops=STEP_LOOP), looped(written(True), STEP_LOOP), gaps=LOST)),
    ("eval-without-no-grad", "after training", [YES], trace(looped(), ran())),
    ("eval-without-no-grad", "no grad", [NO], trace(looped(), ran(grad=False))),
    ("eval-without-no-grad", "training mode", [], trace(looped(), ran(training=True))),
    ("eval-without-no-grad", "a backward in the loop", [NO], trace(ran(loops=STEP_LOOP), looped(loops=STEP_LOOP))),
    (
        "eval-without-no-grad",
        "a backward after the loop",
        [NO],
        trace(ran(loops=STEP_LOOP), looped(loops=STEP_LOOP[:1])),
    ),
    ("eval-without-no-grad", "no loop", [], trace(looped(), ran(loops=()))),
    ("eval-without-no-grad", "unknown", [MAYBE], trace(looped(), ran(grad=None))),
    ("eval-without-no-grad", "a backward may be lost", [MAYBE], trace(ran(), gaps=LOST)),
    ("eval-batch-larger-than-train", "larger", [YES], trace(*evaluating())),
    ("eval-batch-larger-than-train", "the same", [NO], trace(*evaluating(batch=1))),
    ("eval-batch-larger-than-train", "a large train batch", [NO], trace(*evaluating(train=8, batch=16))),
    ("eval-batch-larger-than-train", "no evaluation", [NO], trace(*evaluating(strategy="no"))),
    ("eval-batch-larger-than-train", "unsloth", [NO], trace(*evaluating(), imported=("unsloth",))),
    ("eval-batch-larger-than-train", "no language model", [NO], trace(*evaluating()[1:])),
    ("eval-batch-larger-than-train", "unknown", [MAYBE], trace(*evaluating(batch=None))),
    ("eval-logits-kept-on-gpu", "kept", [YES], trace(*trainer_given(compute_metrics=METRICS))),
    ("eval-logits-kept-on-gpu", "no metrics", [NO], trace(*trainer_given())),
    (
        "eval-logits-kept-on-gpu",
        "preprocessed",
        [NO],
        trace(*trainer_given(compute_metrics=METRICS, preprocess_logits_for_metrics=Value("argmax"))),
    ),
    (
        "eval-logits-kept-on-gpu",
        "a classifier",
        [NO],
        trace(*trainer_given("AutoModelForSequenceClassification", compute_metrics=METRICS)),
    ),
    ("eval-logits-kept-on-gpu", "no evaluation", [NO], trace(*trainer_given(strategy="no", compute_metrics=METRICS))),
    ("eval-logits-kept-on-gpu", "open", [MAYBE], trace(*trainer_given(compute_metrics=METRICS, **{"**": DARK}))),
    ("eval-logits-kept-on-gpu", "unknown", [MAYBE], trace(*trainer_given(compute_metrics=DARK))),
]

PARALLEL = Wrap(where=at(25), how=written("ddp"), reduces=Value("always"), data=Value("whole"))
IN_DATA_PARALLEL = Wrap(where=at(25), how=written("data_parallel"))
BY_TRAINER = step(engine="Trainer")
SPREAD = Model(where=at(12), role="load", device_map=written("auto"))
IS_AVAILABLE = "torch.cuda.is_available"
SAMPLER = "torch.utils.data.distributed.DistributedSampler"


def engine_wrap(how: Any, **options: Value) -> Wrap:
    return Wrap(where=at(40), role="engine", how=Value(how) if how else DARK, options=options)


def in_4bit(device_map: Value, kind: str = "4bit") -> Model:
    return Model(where=at(12), role="load", quantization=written(kind), device_map=device_map)


def shuffled(sampler: str = "none", shuffle: Value | None = None) -> Loader:
    asked = written(True) if shuffle is None else shuffle
    return loader(shuffle=asked, sampler=Value(sampler), device=CUDA)


def sampled(shuffle: Value | None = None) -> Call:
    asked = by_default(True) if shuffle is None else shuffle
    return Call(where=at(11), function=SAMPLER, arguments={"shuffle": asked})


TOLD = Call(where=at(28), function=f"{SAMPLER}.set_epoch", arguments={})
IN_EPOCHS = step(loops=("train.py:27", "train.py:29"))
DRAWN = loader(sampler=Value("DistributedSampler"))


def forked(function: Value, processes: Value | None = None) -> Call:
    count = written(2) if processes is None else processes
    return Call(
        where=at(50), function="accelerate.notebook_launcher", arguments={"function": function, "num_processes": count}
    )


def override(takes: bool, method: str = "compute_loss") -> Call:
    """A method of an own Trainer."""
    said = {"num_items_in_batch": Value(takes)}
    return Call(where=at(8), role="override", function=f"transformers.Trainer.{method}", arguments=said)


def gone(name: str, library: str = "transformers") -> Call:
    """A name that not every version of a library has."""
    said = {name.rpartition(".")[2]: Value(None)}
    return Call(where=at(8), role="symbol", function=f"{library}.{name}", arguments=said)


def takes_argument(name: str, function: str = "transformers.TrainingArguments", **fields: Any) -> Call:
    return Call(where=at(10), function=function, arguments={name: written("epoch")}, **fields)


CASES += [
    ("trainer-implicit-dataparallel", "wrapped", [YES], on_kaggle(engine_wrap("data_parallel"))),
    ("trainer-implicit-dataparallel", "ddp", [NO], on_kaggle(engine_wrap("ddp"))),
    ("trainer-implicit-dataparallel", "by hand", [], on_kaggle(IN_DATA_PARALLEL)),
    ("trainer-implicit-dataparallel", "unknown", [MAYBE], on_kaggle(engine_wrap(None))),
    ("nn-dataparallel", "trains", [YES], trace(IN_DATA_PARALLEL, step())),
    ("nn-dataparallel", "ddp", [NO], trace(PARALLEL, step())),
    ("nn-dataparallel", "evaluates", [NO], trace(IN_DATA_PARALLEL)),
    (
        "nn-dataparallel",
        "one device",
        [NO],
        trace(Wrap(where=at(25), how=written("data_parallel"), options={"device_ids": written([0])}), step()),
    ),
    (
        "nn-dataparallel",
        "unknown devices",
        [MAYBE],
        trace(Wrap(where=at(25), how=written("data_parallel"), options={"device_ids": DARK}), step()),
    ),
    ("nn-dataparallel", "the Trainer's own", [], trace(engine_wrap("data_parallel"), step())),
    ("quantized-batch-doubling", "no map", [YES], on_kaggle(in_4bit(Value(None)), BY_TRAINER)),
    ("quantized-batch-doubling", "one device", [YES], on_kaggle(in_4bit(Value({"": 0}), "8bit"), BY_TRAINER)),
    ("quantized-batch-doubling", "spread", [NO], on_kaggle(in_4bit(written("auto")), BY_TRAINER)),
    ("quantized-batch-doubling", "not quantized", [NO], on_kaggle(in_4bit(Value(None), "none"), BY_TRAINER)),
    ("quantized-batch-doubling", "two processes", [NO], on_kaggle(started(), in_4bit(Value(None)), BY_TRAINER)),
    ("quantized-batch-doubling", "unknown machine", [NO], trace(in_4bit(Value(None)), BY_TRAINER)),
    (
        "quantized-batch-doubling",
        "one visible",
        [NO],
        on_kaggle(variable(written("0"), "CUDA_VISIBLE_DEVICES"), in_4bit(Value(None)), BY_TRAINER),
    ),
    ("quantized-batch-doubling", "unknown", [MAYBE], on_kaggle(in_4bit(DARK), BY_TRAINER)),
    ("device-map-auto-distributed", "two processes", [YES], trace(started(), SPREAD, step())),
    ("device-map-auto-distributed", "one process", [NO], trace(started(per_node=1), SPREAD, step())),
    ("device-map-auto-distributed", "inference", [NO], trace(started(), SPREAD)),
    (
        "device-map-auto-distributed",
        "one device",
        [NO],
        trace(started(), Model(where=at(12), role="load", device_map=Value({"": 0})), step()),
    ),
    ("device-map-auto-distributed", "no launch", [MAYBE], trace(SPREAD, step())),
    (
        "device-map-auto-distributed",
        "bypassed",
        [NO],
        trace(started(environment={"ACCELERATE_BYPASS_DEVICE_MAP": Value("true")}), SPREAD, step()),
    ),
    ("gloo-backend-on-cuda", "gloo", [YES], trace(started(), GLOO, PARALLEL, step())),
    ("gloo-backend-on-cuda", "nccl", [NO], trace(started(), NCCL, PARALLEL, step())),
    ("gloo-backend-on-cuda", "on the CPU", [NO], trace(started(), GLOO, PARALLEL, step(device=Value("cpu")))),
    ("gloo-backend-on-cuda", "beside nccl", [NO, NO], trace(started(), NCCL, GLOO, PARALLEL, step())),
    ("gloo-backend-on-cuda", "one process", [NO], trace(started(per_node=1), GLOO, PARALLEL, step())),
    ("gloo-backend-on-cuda", "unknown", [MAYBE], trace(started(), GLOO, PARALLEL, step(device=DARK))),
    ("ddp-without-distributed-sampler", "shuffled", [YES], trace(PARALLEL, shuffled())),
    ("ddp-without-distributed-sampler", "sampled", [NO], trace(PARALLEL, shuffled("DistributedSampler", Value(False)))),
    ("ddp-without-distributed-sampler", "one process", [NO], trace(started(per_node=1), PARALLEL, shuffled())),
    ("ddp-without-distributed-sampler", "no ddp", [], trace(shuffled())),
    (
        "ddp-without-distributed-sampler",
        "split somewhere",
        [MAYBE],
        trace(Wrap(where=at(25), how=written("ddp"), data=DARK), shuffled()),
    ),
    ("sampler-without-set-epoch", "forgotten", [YES], trace(sampled(), DRAWN, IN_EPOCHS)),
    ("sampler-without-set-epoch", "told", [NO], trace(sampled(), DRAWN, TOLD, IN_EPOCHS)),
    ("sampler-without-set-epoch", "in order", [NO], trace(sampled(Value(False)), DRAWN, IN_EPOCHS)),
    ("sampler-without-set-epoch", "one epoch", [NO], trace(sampled(), DRAWN, step(loops=("train.py:29",)))),
    ("sampler-without-set-epoch", "accelerate", [NO], trace(sampled(), DRAWN, IN_EPOCHS, imported=("accelerate",))),
    ("sampler-without-set-epoch", "unknown", [MAYBE], trace(sampled(DARK), DRAWN, IN_EPOCHS)),
    ("accumulation-without-no-sync", "every one", [YES], trace(started(), PARALLEL, step(backwards=Value(4)))),
    ("accumulation-without-no-sync", "no accumulation", [NO], trace(started(), PARALLEL, step(backwards=Value(1)))),
    (
        "accumulation-without-no-sync",
        "one process",
        [NO],
        trace(started(per_node=1), PARALLEL, step(backwards=Value(4))),
    ),
    (
        "accumulation-without-no-sync",
        "adapters",
        [NO],
        trace(started(), PARALLEL, step(backwards=Value(4)), imported=("peft",)),
    ),
    (
        "accumulation-without-no-sync",
        "small",
        [NO],
        trace(started(), PARALLEL, step(backwards=Value(4), parameters=Value(1_000_000))),
    ),
    (
        "accumulation-without-no-sync",
        "chosen somewhere",
        [MAYBE],
        trace(started(), Wrap(where=at(25), how=written("ddp"), reduces=DARK), step(backwards=Value(4))),
    ),
    ("accumulation-without-no-sync", "unknown", [MAYBE], trace(started(), PARALLEL, step())),
    (
        "find-unused-parameters",
        "the Trainer's default",
        [YES],
        trace(engine_wrap("ddp", find_unused_parameters=by_default(True))),
    ),
    ("find-unused-parameters", "off", [NO], trace(engine_wrap("ddp", find_unused_parameters=written(False)))),
    ("find-unused-parameters", "nothing said", [], trace(engine_wrap("ddp"))),
    ("find-unused-parameters", "written", [MAYBE], trace(engine_wrap("ddp", find_unused_parameters=written(True)))),
    ("notebook-launcher-given-a-call", "a result", [YES], trace(forked(Value(None)))),
    ("notebook-launcher-given-a-call", "a function", [NO], trace(forked(Value("train")))),
    ("notebook-launcher-given-a-call", "unknown", [MAYBE], trace(forked(DARK))),
    ("notebook-launcher-after-cuda-init", "asked", [YES], trace(asked(True, IS_AVAILABLE), forked(Value("train")))),
    (
        "notebook-launcher-after-cuda-init",
        "asked later",
        [NO],
        trace(forked(Value("train")), asked(True, IS_AVAILABLE)),
    ),
    (
        "notebook-launcher-after-cuda-init",
        "counted",
        [NO],
        trace(asked(1, "torch.cuda.device_count"), forked(Value("train"))),
    ),
    (
        "notebook-launcher-after-cuda-init",
        "asked through NVML",
        [NO],
        trace(variable(Value("1"), "PYTORCH_NVML_BASED_CUDA_CHECK"), asked(True, IS_AVAILABLE), forked(Value("train"))),
    ),
    (
        "notebook-launcher-after-cuda-init",
        "arguments outside",
        [YES],
        trace(engine(written("fp16")), forked(Value("train"))),
    ),
    ("notebook-launcher-after-cuda-init", "the GPU", [YES], trace(loaded(DARK, device=CUDA), forked(Value("train")))),
    (
        "notebook-launcher-after-cuda-init",
        "imported",
        [YES],
        trace(forked(Value("train")), imported=("bitsandbytes",)),
    ),
    (
        "notebook-launcher-after-cuda-init",
        "one process",
        [NO],
        trace(asked(True, IS_AVAILABLE), forked(Value("train"), written(1))),
    ),
    ("notebook-launcher-after-cuda-init", "a result", [NO], trace(asked(True, IS_AVAILABLE), forked(Value(None)))),
    (
        "notebook-launcher-after-cuda-init",
        "unknown",
        [MAYBE],
        trace(asked(True, IS_AVAILABLE), forked(Value("train"), DARK)),
    ),
    ("removed-argument", "unpinned", [YES], trace(takes_argument("evaluation_strategy"))),
    ("removed-argument", "pinned", [YES], trace(takes_argument("evaluation_strategy"), transformers="4.52.0")),
    ("removed-argument", "older", [NO], trace(takes_argument("evaluation_strategy"), transformers="4.44.2")),
    ("removed-argument", "between", [MAYBE], trace(takes_argument("evaluation_strategy"), transformers="4.51.0")),
    (
        "removed-argument",
        "own field",
        [NO],
        trace(takes_argument("group_by_length", accepts=Value(("group_by_length",)))),
    ),
    ("outdated-override", "unpinned", [YES], trace(override(False))),
    ("outdated-override", "pinned", [YES], trace(override(False), transformers="5.2.0")),
    ("outdated-override", "takes it", [NO], trace(override(True))),
    ("outdated-override", "older", [NO], trace(override(False), transformers="4.44.2")),
    ("outdated-override", "between", [MAYBE], trace(override(False), transformers="4.45.9")),
    ("outdated-override", "another method", [], trace(override(False, "evaluate"))),
    (
        "removed-argument",
        "a tokenizer",
        [YES],
        trace(gone("PreTrainedTokenizerBase.encode_plus"), transformers="5.2.0"),
    ),
    ("removed-argument", "another call", [], trace(takes_argument("tokenizer", "transformers.pipeline"))),
    ("removed-argument", "Trainer", [YES], trace(takes_argument("tokenizer", "transformers.Trainer"))),
    (
        "removed-argument",
        "from_pretrained",
        [YES],
        trace(takes_argument("load_in_4bit", "transformers.AutoModelForCausalLM.from_pretrained")),
    ),
]


# --- launches: Slurm, containers, variables ----------------------------------------------------------------------


def container(memory: Any = 64 * 2**20, **fields: Any) -> Launch:
    return started(shared_memory=DARK if memory is None else written(memory), **fields)


def published(*ports: int, network: str = "bridge", nodes: Any = 2) -> Launch:
    return started(nodes=nodes, ports=written(ports), network=Value(network))


def late(name: str, loaded: Any = True) -> EnvironmentVariable:
    after = DARK if loaded is None else Value(loaded)
    return EnvironmentVariable(where=at(60), name=name, value=written("1"), set_in="program", after_torch=after)


def offloading(how: str = "zero2", **options: Any) -> Wrap:
    return engine_wrap(Value(how), **{name: written(value) for name, value in options.items()})


def marked(mark: str | None) -> Value:
    """A number that is a rank, as its provenance says, or that nothing is known of."""
    return DARK if mark is None else Value(0, (Origin("derived", mark),))


def joined(mark: str | None) -> ProcessGroup:
    return ProcessGroup(where=at(9), backend=written("nccl"), rank=marked(mark))


def picked(mark: str | None) -> DeviceChoice:
    return DeviceChoice(where=at(11), role="set_device", index=marked(mark))


def together(ranks: str | None) -> Collective:
    return Collective(where=at(70), operation="torch.distributed.barrier", ranks=Value(ranks) if ranks else DARK)


def saved(ranks: str | None, apart: bool = False) -> Save:
    return Save(where=at(71), target=Value("net.pt"), ranks=Value(ranks) if ranks else DARK, apart=Value(apart))


def unsynced(backward_in: bool, forward_in: bool | None) -> Backward:
    forward = DARK if forward_in is None else Value(forward_in)
    return backward(in_no_sync=Value(backward_in), forward_in_no_sync=forward)


def working(ranks: str | None) -> Call:
    said = {"ranks": Value(ranks) if ranks else DARK}
    return Call(where=at(69), role="long work", function="a dataset is prepared", arguments=said)


def zero(how: str, **options: Value) -> Wrap:
    return Wrap(where=at(25), role="engine", how=written(how), options=options)


def bucket(size: Value) -> Wrap:
    said = {"overlap_comm": Value(True), "contiguous_gradients": Value(True)}
    return zero("zero2", reduce_bucket_size=size, **said)


def batches(total: Any, micro: Any, steps: Any, by_trainer: bool = False) -> Wrap:
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    said = {name: written(value) for name, value in zip(names, (total, micro, steps), strict=True)}
    return zero("zero2", by_trainer=Value(by_trainer), **said)


def partitioned(size: int) -> Wrap:
    return zero("zero3", zero_hpz_partition_size=written(size))


def split_over(kind: str, device_map: Any = "auto") -> Model:
    chosen = DARK if device_map is None else written(device_map)
    return Model(where=at(12), role="load", quantization=Value(kind), device_map=chosen)


ON_CUDA = DeviceChoice(where=at(12), role="to", index=Value("cuda"))
SAME_GPU = Wrap(where=at(25), how=written("ddp"), devices=Value("same"))
FULL = zero("fsdp", strategy=written("FULL_SHARD"))
HYBRID = zero("fsdp", strategy=written("HYBRID_SHARD"))
KEPT = zero("zero3", offload_optimizer=Value("none"), offload_param=Value("none"))
OFFLOADED = zero("zero2", offload_optimizer=written("cpu"))
ACCUMULATES = engine(written("fp16"), accumulation=written(4), micro_batch=written(4))
SMALL = step(parameters=Value(500_000_000))
LARGE = step(parameters=Value(7_000_000_000))


CASES += [
    ("nested-launchers", "four tasks", [YES], trace(started(nodes=2, per_node=4, tasks_per_node=written(4)))),
    ("nested-launchers", "one task", [NO], trace(started(nodes=2, per_node=4, tasks_per_node=written(1)))),
    ("nested-launchers", "python", [NO], trace(started("python", per_node=4, tasks_per_node=written(4)))),
    ("nested-launchers", "unknown", [MAYBE], trace(started(per_node=4, tasks_per_node=DARK))),
    ("container-shm-too-small", "the default", [YES], trace(container())),
    (
        "container-shm-too-small",
        "workers with images",
        [YES],
        trace(container(per_node=1), loader(workers=Value(4), work=Value(("decode",)))),
    ),
    (
        "container-shm-too-small",
        "workers with tokens",
        [NO],
        trace(container(per_node=1), loader(workers=Value(4), work=Value(("tokenize",)))),
    ),
    (
        "container-shm-too-small",
        "workers with something",
        [MAYBE],
        trace(container(per_node=1), loader(workers=Value(4))),
    ),
    ("container-shm-too-small", "the host's", [NO], trace(container("host"))),
    ("container-shm-too-small", "a GiB", [NO], trace(container(GIB))),
    ("container-shm-too-small", "one process", [NO], trace(container(per_node=1), loader())),
    ("container-shm-too-small", "unknown", [MAYBE], trace(container(None))),
    ("container-shm-too-small", "no container", [], trace(started())),
    ("only-rendezvous-port-published", "one port", [YES], trace(published(29500))),
    ("only-rendezvous-port-published", "host network", [NO], trace(published(29500, network="host"))),
    ("only-rendezvous-port-published", "a range", [NO], trace(published(*range(40000, 41000)))),
    ("only-rendezvous-port-published", "one node", [NO], trace(published(29500, nodes=1))),
    ("only-rendezvous-port-published", "unknown", [MAYBE], trace(published(29500, nodes=None))),
    ("omp-threads-left-at-one", "offloaded", [YES], trace(started(), offloading(offload_optimizer="cpu"))),
    ("omp-threads-left-at-one", "set", [NO], trace(started(environment={"OMP_NUM_THREADS": written("4")}))),
    ("omp-threads-left-at-one", "one process", [NO], trace(started(per_node=1))),
    ("omp-threads-left-at-one", "deepspeed", [NO], trace(started("deepspeed"))),
    ("omp-threads-left-at-one", "unknown", [MAYBE], trace(started(per_node=None))),
    ("env-var-set-too-late", "after CUDA", [YES], trace(asked(True), late("CUDA_VISIBLE_DEVICES"))),
    ("env-var-set-too-late", "before CUDA", [NO], trace(late("CUDA_VISIBLE_DEVICES"), asked(True))),
    (
        "env-var-set-too-late",
        "devices were only counted",
        [NO],
        trace(asked(2, "torch.cuda.device_count"), late("CUDA_VISIBLE_DEVICES")),
    ),
    (
        "env-var-set-too-late",
        "in a fresh process",
        [NO],
        trace(asked(True), asks("torch.multiprocessing.spawn"), late("CUDA_VISIBLE_DEVICES")),
    ),
    ("env-var-set-too-late", "threads", [YES], trace(late("OMP_NUM_THREADS"))),
    ("env-var-set-too-late", "torch's NCCL", [YES], trace(NCCL, late("TORCH_NCCL_BLOCKING_WAIT"))),
    ("env-var-set-too-late", "NCCL before a collective", [NO], trace(NCCL, late("NCCL_DEBUG"))),
    ("env-var-set-too-late", "NCCL after DDP", [YES], trace(NCCL, PARALLEL, late("NCCL_DEBUG"))),
    ("env-var-set-too-late", "unknown", [MAYBE], trace(late("OMP_NUM_THREADS", None))),
    ("renamed-nccl-variable", "old", [YES], trace(variable(written("1"), "NCCL_BLOCKING_WAIT"))),
    ("renamed-nccl-variable", "new", [], trace(variable(written("1"), "TORCH_NCCL_BLOCKING_WAIT"))),
    ("renamed-nccl-variable", "old torch", [NO], trace(variable(written("1"), "NCCL_BLOCKING_WAIT"), torch="2.1.2")),
    ("nccl-p2p-disabled", "off", [YES], trace(variable(written("1"), "NCCL_P2P_DISABLE"))),
    ("nccl-p2p-disabled", "on", [NO], trace(variable(written("0"), "NCCL_P2P_DISABLE"))),
    ("nccl-p2p-disabled", "unknown", [MAYBE], trace(variable(DARK, "NCCL_P2P_DISABLE"))),
    ("nccl-ib-disabled", "off", [YES], trace(variable(written("1"), "NCCL_IB_DISABLE"))),
    ("nccl-ib-disabled", "Azure", [NO], on("Standard_NC64as_T4_v3", variable(written("1"), "NCCL_IB_DISABLE"))),
    ("nccl-ib-disabled", "unknown", [MAYBE], trace(variable(DARK, "NCCL_IB_DISABLE"))),
    ("nccl-debug-info", "loud", [YES], trace(variable(written("INFO"), "NCCL_DEBUG"))),
    ("nccl-debug-info", "warnings", [NO], trace(variable(written("WARN"), "NCCL_DEBUG"))),
    ("nccl-debug-info", "unknown", [MAYBE], trace(variable(DARK, "NCCL_DEBUG"))),
    ("nccl-socket-threads-unset", "Tencent", [YES], on("GN7.2XLARGE32", started(nodes=2))),
    ("nccl-socket-threads-unset", "AWS", [], on("g4dn.xlarge", started(nodes=2))),
    ("nccl-socket-threads-unset", "one node", [NO], on("GN7.2XLARGE32", started())),
    ("nccl-socket-threads-unset", "unknown", [MAYBE], on("GN7.2XLARGE32", started(nodes=None))),
    ("efa-unused", "an adapter", [YES], on("g4dn.12xlarge", started(nodes=2))),
    ("efa-unused", "one node", [NO], on("g4dn.12xlarge", started())),
    ("efa-unused", "no adapter", [], on("g4dn.xlarge", started(nodes=2))),
    ("efa-unused", "unknown", [MAYBE], on("g4dn.12xlarge", started(nodes=None))),
    ("gloo-interface-unset", "gloo", [YES], trace(GLOO, started(nodes=2))),
    ("gloo-interface-unset", "nccl", [NO], trace(NCCL, started(nodes=2))),
    ("gloo-interface-unset", "unknown", [MAYBE], trace(GLOO, started(nodes=None))),
    ("local-rank-used-as-global-rank", "the group", [YES], trace(started(nodes=2), joined(OF_LOCAL_RANK))),
    ("local-rank-used-as-global-rank", "the rank", [NO], trace(started(nodes=2), joined(OF_RANK))),
    ("local-rank-used-as-global-rank", "one node", [NO], trace(started(), joined(OF_LOCAL_RANK))),
    ("local-rank-used-as-global-rank", "unknown", [MAYBE], trace(started(nodes=2), joined(None))),
    # --- ranks
    ("rank-used-as-local-rank", "by rank", [YES], trace(started(nodes=2), picked(OF_RANK))),
    ("rank-used-as-local-rank", "by local rank", [NO], trace(started(nodes=2), picked(OF_LOCAL_RANK))),
    ("rank-used-as-local-rank", "one node", [NO], trace(started(), picked(OF_RANK))),
    ("rank-used-as-local-rank", "unknown", [MAYBE], trace(started(nodes=2), picked(None))),
    ("cuda-device-not-set-per-rank", "all on one", [YES], trace(started(), NCCL, ON_CUDA, SAME_GPU)),
    ("cuda-device-not-set-per-rank", "one process a node", [NO], trace(started(per_node=1), NCCL, ON_CUDA, SAME_GPU)),
    ("cuda-device-not-set-per-rank", "gloo", [NO], trace(started(), GLOO, ON_CUDA, SAME_GPU)),
    ("cuda-device-not-set-per-rank", "unknown", [MAYBE], trace(started(), NCCL, ON_CUDA, PARALLEL)),
    ("collective-in-rank-guard", "guarded", [YES], trace(started(), together("some"))),
    ("collective-in-rank-guard", "all", [NO], trace(started(), together("all"))),
    ("collective-in-rank-guard", "one process", [NO], trace(started(per_node=1), together("some"))),
    ("collective-in-rank-guard", "unknown", [MAYBE], trace(started(), together(None))),
    ("save-on-every-rank", "all", [YES], trace(started(), PARALLEL, saved("all"))),
    ("save-on-every-rank", "the first", [NO], trace(started(), PARALLEL, saved("some"))),
    ("save-on-every-rank", "own paths", [NO], trace(started(), PARALLEL, saved("all", apart=True))),
    ("save-on-every-rank", "no ddp", [NO], trace(started(), saved("all"))),
    ("save-on-every-rank", "sharded", [NO], trace(started(), Wrap(where=at(25), how=Value("fsdp")), saved("all"))),
    ("save-on-every-rank", "unknown", [MAYBE], trace(started(), PARALLEL, saved(None))),
    ("no-sync-around-backward-only", "outside", [YES], trace(PARALLEL, unsynced(True, False))),
    ("no-sync-around-backward-only", "both", [NO], trace(PARALLEL, unsynced(True, True))),
    ("no-sync-around-backward-only", "neither", [NO], trace(PARALLEL, unsynced(False, False))),
    ("no-sync-around-backward-only", "unknown", [MAYBE], trace(PARALLEL, unsynced(True, None))),
    ("long-rank0-work-before-barrier", "waits", [YES], trace(started(), working("some"), together("all"))),
    (
        "long-rank0-work-before-barrier",
        "one process",
        [NO],
        trace(started(per_node=1), working("some"), together("all")),
    ),
    ("long-rank0-work-before-barrier", "nobody waits", [], trace(started(), working("some"))),
    ("long-rank0-work-before-barrier", "unknown", [MAYBE], trace(started(), working(None), together("all"))),
    # --- sharding
    ("full-shard-across-nodes", "FSDP", [YES], on("GN7.10XLARGE160", started(nodes=2), FULL, SMALL)),
    ("full-shard-across-nodes", "ZeRO-2 fits", [NO], on("GN7.10XLARGE160", started(nodes=2), KEPT, SMALL)),
    ("full-shard-across-nodes", "ZeRO-2", [NO], on("GN7.10XLARGE160", started(nodes=2), zero("zero2"), SMALL)),
    ("full-shard-across-nodes", "one node", [NO], on("GN7.10XLARGE160", started(), FULL, SMALL)),
    ("full-shard-across-nodes", "a fast network", [NO], on("g4dn.12xlarge", started(nodes=2), FULL, SMALL)),
    ("full-shard-across-nodes", "a large model", [NO], on("GN7.10XLARGE160", started(nodes=2), FULL, LARGE)),
    ("full-shard-across-nodes", "unknown", [MAYBE], trace(started(nodes=2), FULL, SMALL)),
    ("hybrid-shard-on-one-gpu-nodes", "one a node", [YES], trace(started(nodes=2, per_node=1), HYBRID)),
    ("hybrid-shard-on-one-gpu-nodes", "two a node", [NO], trace(started(nodes=2), HYBRID)),
    ("hybrid-shard-on-one-gpu-nodes", "unknown", [MAYBE], trace(started(nodes=2, per_node=1), zero("fsdp"))),
    ("sharding-with-accumulation", "ZeRO-2", [YES], trace(started(nodes=2), ACCUMULATES, zero("zero2"))),
    ("sharding-with-accumulation", "ZeRO-1", [NO], trace(started(nodes=2), ACCUMULATES, zero("zero1"))),
    ("sharding-with-accumulation", "one process", [NO], trace(started(per_node=1), ACCUMULATES, zero("zero2"))),
    ("sharding-with-accumulation", "unknown", [MAYBE], trace(started(nodes=2), zero("zero2"))),
    ("zero3-where-zero2-fits", "fits", [YES], trace(started(nodes=2), KEPT, SMALL)),
    ("zero3-where-zero2-fits", "too large", [NO], trace(started(nodes=2), KEPT, LARGE)),
    ("zero3-where-zero2-fits", "unknown", [MAYBE], trace(started(nodes=2), zero("zero3"), SMALL)),
    ("offload-exceeds-host-ram", "too much", [YES], on("g4dn.xlarge", started(per_node=1), OFFLOADED, LARGE)),
    ("offload-exceeds-host-ram", "fits", [NO], on("g4dn.metal", started(per_node=1), OFFLOADED, SMALL)),
    ("offload-exceeds-host-ram", "no offload", [NO], on("g4dn.xlarge", started(per_node=1), KEPT, LARGE)),
    ("offload-exceeds-host-ram", "unknown", [MAYBE], on("g4dn.xlarge", started(per_node=1), zero("zero2"), LARGE)),
    ("deepspeed-bucket-too-large", "default", [YES], trace(bucket(by_default(500_000_000)))),
    ("deepspeed-bucket-too-large", "text of YAML", [YES], trace(bucket(written("5e8")))),
    (
        "deepspeed-bucket-too-large",
        "full card",
        [YES],
        trace(bucket(written(5e8)), step(peak=Value((13 * GIB, 14 * GIB)))),
    ),
    ("deepspeed-bucket-too-large", "room", [NO], trace(bucket(written(5e8)), step(peak=Value((5 * GIB, 7 * GIB))))),
    (
        "deepspeed-bucket-too-large",
        "no bound",
        [YES],
        trace(bucket(written(5e8)), step(peak=Value((5e9, float("inf"))))),
    ),
    ("deepspeed-bucket-too-large", "smaller", [NO], trace(bucket(written(1e8)))),
    ("deepspeed-bucket-too-large", "auto", [MAYBE], trace(bucket(DARK))),
    ("deepspeed-batch-size-mismatch", "total", [YES], trace(started(), batches(32, 4, 2))),
    ("deepspeed-batch-size-mismatch", "right", [NO], trace(started(), batches(16, 4, 2))),
    ("deepspeed-batch-size-mismatch", "no multiple", [YES], trace(started(), batches(12, 8, None))),
    ("deepspeed-batch-size-mismatch", "unknown", [MAYBE], trace(started(per_node=None), batches(32, 4, 2))),
    (
        "deepspeed-batch-size-mismatch",
        "against the arguments",
        [YES, NO, MAYBE],
        trace(started(), ACCUMULATES, batches(None, 8, 4, by_trainer=True)),
    ),
    ("zero-on-one-gpu", "alone", [YES], trace(started(per_node=1), zero("zero2"))),
    ("zero-on-one-gpu", "offloads", [NO], trace(started(per_node=1), OFFLOADED)),
    ("zero-on-one-gpu", "two", [NO], trace(started(), zero("zero2"))),
    ("zero-on-one-gpu", "unknown", [MAYBE], trace(started(per_node=None), zero("zero2"))),
    ("zeropp-on-one-gpu-nodes", "one a node", [YES], trace(started(nodes=2, per_node=1), partitioned(2))),
    ("zeropp-on-one-gpu-nodes", "two a node", [NO], trace(started(nodes=2), partitioned(2))),
    ("zeropp-on-one-gpu-nodes", "unknown", [MAYBE], trace(started(nodes=2, per_node=None), partitioned(2))),
    ("device-map-auto-layer-split", "fits one card", [YES], on_kaggle(split_over("4bit"), SMALL)),
    ("device-map-auto-layer-split", "two processes", [NO], on_kaggle(started(), split_over("4bit"), SMALL)),
    ("device-map-auto-layer-split", "one card", [NO], on_kaggle(split_over("4bit", {"": 0}), SMALL)),
    ("device-map-auto-layer-split", "inference", [NO], on_kaggle(split_over("4bit"))),
    ("device-map-auto-layer-split", "unknown", [MAYBE], on_kaggle(split_over("4bit", None), SMALL)),
    ("device-map-auto-layer-split", "one GPU", [], trace(split_over("4bit"), SMALL)),
]


# --- what is installed and rented ---------------------------------------------------------------------------------


def needed(name: str, version: Any = None, line: int = 1, role: str = "file", **bounds: Any) -> Requirement:
    said = {"low": Value(None), "high": Value(None), "elsewhere": Value(False)}
    said |= {key: Value(value) for key, value in bounds.items()}
    pin = DARK if version == "?" else written(version, line, "key")
    return Requirement(where=at(line), role=role, name=name, version=pin, **said)


def rented(name: str | None) -> InstanceRequest:
    return InstanceRequest(where=at(1), name=DARK if name is None else written(name))


def ended(*notes: str) -> Exit:
    reason = Value("the target", tuple(Origin("target", note) for note in notes))
    return Exit(where=at(8), reason=reason)


CASES += [
    ("dependency-pin-conflict", "both", [YES], trace(needed("trl", "0.11.4"), needed("transformers", "5.0.0"))),
    ("dependency-pin-conflict", "open", [YES], trace(needed("trl", "0.11.4"), needed("transformers"))),
    ("dependency-pin-conflict", "older", [NO], trace(needed("trl", "0.11.4"), needed("transformers", "4.45.0"))),
    ("dependency-pin-conflict", "alone", [], trace(needed("trl", "0.11.4"))),
    (
        "dependency-pin-conflict",
        "bounded",
        [MAYBE],
        trace(needed("trl", "0.11.4"), needed("transformers", high="5")),
    ),
    ("flash-attn-dependency", "pinned", [YES], trace(needed("flash-attn", "2.7.4"))),
    ("flash-attn-dependency", "the first", [NO], trace(needed("flash-attn", "1.0.9"))),
    ("flash-attn-dependency", "an extra", [NO], trace(needed("flash-attn", "2.7.4", role="optional"))),
    ("fractional-t4-instance", "half", [YES], trace(rented("GN7.2XLARGE40"))),
    ("fractional-t4-instance", "whole", [NO], trace(rented("GN7.2XLARGE32"))),
    ("fractional-t4-instance", "unknown", [MAYBE], trace(rented(None))),
    ("instance-without-t4", "unlisted", [YES], trace(rented("GN7.T4large"))),
    ("instance-without-t4", "listed", [NO], trace(rented("g4dn.xlarge"))),
    ("instance-without-t4", "another card", [YES], trace(rented("ecs.gn6v-c8g1.2xlarge"))),
    ("instance-without-t4", "unknown", [MAYBE], trace(rented(None))),
    ("unpinned-torch-install", "open", [YES], trace(needed("torch"))),
    ("unpinned-torch-install", "pinned", [NO], trace(needed("torch", "2.10.0"))),
    ("unpinned-torch-install", "bounded", [NO], trace(needed("torch", high="2.11"))),
    ("unpinned-torch-install", "another index", [NO], trace(needed("torch", elsewhere=True))),
    ("burst-bandwidth-assumed", "up to", [YES], trace(rented("g4dn.xlarge"))),
    ("burst-bandwidth-assumed", "sustained", [NO], trace(rented("g4dn.8xlarge"))),
    ("burst-bandwidth-assumed", "unknown", [MAYBE], trace(rented(None))),
    ("capability-assertion-above-target", "by capability", [YES], trace(ended("a capability of T4"))),
    ("capability-assertion-above-target", "by count", [NO], trace(ended("device_count() is 1 on T4"))),
    ("capability-assertion-above-target", "unknown", [MAYBE], trace(Exit(where=at(8), reason=DARK))),
    ("unconditional-flash-attn-import", "imported", [YES], trace(asks("import flash_attn"))),
    ("unconditional-flash-attn-import", "the first", [NO], trace(asks("import flash_attn"), **{"flash-attn": "1.0.9"})),
    ("unconditional-flash-attn-import", "called", [], trace(asks("import flash_attn"), called("flash_attn"))),
]


def test_a_removed_argument_is_an_error_only_where_the_version_is_known() -> None:
    assert only("removed-argument", trace(takes_argument("no_cuda"))).severity == "note"
    assert only("removed-argument", trace(takes_argument("no_cuda"), transformers="5.1.0")).severity is None


def test_loopback_is_only_likely_where_it_is_presumed() -> None:
    assert only("loopback-rendezvous", trace(started(nodes=2, rendezvous=PRESUMED_ADDRESS))).when.likely
    given = written("localhost", how="flag")
    assert not only("loopback-rendezvous", trace(started(nodes=2, rendezvous=given))).when.likely


LOOP = ("train.py:20",)
WHOLE, FOUR, IS_SET, IS_OFF = written(1.0), written(4), written(True), written(False)


def micro(divided_by: Value = WHOLE, count: int = 2, loops: tuple[str, ...] = LOOP, **fields: Any) -> list[Event]:
    """Backwards of one place and the step after them."""
    backwards = [backward(divided_by=divided_by, loops=loops, **fields) for _ in range(count)]
    return [*backwards, step(loops=LOOP, backwards=Value(count))]


def divides(by_program: Value, by_engine: Value = FOUR) -> Backward:
    return backward(engine="Accelerator", divided_by=by_program, engine_divides=by_engine)


def kept(graph: Value = IS_SET, backward: Value = IS_OFF, loops: tuple[str, ...] = LOOP) -> Keep:
    return Keep(where=at(36), role="sum", graph=graph, backward=backward, loops=loops, batches=Value(True))


def copied(source: Value = CUDA, to: str = "cpu", read_early: Value = IS_SET, **fields: Any) -> Copy:
    given: dict[str, Any] = {"non_blocking": written(True), **fields}
    return Copy(where=at(34), source=source, destination=Value(to), read_early=read_early, **given)


def cleared(to_none: Value) -> ZeroGrad:
    return ZeroGrad(where=at(37), set_to_none=to_none)


CASES += [
    ("accumulation-loss-not-divided", "a sum", [YES], trace(*micro())),
    ("accumulation-loss-not-divided", "divided", [NO], trace(*micro(written(2.0)))),
    ("accumulation-loss-not-divided", "unknown", [MAYBE], trace(*micro(DARK))),
    ("accumulation-loss-not-divided", "each batch steps", [], trace(*micro(count=1))),
    ("accumulation-loss-not-divided", "a loop over losses", [], trace(*micro(loops=(*LOOP, "train.py:22")))),
    ("accumulation-loss-not-divided", "an engine's", [], trace(*micro(engine="Accelerator"))),
    ("accumulation-loss-divided-twice", "twice", [YES], trace(divides(written(4.0)))),
    ("accumulation-loss-divided-twice", "once", [NO], trace(divides(written(1.0)))),
    ("accumulation-loss-divided-twice", "no accumulation", [NO], trace(divides(written(4.0), written(1)))),
    ("accumulation-loss-divided-twice", "unknown", [MAYBE], trace(divides(DARK))),
    ("accumulation-loss-divided-twice", "by hand only", [], trace(backward(divided_by=written(4.0)))),
    ("tensor-kept-across-steps", "after a backward", [YES], trace(backward(loops=LOOP), kept())),
    ("tensor-kept-across-steps", "nothing goes backward", [YES], trace(kept())),
    (
        "tensor-kept-across-steps",
        "goes backward later",
        [NO],
        trace(backward(loops=LOOP), kept(backward=written(True))),
    ),
    (
        "tensor-kept-across-steps",
        "ends with the step",
        [NO],
        trace(backward(loops=LOOP), kept(loops=(*LOOP, "train.py:25"))),
    ),
    ("tensor-kept-across-steps", "unknown", [MAYBE], trace(backward(loops=LOOP), kept(DARK))),
    (
        "tensor-kept-across-steps",
        "an unseen backward",
        [MAYBE],
        trace(kept(), gaps=[Gap(frozenset({Backward}), "a call")]),
    ),
    ("non-blocking-copy-to-cpu", "read at once", [YES], trace(copied())),
    ("non-blocking-copy-to-cpu", "waits", [NO], trace(copied(non_blocking=written(False)))),
    ("non-blocking-copy-to-cpu", "to the GPU", [NO], trace(copied(Value("cpu"), "cuda"))),
    ("non-blocking-copy-to-cpu", "unknown", [MAYBE], trace(copied(read_early=DARK))),
    ("zero-grad-set-to-none-false", "zeros", [YES], trace(cleared(written(False)))),
    ("zero-grad-set-to-none-false", "dropped", [NO], trace(cleared(written(True)))),
    ("zero-grad-set-to-none-false", "unknown", [MAYBE], trace(cleared(DARK))),
    ("zero-grad-set-to-none-false", "on the CPU", [], trace(cleared(written(False)), step(device=Value("cpu")))),
    (
        "auto-find-batch-size",
        "on",
        [YES],
        trace(asks("transformers.TrainingArguments", auto_find_batch_size=written(True))),
    ),
    (
        "auto-find-batch-size",
        "off",
        [NO],
        trace(asks("transformers.TrainingArguments", auto_find_batch_size=written(False))),
    ),
    (
        "auto-find-batch-size",
        "unknown",
        [MAYBE],
        trace(asks("transformers.TrainingArguments", auto_find_batch_size=DARK)),
    ),
    ("single-process-dataloader", "decodes", [YES], trace(loader(shuffle=Value(True), work=Value(("decode",))))),
    (
        "single-process-dataloader",
        "workers",
        [NO],
        trace(loader(shuffle=Value(True), work=Value(("decode",)), workers=Value(2))),
    ),
    ("single-process-dataloader", "evaluation", [NO], trace(loader(shuffle=Value(False), work=Value(("decode",))))),
    ("single-process-dataloader", "unknown", [MAYBE], trace(loader(shuffle=Value(True), work=DARK))),
]


def loads(**arguments: Value) -> Call:
    return asks("transformers.AutoModelForCausalLM.from_pretrained", **arguments)


def trainer_with(steps: Value, evidence: str = "AutoModelForCausalLM", **arguments: Value) -> list[Event]:
    """Arguments with `eval_accumulation_steps`, a model and a Trainer."""
    model = Model(where=at(11), role="load", evidence=evidence)
    return [
        model,
        asks("transformers.TrainingArguments", eval_accumulation_steps=steps),
        asks("transformers.Trainer", **arguments),
    ]


def to_gpu(pinned: Value, loops: tuple[str, ...] = LOOP, **fields: Any) -> Copy:
    return copied(Value("cpu"), "cuda", pinned=pinned, loops=loops, read_early=DARK, **fields)


def windowed(counted: Value, after: tuple[Event, ...] = (), loops: tuple[str, ...] = ("train.py:18", *LOOP)) -> Trace:
    """Two micro-batches and a step, in a loop over batches."""
    backwards = [backward(loops=loops, batches=Value(True)) for _ in range(2)]
    return trace(*backwards, step(loops=loops, backwards=Value(2), counted=counted), *after)


CASES += [
    ("argument-newer-than-library", "too new", [YES], trace(loads(dtype=IS_SET), transformers="4.46.3")),
    ("argument-newer-than-library", "new enough", [NO], trace(loads(dtype=IS_SET), transformers="4.57.0")),
    ("argument-newer-than-library", "no pin", [], trace(loads(dtype=IS_SET))),
    (
        "argument-newer-than-library",
        "unknown version",
        [MAYBE],
        replace(trace(loads(dtype=IS_SET)), versions={"transformers": DARK}),
    ),
    ("ignored-argument", "ignored", [YES], trace(loads(low_cpu_mem_usage=IS_SET), transformers="5.2.0")),
    ("ignored-argument", "old version", [NO], trace(loads(low_cpu_mem_usage=IS_SET), transformers="4.46.3")),
    ("ignored-argument", "off", [NO], trace(loads(low_cpu_mem_usage=IS_OFF), transformers="5.2.0")),
    ("ignored-argument", "unknown", [MAYBE], trace(loads(low_cpu_mem_usage=DARK), transformers="5.2.0")),
    ("deprecated-argument", "deprecated", [YES], trace(loads(torch_dtype=IS_SET), transformers="4.57.0")),
    ("deprecated-argument", "old version", [NO], trace(loads(torch_dtype=IS_SET), transformers="4.46.3")),
    (
        "deprecated-argument",
        "given, whatever it is",
        [YES],
        trace(loads(torch_dtype=DARK), transformers="4.57.0"),
    ),
    ("eval-logits-moved-to-host-ram", "only remedy", [YES], trace(*trainer_with(FOUR, compute_metrics=IS_SET))),
    ("eval-logits-moved-to-host-ram", "no metrics", [YES], trace(*trainer_with(FOUR))),
    (
        "eval-logits-moved-to-host-ram",
        "small outputs",
        [NO],
        trace(*trainer_with(FOUR, "AutoModelForSequenceClassification", compute_metrics=IS_SET)),
    ),
    (
        "eval-logits-moved-to-host-ram",
        "made small",
        [NO],
        trace(*trainer_with(FOUR, compute_metrics=IS_SET, preprocess_logits_for_metrics=IS_SET)),
    ),
    ("eval-logits-moved-to-host-ram", "unknown", [MAYBE], trace(*trainer_with(DARK, compute_metrics=IS_SET))),
    ("main-thread-pin-memory", "pinned here", [YES], trace(to_gpu(written("call")))),
    ("main-thread-pin-memory", "by the loader", [NO], trace(to_gpu(written("loader")))),
    ("main-thread-pin-memory", "once", [NO], trace(to_gpu(written("call"), loops=()))),
    ("main-thread-pin-memory", "unknown", [MAYBE], trace(to_gpu(DARK))),
    ("blocking-copy-to-gpu", "waits", [YES], trace(to_gpu(written("loader"), non_blocking=IS_OFF))),
    ("blocking-copy-to-gpu", "does not wait", [NO], trace(to_gpu(written("loader")))),
    ("blocking-copy-to-gpu", "unknown", [MAYBE], trace(to_gpu(DARK, non_blocking=IS_OFF))),
    ("accumulation-drops-last-window", "by number", [YES], windowed(IS_SET)),
    ("accumulation-drops-last-window", "also at the end", [NO], windowed(IS_OFF)),
    ("accumulation-drops-last-window", "a step after the loop", [NO], windowed(IS_SET, (step(line=60),))),
    ("accumulation-drops-last-window", "one pass", [], windowed(IS_SET, loops=LOOP)),
    ("accumulation-drops-last-window", "unknown", [MAYBE], windowed(DARK)),
]


COLAB = find_target("colab")


def memory_of(size: Value) -> Trace:
    return replace(trace(Allocation(where=at(8), size=size)), target=COLAB)


def adam(parameters: Value, fused: Value = IS_OFF) -> Trace:
    given = {"implementation": Value("torch.optim.AdamW"), "foreach": Value(None), "fused": fused}
    made_here = Optimizer(where=at(9), subject="optimizer", name=Value("AdamW"), **given)
    return trace(made_here, step(parameters=parameters))


def each_batch(by_engine: Value, *before: Event) -> Trace:
    return trace(*before, divides(WHOLE, by_engine), step(engine="Accelerator", loops=LOOP, backwards=Value(1)))


def offered(reads: Value) -> Setting:
    return Setting(where=at(7), role="fp16", name="fp16", given=written(True, how="flag"), reads=reads)


def resumes(*events: Event, **arguments: Value) -> Trace:
    return trace(launch(1, 2), *events, asks("torch.load", restores=IS_SET, **arguments))


SEGMENTS = "PYTORCH_CUDA_ALLOC_CONF"
CASES += [
    (
        "ineffective-allocator-config",
        "misspelt",
        [YES],
        trace(variable(written("expandeable_segments:True"), SEGMENTS)),
    ),
    (
        "ineffective-allocator-config",
        "lower case",
        [YES],
        trace(variable(written("expandable_segments:true"), SEGMENTS)),
    ),
    ("ineffective-allocator-config", "right", [NO], trace(variable(written("expandable_segments:True"), SEGMENTS))),
    ("ineffective-allocator-config", "unknown", [MAYBE], trace(variable(DARK, SEGMENTS))),
    (
        "ineffective-allocator-config",
        "a name that is not read yet",
        [YES],
        trace(variable(written("expandable_segments:True"), "PYTORCH_ALLOC_CONF"), torch="2.9.1"),
    ),
    ("hard-coded-16gb-budget", "the label", [YES], trace(loads(max_memory=written({0: "16GiB"})))),
    ("hard-coded-16gb-budget", "room", [NO], trace(loads(max_memory=written({0: "13GiB", "cpu": "30GiB"})))),
    ("hard-coded-16gb-budget", "unknown", [MAYBE], trace(loads(max_memory=DARK))),
    ("unfused-adam", "large", [YES], adam(written(300_000_000))),
    ("unfused-adam", "small", [NO], adam(written(3_000_000))),
    ("unfused-adam", "fused", [NO], adam(written(300_000_000), IS_SET)),
    ("unfused-adam", "unknown", [MAYBE], adam(DARK)),
    ("optimizer-step-every-micro-batch", "no context", [YES], each_batch(FOUR)),
    ("optimizer-step-every-micro-batch", "no accumulation", [NO], each_batch(written(1))),
    (
        "optimizer-step-every-micro-batch",
        "in the context",
        [NO],
        each_batch(FOUR, asks("accelerate.Accelerator.accumulate")),
    ),
    ("optimizer-step-every-micro-batch", "unknown", [MAYBE], each_batch(DARK)),
    ("torch-load-without-map-location", "two processes", [YES], resumes()),
    ("torch-load-without-map-location", "to the CPU", [NO], resumes(map_location=written("cpu"))),
    ("torch-load-without-map-location", "unknown", [MAYBE], resumes(map_location=DARK)),
    ("host-memory-exceeds-target", "too much", [YES], memory_of(written(26 * GIB))),
    ("host-memory-exceeds-target", "little", [NO], memory_of(written(GIB))),
    ("host-memory-exceeds-target", "unknown", [MAYBE], memory_of(DARK)),
    ("unused-training-flag", "nothing reads it", [YES], trace(offered(written(0)))),
    ("unused-training-flag", "read", [NO], trace(offered(written(2)))),
    ("unused-training-flag", "unknown", [MAYBE], trace(offered(DARK))),
]


def lora(*events: Event, version: str = "4.51.3", **fields: Value) -> Trace:
    """Adapters on a model under the Trainer's checkpointing, with an older transformers."""
    added = Call(
        where=at(16), role="get_peft_model", subject="m", function="peft.get_peft_model",
        arguments={"config": Value("LoraConfig"), **fields},
    )  # fmt: skip
    arguments = engine(Value("fp16"), activation_checkpointing=IS_SET, reentrant=IS_SET)
    return trace(added, arguments, *events, transformers=version)


def in_loop(*events: Event) -> Trace:
    made = [replace(event, loops=("train.py:20",)) for event in (*events, step())]
    return trace(*made)


def read(operation: str, device: Value = CUDA) -> Trace:
    return in_loop(HostSync(where=at(33), role=operation, device=device))


def moved(made: Value) -> Trace:
    still = Value(False)
    return in_loop(
        Copy(where=at(34), source=Value("cpu"), destination=CUDA, non_blocking=still, made=made)
    )  # fmt: skip


def held(classes: Value, **given: Value) -> Trace:
    saved = Save(where=at(50), role="save", target=written("a.pt"), ranks=Value("all"), holds=classes)
    return trace(saved, asks("torch.load", f=written("a.pt"), **given))


def of_text(divisor: Value) -> Trace:
    micro = [
        replace(backward(divided_by=divisor, batches=Value(True)), loops=("train.py:20",), where=at(30)) for _ in range(2)
    ]  # fmt: skip
    last = replace(step(backwards=Value(2)), loops=("train.py:20",))
    model = replace(loaded(Value("float32")), evidence="AutoModelForCausalLM")
    return trace(model, *micro, last)


def over_epochs(persistent: Value) -> Trace:
    again = replace(backward(batches=Value(True)), loops=("train.py:20", "train.py:21"))
    return trace(loader(workers=written(2), persistent_workers=persistent), again)


def role_call(role: str, function: str, **arguments: Value) -> Call:
    return Call(where=at(16), role=role, function=function, arguments=arguments)


def copied(source: Value) -> Copy:
    return Copy(where=at(35), source=source, destination=Value("cpu"), non_blocking=Value(False))


def mapped_by(work: Value, batched: Value) -> Call:
    return asks("datasets.Dataset.map", work=work, batched=batched)


def padded(family: Value, masked: bool) -> Call:
    return role_call("padded", "forward on padded texts", family=family, mask=Value(masked))


def collated(collator: Value, **given: Value) -> Trace:
    arguments = role_call("TrainingArguments", "transformers.TrainingArguments", **given)
    return trace(arguments, asks("transformers.Trainer", data_collator=collator))


def generates(length: Value) -> Trace:
    given = {"predict_with_generate": IS_SET, "eval_strategy": written("steps"), "generation_max_length": length}
    return trace(asks("transformers.Seq2SeqTrainingArguments", **given))


def configures(trainer: str, **fields: Value) -> TrainerFile:
    return TrainerFile(where=at(1), role=trainer, fields=fields)


def by_auto(precision: str) -> Value:
    return Value(precision, (Origin("key", "bf16: auto", at(3)),))


def recipe(dtype: Value) -> Trace:
    trained = {"dtype": dtype, "optimizer._component_": Value("torch.optim.AdamW")}
    return trace(TrainerFile(where=at(1), role="torchtune", fields=trained))


PADDING = Value("transformers.DataCollatorWithPadding")
EMBEDDED = written(["embed_tokens"])
AUTO = written("auto")
CASES += [
    ("bf16-auto", "axolotl", [YES], trace(configures("axolotl", bf16=AUTO))),
    ("bf16-auto", "axolotl in a run", [YES], trace(engine(by_auto("bf16")))),
    ("bf16-mixed-precision", "axolotl's choice", [NO], trace(engine(by_auto("bf16")))),
    ("bf16-auto", "axolotl in fp16", [NO], trace(configures("axolotl", bf16=AUTO, fp16=written(True)))),
    ("torchtune-fp16", "fp16", [YES], recipe(written("fp16"))),
    ("torchtune-fp16", "fp32", [NO], recipe(written("fp32"))),
    ("torchtune-fp16", "unknown", [MAYBE], recipe(DARK)),
    ("padded-batch-without-attention-mask", "no mask", [YES], trace(padded(Value("bert"), False))),
    ("padded-batch-without-attention-mask", "mask", [NO], trace(padded(Value("bert"), True))),
    ("padded-batch-without-attention-mask", "decoder", [NO], trace(padded(Value("gpt2"), False))),
    ("padded-batch-without-attention-mask", "unknown", [MAYBE], trace(padded(DARK, False))),
    ("oom-recovery-in-except", "trains", [YES], trace(asks("except OutOfMemoryError", computes=IS_SET))),
    ("oom-recovery-in-except", "logs", [NO], trace(asks("except OutOfMemoryError", computes=Value(False)))),
    ("oom-recovery-in-except", "unknown", [MAYBE], trace(asks("except OutOfMemoryError", computes=DARK))),
    ("checkpointing-without-input-grads", "older", [YES], lora()),
    ("checkpointing-without-input-grads", "newer", [], lora(version="5.0.0")),
    ("checkpointing-without-input-grads", "embeddings are trained", [NO], lora(modules_to_save=EMBEDDED)),
    ("checkpointing-without-input-grads", "unknown", [MAYBE], lora(target_modules=DARK)),
    ("torch-load-weights-only-default", "a namespace", [YES], held(Value(("Namespace",)))),
    ("torch-load-weights-only-default", "plain", [], held(Value(()))),
    ("torch-load-weights-only-default", "told", [NO], held(Value(("Net",)), weights_only=written(False))),
    ("torch-load-weights-only-default", "unknown", [MAYBE], held(Value(("Net",)), weights_only=DARK)),
    ("host-sync-every-step", "item", [YES], read("item")),
    ("host-sync-every-step", "on the CPU", [NO], read("item", Value("cpu"))),
    ("host-sync-every-step", "unknown", [MAYBE], in_loop(copied(source=DARK))),
    ("implicit-host-sync", "a test", [YES], read("bool")),
    ("implicit-host-sync", "on the CPU", [NO], read("format", Value("cpu"))),
    ("factory-tensor-moved-to-cuda", "zeros", [YES], moved(IS_SET)),
    ("factory-tensor-moved-to-cuda", "data", [NO], moved(Value(False))),
    ("factory-tensor-moved-to-cuda", "unknown", [MAYBE], moved(DARK)),
    ("token-loss-mean-of-means", "divided", [YES], of_text(written(2.0))),
    ("token-loss-mean-of-means", "a sum", [NO], of_text(written(1.0))),
    ("token-loss-mean-of-means", "unknown", [MAYBE], of_text(DARK)),
    ("dataloader-workers-respawned", "anew", [YES], over_epochs(Value(False))),
    ("dataloader-workers-respawned", "kept", [NO], over_epochs(written(True))),
    ("dataloader-workers-respawned", "unknown", [MAYBE], over_epochs(DARK)),
    ("heavy-cpu-augmentation", "augments", [YES], trace(loader(work=Value(("augment",))))),
    ("heavy-cpu-augmentation", "decodes", [NO], trace(loader(work=Value(("decode",))))),
    ("heavy-cpu-augmentation", "unknown", [MAYBE], trace(loader(work=DARK))),
    ("padding-to-max-length", "padded", [YES], trace(asks("tokenizer", padding=written("max_length")))),
    ("padding-to-max-length", "longest", [NO], trace(asks("tokenizer", padding=written("longest")))),
    ("padding-to-max-length", "unknown", [MAYBE], trace(asks("tokenizer", padding=DARK))),
    ("batches-not-grouped-by-length", "mixed", [YES], collated(PADDING)),
    ("batches-not-grouped-by-length", "grouped", [NO], collated(PADDING, group_by_length=IS_SET)),
    ("batches-not-grouped-by-length", "unknown", [MAYBE], collated(PADDING, group_by_length=DARK)),
    ("unbatched-dataset-map", "rows", [YES], trace(mapped_by(Value(("tokenize",)), Value(False)))),
    ("unbatched-dataset-map", "batches", [NO], trace(mapped_by(Value(("tokenize",)), IS_SET))),
    ("unbatched-dataset-map", "unknown", [MAYBE], trace(mapped_by(DARK, Value(False)))),
    ("generate-in-eval-loop", "long", [YES], generates(written(256))),
    ("generate-in-eval-loop", "short", [NO], generates(written(16))),
    ("generate-in-eval-loop", "unknown", [MAYBE], generates(DARK)),
    ("deprecated-cuda-amp", "recent", [YES], trace(role_call("deprecated", "torch.cuda.amp.autocast"))),
    ("deprecated-cuda-amp", "older", [NO], trace(role_call("deprecated", "torch.cuda.amp.autocast"), torch="2.2.2")),
    ("checkpoint-reentrant-unset", "unset", [YES], trace(role_call("checkpoint", "c", use_reentrant=Value(None)))),
    ("checkpoint-reentrant-unset", "said", [NO], trace(role_call("checkpoint", "c", use_reentrant=IS_SET))),
    ("checkpoint-reentrant-unset", "unknown", [MAYBE], trace(role_call("checkpoint", "c", use_reentrant=DARK))),
]


def test_a_flag_that_a_command_passes_weighs_more() -> None:
    parsed = Setting(where=at(7), role="fp16", name="fp16", given=written(False, how="default"), reads=written(0))
    assert only("unused-training-flag", trace(parsed)).severity == "note"
    assert only("unused-training-flag", trace(offered(written(0)))).severity is None


def test_a_checkpoint_in_one_process_is_reported_on_request() -> None:
    alone = trace(asks("torch.load", restores=IS_SET))
    assert only("torch-load-without-map-location", alone).on_request
    assert not only("torch-load-without-map-location", resumes()).on_request


def test_what_is_kept_fills_the_gpu_only_where_nothing_frees_the_graph() -> None:
    assert only("tensor-kept-across-steps", trace(backward(loops=LOOP), kept())).severity == "note"
    retained = backward(loops=LOOP, retain_graph=written(True))
    assert only("tensor-kept-across-steps", trace(retained, kept())).severity is None


def test_adam_evens_out_a_sum_until_gradients_are_clipped() -> None:
    adam = Optimizer(where=at(9), subject="optimizer", name=Value("AdamW"))
    assert only("accumulation-loss-not-divided", trace(adam, *micro())).severity == "note"
    clip = GradientRead(where=at(38), role="clip")
    assert only("accumulation-loss-not-divided", trace(adam, *micro(), clip)).severity is None


def judge(name: str, made: Trace) -> list[Candidate]:
    return list(replace(RULES[name], requested=True).judge(made))


@pytest.mark.parametrize(("name", "what", "expected", "made"), CASES, ids=[f"{case[0]}: {case[1]}" for case in CASES])
def test_judgement(name: str, what: str, expected: list[bool | None], made: Trace) -> None:
    candidates = judge(name, made)
    assert [candidate.when.holds for candidate in candidates] == expected
    for candidate in candidates:
        text = RULES[name].message.format(**candidate.words)  # every field of the template is given
        if candidate.when.holds:
            assert "None" not in text, text
            assert text.endswith("."), text


# rules that judge by a version alone, for which the newest is assumed where none is known
VERSION_ALONE = frozenset({
    "triton-tl-dot", "renamed-nccl-variable", "flash-attn-dependency", "unpinned-torch-install",
    "unconditional-flash-attn-import", "deprecated-argument", "deprecated-cuda-amp", "implicit-host-sync",
})  # fmt: skip
# rules that judge by what is called, of types that no run can leave open
NEVER_FALSE = frozenset({"triton-unsupported-dtype"})


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_tried_in_three_ways(name: str) -> None:
    seen = {holds for rule, _, expected, _ in CASES if rule == name for holds in expected}
    wanted = {True, False} if name in VERSION_ALONE else {True, False, None}
    assert seen == (wanted - {False} if name in NEVER_FALSE else wanted)


@pytest.mark.parametrize("name", RULES)
def test_no_events_no_candidates(name: str) -> None:
    assert judge(name, trace()) == []


@pytest.mark.parametrize("name", RULES)
def test_rules_declare_what_they_read(name: str) -> None:
    for rule, _, _, made in CASES:
        if rule == name:
            assert all(isinstance(candidate.event, RULES[name].reads) for candidate in judge(name, made))


def only(name: str, made: Trace) -> Candidate:
    (candidate,) = (candidate for candidate in judge(name, made) if candidate.when.holds)
    return candidate


def test_bf16_is_an_error_where_the_stack_refuses_it() -> None:
    assert only("bf16-mixed-precision", trace(engine(written("bf16")))).severity is None
    assert only("bf16-mixed-precision", trace(engine(written("bf16")), torch="2.2.1")).severity == "error"
    assert only("bf16-mixed-precision", trace(engine(written("bf16")), transformers="4.34.0")).severity == "error"
    assert only("bf16-mixed-precision", trace(engine(written("bf16")), imported=("unsloth",))).severity == "error"
    assert (
        only(
            "trl-bf16-default", trace(engine(by_default("bf16"), "SFTConfig"), step(engine="Trainer"), torch="2.1")
        ).severity
        == "error"
    )


def test_bf16_shows_the_weights_beside_it() -> None:
    weights = loaded(written("bfloat16"))
    assert only("bf16-mixed-precision", trace(weights, engine(written("bf16")))).related == (weights,)


def test_weights_with_unsloth_are_a_note() -> None:
    assert only("bf16-weights", trace(loaded(written("bfloat16")), imported=("unsloth",))).severity == "note"


def test_a_presumed_device_makes_it_only_likely() -> None:
    made = trace(autocast(written("bfloat16"), device=DARK))
    assert only("bf16-mixed-precision", made).when.likely


def test_small_models_in_fp32_are_a_note() -> None:
    fp32 = Value({"float32": 1.0})
    assert only("fp32-training", trace(step(math=fp32, parameters=Value(1_000_000)))).severity == "note"
    assert only("fp32-training", trace(step(math=fp32, parameters=Value(110_000_000)))).severity is None


def test_fp32_is_explained_by_what_a_person_would_edit() -> None:
    fp32 = Value({"float32": 1.0})
    switched_off = Autocast(
        where=at(20), device=Value("cuda"), dtype=Value("float16"), enabled=written(False, 7, "default")
    )
    off = only("fp32-training", trace(switched_off, step(math=fp32)))
    assert off.blame is switched_off.enabled
    by_engine = only("fp32-training", trace(engine(by_default("no")), step(math=fp32, engine="Trainer")))
    assert by_engine.blame is not None
    assert [origin.location for origin in by_engine.blame.origins if origin.location] == [at(10)]
    own = written({"float32": 1.0}, 8)
    assert only("fp32-training", trace(step(math=own))).blame is own


def test_micro_batch_says_what_fits() -> None:
    words = only("micro-batch-too-large", trace(full())).words
    assert words["way_out"] == "a micro-batch of 8 with 4 accumulation steps fits"
    alone = only("micro-batch-too-large", trace(full(batch=1))).words
    assert "even one sample" in str(alone["way_out"])


def test_too_long_is_said_of_the_length_and_not_of_the_batch() -> None:
    made = trace(engine(Value("fp16"), sequence_length=written(65536, 12)), full(batch=1))
    assert only("sequence-length-too-long", made).words["length"] == 65536
    assert not any(candidate.when.holds for candidate in judge("micro-batch-too-large", made))


def test_embeddings_that_do_not_fit_are_an_error() -> None:
    assert only("lora-trains-full-embeddings", trace(saves(), vocabulary(0.5e9))).severity is None
    assert only("lora-trains-full-embeddings", trace(saves(), vocabulary(2.5e9))).severity == "error"


def test_days_of_pretraining() -> None:
    words = only("large-model-pretraining", trace(random_weights(), step(parameters=Value(1e9)))).words
    assert words["days"] == pytest.approx(69.4, abs=0.1)


def test_a_container_makes_the_unset_interface_a_warning() -> None:
    assert only("nccl-interface-unset", trace(launch())).severity is None
    assert only("nccl-interface-unset", trace(launch(in_container=True))).severity == "warning"


def test_an_interface_is_judged_once() -> None:
    value = written("eth0")
    made = trace(variable(value), launch(environment={"NCCL_SOCKET_IFNAME": value}))
    assert len(judge("nccl-interface-hard-coded", made)) == 1
    assert only("nccl-interface-hard-coded", trace(variable(written("lo")), launch())).severity == "error"


def test_a_gradient_norm_that_is_only_read_is_a_note() -> None:
    read = GradientRead(where=at(35), role="norm")
    made = trace(*scaler("scale", "backward"), read, *scaler("step:o")[1:])
    assert only("gradient-clipping-before-unscale", made).severity == "note"


@pytest.mark.parametrize("place", ["a10", "l4"])
def test_hardware_with_bf16_is_left_alone(place: str) -> None:
    target = find_target(place)
    made = Trace("predicted", target, {}, (engine(written("bf16"), tf32=written(True)), autocast(written("bfloat16"))))
    assert not any(c.when.holds for name in RULES for c in judge(name, made))


def test_a_bucket_is_a_warning_where_it_is_two_or_the_card_is_full() -> None:
    two, full = bucket(written(5e8)), step(peak=Value((13.8 * GIB, 14 * GIB)))
    one = replace(two, options={**two.options, "overlap_comm": Value(False)})
    found = [
        judge("deepspeed-bucket-too-large", trace(*events))[0].severity for events in ((one,), (two,), (one, full))
    ]
    assert found == ["note", None, None]


def test_the_old_launcher_is_as_grave_as_its_script_makes_it() -> None:
    old = Launch(where=at(1), launcher="torch.distributed.launch", nodes=Value(1), processes_per_node=Value(2))
    parsed = {
        makes: Call(where=at(9), role="parse_args", function="argparse.ArgumentParser.parse_args",
                    arguments={"makes": Value(makes), "old": written("--local_rank", 7)})
        for makes in ("takes", "leaves", "refuses")
    }  # fmt: skip
    found = {makes: judge("torch-distributed-launch", trace(old, call))[0].severity for makes, call in parsed.items()}
    assert found == {"takes": "note", "leaves": "note", "refuses": "error"}
    assert judge("torch-distributed-launch", trace(old))[0].severity is None


# --- a number stands only where all that it is made of is known -----------------------------------------------------

COUNTED = "GN7.10XLARGE160"  # two GPUs, 13 Gbit/s
UNSAID = step(parameters=DARK)
WIDE = step(gradients=Value(("float32",)))
BANDS = {"communication": Value((5.0, 9.0)), "compute": Value((0.5, 1.0))}
NUMBERS = [
    ("ddp-across-nodes", on(COUNTED, launch(), DDP, step(**BANDS)), True),
    ("ddp-across-nodes", on(COUNTED, launch(), DDP, step(**BANDS | {"compute": DARK})), False),
    ("ddp-across-nodes", on(COUNTED, launch(), DDP, step(**BANDS | {"communication": DARK})), False),
    ("full-shard-across-nodes", on(COUNTED, started(nodes=2), FULL, SMALL), True),
    ("full-shard-across-nodes", on(COUNTED, started(nodes=2), FULL, UNSAID), False),
    ("full-shard-across-nodes", on(COUNTED, started(nodes=None), FULL, SMALL), False),
    ("full-shard-across-nodes", on(COUNTED, started(nodes=2, per_node=None), FULL, SMALL), False),
    ("full-shard-across-nodes", on("t4", started(nodes=2), FULL, SMALL), False),
    ("zero3-where-zero2-fits", on(COUNTED, started(nodes=2), KEPT, SMALL), True),
    ("zero3-where-zero2-fits", on(COUNTED, started(nodes=2), KEPT, UNSAID), False),
    ("zero3-where-zero2-fits", on(COUNTED, started(nodes=None), KEPT, SMALL), False),
    ("gradient-bucket-view-off", on(COUNTED, started(), DDP, LARGE), True),
    ("gradient-bucket-view-off", on(COUNTED, started(), DDP, UNSAID), False),
    ("offload-exceeds-host-ram", on("g4dn.xlarge", started(per_node=1), OFFLOADED, LARGE), True),
    ("offload-exceeds-host-ram", on("g4dn.xlarge", started(nodes=None, per_node=1), OFFLOADED, LARGE), False),
    ("offload-exceeds-host-ram", on("g4dn.xlarge", started(per_node=1), OFFLOADED, UNSAID), False),
    ("offload-exceeds-host-ram", on("t4", started(per_node=1), OFFLOADED, LARGE), False),
    ("fp32-gradients-on-slow-network", on(COUNTED, launch(), DDP, ACCUMULATES, WIDE), True),
    ("fp32-gradients-on-slow-network", on("t4", launch(), DDP, ACCUMULATES, WIDE), False),
]


@pytest.mark.parametrize(("name", "seen", "known"), NUMBERS)
def test_a_number_needs_all_that_it_is_made_of(name: str, seen: Trace, known: bool) -> None:
    rule = RULES[name]
    said = [rule.message.format(**it.words) for it in rule.judge(seen) if it.when.holds is not False]
    numbers = [re.search(r"\d+(?:\.\d+)? (?:s|GiB|Gbit/s)\b", text) for text in said]
    assert all(numbers) and numbers if known else not any(numbers)


def test_a_missing_update_is_told_by_the_iteration() -> None:
    """The second `step` in the text is another fault than the same one, a round later."""
    rule = RULES["gradscaler-call-order"]
    twice = [it.words["why"] for it in rule.judge(trace(*scaler(*["scale", "step:o"] * 2))) if it.when.holds]
    assert twice == ["`step()` was already called for this optimizer, and `update()` was not called since"]
    once = replace(scaler("scale", "step:o")[2], where=at(40))
    again = [it.words["why"] for it in rule.judge(trace(*scaler("scale"), once, once)) if it.when.holds]
    assert again == ["it is the second iteration, and `update()` was not called after the `step()` of the first"]


def test_a_rule_without_edits_claims_no_fix() -> None:
    """`t4lint rules`, pages and the end of a report tell of fixes by what rules declare."""
    assert [it.name for it in RULES.values() if it.fix != "none" and it.fixes is None] == []
    assert any(it.fix == "safe" for it in RULES.values()) and any(it.fix == "unsafe" for it in RULES.values())
