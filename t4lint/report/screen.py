"""What `verify` shows around its report: what it is about to do, that it goes on, and the verdicts at a glance."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len

from t4lint.findings import Finding, Report, Verdicts
from t4lint.language import ENGLISH, phrase
from t4lint.record.launch import How, Limits, Recording, project_root
from t4lint.record.notebook import is_notebook
from t4lint.record.sandbox import Sandbox
from t4lint.record.watch import Moment
from t4lint.trace import Location

if TYPE_CHECKING:
    from rich.progress import Progress

MARKS: dict[Verdicts, tuple[str, str]] = {
    "confirmed": ("x", "the run shows it"),
    "refuted": ("ok", "the run shows that it does not hold"),
    "undecided": ("?", "it ran, but this machine cannot tell"),
    "not exercised": ("-", "the run did not come there"),
}
COLOURS: dict[Verdicts, str] = {"confirmed": "1;31", "refuted": "32", "undecided": "33", "not exercised": "2"}
WORDS: dict[How, str] = {
    "exception": "an exception",
    "unsupported": "the phantom could not go on",
    "killed": "killed",
    "timeout": "out of time",
    "not started": "did not start",
}
MARGIN = 10  # cells of the labels before a run
LAST_LINES = 15  # of the program's own output, where it failed
LONGEST = 100  # characters of evidence in the table


class _Voice:
    """Says things in the language of the reader."""

    def __init__(self, language: str) -> None:
        self.language = language

    def say(self, text: str) -> str:
        """A label or sentence in that language."""
        return phrase(text, self.language, "run")

    def row(self, label: str, text: str) -> str:
        """A label that is said already, and what stands behind it."""
        return f"  {label}{' ' * (MARGIN - cell_len(label))}{text}"


def intention(argv: Sequence[str], cwd: Path, limits: Limits, language: str = ENGLISH) -> list[str]:
    """What will be done, before anything of it is done."""
    voice = _Voice(language)
    say = voice.say
    what = say("this notebook, as a script") if is_notebook(argv) else say("your command")
    if limits.network:
        network = say("allowed, with your tokens (--allow-network)")
    else:
        network = say("off: offline settings, no tokens, with an overlay nothing but the loopback")
    place = {
        "auto": say("an overlay over it where the kernel allows that, else a copy"),
        "overlay": say("an overlay over it"),
        "copy": say("a copy of it"),
    }[limits.sandbox]
    memory = f"{limits.memory / 2**30:.3g} GiB" if limits.memory else say("most of this machine's")
    project = project_root(cwd.resolve(), argv)
    return [
        say(f"verify runs {what}: {shlex.join(argv)}"),
        voice.row(say("project"), say(f"{project}: written to in {place}, and thrown away")),
        voice.row(say("network"), network),
        voice.row(say("limits"), say(f"{limits.steps} optimizer steps, {limits.timeout:g} s, memory {memory}")),
    ]


DOING = {"starting": "starting", "setup": "setting up: imports, data, model", "optimizer": "optimizer step"}


class Screen:
    """Tells on stderr; the progress only where that is a terminal."""

    def __init__(self, out: TextIO | None = None, language: str = ENGLISH) -> None:
        self.out = out or sys.stderr
        self.voice = _Voice(language)
        self.live = self.out.isatty()
        self.shown = 0
        self.steps = 0
        self.progress: Progress | None = None
        self.recording: Recording | None = None  # the run, once it is over

    def announce(self, argv: Sequence[str], cwd: Path, limits: Limits) -> None:
        self.steps = limits.steps
        self.out.write("\n".join(intention(argv, cwd, limits, self.voice.language)) + "\n")
        self.out.flush()

    def starts(self, sandbox: Sandbox) -> None:
        say = self.voice.say
        where = say("in an overlay") if sandbox.kind == "overlay" else say("in a copy")
        network = say("no network") if sandbox.offline else say("offline settings")
        network = say("network allowed") if sandbox.network else network
        self.out.write(self.voice.row(say("running"), f"{where}{say(', ')}{network}") + "\n")
        self.out.flush()

    def goes_on(self, seconds: float, now: Moment) -> None:
        if not self.live:
            return
        if self.progress is None:
            self.progress = _bar(self.out)
            self.progress.add_task("", total=self.steps or None, done="", seconds="", doing="", place="")
            self.progress.start()
        say = self.voice.say
        done = say(f"{now.step} of {self.steps} optimizer steps" if self.steps else f"step {now.step}")
        doing = say(DOING.get(now.phase, now.phase))
        self.progress.update(
            self.progress.task_ids[0], completed=min(now.step, self.steps or now.step), refresh=True, done=done,
            doing=doing, seconds=f"{seconds:.0f} s", place=_printable(now.place),
        )  # fmt: skip

    def measures(self, number: int, total: int) -> None:
        """Before each run that is measured."""
        if self.live:
            self._line("  " + self.voice.say(f"measuring the fixes: run {number} of {total}"))
            if number == total:
                self.out.write("\n")
        elif number == 1:
            self.out.write("  " + self.voice.say(f"measuring the fixes: {total} runs") + "\n")
        self.out.flush()

    def ends(self, recording: Recording) -> None:
        self.recording = recording
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
        self.out.write("\n".join(ending(recording, self.voice.language)) + "\n\n")
        self.out.flush()

    def _line(self, text: str) -> None:
        self.out.write("\r" + text.ljust(self.shown))
        self.out.flush()
        self.shown = len(text)


def _bar(out: TextIO) -> Progress:
    """Spinner, bar, steps, phase and place in one line that is gone in the end; drawn when it is told to."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
    from rich.table import Column

    texts = [
        TextColumn(f"{{task.fields[{name}]}}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        for name in ("done", "seconds", "doing", "place")
    ]
    console = Console(file=out, force_terminal=True, highlight=False)
    return Progress(SpinnerColumn("line"), BarColumn(20), *texts, console=console, auto_refresh=False, transient=True)


# --- after the run -----------------------------------------------------------------------------------------------


def ending(recording: Recording, language: str = ENGLISH) -> list[str]:
    """How the run ended, and what the program said last where it failed."""
    voice = _Voice(language)
    outcome = recording.outcome
    said = voice.say(outcome.detail)
    if outcome.how in WORDS:
        said = f"{voice.say(WORDS[outcome.how])}: {said}"
    if outcome.path:
        said += voice.say(f" at {outcome.path}:{outcome.line}")
    code = "" if outcome.exit_code is None else voice.say(f", exit code {outcome.exit_code}")
    ended = f"{said} ({recording.seconds:.1f} s{code})"
    lines = [voice.row(voice.say("ended"), ended), *memory(recording, language)]
    if outcome.how not in ("finished", "stopped"):
        lines += last_words(recording, language)
    return lines


def memory(recording: Recording, language: str = ENGLISH) -> list[str]:
    """What the process that needed most had taken by the end of each phase, and in which phase the peak was reached."""
    told = [record.d for record in recording.journal.records if record.k == "memory"]
    if not told:
        return []
    most = max(told, key=lambda it: it.get("peak") or 0)
    phases: dict[str, int] = {}
    for it in told:
        for phase, mark in it.get("phases", {}).items():
            phases[phase] = max(phases.get(phase, 0), int(mark))
    what = "of the GPU" if most.get("counted") == "allocated" else "of this machine, in one process"
    voice = _Voice(language)
    reached = voice.say(", ").join(f"{voice.say(phase)} {mark / 2**20:.0f}" for phase, mark in phases.items())
    peak = int(most.get("peak") or 0) / 2**20
    taken = voice.say(f"{peak:.0f} MiB {what}, reached in {most.get('peak_in')} (by then, in MiB: {reached})")
    return [voice.row(voice.say("memory"), taken)]


def last_words(recording: Recording, language: str = ENGLISH) -> list[str]:
    """The last lines that the program wrote: its errors, else its output."""
    say = _Voice(language).say
    for name, text in (("stderr", recording.stderr), ("stdout", recording.stdout)):
        lines = [_printable(line) for line in text.replace("\r", "\n").splitlines() if line.strip()][-LAST_LINES:]
        if lines:
            return ["  " + say(f"the last lines of its {name}:"), *(f"  | {line}" for line in lines)]
    return ["  " + say("it wrote nothing")]


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in line)[:300]


def table(report: Report, colour: bool = False) -> str:
    """One line a finding, by verdict, in the language of the report; empty where nothing got one."""
    say = _Voice(report.language).say
    lines: list[str] = []
    for verdict, (mark, meaning) in MARKS.items():
        findings = [it for it in report.findings if it.verdict is not None and it.verdict.verdict == verdict]
        if findings:
            label = phrase(verdict, report.language)
            lines.append(_painted(f"{label} ({len(findings)}): {say(meaning)}", COLOURS[verdict], colour))
            lines += _group(verdict, mark, findings, colour, report.language)
    return "\n".join(lines) + "\n" if lines else ""


def _group(verdict: Verdicts, mark: str, findings: Iterable[Finding], colour: bool, language: str) -> Iterator[str]:
    for finding in sorted(findings, key=lambda it: (it.location.path, it.location.line, it.rule)):
        yield f"  {_painted(f'{mark:2}', COLOURS[verdict], colour)} {place(finding.location)} {finding.rule}"
        said = finding.verdict.reason or finding.verdict.evidence if finding.verdict else ""
        if said:
            yield f"       {said if len(said) <= LONGEST else said[: LONGEST - 3] + '...'}"
        if finding.effect is not None:
            yield "       " + phrase(f"with the fix: {finding.effect.conclusion}", language, "run")


def place(location: Location) -> str:
    """`path:line`; for a notebook the cell and its line, counted from 1."""
    if location.cell is None:
        return f"{location.path}:{location.line}"
    return f"{location.path}:cell {location.cell + 1}:{location.cell_line or 1}"


def _painted(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
