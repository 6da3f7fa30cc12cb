"""A model is loaded, created or cast in bf16, and its layers then compute in bf16.

## What happens on a T4

bf16 weights are accepted everywhere and never raise by themselves. Every layer that they pass through is emulated:
matrix products reach about 2.2 TFLOPS, against 42 in fp16 and 4.3 in fp32; convolutions leave cuDNN; attention stores
all scores; and a compiled model is skipped by Inductor. A GradScaler refuses the gradients of bf16 weights with an
error.

## How to fix it

Load frozen weights with `dtype=torch.float16`. Load weights that are trained in `torch.float32`, and let fp16
autocast with a GradScaler do the arithmetic.

## When it is right to ignore it

For models that overflow in fp16 and whose fp32 weights do not fit. A model that the program keeps on the CPU, and a
cast that only comes before saving, are not reported. With unsloth the finding is a note, since its loader turns the
request into fp16 on a T4. Where bf16 mixed precision is asked for as well, that finding speaks and shows the model
beside it.

## Sources

* torch 2.3 to 2.15, `aten/src/ATen/native/Convolution.cpp`, `transformers/cuda/sdp_utils.cpp`, `cuda/AmpKernels.cu`,
  `torch/_inductor/compile_fx.py`; unsloth 2026.10, `models/loader.py`
* measured matmul rates on Colab and Kaggle T4s: zzc0721/torch-performance-test-data; bf16 gradients:
  pytorch/pytorch#127176
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Autocast, Backward, Engine, Forward, Model, Predicate, Step, Trace
from t4lint.trace.questions import asked_for_bf16, refused_by_scaler, trains_on_cpu, used_later

VERBS = {"load": "loaded", "create": "created", "cast": "cast"}


@rule(
    name="bf16-weights",
    severity="warning",
    summary="A model whose weights are in bf16, which a T4 can only emulate",
    message="The model is {verb} in bf16, and a T4 emulates every layer of it: about 2.2 TFLOPS for matrix products against 42 "
    "in fp16.",
    help="Use `torch.float16` for weights that stay frozen, and `torch.float32` with fp16 autocast for weights that are trained.",
    triggers=("bf16", "bfloat16"),
    reads=(Model, Autocast, Engine, Predicate, Forward, Backward, Step),
    fix="unsafe",
)
def bf16_weights(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes:
        return
    said_elsewhere = _bf16_mixed_precision(trace) or trains_on_cpu(trace) or refused_by_scaler(trace, "bfloat16")
    for model in trace.all(Model):
        dtype = model.requested_dtype if model.role == "load" or model.requested_dtype.known else model.dtype
        slow = dtype.equals("bfloat16")
        if said_elsewhere or asked_for_bf16(trace, dtype) or _kept_on_cpu(model):
            slow &= FALSE
        if model.role == "cast":
            slow &= used_later(trace, model)
        yield Candidate(
            model,
            slow,
            blame=dtype,
            severity="note" if "unsloth" in trace.imported else None,
            words={"verb": VERBS.get(model.role, "kept")},
        )


def _bf16_mixed_precision(trace: Trace) -> bool:
    """One finding for both: mixed precision speaks, unless a guard chose it."""
    asked = [engine.mixed_precision for engine in trace.all(Engine)]
    asked += [region.dtype for region in trace.all(Autocast) if region.role != "engine" and region.enabled.it is True]
    return any(value.it in ("bf16", "bfloat16") and not asked_for_bf16(trace, value) for value in asked)


def _kept_on_cpu(model: Model) -> bool:
    """The program says so itself; where a loader happens to put the weights first does not count."""
    return model.device.it == "cpu" and any(
        origin.how not in ("observed", "default") for origin in model.device.origins
    )
