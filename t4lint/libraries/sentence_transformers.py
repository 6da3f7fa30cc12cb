"""sentence-transformers and SetFit: models of sentences, trained by the Trainer of transformers (read in 3.0 to 6.2, and in SetFit 1.2).

Their arguments are transformers' with a few more. The older `fit` trains through the same Trainer, with `fp16=use_amp`.
"""

from __future__ import annotations

from t4lint.interpret.values import NONE, Abstract, Class, Const, DictValue, ListValue, Object, Unknown
from t4lint.libraries.api import Arguments, Call, calls, methods
from t4lint.libraries.registry import library_default
from t4lint.libraries.torch import set_device
from t4lint.libraries.transformers import build_arguments, build_trainer, expand_training, model_object, requested_dtype

# the head that a CrossEncoder loads; the other models take the bare encoder
MODELS = {
    "SentenceTransformer": "SentenceTransformer", "CrossEncoder": "AutoModelForSequenceClassification",
    "SparseEncoder": "AutoModelForMaskedLM",
}  # fmt: skip
ARGUMENTS = tuple(f"sentence_transformers.{name}TrainingArguments" for name in MODELS)
TRAINERS = tuple(f"sentence_transformers.{name}Trainer" for name in MODELS)
# modules of the package that give out the same classes
HOMES = (
    "",
    "training_args.",
    "trainer.",
    "cross_encoder.",
    "sparse_encoder.",
    "cross_encoder.trainer.",
    "cross_encoder.training_args.",
)


def at_home(*names: str) -> tuple[str, ...]:
    """Each class under every name that it is imported by."""
    return tuple(name.replace(".", f".{home}", 1) for name in names for home in HOMES)


def short(name: str) -> str:
    return f"sentence_transformers.{name.removesuffix('(subclass)').rpartition('.')[2]}"


@calls("sentence_transformers.models.Transformer", "sentence_transformers.sentence_transformer.modules.Transformer")
def backbone(call: Call) -> Abstract:
    """The network of a model that is put together from modules."""
    return load(Call(call.machine, "sentence_transformers.SentenceTransformer", call.arguments, call.node))


def first_module(call: Call) -> Object | None:
    """The network in `SentenceTransformer(modules=[...])`."""
    modules = call.machine.resolve(call.argument("modules", None, NONE))
    first = call.machine.resolve(modules.items[0]) if isinstance(modules, ListValue) and modules.items else None
    return first if isinstance(first, Object) and "$sentences" in first.attributes else None


@calls(*at_home(*[f"sentence_transformers.{name}" for name in MODELS]))
def load(call: Call) -> Abstract:
    """A model by its name, on the GPU where there is one and no other device is asked for."""
    m = call.machine
    built = first_module(call)
    if built is not None:
        return built
    cls = call.name.rpartition(".")[2]
    given = m.resolve(call.arguments.get("model_kwargs") or call.arguments.get("automodel_args") or NONE)
    keywords = {str(key): value for key, value in given.items.items()} if isinstance(given, DictValue) else {}
    is_open = not isinstance(given, (DictValue, Const)) or (isinstance(given, DictValue) and not given.complete)
    loading = Call(m, f"transformers.{MODELS[cls]}.from_pretrained", Arguments((), keywords, is_open), call.node)
    checkpoint = m.resolve(call.argument("model_name_or_path", 0))
    if not (isinstance(checkpoint, Const) and isinstance(checkpoint.value, str)):
        checkpoint = Unknown("the modules that the model is put together from")
    requested = Unknown("the dtype that model_kwargs asks for") if is_open else requested_dtype(loading)
    model = model_object(loading, MODELS[cls], checkpoint, requested, "load")
    device = m.resolve(call.arguments.get("device") or NONE)
    nothing_said = isinstance(device, Const) and device.value is None and "device_map" not in keywords
    set_device(m, model, Const("cuda" if m.target.gpu is not None else "cpu") if nothing_said else device)
    model.attributes["$sentences"] = Const(True)
    return model


@calls(*at_home(*ARGUMENTS))
def arguments(call: Call) -> Abstract:
    return build_arguments(call.machine, short(call.name), call.arguments, {})


@calls(*at_home(*[f"{name}(subclass)" for name in ARGUMENTS]))
def arguments_subclass(call: Call) -> Abstract:
    cls: Class = call.receiver
    return build_arguments(call.machine, short(call.name), call.arguments, dict(cls.fields))


@calls(*at_home(*TRAINERS))
def trainer(call: Call) -> Abstract:
    return build_trainer(call.machine, short(call.name), call.arguments)


@calls(*at_home(*[f"{name}(subclass)" for name in TRAINERS]))
def trainer_subclass(call: Call) -> Abstract:
    built = build_trainer(call.machine, short(call.name), call.arguments)
    cls: Class = call.receiver
    for name in ("train", "training_step", "get_train_dataloader", "_inner_training_loop", "compute_loss"):
        if cls.find(name) is not None:
            built.attributes["$replaced"] = Const(name)
    return built


@methods("module", "fit")
def fit(call: Call) -> Abstract:
    """`model.fit(train_objectives=[(loader, loss)], use_amp=False)` of the models above."""
    m = call.machine
    if not isinstance(call.receiver, Object) or "$sentences" not in call.receiver.attributes:
        return Unknown("what fit returns")
    settings = fit_settings(call, "sentence_transformers.fit")
    settings["per_device_train_batch_size"] = batch_size_of(call)
    train_with(call, call.receiver, "sentence_transformers.fit", settings)
    m.write(call.receiver.attributes, "$trained", Const(True))
    return NONE


def fit_settings(call: Call, name: str) -> dict[str, Abstract]:
    off = Const(False, (call.machine.here("default", f"default of {name.rpartition('.')[2]}(use_amp=False)"),))
    return {"fp16": call.arguments.get("use_amp") or off}


def batch_size_of(call: Call) -> Abstract:
    """The batch of the first loader in `train_objectives`."""
    objectives = call.machine.resolve(call.argument("train_objectives", 0))
    first = (
        call.machine.resolve(objectives.items[0]) if isinstance(objectives, ListValue) and objectives.items else None
    )
    loader = call.machine.resolve(first.items[0]) if isinstance(first, ListValue) and first.items else None
    size = loader.attributes.get("batch_size") if isinstance(loader, Object) else None
    return size if isinstance(size, Abstract) else Unknown("the batch of the loader")


def train_with(call: Call, model: Abstract, name: str, settings: dict[str, Abstract]) -> None:
    built = build_arguments(call.machine, name, Arguments((), settings), {})
    expand_training(
        call.machine, build_trainer(call.machine, name, Arguments((), {"model": model, "args": built})), built
    )


@calls("setfit.SetFitModel.from_pretrained")
def setfit_model(call: Call) -> Abstract:
    return load(
        Call(
            call.machine,
            "sentence_transformers.SentenceTransformer",
            Arguments(call.arguments.positional, {}),
            call.node,
        )
    )


@calls("setfit.TrainingArguments", "setfit.training_args.TrainingArguments")
def setfit_arguments(call: Call) -> Abstract:
    """Its own class: the body is trained in float32 unless `use_amp` is given."""
    settings = fit_settings(call, "setfit.TrainingArguments")
    size = call.machine.resolve(call.arguments.get("batch_size") or Const(16))
    settings["per_device_train_batch_size"] = size.items[0] if isinstance(size, ListValue) and size.items else size
    return build_arguments(call.machine, "setfit.SetFit", Arguments((), settings), {})


@calls("setfit.Trainer", "setfit.SetFitTrainer", "setfit.DistillationTrainer", "setfit.trainer.Trainer")
def setfit_trainer(call: Call) -> Abstract:
    model, given = call.argument("model", 0), call.arguments.get("args")
    if given is None and not call.arguments.open:
        settings = fit_settings(call, "setfit.SetFitTrainer")
        given = build_arguments(call.machine, "setfit.SetFit", Arguments((), settings), {})
    args = given if given is not None else Unknown("the training arguments")
    return build_trainer(call.machine, "setfit.Trainer", Arguments((), {"model": model, "args": args}))


@calls(
    "sentence_transformers.losses.*",
    "sentence_transformers.evaluation.*",
    "sentence_transformers.models.*",
    "sentence_transformers.util.*",
    "sentence_transformers.InputExample",
    "sentence_transformers.*.losses.*",
    "sentence_transformers.*.evaluation.*",
)
def around(call: Call) -> Abstract:
    """What stands around the model and takes no part in how it is trained."""
    return Unknown(f"what {call.name} makes", varies=bool(call.machine.loops))


@calls("sentence_transformers.*", "setfit.*")
def anything(call: Call) -> Abstract:
    return library_default(call)
