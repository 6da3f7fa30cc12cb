"""What would make a training step fit: changes of a plan, the cheapest for the person first.

Cheapness is about the result and the time: first what changes neither, then what costs time, then what changes what is
trained. Each change is measured alone, then the first ones together that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from t4lint.memory.adapters import lora
from t4lint.memory.estimate import Band, optimizer_kind
from t4lint.memory.plan import Plan, usage
from t4lint.memory.shapes import Shape

Change = Callable[[Plan], Plan]
_ADAM = ("adam", "adamw", "nadam", "radam")
_SHORTEST = 128  # tokens; below it a language model learns little
_LARGEST_BATCH = 1024
_LARGEST_LENGTH = 131_072
_ENOUGH_VOCABULARY = 100_000
_LORA_RANK = 16


@dataclass(frozen=True, slots=True)
class Way:
    """A change, what it costs, and the peak that it leads to. `together` are the changes of a combination."""

    title: str
    cost: str
    peak: Band
    expected: float
    fits: bool
    together: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Option:
    title: str
    cost: str
    change: Change


def spanned(plans: Sequence[Plan]) -> tuple[Band, float]:
    """The band over all plans, and its middle by the expectations."""
    uses = [usage(plan) for plan in plans]
    low, high = min(use.peak[0] for use in uses), max(use.peak[1] for use in uses)
    return (low, high), (min(use.expected for use in uses) + max(use.expected for use in uses)) / 2


def ways(plans: Sequence[Plan], shape: Shape | None, limit: float, *, causal: bool) -> tuple[Way, ...]:
    """Single changes that lower the peak, in order of their cost, and the cheapest combination that fits."""
    before = spanned(plans)[0]
    if before[1] <= limit:
        return ()
    found, chain = [], list(plans)
    taken: list[str] = []
    combined: Way | None = None
    for option in _options(plans, shape, limit, causal):
        changed = [option.change(plan) for plan in plans]
        peak, expected = spanned(changed)
        if peak[1] >= before[1] * 0.99 and peak[0] >= before[0] * 0.99:
            continue
        found.append(Way(option.title, option.cost, peak, expected, peak[1] <= limit))
        if combined is None:
            chain = [option.change(plan) for plan in chain]
            taken.append(option.title)
            peak, expected = spanned(chain)
            if peak[1] <= limit and len(taken) > 1:
                combined = Way(" + ".join(taken), "", peak, expected, True, tuple(taken))
            elif peak[1] <= limit:
                combined = found[-1]
    single = next((way for way in found if way.fits), None)
    if combined is not None and combined.together and (single is None or found.index(single) > len(taken) - 1):
        found.append(combined)
    return tuple(found)


def _options(plans: Sequence[Plan], shape: Shape | None, limit: float, causal: bool) -> Iterator[_Option]:
    plan = plans[0]
    if not plan.autocast and plan.weights == "float32":
        yield _Option("fp16 mixed precision", "faster on a T4", lambda it: replace(it, autocast=True))
    if optimizer_kind(plan.optimizer) in _ADAM and not plan.fused and "8bit" not in plan.optimizer:
        yield _Option(
            "fused AdamW", 'no cost: fused=True, optim="adamw_torch_fused"', lambda it: replace(it, fused=True)
        )
    if plan.batch > 1:
        yield from _smaller_batches(plans, limit)
    if causal and plan.vocabulary >= _ENOUGH_VOCABULARY and not plan.chunked_loss:
        yield _Option(
            "a loss in chunks", "no cost: TRL 1.6 and later, Liger kernels", lambda it: replace(it, chunked_loss=True)
        )
    if not all(it.checkpointing for it in plans) and (plan.widths is not None or plan.image_kept):
        if plan.widths is not None:
            yield _Option("activation checkpointing", "20 to 30 % slower", lambda it: replace(it, checkpointing=True))
    if optimizer_kind(plan.optimizer) in _ADAM and "8bit" not in plan.optimizer and plan.adapters is None:
        yield _Option(
            "8-bit AdamW", "the loss may differ a little", lambda it: replace(it, optimizer="adamw_8bit", fused=True)
        )
    if plan.length > _SHORTEST and plan.widths is not None and not plan.image_kept:
        yield from _shorter(plans, limit)
    if shape is not None and plan.adapters is None and plan.trainable > plan.parameters / 2:
        yield from _adapted(shape, quantized=False)
    if shape is not None and plan.quantization == "none" and (shape.parameters > 1e9 or plan.adapters is None):
        yield from _adapted(shape, quantized=True)


def _smaller_batches(plans: Sequence[Plan], limit: float) -> Iterator[_Option]:
    """The largest part of the batch that fits, else single samples, with as many more accumulation steps."""
    batch, accumulation = int(plans[0].batch), int(plans[0].accumulation)
    parts = [part for part in range(batch - 1, 0, -1) if batch % part == 0]

    def of(part: int) -> Change:
        return lambda it: replace(it, batch=part, accumulation=it.accumulation * batch / part)

    fitting = next((part for part in parts if spanned([of(part)(plan) for plan in plans])[0][1] <= limit), 1)
    times = accumulation * batch // fitting
    yield _Option(f"micro-batch {fitting} x accumulation {times}", "the same step, a little slower", of(fitting))


def _shorter(plans: Sequence[Plan], limit: float) -> Iterator[_Option]:
    length = plans[0].length
    candidates = [size for size in _steps(int(length)) if _SHORTEST <= size < length]

    def of(size: int) -> Change:
        return lambda it: replace(it, length=size)

    fitting = next(
        (size for size in reversed(candidates) if spanned([of(size)(plan) for plan in plans])[0][1] <= limit), None
    )
    chosen = fitting or max(_SHORTEST, int(length) // 2)
    yield _Option(f"sequences of {chosen} tokens", "longer texts are cut", of(chosen))


def _adapted(shape: Shape, *, quantized: bool) -> Iterator[_Option]:
    adapters = lora(shape, "all-linear", _LORA_RANK)
    if adapters is None:
        return

    def change(it: Plan) -> Plan:
        return replace(
            it, parameters=shape.parameters + adapters.parameters, trainable=adapters.parameters, adapters=adapters,
            weights="float16", quantization="4bit" if quantized else "none", autocast=True,
        )  # fmt: skip

    name = f"{'QLoRA: ' if quantized else ''}LoRA of rank {_LORA_RANK} on a {'4-bit' if quantized else '16-bit'} base"
    yield _Option(
        name, "trains adapters instead of all weights" if not quantized else "slower steps, adapters only", change
    )


# --- the largest that fits ----------------------------------------------------------------------------------------


def largest_batch(plans: Sequence[Plan], limit: float) -> int | None:
    """The largest micro-batch whose upper edge is within the limit; None where one sample is not.

    One that is smaller than the plan's stands for the same step, in more micro-batches, whose gradients stay between them.
    """
    own = max(1, int(plans[0].batch))
    fits = spanned(plans)[0][1] <= limit
    least, most = (own, max(own, _LARGEST_BATCH)) if fits else (1, own)
    return _largest(lambda size: [_of_size(plan, size) for plan in plans], limit, most, least)


def _of_size(plan: Plan, size: float) -> Plan:
    return replace(plan, batch=size, accumulation=plan.accumulation * max(1.0, plan.batch / size))


def largest_length(plans: Sequence[Plan], limit: float) -> int | None:
    """The largest length, in steps of 64 tokens, at the plan's own batch; None where 64 tokens do not fit."""
    if plans[0].image_kept or plans[0].widths is None:
        return None
    found = _largest(lambda size: [replace(plan, length=64 * size) for plan in plans], limit, _LARGEST_LENGTH // 64, 1)
    return None if found is None else 64 * found


def _largest(made: Callable[[int], list[Plan]], limit: float, most: int, least: int) -> int | None:
    """By bisection: memory only grows."""
    if spanned(made(least))[0][1] > limit:
        return None
    low, high = least, least
    while high < most and spanned(made(high))[0][1] <= limit:
        low, high = high, min(2 * high, most)
    if spanned(made(high))[0][1] <= limit:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if spanned(made(middle))[0][1] <= limit:
            low = middle
        else:
            high = middle
    return low


def _steps(length: int) -> list[int]:
    """Lengths that people take: 128, 192, 256, 384, 512, ..."""
    sizes, size = [], 128
    while size <= length:
        sizes += [size, size * 3 // 2]
        size *= 2
    return sorted(it for it in sizes if it <= length)
