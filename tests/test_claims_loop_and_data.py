"""What the rules about loops, data, memory and saved files claim of the libraries, shown on the real ones.

Nothing here needs a GPU; what does is said on the pages of those rules.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- fp16-reduction ----------------------------------------------------------------------------------------------


def test_what_absorbs_an_overflow_gives_the_same_for_inf() -> None:
    """The tables in `t4lint/libraries/overflows.py`: inf and the largest number of float16 give the same."""
    import torch

    from t4lint.libraries.overflows import ABSORBING, ABSORBING_NEGATIVE, ABSORBING_POSITIVE, CLAMPS

    few = {"heaviside": 0.5, "minimum": 9.0, "fmin": 9.0, "clamp_max": 6.0, "clamp_max_": 6.0}
    compared = {"lt", "le", "gt", "ge", "eq", "ne", "less", "less_equal", "greater", "greater_equal"}

    def result(name: str, value: float) -> Any:
        x = torch.full((2,), value, dtype=torch.float16)
        function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        if name in CLAMPS:
            return function(x, 0.0, 6.0)
        other = torch.tensor(few.get(name, 5.0)).half() if name in few or name in compared else None
        return function(x, other) if other is not None else function(x)

    for name in sorted(ABSORBING | ABSORBING_POSITIVE | CLAMPS):
        if name in ("isinf", "isfinite", "isnan", "min", "amin"):
            continue  # what asks for it; what picks the smallest of many
        for sign in (1,) if name in ABSORBING_POSITIVE else (1, -1):
            assert torch.allclose(result(name, sign * float("inf")), result(name, sign * 65504.0), atol=1e-4), name
    for name in sorted(ABSORBING_NEGATIVE):
        assert torch.equal(result(name, float("-inf")), result(name, -65504.0)), name
        assert torch.isinf(result(name, float("inf"))).all(), name


def test_gelu_written_out_is_right_where_its_square_overflows() -> None:
    import torch

    x = torch.tensor([1000.0, -1000.0], dtype=torch.float16, requires_grad=True)
    y = 0.5 * x * (1 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
    y.sum().backward()
    assert y.tolist() == [1000.0, 0.0]
    assert x.grad is not None and x.grad.tolist() == [1.0, 0.0]
    assert (x * torch.rsqrt(x.pow(2).mean() + 1e-6)).tolist() == [0.0, 0.0]  # a norm is not
