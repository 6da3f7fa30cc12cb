"""From what a trace says of a training step to plans: which numbers were read, from where, and which are missing.

Nothing is invented: a number that the program does not give and no flag names is missing, with the flag that would give
it. What has only a few possible values (a dtype, a switch) is taken in each of them, and the band spans them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from t4lint.memory.adapters import adapters_of
from t4lint.memory.configs import shape_of_file
from t4lint.memory.estimate import optimizer_kind
from t4lint.memory.images import ImageModel, find_image_model
from t4lint.memory.plan import Adapters, Plan
from t4lint.memory.recipe import UNSEEN, Recipe, recipe_of
from t4lint.memory.shapes import Shape, find_shape, presumed_shape
from t4lint.trace import NOT_SAID, Call, Origin, Step, Trace, Value

MAX_PLANS = 32  # combinations of what is not known
_SIXTEEN_BIT = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Given:
    """What a person says where the program does not, or in its place."""

    model: str | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    image_size: int | None = None

    @property
    def any(self) -> bool:
        return any(value is not None for value in (self.model, self.batch_size, self.sequence_length, self.image_size))


@dataclass(frozen=True, slots=True)
class Fact:
    """One number or choice that the plans rest on."""

    name: str
    text: str
    origins: tuple[Origin, ...] = ()
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Missing:
    """What the program does not say: why, and the flag that says it."""

    name: str
    reason: str
    flag: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of one training step. Without plans, `missing` says what keeps them from being made."""

    facts: tuple[Fact, ...]
    missing: tuple[Missing, ...]
    plans: tuple[Plan, ...]
    shape: Shape | None = None
    image: ImageModel | None = None
    open: tuple[str, ...] = ()  # what is taken in each of its possible values
    causal: bool = False
    trainer: str = ""


@dataclass(slots=True)
class _Facts:
    facts: list[Fact] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def say(self, name: str, text: object, value: Value | None = None, *, flag: str = "") -> None:
        origins = value.origins if value is not None else ()
        if flag:
            origins = (Origin("flag", flag),)
        self.facts.append(Fact(name, str(text), origins, sure=value is None or not value.likely))

    def miss(self, name: str, reason: str, flag: str) -> None:
        self.missing.append(Missing(name, reason, flag))

    def either(self, name: str, value: Value, known: Any, choices: tuple[Any, Any]) -> tuple[Any, ...]:
        """One value where it is known, else the two that it may be."""
        if known is not None:
            self.say(name, known, value)
            return (known,)
        one, other = choices
        self.open.append(f"{name}: {value.unknown or 'not said'}; both {one} and {other} are counted")
        return choices


# fit knows checkpoints and their configurations; layers that a program puts together itself are measured by running it.
NO_MODEL = (
    "no checkpoint is loaded here, and the size of a model of your own is not read; "
    "`t4lint verify --device phantom -- COMMAND` measures it without a GPU"
)


def read(trace: Trace, step: Step, given: Given) -> Reading:
    """The reading of one step of a predicted trace."""
    found = _Facts()
    recipe = recipe_of(trace, step)
    if isinstance(recipe, Value):
        if given.model is None or recipe.unknown != UNSEEN:
            found.miss("the model", NO_MODEL if recipe.unknown == UNSEEN else recipe.unknown, "--model NAME")
            return Reading((), tuple(found.missing), ())
        recipe = recipe_of(trace, step, presumed=given.model)
        if isinstance(recipe, Value):
            found.miss("the model", recipe.unknown, "--model NAME")
            return Reading((), tuple(found.missing), ())
    shape, image = _model(recipe, given, found)
    batch = _batch(recipe, given, found)
    length = 1.0 if image is not None else _length(trace, recipe, shape, given, found)
    if (shape is None and image is None) or batch is None or length is None:
        return Reading(tuple(found.facts), tuple(found.missing), (), shape, image, causal=recipe.model.causal)
    plans = tuple(_plans(trace, recipe, shape, image, batch, length, given, found))
    return Reading(
        tuple(found.facts), tuple(found.missing), plans, shape, image, tuple(found.open), recipe.model.causal,
        step.engine,
    )  # fmt: skip


# --- what must be known -------------------------------------------------------------------------------------------


def _model(recipe: Recipe, given: Given, found: _Facts) -> tuple[Shape | None, ImageModel | None]:
    name = given.model or (str(recipe.model.name.it) if recipe.model.name.known else "")
    flag = "--model" if given.model else ""
    shape = shape_of(name) if name else recipe.model.shape
    shape = shape or (recipe.model.shape if not given.model else None)
    image = find_image_model(name) if name else None
    if shape is not None and shape.widths is not None:
        guessed = "" if shape.block else "; its blocks are taken for those of a similar kind"
        copied = bool(name) and find_shape(name) is None and shape is presumed_shape(name)
        copy = f" (by its name a copy of {shape.id})" if copied else ""
        text = f"{name or shape.id}{copy}: {_count(shape.parameters)} parameters, {shape.layers} layers of {shape.hidden}{guessed}"
        found.say("model", text, recipe.model.name, flag=flag)
        return shape, None
    if image is not None:
        found.say("model", f"{name}: {_count(image.parameters)} parameters", recipe.model.name, flag=flag)
        return None, image
    if not name:
        reason = recipe.model.name.unknown if recipe.model.name != NOT_SAID else "no checkpoint is named"
    else:
        reason = f"the shape of {name} is not in t4lint's table"
    found.miss("the model's shape", reason, "--model NAME of a known checkpoint of the same shape, or of a config.json")
    return None, None


def shape_of(name: str) -> Shape | None:
    """The shape of a checkpoint that the table has, or of a `config.json`."""
    return _shape_in_file(name) or find_shape(name) or presumed_shape(name)


def _shape_in_file(name: str) -> Shape | None:
    """The shape of a `config.json`, or of a folder that has one."""
    path = Path(name)
    file = path / "config.json" if path.is_dir() else path
    return shape_of_file(file) if file.suffix == ".json" else None


def _batch(recipe: Recipe, given: Given, found: _Facts) -> float | None:
    if given.batch_size is not None:
        found.say("micro-batch", given.batch_size, flag="--batch-size")
        return given.batch_size
    if recipe.micro_batch.known:
        found.say("micro-batch", f"{recipe.micro_batch.it:g}", recipe.micro_batch)
        return float(recipe.micro_batch.it)
    found.miss("the micro-batch", recipe.micro_batch.unknown, "--batch-size N")
    return None


def _length(trace: Trace, recipe: Recipe, shape: Shape | None, given: Given, found: _Facts) -> float | None:
    if given.sequence_length is not None:
        found.say("sequence length", given.sequence_length, flag="--sequence-length")
        return given.sequence_length
    if recipe.length.known and recipe.length.it:
        found.say("sequence length", f"{recipe.length.it:g} at most", recipe.length)
        return float(recipe.length.it)
    if (cut := _cut(trace)) is not None:
        found.say("sequence length", f"{cut.it:g} at most: texts are cut there where they are tokenized", cut)
        return float(cut.it)
    if shape is not None and shape.block == "vit":
        found.say("tokens", "197: 224 pixels in patches of 16, and one for the class")
        return 197.0
    reason = recipe.length.unknown or "nothing limits it"
    found.miss("the sequence length", reason, "--sequence-length N")
    return None


def _cut(trace: Trace) -> Value | None:
    """The longest of the lengths that texts are cut at, in what is done with a row, else in all calls of tokenizers."""
    inside = [call.arguments["max_length"] for call in trace.all(Call) if call.role == "cut"]
    calls = [call for call in trace.all(Call) if call.role == "tokenize"]
    cut = [
        call
        for call in calls
        if call.arguments.get("truncation", NOT_SAID).it is True and "max_length" in call.arguments
    ]
    lengths = inside or ([call.arguments["max_length"] for call in cut] if len(cut) == len(calls) else [])
    if not lengths or not all(isinstance(it.it, int) and it.it > 1 for it in lengths):
        return None
    return max(lengths, key=lambda it: int(it.it))


# --- what has few possible values ---------------------------------------------------------------------------------


def _plans(
    trace: Trace, recipe: Recipe, shape: Shape | None, image: ImageModel | None, batch: float, length: float,
    given: Given, found: _Facts,
) -> Iterator[Plan]:  # fmt: skip
    model = recipe.model
    quantized = model.quantization.it if model.quantization.known else "none"
    if quantized not in (None, "none"):
        found.say("quantization", quantized, model.quantization)
    dtypes = found.either("weights", model.dtype, model.dtype.it if model.dtype.known else None, ("float32", "float16"))
    mixed = recipe.mixed_precision
    precisions = found.either("mixed precision", mixed, mixed.it if mixed.known else None, ("no", "fp16"))
    checkpointing = _checkpointing(recipe, image, found)
    optimizer, fused = _optimizer(trace, recipe, step_fused(trace), found)
    accumulation = _accumulation(recipe, found)
    sharding, ranks, bucket_view = _sharding(recipe, found)
    adapters, trainable = _trained(recipe, shape, quantized, found)
    whole = shape.parameters if shape is not None else image.parameters if image is not None else 0
    kind, guessed = _kind(shape)
    for dtype, precision, checkpointed, shared, count in list(
        product(dtypes, precisions, checkpointing, sharding, accumulation)
    )[:MAX_PLANS]:
        autocast = precision in ("fp16", "bf16", "fp8")
        scale = _scale(image, given)
        yield Plan(
            parameters=whole + (adapters.parameters if adapters else 0),
            trainable=adapters.parameters if adapters else trainable if trainable is not None else whole,
            embedding=shape.embedding if shape else 0,
            layers=shape.layers if shape else 1,
            widths=shape.widths if shape else None,
            kind=kind, guessed=guessed,
            vocabulary=shape.vocabulary if shape and _has_logits(recipe, shape) else 0,
            image_kept=scale * image.kept_bytes(autocast, dtype) if image else 0,
            image_work=scale * image.work_bytes(autocast, dtype) if image else 0,
            image_kind=image.kind if image else "cnn",
            weights=str(dtype), autocast=autocast, quantization=quantized or "none",
            double_quantization=None, optimizer=optimizer, fused=fused, batch=batch, length=length,
            accumulation=count, checkpointing=checkpointed, eager=recipe.eager is True, chunked_loss=recipe.chunked_loss,
            copies_logits=any(role == "Accelerator" for role in recipe.engines), adapters=adapters, ranks=ranks,
            sharding=shared, bucket_view=bucket_view, offload=recipe.offloaded,
        )  # fmt: skip


def step_fused(trace: Trace) -> bool | None:
    """Is the optimizer that the program builds fused? None where nothing is said."""
    from t4lint.trace import Optimizer

    said = [event.fused.it for event in trace.all(Optimizer) if event.fused.known and event.fused.it is not None]
    plain = [event.foreach.it for event in trace.all(Optimizer) if event.foreach.known and event.foreach.it is False]
    return True if True in said or plain else None


def _checkpointing(recipe: Recipe, image: ImageModel | None, found: _Facts) -> tuple[bool, ...]:
    said = recipe.checkpointing
    if said.known:
        found.say("activation checkpointing", "on" if said.it else "off", said)
        return (bool(said.it),)
    if said == NOT_SAID or image is not None or "not known" in said.unknown:
        found.say("activation checkpointing", "off")
        return (False,)
    return tuple(found.either("activation checkpointing", said, None, (False, True)))


def _optimizer(trace: Trace, recipe: Recipe, fused: bool | None, found: _Facts) -> tuple[str, bool | None]:
    said = recipe.optimizer
    if not said.known:
        found.open.append(f"optimizer: {said.unknown}; none to three states a parameter are counted")
        return "", fused
    name = str(said.it)
    if not optimizer_kind(name):
        found.open.append(f"optimizer: {name} is not modelled; none to three states a parameter are counted")
    found.say("optimizer", f"{name}, fused" if fused and "fused" not in name.lower() else name, said)
    return name, True if "fused" in name.lower() else fused


def _accumulation(recipe: Recipe, found: _Facts) -> tuple[float, ...]:
    said = recipe.accumulation
    if said.known and said.it:
        if said.it > 1:
            found.say("accumulation", f"{said.it:g} micro-batches a step", said)
        return (float(said.it),)
    return (1.0, 2.0)


def _sharding(recipe: Recipe, found: _Facts) -> tuple[tuple[str, ...], int, bool]:
    ranks = 1
    if recipe.nodes.known and recipe.per_node.known:
        ranks = max(1, int(recipe.nodes.it * recipe.per_node.it))
    how = recipe.wrap.how if recipe.wrap is not None else None
    options = recipe.wrap.options if recipe.wrap is not None else {}
    view = options.get("gradient_as_bucket_view")
    bucket_view = bool(view is not None and view.it is True)
    if not recipe.sharding.known:
        found.open.append(f"sharding: {recipe.sharding.unknown}; not sharded is counted")
        return ("none",), ranks, bucket_view
    if recipe.sharding.it != "none":
        if not (recipe.nodes.known and recipe.per_node.known):
            found.miss(
                "the number of GPUs", "the state is sharded over an unknown number of processes", "the launch command"
            )
        found.say("sharding", f"{recipe.sharding.it} over {ranks}", recipe.sharding)
        return (str(recipe.sharding.it),), ranks, bucket_view
    if how is not None and how.it == "ddp" and ranks > 1:
        found.say("processes", f"{ranks}, each with the whole model", how)
        return ("ddp",), ranks, bucket_view
    return ("none",), ranks, bucket_view


def _trained(
    recipe: Recipe, shape: Shape | None, quantized: object, found: _Facts
) -> tuple[Adapters | None, float | None]:
    """The adapters, or the number of parameters that train where it is counted; all where nothing is frozen."""
    if recipe.adapters is None and not recipe.peft and quantized in (None, "none"):
        trainable = recipe.model.trainable
        if trainable.known and trainable.it:
            found.say("trained", f"{_count(trainable.it)} parameters", trainable)
            return None, float(trainable.it)
        found.say("trained", "all parameters")
        return None, None
    made = adapters_of(recipe.adapters, shape) if recipe.adapters is not None and shape is not None else None
    if made is not None and recipe.adapters is not None:
        found.say("trained", f"adapters of {_count(made.parameters)} parameters", recipe.adapters.get("r"))
        return made, None
    whole = shape.parameters if shape else 0
    guess = Adapters(0.005 * whole, 2.0 * (shape.layers * shape.hidden if shape else 0), 0)
    found.open.append("adapters: their size could not be read; half a percent of the model is counted")
    return guess, None


def _has_logits(recipe: Recipe, shape: Shape) -> bool:
    """Does the head give a vector of the vocabulary's size for each token?"""
    heads = ("CausalLM", "LMHead", "MaskedLM", "ConditionalGeneration", "Seq2SeqLM", "SpeechSeq2Seq", "PreTraining")
    return recipe.model.causal or any(word in text for text in recipe.model.evidence for word in heads)


def _kind(shape: Shape | None) -> tuple[str, bool]:
    """The kind of block, and whether it is only the nearest one that was traced."""
    if shape is None:
        return "", False
    if shape.block:
        return shape.block, bool(shape.experts)
    return ("llama" if shape.vocabulary else "vit"), True


def _scale(image: ImageModel | None, given: Given) -> float:
    """Activations grow with the pixels."""
    if image is None or given.image_size is None:
        return 1.0
    return (given.image_size / image.size) ** 2


def _count(number: float) -> str:
    """`1543714304` → `1.54 B`."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number:g}"


def unique(readings: Iterable[Reading]) -> list[Reading]:
    """Equal readings once."""
    return list({(it.facts, it.missing, it.plans): it for it in readings}.values())
