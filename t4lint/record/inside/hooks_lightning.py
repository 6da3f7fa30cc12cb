"""Lightning's Trainer and Fabric as they are configured, and adapters that PEFT puts on a model."""

from __future__ import annotations

from typing import Any

from . import journal
from .frames import look
from .hooks_transformers import written
from .probe import wrap

# what Lightning calls a precision (2.6 `lightning/fabric/connector.py`), as mixed precision
MIXED = {"16-mixed": "fp16", "16": "fp16", "bf16-mixed": "bf16", "bf16": "bf16"}
PLAIN = (bool, int, float, str)
FULL = ("32-true", "32", "64-true", "64", "16-true", "bf16-true")


def _trainer(module: Any) -> None:
    _watch(module.Trainer, "Trainer")


def _fabric(module: Any) -> None:
    _watch(module.Fabric, "Fabric")


def _watch(kind: Any, role: str) -> None:
    original = kind.__init__

    def after(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        site = look()
        if not site.user:
            return
        given = written(original, args, kwargs)
        precision = str(given.get("precision") or getattr(args[0], "precision", None) or "32-true")
        mixed = "no" if precision in FULL else MIXED.get(precision)
        if role == "Trainer":
            # what it refuses it may refuse for a name that it no longer has
            refused = {name: value if isinstance(value, PLAIN) else None for name, value in kwargs.items() if error}
            clips = {**refused, "gradient_clip_val": given.get("gradient_clip_val"), "precision": mixed}
            raised = f"{type(error).__name__}: {error}" if error is not None else None
            journal.emit("call", site, function="lightning.pytorch.Trainer", arguments=clips, raises=raised)
        journal.emit(
            "engine",
            site,
            role=role,
            given=["precision"] if given.get("precision") is not None else [],
            mixed_precision=mixed,
            accumulation=given.get("accumulate_grad_batches", 1),
        )

    wrap(kind, "__init__", None, after)


def _adapters(module: Any) -> None:
    def after(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        config = args[1] if len(args) > 1 else kwargs.get("peft_config")
        fields = {name: value for name, value in vars(config).items() if value is not None} if config else {}
        fields["config"] = type(config).__name__
        journal.emit("call", look(), function="peft.get_peft_model", arguments=fields, raises=None)

    wrap(module, "get_peft_model", None, after)


HOOKS = {
    "lightning.fabric.fabric": _fabric,
    "lightning.pytorch.trainer.trainer": _trainer,
    "lightning_fabric.fabric": _fabric,
    "peft.mapping_func": _adapters,
    "pytorch_lightning.trainer.trainer": _trainer,
}
