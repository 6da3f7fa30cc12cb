"""As `verify_me.py`, on two processes.

Run it with `t4lint verify -- torchrun --nproc_per_node 2 verify_ddp.py`.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
device = f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.randn(1024, 64), torch.randint(0, 10, (1024,)))
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda" if torch.cuda.is_available() else "cpu")

# Confirmed: both ranks build the loader like this.
sampler = DistributedSampler(data)
train = DataLoader(data, batch_size=64, sampler=sampler, pin_memory=False)

# Undecided on a CPU: what a T4 answers, a T4 shows, or a phantom of one.
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16

# Refuted: the source shows no `unscale_` before the clipping, but when the last gradient arrives this hook runs.
parameters = list(model.parameters())
arrived = []


def gradient_is_there(parameter):
    arrived.append(parameter)
    if len(arrived) % len(parameters) == 0:
        scaler.unscale_(optimizer)


for parameter in parameters:
    parameter.register_post_accumulate_grad_hook(gradient_is_there)

for epoch in range(2):
    sampler.set_epoch(epoch)
    for inputs, targets in train:
        inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.partition(":")[0], dtype=dtype):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()

# Not exercised: the run is stopped after three optimizer steps.
test = DataLoader(data, batch_size=64, pin_memory=False)
print(sum(len(inputs) for inputs, targets in test))
dist.destroy_process_group()
