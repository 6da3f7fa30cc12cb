"""Engines: TrainingArguments and its kin, Accelerator, and models loaded with `from_pretrained`."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import threading
from typing import Any

from . import journal
from .frames import Site, look
from .hooks_setup import ask, describe
from .probe import wrap
from .state import configured, state

PUBLIC = ("transformers", "trl", "accelerate", "peft", "optimum", "setfit", "sentence_transformers")


class _Nest(threading.local):
    """How deep inside a call of the same kind: only the outermost is what the program wrote."""

    def __init__(self) -> None:
        self.depth: dict[str, int] = {}


_nest = _Nest()


def _enter(kind: str) -> int:
    _nest.depth[kind] = _nest.depth.get(kind, 0) + 1
    return _nest.depth[kind]


def _leave(kind: str) -> None:
    _nest.depth[kind] -= 1


# --- TrainingArguments -------------------------------------------------------------------------------------------


def _training_arguments(module: Any) -> None:
    """Wrap `__init__` of the class and of each dataclass below it, so that the values are those after all of
    `__post_init__` and the arguments those that were given."""
    base = module.TrainingArguments
    _watch_arguments(base)
    process = dataclasses._process_class  # type: ignore[attr-defined]

    def _process_class(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = process(cls, *args, **kwargs)
        try:
            if issubclass(made, base) and "__init__" in vars(made):
                _watch_arguments(made)
        except Exception as error:
            journal.trouble("dataclass", error)
        return made

    dataclasses._process_class = _process_class  # type: ignore[attr-defined]


def _watch_arguments(cls: Any) -> None:
    original = cls.__init__

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        return _enter("arguments")

    def after(args: tuple[Any, ...], kwargs: dict[str, Any], depth: Any, result: Any, error: Any) -> None:
        _leave("arguments")
        if depth == 1:
            site = look()
            _say_call(site, _public(type(args[0])), written(original, args, kwargs), error)
            _say_arguments(site, args[0], kwargs)

    wrap(cls, "__init__", before, after)


def written(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments as given, without defaults; without a signature that fits, the keywords."""
    try:
        found = dict(inspect.signature(original).bind_partial(*args, **kwargs).arguments)
    except TypeError:
        found = dict(kwargs)
    found.pop("self", None)
    found.update(found.pop("kwargs", None) or {})
    return found


def _public(cls: type) -> str:
    """`transformers.TrainingArguments`: the public name of the class, or of the library's class below a user's own."""
    for kind in cls.__mro__:
        top = kind.__module__.partition(".")[0]
        if top in PUBLIC:
            return f"{top}.{kind.__name__}"
    return f"{cls.__module__}.{cls.__name__}"


def _say_call(site: Site, function: str, arguments: dict[str, Any], error: BaseException | None) -> None:
    raised = f"{type(error).__name__}: {error}" if error is not None else None
    journal.emit("call", site, function=function, arguments=arguments, raises=raised)


def _chosen(arguments: Any, kwargs: dict[str, Any], *names: str) -> list[str]:
    """Which of these were given another value than the default; a parser hands over all of them."""
    fields = {field.name: field.default for field in dataclasses.fields(arguments)}
    return [name for name in names if name in kwargs and kwargs[name] != fields.get(name)]


def _say_arguments(site: Site, arguments: Any, kwargs: dict[str, Any]) -> None:
    def read(*names: str) -> Any:
        return next((getattr(arguments, name) for name in names if getattr(arguments, name, None) is not None), None)

    if read("deepspeed"):
        configured["Trainer"] = site
    fp16, bf16 = bool(read("fp16")), bool(read("bf16"))
    strategy = read("eval_strategy", "evaluation_strategy")
    journal.emit(
        "engine",
        site,
        role=_public(type(arguments)).rpartition(".")[2],
        given=_chosen(arguments, kwargs, "fp16", "bf16"),
        mixed_precision="fp16" if fp16 else "bf16" if bf16 else "no",
        tf32=read("tf32"),
        micro_batch=read("per_device_train_batch_size"),
        eval_micro_batch=read("per_device_eval_batch_size"),
        accumulation=read("gradient_accumulation_steps"),
        sequence_length=read("max_length", "max_seq_length"),
        activation_checkpointing=bool(read("activation_checkpointing", "gradient_checkpointing")),
        reentrant=reentrant(read("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs")),
        optimizer=read("optim"),
        workers=read("dataloader_num_workers"),
        pin_memory=read("dataloader_pin_memory"),
        evaluates=None if strategy is None else str(getattr(strategy, "value", strategy)),
        sharding="fsdp" if read("fsdp") else "none" if not read("deepspeed") else None,
    )


def reentrant(options: Any) -> bool:
    """The kind of checkpointing that these options give: before transformers 5.0 the reentrant one by default."""
    version = getattr(sys.modules.get("transformers"), "__version__", "")
    default = int(str(version).partition(".")[0] or 5) < 5
    return bool(options.get("use_reentrant", default)) if isinstance(options, dict) else default


# --- Trainer and Accelerator --------------------------------------------------------------------------------------


METRICS = ("compute_metrics", "preprocess_logits_for_metrics")


def _trainer(module: Any) -> None:
    original = module.Trainer.__init__

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        journal.fact("evaluation", look())

    def made(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        """Of the arguments only whether there are functions that say what evaluation keeps."""
        asked = written(original, args, kwargs)
        if hasattr(asked.get("model"), "parameters"):
            state.taken.add(asked["model"])
        functions = {
            name: getattr(asked[name], "__name__", "function") for name in METRICS if asked.get(name) is not None
        }
        _say_call(look(), _public(type(args[0])), functions, error)

    wrap(module.Trainer, "evaluation_loop", before)
    wrap(module.Trainer, "__init__", None, made)


def _contexts(accelerator: Any) -> None:
    """`accumulate` and `no_sync`, where the user's own code enters them."""

    def entered(name: str) -> Any:
        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            site = look()
            if site.engine != "Trainer":
                journal.fact("call", site, function=f"accelerate.Accelerator.{name}", arguments={})

        return before

    for name in ("accumulate", "no_sync"):
        wrap(accelerator, name, entered(name))


def _accelerator(module: Any) -> None:
    _contexts(module.Accelerator)
    original = module.Accelerator.__init__

    def after(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        site = look()
        if site.engine == "Trainer":
            return  # the trainer's own: its arguments have been told
        configured["Accelerator"] = site
        asked = written(original, args, kwargs)
        accelerator = args[0]
        _say_call(site, "accelerate.Accelerator", asked, error)
        precision = _attempt(accelerator, "mixed_precision") or asked.get("mixed_precision")
        accumulation = _attempt(accelerator, "gradient_accumulation_steps") or asked.get("gradient_accumulation_steps")
        journal.emit(
            "engine",
            site,
            role="Accelerator",
            given=[name for name in ("mixed_precision",) if asked.get(name) is not None],
            mixed_precision=str(precision) if precision is not None else None,
            accumulation=accumulation,
        )

    wrap(module.Accelerator, "__init__", None, after)


def _attempt(thing: Any, name: str) -> Any:
    """An attribute that is a property, of an object that may be half-made."""
    try:
        return getattr(thing, name)
    except Exception:
        return None


# --- models ------------------------------------------------------------------------------------------------------


def _modeling(module: Any) -> None:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _enter("from_pretrained"), {name: kwargs.get(name) for name in _LOAD if kwargs.get(name) is not None}

    def after(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        _leave("from_pretrained")
        if note is not None and note[0] == 1:
            name = args[1] if len(args) > 1 else kwargs.get("pretrained_model_name_or_path")
            _say_load(name, note[1], result[0] if isinstance(result, tuple) else result, error)

    # The auto classes too: they may fail before they have found the model's class.
    for owner in ("PreTrainedModel", "_BaseAutoModelClass"):
        if hasattr(module, owner):
            wrap(getattr(module, owner), "from_pretrained", before, after)


_LOAD = (
    "dtype", "torch_dtype", "attn_implementation", "device_map", "quantization_config", "load_in_4bit", "load_in_8bit",
)  # fmt: skip


def _say_load(name: Any, asked: dict[str, Any], model: Any, error: BaseException | None) -> None:
    config = getattr(model, "config", None)
    quantization = asked.get("quantization_config") or getattr(config, "quantization_config", None)
    site = look()
    if asked.get("attn_implementation") is not None:
        journal.fact("attention", site, role="config", implementation=asked["attn_implementation"])
    journal.emit(
        "model",
        site,
        role="load",
        name=name,
        requested_dtype=asked.get("dtype", asked.get("torch_dtype")),
        quantization=_quantization(asked, quantization),
        compute_dtype=_field(quantization, "bnb_4bit_compute_dtype"),
        attention=asked.get("attn_implementation") or getattr(config, "_attn_implementation", None),
        device_map=asked.get("device_map"),
        raised=f"{type(error).__name__}: {error}" if error is not None else None,
        **(describe(model) if model is not None else {}),
    )


def _quantization(asked: dict[str, Any], config: Any) -> str:
    if asked.get("load_in_4bit") or _field(config, "load_in_4bit"):
        return "4bit"
    if asked.get("load_in_8bit") or _field(config, "load_in_8bit"):
        return "8bit"
    method = _field(config, "quant_method")
    return "none" if config is None else str(getattr(method, "value", method))


def _field(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)


def _questions(library: str, *names: str) -> Any:
    def hook(module: Any) -> None:
        for name in names:
            wrap(module, name, None, ask(f"{library}.{name}"))

    return hook


HOOKS = {
    "transformers.training_args": _training_arguments,
    "transformers.trainer": _trainer,
    "transformers.modeling_utils": _modeling,
    "transformers.models.auto.auto_factory": _modeling,
    "transformers.utils.import_utils": _questions(
        "transformers.utils",
        "is_torch_bf16_gpu_available",
        "is_torch_bf16_available",
        "is_torch_tf32_available",
        "is_flash_attn_2_available",
    ),
    "accelerate.accelerator": _accelerator,
    "accelerate.utils.imports": _questions("accelerate.utils", "is_bf16_available", "is_cuda_available"),
}
