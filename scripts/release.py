"""Releases: the version in the code, the heading in CHANGELOG.md and the tag are one.

scripts/release.py 0.2.0           sets the version, dates the changelog, commits and tags (push it yourself)
scripts/release.py --check v0.2.0  does the tag say what the code and the changelog say?
scripts/release.py --notes v0.2.0  what the changelog says about it
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
HEADING = re.compile(r"^## \[([^\]]+)\].*$", re.MULTILINE)
FORM = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


class Refused(Exception):  # noqa: N818
    """A release that must not be; the message says why."""


def version_of(root: Path) -> str:
    """The version that the code says."""
    found = VERSION.search(_code(root).read_text(encoding="utf-8"))
    if found is None:
        raise Refused(f"{_code(root)} has no version")
    return found[1]


def notes(root: Path, version: str) -> str:
    """The section of the changelog about a version."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [*HEADING.finditer(text)]
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading[1] == version:
            return text[heading.end() : following.start() if following else len(text)].strip() + "\n"
    raise Refused(f"CHANGELOG.md has no section [{version}]")


def check(root: Path, tag: str) -> None:
    """Raise `Refused` when a tag is not the version of the code and of the changelog."""
    if tag != f"v{version_of(root)}":
        raise Refused(f"the tag {tag} is not the version of the code, {version_of(root)}")
    notes(root, version_of(root))


def prepare(root: Path, version: str, date: str) -> list[Path]:
    """Set the version and turn the changelog's Unreleased into a section of it; the files that changed."""
    if not FORM.fullmatch(version):
        raise Refused(f"{version!r} is not a version such as 0.2.0 or 0.2.0rc1")
    changelog, code = root / "CHANGELOG.md", _code(root)
    text = changelog.read_text(encoding="utf-8")
    if not notes(root, "Unreleased").strip():
        raise Refused("CHANGELOG.md says nothing under Unreleased")
    heading = f"## [Unreleased]\n\n## [{version}] - {date}"
    changelog.write_text(text.replace("## [Unreleased]", heading, 1), encoding="utf-8", newline="\n")
    said = VERSION.sub(f'__version__ = "{version}"', code.read_text(encoding="utf-8"))
    code.write_text(said, encoding="utf-8", newline="\n")
    return [changelog, code]


def _code(root: Path) -> Path:
    return root / "t4lint" / "__init__.py"


def main(arguments: list[str]) -> int:
    """Do what the arguments ask."""
    try:
        if arguments[:1] == ["--check"] and len(arguments) == 2:
            check(ROOT, arguments[1])
        elif arguments[:1] == ["--notes"] and len(arguments) == 2:
            print(notes(ROOT, arguments[1].removeprefix("v")), end="")
        elif len(arguments) == 1 and not arguments[0].startswith("-"):
            changed = prepare(ROOT, arguments[0], datetime.date.today().isoformat())
            tag = f"v{arguments[0]}"
            subprocess.run(["git", "commit", "-m", tag, "--", *map(str, changed)], cwd=ROOT, check=True)
            subprocess.run(["git", "tag", "-a", tag, "-m", tag], cwd=ROOT, check=True)
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except Refused as error:
        print(f"release.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
