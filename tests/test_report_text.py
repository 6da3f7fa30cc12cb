"""What people see: each test is one report and the text that it must be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from t4lint.engine import Options, check
from t4lint.findings import Finding, Problem, Related, Report, RunInfo, Verdict
from t4lint.language import translated
from t4lint.report.frame import visible
from t4lint.report.text import render
from t4lint.rule import Confidence, FixSafety, Severity
from t4lint.trace import Location, Origin

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = "Found 1 finding (1 warning) in 1 file; target: NVIDIA T4"


def at(line: int, column: int, end_line: int, end_column: int, path: str = "train.py") -> Location:
    return Location(path, line, column, end_line, end_column)


def finding(
    where: Location,
    *,
    message: str = "something",
    help: str = "",
    severity: Severity = "warning",
    confidence: Confidence = "certain",
    provenance: tuple[Origin, ...] = (),
    related: tuple[Related, ...] = (),
    runs: tuple[int, ...] = (),
    verdict: Verdict | None = None,
) -> Finding:
    return Finding(
        "some-rule", severity, confidence, where, message, help,
        provenance=provenance, related=related, runs=runs, verdict=verdict,
    )  # fmt: skip


def report(
    *findings: Finding,
    source: str | None = None,
    problems: tuple[Problem, ...] = (),
    runs: tuple[RunInfo, ...] = (),
    files: int = 1,
    target: str = "t4",
) -> Report:
    return Report(target, findings, problems, runs, files, {} if source is None else {"train.py": source})


def shown(report: Report, width: int = 120, wrap: bool = False, verbose: bool = False) -> str:
    return render(report, colour=False, width=width, wrap=wrap, verbose=verbose)


def frame(source: str, where: Location, width: int = 120) -> list[str]:
    """The rows of the code frame alone."""
    lines = shown(report(finding(where), source=source), width).split("\n\n")[0].splitlines()
    return lines[3:]


def same(actual: str, expected: str) -> None:
    assert actual.splitlines() == dedent(expected).strip("\n").splitlines()


def test_a_finding_with_all_that_it_can_have() -> None:
    source = "import torch\n\nmodel = torch.nn.Linear(2, 2)\nargs = Args(bf16=True)\n"
    runs = (RunInfo("train.py", "torchrun train.py --bf16 True", "run.sh:7"), RunInfo("train.py", "python train.py"))
    it = finding(
        at(4, 13, 4, 22),
        message="bf16 is emulated",
        help="use fp16=True",
        confidence="likely",
        provenance=(
            Origin("flag", "--bf16 True", at(7, 3, 7, 14, "run.sh")),
            Origin("version", "transformers 5 or newer"),
        ),
        related=(Related(at(3, 1, 3, 6), "the model"), Related(at(9, 1, 9, 2, "other.py"), "used here")),
        runs=(0,),
        verdict=Verdict("confirmed", "cpu", "certain", "12 of 12 matmuls in bfloat16"),
    )
    same(
        shown(report(it, source=source, runs=runs, files=12)),
        """
        warning[some-rule]: bf16 is emulated
         --> train.py:4:13
          |
        4 | args = Args(bf16=True)
          |             ^^^^^^^^^
         ::: train.py:3:1
          |
        3 | model = torch.nn.Linear(2, 2)
          | ----- the model
          |
          = from: --bf16 True (run.sh:7:3)
          = from: transformers 5 or newer
          = see: used here (other.py:9:1)
          = help: use fp16=True
          = run: torchrun train.py --bf16 True (run.sh:7)
          = confidence: likely
          = confirmed on cpu: 12 of 12 matmuls in bfloat16

        Found 1 finding (1 warning) in 12 files; target: NVIDIA T4; 1 confirmed
        """,
    )


def test_without_source_text_the_place_is_enough() -> None:
    same(
        shown(report(finding(at(4, 13, 4, 22), help="do this"))),
        f"""
        warning[some-rule]: something
         --> train.py:4:13
          = help: do this

        {SUMMARY}
        """,
    )


def test_a_line_that_is_no_longer_there_is_not_shown() -> None:
    assert frame("x = 1\n", at(40, 1, 40, 2)) == []


def test_a_step_that_the_frame_shows_is_not_repeated() -> None:
    where = at(1, 1, 1, 6)
    text = shown(report(finding(where, provenance=(Origin("literal", "x = 1", where),)), source="x = 1"))
    assert "from:" not in text


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (Verdict("confirmed", "t4", "certain", "3 of 3 steps"), "  = confirmed on t4: 3 of 3 steps"),
        (Verdict("refuted", "phantom", "likely", "no bf16"), "  = refuted on phantom (likely): no bf16"),
        (Verdict("undecided", "cpu", "certain", reason="no device"), "  = undecided on cpu: no device"),
        (Verdict("not exercised", "cpu", "certain", reason="never reached"), "  = not exercised: never reached"),
        (Verdict("not exercised", "cpu", "certain"), "  = not exercised"),
    ],
)
def test_verdicts(verdict: Verdict, line: str) -> None:
    text = shown(report(finding(at(1, 1, 1, 2), verdict=verdict)))
    assert line in text.splitlines()
    assert text.endswith(f"; 1 {verdict.verdict}\n")


def test_notebooks_are_named_by_cell() -> None:
    text = shown(report(finding(Location("a.ipynb", 30, 5, 30, 9, cell=3, cell_line=2))))
    assert " --> a.ipynb:cell 4:2:5" in text.splitlines()


# --- frames ------------------------------------------------------------------------------------------------------


def test_tabs_are_expanded() -> None:
    assert frame("if x:\n\ty\t= 1\n", at(2, 4, 2, 7)) == ["2 |     y   = 1", "  |         ^^^"]


def test_wide_characters_take_two_cells() -> None:
    assert frame('a = "模型"; b = 1', at(1, 11, 1, 16)) == ['1 | a = "模型"; b = 1', "  |             ^^^^^"]


def test_an_empty_span_has_one_caret_even_at_the_end() -> None:
    assert frame("x = 1", at(1, 99, 1, 99)) == ["1 | x = 1", "  |      ^"]


def test_control_characters_are_spelled_out() -> None:
    assert frame("s = '\x1b[2J'; t = 1", at(1, 13, 1, 14)) == [r"1 | s = '\x1b[2J'; t = 1", "  |                ^"]


def test_only_line_ends_end_lines() -> None:
    assert frame("a = 1\x0c\nb = '\u2028'\r\nc = 1\rd = 1", at(4, 1, 4, 2)) == ["4 | d = 1", "  | ^"]


def test_a_span_of_several_lines() -> None:
    source = "model = DDP(\n    net,\n    unused=True,\n)\n"
    assert frame(source, at(1, 9, 4, 2)) == [
        "1 |   model = DDP(",
        "  |  _________^",
        "2 | |     net,",
        "3 | |     unused=True,",
        "4 | | )",
        "  | |_^",
    ]


def test_a_long_span_from_the_first_word_of_its_line() -> None:
    source = "for x in y:\n" + "    step()\n" * 20
    assert frame(source, at(1, 1, 22, 1)) == [
        "  1 | / for x in y:",
        "  2 | |     step()",
        "  3 | |     step()",
        "... | |",
        " 21 | |     step()",
        "    | |__________^",
    ]


def test_a_long_line_is_cut_on_both_sides_of_its_span() -> None:
    source = "x = [" + "1, " * 100 + "]; bf16 = True; y = [" + "2, " * 100 + "]"
    start = source.index("bf16") + 1
    assert frame(source, at(1, start, 1, start + 4), width=50) == [
        "1 | ...1, 1, 1, 1, 1, ]; bf16 = True; y = [2, 2...",
        "  |                      ^^^^",
    ]


def test_a_long_line_is_cut_at_its_end_only_when_the_span_is_near_the_start() -> None:
    assert frame("bf16 = True  # " + "why " * 50, at(1, 1, 1, 5), width=40) == [
        "1 | bf16 = True  # why why why why wh...",
        "  | ^^^^",
    ]


def test_a_huge_line_is_no_trouble() -> None:
    source = "x" * 3_000_000
    rows = frame(source, at(1, 2_000_000, 1, 2_900_000), width=60)
    assert all(len(row) <= 60 for row in rows)


@pytest.mark.parametrize("width", [0, 1, 20, 40, 41, 57, 80])
@pytest.mark.parametrize("span", [(1, 1), (1, 200), (5, 9), (90, 110), (195, 201), (500, 600)])
def test_frames_keep_to_the_width(width: int, span: tuple[int, int]) -> None:
    rows = frame("模b\t\x00" * 50, at(1, span[0], 1, span[1]), width)
    assert len(rows) == 2
    from rich.cells import cell_len

    assert all(cell_len(row) <= max(width, 40) for row in rows)


# --- text that would harm a terminal -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain 模型 é", "plain 模型 é"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\u202eb\u2066", r"a\u202eb\u2066"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\U000e0041"),
        ("no\u00a0break", "no\u00a0break"),
        ("👩\u200d👩", "👩\u200d👩"),
    ],
)
def test_visible(text: str, safe: str) -> None:
    assert visible(text) == safe


@pytest.mark.parametrize("colour", [False, True])
def test_no_control_sequence_gets_through(colour: bool) -> None:
    evil = "\x1b[31m\x07\x9b\x08"
    it = Finding(
        f"r{evil}", "error", "certain", at(1, 1, 1, 2, f"{evil}.py"), f"m{evil}", f"h{evil}",
        provenance=(Origin("flag", f"n{evil}", at(1, 1, 1, 2, f"p{evil}")),),
        related=(Related(at(1, 1, 1, 2, f"{evil}.py"), f"l{evil}"), Related(at(1, 1, 1, 2, "o"), f"s{evil}")),
        runs=(0,),
        verdict=Verdict("confirmed", "cpu", "certain", f"e{evil}", f"w{evil}"),
    )  # fmt: skip
    runs = (RunInfo(f"s{evil}", f"c{evil}", f"l{evil}"), RunInfo("a", "b"))
    made = Report("t4", (it,), (Problem(f"p{evil}", f"q{evil}"),), runs, 1, {f"{evil}.py": f"code{evil}"})
    text = render(made, colour=colour, width=80, wrap=True, verbose=True)
    assert "\x1b[31m\\" not in text
    assert not set(text) & set("\x07\x9b\x08")
    assert ("\x1b" in text) is colour


# --- around the findings -----------------------------------------------------------------------------------------


def test_findings_come_by_path_and_line() -> None:
    places = [at(9, 1, 9, 2, "b.py"), at(10, 1, 10, 2, "a.py"), at(9, 5, 9, 6, "a.py"), at(9, 1, 9, 2, "a.py")]
    text = shown(report(*(finding(place) for place in places)))
    arrows = [line.strip() for line in text.splitlines() if "-->" in line]
    assert arrows == ["--> a.py:9:1", "--> a.py:9:5", "--> a.py:10:1", "--> b.py:9:1"]


def test_problems_come_after_findings() -> None:
    problems = (Problem("broken.py", "this is not Python", 3, 5), Problem("secret.py", "cannot read this file"))
    same(
        shown(report(finding(at(1, 1, 1, 2)), problems=problems)),
        f"""
        warning[some-rule]: something
         --> train.py:1:1

        error: this is not Python
         --> broken.py:3:5

        error: cannot read this file
         --> secret.py

        {SUMMARY}
        2 problems kept t4lint from checking everything
        """,
    )


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (report(files=12), "No findings in 12 files; target: NVIDIA T4"),
        (report(files=1, target="g4dn.12xlarge"), "No findings in 1 file; target: g4dn.12xlarge with 4 x NVIDIA T4"),
        (report(files=0), "No findings in 0 files; target: NVIDIA T4"),
        (report(files=0, target="no-such-gpu"), "No findings in 0 files; target: no-such-gpu"),
        (
            report(*(finding(at(1, 1, 1, 2), severity=it) for it in ("note", "error", "warning", "warning")), files=2),
            "Found 4 findings (1 error, 2 warnings, 1 note) in 2 files; target: NVIDIA T4",
        ),
    ],
)
def test_summary(made: Report, line: str) -> None:
    assert shown(made).splitlines()[-1] == line


def test_verbose_lists_the_runs() -> None:
    runs = (RunInfo("train.py", "torchrun train.py", "run.sh:7", {"torch": "2.4"}, 2, 0),)
    same(
        shown(report(runs=runs), verbose=True),
        """
        runs:
          torchrun train.py (run.sh:7): 2 processes, torch 2.4, exit code 0

        No findings in 1 file; target: NVIDIA T4
        """,
    )


def test_sentences_are_broken_on_a_terminal_only() -> None:
    it = finding(at(1, 1, 1, 2), message="m " * 40, help="use fp16 with the scaler that the Trainer brings along")
    piped, terminal = shown(report(it), 40), shown(report(it), 40, wrap=True)
    assert "  = help: use fp16 with the scaler that the Trainer brings along" in piped.splitlines()
    assert "  = help: use fp16 with the scaler\n          that the Trainer brings along\n" in terminal


def test_colour_changes_nothing_but_colour() -> None:
    import re

    it = finding(at(1, 1, 1, 6), help="do", verdict=Verdict("refuted", "cpu", "certain", "x"))
    made = report(it, source="x = 1", problems=(Problem("a", "b"),))
    coloured = render(made, colour=True)
    assert "\x1b[1;33mwarning[some-rule]\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown(made)


@pytest.mark.parametrize(
    ("kinds", "line"),
    [
        (("safe", "safe", "none"), "Fixes: --fix for up to 2 of them; --diff only shows them"),
        (("unsafe", "none"), "Fixes: --fix --unsafe-fixes for up to 1 of them; --diff --unsafe-fixes only shows them"),
        (
            ("safe", "unsafe"),
            "Fixes: --fix for up to 1 of them, --unsafe-fixes for up to 1 more; --diff only shows them",
        ),
    ],
)
def test_the_end_says_what_can_be_fixed(kinds: tuple[FixSafety, ...], line: str) -> None:
    found = report(*(replace(finding(at(1, 1, 1, 2)), fix_safety=kind) for kind in kinds))
    assert shown(found).splitlines()[-1] == line
    assert "Fixes" not in shown(replace(found, fixes_tried=True)), "each finding says it then"
    ran = replace(found.findings[0], verdict=Verdict("confirmed", "cpu", "certain"))
    assert "Fixes" not in shown(replace(found, findings=(ran,))), "verify has no such flags"
    assert "Fixes" not in shown(report(finding(at(1, 1, 1, 2))))


@pytest.mark.parametrize(
    ("page", "language", "start"), [("README.md", "en", "error["), ("README.zh-CN.md", "zh", "错误[")]
)
def test_the_sample_of_the_readme_is_what_is_printed(page: str, language: str, start: str) -> None:
    options = Options(cwd=ROOT)
    found = translated(check([ROOT / "examples" / name for name in ("finetune.py", "run.sh")], options), language)
    printed = [block for block in render(found, colour=False).split("\n\n") if block.startswith(start)]
    (sample,) = re.findall(r"```text\n(.*?tf32.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[:1]
    assert sample.rstrip("\n") in printed
