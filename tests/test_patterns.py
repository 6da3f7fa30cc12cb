"""Regular expressions over known text: what they give, and that none is tried that could take long."""

from __future__ import annotations

import re

import pytest

from t4lint.interpret.values import Const
from t4lint.libraries import patterns


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a*)*b", "a*a*a*a*b", "(a|a?)+b", "x" * 100, "("])
def test_what_could_take_long_is_not_tried(pattern: str) -> None:
    assert patterns.compiled(Const(pattern), Const("a" * 199)) is None


@pytest.mark.parametrize("pattern, by, text", [("^np.", "numpy.", "np.random"), (r"\s", "", "a b"), ("(", "", "a")])
def test_a_substitution_is_the_one_of_re(pattern: str, by: str, text: str) -> None:
    result = patterns.substituted(Const(pattern), Const(by), Const(text))
    try:
        expected = re.sub(pattern, by, text)
    except re.error:
        assert not isinstance(result, Const)
        return
    assert isinstance(result, Const) and result.value == expected
