"""Values with provenance, and judgements of three values over them.

Nothing here knows a library, a rule or a file format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from t4lint.trace.location import Origin

# What the provenance of a value says that differs between the processes of a run.
OF_RANK = "RANK: the number of the process in the whole run"
OF_LOCAL_RANK = "LOCAL_RANK: the number of the process on its node"
OF_PROCESS = "it differs from process to process"


@dataclass(frozen=True, slots=True)
class Fact:
    """A judgement: True, False, or None where a value that it needs is unknown. `rests_on` are the values that decided it."""

    holds: bool | None
    rests_on: tuple[Value, ...] = ()

    def __and__(self, other: Fact) -> Fact:
        """Three-valued and: one False decides; else one unknown makes it unknown."""
        for fact in (self, other):
            if fact.holds is False:
                return fact
        unknown = self.holds is None or other.holds is None
        return Fact(None if unknown else True, self.rests_on + other.rests_on)

    def __or__(self, other: Fact) -> Fact:
        """Three-valued or: one True decides; else one unknown makes it unknown."""
        for fact in (self, other):
            if fact.holds is True:
                return fact
        unknown = self.holds is None or other.holds is None
        return Fact(None if unknown else False, self.rests_on + other.rests_on)

    def __invert__(self) -> Fact:
        return Fact(None if self.holds is None else not self.holds, self.rests_on)

    def __bool__(self) -> bool:
        raise TypeError("a Fact has three values: use .holds, &, | and ~")

    @property
    def likely(self) -> bool:
        """Does it rest on a value that is itself only likely?"""
        return any(value.likely for value in self.rests_on)

    @property
    def reason(self) -> str:
        """Why it is unknown: the first unknown value's reason, or an empty string."""
        return next((value.unknown for value in self.rests_on if value.unknown), "")


TRUE = Fact(True)
FALSE = Fact(False)


@dataclass(frozen=True, slots=True)
class Value:
    """One known thing (a constant, a name, a share table, a (low, high) band), or unknown with the reason.

    `origins` run from the place where a person would edit the value to the place where it is used. `likely` marks a
    value that holds for most programs but was not read from this one.
    """

    it: Any = None
    origins: tuple[Origin, ...] = ()
    unknown: str = ""
    likely: bool = False

    @property
    def known(self) -> bool:
        return not self.unknown

    def test(self, judge: Callable[[Any], bool | None], if_unknown: bool | None = None) -> Fact:
        """Judge the value; `if_unknown` is the presumption for an unknown one (the fact is then only likely).

        A value of a kind that the judge has no answer for (a None or a text where a number belongs) decides nothing.
        """
        if self.known:
            try:
                return Fact(judge(self.it), (self,))
            except (TypeError, ValueError, AttributeError, LookupError):
                return Fact(None, (self,))
        if if_unknown is None:
            return Fact(None, (self,))
        return Fact(if_unknown, (replace(self, likely=True),))

    def equals(self, other: object, if_unknown: bool | None = None) -> Fact:
        return self.test(lambda it: bool(it == other), if_unknown)

    def within(self, others: Iterable[object], if_unknown: bool | None = None) -> Fact:
        allowed = tuple(others)
        return self.test(lambda it: it in allowed, if_unknown)

    def over(self, limit: float) -> Fact:
        """Is a (low, high) band over a limit? A band that straddles the limit is unknown."""
        return self.test(lambda band: True if band[0] > limit else False if band[1] <= limit else None)


def unknown(reason: str, origins: tuple[Origin, ...] = ()) -> Value:
    """An unknown value, with the reason that people will read."""
    return Value(None, origins, reason)


MOST_DIGITS = 18  # of a count that a program can mean, and of what fits into 8 bytes


def whole_number(text: object) -> int | None:
    """The number that a text of digits stands for. None for any other text, and for one of more digits than a count has."""
    digits = str(text).strip()
    return int(digits) if digits.isdecimal() and len(digits) <= MOST_DIGITS else None
