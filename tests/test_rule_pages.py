"""Each rule's page, name and fixtures are complete."""

from __future__ import annotations

import importlib
import re
import string
from pathlib import Path

import pytest

from t4lint.rule import Rule

ROOT = Path(__file__).resolve().parents[1]
FILES = {path.stem: path for path in sorted((ROOT / "rules").glob("*/[a-z]*.py"))}
HEADINGS = ["What happens on a T4", "How to fix it", "When it is right to ignore it", "Sources"]
VERSION = re.compile(r"\b\d+\.\d+|\bCUDA \d+|\b20\d\d\b")
files = pytest.mark.parametrize("path", FILES.values(), ids=FILES)


def load(path: Path) -> Rule:
    module = importlib.import_module(f"t4lint.rules.{path.parent.name}.{path.stem}")
    rule: Rule = getattr(module, path.stem)
    return rule


@files
def test_one_rule_a_file_named_as_the_file(path: Path) -> None:
    module = importlib.import_module(f"t4lint.rules.{path.parent.name}.{path.stem}")
    found = [value for value in vars(module).values() if isinstance(value, Rule)]
    assert [rule.name for rule in found] == [path.stem.replace("_", "-")]
    assert found[0].family == path.parent.name


@files
def test_the_name_reads_well_after_allow(path: Path) -> None:
    name = load(path).name
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", name)
    assert len(name) <= 40
    assert name.startswith("no-sync-") or not name.startswith(
        ("no-", "do-", "use-", "avoid-", "check-", "missing-")
    )  # the pattern found, not an order


@files
def test_the_page_has_its_parts(path: Path) -> None:
    page = load(path).page
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    opening, *parts = re.split(r"^## .*$", page, flags=re.MULTILINE)
    assert opening.strip().endswith(".")
    assert "\n" not in opening.strip()
    assert all(len(part.split()) >= 3 for part in parts)
    sources = [line for line in parts[-1].splitlines() if line.startswith("* ")]
    assert sources, "no source is given"
    assert VERSION.search(parts[-1]), "no library version is given"


@files
def test_words_for_people(path: Path) -> None:
    rule = load(path)
    assert not rule.summary.endswith(".")
    assert rule.message.endswith((".", "}"))
    assert rule.help.endswith(".")
    assert "{" not in rule.help
    assert all("." not in (field or "") for _, field, _, _ in string.Formatter().parse(rule.message))
    assert rule.message.isascii()
    assert rule.help.isascii()


@files
def test_the_message_is_short(path: Path) -> None:
    assert len(load(path).message) <= 220


@files
def test_what_the_engine_needs(path: Path) -> None:
    rule = load(path)
    assert rule.triggers
    assert all(rule.triggers)
    assert rule.reads


@files
def test_fixtures(path: Path) -> None:
    rule = load(path)
    programs = [entry.name for entry in (ROOT / "fixtures" / rule.name).iterdir() if ".fixed" not in entry.name]
    assert len([name for name in programs if name.startswith("bad_")]) >= 2
    assert len([name for name in programs if name.startswith("good_")]) >= 3


@files
def test_every_bad_fixture_holds_a_trigger(path: Path) -> None:
    rule = load(path)
    for entry in (ROOT / "fixtures" / rule.name).glob("bad_*"):
        if ".fixed" in entry.name:
            continue
        texts = [file.read_text(encoding="utf-8") for file in ([entry] if entry.is_file() else entry.glob("*"))]
        assert any(trigger in text for trigger in rule.triggers for text in texts), entry.name


def test_every_folder_of_fixtures_belongs_to_a_rule() -> None:
    names = {load(path).name for path in FILES.values()}
    folders = {entry.name for entry in (ROOT / "fixtures").iterdir() if any(entry.glob("bad_*"))}
    assert folders <= names


def test_no_page_names_a_path_of_a_machine() -> None:
    for path in FILES.values():
        assert not re.search(r"(?<![\w.])/(home|work|root|tmp)/", path.read_text(encoding="utf-8")), path
