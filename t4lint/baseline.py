"""Findings that a project has made its peace with: a baseline file, or everything before a git reference."""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from t4lint.findings import Finding, Report, Suppressed
from t4lint.fix.write import save
from t4lint.rule import CONFIDENCES, Confidence

LARGEST = 50_000_000  # bytes
VERSION = 1
GIT_TIMEOUT = 60  # seconds


class BaselineError(ValueError):
    """A baseline or a git reference that cannot be used; the message is for people."""


# --- the baseline file ---------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A finding in the baseline. It is known by its fingerprint; the rest is for people, and for pruning."""

    path: str
    rule: str
    fingerprint: str
    confidence: str


def load(file: Path) -> list[Entry]:
    """The entries of a baseline."""
    try:
        with file.open("rb") as stream:
            text = stream.read(LARGEST + 1)
        data: Any = None if len(text) > LARGEST else json.loads(text)
    except FileNotFoundError:
        raise BaselineError(f"there is no baseline {file}; --write-baseline writes one") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BaselineError(f"cannot read the baseline {file}: {error}") from error
    if not isinstance(data, dict) or data.get("version") != VERSION or not isinstance(data.get("findings"), list):
        raise BaselineError(f"{file} is not a baseline of this version of t4lint; write it anew with --write-baseline")
    try:
        return [
            Entry(it["path"], it["rule"], it["fingerprint"], it.get("confidence", "certain")) for it in data["findings"]
        ]
    except (TypeError, KeyError, AttributeError) as error:
        raise BaselineError(f"{file} has an entry without {error}; write it anew with --write-baseline") from None


def dump(file: Path, findings: Iterable[Finding]) -> int:
    """Write a baseline of these findings; how many there are."""
    entries = [Entry(it.location.path, it.rule, it.fingerprint, it.confidence) for it in findings]
    _save(file, entries)
    return len(entries)


def hide(report: Report, entries: Collection[Entry]) -> Report:
    """The report without the findings of a baseline."""
    known = {entry.fingerprint for entry in entries}
    hidden = [replace(it, suppressed=Suppressed("baseline")) for it in report.findings if it.fingerprint in known]
    shown = [finding for finding in report.findings if finding.fingerprint not in known]
    return replace(report, findings=tuple(shown), suppressed=(*report.suppressed, *hidden))


def prune(file: Path, entries: Collection[Entry], report: Report, least: Confidence, cwd: Path) -> int:
    """Drop the entries whose finding is gone, as far as this run could have seen it; how many there were."""
    found = {finding.fingerprint for finding in (*report.findings, *report.suppressed)}
    kept = [entry for entry in entries if entry.fingerprint in found or not _seen(entry, report, least, cwd)]
    if len(kept) < len(entries):
        _save(file, kept)
    return len(entries) - len(kept)


def _seen(entry: Entry, report: Report, least: Confidence, cwd: Path) -> bool:
    """Would the finding have been reported?"""
    judged = entry.rule in report.rules and entry.confidence in CONFIDENCES[CONFIDENCES.index(least) :]
    return not report.problems and judged and (entry.path in report.checked or not (cwd / entry.path).exists())


def _save(file: Path, entries: Iterable[Entry]) -> None:
    """One entry a line, sorted, so that merges stay small."""
    lines = ",\n  ".join(json.dumps(entry._asdict(), ensure_ascii=False) for entry in sorted(set(entries)))
    text = f'{{"version": {VERSION}, "findings": [{f"{chr(10)}  {lines}{chr(10)}" if lines else ""}]}}\n'
    save(file, text)


# --- lines changed since a git reference -----------------------------------------------------------------------------

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_UNTRACKED = range(1, 1 << 60)  # every line

Lines = Collection[int]


@dataclass(frozen=True, slots=True)
class Changes:
    """Which lines have changed, by the real path of the file."""

    lines: Mapping[Path, Lines]
    cwd: Path

    def touch(self, finding: Finding, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Does a finding stand on a changed line, or come from one? `after` are texts that are not on disk yet."""
        places = [finding.location, *(origin.location for origin in finding.provenance if origin.location)]
        for place in places:
            lines = self.lines.get(_real(self.cwd / place.path), ())
            if place.path in after:
                lines = _moved(lines, before.get(place.path, ""), after[place.path])
            if any(line in lines for line in range(place.line, place.end_line + 1)):
                return True
        return False


def changed_since(reference: str, cwd: Path) -> Changes:
    """The lines that differ from where the branch left `reference`, in the files as they are now; new files too."""
    if reference.startswith("-"):
        raise BaselineError(f"--diff-base needs a git reference, not {reference!r}")
    top = Path(os.fsdecode(_git(cwd, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    try:
        commit = os.fsdecode(_git(cwd, "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}").strip())
    except BaselineError:
        raise BaselineError(
            f"git does not know {reference!r}; in CI the checkout must be deep enough to hold it (fetch-depth: 0)"
        ) from None
    try:
        base = os.fsdecode(_git(cwd, "merge-base", commit, "HEAD").strip()) or commit
    except BaselineError:
        base = commit  # no common history: compare with the reference itself
    flags = ("-c", "core.quotePath=false", "diff", "-U0", "-M", "--no-color", "--no-ext-diff", "--no-textconv")
    found = _parse(_git(top, *flags, "--src-prefix=a/", "--dst-prefix=b/", base, "--"), top)
    for name in _git(top, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0"):
        if name:
            found[_real(top / os.fsdecode(name))] = _UNTRACKED
    return Changes(found, cwd)


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, timeout=GIT_TIMEOUT, check=False)
    except FileNotFoundError:
        raise BaselineError("--diff-base needs git, which is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BaselineError(f"git failed: {error}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ").splitlines()
        raise BaselineError(f"git failed: {said[0] if said else arguments[0]}")
    return done.stdout


def _parse(diff: bytes, top: Path) -> dict[Path, Lines]:
    """The new side of each hunk. Inside a hunk lines start with `+` or `-`, so a header is never taken from content."""
    found: dict[Path, Lines] = {}
    lines: set[int] = set()
    left = 0  # lines of the present hunk that are still to come
    for raw in diff.split(b"\n"):
        if left and raw[:1] in (b"+", b"-"):
            left -= 1
        elif raw.startswith(b"+++ "):
            lines = set()
            if name := _name(raw[4:]):
                found[_real(top / name)] = lines
        elif hunk := _HUNK.match(raw.decode("utf-8", "replace")):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.update(range(first, first + count))
            left = count + int((re.match(r"@@ -\d+(?:,(\d+))?", hunk[0]) or hunk)[1] or 1)
    return found


def _name(field: bytes) -> str:
    """`b/path`, with git's quotes and tab where it has them."""
    text = field.rstrip(b"\t\r")
    if text.startswith(b'"'):
        text = text[1:-1].decode("unicode_escape").encode("latin-1", "replace")
    return os.fsdecode(text[2:]) if text.startswith(b"b/") else ""


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _moved(lines: Lines, before: str, after: str) -> set[int]:
    """Where the changed lines of one text are in another."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    found: set[int] = set()
    for kind, old, old_end, new, new_end in matcher.get_opcodes():
        if kind == "equal":
            found |= {number - old + new for number in range(old + 1, old_end + 1) if number in lines}
        elif any(number in lines for number in range(old + 1, old_end + 1)):
            found |= set(range(new + 1, new_end + 1))
    return found
