"""The findings of the JSON contract, one a line, for streams and `grep`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from t4lint.report import common
from t4lint.report.json_report import document

if TYPE_CHECKING:
    from t4lint.findings import Report


def render(report: Report, *, version: str) -> str:
    """One JSON object a line: a finding, or an error as `{"error": {...}}`."""
    made = document(report, version=version).model_dump(mode="json")
    rows = [*made["findings"], *({"error": error} for error in made["errors"])]
    return "".join(common.dumps(row, indent=None) for row in rows)
