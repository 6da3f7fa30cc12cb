"""Closed forms of bytes and seconds, and the trace that they fill."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import t4lint.memory.shapes as shapes_module
from t4lint.devices import find_target
from t4lint.memory import fill, find_shape
from t4lint.memory.blocks import Widths, find_block
from t4lint.memory.communication import allreduce_seconds, break_even_tokens, compute_seconds, pcie_seconds
from t4lint.memory.estimate import activation_bytes, logits_bytes, optimizer_kind, peak, state_bytes
from t4lint.memory.plan import Plan, usage
from t4lint.memory.shapes import presumed_shape
from t4lint.trace import (
    Call,
    Engine,
    Event,
    Launch,
    Location,
    Model,
    Optimizer,
    Origin,
    Step,
    Trace,
    Value,
    Wrap,
    unknown,
)

GIB = 2**30
HERE = Location("train.py", 1, 1, 1, 10)


def low(parameters: float, trainable: float | None = None, **recipe: Any) -> float:
    trained = parameters if trainable is None else trainable
    return peak(state_bytes(parameters, trained, **recipe))[0]


# --- bytes in closed form ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["no", "fp16"])
def test_adam_takes_sixteen_bytes_a_parameter(precision: str) -> None:
    lowest = low(0.97e9, mixed_precision=precision, optimizer="adamw", weights_dtype="float32")
    assert lowest == 16 * 0.97e9
    assert lowest / GIB == pytest.approx(14.5, abs=0.05)


def test_foreach_adam_peaks_at_twenty_bytes() -> None:
    bands = state_bytes(1e9, 1e9, optimizer="torch.optim.AdamW", weights_dtype="float32")
    assert peak(bands) == (16e9, 20e9)


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ({"optimizer": "sgd", "weights_dtype": "float32"}, 8),
        ({"optimizer": "adamw_bnb_8bit", "weights_dtype": "float32"}, 10),
        ({"optimizer": "adamw_8bit", "weights_dtype": "float32"}, 10),
        ({"optimizer": "adafactor", "weights_dtype": "float32"}, 8),
        ({"optimizer": "adamw_torch_fused", "weights_dtype": "float16"}, 8),
        ({"optimizer": "adamw"}, 8),  # the dtype may be a 16-bit one
        ({"optimizer": "", "weights_dtype": "float32"}, 8),
    ],
)
def test_bytes_a_parameter_at_least(recipe: dict[str, Any], expected: float) -> None:
    assert low(1e9, **recipe) == expected * 1e9


def test_frozen_weights_get_no_gradient() -> None:
    lora = state_bytes(7e9, 0.01e9, optimizer="adamw", weights_dtype="float16")
    assert lora["weights"][0] == 14e9
    assert lora["gradients"][0] == 0.02e9
    quantized = state_bytes(8.03e9, 0, quantization="4bit", embedding=1.05e9)
    assert 5.2e9 < quantized["weights"][0] < 6e9 < quantized["weights"][1] < 9e9


def test_logits_of_gpt2_as_measured() -> None:
    lowest, highest = logits_bytes(8, 1024, 50257, sixteen_bit=True)
    assert lowest / GIB == pytest.approx(0.77 + 1.53, abs=0.01)
    assert highest / GIB > 0.77 + 1.53 + 1.53
    assert logits_bytes(8, 1024, 262144, sixteen_bit=True)[0] / GIB == pytest.approx(12.0)


def test_gradients_meet_logits_only_with_accumulation() -> None:
    bands = {"weights": (4.0, 4.0), "optimizer": (8.0, 8.0), "gradients": (4.0, 4.0), "logits": (3.0, 9.0)}
    assert peak(bands) == (16.0, 25.0)
    assert peak(bands, accumulates=True) == (19.0, 25.0)


def test_checkpointing_keeps_less() -> None:
    shape = {"layers": 24, "hidden": 1024, "heads": 16, "sixteen_bit": True}
    kept = activation_bytes(4, 512, checkpointing=True, **shape)  # type: ignore[arg-type]
    every = activation_bytes(4, 512, checkpointing=False, **shape)  # type: ignore[arg-type]
    assert kept[0] == every[0] and kept[1] < every[1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torch.optim.AdamW", "adamw"),
        ("adamw_torch_fused", "adamw"),
        ("paged_adamw_8bit", "adamw"),
        ("bitsandbytes.optim.PagedAdamW8bit", "adamw"),
        ("SGD", "sgd"),
        ("galore_adamw", ""),
        ("", ""),
    ],
)
def test_optimizer_kind(name: str, kind: str) -> None:
    assert optimizer_kind(name) == kind


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "options", "dtype"),
    [
        ("AdamW", {}, "float32"),
        ("AdamW", {}, "bfloat16"),
        ("SGD", {}, "float32"),
        ("SGD", {"momentum": 0.9}, "float32"),
        ("Adagrad", {}, "float32"),
        ("RMSprop", {}, "float32"),
    ],
)
def test_states_of_a_real_step_lie_in_the_band(name: str, options: dict[str, Any], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))).to(getattr(torch, dtype))
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, **options)
    model(torch.ones(2, 64, dtype=getattr(torch, dtype))).sum().backward()
    optimizer.step()
    tensors = [it for state in optimizer.state.values() for it in state.values() if torch.is_tensor(it) and it.dim()]
    real = {
        "weights": sum(it.nbytes for it in model.parameters()),
        "gradients": sum(it.grad.nbytes for it in model.parameters()),
        "optimizer": sum(it.nbytes for it in tensors),
    }
    count = sum(it.numel() for it in model.parameters())
    bands = state_bytes(count, count, optimizer=name, weights_dtype=dtype)
    for part, size in real.items():
        assert bands[part][0] <= size <= bands[part][1], part


# --- shapes -----------------------------------------------------------------------------------------------------


def test_every_checkpoint_has_a_source() -> None:
    with (Path(shapes_module.__file__).parent / "checkpoints.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 60
    assert len({row["id"].lower() for row in rows}) == len(rows)
    assert all(row["source"] and int(row["parameters"]) > 0 for row in rows)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gpt2", 124_439_808),
        ("bert-base-uncased", 109_482_240),
        ("google-bert/BERT-base-uncased", 109_482_240),
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", 8_030_261_248),
        ("unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit", 7_615_616_512),
        ("resnet50", 25_557_032),
    ],
)
def test_find_shape(name: str, parameters: int) -> None:
    shape = find_shape(name)
    assert shape is not None and shape.parameters == parameters


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("NousResearch/Llama-2-7b-chat-hf", 6_738_415_616),
        ("./models/Llama-2-7b-hf", 6_738_415_616),
        ("/data/huggingface/Llama-2-7b-hf/", 6_738_415_616),
        ("someone/Llama-2-7B-hf-bf16-sharded", 6_738_415_616),
        ("/kaggle/input/llama-3/transformers/8b-instruct/1", 8_030_261_248),
        ("decapoda-research/llama-7b-hf", 6_738_415_616),
        ("/data/llama-13b", 13_015_864_320),
        ("./outputs/llama-7b-distilled", None),
        ("./checkpoints/best", None),
        ("/data/t5", None),
        ("me/my-model", None),
    ],
)
def test_presumed_shape(name: str, parameters: int | None) -> None:
    shape = presumed_shape(name)
    assert (shape.parameters if shape else None) == parameters


@pytest.mark.parametrize("name", ["me/gpt2", "gpt2-my-finetune", "", "unsloth/gpt2-lora"])
def test_other_names_are_unknown(name: str) -> None:
    assert find_shape(name) is None


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("gpt2-medium", "gpt2", {}),
        ("meta-llama/Llama-2-7b-hf", "llama", {}),
        ("meta-llama/Llama-3.1-8B", "llama", {}),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "llama", {}),
        ("HuggingFaceTB/SmolLM2-135M", "llama", {}),
        ("mistralai/Mistral-7B-v0.1", "mistral", {}),
        ("Qwen/Qwen2.5-0.5B", "qwen2", {}),
        ("Qwen/Qwen3-8B", "qwen3", {"head_dim": 128}),
        ("EleutherAI/pythia-410m", "gpt_neox", {}),
        ("google/gemma-2b", "gemma", {"head_dim": 256}),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral", {"num_local_experts": 8}),
    ],
)
def test_parameters_agree_with_transformers(name: str, kind: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = find_shape(name)
    assert shape is not None
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=shape.vocabulary, hidden_size=shape.hidden, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, intermediate_size=shape.intermediate,
        tie_word_embeddings=bool(shape.tied), **options,
    )  # fmt: skip
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    built = sum(it.numel() for it in model.parameters())
    if shape.tied is None:
        assert shape.parameters <= built
    assert shape.parameters == pytest.approx(built, rel=0.01 if shape.tied is not None else 0.1)


# --- seconds ----------------------------------------------------------------------------------------------------


def test_all_reduce_over_a_network() -> None:
    # 7 B parameters, fp16 gradients, two ranks, 10 Gbit/s: at least 11.2 s, 16 s expected on AWS.
    lowest, expected = allreduce_seconds(7e9, 2, 2, 10, provider="AWS")
    assert (lowest, expected) == pytest.approx((11.2, 16.0))
    assert allreduce_seconds(7e9, 2, 2, 10)[1] == pytest.approx(22.4)  # 5 Gbit/s elsewhere
    assert allreduce_seconds(7e9, 4, 8, 10)[0] == pytest.approx(39.2)
    assert allreduce_seconds(7e9, 4, 1, 10) == (0, 0)


def test_all_reduce_between_two_t4s_brackets_what_was_measured() -> None:
    lowest, highest = pcie_seconds(108.3e6, 4, 2)  # BERT-base, 0.12 s exposed
    assert lowest < 0.12 < highest * 1.05


def test_compute_seconds() -> None:
    assert compute_seconds(7e9, 2048, 20e12) == pytest.approx(4.3, abs=0.01)
    assert compute_seconds(7e9, 2048, 20e12, recompute=True) == pytest.approx(5.7, abs=0.05)
    assert compute_seconds(7e9, 2048, 20e12, trainable=0) == pytest.approx(4.3 * 4 / 6, abs=0.01)


@pytest.mark.parametrize(
    ("ranks", "gbps", "tokens"), [(2, 3, 51e3), (2, 5, 30e3), (2, 10, 15e3), (8, 3, 89e3), (8, 50, 5.3e3)]
)
def test_break_even_tokens(ranks: int, gbps: float, tokens: float) -> None:
    assert break_even_tokens(4, ranks, gbps, 20e12, share=0.7) == pytest.approx(tokens, rel=0.02)


# --- filled traces ----------------------------------------------------------------------------------------------


def value(it: object, note: str = "") -> Value:
    return Value(it, (Origin("literal", note or str(it), HERE),))


def trace_of(*events: Event, target: str = "t4", **more: Any) -> Trace:
    return Trace(basis=more.pop("basis", "predicted"), target=find_target(target), versions={}, events=events, **more)


def model(name: str = "gpt2", **more: Any) -> Model:
    return Model(where=HERE, role="load", subject="model", name=value(name), **{"dtype": value("float32"), **more})


def engine(**more: Any) -> Engine:
    given = {"mixed_precision": value("fp16"), "micro_batch": value(8), "sequence_length": value(1024),
             "accumulation": value(1), "optimizer": value("adamw_torch_fused")}  # fmt: skip
    return Engine(where=HERE, role=more.pop("role", "TrainingArguments"), **{**given, **more})


def step_of(trace: Trace) -> Step:
    return next(fill(trace).all(Step))


STEP = Step(where=HERE, subject="optimizer")


def test_full_fine_tuning_of_gpt2() -> None:
    causal = model(trainable=value(124_439_808), evidence="transformers.AutoModelForCausalLM.from_pretrained")
    step = step_of(trace_of(causal, engine(), STEP))
    assert step.parameters.it == 124_439_808
    states, logits = 16 * 124_439_808, logits_bytes(8, 1024, 50257, sixteen_bit=True)[0]
    lowest, highest = step.peak.it
    assert max(states, logits + 12 * 124_439_808) < lowest < highest < 20 * GIB
    assert step.components.it["logits"][0] == logits
    assert step.communication.it == (0, 0)
    assert step.compute.it == pytest.approx((0.146, 0.306), abs=0.001)  # 42 and 20 TFLOP/s
    assert {"gpt2", "fp16"} <= {origin.note for origin in step.peak.origins}
    assert step.peak.likely  # a length is a maximum


def test_large_states_alone_are_certain() -> None:
    trained = model("gpt2-xl", trainable=value(1_557_611_200))
    step = step_of(trace_of(trained, engine(), STEP))
    assert step.peak.over(find_target("t4").gpu.usable_bytes).holds is True  # type: ignore[union-attr]
    assert not step.peak.likely


def test_trainable_that_is_not_said_is_only_likely() -> None:
    assert step_of(trace_of(model("gpt2-xl"), engine(), STEP)).peak.likely


def test_unknown_batch_leaves_the_band_open() -> None:
    step = step_of(trace_of(model(), engine(micro_batch=unknown("read from a file")), STEP))
    assert step.peak.it[0] == 16 * 124_439_808 and math.isinf(step.peak.it[1])
    assert step.compute.unknown == "read from a file"


def test_quantised_model_with_adapters_fits() -> None:
    trained = model("unsloth/Meta-Llama-3.1-8B-bnb-4bit", dtype=value("float16"))
    step = step_of(trace_of(trained, engine(micro_batch=value(1)), STEP, imported=frozenset({"peft"})))
    assert 4 * GIB < step.peak.it[0] < 8 * GIB
    assert step.components.it["gradients"][0] == 0


def test_reasons_of_what_is_unknown() -> None:
    assert "private/thing" in step_of(trace_of(model("private/thing"), engine(), STEP)).peak.unknown
    assert step_of(trace_of(STEP)).peak.unknown == "no model in sight"
    other = Model(where=HERE, role="load", subject="teacher", name=value("gpt2-xl"))
    assert step_of(trace_of(model(), other, STEP)).peak.unknown == "several models are trained"
    frozen = Model(where=HERE, role="load", subject="teacher", name=value("gpt2-xl"), trainable=value(0))
    assert step_of(trace_of(model(), frozen, engine(), STEP)).peak.known


def test_built_optimizer_goes_before_the_engines() -> None:
    built = Optimizer(where=HERE, subject="optimizer", name=value("torch.optim.SGD"))
    step = step_of(trace_of(model(), engine(), built, STEP))
    assert step.components.it["optimizer"][0] == 0


def launch(nodes: int, per_node: int) -> Launch:
    return Launch(where=HERE, launcher="torchrun", nodes=value(nodes), processes_per_node=value(per_node))


def test_ddp_in_one_machine_and_over_the_network() -> None:
    ddp = Wrap(where=HERE, how=value("ddp"))
    local = step_of(trace_of(launch(1, 2), model(), engine(), ddp, STEP, target="kaggle-2xt4")).communication
    assert local.it == pytest.approx((498e6 / 12e9, 498e6 / 3.4e9), rel=0.01)
    far = step_of(trace_of(launch(2, 1), model(), engine(), ddp, STEP, target="GN7.2XLARGE32")).communication
    assert far.it == pytest.approx((498e6 / 3e9 * 8, 498e6 / 2.1e9 * 8), rel=0.01)
    nowhere = step_of(trace_of(launch(2, 1), model(), engine(), ddp, STEP)).communication
    assert "network" in nowhere.unknown


def test_sharding_divides() -> None:
    wrap = Wrap(where=HERE, how=value("fsdp"))
    step = step_of(trace_of(launch(1, 4), model("gpt2-xl"), engine(), wrap, STEP, target="g4dn.12xlarge"))
    states = sum(step.components.it[name][0] for name in ("weights", "gradients", "optimizer"))
    assert states == pytest.approx(4 * 1_557_611_200)
    lost = Launch(where=HERE, launcher="torchrun", nodes=unknown("a variable"), processes_per_node=value(4))
    step = step_of(trace_of(lost, model("gpt2-xl"), engine(), wrap, STEP))
    assert step.peak.unknown == "sharded over an unknown number of GPUs"
    offloaded = Wrap(where=HERE, how=value("zero2"), options={"offload_optimizer": value("cpu")})
    step = step_of(trace_of(launch(1, 4), model("gpt2-xl"), engine(), offloaded, STEP))
    assert step.components.it["optimizer"][0] == 0


def test_observed_traces_stay_as_they_are() -> None:
    observed = trace_of(model(), engine(), STEP, basis="t4")
    assert fill(observed) is observed


def activations_of(*events: Event, **fields: Any) -> float:
    """The lower edge of the activations of GPT-2 with 4 x 512 tokens, as a multiple of tokens x layers x width."""
    settings = engine(micro_batch=value(4), sequence_length=value(512), **{k: value(v) for k, v in fields.items()})
    step = step_of(trace_of(model("openai-community/gpt2"), settings, *events, STEP))
    return float(step.components.it["activations"][0]) / (4 * 512 * 12 * 768)


def test_a_plain_block_keeps_more_than_its_input() -> None:
    assert activations_of(activation_checkpointing=False) == pytest.approx(0.75 * kept_by_gpt2(autocast=True))
    full = activations_of(activation_checkpointing=False, mixed_precision="no")
    assert full == pytest.approx(0.75 * kept_by_gpt2(autocast=False))


def kept_by_gpt2(*, autocast: bool) -> float:
    """Bytes a token, layer and hidden unit."""
    shape = find_shape("gpt2")
    block = find_block("gpt2", sixteen_bit_weights=False, autocast=autocast, trained=True)
    assert shape is not None and shape.widths is not None and block is not None
    return block.kept(shape.widths) / shape.hidden


def test_checkpointing_keeps_the_input_only() -> None:
    assert activations_of(activation_checkpointing=True) == pytest.approx(0.75 * 4)  # its input is in float32
    switched = Call(where=HERE, function="gradient_checkpointing_enable", arguments={})
    assert activations_of(switched, activation_checkpointing=False) == pytest.approx(0.75 * 4)


def test_a_launcher_that_may_shard_leaves_the_state_open() -> None:
    launched = Launch(where=HERE, launcher="deepspeed", nodes=value(1), processes_per_node=value(1))
    assert "shard" in step_of(trace_of(launched, model(), STEP)).components.unknown
    assert step_of(trace_of(launch(1, 1), model(), STEP)).components.known


def test_a_device_map_may_place_the_weights_elsewhere() -> None:
    trace = trace_of(model(device_map=value("auto")), engine(), STEP)
    step = step_of(replace(trace, target=find_target("kaggle-2xt4")))
    assert step.components.it["weights"][0] == 0
    assert step_of(trace).components.it["weights"][0] > 0  # one GPU is filled first
    step = step_of(trace_of(model(device_map=value({"": 0})), engine(), STEP))
    assert step.components.it["weights"][0] > 0


@pytest.mark.parametrize("compiled", [True, False])
def test_a_compiled_model_may_keep_less(compiled: bool) -> None:
    switch = Call(where=HERE, function="TrainingArguments", arguments={"torch_compile": value(compiled)})
    kept = activations_of(switch, activation_checkpointing=False)
    assert (kept == pytest.approx(0.75 * 4)) is compiled


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["gpt2", "bert", "llama", "opt"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_saved_tensors_lie_around_what_was_traced(kind: str, dropout: float) -> None:
    """What real torch saves for the backward of small models on the CPU, in float32: where no kernel differs."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    hidden, intermediate, layers, batch, length = 64, 256, 3, 2, 32
    common = {"vocab_size": 128, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 4}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=128, n_embd=hidden, n_layer=layers, n_head=4, attn_pdrop=dropout, embd_pdrop=dropout,
            resid_pdrop=dropout, attn_implementation="sdpa",
        )  # fmt: skip
        network = transformers.GPT2Model(config)
    elif kind == "bert":
        config = transformers.BertConfig(
            **common, intermediate_size=intermediate, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
        )
        network = transformers.BertModel(config)
    elif kind == "llama":
        config = transformers.LlamaConfig(**common, intermediate_size=intermediate, num_key_value_heads=4)
        network = transformers.LlamaModel(config)
    else:
        config = transformers.OPTConfig(**common, ffn_dim=intermediate, dropout=dropout, word_embed_proj_dim=hidden)
        network = transformers.OPTModel(config)
    own = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    saved: dict[int, int] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    network.train()
    tokens = torch.randint(0, 128, (batch, length))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = network(input_ids=tokens).last_hidden_state
    block = find_block(kind, sixteen_bit_weights=False, autocast=False, trained=True)
    assert block is not None and output.requires_grad
    kept = layers * block.kept(Widths(hidden, hidden, hidden, intermediate, 4), length, eager=dropout > 0)
    traced = kept + block.outside * hidden
    total = sum(saved.values()) / batch / length
    assert 0.75 * layers * block.kept(Widths(hidden, hidden, hidden, intermediate, 4)) <= total <= 1.25 * traced, (
        total / traced
    )


def test_the_components_of_a_convolutional_network_make_its_expected_peak() -> None:
    plan = Plan(
        parameters=11_700_000, trainable=11_700_000, layers=18, batch=64, image_kept=20_000_000, image_kind="cnn",
        optimizer="sgd",
    )  # fmt: skip
    used = usage(plan)
    assert used.skew > 0
    assert sum(map(used.typical, used.components)) == pytest.approx(used.expected)
