"""Looks at the built site in a real browser: screenshots of pages, wide and narrow, light and dark, into a folder.

    python scripts/site/shots.py FOLDER [PAGE ...]

Needs `scripts/docs` to have run, the package playwright, and Chromium (T4LINT_CHROMIUM names it). Fails where a page asks the
network for anything, logs an error, or is wider than the window.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

SITE = Path(__file__).resolve().parents[2] / "site"
PAGES = ("index.html", "rules/bf16-guard-always-true.html", "rules/index.html", "surfaces/launch-scripts.html")
SIZES = {"wide": (1280, 860), "narrow": (400, 860)}
SCHEMES = ("light", "dark")


class Quiet(SimpleHTTPRequestHandler):
    """A server that does not tell of each request."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def main(folder: Path, pages: tuple[str, ...]) -> int:
    """Take the pictures; the exit code says whether something was wrong with a page."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    folder.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("T4LINT_CHROMIUM") or shutil.which("chromium")
        )
        for page, size, scheme in product(pages, SIZES, SCHEMES):
            name = f"{page.removesuffix('.html').replace('/', '-')}-{size}-{scheme}.png"
            faults += _shoot(browser, home, page, size, scheme, folder / name)
        browser.close()
    for fault in dict.fromkeys(faults):
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _shoot(browser: Browser, home: str, page: str, size: str, scheme: str, file: Path) -> list[str]:
    """One picture, and what was wrong with the page."""
    faults: list[str] = []
    width, height = SIZES[size]
    opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    opened.on("request", lambda it: None if it.url.startswith((home, "data:")) else faults.append(it.url))
    opened.on("pageerror", lambda it: faults.append(str(it)))
    opened.goto(home + page)
    opened.wait_for_timeout(300)
    opened.screenshot(path=file)
    faults += _too_wide(opened, f"{page} {size}")
    opened.close()
    return faults


def _too_wide(page: Page, name: str) -> list[str]:
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [f"{name} is {width} pixels wider than its window"] if width > 0 else []


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), tuple(sys.argv[2:]) or PAGES))
