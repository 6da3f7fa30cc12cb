"""What the rules on several processes claim, shown by torchrun with gloo on this machine: one start for many claims.

Several hosts are network namespaces, where they can be made. NCCL and GPUs cannot be shown here; the pages of those rules
say so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t4lint.memory.traffic import DDP_EACH, PASSES

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
    mean = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(mean, async_op=True).get_future().then(lambda done: done.value()[0])


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


def by_flag(made, number):
    made.require_backward_grad_sync = number == 3
    made(x).sum().backward()


def exchanges(step):
    sent.clear()
    made = model()
    for number in range(4):
        step(made, number)
    sums[step.__name__] = [parameter.grad.clone() for parameter in made.parameters()]
    return len(sent)


sums = {}


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


say(plain=exchanges(plain), both=exchanges(around_both), backward_only=exchanges(around_backward), flag=exchanges(by_flag))
say(same=all(torch.allclose(one, other) for one, other in zip(sums["plain"], sums["by_flag"])))
torch.save(net.state_dict(), "net.pt")
say(wrote=os.path.exists("net.pt"))
"""


def test_what_ddp_exchanges(tmp_path: Path) -> None:
    """fp32 under autocast; every micro-batch without `no_sync`, and with it around the backward alone; all ranks save."""
    for said in ran(tmp_path, DDP, "--nproc_per_node=2"):
        assert {dtype for dtype, _ in said["buckets"]} == {"torch.float32"}
        assert all(size == 4 * said["parameters"] for _, size in said["buckets"])
        assert (said["plain"], said["both"], said["backward_only"]) == (4, 1, 4)
        assert said["flag"] == 1 and said["same"]
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


METER = """
from torch.utils._python_dispatch import TorchDispatchMode


class Meter(TorchDispatchMode):
    # Whole-tensor bytes of each collective that torch is asked for.
    def __init__(self):
        super().__init__()
        self.sent = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.name().startswith("c10d::"):
            tensors = [it for part in args[:2] for it in (part if isinstance(part, (list, tuple)) else [part])]
            sizes = [it.numel() * it.element_size() for it in tensors if isinstance(it, torch.Tensor)]
            self.sent.append((func.name().removeprefix("c10d::").strip("_"), max(sizes, default=0)))
        return func(*args, **(kwargs or {}))


dist.init_process_group("gloo", timeout=timedelta(seconds=60))
torch.manual_seed(0)
"""


def test_bytes_of_each_way_to_share_the_work(tmp_path: Path) -> None:
    """What the model of `t4lint fit` counts on: DDP, and FSDP2 by the dtypes of its policy and by what it keeps."""
    program = (
        METER
        + """
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

HALF, x = torch.bfloat16, torch.randn(4, 64)


def sharded(micro=1, **options):
    net = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False))
    fully_shard(net[0], **options)
    fully_shard(net, **options)
    net(x).sum().backward()  # the first iteration is special
    with Meter() as meter:
        for _ in range(micro):
            net(x).sum().backward()
    return sum(size for _, size in meter.sent) / (64 * 64)


net = DistributedDataParallel(torch.nn.Linear(64, 64, bias=False))
with Meter() as meter:
    net(x).sum().backward()
say(
    ddp=2 * sum(size for _, size in meter.sent) / (64 * 64),  # an all-reduce is a scatter and a gather
    float32=sharded(), kept=sharded(reshard_after_forward=False), four=sharded(micro=4),
    mixed=sharded(mp_policy=MixedPrecisionPolicy(param_dtype=HALF, reduce_dtype=torch.float32)),
    half=sharded(mp_policy=MixedPrecisionPolicy(param_dtype=HALF, reduce_dtype=HALF)),
)
"""
    )
    expected = {"ddp": 8, "float32": 12, "kept": 8, "four": 48, "mixed": 8, "half": 6}
    for said in ran(tmp_path, program, "--nproc_per_node=2"):
        assert said == expected
    for name, sizes in {"float32": (4, 4), "kept": (4, 4), "mixed": (2, 4), "half": (2, 2)}.items():
        passes = PASSES["SHARD_GRAD_OP" if name == "kept" else "FULL_SHARD"]
        assert passes.weights_each * sizes[0] + passes.gradients_each * sizes[1] == expected[name]
    assert DDP_EACH.gradients_each * 4 == expected["ddp"]


def test_buffers_batch_norm_hooks_and_views_of_ddp(tmp_path: Path) -> None:
    program = (
        METER
        + """
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

rank = dist.get_rank()
x = torch.randn(4, 8) + rank


def normed(**options):
    return DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)), **options)


def names(net):
    with Meter() as meter:
        net(x).sum().backward()
    return [name for name, _ in meter.sent]


own = normed(broadcast_buffers=False)
say(default=names(normed()), off=names(own), mean=own.module[1].running_mean.sum().item())


def shared(view):
    net = DistributedDataParallel(torch.nn.Linear(8, 8), gradient_as_bucket_view=view)
    net(x).sum().backward()
    return len({parameter.grad.untyped_storage().data_ptr() for parameter in net.parameters()})


say(view=shared(True), apart=shared(False))


def gradient(hook, scale):
    torch.manual_seed(1)
    net = DistributedDataParallel(torch.nn.Linear(64, 64))
    if hook is not None:
        net.register_comm_hook(None, hook)
    (net(torch.randn(16, 64)).pow(2).mean() * scale).backward()
    return net.module.weight.grad / scale


exact, halved = gradient(None, 1.0), gradient(default_hooks.fp16_compress_hook, 1024.0)
say(error=((exact - halved).norm() / exact.norm()).item())
try:
    powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1)
    say(refused=False)
except ValueError:
    say(refused=True)
state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1)
net = DistributedDataParallel(torch.nn.Linear(64, 64, bias=False))
net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
for _ in range(4):
    net(torch.randn(4, 64)).sum().backward()
say(kept=sum(it.numel() for it in state.error_dict.values()), parameters=64 * 64)
"""
    )
    first, second = ran(tmp_path, program, "--nproc_per_node=2")
    for said in (first, second):
        assert said["default"].count("broadcast") == 2 and "broadcast" not in said["off"]
        assert (said["view"], said["apart"]) == (1, 2)
        assert 0 < said["error"] < 1e-3
        assert said["refused"] and said["kept"] == said["parameters"]
    assert first["mean"] != second["mean"]  # each rank normalizes by what it has


def test_what_each_rank_reads_and_writes(tmp_path: Path) -> None:
    """Without a DistributedSampler equal seeds give equal batches; with one each rank has its half, and `set_epoch` reorders."""
    program = """
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
data, rank = list(range(32)), dist.get_rank()
torch.manual_seed(0)
plain = [number for batch in DataLoader(data, batch_size=4, shuffle=True) for number in batch.tolist()]
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)


def epoch():
    return [number for batch in loader for number in batch.tolist()]


first, again = epoch(), epoch()
sampler.set_epoch(1)
say(plain=plain, first=first, again=again, later=epoch())
torch.save({"rank": rank}, "checkpoint.pt")
dist.barrier()
say(left=torch.load("checkpoint.pt")["rank"], files=len([name for name in os.listdir(".") if name.endswith(".pt")]))
"""
    one, two = ran(tmp_path, program, "--nproc_per_node=2")
    assert one["plain"] == two["plain"]
    assert sorted(one["first"] + two["first"]) == list(range(32))
    for said in (one, two):
        assert said["first"] == said["again"] != said["later"]
        assert said["files"] == 1
    assert one["left"] == two["left"]  # the work of one rank is gone


def test_the_trainer_and_ddp_on_a_peft_model(tmp_path: Path) -> None:
    """The search is on although nothing is unused, and the buckets are never ordered anew."""
    pytest.importorskip("peft")
    pytest.importorskip("transformers")
    program = """
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

config = LlamaConfig(
    hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, vocab_size=32
)
data = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 16


def trained(**options):
    model = get_peft_model(LlamaForCausalLM(config), LoraConfig(target_modules=["q_proj"]))
    args = TrainingArguments(
        output_dir="out", use_cpu=True, ddp_backend="gloo", max_steps=3, per_device_train_batch_size=1, report_to=[],
        save_strategy="no", **options,
    )
    trainer = Trainer(model=model, args=args, train_dataset=data)
    trainer.train()
    logged = trainer.model_wrapped._get_ddp_logging_data()
    return [logged["find_unused_parameters"], logged.get("has_rebuilt_buckets", 0), logged.get("unused_parameter_size", 0)]


say(default=trained(), off=trained(ddp_find_unused_parameters=False))
"""
    for said in ran(tmp_path, program, "--nproc_per_node=2"):
        assert said["default"] == [1, 0, 0]
        assert said["off"][:2] == [0, 1]


# --- several hosts ------------------------------------------------------------------------------------------------

HOSTS = {"one": "10.77.31.1", "two": "10.77.31.2"}
CARD = "t4veth"


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, str]]:
    """Two network namespaces with a cable between them: names by host."""
    names = {host: f"t4lint-{os.getpid()}-{host}" for host in HOSTS}
    links = {host: f"t4{os.getpid()}{host[0]}" for host in HOSTS}
    commands = [["netns", "add", name] for name in names.values()]
    commands += [["link", "add", links["one"], "type", "veth", "peer", "name", links["two"]]]
    for host, name in names.items():
        inside = ["-n", name]
        commands += [
            ["link", "set", links[host], "netns", name], [*inside, "link", "set", links[host], "name", CARD],
            [*inside, "addr", "add", f"{HOSTS[host]}/24", "dev", CARD], [*inside, "link", "set", CARD, "up"],
            [*inside, "link", "set", "lo", "up"],
        ]  # fmt: skip
    try:
        for command in commands:
            if (
                shutil.which("ip") is None
                or subprocess.run(["ip", *command], capture_output=True, check=False).returncode
            ):
                pytest.skip("network namespaces cannot be made here")
        yield names
    finally:
        for name in names.values():
            if shutil.which("ip") is not None:
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


MEET = """
try:
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    total = torch.ones(1)
    dist.all_reduce(total)
    say(total=total.item())
except Exception as error:
    say(error=str(error))
say(master=os.environ["MASTER_ADDR"], rank=os.environ["RANK"])
"""


def met(
    folder: Path, hosts: dict[str, str], *flags: str, works: bool = True, **environment: str
) -> list[dict[str, Any]]:
    """What the process of each host said: one torchrun on each, the same command but for the number of the node."""
    program = START.replace('os.environ["RANK"]', 'os.environ["HOST_NUMBER"]') + MEET
    (folder / "train.py").write_text(program + "\ndone()\n")
    given = {name: value for name, value in os.environ.items() if not name.startswith(("MASTER_", "GLOO_", "PET_"))}
    agents = []
    for number, name in enumerate(hosts.values()):
        command = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run", "--nnodes=2", *flags]
        command += [f"--node_rank={number}", "--nproc_per_node=1", "--rdzv_conf=timeout=8", "train.py"]
        agents.append(
            subprocess.Popen(
                command, cwd=folder, env={**given, **environment, "HOST_NUMBER": str(number)}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True,
            )
        )  # fmt: skip
    for agent in agents:
        agent.communicate(timeout=180)
    assert {agent.returncode for agent in agents} == {0 if works else 1}
    return said_in(folder)


def test_two_hosts_meet_where_torchrun_is_told_to(tmp_path: Path, hosts: dict[str, str]) -> None:
    said = met(tmp_path, hosts, "--master_addr=10.77.31.1", "--master_port=29411", GLOO_SOCKET_IFNAME=CARD)
    assert [(it["total"], it["master"], it["rank"]) for it in said] == [
        (2.0, "10.77.31.1", "0"),
        (2.0, "10.77.31.1", "1"),
    ]


def test_two_hosts_do_not_meet_at_an_exported_master_addr(tmp_path: Path, hosts: dict[str, str]) -> None:
    """Each agent looks at its own loopback: the second finds nobody there, and the first waits for the second."""
    exported = {"MASTER_ADDR": "10.77.31.1", "MASTER_PORT": "29412"}
    said = met(tmp_path, hosts, "--master_port=29412", works=False, GLOO_SOCKET_IFNAME=CARD, **exported)
    assert not said  # the agents never meet, and so start no process


def test_an_interface_that_is_not_there_ends_the_run(tmp_path: Path, hosts: dict[str, str]) -> None:
    said = met(tmp_path, hosts, "--master_addr=10.77.31.1", "--master_port=29413", GLOO_SOCKET_IFNAME="eth7")
    assert len(said) == 2 and all("eth7" in it["error"] for it in said)


def test_the_loopback_as_interface_does_not_reach_the_other_host(tmp_path: Path, hosts: dict[str, str]) -> None:
    said = met(tmp_path, hosts, "--master_addr=10.77.31.1", "--master_port=29414", GLOO_SOCKET_IFNAME="lo")
    assert said and all("error" in it for it in said)


@pytest.mark.parametrize(("names", "refused"), [('"--local_rank"', True), ('"--local-rank", "--local_rank"', False)])
def test_the_old_launcher_hands_over_its_argument_with_a_hyphen(tmp_path: Path, names: str, refused: bool) -> None:
    program = f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument({names}, type=int)\nparser.parse_args()\n"
    (tmp_path / "train.py").write_text(program)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.launch",
        "--nproc_per_node=1",
        f"--master_port={free_port()}",
        "train.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "FutureWarning" in done.stderr
    assert (done.returncode != 0) == ("unrecognized arguments: --local-rank=0" in done.stderr) == refused


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_what_ray_makes_of_a_model_and_a_loader(tmp_path: Path) -> None:
    """Ray's local mode under torchrun, which needs no cluster: DDP with what it is given, a DistributedSampler, the ranks."""
    program = """
import ray.train
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch.utils.data import DataLoader, TensorDataset


def train(config):
    model = prepare_model(torch.nn.Linear(4, 2), parallel_strategy_kwargs={"find_unused_parameters": config["find"]})
    loader = prepare_data_loader(DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4, shuffle=True))
    context = ray.train.get_context()
    say(model=type(model).__name__, find=model.find_unused_parameters, sampler=type(loader.sampler).__name__)
    say(batches=len(loader), rank=context.get_world_rank(), size=context.get_world_size(), group=dist.is_initialized())


TorchTrainer(train, train_loop_config={"find": True}, scaling_config=ScalingConfig(num_workers=0)).fit()
"""
    said = ran(tmp_path, program, "--nproc_per_node=2", RAY_TRAIN_V2_ENABLED="1", RAY_USAGE_STATS_ENABLED="0")
    for rank, one in enumerate(said):
        assert (one["model"], one["find"], one["sampler"]) == ("DistributedDataParallel", True, "DistributedSampler")
        assert (one["batches"], one["rank"], one["size"], one["group"]) == (4, rank, 2, True)
