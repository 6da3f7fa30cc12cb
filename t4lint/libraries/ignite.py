"""PyTorch-Ignite: an Engine runs a function over what a loader gives; `ignite.distributed` fits a program to its processes.

Read in 0.5: `Engine.run`, `create_supervised_trainer` and `create_supervised_evaluator` (ignite/engine), `auto_model`,
`auto_optim` and `auto_dataloader` (ignite/distributed/auto.py), `Parallel.run` (ignite/distributed/launcher.py).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from t4lint.interpret.values import (
    NONE,
    Abstract,
    Bound,
    Const,
    Function,
    ListValue,
    Object,
    Scope,
    Symbol,
    Unknown,
    leaves,
    with_origin,
)
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
from t4lint.libraries.torch import set_device
from t4lint.libraries.torch_cuda import as_device
from t4lint.libraries.torch_distributed import wrap_for_launch

aliases(
    {
        "ignite.engine.engine.Engine": "ignite.engine.Engine",
        "ignite.distributed.launcher.Parallel": "ignite.distributed.Parallel",
    }
)

RUN = """
for epoch in range(epochs):
    for batch in data:
        process(engine, batch)
    after()
"""
# `supervised_training_step` and `supervised_training_step_amp` (ignite/engine/__init__.py)
TRAINING = """
def step(engine, batch):
    model.train()
    x, y = batch
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
"""
TRAINING_AMP = """
def step(engine, batch):
    model.train()
    x, y = batch
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with autocast("cuda", enabled=True):
        loss = loss_fn(model(x), y)
    if scaler:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
    return loss.item()
"""
EVALUATION = """
def step(engine, batch):
    model.eval()
    with no_grad():
        x, y = batch
        return model(x.to(device)), y
"""


def written(m: Any, text: str, names: Mapping[str, Abstract]) -> tuple[list[ast.stmt], Scope, Any]:
    """What a method of the library does, as statements that stand at the call, with the scope they run in."""
    source, node = m.sites[-1]
    kept = m.globals.setdefault("$ignite", {})
    key = (id(node), text)
    if key not in kept:
        body = ast.parse(text).body
        for statement in body:
            for part in ast.walk(statement):
                if "lineno" in part._attributes:
                    ast.copy_location(part, node)
        kept[key] = body
    scope = Scope(None)
    scope.names.update(names)
    return kept[key], scope, source


def perform(m: Any, text: str, names: Mapping[str, Abstract]) -> Scope:
    """Run what a method of the library does."""
    from t4lint.interpret import statements
    from t4lint.interpret.machine import Frame

    body, scope, source = written(m, text, names)
    path = m.path
    m.frames.append(Frame(source, scope, loops=len(m.loops), forks=m.forks))
    try:
        statements.run(m, body)
    finally:
        m.frames.pop()
        m.path = path
    return scope


def engine_of(process: Abstract) -> Object:
    return Object("ignite engine", "ignite.engine.Engine", {"$process": process, "$handlers": ListValue(())})


@calls("ignite.engine.Engine")
def engine(call: Call) -> Abstract:
    return engine_of(call.argument("process_function", 0))


@calls("ignite.engine.create_supervised_trainer")
def supervised_trainer(call: Call) -> Abstract:
    m = call.machine
    mode, scaler = call.argument("amp_mode", None, NONE), call.argument("scaler", None, Const(False))
    micro = call.argument("gradient_accumulation_steps", None, Const(1))
    if (
        not isinstance(mode, Const)
        or mode.value not in (None, "amp")
        or not isinstance(micro, Const)
        or micro.value != 1
    ):
        return engine_of(Unknown("a step with another amp mode, or with accumulation"))
    if isinstance(scaler, Const) and scaler.value is True:
        scaler = m.call(Symbol("torch.cuda.amp.GradScaler"), Arguments())
    names = {"model": call.argument("model", 0), "optimizer": call.argument("optimizer", 1), "scaler": scaler}
    names |= {
        "loss_fn": call.argument("loss_fn", 2),
        "device": device_given(call, 3),
        "autocast": Symbol("torch.autocast"),
    }
    scope = perform(m, TRAINING if mode.value is None else TRAINING_AMP, names)
    return engine_of(scope.names["step"])


@calls("ignite.engine.create_supervised_evaluator")
def supervised_evaluator(call: Call) -> Abstract:
    names = {"model": call.argument("model", 0), "device": device_given(call, 2), "no_grad": Symbol("torch.no_grad")}
    return engine_of(perform(call.machine, EVALUATION, names).names["step"])


def device_given(call: Call, position: int) -> Abstract:
    """The device that batches are moved to; without one they stay on the host, where loaders put them."""
    device = call.argument("device", position, NONE)
    return Const("cpu") if isinstance(device, Const) and device.value is None else device


@methods("ignite engine", "run")
def run(call: Call) -> Abstract:
    m, this = call.machine, call.receiver
    data = call.argument("data", 0, NONE)
    after = Object("ignite handlers", "ignite.handlers", {"$engine": this})
    names = {
        "process": this.attributes["$process"],
        "engine": this,
        "data": data,
        "after": after,
        "range": Symbol("builtins.range"),
    }
    perform(m, RUN, {**names, "epochs": call.argument("max_epochs", 1, Const(1))})
    return Unknown("the state of an engine")


@methods("ignite handlers", "__call__")
def call_handlers(call: Call) -> Abstract:
    """What is attached to events of an engine, once an epoch: when each is due is not followed."""
    this = call.receiver.attributes["$engine"]
    for handler in this.attributes["$handlers"].items:
        function, *given = handler.items
        call.machine.call(function, Arguments((this, *given)))
    return NONE


def attach(m: Any, this: Object, handler: Abstract, given: tuple[Abstract, ...] = ()) -> None:
    if isinstance(handler, (Function, Bound)):
        handlers = this.attributes["$handlers"]
        m.write(handlers.state, "items", (*handlers.items, ListValue((handler, *given), "tuple")))


@methods("ignite engine", "add_event_handler")
def add_event_handler(call: Call) -> Abstract:
    attach(call.machine, call.receiver, call.argument("handler", 1), call.arguments.positional[2:])
    return Unknown("an attached handler")


@methods("ignite engine", "on")
def on(call: Call) -> Abstract:
    return Object(
        "ignite attachment", "ignite.on", {"$engine": call.receiver, "$given": ListValue(call.arguments.positional[1:])}
    )


@methods("ignite attachment", "decorate")
def decorate(call: Call) -> Abstract:
    attributes = call.receiver.attributes
    attach(call.machine, attributes["$engine"], call.arguments.positional[0], attributes["$given"].items)
    return NONE


@methods("ignite engine", "*")
def engine_method(call: Call) -> Abstract:
    return Unknown("what an engine returns")


@methods("ignite engine", "getattr")
def engine_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name in ENGINE_METHODS:
        return Bound(call.receiver, name)
    return Unknown(f"{name} of an engine", uid=f"{call.receiver.uid}.{name}", varies=bool(call.machine.loops))


ENGINE_METHODS = frozenset(
    {"run", "add_event_handler", "on", "fire_event", "register_events", "terminate", "state_dict"}
)


# --- ignite.distributed ------------------------------------------------------------------------------------------


def current_device(m: Any) -> Abstract:
    return as_device(Const("cuda" if m.target.gpu is not None else "cpu"))


@calls("ignite.distributed.device")
def device(call: Call) -> Abstract:
    return current_device(call.machine)


@calls("ignite.distributed.auto_model")
def auto_model(call: Call) -> Abstract:
    """The model on the device of its process, in DDP where there are several."""
    model = call.argument("model", 0)
    for leaf in leaves(model):
        if call.machine.is_module(leaf):
            wrap_for_launch(call.machine, leaf)
            set_device(call.machine, leaf, Const("cuda" if call.machine.target.gpu is not None else "cpu"))
    return model


@calls("ignite.distributed.auto_optim")
def auto_optim(call: Call) -> Abstract:
    return call.argument("optimizer", 0)


@calls("ignite.distributed.auto_dataloader")
def auto_dataloader(call: Call) -> Abstract:
    """A loader that pins memory on a GPU; over several processes batch and workers are divided and samples split."""
    m = call.machine
    keywords = dict(call.arguments.keywords)
    if "pin_memory" not in keywords and m.target.gpu is not None:
        keywords["pin_memory"] = with_origin(Const(True), m.here("default", "auto_dataloader pins memory on a GPU"))
    if m.launch is not None and m.launch.processes_per_node.known and m.launch.processes_per_node.it > 1:
        for name in ("batch_size", "num_workers", "sampler", "shuffle"):
            keywords[name] = Unknown("auto_dataloader fits it to the processes")
    arguments = Arguments(call.arguments.positional, keywords, call.arguments.open)
    return m.call(Symbol("torch.utils.data.DataLoader"), arguments)  # type: ignore[no-any-return]


@calls("ignite.distributed.Parallel")
def parallel(call: Call) -> Abstract:
    return Object("ignite parallel", call.name)


@methods("ignite parallel", "run")
def parallel_run(call: Call) -> Abstract:
    return started(call, call.argument("func", 0), call.arguments.positional[1:])


@calls("ignite.distributed.spawn")
def spawn(call: Call) -> Abstract:
    given = call.argument("args", 2, ListValue(()))
    return started(call, call.argument("fn", 1), given.items if isinstance(given, ListValue) else ())


def started(call: Call, function: Abstract, given: tuple[Abstract, ...]) -> Abstract:
    """The function in each process, with its local rank."""
    rank = call.machine.call(Symbol("ignite.distributed.get_local_rank"), Arguments())
    keywords = {key: value for key, value in call.arguments.keywords.items() if key not in ("func", "fn", "args")}
    call.machine.call(function, Arguments((rank, *given), keywords))
    return NONE


@calls("ignite.distributed.get_rank", "ignite.distributed.get_world_size", "ignite.distributed.get_local_rank")
def ranks(call: Call) -> Abstract:
    from t4lint.libraries.torch_distributed import world_size

    m = call.machine
    processes = world_size(m)
    alone = isinstance(processes, Const) and processes.value == 1
    if call.name.endswith("world_size") or alone:
        return processes if call.name.endswith("world_size") else Const(0)
    name = call.name.rpartition(".")[2].replace("local", "node_local")
    return m.call(Symbol(f"torch.distributed.{name}"), Arguments())  # type: ignore[no-any-return]


@calls("ignite.*")
def anything(call: Call) -> Abstract:
    """Metrics, handlers, loggers: they are attached to engines and compute beside them."""
    return Unknown(f"what {call.name} returns is not known", varies=bool(call.machine.loops))
