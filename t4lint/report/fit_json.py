"""`t4lint fit` for machines: the report of all commands, with `memory` of the largest step and the details in `fit`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from t4lint.fit import contract
from t4lint.report import common, json_report, model

if TYPE_CHECKING:
    from t4lint.fit import Fit, FitReport
    from t4lint.memory.estimate import Band


def render(found: FitReport, *, version: str) -> str:
    """The report as JSON, with a line end."""
    plain = json_report.document(found.report, version=version).model_dump()
    measured = [fit for fit in found.fits if fit.usage is not None]
    largest = max(measured, key=lambda fit: fit.expected, default=None)
    plain["memory"] = contract(largest) if largest is not None else None
    plain["fit"] = common.encodable([_step(fit) for fit in found.fits])
    return common.harmless(model.FitReport.model_validate(plain).model_dump_json(indent=2)) + "\n"


def _step(fit: Fit) -> dict[str, object]:
    uses = fit.usage
    reading = fit.reading
    return {
        "run": fit.run,
        "answer": fit.answer,
        "memory": contract(fit),
        "bands": {name: _band(band) for name, band in uses.components.items()} if uses else {},
        "moments": {name: _band(band) for name, band in uses.moments.items()} if uses else {},
        "facts": [
            {"name": it.name, "text": it.text, "sure": it.sure,
             "provenance": [json_report.place(origin.location, origin.note) for origin in it.origins]}
            for it in reading.facts
        ],
        "open": list(reading.open),
        "missing": [{"name": it.name, "reason": it.reason, "flag": it.flag} for it in reading.missing],
        "ways": [
            {"title": it.title, "cost": it.cost, "low": int(it.peak[0]), "high": _bounded(it.peak[1]),
             "expected": int(it.expected), "fits": it.fits}
            for it in fit.ways
        ],
        "largest_batch": fit.largest_batch,
        "largest_length": fit.largest_length,
        "sections": [{"title": it.title, "rows": [list(row) for row in it.rows], "note": it.note, "values": it.values}
                     for it in fit.sections],
    }  # fmt: skip


def _band(band: Band) -> tuple[int, int | None]:
    return (int(band[0]), _bounded(band[1]))


def _bounded(size: float) -> int | None:
    return int(size) if math.isfinite(size) else None
