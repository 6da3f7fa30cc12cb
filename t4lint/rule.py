"""What a rule file declares. This is also the interface for people's own rules.

A rule file reads top to bottom: a module docstring that is the rule's page, one declaration, one function from a trace
to candidates:

    @rule(
        name="pin-memory-disabled",
        severity="warning",
        summary="A DataLoader that feeds the GPU does not pin its batches",
        message="...{what}...",
        help="...",
        triggers=("pin_memory",),
        reads=(Loader,),
    )
    def pin_memory_disabled(trace: Trace) -> Iterator[Candidate]:
        for loader in trace.all(Loader):
            yield Candidate(loader, when=loader.pin_memory.equals(False), blame=loader.pin_memory)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from t4lint.trace import Event, Fact, Trace, Value

Severity = Literal["error", "warning", "note"]
Confidence = Literal["certain", "likely", "possible"]
FixSafety = Literal["safe", "unsafe", "none"]

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
CONFIDENCES: tuple[Confidence, ...] = ("possible", "likely", "certain")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a rule yields for each event that it judges, innocent ones too: reached and innocent is what `verify` calls refuted.

    The finding lands on the first place in the origins of `blame`, else on the event's own statement. `severity`
    replaces the rule's own for this case, `words` fill the message, `related` are further events to show.
    """

    event: Event
    when: Fact
    blame: Value | None = None
    severity: Severity | None = None
    words: Mapping[str, object] = field(default_factory=dict)
    related: tuple[Event, ...] = ()


Check = Callable[[Trace], Iterator[Candidate]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as declared, plus what its place tells: `family` is its folder, `page` its module's docstring.

    `triggers` are byte strings of which at least one must occur in a file for the rule to have anything to say.
    `verifiable` is False for rules over files only: their verdict is always "not exercised: seen only in files".
    `default` is False for rules that are only run when selected.
    """

    name: str
    family: str
    severity: Severity
    summary: str
    message: str
    help: str
    triggers: tuple[str, ...]
    reads: tuple[type[Event], ...]
    check: Check
    page: str
    default: bool = True
    fix: FixSafety = "none"
    verifiable: bool = True


def rule(
    *,
    name: str,
    severity: Severity,
    summary: str,
    message: str,
    help: str,
    triggers: Iterable[str],
    reads: Iterable[type[Event]],
    default: bool = True,
    fix: FixSafety = "none",
    verifiable: bool = True,
) -> Callable[[Check], Rule]:
    """Declare a rule. The decorated function becomes a `Rule` that the engine finds by walking the rules folder."""

    def declare(check: Check) -> Rule:
        module: Any = __import__("sys").modules[check.__module__]
        family = check.__module__.rpartition(".")[0].rpartition(".")[2]
        return Rule(
            name=name, family=family, severity=severity, summary=summary, message=message, help=help,
            triggers=tuple(triggers), reads=tuple(reads), check=check, page=(module.__doc__ or "").strip(),
            default=default, fix=fix, verifiable=verifiable,
        )  # fmt: skip

    return declare
