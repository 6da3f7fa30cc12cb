"""Completion in the shell: the shell asks t4lint itself (argcomplete), so that flags, rules and targets are those of this version."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable

SHELLS = ("bash", "zsh", "fish")
ASKED = "_ARGCOMPLETE"  # set by the shell where it asks


def script(shell: str) -> str:
    """What a shell has to source once: `eval "$(t4lint completion bash)"`, or `t4lint completion fish | source`."""
    from argcomplete.shell_integration import shellcode

    return shellcode(["t4lint"], shell=shell).strip() + "\n"


def answer(parser: argparse.ArgumentParser, commands: Iterable[str]) -> None:
    """Tell the shell what can stand at the cursor, and exit."""
    import argcomplete

    os.environ["COMP_LINE"], os.environ["COMP_POINT"] = with_command(
        os.environ.get("COMP_LINE", ""), int(os.environ.get("COMP_POINT") or 0), tuple(commands)
    )
    for action in _actions(parser):
        if completer := COMPLETERS.get(action.dest):
            action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def with_command(line: str, point: int, commands: tuple[str, ...]) -> tuple[str, str]:
    """The line as it is meant: `t4lint train.py --fi` is `t4lint check train.py --fi`."""
    start = len(line) - len(line.lstrip())
    program = line[start:].split(" ", 1)[0]
    at = start + len(program)
    rest = line[at:point]
    first = rest.split()[:1]
    typing = (
        not rest.endswith(" ") and len(rest.split()) == 1
    )  # the first word is not finished: it may become a command
    if not first or first[0] in (*commands, "-h", "--help", "-V", "--version"):
        return line, str(point)
    if typing and (not first[0].startswith("-") and any(it.startswith(first[0]) for it in commands)):
        return line, str(point)
    return f"{line[:at]} check{line[at:]}", str(point + len(" check"))


def _actions(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _actions(sub)


def _rules(prefix: str, **_: object) -> list[str]:
    """Names of rules and families, also behind others and a comma."""
    from t4lint.ruleset import rules

    before, comma, _last = prefix.rpartition(",")
    names = {"all", *(rule.name for rule in rules()), *(rule.family for rule in rules())}
    return [f"{before}{comma}{name}" for name in sorted(names)]


def _rule(prefix: str, **_: object) -> list[str]:
    from t4lint.ruleset import rules

    return [rule.name for rule in rules()]


def _targets(prefix: str, **_: object) -> list[str]:
    from t4lint.devices import targets

    return [target.name for target in targets()]


def _formats(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from t4lint.report.outputs import FORMATS

    return list(FORMATS)


def _models(prefix: str, **_: object) -> list[str]:
    """Checkpoints whose shapes t4lint knows."""
    from t4lint.memory.shapes import shapes

    return sorted({shape.id for found in shapes().values() for shape in found})


COMPLETERS: dict[str, Callable[..., list[str]]] = {
    "select": _rules,
    "ignore": _rules,
    "extend_select": _rules,
    "rule": _rule,
    "target": _targets,
    "output_format": _formats,
    "model": _models,
}
