"""A model is trained in fp16 although its family is known to leave the range of fp16.

## What happens on a T4

fp16 ends at 65504. Some families compute larger values: T5 in its feed-forward layers, Gemma 2 and 3 in the residual
stream (around 800,000 for Gemma 3), gpt-oss. The loss becomes inf or NaN, or the gradient scaler skips step after
step and halves the scale until nothing is left. For some mixtures of experts (Qwen3-MoE, GLM-4.5) the loss looks fine
and only the gradients are NaN. These models were trained in bf16, which a T4 does not have.

## How to fix it

Train in fp32: it is slow on a T4 and right. For Gemma and gpt-oss, unsloth patches the forward pass so that the parts
that overflow run in fp32. Otherwise take a model of another family.

## When it is right to ignore it

When the parts that overflow are kept in fp32 by hand, or when the scale was watched and stays up. For a frozen text
encoder that only runs forward the families differ; only the model that is trained is judged. After `import unsloth` the
rule is silent. A family is told by the checkpoint's name, so the finding is only likely.

## Sources

* transformers 5.24 `models/t5/modeling_t5.py` (clamps in fp16, `wo` kept in fp32); transformers#9295, #10830, #14189
* vLLM `vllm/config/model.py` (August 2026) refuses fp16 for gemma2, gemma3, plamo2 and glm4; unsloth_zoo 2026.10.9
  `model_lists.py`, FORCE_FLOAT32. The list changes by the month: `t4lint/libraries/families.csv` has the dates.
  Not run on a T4 here
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, Fact, Model, Step, Trace, Value
from t4lint.trace.questions import on_gpu

WHERE = {"forward": "its activations pass 65504", "backward": "its gradients pass 65504"}


@rule(
    name="fp16-overflow-prone-model",
    severity="warning",
    summary="fp16 training of a model family that is known to overflow in fp16",
    message="`{model}` is of a family ({family}) that overflows in fp16: {where}, and the loss or the gradients become inf or NaN.",
    help="Train it in fp32 on a T4, or take a model of another family.",
    triggers=("fp16", "float16", "half"),
    reads=(Step, Backward, Model),
)
def fp16_overflow_prone_model(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes or "unsloth" in trace.imported:
        return
    loaded = {model.subject: model for model in trace.all(Model) if model.role == "load"}
    asked: Value | None = None
    for event in trace.events:
        if isinstance(event, Backward):
            asked = event.autocast
        if not isinstance(event, Step):
            continue
        model = loaded.get(str(event.trains.it))
        if model is None:
            continue
        half = on_gpu(event.device) & event.math.test(lambda shares: shares.get("float16", 0.0) > 0.5)
        prone = model.overflow.test(lambda where: where in WHERE)
        prone = Fact(prone.holds, tuple(replace(value, likely=True) for value in prone.rests_on))
        blame = asked if asked is not None and any(origin.location for origin in asked.origins) else event.math
        yield Candidate(
            event,
            half & prone if prone.holds is not False else FALSE,
            blame=blame,
            words={
                "model": model.name.it,
                "family": model.family.it,
                "where": WHERE.get(str(model.overflow.it), "its values pass 65504"),
            },
            related=(model,),
        )
