"""torch: modules, tensors, losses, optimizers, and what a forward, a backward and a step mean."""

from __future__ import annotations

import re
from typing import Any

from t4lint.interpret.keeping import grows
from t4lint.interpret.operators import binary, tensor_of
from t4lint.interpret.ranks import by_process, who_runs
from t4lint.interpret.values import (
    NONE,
    PRESUMED,
    Abstract,
    Bound,
    Choice,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Returned,
    Step,
    Symbol,
    Tensor,
    TensorFacts,
    Unknown,
    leaves,
)
from t4lint.libraries import media, overflows
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
from t4lint.libraries.arrays import torch_array
from t4lint.libraries.families import find_family
from t4lint.libraries.torch_autocast import active_dtype, asked_dtype, dtype_name, unknown_facts
from t4lint.libraries.torch_cuda import device_type
from t4lint.libraries.torch_distributed import inside_no_sync, say_collective
from t4lint.libraries.torch_layers import layer_parameters
from t4lint.libraries.torch_modules import child_modules, holds, whole
from t4lint.libraries.torch_operations import after, exact, exact_dtype
from t4lint.trace import (
    Attention,
    Autocast,
    Backward,
    Compile,
    Copy,
    DeviceChoice,
    Event,
    Forward,
    GradientRead,
    HostSync,
    Loader,
    Model,
    Operation,
    Optimizer,
    Save,
    Scaler,
    Switch,
    Wrap,
    ZeroGrad,
)
from t4lint.trace import Call as CallEvent
from t4lint.trace import Step as OptimizerStep

aliases({
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "torch.distributed.fsdp",
    "torch.optim.optimizer.Optimizer": "torch.optim.Optimizer",
    "torch.optim.adamw.AdamW": "torch.optim.AdamW",
})  # fmt: skip

EFFECTS: tuple[type[Event], ...] = (
    Autocast, Backward, Forward, GradientRead, Loader, OptimizerStep, Optimizer, Scaler, Wrap, Attention, Model,
)  # fmt: skip


def hand_over(m: Any, reason: str, arguments: Arguments) -> None:
    """A model, optimizer, scaler or loader goes into code that cannot be followed: anything may happen to it there."""
    for value in arguments.values():
        for leaf in leaves(value):
            if m.is_module(leaf):
                m.globals.setdefault("$placed", {}).setdefault(getattr(inner(leaf), "uid", ""), set()).add("?")
    for value in arguments.values():
        for leaf in leaves(value):
            kind = leaf.kind if isinstance(leaf, Object) else ""
            if m.is_module(leaf) or kind in ("optimizer", "scaler", "loader", "accelerator", "trainer"):
                m.gap(EFFECTS, reason)
                return
            if isinstance(leaf, (Function, Bound)) and not m.in_forward and m.loops == []:
                m.gap(EFFECTS, reason)
                return


# --- modules -------------------------------------------------------------------------------------------------------

MATMUL_LAYERS = (
    "Linear",
    "Conv",
    "LSTM",
    "GRU",
    "RNN",
    "Transformer",
    "MultiheadAttention",
    "Bilinear",
    "LazyLinear",
    "LazyConv",
)
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")


# layers with attention: their width and their number of heads, as arguments with positions
HEADS = {
    "MultiheadAttention": (("embed_dim", 0), ("num_heads", 1)),
    "TransformerEncoderLayer": (("d_model", 0), ("nhead", 1)),
    "TransformerDecoderLayer": (("d_model", 0), ("nhead", 1)),
    "Transformer": (("d_model", 0), ("nhead", 1)),
}


def say_heads(m: Any, width: Abstract | None, heads: Abstract | None) -> None:
    """Say how wide the heads of an attention layer are, where both numbers are known."""
    width, heads = m.resolve(width or NONE), m.resolve(heads or NONE)
    if not (isinstance(width, Const) and isinstance(heads, Const)):
        return
    if isinstance(width.value, int) and isinstance(heads.value, int) and heads.value > 0:
        m.emit(Attention, "layer", head_dim=Const(width.value // heads.value, heads.origins))


def new_network(m: Any, instance: Instance) -> None:
    """A fresh module: fp32 on the CPU, in training mode (torch's defaults)."""
    default = m.globals.get("torch.default_dtype")
    instance.attributes.update(
        {
            "$dtype": default or Const("float32"),
            "$device": Const(m.globals.get("torch.default_device", "cpu")),
            "training": Const(True),
        }
    )


@calls("torch.nn.*")
def layer(call: Call) -> Abstract:
    """A layer or loss of torch.nn; functions of torch.nn.functional and torch.nn.init have models of their own."""
    name = call.name.rpartition(".")[2]
    if not name[:1].isupper():
        return call_function(call)
    dtype = call.arguments.get("dtype")
    device = call.arguments.get("device")
    module = Object("module", call.name, {"training": Const(True)})
    module.attributes["$dtype"] = (
        Const(dtype_name(call.machine.resolve(dtype))) if dtype is not None else default_dtype(call.machine)
    )
    module.attributes["$device"] = Const(device_type(call.machine, device)) if device is not None else Const("cpu")
    if dtype is not None:
        module.attributes["$explicit"] = Const(True)
    if name.endswith("Loss"):
        module.attributes["$reduction"] = reduction(call)
    if name in HEADS:
        say_heads(call.machine, *(call.arguments.get(*field) for field in HEADS[name]))
    if name in CONTAINERS:
        module.attributes["$children"] = ListValue(call.arguments.positional, complete=not call.arguments.open)
    else:
        module.attributes["$parameters"] = layer_parameters(call, name)
        if name.startswith("BatchNorm"):
            module.attributes["track_running_stats"] = call.argument("track_running_stats", 4, Const(True))
        say_unaligned(call, name)
    return module


@calls("torch.nn.Embedding.from_pretrained", "torch.nn.EmbeddingBag.from_pretrained")
def embedding_of(call: Call) -> Abstract:
    """A table that is given: its size is the tensor's, which is not followed."""
    module = Object("module", call.name.rpartition(".")[0], {"training": Const(True)})
    module.attributes.update({"$parameters": None, "$dtype": default_dtype(call.machine), "$device": Const("cpu")})
    return module


def reduction(call: Call) -> str:
    """What a loss function makes of the losses of a batch: "mean" unless it is told otherwise (torch 1.0 to 2.15)."""
    if any(call.given(name) for name in ("size_average", "reduce")):
        return "?"
    asked = call.argument("reduction", None, Const("mean"))
    word = asked.value if isinstance(asked, Const) else None
    return {"mean": "mean", "batchmean": "mean", "sum": "sum", "none": ""}.get(str(word), "?")


def reduced(value: Abstract, how: str) -> Abstract:
    """A tensor that became one number: from here on what it is divided by is followed."""
    if not isinstance(value, Tensor) or not how:
        return value
    return Tensor(value.facts.but(reduced=how, divisor=1.0, divisor_origins=()), value.origins)


WIDE = 512  # below it a dimension costs too little to matter; a threshold without a source
SIZES = {"Linear": ("in_features", "out_features"), "Embedding": ("num_embeddings", "embedding_dim")}


def say_unaligned(call: Call, name: str) -> None:
    """Say which large dimension of a layer is no multiple of 8."""
    for position, field in enumerate(SIZES.get(name, ())):
        size = call.machine.resolve(call.arguments.get(field, position) or NONE)
        if isinstance(size, Const) and isinstance(size.value, int) and size.value >= WIDE and size.value % 8:
            call.machine.emit(Operation, "layer", constant=size)


def parameter_count(module: Abstract, seen: set[int] | None = None) -> int | None:
    """How many parameters a module has; None when a part of it is not known."""
    seen = seen if seen is not None else set()
    if id(module) in seen:
        return 0
    seen.add(id(module))
    if isinstance(module, Instance):
        parts = [v for k, v in module.attributes.items() if not k.startswith("$") and isinstance(v, Abstract)]
        if any(isinstance(part, Tensor) and part.facts.parameter for part in parts):
            return None  # a parameter of its own, of a size that is not followed
        if any(isinstance(part, Returned) for part in parts):
            return None  # it may be a network of a library that is not known
        # modules in a plain list or dict are none of its parts
        return _sum([part for part in parts if isinstance(part, (Instance, Object))], seen)
    if isinstance(module, Object) and module.kind == "module":
        own = module.attributes.get("$parameters")
        if isinstance(own, int):
            return own
        if module.attributes.get("$wrapper") or module.attributes.get("$children") is not None:
            if not all_children_known(module):
                return None
            parts = child_modules(module) or [module.attributes.get("module") or Unknown("nothing inside")]
            return _sum(parts, seen) if module.attributes.get("$wrapper") or child_modules(module) else 0
        return None
    return 0


def _sum(parts: list[Abstract], seen: set[int]) -> int | None:
    total = 0
    for part in parts:
        if isinstance(part, (Instance, Object)) and (isinstance(part, Instance) or part.kind == "module"):
            if isinstance(part, Instance) and "$dtype" not in part.attributes:
                continue
            count = parameter_count(part, seen)
            if count is None:
                return None
            total += count
    return total


def default_dtype(m: Any) -> Abstract:
    value: Abstract = m.globals.get("torch.default_dtype") or Const("float32")
    return value


@calls("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer")
def parameter(call: Call) -> Abstract:
    value = call.arguments.get("data", 0)
    facts = value.facts if isinstance(value, Tensor) else TensorFacts(graph=True)
    return Tensor(facts.but(parameter=not call.name.endswith("Buffer")))


@calls("torch.nn.Module", "torch.nn.Identity")
def plain_module(call: Call) -> Abstract:
    return layer(call)


def has_matmul(module: Abstract, depth: int = 0) -> bool:
    """Does calling a library module run a matmul or convolution? Containers answer for their children."""
    if not isinstance(module, Object):
        return True
    name = module.name.rpartition(".")[2]
    if name in CONTAINERS and depth < 6:
        children = module.attributes.get("$children")
        parts: list[Abstract] = []
        for child in children.items if isinstance(children, ListValue) else ():
            parts.extend(child.items if isinstance(child, ListValue) else [child])
        return not parts or any(has_matmul(part, depth + 1) for part in parts)
    if module.name.startswith("torch.nn."):
        return name.startswith(MATMUL_LAYERS)
    return True


def state(module: Any, name: str) -> Abstract:
    value: Abstract = module.attributes.get(name) or Unknown(f"the module's {name.strip('$')}")
    return value


def device_of(m: Any, module: Any) -> Abstract:
    """Where a module computes. One that was not moved as a whole computes where its layers were moved to."""
    own: Abstract = m.resolve(state(module, "$device"))
    if not isinstance(module, Instance) or not isinstance(own, Const) or own.value != "cpu":
        return own
    if "$placed" not in m.globals or module.uid in m.globals["$placed"]:
        return own
    layers = [part for part in whole(module) if isinstance(part, Object) and has_matmul(part)]
    places = [m.resolve(state(layer, "$device")) for layer in layers]
    kinds = {place.value if isinstance(place, Const) else None for place in places}
    if len(kinds) > 1:
        return Unknown("the parts of the model are in several places")
    return places[0] if places else own


def inner(module: Any) -> Any:
    """The module inside wrappers such as DataParallel."""
    while isinstance(module, Object) and module.attributes.get("$wrapper"):
        inside = module.attributes.get("module")
        if not isinstance(inside, (Object, Instance)):
            break
        module = inside
    return module


def forward(m: Any, module: Any, arguments: Arguments) -> Abstract:
    """Call a module: its own forward is entered where the project has one."""
    target = inner(module)
    tensors = [tensor for value in arguments.values() for tensor in tensors_in(value)]
    facts = tensors[0].facts if tensors else TensorFacts()
    for other in tensors[1:]:
        facts = facts.joined(other.facts)
    outermost = m.in_forward == 0
    if not facts.models:  # data: how it was prepared does not matter to the arithmetic of the step
        facts = facts.but(math=frozenset(), autocast=frozenset())
    if facts.squares:
        facts = overflow_into(m, target, facts)
    weightless = isinstance(target, Instance) and parameter_count(target) == 0
    if not outermost and isinstance(target, Object) and not has_matmul(target):
        return Tensor(facts if target.name.rpartition(".")[2].startswith("Dropout") else facts.but())
    if outermost and isinstance(target, Object) and target.name.startswith("torch.nn.") and not has_matmul(target):
        return Tensor(facts)
    if outermost:
        m.write(m.globals, "$forward in no_sync", inside_no_sync(m))
        m.globals["$model"] = target
        m.globals.setdefault("$models", {})[target.uid] = target
    maps = attention_maps(m, target, arguments) if outermost else None
    if outermost and isinstance(target, Object) and "$transformers" in target.attributes:
        say_mask(m, target, arguments)
    math, origins, before = matmul_facts(m, target), math_origins(m, target), len(m.drafts)
    if outermost:
        m.globals["$layers"] = set()
    elif isinstance(target, Object) and "$layers" in m.globals:
        m.globals["$layers"].add(m.grad)
    m.in_forward += 1
    try:
        result = enter_forward(m, target, scattered(module, arguments))
    finally:
        m.in_forward -= 1
    if not outermost:
        if isinstance(result, Abstract):
            return result
        made = with_math(m, facts, target, math, origins)
        single = isinstance(target, Object) and target.name in (
            "torch.nn.Linear",
            "torch.nn.Conv1d",
            "torch.nn.Conv2d",
            "torch.nn.Conv3d",
        )
        return Tensor(exact(m, made, math) if single else made)
    for tensor in tensors_in(result):
        facts = facts.joined(tensor.facts)
    if weightless:  # a loss of the project's own: it computes on what the model gave
        return result if result is not None else Tensor(facts)
    if facts.math <= {math}:  # the forward itself is the place to wrap, not a layer inside it
        presumed = PRESUMED in facts.math_origins and PRESUMED not in origins
        facts = facts.but(math_origins=(*origins, PRESUMED) if presumed else origins)
    facts = with_math(m, facts, target, facts.math or math, origins)
    if maps is not None:  # known by the identity of the facts, as exact dtypes are
        m.globals.setdefault("$maps", {})[id(facts)] = (facts, maps)
    m.drafts[before:] = [draft for draft in m.drafts[before:] if draft.kind is not Forward]
    never = m.globals["$layers"] == {False}  # the forward itself switches autograd off
    m.emit(
        Forward, subject=target.uid, grad=Const(False) if never else recorded(m, target), training=mode_of(m, target), dtype=Const(math),
        device=device_of(m, target), layout=layout_of(m, target),
    )  # fmt: skip
    return with_facts(result, facts) if isinstance(result, (ListValue, DictValue)) else Tensor(facts)


def mode_of(m: Any, module: Any) -> Abstract:
    """Training or evaluation mode. A part in evaluation mode that its model's own method calls is no evaluation by itself."""
    mode: Abstract = m.resolve(state(module, "training"))
    outer = any(m.is_module(frame.receiver) and frame.receiver is not module for frame in m.frames)
    if outer and isinstance(mode, Const) and mode.value is False:
        return Unknown("a method of the model calls a part of it")
    return mode


def overflow_into(m: Any, module: Any, facts: TensorFacts) -> TensorFacts:
    """A square goes into a module: a layer is as its function, and the project's own says itself what it does with it."""
    if not isinstance(module, Object):
        return facts.but(squares=frozenset())
    name = module.name.rpartition(".")[2].lower()
    into = overflows.passed(m, "dropout" if name.startswith("dropout") else name, Arguments(), Tensor(facts))
    assert isinstance(into, Tensor)
    return into.facts


def layout_of(m: Any, module: Any) -> Abstract:
    """The memory format of a network of 2-d convolutions: "contiguous" unless a `.to(memory_format=...)` changed it."""
    if not convolves(module):
        return Const("none")
    return m.resolve(module.attributes.get("$format") or Const("contiguous"))  # type: ignore[no-any-return]


def convolves(module: Abstract) -> bool:
    """Does it hold a 2-d convolution, as far as the project says it?"""
    return holds(module, lambda part: part.name == "torch.nn.Conv2d")


def say_mask(m: Any, model: Object, arguments: Arguments) -> None:
    """A pretrained model gets the token ids of padded texts: with their mask, or without it."""
    ids = m.resolve(arguments.get("input_ids", 0) or NONE)
    if not (isinstance(ids, Unknown) and media.PADDED in ids.uid and "input_ids" in ids.uid):
        return
    mask = arguments.get("attention_mask", 1)
    given: Abstract = Unknown("which arguments the model gets") if arguments.open else Const(mask is not None)
    told = {"mask": given, "family": model.attributes.get("$family") or Unknown("the family of the model")}
    m.emit(CallEvent, "padded", model.uid, function="forward on padded texts", arguments=told)


def attention_maps(m: Any, model: Any, arguments: Arguments) -> Object | None:
    """The maps that a pretrained model is asked for with `output_attentions`; its way to compute attention decides on them."""
    asked = arguments.keywords.get("output_attentions")
    if asked is None or not isinstance(model, Object) or "$transformers" not in model.attributes:
        return None
    told = {
        "asked": m.resolve(asked),
        "implementation": model.attributes.get("$attention") or NONE,
        "family": model.attributes.get("$family") or Unknown("the family of the model"),
    }
    m.emit(CallEvent, "output_attentions", model.uid, function="output_attentions", arguments=told)
    return Object("attention maps", "output.attentions", dict(told))


@methods("attention maps", "getitem")
def attention_map(call: Call) -> Abstract:
    """One of the maps is taken, which an empty tuple does not have."""
    told = dict(call.receiver.attributes)
    call.machine.emit(CallEvent, "attention map", function="output_attentions[]", arguments=told)
    return Tensor()


# regions that say nothing of the grad mode, or are followed
GRAD_REGIONS = frozenset({"autocast", "grad mode", "null context", "file", "no sync"})


def recorded(m: Any, module: Any) -> Abstract:
    """Does autograd record this forward? Unknown where a region, a switch or frozen parts leave it open."""
    if not m.grad:
        return Const(False)
    if m.globals.get("$grad open") or changed_in_part(m, module):
        return Unknown("whether gradients are on")
    for region in m.regions:
        if not isinstance(region, Object) or region.kind not in GRAD_REGIONS or region.attributes.get("$open"):
            return Unknown("whether gradients are on in this region")
    return Const(True)


def with_facts(value: Abstract, facts: TensorFacts, depth: int = 0) -> Abstract:
    """A nest of tensors that all came out of one forward."""
    if isinstance(value, (Tensor, Unknown)):
        return Tensor(facts)
    if isinstance(value, ListValue) and depth < 4:
        return ListValue(tuple(with_facts(item, facts, depth + 1) for item in value.items), value.kind, value.complete)
    if isinstance(value, DictValue) and depth < 4:
        return DictValue({key: with_facts(item, facts, depth + 1) for key, item in value.items.items()}, value.complete)
    return value


def tensors_in(value: Abstract | None, depth: int = 0) -> list[Tensor]:
    """The tensors in a nest of lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (ListValue, DictValue)) and depth < 4:
        parts = value.items if isinstance(value, ListValue) else tuple(value.items.values())
        return [tensor for part in parts[:16] for tensor in tensors_in(part, depth + 1)]
    return []


def scattered(module: Any, arguments: Arguments) -> Arguments:
    """What a module in a wrapper is called with, where the project itself says what each GPU gets."""
    if not module.attributes.get("$scatters"):
        return arguments
    given = tuple(Unknown("what the project's own scatter makes of it") for _ in arguments.positional)
    return Arguments(given, open=True)


def enter_forward(m: Any, module: Any, arguments: Arguments) -> Any:
    """The result of the project's own forward, or of one that was put in its place; None for library modules."""
    from t4lint.interpret.calls import enter

    replaced = m.resolve(module.attributes.get("forward")) if isinstance(module, (Instance, Object)) else None
    entered = m.globals.setdefault("$replaced forward", set())
    if isinstance(replaced, (Function, Bound, Partial, Choice)) and module.uid not in entered:
        entered.add(module.uid)  # what it calls is the forward from before
        try:
            return m.call(replaced, arguments)
        finally:
            entered.discard(module.uid)
    if isinstance(module, Instance):
        method = module.cls.find("forward")
        if isinstance(method, Function):
            return enter(m, method, arguments, module)
    return None


def matmul_facts(m: Any, module: Any) -> str:
    """The dtype that a module's matmuls run in: autocast's, else its weights'."""
    dtype = active_dtype(m)
    if dtype != "none":
        return dtype
    engine = engine_of(module)
    if engine is not None and engine != "none":
        return engine
    outer = m.globals.get("$model") if m.in_forward else module
    chosen = outer if outer is not None else module
    if isinstance(module, Object) and module.attributes.get("$explicit") is not None:
        # a layer that was built in a dtype of its own keeps it until the model is cast
        if not isinstance(chosen, (Instance, Object)) or chosen.attributes.get("$cast") is None:
            chosen = module
    computing = next((part.attributes["$compute"] for part in (chosen, inner(module)) if computes_apart(part)), None)
    weights = m.resolve(computing if isinstance(computing, Abstract) else state(chosen, "$dtype"))
    if isinstance(weights, (Const, Symbol)):
        return dtype_name(weights)
    return "?"


def computes_apart(part: Any) -> bool:
    """Are its matmuls run in another dtype than that of its weights: sharded by FSDP, or quantized?"""
    return isinstance(part, (Instance, Object)) and isinstance(part.attributes.get("$compute"), Abstract)


def math_unseen(m: Any, asked: str) -> tuple[str, tuple[Step, ...]]:
    """The dtype that code which cannot be followed computes in: inside a model presumed to be that of the model's weights."""
    model = m.globals.get("$model") if m.in_forward and asked == "none" else None
    dtype = matmul_facts(m, model) if model is not None else "?"
    if dtype == "?":
        return dtype, ()
    note = "layers that are not known are presumed to have the dtype of the model around them"
    return dtype, (m.here("derived", note), PRESUMED)


def engine_of(module: Any) -> str | None:
    """The autocast dtype that an engine (Accelerator.prepare) runs the module under."""
    engine = module.attributes.get("$engine") if isinstance(module, (Instance, Object)) else None
    if isinstance(engine, Object):
        precision = engine.attributes.get("$precision")
        if isinstance(precision, Const):
            return {"fp16": "float16", "bf16": "bfloat16", "no": "none"}.get(str(precision.value), "?")
        return "?"
    return None


def math_origins(m: Any, module: Any) -> tuple[Step, ...]:
    """Why the matmuls have their dtype: the autocast region, the engine's setting, or the weights."""
    dtype, region = asked_dtype(m)
    if region is not None and dtype != "none":
        found: tuple[Step, ...] = m.resolve(region.attributes["dtype"]).origins
        return found
    switched_off = next((r for r in reversed(m.regions) if isinstance(r, Object) and r.kind == "autocast"), None)
    if switched_off is not None:
        found = m.resolve(switched_off.attributes["enabled"]).origins
        return found  # noqa: RET504 - typed above
    engine = module.attributes.get("$engine") if isinstance(module, (Instance, Object)) else None
    if isinstance(engine, Object) and isinstance(engine.attributes.get("$precision"), Abstract):
        return engine.attributes["$precision"].origins  # type: ignore[no-any-return]
    outer = m.globals.get("$model") if m.in_forward else None
    weights = m.resolve(state(outer if outer is not None else module, "$dtype"))
    presumed = tuple(step for step in weights.origins if step is PRESUMED)
    return (m.here("derived", "the forward runs outside any autocast region"), *presumed, *m.because)


def with_math(
    m: Any, facts: TensorFacts, module: Any, math: str | frozenset[str], origins: tuple[Step, ...]
) -> TensorFacts:
    asked, _ = asked_dtype(m)
    engine = engine_of(module)
    autocast = engine if asked == "none" and engine is not None else asked
    device = device_of(m, module)
    return facts.but(
        math=facts.math | (frozenset({math}) if isinstance(math, str) else math),
        autocast=facts.autocast | frozenset({autocast}),
        models=facts.models | frozenset({module.uid}),
        device=device.value if isinstance(device, Const) and isinstance(device.value, str) else "",
        graph=facts.graph or m.grad,
        math_origins=facts.math_origins or origins,
    )


@methods("module", "__call__", "forward")
def call_module(call: Call) -> Abstract:
    if isinstance(call.receiver, Object) and call.receiver.name == "torch.nn.BCELoss":
        from t4lint.libraries.torch_operations import say_binary_cross_entropy

        say_binary_cross_entropy(call.machine, call.arguments)
    result = forward(call.machine, call.receiver, call.arguments)
    how = call.receiver.attributes.get("$reduction")
    return reduced(result, how) if isinstance(how, str) else result


@methods("module", "to", "cuda", "cpu", "half", "float", "bfloat16", "double", "type", "to_empty")
def move_module(call: Call) -> Abstract:
    """`.to(...)` and its short forms: device and dtype of the whole module."""
    m, module = call.machine, call.receiver
    name = call.name.rpartition(".")[2]
    fixed = {"half": "float16", "float": "float32", "bfloat16": "bfloat16", "double": "float64"}.get(name)
    dtype: Abstract | None = None
    if fixed is not None:
        dtype = Const(fixed, (m.here("literal", f".{name}()"),))
    elif name in ("cuda", "cpu"):
        set_device(m, module, Const(name))
        if name == "cuda":
            m.emit(DeviceChoice, "to", index=call.argument("device", 0, Const("cuda")))
    else:
        for value in [
            *call.arguments.positional,
            *[v for k, v in call.arguments.keywords.items() if k in ("dtype", "device", "dst_type")],
        ]:
            kind = dtype_like(m, value)
            if kind is not None:
                dtype = kind
            elif "dtype" not in call.arguments.keywords or value is not call.arguments.keywords["dtype"]:
                set_device(m, module, m.resolve(value))
                if device_type(m, value) == "cuda":
                    m.emit(DeviceChoice, "to", index=Const("cuda", m.resolve(value).origins))
    layout = call.arguments.keywords.get("memory_format")
    if layout is not None:
        chosen = m.resolve(layout)
        named = Const(chosen.name.rpartition(".")[2]) if isinstance(chosen, Symbol) else Unknown("the memory format")
        m.write(inner(module).attributes, "$format", named)
    if dtype is not None:
        for part in {id(part): part for part in (inner(module), *whole(inner(module)))}.values():
            m.write(part.attributes, "$dtype", dtype)
            m.write(part.attributes, "$cast", Const(True))
        family, keeps = cast_family(module)
        m.emit(
            Model,
            "cast",
            module.uid,
            dtype=dtype,
            device=state(module, "$device"),
            name=Const(class_name(module)),
            family=family,
            keeps=keeps,
        )
    return module  # type: ignore[no-any-return]


def cast_family(module: Any) -> tuple[Abstract, Abstract]:
    """The family of a pretrained model that is cast, and what its class keeps in float32 when it is loaded in 16 bits."""
    name = module.attributes.get("$checkpoint") if isinstance(module, Object) else None
    loaded = isinstance(module, Object) and "$transformers" in module.attributes
    found = find_family(name.value) if loaded and isinstance(name, Const) and isinstance(name.value, str) else None
    if found is None:
        return Unknown("the family of the model"), Unknown("the family of the model")
    return Const(found.name), Const(found.keeps)


def class_name(module: Any) -> str:
    if isinstance(module, Instance):
        return module.cls.name
    name = module.attributes.get("$checkpoint") if isinstance(module, Object) else None
    return str(name.value) if isinstance(name, Const) else module.name.rpartition(".")[2]


def set_device(m: Any, module: Any, value: Abstract) -> None:
    kind = device_type(m, value)
    m.globals.setdefault("$placed", {}).setdefault(getattr(inner(module), "uid", ""), set()).add(kind or "?")
    device: Abstract = Const(kind, value.origins) if kind else Unknown("a device that is not known")
    if kind == "cuda" or not kind:
        m.globals["$cuda"] = True
    for part in {id(part): part for part in (module, inner(module), *whole(module))}.values():
        if isinstance(part, (Instance, Object)):
            m.write(part.attributes, "$device", device)


def dtype_like(m: Any, value: Abstract) -> Abstract | None:
    """A dtype constant from a value that may be one; None for devices and tensors."""
    value = m.resolve(value)
    if isinstance(value, Symbol) and value.name.startswith("torch.") and value.name.removeprefix("torch.") in DTYPES:
        return Const(value.name.removeprefix("torch."), value.origins)
    if isinstance(value, Const) and isinstance(value.value, str) and value.value.removeprefix("torch.") in DTYPES:
        return Const(value.value.removeprefix("torch."), value.origins)
    return None


DTYPES = frozenset({
    "float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "long", "half", "float",
    "float8_e4m3fn", "float8_e5m2", "complex64",
})  # fmt: skip


@methods("module", "train", "eval", "requires_grad_")
def mode(call: Call) -> Abstract:
    name = call.name.rpartition(".")[2]
    if name != "requires_grad_":
        on = name == "train" and call.machine.truth(call.argument("mode", 0, Const(True))) is not False
        for part in {id(part): part for part in (inner(call.receiver), *whole(inner(call.receiver)))}.values():
            call.machine.write(part.attributes, "training", Const(on))
    elif call.machine.truth(call.argument("requires_grad", 0, Const(True))) is False:
        call.machine.write(inner(call.receiver).attributes, "$frozen", Const(True))
    return call.receiver  # type: ignore[no-any-return]


@methods("module", "parameters", "named_parameters", "buffers")
def parameters(call: Call) -> Abstract:
    named: dict[str, Abstract] = {"$named": Const(True)} if "named" in call.name.rpartition(".")[2] else {}
    return Object("parameters", "torch.nn.Module.parameters", {"module": call.receiver, **named})


@methods("parameters", "iter")
def each_parameter(call: Call) -> Abstract:
    parameter = Object("parameter", "torch.nn.Parameter", {"$module": call.receiver.attributes["module"]})
    if call.receiver.attributes.get("$named") is not None:
        return ListValue((Unknown("the name of a parameter", varies=True), parameter), "tuple")
    return parameter


@methods("parameter", "setattr")
def parameter_changed(call: Call) -> Abstract:
    """`p.data = p.data.float()`, `p.requires_grad = False`: from here on one dtype does not speak for the model."""
    if call.arguments.positional[0].value in ("data", "requires_grad"):  # type: ignore[attr-defined]
        touch(call)
    return NONE


@methods("parameter", "requires_grad_")
def parameter_frozen(call: Call) -> Abstract:
    touch(call)
    return call.receiver  # type: ignore[no-any-return]


def touch(call: Call) -> None:
    module = inner(call.receiver.attributes["$module"])
    if isinstance(module, (Object, Instance)):
        call.machine.write(module.attributes, "$touched", Const(True))


@methods("parameter", "getattr")
def parameter_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name in ("data", "grad"):
        return Tensor()
    return Unknown(f"{name} of a parameter", varies=True)


@methods("parameter", "*")
def parameter_method(call: Call) -> Abstract:
    return Unknown("a value of a parameter", varies=True)


@methods("module", "modules", "named_modules", "children", "named_children", "get_submodule")
def children(call: Call) -> Abstract:
    part = inner(call.receiver)
    if isinstance(part, (Object, Instance)):  # whoever goes through the parts may change each of them
        call.machine.write(part.attributes, "$opened", Const(True))
    return ListValue((Unknown("a submodule", varies=True),), complete=False)


@methods(
    "module",
    "state_dict",
    "load_state_dict",
    "apply",
    "register_buffer",
    "register_parameter",
    "add_module",
    "register_forward_hook",
    "init_weights",
    "share_memory",
    "extra_repr",
)
def bookkeeping(call: Call) -> Abstract:
    name = call.name.rpartition(".")[2]
    if name == "load_state_dict":
        restores(call.machine, call.arguments.get("state_dict", 0))
    if name in ("register_buffer", "register_parameter", "add_module") and isinstance(call.receiver, Instance):
        key, value = call.argument("name", 0), call.arguments.get("tensor", 1)
        if isinstance(key, Const) and value is not None:
            call.machine.write(call.receiver.attributes, str(key.value), value)
    if name == "state_dict" and call.receiver.attributes.get("$shards"):
        say_collective(call.machine, call.name)  # gathers what the processes hold
    return call.receiver if name == "apply" else Unknown(f"{name}()")


@methods("module", "gradient_checkpointing_enable", "enable_gradient_checkpointing")
def checkpointing(call: Call) -> Abstract:
    m, module = call.machine, inner(call.receiver)
    m.write(call.receiver.attributes, "$checkpointing", Const(True))
    kind = reentrant(m, call.argument("gradient_checkpointing_kwargs", 0))
    m.emit(
        CallEvent, subject=getattr(module, "uid", ""), function="gradient_checkpointing_enable", arguments={"reentrant": kind}
    )  # fmt: skip
    return NONE


def reentrant(m: Any, options: Abstract | None) -> Abstract:
    """Which kind of checkpointing a pretrained model takes: reentrant unless told otherwise, before transformers 5.0."""
    given = m.resolve(options) if options is not None else NONE
    note = "transformers checkpoints reentrantly by default, before 5.0"
    default = Const(not m.at_least("transformers", "5.0"), (m.here("default", note),))
    if isinstance(given, Const) and given.value is None:
        return default
    if isinstance(given, DictValue) and given.complete:
        said = given.items.get("use_reentrant")
        return m.resolve(said) if said is not None else default
    return Unknown("how activations are checkpointed")


@methods("module", "zero_grad")
def module_zero_grad(call: Call) -> Abstract:
    cleared(call, getattr(inner(call.receiver), "uid", ""))
    return NONE


@methods("module", "iter")
def module_children(call: Call) -> Abstract:
    """Iterating over a ModuleList or Sequential: one child stands for all."""
    found = child_modules(call.receiver)
    return found[0] if found else Unknown("a submodule", varies=True)


@methods("module", "getitem")
def module_item(call: Call) -> Abstract:
    found = child_modules(call.receiver)
    return found[0] if found else Unknown("a submodule")


def all_children_known(module: Any) -> bool:
    """Is what a container holds known to the last part?"""
    children = module.attributes.get("$children")
    if not isinstance(children, ListValue):
        return True
    inside = [part for part in children.items if isinstance(part, (ListValue, DictValue))]
    unknown = any(isinstance(part, Unknown) for part in child_modules(module))
    return children.complete and all(part.complete for part in inside) and not unknown


@methods("module", "append", "extend")
def module_append(call: Call) -> Abstract:
    value = call.arguments.get("module", 0)
    children = call.receiver.attributes.get("$children")
    if value is not None:
        old = children.items if isinstance(children, ListValue) else ()
        whole = not isinstance(children, ListValue) or children.complete
        grown = ListValue((*old, value), complete=whole)
        grows(call.machine, grown)
        call.machine.write(call.receiver.attributes, "$children", grown)
    return call.receiver  # type: ignore[no-any-return]


# attributes of a pretrained model that are no parts of it
PLAIN = frozenset({
    "training", "name_or_path", "generation_config", "hf_device_map", "is_parallelizable", "model_parallel", "warnings_issued",
    "is_loaded_in_8bit", "is_loaded_in_4bit", "is_quantized", "peft_config", "active_adapter", "supports_gradient_checkpointing",
    "main_input_name", "num_parameters", "__class__", "_no_split_modules",
})  # fmt: skip


@methods("module", "getattr")
def module_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name == "device":
        return state(call.receiver, "$device")
    if name == "dtype":
        dtype = state(call.receiver, "$dtype")
        return Symbol(f"torch.{dtype.value}", dtype.origins) if isinstance(dtype, Const) else dtype
    if name == "module":
        return call.receiver  # type: ignore[no-any-return]
    if name == "config":
        return Object("config", "transformers.PretrainedConfig", {"$model": call.receiver})
    if isinstance(call.receiver, Object) and "$transformers" in call.receiver.attributes and name not in PLAIN:
        call.machine.write(call.receiver.attributes, "$opened", Const(True))
    if isinstance(call.receiver, Object) and call.receiver.name.startswith("torch.nn."):
        return Unknown(f"{name} of a module", uid=f"{call.receiver.uid}.{name}")
    return Unknown(f"{name} of a module", uid=f"{call.receiver.uid}.{name}")


# --- tensors -------------------------------------------------------------------------------------------------------


@methods("tensor", "getattr")
def tensor_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    tensor: Tensor = call.receiver
    if name == "device":
        return Const(tensor.facts.device) if tensor.facts.device else Unknown("a tensor's device", varies=True)
    if name == "dtype":
        return Symbol(f"torch.{tensor.facts.dtype}") if tensor.facts.dtype else Unknown("a tensor's dtype", varies=True)
    if name in ("shape", "ndim", "requires_grad", "is_cuda"):
        return Unknown(f"a tensor's {name}", varies=True)
    if name == "loss" and not tensor.facts.reduced:  # of what a model of transformers returns
        known = call.machine.globals.get("$models", {})
        made = [known[uid] for uid in tensor.facts.models if uid in known]
        if made and all(isinstance(it, Object) and "$transformers" in it.attributes for it in made):
            return reduced(tensor, "mean")
    if name == "attentions":
        maps = call.machine.globals.get("$maps", {}).get(id(tensor.facts))
        return maps[1] if maps is not None else tensor
    return tensor


@methods("tensor", "backward")
def backward(call: Call) -> Abstract:
    say_backward(call, call.receiver.facts)
    return NONE


@methods("unknown", "backward")
def unknown_backward(call: Call) -> Abstract:
    say_backward(call, unknown_facts(call.receiver))
    return NONE


def say_backward(
    call: Call, facts: TensorFacts, engine: str = "", scaled: Abstract | None = None, divides: Abstract | None = None
) -> None:
    m = call.machine
    asked, _ = asked_dtype(m)
    math = one_of(facts.math, "the dtype of the forward", facts.math_origins)
    m.emit(
        Backward,
        device=Const(facts.device) if facts.device else Unknown("where the loss is"),
        dtype=math,
        autocast=one_of(facts.autocast, "the autocast region of the forward", facts.math_origins),
        scaled_by=scaled or Const(facts.scaled_by or "none"),
        inside_autocast=Const(asked != "none"),
        retain_graph=call.argument("retain_graph", None if engine else 1, Const(False)),
        divided_by=divided_by(facts),
        engine_divides=divides,
        in_no_sync=inside_no_sync(m),
        forward_in_no_sync=m.globals.get("$forward in no_sync") or Unknown("no forward was followed"),
        batches=Const(bool(m.loops) and m.loops[-1].batches),
        engine=engine or facts.engine,
    )
    m.globals.setdefault("$carried", set()).update(facts.kept)
    m.globals["$backward loops"] = len(m.loops)
    # a second one under a test (of an adversarial step, say) does not make the first one depend on it
    loop = m.loops[-1] if m.loops else None
    again = loop is not None and m.globals.get("$backward loop") is loop
    m.globals["$backward loop"] = loop
    levels = {"$backward depth": len(m.logs), "$backward sometimes": m.sometimes, "$backward numbered": m.numbered}
    for name, level in levels.items():
        m.globals[name] = min(level, m.globals.get(name, level)) if again else level
    micro = m.globals.get("$backwards", ())
    m.write(m.globals, "$backwards", (*micro[-31:], facts))


def divided_by(facts: TensorFacts) -> Abstract:
    """The plain number that a mean was divided by on its way to the backward."""
    if facts.reduced != "mean":
        return Unknown("how the loss was made from the batch is not known")
    if facts.divisor is None:
        return Unknown("what the loss is divided by is not known")
    return Const(round(facts.divisor, 6), facts.divisor_origins)


def one_of(names: frozenset[str], what: str, origins: tuple[Step, ...]) -> Abstract:
    known = names - {"?"}
    if len(names) == 1 and known:
        return Const(next(iter(known)), origins)
    if not names:
        return Unknown(f"{what}: no forward was seen", origins)
    return Unknown(f"{what} is not the same everywhere" if known == names else f"{what} is not known", origins)


@methods(
    "tensor",
    "to",
    "cuda",
    "cpu",
    "half",
    "float",
    "bfloat16",
    "double",
    "type",
    "long",
    "int",
    "bool",
    "numpy",
    "tolist",
    "item",
    "detach",
)
def tensor_method(call: Call) -> Abstract:
    m, tensor = call.machine, call.receiver
    name = call.name.rpartition(".")[2]
    facts: TensorFacts = tensor.facts
    if name in ("item", "tolist", "numpy"):
        read_on_host(m, name, facts)
        return Unknown("a value of a tensor", varies=True)
    if name == "detach":
        return Tensor(facts.but(graph=False))
    if name in ("to", "cuda", "cpu"):
        destination = tensor_destination(call, name)
        if destination is not None and facts.loader:
            fed = m.globals.setdefault("$fed", {}).setdefault(facts.loader, set())
            fed.add(destination.value if isinstance(destination, Const) else "?")
        if destination is not None:
            non_blocking = call.argument("non_blocking", 2 if name == "to" else 1, Const(False))
            m.emit(
                Copy,
                source=Const(facts.device) if facts.device else Unknown("where the tensor is"),
                destination=destination,
                non_blocking=non_blocking,
                pinned=Const(facts.pinned) if facts.pinned else Unknown("whether its memory is page-locked"),
                made=Const(id(tensor.facts) in m.globals.get("$filled here", ())),
                always=Const(not m.now_and_then()),
            )
            kind = destination.value if isinstance(destination, Const) else ""
            if kind == "cpu" and facts.device == "cuda" and m.truth(non_blocking) is True:
                facts = facts.but(copies=facts.copies | {start_copy(m)})
            if kind != "cpu":
                m.globals["$cuda"] = True
            facts = facts.but(device=str(kind))
        dtype = next((d for d in (dtype_like(m, v) for v in call.arguments.values()) if d is not None), None)
        known = str(dtype.value) if isinstance(dtype, Const) else exact_dtype(m, tensor)
        facts = facts.but(dtype=str(dtype.value) if isinstance(dtype, Const) else facts.dtype)
        return Tensor(exact(m, facts, known) if known and not isinstance(dtype, Unknown) else facts)
    dtype_of = {"half": "float16", "float": "float32", "bfloat16": "bfloat16", "double": "float64"}.get(name, "")
    facts = facts.but(dtype=dtype_of)
    return Tensor(exact(m, facts, dtype_of) if dtype_of else facts)


def start_copy(m: Any) -> str:
    """A copy to the host that nothing waits for yet; a name for it."""
    source, node = m.sites[-1]
    place: str = source.serial(node)
    m.globals.setdefault("$copies", {}).setdefault(place, []).append(m.drafts[-1])
    m.globals.setdefault("$under way", set()).add(place)
    return place


def read_on_host(m: Any, operation: str, facts: TensorFacts) -> None:
    """The host reads a tensor's values: it waits for the GPU where they are there, and not at all where they are not."""
    where = Const(facts.device) if facts.device else Unknown("where the tensor is")
    m.emit(HostSync, operation, device=where, always=Const(not m.now_and_then()))
    under_way: set[str] = m.globals.get("$under way", set())
    for place in facts.copies & under_way:
        for draft in m.globals["$copies"][place]:
            draft.fields["read_early"] = Const(True)
    if facts.device != "cpu":
        under_way.clear()


@calls("torch.cuda.synchronize", "torch.accelerator.synchronize")
def synchronize(call: Call) -> Abstract:
    call.machine.globals.get("$under way", set()).clear()
    return NONE


@methods("unknown", "synchronize")
def unknown_synchronize(call: Call) -> Abstract:
    """Of a stream or an event."""
    return synchronize(call)


@methods("tensor", "pin_memory")
def pin_memory(call: Call) -> Abstract:
    return Tensor(call.receiver.facts.but(pinned="call"), call.receiver.origins)


def tensor_destination(call: Call, name: str) -> Abstract | None:
    """The device that a tensor moves to; None when only its dtype changes."""
    if name in ("cuda", "cpu"):
        return Const(name)
    value = call.arguments.get("device", 0)
    if value is None or dtype_like(call.machine, value) is not None or isinstance(value, Tensor):
        return None
    kind = device_type(call.machine, value)
    return Const(kind, value.origins) if kind else Unknown("a device that is not known", value.origins)


@methods("tensor", "mean", "sum")
def total(call: Call) -> Abstract:
    """One number of a tensor; along a dimension it stays many."""
    name, tensor = call.name.rpartition(".")[2], call.receiver
    result = after(call.machine, name, tensor, tensor_of(tensor))
    whole = not call.arguments.positional and not {"dim", "axis"} & set(call.arguments.keywords)
    if not whole or tensor.facts.reduced:  # of one number it is the number itself
        return result
    return reduced(result, name)


@methods(
    "tensor", "div", "div_", "true_divide", "true_divide_", "divide", "divide_", "mul", "mul_", "multiply", "multiply_"
)
def scaled(call: Call) -> Abstract:
    name = "Divide" if "div" in call.name.rpartition(".")[2] else "Multiply"
    return binary(call.machine, name, call.receiver, call.argument("other", 0))


MATMULS = frozenset({
    "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "bilinear", "scaled_dot_product_attention", "multi_head_attention_forward", "tensordot",
})  # fmt: skip
FACTORIES = frozenset({
    "tensor", "zeros", "ones", "rand", "randn", "randint", "full", "empty", "arange", "linspace", "eye", "randperm", "from_numpy",
    "as_tensor", "zeros_like", "ones_like", "rand_like", "randn_like", "normal", "stack", "cat",
})  # fmt: skip


# loss functions of torch.nn.functional that take `reduction` (torch 2.15)
LOSSES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "ctc_loss", "gaussian_nll_loss", "poisson_nll_loss", "hinge_embedding_loss",
    "margin_ranking_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "multi_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "cosine_embedding_loss", "linear_cross_entropy",
})  # fmt: skip


@calls("torch.*", "torch.nn.functional.*", "torch.linalg.*")
def call_function(call: Call) -> Abstract:
    """A function of torch: tensors in, a tensor out; matmuls take the dtype in force."""
    name = call.name.rpartition(".")[2]
    if name in ("zeros", "ones", "empty", "full"):
        torch_array(call)
    tensors: list[Abstract] = []
    for value in call.arguments.values():
        parts = value.items if isinstance(value, ListValue) else (value,)
        tensors.extend(part for part in parts if isinstance(part, Tensor))
    result = tensor_of(*tensors) if tensors else Tensor()
    if name in MATMULS and (tensors or call.machine.in_forward):
        facts, dtype = matmul(call, result.facts)
        return Tensor(exact(call.machine, facts, dtype))
    if name not in FACTORIES and len(tensors) == 1:
        settled = after(call.machine, name, result, result)
        assert isinstance(settled, Tensor)
        result = settled
    if name in FACTORIES or tensors:
        device = call.arguments.get("device")
        asked = dtype_like(call.machine, call.arguments.get("dtype") or NONE) if name in FACTORIES else None
        if isinstance(asked, Const):
            facts = TensorFacts(device="cpu") if not tensors else result.facts
            result = Tensor(exact(call.machine, facts.but(dtype=asked.value), asked.value))
            result, tensors = filled_here(call.machine, name, result), [result]
        if device is not None:
            kind = device_type(call.machine, device)
            if kind == "cuda":
                call.machine.globals["$cuda"] = True
            known = exact_dtype(call.machine, result)
            moved = result.facts.but(device=kind)
            return Tensor(exact(call.machine, moved, known) if known else moved)
        if name in LOSSES:
            return reduced(result, reduction(call))
        if tensors:
            return result
        made = TensorFacts(device=str(call.machine.globals.get("torch.default_device", "cpu")))
        empty = call.constant("size", 0) == 0 or call.constant("n", 0) == 0
        return Tensor(made) if empty else filled_here(call.machine, name, Tensor(made))
    if call.machine.in_forward or name.islower():
        return Unknown(
            f"what torch.{name} returns",
            varies=bool(call.machine.loops),
            uid=f"torch.{name}()" if not call.machine.loops else "",
        )
    return Unknown(f"what {call.name} returns is not known")


# tensors whose content needs nothing from the host
FILLED = frozenset({"zeros", "ones", "full", "empty", "arange", "linspace", "eye"})


def filled_here(m: Any, name: str, tensor: Tensor) -> Tensor:
    """A tensor that was just made on the host; known by the identity of its facts, which any operation changes."""
    if name in FILLED and tensor.facts.device == "cpu":
        m.globals.setdefault("$filled here", {})[id(tensor.facts)] = tensor.facts
    return tensor


def matmul(call: Call, facts: TensorFacts) -> tuple[TensorFacts, str]:
    """The facts of a matmul's result, and the dtype that it ran in."""
    m = call.machine
    dtype = active_dtype(m)
    if dtype == "none":
        model = m.globals.get("$model")
        if not m.in_forward or model is None:
            dtype = facts.dtype or ("float32" if facts.math <= {"float32"} else "?")
        else:
            dtype = matmul_facts(m, model)
    asked, _ = asked_dtype(m)
    facts = facts.but(
        math=facts.math | frozenset({dtype}),
        autocast=facts.autocast | frozenset({asked}),
        graph=facts.graph or m.grad,
    )
    return facts, dtype


@calls("torch.autograd.backward")
def autograd_backward(call: Call) -> Abstract:
    value = call.arguments.get("tensors", 0)
    say_backward(call, value.facts if isinstance(value, Tensor) else unknown_facts(value))
    return NONE


# --- grad mode -----------------------------------------------------------------------------------------------------


@calls("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled")
def grad_mode(call: Call) -> Abstract:
    function = call.arguments.get("", 0)
    if isinstance(function, Function):  # @torch.no_grad without parentheses
        function.decorators = (Symbol(call.name), *function.decorators)
        return function
    m = call.machine
    on, is_open = call.name == "torch.enable_grad", False
    if call.name == "torch.set_grad_enabled":
        said = m.truth(call.argument("mode", 0))
        on, is_open = said is not False, said is None
    elif call.name == "torch.inference_mode":
        said = m.truth(call.argument("mode", 0, Const(True)))
        on, is_open = said is False, said is None
    mode = Object("grad mode", call.name, {"on": Const(on)})
    if is_open:
        mode.attributes["$open"] = Const(True)
    if call.name == "torch.set_grad_enabled":  # it takes effect where it is called, also outside a `with`
        m.grad = on
        if is_open or m.path:
            m.globals["$grad open"] = True
    return mode


@methods("grad mode", "enter")
def enter_grad_mode(call: Call) -> Abstract:
    call.machine.grad = call.receiver.attributes["on"].value
    return call.receiver  # type: ignore[no-any-return]


@methods("grad mode", "__call__")
def decorate_grad_mode(call: Call) -> Abstract:
    function = call.arguments.get("func", 0)
    return function if function is not None else NONE


# --- optimizers ----------------------------------------------------------------------------------------------------


@calls("torch.optim.*")
def optimizer(call: Call) -> Abstract:
    return new_optimizer(call, call.name.rpartition(".")[2])


@calls(*(f"torch.optim.{base}(subclass)" for base in ("Optimizer", "Adam", "AdamW", "SGD", "RMSprop", "Adagrad")))
def own_optimizer(call: Call) -> Abstract:
    """An optimizer of the project's own: that it steps is what matters, not how it computes the step."""
    m, made = call.machine, call.receiver
    owner = parameters_owner(m, call.arguments.get("params", 0))
    result = Object("optimizer", f"{made.source.name}.{made.name}", {"$model": owner} if owner is not None else {})
    dtype = parameters_dtype(m, owner) if owner is not None else Unknown("the parameters' dtype")
    own = Unknown("the optimizer is the project's own")
    name = Const(made.name)
    m.emit(Optimizer, "", result.uid, name=name, implementation=own, fused=own, foreach=own, eps=own, dtype=dtype)
    return result


# the default eps of torch's optimizers (torch 2.13); Adam and its kin elsewhere use 1e-8 too
EPS = {"Adagrad": 1e-10, "Adadelta": 1e-6, "RMSprop": 1e-8, "Adafactor": None}


def parameters_dtype(m: Any, module: Any) -> Abstract:
    """The dtype of a module's parameters: that of all parts, where a project's module holds parts of another dtype."""
    own: Abstract = m.resolve(state(module, "$dtype"))
    if not isinstance(module, Instance) or not isinstance(own, Const):
        return own
    held = [v for k, v in module.attributes.items() if not k.startswith("$") and isinstance(v, (Instance, Object))]
    parts = [m.resolve(part.attributes["$dtype"]) for part in held if "$dtype" in part.attributes]
    if all(isinstance(part, Const) and part.value == own.value for part in parts):
        return own
    alone = not any(isinstance(v, Tensor) and v.facts.parameter for v in module.attributes.values())
    first: Abstract = parts[0]
    if alone and isinstance(first, Const) and all(isinstance(it, Const) and it.value == first.value for it in parts):
        return first
    return Unknown("the parts of the model have several dtypes", own.origins)


def new_optimizer(call: Call, name: str) -> Abstract:
    m = call.machine
    owner = parameters_owner(m, call.arguments.get("params", 0))
    result = Object("optimizer", call.name, {"$model": owner} if owner is not None else {})
    dtype = parameters_dtype(m, owner) if isinstance(owner, (Instance, Object)) else Unknown("the parameters' dtype")
    m.emit(
        Optimizer,
        subject=result.uid,
        name=Const(name),
        implementation=Const(call.name),
        fused=call.argument("fused", None, Const(None)),
        foreach=call.argument("foreach", None, Const(None)),
        eps=call.argument("eps", None, Const(EPS.get(name, 1e-8 if "Ada" in name else None))),
        dtype=dtype,
    )
    return result


def parameters_owner(m: Any, value: Abstract | None) -> Any:
    """The module whose parameters an optimizer was given; None when that cannot be told."""
    value = m.resolve(value) if value is not None else None
    if isinstance(value, Object) and value.kind == "parameters":
        return inner(value.attributes["module"])
    if isinstance(value, Tensor) and len(value.facts.models) == 1:
        return None
    return None


@methods("optimizer", "step")
def plain_step(call: Call) -> Abstract:
    optimizer_step(call.machine, call.receiver, through_scaler=False)
    return NONE


@methods("optimizer", "zero_grad")
def zero_grad(call: Call) -> Abstract:
    cleared(call, call.receiver.uid)
    return NONE


def cleared(call: Call, subject: str) -> None:
    m = call.machine
    m.emit(ZeroGrad, subject=subject, set_to_none=call.argument("set_to_none", 0, Const(True)))
    if len(m.loops) < m.globals.get(
        "$backward loops", 0
    ):  # between two epochs: what the last batches left over is gone
        m.write(m.globals, "$backwards", ())


@methods("optimizer", "*")
def optimizer_method(call: Call) -> Abstract:
    if call.name.endswith(".load_state_dict"):
        restores(call.machine, call.arguments.get("state_dict", 0))
        restores(call.machine, call.arguments.get("state_dict", 0), "resumes")
    return Unknown("state of an optimizer")


@methods("optimizer", "getattr")
def optimizer_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name in ("param_groups", "state", "defaults"):
        return ListValue((Unknown("a parameter group", varies=True),), complete=False)
    return Bound(call.receiver, name)


MAX_WINDOW = 16  # micro-batches of one accumulation window that are run; a longer one is not counted


def optimizer_step(m: Any, optimizer: Abstract | None, through_scaler: bool) -> None:
    """One optimizer step, with what its backwards tell about the arithmetic since the step before."""
    facts: tuple[TensorFacts, ...] = m.globals.get("$backwards", ())
    joined = facts[0] if facts else TensorFacts()
    for other in facts[1:]:
        joined = joined.joined(other)
    engine = ""
    subject = ""
    if isinstance(optimizer, Object):
        subject = optimizer.uid
        engine = "Accelerator" if optimizer.attributes.get("$engine") is not None else ""
    elif isinstance(optimizer, Unknown):
        subject = f"unknown {optimizer.uid}"
    math = one_of(joined.math, "the dtype of the forward", joined.math_origins)
    # under a test of its own that is not known it may come now or in a later iteration
    now_and_then = m.sometimes > m.globals.get("$backward sometimes", m.sometimes)
    m.emit(
        OptimizerStep,
        subject=subject,
        device=Const(joined.device) if joined.device else Unknown("where the loss is"),
        math=share(math),
        parameters=optimized_parameters(optimizer) or trained_parameters(m, joined),
        backwards=Const(len(facts))
        if m.loops and len(facts) < MAX_WINDOW and not now_and_then
        else Unknown("how many micro-batches there are"),
        counted=None if m.later else Const(m.numbered > m.globals.get("$backward numbered", m.numbered)),
        through_scaler=Const(through_scaler),
        gradients=gradients_of(m, optimizer.attributes.get("$model") if isinstance(optimizer, Object) else None),
        trains=trained_model(optimizer),
        engine=engine or joined.engine,
    )
    if not now_and_then:
        m.write(m.globals, "$backwards", ())


def trained_model(optimizer: Abstract | None) -> Abstract:
    owner = optimizer.attributes.get("$model") if isinstance(optimizer, Object) else None
    if isinstance(owner, (Object, Instance)):
        return Const(owner.uid)
    return Unknown("whose parameters the optimizer has")


def gradients_of(m: Any, model: Abstract | None) -> Abstract:
    """The dtypes of the gradients of what is trained: those of the parameters themselves, as a tuple."""
    model = inner(model)
    if not isinstance(model, (Object, Instance)):
        return Unknown("the parameters that are trained")
    if changed_in_part(m, model):
        return Unknown("some of the parameters are changed one by one")
    adapters = model.attributes.get("$trained")
    if isinstance(adapters, Abstract):
        return m.resolve(adapters)  # type: ignore[no-any-return]
    if model.attributes.get("$adapters") is not None:
        return Unknown("the dtype of the adapters")
    quantization = m.resolve(model.attributes.get("$quantization") or Const("none"))
    if not (isinstance(quantization, Const) and quantization.value == "none"):
        return Unknown("the weights are quantized")
    return m.mapped(state(model, "$dtype"), one_dtype)  # type: ignore[no-any-return]


def one_dtype(dtype: Abstract) -> Abstract:
    if isinstance(dtype, Const) and isinstance(dtype.value, str):
        return ListValue((Const(dtype.value),), "tuple", origins=dtype.origins)
    return Unknown("the dtype of the parameters", dtype.origins)


def changed_in_part(m: Any, module: Abstract, depth: int = 0) -> bool:
    """Is a part of the model frozen, cast or changed on its own?"""
    if not isinstance(module, (Object, Instance)) or depth > 4:
        return False
    if any(m.truth(module.attributes.get(mark) or NONE) is not False for mark in ("$touched", "$frozen", "$opened")):
        return True
    if isinstance(module, Instance):
        parts = [value for key, value in module.attributes.items() if not key.startswith("$")]
        for part in parts:
            if m.is_module(part):
                own, outer = m.resolve(state(part, "$dtype")), m.resolve(state(module, "$dtype"))
                if isinstance(own, Const) and isinstance(outer, Const) and own.value != outer.value:
                    if own.value != "float32" or depth:
                        return True
                if changed_in_part(m, part, depth + 1):
                    return True
    return False


def optimized_parameters(optimizer: Abstract | None) -> Abstract | None:
    """How many parameters the optimizer was given; None where that is not known."""
    owner = optimizer.attributes.get("$model") if isinstance(optimizer, Object) else None
    count = parameter_count(owner) if isinstance(owner, (Object, Instance)) else None
    return Const(count) if count else None


def trained_parameters(m: Any, facts: TensorFacts) -> Abstract | None:
    """Parameters of the project's own model that the backwards went through; None leaves it to the memory model."""
    models = [m.globals["$models"][uid] for uid in facts.models if uid in m.globals.get("$models", {})]
    if len(models) != 1:
        return None
    count = parameter_count(models[0])
    return Const(count) if count else None


def share(dtype: Abstract) -> Abstract:
    """A share table that gives everything to one dtype."""
    if isinstance(dtype, Const):
        return DictValue({dtype.value: Const(1.0)}, origins=dtype.origins)
    return dtype


@calls("torch.optim.lr_scheduler.*", "transformers.get_scheduler", "torch.optim.swa_utils.*")
def scheduler(call: Call) -> Abstract:
    return Object("scheduler", call.name)


@methods("scheduler", "*")
def scheduler_method(call: Call) -> Abstract:
    return Unknown("a learning rate", varies=True)


@calls("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm")
def clip(call: Call) -> Abstract:
    m = call.machine
    owner = parameters_owner(m, call.arguments.get("parameters", 0))
    m.emit(
        GradientRead,
        "clip",
        owner.uid if owner is not None else "",
        error_if_nonfinite=call.argument("error_if_nonfinite", None, Const(False)),
    )
    return Tensor()


# --- the rest ------------------------------------------------------------------------------------------------------


@calls("torch.get_device_module")
def device_module(call: Call) -> Abstract:
    """The module of a device type: `torch.cuda` where the target has a GPU."""
    kind = device_type(call.machine, call.argument("device", 0, Const("cuda" if call.machine.target.gpu else "cpu")))
    return Symbol(f"torch.{kind}") if kind else Unknown("the module of a device that is not known")


@calls("torch.accelerator.current_accelerator")
def current_accelerator(call: Call) -> Abstract:
    from t4lint.libraries.torch_cuda import as_device

    return as_device(Const("cuda")) if call.machine.target.gpu is not None else Const(None)


@calls("torch.compile")
def compile_(call: Call) -> Abstract:
    model = call.arguments.get("model", 0)
    say_compile(call, inner(model))
    return model if model is not None else Object("null context", "torch.compile", {"value": NONE})


@methods("module", "compile")
def compile_in_place(call: Call) -> Abstract:
    """`module.compile()`: whoever has the module has the compiled one."""
    say_compile(call, inner(call.receiver), in_place=True)
    return NONE


def say_compile(call: Call, target: Any, in_place: bool = False) -> None:
    m = call.machine
    known = m.is_module(target)
    mode = call.argument("mode", None, Const("default"))
    options = m.resolve(call.arguments.get("options") or NONE)
    if isinstance(options, DictValue) and m.truth(options.items.get("max_autotune") or NONE) is True:
        mode = Const("max-autotune", options.items["max_autotune"].origins)
    late: Abstract = Unknown("what is compiled")
    if known:
        taker = m.globals.get("$taken", {}).get(target.uid, "") if not in_place else ""
        late = Const(bool(taker), (m.here("derived", f"{taker} has the model that is not compiled"),) if taker else ())
    m.emit(
        Compile,
        subject=target.uid if known else "",
        mode=mode,
        dtype=m.resolve(state(target, "$dtype")) if known else Unknown("the dtype of what is compiled"),
        late=late,
    )


@calls("torch.jit.script", "torch.jit.trace")
def same_module(call: Call) -> Abstract:
    return call.argument("module", 0)


@calls("torch.nn.SyncBatchNorm.convert_sync_batchnorm")
def synchronized(call: Call) -> Abstract:
    module = call.argument("module", 0)
    if isinstance(module, (Object, Instance)):
        call.machine.write(module.attributes, "$sync batch norm", Const(True))
    return module


@calls("torch.set_default_dtype")
def set_default_dtype(call: Call) -> Abstract:
    dtype = dtype_like(call.machine, call.argument("d", 0))
    if dtype is not None:
        call.machine.write(call.machine.globals, "torch.default_dtype", dtype)
        call.machine.emit(Model, "create", name=Const("the default dtype"), dtype=dtype, requested_dtype=dtype)
        call.machine.emit(Switch, name=call.name, value=dtype)
    return NONE


@calls("torch.set_default_device")
def set_default_device(call: Call) -> Abstract:
    kind = device_type(call.machine, call.argument("device", 0))
    if kind:
        call.machine.write(call.machine.globals, "torch.default_device", kind)
        if kind == "cuda":
            call.machine.globals["$cuda"] = True
    return NONE


@calls("torch.cuda.empty_cache", "torch.accelerator.memory.empty_cache", "torch.accelerator.empty_cache")
def empty_cache(call: Call) -> Abstract:
    m = call.machine
    # under a test that the last backward was not under, it may be called now and then only
    sometimes = m.globals.get("$backward depth", len(m.logs)) < len(m.logs)
    sometimes |= m.globals.get("$backward sometimes", m.sometimes) < m.sometimes
    each = Unknown("it is called under a test that is not decided") if sometimes else Const(True)
    m.emit(CallEvent, "empty_cache", function="torch.cuda.empty_cache", arguments={"each_iteration": each})
    return NONE


@calls("torch.save", "torch.jit.save", "safetensors.torch.save_file", "safetensors.torch.save_model")
def save(call: Call) -> Abstract:
    position = 0 if call.name == "torch.jit.save" else 1
    target = call.argument("f" if "torch.save" in call.name else "filename", position)
    pickled = call.argument("obj", 0) if call.name == "torch.save" else None
    say_save(call.machine, call.name, target, pickled)
    return NONE


def classes_in(m: Any, value: Abstract, depth: int = 0) -> tuple[str, ...]:
    """The classes of what is pickled beside tensors and plain containers, as far as it is followed."""
    value = m.resolve(value)
    if isinstance(value, Instance):
        return (value.cls.name,)
    if isinstance(value, Object) and value.kind in (
        "module",
        "namespace",
        "arguments",
        "optimizer",
        "config",
        "scheduler",
    ):
        return (value.name.rpartition(".")[2] if value.kind != "namespace" else "Namespace",)
    parts = (
        value.items if isinstance(value, ListValue) else value.items.values() if isinstance(value, DictValue) else ()
    )
    return tuple(dict.fromkeys(name for part in parts if depth < 4 for name in classes_in(m, part, depth + 1)))


# How an unknown path is built where it is the same on every process: of flags, constants and counters.
SAME_PATH = re.compile(r"(?:flag|format|str|Add|os\.path\.join|pathlib\.Path|field|positional|config)\b")


def say_save(m: Any, name: str, target: Abstract, pickled: Abstract | None = None) -> None:
    target = m.resolve(target)
    more: dict[str, Abstract] = {}
    if pickled is not None:
        pickled = m.resolve(pickled)
        keys = tuple(str(key) for key in pickled.items) if isinstance(pickled, DictValue) else ()
        more = {"holds": Const(classes_in(m, pickled)), "keys": Const(keys)}
    if by_process(target):
        apart: Abstract = Const(True)
    elif isinstance(target, Const):
        apart = Const(False)
    elif isinstance(target, Unknown) and SAME_PATH.match(target.uid):
        apart = Const(False, (PRESUMED,))
    else:
        apart = Unknown("where it is saved to is not known")
    m.emit(Save, name.rpartition(".")[2], target=target, ranks=who_runs(m, name), apart=apart, **more)


@calls(
    "torch.manual_seed",
    "torch.set_printoptions",
    "torch.set_num_threads",
    "torch.use_deterministic_algorithms",
)
def nothing(call: Call) -> Abstract:
    return NONE


@calls("torch.load")
def load(call: Call) -> Abstract:
    m = call.machine
    names = ("f", "map_location", "pickle_module")
    written = {**dict(zip(names, call.arguments.positional, strict=False)), **call.arguments.keywords}
    m.emit(CallEvent, "load", function=call.name, arguments=written)
    made: list[Any] = m.globals.setdefault("$loads", [])
    made.append(m.drafts[-1])
    return Unknown("the content of a checkpoint", uid=f"torch.load {len(made) - 1}")


@calls("torch.utils.checkpoint.checkpoint")
def checkpointed(call: Call) -> Abstract:
    """The function runs as it is, and once more in the backward."""
    m = call.machine
    m.emit(
        CallEvent, "checkpoint", function=call.name, arguments={"use_reentrant": call.argument("use_reentrant", None, NONE)}
    )  # fmt: skip
    own = ("function", "use_reentrant", "context_fn", "determinism_check", "debug", "preserve_rng_state", "early_stop")
    given = {name: value for name, value in call.arguments.keywords.items() if name not in own}
    function, inputs = call.arguments.get("function", 0), call.arguments.positional[1:]
    if function is None or call.arguments.open:
        return call_function(call)
    result: Abstract = m.call(m.resolve(function), Arguments(tuple(inputs), given))
    return result


@calls("torch.serialization.add_safe_globals", "torch.serialization.safe_globals")
def safe_globals(call: Call) -> Abstract:
    """Classes that a checkpoint may hold from here on."""
    call.machine.emit(CallEvent, "safe globals", function="torch.serialization.add_safe_globals", arguments={})
    return Object("null context", call.name, {"value": NONE})


def restores(m: Any, state_of: Abstract | None, of: str = "restores") -> None:
    """What `torch.load` read goes into `load_state_dict`; of an optimizer it is a checkpoint of a training run."""
    found = re.search(r"torch\.load (\d+)", state_of.uid) if isinstance(state_of, Unknown) else None
    if found and int(found[1]) < len(m.globals.get("$loads", ())):
        m.globals["$loads"][int(found[1])].fields["arguments"][of] = Const(True)


SWITCHES = (
    "torch.backends.fp32_precision",
    "torch.backends.cudnn.fp32_precision",
    "torch.backends.cudnn.conv.fp32_precision",
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.allow_tf32",
    "torch.backends.cudnn.benchmark",
    "torch.backends.cuda.matmul.fp32_precision",
    "torch.backends.cuda.matmul.allow_fp16_accumulation",
    "torch._inductor.config.max_autotune",
    "torch._inductor.config.max_autotune_gemm",
)


@calls(*[f"{name}=" for name in SWITCHES])
def switch(call: Call) -> Abstract:
    call.machine.emit(Switch, name=call.name, value=call.argument("value", 0))
    return NONE


@calls("torch.set_float32_matmul_precision", "torch.autograd.set_detect_anomaly")
def switch_call(call: Call) -> Abstract:
    name = "mode" if call.name.endswith("anomaly") else "precision"
    call.machine.emit(Switch, name=call.name, value=call.argument(name, 0))
    return Object("null context", call.name, {"value": NONE})  # set_detect_anomaly is a context manager too


@calls("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
def detect_anomaly(call: Call) -> Abstract:
    """Its effect begins where it is called."""
    here = call.machine.here("literal", "torch.autograd.detect_anomaly()")
    call.machine.emit(Switch, name="torch.autograd.detect_anomaly", value=Const(True, (here,)))
    return Object("null context", call.name, {"value": NONE})


@calls("torch.autograd.grad")
def autograd_grad(call: Call) -> Abstract:
    call.machine.emit(CallEvent, function=call.name, arguments=dict(call.arguments.keywords))
    for tensor in tensors_in(call.arguments.get("outputs", 0)):
        call.machine.globals.setdefault("$carried", set()).update(tensor.facts.kept)
    return call_function(call)


@calls(
    "torch.backends.cuda.enable_flash_sdp",
    "torch.backends.cuda.enable_mem_efficient_sdp",
    "torch.backends.cuda.enable_math_sdp",
    "torch.backends.cuda.enable_cudnn_sdp",
)
def sdp_switch(call: Call) -> Abstract:
    call.machine.emit(Switch, name=call.name, value=call.argument("enabled", 0))
    return NONE
