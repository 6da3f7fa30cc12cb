"""Training is started with `python -m torch.distributed.launch`.

## What happens on a T4

The old launcher still starts processes, with a `FutureWarning`, and hands each one `--local-rank=N`: with a hyphen since
torch 2.0. A script whose parser knows only `--local_rank` ends at once with `unrecognized arguments: --local-rank=0`.
That has nothing to do with the GPU, but it is what a recipe from the days of torch 1 meets first on a rented T4.

## How to fix it

`torchrun` with the same flags, and `local_rank = int(os.environ["LOCAL_RANK"])` in the script. Until then, let the parser
take both: `add_argument("--local-rank", "--local_rank", type=int)`.

## When it is right to ignore it

When torch is held below 2.0 (pin it, and the rule is silent). With `--use_env` nothing is handed over, and the finding is
a note.

## Sources

* torch 2.13, `torch/distributed/launch.py`: the warning, and `unrecognized arguments` as run
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Fact, Launch, Trace, unknown


@rule(
    name="torch-distributed-launch",
    severity="warning",
    summary="The old launcher, which hands over --local-rank",
    message="`torch.distributed.launch` is deprecated{effect}.",
    help="Use `torchrun` with the same flags, and read `LOCAL_RANK` from the environment in the script.",
    triggers=("torch.distributed.launch",),
    reads=(Launch,),
)
def torch_distributed_launch(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        by_environment = "use_env" in launch.flags
        old = Fact(True) if launch.launcher == "torch.distributed.launch" else FALSE
        if old.holds and "" in launch.flags:
            old = Fact(None, (unknown("not all flags of the launcher are known"),))
        yield Candidate(
            launch,
            old & trace.version_at_least("torch", "2.0"),
            severity="note" if by_environment else None,
            words={
                "effect": "; `torchrun` is the same without `--use_env`"
                if by_environment
                else ", and hands the script `--local-rank`, with a hyphen: a parser that knows only `--local_rank` refuses it"
            },
        )
