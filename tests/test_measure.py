"""What a fix does to a run: pairs, intervals, and the words for them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from t4lint.findings import Effect, Finding, Fix, TextEdit
from t4lint.measure import Sample, Texts, change, compared, effect, measure, sample_of
from t4lint.record.journal import Journal, Record
from t4lint.record.launch import Outcome, Recording
from t4lint.record.observe import COMMAND
from t4lint.report.text import measured
from t4lint.trace import Location

ROOT = Path(__file__).resolve().parents[1]


def samples(*seconds: float, loss: float = 1.0, memory: float = 2**20) -> list[Sample]:
    return [Sample(value, memory, (loss, loss / 2)) for value in seconds]


def test_the_interval_is_students() -> None:
    # log ratios -0.1, 0.0, 0.1: mean 0, standard deviation 0.1, t(2) = 4.303
    found = change([(1.0, math.exp(value)) for value in (-0.1, 0.0, 0.1)])
    assert found is not None
    assert found.ratio == pytest.approx(1.0)
    assert math.log(found.high) == pytest.approx(4.303 * 0.1 / math.sqrt(3))
    assert math.log(found.low) == pytest.approx(-math.log(found.high))
    assert change([(1.0, 2.0)]) is None and change([(None, 1.0), (1.0, None)]) is None


@pytest.mark.parametrize(
    ("before", "after", "conclusion"),
    [
        (samples(1.0, 1.0, 1.0), samples(0.5, 0.51, 0.49), "faster"),
        (samples(1.0, 1.0, 1.0), samples(2.0, 2.1, 1.9), "slower"),
        (samples(1.0, 1.0, 1.0), samples(0.7, 1.0, 1.4), "no measurable gain"),
        (samples(1.0, 1.0, 1.0), samples(0.995, 0.995, 0.995), "no measurable gain"),  # sure, and not worth it
        (samples(1.0, 1.0), samples(1.0, 1.0, memory=2**19), "less memory"),
        (samples(1.0, 1.0), samples(0.5, 0.5, loss=1.1), "faster; the loss changes"),
        (
            samples(1.0, 1.0),
            [Sample(failed="out of time")],
            "not measured: the program with the fix failed: out of time",
        ),
    ],
)
def test_conclusions(before: list[Sample], after: list[Sample], conclusion: str) -> None:
    assert effect(before, after, "cpu").conclusion == conclusion


def test_losses_are_compared_with_their_own_spread() -> None:
    noisy = [Sample(1.0, 1.0, (1.0,)), Sample(1.0, 1.0, (1.2,))]
    assert compared(noisy, [Sample(1.0, 1.0, (1.15,))]) == "same"
    assert compared(noisy, [Sample(1.0, 1.0, (2.0,))]) == "differs"
    assert compared([Sample(1.0, 1.0, (None,))], [Sample(1.0, 1.0, (1.0,))]) == "not seen"
    nan = [Sample(1.0, 1.0, (math.nan,))]
    assert compared(nan, nan) == "same" and compared(samples(1.0), nan) == "differs"


def step(pid: int, number: int, seconds: float | None, peak: int) -> Record:
    told = {"seconds": seconds, "peak": peak, "loss": 1.0 / number}
    return Record(v=1, k="memory", t=float(number), pid=pid, st=number, d=told)


def recording(*records: Record, how: str = "stopped", detail: str = "") -> Recording:
    outcome = Outcome(how, 0, detail)  # type: ignore[arg-type]
    return Recording(("python",), Path("/p"), Path("/p"), Journal(records), outcome, 1.0, "", "")


def test_a_sample_is_the_median_after_the_warm_up_of_the_slowest_rank() -> None:
    times = [None, 9.0, 1.0, 2.0, 3.0]
    first = [step(1, number, seconds, 100) for number, seconds in enumerate(times, 1)]
    second = [step(2, number, seconds and seconds * 2, 50 + number) for number, seconds in enumerate(times, 1)]
    found = sample_of(recording(*first, *second))
    assert (found.seconds, found.memory) == (4.0, 155)
    assert found.losses == (1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5)
    assert sample_of(recording(*first[:4])).seconds is None  # two measured steps say nothing
    assert sample_of(recording()).failed == "no optimizer step was seen"
    assert sample_of(recording(*first, how="timeout", detail="too long")).failed == "too long"


def finding(path: str, start: tuple[int, int], end: tuple[int, int], text: str, name: str = "rule") -> Finding:
    fix = Fix("safe", "Do it", (TextEdit(path, start, end, text),))
    return Finding(name, "warning", "certain", Location(path, 1, 1, 1, 2), "", "", fingerprint=name, fix=fix)


def test_runs_alternate_and_see_the_fixed_texts() -> None:
    seen: list[tuple[tuple[str, ...], dict[str, str]]] = []

    def run(argv: Sequence[str], texts: Texts) -> Recording:
        seen.append((tuple(argv), dict(texts)))
        return recording(*(step(1, number, 1.0, 100) for number in range(1, 7)))

    argv = ["python", "train.py", "--workers", "0"]
    findings = [
        finding("train.py", (1, 5), (1, 10), "True", "in the file"),
        finding(COMMAND, (1, 27), (1, 28), "2", "in the command"),
        finding("gone.py", (1, 1), (1, 1), "", "in a file that is gone"),
    ]
    texts = {"train.py": "a = False\n"}
    found = measure(argv, findings, texts.get, run, pairs=2, basis="cpu")
    plain = (tuple(argv), {})
    fixed = (tuple(argv), {"train.py": "a = True\n"})
    command = (("python", "train.py", "--workers", "2"), {})
    assert seen == [plain, fixed, command, command, fixed, plain]
    assert found["in the file"].conclusion == "no measurable gain" and found["in the file"].loss == "same"
    assert found["in a file that is gone"] == Effect("not measured: gone.py cannot be read")


def test_the_words() -> None:
    said = measured(effect(samples(1.0, 1.0), samples(0.5, 0.5), "cpu"))
    assert said == (
        "with the fix: faster on this CPU; step 1000 to 500 ms (-50.0% to -50.0%), peak 1 to 1 MiB (+0.0% to +0.0%), "
        "the same loss; 2 pairs"
    )
    assert measured(Effect("not measured: x")) == "not measured: x"


PROGRAM = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.autograd.set_detect_anomaly(True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(40)], nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in DataLoader(torch.randn(512, 16), batch_size=16, pin_memory=False):
        loss = model(x.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.heavy
def test_measured_for_real(tmp_path: Path) -> None:
    """Without anomaly detection a step is faster; pinned batches do nothing for a CPU. No number is asserted."""
    pytest.importorskip("torch")
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(PROGRAM).lstrip())
    before = program.read_bytes()
    called = [sys.executable, "-m", "t4lint", "verify", "--measure", "--pairs", "2", "--steps", "6"]
    called += ["--output-format", "json", "--", sys.executable, "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        called, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1, done.stderr
    found = {one["rule"]: one for one in json.loads(done.stdout)["findings"]}
    for name in ("anomaly-detection-left-on", "pin-memory-disabled"):
        said = found[name]["effect"]
        assert (said["pairs"], said["basis"], said["loss"]) == (2, "cpu", "same"), said
        assert said["seconds"]["low"] <= said["seconds"]["ratio"] <= said["seconds"]["high"]
        assert said["memory"]["before"] > 2**20 and said["conclusion"]
    assert "measuring the fixes: 6 runs" in done.stderr
    assert program.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_other_formats_tell_it_too() -> None:
    from t4lint.findings import Report, Verdict
    from t4lint.report import sarif
    from t4lint.report.common import explained

    one = Finding(
        "rule", "warning", "certain", Location("train.py", 1, 1, 1, 2), "It is slow", "",
        verdict=Verdict("confirmed", "cpu", "certain"), effect=effect(samples(1.0, 1.0), samples(0.5, 0.5), "cpu"),
    )  # fmt: skip
    assert explained(one).splitlines()[-1] == "with the fix: faster"
    told = json.loads(sarif.render(Report("t4", (one,), (), (), 1), version="1"))
    (result,) = told["runs"][0]["results"]
    assert result["properties"]["effect"]["conclusion"] == "faster"
