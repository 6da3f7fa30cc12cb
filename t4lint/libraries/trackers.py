"""Weights & Biases: the configuration that a program hands to its run and reads from there.

Read in wandb 0.22 (`wandb_init.py`, `wandb_config.py`): `config` is a dict, or an object with `__dict__`; the run's is both a dict
and an object. A sweep may give other values, which is said where the program starts an agent.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, Abstract, Class, DictValue, Object, Unknown
from t4lint.libraries.api import Arguments, Call, attribute, calls, methods
from t4lint.libraries.classes import namespace_of


@calls("wandb.init")
def init(call: Call) -> Abstract:
    m = call.machine
    given = m.resolve(call.arguments.get("config") or NONE)
    run = Object("tracked run", "wandb.Run")
    swept = "$sweep" in m.globals
    run.attributes["$config"] = Unknown("a sweep chooses the configuration") if swept else settings(given)
    m.globals["$tracked"] = run
    return run


@attribute("wandb.run")
def current(m: Any) -> Abstract:
    run: Abstract | None = m.globals.get("$tracked")
    return run or Unknown("the current run")


@attribute("wandb.config")
def config(m: Any) -> Abstract:
    run = m.globals.get("$tracked")
    return read(m, run) if run is not None else Unknown("the configuration of a run")


def read(m: Any, run: Object) -> Abstract:
    """The configuration, through which the program may read any of its flags."""
    m.globals["$namespace handed"] = True
    found: Abstract = run.attributes["$config"]
    return found


def settings(given: Abstract) -> Abstract:
    """What a run makes of its configuration: a tree whose items are attributes too."""
    from t4lint.libraries.configs import tree

    names = given if isinstance(given, DictValue) else None if isinstance(given, Class) else namespace_of(given)
    if names is None:
        return Unknown("the configuration of the run")
    plain = {key: value for key, value in names.items.items() if isinstance(value, Abstract)}
    return tree(DictValue(plain, names.complete))


@calls("wandb.agent")
def agent(call: Call) -> Abstract:
    m = call.machine
    m.globals["$sweep"] = True
    return m.call(call.argument("function", 1), Arguments())  # type: ignore[no-any-return]


@methods("tracked run", "getattr")
def member(call: Call) -> Abstract:
    if call.constant("name", 0) == "config":
        return read(call.machine, call.receiver)
    return Unknown("what the service gives to a run")


@methods("tracked run", "*")
def other(call: Call) -> Abstract:
    return NONE
