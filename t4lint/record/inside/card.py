"""On another GPU than the target's: its memory, and its answers where a library asks what the hardware can do.

The allocator is capped to the target's memory, `torch.cuda.get_device_properties` answers as the target does (name,
capability and bf16 support follow from it), and the attention kernels that the target lacks are off. Nothing of this
initialises CUDA: it waits until the program does. What a larger GPU cannot show (time, the choices of its own C++ code)
is not claimed by what reads the journal.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from . import journal, phantom

AMPERE = (8, 0)  # from which on FlashAttention and cuDNN attention, and memory-efficient attention in bf16, exist


def install(torch: Any) -> None:
    """Called once torch has been imported. Without CUDA in the build there is nothing to do."""
    told = os.environ.get("T4LINT_CARD", "")
    if phantom.there():
        return
    if torch.version.cuda is None or not hasattr(torch.cuda, "_lazy_call"):
        return
    card = _Card(torch, json.loads(told) if told else None)
    if card.wanted is not None:
        card.answer()
    torch.cuda._lazy_call(card.starts)


class Properties:
    """What the target answers; what it does not say is the real GPU's."""

    def __init__(self, real: Any, wanted: dict[str, Any]) -> None:
        self._real = real
        self.name = wanted["name"]
        self.major, self.minor = wanted["capability"]
        self.total_memory = wanted["total_memory"]
        self.multi_processor_count = wanted["processors"]
        self.shared_memory_per_block_optin = wanted["shared"]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count})"
        )


class _Card:
    """The target's figures: name, capability, total_memory and context in bytes, processors, shared (bytes a block)."""

    def __init__(self, torch: Any, wanted: dict[str, Any] | None) -> None:
        self.torch = torch
        self.wanted = wanted
        self.properties = torch.cuda.get_device_properties

    def differs(self, real: Any) -> bool:
        """Is the real GPU another one than the target?"""
        return self.wanted is not None and real.name != self.wanted["name"]

    def answer(self) -> None:
        """Replace what libraries ask. On the target itself all of it is passed through."""
        cuda, wanted = self.torch.cuda, self.wanted
        assert wanted is not None
        properties, memory, fraction = self.properties, cuda.mem_get_info, cuda.set_per_process_memory_fraction

        def get_device_properties(device: Any = None) -> Any:
            real = properties(device)
            return Properties(real, wanted) if self.differs(real) else real

        def mem_get_info(device: Any = None) -> Any:
            free, total = memory(device)
            if not self.differs(properties(device)):
                return free, total
            used = cuda.memory_reserved(device) + wanted["context"]
            return max(0, min(free, wanted["total_memory"] - used)), wanted["total_memory"]

        def set_per_process_memory_fraction(share: Any, device: Any = None) -> Any:
            real = properties(device)
            if self.differs(real) and isinstance(share, float) and 0 <= share <= 1:
                share = min(share * wanted["total_memory"], wanted["total_memory"] - wanted["context"])
                share = min(1.0, share / real.total_memory)
            return fraction(share, device)

        for name, function in (
            ("get_device_properties", get_device_properties),
            ("mem_get_info", mem_get_info),
            ("set_per_process_memory_fraction", set_per_process_memory_fraction),
        ):
            setattr(cuda, name, function)
        cuda.memory.set_per_process_memory_fraction = set_per_process_memory_fraction
        cuda.memory.mem_get_info = mem_get_info

    def starts(self) -> None:
        """CUDA has just been initialised by the program."""
        try:
            self._start()
        except Exception as error:
            journal.trouble("card", error)

    def _start(self) -> None:
        cuda = self.torch.cuda
        capped = 0
        real = [self.properties(index) for index in range(cuda.device_count())]
        for index, one in enumerate(real):
            if self.differs(one):
                capped = self._cap(index, one)
        if capped and tuple(self.wanted["capability"]) < AMPERE:  # type: ignore[index]
            _no_kernels_of_ampere(self.torch)
        journal.emit(
            "card",
            name=real[0].name if real else None,
            capability=[real[0].major, real[0].minor] if real else None,
            total_memory=real[0].total_memory if real else None,
            count=len(real),
            capped=capped or None,
        )

    def _cap(self, index: int, real: Any) -> int:
        """Leave the allocator what the target has after its context; returns the bytes, 0 where the GPU has less."""
        assert self.wanted is not None
        usable = int(self.wanted["total_memory"] - self.wanted["context"])
        if usable >= real.total_memory:
            return 0
        self.torch._C._cuda_setMemoryFraction(usable / real.total_memory, index)
        return usable


def _no_kernels_of_ampere(torch: Any) -> None:
    """FlashAttention and cuDNN attention stay off whatever the program asks for, and it reads back what it asked for."""
    for name in ("flash", "cudnn"):
        setter = getattr(torch._C, f"_set_sdp_use_{name}", None)
        getter = getattr(torch._C, f"_get_{name}_sdp_enabled", None)
        if setter is None or getter is None:
            continue
        asked = {"on": bool(getter())}
        setter(False)

        def ask(on: bool, asked: dict[str, bool] = asked) -> None:
            asked["on"] = bool(on)

        def answer(asked: dict[str, bool] = asked) -> bool:
            return asked["on"]

        setattr(torch._C, f"_set_sdp_use_{name}", ask)
        setattr(torch._C, f"_get_{name}_sdp_enabled", answer)
    _bf16_attention_by_math(torch)


def _bf16_attention_by_math(torch: Any) -> None:
    """Before Ampere there is no memory-efficient kernel for bf16: attention writes its matrix out."""
    functional = torch.nn.functional
    original = functional.scaled_dot_product_attention

    def scaled_dot_product_attention(query: Any, *args: Any, **kwargs: Any) -> Any:
        if query.dtype is not torch.bfloat16 or not query.is_cuda or torch.compiler.is_compiling():
            return original(query, *args, **kwargs)
        before = torch._C._get_mem_efficient_sdp_enabled()
        torch._C._set_sdp_use_mem_efficient(False)
        try:
            return original(query, *args, **kwargs)
        finally:
            torch._C._set_sdp_use_mem_efficient(before)

    functional.scaled_dot_product_attention = scaled_dot_product_attention


def on_gpu() -> bool:
    """Has the program initialised CUDA? Asking does not."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())
