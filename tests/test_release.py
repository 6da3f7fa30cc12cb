"""Releases: the tag is the version, and the wheel works on a machine that has nothing of the checkout."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import t4lint

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = """\
# Changelog

## [Unreleased]

### Added

- Something.

## [0.1.0] - 2026-01-01

- All of it.
"""


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = script("release")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "t4lint").mkdir()
    (tmp_path / "t4lint" / "__init__.py").write_text((ROOT / "t4lint" / "__init__.py").read_text())
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_the_command_that_is_installed_is_there() -> None:
    declared = re.search(r'^t4lint = "([\w.]+):(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared is not None
    module, name = declared.groups()
    assert callable(getattr(importlib.import_module(module), name))


def test_the_version_is_found() -> None:
    assert release.version_of(ROOT) == t4lint.__version__
    assert release.notes(ROOT, "Unreleased")


def test_a_release(checkout: Path) -> None:
    with pytest.raises(release.Refused, match=r"no section \[3\.0\.0\]|not the version"):
        release.check(checkout, "v3.0.0")
    assert release.prepare(checkout, "3.0.0", "2026-12-01")
    release.check(checkout, "v3.0.0")
    assert release.notes(checkout, "3.0.0") == "### Added\n\n- Something.\n"
    assert release.notes(checkout, "0.1.0") == "- All of it.\n"
    assert "## [Unreleased]\n\n## [3.0.0] - 2026-12-01\n" in (checkout / "CHANGELOG.md").read_text()
    for tag in ("v3.0.1", "3.0.0", "v3.0.0rc1"):
        with pytest.raises(release.Refused, match="is not the version of the code"):
            release.check(checkout, tag)


@pytest.mark.parametrize("version", ["v3.0.0", "3.0", "3.0.0.dev1", ""])
def test_versions_that_are_none(version: str, checkout: Path) -> None:
    with pytest.raises(release.Refused, match="is not a version"):
        release.prepare(checkout, version, "2026-12-01")


def test_nothing_to_release(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n- All of it.\n")
    with pytest.raises(release.Refused, match="says nothing under Unreleased"):
        release.prepare(checkout, "3.0.0", "2026-12-01")


def test_mistakes_end_with_1() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "release.py"), "--check", "v99.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "v99.0.0 is not the version of the code" in done.stderr


# --- the workflow -------------------------------------------------------------------------------------------------


def workflow(name: str) -> Any:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))


def test_every_supported_python_and_system_is_tried_before_anything_is_published() -> None:
    jobs = workflow("release.yml")["jobs"]
    matrix = jobs["try"]["strategy"]["matrix"]
    assert [system.partition("-")[0] for system in matrix["os"]] == ["ubuntu", "macos", "windows"]
    classifiers = (ROOT / "pyproject.toml").read_text().split('"Programming Language :: Python :: 3.')[1:]
    assert matrix["python"] == [f"3.{it.partition(chr(34))[0]}" for it in classifiers]
    assert (jobs["try"]["needs"], jobs["publish"]["needs"]) == ("build", ["test", "try"])
    assert jobs["test"] == {"uses": "./.github/workflows/ci.yml"} and "workflow_call" in workflow("ci.yml")[True]
    assert jobs["publish"]["permissions"]["id-token"] == "write" and "tag" in jobs["publish"]["if"]
    assert "password" not in str(jobs) and "secrets" not in str(jobs)


def test_the_scripts_of_the_workflows_are_there() -> None:
    for name in ("release.yml", "ci.yml"):
        steps = [step for job in workflow(name)["jobs"].values() for step in job.get("steps", [])]
        words = " ".join(step.get("run", "") for step in steps).split()
        named = [word for word in words if word.startswith("scripts/")]
        assert named and all((ROOT / word).is_file() for word in named)


@pytest.mark.heavy
def test_the_wheel_works_far_from_the_checkout(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    script("try_wheel").main(tmp_path)
