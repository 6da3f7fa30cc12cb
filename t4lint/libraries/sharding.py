"""What shards a training: DeepSpeed's ZeRO and FSDP, from their configurations in every form.

Read from DeepSpeed 0.19.6 (`runtime/zero/config.py`), accelerate 1.15 (`utils/dataclasses.py`), transformers 5.24
(`integrations/deepspeed.py`: "auto" and what must match) and torch 2.13. The options of the `Wrap` are the settings by their
names in DeepSpeed; `offload_optimizer` and `offload_param` name the device, `strategy` is FSDP's.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import (
    NONE,
    Abstract,
    Const,
    DictValue,
    ListValue,
    Object,
    Step,
    Symbol,
    Unknown,
    replace_origins,
)
from t4lint.libraries.api import Call, calls
from t4lint.trace import Wrap, whole_number

STAGES = {1: "zero1", 2: "zero2", 3: "zero3"}
# Defaults of DeepSpeed 0.19.6; `overlap_comm` is on for stage 3 only.
BUCKET = 500_000_000  # elements
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
# FSDP's strategies by the number that accelerate's configuration may give them.
STRATEGIES = {1: "FULL_SHARD", 2: "SHARD_GRAD_OP", 3: "NO_SHARD", 4: "HYBRID_SHARD", 5: "HYBRID_SHARD_ZERO2"}


def deepspeed_config(m: Any, config: Abstract | None) -> Abstract:
    """A DeepSpeed configuration as a dict: given as one, or as the name of a file; None where there is none."""
    from t4lint.libraries.configs import load_file, value_of

    config = m.resolve(config) if config is not None else NONE
    if isinstance(config, Const) and isinstance(config.value, str):
        document = load_file(m, config.value)
        return value_of(document.data) if document is not None else Unknown("the DeepSpeed configuration")
    return config


def say_zero(m: Any, subject: str, config: Abstract, filled: dict[str, Abstract] | None = None) -> None:
    """ZeRO as a DeepSpeed configuration asks for it. `filled` is what "auto" stands for under the Trainer."""
    if not isinstance(config, DictValue):
        return
    zero = m.resolve(config.items.get("zero_optimization") or NONE)
    if not isinstance(zero, DictValue):
        return
    stage = m.resolve(zero.items.get("stage") or Const(0))
    if not isinstance(stage, Const) or stage.value not in STAGES:
        return
    options: dict[str, Abstract] = {}
    for name in ("reduce_bucket_size", "contiguous_gradients", "overlap_comm", "zero_hpz_partition_size"):
        options[name] = _option(m, zero, name, stage)
    for name in ("offload_optimizer", "offload_param"):
        block = m.resolve(zero.items.get(name) or NONE)
        options[name] = _device(m, block)
    for name in BATCH:
        value = m.resolve(config.items.get(name) or NONE)
        if isinstance(value, Const) and value.value == "auto":
            value = (filled or {}).get(name) or Unknown(f"{name} is filled in")
        options[name] = value
    options["by_trainer"] = Const(filled is not None)
    m.emit(Wrap, "engine", subject, how=Const(STAGES[stage.value], stage.origins), options=options)


def _option(m: Any, zero: DictValue, name: str, stage: Const) -> Abstract:
    """A setting, or its default. "auto" is small: the Trainer fills in the square of the hidden size."""
    value: Abstract | None = m.resolve(zero.items[name]) if name in zero.items else None
    if value is not None:
        auto = isinstance(value, Const) and value.value == "auto"
        return Unknown(f"{name} is filled in by the Trainer") if auto else value
    if not zero.complete:
        return Unknown(f"{name} may be given")
    defaults = {"reduce_bucket_size": BUCKET, "contiguous_gradients": True, "overlap_comm": stage.value == 3}
    note = f"DeepSpeed's default of {name}"
    return Const(defaults.get(name, 1), (*stage.origins[:1], Step("default", note)))


def _device(m: Any, block: Abstract) -> Abstract:
    """Where an `offload_...` block sends things: "none" where there is none."""
    if isinstance(block, DictValue):
        device = m.resolve(block.items.get("device") or Const("none"))
        return replace_origins(device, device.origins) if isinstance(device, (Const, Unknown)) else device
    return Const("none") if isinstance(block, Const) and block.value is None else Unknown("whether it offloads")


def say_fsdp(m: Any, subject: str, strategy: Abstract, offload: Abstract, note: Abstract | None = None) -> None:
    """FSDP as a Trainer or an accelerate configuration asks for it."""
    if isinstance(strategy, Const) and strategy.value == "NO_SHARD":
        m.emit(Wrap, "engine", subject, how=Const("ddp", strategy.origins))
        return
    how = Const("fsdp", (note or strategy).origins)
    m.emit(Wrap, "engine", subject, how=how, options={"strategy": strategy, "offload_param": offload})


def strategy_of(m: Any, value: Abstract) -> Abstract:
    """A sharding strategy by its name or number, or as torch's constant."""
    value = m.resolve(value)
    if isinstance(value, Symbol):
        return Const(value.name.rpartition(".")[2], value.origins)
    if isinstance(value, Const):
        text = str(value.value)
        number = whole_number(text)
        name = text if number is None else STRATEGIES.get(number, text)
        return Const(name.upper(), value.origins)
    return Unknown("the sharding strategy")


# --- Trainer -----------------------------------------------------------------------------------------------------


def say_sharding(m: Any, arguments: Object) -> None:
    """What `TrainingArguments(deepspeed=..., fsdp=...)` shards."""
    a = arguments.attributes
    batch, accumulation = a["per_device_train_batch_size"], a["gradient_accumulation_steps"]
    config = deepspeed_config(m, a.get("deepspeed"))
    filled = {"train_micro_batch_size_per_gpu": batch, "gradient_accumulation_steps": accumulation}
    say_zero(m, arguments.uid, config, filled)
    fsdp = m.resolve(a.get("fsdp") or NONE)
    words = fsdp_words(fsdp)
    if not words:
        return
    sharding = next((word for word in words if word.upper() in STRATEGIES.values()), None)
    if sharding is None and words[0] not in ("true", "auto_wrap"):
        return
    strategy = Const((sharding or "full_shard").upper(), fsdp.origins)
    say_fsdp(m, arguments.uid, strategy, Const("cpu" if "offload" in words else "none", fsdp.origins), fsdp)


def fsdp_words(value: Abstract) -> list[str]:
    """`"full_shard auto_wrap offload"`, a list of them, or True."""
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value.lower().split()
    if isinstance(value, Const) and value.value is True:
        return ["true"]
    if isinstance(value, ListValue):
        return [str(item.value).lower() for item in value.items if isinstance(item, Const)]
    return []


# --- accelerate ----------------------------------------------------------------------------------------------------


def say_accelerate(m: Any, subject: str) -> bool:
    """What the configuration of `accelerate launch` shards; is anything sharded?"""
    config = m.globals.get("$accelerate config") or flags_as_config(m)
    if not isinstance(config, DictValue):
        return False
    kind = m.resolve(config.items.get("distributed_type") or NONE)
    named = kind.value if isinstance(kind, Const) else None
    section = {"DEEPSPEED": "deepspeed_config", "FSDP": "fsdp_config"}.get(str(named))
    settings = m.resolve(config.items.get(section) or NONE) if section else NONE
    if not isinstance(settings, DictValue):
        return section is not None
    if section == "deepspeed_config":
        say_zero(m, subject, inline_deepspeed(m, settings))
    else:
        items = settings.items
        strategy = strategy_of(m, items.get("fsdp_sharding_strategy") or Const("FULL_SHARD", kind.origins))
        reshard = m.resolve(items.get("fsdp_reshard_after_forward") or NONE)
        if isinstance(reshard, Const) and isinstance(reshard.value, bool):  # version 2
            strategy = Const("FULL_SHARD" if reshard.value else "SHARD_GRAD_OP", reshard.origins)
        offloads = m.resolve(items.get("fsdp_offload_params") or Const(False))
        on = m.truth(offloads)
        where = Unknown("whether it offloads") if on is None else Const("cpu" if on else "none", offloads.origins)
        say_fsdp(m, subject, strategy, where)
    return True


def flags_as_config(m: Any) -> DictValue | None:
    """`accelerate launch --use_deepspeed --zero_stage 3`, `--use_fsdp --fsdp_sharding_strategy ...` as a configuration."""
    flags = m.launch.launcher_flags if m.launch is not None and m.launch.launcher == "accelerate" else {}
    named = next((name for name in ("use_deepspeed", "use_fsdp") if name in flags), None)
    if named is None or "config_file" in flags:
        return None
    given: dict[Any, Abstract] = {}
    for name, word in flags.items():
        step = Step("flag", f"--{name} {word.text}", location=word.location)
        if word.text is None:
            given[name] = Unknown(word.why or f"--{name} is not known", (step,))
        else:
            number = whole_number(word.text)
            given[name] = Const(word.text if number is None else number, (step,))
    kind = Const("DEEPSPEED" if named == "use_deepspeed" else "FSDP", given[named].origins)
    section = "deepspeed_config" if named == "use_deepspeed" else "fsdp_config"
    return DictValue({"distributed_type": kind, section: DictValue(given, complete="" not in flags)})


def inline_deepspeed(m: Any, settings: DictValue) -> Abstract:
    """accelerate's short form of a DeepSpeed configuration, or the file that it names."""
    items = settings.items
    if "deepspeed_config_file" in items:
        return deepspeed_config(m, items["deepspeed_config_file"])
    zero: dict[Any, Abstract] = {"stage": items.get("zero_stage") or Const(2)}
    for short, name in (("offload_optimizer_device", "offload_optimizer"), ("offload_param_device", "offload_param")):
        if short in items:
            zero[name] = DictValue({"device": items[short]})
    made: dict[Any, Abstract] = {"zero_optimization": DictValue(zero)}
    if "gradient_accumulation_steps" in items:
        made["gradient_accumulation_steps"] = items["gradient_accumulation_steps"]
    return DictValue(made)


@calls("accelerate.DeepSpeedPlugin", "accelerate.utils.DeepSpeedPlugin", "accelerate.utils.dataclasses.DeepSpeedPlugin")
def deepspeed_plugin(call: Call) -> Abstract:
    m = call.machine
    file = call.arguments.get("hf_ds_config", 0)
    if file is not None:
        config = deepspeed_config(m, file)
    else:
        names = ("zero_stage", "offload_optimizer_device", "offload_param_device", "gradient_accumulation_steps")
        config = inline_deepspeed(m, DictValue({n: call.argument(n) for n in names if call.given(n)}))
    say_zero(m, "", config)
    return Object("plugin", call.name)


@calls(
    "accelerate.FullyShardedDataParallelPlugin", "accelerate.utils.FullyShardedDataParallelPlugin",
    "accelerate.utils.dataclasses.FullyShardedDataParallelPlugin",
)  # fmt: skip
def fsdp_plugin(call: Call) -> Abstract:
    m = call.machine
    given = call.argument("sharding_strategy", 0, Const("FULL_SHARD"))
    here = Const("fsdp", (m.here("literal", call.name),))
    say_fsdp(m, "", strategy_of(m, given), offload_of(m, call.arguments.get("cpu_offload")), here)
    return Object("plugin", call.name)


@calls("torch.distributed.fsdp.CPUOffload", "torch.distributed.fsdp.CPUOffloadPolicy")
def cpu_offload(call: Call) -> Abstract:
    on = Const(True) if call.name.endswith("Policy") else call.argument("offload_params", 0, Const(False))
    return Object("cpu offload", call.name, {"on": on}, (call.machine.here("literal", call.name),))


def offload_of(m: Any, value: Abstract | None) -> Abstract:
    """Where FSDP's `cpu_offload` or `offload_policy` sends things: "cpu" or "none"."""
    value = m.resolve(value) if value is not None else NONE
    if isinstance(value, Object):
        on = m.truth(value.attributes["on"]) if value.kind == "cpu offload" else False
        origins = value.origins
    elif isinstance(value, Const):
        on, origins = bool(value.value), value.origins
    else:
        on, origins = None, ()
    return Unknown("whether it offloads") if on is None else Const("cpu" if on else "none", origins)
