"""What an invocation asks for, and what that means for a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.devices import Target
from t4lint.findings import Finding
from t4lint.rule import CONFIDENCES, Confidence, Rule, Severity
from t4lint.ruleset import named, select
from t4lint.sources.paths import below

if TYPE_CHECKING:
    from t4lint.interpret.heard import Argument


@dataclass(frozen=True, slots=True)
class Options:
    """What an invocation asks for."""

    target: str = "t4"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    min_confidence: Confidence = "likely"
    severity: Mapping[str, Severity] = field(default_factory=dict)  # of rules and families, in the place of their own
    rule_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    own_rules: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    exclude_root: Path | None = None  # the folder that the patterns are relative to; without it each path given
    versions: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = field(default_factory=Path.cwd)
    show_trace: bool = False
    fixes: bool = False  # render the fixes of findings
    near: Callable[[Path], Options] | None = None  # what holds for a file, where settings differ
    texts: Mapping[str, str] = field(default_factory=dict)  # open buffers, by path as shown: each stands for that file
    watch: Callable[[Argument], None] | None = None  # is told the arguments of the library calls of every run


def everywhere(options: Options, **changes: Any) -> Options:
    """Options with changes that hold for every file, whatever the settings near it say."""
    nearest = options.near
    if nearest is None:
        return replace(options, **changes)
    return replace(options, **changes, near=lambda file: replace(nearest(file), **changes))


def near(options: Options, file: Path) -> Options:
    """The options that hold for a file."""
    return options if options.near is None else options.near(file)


def chosen_by(options: Options) -> tuple[Rule, ...]:
    """The rules that an invocation asks for."""
    return select(options.select, options.ignore, options.extend_select, options.own_rules, options.rule_options)


@dataclass(frozen=True, slots=True)
class Held:
    """What holds for some files: what was asked for, and what that means."""

    options: Options
    rules: tuple[Rule, ...]
    target: Target
    severities: Mapping[str, Severity]

    def of(self, finding: Finding) -> Finding | None:
        """A finding in one of the files as it is shown there; None where it is not wanted."""
        if all(rule.name != finding.rule for rule in self.rules):
            return None
        if CONFIDENCES.index(finding.confidence) < CONFIDENCES.index(self.options.min_confidence):
            return None
        severity = self.severities.get(finding.rule)
        return finding if severity is None else replace(finding, severity=severity)

    def excludes(self, file: Path) -> bool:
        root = self.options.exclude_root
        if root is None or not self.options.exclude:
            return False
        from t4lint.settings import ignore_spec

        relative = below(Path(os.path.abspath(file)), Path(os.path.abspath(root)))  # noqa: PTH100  (links stay)
        return relative is not None and ignore_spec(self.options.exclude).match_file(relative)


def settings_of(options: Options) -> tuple[object, ...]:
    """The part of options that may differ between files."""
    it = options
    selected = it.select, it.ignore, it.extend_select, it.own_rules, it.rule_options
    return it.target, selected, it.min_confidence, it.severity, it.exclude, it.exclude_root, it.versions


def severities_of(options: Options) -> dict[str, Severity]:
    """The severities by rule: what is said of a rule itself wins over what is said of its family."""
    by_name = {
        name: severity for name, severity in options.severity.items() if name in named([name], options.own_rules)
    }
    families = {name: severity for name, severity in options.severity.items() if name not in by_name}
    by_family = {rule: it for name, it in families.items() for rule in named([name], options.own_rules)}
    return {**by_family, **by_name}
