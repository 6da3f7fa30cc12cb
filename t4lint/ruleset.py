"""The rules: those that t4lint ships, people's own, which of them run, and with which options."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.rule import Rule
from t4lint.suppress import UNUSED

if TYPE_CHECKING:
    from types import ModuleType

    from pydantic import TypeAdapter

Options = Mapping[str, Mapping[str, Any]]  # of rules, by name


class UnknownRule(ValueError):  # noqa: N818
    """A rule name or family that does not exist; the message suggests the nearest."""


class BadOption(ValueError):  # noqa: N818
    """An option that a rule does not have, or a value that it does not take. `keys` lead to it in the settings."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


class BadRules(ValueError):  # noqa: N818
    """Own rules that cannot be loaded."""


# --- what there is -----------------------------------------------------------------------------------------------


@cache
def rules(own: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """All rules that t4lint ships, and those in `own` (folders, names of modules), by family and name."""
    package = importlib.import_module("t4lint.rules")
    found: list[Rule] = []
    for info in pkgutil.walk_packages(package.__path__, "t4lint.rules."):
        if not info.ispkg:
            found += _rules_in(importlib.import_module(info.name))
    for place in own:
        names = {rule.name for rule in found} | {UNUSED.name}
        for rule in _own_rules(place):
            if rule.name in names:
                raise BadRules(f"{place}: there is already a rule {rule.name}")
            found.append(rule)
    return tuple(sorted(found, key=lambda rule: (rule.family, rule.name)))


def _rules_in(module: ModuleType) -> Iterator[Rule]:
    return (value for value in vars(module).values() if isinstance(value, Rule))


def _own_rules(place: str) -> list[Rule]:
    """The rules in a folder or an installed module. This runs its code."""
    try:
        modules = list(_folder(Path(place)) if Path(place).is_absolute() else _installed(place))
    except Exception as error:  # whatever their code does
        raise BadRules(f"the rules in {place} cannot be loaded: {type(error).__name__}: {error}") from error
    found = list(dict.fromkeys(rule for module in modules for rule in _rules_in(module)))
    if (
        not found and not Path(place).is_absolute()
    ):  # a folder may be empty so far; a module that has none is another one
        raise BadRules(f"there are no rules in {place}")
    return found


def _folder(folder: Path) -> Iterator[ModuleType]:
    """The modules of a folder of rules, laid out as t4lint's own: the name of a subfolder is the family."""
    package = f"t4lint_own_{blake2b(str(folder).encode(), digest_size=6).hexdigest()}"
    for file in sorted(folder.rglob("*.py")):
        family = file.parent.name if file.parent != folder else folder.name
        name = f"{package}.{family}.{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        if file.name.startswith("_") or spec is None or spec.loader is None:
            continue
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def _installed(name: str) -> Iterator[ModuleType]:
    module = importlib.import_module(name)
    yield module
    for info in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
        yield importlib.import_module(info.name)


# --- which of them run -------------------------------------------------------------------------------------------


def select(
    names: Sequence[str],
    ignore: Sequence[str] = (),
    extend: Sequence[str] = (),
    own: tuple[str, ...] = (),
    options: Options | None = None,
) -> tuple[Rule, ...]:
    """The rules that are to run: those on by default, or those named (a rule, a family or `all`), with their options."""
    requested = named([*names, *extend], own)
    chosen = requested if names else requested | {rule.name for rule in rules(own) if rule.default}
    chosen = chosen - named(ignore, own)
    given = configured(options or {}, own)
    return tuple(
        replace(rule, requested=rule.name in requested, given=given.get(rule.name))
        for rule in rules(own)
        if rule.name in chosen
    )


def named(names: Iterable[str], own: tuple[str, ...] = ()) -> set[str]:
    """The names of the rules that names of rules, families or `all` stand for."""
    known, families = _names(own)
    found: set[str] = set()
    for name in names:
        if name == "all":
            found |= known
        elif name in known:
            found.add(name)
        elif name in families:
            found |= {rule.name for rule in rules(own) if rule.family == name}
        else:
            near = like(name, own)
            hint = f"; did you mean {near}?" if near else "; `t4lint rules` lists them"
            raise UnknownRule(f"there is no rule or family {name!r}{hint}")
    return found


def like(name: str, own: tuple[str, ...] = ()) -> str | None:
    """The rule or family whose name is most like one that is none."""
    known, families = _names(own)
    return next(iter(difflib.get_close_matches(name, sorted(known | families), n=1)), None)


def _names(own: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """The names of all rules, and of all families."""
    return {rule.name for rule in rules(own)} | {UNUSED.name}, {rule.family for rule in rules(own)}


def configured(options: Options, own: tuple[str, ...] = ()) -> dict[str, Any]:
    """The options of rules as the rules take them."""
    by_name = {rule.name: rule for rule in rules(own)}
    made: dict[str, Any] = {}
    for name, values in options.items():
        if name not in by_name:
            named([name], own)  # says which rule was meant
            raise BadOption(f"{name} is no rule, and has no options", "rules", name)
        made[name] = _options(by_name[name], values)
    return made


def _options(rule: Rule, values: Mapping[str, Any]) -> Any:
    from pydantic import ValidationError

    if rule.options is None:
        raise BadOption(f"the rule {rule.name} has no options", "rules", rule.name)
    known = rule.options.__dataclass_fields__
    plain = {name.replace("-", "_"): value for name, value in values.items()}
    for name in values:
        if name.replace("-", "_") not in known:
            said = ", ".join(it.replace("_", "-") for it in known)
            raise BadOption(f"{rule.name} has no option {name!r}; it has {said}", "rules", rule.name, name)
    try:
        return _adapter(rule.options).validate_json(json.dumps(plain))  # strict for JSON: a list may be a tuple
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        key = str(detail["loc"][0]).replace("_", "-") if detail["loc"] else ""
        raise BadOption(
            f"{key} of {rule.name}: {detail['msg'][:1].lower()}{detail['msg'][1:]}", "rules", rule.name, key
        ) from None


def options_of(rule: Rule) -> dict[str, dict[str, Any]]:
    """The options that a rule has, by name, as JSON schema: type, default and description."""
    if rule.options is None:
        return {}
    made = _adapter(rule.options).json_schema()["properties"]
    return {name.replace("_", "-"): value for name, value in made.items()}


def _adapter(options: type[Any]) -> TypeAdapter[Any]:
    """What validates the options of a rule, and knows their schema."""
    from pydantic import ConfigDict, TypeAdapter

    options.__pydantic_config__ = ConfigDict(use_attribute_docstrings=True, extra="forbid", strict=True)
    return TypeAdapter(options)
