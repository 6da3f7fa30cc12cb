"""Operations that fakes cannot do by themselves: their shapes depend on values, or nobody has written shapes for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map

from . import shadow

LARGEST = 1 << 24  # bytes of what goes into an operation that is tried on the CPU


class Made:
    """What came out. `guessed`: the values that were made up for its shape. `passing`: bytes taken and given back."""

    def __init__(self, result: Any, guessed: str = "", passing: int = 0) -> None:
        self.result, self.guessed, self.passing = result, guessed, passing


def without_values(func: Any, args: Any, fakes: Any) -> Made | None:
    """By what is known of the operation; None where nothing is. `fakes`: the mode in which fakes are made."""
    known = SHAPES.get(func._schema.name)
    return known(fakes, *args) if known is not None else None


def on_the_cpu(func: Any, args: Any, kwargs: Any) -> Any:
    """The operation on real tensors of the CPU: values that are known, else zeros. None where that is too large."""
    given = [it for it in tree_leaves((args, kwargs)) if isinstance(it, torch.Tensor)]
    if func._schema.is_mutable or sum(it.numel() * it.element_size() for it in given) > LARGEST:
        return None
    real_args, real_kwargs = tree_map(_real, (args, kwargs))
    return func(*real_args, **real_kwargs)


def _real(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        known = shadow.of(value)
        return known if known is not None else torch.zeros(value.shape, dtype=value.dtype)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _nonzero(fakes: Any, tensor: Any) -> Made:
    with fakes:
        found = torch.empty((tensor.numel(), tensor.dim()), dtype=torch.int64, device=tensor.device)
    return Made(found, "which are selected")


def _masked_select(fakes: Any, tensor: Any, mask: Any) -> Made:
    with fakes:
        return Made(tensor.new_empty((tensor.numel(),)), "which are selected")


def _unique(fakes: Any, tensor: Any, *more: Any) -> Made:
    """All of them differ: an upper bound."""
    with fakes:
        positions = torch.empty(tensor.shape, dtype=torch.int64, device=tensor.device)
        counts = torch.empty(tensor.numel(), dtype=torch.int64, device=tensor.device)
        return Made((tensor.new_empty((tensor.numel(),)), positions, counts), "which differ")


def _packed(fakes: Any, tensor: Any, lengths: Any, batch_first: bool) -> Made:
    """A packed sequence: the lengths are real, and on the CPU. Returns the steps in a row, and how many run at each."""
    counts = [int(it) for it in lengths]
    sizes = torch.tensor([sum(it > step for it in counts) for step in range(max(counts, default=0))])
    with fakes:
        return Made((tensor.new_empty((sum(counts), *tensor.shape[2:])), sizes))


def _int8_rows(fakes: Any, tensor: Any, threshold: float = 0.0) -> Made:
    """bitsandbytes: rows in 8 bits, their scales, and which columns have outliers: none."""
    with fakes:
        scales = torch.empty(tensor.numel() // tensor.shape[-1], dtype=torch.float32, device=tensor.device)
        outliers = None if threshold == 0.0 else torch.empty(0, dtype=torch.int64, device=tensor.device)
        rows = torch.empty(tensor.shape, dtype=torch.int8, device=tensor.device)
    return Made((rows, scales, outliers), "which columns have outliers" if threshold else "")


def _int8_mixed(fakes: Any, tensor: Any, rows: Any, weight: Any, *more: Any) -> Made:
    """bitsandbytes: a product in 8 bits without outliers, by way of one in 32 bits."""
    with fakes:
        out = torch.empty((*rows.shape[:-1], weight.shape[0]), dtype=tensor.dtype, device=tensor.device)
        outliers = torch.empty((*rows.shape[:-1], 0), dtype=tensor.dtype, device=tensor.device)
    return Made((out, outliers), passing=out.numel() * torch.int32.itemsize)


def _gru_cell(fakes: Any, gates: Any, hidden_gates: Any, state: Any, *biases: Any) -> Made:
    """The next state, and five values a unit that backward needs (aten/src/ATen/native/cuda/RNN.cu)."""
    with fakes:
        return Made((state.new_empty(state.shape), state.new_empty((state.shape[0], 5 * state.shape[1]))))


def _gru_cell_backward(fakes: Any, gradient: Any, kept: Any, biased: bool) -> Made:
    batch, width = gradient.shape
    with fakes:
        gates = [gradient.new_empty((batch, 3 * width)) for _ in range(2)]
        biases = [gradient.new_empty((3 * width,)) if biased else None for _ in range(2)]
        return Made((*gates, gradient.new_empty((batch, width)), *biases))


def _ctc(fakes: Any, log_probs: Any, targets: Any, inputs: Any, lengths: Any, *more: Any) -> Made:
    """A loss a sequence, and the table of the forward variable: twice the longest target and one wide."""
    longest = max((int(it) for it in _values(lengths)), default=0)
    steps, batch = log_probs.shape[:2]
    with fakes:
        return Made((log_probs.new_empty((batch,)), log_probs.new_empty((batch, steps, 2 * longest + 1))))


def _ctc_backward(fakes: Any, gradient: Any, log_probs: Any, *more: Any) -> Made:
    with fakes:
        return Made(torch.empty_like(log_probs))


def _no_library(fakes: Any, *args: Any) -> Made:
    return Made(False)


def _values(lengths: Any) -> Any:
    if isinstance(lengths, FakeTensor):
        known = shadow.of(lengths)
        return known.tolist() if known is not None else []
    return lengths


SHAPES: dict[str, Callable[..., Made]] = {
    "aten::nonzero": _nonzero,
    "aten::masked_select": _masked_select,
    "aten::_pack_padded_sequence": _packed,
    "aten::_unique2": _unique,
    "aten::unique_consecutive": _unique,
    "aten::_thnn_fused_gru_cell": _gru_cell,
    "aten::_thnn_fused_gru_cell_backward": _gru_cell_backward,
    "aten::_use_cudnn_ctc_loss": _no_library,
    "aten::_use_miopen_ctc_loss": _no_library,
    "aten::_ctc_loss": _ctc,
    "aten::_ctc_loss_backward": _ctc_backward,
    "bitsandbytes::int8_vectorwise_quant": _int8_rows,
    "bitsandbytes::int8_mixed_scaled_mm": _int8_mixed,
}
