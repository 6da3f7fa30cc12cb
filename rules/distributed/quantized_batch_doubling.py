"""A 4-bit or 8-bit model is trained by one process that sees several GPUs: the batch grows, the second GPU idles.

## What happens on a T4

The Trainer multiplies `per_device_train_batch_size` by the number of GPUs that it sees, to feed DataParallel, and then does
not wrap a quantized model in it. On Kaggle's two T4s a batch of 4 becomes 8, all on the first card, while the second does
nothing. Runs that fit on one T4 go out of memory on two.

## How to fix it

Show the process one card, `CUDA_VISIBLE_DEVICES=0` before torch is imported; or use both with one process each:
`accelerate launch --num_processes 2` and `device_map={"": PartialState().process_index}`.

## When it is right to ignore it

When a launcher that is not in sight starts one process per card. `device_map="auto"` spreads the layers over the cards,
which switches the multiplication off: not reported.

## Sources

* transformers 5.24, `TrainingArguments.train_batch_size` and `Trainer._wrap_model`, run with two devices: 4 became 8
* unslothai/unsloth#431, huggingface/transformers#9577
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddVariable, Candidate, Edit, InsertFirst, rule
from t4lint.trace import FALSE, NOT_SAID, EnvironmentVariable, Fact, Launch, Model, Step, Trace, Value

SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """One card is shown: in front of the command where one is in sight, else before anything is imported."""
    launches = list(trace.all(Launch))
    if launches:
        yield AddVariable(launches[0], "CUDA_VISIBLE_DEVICES", "0")
    else:
        yield InsertFirst(candidate.event, "os", 'os.environ["CUDA_VISIBLE_DEVICES"] = "0"')


@rule(
    name="quantized-batch-doubling",
    severity="warning",
    summary="A quantized model and a Trainer in one process that sees several GPUs",
    message="One process on {target} sees {gpus} GPUs: the Trainer takes {gpus} times the batch and, as the model is "
    "quantized, puts all of it on GPU 0.",
    help="Set `CUDA_VISIBLE_DEVICES=0` before torch is imported, or start one process per GPU.",
    triggers=("BitsAndBytesConfig", "load_in_4bit", "load_in_8bit", "quantization_config"),
    reads=(Model, Step, Launch, EnvironmentVariable),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Show one GPU to the process",
)
def quantized_batch_doubling(trace: Trace) -> Iterator[Candidate]:
    trainer = trace.ever(Step, lambda step: Fact(step.engine == "Trainer"))
    for model in trace.all(Model):
        if model.role == "load":
            yield Candidate(
                model,
                model.quantization.within(("4bit", "8bit")) & _on_one_card(model) & _one_process(trace) & trainer,
                blame=model.quantization,
                words={"target": trace.target.name, "gpus": trace.target.gpus},
            )


def _on_one_card(model: Model) -> Fact:
    if model.device_map == NOT_SAID:
        return Fact(None, (model.device_map,))
    return model.device_map.test(_names_one)


def _names_one(device_map: object) -> bool:
    if isinstance(device_map, dict):
        return len({str(device) for device in device_map.values()}) == 1
    return device_map not in SPREADING


def _one_process(trace: Trace) -> Fact:
    """One process, and several GPUs that it sees. Without a launch in sight that is only likely."""
    if trace.target.instance is None or (trace.target.gpus or 1) < 2 or "unsloth" in trace.imported:
        return FALSE
    alone = Fact(True)
    visible = [it.value for it in trace.all(EnvironmentVariable) if it.name == "CUDA_VISIBLE_DEVICES"]
    for launch in trace.all(Launch):
        visible += [value for name, value in launch.environment.items() if name == "CUDA_VISIBLE_DEVICES"]
        alone &= launch.nodes.equals(1) & launch.processes_per_node.equals(1)
        alone &= Fact(launch.launcher == "python")
    if not any(trace.all(Launch)):
        alone = Fact(True, (Value("no launch is in sight", likely=True),))
    for value in visible:
        alone &= value.test(lambda names: len([name for name in str(names).split(",") if name.strip()]) > 1)
    return alone
