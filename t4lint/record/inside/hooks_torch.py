"""What torch does in a training loop: autocast, loss scaling, backward, clipping, optimizer steps."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from . import (
    card,
    hooks_calls,
    hooks_data,
    hooks_math,
    hooks_modules,
    hooks_setup,
    journal,
    keeping,
    libraries,
    meter,
    phantom,
    stop,
)
from .frames import look
from .journal import ordered
from .keeping import note_backward
from .probe import given, wrap
from .scale import divided_by
from .state import Region, optimizers, scalers, state


def install(torch: Any) -> None:
    """Called once torch has been imported. Each group stands alone: one that fails leaves the others."""
    others = (keeping.install, hooks_math.install, hooks_setup.install, hooks_modules.install, hooks_calls.install)
    for group in (phantom.install, card.install, _autocast, _scaler, _backward, _clipping, _optimizer, *others):
        try:
            group(torch)
        except Exception as error:
            journal.trouble(f"{group.__module__}.{group.__name__}", error)
    meter.seed(torch)
    journal.emit("torch", version=str(torch.__version__), cuda=torch.version.cuda)


HOOKS = {"torch": install, **hooks_setup.HOOKS, **hooks_data.HOOKS}


# --- autocast ----------------------------------------------------------------------------------------------------


def _autocast(torch: Any) -> None:
    """Arguments as asked for: without CUDA torch turns a CUDA region off, and keeps no trace of the wish."""
    autocast = torch.amp.autocast_mode.autocast
    original = autocast.__init__

    def made(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Noted before the call: inside it a region may be refused, which is still what the program asked for.
        asked = given(original, args, kwargs)
        context = asked["self"]
        site = look()
        made_at = site.user[0] if site.user else None
        context._t4lint_asked = (asked["device_type"], asked["dtype"], bool(asked["enabled"]), site.engine, made_at)

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stop.if_pending()
        _enter(torch, args[0])

    def leave(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        stack = state.regions.stack
        for index in range(len(stack) - 1, -1, -1):
            if stack[index].context is args[0]:
                del stack[index]
                break

    wrap(autocast, "__init__", made)
    wrap(autocast, "__enter__", enter)
    wrap(autocast, "__exit__", None, leave)


def _enter(torch: Any, context: Any) -> None:
    device, dtype, enabled, engine, made_at = context._t4lint_asked
    name = str(dtype or context.fast_dtype).removeprefix("torch.")
    state.regions.stack.append(Region(context, device, name if enabled else "none"))
    site = look()
    if state.phase == "backward" or site.within("torch.utils.checkpoint"):
        return  # activation checkpointing enters the region again
    engine = engine or site.engine
    if not enabled and (engine or any(not module.startswith("torch") for module, _ in site.between)):
        return  # a library's own island without autocast, such as rotary embeddings
    state.entered = name if enabled else state.entered
    ordered(
        "autocast",
        site,
        device=device,
        dtype=name,
        dtype_given=dtype is not None,
        enabled=enabled,
        engine=engine,
        made_at=made_at,
    )


# --- loss scaling ------------------------------------------------------------------------------------------------


def _scaler(torch: Any) -> None:
    """`enabled` is what was asked for: a scaler that is off only because CUDA is absent still counts as scaling."""
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    original = scaler.__init__

    def made(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        asked = given(original, args, kwargs)
        asked["self"]._t4lint_enabled = bool(asked["enabled"])
        if not getattr(asked["self"], "_enabled", True):
            _off.add(scalers.of(asked["self"]))
        _say_scaler("init", asked["self"])

    def before_scale(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        meter.loss(args[1] if len(args) > 1 else kwargs.get("outputs"))
        _say_scaler("scale", args[0])

    def after_scale(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if getattr(args[0], "_t4lint_enabled", True):
            _mark(result, scalers.of(args[0]))

    def before_unscale(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not state.scalers_stepping:  # `step` does it by itself where the program has not
            _say_scaler("unscale", args[0], _second(args, kwargs))

    def before_step(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        _say_scaler("step", args[0], _second(args, kwargs))
        state.scalers_stepping.append(scalers.of(args[0]))

    def after_step(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        state.scalers_stepping.pop()

    def before_update(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        _say_scaler("update", args[0])

    def after_update(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if error is None:
            stop.if_pending()

    wrap(scaler, "__init__", None, made)
    wrap(scaler, "scale", before_scale, after_scale)
    wrap(scaler, "unscale_", before_unscale)
    wrap(scaler, "step", before_step, after_step)
    wrap(scaler, "update", before_update, after_update)


def _second(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[1] if len(args) > 1 else kwargs.get("optimizer")


def _say_scaler(operation: str, scaler: Any, optimizer: Any = None) -> None:
    ordered(
        "scaler",
        look(),
        operation=operation,
        subject=scalers.of(scaler),
        optimizer="" if optimizer is None else optimizers.of(getattr(optimizer, "optimizer", optimizer)),
        enabled=getattr(scaler, "_t4lint_enabled", True),
    )


_off: set[str] = set()  # scalers that return their input, because CUDA is absent or they were asked to


def _mark(result: Any, name: str) -> None:
    """Remember which scaler made a tensor. A scaler that is off returns its input: then the mark is on that."""
    if isinstance(result, (list, tuple)):
        for item in result:
            _mark(item, name)
    elif hasattr(result, "backward"):
        result._t4lint_scaled_by = name
        if result.grad_fn is not None:
            result.grad_fn.metadata["_t4lint_scaled_by"] = name


def _scaled_by(tensors: Any) -> str:
    """The scaler behind what `backward` is called on, also through a later division or sum."""
    roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    for root in roots:
        name = getattr(root, "_t4lint_scaled_by", "")
        if name:
            return str(name)
    nodes = [root.grad_fn for root in roots if getattr(root, "grad_fn", None) is not None]
    for node in nodes[:32]:
        seen = 0
        queue = [node]
        while queue and seen < 16:
            seen += 1
            current = queue.pop(0)
            name = current.metadata.get("_t4lint_scaled_by", "")
            if name:
                return str(name)
            queue.extend(parent for parent, _ in current.next_functions if parent is not None)
    return "none"


# --- backward ----------------------------------------------------------------------------------------------------


def _backward(torch: Any) -> None:
    """`Tensor.backward` calls this too."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        stop.if_pending()
        phase, state.phase = state.phase, "backward"
        state.depth += 1
        if state.depth > 1:
            state.reentrant = True  # activation checkpointing of the older kind
            return phase
        try:
            state.phase = "backward"
            meter.border("forward")
            _say_backward(args, kwargs)
        except Exception as error:
            journal.trouble("backward", error)
        return phase

    def after(args: tuple[Any, ...], kwargs: dict[str, Any], phase: Any, result: Any, error: Any) -> None:
        state.depth -= 1
        if state.depth == 0:
            meter.border("backward")
            state.phase = "optimizer" if state.closure else "forward"
            state.micro += 1
            state.backwards += 1
            state.forward.clear()
            state.forward_ran.clear()
            state.region, state.entered = "", ""
        elif phase is not None:
            state.phase = phase

    wrap(torch.autograd, "backward", before, after)


def _say_backward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    tensors = args[0] if args else kwargs.get("tensors")
    first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
    retain = args[2] if len(args) > 2 else kwargs.get("retain_graph")
    if state.region:
        state.last_region = state.region
    elif state.forward:
        state.last_region = "none"
    elif state.entered:  # a forward whose math we do not see, such as a compiled one
        state.last_region = state.entered
    note_backward(first)
    site = look()
    by_program, by_engine = divided_by(first, site.engine)
    name = _scaled_by(tensors)
    if name == "none" and not state.scales:
        meter.loss(first)
    ordered(
        "backward",
        site,
        device=getattr(getattr(first, "device", None), "type", None),
        dtype=max(state.forward, key=lambda name: state.forward[name]) if state.forward else None,
        ran=max(state.forward_ran, key=lambda name: state.forward_ran[name]) if state.forward_ran else None,
        autocast=state.last_region,
        scaled_by=state.scales if name == "none" and state.scales else name,
        scaler_off=name in _off,
        inside_autocast=state.regions.dtype != "none",
        retain_graph=bool(retain),
        divided_by=by_program,
        engine_divides=by_engine,
        in_no_sync=state.in_no_sync,
        forward_in_no_sync=state.forward_in_no_sync,
    )


# --- gradients and optimizers ------------------------------------------------------------------------------------


def _clipping(torch: Any) -> None:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        parameters = args[0] if args else kwargs.get("parameters")
        strict = args[3] if len(args) > 3 else kwargs.get("error_if_nonfinite", False)
        ordered("clip", look(), subject=_owner(parameters), error_if_nonfinite=bool(strict))

    module = torch.nn.utils.clip_grad
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        wrap(module, name, before)
        setattr(torch.nn.utils, name, getattr(module, name))


_alive: weakref.WeakSet[Any] = weakref.WeakSet()


def _owner(parameters: Any) -> str:
    """The optimizer that holds these parameters. A generator is left alone: looking would use it up."""
    if len(_alive) == 1:
        return optimizers.of(next(iter(_alive)))
    first = parameters[0] if isinstance(parameters, (list, tuple)) and parameters else parameters
    for optimizer in list(_alive):
        if any(first is parameter for group in optimizer.param_groups for parameter in group["params"]):
            return optimizers.of(optimizer)
    return ""


def _optimizer(torch: Any) -> None:
    def made(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if error is None:
            _say_optimizer(args[0])

    def before_zero(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = look()
        if not site.through("zero_grad"):  # a wrapper that calls on
            to_none = args[1] if len(args) > 1 else kwargs.get("set_to_none", True)
            ordered("zero_grad", site, set_to_none=bool(to_none))

    module: Any = sys.modules["torch.optim.optimizer"]
    wrap(torch.optim.Optimizer, "__init__", None, made)
    wrap(torch.optim.Optimizer, "zero_grad", before_zero)
    wrap(torch.nn.Module, "zero_grad", before_zero)
    module.register_optimizer_step_pre_hook(_safe(_before_step))
    module.register_optimizer_step_post_hook(_safe(_after_step))


def _say_optimizer(optimizer: Any) -> None:
    _alive.add(optimizer)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sizes: dict[str, int] = {}
    for parameter in parameters:
        name = str(parameter.dtype).removeprefix("torch.")
        sizes[name] = sizes.get(name, 0) + parameter.numel()
    defaults = optimizer.defaults
    journal.emit(
        "optimizer",
        look(),
        subject=optimizers.of(optimizer),
        name=type(optimizer).__name__,
        implementation=f"{type(optimizer).__module__}.{type(optimizer).__qualname__}",
        fused=defaults.get("fused"),
        foreach=defaults.get("foreach"),
        eps=defaults.get("eps"),
        parameters=sum(sizes.values()),
        dtype=max(sizes, key=lambda name: sizes[name]) if sizes else None,
    )


def _safe(look_at: Any) -> Any:
    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            look_at(optimizer, (args[1] if len(args) > 1 else kwargs.get("closure")) is not None)
        except Exception as error:
            journal.trouble("optimizer step", error)

    return hook


class EngineStep:
    """A step of an engine that may call its optimizer several times for it: once for each group, or for no one's sake.

    `parameters`: how many are trained, None for those of the optimizer; `scales`: does the engine scale losses itself.
    """

    def __init__(self, parameters: int | None, scales: bool) -> None:
        self.parameters, self.scales = parameters, scales
        self.optimizer: Any = None


def step_of_an_engine(parameters: int | None, scales: bool) -> None:
    """From here on all steps of optimizers are one, up to `step_of_an_engine_ended`."""
    state.engine_step = EngineStep(parameters, scales)


def step_of_an_engine_ended() -> None:
    """Nothing is counted where no optimizer was called: its gradients overflowed."""
    taken, state.engine_step = state.engine_step, None
    if taken is not None and taken.optimizer is not None:
        _after_step(taken.optimizer, closure=False)


def _before_step(optimizer: Any, closure: bool) -> None:
    """With a closure the forward and the backward are still to come: the step is told of when they are over."""
    stop.if_pending()
    engine = state.engine_step
    if engine is not None:
        if engine.optimizer is not None:
            return
        engine.optimizer = optimizer
    state.closure = closure and engine is None
    if not state.step:
        libraries.tell()
    phantom.step(optimizer)
    if not state.closure:
        state.phase = "optimizer"
        _say_step(optimizer, engine)


def _say_step(optimizer: Any, engine: EngineStep | None) -> None:
    groups = optimizer.param_groups
    first = next((parameter for group in groups for parameter in group["params"]), None)
    counted = engine.parameters if engine is not None else None
    ordered(
        "step",
        look(),
        subject=optimizers.of(optimizer),
        device=None if first is None else first.device.type,
        asked=state.math(asked=True),
        ran=state.math(asked=False),
        compiled=state.compiled,
        backwards=state.backwards,
        parameters=counted or sum(parameter.numel() for group in groups for parameter in group["params"]),
        through_scaler=bool(state.scalers_stepping) or (engine is not None and engine.scales),
    )


def _after_step(optimizer: Any, closure: bool) -> None:
    if state.engine_step is not None:
        return
    if state.closure:
        state.closure = False
        _say_step(optimizer, None)
    name = optimizers.of(optimizer)
    state.phase = "forward"
    state.step += 1
    phantom.step(optimizer)
    meter.step_ended(optimizer)
    state.backwards = 0
    state.reentrant = False
    state.stepped.add(name)
    state.forget_math()
    stop.after_step(bool(state.scalers_stepping))
