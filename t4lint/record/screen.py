"""What `verify` shows around its report: what it is about to do, that it goes on, and the verdicts at a glance."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from t4lint.findings import Finding, Report, Verdicts
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
LAST_LINES = 15  # of the program's own output, where it failed
LONGEST = 100  # characters of evidence in the table


def intention(argv: Sequence[str], cwd: Path, limits: Limits) -> list[str]:
    """What will be done, before anything of it is done."""
    what = "this notebook, as a script" if is_notebook(argv) else "your command"
    network = (
        "allowed, with your tokens (--allow-network)"
        if limits.network
        else "off: offline settings, no tokens, with an overlay nothing but the loopback"
    )
    place = {
        "auto": "an overlay over it where the kernel allows that, else a copy",
        "overlay": "an overlay over it",
        "copy": "a copy of it",
    }[limits.sandbox]
    memory = f"{limits.memory / 2**30:.3g} GiB" if limits.memory else "most of this machine's"
    return [
        f"verify runs {what}: {shlex.join(argv)}",
        f"  project   {project_root(cwd.resolve(), argv)}: written to in {place}, and thrown away",
        f"  network   {network}",
        f"  limits    {limits.steps} optimizer steps, {limits.timeout:g} s, memory {memory}",
    ]


DOING = {"starting": "starting", "setup": "setting up: imports, data, model", "optimizer": "optimizer step"}


class Screen:
    """Tells on stderr; the progress only where that is a terminal."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stderr
        self.live = self.out.isatty()
        self.shown = 0
        self.steps = 0
        self.progress: Progress | None = None
        self.recording: Recording | None = None  # the run, once it is over

    def announce(self, argv: Sequence[str], cwd: Path, limits: Limits) -> None:
        self.steps = limits.steps
        self.out.write("\n".join(intention(argv, cwd, limits)) + "\n")
        self.out.flush()

    def starts(self, sandbox: Sandbox) -> None:
        network = "network allowed" if sandbox.network else "no network" if sandbox.offline else "offline settings"
        self.out.write(f"  running   in {'an overlay' if sandbox.kind == 'overlay' else 'a copy'}, {network}\n")
        self.out.flush()

    def goes_on(self, seconds: float, now: Moment) -> None:
        if not self.live:
            return
        if self.progress is None:
            self.progress = _bar(self.out)
            self.progress.add_task("", total=self.steps or None, done="", seconds="", doing="", place="")
            self.progress.start()
        done = f"{now.step} of {self.steps} optimizer steps" if self.steps else f"{now.step} optimizer steps"
        doing = DOING.get(now.phase, now.phase)
        self.progress.update(
            self.progress.task_ids[0], completed=min(now.step, self.steps or now.step), refresh=True, done=done,
            doing=doing, seconds=f"{seconds:.0f} s", place=_printable(now.place),
        )  # fmt: skip

    def measures(self, number: int, total: int) -> None:
        """Before each run that is measured."""
        if self.live:
            self._line(f"  measuring the fixes: run {number} of {total}")
            if number == total:
                self.out.write("\n")
        elif number == 1:
            self.out.write(f"  measuring the fixes: {total} runs\n")
        self.out.flush()

    def ends(self, recording: Recording) -> None:
        self.recording = recording
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
        self.out.write("\n".join(ending(recording)) + "\n\n")
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


def ending(recording: Recording) -> list[str]:
    """How the run ended, and what the program said last where it failed."""
    outcome = recording.outcome
    code = "" if outcome.exit_code is None else f", exit code {outcome.exit_code}"
    where = f" at {outcome.path}:{outcome.line}" if outcome.path else ""
    how = f"{WORDS[outcome.how]}: " if outcome.how in WORDS else ""
    lines = [f"  ended     {how}{outcome.detail}{where} ({recording.seconds:.1f} s{code})", *memory(recording)]
    if outcome.how not in ("finished", "stopped"):
        lines += last_words(recording)
    return lines


def memory(recording: Recording) -> list[str]:
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
    reached = ", ".join(f"{phase} {mark / 2**20:.0f}" for phase, mark in phases.items())
    peak = int(most.get("peak") or 0) / 2**20
    return [f"  memory    {peak:.0f} MiB {what}, reached in {most.get('peak_in')} (by then, in MiB: {reached})"]


def last_words(recording: Recording) -> list[str]:
    """The last lines that the program wrote: its errors, else its output."""
    for name, text in (("stderr", recording.stderr), ("stdout", recording.stdout)):
        lines = [_printable(line) for line in text.replace("\r", "\n").splitlines() if line.strip()][-LAST_LINES:]
        if lines:
            return [f"  the last lines of its {name}:", *(f"  | {line}" for line in lines)]
    return ["  it wrote nothing"]


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in line)[:300]


def table(report: Report, colour: bool = False) -> str:
    """One line a finding, by verdict; empty where nothing got one."""
    lines: list[str] = []
    for verdict, (mark, meaning) in MARKS.items():
        findings = [it for it in report.findings if it.verdict is not None and it.verdict.verdict == verdict]
        if findings:
            lines += _group(verdict, mark, meaning, findings, colour)
    return "\n".join(lines) + "\n" if lines else ""


def _group(verdict: Verdicts, mark: str, meaning: str, findings: Iterable[Finding], colour: bool) -> Iterator[str]:
    ordered = sorted(findings, key=lambda it: (it.location.path, it.location.line, it.rule))
    yield _painted(f"{verdict} ({len(ordered)}): {meaning}", COLOURS[verdict], colour)
    for finding in ordered:
        yield f"  {_painted(f'{mark:2}', COLOURS[verdict], colour)} {place(finding.location)} {finding.rule}"
        said = finding.verdict.reason or finding.verdict.evidence if finding.verdict else ""
        if said:
            yield f"       {said if len(said) <= LONGEST else said[: LONGEST - 3] + '...'}"
        if finding.effect is not None:
            yield f"       with the fix: {finding.effect.conclusion}"


def place(location: Location) -> str:
    """`path:line`; for a notebook the cell and its line, counted from 1."""
    if location.cell is None:
        return f"{location.path}:{location.line}"
    return f"{location.path}:cell {location.cell + 1}:{location.cell_line or 1}"


def _painted(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
