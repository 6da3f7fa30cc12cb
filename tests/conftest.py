"""What several test files need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

os.environ["T4LINT_LANG"] = "en"  # whatever the locale of the machine says

PACKAGES = {"linux": "@microsoft/sarif-multitool-linux", "darwin": "@microsoft/sarif-multitool-darwin"}
VERSION = "5.7.0"


@pytest.fixture(scope="session")
def validated(request: pytest.FixtureRequest) -> Callable[[Path], list[str]]:
    """Microsoft's validator of SARIF: the errors and warnings that it has, with GitHub's rules too."""
    tool = _multitool(request)

    def validate(file: Path) -> list[str]:
        done = subprocess.run(
            [tool, "validate", file, "--rule-kind", "Sarif;Ghas", "--level", "Error;Warning"],
            env={**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Analysis completed" in done.stdout, done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if re.search(r": (error|warning)\b", line)]

    return validate


def _multitool(request: pytest.FixtureRequest) -> Path:
    """It comes from npm, and is kept in pytest's cache, since it is large."""
    npm, package = shutil.which("npm"), PACKAGES.get(sys.platform)
    if npm is None or package is None:
        pytest.skip("npm is not there")
    cache = getattr(request.config, "cache", None)  # not there under `-p no:cacheprovider`
    kept = (
        cache.mkdir("sarif-multitool")
        if cache is not None
        else request.getfixturevalue("tmp_path_factory").mktemp("npm")
    )
    folder = Path(kept) / VERSION
    tool = folder / "node_modules" / package / "Sarif.Multitool"
    if not tool.exists():
        fresh = folder.with_name(f"{VERSION}.{os.getpid()}")  # another worker may be at it as well
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(fresh)]
        subprocess.run([*command, f"{package}@{VERSION}"], check=True, capture_output=True, timeout=600)
        with suppress(OSError):
            fresh.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
    tool.chmod(0o755)
    return tool


@pytest.fixture(autouse=True)
def _no_kept_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests change t4lint's own parts while it runs, which no kept result notices. Tests of the cache switch it on."""
    monkeypatch.setenv("T4LINT_NO_CACHE", "1")
