"""Short programs that stand for those of installed libraries, and what they ask for: settings of a file and a command line."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from t4lint.interpret.values import NONE, Abstract, Const, DictValue, Step, Unknown
from t4lint.libraries import flags as command_line
from t4lint.libraries.api import Call, calls
from t4lint.libraries.configs import from_document, merge, overrides

FOLDER = Path(__file__).parent / "data" / "programs"
CONFIG_SUFFIXES = (".yaml", ".yml", ".json", ".toml")


@cache
def program_text(program: str) -> str:
    """The Python text of a program by its name, or of the console script `module:function`."""
    module, colon, function = program.partition(":")
    if colon:
        name = function.partition(".")[0]
        return f"from {module} import {name}\n{function}()\n"
    base, _, method = program.partition("_")
    if base == "trl":
        shown = {"reward": "Reward"}.get(method, method.upper())
        return (FOLDER / "trl.py").read_text(encoding="utf-8").replace("METHOD", shown)
    return (FOLDER / f"{program}.py").read_text(encoding="utf-8")


@calls("t4lint_programs.given")
def given(call: Call) -> Abstract:
    """A dict of what a file and the command line say: `--key value`, `--no-key`, `key=value`. The file is named by a flag, or is
    the first word that looks like one.
    """
    m = call.machine
    flags = command_line.read(m)
    result = DictValue()
    named = call.constant("file", 0)
    words = [word for word in flags.positional if "=" not in (word.text or "=")]
    if named is None:
        words = [word for word in words if (word.text or "").lower().endswith(CONFIG_SUFFIXES)]
    else:
        found = command_line.find(flags, [named])
        words = found[1] if found is not None else assigned(m, named)
    for word in words[:1]:
        values = read_settings(m, word.text)
        if values is None:
            result.state["complete"] = False
        else:
            merge(result, values)
    overrides(m, result)
    for name, words in flags.given.items():
        if name.startswith("$") or name == named:
            continue
        step = command_line.flag_step(name, words, flags)
        off = name.startswith("no_") and not words
        result.items[name.removeprefix("no_") if off else name] = (
            Const(False, (step,)) if off else command_line.converted(words[:1], "guess", step)
        )
    if flags.open:
        result.state["complete"] = False
    return result


class _Text:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def assigned(m: Any, name: str) -> list[Any]:
    """The word after `name=`."""
    parts = [(word.text or "").partition("=") for word in m.arguments]
    return [_Text(value) for key, sign, value in parts if sign and key == name]


def read_settings(m: Any, name: str | None) -> DictValue | None:
    """The keys of a file; those in the tables of a TOML file stand beside the others, as kohya reads it."""
    values = from_document(m, name) or (from_document(m, f"{name}.toml") if name else None)
    if values is None:
        return None
    flat = DictValue()
    for key, value in values.items():
        if isinstance(value, DictValue) and name is not None and not name.lower().endswith(CONFIG_SUFFIXES[:3]):
            flat.items.update(value.items)
        else:
            flat.items[key] = value
    return flat


@calls("t4lint_programs.trains")
def trains(call: Call) -> Abstract:
    """The rest of a training program, of which nothing is known."""
    from t4lint.libraries.torch import EFFECTS, hand_over

    hand_over(call.machine, "the rest of this program is not known", call.arguments)
    call.machine.gap(EFFECTS, "the rest of this program is not known")
    return NONE


@calls("t4lint_programs.chosen_bf16")
def chosen_bf16(call: Call) -> Abstract:
    """What `bf16: auto` becomes where the program asks `transformers.utils.is_torch_bf16_gpu_available()`."""
    m, asked = call.machine, call.argument("asked", 0)
    if m.target.gpu is None:
        return Const(False, asked.origins)
    supported = m.target.bf16_supported(m.version("torch"))
    note = f"auto chooses bf16 on {m.target.gpu.short_name}: torch counts emulation as support"
    return Const(supported, (*asked.origins, Step("target", note)))


@calls("t4lint_programs.changed")
def changed(call: Call) -> Abstract:
    return Unknown("what the program makes of the model")


@calls("t4lint_programs.batches")
def batches(call: Call) -> Abstract:
    return Unknown("the batches of this program")
