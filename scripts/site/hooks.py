"""What mkdocs calls while it builds the site: generated pages, executed examples, links that leave the folder of pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE)]

import cli_page  # noqa: E402
import rule_pages  # noqa: E402
import walkthrough  # noqa: E402

from t4lint.language import CHINESE, ENGLISH  # noqa: E402
from t4lint.report.common import HOME  # noqa: E402

COPIED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}
_OUTSIDE = re.compile(r"\]\((\.\./)+(?P<path>[^)#\s]+)(?P<rest>#[^)\s]*)?\)")
_FROM_ROOT = re.compile(r"\]\((?P<path>(?!https?:|#|mailto:)[^)#\s]+)(?P<rest>#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are not files: rules, the command line, and those that stand at the root of the repository."""
    language = _language(config)
    made = {"rules/index.md": rule_pages.index(language), **rule_pages.all_pages(language)}
    if language == ENGLISH:
        made["cli.md"] = cli_page.page()
        made |= {name: _moved((ROOT / file).read_text(encoding="utf-8")) for name, file in COPIED.items()}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Runs the examples of a page, and leads links to files that are no pages to the repository."""
    text = walkthrough.executed(markdown, page.file.src_uri, _language(config))

    def outside(found: re.Match[str]) -> str:
        name = next((name for name, file in COPIED.items() if file == found["path"]), None)
        if name is not None:
            return f"]({'../' * page.file.src_uri.count('/')}{name}{found['rest'] or ''})"
        kind = "tree" if (ROOT / found["path"]).is_dir() else "blob"
        return f"]({HOME}/{kind}/main/{found['path']}{found['rest'] or ''})"

    def leaves(found: re.Match[str]) -> str:
        depth = found[0].count("../")
        inside = depth <= page.file.src_uri.count("/")
        return found[0] if inside else outside(found)

    return _OUTSIDE.sub(leaves, text)


def _moved(text: str) -> str:
    """A page of the repository's root, as if it stood in the folder of pages."""

    def moved(found: re.Match[str]) -> str:
        path, rest = found["path"], found["rest"] or ""
        if path.startswith("docs/"):
            return f"]({path.removeprefix('docs/')}{rest})"
        return f"](../{path}{rest})"

    return _FROM_ROOT.sub(moved, text)


def _language(config: Any) -> str:
    return CHINESE if str(config["theme"]["language"]).startswith("zh") else ENGLISH
