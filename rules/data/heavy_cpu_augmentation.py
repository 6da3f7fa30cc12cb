"""Each sample is augmented on the host's few cores.

## What happens on a T4

Random crops with resizing, colour jitter, blur and rotation of a picture cost five to twenty milliseconds of a core each. Colab
gives two virtual CPUs and the small cloud machines four, so a few hundred pictures a second is all that they can make, while a T4 trains a
ResNet-50 in fp16 with more.

## How to fix it

Augment the batch on the GPU (`torchvision.transforms.v2` on tensors there, kornia), or cache the decoded and resized pictures.

## When it is right to ignore it

When the GPU is busy all the same: `verify` tells how long a step waits for its batch. The rule is off by default.

## Sources

* virtual CPUs of machines with a T4: providers' documentation, 2023 to 2026; torchvision 0.28 documentation, "Performance
  considerations" of transforms v2. What an augmentation costs depends on the picture, and was not measured on these machines
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Loader, Trace, Value
from t4lint.trace.questions import first_of_each

FEW = 4  # virtual CPUs: Colab 2, Kaggle 4, the smallest cloud machines 4


@rule(
    name="heavy-cpu-augmentation",
    severity="note",
    summary="Samples are augmented on the few cores beside a T4",
    message="Every sample is augmented on the host, which has {cpus} virtual CPUs beside a T4: the GPU may wait for its batches.",
    help="Augment the batch on the GPU, or cache what is decoded and resized.",
    triggers=("transforms",),
    reads=(Loader,),
    default=False,
)
def heavy_cpu_augmentation(trace: Trace) -> Iterator[Candidate]:
    vcpus = trace.target.vcpus
    few = Fact(True, (Value("few virtual CPUs are presumed", likely=True),)) if not vcpus else Fact(vcpus <= FEW)
    for loader in first_of_each(trace, Loader):
        augments = loader.work.test(lambda work: "augment" in work)
        on_host = loader.device.test(lambda device: str(device).startswith("cuda"), if_unknown=True)
        yield Candidate(loader, augments & few & on_host, words={"cpus": vcpus or "two to four"})
