"""The page of a run: the figures behind it, what stands in it, and how a browser shows it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from t4lint.devices import find_target
from t4lint.findings import Finding, Problem, Report, Verdict
from t4lint.record.journal import Journal, Record
from t4lint.record.launch import Outcome, Recording
from t4lint.record.picture import REST, picture_of
from t4lint.report import run_page
from t4lint.trace import Location

pytest.importorskip("plotly")
ROOT = Path(__file__).resolve().parents[1]
GIB = 2**30
HOSTILE = "</script></code><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
PATH = "a\"'><b>.py"


def record(kind: str, at: int = 0, st: int = 0, pid: int = 7, u: Any = (), **data: Any) -> Record:
    return Record(v=1, k=kind, t=float(at), pid=pid, st=st, u=u, d=data)


def recorded(*records: Record) -> Recording:
    outcome = Outcome("stopped", 0, "stopped after 2 optimizer steps")
    command = ("python", HOSTILE, "train.py")
    return Recording(command, Path("/p"), Path("/p"), Journal(records), outcome, 1.5, "", "")


def counts(step: int, peak: int = GIB, counted: str = "allocated", **more: Any) -> Record:
    flops = {"ran": {"float16": 3e9, "float32": 1e9}, "asked": {"bfloat16": 4e9}}
    told = {"copies to the GPU": 2, "waits for the GPU": 1, "attention efficient": 12}
    phases = {"forward": peak // 2, "backward": peak, "optimizer": peak}
    return record("memory", step, step, counted=counted, phases=phases, peak=peak, flops=flops, counts=told, **more)


CARD = record("card", name="Tesla T4", phantom=True)
FILLS = [
    record("fill", index, step=0, number=index, in_phase=phase, components=components)
    for index, (phase, components) in enumerate(
        [
            ("setup", {"weights": GIB}),
            ("forward", {"weights": GIB, "activations": 8 * GIB}),
            ("backward", {"weights": GIB, "gradients": GIB, "temporary": GIB, HOSTILE: 5}),
        ]
    )
]
HELD = record(
    "held", allocated=9 * GIB, limit=15153902388, components={},
    largest=[{"kind": "activations", "operation": HOSTILE, "at": [PATH, 3], "bytes": GIB, "count": 2}],
)  # fmt: skip
ATTENTION = record("attention", u=[(PATH, 2)], role="call", kernel="math", why=HOSTILE, dtype="bfloat16", length=512)
PHANTOM = (CARD, *FILLS, counts(1), counts(2), HELD, ATTENTION)


def hostile_report() -> Report:
    verdict = Verdict("confirmed", "phantom", "certain", HOSTILE, "")
    where = Location(PATH, 2, 1, 2, 5)
    finding = Finding("some-rule", "warning", "certain", where, f"`x` {HOSTILE}", HOSTILE, verdict=verdict)
    text = f"import torch\nx = '{HOSTILE}'\n\u202e# \x1b[2J\n"
    return Report("t4", (finding,), (Problem(PATH, HOSTILE, 1),), (), 1, sources={PATH: text}, notes=(HOSTILE,))


def hostile_page() -> str:
    return run_page.render(hostile_report(), picture_of(recorded(*PHANTOM), find_target("t4")), version="1")


# --- figures -----------------------------------------------------------------------------------------------------


def test_a_phantom_s_memory_is_told_moment_by_moment() -> None:
    picture = picture_of(recorded(*PHANTOM), find_target("t4"))
    assert (picture.basis, picture.memory, picture.limit) == ("phantom", "held", 15153902388)
    assert [moment.phase for moment in picture.moments] == ["setup", "forward", "backward"]
    assert picture.peak is not None and sum(picture.peak.held.values()) == 9 * GIB
    assert picture.largest[0].at == f"{PATH}:3"
    assert [step.number for step in picture.steps] == [1, 2]
    assert picture.steps[0].flops == {"float16": 3e9, "float32": 1e9}


def test_what_was_told_twice_counts_once() -> None:
    picture = picture_of(recorded(*FILLS, *FILLS, CARD), find_target("t4"))
    assert len(picture.moments) == len(FILLS)


def test_of_a_gpu_the_high_water_marks_and_what_is_known_of_them() -> None:
    card = record("card", name="Tesla T4")
    holds = {"weights": GIB // 4, "gradients": GIB // 8, "optimizer": 0}
    picture = picture_of(recorded(card, counts(1, holds=holds)), find_target("t4"))
    assert (picture.basis, picture.memory) == ("t4", "marks")
    assert picture.limit == find_target("t4").gpu.usable_bytes  # type: ignore[union-attr]
    assert [sum(moment.held.values()) for moment in picture.moments] == [GIB // 2, GIB, GIB]
    assert picture.moments[0].held == {"weights": GIB // 4, "gradients": GIB // 8, REST: GIB // 8}


def test_of_a_cpu_run_nothing_is_said_of_the_card() -> None:
    picture = picture_of(recorded(counts(1, counted="resident")), find_target("t4"))
    assert (picture.basis, picture.memory, picture.limit) == ("cpu", "resident", 0)
    assert picture.steps[0].flops == {"bfloat16": 4e9}
    report = Report("t4", (), (), (), 1)
    page = run_page.render(report, picture, version="1")
    assert "It says nothing of a GPU" in page and "leaves to PyTorch" not in page


def test_a_run_without_a_step_has_a_page_too() -> None:
    picture = picture_of(recorded(record("process")), find_target("t4"))
    assert (picture.memory, picture.peak) == ("nothing", None)
    page = run_page.render(Report("t4", (), (), (), 0), picture, version="1")
    assert "No optimizer step was reached" in page


# --- the page ----------------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open = tag == "script"
        if self.open:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.open = self.open and tag != "script"

    def handle_data(self, data: str) -> None:
        if self.open:
            self.scripts[-1] += data


def test_nothing_of_the_project_is_markup() -> None:
    page = _Page(hostile_page())
    assert len(page.scripts) == 3
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not any(attributes.get("src") or attributes.get("href") for _, attributes in page.tags)


def test_only_its_own_scripts_may_run() -> None:
    page = _Page(hostile_page())
    (policy,) = [attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv")]
    allowed = set(re.findall(r"'sha256-([^']+)'", policy or ""))
    data, *code = page.scripts
    assert allowed == {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code}
    assert "unsafe-eval" not in (policy or "") and "default-src 'none'" in (policy or "")
    figures = json.loads(data)
    assert set(figures) == {"memory", "math", "attention", "traffic"}
    assert "<" not in data and not any("<" in trace["name"] for trace in figures["memory"]["data"])


def test_the_limit_is_drawn_in() -> None:
    picture = picture_of(recorded(*PHANTOM), find_target("t4"))
    figure = json.loads(run_page.memory_figure(picture).to_json())
    (line,) = figure["layout"]["shapes"]
    assert line["y0"] == line["y1"] == pytest.approx(15153902388 / GIB)
    assert figure["layout"]["yaxis"]["range"][1] > line["y0"]


def test_reordering_and_control_characters_are_spelled_out() -> None:
    page = hostile_page()
    assert "\u202e" not in page and "\x1b" not in page and "\\u202e" in page


def test_without_plotly_the_command_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')\n")
    (tmp_path / "plotly.py").write_text("raise ImportError('none here')\n")
    called = [
        sys.executable,
        "-m",
        "t4lint",
        "verify",
        "--sandbox",
        "copy",
        "--report",
        "x.html",
        "--",
        "python",
        "train.py",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        called, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 't4lint[report]'" in done.stderr and "verify runs" not in done.stderr


@pytest.mark.heavy
def test_a_browser_draws_it_offline_wide_and_narrow_light_and_dark(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is there")
    file = tmp_path / "page.html"
    file.write_text(hostile_page(), encoding="utf-8")
    said: list[str] = []
    backgrounds = set()
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            for width in (1280, 380):
                context = browser.new_context(
                    color_scheme=scheme, viewport={"width": width, "height": 800}, offline=True
                )
                page = context.new_page()
                page.on("console", lambda message: said.append(message.text))
                page.on("pageerror", lambda error: said.append(str(error)))
                page.on("dialog", lambda dialog: said.append(dialog.message))
                page.goto(file.as_uri())
                page.wait_for_selector("html[data-drawn='4']", timeout=120_000)
                assert page.evaluate("window.owned") is None
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.locator("#memory .scatterlayer .trace").count() == 5
                page.click("button[data-range=own]")
                page.wait_for_function("document.getElementById('memory').layout.yaxis.range[1] < 12")
                drawn = page.evaluate("document.getElementById('memory').layout.font.color")
                assert (
                    drawn
                    == page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--text')").strip()
                )
                backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                context.close()
        browser.close()
    assert said == [] and len(backgrounds) == 2
