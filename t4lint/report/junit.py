"""JUnit XML, which nearly every CI can show: a suite a file, a test case a finding."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from t4lint.language import phrase
from t4lint.report import common
from t4lint.report.text import place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from t4lint.findings import Finding, Problem, Report

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, *, version: str) -> str:
    """The report as XML. Notes are shown and do not fail; files without findings are cases that passed."""
    findings = common.active(report)
    suites = [
        _suite(path, list(group), report.language) for path, group in groupby(findings, key=lambda it: it.location.path)
    ]
    suites += [
        _problem_suite(path, list(group), report.language)
        for path, group in groupby(report.problems, key=lambda it: it.path)
    ]
    if clean := _clean_suite(report):
        suites.append(clean)
    root = ET.Element("testsuites", _counts(suites), name="t4lint")
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(path: str, findings: list[Finding], language: str) -> ET.Element:
    return _new_suite(path, [_case(finding, language) for finding in findings])


def _problem_suite(path: str, problems: list[Problem], language: str) -> ET.Element:
    return _new_suite(path or "t4lint", [_problem(problem, language) for problem in problems])


def _clean_suite(report: Report) -> ET.Element | None:
    """The files without findings; when their names are not known and there is nothing else, one case for all."""
    bad = {it.location.path for it in common.active(report)} | {it.path for it in report.problems}
    none = phrase("no findings", report.language)
    cases = [ET.Element("testcase", name=none, classname=_clean(path)) for path in report.checked if path not in bad]
    if not cases and not bad:
        none = phrase(f"no findings ({report.files} files)", report.language)
        cases = [ET.Element("testcase", name=none, classname="t4lint")]
    return _new_suite("t4lint", cases) if cases else None


def _new_suite(name: str, cases: list[ET.Element]) -> ET.Element:
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
    }
    suite = ET.Element("testsuite", counts, name=_clean(name))
    suite.extend(cases)
    return suite


def _counts(suites: Iterable[ET.Element]) -> dict[str, str]:
    suites = list(suites)
    return {name: str(sum(int(suite.attrib[name]) for suite in suites)) for name in ("tests", "failures", "errors")}


def _case(finding: Finding, language: str) -> ET.Element:
    name = f"{finding.rule} ({finding.location.line}:{finding.location.column})"
    case = ET.Element("testcase", name=_clean(name), classname=_clean(finding.location.path))
    text = f"{place(finding.location)}\n{common.explained(finding, language)}"
    if finding.severity == "note":
        ET.SubElement(case, "system-out").text = _clean(text)
    else:
        failure = ET.SubElement(
            case, "failure", type=finding.severity, message=_clean(common.one_line(finding.message))
        )
        failure.text = _clean(text)
    return case


def _problem(problem: Problem, language: str) -> ET.Element:
    name = phrase("could not be checked", language) + (f" ({problem.line})" if problem.line else "")
    case = ET.Element("testcase", name=name, classname=_clean(problem.path or "t4lint"))
    ET.SubElement(case, "error", type="problem", message=_clean(common.one_line(problem.message)))
    return case


def _clean(text: str) -> str:
    """Text without what XML cannot hold, not even escaped."""
    return _NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", common.lines(text))
