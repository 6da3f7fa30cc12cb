"""The report for people: code frames, where values came from, what to do, and a summary."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from t4lint.findings import in_order, text_at
from t4lint.language import ENGLISH, phrase
from t4lint.report.frame import Row, frame, visible
from t4lint.report.wrap import wrapped
from t4lint.sources.positions import split_lines
from t4lint.trace import Location, Origin

if TYPE_CHECKING:
    from t4lint.findings import Effect, Finding, Problem, Related, Report, RunInfo, Verdict

Place = tuple[str, Location]  # a finding, by its rule and location

COLOURS = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
VERDICTS = {"confirmed": "bold", "refuted": "green", "undecided": "dim", "not exercised": "dim"}
GUTTER = "bold blue"
SHOWN_RUNS = 3  # launches named at one finding
LONG_LABEL = 12  # cells from which on a broken sentence goes on near the margin
_IN_THE_FRAME = ("literal", "flag", "key")  # origins that the frame itself shows


def render(
    report: Report,
    *,
    colour: bool,
    width: int = 120,
    wrap: bool = False,
    verbose: bool = False,
    shown: Collection[Place] = (),
) -> str:
    """The whole report, without the findings that were `shown` before.

    `wrap` breaks long sentences at `width` (code is always cut there); `verbose` lists the runs and their traces.
    """
    page = _Page(width, wrap, report.language)
    left = [finding for finding in sorted_findings(report.findings) if (finding.rule, finding.location) not in shown]
    blocks = [_finding(page, report, finding) for finding in left]
    blocks += [_problem(page, problem) for problem in report.problems]
    if verbose and report.runs:
        blocks.append(_runs(page, report.runs))
    if verbose and report.trace:
        blocks.append(Text("\n".join(visible(line) for line in report.trace)))
    if report.notes:
        blocks.append(Text("\n".join(f"{page.say('note')}: {visible(note)}" for note in report.notes), "dim"))
    blocks.append(_summary(report).append_text(_fixes(report)))
    return _joined(blocks, colour=colour)


def render_part(report: Report, *, colour: bool, width: int) -> str:
    """The findings of some programs out of many, with the blank line that parts them from what follows."""
    page = _Page(width, True, report.language, of_many=True)
    blocks = [_finding(page, report, finding) for finding in sorted_findings(report.findings)]
    return _joined(blocks, colour=colour) + "\n" if blocks else ""


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The order in which people read: by file, then from top to bottom."""
    return sorted(findings, key=in_order)


def summary(report: Report) -> str:
    """One or two lines: how much was found, where, and for which GPU."""
    return _summary(report).plain


def place(location: Location) -> str:
    """`path:line:column`; for a notebook the cell and the line in it, counted as notebooks show them."""
    path = visible(location.path)
    if location.cell is None:
        return f"{path}:{location.line}:{location.column}"
    return f"{path}:cell {location.cell + 1}:{location.cell_line or 1}:{location.column}"


# --- blocks ------------------------------------------------------------------------------------------------------


class _Page:
    """How wide things may be, and in which language."""

    def __init__(self, width: int, wrap: bool, language: str, of_many: bool = False) -> None:
        self.of_many = of_many  # there are programs that are not in the report
        self.width = max(width, 40)
        self.wrap = wrap
        self.language = language

    def say(self, text: str) -> str:
        """A label or sentence in the language of the report."""
        return phrase(text, self.language)

    def lines(self, text: str, width: int) -> list[str]:
        """Text as the lines that it takes, each at most `width` cells where long ones are to be broken."""
        found = [visible(line) for line in split_lines(text.strip())]
        return [part for line in found for part in wrapped(line, max(width, 20))] if self.wrap else found


def _finding(page: _Page, report: Report, finding: Finding) -> Text:
    rows = _rows(page, report, finding.location)
    others = [(related, _rows(page, report, related.location, related)) for related in finding.related]
    margin = _margin([rows, *(shown for _, shown in others)])
    colour = COLOURS[finding.severity]
    block = _header(f"{page.say(finding.severity)}[{finding.rule}]", finding.message, colour)
    _arrow(block, margin, "-->", place(finding.location))
    _frame(block, rows, margin, colour)
    for related, shown in others:
        if shown:
            _arrow(block, margin, ":::", place(related.location))
            _frame(block, shown, margin, GUTTER)
    notes = list(_notes(page, report, finding, [related for related, shown in others if not shown]))
    if notes and rows:
        block.append(f"\n{' ' * margin} |", GUTTER)
    for label, text, style in notes:
        _note(page, block, margin, label, text, style)
    return block


def _notes(page: _Page, report: Report, finding: Finding, unseen: list[Related]) -> Iterator[tuple[str, str, str]]:
    """What stands below the frame, as (label, text, style of the label)."""
    for origin in chain(finding):
        yield page.say("from"), _origin(origin), "bold"
    for related in unseen:
        yield page.say("see"), f"{related.note} ({place(related.location)})", "bold"
    if finding.help:
        yield page.say("help"), finding.help, "bold green"
    if finding.fix is not None:
        flags = "--fix" if finding.fix.safety == "safe" else "--fix --unsafe-fixes"
        yield page.say("fix"), f"{finding.fix.title} ({flags})", "bold green"
    yield from _launches(page, report, finding)
    if finding.confidence != "certain":
        why = f" ({finding.presumption})" if finding.presumption else ""
        yield page.say("confidence"), page.say(finding.confidence) + why, "bold"
    if finding.verdict is not None:
        yield _verdict(page, finding.verdict)
    if finding.effect is not None:
        yield page.say("measured"), measured(finding.effect, report.language), "bold"


def measured(effect: Effect, language: str = ENGLISH) -> str:
    """What a fix did to the run, with the numbers."""
    if not effect.pairs:
        return effect.conclusion
    parts = []
    for name, what, unit, scale in (("step", effect.seconds, "ms", 1e3), ("peak", effect.memory, "MiB", 2**-20)):
        if what is not None:
            interval = f"{what.low - 1:+.1%} to {what.high - 1:+.1%}"
            change = f"{name} {what.before * scale:.4g} to {what.after * scale:.4g} {unit} ({interval})"
            parts.append(phrase(change, language))
    where = {"cpu": "this CPU", "t4": "this T4", "gpu": "this GPU"}.get(effect.basis, effect.basis)
    loss = {"same": "the same loss", "differs": "another loss"}.get(effect.loss, "loss not seen")
    said = phrase(f"with the fix: {effect.conclusion} on {where}", language)
    return f"{said}; {', '.join([*parts, phrase(loss, language)])}; {phrase(f'{effect.pairs} pairs', language)}"


def chain(finding: Finding) -> tuple[Origin, ...]:
    """The provenance, unless it is the one step that the frame already shows."""
    steps = finding.provenance
    if len(steps) == 1 and steps[0].location == finding.location and steps[0].how in _IN_THE_FRAME:
        return ()
    return steps


def _origin(origin: Origin) -> str:
    return f"{origin.note} ({place(origin.location)})" if origin.location else origin.note


def _launches(page: _Page, report: Report, finding: Finding) -> Iterator[tuple[str, str, str]]:
    """The launches that a finding belongs to, when there are others that are free of it."""
    runs = [report.runs[index] for index in finding.runs if 0 <= index < len(report.runs)]
    if not runs or (len(runs) == len(report.runs) and not page.of_many):
        return
    commands = list(dict.fromkeys(map(_run, runs)))
    for command in commands[:SHOWN_RUNS]:
        yield page.say("run"), command, "bold"
    if len(commands) > SHOWN_RUNS:
        yield page.say("run"), page.say(f"and {len(commands) - SHOWN_RUNS} more"), "bold"


def _run(run: RunInfo) -> str:
    return f"{run.command} ({run.launch})" if run.launch else run.command


def _verdict(page: _Page, verdict: Verdict) -> tuple[str, str, str]:
    label = verdict.verdict if verdict.verdict == "not exercised" else f"{verdict.verdict} on {verdict.basis}"
    label = page.say(label)
    if verdict.confidence != "certain" and verdict.verdict in ("confirmed", "refuted"):
        label += f" ({page.say(verdict.confidence)})"
    said = "; ".join(part for part in (verdict.evidence, verdict.reason) if part)
    return label, said, VERDICTS[verdict.verdict]


def _problem(page: _Page, problem: Problem) -> Text:
    block = _header(page.say("error"), problem.message, COLOURS["error"])
    where = ":".join(
        str(part) for part in (visible(problem.path), problem.line, problem.column) if part not in (None, "")
    )
    if where:
        _arrow(block, 1, "-->", where)
    return block


def _runs(page: _Page, runs: tuple[RunInfo, ...]) -> Text:
    block = Text().append(f"{page.say('runs')}:", "bold")
    for run in runs:
        facts = [f"{run.processes} processes"] if run.processes and run.processes > 1 else []
        facts += [f"{library} {version}" for library, version in sorted(run.versions.items())]
        facts += [] if run.exit_code is None else [f"exit code {run.exit_code}"]
        said = _run(run) + (f": {', '.join(facts)}" if facts else "")
        for index, line in enumerate(page.lines(said, page.width - 4)):
            block.append(f"\n{'    ' if index else '  '}{line}")
    return block


def _summary(report: Report) -> Text:
    def say(text: str) -> str:
        return phrase(text, report.language)

    files = say(f"{report.files} {_plural('file', report.files)}")
    target = say(f"; target: {gpu(report.target)}")
    if report.findings:
        count = len(report.findings)
        said = say(f"Found {count} {_plural('finding', count)} ({_by_severity(report)}) in {files}")
        said += target + _by_verdict(report)
    elif report.files or not report.problems:
        said = say(f"No findings in {files}") + target
    else:
        said = say("Nothing was checked")
    block = Text().append(said, "bold")
    if report.problems:
        count = len(report.problems)
        problems = say(f"{count} {_plural('problem', count)} kept t4lint from checking everything")
        block.append(f"\n{problems}", COLOURS["error"])
    return block


def _fixes(report: Report) -> Text:
    """A line on what can be repaired: the rules say so, before any fix is tried. None after a run, or where they were."""
    if report.fixes_tried or any(finding.verdict is not None for finding in report.findings):
        return Text()
    counts = Counter(finding.fix_safety for finding in report.findings)
    safe, unsafe = counts["safe"], counts["unsafe"]

    def say(text: str) -> Text:
        return Text(f"\n{phrase(text, report.language)}", "dim")

    if safe and unsafe:
        return say(
            f"Fixes: --fix for up to {safe} of them, --unsafe-fixes for up to {unsafe} more; --diff only shows them"
        )
    if safe:
        return say(f"Fixes: --fix for up to {safe} of them; --diff only shows them")
    if unsafe:
        return say(f"Fixes: --fix --unsafe-fixes for up to {unsafe} of them; --diff --unsafe-fixes only shows them")
    return Text()


def gpu(target: str) -> str:
    """How people call the target: its GPU, and the machine where one was named."""
    from t4lint.devices import UnknownTarget, find_target

    try:
        found = find_target(target)
    except UnknownTarget:
        return target
    if found.gpu is None:
        return found.name
    name = re.sub(r"^Tesla ", "NVIDIA ", found.gpu.device_name)
    if found.gpu.share < 1:
        name = f"{found.gpu.part} an {name}" if name.startswith("NVIDIA") else f"{found.gpu.part} a {name}"
    if found.instance is None:
        return name
    return f"{found.name} with {found.gpus} x {name}" if found.gpus and found.gpus > 1 else f"{found.name} with {name}"


def _by_severity(report: Report) -> str:
    counts: Counter[str] = Counter(finding.severity for finding in report.findings)
    said = (f"{counts[name]} {_plural(name, counts[name])}" for name in COLOURS if name in counts)
    return phrase(", ", report.language).join(phrase(it, report.language) for it in said)


def _by_verdict(report: Report) -> str:
    counts: Counter[str] = Counter(finding.verdict.verdict for finding in report.findings if finding.verdict)
    said = [phrase(f"{counts[name]} {name}", report.language) for name in VERDICTS if name in counts]
    return phrase("; ", report.language) + phrase(", ", report.language).join(said) if said else ""


# --- drawing -----------------------------------------------------------------------------------------------------


def _header(label: str, message: str, colour: str) -> Text:
    """Not broken into lines of the width: terminals do that, and whoever copies it gets it whole."""
    block = Text().append(visible(label), colour)
    block.append(": " + "\n  ".join(visible(line) for line in split_lines(message.strip())), "bold")
    return block


def _arrow(block: Text, margin: int, arrow: str, where: str) -> None:
    block.append(f"\n{' ' * margin}{arrow} ", GUTTER)
    block.append(where)


def _frame(block: Text, rows: list[Row], margin: int, colour: str) -> None:
    if not rows:
        return
    block.append(f"\n{' ' * margin} |", GUTTER)
    for row in rows:
        block.append(f"\n{row.number:>{margin}} |", GUTTER)
        line = Text(" ")
        for text, kind in row.parts:
            line.append(text, "" if kind == "code" else colour)
        line.rstrip()
        block.append_text(line)


def _note(page: _Page, block: Text, margin: int, label: str, text: str, style: str) -> None:
    block.append(f"\n{' ' * margin} = ", GUTTER)
    block.append(label, style)
    if not text.strip():
        return
    hang = cell_len(label) + 2 if cell_len(label) < LONG_LABEL else 2
    first, *more = page.lines(f"{label}: {text}", page.width - margin - 3 - hang)
    block.append(first[len(label) :])
    for line in more:
        block.append(f"\n{' ' * (margin + 3 + hang)}{line}")


def _rows(page: _Page, report: Report, location: Location, related: Related | None = None) -> list[Row]:
    found = text_at(report.sources, location)
    if found is None:
        return []
    source, where = found
    room = page.width - len(str(where.end_line)) - 3
    rows = frame(source, where, room) if related is None else frame(source, where, room, "-", visible(related.note))
    if location.cell_line is None:
        return rows
    shift = location.cell_line - where.line  # people count from the top of the cell, as its place does
    return [row._replace(number=str(int(row.number) + shift)) if row.number.isdigit() else row for row in rows]


def _margin(frames: list[list[Row]]) -> int:
    return max((len(row.number) for rows in frames for row in rows), default=1)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _joined(blocks: list[Text], *, colour: bool) -> str:
    if not colour:
        return "\n\n".join(block.plain for block in blocks) + "\n"
    from rich.console import Console

    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="standard", no_color=False, force_jupyter=False,
        legacy_windows=False, highlight=False, markup=False, emoji=False, width=10_000,
    )  # fmt: skip
    with console.capture() as captured:
        console.print(Text("\n\n").join(blocks), soft_wrap=True)
    return captured.get()
