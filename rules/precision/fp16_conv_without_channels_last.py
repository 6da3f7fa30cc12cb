"""A convolutional network trains in fp16 in the default memory format.

## What happens on a T4

The tensor-core kernels of cuDNN work on channels-last data. In the default format each convolution transposes its input
and output around the kernel.

## How to fix it

`model = model.to(memory_format=torch.channels_last)`, and the same for the batch:
`images = images.to(device, memory_format=torch.channels_last)`.

## When it is right to ignore it

For small networks, and where layers without a channels-last form lie between the convolutions. The rule is off by
default: the gain on a T4 was not measured here.

## Sources

* PyTorch's performance tuning guide and tutorial on channels last (torch 2.13)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Forward, Trace
from t4lint.trace.questions import first_of_each, on_gpu


@rule(
    name="fp16-conv-without-channels-last",
    severity="note",
    summary="Convolutions in fp16 without channels_last",
    message="The convolutions run in fp16 in the default memory format, and cuDNN transposes around each of them.",
    help="Use `model.to(memory_format=torch.channels_last)`, and the same for the images.",
    triggers=("Conv2d",),
    reads=(Forward,),
    default=False,
)
def fp16_conv_without_channels_last(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    for forward in first_of_each(trace, Forward):
        if forward.layout.it == "none":
            continue
        trains = on_gpu(forward.device) & forward.grad.equals(True) & forward.dtype.equals("float16")
        yield Candidate(forward, trains & forward.layout.equals("contiguous"))
