"""`tf32=True` in training arguments: construction fails on a T4.

## What happens on a T4

`TrainingArguments` checks the compute capability before it switches TF32 on, and a T4 (7.5) is below the 8.0 that it
asks for. The constructor ends with `ValueError: --tf32 requires Ampere or a newer GPU arch, cuda>=11 and torch>=1.7`,
before any data is read. It does so in every subclass, from the command line and from argument files.

## How to fix it

Remove the argument. A T4 has no TF32; what makes its matrix products fast is `fp16=True`. A program for several kinds
of GPU can pass `tf32=is_torch_tf32_available()` from `transformers.utils`, which answers no on a T4.

## When it is right to ignore it

Never for a run on a T4. The switches of torch itself (`torch.backends.cuda.matmul.allow_tf32`,
`set_float32_matmul_precision`) have no effect on a T4 and do not fail; they are not reported here.

## Sources

* transformers 4.30 to 5.24, `training_args.py` and `is_torch_tf32_available` in `utils/import_utils.py`; constructed
  with a simulated T4 on 5.24
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import Engine, Trace


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None:
        yield DropArgument(candidate.blame, "tf32", otherwise="False")


@rule(
    name="training-arguments-tf32",
    severity="error",
    summary="TF32 is asked for in training arguments, which refuse it on a T4",
    message="`{config}(tf32=True)` ends in a ValueError on a T4, which has no TF32.",
    help="Remove `tf32=True`; on a T4 it is `fp16=True` that makes matrix products fast.",
    triggers=("tf32",),
    reads=(Engine,),
    fix="safe",
    fixes=_fixes,
    fix_title="Remove tf32",
)
def training_arguments_tf32(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for engine in trace.all(Engine):
        yield Candidate(engine, engine.tf32.equals(True), blame=engine.tf32, words={"config": engine.role})
