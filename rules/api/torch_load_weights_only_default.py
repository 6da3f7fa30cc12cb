"""A checkpoint that holds more than tensors is read with a `torch.load` that refuses it.

## What happens on a T4

Since torch 2.6 `torch.load` reads tensors and plain containers only. A file that holds a whole model, or the command line's namespace
beside the weights, ends in an UnpicklingError: training went through for hours, and its best checkpoint cannot be read back. On a
T4 that is the machine image's doing as a rule, since Colab and Kaggle come with a newer torch than the script was written for.

## How to fix it

Save `model.state_dict()` and `vars(args)` instead of the objects, which `torch.load` reads as it is. For a file of your own:
`torch.load(path, weights_only=False)`, which runs code that the file names, so never for a file from elsewhere.

## When it is right to ignore it

When the file that is read is another one than the program writes.

## Sources

* torch 2.13, executed: a saved module, a namespace and a dataclass are refused, a `state_dict` and `vars(args)` are read;
  torch 2.6 release notes, "flipped default value for weights_only"
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import Call, Fact, Save, Trace, Value
from t4lint.trace.questions import first_of_each


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield AddArgument(candidate.event, "weights_only", "False", callee="load")


@rule(
    name="torch-load-weights-only-default",
    severity="error",
    summary="torch.load refuses a checkpoint that holds whole objects",
    message="Since torch 2.6 this refuses what the program has saved there: the file holds {classes}, and only tensors are read.",
    help="Save `state_dict()` and `vars(args)`, or pass `weights_only=False` for a file of your own.",
    triggers=("torch.load", "load("),
    reads=(Call, Save),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Read objects from this file",
)
def torch_load_weights_only_default(trace: Trace) -> Iterator[Candidate]:
    recent = trace.version_at_least("torch", "2.6")
    if recent.holds is False or any(call.role == "safe globals" for call in trace.all(Call)):
        return
    for call in first_of_each(trace, Call):
        if call.function != "torch.load":
            continue
        unset = call.arguments.get("weights_only", Value(None)).equals(None)
        unset &= call.arguments.get("pickle_module", Value(None)).equals(None)
        for save in first_of_each(trace, Save):
            if isinstance(save.holds.it, tuple) and save.holds.it:
                words = {"classes": " and ".join(f"`{name}`" for name in save.holds.it[:2])}
                yield Candidate(call, recent & unset & _same_file(call, save), words=words, related=(save,))
                break


def _same_file(call: Call, save: Save) -> Fact:
    """Is what is read what was written: by its name, or since an optimizer is resumed from it that was saved there?"""
    read = call.arguments.get("f", Value(None))
    if read.known and save.target.known and isinstance(read.it, str):
        return Fact(read.it == save.target.it, (read, save.target))
    resumed = call.arguments.get("resumes", Value(False))
    keys = save.keys.it if isinstance(save.keys.it, tuple) else ()
    if resumed.it is True and any("optim" in str(key) for key in keys):
        return Fact(True, (Value("what it reads is presumed to be a checkpoint of its own", likely=True),))
    return Fact(None, (read, save.target))
