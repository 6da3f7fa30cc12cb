"""The pages of the rules: the docstring, and fixtures with what t4lint prints for them."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby

from examples import Example, block, of_fixture, programs
from t4lint.engine import rules
from t4lint.language import ENGLISH, of_rule, page, phrase
from t4lint.report.common import HOME
from t4lint.report.page import options_of
from t4lint.rule import Rule
from t4lint.suppress import UNUSED

SHOWN = {"bad": 2, "good": 2}  # programs of each kind on a page
EXAMPLES = os.environ.get("T4LINT_DOCS_EXAMPLES") != "0"  # without them the site is built in seconds
FAMILIES = {
    "api": "Arguments that libraries removed, renamed or ignore",
    "attention": "Attention kernels that a T4 has and has not",
    "compile": "torch.compile and Triton",
    "data": "Loaders, pinned memory and copies",
    "distributed": "Several GPUs and nodes",
    "environment": "Images, requirements and instance types",
    "evaluation": "Evaluation that fills the card",
    "launch": "Launch commands, containers and their environment",
    "loop": "The training loop",
    "memory": "What fits into 14.56 GiB",
    "precision": "fp16, bf16, TF32 and the loss scaler",
    "suppression": "Comments of t4lint itself",
    "quantization": "bitsandbytes, AWQ, GPTQ, fp8",
}
_SOURCES = re.compile(r"^## (?:Sources|来源)$", re.MULTILINE)


def all_pages(language: str = ENGLISH) -> dict[str, str]:
    """The pages of all rules, by file. Each executes its examples, so that they are made on all cores."""
    with ProcessPoolExecutor() as pool:
        made = pool.map(functools.partial(_page_of, language), [it.name for it in known()], chunksize=8)
        return {f"rules/{rule.name}.md": text for rule, text in zip(known(), made, strict=True)}


def known() -> tuple[Rule, ...]:
    """The rules that have a page."""
    return (*rules(), UNUSED)


def _page_of(language: str, name: str) -> str:
    return rule_page(next(it for it in known() if it.name == name), language)


def rule_page(rule: Rule, language: str = ENGLISH) -> str:
    """The page of a rule as Markdown."""
    text = page(rule, language)
    found = _SOURCES.search(text)
    body, sources = (text[: found.start()], text[found.start() :]) if found else (text, "")
    parts = [
        f"# {rule.name}\n\n**{of_rule(rule, 'summary', rule.summary, language)}**\n",
        _declared(rule, language),
        body.strip(),
        *(_examples(rule, language) if EXAMPLES else ()),
        *_options(rule, language),
        *_ignored(rule, language),
        sources.strip(),
    ]
    return "\n\n".join(it for it in parts if it) + "\n"


def _declared(rule: Rule, language: str) -> str:
    """What the declaration says, as a table of one row."""

    def say(text: str) -> str:
        return phrase(text, language, "page")

    module = rule.check.__module__.removeprefix("t4lint.rules.").replace(".", "/")
    file = f"{HOME}/blob/main/{'t4lint/suppress' if rule is UNUSED else f'rules/{module}'}.py"
    fix = {"safe": "safe", "unsafe": "unsafe: look at the result", "none": "by hand"}[rule.fix]
    verify = "yes" if rule.verifiable else "no: files only"
    heads = [say(it) for it in ("family", "severity", "by default", "fix", "verifiable", "source")]
    row = [
        f"[{rule.family}](index.md#{rule.family})", say(rule.severity), say("on" if rule.default else "off"),
        say(fix), say(verify), f"[{module.rpartition('/')[2]}.py]({file})",
    ]  # fmt: skip
    return f"| {' | '.join(heads)} |\n| {' | '.join('---' for _ in heads)} |\n| {' | '.join(row)} |"


def _examples(rule: Rule, language: str) -> Iterator[str]:
    def say(text: str) -> str:
        return phrase(text, language, "page")

    for number, program in enumerate(programs(rule.name, "bad")[: SHOWN["bad"]]):
        example = of_fixture(program, rule.name, language)
        if rule.name not in example.rules:
            raise ValueError(f"{program}: t4lint does not print {rule.name}: {example.output}")
        yield f"## {say('Example')}" if number == 0 else f"## {say('Another example')}"
        yield from _shown(example)
        yield f"{say('What t4lint prints:')}\n\n```text\n{example.output.strip()}\n```"
        if example.fixed:
            flag = "`--fix`" if rule.fix == "safe" else "`--fix --unsafe-fixes`"
            yield f"{phrase(f'What {flag} changes:', language, 'page')}\n\n```diff\n{example.fixed}\n```"
    silent = programs(rule.name, "good")[: SHOWN["good"]]
    if silent:
        yield f"## {say('What looks like it and stays silent')}"
    for program in silent:
        example = of_fixture(program, rule.name, language)
        if example.rules:
            raise ValueError(f"{program} is meant to be silent: {example.output}")
        yield from _shown(example)


def _shown(example: Example) -> Iterator[str]:
    yield "\n".join(block(name, text) for name, text in example.files.items()).strip()


def _options(rule: Rule, language: str) -> Iterator[str]:
    options = options_of(rule)
    if options:
        lines = [
            f"* `{name}` ({said.get('type', 'any')}, {phrase('default', language, 'page')} `{said.get('default')}`): "
            f"{said.get('description', '')}"
            for name, said in options.items()
        ]
        yield f"## {phrase('Options', language, 'page')}\n\n`[tool.t4lint.rules.{rule.name}]`\n\n" + "\n".join(lines)


def _ignored(rule: Rule, language: str) -> Iterator[str]:
    said = phrase("A comment on the line hides one finding, a setting hides them all:", language, "page")
    yield (
        f"## {phrase('How to hide it', language, 'page')}\n\n{said}\n\n"
        f"```python\nx = ...  # t4lint: ignore[{rule.name}] why\n```\n\n"
        f'```toml\n[tool.t4lint]\nignore = ["{rule.name}"]\n```'
    )


def index(language: str = ENGLISH) -> str:
    """All rules by family, in tables."""
    found = known()

    def say(text: str) -> str:
        return phrase(text, language, "page")

    count = phrase(f"{len(found)} rules, {sum(it.default for it in found)} of them on by default.", language, "page")
    told = say(
        "*error*: it fails or is wrong on a T4. *warning*: it runs, and wastes much time or memory, or risks the result. *note*: tuning."
    )
    parts = [f"# {say('Rules')}\n\n{count}\n\n{told}\n"]
    for family, members in groupby(found, key=lambda it: it.family):
        heads = [say(it) for it in ("rule", "severity", "by default", "fix", "what it finds")]
        lines = [f"| {' | '.join(heads)} |", "| --- | --- | --- | --- | --- |"]
        lines += [
            f"| [{it.name}]({it.name}.md) | {say(it.severity)} | {say('on' if it.default else 'off')} "
            f"| {say(it.fix) if it.fix != 'none' else ''} | {of_rule(it, 'summary', it.summary, language)} |"
            for it in members
        ]
        parts.append(f"## {family}\n\n{say(FAMILIES.get(family, family))}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)
