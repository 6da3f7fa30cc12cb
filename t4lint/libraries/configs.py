"""Configuration files that a program or its launch reads: YAML, JSON, OmegaConf, hydra, DeepSpeed, accelerate."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from t4lint.findings import Problem
from t4lint.interpret.operators import unknown_from
from t4lint.interpret.values import (
    NONE,
    PRESUMED,
    Abstract,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Step,
    Symbol,
    Unknown,
    replace_origins,
)
from t4lint.libraries import flags as command_line
from t4lint.libraries.api import Arguments, Call, calls, methods
from t4lint.libraries.paths import text_of
from t4lint.sources import disk
from t4lint.sources.configs import ConfigDocument, ConfigNode, config_from, read_config
from t4lint.sources.document import UNKNOWN_TEXT, Document
from t4lint.sources.files import display_path
from t4lint.trace import Call as CallEvent
from t4lint.trace import Engine, Location

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
        if written(m, candidate) is not None:
            return candidate
        try:
            if m.project.has(candidate) and m.project.contains(candidate):
                return candidate
        except OSError:
            continue
    return None


def written(m: Any, file: Path) -> Document | None:
    """What the script of the launch has written into a file before (`cat > FILE <<EOF`)."""
    made: tuple[Document, ...] = m.launch.written if m.launch is not None else ()
    if not made:
        return None
    path = Path(os.path.normpath(file))
    return next((document for document in made if document.file == path), None)


def load_file(m: Any, name: str) -> ConfigDocument | None:
    """A configuration file of the project, read once for all runs."""
    file = find_file(m, name)
    if file is None:
        return None
    own = written(m, file)
    if own is not None:
        made = read_config(own)
        return None if isinstance(made, Problem) else made
    if file not in m.project.configs:
        document_read = m.project.read(file)
        found = read_config(document_read)
        m.project.configs[file] = None if isinstance(found, Problem) else found
        if isinstance(found, Problem):
            m.unread.append(found)
        if not isinstance(found, Problem) and document_read.positions is None:
            m.project.read_texts[found.path] = found.text
    document: ConfigDocument | None = m.project.configs[file]
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
    if isinstance(value, str) and UNKNOWN_TEXT in value:
        return Unknown(f"{name} is filled in when the script runs")
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


@calls(
    "yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "json.load", "json.loads", "toml.load", "toml.loads",
    "ruamel.yaml.safe_load", "tomllib.load", "tomllib.loads", "tomli.load", "tomli.loads", "orjson.loads", "json5.load",
)  # fmt: skip
def load(call: Call) -> Abstract:
    m = call.machine
    given = m.resolve(call.arguments.get("stream", 0) or call.arguments.get("s") or NONE)
    if isinstance(given, Const) and isinstance(given.value, str) and not call.name.endswith("json.load"):
        return from_text(given, call.name.partition(".")[0])
    name = path_of(m, given)
    document = load_file(m, name) if name is not None else None
    if document is None:
        return Unknown(f"what {name or 'the text'} holds", uid=f"file {name}" if name else "")
    return value_of(document.data)


def from_text(text: Const, library: str) -> Abstract:
    """A configuration that stands as text in the program."""
    from t4lint.libraries.code import from_plain

    suffix = {"json": "json", "orjson": "json", "toml": "toml", "tomllib": "toml", "tomli": "toml"}.get(library, "yaml")
    name = f"text.{suffix}"
    document = config_from(text.value, Path(name), name)
    return (
        Unknown("text that is no configuration")
        if isinstance(document, Problem)
        else from_plain(document.data.plain(), text.origins)
    )


# --- OmegaConf -------------------------------------------------------------------------------------------------------


def tree(value: Abstract, root: Abstract | None = None) -> Abstract:
    """A configuration tree: items are attributes too, and `${a.b}` stands for what is at this place below the root."""
    if not isinstance(value, DictValue):
        return value
    return Object("config tree", "omegaconf.DictConfig", {"$dict": value, "$root": root if root is not None else value})


INTERPOLATION = re.compile(r"\$\{([^${}]*)\}")
MAX_INTERPOLATIONS = 8


def interpolated(m: Any, value: Abstract, root: Abstract, depth: int = 0) -> Abstract:
    """A text of a configuration with its `${...}` filled in; unknown where a resolver is asked."""
    if not isinstance(value, Const) or not isinstance(value.value, str) or "${" not in value.value:
        return value
    if depth > MAX_INTERPOLATIONS:
        return Unknown("interpolations that run in a circle", value.origins)
    whole = INTERPOLATION.fullmatch(value.value)
    if whole is not None:
        return interpolated(m, asked_for(m, whole[1], root, value), root, depth + 1)
    parts = [asked_for(m, found[1], root, value) for found in INTERPOLATION.finditer(value.value)]
    if not parts or not all(isinstance(part, Const) for part in parts):
        return Unknown("an interpolation that is not known", value.origins)
    texts = iter(parts)
    return Const(INTERPOLATION.sub(lambda _: str(next(texts).value), value.value), value.origins)  # type: ignore[attr-defined]


def asked_for(m: Any, path: str, root: Abstract, value: Const) -> Abstract:
    """What `${path}` stands for: a place below the root, or an environment variable."""
    from t4lint.libraries.python import environment_value

    if path.startswith("oc.env:"):
        name, comma, default = path.removeprefix("oc.env:").partition(",")
        given = environment_value(m, name)
        return given or (
            Const(default.strip(), value.origins) if comma else Unknown(f"the environment variable {name}")
        )
    if ":" in path:
        return Unknown(f"what {path} gives", value.origins)
    found: Abstract = root
    for name in path.lstrip(".").split("."):
        found = m.resolve(found.items[name]) if isinstance(found, DictValue) and name in found.items else NONE
    return found if found is not NONE else Unknown(f"{path} is not in the configuration", value.origins)


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
    "easydict.EasyDict",
    "attrdict.AttrDict",
    "dotmap.DotMap",
)
def omega_create(call: Call) -> Abstract:
    m = call.machine
    value = m.resolve(call.arguments.get("obj", 0) or DictValue(dict(call.arguments.keywords)))
    if isinstance(value, Object) and value.kind == "config tree":
        return (
            filled(m, value.attributes["$dict"], value.attributes["$root"])
            if call.name.endswith("to_container")
            else value
        )
    if isinstance(value, Class):
        value = m.call(value, Arguments())
    if isinstance(value, Instance):
        return value
    if isinstance(value, DictValue):  # a copy, with the names that are given beside it
        given = {name: it for name, it in call.arguments.keywords.items() if name != "obj"}
        return tree(DictValue({**value.items, **given}, value.complete and not call.arguments.open))
    return tree(value)


def filled(m: Any, value: Abstract, root: Abstract, depth: int = 0) -> Abstract:
    """A plain copy of a tree with its interpolations filled in."""
    value = m.resolve(value)
    if depth > MAX_INTERPOLATIONS:
        return value
    if isinstance(value, DictValue):
        return DictValue({key: filled(m, part, root, depth + 1) for key, part in value.items.items()}, value.complete)
    return interpolated(m, value, root)


@calls("omegaconf.OmegaConf.select")
def omega_select(call: Call) -> Abstract:
    value, key = call.argument("cfg", 0), call.argument("key", 1)
    if isinstance(value, Object) and value.kind == "config tree" and isinstance(key, Const):
        for part in str(key.value).split("."):
            value = call.machine.attribute(value, part)
        return value
    return unknown_from("select", value, key)


@calls(
    "omegaconf.OmegaConf.set_struct",
    "omegaconf.OmegaConf.set_readonly",
    "omegaconf.OmegaConf.resolve",
    "omegaconf.OmegaConf.save",
)
def omega_nothing(call: Call) -> Abstract:
    return NONE


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


def below(settings: DictValue, name: str) -> tuple[DictValue, str]:
    """The table that holds the last part of a dotted name, and that part; tables on the way are made."""
    *folders, last = name.split(".")
    for folder in folders:
        inner = settings.items.get(folder)
        if not isinstance(inner, DictValue):
            inner = settings.items[folder] = DictValue()
        settings = inner
    return settings, last


def overrides(m: Any, into: DictValue, words: Any = None) -> None:
    """`trainer.precision=bf16` words: of the command line, or as given."""
    for word in m.arguments if words is None else words:
        if word.text is None:
            into.state["complete"] = False
            continue
        name, sign, text = word.text.lstrip("+").partition("=")
        if not sign or name.startswith("-"):
            continue
        target, last = below(into, name)
        written = getattr(word, "step", None)
        step = Step("flag", word.text, location=word.location)
        if written is not None:
            step = Step("flag", word.text, written.source, written.node)
        target.items[last] = command_line.converted([_Text(text)], "guess", step)


class _Text:
    __slots__ = ("text", "why")

    def __init__(self, text: str) -> None:
        self.text = text
        self.why = ""


@methods("config tree", "getattr", "getitem")
def tree_item(call: Call) -> Abstract:
    from t4lint.interpret.expressions import item

    m = call.machine
    key = m.resolve(call.arguments.positional[0])
    root = m.resolve(call.receiver.attributes["$root"])
    return tree(interpolated(m, m.resolve(item(m, call.receiver.attributes["$dict"], key)), root), root)


@methods("config tree", "setattr")
def tree_set(call: Call) -> Abstract:
    key = call.arguments.positional[0]
    if isinstance(key, Const):
        call.machine.write(call.receiver.attributes["$dict"].items, key.value, call.arguments.positional[1])
    return NONE


@methods("config tree", "get", "items", "keys", "values", "pop", "update", "setdefault")
def tree_method(call: Call) -> Abstract:
    m, root = call.machine, call.machine.resolve(call.receiver.attributes["$root"])
    result: Abstract = m.method(call.receiver.attributes["$dict"], call.name.rpartition(".")[2], call.arguments)
    return tree(interpolated(m, m.resolve(result), root), root)


@methods("config tree", "setitem")
def tree_set_item(call: Call) -> Abstract:
    return tree_set(call)


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
    return enter(m, function, Arguments((composed(m, folder, name, m.arguments),)))


def composed(m: Any, folder: Abstract, name: Abstract, words: Any) -> Abstract:
    """The configuration of a name with what words choose and override; unknown when it cannot be read."""
    if isinstance(name, Const) and isinstance(name.value, str):
        base = str(folder.value) if isinstance(folder, Const) and folder.value else "."
        chosen = choices(words)
        found = compose(m, base, name.value.removesuffix(".yaml"), chosen)
        if found is not None:
            overrides(m, found, [word for word in words if not is_choice(m, base, word)])
            return tree(found)
    return Unknown("the hydra configuration", uid="hydra configuration")


def choices(words: Any) -> dict[str, Any]:
    """`trainer=fast` words by the group that they may choose from."""
    parts = [(word, (word.text or "").lstrip("+").partition("=")) for word in words]
    return {name: word for word, (name, sign, _) in parts if sign and "." not in name}


def is_choice(m: Any, folder: str, word: Any) -> bool:
    name, sign, option = (word.text or "").lstrip("+").partition("=")
    return bool(sign) and "." not in name and load_file(m, f"{folder}/{name}/{option}.yaml") is not None


MAX_COMPOSED = 30  # files of one hydra configuration


def compose(m: Any, folder: str, name: str, chosen: dict[str, Any], depth: int = 0) -> DictValue | None:
    """A configuration with its `defaults` list: groups become keys, `_self_` says when its own values count."""
    own = stored(m, folder, name)
    if own is None or depth > MAX_COMPOSED:
        return None
    defaults = own.items.pop("defaults", None)
    result = DictValue()
    later = False
    for entry in defaults.items if isinstance(defaults, ListValue) else ():
        if isinstance(entry, Const) and entry.value == "_self_":
            merge(result, own)
            later = True
        elif isinstance(entry, Const) and isinstance(entry.value, str):
            merge(result, compose(m, folder, entry.value, chosen, depth + 1) or DictValue(complete=False))
        elif isinstance(entry, DictValue):
            compose_group(m, folder, entry, result, chosen, depth)
    if not later:
        merge(result, own)
    return result


def stored(m: Any, folder: str, name: str) -> DictValue | None:
    """A configuration by name: a file of the folder, or what the program put into hydra's store."""
    document = load_file(m, f"{folder}/{name}.yaml")
    if document is not None:
        own = value_of(document.data)
        return own if isinstance(own, DictValue) else None
    node = m.globals.get("$hydra store", {}).get(name)
    return as_tree(m, node) if node is not None else None


def as_tree(m: Any, node: Abstract) -> DictValue | None:
    """A dataclass, its instance or a dict as a configuration."""
    node = m.resolve(node)
    if isinstance(node, Class):
        node = m.call(node, Arguments())
    if isinstance(node, DictValue):
        return DictValue(dict(node.items), node.complete)
    if not isinstance(node, Instance):
        return None
    items: dict[Any, Abstract] = {}
    for key, value in node.attributes.items():
        value = m.resolve(value)
        items[key] = (as_tree(m, value) or value) if isinstance(value, Instance) else value
    return DictValue(items)


def compose_group(m: Any, folder: str, entry: DictValue, result: DictValue, chosen: dict[str, Any], depth: int) -> None:
    for group, option in entry.items.items():
        words = str(group).split()
        key = words[-1].lstrip("/").partition("@")[0]
        if "override" in words or not isinstance(option, Const) or option.value is None:
            continue
        name = str(option.value)
        if key in chosen:
            name = chosen[key].text.partition("=")[2]
        part = compose(m, folder, f"{key}/{name}", chosen, depth + 1)
        merge(result, DictValue({key.rpartition("/")[2]: part or DictValue(complete=False)}))


@calls("hydra.core.config_store.ConfigStore.instance")
def config_store(call: Call) -> Abstract:
    return Object("config store", "hydra.core.config_store.ConfigStore")


@methods("config store", "store")
def store(call: Call) -> Abstract:
    name, group = call.argument("name", 0), call.arguments.get("group", 2)
    node = call.arguments.get("node", 1)
    if isinstance(name, Const) and node is not None:
        key = f"{group.value}/{name.value}" if isinstance(group, Const) and group.value else str(name.value)
        call.machine.globals.setdefault("$hydra store", {})[key] = node
    return NONE


@calls("hydra.initialize", "hydra.initialize_config_dir", "hydra.initialize_config_module")
def initialise(call: Call) -> Abstract:
    folder = call.arguments.get("config_path", 0) or call.arguments.get("config_dir", 0) or Const(".")
    call.machine.write(call.machine.globals, "$hydra folder", folder)
    return Object("null context", "hydra.initialize", {"value": NONE})


@calls("hydra.compose")
def compose_call(call: Call) -> Abstract:
    from t4lint.libraries.arguments import words_of

    m = call.machine
    given = call.argument("overrides", 1)
    words = words_of(given) if isinstance(given, ListValue) else []
    return composed(m, m.resolve(m.globals.get("$hydra folder") or Const(".")), call.argument("config_name", 0), words)


MAX_INSTANTIATED = 6  # nested objects


@calls("hydra.utils.instantiate", "hydra.utils.call")
def instantiate(call: Call) -> Abstract:
    """Call what `_target_` names with the other keys as arguments, objects below it first."""
    m = call.machine
    value = call.argument("config", 0)
    root = value.attributes["$root"] if isinstance(value, Object) and value.kind == "config tree" else NONE
    if isinstance(value, Object) and value.kind == "config tree":
        value = value.attributes["$dict"]
    extra = {key: item for key, item in call.arguments.keywords.items() if not key.startswith("_")}
    return built(m, value, m.resolve(root), extra, call.arguments.positional[1:])


def built(m: Any, value: Abstract, root: Abstract, extra: Any, positional: Any = (), depth: int = 0) -> Abstract:
    value = interpolated(m, m.resolve(value), root)
    if isinstance(value, ListValue):
        return ListValue(
            tuple(built(m, part, root, {}, (), depth + 1) for part in value.items), value.kind, value.complete
        )
    if not isinstance(value, DictValue) or depth > MAX_INSTANTIATED:
        return value
    target = m.resolve(value.items.get("_target_") or NONE)
    parts = {k: built(m, v, root, {}, (), depth + 1) for k, v in value.items.items() if not str(k).startswith("_")}
    if not isinstance(target, Const) or not isinstance(target.value, str):
        return DictValue(dict(parts), value.complete)
    function = by_dotted_name(m, target.value)
    keywords = {str(key): part for key, part in parts.items()} | extra
    if m.truth(value.items.get("_partial_") or Const(False)):
        return Partial(function, tuple(positional), keywords)
    return m.call(function, Arguments(tuple(positional), keywords, not value.complete))  # type: ignore[no-any-return]


def by_dotted_name(m: Any, name: str) -> Abstract:
    """A class or function of the project or a library by its full name."""
    from t4lint.interpret import imports

    module, _, last = name.rpartition(".")
    if not module:
        return Unknown(f"what {name} is")
    found = imports.import_module(m, module)
    if isinstance(found, Symbol) and imports.local_file(m, module) is None and module.count("."):
        outer = by_dotted_name(m, module) if module.rpartition(".")[2][:1].isupper() else found
        return m.attribute(outer, last)  # type: ignore[no-any-return]
    return m.attribute(found, last)  # type: ignore[no-any-return]


@calls("hydra.utils.get_class", "hydra.utils.get_method", "hydra.utils.get_object")
def get_by_name(call: Call) -> Abstract:
    name = call.argument("path", 0)
    return (
        by_dotted_name(call.machine, name.value)
        if isinstance(name, Const) and isinstance(name.value, str)
        else Unknown("a name")
    )


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
        file = Path(os.path.normpath(base / word.text))
        made = next((document for document in launch.written if document.file == file), None)
        if made is not None:
            config = read_config(made)
            value = None if isinstance(config, Problem) else value_of(config.data)
            return value if isinstance(value, DictValue) else None
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


def asked_precisions(m: Any, config: Abstract, program: Abstract) -> dict[str, Abstract]:
    """What the program, the launch and a DeepSpeed configuration say about precision, each where it says something."""
    asked = {"program": program}
    launched = m.environment.get("ACCELERATE_MIXED_PRECISION")
    if launched is not None:
        asked["launch"] = m.resolve(launched)
    config = m.resolve(config)
    if isinstance(config, Const) and isinstance(config.value, str):
        document = load_file(m, config.value)
        config = value_of(document.data) if document is not None else NONE
    for section in ("fp16", "bf16"):
        block = m.resolve(config.items.get(section) or NONE) if isinstance(config, DictValue) else NONE
        enabled = m.resolve(block.items.get("enabled") or NONE) if isinstance(block, DictValue) else NONE
        if isinstance(enabled, Const) and isinstance(enabled.value, bool):
            asked[f"{section}.enabled"] = enabled
    return asked


def settled(there: Abstract, asked: dict[str, Abstract]) -> Abstract:
    """The engine's precision; none where the settings contradict each other, since the engine is never built."""
    program = asked.get("program")
    if isinstance(program, Const) and program.value in ("fp16", "bf16"):
        other = asked.get("bf16.enabled" if program.value == "fp16" else "fp16.enabled")
        if isinstance(other, Const) and other.value is True:
            return Unknown("the settings contradict each other")
    return there


def launched_deepspeed(launch: Any, written: DictValue | None) -> Abstract | None:
    """The DeepSpeed file that `accelerate launch` names: on its command line, or in its own configuration."""
    word = launch.launcher_flags.get("deepspeed_config_file")
    if word is not None and word.text:
        return Const(word.text, (Step("flag", f"--deepspeed_config_file {word.text}", location=word.location),))
    inner = written.items.get("deepspeed_config") if written is not None else None
    return inner.items.get("deepspeed_config_file") if isinstance(inner, DictValue) else None


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
    from t4lint.libraries.sharding import deepspeed_config, say_zero

    say_zero(m, getattr(model, "uid", ""), deepspeed_config(m, config))
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


# --- INI, .env, yacs, ml_collections ---------------------------------------------------------------------------------


@calls("configparser.ConfigParser", "configparser.RawConfigParser", "configparser.SafeConfigParser")
def ini_parser(call: Call) -> Abstract:
    return Object("ini parser", call.name, {"$dict": DictValue()})


@methods("ini parser", "read", "read_file")
def ini_read(call: Call) -> Abstract:
    m = call.machine
    given = call.argument("filenames", 0)
    for part in given.items if isinstance(given, ListValue) else (given,):
        name = path_of(m, part)
        document = load_file(m, name) if name is not None else None
        value = value_of(document.data) if document is not None else None
        if isinstance(value, DictValue):
            merge(call.receiver.attributes["$dict"], value)
        else:
            m.write(call.receiver.attributes["$dict"].state, "complete", False)
    return NONE


@methods("ini parser", "get", "getint", "getfloat", "getboolean")
def ini_get(call: Call) -> Abstract:
    from t4lint.interpret.expressions import item

    m = call.machine
    names = [replace_origins(call.argument(name, place), ()) for place, name in enumerate(("section", "option"))]
    section = item(m, call.receiver.attributes["$dict"], names[0])
    value = m.resolve(item(m, section, names[1]))
    kind = {"getint": "int", "getfloat": "float", "getboolean": "bool"}.get(call.name.rpartition(".")[2], "str")
    if isinstance(value, Const) and isinstance(value.value, str) and value.origins:
        return command_line.converted([_Text(value.value)], kind, value.origins[0])
    fallback = call.arguments.get("fallback")
    return value if fallback is None else Unknown("a key of a file that is not known")


@methods("ini parser", "getitem")
def ini_section(call: Call) -> Abstract:
    from t4lint.interpret.expressions import item

    return item(call.machine, call.receiver.attributes["$dict"], call.arguments.positional[0])


@calls("dotenv.load_dotenv", "dotenv.main.load_dotenv")
def load_dotenv(call: Call) -> Abstract:
    """Variables of a `.env` file; what is set already stays."""
    from t4lint.libraries.python import environment_value, set_environment

    m = call.machine
    name = path_of(m, call.arguments.get("dotenv_path", 0)) or ".env"
    file = find_file(m, name)
    if file is None:
        return Const(False)
    text = read_text_file(m, file)
    for number, line in enumerate(text.splitlines(), 1):
        key, sign, value = line.strip().removeprefix("export ").partition("=")
        if sign and not key.startswith("#") and environment_value(m, key.strip()) is None:
            place = Location(display_path(file, m.project.cwd), number, 1, number, len(line) + 1)
            step = Step("environment", line.strip(), location=place)
            set_environment(m, key.strip(), Const(value.strip().strip("\"'"), (step,)))
    return Const(True)


def read_text_file(m: Any, file: Path) -> str:
    from t4lint.sources import files

    document = files.read(file, display_path(file, m.project.cwd))
    if isinstance(document, Problem):
        return ""
    m.project.read_texts[document.path] = document.text
    return document.text


@calls("yacs.config.CfgNode", "fvcore.common.config.CfgNode", "detectron2.config.CfgNode")
def cfg_node(call: Call) -> Abstract:
    given = call.arguments.get("init_dict", 0)
    value = call.machine.resolve(given) if given is not None else DictValue()
    return Object("cfg node", "yacs.config.CfgNode", {"$dict": value if isinstance(value, DictValue) else DictValue()})


@methods("cfg node", "getattr", "getitem")
def cfg_item(call: Call) -> Abstract:
    from t4lint.interpret.expressions import item

    m = call.machine
    value = m.resolve(item(m, call.receiver.attributes["$dict"], call.arguments.positional[0]))
    return Object("cfg node", "yacs.config.CfgNode", {"$dict": value}) if isinstance(value, DictValue) else value


@methods("cfg node", "setattr", "setitem")
def cfg_set(call: Call) -> Abstract:
    key, value = call.arguments.positional[0], call.machine.resolve(call.arguments.positional[1])
    if isinstance(value, Object) and value.kind == "cfg node":
        value = value.attributes["$dict"]
    if isinstance(key, Const):
        call.machine.write(call.receiver.attributes["$dict"].items, key.value, value)
    return NONE


@methods("cfg node", "clone")
def cfg_clone(call: Call) -> Abstract:
    copy = DictValue()
    merge(copy, call.receiver.attributes["$dict"])
    return Object("cfg node", "yacs.config.CfgNode", {"$dict": copy})


@methods("cfg node", "merge_from_file")
def cfg_file(call: Call) -> Abstract:
    m = call.machine
    name = path_of(m, call.arguments.get("cfg_filename", 0))
    document = load_file(m, name) if name is not None else None
    value = value_of(document.data) if document is not None else None
    held = call.receiver.attributes["$dict"]
    if isinstance(value, DictValue):
        merge(held, value)
    elif name is None:
        forget(m, held)
    return NONE


def forget(m: Any, value: DictValue, depth: int = 0) -> None:
    """A file that is not known may replace any value."""
    for key, part in list(value.items.items()):
        if isinstance(part, DictValue) and depth < MAX_INTERPOLATIONS:
            forget(m, part, depth + 1)
        elif isinstance(part, Const):
            m.write(value.items, key, Const(part.value, (*part.origins, PRESUMED), part.varies))


@methods("cfg node", "merge_from_list")
def cfg_list(call: Call) -> Abstract:
    """`["TRAIN.BF16", "True"]`"""
    m, given = call.machine, call.argument("cfg_list", 0)
    held = call.receiver.attributes["$dict"]
    if isinstance(given, ListValue) and given.complete:
        for key, value in zip(given.items[::2], given.items[1::2], strict=False):
            if not isinstance(key, Const):
                continue
            *folders, last = str(key.value).split(".")
            target = held
            for folder in folders:
                target = target.items.get(folder) if isinstance(target, DictValue) else None
            if isinstance(target, DictValue):
                if isinstance(value, Const) and isinstance(value.value, str) and value.origins:
                    value = command_line.converted([_Text(value.value)], "guess", value.origins[0])
                m.write(target.items, last, value)
    return NONE


@methods("cfg node", "freeze", "defrost", "set_new_allowed", "register_deprecated_key", "dump", "is_frozen")
def cfg_nothing(call: Call) -> Abstract:
    return NONE


@methods("cfg node", "get", "items", "keys", "values", "update", "pop", "setdefault")
def cfg_dict(call: Call) -> Abstract:
    return call.machine.method(call.receiver.attributes["$dict"], call.name.rpartition(".")[2], call.arguments)  # type: ignore[no-any-return]


@calls("ml_collections.config_flags.DEFINE_config_file", "ml_collections.config_flags.config_flags.DEFINE_config_file")
def define_config_file(call: Call) -> Abstract:
    """A flag that names a Python file whose `get_config()` gives the settings."""
    from t4lint.interpret.imports import load
    from t4lint.libraries.entry import absl_flags

    m = call.machine
    name, default = call.argument("name", 0), call.argument("default", 1)
    words = [str(name.value)] if isinstance(name, Const) else []
    chosen = command_line.override(command_line.read(m), words, default, "str") if words else default
    path = path_of(m, chosen)
    file = find_file(m, path) if path is not None else None
    value: Abstract = Unknown("the configuration file that a flag names", uid="config flag")
    if file is not None:
        value = m.call(m.attribute(load(m, disk.real(file), file.stem), "get_config"), Arguments())
    if words:
        holder = absl_flags(m)
        m.write(holder.attributes, words[0], value)  # type: ignore[attr-defined]
    return Object("namespace", "absl.flags.FlagHolder", {"value": value})
