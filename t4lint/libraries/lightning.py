"""Lightning: the Trainer owns the loop; Fabric leaves it to the program (read in 2.1 and 2.6)."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.expressions import iterate
from t4lint.interpret.values import (
    NONE,
    Abstract,
    Const,
    Function,
    Instance,
    ListValue,
    Object,
    Step,
    Symbol,
    Tensor,
    Unknown,
    leaves,
)
from t4lint.libraries import signatures
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
from t4lint.libraries.torch import (
    EFFECTS,
    one_of,
    optimized_parameters,
    say_backward,
    set_device,
    share,
    state,
    trained_parameters,
)
from t4lint.libraries.torch_autocast import unknown_facts
from t4lint.trace import Autocast, Engine, Model
from t4lint.trace import Call as CallEvent
from t4lint.trace import Step as OptimizerStep

aliases({
    "pytorch_lightning": "lightning.pytorch",
    "lightning.Trainer": "lightning.pytorch.Trainer",
    "lightning.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.LightningDataModule": "lightning.pytorch.LightningDataModule",
    "lightning.Fabric": "lightning.fabric.Fabric",
    "lightning_fabric": "lightning.fabric",
    "lightning.pytorch.plugins.precision.BitsandbytesPrecision": "lightning.pytorch.plugins.BitsandbytesPrecision",
    "lightning.fabric.plugins.precision.BitsandbytesPrecision": "lightning.fabric.plugins.BitsandbytesPrecision",
    "lightning.pytorch.trainer.Trainer": "lightning.pytorch.Trainer",
    "lightning.fabric.fabric.Fabric": "lightning.fabric.Fabric",
})  # fmt: skip

# precision as written → (mixed precision, dtype of the weights)
PRECISIONS: dict[Any, tuple[str, str]] = {
    16: ("fp16", "float32"), "16": ("fp16", "float32"), "16-mixed": ("fp16", "float32"),
    "bf16": ("bf16", "float32"), "bf16-mixed": ("bf16", "float32"),
    32: ("no", "float32"), "32": ("no", "float32"), "32-true": ("no", "float32"), None: ("no", "float32"),
    64: ("no", "float64"), "64": ("no", "float64"), "64-true": ("no", "float64"),
    "16-true": ("no", "float16"), "bf16-true": ("no", "bfloat16"),
}  # fmt: skip


def precision_of(m: Any, given: Abstract) -> tuple[Abstract, Abstract]:
    """(mixed precision, dtype of the weights) of a `precision=`."""

    def pick(index: int) -> Abstract:
        def apply(leaf: Abstract) -> Abstract:
            if isinstance(leaf, Const) and leaf.value in PRECISIONS:
                return Const(PRECISIONS[leaf.value][index], leaf.origins)
            return Unknown("the precision of the Trainer", leaf.origins, uid=f"precision {id(given)}")

        result: Abstract = m.mapped(given, apply)
        return result

    return pick(0), pick(1)


def given_precision(call: Call) -> Abstract:
    default: Abstract = Const(None, (Step("default", "Lightning trains in 32-true unless precision is given"),))
    launched = call.machine.environment.get("LT_PRECISION")
    if launched is not None and call.name.endswith("Fabric"):  # `fabric run --precision`
        default = call.machine.resolve(launched)
    return call.argument("precision", None, default)


# Arguments of a Trainer that `trainer` reads, by their names in all versions.
OF_TRAINER = ("accelerator", "accumulate_grad_batches", "gradient_clip_val", "plugins", "precision")


@calls("lightning.pytorch.Trainer", "lightning.fabric.Fabric")
def trainer(call: Call) -> Abstract:
    m = call.machine
    mixed, weights = precision_of(m, given_precision(call))
    fabric = call.name.endswith("Fabric")
    short = "Fabric" if fabric else "Trainer"
    result = Object("fabric" if fabric else "lightning trainer", call.name)
    accumulation = call.argument("accumulate_grad_batches", None, Const(1))
    result.attributes.update({
        "$precision": mixed,
        "$weights": weights,
        "$accumulation": accumulation,
        "$accelerator": call.argument("accelerator", None, Const("auto")),
        "$site": m.here("default", f"{short} asks for no mixed precision"),
    })  # fmt: skip
    m.emit(Engine, short, result.uid, mixed_precision=mixed, accumulation=accumulation)
    newest = signatures.parameters("lightning.pytorch.Trainer", {})
    old = {} if fabric else {name: value for name, value in call.arguments.keywords.items() if name not in newest}
    clips = {**old, "gradient_clip_val": call.argument("gradient_clip_val", None, Const(None)), "precision": mixed}
    m.emit(CallEvent, short, result.uid, function=call.name, arguments=clips)
    return result


@calls("lightning.pytorch.plugins.BitsandbytesPrecision", "lightning.fabric.plugins.BitsandbytesPrecision")
def bitsandbytes_precision(call: Call) -> Abstract:
    told = {"mode": call.argument("mode", 0), "dtype": call.argument("dtype", 1, Const(None))}
    call.machine.emit(CallEvent, "BitsandbytesPrecision", function=call.name, arguments=told)
    return Unknown("a precision plugin")


@calls("lightning.pytorch.Trainer(subclass)")
def trainer_subclass(call: Call) -> Abstract:
    return trainer(call)


@calls("lightning.pytorch.Trainer.add_argparse_args")
def add_argparse_args(call: Call) -> Abstract:
    """Lightning 1.x adds the Trainer's arguments to a parser, which keeps the flags that it has."""
    parser = call.argument("parent_parser", 0)
    if isinstance(parser, Object) and parser.kind == "parser":
        call.machine.write(parser.attributes, "$open", Const(True))
    return parser


@calls("lightning.pytorch.Trainer.from_argparse_args")
def from_argparse_args(call: Call) -> Abstract:
    """A Trainer of parsed flags (Lightning 1.x). What is written at the call wins; the flags that Lightning added are not known."""
    given: Abstract = call.machine.resolve(call.arguments.get("args", 0) or NONE)
    flags = given.attributes if isinstance(given, Object) and given.kind == "namespace" else {}
    offered = {name: flags[name] for name in OF_TRAINER if name in flags}
    written = {name: value for name, value in call.arguments.keywords.items() if name != "args"}
    named = "lightning.pytorch.Trainer"
    return trainer(Call(call.machine, named, Arguments((), {**offered, **written}, open=True), call.node))


@methods("lightning trainer", "fit")
def fit(call: Call) -> Abstract:
    """What `fit` does with the project's module, as far as the project says it."""
    m, engine = call.machine, call.receiver
    module = m.resolve(call.arguments.get("model", 0) or NONE)
    if not isinstance(module, Instance):
        m.gap(EFFECTS, "the module that is fitted is not known")
        return NONE
    device = "cpu" if m.target.gpu is None or is_cpu(m, engine) else "cuda"
    if device == "cuda":
        m.globals["$cuda"] = True
    set_device(m, module, Const(device))
    weights = m.resolve(engine.attributes["$weights"])
    if isinstance(weights, Const) and weights.value != "float32":
        m.write(module.attributes, "$dtype", weights)
        m.emit(Model, "cast", module.uid, dtype=weights, device=Const(device), name=Const(module.cls.name))
    optimizer = configured(m, module)
    batch = batches(m, module, call.arguments)
    one_epoch(call, engine, module, optimizer, batch)
    return NONE


def is_cpu(m: Any, engine: Object) -> bool:
    value = m.resolve(engine.attributes["$accelerator"])
    return isinstance(value, Const) and value.value in ("cpu", "mps", "tpu")


def configured(m: Any, module: Instance) -> Abstract | None:
    """The optimizer that `configure_optimizers` gives."""
    if not isinstance(module.cls.find("configure_optimizers"), Function):
        return None
    result = m.method(module, "configure_optimizers", Arguments())
    for value in result.items if isinstance(result, ListValue) else (result,):
        for leaf in leaves(value):
            if isinstance(leaf, Object) and leaf.kind == "optimizer":
                return leaf
            if isinstance(leaf, ListValue) and leaf.items and isinstance(leaf.items[0], Object):
                return leaf.items[0]
    return None


def batches(m: Any, module: Instance, arguments: Arguments) -> Abstract:
    """A batch of the training loader, which is built here if the module or a data module builds it."""
    source = m.resolve(arguments.get("train_dataloaders", 1) or arguments.get("datamodule") or NONE)
    if isinstance(source, Const) and source.value is None:
        source = module
    if isinstance(source, Instance):
        for name in ("setup",):
            if source is not module and isinstance(source.cls.find(name), Function):
                m.method(source, name, Arguments((Const("fit"),)))
        if not isinstance(source.cls.find("train_dataloader"), Function):
            return Tensor()
        source = m.resolve(m.method(source, "train_dataloader", Arguments()))
    if isinstance(source, (Object, ListValue)):
        found = iterate(m, source).any_element
        return found if not isinstance(found, Unknown) else Tensor()
    return Tensor()


def one_epoch(call: Call, engine: Object, module: Instance, optimizer: Abstract | None, batch: Abstract) -> None:
    m = call.machine
    precision = m.resolve(engine.attributes["$precision"])
    region = autocast_region(m, engine, precision)
    if region is not None:
        m.regions.append(region)
        m.emit(
            Autocast, "engine", engine.uid, device=Const("cuda"), dtype=region.attributes["dtype"], enabled=Const(True)
        )
    try:
        loss = m.resolve(m.method(module, "training_step", Arguments((batch, Const(0, varies=True)))))
    finally:
        if region is not None:
            m.regions.remove(region)
    manual = module.attributes.get("automatic_optimization")
    if isinstance(manual, Const) and manual.value is False:
        return
    facts = unknown_facts(loss)
    candidates = loss.items.values() if hasattr(loss, "items") and isinstance(loss.items, dict) else (loss,)
    for value in candidates:
        if isinstance(value, Tensor):
            facts = value.facts
            break
    scaled: Abstract = Unknown("the precision of the Trainer")
    if isinstance(precision, Const):
        scaled = Const(f"scaler of {engine.uid}" if precision.value == "fp16" else "none")
    # `ClosureResult.from_training_step_output(normalize=accumulate_grad_batches)` divides (read in 2.6)
    say_backward(call, facts, engine="Lightning", scaled=scaled, divides=engine.attributes["$accumulation"])
    math = one_of(facts.math, "the dtype of the forward", (*settings_of(engine, precision), *facts.math_origins))
    m.emit(
        OptimizerStep,
        "",
        optimizer.uid if isinstance(optimizer, Object) else f"optimizer of {engine.uid}",
        device=state(module, "$device"),
        math=share(math),
        parameters=optimized_parameters(optimizer) or trained_parameters(m, facts),
        backwards=engine.attributes["$accumulation"],
        engine="Lightning",
    )
    m.write(m.globals, "$backwards", ())


def settings_of(engine: Object, precision: Abstract) -> tuple[Step, ...]:
    """Where a person sets the precision: the argument, else the Trainer itself."""
    written = tuple(step for step in precision.origins if step.node is not None or step.location is not None)
    return written or (engine.attributes["$site"],)


def autocast_region(m: Any, engine: Object, precision: Abstract) -> Object | None:
    if not isinstance(precision, Const):
        return Object(
            "autocast", "lightning", {"device": Const("cuda"), "dtype": precision, "enabled": Unknown("the precision")}
        )
    dtype = {"fp16": "torch.float16", "bf16": "torch.bfloat16"}.get(str(precision.value))
    if dtype is None:
        return None
    return Object(
        "autocast",
        "lightning",
        {"device": Const("cuda"), "dtype": Symbol(dtype, precision.origins), "enabled": Const(True)},
    )


@methods("lightning trainer", "*")
def trainer_method(call: Call) -> Abstract:
    return Unknown("what the Trainer returns", varies=bool(call.machine.loops))


@methods("lightning trainer", "getattr")
def trainer_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    return Unknown(f"{name} of the Trainer", uid=f"{call.receiver.uid}.{name}")


LIGHTNING_METHODS = (
    "log", "log_dict", "save_hyperparameters", "print", "freeze", "unfreeze", "toggle_optimizer", "untoggle_optimizer",
    "lr_schedulers", "optimizers", "clip_gradients", "all_gather",
)  # fmt: skip


@methods("module", *LIGHTNING_METHODS)
def module_method(call: Call) -> Abstract:
    """Methods that LightningModule adds to torch's; `save_hyperparameters` makes the constructor's arguments `hparams`."""
    name = call.name.rpartition(".")[2]
    if name == "save_hyperparameters" and isinstance(call.receiver, Instance):
        names = {k: v for k, v in call.machine.frames[-1].scope.names.items() if k != "self"}
        call.machine.write(call.receiver.attributes, "hparams", Object("namespace", "lightning.hparams", dict(names)))
    return Unknown(f"{name}()", varies=bool(call.machine.loops))


@methods("module", "manual_backward")
def manual_backward(call: Call) -> Abstract:
    loss = call.arguments.get("loss", 0)
    say_backward(
        call,
        loss.facts if isinstance(loss, Tensor) else unknown_facts(loss),
        engine="Lightning",
        scaled=Unknown("the Trainer's precision"),
    )
    return NONE


# --- Fabric --------------------------------------------------------------------------------------------------------


@methods("fabric", "setup", "setup_module", "setup_dataloaders", "setup_optimizers")
def fabric_setup(call: Call) -> Abstract:
    m, engine = call.machine, call.receiver
    for value in call.arguments.positional:
        for leaf in leaves(value):
            if m.is_module(leaf):
                m.write(leaf.attributes, "$engine", engine)  # type: ignore[attr-defined]
                set_device(m, leaf, Const("cpu" if m.target.gpu is None or is_cpu(m, engine) else "cuda"))
            elif isinstance(leaf, Object) and leaf.kind == "optimizer":
                m.write(leaf.attributes, "$engine", engine)
    values = call.arguments.positional
    return values[0] if len(values) == 1 else ListValue(values, "tuple")


@methods("fabric", "backward")
def fabric_backward(call: Call) -> Abstract:
    loss = call.arguments.get("tensor", 0)
    precision = call.machine.resolve(call.receiver.attributes["$precision"])
    scaled: Abstract = Unknown("the precision of Fabric")
    if isinstance(precision, Const):
        scaled = Const("scaler of fabric" if precision.value == "fp16" else "none")
    say_backward(call, loss.facts if isinstance(loss, Tensor) else unknown_facts(loss), engine="Fabric", scaled=scaled)
    return NONE


@methods("fabric", "launch")
def fabric_launch(call: Call) -> Abstract:
    function = call.arguments.get("function", 0)
    if function is not None:
        return call.machine.call(function, Arguments((call.receiver,)))  # type: ignore[no-any-return]
    return NONE


@methods("fabric", "autocast", "no_backward_sync", "init_module", "rank_zero_first")
def fabric_context(call: Call) -> Abstract:
    if call.name.endswith("autocast"):
        region = autocast_region(
            call.machine, call.receiver, call.machine.resolve(call.receiver.attributes["$precision"])
        )
        if region is not None:
            return region
    return Object("null context", "fabric context", {"value": NONE})


@methods("fabric", "getattr")
def fabric_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name == "device":
        from t4lint.libraries.torch_cuda import as_device

        return as_device(Const("cuda" if call.machine.target.gpu is not None else "cpu"))
    if name in ("is_global_zero",):
        return Const(True)
    return Unknown(f"{name} of Fabric", uid=f"{call.receiver.uid}.{name}")


@methods("fabric", "*")
def fabric_method(call: Call) -> Abstract:
    return call.arguments.positional[0] if call.arguments.positional else Unknown("what Fabric returns")


@calls("lightning.*", "pytorch_lightning.*")
def anything(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")
