"""Examples inside hand-written pages.

A code block with a title is a file. The comment `<!-- t4lint WHAT finds RULE, RULE -->` below such blocks becomes what t4lint
prints for them; the build fails where it finds other rules than the comment says.
"""

from __future__ import annotations

import re

from examples import printed
from t4lint.language import ENGLISH, phrase

_PIECE = re.compile(
    r'^(?P<fence>`{3,})\w* title="(?P<name>[^"]+)"\n(?P<text>.*?)^(?P=fence)$'
    r"|^<!-- t4lint (?P<what>\S+) (?:finds (?P<rules>[\w ,-]+)|is silent) -->$",
    re.MULTILINE | re.DOTALL,
)


class Surprise(ValueError):  # noqa: N818
    """A page says that t4lint finds what it does not find, or the other way round."""


def executed(markdown: str, page: str, language: str = ENGLISH) -> str:
    """The page with its examples run."""
    files: dict[str, str] = {}
    fresh = True

    def piece(found: re.Match[str]) -> str:
        nonlocal fresh
        if found["name"] is not None:
            if not fresh:
                files.clear()
            fresh = True
            files[found["name"]] = found["text"]
            return found[0]
        fresh = False
        output, rules = printed(dict(files), found["what"], language=language)
        expected = {it.strip() for it in (found["rules"] or "").split(",")} - {""}
        if rules != expected:
            raise Surprise(f"{page}: `t4lint {found['what']}` finds {', '.join(sorted(rules)) or 'nothing'}:\n{output}")
        said = phrase(f"`t4lint {found['what']}` says:", language, "page")
        return f"{said}\n\n```text\n{output.strip()}\n```"

    return _PIECE.sub(piece, markdown)
