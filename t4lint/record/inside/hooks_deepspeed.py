"""DeepSpeed's engine: what its configuration came to, and its optimizer steps as one each.

`deepspeed.initialize` and the engines of the Trainer and of accelerate are the same class. Its configuration is read once it
has been worked out: "auto" and defaults are numbers then. Read in DeepSpeed 0.19.8 (`runtime/engine.py`, `runtime/config.py`,
`runtime/zero/config.py`, `runtime/zero/stage_1_and_2.py`).
"""

from __future__ import annotations

from typing import Any

from . import journal, stop
from .frames import Site, look
from .hooks_torch import step_of_an_engine, step_of_an_engine_ended
from .probe import wrap
from .state import configured, state

SCALER = "DeepSpeed"  # by its name in `scaled_by`: it scales losses itself
STAGES = {1: "zero1", 2: "zero2", 3: "zero3"}
BLOCKS = ("fp16", "bf16", "torch_autocast")


def _initialize(module: Any) -> None:
    """The call as the program writes it. It needs no engine: the configuration may be refused."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = look()
        if not site.user or site.engine:
            return
        config = kwargs.get("config", kwargs.get("config_params"))
        given = getattr(kwargs.get("args", args[0] if args else None), "deepspeed_config", None)
        config = config if config is not None else given
        if isinstance(config, str):
            config = module.runtime.config_utils.load_ds_config(config)
        if isinstance(config, dict):
            known = any(name in config or ("bfloat16" in config and name == "bf16") for name in BLOCKS)
            journal.emit(
                "call", site, function="deepspeed.initialize", arguments={"precision_block": known}, raises=None
            )

    wrap(module, "initialize", before)


def _engine(module: Any) -> None:
    engine = module.DeepSpeedEngine

    def made(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if error is None:
            _say_engine(args[0], look())

    def before_backward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stop.if_pending()
        state.scales = SCALER if _scales(args[0]) else ""

    def after_backward(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        state.scales = ""

    def before_step(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        trained = sum(it.numel() for it in args[0].module.parameters() if it.requires_grad)
        step_of_an_engine(trained if args[0].zero_optimization_stage() < 3 else None, _scales(args[0]))

    def after_step(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if error is None:
            step_of_an_engine_ended()

    wrap(engine, "__init__", None, made)
    wrap(engine, "backward", before_backward, after_backward)
    wrap(engine, "_take_model_step", before_step, after_step)


def _scales(engine: Any) -> bool:
    """fp16 has its own loss scaling; with `torch_autocast` in fp16 a scaler of torch may do it, which is seen anyway."""
    return bool(engine.fp16_enabled())


def _say_engine(engine: Any, site: Site) -> None:
    """At the statement that holds the configuration: that of the arguments or the Accelerator, where one of them made it."""
    place = configured.get(site.engine) or site
    stage = int(engine.zero_optimization_stage())
    journal.emit(
        "engine",
        place,
        role="DeepSpeed",
        given=["config"],
        mixed_precision=_precision(engine),
        micro_batch=engine.train_micro_batch_size_per_gpu(),
        accumulation=engine.gradient_accumulation_steps(),
        optimizer=type(engine.basic_optimizer).__name__ if engine.basic_optimizer is not None else None,
        sharding=STAGES.get(stage, "none"),
    )
    if stage in STAGES:
        journal.emit(
            "wrap",
            place,
            role="engine",
            how=STAGES[stage],
            options=_options(engine, by_trainer=site.engine == "Trainer"),
        )


def _precision(engine: Any) -> str:
    if engine.fp16_enabled():
        return "fp16"
    if engine.bfloat16_enabled():
        return "bf16"
    autocast = getattr(engine, "torch_autocast_enabled", lambda: False)
    if not autocast():
        return "no"
    return "fp16" if str(engine.torch_autocast_dtype()) == "torch.float16" else "bf16"


def _options(engine: Any, by_trainer: bool) -> dict[str, Any]:
    zero = engine._config.zero_config
    options = {
        name: getattr(zero, name)
        for name in ("reduce_bucket_size", "contiguous_gradients", "overlap_comm", "zero_hpz_partition_size")
    }
    for name in ("offload_optimizer", "offload_param"):
        block = getattr(zero, name)
        device = getattr(block, "device", None)
        options[name] = "none" if device is None else str(getattr(device, "value", device))
    options["train_batch_size"] = engine.train_batch_size()
    options["train_micro_batch_size_per_gpu"] = engine.train_micro_batch_size_per_gpu()
    options["gradient_accumulation_steps"] = engine.gradient_accumulation_steps()
    options["by_trainer"] = by_trainer
    return options


HOOKS = {"deepspeed": _initialize, "deepspeed.runtime.engine": _engine}
