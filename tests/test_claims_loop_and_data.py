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


# --- oom-recovery-in-except --------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_the_tensors_of_a_failed_step_live_until_the_handler_is_left(named: bool) -> None:
    import traceback
    import weakref

    import torch

    alive: list[Any] = []

    def step() -> None:
        activation = torch.rand(4)
        alive.append(weakref.ref(activation))
        raise torch.OutOfMemoryError("CUDA out of memory")

    if named:
        try:
            step()
        except torch.OutOfMemoryError as error:
            assert alive[-1]() is not None
            assert "out of memory" in str(error)
    else:
        try:
            step()
        except torch.OutOfMemoryError:
            assert alive[-1]() is not None
    assert alive[-1]() is None
    try:
        step()
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)
        assert alive[-1]() is None


# --- torch-load-weights-only-default -----------------------------------------------------------------------------


def test_which_files_torch_load_refuses(tmp_path: Any) -> None:
    import argparse
    import pickle

    import torch

    net = torch.nn.Linear(2, 2)
    args = argparse.Namespace(lr=0.1)
    refused = {"module": net, "namespace": {"model": net.state_dict(), "args": args}}
    for name, value in refused.items():
        torch.save(value, tmp_path / name)
        with pytest.raises(pickle.UnpicklingError, match="weights_only"):
            torch.load(tmp_path / name)
        torch.load(tmp_path / name, weights_only=False)
    torch.save({"model": net.state_dict(), "args": vars(args)}, tmp_path / "plain")
    assert torch.load(tmp_path / "plain")["args"] == {"lr": 0.1}


# --- checkpointing-without-input-grads ---------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
def test_reentrant_checkpointing_needs_an_input_that_asks_for_gradients(reentrant: bool) -> None:
    """The mechanism in torch; what transformers 4.57.6 and peft make of it was executed apart, as the page says."""
    import torch
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(2, 2)
    x = torch.rand(1, 2)
    assert checkpoint(layer, x, use_reentrant=reentrant).requires_grad is not reentrant
    assert checkpoint(layer, x.requires_grad_(), use_reentrant=reentrant).requires_grad


def test_transformers_prepares_the_inputs_itself_since_5() -> None:
    pytest.importorskip("peft")
    pytest.importorskip("transformers")
    import peft
    import torch
    import transformers

    if int(transformers.__version__.partition(".")[0]) < 5:
        pytest.skip("needs transformers 5")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, vocab_size=32
    )  # fmt: skip
    model = peft.get_peft_model(transformers.LlamaForCausalLM(config), peft.LoraConfig(target_modules=["q_proj"]))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.train()
    ids = torch.randint(0, 32, (1, 4))
    model(input_ids=ids, labels=ids).loss.backward()
    assert any(p.grad is not None for n, p in model.named_parameters() if "lora_" in n)
