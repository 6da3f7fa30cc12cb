"""transformers: training arguments, loading models, the Trainer.

Defaults were read from the dataclasses of the released wheels 4.30 to 5.24; version pivots stand beside the fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from t4lint.interpret.expressions import test_name
from t4lint.interpret.values import (
    NONE,
    PRESUMED,
    RANK,
    Abstract,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Provenance,
    Step,
    Symbol,
    Unknown,
    with_origin,
)
from t4lint.libraries import flags as command_line
from t4lint.libraries import media, signatures
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
from t4lint.libraries.families import find_family
from t4lint.libraries.sharding import say_sharding
from t4lint.libraries.torch import (
    dtype_like,
    gradients_of,
    hand_over,
    inner,
    reentrant,
    say_heads,
    say_save,
    set_device,
    share,
)
from t4lint.libraries.torch_cuda import device_type
from t4lint.libraries.torch_distributed import wrap_for_launch, wrap_in_one_process
from t4lint.trace import Attention, Autocast, Backward, Compile, Engine, Forward, Loader, Model
from t4lint.trace import Call as CallEvent
from t4lint.trace import Step as OptimizerStep

aliases({
    "transformers.training_args.TrainingArguments": "transformers.TrainingArguments",
    "transformers.training_args_seq2seq.Seq2SeqTrainingArguments": "transformers.Seq2SeqTrainingArguments",
    "transformers.trainer.Trainer": "transformers.Trainer",
    "transformers.trainer_seq2seq.Seq2SeqTrainer": "transformers.Seq2SeqTrainer",
    "transformers.utils.import_utils": "transformers.utils",
    "transformers.hf_argparser.HfArgumentParser": "transformers.HfArgumentParser",
    "transformers.modeling_utils.PreTrainedModel": "transformers.PreTrainedModel",
    "transformers.utils.quantization_config.BitsAndBytesConfig": "transformers.BitsAndBytesConfig",
})  # fmt: skip

# the fields that decide how training runs; their defaults by version are in `data/api.json`
FIELDS = (
    "fp16", "bf16", "fp16_full_eval", "bf16_full_eval", "tf32", "per_device_train_batch_size", "per_device_eval_batch_size",
    "gradient_accumulation_steps", "gradient_checkpointing", "dataloader_num_workers", "dataloader_pin_memory",
    "dataloader_persistent_workers", "dataloader_prefetch_factor", "dataloader_drop_last", "optim", "max_grad_norm",
    "torch_compile", "do_train", "do_eval", "do_predict", "eval_strategy", "max_steps", "num_train_epochs", "use_cpu", "deepspeed",
    "fsdp", "local_rank", "auto_find_batch_size", "group_by_length", "resume_from_checkpoint", "report_to", "seed",
    "overwrite_output_dir", "push_to_hub", "predict_with_generate",
)  # fmt: skip
# defaults that the library computes, or that other classes than TrainingArguments have: read in 4.30 to 5.24
COMPUTED: dict[str, Any] = {
    "optim": "adamw_torch", "dataloader_prefetch_factor": None, "predict_with_generate": False, "group_by_length": False,
    "overwrite_output_dir": False, "eval_strategy": "no", "local_rank": -1, "use_cpu": False,
}  # fmt: skip
# (library, field, since version, default from there on)
PIVOTS: tuple[tuple[str, str, str, Any], ...] = (("transformers", "optim", "4.54", "adamw_torch_fused"),)

ARGUMENT_CLASSES = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")


def defaults_of(m: Any, name: str) -> dict[str, Any]:
    """The default of every field of an arguments class in the version that the run uses."""
    from t4lint.libraries import registry

    versions = {library: m.version(library) for library in ("transformers", "trl")}
    known = signatures.last_parameters(name if name in signatures.table() else ARGUMENT_CLASSES[0], versions)
    fields = {field: COMPUTED.get(field) for field in FIELDS}
    fields.update({field: known[field]["default"] for field in FIELDS if "default" in known.get(field, ())})
    if fields["gradient_checkpointing"] is None:
        fields["gradient_checkpointing"] = (
            False  # 5.24 keeps it as another name of activation_checkpointing, off by default
        )
    for library, field, since, value in PIVOTS:
        if m.at_least(library, since):
            fields[field] = value
    if name.startswith("trl."):
        registry.load("trl")
        from t4lint.libraries.trl import overrides

        fields.update(overrides(m, name, known))
    return fields


@calls(*ARGUMENT_CLASSES)
def training_arguments(call: Call) -> Abstract:
    return build_arguments(call.machine, call.name, call.arguments, {})


@calls(*[f"{name}(subclass)" for name in ARGUMENT_CLASSES])
def training_arguments_subclass(call: Call) -> Abstract:
    """A project's dataclass on top: its own fields and defaults come first."""
    cls: Class = call.receiver
    return build_arguments(call.machine, call.name, call.arguments, dict(cls.fields))


def build_arguments(
    m: Any, name: str, arguments: Arguments, own: dict[str, Abstract | None], flags: command_line.Flags | None = None
) -> Object:
    """A TrainingArguments object: what is given, else the class's own default, else the library's."""
    short = name.rpartition(".")[2]
    result = Object("arguments", name, {"$own": Const(tuple(own))})
    result.attributes["$site"] = m.here("default", f"{short} asks for no mixed precision")
    given: dict[str, Abstract] = dict(arguments.keywords)
    if arguments.positional:
        given.setdefault("output_dir", arguments.positional[0])
    values: dict[str, Abstract] = {}
    for field, default in defaults_of(m, name).items():
        note = f"default of {name}({field}={default!r})"
        values[field] = Const(default, (Step("default", note), *presumption(flags)))
    if flags is not None and flags.needed and name.startswith("transformers."):
        # whoever writes that command line chooses the precision there
        reason = "the program needs a command line, and none is in sight"
        values.update({field: Unknown(reason, uid=f"needed {short}.{field}") for field in ("fp16", "bf16")})
    if flags is not None and not flags.launched:
        # a program with a command line is linted for what it is there for
        values["do_train"] = Const(True, (Step("default", "--do_train is presumed"), PRESUMED))
    for field, value in own.items():
        values[field] = (
            value if value is not None else Unknown(f"the field {field} is required", uid=f"field {short}.{field}")
        )
    values.update(given)
    if arguments.open:
        for field in list(values):
            if field not in given:
                values[field] = Unknown(
                    f"{field} may be given by star-arguments that are not known", uid=f"open {short}.{field}"
                )
    if flags is not None:
        values = {field: from_flags(flags, field, value) for field, value in values.items()}
        for key in (*flags.given, *flags.file):
            if not key.startswith("$") and key not in values:
                values[key] = from_flags(flags, key, Const(None))
    result.attributes.update({field: m.resolve(value) for field, value in values.items()})
    written = dict(given)
    if flags is not None:
        written.update(
            {
                field: value
                for field, value in values.items()
                if field in flags.file or command_line.find(flags, [field]) is not None
            }
        )
    m.emit(CallEvent, short, result.uid, function=name, arguments=written, accepts=Const(tuple(own)))
    say_engine(m, result, short)
    return result


def presumption(flags: command_line.Flags | None) -> Provenance:
    """Without a launch in sight, what the command line leaves out is only presumed to be left out."""
    return (PRESUMED,) if flags is not None and not flags.launched else ()


def from_flags(flags: command_line.Flags, field: str, default: Abstract) -> Abstract:
    """HfArgumentParser's reading: `--fp16`, `--fp16 True`, `--no_fp16`."""
    negative = command_line.find(flags, [f"no_{field}"])
    if negative is not None:
        return Const(False, (command_line.flag_step(negative[0], [], flags),))
    kind = "guess"
    if isinstance(default, Const) and isinstance(default.value, bool):
        kind = "bool"
    elif isinstance(default, Const) and isinstance(default.value, str):
        kind = "str"
    return command_line.override(flags, [field], default, kind)


def say_engine(m: Any, arguments: Object, role: str) -> None:
    a = arguments.attributes
    say_sharding(m, arguments)
    if a.get("deepspeed") is not None and m.truth(a["deepspeed"]) is not False:
        from t4lint.libraries.configs import asked_precisions, deepspeed_engine, settled

        own = precision(m, arguments)
        precision_there = deepspeed_engine(m, a["deepspeed"], own)
        if precision_there is not None and precision_there.origins != own.origins:
            asked = asked_precisions(m, a["deepspeed"], own)
            m.emit(Engine, "DeepSpeed", arguments.uid, mixed_precision=settled(precision_there, asked), asked=asked)
    m.emit(
        Engine,
        role,
        arguments.uid,
        mixed_precision=precision(m, arguments),
        tf32=a["tf32"],
        micro_batch=a["per_device_train_batch_size"],
        eval_micro_batch=a["per_device_eval_batch_size"],
        accumulation=a["gradient_accumulation_steps"],
        sequence_length=longest(m, a, role),
        activation_checkpointing=a["gradient_checkpointing"],
        reentrant=reentrant(m, a.get("gradient_checkpointing_kwargs")),
        optimizer=a["optim"],
        workers=a["dataloader_num_workers"],
        pin_memory=a["dataloader_pin_memory"],
        evaluates=a.get("evaluation_strategy") or a["eval_strategy"],
        sharding=sharding_of(m, a),
    )


def longest(m: Any, fields: Any, role: str) -> Abstract:
    """The length at which texts are cut. trl's SFTConfig had `max_seq_length` up to 0.19; where both are there (0.16 on), it
    goes before `max_length` unless it is None."""
    older = fields.get("max_seq_length") if role == "SFTConfig" and not m.at_least("trl", "0.20") else None
    older = m.resolve(older) if older is not None else None
    if older is not None and not (isinstance(older, Const) and older.value is None):
        return older  # type: ignore[no-any-return]
    found = fields.get("max_length")
    return found or Unknown("how long the texts are is decided where they are tokenized, if at all")


def sharding_of(m: Any, fields: Any) -> Abstract:
    """`"none"` where neither the arguments nor the launch shard the training; what they do else is not followed."""
    for name in ("deepspeed", "fsdp"):
        if m.truth(fields.get(name) or NONE) is not False:
            return Unknown(f"what {name} shards")
    launch = m.launch
    if launch is not None and (
        launch.launcher == "deepspeed" or {"use_deepspeed", "use_fsdp", "config_file"} & set(launch.launcher_flags)
    ):
        return Unknown("what the launch shards")
    return Const("none")


def precision(m: Any, arguments: Object) -> Abstract:
    """`"fp16"`, `"bf16"` or `"no"` after the library's own defaults, with the provenance of the flag that decides."""
    fp16, bf16 = arguments.attributes["fp16"], arguments.attributes["bf16"]
    if isinstance(bf16, Const) and bf16.value is None:
        bf16 = m.mapped(fp16, lambda leaf: trl_bf16(m, arguments, leaf))
        fp16 = arguments.attributes["fp16"]

    def decide(a: Abstract, b: Abstract) -> Abstract:
        return flagged(m, b, "bf16", lambda: flagged(m, a, "fp16", lambda: unset(a, b)))

    def unset(a: Abstract, b: Abstract) -> Abstract:
        launched = m.environment.get("ACCELERATE_MIXED_PRECISION")
        return launched if launched is not None else Const("no", a.origins or b.origins)

    result: Abstract = m.mapped(fp16, lambda a: m.mapped(bf16, lambda b: decide(a, b)))
    return result


def flagged(m: Any, flag: Abstract, word: str, otherwise: Callable[[], Abstract]) -> Abstract:
    """The word if a flag is set, else something else; both where the flag is not known."""
    decided = m.truth(flag)
    if decided is not None:
        return Const(word, flag.origins) if decided else otherwise()
    name, negated = test_name(m, flag)
    chosen, other = Const(word, flag.origins), otherwise()
    joined: Abstract = m.joined(name, other, chosen) if negated else m.joined(name, chosen, other)
    return joined


def trl_bf16(m: Any, arguments: Object, fp16: Abstract) -> Abstract:
    decided = m.truth(fp16)
    if decided is None:
        return Unknown("bf16 follows fp16, which is not known", fp16.origins, uid=f"trl bf16 {arguments.uid}")
    if "unsloth" in m.imported:
        # unsloth's patched configurations take fp16 on a GPU without bf16 (read in 2026.10, unsloth/models/rl.py)
        m.write(arguments.attributes, "fp16", Const(True, (m.here("default", "unsloth chooses fp16 on this GPU"),)))
        return Const(False, (m.here("default", "unsloth chooses fp16 on this GPU"),))
    note = f"{arguments.name} sets bf16 unless fp16 is set, since trl 0.19"
    return Const(not decided, (Step("default", note), *(step for step in fp16.origins if step is PRESUMED)))


@methods("arguments", "getattr")
def arguments_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    m = call.machine
    if name == "device":
        from t4lint.libraries.torch_cuda import as_device

        return as_device(Const("cuda" if m.target.gpu is not None else "cpu"))
    if name in (
        "world_size",
        "n_gpu",
        "process_index",
        "local_process_index",
        "should_log",
        "should_save",
        "parallel_mode",
    ):
        return Unknown(f"{name} of the training arguments", uid=f"{call.receiver.uid}.{name}")
    return Unknown(f"{name} of the training arguments", uid=f"{call.receiver.uid}.{name}")


@methods("arguments", "setattr")
def arguments_set(call: Call) -> Abstract:
    """A field changed after construction: the engine is what it is now."""
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name in ("fp16", "bf16", "per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing"):
        role = call.receiver.name.rpartition(".")[2]
        say_engine(call.machine, call.receiver, role)
    return NONE


@methods("arguments", "*")
def arguments_method(call: Call) -> Abstract:
    return Object("null context", "main_process_first", {"value": NONE})


# --- HfArgumentParser --------------------------------------------------------------------------------------------------


@calls("transformers.HfArgumentParser", "trl.TrlParser")
def argument_parser(call: Call) -> Abstract:
    types = call.machine.resolve(call.argument("dataclass_types", 0))
    classes = types.items if isinstance(types, ListValue) else (types,)
    return Object("dataclass parser", call.name, {"$classes": ListValue(classes)})


@methods(
    "dataclass parser",
    "parse_args_into_dataclasses",
    "parse_args_and_config",
    "parse_yaml_file",
    "parse_json_file",
    "parse_dict",
)
def parse_dataclasses(call: Call) -> Abstract:
    classes = [call.machine.resolve(cls) for cls in call.receiver.attributes["$classes"].items]
    flags = with_file(call, given_words(call) or command_line.read(call.machine))
    if not flags.launched and any(isinstance(cls, Class) and None in cls.fields.values() for cls in classes):
        flags = replace(flags, needed=True)
    values = tuple(parsed(call.machine, cls, flags) for cls in classes)
    if call.constant("return_remaining_strings"):
        values = (*values, ListValue((), complete=False))
    return ListValue(values, "tuple")


def given_words(call: Call) -> command_line.Flags | None:
    """The words that are parsed in the place of the command line, where they are given."""
    from t4lint.libraries.arguments import words_of

    given = call.machine.resolve(call.arguments.get("args") or NONE)
    if not isinstance(given, ListValue) or call.name.endswith("parse_dict"):
        return None
    flags = command_line.parse(words_of(given), call.machine.launch is not None or not given.state.get("command line"))
    if not given.complete:
        flags.open, flags.why = True, "a part of the command line is not known"
    return flags


def with_file(call: Call, flags: command_line.Flags) -> command_line.Flags:
    """The flags, with the values of the file that this way of parsing reads: `parse_yaml_file`, `--config` of TrlParser."""
    from t4lint.libraries.configs import from_document, path_of

    m, way = call.machine, call.name.rpartition(".")[2]
    if way == "parse_dict":
        given = m.resolve(call.arguments.get("args", 0) or NONE)
        if isinstance(given, DictValue) and given.complete:
            return command_line.Flags(file={str(key): value for key, value in given.items.items()}, launched=True)
        return command_line.Flags(open=True, unread=True, why="it is given by a dict that is not known")
    if way in ("parse_yaml_file", "parse_json_file"):
        name = path_of(m, call.arguments.get("yaml_file") or call.arguments.get("json_file", 0))
        values = from_document(m, name)
        if values is None:
            return command_line.Flags(open=True, unread=True, why=f"it is read from {name or 'a file'}")
        return command_line.Flags(file=values, launched=True)
    found = command_line.find(flags, ["config"]) if way == "parse_args_and_config" else None
    values = from_document(m, found[1][0].text) if found is not None and found[1] else None
    return replace(flags, file=values) if values is not None else flags


def parsed(m: Any, cls: Abstract, flags: command_line.Flags) -> Abstract:
    from t4lint.libraries import registry

    cls = m.resolve(cls)
    if isinstance(cls, Symbol):
        registry.load(cls.name.partition(".")[0])
        name = registry.canonical(cls.name)
        if name in ARGUMENT_CLASSES or (
            name.startswith("trl.") and name.endswith("Config") and name != "trl.ModelConfig"
        ):
            return build_arguments(m, name, Arguments(), {}, flags)
        if name in ("trl.ModelConfig", "trl.ScriptArguments"):
            from t4lint.libraries.trl import settings

            return settings(m, name, {}, flags)
        return Unknown(f"what {name} holds is not known", uid=f"parsed {name}")
    if isinstance(cls, Class):
        bases = [registry.canonical(base) for base in cls.library_bases()]
        base = next(
            (b for b in bases if b in ARGUMENT_CLASSES or (b.startswith("trl.") and b.endswith("Config"))), None
        )
        if base is not None:
            return build_arguments(m, base, Arguments(), dict(cls.fields), flags)
        instance = Instance(cls)
        for field, default in cls.fields.items():
            value = (
                default
                if default is not None
                else Unknown(f"the field {field} of {cls.name} is required", uid=f"{cls.name}.{field}")
            )
            chosen = from_flags(flags, field, value)
            if not flags.launched and isinstance(chosen, (Const, Symbol)):
                chosen = with_origin(chosen, PRESUMED)  # a command line may change it
            m.write(instance.attributes, field, chosen)
        after = cls.find("__post_init__")
        if after is not None:
            m.method(instance, "__post_init__", Arguments())
        return instance
    return Unknown("what the parser returns")


# --- loading models ------------------------------------------------------------------------------------------------

# heads whose public checkpoints are, as a rule, encoders stored in fp32; causal language models are stored in 16 bits
FP32_HEADS = (
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM", "ForImageClassification",
    "ForMultipleChoice", "ForAudioClassification", "ForObjectDetection", "ForSemanticSegmentation", "ForCTC",
    "AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq",
)  # fmt: skip
# architectures from before the checkpoints in 16 bits, by the beginning of the class's name: bart-large-cnn, t5-base,
# whisper-small, vit-base and their like are published in float32; the exceptions are rows of families.csv
FP32_ARCHITECTURES = re.compile(
    r"(Albert|Bart|Beit|Bert|BigBird|Blenderbot|CLIP|Camembert|Canine|ConvNext|DPT|Data2Vec|DeiT|Detr|DistilBert|Electra|EncoderDecoder"
    r"|GPT2|GPTNeo(?!X)|Hubert|LED|LayoutLM|LiltModel|Longformer|M2M100|MBart|MPNet|MT5|Marian|Mask2Former|MaskFormer|ModernBert|Pegasus|ProphetNet|Roberta"
    r"|Sam|Segformer|SentenceTransformer|SpeechEncoderDecoder|Swin|T5|TimeSformer|TrOCR|UniSpeech|ViT|VideoMAE|VisionEncoderDecoder|Wav2Vec2|WavLM|Whisper"
    r"|XLMRoberta|XLNet|Yolos)(?!Gemma)"
)


def class_of(call: Call) -> str:
    return str(call.name.rpartition(".")[0].rpartition(".")[2])


@calls("transformers.*")
def anything(call: Call) -> Abstract:
    last = call.name.rpartition(".")[2]
    if last == "from_pretrained" and is_model_class(class_of(call)):
        return load_model(call, class_of(call))
    if last == "from_config" and is_model_class(class_of(call)):
        return model_object(call, class_of(call), shaped_as(call), requested_dtype(call), "create")
    if last == "from_pretrained" and class_of(call).endswith("Config"):
        return Object("config", call.name, {"$checkpoint": call.argument("pretrained_model_name_or_path", 0)})
    if last == "from_pretrained" and class_of(call).endswith(("Tokenizer", "TokenizerFast")):
        return Object("tokenizer", call.name)
    if (class_of(call) if last == "from_pretrained" else last).endswith(
        ("Processor", "ProcessorFast", "FeatureExtractor")
    ):
        return Object("processor", call.name)
    if is_model_class(last):
        return model_object(call, last, shaped_as(call), None, "create")
    if last in ("AdamW", "Adafactor"):
        from t4lint.libraries.torch import new_optimizer

        return new_optimizer(call, last)
    if last.endswith(("Trainer",)):
        return trainer(call)
    if last[:1].isupper() and last.endswith("Config"):
        width, heads = (call.arguments.get(a) or call.arguments.get(b) for a, b in CONFIG_HEADS)
        if call.arguments.get("head_dim") is None:
            say_heads(call.machine, width, heads)
        if last in KERNEL_CHOICES:
            written = dict(call.arguments.keywords)
            call.machine.emit(CallEvent, last, function=f"transformers.{last}", arguments=written)
        return Object("config", call.name, dict(call.arguments.keywords))
    if last == "DataCollatorWithFlattening":
        call.machine.emit(CallEvent, last, function=f"transformers.{last}", arguments=dict(call.arguments.keywords))
    if last.startswith("DataCollator"):
        return Object("collator", call.name)
    if last == "pipeline":
        return Unknown("a pipeline")
    from t4lint.libraries.registry import library_default

    return library_default(call)


def is_model_class(name: str) -> bool:
    if name.endswith(("Config", "Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor", "Trainer", "Arguments")):
        return False
    if name.startswith("DataCollator"):
        return False
    return (
        name.startswith("AutoModel") or name.endswith(("Model", "LMHeadModel", "PreTrainedModel")) or "For" in name[1:]
    )


def shaped_as(call: Call) -> Abstract:
    """The checkpoint whose configuration a new model is built from: the name of its shape, not of its weights."""
    config = call.machine.resolve(call.argument("config", 0))
    if isinstance(config, Object) and isinstance(config.attributes.get("$checkpoint"), Abstract):
        checkpoint: Abstract = config.attributes["$checkpoint"]
        return checkpoint
    return Unknown("a model without a checkpoint")


def fields_of_config(call: Call, role: str) -> Abstract:
    """The fields of a configuration that is built in the code, as a dict; unknown where there is none."""
    config = call.machine.resolve(call.argument("config", 0)) if role == "create" else NONE
    if not isinstance(config, Object) or config.kind != "config" or "$checkpoint" in config.attributes:
        return Unknown("the model is not built from a configuration in the code")
    given = {name: value for name, value in config.attributes.items() if not name.startswith("$")}
    return DictValue({**given, "$class": Const(config.name.rpartition(".")[2])})


def load_model(call: Call, cls: str) -> Abstract:
    checkpoint = call.argument("pretrained_model_name_or_path", 0)
    return model_object(call, cls, checkpoint, requested_dtype(call), "load")


def requested_dtype(call: Call) -> Abstract | None:
    value = call.arguments.get("dtype") or call.arguments.get("torch_dtype")
    return call.machine.resolve(value) if value is not None else None


def model_object(call: Call, cls: str, checkpoint: Abstract, requested: Abstract | None, role: str) -> Object:
    m = call.machine
    if call.name == "trl.loading":  # how it loads is said in `model_init_kwargs` of the trainer's arguments
        call, requested = with_init_kwargs(call, requested)
    quantization, compute = quantized(m, call, checkpoint if role == "load" else None)
    dtype = resulting_dtype(call, cls, requested, role, quantization, checkpoint)
    family, overflow = family_of(m, checkpoint, role)
    module = Object(
        "module",
        f"transformers.{cls}",
        {
            "$dtype": dtype,
            "$device": loaded_device(m, call, quantization),
            "training": Const(role == "create"),
            "$checkpoint": checkpoint,
            "$quantization": quantization,
            "$requested": named_dtype(m, requested),
            "$transformers": Const(True),
            "$family": family,
            "$attention": call.arguments.get("attn_implementation")
            or call.arguments.get("_attn_implementation")
            or call.argument("config", None, Const(None)),
            "$device_map": call.argument("device_map", None, Const(None)),
        },
    )
    if quantized_here(quantization):
        known = isinstance(quantization, Const) and quantization.value == "4bit"
        module.attributes["$compute"] = compute if known else Unknown("8-bit layers compute in int8 and float16")
    if call.given("device_map") or quantized_here(quantization):
        set_device(m, module, module.attributes["$device"])
    attention = call.arguments.get("attn_implementation") or call.arguments.get("_attn_implementation")
    old_flag = call.arguments.get("use_flash_attention_2")
    if attention is None and old_flag is not None and m.truth(old_flag) is True:
        attention = Const("flash_attention_2", old_flag.origins)
    m.emit(
        Model,
        role,
        module.uid,
        name=checkpoint,
        dtype=dtype,
        requested_dtype=named_dtype(m, requested),
        quantization=quantization,
        compute_dtype=compute,
        attention=attention or Const(None),
        family=family,
        overflow=overflow,
        device_map=call.argument("device_map", None, Const(None)),
        config=fields_of_config(call, role),
        evidence=cls,
    )
    if attention is not None:
        m.emit(Attention, "config", module.uid, implementation=attention)
    if role == "load":
        m.emit(CallEvent, "from_pretrained", module.uid, function=call.name, arguments=dict(call.arguments.keywords))
    return module


def with_init_kwargs(call: Call, requested: Abstract | None) -> tuple[Call, Abstract | None]:
    """The call as a trainer of TRL makes it for a model given by its name, and the dtype that it asks for.

    `quantization_config` may also be an argument of the trainer itself, which then wins (sft_trainer.py, trl 1.16).
    """
    m = call.machine
    arguments = m.resolve(call.arguments.get("args", 1) or NONE)
    said = m.resolve(arguments.attributes.get("model_init_kwargs") or NONE) if isinstance(arguments, Object) else NONE
    own = {name: call.arguments.keywords[name] for name in ("quantization_config",) if name in call.arguments.keywords}
    if isinstance(said, Const) and said.value is None:
        return Call(m, call.name, Arguments((), own), call.node), requested
    if isinstance(said, DictValue) and said.complete:
        given = {**{str(key): value for key, value in said.items.items()}, **own}
        made = Call(m, call.name, Arguments((), given), call.node)
        return made, requested_dtype(made) or requested
    dark = Unknown("what model_init_kwargs holds")
    return Call(m, call.name, Arguments((), {"quantization_config": dark, **own}), call.node), dark


def named_dtype(m: Any, requested: Abstract | None) -> Abstract:
    if requested is None:
        return Const(None)
    return m.mapped(requested, lambda leaf: dtype_like(m, leaf) or leaf)  # type: ignore[no-any-return]


def family_of(m: Any, checkpoint: Abstract, role: str) -> tuple[Abstract, Abstract]:
    """The family that a checkpoint's name tells, and where it leaves the range of float16."""

    def tell(leaf: Abstract, field: str) -> Abstract:
        found = find_family(leaf.value) if isinstance(leaf, Const) and isinstance(leaf.value, str) else None
        if found is None or role != "load":
            return Unknown("the family of the model")
        return Const(getattr(found, field), leaf.origins)

    return m.mapped(checkpoint, lambda leaf: tell(leaf, "name")), m.mapped(
        checkpoint, lambda leaf: tell(leaf, "overflow")
    )


def resulting_dtype(
    call: Call, cls: str, requested: Abstract | None, role: str, quantization: Abstract, checkpoint: Abstract
) -> Abstract:
    """The dtype that the weights have after loading; version pivots: 5.0 (checkpoint dtype by default)."""
    m = call.machine
    if requested is not None and not (isinstance(requested, Const) and requested.value in (None, "auto")):
        return named_dtype(m, requested)
    auto = isinstance(requested, Const) and requested.value == "auto"
    if quantized_here(quantization) and not auto and not m.at_least("transformers", "5.0"):
        note = (
            "bitsandbytes loads what it leaves whole in float16, before transformers 5.0"  # 4.57 quantizer_bnb_4bit.py
        )
        return Const("float16", (m.here("version", note),))
    if role == "create" or (not auto and not m.at_least("transformers", "5.0")):
        return Const("float32", (m.here("default", f"{cls} is built in float32 unless a dtype is given"),))
    family = (
        find_family(checkpoint.value) if isinstance(checkpoint, Const) and isinstance(checkpoint.value, str) else None
    )
    if family is not None and family.dtype:
        note = f"checkpoints of the {family.name} family are stored in {family.dtype}"
        read = str(checkpoint.value).strip().lower() in family.published  # type: ignore[attr-defined]
        steps = (m.here("version", note), *(() if read else (PRESUMED,)))
        return with_origin(Const(family.dtype, requested.origins if auto and requested is not None else ()), *steps)
    if cls.endswith(FP32_HEADS) and not auto:
        note = f"{cls} takes the checkpoint's dtype, float32 in most checkpoints with this head"
        return with_origin(Const("float32"), m.here("default", note), PRESUMED)
    if FP32_ARCHITECTURES.match(cls) and not auto:
        note = f"{cls} takes the checkpoint's dtype, float32 in most checkpoints of this architecture"
        return with_origin(Const("float32"), m.here("default", note), PRESUMED)
    return Unknown("the dtype of the checkpoint", uid=f"checkpoint dtype {id(call.arguments)}")


def quantized_here(quantization: Abstract) -> bool:
    """Is it quantized by bitsandbytes?"""
    return isinstance(quantization, Const) and quantization.value in ("4bit", "8bit")


def loaded_device(m: Any, call: Call, quantization: Abstract) -> Abstract:
    """Where a load puts the weights; bitsandbytes' on the current GPU where nothing is said (quantizer_bnb_4bit.py, 4.57 and 5.24)."""
    device_map = call.arguments.get("device_map")
    if device_map is None or (isinstance(device_map, Const) and device_map.value is None):
        if m.target.gpu is None or not quantized_here(quantization):
            return Const("cpu")
        m.globals["$cuda"] = True
        return Const("cuda")
    mapped = m.resolve(device_map)
    if isinstance(mapped, DictValue) and len(mapped.items) == 1:
        mapped = m.resolve(next(iter(mapped.items.values())))
    if device_type(m, mapped) == "cpu":
        return Const("cpu", mapped.origins)
    m.globals["$cuda"] = True
    return Const("cuda" if m.target.gpu is not None else "cpu")


# the width and the number of heads in a model's configuration, under both of their names
CONFIG_HEADS = (("hidden_size", "n_embd"), ("num_attention_heads", "n_head"))
# configurations that choose the kernels of quantized layers
KERNEL_CHOICES = frozenset({"AwqConfig", "GPTQConfig", "FPQuantConfig", "Mxfp4Config"})
# configuration → quantization, as the config calls its method (transformers 5.24 utils/quantization_config.py)
QUANTIZATIONS = {
    "FineGrainedFP8Config": "fp8", "FbgemmFp8Config": "fbgemm_fp8", "Mxfp4Config": "mxfp4", "FPQuantConfig": "fp_quant",
    "AwqConfig": "awq", "GPTQConfig": "gptq",
}  # fmt: skip
# how quantized checkpoints are named on the hub, checked against the lists of their publishers in 2026-11
STORED = (
    (re.compile(r"-bnb-4bit$"), "4bit"), (re.compile(r"-bnb-8bit$"), "8bit"), (re.compile(r"^(?!redhatai/|neuralmagic/).*-fp8$"), "fp8"),
    (re.compile(r"-awq$"), "awq"), (re.compile(r"-gptq(-int[48])?$"), "gptq"),
    (re.compile(r"^(openai|unsloth)/gpt-oss-(safeguard-)?(20|120)b$"), "mxfp4"),
)  # fmt: skip
# how the provenance of a compute dtype that was never given begins
NO_COMPUTE_DTYPE = "no bnb_4bit_compute_dtype"


def quantized(m: Any, call: Call, checkpoint: Abstract | None = None) -> tuple[Abstract, Abstract]:
    """(quantization, compute dtype) from `quantization_config=`, the old `load_in_4bit=` or the checkpoint's name."""
    config = m.resolve(call.arguments.get("quantization_config") or NONE)
    if isinstance(config, DictValue) and config.complete:  # a plain dict with the same keys
        given = {str(key): value for key, value in config.items.items()}
        if "load_in_4bit" in given or "load_in_8bit" in given:
            config = bits_and_bytes_config(Call(m, "transformers.BitsAndBytesConfig", Arguments((), given), None))
    if isinstance(config, Object) and config.kind == "quantization config":
        return config.attributes["$quantization"], config.attributes["$compute"]
    if isinstance(config, Object) and config.name.rpartition(".")[2] in QUANTIZATIONS:
        kind = QUANTIZATIONS[config.name.rpartition(".")[2]]
        return Const(kind, config.origins), Unknown("the dtype that the kernels compute in")
    for flag, name in (("load_in_4bit", "4bit"), ("load_in_8bit", "8bit")):
        value = call.arguments.get(flag)
        if value is not None and m.truth(value) is True:
            if not (isinstance(config, Const) and config.value is None):  # a configuration is given too, and it counts
                return Const(name, value.origins), Unknown("what the quantization configuration says")
            unset = Const("float32", (m.here("default", f"{NO_COMPUTE_DTYPE}: transformers takes float32"),))
            return Const(name, value.origins), unset if name == "4bit" else Const(None)
    if not (isinstance(config, Const) and config.value is None):
        return Unknown("the quantization"), Unknown("the quantization")
    if checkpoint is not None:
        stored = m.mapped(checkpoint, lambda leaf: quantization_of(m, leaf))
        return stored, Const(None) if isinstance(stored, Const) and stored.value == "none" else Unknown(
            "what is stored"
        )
    return Const("none"), Const(None)


def quantization_of(m: Any, checkpoint: Abstract) -> Abstract:
    """What a checkpoint's name says of its weights; "none" where it says nothing."""
    name = str(checkpoint.value).strip().lower() if isinstance(checkpoint, Const) else ""
    kind = next((kind for pattern, kind in STORED if pattern.search(name)), "none")
    if kind == "none":
        return Const("none")
    return with_origin(
        Const(kind, checkpoint.origins), m.here("derived", f"by its name it is stored in {kind}"), PRESUMED
    )


@calls("transformers.BitsAndBytesConfig")
def bits_and_bytes_config(call: Call) -> Abstract:
    m = call.machine
    four, eight = call.argument("load_in_4bit", None, Const(False)), call.argument("load_in_8bit", 0, Const(False))
    kind: Abstract = Unknown("whether the weights are quantized")
    if m.truth(four) is True:
        kind = Const("4bit", four.origins)
    elif m.truth(eight) is True:
        kind = Const("8bit", eight.origins)
    elif m.truth(four) is False and m.truth(eight) is False:
        kind = Const("none")
    unset = Const("float32", (m.here("default", f"{NO_COMPUTE_DTYPE}: transformers takes float32"),))
    compute = call.argument("bnb_4bit_compute_dtype", None, unset)
    if isinstance(compute, Const) and compute.value is None:
        compute = unset
    compute = m.mapped(compute, lambda leaf: dtype_like(m, leaf) or leaf)
    return Object("quantization config", call.name, {"$quantization": kind, "$compute": compute})


@methods("config", "getattr")
def config_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    return Unknown(f"{name} of a model's configuration", uid=f"{call.receiver.uid}.{name}")


@methods("config", "setattr")
def config_set(call: Call) -> Abstract:
    name, value = call.arguments.positional[0].value, call.arguments.positional[1]  # type: ignore[attr-defined]
    if name in ("_attn_implementation", "attn_implementation"):
        call.machine.emit(Attention, "config", call.receiver.uid, implementation=value)
    if name == "output_attentions":
        model = call.receiver.attributes.get("$model")
        held = model.attributes if isinstance(model, Object) else {}
        told = {
            "asked": value,
            "implementation": held.get("$attention") or Unknown("how attention is computed"),
            "family": held.get("$family") or Unknown("the family of the model"),
        }
        call.machine.emit(CallEvent, name, function="config.output_attentions", arguments=told)
    return NONE


@methods("config", "*")
def config_method(call: Call) -> Abstract:
    return Unknown("a value of a configuration")


@methods("module", "save_pretrained")
def save_pretrained(call: Call) -> Abstract:
    """Writes on every process that calls it, unless it is told which one is the first."""
    if not call.given("is_main_process", 1) and not call.arguments.open:
        say_save(call.machine, "save_pretrained", call.argument("save_directory", 0))
    return NONE


@methods(
    "module",
    "push_to_hub",
    "resize_token_embeddings",
    "enable_input_require_grads",
    "print_trainable_parameters",
    "get_input_embeddings",
    "tie_weights",
    "generate",
    "num_parameters",
)
def model_method(call: Call) -> Abstract:
    name = call.name.rpartition(".")[2]
    if name in ("enable_input_require_grads", "get_input_embeddings"):
        # a hook on the embeddings does what the method does
        done = Const(True) if name.startswith("enable") else Unknown("what is done with the embeddings")
        call.machine.emit(
            CallEvent, "input grads", inner(call.receiver).uid, function="enable_input_require_grads", arguments={"done": done}
        )  # fmt: skip
    if name == "generate" and isinstance(call.receiver, Object):
        call.machine.emit(Forward, subject=call.receiver.uid, grad=Const(False), training=Const(False))
    return Unknown("a value of a model", varies=bool(call.machine.loops))


# --- the Trainer ---------------------------------------------------------------------------------------------------


@calls("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.*Trainer")
def trainer(call: Call) -> Abstract:
    return build_trainer(call.machine, call.name, call.arguments)


@calls("transformers.Trainer(subclass)", "transformers.Seq2SeqTrainer(subclass)")
def trainer_subclass(call: Call) -> Abstract:
    """A project's Trainer: unless it replaces the loop, it trains as the library's does."""
    cls: Class = call.receiver
    say_overrides(call.machine, cls)
    built = build_trainer(call.machine, call.name, call.arguments)
    for name in ("train", "training_step", "get_train_dataloader", "_inner_training_loop"):
        if cls.find(name) is not None:
            built.attributes["$replaced"] = Const(name)
    return built


# Methods of the Trainer that it calls with an argument which older versions did not pass: the argument, how many there are by
# position (0: it is passed by keyword), and the method that calls it, in whose place an own one may stand.
OVERRIDDEN = {
    "compute_loss": ("num_items_in_batch", 0, "training_step"),
    "training_step": ("num_items_in_batch", 4, "_inner_training_loop"),
    "log": ("start_time", 3, "_maybe_log_save_evaluate"),
    "_get_train_sampler": ("train_dataset", 2, "get_train_dataloader"),
}
OWN_LOOP = ("train", "_inner_training_loop")  # what replaces the calls of all of them


def say_overrides(m: Any, cls: Class) -> None:
    """Which arguments the methods take that a project's own Trainer overrides; a keyword, or one more by position."""
    for name, (argument, count, caller) in OVERRIDDEN.items():
        method = cls.find(name)
        if not isinstance(method, Function) or any(cls.find(own) is not None for own in (*OWN_LOOP, caller)):
            continue
        taken = method.node.args
        names = [it.arg for it in (*taken.posonlyargs, *taken.args)]
        many = taken.vararg is not None or len(names) >= count
        takes = (
            many
            if count
            else taken.kwarg is not None or argument in names or argument in [it.arg for it in taken.kwonlyargs]
        )
        with m.at(method.source, method.node):
            m.emit(
                CallEvent, "override", function=f"transformers.Trainer.{name}", arguments={argument: Const(bool(takes))}
            )


def build_trainer(m: Any, name: str, arguments: Arguments) -> Object:
    result = Object("trainer", name)
    result.attributes["model"] = m.resolve(arguments.get("model", 0) or NONE)
    result.attributes["args"] = m.resolve(arguments.get("args", 1) or NONE)
    trained = result.attributes["model"]
    if m.is_module(trained):
        set_device(m, trained, Const("cuda" if m.target.gpu is not None else "cpu"))
        m.write(m.globals, "$taken", {**m.globals.get("$taken", {}), inner(trained).uid: name.rpartition(".")[2]})
    for key in ("train_dataset", "eval_dataset", "peft_config", "compute_metrics", "data_collator"):
        value = arguments.get(key)
        result.attributes[f"${key}"] = m.resolve(value) if value is not None else NONE
    result.attributes["$open"] = Const(arguments.open)
    say_trainer(m, result, arguments)
    config = result.attributes["$peft_config"]
    if name.startswith("trl.") and isinstance(config, Object) and config.kind == "adapter config":
        from t4lint.libraries.peft import adapter_fields

        given = Object("module", "", {"$checkpoint": trained}) if isinstance(trained, Const) else inner(trained)
        if isinstance(given, Object):
            m.emit(CallEvent, "adapters", function="peft.get_peft_model", arguments=adapter_fields(given, config))
    return result


def written_of(arguments: Arguments) -> dict[str, Abstract]:
    """The arguments by name; `**` stands for star-arguments of unknown content."""
    more: dict[str, Abstract] = {"**": Unknown("star-arguments that are not known")} if arguments.open else {}
    return {**arguments.keywords, **more}


PURELY_QUANTIZED = "ValueError: You cannot perform fine-tuning on purely quantized models"


def say_trainer(m: Any, built: Object, arguments: Arguments) -> None:
    """The construction of a Trainer, which refuses a quantized model without adapters (read in 4.30 to 5.24)."""
    model = inner(built.attributes["model"])
    raises: Abstract = Const(None)
    if not isinstance(model, (Object, Instance)):
        raises = Unknown("the model that is trained")
    elif built.attributes["$peft_config"] is NONE and not arguments.open:
        quantization = m.resolve(model.attributes.get("$quantization") or Const("none"))
        if isinstance(quantization, Unknown):
            raises = Unknown(quantization.reason)
        elif (
            isinstance(quantization, Const)
            and quantization.value in ("4bit", "8bit")
            and model.attributes.get("$adapters") is None
        ):
            raises = Const(PURELY_QUANTIZED, quantization.origins)
    m.emit(
        CallEvent, built.name.rpartition(".")[2], built.uid, function=built.name, arguments=written_of(arguments),
        raises=raises,
    )  # fmt: skip


@methods("trainer", "train")
def train(call: Call) -> Abstract:
    """What the Trainer does at this statement, as the recorder sees it there."""
    m, trainer_object = call.machine, call.receiver
    arguments = m.resolve(trainer_object.attributes["args"])
    if isinstance(arguments, Const) and arguments.value is None:
        arguments = build_arguments(m, "transformers.TrainingArguments", Arguments(), {})
    if not isinstance(arguments, Object) or arguments.kind != "arguments":
        hand_over(m, "the training arguments are not known", Arguments((trainer_object,)))
        return Unknown("what train() returns")
    expand_training(m, trainer_object, arguments)
    return Unknown("what train() returns")


def expand_training(m: Any, trainer_object: Object, arguments: Object) -> None:
    a = arguments.attributes
    device = Const("cpu") if m.target.gpu is None or m.truth(a["use_cpu"]) is True else Const("cuda")
    if device.value == "cuda":
        m.globals["$cuda"] = True
    loader: dict[str, Any] = {
        "batch_size": a["per_device_train_batch_size"],
        "workers": a["dataloader_num_workers"],
        "pin_memory": a["dataloader_pin_memory"],
        "persistent_workers": a["dataloader_persistent_workers"],
        "prefetch_factor": a["dataloader_prefetch_factor"],
        "drop_last": a["dataloader_drop_last"],
        "device": device,
    }
    m.emit(Loader, "train", trainer_object.uid, work=sample_work(m, trainer_object), **loader)
    adapted = isinstance(trainer_object.attributes["$peft_config"], Object)
    wrap_for_launch(m, trainer_object.attributes["model"], a, adapted)
    wrap_in_one_process(m, inner(trainer_object.attributes["model"]), a)
    mixed = precision(m, arguments)
    dtype = m.mapped(mixed, lambda leaf: math_of(m, leaf, trainer_object, a["$site"]))
    autocast = m.mapped(mixed, autocast_of)
    if m.truth(autocast) is True and autocast_value(autocast) != "none":
        m.emit(
            Autocast, "engine", trainer_object.uid, device=device, dtype=autocast, enabled=Const(True, autocast.origins)
        )
    short = trainer_object.name.rpartition(".")[2]
    scaler = m.mapped(mixed, lambda leaf: scaled_of(leaf, trainer_object))
    replaced = trainer_object.attributes.get("$replaced")
    if replaced is not None:
        from t4lint.libraries.torch import EFFECTS

        m.gap(EFFECTS, f"the project replaces the Trainer's {replaced.value}")
    m.emit(
        Backward,
        "",
        trainer_object.uid,
        device=device,
        dtype=dtype,
        autocast=autocast,
        scaled_by=scaler,
        engine="Trainer",
    )
    m.emit(
        OptimizerStep,
        "",
        f"optimizer of {trainer_object.uid}",
        device=device,
        math=m.mapped(dtype, share),
        backwards=a["gradient_accumulation_steps"],
        micro_batch=a["per_device_train_batch_size"],
        through_scaler=m.mapped(mixed, lambda leaf: Const(leaf.value == "fp16") if isinstance(leaf, Const) else leaf),
        gradients=trained_gradients(m, trainer_object, arguments),
        trains=trains(trainer_object),
        engine="Trainer",
        evidence=short,
    )


def sample_work(m: Any, trainer_object: Object) -> Abstract:
    """What a sample of the training set costs: what the project's own class, transform or collator does for it."""
    from t4lint.libraries.torch_data import collated, quietly, sample_of

    if m.truth(trainer_object.attributes["$open"]) is not False:
        return Unknown("what a sample costs is not known")
    m.globals["$work"] = set()
    sample = quietly(m, lambda: sample_of(m, trainer_object.attributes["$train_dataset"]))
    if not trainer_object.name.startswith("trl."):  # beside a step of a language model an image or two are little work
        quietly(m, lambda: collated(m, trainer_object.attributes["$data_collator"], sample))
    return media.noted_work(m, m.globals.pop("$work", set()))


def trains(trainer_object: Object) -> Abstract:
    model = inner(trainer_object.attributes["model"])
    return Const(model.uid) if isinstance(model, (Object, Instance)) else Unknown("the model that is trained")


def trained_gradients(m: Any, trainer_object: Object, arguments: Object) -> Abstract:
    """The dtypes of the gradients that the Trainer's optimizer takes."""
    from t4lint.libraries import peft

    for name in ("deepspeed", "fsdp"):
        if m.truth(arguments.attributes.get(name) or NONE) is not False:
            return Unknown(f"{name} keeps weights of its own")
    model = inner(trainer_object.attributes["model"])
    config = trainer_object.attributes["$peft_config"]
    if not isinstance(model, (Object, Instance)):
        return Unknown("the model that is trained")
    short = trainer_object.name.rpartition(".")[2]
    cast = trainer_object.attributes.get("$casts")
    if isinstance(cast, Abstract) and m.truth(model.attributes.get("$touched") or NONE) is False:
        return cast
    if config is not NONE:
        if not trainer_object.name.startswith("trl."):
            return Unknown(f"what {short} does with a peft_config")
        return peft.trained_dtypes(m, model, config, None)
    return gradients_of(m, model)


def autocast_of(mixed: Abstract) -> Abstract:
    if not isinstance(mixed, Const):
        return mixed
    return Const({"fp16": "float16", "bf16": "bfloat16"}.get(str(mixed.value), "none"), mixed.origins)


def autocast_value(value: Abstract) -> str:
    return str(value.value) if isinstance(value, Const) else "?"


def scaled_of(mixed: Abstract, trainer_object: Object) -> Abstract:
    if not isinstance(mixed, Const):
        return mixed
    return Const(f"scaler of {trainer_object.uid}" if mixed.value == "fp16" else "none", mixed.origins)


def math_of(m: Any, mixed: Abstract, trainer_object: Object, site: Step) -> Abstract:
    """The dtype of the matmuls: mixed precision's, else that of the weights."""
    if not isinstance(mixed, Const):
        return mixed
    if mixed.value in ("fp16", "bf16"):
        return Const({"fp16": "float16", "bf16": "bfloat16"}[str(mixed.value)], mixed.origins)
    model = m.resolve(trainer_object.attributes["model"])
    if isinstance(model, (Object, Instance)):
        quantization = m.resolve(model.attributes.get("$quantization") or Const("none"))
        if not (isinstance(quantization, Const) and quantization.value == "none"):
            return Unknown("the weights are quantized: their matmuls take the compute dtype")
        weights = m.resolve(model.attributes.get("$dtype") or Unknown("the dtype of the weights"))
        if isinstance(weights, Const):
            reasons = mixed.origins if any(step.node or step.location for step in mixed.origins) else (site,)
            return Const(weights.value, tidy(reasons, weights.origins))
        return Unknown("the dtype of the weights", mixed.origins)
    return Unknown("the model that is trained", mixed.origins)


def tidy(first: Provenance, second: Provenance) -> Provenance:
    return (*first, *(step for step in second if step not in first))


@methods("trainer", "setattr")
def trainer_set(call: Call) -> Abstract:
    """`trainer.model = torch.compile(trainer.model)`: what trains from here on is what is given."""
    name, value = call.arguments.positional[0].value, call.arguments.positional[1]  # type: ignore[attr-defined]
    if name in ("model", "model_wrapped") and call.machine.is_module(value):
        call.machine.emit(Compile, "handed over", inner(value).uid)
    return NONE


@methods(
    "trainer",
    "evaluate",
    "predict",
    "save_model",
    "log",
    "save_state",
    "add_callback",
    "push_to_hub",
    "create_model_card",
    "log_metrics",
    "save_metrics",
    "remove_callback",
)
def trainer_method(call: Call) -> Abstract:
    return Unknown("what the Trainer returns", varies=bool(call.machine.loops))


@methods("trainer", "is_world_process_zero", "is_local_process_zero")
def is_first(call: Call) -> Abstract:
    return Const(True, (RANK,))  # the trace is that of the first process


@methods("trainer", "getattr")
def trainer_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    return Unknown(f"{name} of the Trainer", uid=f"{call.receiver.uid}.{name}")


@calls("transformers.set_seed", "transformers.logging.*", "transformers.utils.logging.*")
def nothing(call: Call) -> Abstract:
    return NONE
