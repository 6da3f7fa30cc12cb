"""What processes exchange for a step and how long that takes: bytes by strategy, published measurements, and `t4lint fit`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from t4lint.cli import main
from t4lint.devices import find_target, instances
from t4lint.memory import fill
from t4lint.memory.communication import NetworkRate, break_even_tokens, pcie_seconds, ring_share, step_seconds
from t4lint.memory.recipe import Evidence, Recipe, recipe_of
from t4lint.memory.traffic import Exchange, exchange_of
from t4lint.trace import NOT_SAID, Call, Engine, Event, Launch, Location, Model, Origin, Step, Trace, Value, Wrap

HERE = Location("train.py", 1, 1, 1, 10)
P = 124_439_808  # parameters of gpt2


def value(it: object) -> Value:
    return Value(it, (Origin("literal", str(it), HERE),))


def trace_of(
    how: str, *, nodes: int = 2, each: int = 1, precision: str = "fp16", accumulation: int = 1, target: str = "g4dn.xlarge",
    options: Mapping[str, object] | None = None, dtype: str = "float32", role: str = "TrainingArguments",
    checkpointing: bool = False, more: tuple[Event, ...] = (), reduces: Value = NOT_SAID,
) -> Trace:  # fmt: skip
    """Two nodes or one that train gpt2 as a Trainer does, or (`role=""`) as a loop of its own does."""
    engine = Engine(
        where=HERE, role=role, mixed_precision=value(precision), micro_batch=value(4), sequence_length=value(1024),
        accumulation=value(accumulation), optimizer=value("adamw_torch_fused"),
        activation_checkpointing=value(checkpointing),
    )  # fmt: skip
    launch = Launch(where=HERE, launcher="torchrun", nodes=value(nodes), processes_per_node=value(each))
    model = Model(where=HERE, role="load", subject="model", name=value("gpt2"), dtype=value(dtype), trainable=value(P))
    said = {name: value(it) for name, it in (options or {}).items()}
    wrap = Wrap(where=HERE, how=value(how), options=said, reduces=reduces)
    step = Step(where=HERE, subject="optimizer", engine=role)
    events = (launch, model, engine, wrap, *more, step)
    return Trace(basis="predicted", target=find_target(target), versions={}, events=events)


def step_of(trace: Trace) -> Step:
    return next(fill(trace).all(Step))


def exchange(trace: Trace) -> Exchange:
    step = next(trace.all(Step))
    recipe = recipe_of(trace, step)
    assert isinstance(recipe, Recipe)
    found = exchange_of(recipe, P, (P, P), step, Evidence())
    assert isinstance(found, Exchange)
    return found


# --- bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "strategy", "precision", "accumulation", "low", "high"),
    [
        ("ddp", "", "no", 4, 8, 8),
        ("ddp", "", "fp16", 4, 8, 8),  # autocast leaves the gradients in float32
        ("zero1", "", "fp16", 4, 4, 4),  # once a step
        ("zero2", "", "fp16", 1, 4, 4),
        ("zero2", "", "fp16", 4, 10, 10),  # 2 for each micro-batch, and 2
        ("zero3", "", "fp16", 1, 6, 6),
        ("zero3", "", "fp16", 4, 24, 24),
        ("zero3", "", "no", 1, 12, 12),
        ("fsdp", "FULL_SHARD", "no", 1, 12, 12),
        ("fsdp", "FULL_SHARD", "fp16", 1, 6, 8),  # the dtype of the reduction is not known
        ("fsdp", "FULL_SHARD", "no", 4, 48, 48),
        ("fsdp", "SHARD_GRAD_OP", "no", 1, 8, 8),
    ],
)
def test_bytes_of_a_parameter_and_step(
    how: str, strategy: str, precision: str, accumulation: int, low: float, high: float
) -> None:
    options = {"strategy": strategy} if strategy else {}
    (ring,) = exchange(trace_of(how, precision=precision, accumulation=accumulation, options=options)).rings
    assert ring.size == pytest.approx((low * P, high * P))
    assert ring.ranks == 2 and ring.sent == pytest.approx((low * P / 2, high * P / 2))


def test_a_loop_without_no_sync_reduces_each_micro_batch() -> None:
    always = trace_of("ddp", accumulation=4, role="", reduces=value("always"))
    assert exchange(always).rings[0].size == pytest.approx((32 * P, 32 * P))
    chosen = trace_of("ddp", accumulation=4, role="", reduces=value("chosen"))
    assert exchange(chosen).rings[0].size == pytest.approx((8 * P, 8 * P))
    open_ = trace_of("ddp", accumulation=4, role="")
    assert exchange(open_).rings[0].size == pytest.approx((8 * P, 32 * P))


def test_a_hybrid_strategy_sends_one_reduction_between_nodes() -> None:
    both = exchange(trace_of("fsdp", nodes=2, each=4, precision="no", options={"strategy": "HYBRID_SHARD"}))
    inside, between = both.rings
    assert (inside.over, inside.ranks, between.over, between.ranks) == ("machine", 4, "network", 2)
    assert inside.size == pytest.approx((12 * P, 12 * P)) and between.size == pytest.approx((8 * P, 8 * P))
    alone = exchange(trace_of("fsdp", precision="no", options={"strategy": "HYBRID_SHARD"}))
    assert [ring.size for ring in alone.rings] == [pytest.approx((8 * P, 8 * P))]  # nothing is sharded: as DDP


def test_a_hook_halves_what_ddp_sends() -> None:
    arguments = {"hook": value("torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook")}
    hook = Call(
        where=HERE, function="torch.nn.parallel.DistributedDataParallel.register_comm_hook", arguments=arguments
    )
    assert exchange(trace_of("ddp", more=(hook,))).rings[0].size == pytest.approx((4 * P, 4 * P))
    by_accelerate = Call(
        where=HERE, function="accelerate.DistributedDataParallelKwargs", arguments={"comm_hook": value("FP16")}
    )
    assert exchange(trace_of("ddp", more=(by_accelerate,))).rings[0].size == pytest.approx((4 * P, 4 * P))


def test_recomputation_may_gather_weights_once_more() -> None:
    plain, again = (exchange(trace_of("zero3", checkpointing=on)).rings[0].size for on in (False, True))
    assert plain == pytest.approx((6 * P, 6 * P)) and again == pytest.approx((6 * P, 8 * P))


# --- seconds --------------------------------------------------------------------------------------------------------

BERT = 108_310_272  # parameters of bert-base-cased, which the two measurements below trained in float32


@pytest.mark.parametrize("gbps", [3, 5, 10])
def test_two_t4_nodes_as_measured_in_the_documentation_of_accelerate(gbps: float) -> None:
    """Two machines with a T4 each and four micro-batches a step: 2.0 s a batch with four exchanges, 0.91 s with one.

    So one exchange shows for 1.45 s. The machines are not named: the least of all of their rates must lie below.
    """
    a_batch, with_no_sync, micro_batches = 2.0, 0.91, 4
    exposed = (a_batch - with_no_sync) / (1 - 1 / micro_batches)
    assert exposed == pytest.approx(1.45, abs=0.01)
    sent = 8 * BERT * ring_share(2)
    expected, highest = (sent / rate for rate in NetworkRate(gbps, provider="GCP").band)
    assert highest < expected and highest < exposed
    effective = sent / exposed * 8 / 1e9
    assert effective == pytest.approx(2.4, abs=0.05)  # Gbit/s: below the 5 that are taken for the most of plain sockets


def test_two_t4s_of_one_machine_as_measured_in_the_documentation_of_accelerate() -> None:
    """One machine with two T4s: 0.50 s a batch with four exchanges, 0.41 s with one: 0.12 s an exchange."""
    exposed = (0.50 - 0.41) / (1 - 1 / 4)
    least, expected = pcie_seconds(BERT, 4, 2)
    assert least < exposed
    assert expected == pytest.approx(exposed, rel=0.1)


def test_two_turing_cards_without_peer_access_as_measured_in_the_documentation_of_transformers() -> None:
    """Two TITAN RTX and GPT-2 in float32, 200 steps: 101.9 s over NVLink, 131.4 s without peer access."""
    difference = (131.4 - 101.9) / 200
    _, expected = pcie_seconds(P, 4, 2)
    assert expected == pytest.approx(difference, rel=0.05)


# Tokens a rank and step at which an all-reduce of float32 gradients takes as long as the arithmetic, at 70 % of the rate.
BREAK_EVEN = {
    "GN7.2XLARGE32": (51e3, 89e3), "ecs.gn6i-c4g1.xlarge": (38e3, 67e3), "g4dn.xlarge": (30e3, 53e3),
    "Standard_NC4as_T4_v3": (19e3, 33e3), "GN7.8XLARGE128": (15e3, 27e3), "g4dn.8xlarge": (3.0e3, 5.3e3),
}  # fmt: skip
FULL_NODES = {"GN7.20XLARGE320": (10.7e3, 11.8e3), "g4dn.12xlarge": (5.3e3, 5.9e3)}


@pytest.mark.parametrize(("name", "tokens"), [*BREAK_EVEN.items(), *FULL_NODES.items()])
def test_break_even_table(name: str, tokens: tuple[float, float]) -> None:
    """Two nodes and eight of each type of machine, all of its GPUs in use, at 20 TFLOP/s."""
    instance = instances()[name]
    gbps = instance.network_gbps_baseline or instance.network_gbps_max
    assert gbps is not None
    for nodes, expected in zip((2, 8), tokens, strict=True):
        ranks = nodes * instance.gpu_count
        assert break_even_tokens(4, ranks, gbps, 20e12, share=0.7) == pytest.approx(expected, rel=0.03)
        assert break_even_tokens(2, ranks, gbps, 20e12, share=0.7) == pytest.approx(expected / 2, rel=0.03)


def test_a_step_hides_the_exchange_behind_the_backward_at_best() -> None:
    assert step_seconds((1.0, 2.0), (0.3, 0.6)) == pytest.approx((1.1, 2.6))
    assert step_seconds((0.1, 0.2), (0.3, 0.6)) == pytest.approx((0.3, 0.8))
    assert step_seconds((1.0, 2.0), (0.3, 0.6), hidden=1.0) == pytest.approx((1.0, 2.6))


def test_sharded_steps_have_seconds() -> None:
    """What ZeRO-2 and ZeRO-3 take over the network, of what DDP takes."""
    seconds = {how: step_of(trace_of(how)).communication.it for how in ("ddp", "zero1", "zero2", "zero3")}
    assert seconds["ddp"] == pytest.approx((8 * P / 2 / 3.125e9, 8 * P / 2 / (0.7 * 5e9 / 8)))
    ratios = [seconds[how][0] / seconds["ddp"][0] for how in ("zero1", "zero2", "zero3")]
    assert ratios == pytest.approx([0.5, 0.5, 0.75])


def test_the_network_must_be_known() -> None:
    assert "network" in step_of(trace_of("zero3", target="t4")).communication.unknown
    unmodelled = step_of(trace_of("fsdp", options={"strategy": "_HYBRID_OTHER"})).communication
    assert "not modelled" in unmodelled.unknown


# --- fit ------------------------------------------------------------------------------------------------------------

TRAIN = """
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", per_device_train_batch_size=1, max_length=256, fp16=True{more})
SFTTrainer(model="openai-community/gpt2-medium", args=args, train_dataset=load_dataset("trl-lib/Capybara")).train()
"""
TWO_NODES = "torchrun --nnodes=2 --nproc_per_node=1 --node_rank=$RANK --master_addr=$ADDR train.py\n"


def fitted(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *flags: str, launch: str,
           more: str = "") -> str:  # fmt: skip
    (folder / "train.py").write_text(TRAIN.replace("{more}", more), encoding="utf-8")
    (folder / "run.sh").write_text(launch, encoding="utf-8")
    monkeypatch.chdir(folder)
    main(["fit", ".", *flags])
    text = capsys.readouterr().out
    return text if "json" in flags else " ".join(text.split())


def values(text: str) -> Any:
    (section,) = json.loads(text)["fit"][0]["sections"]
    return section["values"]


def test_fit_says_that_the_network_is_slower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = fitted(tmp_path, capsys, monkeypatch, "--target", "GN7.2XLARGE32", launch=TWO_NODES)
    for words in ("Communication for one optimizer step", "The GPUs wait for the network", "GN7.2XLARGE32: 3 Gbit/s",
                  "8.0 bytes a parameter", "break even", "accumulation", "The least: one ring"):  # fmt: skip
        assert words in shown
    found = values(
        fitted(tmp_path, capsys, monkeypatch, "--target", "GN7.2XLARGE32", "--output-format", "json", launch=TWO_NODES)
    )
    assert (found["strategy"], found["nodes"], found["processes_per_node"]) == ("ddp", 2, 1)
    assert found["gradient_bytes"] == [4, 4] and found["tokens"] == 256
    wire = 8 * found["parameters"] / 2 / 3e9 * 8
    assert found["communication_seconds"] == pytest.approx([wire, wire / 0.7])
    # As often as the least tokens fit into the most of the arithmetic's time, and the other way round.
    low, high = found["break_even_tokens"]
    assert low == pytest.approx(256 * wire / found["compute_seconds"][1])
    assert high == pytest.approx(256 * wire / 0.7 / found["compute_seconds"][0])


def test_fit_names_what_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = fitted(tmp_path, capsys, monkeypatch, launch=TWO_NODES)
    assert "8.0 bytes a parameter" in shown  # bytes need no network
    assert "the network of the nodes is not known: name the instance" in shown
    open_ = fitted(tmp_path, capsys, monkeypatch, launch="torchrun --nnodes=$N --nproc_per_node=$G train.py\n")
    assert "not known" in open_[open_.index("processes") :]


def test_fit_takes_what_a_person_says_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--target", "GN7.2XLARGE32", "--output-format", "json", "--batch-size", "4", "--sequence-length", "1024")
    assert values(fitted(tmp_path, capsys, monkeypatch, *flags, launch=TWO_NODES))["tokens"] == 4096
    small = values(fitted(tmp_path, capsys, monkeypatch, *flags, "--model", "gpt2", launch=TWO_NODES))
    assert small["parameters"] == P


def test_fit_between_the_gpus_of_one_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = fitted(
        tmp_path, capsys, monkeypatch, "--target", "kaggle-2xt4", launch="torchrun --nproc_per_node=2 train.py\n"
    )
    assert (
        "2 on one machine" in shown and "no NVLink" in shown and "network" not in shown[shown.index("Communication") :]
    )


def test_fit_is_silent_for_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Communication" not in fitted(tmp_path, capsys, monkeypatch, launch="python train.py\n")


def test_fit_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}, "fp16": {"enabled": true}}')
    more = ', deepspeed="ds.json", gradient_accumulation_steps=4'
    shown = fitted(tmp_path, capsys, monkeypatch, "--target", "g4dn.xlarge", launch=TWO_NODES, more=more)
    assert "ZeRO-2 scatters the gradients after each micro-batch" in shown and "10.0 bytes a parameter" in shown
    assert "accumulation does not help" in shown


def test_half_a_t4_is_not_a_t4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fits on a T4 does not fit on the 8 GB of half of one; its name sorts above that of a whole one."""
    (tmp_path / "train.py").write_text(TRAIN.replace("{more}", ""), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    big = ("--model", "openai-community/gpt2-large")
    assert main(["fit", "train.py", *big, "--target", "GN7.2XLARGE32"]) == 0
    assert main(["fit", "train.py", *big, "--target", "GN7.2XLARGE40"]) == 1
    assert "Does not fit" in capsys.readouterr().out
