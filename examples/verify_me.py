"""Four findings, and a run that gives each of them another verdict.

Run it with `t4lint verify -- python verify_me.py`.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.randn(1024, 64), torch.randint(0, 10, (1024,)))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler(device)

# Confirmed: the loader is built like this, whatever the machine.
train = DataLoader(data, batch_size=64, shuffle=True, pin_memory=False)

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

for inputs, targets in train:
    inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=dtype):
        loss = nn.functional.cross_entropy(model(inputs), targets)
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    scaler.step(optimizer)
    scaler.update()

# Not exercised: the run is stopped after three optimizer steps.
test = DataLoader(data, batch_size=64, pin_memory=False)
with torch.no_grad():
    right = sum((model(inputs.to(device)).argmax(1) == targets.to(device)).sum().item() for inputs, targets in test)
print(right / len(data))
