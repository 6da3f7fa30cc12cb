"""The JSON contract, version 1: programs depend on it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from t4lint.findings import Finding, Problem, Related, Report, RunInfo, Verdict
from t4lint.report.json_report import render, schema
from t4lint.trace import Location, Origin

WHERE = Location("train.py", 40, 5, 40, 14)


def rendered(*findings: Finding, **more: Any) -> Any:
    made = Report(
        more.get("target", "t4"), findings, more.get("problems", ()), more.get("runs", ()), 12, {}, more.get("memory")
    )
    return json.loads(render(made, version="1.2.3"))


def test_an_empty_report() -> None:
    assert rendered() == {
        "version": 1,
        "tool": {"name": "t4lint", "version": "1.2.3"},
        "target": {"name": "t4", "gpu": "Tesla T4", "capability": "7.5", "total_memory": 15637086208},
        "findings": [],
        "memory": None,
        "errors": [],
        "files": 12,
        "runs": [],
        "notes": [],
    }


def test_a_full_report() -> None:
    finding = Finding(
        "bf16-mixed-precision", "warning", "certain", WHERE, "bf16 is emulated", "use fp16",
        provenance=(Origin("flag", "--bf16 True", Location("run.sh", 7, 3, 7, 14)), Origin("version", "torch 2.4")),
        related=(Related(Location("train.py", 3, 1, 3, 6), "the model"),),
        runs=(0,),
        fix_safety="safe",
        fingerprint="abc",
        verdict=Verdict("undecided", "cpu", "likely", "", "no device on a CPU run"),
    )  # fmt: skip
    run = RunInfo("train.py", "torchrun train.py", "run.sh:7", {"torch": "2.4"}, 2, 0)
    result = rendered(finding, problems=(Problem("a.py", "broken", 3, 5),), runs=(run,))
    assert result["findings"] == [
        {
            "rule": "bf16-mixed-precision",
            "severity": "warning",
            "confidence": "certain",
            "presumption": "",
            "path": "train.py",
            "line": 40,
            "column": 5,
            "end_line": 40,
            "end_column": 14,
            "cell": None,
            "cell_line": None,
            "message": "bf16 is emulated",
            "help": "use fp16",
            "provenance": [
                {"path": "run.sh", "line": 7, "column": 3, "note": "--bf16 True"},
                {"path": None, "line": None, "column": None, "note": "torch 2.4"},
            ],
            "fix": None,
            "fingerprint": "abc",
            "runs": [0],
            "related": [{"path": "train.py", "line": 3, "column": 1, "note": "the model"}],
            "suppressed": None,
            "verdict": {
                "verdict": "undecided",
                "basis": "cpu",
                "confidence": "likely",
                "evidence": "",
                "reason": "no device on a CPU run",
            },
            "effect": None,
        }
    ]
    assert result["errors"] == [{"path": "a.py", "line": 3, "message": "broken"}]
    assert result["runs"] == [
        {
            "launch": "run.sh:7",
            "script": "train.py",
            "command": "torchrun train.py",
            "versions": {"torch": "2.4"},
            "processes": 2,
            "exit_code": 0,
        }
    ]


def test_notebook_cells() -> None:
    where = Location("a.ipynb", 30, 5, 30, 9, cell=0, cell_line=2)
    (finding,) = rendered(Finding("r", "note", "likely", where, "", ""))["findings"]
    assert (finding["line"], finding["cell"], finding["cell_line"]) == (30, 0, 2)


def test_memory() -> None:
    memory = {
        "peak_allocated": 10, "peak_reserved": 12, "low": 9, "high": 13, "limit": 15, "phase": "backward",
        "components": {"weights": 4}, "basis": "phantom",
    }  # fmt: skip
    assert rendered(memory=memory)["memory"] == memory
    with pytest.raises(ValidationError):
        rendered(memory={**memory, "surprise": 1})


def test_a_target_without_a_gpu() -> None:
    assert rendered(target="cpu")["target"] == {"name": "cpu", "gpu": None, "capability": None, "total_memory": None}


def test_file_names_that_are_no_text() -> None:
    assert rendered(problems=(Problem("a\udc80.py", "模型"),))["errors"][0] == {
        "path": "a\\udc80.py",
        "line": None,
        "message": "模型",
    }


def test_the_schema_names_every_field() -> None:
    found = schema()
    assert list(found["properties"]) == [
        "version", "tool", "target", "findings", "memory", "errors", "files", "runs", "notes",
    ]  # fmt: skip
    assert found["$defs"]["Verdict"]["properties"]["verdict"]["enum"] == [
        "confirmed", "refuted", "undecided", "not exercised",
    ]  # fmt: skip
