"""The report of a session: what is shown, what a comment hides, what can be fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from t4lint.engine.discovery import is_shell, is_source, text_of
from t4lint.engine.finding import numbered
from t4lint.findings import Finding, Report, cell_source, in_order
from t4lint.ruleset import UnknownRule, like, named, rules
from t4lint.sources.files import display_path
from t4lint.suppress import UNUSED
from t4lint.trace import Location

if TYPE_CHECKING:
    from t4lint.engine.session import Session, Step


def report(session: Session, files: Sequence[Path]) -> Report:
    """What an invocation says about its files."""
    findings = wanted(session)
    findings, hidden = unhidden(session, fixable(session, numbered(findings, session.texts)), files)
    paths = {place.path for finding in findings for place in places_of(finding)}
    return Report(
        target=session.options.target,
        findings=tuple(findings),
        problems=tuple(dict.fromkeys(session.problems)),
        runs=tuple(session.runs),
        files=len(files),
        trace=tuple(session.trace),
        notes=tuple(dict.fromkeys(session.notes)),
        suppressed=tuple(hidden),
        checked=tuple(checked(session, files)),
        rules=tuple(rule.name for rule in session.rules),
        fixes_tried=session.options.fixes,
        own_rules=tuple(rule for rule in session.rules if rule not in rules()) if session.options.own_rules else (),
        sources={name: text for name, text in session.texts.items() if name.partition("\0")[0] in paths},
    )


def wanted(session: Session) -> list[Finding]:
    """The findings that are asked for where they are, in the order in which people read."""
    found = [
        shown
        for finding in session.found.values()
        if is_shown(session, finding)
        and (shown := session.near(session.options.cwd / finding.location.path).of(finding))
    ]
    return sorted(found, key=in_order)


def early_report(session: Session, scripts: Sequence[Path], steps: list[Step]) -> Report:
    """The findings of scripts that belong together, before the others are done. Comments that hide nothing are told in the end."""
    from t4lint import suppress

    part = session.empty()
    part.take(scripts, [steps])
    findings = wanted(part)
    own = part.options.own_rules
    names = suppress.Names(partial(meant, own=own), (), all_ran=False)
    texts = {path: linted(part, path) or "" for path in {it.location.path for it in findings}}
    findings, _ = suppress.hide(findings, texts, names, (), report_unused=False)
    places = [place for finding in findings for place in places_of(finding)]
    named = {place.path for place in places} | {cell_source(it.path, it.cell) for it in places if it.cell is not None}
    own_rules = tuple(rule for rule in part.rules if rule not in rules()) if own else ()
    return Report(
        target=part.options.target,
        findings=tuple(findings),
        problems=(),
        runs=tuple(part.runs),
        files=0,
        own_rules=own_rules,
        sources={name: text for name in sorted(named) if (text := part.texts.get(name)) is not None},
    )


def places_of(finding: Finding) -> list[Location]:
    """All places that a finding names."""
    origins = [origin.location for origin in finding.provenance if origin.location]
    return [finding.location, *origins, *(related.location for related in finding.related)]


def fixable(session: Session, findings: Sequence[Finding]) -> list[Finding]:
    """The findings with the fixes that have a place in the text. Whether they help is not known yet."""
    return [with_fix(session, finding) for finding in findings] if session.options.fixes else list(findings)


def with_fix(session: Session, finding: Finding) -> Finding:
    rule, edits = session.edits.get((finding.rule, finding.location), (None, ()))
    if rule is None or not edits:
        return finding
    from t4lint.fix.render import rendered

    title = rule.fix_title or finding.help
    return replace(finding, fix=rendered(edits, partial(linted, session), finding.fix_safety, title))


def linted(session: Session, path: str) -> str | None:
    """The text of a file as it was linted, by its path as shown."""
    return text_of(path, session.options, session.sources)


def unhidden(session: Session, findings: list[Finding], files: Sequence[Path]) -> tuple[list[Finding], list[Finding]]:
    """The findings that stay, comments that hide nothing among them, and those that a comment hides."""
    from t4lint import suppress

    texts = {display_path(file, session.options.cwd): text for file, text in session.data.items()} | session.sources
    texts |= {display_path(file, session.options.cwd): it.listing for file, it in session.notebooks.items()}
    notebooks = {display_path(file, session.options.cwd): text for file, text in session.notebook_texts.items()}
    own = session.options.own_rules
    ran = {rule.name for rule in session.rules}
    names = suppress.Names(partial(meant, own=own), ran, not session.options.select, partial(like, own=own))
    judged = {display_path(file, session.options.cwd) for file in files if seen_whole(session, file)}
    looked_at = set(checked(session, files))
    judged |= looked_at if session.folders else set()
    shown, hidden = suppress.hide(
        findings, texts | notebooks, names, judged, looked_at, report_unused=not session.problems
    )
    shown = [it for it in shown if it.rule != UNUSED.name or reports_unused(session, it.location.path)]
    shown.sort(key=in_order)
    fresh = [finding for finding in shown if not finding.fingerprint]
    fresh = numbered(fresh, texts)
    session.sources |= {it.location.path: texts[it.location.path] for it in fresh}
    return [*(finding for finding in shown if finding.fingerprint), *fresh], hidden


def checked(session: Session, files: Sequence[Path]) -> list[str]:
    """The files that were looked at: those found, and what a run has read besides in the folders named."""
    folders = [display_path(folder, session.options.cwd) for folder in session.folders]
    prefixes = tuple("" if folder == "." else f"{folder}/" for folder in folders)
    read_too = [path for path in session.sources if path.startswith(prefixes) and not Path(path).is_absolute()]
    return list(dict.fromkeys([*(display_path(file, session.options.cwd) for file in files), *read_too]))


def reports_unused(session: Session, path: str) -> bool:
    """Are comments that hide nothing to be reported in a file? They are no rule over a trace, but selected like one."""
    options = session.near(session.options.cwd / path).options
    own = options.own_rules
    chosen = not options.select or UNUSED.name in named([*options.select, *options.extend_select], own)
    return chosen and UNUSED.name not in named(options.ignore, own)


def seen_whole(session: Session, file: Path) -> bool:
    """Were all programs seen that use this file, so that a comment in it can be called unused?"""
    return (
        bool(session.folders) or "__main__" in session.data.get(file, "") or is_shell(file, session.data.get(file, ""))
    )


def is_shown(session: Session, finding: Finding) -> bool:
    """Paths choose where findings show: at the place to edit, or at the statement that it is about."""
    if session.shown is None:
        return True
    path = finding.location.path
    if path in session.shown or any(key.path in session.shown for key in finding.keys):
        return True
    # launches and settings that a run was read with, in files that are not collected
    return not is_source(path) and any(
        (session.options.cwd / path).is_relative_to(folder) for folder in session.folders
    )


def meant(name: str, own: tuple[str, ...] = ()) -> set[str]:
    """The rules that a name in a comment stands for; none where it is no rule and no family."""
    try:
        return named([name], own)
    except UnknownRule:
        return set()
