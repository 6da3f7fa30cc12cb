"""`t4lint fit` for people: a table with bars, where each number was read, and what would make it fit."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from t4lint.devices import UnknownTarget, find_target
from t4lint.language import ENGLISH, phrase
from t4lint.report.frame import visible
from t4lint.report.wrap import wrapped

if TYPE_CHECKING:
    from t4lint.findings import Problem
    from t4lint.fit import Fit, FitReport
    from t4lint.fit_communication import Section
    from t4lint.memory.reading import Fact
    from t4lint.trace import Origin

GIB = 2**30
COLOURS = {"fits": "bold green", "may not fit": "bold yellow", "does not fit": "bold red", "unknown": "bold"}
BAR = "█"
PARTS = " ▏▎▍▌▋▊▉"
WIDEST = 120


class _Page:
    """How wide things may be, and in which language."""

    def __init__(self, width: int, language: str) -> None:
        self.width = max(50, min(width, WIDEST))
        self.language = language

    def say(self, text: str) -> str:
        """A label or sentence in the language of the reader."""
        return phrase(text, self.language, "fit")

    def span(self, text: str) -> str:
        """`1.0 to 2.0 GiB`."""
        return phrase(text, self.language, "span")


def render(report: FitReport, *, colour: bool, width: int = WIDEST, language: str = ENGLISH) -> str:
    """The whole report."""
    page = _Page(width, language)
    blocks = [Text("\n").join(_fit(report, fit, page)) for fit in report.fits]
    blocks += [_problem(problem, language) for problem in report.report.problems]
    if not report.fits and not report.report.problems:
        blocks.append(Text(page.say("No training step was found: there is nothing to measure."), "bold"))
    if notes := report.report.notes:
        label = phrase("note", language)
        blocks.append(Text("\n".join(f"{label}: {visible(phrase(it, language, 'note'))}" for it in notes), "dim"))
    return _joined(blocks, colour, page.width)


def _problem(problem: Problem, language: str) -> Text:
    message = phrase(problem.message, language, "problem")
    return Text(f"{phrase('error', language)}: {visible(problem.path)}: {visible(message)}", "bold red")


def _fit(report: FitReport, fit: Fit, page: _Page) -> Iterator[Text]:
    run = report.report.runs[fit.run]
    where = f" ({run.launch})" if run.launch else ""
    yield Text(f"{visible(run.command)}{where}", "bold")
    yield Text("")
    known = [*_facts(fit.reading.facts, page), *_open(fit, page)]
    yield from [*known, Text("")] if known else []
    if fit.usage is None or fit.peak is None:
        yield from _missing(fit, page)
    else:
        yield from _answer(fit, report.report.target, page)
        yield Text("")
        yield from _bars(fit, page)
        yield from _largest(fit, page)
        yield from _ways(fit, page)
    for section in fit.sections:
        yield from _section(section, page)


def _open(fit: Fit, page: _Page) -> Iterator[Text]:
    for text in fit.reading.open:
        yield from _row(page.say("not known"), page.say(text), page, "yellow")


# --- what was read ------------------------------------------------------------------------------------------------


def _facts(facts: tuple[Fact, ...], page: _Page) -> Iterator[Text]:
    for fact in facts:
        source = _source(fact.origins, page)
        text = page.say(fact.text) + ("" if fact.sure else page.say(" (presumed)"))
        yield from _row(page.say(fact.name), text, page, "", source)


def _source(origins: tuple[Origin, ...], page: _Page) -> str:
    """The place where a person would change it, else the default that it comes from."""
    for origin in origins:
        if origin.location is not None and origin.how not in ("default", "version", "derived"):
            cell = f" cell {origin.location.cell + 1}" if origin.location.cell is not None else ""
            line = origin.location.cell_line if origin.location.cell is not None else origin.location.line
            return f"{origin.location.path}{cell}:{line}"
    return next((phrase(origin.note, page.language, "origin") for origin in origins), "")


def _row(label: str, text: str, page: _Page, style: str = "", source: str = "") -> Iterator[Text]:
    """A label, a text that may take several lines, and where it was read."""
    margin = 28
    words = f"{text}  [{source}]" if source else text
    for number, line in enumerate(_folded(visible(words), page.width - margin)):
        row = Text(f"  {_padded(label if number == 0 else '', margin - 2)}", style or "dim")
        row.append(line)
        yield row


def _padded(text: str, cells: int) -> str:
    """Text as wide as a column: a Chinese character takes two cells."""
    return text + " " * (cells - cell_len(text))


def _folded(text: str, room: int) -> list[str]:
    return wrapped(text, max(room, 20))


def _missing(fit: Fit, page: _Page) -> Iterator[Text]:
    yield Text(page.say("Not enough is known to say what fills the card:"), COLOURS["unknown"])
    for item in fit.reading.missing:
        yield from _row(page.say(item.name), page.say(f"{item.reason}; pass {item.flag}"), page)


# --- the answer ---------------------------------------------------------------------------------------------------


def _answer(fit: Fit, target: str, page: _Page) -> Iterator[Text]:
    assert fit.peak is not None
    low, high = fit.peak
    upper = f"{high / GIB:.1f}" if high != float("inf") else "?"
    opening = page.say(fit.answer).capitalize()
    words = page.say(
        f"{opening}: {low / GIB:.1f} to {upper} GiB at the peak, about {fit.expected / GIB:.1f}; "
        f"{visible(target)} leaves {fit.limit / GIB:.1f} to {fit.usable / GIB:.1f} of {fit.total / GIB:.1f}."
    )
    words += page.say(part_of_gpu(target))
    for number, line in enumerate(_folded(words, page.width)):
        text = Text(line)
        if number == 0:
            text.stylize(COLOURS[fit.answer], 0, len(opening) + 1)
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


def _bars(fit: Fit, page: _Page) -> Iterator[Text]:
    """Each component at the worst moment; the bars share one scale, which ends at the card or at the peak."""
    assert fit.usage is not None
    parts = [(name, band) for name, band in fit.usage.components.items() if band[1] >= 0.005 * GIB]
    full = max(fit.total, fit.expected)
    room = page.width - 51
    yield Text("  " + page.say(f"at the worst moment: {_moment(fit.usage.moment)}"), "dim")
    for name, (low, high) in sorted(parts, key=lambda part: -sum(part[1])):
        middle = fit.usage.typical(name) if high != float("inf") else low
        size = f"{middle / GIB:6.2f} GiB" if high != float("inf") else page.say("unbounded")
        spread = "" if high - low < 0.02 * GIB else page.span(f"{low / GIB:.1f} to {high / GIB:.1f}")
        row = Text(f"  {_padded(page.say(name), 24)}{' ' * (10 - cell_len(size))}{size}  ")
        row.append(f"{_bar(middle / full, room):<{room}}", "cyan")
        row.append(f" {spread}".rstrip(), "dim")
        yield row
    yield _total(fit, full, room, page)
    card = Text(f"  {_padded(page.say('the card'), 24)}{fit.total / GIB:6.2f} GiB  ", "dim")
    card.append(_bar(fit.total / full, room), "dim")
    yield card
    yield Text("")


def _total(fit: Fit, full: float, room: int, page: _Page) -> Text:
    row = Text(f"  {_padded(page.say('peak'), 24)}{fit.expected / GIB:6.2f} GiB  ", "bold")
    row.append(f"{_bar(fit.expected / full, room):<{room}}", COLOURS[fit.answer])
    assert fit.peak is not None
    if fit.peak[1] != float("inf"):
        row.append(" " + page.span(f"{fit.peak[0] / GIB:.1f} to {fit.peak[1] / GIB:.1f}"), "dim")
    return row


def _moment(moment: str) -> str:
    return {"backward": "backward of the loss", "output layer": "backward of the output layer",
            "first block": "backward of the last block", "optimizer": "optimizer step",
            "forward": "end of the forward", "end of backward": "end of the backward"}[moment]  # fmt: skip


def _bar(share: float, room: int) -> str:
    eighths = round(max(0.0, min(share, 1.0)) * room * 8)
    return BAR * (eighths // 8) + (PARTS[eighths % 8] if eighths % 8 else "")


def _largest(fit: Fit, page: _Page) -> Iterator[Text]:
    plan = fit.reading.plans[0]
    has_length = plan.widths is not None and not plan.image_kept
    label = page.say("largest micro-batch")
    if fit.largest_batch is None:
        yield from _row(label, page.say("not even 1 surely fits"), page)
    elif has_length:
        yield from _row(label, page.say(f"{fit.largest_batch} surely fits at {plan.length:g} tokens"), page)
    else:
        yield from _row(label, page.say(f"{fit.largest_batch} surely fits"), page)
    if has_length and fit.largest_length is None:
        said = page.say(f"not even 64 tokens surely fit at micro-batch {plan.batch:g}")
        yield from _row(page.say("longest sequence"), said, page)
    elif has_length:
        said = page.say(f"{fit.largest_length} tokens surely fit at micro-batch {plan.batch:g}")
        yield from _row(page.say("longest sequence"), said, page)
    yield Text("")


def _ways(fit: Fit, page: _Page) -> Iterator[Text]:
    if not fit.ways:
        return
    yield Text(page.say("What would make it fit, cheapest first:"), "bold")
    for way in fit.ways:
        high = f"{way.peak[1] / GIB:.1f}" if way.peak[1] != float("inf") else "?"
        style = "green" if way.fits else ""
        title = " + ".join(page.say(it) for it in way.together) if way.together else page.say(way.title)
        words = f"{title} ({page.say(way.cost)})" if way.cost else title
        first = _padded(page.say("fits") if way.fits else "", 6)
        first += _padded(page.span(f"{way.peak[0] / GIB:5.1f} to {high:>4} GiB"), 19)
        for number, line in enumerate(_folded(words, page.width - 28)):
            row = Text(f"  {first if number == 0 else ' ' * 25} ", style)
            row.append(line)
            yield row
    yield Text("")


def _section(section: Section, page: _Page) -> Iterator[Text]:
    yield Text(page.say(section.title), "bold")
    for label, text in section.rows:
        yield from _row(page.say(label), page.say(text), page)
    if section.note:
        note = " ".join(page.say(it) for it in section.note.splitlines()).replace("。 ", "。")
        for line in _folded(note, page.width - 2):
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
