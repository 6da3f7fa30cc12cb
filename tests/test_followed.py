"""Every way in which a setting reaches a call, in a small project where it is reachable only that way: bad, and good.

The rows are in `fixtures/followed/*.md`: a heading, then the files of a project as code blocks. `<<bad|good>>` stands for one
text in the bad project and another in the good one. The bad one has one finding of the rule on each line with such a mark, or
where `<<@>>` stands if there is one; the good one has none. Rows that say "not followed yet" are expected to fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from t4lint.engine import Options, check

FOLDER = Path(__file__).parent.parent / "fixtures" / "followed"
BLOCK = re.compile(r"^(`{3,})(\w+) (\S+)\n(.*?)^\1\n", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<<(?:(?P<place>@)|(?P<bad>[^<>|\n]*)\|(?P<good>[^<>|\n]*))>>")
RULES = ("bf16-mixed-precision", "bf16-guard-always-true")
RULE = re.compile(r"^rule: ([\w-]+)$", re.MULTILINE)
PENDING = re.compile(r"^not followed yet", re.MULTILINE)
TARGET = re.compile(r"^target: ([\w-]+)$", re.MULTILINE)


@dataclass
class Row:
    """One way: the files of its project, the rules that are asked, and the target."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = RULES
    target: str = "t4"
    pending: bool = False


def rows() -> Iterator[Row]:
    for page in sorted(FOLDER.glob("*.md")):
        for part in page.read_text(encoding="utf-8").split("\n## ")[1:]:
            title, _, body = part.partition("\n")
            row = Row(f"{page.stem}: {title}")
            words = BLOCK.sub("", body)
            if found := RULE.search(words):
                row.rules = (found[1],)
            row.pending = bool(PENDING.search(words))
            if found := TARGET.search(words):
                row.target = found[1]
            for block in BLOCK.finditer(body):
                row.files[block[3]] = block[4]
            yield row


def notebook(text: str) -> str:
    """Cells separated by `# %%` lines, as a notebook."""
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": cell.splitlines(True)}
        for cell in re.split(r"^# %%\n", text, flags=re.MULTILINE)
        if cell.strip()
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def written(row: Row, folder: Path, bad: bool) -> list[tuple[str, int]]:
    """Write the project; the places of its marks."""
    marks, places = [], []
    for name, text in row.files.items():
        text = notebook(text) if name.endswith(".ipynb") else text
        for number, line in enumerate(text.splitlines(), 1):
            kinds = [found["place"] for found in MARK.finditer(line)]
            marks += [(name, number)] if None in kinds else []
            places += [(name, number)] if "@" in kinds else []
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(MARK.sub(lambda found: found["bad" if bad else "good"] or "", text), encoding="utf-8")
    return places or marks


ROWS = {row.name: row for row in rows()}


def as_parameter(row: Row) -> object:
    marks = [pytest.mark.xfail(strict=True, reason="not followed yet")] if row.pending else []
    return pytest.param(row.name, marks=marks)


@pytest.mark.parametrize("name", [as_parameter(row) for row in ROWS.values()])
def test_a_setting_is_followed(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    for bad in (True, False):
        folder = tmp_path / ("bad" if bad else "good")
        wanted = written(row, folder, bad)
        assert wanted, "no mark in this row"
        report = check([folder], Options(cwd=folder, target=row.target))
        assert not report.problems, report.problems
        found = sorted({(f.location.path, f.location.line) for f in report.findings if f.rule in row.rules})
        assert found == (sorted(wanted) if bad else []), [(f.rule, str(f.location)) for f in report.findings]
