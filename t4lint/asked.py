"""What an invocation asks for: the flags of a command line, or of an editor, over the settings of each file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from t4lint import settings
from t4lint.engine import Options
from t4lint.findings import Problem, Report
from t4lint.rule import Confidence
from t4lint.ruleset import BadOption, BadRules, UnknownRule, configured, named, options_of, rules
from t4lint.settings import Loaded, Nearest, Override, Settings


@dataclass(frozen=True, slots=True)
class Flags:
    """What is said for all files. `select` starts afresh; `ignore` and `extend_select` add to what the settings say."""

    target: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    min_confidence: Confidence | None = None


@dataclass(slots=True)
class Asked:
    """The flags, and the settings files that were met. `base` are the settings of the invocation as a whole."""

    flags: Flags
    base: Loaded
    nearest: Nearest | None  # None: no settings but those of `base` count
    cwd: Path
    _made: dict[int, tuple[Settings, Options]] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process; what was made is named by the memory of this one."""
        return Asked, (self.flags, self.base, self.nearest, self.cwd)

    def options(self) -> Options:
        """For the engine, with what holds for each file."""
        near = None if self.nearest is None else self.for_file
        return replace(self._options(self.base.settings, self.base.folder, per_file=False), near=near)

    def for_file(self, file: Path) -> Options:
        """What holds for one file; the same object where the same holds."""
        assert self.nearest is not None
        settings = self.nearest.of(file)
        if id(settings) not in self._made:
            made = self._options(settings, self.nearest.loaded(file.parent).folder)
            self._made[id(settings)] = settings, made
        return self._made[id(settings)][1]

    def settings(self, file: Path) -> Settings:
        """The settings that hold for a file."""
        return self.base.settings if self.nearest is None else self.nearest.of(file)

    def _options(self, given: Settings, folder: Path | None, *, per_file: bool = True) -> Options:
        flags = self.flags
        select, ignore, extend = flags.select, flags.ignore, flags.extend_select
        if not select:
            select, ignore, extend = given.select, (*given.ignore, *ignore), (*given.extend_select, *extend)
        by_pattern = tuple(name for names in given.per_file_ignores.values() for name in names) if per_file else ()
        return Options(
            target=flags.target or given.target,
            select=select,
            ignore=(*ignore, *by_pattern),
            extend_select=extend,
            min_confidence=flags.min_confidence or given.min_confidence,
            severity=given.severity,
            rule_options=given.rules,
            own_rules=given.own_rules,
            exclude=given.exclude,
            exclude_root=folder,
            versions=given.versions,
            cwd=self.cwd,
        )

    def with_problems(self, report: Report) -> Report:
        """The report with what is wrong in the settings files that were met on the way."""
        problems = (*(self.nearest.problems if self.nearest is not None else ()), *self.rule_problems())
        return replace(report, problems=(*report.problems, *problems)) if problems else report

    def rule_problems(self) -> tuple[Problem, ...]:
        """What the settings files say of rules that does not hold: names that are none, options that they do not have."""
        files = [self.base] if self.nearest is None else [self.base, *self.nearest.files.values()]
        return tuple(dict.fromkeys(problem for loaded in files for problem in _rule_problems(loaded)))


def _rule_problems(loaded: Loaded) -> Iterator[Problem]:
    own = loaded.settings.own_rules
    try:
        named([], own)
    except BadRules as error:
        yield loaded.problem(str(error), "own-rules")
        return
    for keys, name in _named_rules(loaded.settings):
        try:
            named([name], own)
        except UnknownRule as error:
            yield loaded.problem(str(error), *keys, name)
    parts: list[tuple[tuple[str, ...], Mapping[str, Mapping[str, Any]]]] = [((), loaded.settings.rules)]
    parts += [(("overrides", str(number)), it.rules) for number, it in enumerate(loaded.settings.overrides)]
    for prefix, options in parts:
        for name, values in options.items():
            try:
                configured({name: values}, own)
            except BadOption as error:
                yield loaded.problem(str(error), *prefix, *error.keys)
            except UnknownRule as error:
                yield loaded.problem(str(error), *prefix, "rules", name)


def _named_rules(given: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every name of a rule in settings, with the keys that lead to it."""
    parts: list[tuple[tuple[str, ...], Settings | Override]] = [((), given)]
    parts += [(("overrides", str(number)), it) for number, it in enumerate(given.overrides)]
    for prefix, part in parts:
        lists = (("select", part.select), ("ignore", part.ignore), ("extend-select", part.extend_select))
        for key, names in lists:
            yield from (((*prefix, key), name) for name in names)
        yield from (((*prefix, "severity"), name) for name in part.severity)
    for pattern, names in given.per_file_ignores.items():
        yield from ((("per-file-ignores", pattern), name) for name in names)


def schema() -> dict[str, Any]:
    """The JSON schema of the settings, with the options that rules have."""
    made = settings.schema()
    with_options = {rule.name: found for rule in rules() if (found := options_of(rule))}
    tables = {
        name: {"type": "object", "properties": found, "additionalProperties": False}
        for name, found in with_options.items()
    }
    for place in (made, made["$defs"]["Override"]):
        place["properties"]["rules"]["properties"] = tables
    return made
