"""The Trainer runs as one process that sees several GPUs, and splits each batch among them with DataParallel.

## What happens on a T4

With two T4s in sight (Kaggle, for example) and no launcher, transformers wraps the model in `nn.DataParallel`: at every
step one process copies all parameters to the second card, gathers outputs and gradients back on the first through host
memory, and feeds both from one Python thread. The first card also holds the optimizer's states and the logits, and runs
out of memory first. Two T4s have been seen to be slower than one. The batch of each step is `per_device_train_batch_size`
times the number of cards.

## How to fix it

One process per card: `accelerate launch --num_processes 2 --mixed_precision fp16 train.py` or `torchrun --nproc_per_node 2
train.py`; in a notebook write the script with `%%writefile` and launch it. Or use one card only: `CUDA_VISIBLE_DEVICES=0`
before torch is imported.

## When it is right to ignore it

When the script is started by a launcher that is not in sight. Nothing is reported on a target with one GPU, for a
quantized model (which is not wrapped) or one that `device_map` spreads over the cards.

## Sources

* transformers 4.30 to 5.24, `Trainer._wrap_model` and `TrainingArguments._setup_devices`, run with two devices
* xingyizhou/CenterNet#1046 (two Kaggle T4s slower than one)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Trace, Wrap


@rule(
    name="trainer-implicit-dataparallel",
    severity="warning",
    summary="A Trainer in one process that sees several GPUs",
    message="The Trainer runs as one process on {target}, sees {gpus} GPUs, and wraps the model in DataParallel: slow, and "
    "GPU 0 fills up first.",
    help="Start one process per GPU (`accelerate launch --num_processes 2`, `torchrun --nproc_per_node 2`), or show it one.",
    triggers=("Trainer",),
    reads=(Wrap,),
)
def trainer_implicit_dataparallel(trace: Trace) -> Iterator[Candidate]:
    for wrap in trace.all(Wrap):
        if wrap.role == "engine":
            yield Candidate(
                wrap,
                wrap.how.equals("data_parallel"),
                words={"target": trace.target.name, "gpus": trace.target.gpus},
            )
