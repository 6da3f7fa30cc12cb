"""What the rules on attention, quantization and compilation claim of the libraries, shown on the real ones.

What needs a T4 cannot be shown on this kind of machine; the pages of those rules say so.
"""

from __future__ import annotations

import csv
import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
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


# --- compilation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("multiprocessors", "large"), [(40, False), (68, True)])
def test_inductor_asks_for_68_multiprocessors(
    multiprocessors: int, large: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch._inductor import utils

    from t4lint.devices import find_target

    gpu = find_target("t4").gpu
    assert gpu is not None
    assert gpu.sm_count == 40
    found = SimpleNamespace(multi_processor_count=multiprocessors, major=7, type="cuda")
    monkeypatch.setattr(utils, "DeviceProperties", SimpleNamespace(create=lambda device: found))
    with caplog.at_level(logging.WARNING):
        utils.is_big_gpu.cache_clear()
        import torch

        assert utils.is_big_gpu(torch.device("cuda", 0)) is large
        utils.is_big_gpu.cache_clear()


def test_a_trainer_keeps_the_model_that_was_compiled_later(tmp_path: Any) -> None:
    needs("transformers", "accelerate")
    import torch
    from transformers import Trainer, TrainingArguments

    model = torch.nn.Linear(2, 2)
    trainer = Trainer(model=model, args=TrainingArguments(str(tmp_path), use_cpu=True, report_to="none"))
    compiled = torch.compile(model)
    assert trainer.model is model
    assert compiled is not model
    model.compile()
    assert trainer.model is model
    assert model._compiled_call_impl is not None  # in place: the trainer's model is the compiled one


TILES = Path(__file__).parents[1] / "benchmarks" / "triton_tiles.csv"
ELEMENT = {"fp16": ("float16", 2), "fp32": ("float32", 4)}


@pytest.mark.parametrize("row", list(csv.DictReader(TILES.open())), ids=lambda row: "-".join(list(row.values())[:7]))
def test_the_compiler_never_takes_less_shared_memory_than_the_bound(row: dict[str, str]) -> None:
    """What `python benchmarks/triton_tiles.py` measured with triton 3.0, 3.2, 3.4 and 3.9."""
    from t4lint.libraries.triton import Tile, operand_bytes

    dtype, size = ELEMENT[row["dtype"]]
    narrowest = min(size, ELEMENT[row["operand_dtype"]][1])
    m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
    bound = operand_bytes(
        Tile((m, k), dtype, narrowest, loads=frozenset({1})), Tile((k, n), dtype, narrowest, loads=frozenset({2}))
    )
    assert bound == (m * k + k * n) * narrowest
    assert bound <= int(row["shared"])


# --- quantization ------------------------------------------------------------------------------------------------


@pytest.fixture
def seen_as_a_t4(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.cuda answers as on a T4. Nothing is put on it."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *device: (7, 5))


SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}


def test_peft_has_the_default_targets_that_the_table_says() -> None:
    needs("peft")
    import peft
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as TABLE

    from t4lint.libraries.peft import LORA_TARGETS

    if peft.__version__ == "0.21.2":
        assert set(TABLE) == LORA_TARGETS
    assert not {"distilbert", "albert", "phi3"} & set(TABLE)


@pytest.mark.parametrize("kind", ["distilbert", "albert", "phi3", "bert"])
def test_lora_needs_target_modules_outside_the_table(kind: str) -> None:
    needs("peft", "transformers")
    import transformers
    from peft import LoraConfig, get_peft_model

    config = {
        "distilbert": lambda: transformers.DistilBertConfig(
            vocab_size=64, dim=32, hidden_dim=64, n_layers=1, n_heads=4
        ),
        "albert": lambda: transformers.AlbertConfig(**SMALL, embedding_size=16),
        "phi3": lambda: transformers.Phi3Config(**SMALL, pad_token_id=0, eos_token_id=1),
        "bert": lambda: transformers.BertConfig(**SMALL),
    }[kind]()
    model = transformers.AutoModel.from_config(config)
    if kind == "bert":
        get_peft_model(model, LoraConfig())
        return
    with pytest.raises(ValueError, match="Please specify `target_modules`"):
        get_peft_model(model, LoraConfig())


def test_fp8_weights_are_dequantized_below_8_9(seen_as_a_t4: None) -> None:
    needs("transformers", "accelerate")
    from transformers import FineGrainedFP8Config
    from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer

    quantizer = FineGrainedFP8HfQuantizer(FineGrainedFP8Config(), pre_quantized=True)
    quantizer.validate_environment(device_map={"": 0})
    assert quantizer.quantization_config.dequantize


def test_fbgemm_is_refused_below_9(seen_as_a_t4: None, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("transformers", "accelerate")
    from transformers import FbgemmFp8Config
    from transformers.quantizers import quantizer_fbgemm_fp8 as module

    monkeypatch.setattr(module, "is_torch_cuda_available", lambda: True)
    monkeypatch.setattr(module, "is_fbgemm_gpu_available", lambda: True)
    quantizer = module.FbgemmFp8HfQuantizer(FbgemmFp8Config(), pre_quantized=True)
    with pytest.raises(ValueError, match=r"compute capability >= 9\.0"):
        quantizer.validate_environment(device_map={"": 0})


@pytest.mark.parametrize("kernels", [False, True])
def test_mxfp4_is_taken_or_dequantized(seen_as_a_t4: None, monkeypatch: pytest.MonkeyPatch, kernels: bool) -> None:
    needs("transformers", "accelerate")
    import torch
    from transformers import Mxfp4Config
    from transformers.quantizers import quantizer_mxfp4 as module

    monkeypatch.setattr(module, "get_current_accelerator", lambda: torch.device("cuda"), raising=False)
    monkeypatch.setattr(module, "is_triton_available", lambda *version: kernels)
    monkeypatch.setattr(module, "is_kernels_available", lambda: kernels)
    quantizer = module.Mxfp4HfQuantizer(Mxfp4Config(), pre_quantized=True)
    quantizer._lazy_import_kernels = lambda: None
    quantizer.validate_environment(device_map={"": 0})
    assert quantizer.quantization_config.dequantize is not kernels


@pytest.mark.parametrize(("dtype", "refused"), [("nvfp4", ValueError), ("mxfp4", ImportError)])
def test_fp_quant_refuses_nvfp4_below_9(seen_as_a_t4: None, dtype: str, refused: type[Exception]) -> None:
    """In mxfp4 the check gets as far as the package, which is not here."""
    needs("transformers")
    from transformers import FPQuantConfig
    from transformers.quantizers.quantizer_fp_quant import FPQuantHfQuantizer

    config = FPQuantConfig(forward_dtype=dtype, pseudoquantization=True)
    with pytest.raises(refused, match=r"9\.0" if dtype == "nvfp4" else "fp_quant"):
        FPQuantHfQuantizer(config).validate_environment(device_map={"": 0})


def test_the_backends_that_a_configuration_can_name() -> None:
    needs("transformers")
    from transformers import AwqConfig

    assert {AwqConfig(backend=name).backend for name in ("marlin", "machete", "auto")} == {"marlin", "machete", "auto"}


def test_accelerate_turns_fp8_into_fp16(seen_as_a_t4: None, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("accelerate")
    from accelerate import state
    from accelerate.utils import TorchDynamoPlugin

    monkeypatch.setattr(state, "is_fp8_available", lambda: True)
    state.AcceleratorState._reset_state(True)
    try:
        plugin = TorchDynamoPlugin()
        made = state.AcceleratorState("fp8", cpu=True, dynamo_plugin=plugin, _from_accelerator=True)
        assert made._mixed_precision == "fp16"
    finally:
        state.AcceleratorState._reset_state(True)


def test_accelerate_refuses_fp8_without_a_library(seen_as_a_t4: None, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("accelerate")
    from accelerate import state

    monkeypatch.setattr(state, "is_fp8_available", lambda: False)
    state.AcceleratorState._reset_state(True)
    try:
        with pytest.raises(ValueError, match="fp8"):
            state.AcceleratorState(mixed_precision="fp8", cpu=True, _from_accelerator=True)
    finally:
        state.AcceleratorState._reset_state(True)


def test_preparing_for_kbit_training_makes_the_embedding_float32() -> None:
    needs("peft", "transformers")
    import torch
    from peft import prepare_model_for_kbit_training
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SMALL)).to(torch.bfloat16)
    model.is_loaded_in_4bit = True
    prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    assert model.get_input_embeddings().weight.dtype is torch.float32
    assert model.lm_head.weight.dtype is torch.float32


# --- attention ---------------------------------------------------------------------------------------------------


def test_flex_attention_tiles_come_to_64_kib(seen_as_a_t4: None) -> None:
    """Query and key/value tiles in fp16 with heads of 256, against the limit of one block on sm_75."""
    import torch
    from torch._inductor.template_heuristics.triton import CUDAConfigHeuristic

    tiles = CUDAConfigHeuristic().get_flex_attn_fwd_configs(256, torch.float16)[-1]
    assert (tiles.block_m * 256 + tiles.block_n * 256) * 2 >= 65536


def tiny_llama(**more: Any) -> Any:
    from transformers import AutoModelForCausalLM, LlamaConfig

    return AutoModelForCausalLM.from_config(LlamaConfig(**SMALL), **more).eval()


def test_sdpa_has_no_attention_maps() -> None:
    needs("transformers")
    import torch

    tokens = torch.ones(1, 4, dtype=torch.long)
    model = tiny_llama()
    assert model.config._attn_implementation == "sdpa"
    assert model(tokens, output_attentions=True).attentions == ()
    with pytest.raises(ValueError, match="output_attentions"):
        model.config.output_attentions = True
    assert len(tiny_llama(attn_implementation="eager")(tokens, output_attentions=True).attentions) == 1


def test_asked_for_at_load_the_maps_make_attention_eager(tmp_path: Any) -> None:
    needs("transformers")
    from transformers import AutoModelForCausalLM

    tiny_llama().save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, output_attentions=True)
    assert model.config._attn_implementation == "eager"


def test_which_families_have_sdpa() -> None:
    needs("transformers")
    import importlib

    rule = importlib.import_module("t4lint.rules.attention.output_attentions_with_sdpa")
    eager = importlib.import_module("t4lint.rules.attention.eager_attention")
    folders = {"xlm-roberta": "xlm_roberta"}

    def supports(family: str) -> set[bool]:
        folder = folders.get(family, family)
        module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
        bases = [
            it for name, it in vars(module).items() if name.endswith("PreTrainedModel") and name != "PreTrainedModel"
        ]
        return {bool(base._supports_sdpa) for base in bases}

    for family in rule.WITH_SDPA:
        assert supports(family) == {True}, family
    for family in ("gemma2", "gpt_oss"):
        assert supports(family) == {False}, family
    assert eager.LONG > 0


@pytest.mark.parametrize("with_positions", [True, False])
def test_position_ids_keep_packed_samples_apart(with_positions: bool) -> None:
    needs("transformers")
    import torch

    torch.manual_seed(0)
    model = tiny_llama()
    one, other, second = torch.randint(0, 64, (1, 5)), torch.randint(0, 64, (1, 5)), torch.randint(0, 64, (1, 4))
    given = {"position_ids": torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3]])} if with_positions else {}
    with torch.no_grad():
        after = [model(torch.cat([first, second], 1), use_cache=False, **given).logits[:, 5:] for first in (one, other)]
    assert torch.allclose(*after, atol=1e-5) is with_positions
