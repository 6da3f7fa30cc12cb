"""Ray Train: a program that runs its own function in several workers (read in 2.60). The trace is that of the first worker."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import (
    LOCAL_RANK,
    PRESUMED,
    RANK,
    Abstract,
    Bound,
    Const,
    DictValue,
    Function,
    Object,
    Partial,
    Unknown,
)
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
from t4lint.libraries.networks import as_network
from t4lint.libraries.torch import set_device
from t4lint.libraries.torch_cuda import as_device
from t4lint.libraries.torch_distributed import mentioned, normalization_of, wrapper_around
from t4lint.trace import Wrap

SCALING = "$ray scaling"  # what was asked of the trainer whose function runs
CONFIGS = ("ray.train.ScalingConfig", "ray.air.ScalingConfig", "ray.air.config.ScalingConfig")
DDP = "torch.nn.parallel.DistributedDataParallel"

aliases({"ray.train.torch.torch_trainer": "ray.train.torch", "ray.train.torch.train_loop_utils": "ray.train.torch"})


@calls(*CONFIGS)
def scaling_config(call: Call) -> Abstract:
    asked = {
        name: call.argument(name, None, default)
        for name, default in (("num_workers", Const(1)), ("use_gpu", Const(False)))
    }
    return Object("ray scaling", call.name, asked)


@calls("ray.train.torch.TorchTrainer")
def trainer(call: Call) -> Abstract:
    given = {
        "function": call.argument("train_loop_per_worker", 0),
        "config": call.argument("train_loop_config"),
        "scaling": call.argument("scaling_config"),
    }
    return Object("ray trainer", call.name, given)


@methods("ray trainer", "fit")
def fit(call: Call) -> Abstract:
    """Calls the function in each worker, with the dict that the trainer was given for it, after the process group is made."""
    m = call.machine
    function, config, scaling = (
        m.resolve(call.receiver.attributes[name]) for name in ("function", "config", "scaling")
    )
    before = m.globals.get(SCALING)
    m.write(m.globals, SCALING, scaling)
    if workers(m) != 1:
        m.write(m.globals, "$spawned", True)
    m.write(m.globals, "$process group", True)
    if isinstance(function, (Function, Bound, Partial)):
        given = () if isinstance(config, Const) and config.value is None else (config,)
        m.call(function, Arguments(given, open=not isinstance(config, (Const, DictValue))))
    m.write(m.globals, SCALING, before)
    return Unknown("what the workers reported")


def workers(m: Any) -> int | None:
    """How many workers there are, where that is known; 0 asks for those that torchrun starts."""
    count = asked_for(m, "num_workers")
    return (count.value or None) if isinstance(count, Const) and isinstance(count.value, int) else None


def asked_for(m: Any, name: str) -> Abstract:
    scaling = m.globals.get(SCALING)
    if isinstance(scaling, Object) and scaling.kind == "ray scaling":
        found: Abstract = m.resolve(scaling.attributes[name])
        return found
    return Unknown(f"{name} of the trainer")


def device(m: Any) -> Abstract:
    """A worker sees the GPUs that it asked for; it asks for none unless `use_gpu` says so."""
    if m.target.gpu is None:
        return Const("cpu")
    wanted = m.truth(asked_for(m, "use_gpu"))
    return Unknown("whether the worker has a GPU") if wanted is None else Const("cuda" if wanted else "cpu")


@calls("ray.train.torch.get_device", "ray.train.torch.get_devices")
def get_device(call: Call) -> Abstract:
    if call.name.endswith("s"):
        return Unknown("the devices of the worker")
    found = device(call.machine)
    return as_device(found) if isinstance(found, Const) else found


@calls("ray.train.torch.prepare_model")
def prepare_model(call: Call) -> Abstract:
    """Moves the model to the worker's device and wraps it, in DDP unless it is told otherwise, where there are several workers."""
    m = call.machine
    model = as_network(m, call.argument("model", 0))
    if m.truth(call.argument("move_to_device", 1, Const(True))) is not False:
        set_device(m, model, device(m))
    strategy = call.argument("parallel_strategy", 2, Const("ddp"))
    if not isinstance(strategy, Const) or strategy.value != "ddp" or workers(m) == 1:
        return model
    options = {}
    given = call.argument("parallel_strategy_kwargs", 3, Const(None))
    if isinstance(given, DictValue):
        options = {str(name): value for name, value in given.items.items()}
    elif not isinstance(given, Const):
        options["**"] = Unknown("what DDP is given")
    chosen = mentioned(m, "no_sync", "require_backward_grad_sync")
    note = "Ray's prepare_model wraps the model in DDP"
    m.emit(
        Wrap,
        "",
        getattr(model, "uid", ""),
        how=Const("ddp", (m.here("derived", note), *(() if workers(m) else (PRESUMED,)))),
        options=options,
        reduces=Unknown("the program chooses somewhere when gradients are reduced") if chosen else Const("always"),
        devices=Unknown("Ray gives each worker its GPU"),
        data=Unknown("the program may split its data by rank"),
        normalization=normalization_of(model),
    )
    return wrapper_around(model, DDP)


@calls("ray.train.torch.prepare_data_loader", "ray.train.huggingface.transformers.prepare_trainer")
def prepared(call: Call) -> Abstract:
    """The same to its user: each worker reads its part, and batches come on the worker's device."""
    return call.argument("data_loader" if call.name.endswith("loader") else "trainer", 0)


@calls("ray.train.get_context")
def context(call: Call) -> Abstract:
    return Object("ray context", call.name)


@methods("ray context", "get_world_rank", "get_local_rank", "get_node_rank", "get_world_size", "get_local_world_size")
def of_context(call: Call) -> Abstract:
    return asked_of_session(call)


@calls("ray.air.session.get_world_rank", "ray.air.session.get_local_rank", "ray.air.session.get_world_size")
def asked_of_session(call: Call) -> Abstract:
    name = call.name.rpartition(".")[2]
    if name == "get_world_size":
        count = workers(call.machine)
        return Const(count) if count is not None else Unknown("how many workers run", uid="world size")
    if name == "get_world_rank":
        return Const(0, (RANK,))
    return Const(0, (LOCAL_RANK,)) if name == "get_local_rank" else Unknown(f"{name} of the worker")
