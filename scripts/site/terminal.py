"""A picture of what a command prints on a terminal of a given width.

    python scripts/site/terminal.py FILE.png WIDTH COMMAND ...

Needs the package playwright, and Chromium (T4LINT_CHROMIUM names it).
"""

from __future__ import annotations

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

COLOURS = {"31": "#f87171", "32": "#4ade80", "33": "#facc15", "34": "#60a5fa", "36": "#22d3ee"}
PAGE = """<!doctype html><meta charset="utf-8"><body style="margin:0;background:#0f172a"><pre style="margin:0;padding:14px 18px;
display:inline-block;font:13px/1.45 'DejaVu Sans Mono','Noto Sans Mono CJK SC',monospace;color:#e2e8f0">{text}</pre>"""
_CODES = re.compile(r"\x1b\[([\d;]*)m")


def main(file: Path, width: int, command: list[str]) -> int:
    """Run the command as a person would see it, and draw what it prints."""
    environ = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(width), "TERM": "xterm-256color"}
    # `script` gives it a terminal: sentences are then wrapped as people see them.
    shell = f"stty cols {width} 2>/dev/null; {shlex.join(command)}"
    done = subprocess.run(
        ["script", "-qec", shell, "/dev/null"], env=environ, capture_output=True, text=True, check=False
    )
    shown = PAGE.format(text=f"$ {html.escape(shlex.join(command))}\n" + coloured(done.stdout.replace("\r", "")))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("T4LINT_CHROMIUM") or shutil.which("chromium")
        )
        page = browser.new_page()
        page.set_content(shown)
        page.locator("pre").screenshot(path=file)
        browser.close()
    return 0


def coloured(text: str) -> str:
    """Escape sequences as spans."""
    parts, opened = [], False
    pieces = _CODES.split(html.escape(text))
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            parts.append(piece)
            continue
        parts.append("</span>" if opened else "")
        codes = piece.split(";")
        style = [f"color:{COLOURS[it]}" for it in codes if it in COLOURS] + ["font-weight:bold"] * ("1" in codes)
        opened = bool(style)
        parts.append(f'<span style="{";".join(style)}">' if opened else "")
    return "".join([*parts, "</span>" if opened else ""])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
