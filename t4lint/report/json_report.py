"""The report for machines: one JSON document, as `model.py` declares it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from t4lint.report import common, model
from t4lint.report.text import sorted_findings

if TYPE_CHECKING:
    from t4lint.findings import Finding, Fix, Report, RunInfo, Verdict
    from t4lint.trace import Location


def render(report: Report, *, version: str) -> str:
    """The report as JSON, with a line end. `version` is that of t4lint."""
    return common.harmless(document(report, version=version).model_dump_json(indent=2)) + "\n"


def schema() -> dict[str, Any]:
    """The JSON schema of what `render` returns."""
    return model.Report.model_json_schema(mode="serialization")


def document(report: Report, *, version: str) -> model.Report:
    """The report as the contract's models."""
    return model.Report.model_validate(
        common.encodable(
            {
                "version": 1,
                "tool": {"name": "t4lint", "version": version},
                "target": _target(report.target),
                "findings": [_finding(finding) for finding in sorted_findings(report.findings)],
                "memory": None if report.memory is None else dict(report.memory),
                "errors": [{"path": it.path, "line": it.line, "message": it.message} for it in report.problems],
                "files": report.files,
                "runs": [_run(run) for run in report.runs],
                "notes": list(report.notes),
            }
        )
    )


def _target(name: str) -> dict[str, object]:
    from t4lint.devices import UnknownTarget, find_target

    try:
        gpu = find_target(name).gpu
    except UnknownTarget:
        gpu = None
    if gpu is None:
        return {"name": name}
    capability = ".".join(str(part) for part in gpu.capability)
    return {"name": name, "gpu": gpu.device_name, "capability": capability, "total_memory": gpu.total_memory}


def _finding(finding: Finding) -> dict[str, object]:
    at = finding.location
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "presumption": finding.presumption,
        "path": at.path,
        "line": at.line,
        "column": at.column,
        "end_line": at.end_line,
        "end_column": at.end_column,
        "cell": at.cell,
        "cell_line": at.cell_line,
        "message": finding.message,
        "help": finding.help,
        "provenance": [place(origin.location, origin.note) for origin in finding.provenance],
        "fix": _fix(finding.fix),
        "fingerprint": finding.fingerprint,
        "runs": list(finding.runs),
        "related": [place(related.location, related.note) for related in finding.related],
        "suppressed": None if finding.suppressed is None else finding.suppressed.reason,
        "verdict": _verdict(finding.verdict),
        "effect": None if finding.effect is None else asdict(finding.effect),
    }


def _fix(fix: Fix | None) -> dict[str, object] | None:
    if fix is None:
        return None
    edits = [{"path": it.path, "start": it.start, "end": it.end, "text": it.text} for it in fix.edits]
    return {"safety": fix.safety, "title": fix.title, "edits": edits}


def place(at: Location | None, note: str) -> dict[str, object]:
    if at is None:
        return {"path": None, "line": None, "column": None, "note": note}
    return {"path": at.path, "line": at.line, "column": at.column, "note": note}


def _verdict(verdict: Verdict | None) -> dict[str, str] | None:
    if verdict is None:
        return None
    return {
        "verdict": verdict.verdict,
        "basis": verdict.basis,
        "confidence": verdict.confidence,
        "evidence": verdict.evidence,
        "reason": verdict.reason,
    }


def _run(run: RunInfo) -> dict[str, object]:
    return {
        "launch": run.launch,
        "script": run.script,
        "command": run.command,
        "versions": dict(run.versions),
        "processes": run.processes,
        "exit_code": run.exit_code,
    }
