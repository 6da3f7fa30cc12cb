"""Training is started with `python -m torch.distributed.launch`.

## What happens on a T4

The old launcher still starts processes, with a `FutureWarning`, and hands each one `--local-rank=N`: with a hyphen since
torch 2.0. A script whose parser knows only `--local_rank` ends at once with `unrecognized arguments: --local-rank=0`.
That has nothing to do with the GPU, but it is what a recipe from the days of torch 1 meets first on a rented T4.

## How to fix it

`torchrun` with the same flags, and `local_rank = int(os.environ["LOCAL_RANK"])` in the script. Until then, let the parser
take both: `add_argument("--local-rank", "--local_rank", type=int)`.

## When it is right to ignore it

When torch is held below 2.0 (pin it, and the rule is silent). Where the parser takes `--local-rank`, or leaves what it does not
know, and with `--use_env`, which hands nothing over, the finding is a note: only the warning is left.

## Sources

* torch 2.13, `torch/distributed/launch.py`: the warning, and `unrecognized arguments` as run
  (`tests/test_distributed_claims.py`)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, SetValue, UseModule, rule
from t4lint.trace import FALSE, Call, Fact, Launch, Trace, Value, unknown

ALIAS = '"--local-rank", "--local_rank"'


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    """The parser takes both spellings; its name for the value stays. With `--use_env` the launchers are the same."""
    launch = candidate.event
    if isinstance(launch, Launch) and "use_env" in launch.flags:
        yield UseModule(launch, "torch.distributed.launch", "torch.distributed.run")
        yield DropArgument(launch.flags["use_env"], "use_env")
        return
    old = candidate.words["old"]
    if isinstance(old, Value) and old.known and old.it is not None:
        yield SetValue(old, ALIAS)


@rule(
    name="torch-distributed-launch",
    severity="warning",
    summary="The old launcher, which hands over --local-rank",
    message="`torch.distributed.launch` is deprecated{effect}.",
    help="Use `torchrun` with the same flags, and read `LOCAL_RANK` from the environment in the script.",
    triggers=("torch.distributed.launch",),
    reads=(Launch, Call),
    fix="safe",
    fixes=_fixes,
    fix_title="Start the script as it reads its rank",
)
def torch_distributed_launch(trace: Trace) -> Iterator[Candidate]:
    parsed = next((call for call in trace.all(Call) if call.role == "parse_args" and "makes" in call.arguments), None)
    makes = parsed.arguments["makes"] if parsed is not None else unknown("no parser was seen")
    recent = trace.version_at_least("torch", "2.0")
    for launch in trace.all(Launch):
        by_environment = "use_env" in launch.flags
        old = Fact(True) if launch.launcher == "torch.distributed.launch" else FALSE
        if old.holds and "" in launch.flags:
            old = Fact(None, (unknown("not all flags of the launcher are known"),))
        harmless = by_environment or makes.it in ("takes", "leaves")
        refused = not by_environment and makes.it == "refuses"
        yield Candidate(
            launch,
            old & recent & (Fact(True, (makes,)) if refused else Fact(True)),
            severity="note" if harmless else "error" if refused else None,
            words={
                "effect": _effect(by_environment, makes.it),
                "old": parsed.arguments["old"] if parsed is not None and refused else None,
            },
            related=(parsed,) if parsed is not None and refused else (),
        )


def _effect(by_environment: bool, makes: object) -> str:
    if by_environment:
        return "; `torchrun` is the same without `--use_env`"
    if makes in ("takes", "leaves"):
        return "; `torchrun` starts the same processes, and gives the script `LOCAL_RANK` in place of `--local-rank`"
    if makes == "refuses":
        return ", and hands the script `--local-rank`, with a hyphen, which its parser refuses: it ends at once"
    return ", and hands the script `--local-rank`, with a hyphen: a parser that knows only `--local_rank` refuses it"
