"""What a fix does to a run: pairs of a run without it and one with it, in alternating order, and an interval.

Each run has a sandbox of its own; the fix is applied to the copy that the run sees. One round runs the program once as
it is and once with each fix; the order turns around from round to round, so that a machine that grows slower favours
nobody. That nothing can be measured is an answer.
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from t4lint.findings import Change, Effect, Finding
from t4lint.fix.text import edited
from t4lint.record.launch import Recording
from t4lint.record.observe import COMMAND

WARM_UP = 2  # steps that do not count: allocators, caches, the optimizer's own state
LEAST = 3  # measured steps without which a run says nothing about time
STEPS = 12  # optimizer steps of a run that is measured, where no other number is asked for
LEAST_GAIN = 0.01  # a change below this share is not worth an edit
SAME_LOSS = 1e-4  # relative: below the spread that another order of additions makes in float32

# Quantiles of Student's t for a two-sided interval of 95 %, by the degrees of freedom (any table of the distribution).
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NORMAL = 1.960

Texts = Mapping[str, str]  # by path as findings name it
Run = Callable[[Sequence[str], Texts], Recording]
"""Record a command once, with some texts in the place of files."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds of a step (median after the warm-up), bytes at the peak, the loss at each step.

    `failed` says why the run is of no use.
    """

    seconds: float | None = None
    memory: float | None = None
    losses: tuple[float | None, ...] = ()
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Arm:
    """A command and texts that a run is made with; `finding`: whose fix it is, None for the program as it is."""

    argv: tuple[str, ...]
    texts: Texts
    finding: Finding | None = None


def measure(
    argv: Sequence[str],
    findings: Sequence[Finding],
    text_of: Callable[[str], str | None],
    run: Run,
    *,
    pairs: int,
    basis: str,
) -> dict[str, Effect]:
    """The effect of each finding's fix, by fingerprint. Findings without a fix are left out."""
    plain = Arm(tuple(argv), {})
    arms = [plain]
    found: dict[str, Effect] = {}
    for finding in findings:
        if finding.fix is None:
            continue
        arm = _fixed(argv, finding, text_of)
        if isinstance(arm, str):
            found[finding.fingerprint] = Effect(f"not measured: {arm}")
        else:
            arms.append(arm)
    if len(arms) == 1:
        return found
    samples: list[list[Sample]] = [[] for _ in arms]
    for number in range(pairs):
        order = list(enumerate(arms))
        for index, arm in reversed(order) if number % 2 else order:
            if any(sample.failed for sample in samples[index]):
                continue  # what failed once is not run again
            samples[index].append(sample_of(run(arm.argv, arm.texts)))
        if samples[0][-1].failed:
            break
    for arm, with_fix in zip(arms[1:], samples[1:], strict=True):
        assert arm.finding is not None
        found[arm.finding.fingerprint] = effect(samples[0], with_fix, basis)
    return found


def _fixed(argv: Sequence[str], finding: Finding, text_of: Callable[[str], str | None]) -> Arm | str:
    """The command and the files with the fix applied, or why that cannot be."""
    assert finding.fix is not None
    texts: dict[str, str] = {}
    for path in {edit.path for edit in finding.fix.edits}:
        before = shlex.join(argv) + "\n" if path == COMMAND else text_of(path)
        if before is None:
            return f"{path} cannot be read"
        texts[path] = edited(before, [edit for edit in finding.fix.edits if edit.path == path])
    command = texts.pop(COMMAND, None)
    return Arm(tuple(argv) if command is None else tuple(shlex.split(command)), texts, finding)


# --- one run -----------------------------------------------------------------------------------------------------


def sample_of(recording: Recording) -> Sample:
    """What one run says. Of several ranks the slowest counts, and the sum of their memory."""
    if recording.outcome.how not in ("finished", "stopped"):
        return Sample(failed=recording.outcome.detail)
    by_process: dict[int, list[Mapping[str, object]]] = {}
    for record in recording.journal.records:
        if record.k == "memory":
            by_process.setdefault(record.pid, []).append(record.d)
    if not by_process:
        return Sample(failed="no optimizer step was seen")
    times = [seconds for told in by_process.values() if (seconds := _step_time(told)) is not None]
    peaks = [max(_number(it.get("peak")) or 0.0 for it in told) for told in by_process.values()]
    first = next(iter(by_process.values()))
    return Sample(
        seconds=max(times) if times else None,
        memory=sum(peaks),
        losses=tuple(_number(it.get("loss")) for it in first),
    )


def _step_time(told: Sequence[Mapping[str, object]]) -> float | None:
    counted = [seconds for it in told[WARM_UP:] if (seconds := _number(it.get("seconds"))) is not None]
    return statistics.median(counted) if len(counted) >= LEAST else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


# --- what follows from them --------------------------------------------------------------------------------------


def effect(before: Sequence[Sample], after: Sequence[Sample], basis: str) -> Effect:
    """Compare runs that were made in pairs."""
    for name, samples in (("the program as it is", before), ("the program with the fix", after)):
        why = next((sample.failed for sample in samples if sample.failed), "")
        if why:
            return Effect(f"not measured: {name} failed: {why}")
    both = list(zip(before, after, strict=False))
    seconds = change([(one.seconds, other.seconds) for one, other in both])
    memory = change([(one.memory, other.memory) for one, other in both])
    loss = compared(before, after)
    made = Effect("", basis, len(both), seconds, memory, loss)
    return replace(made, conclusion=conclude(made))


def change(pairs: Sequence[tuple[float | None, float | None]]) -> Change | None:
    """The ratio after / before: its geometric mean over the pairs, with an interval of 95 % (Student's t on the logs)."""
    known = [(one, other) for one, other in pairs if one and other]
    if len(known) < 2:
        return None
    logs = [math.log(other / one) for one, other in known]
    degrees = len(logs) - 1
    width = (
        (STUDENT[degrees - 1] if degrees <= len(STUDENT) else NORMAL) * statistics.stdev(logs) / math.sqrt(len(logs))
    )
    middle = statistics.fmean(logs)
    return Change(
        before=statistics.median(one for one, _ in known),
        after=statistics.median(other for _, other in known),
        ratio=math.exp(middle),
        low=math.exp(middle - width),
        high=math.exp(middle + width),
    )


def compared(before: Sequence[Sample], after: Sequence[Sample]) -> str:
    """Does the fix change the loss at the same steps by more than the runs without it differ among themselves?"""
    worst, seen = 0.0, False
    for step in range(max((len(sample.losses) for sample in before), default=0)):
        own = _losses(before, step)
        fixed = _losses(after, step)
        if not own or not fixed:
            continue
        seen = True
        if any(math.isnan(value) for value in (*own, *fixed)):
            worst = max(worst, 0.0 if all(map(math.isnan, (*own, *fixed))) else math.inf)
            continue
        distance = abs(statistics.fmean(fixed) - statistics.fmean(own))
        spread = max(own) - min(own) + max(fixed) - min(fixed)
        scale = max(abs(statistics.fmean(own)), 1e-12)
        worst = max(worst, (distance - spread) / scale)
    return "not seen" if not seen else "differs" if worst > SAME_LOSS else "same"


def _losses(samples: Sequence[Sample], step: int) -> list[float]:
    return [value for sample in samples if step < len(sample.losses) and (value := sample.losses[step]) is not None]


# Written out, so that each is found in the catalogue as it stands.
_BOTH: dict[tuple[str, ...], str] = {
    ("faster", "less memory"): "faster and less memory",
    ("faster", "more memory"): "faster and more memory",
    ("slower", "less memory"): "slower and less memory",
    ("slower", "more memory"): "slower and more memory",
}


def conclude(made: Effect) -> str:
    """In words. A change counts where the whole interval is on one side, and the middle of it worth an edit."""
    said = []
    for what, less, more in ((made.seconds, "faster", "slower"), (made.memory, "less memory", "more memory")):
        if what is None or abs(what.ratio - 1) < LEAST_GAIN:
            continue
        if what.high < 1:
            said.append(less)
        elif what.low > 1:
            said.append(more)
    if made.seconds is None and made.memory is None:
        return "not measured: too few steps"
    gain = _BOTH.get(tuple(said)) or "".join(said) or "no measurable gain"
    return f"{gain}; the loss changes" if made.loss == "differs" else gain
