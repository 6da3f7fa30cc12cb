"""Pages about t4lint itself: a rule's page, the list of rules, the list of targets."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.report.frame import visible
from t4lint.ruleset import options_of

if TYPE_CHECKING:
    from t4lint.devices import Target
    from t4lint.rule import Rule
    from t4lint.settings import Settings, Sources

MAX_SETTING = 60  # cells of a setting before the comment behind it
FIXES = {"safe": "safe", "unsafe": "unsafe (look at the result)", "none": "by hand"}
FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"  # only in a checkout


# --- one rule ----------------------------------------------------------------------------------------------------


def explain(rule: Rule) -> str:
    """The rule's page as Markdown, headed by what the declaration says."""
    shown = "on" if rule.default else f"off (switch on with --extend-select {rule.name})"
    head = (
        f"# {rule.name}\n\n{rule.summary}\n\n"
        f"- family: {rule.family}\n- severity: {rule.severity}\n- default: {shown}\n- fix: {FIXES[rule.fix]}\n"
    )
    page = f"{head}\n{rule.page.strip()}\n" if rule.page.strip() else head
    options = "".join(_option(rule, name, said) for name, said in options_of(rule).items())
    return f"{page}\n## Options\n\nIn `[tool.t4lint.rules.{rule.name}]`:\n\n{options}" if options else page


def _option(rule: Rule, name: str, said: dict[str, Any]) -> str:
    return f"- `{name}` ({said.get('type', 'any')}, default {json.dumps(said.get('default'))}): {said.get('description', '')}\n"


# --- the settings of a file --------------------------------------------------------------------------------------


def settings_text(file: str, settings: Settings, sources: Sources, rules: int) -> str:
    """The settings that hold for a file as TOML, each with where it comes from."""
    rows = [(_toml(item.name.replace("_", "-")), _toml_value(getattr(settings, item.name)), sources.get(item.name))
            for item in fields(settings) if item.name not in ("extend", "overrides")]  # fmt: skip
    lines = [f"{key} = {value}" for key, value, _ in rows]
    width = min(max(map(len, lines)), MAX_SETTING)
    said = [
        f"{line:<{width}}  # {', '.join(where or ('default',))}"
        for line, (_, _, where) in zip(lines, rows, strict=True)
    ]
    return f"# {visible(file)}: {rules} rules run\n" + "\n".join(visible(line) for line in said) + "\n"


def settings_json(file: str, settings: Settings, sources: Sources, rules: Iterable[str]) -> str:
    """The same as JSON, version 1."""
    said = {
        item.name.replace("_", "-"): {"value": getattr(settings, item.name), "from": list(sources.get(item.name, ()))}
        for item in fields(settings)
        if item.name not in ("extend", "overrides")
    }
    whole = {"version": 1, "path": file, "settings": said, "rules": list(rules)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _toml(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False)


def _toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml(str(key))} = {_toml_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def markdown(text: str, *, colour: bool, width: int) -> str:
    """Markdown as a terminal shows it."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="standard" if colour else None, no_color=not colour,
        force_jupyter=False, legacy_windows=False, width=min(width, 100),
    )  # fmt: skip
    with console.capture() as captured:
        console.print(Markdown(text, hyperlinks=False))
    return captured.get()


# --- all rules ---------------------------------------------------------------------------------------------------


def rules_text(rules: Iterable[Rule], *, width: int | None = None) -> str:
    """The rules by family, one a line; cut at `width` if it is given."""
    rules = list(rules)
    name_width = max((len(rule.name) for rule in rules), default=0)
    lines: list[str] = []
    for family, members in groupby(rules, key=lambda rule: rule.family):
        lines += ["", family] if lines else [family]
        lines += [_rule_line(rule, name_width) for rule in members]
    count = f"{len(rules)} rule{'' if len(rules) == 1 else 's'}; `t4lint explain RULE` shows a rule's page"
    lines = [line if width is None or len(line) <= width else line[: width - 3] + "..." for line in lines]
    return "\n".join([*lines, "", count] if lines else [count]) + "\n"


def _rule_line(rule: Rule, name_width: int) -> str:
    fix = f"fix: {rule.fix}" if rule.fix != "none" else ""
    default = "" if rule.default else "off"
    counts = fixture_counts(rule)
    tests = f"  [{counts['bad']} bad, {counts['good']} good, {counts['runs']} run]" if counts else ""
    return f"  {rule.name:<{name_width}}  {rule.severity:<7}  {default:<3}  {fix:<11}  {visible(rule.summary)}{tests}"


def rules_json(rules: Iterable[Rule]) -> str:
    """The rules as JSON, version 1."""
    return json.dumps({"version": 1, "rules": [_rule(rule) for rule in rules]}, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity,
        "default": rule.default,
        "fix": rule.fix,
        "summary": rule.summary,
        "verifiable": rule.verifiable,
        "options": options_of(rule),
        "fixtures": fixture_counts(rule),
    }


def fixture_counts(rule: Rule) -> dict[str, int] | None:
    """How many programs prove the rule: bad ones, good ones, and those that are also run. None outside a checkout."""
    if not FIXTURES.is_dir():
        return None
    programs = [path for path in sorted((FIXTURES / rule.name).glob("*")) if ".fixed" not in path.name]
    return {
        "bad": sum(program.name.startswith("bad_") for program in programs),
        "good": sum(program.name.startswith("good_") for program in programs),
        "runs": sum(_runs(program) for program in programs),
    }


def _runs(program: Path) -> bool:
    files = sorted(program.rglob("*.py")) if program.is_dir() else [program]
    return any(_first_line(file).startswith(b"# runs:") for file in files)


def _first_line(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.readline()


# --- targets -----------------------------------------------------------------------------------------------------


def targets_text(targets: Iterable[Target]) -> str:
    """The targets, one a line, in columns."""
    rows = [("target", "GPUs", "capability", "memory", "where"), *target_rows(targets)]
    widths = [max(len(row[index]) for row in rows) for index in range(5)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def target_rows(targets: Iterable[Target]) -> Iterator[tuple[str, str, str, str, str]]:
    """Name, GPUs, compute capability, memory of one GPU and provider of each target, as text."""
    for target in targets:
        where = f"{target.instance.provider}" if target.instance else ""
        if target.gpu is None:
            yield target.name, "none", "", "", where
            continue
        gpus = f"{target.gpus or '?'} x {target.gpu.device_name}" if target.gpus != 1 else target.gpu.device_name
        capability = ".".join(str(part) for part in target.gpu.capability)
        yield target.name, gpus, capability, f"{target.gpu.total_memory / 2**30:.2f} GiB", where
