"""`t4lint doctor`: what it looks at, and that nothing of the person's is imported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from t4lint import cli, doctor

FAKE = """#!{python}
import json, sys
print(json.dumps({{"python": [3, 12, 1], "versions": {versions}, "cuda": {cuda}}}))
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the trial of the phantom, which imports torch."""
    monkeypatch.setattr(doctor, "_phantom", lambda interpreter, torch: doctor.Check("phantom T4", "ok", "works"))


def of(folder: Path, name: str) -> doctor.Check:
    return next(check for _, found in doctor.checks(folder) for check in found if check.name == name)


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], cuda: str | None) -> None:
    """A `python` on the PATH that says this of itself."""
    file = folder / "python"
    file.write_text(FAKE.format(python=sys.executable, versions=versions, cuda=repr(cuda)))
    file.chmod(0o755)
    monkeypatch.setattr(doctor, "_interpreter", lambda: str(file))


@pytest.mark.usefixtures("quick")
def test_nothing_of_the_folder_is_imported_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "sitecustomize", "json", "conftest", "setup"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert cli.main(["doctor"]) == 0
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.usefixtures("quick")
def test_the_versions_of_the_persons_own_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, monkeypatch, {"torch": "2.9.0+cu128", "trl": "1.0"}, "12.8")
    assert of(tmp_path, "python").said.startswith("3.12.1 (")
    assert of(tmp_path, "torch").said == "2.9.0+cu128, built for CUDA 12.8"
    assert of(tmp_path, "libraries").said == "trl 1.0"


@pytest.mark.usefixtures("quick")
def test_a_gpu_that_torch_cannot_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, monkeypatch, {"torch": "2.9.0"}, None)
    monkeypatch.setattr(doctor, "_gpus", lambda: [("Tesla T4", "15360", "550.54", "7.5")])
    check = of(tmp_path, "device")
    assert check.state == "problem"
    assert "install a CUDA build" in check.next
    assert of(tmp_path, "real device").state == "missing"
    pretend(tmp_path, monkeypatch, {"torch": "2.9.0"}, "12.8")
    assert of(tmp_path, "real device").data == {"basis": "t4"}
    monkeypatch.setattr(doctor, "_gpus", lambda: [("NVIDIA A100-SXM4-40GB", "40960", "550.54", "8.0")])
    assert of(tmp_path, "real device").data == {"basis": "gpu"}


@pytest.mark.usefixtures("quick")
def test_no_python_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_interpreter", lambda: None)
    assert of(tmp_path, "python").next == "activate the environment of your training code"


@pytest.mark.usefixtures("quick")
def test_bad_settings_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "t4lint.toml").write_text('target = "t4"\ntargett = "x"\n')
    check = of(tmp_path, "settings")
    assert check.state == "problem"
    assert "t4lint.toml:2: " in check.said


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("width", [40, 60, 100])
def test_lines_keep_within_the_width(width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, monkeypatch, {"torch": "2.9.0", **{f"library{n}": "1.2.3" for n in range(9)}}, "12.8")
    text = doctor.text(tmp_path, colour=False, width=width, language="en")
    words = [line for line in text.splitlines() if "/" not in line]  # a path is one word
    assert max(map(len, words)) <= width


@pytest.mark.usefixtures("quick")
def test_json_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["doctor", "--output-format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["version"] == 1
    assert [it["name"] for it in told["sections"]] == ["t4lint", "your Python", "GPU", "verify", "this folder"]
    assert {check["state"] for it in told["sections"] for check in it["checks"]} <= {"ok", "missing", "problem", "info"}


@pytest.mark.heavy
def test_the_phantom_is_tried_with_the_persons_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    check = doctor._phantom(sys.executable, True)
    assert (check.state, check.next) == ("ok", "")
