"""The catalogues of translations against the English that is there now.

    python scripts/translations.py            lists what is missing, and fails where an entry is stale
    python scripts/translations.py --update   adds empty entries for what is missing, and drops what is stale

Who changes an English sentence and does not speak Chinese runs `--update`: the sentence is then shown in English.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polib

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from t4lint.asked import schema  # noqa: E402
from t4lint.cli import parser  # noqa: E402
from t4lint.engine import rules  # noqa: E402
from t4lint.language import CHINESE, FOLDER, GENERAL, flat, paragraphs  # noqa: E402
from t4lint.rule import Rule  # noqa: E402
from t4lint.suppress import UNUSED  # noqa: E402

HEADER = {"Content-Type": "text/plain; charset=UTF-8", "Content-Transfer-Encoding": "8bit", "Language": "zh_CN"}
SPOKEN = {"say", "_say", "phrase"}  # functions that translate what they are given
CONTEXTS = {
    "doctor.py": "doctor",
    "fit_text.py": "fit",
    "screen.py": "run",
    "actions.py": "editor",
    "diagnostics.py": "editor",
    "hover.py": "editor",
    "lens.py": "editor",
    "server.py": "editor",
    "text.py": "report",
    "common.py": "report",
    "junit.py": "report",
    "markdown.py": "report",
    "progress.py": "report",
    "run_page.py": "page of a run",
    "page.py": "page",
    "rule_pages.py": "page",
    "walkthrough.py": "page",
}
TOLD = ("cli", "ruleset.py", "settings.py", "baseline.py", "changes.py", "report/outputs.py", "devices/catalogue.py")
# What says why something cannot be read, with the place of the sentence among its arguments, and where it stands.
PROBLEMS = {"Problem": 1, "_problem": 1, "_broken": 1, "cannot": 1, "problem": 0, "JsonError": 0, "YamlError": 0}
READING = ("sources", "settings.py", "engine", "interpret/source.py")
# Modules that put sentences together which others show, and the context in which they are looked up.
WRITTEN = {
    "fit_communication.py": "fit",
    "fit_evaluation.py": "fit",
    "memory/reading.py": "fit",
    "memory/recipe.py": "fit",
    "memory/traffic.py": "fit",
    "memory/ways.py": "fit",
    "measure.py": "run",
    "changed.py": "run",
    "record/launch.py": "run",
    "record/notebook.py": "run",
    "record/observe.py": "run",
    "record/inside/standin/data.py": "run",
    "record/inside/standin/files.py": "run",
    "record/inside/standin/models.py": "run",
    "verify.py": "run",
}
# Strings of these modules that nobody is shown: names of states, and what is looked for in others' messages.
UNSHOWN = {
    "not seen", "not exercised", "not loaded", "not started", "no longer supported", "class {}", "folder of pictures",
    "seen in the run", " (cell {}, line {})",
}  # fmt: skip
LABELS = {"say", "miss", "either", "_Option"}  # in these modules, what is handed to them is shown as a label
OF_PYTHON = "argparse"  # the context of sentences that Python's own argparse makes
JOINED = {"{}, {}", "{} and {}"}  # words that rules join
WIDTH = 100


class Entry(NamedTuple):
    """A sentence that people read: the file of the catalogue that it belongs to, its context, and its English."""

    family: str
    context: str
    english: str


# --- what there is to translate ----------------------------------------------------------------------------------


def wanted() -> Iterator[Entry]:
    """Everything that should have a translation."""
    for rule in (*rules(), UNUSED):
        yield from _of_rule(rule)
    yield from (Entry(GENERAL, "help", text) for text in dict.fromkeys(_of_parser(parser())))
    yield from dict.fromkeys(Entry(GENERAL, "settings", text) for text in _of_settings(schema()))
    yield from dict.fromkeys(_spoken())
    yield from dict.fromkeys([*_told(), *_problems()])
    yield from dict.fromkeys(_written())


def _of_rule(rule: Rule) -> Iterator[Entry]:
    for part, text in (
        ("summary", rule.summary),
        ("message", rule.message),
        ("help", rule.help),
        ("fix", rule.fix_title),
    ):
        if text and text != "{what}":
            yield Entry(rule.family, f"{rule.name}/{part}", text)
    for paragraph in paragraphs(rule.page):
        if not paragraph.startswith(("## ", "* ")):  # headings are in the general file; sources are names
            yield Entry(rule.family, f"{rule.name}/page", flat(paragraph))


def _of_settings(of: dict[str, Any]) -> Iterator[str]:
    """What the settings say of themselves, as on the page that scripts/settings_docs.py writes."""
    if text := of.get("description"):
        yield text.strip()
    for one in (*of.get("properties", {}).values(), *of.get("$defs", {}).values()):
        yield from _of_settings(one)


def _of_parser(of: argparse.ArgumentParser) -> Iterator[str]:
    yield from (text for text in (of.description, of.epilog) if text)
    yield from (group.title for group in of._action_groups if group.title and group._group_actions)
    for action in of._actions:
        if action.help and action.help != argparse.SUPPRESS:
            yield action.help
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _of_parser(sub)


def _spoken() -> Iterator[Entry]:
    """What is handed to the functions that translate, where it is written right there."""
    files = [
        ROOT / "t4lint" / "doctor.py",
        *(ROOT / "t4lint" / "report").glob("*.py"),
        *(ROOT / "t4lint" / "lsp").glob("*.py"),
        *(ROOT / "scripts/site").glob("*.py"),
    ]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and file.name in CONTEXTS:
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                places = [0] if name in SPOKEN else [0, 2, 3] if name == "Check" else []
                for text in (template(node.args[at]) for at in places if at < len(node.args)):
                    if text and re.search("[a-z]{2}", text):
                        yield Entry(GENERAL, CONTEXTS[file.name], text)


def _told() -> Iterator[Entry]:
    """What errors say."""
    for file in (file for name in TOLD for file in files_of(ROOT / "t4lint" / name)):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                if text := template(node.exc.args[0]):
                    yield Entry(GENERAL, "problem", text)


def _problems() -> Iterator[Entry]:
    """Why files cannot be read or programs not be followed: problems and notes."""
    for file in (file for name in READING for file in files_of(ROOT / "t4lint" / name)):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name == "append" and isinstance(function, ast.Attribute):
                name = "Note" if getattr(function.value, "attr", "") == "notes" else ""
            at = {**PROBLEMS, "Note": 0}.get(name, len(node.args))
            text = template(node.args[at]) if at < len(node.args) else None
            if text and _is_a_sentence(text):
                yield Entry(GENERAL, "problem", text)


def _written() -> Iterator[Entry]:
    """All strings with several words, and labels, of modules whose sentences are shown elsewhere."""
    for name, context in WRITTEN.items():
        for file in files_of(ROOT / "t4lint" / name):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            nodes = list(ast.walk(tree))
            skipped = {id(part) for it in nodes if isinstance(it, ast.JoinedStr) for part in it.values}
            skipped |= {id(it.value) for it in nodes if isinstance(it, ast.Expr)}  # docstrings
            labels = {id(it) for it in _labels(nodes)}
            for node in nodes:
                text = template(node) if isinstance(node, ast.expr) and id(node) not in skipped else None
                if text and (id(node) in labels or _is_a_sentence(text)):
                    yield Entry(GENERAL, context, text)


def _is_a_sentence(text: str) -> bool:
    """Several words, and neither a pattern of `re`, a name in brackets nor numbers, which `Catalogue.span` says."""
    if text.startswith(("<", "{%")) or "\\" in text or text in UNSHOWN:
        return False
    return " " in text.strip() and re.search(r"[a-z]{3}|[a-z] [a-z]", text) is not None


def _labels(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """What is handed to functions that show it, and the first of two that are put into a row."""
    for node in nodes:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from (it for it in node.args if name in LABELS and isinstance(it, ast.Constant))
            yield from (it.elts[0] for it in node.args if name == "append" and isinstance(it, ast.Tuple))
        if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
            yield node.value.elts[0]
        if isinstance(node, ast.List | ast.Tuple):
            rows = [it for it in node.elts if isinstance(it, ast.Tuple) and len(it.elts) == 2]
            yield from (it.elts[0] for it in rows if isinstance(it.elts[1], ast.JoinedStr))


def files_of(place: Path) -> list[Path]:
    """The Python files of a folder, or one file."""
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def template(node: ast.expr) -> str | None:
    """A string as it is looked up: an f-string has `{}` for each value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(it.value) if isinstance(it, ast.Constant) else "{}" for it in node.values)
    return None


@cache
def strings(folder: Path) -> frozenset[str]:
    """All strings in the Python files of a folder, or in one file."""
    found: set[str] = set()
    for file in files_of(folder):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.expr) and (text := template(node)) is not None:
                found.add(text)
    return frozenset(found)


# --- the catalogue -----------------------------------------------------------------------------------------------


def files(language: str = CHINESE) -> dict[str, polib.POFile]:
    """The files of a language, by family."""
    return {file.stem: polib.pofile(str(file), wrapwidth=WIDTH) for file in sorted((FOLDER / language).glob("*.po"))}


def missing(catalogue: dict[str, polib.POFile]) -> list[Entry]:
    """What has no translation."""
    known = {
        Entry(family, it.msgctxt or "", it.msgid)
        for family, file in catalogue.items()
        for it in file
        if it.msgstr and not it.fuzzy
    }
    return [entry for entry in wanted() if entry not in known]


def stale(catalogue: dict[str, polib.POFile]) -> list[Entry]:
    """Entries whose English is not there any more."""
    known = set(wanted())
    names = {rule.name: rule for rule in (*rules(), UNUSED)}
    found = []
    for family, file in catalogue.items():
        for it in file:
            entry = Entry(family, it.msgctxt or "", it.msgid)
            if entry not in known and not _is_a_pattern(entry, names):
                found.append(entry)
    return found


def _is_a_pattern(entry: Entry, names: dict[str, Rule]) -> bool:
    """Is it a string of the code? Such entries are not asked for: nobody can say which strings come to be shown."""
    name, _, part = entry.context.partition("/")
    if part == "words" and name in names and names[name].family == entry.family:
        file = ROOT / "rules" / entry.family / f"{name.replace('-', '_')}.py"
        if entry.english in JOINED:
            return True
        file = file if file.is_file() else ROOT / "t4lint" / "suppress.py"
        tables = "".join(it.read_text(encoding="utf-8") for it in file.parent.glob("*.csv"))
        return entry.english in strings(file) | strings(ROOT / "t4lint") or entry.english in tables
    if part or entry.family != GENERAL:
        return False
    if entry.context == "page" and entry.english.startswith(("## ", "* ")):
        return any(entry.english in rule.page for rule in names.values())
    counted = re.fullmatch(r"\{\} (.+?)s?", entry.english)  # `{} files`, made of a number and a word
    known = strings(ROOT / "t4lint") | strings(ROOT / "scripts" / "site")
    if counted and counted[1] in known:
        return True
    return entry.context == OF_PYTHON or entry.english in known


def update(catalogue: dict[str, polib.POFile], language: str = CHINESE) -> None:
    """Empty entries for what is missing, in the order in which rules are read; none that are stale."""
    old = {Entry(family, it.msgctxt or "", it.msgid): it.msgstr for family, file in catalogue.items() for it in file}
    gone = set(stale(catalogue))
    order = list(dict.fromkeys([*wanted(), *old]))
    places = {(entry.family, entry.context.partition("/")[0]): at for at, entry in reversed(list(enumerate(order)))}
    order.sort(key=lambda it: places[it.family, it.context.partition("/")[0]])
    made: dict[str, polib.POFile] = {}
    for entry in order:
        if entry in gone:
            continue
        file = made.setdefault(entry.family, polib.POFile(wrapwidth=WIDTH))
        file.metadata = dict(HEADER)
        file.append(polib.POEntry(msgctxt=entry.context, msgid=entry.english, msgstr=old.get(entry, "")))
    (FOLDER / language).mkdir(parents=True, exist_ok=True)
    for family, file in made.items():
        file.save(str(FOLDER / language / f"{family}.po"), newline="\n")


def main() -> int:
    """List, or update; 1 where something is stale."""
    catalogue = files()
    gone = stale(catalogue)
    if "--update" in sys.argv[1:]:
        update(catalogue)
        print(f"{len(gone)} stale entries dropped")
        return 0
    lacking = missing(catalogue)
    for entry in lacking if "--quiet" not in sys.argv[1:] else ():
        print(f"missing  {entry.family}  {entry.context}  {entry.english[:WIDTH]!r}")
    for entry in gone:
        print(f"stale    {entry.family}  {entry.context}  {entry.english[:WIDTH]!r}")
    kinds = Counter(entry.context.rpartition("/")[2] for entry in lacking)
    total = Counter(entry.context.rpartition("/")[2] for entry in wanted())
    print(", ".join(f"{kind} {total[kind] - kinds[kind]}/{total[kind]}" for kind in total))
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
