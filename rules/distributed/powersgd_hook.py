"""PowerSGD compresses gradients to low rank, and keeps a copy of them for its error feedback.

## What happens on a T4

The hook sends two thin matrices instead of each gradient. To make up for what is lost it keeps the error of each bucket: as
much memory as the gradients, 4 bytes for each trained parameter, of the 14.6 GiB of the card. With `start_powerSGD_iter` of
1 or less it cannot start at all: torch raises, because DDP orders its buckets anew after the first step.

## How to fix it

Over a network of 10 Gbit/s or less, and where the copy fits, it can pay: start it after a tenth of the steps
(`start_powerSGD_iter=1000` is the default), at rank 1 to 4. Else take `fp16_compress_hook`, which needs no copy and changes
next to nothing.

## When it is right to ignore it

When the memory is there, and the loss was compared with and without it. Without error feedback there is no copy, and nothing is
reported.

## Sources

* torch 2.13 `ddp_comm_hooks/powerSGD_hook.py` (`use_error_feedback`, the ValueError), as run in
  `tests/test_distributed_claims.py`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import NOT_SAID, Call, Fact, Step, Trace, Value
from t4lint.trace.questions import parameters_of

FIRST = 2  # the least `start_powerSGD_iter` with error feedback or warm start
COPY = 4  # bytes a parameter


@rule(
    name="powersgd-hook",
    severity="note",
    summary="PowerSGD keeps another copy of the gradients",
    message="{what}",
    help="Use `fp16_compress_hook`, or start PowerSGD from the second step on and count the copy.",
    triggers=("PowerSGD", "powerSGD", "POWER_SGD"),
    reads=(Call, Step),
)
def powersgd_hook(trace: Trace) -> Iterator[Candidate]:
    parameters = parameters_of(trace)
    for call in trace.all(Call):
        if call.role == "PowerSGDState" or "POWER_SGD" in str(call.arguments.get("comm_hook", NOT_SAID).it):
            start = call.arguments.get("start_powerSGD_iter", Value(1000))
            memory = _on(call, "use_error_feedback")
            early = start.test(lambda iteration: iteration < FIRST) & (memory | _on(call, "warm_start"))
            refused = early.holds is True
            yield Candidate(
                call,
                early if refused else memory,
                blame=start if refused else None,
                severity="error" if refused else None,
                words={"what": _refusal(start) if refused else _copy(parameters)},
            )


def _on(call: Call, name: str) -> Fact:
    return call.arguments.get(name, Value(True)).test(bool)


def _refusal(start: Value) -> str:
    return (
        f"PowerSGD refuses `start_powerSGD_iter={start.it}`: with error feedback or warm start it can begin at step 2."
    )


def _copy(parameters: Value) -> str:
    size = f", {COPY * parameters.it / 2**30:.1f} GiB" if isinstance(parameters.it, (int, float)) else ""
    return f"PowerSGD keeps the error of every gradient: another copy of them on the card{size}."
