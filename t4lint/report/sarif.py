"""SARIF 2.1.0, as GitHub code scanning and editors read it.

Findings that a run has refuted are no results: GitHub would open alerts for them. They are told as notifications.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from t4lint.report import common
from t4lint.report.text import place, sorted_findings

if TYPE_CHECKING:
    from t4lint.findings import Finding, Problem, Report, TextEdit
    from t4lint.rule import Rule
    from t4lint.trace import Location

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
FINGERPRINT = "t4lint/v1"
RESULTS = 25_000  # GitHub refuses files with more
LOCATIONS = 100  # of one result that GitHub shows
CONTEXT = 2  # lines around a finding
LEVELS = {"error": "error", "warning": "warning", "note": "note"}
PROBLEM_SEVERITIES = {"error": "error", "warning": "warning", "note": "recommendation"}
_LINK = re.compile(r"\[(?=[^\]]*\]\()")

Json = dict[str, Any]


def render(report: Report, *, version: str) -> str:
    """The report as a SARIF log with one run."""
    refuted, findings = _split(report)
    rules = list(_rules(report, findings, version))
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    run: Json = {
        "tool": {"driver": _driver(rules, version)},
        "automationDetails": {"id": f"t4lint/{report.target}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "invocations": [_invocation(report, refuted)],
        "results": [_result(report, finding, index[finding.rule]) for finding in findings],
    }
    if source := _version_control():
        run["versionControlProvenance"] = [source]
    return common.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _split(report: Report) -> tuple[list[Finding], list[Finding]]:
    """What a run has refuted, and what stands or is suppressed; the most important when that is too many."""
    refuted = [it for it in report.findings if common.is_refuted(it)]
    others = [it for it in (*report.findings, *report.suppressed) if not common.is_refuted(it)]
    return sorted_findings(refuted), sorted_findings(common.by_importance(others)[:RESULTS])


# --- the tool ----------------------------------------------------------------------------------------------------


def _driver(rules: list[Json], version: str) -> Json:
    return {
        "name": "t4lint",
        "informationUri": common.HOME,
        "version": version,
        "semanticVersion": version,
        "rules": rules,
    }


def _rules(report: Report, findings: Iterable[Finding], version: str) -> Iterator[Json]:
    """The rules that were run, also those that found nothing: an alert that is gone can then be closed as fixed."""
    from t4lint import engine

    named = {finding.rule for finding in findings}
    ran = named | set(report.rules or (rule.name for rule in engine.rules()))
    known = [rule for rule in (*engine.rules(), *report.own_rules) if rule.name in ran]
    yield from (_rule(rule, version) for rule in known)
    named -= {rule.name for rule in known}
    own = sorted((it for it in findings if it.rule in named), key=lambda it: it.rule)
    for name, group in groupby(own, key=lambda it: it.rule):
        yield _unknown_rule(name, next(group))


def _rule(rule: Rule, version: str) -> Json:
    page = rule.page or rule.summary
    made = {
        **_names(rule.name),
        "shortDescription": {"text": _sentence(rule.summary)},
        "fullDescription": {"text": _sentence(page.split("\n\n")[0])},
        "help": {"text": _text(page), "markdown": common.lines(page)},
        "defaultConfiguration": {"level": LEVELS[rule.severity], "enabled": rule.default},
        "properties": {
            "tags": ["t4", rule.family],
            "precision": "high",
            "problem.severity": PROBLEM_SEVERITIES[rule.severity],
        },
    }
    if url := common.rule_url(rule):
        made["helpUri"] = url
    return made


def _unknown_rule(name: str, finding: Finding) -> Json:
    """A rule that t4lint does not ship: what one of its findings says has to do."""
    said = _sentence(finding.help or finding.message)
    return {
        **_names(name),
        "shortDescription": {"text": _sentence(f"The rule {name}")},
        "fullDescription": {"text": said},
        "help": {"text": said},
        "helpUri": common.HOME,
        "defaultConfiguration": {"level": LEVELS[finding.severity]},
        "properties": {"tags": ["t4"], "problem.severity": PROBLEM_SEVERITIES[finding.severity]},
    }


def _names(name: str) -> Json:
    return {"id": name, "name": "".join(part.capitalize() for part in re.split(r"\W+", name))}


# --- how it went -------------------------------------------------------------------------------------------------


def _invocation(report: Report, refuted: list[Finding]) -> Json:
    made: Json = {"executionSuccessful": not report.problems}
    said = [_problem(problem) for problem in report.problems] + [_refuted(finding) for finding in refuted]
    if said:
        made["toolExecutionNotifications"] = said
    return made


def _problem(problem: Problem) -> Json:
    made: Json = {"level": "error", "message": {"text": _sentence(problem.message)}}
    if problem.path:
        physical: Json = {"artifactLocation": _artifact(problem.path)}
        if problem.line:
            column = {"startColumn": problem.column} if problem.column else {}
            physical["region"] = {"startLine": problem.line, **column}
        made["locations"] = [{"physicalLocation": physical}]
    return made


def _refuted(finding: Finding) -> Json:
    verdict = finding.verdict
    why = f": {verdict.evidence or verdict.reason}" if verdict and (verdict.evidence or verdict.reason) else ""
    basis = verdict.basis if verdict else ""
    text = _sentence(f"A run ({basis}) has refuted {finding.rule} at {place(finding.location)}{why}")
    return {
        "level": "note",
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(finding.location.path)}}],
    }


def _version_control() -> Json | None:
    """Where the files come from, inside a workflow on GitHub."""
    server, repository, sha = (os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "SHA"))
    if not (server and repository and sha):
        return None
    uri = f"{server}/{quote(repository)}"
    return {"repositoryUri": uri, "revisionId": sha, "mappedTo": {"uriBaseId": ROOT}}


# --- results -----------------------------------------------------------------------------------------------------


def _result(report: Report, finding: Finding, index: int) -> Json:
    made: Json = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": " ".join(_sentence(part) for part in (finding.message, finding.help) if part)},
        "locations": [{"physicalLocation": _physical(report, finding.location, context=True)}],
        "properties": _properties(finding),
    }
    if finding.fingerprint:
        made["partialFingerprints"] = {FINGERPRINT: finding.fingerprint}
    if related := _related(report, finding):
        made["relatedLocations"] = related
    if flow := _flow(report, finding):
        made["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    if suppressed := _suppressions(report, finding):
        made["suppressions"] = suppressed
    if fixes := _fixes(finding):
        made["fixes"] = fixes
    return made


def _properties(finding: Finding) -> Json:
    """What SARIF has no word for."""
    made: Json = {"confidence": finding.confidence}
    if finding.provenance:
        made["provenance"] = [step.note for step in finding.provenance]
    if finding.runs:
        made["runs"] = list(finding.runs)
    if finding.location.cell is not None:
        made["cell"], made["cellLine"] = finding.location.cell, finding.location.cell_line
    if finding.verdict is not None:
        said = finding.verdict
        made["verdict"] = {
            "verdict": said.verdict, "basis": said.basis, "confidence": said.confidence,
            "evidence": said.evidence, "reason": said.reason,
        }  # fmt: skip
    if finding.effect is not None:
        made["effect"] = asdict(finding.effect)
    return made


def _related(report: Report, finding: Finding) -> list[Json]:
    """The other places of a finding, and each place that its value went through."""
    places = [(it.location, it.note) for it in finding.related]
    places += [(it.location, it.note) for it in finding.provenance if it.location and it.location != finding.location]
    unique = dict.fromkeys(places)
    return [
        {"id": number, **_noted(report, location, note)}
        for number, (location, note) in enumerate(list(unique)[:LOCATIONS], 1)
    ]


def _flow(report: Report, finding: Finding) -> list[Json]:
    """The way of a value, from where it is written to where it takes effect; none when it is one place."""
    steps = [(it.location, it.note) for it in finding.provenance if it.location]
    steps += [(it.location, it.note) for it in finding.related] if steps else []
    steps = list(dict.fromkeys(steps))[:LOCATIONS]
    if len({location for location, _ in steps}) < 2:
        return []
    return [{"location": _noted(report, location, note)} for location, note in steps]


def _suppressions(report: Report, finding: Finding) -> list[Json]:
    said = finding.suppressed
    if said is None:
        return []
    made: Json = {"kind": "inSource" if said.kind == "comment" else "external"}
    if said.reason:
        made["justification"] = common.lines(said.reason)
    if said.location is not None:
        made["location"] = {"physicalLocation": _physical(report, said.location)}
    return [made]


def _fixes(finding: Finding) -> list[Json]:
    fix = common.fix_of(finding)
    if fix is None:
        return []
    by_file: dict[str, list[TextEdit]] = {}
    for edit in fix.edits:
        by_file.setdefault(edit.path, []).append(edit)
    changes = [
        {"artifactLocation": _artifact(path), "replacements": [_replacement(edit) for edit in edits]}
        for path, edits in by_file.items()
    ]
    return [{"description": {"text": _sentence(fix.title)}, "artifactChanges": changes}]


def _replacement(edit: TextEdit) -> Json:
    made: Json = {"deletedRegion": _region(*edit.start, *edit.end)}
    if edit.text:
        made["insertedContent"] = {"text": edit.text}
    return made


# --- places ------------------------------------------------------------------------------------------------------


def _noted(report: Report, location: Location, note: str) -> Json:
    return {"physicalLocation": _physical(report, location), "message": {"text": _sentence(note)}}


def _physical(report: Report, at: Location, *, context: bool = False) -> Json:
    made: Json = {
        "artifactLocation": _artifact(at.path),
        "region": _region(at.line, at.column, at.end_line, at.end_column),
    }
    if (snippet := _snippet(report, at.path, at.line, at.end_line)) is not None:
        made["region"]["snippet"] = {"text": snippet}
        if context:
            first, last = max(1, at.line - CONTEXT), _last(report, at.path, at.end_line + CONTEXT)
            around = _snippet(report, at.path, first, last)
            made["contextRegion"] = {"startLine": first, "endLine": last, "snippet": {"text": around}}
    return made


def _region(line: int, column: int, end_line: int, end_column: int) -> Json:
    return {
        "startLine": line,
        "startColumn": column,
        "endLine": max(end_line, line),
        "endColumn": max(end_column, column) if end_line <= line else end_column,
    }


def _snippet(report: Report, path: str, first: int, last: int) -> str | None:
    """Whole lines; the region inside them is in the numbers."""
    found = [common.source_line(report, path, number) for number in range(first, last + 1)]
    text = [line for line in found if line is not None]
    return "\n".join(text) if len(text) == len(found) else None


def _last(report: Report, path: str, line: int) -> int:
    """The line, or the last one that the file has."""
    while line > 1 and common.source_line(report, path, line) is None:
        line -= 1
    return line


def _artifact(path: str) -> Json:
    """Relative to the root of the repository wherever that is possible."""
    path = common.in_repository(path)
    uri = quote(os.fsencode(path))
    if os.path.isabs(path):  # noqa: PTH117  (as it stands, whatever the system)
        return {"uri": f"file://{uri}" if uri.startswith("/") else f"file:///{uri}"}
    return {"uri": uri, "uriBaseId": ROOT}


# --- text --------------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Plain text in which nothing is a link: SARIF reads `[text](target)` as one."""
    return _LINK.sub(r"\\[", common.lines(text))


def _sentence(text: str) -> str:
    text = _text(" ".join(common.lines(text).split()))
    return text if text.endswith((".", "!", "?")) else f"{text}."
