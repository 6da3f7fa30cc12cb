"""As `verify_me.py`, with accelerate.

Run it with `t4lint verify -- accelerate launch --cpu --num_processes 1 verify_accelerate.py`.
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,)))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

# Confirmed: the loader is built like this, whatever the machine.
train = DataLoader(data, batch_size=64, shuffle=True, pin_memory=False)

# Undecided on a CPU: what a T4 answers, a T4 shows, or a phantom of one.
precision = "bf16" if torch.cuda.is_bf16_supported() else "fp16" if torch.cuda.is_available() else "no"
accelerator = Accelerator(mixed_precision=precision)
model, optimizer, train = accelerator.prepare(model, optimizer, train)

# Refuted: the source shows no end to it, but the first forward switches it off.
torch.autograd.set_detect_anomaly(True)
model.register_forward_pre_hook(lambda module, inputs: torch.autograd.set_detect_anomaly(False) and None)

for inputs, targets in train:
    loss = nn.functional.cross_entropy(model(inputs), targets)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()

# Not exercised: the run is stopped after three optimizer steps.
test = DataLoader(data, batch_size=64, pin_memory=False)
print(sum(len(inputs) for inputs, targets in test))
