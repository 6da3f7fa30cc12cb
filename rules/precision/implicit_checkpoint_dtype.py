"""The weights take the dtype of the checkpoint, and that is bf16 for most language models.

## What happens on a T4

`dtype="auto"` (`torch_dtype="auto"` before transformers 4.56) loads the weights as they are stored, and since
transformers 5.0 so does a load without any dtype. Nearly every language model since 2023 is stored in bf16, so the
program runs in bf16 although the word does not stand in it: emulated, at about 2.2 TFLOPS for matrix products against
42 in fp16, and with attention that stores all scores. The same line gave float32 on transformers 4.

## How to fix it

Write the dtype: `dtype=torch.float16` for weights that stay frozen, `dtype=torch.float32` for weights that are
trained under fp16 autocast.

## When it is right to ignore it

When the checkpoint is stored in fp16 or fp32; a checkpoint that is known to be is not reported. A load without a dtype
is a note, and only for families whose checkpoints are known to be bf16. Quantized models are judged by their compute
dtype, and where mixed precision in bf16 is asked for, that finding speaks.

## Sources

* transformers 5.0 and 5.24 `modeling_utils.py`, executed: a bf16 checkpoint loads as bf16; 4.57 loads it as float32
* stored dtypes by family: `t4lint/libraries/families.csv`
* measured matmul rates on Colab and Kaggle T4s: zzc0721/torch-performance-test-data
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Autocast, Backward, Engine, Fact, Forward, Model, Step, Trace, Value
from t4lint.trace.questions import refused_by_scaler, trains_on_cpu, used_later


@rule(
    name="implicit-checkpoint-dtype",
    severity="warning",
    summary="Weights in the dtype of the checkpoint, which is bf16 for most language models",
    message="{how} the weights as the checkpoint stores them, {stored}, and a T4 emulates bf16: about 2.2 TFLOPS for matrix "
    "products against 42 in fp16.",
    help="Write the dtype: `torch.float16` for weights that stay frozen, `torch.float32` for weights that are trained.",
    triggers=("auto", "from_pretrained"),
    reads=(Model, Engine, Autocast, Step, Forward, Backward),
    fix="unsafe",
)
def implicit_checkpoint_dtype(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes:
        return
    silent = (
        _bf16_asked(trace)
        or trains_on_cpu(trace)
        or refused_by_scaler(trace, "bfloat16")
        or "unsloth" in trace.imported
    )
    for model in trace.all(Model):
        if model.role != "load":
            continue
        asked = model.requested_dtype.test(lambda dtype: dtype in ("auto", None))
        auto = model.requested_dtype.it == "auto"
        slow = asked & (_stored(model, auto) if asked.holds is not False else FALSE)
        if silent or model.quantization.it not in (None, "none") or _cast_later(trace, model):
            slow &= FALSE
        slow &= used_later(trace, model)
        yield Candidate(
            model,
            slow,
            blame=model.requested_dtype if auto else None,
            severity=None if auto else "note",
            words={
                "how": '`"auto"` loads' if auto else "Without a dtype, transformers 5 loads",
                "stored": "bf16" if model.dtype.known else "bf16 for most language models",
            },
        )


def _stored(model: Model, auto: bool) -> Fact:
    language_model = "CausalLM" in model.evidence or "ImageTextToText" in model.evidence
    return model.dtype.equals("bfloat16", if_unknown=True if auto and language_model else None)


def _bf16_asked(trace: Trace) -> bool:
    asked: list[Value] = [engine.mixed_precision for engine in trace.all(Engine)]
    asked += [region.dtype for region in trace.all(Autocast) if region.enabled.it is True]
    return any(value.it in ("bf16", "bfloat16") for value in asked)


def _cast_later(trace: Trace, model: Model) -> bool:
    return any(
        other.role == "cast" and other.subject == model.subject and other.dtype.it != "bfloat16"
        for other in trace.all(Model)
    )
