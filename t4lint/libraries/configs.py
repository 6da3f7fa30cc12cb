"""Configuration files that a program or its launch reads: YAML, JSON, OmegaConf, hydra, DeepSpeed, accelerate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from t4lint.findings import Problem
from t4lint.interpret.operators import unknown_from
from t4lint.interpret.values import (
    NONE,
    Abstract,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Step,
    Unknown,
)
from t4lint.libraries import flags as command_line
from t4lint.libraries.api import Arguments, Call, calls, methods
from t4lint.libraries.paths import text_of
from t4lint.sources.configs import ConfigDocument, ConfigNode, config_from, read_config
from t4lint.trace import Call as CallEvent
from t4lint.trace import Engine

MAX_NODES = 5_000  # values of one file that are followed


def find_file(m: Any, name: str) -> Path | None:
    """A file of the project by the path that a program or launch gives: relative to the script, the root or the launch."""
    if not name or len(name) > 400 or "\0" in name:
        return None
    script = Path(m.frames[0].source.document.file) if m.frames else None
    bases = [script.parent] if script is not None else []
    bases += [m.project.root, m.project.cwd]
    if m.launch is not None:
        bases.append((m.project.cwd / m.launch.where.path).parent)
    for base in dict.fromkeys(bases):
        candidate = base / name
        try:
            if m.project.has(candidate) and m.project.contains(candidate):
                return candidate
        except OSError:
            continue
    return None


def load_file(m: Any, name: str) -> ConfigDocument | None:
    """A configuration file of the project, read once a run."""
    file = find_file(m, name)
    if file is None:
        return None
    key = f"config {file}"
    if key not in m.globals:
        found = read_config(m.project.read(file))
        m.globals[key] = None if isinstance(found, Problem) else found
        if not isinstance(found, Problem):
            m.project.read_texts[found.path] = found.text
    document: ConfigDocument | None = m.globals[key]
    return document


def value_of(node: ConfigNode, name: str = "", budget: list[int] | None = None) -> Abstract:
    """A value of a file as the program gets it; its provenance is the key in the file."""
    budget = budget if budget is not None else [MAX_NODES]
    budget[0] -= 1
    if budget[0] < 0:
        return Unknown("the file holds too many values")
    if node.kind == "mapping":
        return DictValue({key: value_of(child, key, budget) for key, child in node.entries.items()})
    if node.kind == "sequence":
        return ListValue(tuple(value_of(child, name, budget) for child in node.items))
    value = node.plain()
    return Const(value, (Step("key", f"{name}: {value}" if name else str(value), location=node.location),))


def path_of(m: Any, value: Abstract | None) -> str | None:
    """The path behind a string, a Path or an open file."""
    value = m.resolve(value) if value is not None else None
    if isinstance(value, Object) and value.kind == "file":
        value = m.resolve(value.attributes["path"])
    return text_of(value) if value is not None else None


# --- files ---------------------------------------------------------------------------------------------------------


@calls("builtins.open", "io.open", "codecs.open")
def open_(call: Call) -> Abstract:
    return Object("file", "io.TextIOWrapper", {"path": call.argument("file", 0)})


@methods("file", "read", "read_text", "__enter__")
def read_text(call: Call) -> Abstract:
    return call.receiver  # type: ignore[no-any-return]


@methods("file", "*")
def file_method(call: Call) -> Abstract:
    return Unknown("what the file holds", varies=bool(call.machine.loops))


@calls("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "json.loads", "toml.load", "ruamel.yaml.safe_load")
def load(call: Call) -> Abstract:
    m = call.machine
    given = m.resolve(call.arguments.get("stream", 0) or call.arguments.get("s") or NONE)
    if isinstance(given, Const) and isinstance(given.value, str) and not call.name.endswith("json.load"):
        return from_text(given, json=call.name.startswith("json"))
    name = path_of(m, given)
    document = load_file(m, name) if name is not None else None
    if document is None:
        return Unknown(f"what {name or 'the text'} holds", uid=f"file {name}" if name else "")
    return value_of(document.data)


def from_text(text: Const, json: bool) -> Abstract:
    """A configuration that stands as text in the program."""
    from t4lint.libraries.code import from_plain

    name = "text.json" if json else "text.yaml"
    document = config_from(text.value, Path(name), name)
    return (
        Unknown("text that is no configuration")
        if isinstance(document, Problem)
        else from_plain(document.data.plain(), text.origins)
    )


# --- OmegaConf -------------------------------------------------------------------------------------------------------


def tree(value: Abstract) -> Abstract:
    """A configuration tree: items are attributes too."""
    return Object("config tree", "omegaconf.DictConfig", {"$dict": value}) if isinstance(value, DictValue) else value


@calls("omegaconf.OmegaConf.load")
def omega_load(call: Call) -> Abstract:
    name = path_of(call.machine, call.arguments.get("file_", 0))
    document = load_file(call.machine, name) if name is not None else None
    return tree(value_of(document.data)) if document is not None else Unknown(f"what {name or 'the file'} holds")


@calls(
    "omegaconf.OmegaConf.create",
    "omegaconf.OmegaConf.structured",
    "omegaconf.OmegaConf.to_container",
    "omegaconf.DictConfig",
    "ml_collections.ConfigDict",
    "addict.Dict",
    "munch.Munch",
    "box.Box",
)
def omega_create(call: Call) -> Abstract:
    m = call.machine
    value = m.resolve(call.arguments.get("obj", 0) or DictValue(dict(call.arguments.keywords)))
    if call.name.endswith("to_container") and isinstance(value, Object) and value.kind == "config tree":
        inner: Abstract = value.attributes["$dict"]
        return inner
    if isinstance(value, Class):
        value = m.call(value, Arguments())
    if isinstance(value, Instance):
        return value
    return tree(value)


@calls("omegaconf.OmegaConf.from_cli")
def omega_cli(call: Call) -> Abstract:
    result = DictValue()
    overrides(call.machine, result)
    return tree(result)


@calls("omegaconf.OmegaConf.merge")
def omega_merge(call: Call) -> Abstract:
    result = DictValue()
    for part in call.arguments.positional:
        value = call.machine.resolve(part)
        if isinstance(value, Object) and value.kind == "config tree":
            value = value.attributes["$dict"]
        if isinstance(value, Instance):
            value = DictValue(dict(value.attributes))
        if isinstance(value, DictValue):
            merge(result, value)
        else:
            result.state["complete"] = False
    return tree(result)


def merge(into: DictValue, other: DictValue) -> None:
    for key, value in other.items.items():
        mine = into.items.get(key)
        if isinstance(mine, DictValue) and isinstance(value, DictValue):
            merge(mine, value)
        elif isinstance(value, DictValue):
            copy = DictValue(complete=value.complete)
            merge(copy, value)
            into.items[key] = copy
        else:
            into.items[key] = value
    if not other.complete:
        into.state["complete"] = False


def overrides(m: Any, into: DictValue) -> None:
    """`trainer.precision=bf16` words of the command line."""
    for word in m.arguments:
        if word.text is None:
            into.state["complete"] = False
            continue
        name, sign, text = word.text.lstrip("+").partition("=")
        if not sign or name.startswith("-"):
            continue
        *folders, last = name.split(".")
        target = into
        for folder in folders:
            inner = target.items.get(folder)
            if not isinstance(inner, DictValue):
                inner = target.items[folder] = DictValue()
            target = inner
        step = Step("flag", word.text, location=word.location)
        target.items[last] = command_line.converted([_Text(text)], "guess", step)


class _Text:
    __slots__ = ("text", "why")

    def __init__(self, text: str) -> None:
        self.text = text
        self.why = ""


@methods("config tree", "getattr", "getitem")
def tree_item(call: Call) -> Abstract:
    from t4lint.interpret.expressions import item

    key = call.machine.resolve(call.arguments.positional[0])
    return tree(item(call.machine, call.receiver.attributes["$dict"], key))


@methods("config tree", "setattr")
def tree_set(call: Call) -> Abstract:
    key = call.arguments.positional[0]
    if isinstance(key, Const):
        call.machine.write(call.receiver.attributes["$dict"].items, key.value, call.arguments.positional[1])
    return NONE


@methods("config tree", "get", "items", "keys", "values", "pop", "update")
def tree_method(call: Call) -> Abstract:
    result: Abstract = call.machine.method(
        call.receiver.attributes["$dict"], call.name.rpartition(".")[2], call.arguments
    )
    return tree(result)


@methods("config tree", "*")
def tree_other(call: Call) -> Abstract:
    return unknown_from("config", call.receiver)


# --- hydra -----------------------------------------------------------------------------------------------------------


@calls("hydra.main")
def hydra_main(call: Call) -> Abstract:
    return Object(
        "hydra",
        "hydra.main",
        {"path": call.argument("config_path", 0), "name": call.argument("config_name", 1)},
    )


def hydra_of(function: Function) -> Object | None:
    return next((d for d in function.decorators if isinstance(d, Object) and d.kind == "hydra"), None)


def enter_hydra(m: Any, function: Function, decorator: Object) -> Abstract:
    """Call a hydra entry function with the composed configuration."""
    from t4lint.interpret.calls import enter

    folder, name = m.resolve(decorator.attributes["path"]), m.resolve(decorator.attributes["name"])
    config: Abstract = Unknown("the hydra configuration", uid="hydra configuration")
    if isinstance(name, Const) and isinstance(name.value, str):
        base = str(folder.value) if isinstance(folder, Const) and folder.value else "."
        composed = compose(m, base, name.value.removesuffix(".yaml"))
        if composed is not None:
            overrides(m, composed)
            config = tree(composed)
    return enter(m, function, Arguments((config,)))


MAX_COMPOSED = 30  # files of one hydra configuration


def compose(m: Any, folder: str, name: str, depth: int = 0) -> DictValue | None:
    """A configuration with its `defaults` list: groups become keys, `_self_` says when its own values count."""
    document = load_file(m, f"{folder}/{name}.yaml")
    if document is None or depth > MAX_COMPOSED:
        return None
    own = value_of(document.data)
    if not isinstance(own, DictValue):
        return None
    defaults = own.items.pop("defaults", None)
    result = DictValue()
    later = False
    for entry in defaults.items if isinstance(defaults, ListValue) else ():
        if isinstance(entry, Const) and entry.value == "_self_":
            merge(result, own)
            later = True
        elif isinstance(entry, Const) and isinstance(entry.value, str):
            merge(result, compose(m, folder, entry.value, depth + 1) or DictValue(complete=False))
        elif isinstance(entry, DictValue):
            compose_group(m, folder, entry, result, depth)
    if not later:
        merge(result, own)
    return result


def compose_group(m: Any, folder: str, entry: DictValue, result: DictValue, depth: int) -> None:
    for group, option in entry.items.items():
        words = str(group).split()
        if "override" in words or not isinstance(option, Const) or option.value is None:
            continue
        key = words[-1].lstrip("/")
        part = compose(m, folder, f"{key}/{option.value}", depth + 1)
        merge(result, DictValue({key.rpartition("/")[2]: part or DictValue(complete=False)}))


# --- arguments of Hugging Face programs ------------------------------------------------------------------------------


def from_document(m: Any, name: str | None) -> dict[str, Abstract] | None:
    """The values of a HF argument file by field; None when it cannot be read."""
    document = load_file(m, name) if name is not None else None
    if document is None:
        return None
    value = value_of(document.data)
    return {str(key): item for key, item in value.items.items()} if isinstance(value, DictValue) else None


# --- accelerate --------------------------------------------------------------------------------------------------------


def accelerate_config(project: Any, launch: Any) -> DictValue | None:
    """The configuration file that an `accelerate launch --config_file` names, if it is in the project."""
    word = launch.launcher_flags.get("config_file")
    if word is None or not word.text or len(word.text) > 400:
        return None
    bases = [(project.cwd / launch.where.path).parent, project.root, project.cwd]
    bases += [launch.file.parent] if launch.file is not None else []
    for base in bases:
        file = base / word.text
        if project.has(file) and project.contains(file):
            found = read_config(project.read(file))
            if isinstance(found, Problem):
                return None
            project.read_texts[found.path] = found.text
            value = value_of(found.data)
            return value if isinstance(value, DictValue) else None
    return None


# --- DeepSpeed ---------------------------------------------------------------------------------------------------------


def deepspeed_engine(m: Any, config: Abstract, fallback: Abstract) -> Abstract | None:
    """The precision that a DeepSpeed configuration asks for; "auto" follows the training arguments."""
    config = m.resolve(config)
    if isinstance(config, Const) and isinstance(config.value, str):
        document = load_file(m, config.value)
        config = value_of(document.data) if document is not None else Unknown("the DeepSpeed configuration")
    if isinstance(config, Const) and config.value is None:
        return None
    if not isinstance(config, DictValue):
        return Unknown("the DeepSpeed configuration", uid="deepspeed configuration")
    for section, word in (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16")):
        block = m.resolve(config.items.get(section) or NONE)
        enabled = m.resolve(block.items.get("enabled") or NONE) if isinstance(block, DictValue) else NONE
        if isinstance(enabled, Const) and enabled.value is True:
            return Const(word, enabled.origins)
        if (
            isinstance(enabled, Const)
            and enabled.value == "auto"
            and isinstance(fallback, Const)
            and fallback.value == word
        ):
            return fallback
        if isinstance(enabled, Unknown):
            return enabled
    return Const("no")


# the blocks of a DeepSpeed configuration that choose a precision (DeepSpeed 0.19 runtime/config.py)
PRECISION_BLOCKS = ("fp16", "bf16", "bfloat16", "torch_autocast", "amp")


def precision_block(m: Any, config: Abstract) -> Abstract:
    """Is there a block that says something of the precision? Its provenance is the first key of the file."""
    config = m.resolve(config)
    if isinstance(config, Const) and isinstance(config.value, str):
        document = load_file(m, config.value)
        config = value_of(document.data) if document is not None else config
    if not isinstance(config, DictValue) or not config.complete:
        return Unknown("the DeepSpeed configuration")
    first = next((value for value in config.items.values() if isinstance(value, Const)), None)
    written = [step for step in first.origins if step.how == "key"] if first is not None else []
    return Const(any(name in config.items for name in PRECISION_BLOCKS), tuple(written[:1]))


@calls("deepspeed.initialize")
def initialize(call: Call) -> Abstract:
    m = call.machine
    config = call.arguments.get("config") or call.arguments.get("config_params")
    model = call.argument("model")
    if config is None:
        flags = command_line.read(m)
        found = command_line.find(flags, ["deepspeed_config"])
        words = found[1] if found is not None else []
        config = Const(words[0].text) if words and words[0].text else Unknown("the DeepSpeed configuration")
    precision = deepspeed_engine(m, config, Const("no"))
    m.emit(CallEvent, "initialize", function=call.name, arguments={"precision_block": precision_block(m, config)})
    m.emit(
        Engine,
        "DeepSpeed",
        getattr(model, "uid", ""),
        mixed_precision=precision or Unknown("the DeepSpeed configuration"),
    )
    engine = Object("deepspeed engine", "deepspeed.DeepSpeedEngine", {"module": model})
    return ListValue((engine, Unknown("an optimizer"), Unknown("a loader"), Unknown("a scheduler")), "tuple")


@methods("deepspeed engine", "*")
def engine_method(call: Call) -> Abstract:
    return Unknown("what the DeepSpeed engine returns", varies=bool(call.machine.loops))
