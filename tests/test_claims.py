"""What the rules claim of the libraries, shown on the real ones: no rule rests on a belief that can be tried here.

What needs a GPU cannot be shown on this kind of machine; the pages of those rules say so.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def needs(*libraries: str) -> None:
    for library in libraries:
        pytest.importorskip(library)


def on_fake_cuda(dtype: Any, work: Callable[[Any], Any]) -> Any:
    """Run something on fake CUDA tensors under CUDA autocast: real dispatch, no GPU."""
    import torch
    from torch._subclasses import FakeTensorMode

    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    with FakeTensorMode():
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", dtype)
        try:
            return work(torch)
        finally:
            torch.set_autocast_enabled("cuda", before[0])
            torch.set_autocast_dtype("cuda", before[1])


# --- precision ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("cast", [False, True])
def test_bce_loss_is_refused_under_cuda_autocast(name: str, cast: bool) -> None:
    import torch

    def work(torch: Any) -> None:
        value = torch.rand(4, device="cuda")
        torch.nn.functional.binary_cross_entropy(value.float() if cast else value, value)

    with pytest.raises(RuntimeError, match="unsafe to autocast"):
        on_fake_cuda(getattr(torch, name), work)


def test_bce_loss_is_accepted_under_cpu_autocast() -> None:
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.nn.BCELoss()(torch.rand(4), torch.rand(4))


def test_which_operations_leave_fp16_under_autocast() -> None:
    """The table in `t4lint/libraries/torch_operations.py`."""
    import torch

    from t4lint.libraries.torch_operations import PROMOTED

    calls: dict[str, Callable[[Any, Any], Any]] = {
        "softmax": lambda t, x: x.softmax(-1), "log_softmax": lambda t, x: x.log_softmax(-1), "exp": lambda t, x: x.exp(),
        "log": lambda t, x: x.log(), "pow": lambda t, x: x.pow(2), "sum": lambda t, x: x.sum(), "cumsum": lambda t, x: x.cumsum(0),
        "prod": lambda t, x: x.prod(), "norm": lambda t, x: x.norm(), "rsqrt": lambda t, x: x.rsqrt(),
        "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (4,)), "softplus": lambda t, x: t.nn.functional.softplus(x),
    }  # fmt: skip
    kept: dict[str, Callable[[Any, Any], Any]] = {
        "matmul": lambda t, x: x @ x, "div": lambda t, x: x / 8, "mean": lambda t, x: x.mean(),
        "gelu": lambda t, x: t.nn.functional.gelu(x),
        "masked_fill": lambda t, x: x.masked_fill(x > 0, -1e4),
    }  # fmt: skip

    def dtypes(table: dict[str, Callable[[Any, Any], Any]]) -> dict[str, Any]:
        def work(torch: Any) -> dict[str, Any]:
            half = torch.rand(4, 4, device="cuda", dtype=torch.float16)
            return {name: call(torch, half).dtype for name, call in table.items()}

        found: dict[str, Any] = on_fake_cuda(torch.float16, work)
        return found

    assert set(calls) <= PROMOTED
    assert set(dtypes(calls).values()) == {torch.float32}
    assert set(dtypes(kept).values()) == {torch.float16}


@pytest.mark.parametrize("constant", [-1e9, -65510.0, 1e5, float(-(2**30))])
def test_constants_beyond_fp16_raise(constant: float) -> None:
    import torch

    half = torch.ones(2, dtype=torch.float16)
    with pytest.raises(RuntimeError, match="without overflow"):
        half.masked_fill(half > 0, constant)
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.full((2,), constant, dtype=torch.float16)


@pytest.mark.parametrize("constant", [-65504.0, -1e4, float("-inf"), float("inf")])
def test_constants_within_fp16_do_not(constant: float) -> None:
    import torch

    half = torch.ones(2, dtype=torch.float16)
    half.masked_fill(half > 0, constant)


def test_limits_of_dtypes() -> None:
    import torch

    from t4lint.libraries.torch_operations import FINFO

    for name, limits in FINFO.items():
        info = torch.finfo(getattr(torch, name))
        assert (info.min, info.max, info.eps, info.tiny) == limits


def test_the_scaler_refuses_fp16_gradients() -> None:
    import torch

    model = torch.nn.Linear(2, 2).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 2, dtype=torch.float16)).sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimizer)


def test_the_cpu_kernel_takes_bf16_gradients() -> None:
    """So a run without a GPU does not show what `gradscaler-bf16-gradients` is about."""
    import torch

    model = torch.nn.Linear(2, 2).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 2, dtype=torch.bfloat16)).sum()).backward()
    scaler.step(optimizer)


@pytest.mark.parametrize("foreach", [False, True])
def test_adam_over_fp16_weights_writes_infinities(foreach: bool) -> None:
    import torch

    weight = torch.nn.Parameter(torch.ones(4, dtype=torch.float16))
    weight.grad = torch.full_like(weight, 1e-4)
    torch.optim.AdamW([weight], lr=1e-3, foreach=foreach).step()
    assert not torch.isfinite(weight).any()


def test_small_updates_are_lost_in_fp16() -> None:
    import torch

    weight = torch.nn.Parameter(torch.ones(4, dtype=torch.float16))
    weight.grad = torch.ones_like(weight)
    torch.optim.SGD([weight], lr=1e-4).step()
    assert bool((weight == 1).all())


def test_a_strict_clip_raises_on_an_overflow() -> None:
    import torch

    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.full((2,), float("inf"))
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    weight.grad = torch.full((2,), float("inf"))
    with pytest.raises(RuntimeError, match="non-finite"):
        torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)


@pytest.mark.parametrize(("old", "new", "raises"), [(True, "ieee", True), (False, "tf32", True), (True, "tf32", False)])
def test_the_two_tf32_switches(old: bool, new: str, raises: bool) -> None:
    import torch

    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        matmul.allow_tf32 = old
        matmul.fp32_precision = new
        if raises:
            with pytest.raises(RuntimeError, match="mix of the legacy and new APIs"):
                _ = matmul.allow_tf32
        else:
            assert matmul.allow_tf32 is True
    finally:
        matmul.allow_tf32 = False
        matmul.fp32_precision = before


def tiny_llama(dtype: Any = None) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes: dict[str, int] = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32,
    }  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**sizes))
    return model if dtype is None else model.to(dtype)


@pytest.mark.parametrize("asked", [{}, {"dtype": "auto"}])
def test_a_load_takes_the_dtype_of_the_checkpoint(asked: dict[str, str], tmp_path: Any) -> None:
    needs("transformers")
    import torch
    from transformers import AutoModelForCausalLM

    tiny_llama(torch.bfloat16).save_pretrained(tmp_path)
    assert AutoModelForCausalLM.from_pretrained(tmp_path, **asked).dtype == torch.bfloat16


def test_half_after_loading_casts_what_the_loader_keeps(tmp_path: Any) -> None:
    needs("transformers")
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    sizes: dict[str, int] = {"d_model": 16, "d_ff": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 32}
    T5ForConditionalGeneration(T5Config(**sizes)).save_pretrained(tmp_path)
    model = T5ForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.float16)

    def dtypes() -> set[Any]:
        return {value.dtype for name, value in model.named_parameters() if ".wo." in name}

    assert dtypes() == {torch.float32}
    model.half()
    assert dtypes() == {torch.float16}


# --- adapters and quantization -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "config", "expected"),
    [
        ({}, {}, {"float32"}),
        ({"autocast_adapter_dtype": False}, {}, {"float16"}),
        ({}, {"modules_to_save": ["lm_head"]}, {"float32", "float16"}),
    ],
)
def test_the_dtypes_of_adapters(options: dict[str, Any], config: dict[str, Any], expected: set[str]) -> None:
    needs("transformers", "peft")
    import torch
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_llama(torch.float16), LoraConfig(target_modules=["q_proj"], **config), **options)
    found = {str(value.dtype).removeprefix("torch.") for value in model.parameters() if value.requires_grad}
    assert found == expected


def test_preparing_for_kbit_training_casts_to_float32() -> None:
    needs("transformers", "peft")
    import torch
    from peft import prepare_model_for_kbit_training

    model = prepare_model_for_kbit_training(tiny_llama(torch.float16), use_gradient_checkpointing=False)
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    assert not any(value.requires_grad for value in model.parameters())


def test_a_4bit_config_without_a_compute_dtype_means_float32() -> None:
    needs("transformers")
    import torch
    from transformers import BitsAndBytesConfig

    assert BitsAndBytesConfig(load_in_4bit=True).bnb_4bit_compute_dtype == torch.float32
    given = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype="bfloat16")
    assert given.bnb_4bit_compute_dtype == torch.bfloat16


def test_a_4bit_layer_computes_in_the_dtype_that_is_given() -> None:
    needs("bitsandbytes")
    import bitsandbytes
    import torch

    layer = bitsandbytes.nn.Linear4bit(64, 64, compute_dtype=torch.float32).to("cpu")
    layer(torch.rand(2, 64, dtype=torch.bfloat16))
    assert layer.compute_dtype == torch.float32


def test_the_trainer_refuses_a_quantized_model_without_adapters(tmp_path: Any) -> None:
    needs("transformers", "accelerate")
    from transformers import Trainer, TrainingArguments

    model = tiny_llama()
    model.is_quantized = True
    with pytest.raises(ValueError, match="purely quantized models"):
        Trainer(model=model, args=TrainingArguments(str(tmp_path), use_cpu=True))


def test_trl_casts_the_adapters_of_a_quantized_model() -> None:
    """Read in the installed trainers, since a quantized model cannot be trained here."""
    needs("trl")
    import inspect

    import trl

    from t4lint.libraries.trl import CASTING

    for name in CASTING:
        source = inspect.getsource(inspect.getmodule(getattr(trl, name)) or getattr(trl, name))
        assert "param.data = param.data.to(torch.bfloat16)" in source, name


# --- numbers that fp16 does not have, and what Lightning and accelerate make of fp16 ------------------------------


def half(*values: float) -> Any:
    import torch

    return torch.tensor(values, dtype=torch.float16)


@pytest.mark.parametrize("eps", [1e-8, 1e-10, 2.0**-25])
def test_a_small_number_is_lost_in_fp16(eps: float) -> None:
    import torch

    zero = half(0.0)
    assert (zero + eps).item() == 0
    assert zero.clamp(min=eps).item() == 0
    assert (zero + eps).log().item() == float("-inf")
    assert (half(1.0) / (zero + eps)).item() == float("inf")
    assert (zero.bfloat16() + eps).item() > 0
    assert isinstance(torch.log(zero.float() + eps).item(), float)


def test_which_numbers_fp16_keeps() -> None:
    from t4lint.libraries.torch_operations import SUBNORMAL

    assert (half(0.0) + SUBNORMAL).item() > 0
    assert (half(0.0) + SUBNORMAL / 2).item() == 0


def test_a_norm_by_hand_returns_zeros_in_fp16() -> None:
    import torch

    x = torch.full((4, 8), 300.0, dtype=torch.float16)
    by_hand = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    assert (by_hand == 0).all()
    assert torch.isinf(x * x).all()
    assert torch.allclose(torch.nn.functional.rms_norm(x, (8,)), torch.ones_like(x), atol=1e-2)
    assert torch.isinf(half(0.0, 1000.0).var())


def test_what_autocast_makes_of_squares_and_variances() -> None:
    import torch

    def dtypes(torch: Any) -> dict[str, Any]:
        x = torch.rand(4, 4, device="cuda", dtype=torch.float16)
        return {"product": (x * x).dtype, "pow": x.pow(2).dtype, "var": x.var().dtype, "std": x.std().dtype}

    fp16, fp32 = torch.float16, torch.float32
    assert on_fake_cuda(fp16, dtypes) == {"product": fp16, "pow": fp32, "var": fp16, "std": fp16}


def test_softmax_of_a_masked_row_is_nan() -> None:
    import torch

    low = torch.full((1, 4), float("-inf"))
    assert torch.isnan(low.softmax(-1)).all()
    assert not torch.isnan(torch.full((1, 4), torch.finfo(torch.float32).min).softmax(-1)).any()


def test_backward_inside_autocast_gives_the_same_gradients() -> None:
    import torch

    torch.manual_seed(0)
    layer, x = torch.nn.Linear(4, 4), torch.rand(2, 4)
    gradients = []
    for inside in (True, False):
        layer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = layer(x).float().sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        gradients.append(layer.weight.grad.clone())
    assert torch.equal(*gradients)


def test_the_switches_do_not_look_at_the_device() -> None:
    import torch

    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32, matmul.allow_fp16_accumulation, torch.get_float32_matmul_precision()
    try:
        matmul.allow_tf32 = True
        matmul.allow_fp16_accumulation = True
        torch.set_float32_matmul_precision("high")
        assert matmul.allow_fp16_accumulation
    finally:
        torch.set_float32_matmul_precision(before[2])
        matmul.allow_fp16_accumulation = before[1]


def test_lightning_refuses_to_clip_for_a_fused_optimizer() -> None:
    needs("lightning")
    import torch
    from lightning.pytorch.plugins import MixedPrecision

    plugin = MixedPrecision("16-mixed", "cuda", scaler=torch.amp.GradScaler("cpu"))
    weights = [torch.nn.Parameter(torch.ones(2))]
    plain, fused = torch.optim.AdamW(weights), torch.optim.AdamW(weights, fused=True)
    weights[0].grad = torch.ones(2)
    plugin.clip_gradients(plain, 1.0)
    plugin.clip_gradients(fused, 0)
    with pytest.raises(RuntimeError, match="does not allow for gradient clipping"):
        plugin.clip_gradients(fused, 1.0)


def test_lightning_refuses_lbfgs_with_a_scaler() -> None:
    needs("lightning")
    import torch
    from lightning.pytorch.plugins import MixedPrecision

    plugin = MixedPrecision("16-mixed", "cuda", scaler=torch.amp.GradScaler("cpu"))
    optimizer = torch.optim.LBFGS([torch.nn.Parameter(torch.ones(2))])
    with pytest.raises(Exception, match="LBFGS"):
        plugin.optimizer_step(optimizer, model=None, closure=lambda: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("mode", "dtype"), [("nf4", "bfloat16"), ("int8", "float16")])
def test_the_plugin_of_lightning_picks_bf16_on_a_t4(mode: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("lightning")
    import torch
    from lightning.fabric.plugins.precision import bitsandbytes as module

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    layers = ("_NF4Linear", "_NF4DQLinear", "_FP4Linear", "_FP4DQLinear", "_Linear8bitLt", "_Int8LinearInference")
    monkeypatch.setattr(module, "_import_bitsandbytes", lambda: None)
    for name in layers:
        monkeypatch.setitem(vars(module), name, torch.nn.Linear)
    assert module.BitsandbytesPrecision(mode).dtype is getattr(torch, dtype)  # type: ignore[arg-type]


def test_accelerate_adds_the_block_that_a_deepspeed_configuration_lacks() -> None:
    needs("accelerate")
    from types import SimpleNamespace

    from accelerate.utils import DeepSpeedPlugin

    plugin = SimpleNamespace(deepspeed_config={}, enable_msamp=False, fill_match=lambda *a, **k: None)
    DeepSpeedPlugin.set_mixed_precision(plugin, "fp16")
    assert plugin.deepspeed_config["fp16"]["enabled"] is True


# --- memory ------------------------------------------------------------------------------------------------------


def test_modules_to_save_are_trained_in_full() -> None:
    needs("peft", "transformers")
    import peft
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    lora = {"r": 4, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
    for saved, whole in ((None, 0), (["lm_head", "embed_tokens"], 2 * 512 * 32)):
        model = peft.get_peft_model(
            transformers.LlamaForCausalLM(config), peft.LoraConfig(**lora, modules_to_save=saved)
        )
        trained = sum(it.numel() for it in model.parameters() if it.requires_grad)
        assert trained == 4 * (32 + 32) + whole


@pytest.mark.parametrize("adapted", [False, True])
def test_offloaded_layers_are_not_trained(tmp_path: Any, adapted: bool) -> None:
    """The host's memory or the disk: both leave meta tensors in the model; here the CPU takes the place of the GPU."""
    needs("accelerate", "peft", "transformers")
    import peft
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    places = dict.fromkeys(("model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb", "lm_head"), "cpu")
    model = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "model", device_map={**places, "model.layers.1": "disk"}, offload_folder=tmp_path / "offload"
    )
    if adapted:
        model = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    tokens = torch.tensor([[1, 2, 3, 4]])
    loss = model(input_ids=tokens, labels=tokens).loss
    if adapted:
        with pytest.raises(RuntimeError, match="returned an invalid gradient"):
            loss.backward()
        return
    loss.backward()
    gradients = {name: it.grad for name, it in model.named_parameters()}
    assert gradients["model.layers.0.self_attn.q_proj.weight"] is not None
    assert gradients["model.layers.1.self_attn.q_proj.weight"] is None
