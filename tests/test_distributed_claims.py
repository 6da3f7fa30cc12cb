"""What the rules on several processes claim, shown by torchrun with gloo on this machine: one start for many claims.

NCCL, GPUs and several hosts cannot be shown here; the pages of those rules say so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

START = """
import json, os, sys, threading
from datetime import timedelta
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

said = {}


def say(**what):
    said.update(what)


def done():
    rank = os.environ["RANK"]
    with open(f"said-{rank}.json", "w") as file:
        json.dump(said, file)
    sys.stdout.flush()
    os._exit(0)

"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def started(folder: Path, program: str, *flags: str, **environment: str) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(START + program + "\ndone()\n")
    given = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "MASTER_ADDR")}
    command = [sys.executable, "-m", "torch.distributed.run", *flags, "train.py"]
    return subprocess.Popen(
        command, cwd=folder, env={**given, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )  # fmt: skip


def ran(folder: Path, program: str, *flags: str, **environment: str) -> list[dict[str, Any]]:
    """What each rank of a run said, by rank."""
    process = started(folder, program, *flags, f"--master_port={free_port()}", **environment)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return said_in(folder)


def said_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("said-*.json"), key=lambda file: int(file.stem.partition("-")[2]))
    return [json.loads(file.read_text()) for file in files]


def test_what_torchrun_gives_each_process(tmp_path: Path) -> None:
    """`MASTER_ADDR` of the environment is not read, and each of several processes gets one thread."""
    program = 'say(**{name: os.environ[name] for name in ("MASTER_ADDR", "OMP_NUM_THREADS", "RANK", "WORLD_SIZE")})'
    first, second = ran(tmp_path, program, "--nproc_per_node=2", MASTER_ADDR="10.1.1.1")
    assert (first["MASTER_ADDR"], first["OMP_NUM_THREADS"]) == ("127.0.0.1", "1")
    assert (first["RANK"], second["RANK"], second["WORLD_SIZE"]) == ("0", "1", "2")


def test_ranks_of_two_agents(tmp_path: Path) -> None:
    """RANK goes on counting on the second node, LOCAL_RANK starts again."""
    program = 'say(rank=os.environ["RANK"], local=os.environ["LOCAL_RANK"], world=os.environ["WORLD_SIZE"])'
    port = free_port()
    shared = ("--nnodes=2", "--nproc_per_node=2", "--master_addr=127.0.0.1", f"--master_port={port}")
    agents = [started(tmp_path, program, *shared, f"--node_rank={number}") for number in range(2)]
    for agent in agents:
        output, _ = agent.communicate(timeout=300)
        assert agent.returncode == 0, output
    assert [(one["rank"], one["local"], one["world"]) for one in said_in(tmp_path)] == [
        ("0", "0", "4"), ("1", "1", "4"), ("2", "0", "4"), ("3", "1", "4"),
    ]  # fmt: skip


DDP = """
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
torch.manual_seed(0)
sent = []


def note(state, bucket):
    sent.append((str(bucket.buffer().dtype), bucket.buffer().numel() * bucket.buffer().element_size()))
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def model():
    made = DistributedDataParallel(torch.nn.Linear(64, 64))
    made.register_comm_hook(None, note)
    return made


x = torch.randn(8, 64)
net = model()
for dtype in (torch.bfloat16, torch.float16):
    with torch.autocast("cpu", dtype=dtype):
        loss = net(x).float().sum()
    loss.backward()
say(buckets=list(sent), parameters=sum(p.numel() for p in net.parameters()))


def exchanges(step):
    sent.clear()
    made = model()
    for number in range(4):
        step(made, number)
    return len(sent)


def plain(made, number):
    made(x).sum().backward()


def around_both(made, number):
    if number == 3:
        return plain(made, number)
    with made.no_sync():
        made(x).sum().backward()


def around_backward(made, number):
    loss = made(x).sum()
    if number == 3:
        return loss.backward()
    with made.no_sync():
        loss.backward()


say(plain=exchanges(plain), both=exchanges(around_both), backward_only=exchanges(around_backward))
torch.save(net.state_dict(), "net.pt")
say(wrote=os.path.exists("net.pt"))
"""


def test_what_ddp_exchanges(tmp_path: Path) -> None:
    """fp32 under autocast; every micro-batch without `no_sync`, and with it around the backward alone; all ranks save."""
    for said in ran(tmp_path, DDP, "--nproc_per_node=2"):
        assert {dtype for dtype, _ in said["buckets"]} == {"torch.float32"}
        assert all(size == 4 * said["parameters"] for _, size in said["buckets"])
        assert (said["plain"], said["both"], said["backward_only"]) == (4, 1, 4)
        assert said["wrote"]


def test_a_barrier_of_some_ranks_ends_in_the_time_out(tmp_path: Path) -> None:
    program = """
dist.init_process_group("gloo", timeout=timedelta(seconds=5))
try:
    if dist.get_rank() == 0:
        dist.barrier()
    say(waited=False)
except RuntimeError as error:
    say(waited=True)
threading.Event().wait(8 if dist.get_rank() else 0)
"""
    first, second = ran(tmp_path, program, "--nproc_per_node=2")
    assert first["waited"] and not second["waited"]


def test_sharded_accumulation_repeats_its_traffic(tmp_path: Path) -> None:
    program = """
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.debug import CommDebugMode

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
net = torch.nn.Linear(64, 64)
fully_shard(net)
counts = []
for micro in range(4):
    with CommDebugMode() as mode:
        net(torch.randn(2, 64)).sum().backward()
    counts.append(mode.get_total_counts())
say(counts=counts)
"""
    for said in ran(tmp_path, program, "--nproc_per_node=2"):
        assert len(set(said["counts"])) == 1 and said["counts"][0] >= 2


def test_accelerate_counts_processes_in_total() -> None:
    """Two machines: 4 make two on each, 3 one, and 1 none."""
    pytest.importorskip("accelerate")
    from accelerate.commands.launch import launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    found = []
    for total in (4, 3, 1):
        words = ["--multi_gpu", "--num_machines=2", "--machine_rank=0", "--main_process_ip=10.0.0.1"]
        words += ["--main_process_port=29500", f"--num_processes={total}", "--mixed_precision=no", "train.py"]
        args = launch_command_parser().parse_args(words)
        args.num_cpu_threads_per_process = 1
        args.dynamo_backend, args.dynamo_mode, args.gpu_ids = "no", "default", "all"
        prepare_multi_gpu_env(args)
        found.append(int(args.nproc_per_node))
    assert found == [2, 1, 0]


def test_the_trainer_searches_for_unused_parameters_of_a_peft_model() -> None:
    pytest.importorskip("peft")
    pytest.importorskip("transformers")
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=32,
    )
    model = get_peft_model(LlamaForCausalLM(config), LoraConfig(target_modules=["q_proj"]))
    assert not isinstance(model, PreTrainedModel)  # what the Trainer's default of the search asks


def test_a_sampler_that_is_not_told_the_epoch_repeats_its_order() -> None:
    from torch.utils.data.distributed import DistributedSampler

    sampler: Any = DistributedSampler(list(range(64)), num_replicas=2, rank=0, shuffle=True)
    first, second = list(sampler), list(sampler)
    sampler.set_epoch(1)
    assert first == second != list(sampler)


def test_threads_are_read_when_torch_is_imported() -> None:
    program = "import os, torch; before = torch.get_num_threads(); os.environ['OMP_NUM_THREADS'] = str(before + 3); "
    program += "torch.ones(100, 100) @ torch.ones(100, 100); assert torch.get_num_threads() == before"
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 0


def test_the_trainer_refuses_batch_sizes_that_differ_from_its_own() -> None:
    """The configuration of the Trainer collects what does not match, and raises it when training starts."""
    pytest.importorskip("transformers")
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    checked = HfTrainerDeepSpeedConfig.fill_match
    config: Any = object.__new__(HfTrainerDeepSpeedConfig)
    config.mismatches = []
    config.find_config_node = lambda name: ({name: 8}, name)
    checked(config, "train_micro_batch_size_per_gpu", 4, "per_device_train_batch_size")
    assert config.mismatches == ["- ds train_micro_batch_size_per_gpu=8 vs hf per_device_train_batch_size=4"]
