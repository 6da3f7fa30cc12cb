"""The command line of a run: which flags it gives, as argparse would read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from t4lint.interpret.values import PRESUMED, Abstract, Const, ListValue, Step, Symbol, Unknown, with_origin

TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1", "on"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0", "off"})


@dataclass(slots=True)
class Flags:
    """The words that follow each flag. `open`: a part of the command line is not known and may give more."""

    given: dict[str, list[Any]] = field(default_factory=dict)
    positional: list[Any] = field(default_factory=list)
    open: bool = False
    unread: bool = False  # the values stand in a file or dict that is not known: then a default says nothing
    why: str = ""
    launched: bool = False
    needed: bool = False  # there must be a command line, since a flag is required, and it is not in sight
    file: dict[str, Abstract] = field(default_factory=dict)  # values of a configuration file, below what flags give


def read(m: Any) -> Flags:
    """Read the run's command line once."""
    if "$flags" not in m.globals:
        m.globals["$flags"] = parse(words_of_run(m), m.launch is not None)
    flags: Flags = m.globals["$flags"]
    return flags


def words_of_run(m: Any) -> list[Any]:
    """The script's own words, and those that its launcher adds."""
    words = list(m.arguments)
    launch = m.launch
    if launch is None or "use_env" in launch.launcher_flags:
        return words
    if launch.launcher == "torch.distributed.launch" or (
        launch.launcher == "deepspeed" and "no_local_rank" not in launch.launcher_flags
    ):
        # torch before 2.0 spells it with `_`, later releases with `-`: both are one name here
        words.insert(0, _Part("--local_rank=0", launch.where))
    return words


Takes = Mapping[str, "int | None"]  # how many words a flag takes at most; None: as many as follow


def parse(words: Sequence[Any], launched: bool, takes: Takes | None = None) -> Flags:
    """Group words by the flag before them: `--a 1 2 --b=3` gives a: [1, 2], b: [3].

    With `takes` what a flag does not take is positional, and abbreviations of its names are written out.
    """
    flags = Flags(launched=launched)
    current: list[Any] | None = None
    limit: int | None = None
    for word in words:
        if current is not None and limit is not None and len(current) >= limit:
            current = None
        if word.text is None:
            flags.open, flags.why = True, word.why or "a part of the command line is not known"
            if current is not None:
                current.append(word)
        elif word.text.startswith("--") or (
            word.text.startswith("-") and len(word.text) > 1 and not _is_number(word.text)
        ):
            name, _, value = word.text.partition("=")
            key = name.lstrip("-").replace("-", "_")
            key = _written_out(key, takes) if takes is not None and name.startswith("--") else key
            limit = takes.get(key) if takes is not None else None
            current = flags.given.setdefault(key, [])
            current.clear()
            if value:
                current.append(_Part(value, word))
            elif not word.text.endswith("="):
                flags.given[f"${key}"] = [word]
        elif current is not None:
            current.append(word)
        else:
            flags.positional.append(word)
    return flags


def _written_out(key: str, takes: Takes) -> str:
    """argparse takes any prefix of a long flag that no other has."""
    longer = [name for name in takes if name.startswith(key)] if key not in takes else []
    return longer[0] if len(longer) == 1 else key


class _Part:
    """A word that stands inside another one, or that a launcher adds; it points at the whole word or launch."""

    __slots__ = ("location", "step", "text", "why")

    def __init__(self, text: str, word: Any) -> None:
        self.text = text
        self.location = getattr(word, "location", word)
        self.step = getattr(word, "step", None)
        self.why = ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def flag_step(name: str, words: Sequence[Any], flags: Flags) -> Step:
    """The provenance of a flag's value: the flag as written, at its place in the launch."""
    key = name.lstrip("-").replace("-", "_")
    shown = " ".join([f"--{key}", *[str(word.text) for word in words if word.text is not None]])
    first = (flags.given.get(f"${key}") or list(words) or [None])[0]
    written = getattr(first, "step", None)
    if written is not None:  # a word in the program's own text
        return Step("flag", shown, written.source, written.node, written.location)
    place = getattr(first, "location", None)
    value = getattr(words[0], "location", None) if words else None
    if place is not None and value is not None and (value.path, value.line) != (place.path, place.line):
        place = value  # `--bf16 $HALF`: a person edits the line that sets the variable
    return Step("flag", shown, location=place)


def find(flags: Flags, names: Sequence[str]) -> tuple[str, list[Any]] | None:
    """The words given to a flag under any of its names; abbreviations are not resolved."""
    for name in names:
        key = name.lstrip("-").replace("-", "_")
        if key in flags.given:
            return key, flags.given[key]
    return None


def converted(words: Sequence[Any], kind: str, step: Step) -> Abstract:
    """Words as a value of a type: int, float, bool, str, or "guess" where the type is a function that is not known."""
    if len(words) > 1:
        return ListValue(tuple(converted([word], kind, step) for word in words))
    if not words:
        return Const(True, (step,))
    text = words[0].text
    if text is None:
        return Unknown(words[0].why or "given by a variable that is not known", (step,))
    try:
        if kind == "int":
            return Const(int(text), (step,))
        if kind == "float":
            return Const(float(text), (step,))
    except ValueError:
        return Unknown(f"{text} is not a number", (step,))
    if (
        kind in ("bool", "guess")
        and text.lower() in TRUE_WORDS | FALSE_WORDS
        and not (kind == "guess" and text in "01")
    ):
        return Const(text.lower() in TRUE_WORDS, (step,))
    if kind == "guess" and _is_number(text):
        number = float(text)
        return Const(
            int(number) if number.is_integer() and "." not in text and "e" not in text.lower() else number, (step,)
        )
    return Const(text, (step,))


def override(flags: Flags, names: Sequence[str], default: Abstract, kind: str) -> Abstract:
    """The value of a field or flag: from the command line when given there, else its default."""
    found = find(flags, names)
    if found is not None:
        key, words = found
        return converted(words, kind, flag_step(key, words, flags))
    written = next(
        (flags.file[key] for key in (name.lstrip("-").replace("-", "_") for name in names) if key in flags.file), None
    )
    if written is not None:
        return written
    if flags.open and not flags.unread and isinstance(default, (Const, Symbol)):
        # `train.py "$@"` says as little about a flag as no launch at all: its default is a presumption
        return with_origin(default, PRESUMED)
    if flags.open:
        return Unknown(f"--{names[0].lstrip('-')} may be given: {flags.why}", default.origins)
    return default


KINDS: Mapping[str, str] = {
    "builtins.int": "int",
    "builtins.float": "float",
    "builtins.bool": "bool",
    "builtins.str": "str",
}
