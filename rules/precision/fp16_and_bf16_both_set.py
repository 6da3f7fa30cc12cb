"""`fp16` and `bf16` are both switched on in one configuration.

## What happens on a T4

The constructor ends with `ValueError: At most one of fp16 and bf16 can be True, but not both`; for evaluation in half
precision the same holds of `fp16_full_eval` and `bf16_full_eval`. It usually comes from two sources: a default in the
program and a flag on the command line.

## How to fix it

Keep `fp16` and drop `bf16`: a T4 has hardware for fp16 only.

## When it is right to ignore it

Never; it fails on every GPU.

## Sources

* transformers 4.30 to 5.24, `training_args.py`; constructed on 5.24
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import Call, Trace

PAIRS = (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval"))


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None:
        yield DropArgument(candidate.blame, str(candidate.words["bf16"]), otherwise="False")


@rule(
    name="fp16-and-bf16-both-set",
    severity="error",
    summary="fp16 and bf16 are both switched on",
    message="`{fp16}` and `{bf16}` are both True, and `{function}` ends in a ValueError.",
    help="Keep the fp16 setting and drop the bf16 one: a T4 has hardware for fp16 only.",
    triggers=("bf16",),
    reads=(Call,),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Drop bf16",
)
def fp16_and_bf16_both_set(trace: Trace) -> Iterator[Candidate]:
    for call in trace.all(Call):
        for fp16, bf16 in PAIRS:
            if fp16 in call.arguments and bf16 in call.arguments:
                yield Candidate(
                    call,
                    call.arguments[fp16].equals(True) & call.arguments[bf16].equals(True),
                    blame=call.arguments[bf16],
                    words={"fp16": fp16, "bf16": bf16, "function": call.function.rpartition(".")[2]},
                )
