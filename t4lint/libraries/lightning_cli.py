"""LightningCLI: a Trainer, a model and a data module that a configuration file and the command line describe (read in 2.6)."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, Abstract, Class, Const, DictValue, ListValue, Object, Symbol, Unknown
from t4lint.libraries import flags as command_line
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
from t4lint.libraries.configs import below, by_dotted_name, from_document, merge

aliases({
    "lightning.pytorch.cli.LightningCLI": "lightning.cli.LightningCLI",
    "jsonargparse.CLI": "jsonargparse.auto_cli",
})  # fmt: skip

COMMANDS = ("fit", "validate", "test", "predict")


@calls("lightning.cli.LightningCLI")
def lightning_cli(call: Call) -> Abstract:
    """Builds what the settings name, and runs the command that stands first."""
    m = call.machine
    flags = command_line.read(m)
    settings = read(m, flags, call.arguments.get("trainer_defaults"))
    trainer_class = m.resolve(call.arguments.get("trainer_class") or Symbol("lightning.pytorch.Trainer"))
    trainer = m.call(trainer_class, arguments_of(m, settings, "trainer"))
    model = built(m, call.argument("model_class", 0, NONE), settings, "model")
    data = built(m, call.argument("datamodule_class", 1, NONE), settings, "data")
    cli = Object("lightning cli", call.name, {"trainer": trainer, "model": model, "datamodule": data})
    command = next((word.text for word in flags.positional if word.text in COMMANDS), None)
    runs = call.constant("run", None, True) is not False
    if runs and (command == "fit" or (command is None and m.launch is None)):
        given = {} if isinstance(data, Const) else {"datamodule": data}
        m.method(trainer, "fit", Arguments((model,), given))
    return cli


def read(m: Any, flags: command_line.Flags, defaults: Abstract | None) -> DictValue:
    """The settings: defaults in the program, then files in their order, then flags such as `--trainer.precision 16-mixed`."""
    settings = DictValue()
    written = m.resolve(defaults) if defaults is not None else NONE
    if isinstance(written, DictValue):
        merge(settings, DictValue({"trainer": written}))
    for name in files_of(m):
        values = from_document(m, name)
        if values is None:
            settings.state["complete"] = False
        else:
            merge(settings, DictValue(dict(values)))
    for name, words in flags.given.items():
        if name.startswith("$") or name in ("config", "c"):
            continue
        target, last = below(settings, name)
        target.items[last] = command_line.converted(words[:1], "guess", command_line.flag_step(name, words, flags))
    if flags.open or m.launch is None:
        settings.state["complete"] = False
    return settings


def files_of(m: Any) -> list[str]:
    """Every `--config FILE`, `-c FILE` of the command line: later ones win."""
    found = []
    words = list(m.arguments)
    for word, after in zip(words, [*words[1:], None], strict=True):
        name, sign, value = (word.text or "").partition("=")
        if name in ("--config", "-c") and (sign or after is not None):
            found.append(value if sign else after.text or "")
    return found


def arguments_of(m: Any, settings: DictValue, section: str) -> Arguments:
    """A section as keywords; objects that are described by a `class_path` are not built."""
    values = m.resolve(settings.items.get(section) or NONE)
    items = values.items if isinstance(values, DictValue) else {}
    keywords = {str(key): plain(value) for key, value in items.items() if "." not in str(key)}
    return Arguments((), keywords, not settings.complete)


def plain(value: Abstract) -> Abstract:
    described = isinstance(value, DictValue) and "class_path" in value.items
    listed = isinstance(value, ListValue) and any(isinstance(item, DictValue) for item in value.items)
    return Unknown("an object that the configuration describes") if described or listed else value


def built(m: Any, cls: Abstract, settings: DictValue, section: str) -> Abstract:
    """A model or data module: of the class that the program names, or of the `class_path` in the settings."""
    cls = m.resolve(cls)
    values = m.resolve(settings.items.get(section) or NONE)
    path, inner = NONE, values
    if isinstance(values, DictValue) and "class_path" in values.items:
        path, inner = m.resolve(values.items["class_path"]), m.resolve(values.items.get("init_args") or NONE)
    elif isinstance(values, Const) and isinstance(values.value, str):
        path, inner = values, NONE
    if isinstance(path, Const) and isinstance(path.value, str):
        cls = by_dotted_name(m, path.value)
    if not isinstance(cls, (Class, Symbol)):
        return cls
    keywords = {str(key): plain(value) for key, value in inner.items.items()} if isinstance(inner, DictValue) else {}
    result: Abstract = m.call(cls, Arguments((), keywords, not settings.complete))
    return result


@methods("lightning cli", "*")
def method(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns")
