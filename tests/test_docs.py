"""The documentation: links, examples in pages, and the built site."""

from __future__ import annotations

import html
import importlib
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

from t4lint.engine import rules
from t4lint.report.common import SITE, rule_url
from t4lint.suppress import UNUSED

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "editors" / "vscode" / "README.md"])
GENERATED = re.compile(r"^(?:\.\./)*(?:rules/[\w-]+|cli|contributing|changelog|security)\.md$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^(`{3,}).*?^\1$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "site"))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


# --- what is written by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda it: it.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    names = {rule.name for rule in (*rules(), UNUSED)}
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        if urlsplit(link).scheme or (ROOT / "docs" in page.parents and GENERATED.match(target)):
            rule = re.search(r"rules/([\w-]+)\.md", target)
            assert rule is None or rule[1] in {*names, "index"}, f"{link}: there is no such rule"
            continue
        file = (page.parent / unquote(target)).resolve() if target else page
        assert file.exists(), f"{link} leads nowhere"
        if anchor and file.suffix == ".md":
            assert unquote(anchor) in anchors(file), f"{link}: there is no such heading"


@cache
def anchors(page: Path) -> frozenset[str]:
    """Headings as GitHub and mkdocs name them, which is the same for the headings that are used here."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", it.lower()).strip().replace(" ", "-") for it in headings)


WALKED = [it for it in PAGES if "<!-- t4lint " in it.read_text(encoding="utf-8") and it.name != "languages.md"]


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("page", WALKED, ids=lambda it: it.relative_to(ROOT).as_posix())
def test_examples_in_pages_find_what_the_page_says(page: Path) -> None:
    text = module("walkthrough").executed(page.read_text(encoding="utf-8"), page.name)
    assert "<!-- t4lint " not in text
    assert "target: NVIDIA T4" in text or "目标" in text


@pytest.mark.usefixtures("site")
def test_an_example_that_finds_something_else_stops_the_build() -> None:
    walkthrough = module("walkthrough")
    page = '```python title="a.py"\nx = 1\n```\n\n<!-- t4lint a.py finds bf16-weights -->\n'
    with pytest.raises(walkthrough.Surprise, match="finds nothing"):
        walkthrough.executed(page, "a.md")


@pytest.mark.usefixtures("site")
def test_the_page_of_a_rule_shows_programs_without_their_marks_and_what_is_printed() -> None:
    rule = next(it for it in rules() if it.name == "bf16-guard-always-true")
    page = module("rule_pages").rule_page(rule)
    assert "# expect" not in page
    assert "# runs:" not in page
    assert "warning[bf16-guard-always-true]: " in page
    assert "```diff\n" in page
    assert page.index("## Sources") > page.index("## Example")


@pytest.mark.usefixtures("site")
def test_every_command_has_its_part_on_the_page_of_the_command_line() -> None:
    from t4lint.cli import COMMANDS

    page = module("cli_page").page()
    assert re.findall(r"^## t4lint (\w+)$", page, re.MULTILINE) == sorted(
        COMMANDS, key=lambda it: page.index(f"## t4lint {it}\n")
    )
    assert "--unsafe-fixes" in page


def test_the_addresses_of_rules_are_those_of_the_site() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"site_url: {SITE}/\n" in config
    assert "use_directory_urls: false" in config
    assert {rule_url(it) for it in rules()} == {f"{SITE}/rules/{it.name}.html" for it in rules()}


# --- what is built -----------------------------------------------------------------------------------------------


class Seen(HTMLParser):
    """What a page links to, what it loads, and the places in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loads.append(given["href"])


@cache
def seen(page: Path) -> Seen:
    found = Seen()
    found.feed(page.read_text(encoding="utf-8"))
    return found


@pytest.mark.heavy
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="needs the extra docs")
@pytest.mark.parametrize(("config", "language"), [("mkdocs.yml", ""), ("mkdocs.zh.yml", "zh/")])
def test_the_site(config: str, language: str, tmp_path: Path) -> None:
    """Built strictly, without the examples of rules: each link leads somewhere, and no page loads anything from elsewhere."""
    environ = {**os.environ, "T4LINT_DOCS_EXAMPLES": "0", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", config, "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    for rule in (*rules(), UNUSED):
        assert (tmp_path / "rules" / f"{rule.name}.html").is_file()
    faults = [f"{page.relative_to(tmp_path)}: {fault}" for page in pages for fault in faults_of(page, tmp_path)]
    assert not faults, "\n".join(faults[:20])


def faults_of(page: Path, site: Path) -> list[str]:
    faults = [
        f"loads {it}" for it in seen(page).loads if urlsplit(it).scheme in ("http", "https") or it.startswith("//")
    ]
    for link in seen(page).links:
        parts = urlsplit(html.unescape(link))
        if parts.scheme or link.startswith("/t4lint/") or page.name == "404.html":
            continue
        file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        file = file / "index.html" if file.is_dir() else file
        if not file.is_file() or site not in file.parents:
            faults.append(f"links to {link}, which is not there")
        elif parts.fragment and file.suffix == ".html" and unquote(parts.fragment) not in seen(file).places:
            faults.append(f"links to {link}, a place that is not there")
    return faults
