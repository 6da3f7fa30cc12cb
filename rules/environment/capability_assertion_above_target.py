"""The program ends itself because the GPU has too small a compute capability.

## What happens on a T4

A T4 has compute capability 7.5. An assertion, a raise or an exit on `get_device_capability()` (or the device's name) that asks
for 8.0 ends the program there, after it has been installed and started. Often the check guards one optional path, such as
bf16 or FlashAttention, and stands before all of them.

## How to fix it

Choose the path by the capability instead of ending: fp16 and SDPA below 8.0.

## When it is right to ignore it

When the program really needs the newer card: then a T4 is the wrong target. A check that is caught, or that only another
setting reaches, is not reported.

## Sources

* compute capability 7.5: NVIDIA's table of CUDA GPUs; torch 2.13, `torch.cuda.get_device_capability`
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Exit, Fact, Trace

ASKED = re.compile(r"capability|major|minor|name")


@rule(
    name="capability-assertion-above-target",
    severity="error",
    summary="The program ends itself on this GPU",
    message="The program ends here on {target}: it asks for a GPU that this is not ({asked}).",
    help="Choose another path by the capability instead of ending: fp16 and SDPA below 8.0.",
    triggers=("capability", "get_device_properties", "get_device_name"),
    reads=(Exit,),
)
def capability_assertion_above_target(trace: Trace) -> Iterator[Candidate]:
    for exit_ in trace.all(Exit):
        asked = [origin.note for origin in exit_.reason.origins if origin.how == "target" and ASKED.search(origin.note)]
        decided = Fact(bool(asked) if exit_.reason.known else None, (exit_.reason,))
        yield Candidate(
            exit_,
            decided,
            words={"target": trace.target.name, "asked": asked[0] if asked else "what the GPU answers"},
        )
