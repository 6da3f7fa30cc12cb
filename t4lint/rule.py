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

from t4lint.trace import Event, Fact, Location, Origin, Trace, Value

Severity = Literal["error", "warning", "note"]
Confidence = Literal["certain", "likely", "possible"]
FixSafety = Literal["safe", "unsafe", "none"]

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
CONFIDENCES: tuple[Confidence, ...] = ("possible", "likely", "certain")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a rule yields for each event that it judges, innocent ones too: reached and innocent is what `verify` calls refuted.

    The finding lands on the first place in the origins of `blame`, else on the event's own statement. `severity`
    replaces the rule's own for this case, `words` fill the message, `related` are further events to show. One that is
    `on_request` is judged only where the person named the rule, its family or `all`: for the milder case of a rule.

    `written_for` says of a library that no file pins which versions take the call: those below one, or up to it where the
    second part is True. Whatever else depends on the version is then judged for the newest of these, as likely.
    """

    event: Event
    when: Fact
    blame: Value | None = None
    severity: Severity | None = None
    words: Mapping[str, object] = field(default_factory=dict)
    related: tuple[Event, ...] = ()
    on_request: bool = False
    written_for: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


Check = Callable[..., Iterator[Candidate]]
"""From a trace to candidates. A rule with options takes them as a second argument."""


# --- fixes: what a rule may say about the program, without seeing its text -------------------------------------------

Place = Value | Origin | Event | Location
"""Where an edit goes: the first place in a value's origins, an event's statement, or a span itself."""


@dataclass(frozen=True, slots=True)
class Written:
    """A piece of a call as the person wrote it: its `"receiver"` (`scaler` in `scaler.step(opt)`) or an argument by position."""

    at: Place
    callee: str
    part: Literal["receiver"] | int


@dataclass(frozen=True, slots=True)
class SetValue:
    """Replace the expression at a value's origin by `text`, which is Python; on a command line a string loses its quotes.

    The value of an environment variable too, wherever it is set.
    """

    at: Place
    text: str


@dataclass(frozen=True, slots=True)
class SetArgument:
    """Give a call the keyword argument `name=text`, whatever it had. `callee` picks the call where a statement has several.

    `position` is where the argument may stand without its name.
    """

    at: Place
    name: str
    text: str
    callee: str = ""
    position: int | None = None


@dataclass(frozen=True, slots=True)
class AddArgument:
    """As `SetArgument`, for a call that does not have the argument; no fix where it does."""

    at: Place
    name: str
    text: str
    callee: str = ""


@dataclass(frozen=True, slots=True)
class DropArgument:
    """Drop what gives a value: an argument, an item of a dict, a flag. It must be called `name` (or `..._name`).

    Where the origin is none of these (a variable, a default), the value is set to `otherwise`, if that is given.
    """

    at: Place
    name: str
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class RenameArgument:
    """Rename the argument, item of a dict, flag or environment variable that gives a value.

    An argument that has the new name already takes the value.
    """

    at: Place
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class DropStatement:
    """Drop a simple statement; `pass` stays where a block would be empty."""

    at: Place


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """A line of code before a statement. `{name}` in `code` stands for what `words` point at; all must share a function."""

    at: Place
    code: str
    words: Mapping[str, Written] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """As `InsertBefore`, after the statement."""

    at: Place
    code: str
    words: Mapping[str, Written] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddImport:
    """`import module` among the imports of the file of `at`, unless it is there."""

    at: Place
    module: str


@dataclass(frozen=True, slots=True)
class DropUnusedImport:
    """Drop the import of `name` from the file of `at` when the other edits leave no use of it."""

    at: Place
    name: str


@dataclass(frozen=True, slots=True)
class PassFunction:
    """Hand a function over in the place of its call without arguments: `callee(f())` becomes `callee(f)`."""

    at: Place
    callee: str


@dataclass(frozen=True, slots=True)
class InsertInRange:
    """A first line in the only `for` over a `range` that comes after a statement in its function.

    `{name}` in `code` is what the statement assigns, `{count}` the variable of the loop.
    """

    at: Place
    code: str


@dataclass(frozen=True, slots=True)
class PutUnder:
    """Put a call that is a statement under a line, such as `if ...:`. `{module}` in `header` is what the file calls a module."""

    at: Place
    header: str
    module: str


@dataclass(frozen=True, slots=True)
class StartBlockEarlier:
    """Let the `with x.method():` around a statement begin before the statement that calls `x`."""

    at: Place
    method: str


@dataclass(frozen=True, slots=True)
class InsertBeforeUse:
    """A line before the statement that calls what `made` assigns, in the loop that comes to the statement at `at`.

    `{name}` in `code` is what is assigned; `{when}` the condition on which a round of the loop comes to `at`.
    """

    at: Place
    made: Place
    code: str


@dataclass(frozen=True, slots=True)
class InsertFirst:
    """`import module` and a line that needs it, before the first import of the file of `at`."""

    at: Place
    module: str
    code: str


@dataclass(frozen=True, slots=True)
class LeaveToInnerShell:
    r"""Write `\$NAME` for a variable in `bash -c "..."`, so that the inner shell fills it in."""

    at: Place


@dataclass(frozen=True, slots=True)
class AddFlag:
    """Give the launcher of a command (`torchrun`), or `docker run`, the flag `--name=text`.

    `{NAME}` in `text` stands for an environment variable, whose value `variables` gives.
    """

    at: Place
    name: str
    text: str
    variables: Mapping[str, Value] = field(default_factory=dict)
    to: Literal["launcher", "container"] = "launcher"


@dataclass(frozen=True, slots=True)
class UseModule:
    """Another module in `python -m module`."""

    at: Place
    module: str
    to: str


@dataclass(frozen=True, slots=True)
class AddVariable:
    """Set an environment variable in a line before a command; a container gets it by a flag."""

    at: Place
    name: str
    value: str


Edit = (
    SetValue | SetArgument | AddArgument | DropArgument | RenameArgument | DropStatement | InsertBefore | InsertAfter
    | AddImport | DropUnusedImport | PassFunction | InsertInRange | AddFlag | AddVariable | UseModule | PutUnder
    | StartBlockEarlier | InsertBeforeUse | InsertFirst | LeaveToInnerShell
)  # fmt: skip
Fixes = Callable[[Trace, Candidate], Iterable[Edit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as declared, plus what its place tells: `family` is its folder, `page` its module's docstring.

    `triggers` are byte strings of which at least one must occur in a file for the rule to have anything to say.
    `verifiable` is False for rules over files only: their verdict is always "not exercised: seen only in files".
    `default` is False for rules that are only run when selected; `requested` is set where a selection named it.
    `fixes` says what would remove the fault; nothing is offered when it yields nothing, when an edit has no place in the
    text, or when the result does not lint better.

    `dates`: its candidates tell which versions of a library the program was written for (`Candidate.written_for`); such a rule
    is asked for that whether it was selected or not.

    `options` is a frozen dataclass of what people may set in `[tool.t4lint.rules.NAME]`, with types, defaults and a docstring
    for each; `given` is an instance of it with their values.
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
    fixes: Fixes | None = None
    fix_title: str = ""
    requested: bool = False
    options: type[Any] | None = None
    given: Any = None
    dates: bool = False

    def judge(self, trace: Trace) -> Iterator[Candidate]:
        """What the rule says of a trace to this person: its milder cases only where they were asked for."""
        options = () if self.options is None else (self.given or self.options(),)
        return (candidate for candidate in self.check(trace, *options) if self.requested or not candidate.on_request)


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
    fixes: Fixes | None = None,
    fix_title: str = "",
    options: type[Any] | None = None,
    dates: bool = False,
) -> Callable[[Check], Rule]:
    """Declare a rule. The decorated function becomes a `Rule` that the engine finds by walking the rules folder.

    `fix` is how safe `fixes` is; a rule without `fixes` has no fix, whatever its author would think of one.
    """
    safety: FixSafety = fix if fixes is not None else "none"

    def declare(check: Check) -> Rule:
        module: Any = __import__("sys").modules[check.__module__]
        family = check.__module__.rpartition(".")[0].rpartition(".")[2]
        return Rule(
            name=name, family=family, severity=severity, summary=summary, message=message, help=help,
            triggers=tuple(triggers), reads=tuple(reads), check=check, page=(module.__doc__ or "").strip(),
            default=default, fix=safety, verifiable=verifiable, fixes=fixes, fix_title=fix_title, options=options,
            dates=dates,
        )  # fmt: skip

    return declare
