"""Kinds of training programs on the phantom: what each needs beside a plain loop, and what it must show."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from t4lint.devices import find_target
from t4lint.phantom import start
from t4lint.record.journal import Record
from t4lint.record.launch import Limits, Recording, record
from t4lint.record.observe import trace_of
from t4lint.trace import Step

pytestmark = pytest.mark.heavy
PYTHON = os.environ.get("T4LINT_TEST_PYTHON", sys.executable)  # of the programs: another torch may be there
ROOT = Path(__file__).resolve().parents[1]
KINDS = ROOT / "benchmarks" / "phantom"
GIB = 2**30
T4 = find_target("t4")


@pytest.fixture(scope="module", autouse=True)
def tried() -> None:
    """Whether this torch takes the patches is tried once, not in each run."""
    torch = pytest.importorskip("torch")
    if sys.executable == PYTHON:
        assert start.works(torch) == ""


def run(folder: Path, *command: str, steps: int = 2, gib: int = 2) -> Recording:
    """On the phantom, within some GiB of this machine's memory."""
    limits = Limits(device="phantom", memory=gib * GIB)
    return record(command, cwd=folder, steps=steps, timeout=900, limits=limits, gpu=T4.gpu)


def script(folder: Path, text: str, *words: str, steps: int = 2) -> Recording:
    (folder / "train.py").write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return run(folder, PYTHON, "train.py", *words, steps=steps)


def seen(done: Recording, kind: str) -> list[Record]:
    return [it for it in done.journal.records if it.k == kind]


def held(done: Recording) -> dict[str, Any]:
    """What the fullest moment was made of, after a run that came to its steps."""
    assert done.outcome.how in ("stopped", "finished"), (done.outcome, done.stderr[-3000:])
    assert not seen(done, "trouble"), seen(done, "trouble")[0].d
    return seen(done, "held")[-1].d


def needs(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def copied(folder: Path, name: str, full: str = "", small: str = "") -> Path:
    """The program, with fewer layers where the number does not matter: what takes the time is each operation."""
    text = (KINDS / name).read_text(encoding="utf-8")
    assert full in text
    (folder / name).write_text(text.replace(full, small), encoding="utf-8")
    return folder


def test_like_nanogpt_bf16_takes_the_math_kernel_and_does_not_fit(tmp_path: Path) -> None:
    done = run(copied(tmp_path, "nanogpt.py"), PYTHON, "nanogpt.py", steps=1)
    parts = held(done)["components"]
    parameters = 50304 * 768 + 1024 * 768 + 12 * (12 * 768**2 + 13 * 768) + 2 * 768
    assert parts["weights"] == pytest.approx(4 * parameters, rel=0.001)
    assert {(it.d["kernel"], it.d["dtype"]) for it in seen(done, "attention")} == {("math", "bfloat16")}
    assert len(seen(done, "out_of_memory")) == 1
    assert [it.u[0][0] for it in seen(done, "compile")] == ["nanogpt.py"], "a no-op, and recorded"


def test_a_convolution_network_evaluates_as_well(tmp_path: Path) -> None:
    done = run(copied(tmp_path, "cnn.py"), PYTHON, "cnn.py", steps=6)
    parts = held(done)["components"]
    assert parts["activations"] > 5 * parts["weights"]
    assert "MiB" in done.stdout


def test_a_unet_of_a_diffusion_model(tmp_path: Path) -> None:
    done = run(copied(tmp_path, "unet.py"), PYTHON, "unet.py")
    assert held(done)["allocated"] < GIB
    assert {it.d["kernel"] for it in seen(done, "attention")} == {"efficient"}


def test_trl_with_peft(tmp_path: Path) -> None:
    needs("trl", "peft", "datasets")
    folder = copied(tmp_path, "sft.py", "num_hidden_layers=22", "num_hidden_layers=2")
    parts = held(run(folder, sys.executable, "sft.py"))["components"]
    layer = 2 * 2048**2 + 2 * 256 * 2048 + 3 * 5632 * 2048
    assert parts["weights"] == pytest.approx(2 * (2 * layer + 2 * 32000 * 2048), rel=0.02), "in fp16"
    assert parts.get("gradients", 0) < 0.01 * parts["weights"], "of adapters only"


@pytest.mark.parametrize("eight", [False, True])
def test_quantized_weights_take_their_bytes(tmp_path: Path, eight: bool) -> None:
    """Two layers of Llama-2 7B in 4 or 8 bits, with their scales; embedding and head in fp32."""
    needs("bitsandbytes", "peft", "transformers")
    folder = copied(tmp_path, "qlora.py", "dtype=torch.float16)  #", "dtype=torch.float16, num_hidden_layers=2)  #")
    command = [sys.executable, "qlora.py", *(["--8bit"] if eight else [])]
    done = run(folder, *command, steps=1)
    layers = 2 * (4 * 4096**2 + 3 * 11008 * 4096)
    each = 1.0 if eight else 1 / 2 + 1 / 64 + 4 / (64 * 256)  # a scale of 64 weights in 8 bits, and one of 256 scales
    assert held(done)["components"]["weights"] == pytest.approx(each * layers + 4 * 2 * 32000 * 4096, rel=0.02)
    step = next(iter(trace_of(done, T4).all(Step)))
    assert step.math.it["float16"] > 0.9, "products are in the compute dtype, whatever the storage is"


def test_a_quantized_checkpoint_is_loaded_with_its_compute_dtype(tmp_path: Path) -> None:
    """The usual way: `from_pretrained` with a configuration, from weights on the disk."""
    needs("bitsandbytes", "peft", "transformers")
    make = """
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=256)
        LlamaForCausalLM(config).save_pretrained("model")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(make)], cwd=tmp_path, check=True, env={**os.environ})
    text = """
        import bitsandbytes as bnb
        import torch
        from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig

        quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float16)
        model = AutoModelForCausalLM.from_pretrained("model", quantization_config=quantization, device_map={"": 0})
        layer = model.model.layers[0].self_attn.q_proj
        assert isinstance(layer, bnb.nn.Linear4bit) and isinstance(layer.weight, bnb.nn.Params4bit)
        assert (layer.weight.dtype, layer.weight.numel(), layer.weight.device.type) == (torch.uint8, 64 * 64 // 2, "cuda")
        assert layer.weight.quant_state.dtype in (torch.float16, torch.float32) and layer.compute_dtype is torch.float16
        model = prepare_model_for_kbit_training(model)
        model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
        optimizer = bnb.optim.AdamW8bit(it for it in model.parameters() if it.requires_grad)
        for _ in range(2):
            ids = torch.randint(0, 256, (2, 32), device="cuda")
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    """
    held(script(tmp_path, text))


RANK = """
    import os
    import sys

    import torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    blocks = [nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)) for _ in range(4)]
    model = nn.Sequential(*blocks).to(rank)
    if sys.argv[1] == "ddp":
        model = nn.parallel.DistributedDataParallel(model, [rank], gradient_as_bucket_view="view" in sys.argv)
    elif sys.argv[1] == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(model, device_id=rank)
    elif sys.argv[1] == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for block in blocks:
            fully_shard(block)
        fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        model(torch.randn(4, 512, device=rank)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    told = [torch.empty(2, device=rank) for _ in range(dist.get_world_size())]
    dist.all_gather(told, torch.ones(2, device=rank))
    dist.destroy_process_group()
"""
WEIGHTS = 4 * 4 * (2 * 512 * 2048 + 2048 + 512)  # bytes in fp32


def ranks(folder: Path, *words: str) -> dict[str, Any]:
    """Two of them; what the first held."""
    (folder / "train.py").write_text(textwrap.dedent(RANK).lstrip("\n"), encoding="utf-8")
    launcher = [PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py"]
    done = run(folder, *launcher, *words, gib=3)
    held(done)
    both = {it.rank: it.d for it in seen(done, "held") if it.d["allocated"]}
    assert set(both) == {0, 1} and both[0]["allocated"] == both[1]["allocated"]
    return both[0]


def test_ranks_of_ddp_hold_buckets_of_the_gradients_unless_these_are_views(tmp_path: Path) -> None:
    with_buckets, views = ranks(tmp_path, "ddp"), ranks(tmp_path, "ddp", "view")
    assert with_buckets["allocated"] - views["allocated"] == pytest.approx(WEIGHTS, rel=0.02)
    assert with_buckets["components"]["weights"] == pytest.approx(WEIGHTS, rel=0.01)


@pytest.mark.parametrize("how", ["fsdp", "fsdp2"])
def test_ranks_of_fsdp_hold_a_share_of_the_state(tmp_path: Path, how: str) -> None:
    whole, shared = ranks(tmp_path, "none"), ranks(tmp_path, how)
    assert shared["components"]["optimizer"] == pytest.approx(WEIGHTS / 2, rel=0.02)
    assert shared["phases"]["setup"] > 0.4 * WEIGHTS
    assert whole["components"]["optimizer"] == pytest.approx(WEIGHTS, rel=0.02)


def test_odd_parts_of_torch(tmp_path: Path) -> None:
    """Each of them needs something of its own; they share a process because its start is what takes the time."""
    text = """
        import torch
        from torch import nn
        from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

        d = "cuda"

        # packed sequences
        lengths = torch.tensor([7, 10, 3])
        for kind in (nn.LSTM, nn.GRU):
            net = kind(16, 32, batch_first=True, bidirectional=True).to(d)
            packed = pack_padded_sequence(torch.randn(3, 10, 16).to(d), lengths, batch_first=True, enforce_sorted=False)
            assert packed.data.shape == (20, 16) and packed.batch_sizes.tolist() == [3, 3, 3, 2, 2, 2, 2, 1, 1, 1]
            out, back = pad_packed_sequence(net(packed)[0], batch_first=True)
            assert out.shape == (3, 10, 64) and back.tolist() == [7, 10, 3]
            out.sum().backward()

        # CTC
        scores = torch.randn(20, 2, 10, device=d, requires_grad=True)
        targets = torch.randint(1, 10, (2, 5)).to(d)
        loss = nn.CTCLoss()(scores.log_softmax(2), targets, torch.tensor([20, 20]), torch.tensor([5, 5]).to(d))
        assert loss.shape == () and loss.device.type == d
        loss.backward()
        assert scores.grad.shape == scores.shape

        # generators
        drawn = torch.Generator(device=d).manual_seed(3)
        assert torch.randn(3, device=d, generator=drawn).device.type == d and drawn.device.type == d
        assert isinstance(torch.Generator(), torch.Generator) and isinstance(drawn, torch.Generator)

        # CUDA graphs
        layer, given = nn.Linear(4, 4).to(d), torch.randn(2, 4, device=d)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            layer(given)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layer(given)
        graph.replay()
        assert torch.cuda.make_graphed_callables(layer, (given,))(given).shape == (2, 4)

        # DataParallel
        several = nn.DataParallel(nn.Linear(8, 8)).to(d)
        several(torch.randn(4, 8)).sum().backward()
        assert several.module.weight.grad.device.type == d

        # `data` of a parameter, by hand
        loose = nn.Parameter(torch.randn(4))
        loose.data = loose.data.cuda()
        (loose * 2).sum().backward()
        assert loose.grad.device.type == d and isinstance(loose, nn.Parameter)

        # which are selected, by values that are known
        ids = torch.tensor([1, 2, 2, 3]).to(d)
        assert torch.unique(ids).tolist() == [1, 2, 3] and (ids == 2).nonzero().flatten().tolist() == [1, 2]
        assert torch.tensor([5]).to(d).item() == 5
        print("all")
    """
    done = script(tmp_path, text)
    assert done.outcome.how == "finished" and done.stdout.endswith("all\n"), done.stderr[-3000:]
    assert not seen(done, "unsupported")
