"""Real editors, where the machine has them: Neovim with the lines of docs/editors.md, and VS Code with the extension."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_lsp import LOADER

ROOT = Path(__file__).parent.parent
# What a person does: open, look, take the quick fix, look again, leave.
STEPS = """
local function wait(what, done)
  if not vim.wait(60000, done, 50) then print("never: " .. what) vim.cmd("cquit 1") end
end
local function found()
  return vim.tbl_filter(function(it) return it.code == "pin-memory-disabled" end, vim.diagnostic.get(0))
end
vim.cmd("edit train.py")
wait("a finding", function() return #found() == 1 end)
local at = found()[1]
print("at", at.lnum, at.col, at.end_col)
vim.api.nvim_win_set_cursor(0, { at.lnum + 1, at.col })
vim.lsp.buf.code_action({ apply = true, filter = function(it) return it.title == "Pin the batches" end })
wait("the fix", function() return vim.api.nvim_buf_get_lines(0, at.lnum, at.lnum + 1, true)[1]:find("pin_memory=True") end)
wait("its end", function() return #found() == 0 end)
vim.cmd("write")
for _, client in ipairs(vim.lsp.get_clients()) do client:stop() end
wait("goodbye", function() return #vim.lsp.get_clients() == 0 end)
vim.cmd("qall!")
"""


def neovim() -> str | None:
    """Why Neovim cannot be asked; None where it can."""
    if shutil.which("nvim") is None:
        return "there is no nvim in the PATH"
    said = subprocess.run(["nvim", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"v(\d+)\.(\d+)", said)
    assert version is not None
    return None if (int(version[1]), int(version[2])) >= (0, 11) else f"Neovim {version[0]} is older than 0.11"


def vscode() -> str | None:
    """Why scripts/e2e cannot run; None where it can. It installs some hundred MB, which only a person may want."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "t4lint-e2e"
    place = Path(os.environ.get("T4LINT_E2E") or cache)
    missing = [it for it in ("node", "npm") if shutil.which(it) is None]
    if not Path(os.environ.get("CHROMIUM", "/usr/bin/chromium")).is_file():
        missing.append("chromium")
    if not list(place.glob("installed-*")):
        missing.append(f"code-server in {place} (scripts/e2e installs it)")
    return f"not on this machine: {', '.join(missing)}" if missing else None


@pytest.mark.heavy
def test_neovim_with_the_lines_of_the_docs(tmp_path: Path) -> None:
    reason = neovim()
    if reason is not None:
        pytest.skip(reason)
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    lines = re.search(r"## Neovim.*?```lua\n(.*?)```", page, re.DOTALL)
    assert lines is not None
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    (project / "train.py").write_text(LOADER)
    (tmp_path / "init.lua").write_text(lines[1])
    (tmp_path / "steps.lua").write_text(STEPS)
    command = tmp_path / "t4lint"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m t4lint "$@"\n')
    command.chmod(0o755)
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    done = subprocess.run(
        ["nvim", "--headless", "-u", str(tmp_path / "init.lua"), "-c", f"luafile {tmp_path / 'steps.lua'}"],
        cwd=project,
        env={**os.environ, **homes, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "at 5 56 61" in done.stdout + done.stderr
    assert (project / "train.py").read_text() == LOADER.replace("pin_memory=False", "pin_memory=True")


@pytest.mark.heavy
def test_vscode_with_the_extension(tmp_path: Path) -> None:
    reason = vscode()
    if reason is not None:
        pytest.skip(reason)
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / "scripts" / "e2e", tmp_path / "shots"], env=environment, capture_output=True, text=True, timeout=2400
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
