"""Which kernel of scaled dot product attention the card would take, and that kernel's memory.

In torch the choice is made by the CUDA build, which is not there, so fakes would always take the math path. Sources:
aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and attention.cpp of torch 2.13, for compute capability 7.5.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .tell import Card, Tell

AMPERE = (8, 0)  # from which on flash attention exists, and the memory-efficient kernel in bfloat16
GQA_FROM = (2, 14)  # grouped queries in the memory-efficient kernel: pytorch/pytorch#191085
ALIGNED = 16  # bytes that a head must be a multiple of, where tensor cores are used (minimum_gemm_alignment)
MASK_ALIGNED = 16  # elements that the last dimension of a mask is padded to (pad_bias)


def install(torch: Any, card: Card, tell: Tell, is_fake: Any) -> None:
    """Replace `F.scaled_dot_product_attention`; what is not on the card goes to the original."""
    original = torch.nn.functional.scaled_dot_product_attention
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit())

    def scaled_dot_product_attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        more: dict[str, Any] = {"scale": scale}
        if enable_gqa:
            more["enable_gqa"] = True
        if not is_fake(query) or query.device.type != "cuda":
            return original(query, key, value, attn_mask, dropout_p, is_causal, **more)
        if torch.is_autocast_enabled("cuda"):
            query, key, value, attn_mask = _lowered(torch, query, key, value, attn_mask)
        kernel, why = choice(torch, card.capability, release, query, key, value, enable_gqa)
        tell.fact(
            "attention", role="call", implementation="sdpa", kernel=kernel, why=why, dtype=query.dtype,
            head_dim=query.shape[-1], length=query.shape[-2],
        )  # fmt: skip
        if kernel == "math":
            with _only_math(torch._C):
                return original(query, key, value, attn_mask, dropout_p, is_causal, **more)
        groups = query.shape[1] // max(1, key.shape[1])
        if enable_gqa and groups > 1:
            key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        recorded = torch.is_grad_enabled() and any(it.requires_grad for it in (query, key, value))
        bias = None if attn_mask is None else _bias(torch, attn_mask, query, key)
        run = torch.ops.aten._scaled_dot_product_efficient_attention
        return run(query, key, value, bias, recorded, dropout_p, is_causal, scale=scale)[0]

    scaled_dot_product_attention.__doc__ = original.__doc__
    torch.nn.functional.scaled_dot_product_attention = scaled_dot_product_attention


@contextlib.contextmanager
def _only_math(switches: Any) -> Iterator[None]:
    """A build with CUDA asks the driver which other kernels there are, unless they are switched off."""
    before = {name: getattr(switches, f"_get_{name}_sdp_enabled")() for name in ("flash", "mem_efficient", "cudnn")}
    for name in before:
        _switch(switches, name)(False)
    try:
        yield
    finally:
        for name, on in before.items():
            _switch(switches, name)(on)


def _switch(switches: Any, name: str) -> Any:
    return getattr(switches, f"_set_sdp_use_{name}")


def choice(
    torch: Any, capability: tuple[int, int], release: tuple[int, ...], query: Any, key: Any, value: Any, gqa: bool
) -> tuple[str, str]:
    """The kernel, and why it is not a better one."""
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return "math", "not four dimensions"
    recent = capability >= AMPERE
    halves = (torch.float16, torch.bfloat16)
    equal = query.shape[-1] == key.shape[-1] == value.shape[-1]
    if recent and torch.backends.cuda.flash_sdp_enabled() and query.dtype in halves and equal:
        return "flash", ""
    if not torch.backends.cuda.mem_efficient_sdp_enabled():
        return "math", "the memory-efficient kernel is switched off"
    if query.dtype not in (torch.float16, torch.float32) and not (recent and query.dtype is torch.bfloat16):
        return (
            "math",
            f"no memory-efficient kernel for {_name(query.dtype)} on compute capability {_dotted(capability)}",
        )
    if gqa and query.shape[1] != key.shape[1] and release < GQA_FROM:
        return "math", "this torch has no memory-efficient kernel for enable_gqa"
    step = ALIGNED // query.element_size() if query.dtype in halves or recent else 1
    if query.shape[-1] != key.shape[-1] or query.shape[-1] % step or value.shape[-1] % step:
        return "math", f"the head size is no multiple of {step}"
    if any(it.stride(-1) != 1 for it in (query, key, value)):
        return "math", "the last dimension is not contiguous"
    return "efficient", ""


def _lowered(torch: Any, *tensors: Any) -> list[Any]:
    """Autocast, which the original's dispatch key would have done."""
    dtype = torch.get_autocast_dtype("cuda")
    return [it.to(dtype) if it is not None and it.is_floating_point() else it for it in tensors]


def _bias(torch: Any, mask: Any, query: Any, key: Any) -> Any:
    """The mask as the kernel takes it: numbers, a padded last dimension, expanded to all heads."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    length = mask.shape[-1]
    if length % MASK_ALIGNED:
        mask = torch.nn.functional.pad(mask, [0, MASK_ALIGNED - length % MASK_ALIGNED])[..., :length]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
