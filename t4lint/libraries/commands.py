"""Commands that a program starts: `subprocess`, `os.system`, sessions of nox. They may be launches of training scripts."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, Abstract, Const, DictValue, ListValue, Object, Step, Unknown
from t4lint.libraries.api import Call, attribute, calls, methods
from t4lint.sources.document import ShellFragment
from t4lint.sources.fragments import Text, Written, add, add_command, add_export, add_folder
from t4lint.sources.positions import TextBuilder
from t4lint.trace import Location

MAX_COMMANDS = 100  # of one run
MAX_WORDS = 500


@attribute("sys.executable")
def executable(m: Any) -> Abstract:
    return Const("python")


@calls(
    "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen",
    "subprocess.getoutput", "subprocess.getstatusoutput",
)  # fmt: skip
def start(call: Call) -> Abstract:
    note(call, call.arguments.get("args", 0) or call.arguments.get("cmd"))
    return Unknown("what a command prints", varies=bool(call.machine.loops))


@calls("os.system", "os.popen")
def system(call: Call) -> Abstract:
    note(call, call.arguments.get("command", 0) or call.arguments.get("cmd"))
    return Unknown("what a command returns", varies=bool(call.machine.loops))


@calls("nox.session")
def nox_session(call: Call) -> Abstract:
    """The decorator: what nox hands to the function is one of its sessions."""
    function = call.arguments.get("func", 0)
    return call.machine.resolve(function) if function is not None else Object("nox decorator", "nox.session")


@methods("nox decorator", "__call__")
def decorated(call: Call) -> Abstract:
    return call.arguments.positional[0] if call.arguments.positional else NONE


@methods("nox session", "run", "run_always")
def nox_run(call: Call) -> Abstract:
    note(call, ListValue(call.arguments.positional))
    return NONE


@methods("nox session", "*")
def nox_other(call: Call) -> Abstract:
    return NONE


def note(call: Call, command: Abstract | None) -> None:
    """Keep a command as shell text with the places of its words."""
    m = call.machine
    made: list[ShellFragment] = m.globals.setdefault("$commands", [])
    command = m.resolve(command) if command is not None else NONE
    if len(made) >= MAX_COMMANDS or not m.sites:
        return
    source, node = m.sites[-1]
    around = source.location(node)
    builder = TextBuilder()
    surround(call, builder, around)
    if isinstance(command, Const) and isinstance(command.value, str):
        add(builder, [word_of(m, command, around)])
        builder.fill("\n")
    elif isinstance(command, ListValue) and command.items:
        words: list[Text] = [[word_of(m, m.resolve(item), around)] for item in command.items[:MAX_WORDS]]
        if not command.complete:
            words.append([spot(around, "$UNKNOWN")])
        add_command(builder, words, expanded=True)
    else:
        return
    made.append(ShellFragment(around.path, source.document.file, builder.build(around.path)))


def surround(call: Call, builder: TextBuilder, around: Location) -> None:
    """The folder and the variables that a command is given."""
    m = call.machine
    folder, environment = call.argument("cwd", None, NONE), call.argument("env", None, NONE)
    if isinstance(environment, DictValue):
        for name, value in environment.items.items():
            value = m.resolve(value)
            if isinstance(name, str) and isinstance(value, Const):
                add_export(builder, name, [word_of(m, value, around)])
    if isinstance(folder, Const) and isinstance(folder.value, str):
        add_folder(builder, [word_of(m, folder, around)])


def word_of(m: Any, value: Abstract, around: Location) -> Written:
    """A word, at the literal that it is written as; one that is not known as a variable that is not set."""
    if not isinstance(value, Const) or value.value is None:
        return spot(around, "$UNKNOWN")
    text = str(value.value)
    step = next((it for it in value.origins if it.node is not None or it.location is not None), None)
    place = place_of(step) or around
    if step is not None and step.node is not None and step.source is not None:
        code = step.source.code(step.node)
        if code in (f'"{text}"', f"'{text}'") and place.path == around.path:
            return Written(text, place.line, place.column + 1, place.line, place.column + 1 + len(text))
    return spot(place if place.path == around.path else around, text)


def place_of(step: Step | None) -> Location | None:
    if step is None:
        return None
    if step.location is not None:
        return step.location
    place: Location | None = step.source.location(step.node) if step.source is not None else None
    return place


def spot(place: Location, text: str) -> Written:
    """Text that is not written as it stands."""
    return Written(text, place.line, place.column, place.end_line, place.end_column, False)
