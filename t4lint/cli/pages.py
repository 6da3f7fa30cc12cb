"""The commands that show something and check nothing: rules, settings, targets, doctor, completion, the server."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from t4lint.cli.delivery import said
from t4lint.cli.inputs import working_folder
from t4lint.cli.usage import CLEAN, UsageError, spoken, suggestion

if TYPE_CHECKING:
    from t4lint.rule import Rule


def explain_command(args: argparse.Namespace) -> int:
    from t4lint.report import outputs, page
    from t4lint.suppress import UNUSED

    known = {rule.name: rule for rule in (*_known_rules(), UNUSED)}
    rule = known.get(args.rule)
    if rule is None:
        similar = [name for name in known if name.startswith(f"{args.rule}-")]
        several = f"; there are {' and '.join([', '.join(similar[:-1]), similar[-1]])}" if len(similar) > 1 else ""
        hint = several or suggestion(args.rule, known) or "; `t4lint rules` lists them"
        raise UsageError(f"unknown rule {args.rule!r}{hint}")
    text = page.explain(rule, spoken.language)
    if outputs.is_terminal():
        text = page.markdown(text, colour=outputs.has_colour(sys.stdout), width=outputs.terminal_width())
    outputs.to_screen(text)
    return CLEAN


def rules_command(args: argparse.Namespace) -> int:
    from t4lint.report import outputs, page

    if args.output_format == "json":
        outputs.to_screen(page.rules_json(_known_rules()), json=True)
    else:
        width = outputs.terminal_width() if outputs.is_terminal() else None
        outputs.to_screen(page.rules_text(_known_rules(), width=width, language=spoken.language))
    return CLEAN


def _known_rules() -> tuple[Rule, ...]:
    """The rules that t4lint ships, and those that the settings of this folder name."""
    from t4lint import ruleset, settings

    try:
        return ruleset.rules(settings.load(working_folder()).settings.own_rules)
    except ruleset.BadRules as error:
        raise UsageError(str(error)) from None


def settings_command(args: argparse.Namespace) -> int:
    from t4lint.report import outputs, page

    if args.schema:
        import json

        from t4lint.asked import schema

        outputs.to_screen(json.dumps(schema(), indent=2) + "\n", json=True)
        return CLEAN
    from t4lint import ruleset, settings
    from t4lint.asked import Asked, Flags
    from t4lint.engine import chosen_by

    file = working_folder() / args.path
    file = file / "__init__.py" if file.is_dir() else file  # of a folder: what holds for a file in it
    nearest = settings.Nearest()
    asked = Asked(Flags(), nearest.loaded(file.parent), nearest, working_folder())
    try:
        names = [rule.name for rule in chosen_by(asked.for_file(file))] if not nearest.problems else []
    except (ruleset.UnknownRule, ruleset.BadOption, ruleset.BadRules):
        return said(asked.rule_problems())
    if nearest.problems:
        return said(nearest.problems)
    found, sources = nearest.explained(file)
    if args.output_format == "json":
        outputs.to_screen(page.settings_json(args.path, found, sources, names), json=True)
    else:
        outputs.to_screen(page.settings_text(args.path, found, sources, len(names)))
    return CLEAN


def targets_command(args: argparse.Namespace) -> int:
    from t4lint.devices import UnknownTarget, find_target, targets
    from t4lint.report import outputs, page

    try:
        named = [find_target(name) for name in args.names]
    except UnknownTarget as error:
        raise UsageError(f"{error} (`t4lint targets` lists them)") from None
    if args.output_format == "json":
        outputs.to_screen(page.targets_json(named or targets()), json=True)
    elif named:
        outputs.to_screen("\n".join(page.target_text(target) for target in named))
    else:
        outputs.to_screen(page.targets_text(targets()))
    return CLEAN


def doctor_command(args: argparse.Namespace) -> int:
    """What t4lint finds on this machine; nothing of it is a failure."""
    from t4lint import doctor
    from t4lint.report import outputs

    if args.output_format == "json":
        outputs.to_screen(doctor.as_json(working_folder()), json=True)
        return CLEAN
    width = outputs.terminal_width() if outputs.is_terminal() else outputs.PIPED_WIDTH
    colour = outputs.has_colour(sys.stdout)
    outputs.to_screen(doctor.text(working_folder(), colour=colour, width=width, language=spoken.language))
    return CLEAN


def completion_command(args: argparse.Namespace) -> int:
    from t4lint import completion
    from t4lint.report import outputs

    outputs.to_screen(completion.script(args.shell))
    return CLEAN


def server_command(args: argparse.Namespace) -> int:
    """Answer an editor over stdin and stdout."""
    try:
        from t4lint.lsp.server import serve
    except ImportError:
        raise UsageError("the language server needs an extra: pip install 't4lint[lsp]'") from None
    return serve(args.language)
