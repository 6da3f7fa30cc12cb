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

from rich.cells import cell_len, set_cell_size

from t4lint.language import ENGLISH, of_rule, page, phrase
from t4lint.report.common import rule_url
from t4lint.report.frame import visible
from t4lint.ruleset import options_of

if TYPE_CHECKING:
    from t4lint.devices import Instance, Target
    from t4lint.rule import Rule
    from t4lint.settings import Settings, Sources

MAX_SETTING = 60  # cells of a setting before the comment behind it
FIXES = {"safe": "safe", "unsafe": "unsafe: look at the result", "none": "by hand"}
FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"  # only in a checkout


# --- one rule ----------------------------------------------------------------------------------------------------


def explain(rule: Rule, language: str = ENGLISH) -> str:
    """The rule's page as Markdown, headed by what the declaration says."""

    def say(text: str) -> str:
        return phrase(text, language, "page")

    shown = say("on") if rule.default else f"{say('off')} (--extend-select {rule.name})"
    facts = {"family": rule.family, "severity": say(rule.severity), "by default": shown, "fix": say(FIXES[rule.fix])}
    if url := rule_url(rule, language):
        facts["page"] = f"<{url}>"
    head = f"# {rule.name}\n\n{of_rule(rule, 'summary', rule.summary, language)}\n\n"
    head += "".join(f"- {say(name)}: {fact}\n" for name, fact in facts.items())
    text = page(rule, language).strip()
    options = "".join(_option(rule, name, said) for name, said in options_of(rule).items())
    parts = [head, f"\n{text}\n" if text else ""]
    if options:
        parts.append(f"\n## {say('Options')}\n\n`[tool.t4lint.rules.{rule.name}]`\n\n{options}")
    return "".join(parts)


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


def rules_text(rules: Iterable[Rule], *, width: int | None = None, language: str = ENGLISH) -> str:
    """The rules by family, one a line; cut at `width` if it is given."""
    rules = list(rules)
    name_width = max((len(rule.name) for rule in rules), default=0)
    lines: list[str] = []
    for family, members in groupby(rules, key=lambda rule: rule.family):
        lines += ["", family] if lines else [family]
        lines += [_rule_line(rule, name_width, language) for rule in members]
    count = f"{len(rules)} rule{'' if len(rules) == 1 else 's'}; `t4lint explain RULE` shows a rule's page"
    lines = [
        line if width is None or cell_len(line) <= width else set_cell_size(line, width - 3).rstrip() + "..."
        for line in lines
    ]
    return "\n".join([*lines, "", phrase(count, language, "page")] if lines else [count]) + "\n"


def _rule_line(rule: Rule, name_width: int, language: str) -> str:
    fix = f"fix: {rule.fix}" if rule.fix != "none" else ""
    default = "" if rule.default else "off"
    counts = fixture_counts(rule)
    tests = f"  [{counts['bad']} bad, {counts['good']} good, {counts['runs']} run]" if counts else ""
    summary = visible(of_rule(rule, "summary", rule.summary, language))
    return f"  {rule.name:<{name_width}}  {rule.severity:<7}  {default:<3}  {fix:<11}  {summary}{tests}"


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


COLUMNS = ("target", "GPUs", "memory", "vCPUs", "RAM", "network", "disk", "where", "as of")
UNITS = {"memory": "GiB", "RAM": "GiB", "network": "Gbit/s", "disk": "GB"}


def targets_text(targets: Iterable[Target]) -> str:
    """The targets, one a line, in columns: GPUs, then machines."""
    rows = [COLUMNS, *(_target_row(target) for target in targets)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(COLUMNS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    note = (
        "memory: of one GPU, as PyTorch sees it, in GiB. RAM in GiB. network: Gbit/s of a machine that hold, and the most for a "
        "while.\ndisk: local, in GB. ?: no source that was found states it. `t4lint targets NAME` shows the sources."
    )
    return "\n".join([*lines, "", note]) + "\n"


def target_rows(targets: Iterable[Target]) -> Iterator[tuple[str, str, str, str]]:
    """Name, GPUs, memory of one GPU and provider of each target, as text."""
    for target in targets:
        name, gpus, memory, *_ = _target_row(target)
        yield name, gpus, f"{memory} GiB" if memory else "", target.instance.provider if target.instance else ""


def target_text(target: Target) -> str:
    """One target in full, with the sources of its figures."""
    facts = {name: _with_unit(name, text) for name, text in zip(COLUMNS, _target_row(target), strict=True) if text}
    if target.gpu is not None:
        facts["compute capability"] = ".".join(map(str, target.gpu.capability))
        facts["computes in"] = ", ".join(sorted(target.gpu.native_dtypes))
    instance = target.instance
    if target.gpu is not None and target.gpu.share < 1:
        facts["note"] = "a part of a GPU: its memory is that share of the label, and its time is shared too"
    aliases = instance.aliases if instance is not None else target.gpu.aliases if target.gpu is not None else ()
    facts["also called"] = ", ".join(aliases)
    facts["source"] = instance.source if instance is not None else ""
    facts["source of the GPU"] = target.gpu.source if target.gpu is not None else ""
    return "".join(f"{name:<20}{text}\n" for name, text in facts.items() if text)


def _with_unit(name: str, text: str) -> str:
    unit = UNITS.get(name, "")
    return f"{text} {unit}" if unit and text not in ("?", "none") else text


def targets_json(targets: Iterable[Target]) -> str:
    """The targets for machines; null where no source states it, and `unverified` names what is not confirmed."""
    return json.dumps({"version": 1, "targets": [_target_values(target) for target in targets]}, indent=2) + "\n"


def _target_row(target: Target) -> tuple[str, ...]:
    instance, gpu = target.instance, target.gpu
    if gpu is None:
        return (target.name, "none", *[""] * (len(COLUMNS) - 2))
    memory = f"{gpu.total_memory / 2**30:.2f}"
    share = "" if gpu.share == 1 else f"1/{1 / gpu.share:g} of a "
    if instance is None:
        return (target.name, f"{share}{gpu.device_name}", memory, *[""] * (len(COLUMNS) - 3))
    count = "" if instance.gpu_count == 1 else f"{instance.gpu_count} x "
    disk = "?" if instance.disk_gb is None else "none" if instance.disk_gb == 0 else f"{instance.disk_gb:g}"
    return (
        target.name, f"{share}{count}{gpu.device_name}", memory, f"{instance.vcpus}", f"{instance.ram_gib:g}",
        _network(instance), disk, instance.provider, instance.checked or "?",
    )  # fmt: skip


def _network(instance: Instance) -> str:
    held, most = instance.network_gbps_baseline, instance.network_gbps_max
    if held is None:
        return "?" if most is None else f"up to {most:g}"
    return f"{held:g}" if most in (None, held) else f"{held:g}, up to {most:g}"


def _target_values(target: Target) -> dict[str, object]:
    gpu, instance = target.gpu, target.instance
    values: dict[str, object] = {"name": target.name, "gpus": target.gpus, "gpu": None, "instance": None}
    if gpu is not None:
        values["gpu"] = {
            "name": gpu.name, "device_name": gpu.device_name, "capability": list(gpu.capability),
            "total_memory": gpu.total_memory, "native_dtypes": sorted(gpu.native_dtypes),
            "unverified": sorted(gpu.unverified), "source": gpu.source,
        }  # fmt: skip
    if instance is not None:
        values["instance"] = {
            "provider": instance.provider, "fraction": instance.fraction, "vcpus": instance.vcpus,
            "ram_gib": instance.ram_gib, "network_gbps_baseline": instance.network_gbps_baseline,
            "network_gbps_max": instance.network_gbps_max, "disk_gb": instance.disk_gb, "checked": instance.checked or None,
            "unverified": sorted(instance.unverified), "source": instance.source, "aliases": list(instance.aliases),
        }  # fmt: skip
    return values
