"""DDP looks for unused parameters at every step, because the Trainer asks for it wherever a PEFT model is trained.

## What happens on a T4

Unless `ddp_find_unused_parameters` is given, the Trainer switches the search on for every model that is no
`PreTrainedModel`, and a `PeftModel` is none. Each step then walks the graph and makes one more all-reduce, and DDP never
orders its buckets anew after the first step. Nothing is found: the frozen base takes no part, and the adapters are all
used.

## How to fix it

`ddp_find_unused_parameters=False` in the training arguments.

## When it is right to ignore it

When parts of the network do take no part in some steps (mixtures of experts, layer drop, several heads): a wrong False
ends in an error or a hang. A `True` that is written in the program is not reported, since what it is for is not known.

## Sources

* transformers 5.24 `Trainer._wrap_model`, peft 0.21.2, torch 2.13: True for a PeftModel, also with gradient checkpointing,
  as run on two ranks
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import NOT_SAID, Engine, Fact, Trace, Wrap, unknown


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    configs = [engine for engine in trace.all(Engine) if engine.role.endswith(("Arguments", "Config"))]
    if len({engine.where for engine in configs}) == 1:
        yield AddArgument(configs[0], "ddp_find_unused_parameters", "False", callee=configs[0].role)


@rule(
    name="find-unused-parameters",
    severity="warning",
    summary="DDP searches for unused parameters in a PEFT model",
    message="For a PEFT model the Trainer lets DDP search for unused parameters at every step, unless told otherwise.",
    help="Set `ddp_find_unused_parameters=False` in the training arguments.",
    triggers=("Trainer",),
    reads=(Wrap, Engine),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Do not search for unused parameters",
)
def find_unused_parameters(trace: Trace) -> Iterator[Candidate]:
    for wrap in trace.all(Wrap):
        asked = wrap.options.get("find_unused_parameters", NOT_SAID)
        if asked == NOT_SAID:
            continue
        by_default = any(origin.how == "default" and origin.location is None for origin in asked.origins)
        if asked.it is True and not by_default:
            asked = unknown("whether the model leaves parameters unused is not known", asked.origins)
        yield Candidate(wrap, wrap.how.equals("ddp") & asked.equals(True) & Fact(wrap.role == "engine"))
