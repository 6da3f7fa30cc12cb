"""`t4lint fit` for people: a table with bars, where each number was read, and what would make it fit."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from t4lint.devices import UnknownTarget, find_target
from t4lint.report.frame import visible

if TYPE_CHECKING:
    from t4lint.fit import Fit, FitReport
    from t4lint.fit_communication import Section
    from t4lint.memory.reading import Fact
    from t4lint.trace import Origin

GIB = 2**30
COLOURS = {"fits": "bold green", "may not fit": "bold yellow", "does not fit": "bold red", "unknown": "bold"}
BAR = "█"
PARTS = " ▏▎▍▌▋▊▉"
WIDEST = 120


def render(report: FitReport, *, colour: bool, width: int = WIDEST) -> str:
    """The whole report."""
    width = max(50, min(width, WIDEST))
    blocks = [Text("\n").join(_fit(report, fit, width)) for fit in report.fits]
    blocks += [
        Text(f"error: {visible(problem.path)}: {visible(problem.message)}", "bold red")
        for problem in report.report.problems
    ]
    if not report.fits and not report.report.problems:
        blocks.append(Text("No training step was found: there is nothing to measure.", "bold"))
    if notes := report.report.notes:
        blocks.append(Text("\n".join(f"note: {visible(note)}" for note in notes), "dim"))
    return _joined(blocks, colour, width)


def _fit(report: FitReport, fit: Fit, width: int) -> Iterator[Text]:
    run = report.report.runs[fit.run]
    where = f" ({run.launch})" if run.launch else ""
    yield Text(f"{visible(run.command)}{where}", "bold")
    yield Text("")
    yield from _facts(fit.reading.facts, width)
    for text in fit.reading.open:
        yield from _row("not known", text, width, "yellow")
    yield Text("")
    if fit.usage is None or fit.peak is None:
        yield from _missing(fit, width)
    else:
        yield from _answer(fit, report.report.target, width)
        yield Text("")
        yield from _bars(fit, width)
        yield from _largest(fit, width)
        yield from _ways(fit, width)
    for section in fit.sections:
        yield from _section(section, width)


# --- what was read ------------------------------------------------------------------------------------------------


def _facts(facts: tuple[Fact, ...], width: int) -> Iterator[Text]:
    for fact in facts:
        source = _source(fact.origins)
        text = fact.text + ("" if fact.sure else " (presumed)")
        yield from _row(fact.name, text, width, "", source)


def _source(origins: tuple[Origin, ...]) -> str:
    """The place where a person would change it, else the default that it comes from."""
    for origin in origins:
        if origin.location is not None and origin.how not in ("default", "version", "derived"):
            cell = f" cell {origin.location.cell + 1}" if origin.location.cell is not None else ""
            line = origin.location.cell_line if origin.location.cell is not None else origin.location.line
            return f"{origin.location.path}{cell}:{line}"
    return next((origin.note for origin in origins), "")


def _row(label: str, text: str, width: int, style: str = "", source: str = "") -> Iterator[Text]:
    """A label, a text that may take several lines, and where it was read."""
    margin = 28
    room = width - margin
    words = f"{text}  [{source}]" if source else text
    for number, line in enumerate(_folded(visible(words), room)):
        row = Text(f"  {label if number == 0 else '':<{margin - 2}}", style or "dim")
        row.append(line)
        yield row


def _folded(text: str, room: int) -> list[str]:
    console = Console(file=io.StringIO(), width=max(room, 20))
    return [line.plain.rstrip() for line in Text(text).wrap(console, max(room, 20))]


def _missing(fit: Fit, width: int) -> Iterator[Text]:
    yield Text("Not enough is known to say what fills the card:", COLOURS["unknown"])
    for item in fit.reading.missing:
        yield from _row(item.name, f"{item.reason}; pass {item.flag}", width)


# --- the answer ---------------------------------------------------------------------------------------------------


def _answer(fit: Fit, target: str, width: int) -> Iterator[Text]:
    assert fit.peak is not None
    low, high = fit.peak
    upper = f"{high / GIB:.1f}" if high != float("inf") else "?"
    opening = f"{fit.answer.capitalize()}: "
    words = f"{opening}{low / GIB:.1f} to {upper} GiB at the peak, about {fit.expected / GIB:.1f}; "
    words += f"{visible(target)} leaves {fit.limit / GIB:.1f} to {fit.usable / GIB:.1f} of {fit.total / GIB:.1f}."
    words += part_of_gpu(target)
    for number, line in enumerate(_folded(words, width)):
        text = Text(line)
        if number == 0:
            text.stylize(COLOURS[fit.answer], 0, len(opening) - 1)
        yield text


def part_of_gpu(target: str) -> str:
    """What a part of a GPU means; empty for a whole one, and a sentence after others."""
    try:
        gpu = find_target(target).gpu
    except UnknownTarget:
        return ""
    if gpu is None or gpu.share == 1:
        return ""
    return f" It is {gpu.part} a {gpu.short_name}: that share of the memory at most, and its time is shared."


def _bars(fit: Fit, width: int) -> Iterator[Text]:
    """Each component at the worst moment; the bars share one scale, which ends at the card or at the peak."""
    assert fit.usage is not None
    parts = [(name, band) for name, band in fit.usage.components.items() if band[1] >= 0.005 * GIB]
    full = max(fit.total, fit.expected)
    room = width - 51
    yield Text(f"  {'at the worst moment: ' + _moment(fit.usage.moment)}", "dim")
    for name, (low, high) in sorted(parts, key=lambda part: -sum(part[1])):
        middle = (low + high) / 2 if high != float("inf") else low
        size = f"{middle / GIB:6.2f} GiB" if high != float("inf") else "unbounded"
        spread = "" if high - low < 0.02 * GIB else f"{low / GIB:.1f} to {high / GIB:.1f}"
        row = Text(f"  {name:<24}{size:>10}  ")
        row.append(f"{_bar(middle / full, room):<{room}}", "cyan")
        row.append(f" {spread}".rstrip(), "dim")
        yield row
    yield _total(fit, full, room)
    card = Text(f"  {'the card':<24}{fit.total / GIB:6.2f} GiB  ", "dim")
    card.append(_bar(fit.total / full, room), "dim")
    yield card
    yield Text("")


def _total(fit: Fit, full: float, room: int) -> Text:
    row = Text(f"  {'peak':<24}{fit.expected / GIB:6.2f} GiB  ", "bold")
    row.append(f"{_bar(fit.expected / full, room):<{room}}", COLOURS[fit.answer])
    assert fit.peak is not None
    if fit.peak[1] != float("inf"):
        row.append(f" {fit.peak[0] / GIB:.1f} to {fit.peak[1] / GIB:.1f}", "dim")
    return row


def _moment(moment: str) -> str:
    return {"backward": "backward of the loss", "output layer": "backward of the output layer",
            "first block": "backward of the last block", "optimizer": "optimizer step",
            "forward": "end of the forward", "end of backward": "end of the backward"}[moment]  # fmt: skip


def _bar(share: float, room: int) -> str:
    eighths = round(max(0.0, min(share, 1.0)) * room * 8)
    return BAR * (eighths // 8) + (PARTS[eighths % 8] if eighths % 8 else "")


def _largest(fit: Fit, width: int) -> Iterator[Text]:
    plan = fit.reading.plans[0]
    if fit.largest_batch is None:
        yield from _row("largest micro-batch", "not even 1 surely fits", width)
    else:
        length = f" at {plan.length:g} tokens" if plan.widths is not None and not plan.image_kept else ""
        yield from _row("largest micro-batch", f"{fit.largest_batch} surely fits{length}", width)
    if plan.widths is not None and not plan.image_kept:
        longest = (
            "not even 64 tokens surely fit" if fit.largest_length is None else f"{fit.largest_length} tokens surely fit"
        )
        yield from _row("longest sequence", f"{longest} at micro-batch {plan.batch:g}", width)
    yield Text("")


def _ways(fit: Fit, width: int) -> Iterator[Text]:
    if not fit.ways:
        return
    yield Text("What would make it fit, cheapest first:", "bold")
    for way in fit.ways:
        high = f"{way.peak[1] / GIB:.1f}" if way.peak[1] != float("inf") else "?"
        style = "green" if way.fits else ""
        mark = "fits  " if way.fits else "      "
        words = f"{way.title}{' (' + way.cost + ')' if way.cost else ''}"
        peak = f"{way.peak[0] / GIB:5.1f} to {high:>4} GiB"
        for number, line in enumerate(_folded(words, width - 28)):
            row = Text(f"  {mark if number == 0 else '':<6}{peak if number == 0 else '':<19} ", style)
            row.append(line)
            yield row
    yield Text("")


def _section(section: Section, width: int) -> Iterator[Text]:
    yield Text(section.title, "bold")
    for label, text in section.rows:
        yield from _row(label, text, width)
    if section.note:
        for line in _folded(section.note, width - 2):
            yield Text(f"  {line}", "dim")
    yield Text("")


def _joined(blocks: list[Text], colour: bool, width: int) -> str:
    """The blocks as text, with an empty line between them. No line is broken here."""
    stream = io.StringIO()
    widest = max((cell_len(line) for block in blocks for line in block.plain.splitlines()), default=0)
    console = Console(
        file=stream, width=max(width, widest), force_terminal=colour, no_color=not colour, highlight=False,
        color_system="standard" if colour else None,
    )  # fmt: skip
    for number, block in enumerate(blocks):
        if number:
            console.print()
        console.print(block, soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
