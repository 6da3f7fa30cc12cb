"""What people read in another language than English.

t4lint finds, compares and keeps everything in English, and rules are written in it. Translation is the last step before
something is shown: the English sentence is looked up in a catalogue (`locale/LANGUAGE/*.po`, a file for each family of rules
and one for everything else). A sentence with values in it is found by its pattern: `Delete {} lines` is looked up as a whole,
and what stands in the gaps is translated by itself. What the catalogue does not have stays English.

The context of an entry (`msgctxt`) says whose it is: `RULE/message`, `RULE/help`, `RULE/summary`, `RULE/fix`, `RULE/page` for
each paragraph of its page, `RULE/words` for words that the rule puts into its message; `report`, `problem`, `origin`,
`fit`, `run` (what `verify` says), `editor`, `help` (of the command line) for the rest.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from t4lint.devices import Target
    from t4lint.findings import Finding, Report
    from t4lint.rule import Rule

ENGLISH, CHINESE = "en", "zh"
LANGUAGES = (ENGLISH, CHINESE)
FOLDER = Path(__file__).resolve().parent / "locale"
GENERAL = "t4lint"  # the file of what belongs to no family
_GAP = re.compile(r"\{(\w*)[^{}]*\}")
_WIDE = "\u2e80-\u9fff\uff00-\uffef"
_WIDE_BEFORE, _WIDE_BEHIND = re.compile(f"[{_WIDE}] ?$"), re.compile(f" ?[{_WIDE}]")
_SPAN = re.compile(r"(\s*(?:[\d.,]+|\?)) to (\s*(?:[\d.,]+|\?))((?: \S+)?)")  # `1.0 to 2.0 GiB`, in any sentence


# --- which language ----------------------------------------------------------------------------------------------


def asked(flag: str | None = None) -> str | None:
    """The language that a person asked t4lint for, by flag or `T4LINT_LANG`; None where neither says one that it has."""
    for said in (flag, os.environ.get("T4LINT_LANG")):
        if said and (found := known(said)):
            return found
    return None


def chosen(flag: str | None = None) -> str:
    """The language for what people read: the one asked for, else that of the locale, else English."""
    return asked(flag) or of_locale()


def of_locale() -> str:
    """The language of the system, as far as t4lint has it."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if said := os.environ.get(name):
            return known(said) or ENGLISH
    if sys.platform == "win32":
        import locale

        return CHINESE if (locale.getlocale()[0] or "").startswith("Chinese") else ENGLISH
    return ENGLISH


def known(said: str) -> str | None:
    """`zh_CN.UTF-8`, `zh-Hans` and `zh` are Chinese."""
    short = re.split(r"[-_.@]", said.strip().lower())[0]
    return short if short in LANGUAGES else None


# --- the catalogue -----------------------------------------------------------------------------------------------


class Pattern(NamedTuple):
    """A sentence with gaps: what it matches, and how it reads in the other language."""

    english: re.Pattern[str]
    other: str


class Catalogue:
    """The entries of one language, read family by family when they are first needed."""

    def __init__(self, language: str) -> None:
        self.folder = FOLDER / language

    def sentence(self, family: str, context: str, text: str) -> str | None:
        """A sentence without values in it."""
        return _entries(self.folder / f"{family}.po").get(context, {}).get(text)

    def filled(self, family: str, context: str, text: str) -> str | None:
        """A sentence, found by itself or by a pattern whose gaps it fills."""
        if (exact := self.sentence(family, context, text)) is not None:
            return exact
        for one in _patterns(self.folder / f"{family}.po", context):
            if found := one.english.fullmatch(text):
                words = {name: self.word(family, context, word) for name, word in found.groupdict().items()}
                return _fill(one.other, words)
        return self.span(text)

    def span(self, text: str) -> str | None:
        """Two numbers and their unit; None for anything else."""
        found, joint = _SPAN.fullmatch(text), self.sentence(GENERAL, "number", "{} to {}")
        return _fill(joint, {"_0": found[1], "_1": found[2]}) + found[3] if found and joint else None

    def word(self, family: str, context: str, text: str) -> str:
        """What stands in a gap: in code it is code, elsewhere it may be words that have an entry of their own."""
        return text if not text or text.isdecimal() else self.filled(family, context, text) or text


@cache
def catalogue(language: str) -> Catalogue | None:
    """The catalogue of a language; None for English."""
    return None if language == ENGLISH else Catalogue(language)


@cache
def _entries(file: Path) -> Mapping[str, Mapping[str, str]]:
    """The translations of a file, by context and English. Fuzzy ones are those whose English has changed."""
    import polib

    found: dict[str, dict[str, str]] = {}
    if file.is_file():
        for entry in polib.pofile(str(file), encoding="utf-8"):
            if entry.msgstr and not entry.fuzzy and not entry.obsolete:
                found.setdefault(entry.msgctxt or "", {})[entry.msgid] = entry.msgstr
    return found


@cache
def _patterns(file: Path, context: str) -> tuple[Pattern, ...]:
    """The entries with gaps, the most telling first; of each, first with words that are known in a gap behind a gap."""
    entries = _entries(file).get(context, {})
    gapped = sorted((it for it in entries if "{" in it), key=lambda it: -len(_GAP.sub("", it)))
    near = tuple(it for it in entries if it.startswith((";", ",", " ", "(")))
    strict = [Pattern(pattern(it, near=near), entries[it]) for it in gapped]
    return (*strict, *(Pattern(pattern(it), entries[it]) for it in gapped if "}{" in it))


@lru_cache(maxsize=1024)
def pattern(template: str, *, near: tuple[str, ...] = ()) -> re.Pattern[str]:
    """What a template can have become. Of two gaps in a row the second holds one of `near`, or nothing.

    Gaps without a name are named by their place: `_0`, `_1`.
    """
    made, end, number, seen = "", 0, 0, set()
    for gap in _GAP.finditer(template):
        name = gap[1] or str(number)
        name = f"_{name}" if name.isdecimal() else name
        number += not gap[1]
        made += re.escape(template[end : gap.start()])
        beside = near and end == gap.start() and end > 0
        inner = f"(?:{'|'.join(_unnamed(it) for it in near)})?" if beside else ".*?"
        made += f"(?P={name})" if name in seen else f"(?P<{name}>{inner})"
        seen.add(name)
        end = gap.end()
    return re.compile(made + re.escape(template[end:]), re.DOTALL)


def _unnamed(template: str) -> str:
    return "".join(re.escape(part) if index % 2 == 0 else ".*?" for index, part in enumerate(_split(template)))


def _split(template: str) -> list[str]:
    """Text, gap, text, gap, ..., text."""
    parts, end = [], 0
    for gap in _GAP.finditer(template):
        parts += [template[end : gap.start()], gap[0]]
        end = gap.end()
    return [*parts, template[end:]]


def _fill(template: str, words: Mapping[str, str | None]) -> str:
    """The sentence with its gaps filled. Between two wide characters no space is left, which a code or number would need."""
    number = iter(range(template.count("{") + 1))
    made, end = "", 0
    for gap in _GAP.finditer(template):
        name = gap[1] or str(next(number))
        made = _beside(made, template[end : gap.start()])
        made = _beside(made, words.get(f"_{name}" if name.isdecimal() else name) or "")
        end = gap.end()
    return _beside(made, template[end:])


def _beside(one: str, other: str) -> str:
    space = _WIDE_BEFORE.search(one) and _WIDE_BEHIND.match(other) and (one[-1:] == " ") != (other[:1] == " ")
    return one.rstrip(" ") + other.lstrip(" ") if space else one + other


# --- what is shown -----------------------------------------------------------------------------------------------


def phrase(text: str, language: str, context: str = "report") -> str:
    """A sentence of t4lint itself."""
    found = catalogue(language)
    return (found.filled(GENERAL, context, text) if found and text else None) or text


def told(text: str, language: str, context: str) -> str:
    """A problem or note, which a run may have made."""
    said = phrase(text, language, context)
    return said if said != text else phrase(text, language, "run")


def of_rule(rule: Rule, part: str, text: str, language: str) -> str:
    """A sentence of a rule's declaration or page as it stands there."""
    found = catalogue(language)
    return (found.sentence(rule.family, f"{rule.name}/{part}", text) if found else None) or text


def page(rule: Rule, language: str) -> str:
    """The page of a rule, paragraph by paragraph."""
    found = catalogue(language)
    if found is None:
        return rule.page
    said = found
    return "\n\n".join(
        said.sentence(rule.family, f"{rule.name}/page", flat(it)) or phrase(it, language, "page")
        for it in paragraphs(rule.page)
    )


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a page. A list is one, and so is a block of code."""
    return [it.strip("\n") for it in re.split(r"\n\s*\n(?!    )", text.strip()) if it.strip()]


def flat(paragraph: str) -> str:
    """A paragraph as it is looked up: where its lines end says nothing, but for lists, tables and code."""
    if re.search(r"^(\s*[*\-|]|\s*\d+\.|    |```)", paragraph, re.MULTILINE):
        return paragraph
    return " ".join(paragraph.split())


def translated(report: Report, language: str) -> Report:
    """A report as people of a language read it."""
    if catalogue(language) is None:
        return report
    from dataclasses import replace

    known = {rule.name: rule for rule in _rules(report)}
    target = _target(report.target)
    return replace(
        report,
        language=language,
        findings=tuple(_finding(it, known.get(it.rule), target, language) for it in report.findings),
        suppressed=tuple(_finding(it, known.get(it.rule), target, language) for it in report.suppressed),
        problems=tuple(replace(it, message=told(it.message, language, "problem")) for it in report.problems),
        notes=tuple(told(it, language, "problem") for it in report.notes),
    )


def _rules(report: Report) -> Iterator[Rule]:
    from t4lint import ruleset
    from t4lint.suppress import UNUSED

    yield from ruleset.rules()
    yield from (UNUSED, *report.own_rules)


def _target(name: str) -> Target | None:
    """The target of a report, where messages name another GPU than the T4."""
    from t4lint.devices import UnknownTarget, find_target

    try:
        found = find_target(name)
    except UnknownTarget:
        return None
    return found if found.gpu is not None and (found.gpu.short_name != "T4" or found.gpu.share < 1) else None


def _finding(finding: Finding, rule: Rule | None, target: Target | None, language: str) -> Finding:
    from dataclasses import replace

    def say(text: str, context: str) -> str:
        return phrase(text, language, context)

    verdict, effect, fix = finding.verdict, finding.effect, finding.fix
    if verdict is not None:
        verdict = replace(verdict, evidence=say(verdict.evidence, "run"), reason=say(verdict.reason, "run"))
    if effect is not None:
        effect = replace(effect, conclusion=say(effect.conclusion, "run"))
    if fix is not None and rule is not None:
        title = of_rule(rule, "fix", fix.title, language)
        fix = replace(fix, title=_word(rule, title, language) if title == fix.title else title)
    message, help, presumption = finding.message, finding.help, say(finding.presumption, "report")
    if rule is not None:
        presumption = _word(rule, presumption, language) if presumption == finding.presumption else presumption
        message = _said(rule, "message", rule.message, message, target, language)
        help = _said(rule, "help", rule.help, help, target, language)
    return replace(
        finding, message=message, help=help, presumption=presumption, verdict=verdict, effect=effect, fix=fix,
        provenance=tuple(replace(it, note=say(it.note, "origin")) for it in finding.provenance),
        related=tuple(replace(it, note=say(it.note, "origin")) for it in finding.related),
    )  # fmt: skip


def _word(rule: Rule, text: str, language: str) -> str:
    """A text that the code of a rule makes, other than its message."""
    found = catalogue(language)
    return found.word(rule.family, f"{rule.name}/words", text) if found is not None else text


def _said(rule: Rule, part: str, template: str, text: str, target: Target | None, language: str) -> str:
    """A message or help of a finding, from the English one that its template has become."""
    said = catalogue(language)
    words = f"{rule.name}/words"
    if said is None:
        return text
    other = said.sentence(rule.family, f"{rule.name}/{part}", template)
    if other is None:
        return said.filled(rule.family, words, text) or text
    if target is not None and target.gpu is not None:
        from t4lint.engine import about

        name = target.gpu.short_name
        if target.gpu.share < 1 and "GiB" in template:
            name = f"1/{1 / target.gpu.share:g} {name}"
        template, other = about(template, target), re.sub(r"\bT4\b", name, other)
    if "{" not in template:
        return other if template == text else said.filled(rule.family, words, text) or text
    near = tuple(_entries(said.folder / f"{rule.family}.po").get(words, ()))
    found = pattern(template, near=near).fullmatch(text) or pattern(template).fullmatch(text)
    if found is None:
        return text
    return _fill(other, {name: said.word(rule.family, words, word) for name, word in found.groupdict().items()})
