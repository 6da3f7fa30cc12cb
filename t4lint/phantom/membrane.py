"""Where the real and the fake meet: CPU tensors are real, tensors on the phantom are fakes.

One dispatch mode for the whole run. What only touches real CPU tensors goes through; what is made on the card, or moved
there, becomes a fake; what comes back gets the value behind it, or one that is made up. Each such guess is counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves, tree_map

from . import convolution, finite, operations, shadow
from .ledger import Ledger
from .tell import Tell

aten = torch.ops.aten
CUDA = "cuda"
MOVED_BACK = 1 << 30  # bytes from which on a tensor that is moved to the CPU stays a fake: a whole model

PRODUCTS = frozenset({
    aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.addmv.default, aten.mv.default,
})  # fmt: skip
CONVOLUTIONS = frozenset({aten.convolution.default, aten.convolution_backward.default})
INDEXERS = frozenset({
    aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default,
})  # fmt: skip
# a known operand that decides the result alone: True in an "or", False in an "and"
DECIDES = {
    aten.bitwise_or.Tensor: True, aten.logical_or.default: True, aten.bitwise_or_.Tensor: True, aten.__or__.Tensor: True,
    aten.bitwise_and.Tensor: False, aten.logical_and.default: False, aten.bitwise_and_.Tensor: False,
    aten.__and__.Tensor: False,
}  # fmt: skip
# the scaler finds no overflow, and its scale stays
SCALING = frozenset({
    aten._amp_foreach_non_finite_check_and_unscale_.default, aten._amp_update_scale_.default,
})  # fmt: skip


class Membrane(TorchDispatchMode):  # type: ignore[misc]
    """Entered once torch is imported, and never left."""

    def __init__(self, tell: Tell, ledger: Ledger, watch: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.tell = tell
        self.ledger = ledger
        self.plans: set[Any] = set()
        self.fakes = FakeTensorMode(allow_non_fake_inputs=True, static_shapes=True)
        self.special: dict[Any, Callable[..., Any]] = {
            aten._local_scalar_dense.default: self._scalar,
            aten.equal.default: self._equal,
            aten._to_copy.default: self._moved,
            aten.copy_.default: self._copied,
            aten.record_stream.default: lambda func, args, kwargs: None,
        }

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(hasattr(it, "__tensor_flatten__") for it in types):
            return NotImplemented  # a wrapper (DTensor): it unpacks itself, and its parts come here
        kwargs = kwargs or {}
        tensors = [it for it in tree_leaves((args, kwargs)) if isinstance(it, torch.Tensor)]
        if not any(isinstance(it, FakeTensor) for it in tensors) and not _asks_for_cuda(kwargs):
            if func is aten._local_scalar_dense.default and not tensors:
                return args[0]  # a tensor that C++ made of a Python number comes as that number
            return func(*args, **kwargs)
        if _composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        special = self.special.get(func)
        if special is not None:
            result = special(func, args, kwargs)
            if result is not NotImplemented:
                return result
        if func in INDEXERS:
            args = (args[0], self._indices(args[1]), *args[2:])
            tensors = [it for it in tree_leaves((args, kwargs)) if isinstance(it, torch.Tensor)]
        if func in PRODUCTS:
            self.ledger.matmul()
        elif func in CONVOLUTIONS:
            self.ledger.could_take(_workspace(func, args))
        known = self._value(func, args, kwargs, tensors)
        out = self._run(func, args, kwargs, known)
        if known is None:
            known = _decided(func, tensors, out)
        shadow.attach(out, known, FakeTensor)
        mutable = func._schema.is_mutable
        if known is None and mutable and func not in SCALING:
            shadow.forget_written(func, args, FakeTensor)
        if known is None and not mutable:
            number = finite.known(func, args, tensors)
            if number is not None:
                finite.keep(out, number)
        self._account(out, func)
        if func in CONVOLUTIONS:
            self._searched(func, args)
        return out

    def _searched(self, func: Any, args: Any) -> None:
        """The first convolution of its kind looks for the fastest plan, if the program wants that."""
        for key in convolution.searched(func is aten.convolution.default, args):
            if key not in self.plans:
                self.plans.add(key)
                self.ledger.emptied()

    def within(self) -> bool:
        """Is one of its operations running? Shapes are worked out in Python, by functions that programs call too."""
        return self not in _get_current_dispatch_mode_stack()

    def guess(self, what: str, steers: bool) -> None:
        """A value was made up. `steers`: the program may have gone another way because of it."""
        self.tell.fact("guess", what=what, steers=steers)

    def made(self, value: Any) -> Any:
        """A fake like this real tensor, on the CPU."""
        return self.fakes.from_tensor(value, static_shapes=True)

    def real(self, tensor: Any, dtype: Any = None) -> Any:
        """A real CPU tensor for a fake: the value behind it, else zeros."""
        self._waited(tensor)
        value = shadow.of(tensor)
        if value is not None:
            return value.to(dtype or tensor.dtype, copy=True)
        if tensor.device.type == CUDA:
            self.guess("values", steers=False)
        return torch.zeros(tensor.shape, dtype=dtype or tensor.dtype)

    # --- the run -------------------------------------------------------------------------------------------------

    def _run(self, func: Any, args: Any, kwargs: Any, known: Any) -> Any:
        if known is None:
            made = operations.without_values(func, args, self.fakes)
            if made is not None:
                return self._taken(made, func, args[0])
        if not any(isinstance(it, FakeTensor) for it in tree_leaves((args, kwargs))):
            # an operation on real tensors that asks for the card: torch would keep them as constants, on a real card
            args, kwargs = tree_map(lambda it: self.made(it) if isinstance(it, torch.Tensor) else it, (args, kwargs))
        try:
            with self.fakes:
                return func(*args, **kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException):
            self._waited(args[0])
            error = NotImplementedError(f"{func} depends on values that are not there")
            out = known
        except NotImplementedError as raised:
            error = raised
            out = known if known is not None else self._tried(func, args, kwargs)
        if out is None:
            self._unsupported(func, error)
            raise error
        return tree_map(lambda it: self._on_card(it) if isinstance(it, torch.Tensor) else it, out)

    def _taken(self, made: operations.Made, func: Any, first: Any) -> Any:
        if made.guessed:
            self._waited(first)
            self.guess(made.guessed, steers=True)
        if made.passing:
            self.ledger.passing(made.passing, func._schema.name)
        return made.result

    def _tried(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Nobody has written the shapes of this operation: it is done on the CPU, to see them."""
        try:
            return operations.on_the_cpu(func, args, kwargs)
        except Exception:  # it may be for the card only, or want other values
            return None

    def _unsupported(self, func: Any, error: Exception) -> None:
        self.tell.fact("unsupported", operation=str(func), error=f"{type(error).__name__}: {error}"[:300])

    def _on_card(self, value: Any) -> Any:
        with self.fakes:
            return torch.empty(value.shape, dtype=value.dtype, device=CUDA)

    def _account(self, out: Any, func: Any) -> None:
        for item in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(item, (tuple, list)):
                self._account(item, func)
            elif isinstance(item, FakeTensor) and item.device.type == CUDA:
                self.ledger.add(item.untyped_storage(), func._schema.name.removeprefix("aten::"))

    # --- values --------------------------------------------------------------------------------------------------

    def _value(self, func: Any, args: Any, kwargs: Any, tensors: list[Any]) -> Any:
        """What comes out for real, where everything that goes in is known and small."""
        if any(isinstance(it, FakeTensor) and shadow.of(it) is None for it in tensors):
            return None
        if any(it.numel() > shadow.LARGEST for it in tensors) or func in SCALING:
            return None
        if not tensors and not _small_factory(func, args):
            return None
        if func._schema.is_mutable and not any(isinstance(it, FakeTensor) for it in tensors):
            return None  # it would be done twice to a real tensor
        try:
            real_args, real_kwargs = tree_map(_behind, (args, kwargs))
            real_kwargs.pop("pin_memory", None)
            return func(*real_args, **real_kwargs)
        except Exception:  # what the CPU cannot do stays unknown
            return None

    def _indices(self, indices: Any) -> list[Any]:
        """Masks become positions: the known ones, or all of them."""
        found: list[Any] = []
        for index in indices:
            if not isinstance(index, FakeTensor) or index.dtype not in (torch.bool, torch.uint8):
                found.append(index)
                continue
            self._waited(index)
            mask = shadow.of(index)
            if mask is None:
                self.guess("which are selected", steers=True)
                mask = torch.ones(index.shape, dtype=torch.bool)
            for positions in mask.nonzero(as_tuple=True):
                with self.fakes:
                    made = torch.empty(positions.shape, dtype=torch.int64, device=index.device)
                shadow.attach(made, positions, FakeTensor)
                found.append(made)
        return found

    def _scalar(self, func: Any, args: Any, kwargs: Any) -> Any:
        """`item()`, `bool()`, `int()`: NaN guards pass, losses are 1."""
        tensor = args[0]
        if not isinstance(tensor, FakeTensor):
            return NotImplemented
        self._waited(tensor)
        value = shadow.of(tensor)
        if value is not None:
            return value.item()
        self.guess("a truth value" if tensor.dtype == torch.bool else "a number", steers=tensor.dtype == torch.bool)
        if tensor.is_complex():
            return 1.0 + 0.0j
        return 1.0 if tensor.is_floating_point() else tensor.dtype != torch.bool and 1

    def _waited(self, tensor: Any) -> None:
        """The host asks for a value of the card, and so waits for it."""
        if isinstance(tensor, torch.Tensor) and tensor.device.type == CUDA:
            self.tell.count("waits for the GPU")

    def _equal(self, func: Any, args: Any, kwargs: Any) -> Any:
        for tensor in args:
            self._waited(tensor)
        values = [shadow.of(it) if isinstance(it, FakeTensor) else it for it in args]
        if all(it is not None for it in values):
            return torch.equal(*values)
        self.guess("a truth value", steers=True)
        return False

    def _moved(self, func: Any, args: Any, kwargs: Any) -> Any:
        """From the card to the CPU; a cast or a move to the card is an operation like others."""
        tensor, device = args[0], kwargs.get("device")
        if device is None or tensor.device.type == torch.device(device).type:
            return NotImplemented
        if tensor.numel():
            self.tell.count("copies to the GPU" if tensor.device.type == "cpu" else "copies to the CPU")
        if not isinstance(tensor, FakeTensor) or tensor.device.type != CUDA or torch.device(device).type != "cpu":
            return NotImplemented
        if tensor.numel() * tensor.element_size() > MOVED_BACK:
            return NotImplemented
        return self.real(tensor, kwargs.get("dtype"))

    def _copied(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Into a real tensor of the CPU."""
        target, source = args[0], args[1]
        if target.device.type != source.device.type:
            self.tell.count("copies to the GPU" if source.device.type == "cpu" else "copies to the CPU")
        if isinstance(target, FakeTensor) or not isinstance(source, FakeTensor):
            return NotImplemented
        value = shadow.of(source)
        if value is not None:
            return func(target, value)
        self.guess("values", steers=False)
        return target


@functools.cache
def _composite(func: Any) -> bool:
    """Is it nothing but other operations? Of inference mode, and of tensors that were made in it, such come whole.

    What has a kernel of its own besides (SiLU's backward) is one operation on a GPU.
    """
    if func.namespace != "aten" or not func._can_decompose():
        return False
    name = func.name()
    return not any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in ("CPU", "CUDA"))


def _workspace(func: Any, args: Any) -> int:
    if func is aten.convolution.default:
        return convolution.workspace(args[0], args[1], args[3], args[5], args[6], args[8])
    return convolution.workspace(args[1], args[2], args[4], args[6], args[7], args[9])


def _asks_for_cuda(kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == CUDA


def _small_factory(func: Any, args: Any) -> bool:
    """Random numbers are no values, and large tensors are not made twice."""
    if func._schema.is_mutable or "rand" in func._schema.name:
        return False
    elements = 1
    for size in tree_leaves(args):
        if isinstance(size, int):
            elements *= max(1, abs(size))
    return elements <= shadow.FACTORY


def _behind(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return shadow.of(value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _decided(func: Any, tensors: list[Any], out: Any) -> Any:
    """`unknown or True` is True: so loops end whose condition is partly known."""
    decisive = DECIDES.get(func)
    if decisive is None or not isinstance(out, torch.Tensor):
        return None
    for tensor in tensors:
        value = shadow.of(tensor) if isinstance(tensor, FakeTensor) else tensor
        if value is None or not value.numel() or (value.dtype != torch.bool and decisive):
            continue
        if bool((value == decisive).all()):
            return torch.full(out.shape, decisive, dtype=out.dtype)
    return None
