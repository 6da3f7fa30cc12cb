"""What a branch changes, verified: the commands that run its changed scripts, one after the other, and one report of all.

For a job on a pull request. Runs the project's code, as verify does.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from t4lint.findings import Finding, Report, RunInfo

Item = TypeVar("Item", bound=Hashable)

MOST = 5  # commands that are run; the others are named
ORDER = ("confirmed", "refuted", "undecided", "not exercised")  # of two verdicts on one finding the first stands
NOT_RUN = "not run, since it {why}: {command}"
TOO_MANY = f"not run, since at most {MOST} are: {{command}}"
NONE = "none of the findings on changed lines belongs to a command that can be run here"


def commands(report: Report) -> tuple[list[list[str]], tuple[str, ...]]:
    """The commands behind the findings of a report, as words, and what is said of those that are not run."""
    runs = [report.runs[index] for finding in report.findings for index in finding.runs if index < len(report.runs)]
    chosen: list[list[str]] = []
    said: list[str] = []
    for run in dict.fromkeys(map(_named, runs)):
        command, processes_elsewhere = run
        why = _refused(command, processes_elsewhere)
        if why:
            said.append(NOT_RUN.format(why=why, command=command))
        elif len(chosen) == MOST:
            said.append(TOO_MANY.format(command=command))
        else:
            chosen.append(_words(command))
    return chosen, tuple(said) if said or chosen or not report.findings else (NONE,)


def _named(run: RunInfo) -> tuple[str, bool]:
    """A command, and whether it starts processes on other machines."""
    words = run.command.replace("=", " ").split()
    nodes = [
        words[index + 1]
        for index, word in enumerate(words[:-1])
        if word in ("--nnodes", "--num_machines", "--num_nodes")
    ]
    return run.command, any(count not in ("1", "1:1") for count in nodes)


def _refused(command: str, several_machines: bool) -> str:
    """Why a command cannot be run as it stands, or ""."""
    if several_machines:
        return "needs several machines"
    if "$" in command or "`" in command:
        return "has values that only its shell knows"
    try:
        return "" if shlex.split(command) else "is empty"
    except ValueError:
        return "is no single command"


def _words(command: str) -> list[str]:
    """A notebook stands for itself."""
    words = shlex.split(command)
    return words[1:] if words[0] == "python" and len(words) == 2 and words[1].endswith(".ipynb") else words


def verified(checked: Report, only: Callable[[Report], Report], run: Callable[[list[str]], Report]) -> Report:
    """The findings of `checked`, which are those on changed lines, with the verdicts of the commands behind them.

    `only` leaves of a report what is on changed lines: also of what only a run could see.
    """
    chosen, said = commands(checked)
    reports = [only(run(words)) for words in chosen]
    return merged(replace(checked, notes=(*checked.notes, *said)), reports)


def merged(checked: Report, reports: Sequence[Report]) -> Report:
    """One report: each finding once, with the verdict that says most."""
    found = {finding.fingerprint: finding for finding in checked.findings}
    for report in reports:
        for finding in report.findings:
            before = found.get(finding.fingerprint)
            if before is None or _rank(finding) < _rank(before):
                found[finding.fingerprint] = replace(finding, runs=before.runs if before is not None else ())
    return replace(
        checked,
        findings=tuple(found.values()),
        problems=_once((*checked.problems, *(it for report in reports for it in report.problems))),
        sources={**checked.sources, **{path: text for report in reports for path, text in report.sources.items()}},
        notes=_once((*checked.notes, *(note for report in reports for note in report.notes))),
        memory=max((report.memory for report in reports if report.memory), key=_peak, default=None),
    )


def _rank(finding: Finding) -> int:
    return ORDER.index(finding.verdict.verdict) if finding.verdict is not None else len(ORDER)


def _peak(memory: object) -> int:
    value = memory.get("peak_allocated") if hasattr(memory, "get") else 0
    return value if isinstance(value, int) else 0


def _once(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))
