"""A small UNet of a diffusion model: noise at random times, attention at the lowest resolution, an average of weights."""

import copy
import math

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, before, after, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, before), nn.Conv2d(before, after, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, after), nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(time, after)
        self.short = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(nn.functional.silu(self.norm1(x))) + self.time(nn.functional.silu(time))[:, :, None, None]
        return self.short(x) + self.conv2(nn.functional.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.attention = nn.MultiheadAttention(width, 8, batch_first=True)

    def forward(self, x):
        h = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(h, h, h, need_weights=False)[0].transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    def __init__(self, widths=(64, 128, 256), time=256):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(64, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(Residual(a, b, time) for a, b in zip((widths[0], *widths), widths, strict=False))
        self.middle, self.attention = Residual(widths[-1], widths[-1], time), Attention(widths[-1])
        back = list(reversed(widths))
        self.up = nn.ModuleList(Residual(a + a, b, time) for a, b in zip(back, (*back[1:], back[-1]), strict=False))
        self.last = nn.Conv2d(widths[0], 3, 3, padding=1)

    def forward(self, x, steps):
        rates = torch.exp(-math.log(10_000) * torch.arange(32, device=x.device) / 32)
        angles = steps[:, None].float() * rates[None]
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x = self.first(x)
        kept = []
        for one in self.down:
            x = one(x, time)
            kept.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        x = self.attention(self.middle(x, time))
        for one in self.up:
            x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
            x = one(torch.cat([x, kept.pop()], dim=1), time)
        return self.last(x)


device = torch.device("cuda")
model = UNet().to(device)
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda")
keep = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).to(device)
draw = torch.Generator(device=device).manual_seed(0)

for _ in range(100):
    images = torch.rand(16, 3, 64, 64).to(device) * 2 - 1
    noise = torch.randn(images.shape, device=device, generator=draw)
    steps = torch.randint(0, 1000, (16,), device=device, generator=draw)
    share = keep[steps][:, None, None, None]
    noisy = share.sqrt() * images + (1 - share).sqrt() * noise
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(noisy, steps), noise)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for kept, now in zip(average.parameters(), model.parameters(), strict=True):
            kept.lerp_(now, 0.001)
