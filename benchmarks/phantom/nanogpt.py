"""A GPT-2 in the style of nanoGPT: compiled, dtype by what the card says, a scaler, accumulation, clipping."""

import math
from contextlib import nullcontext

import torch
from torch import nn

device = "cuda"
dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float16"
layers, heads, width, block, vocabulary = 12, 12, 768, 1024, 50304
batch_size, accumulation = 8, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (it.view(b, t, heads, c // heads).transpose(1, 2) for it in self.c_attn(x).split(width, dim=2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.h = nn.ModuleList(Block() for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers))

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for one in self.h:
            x = one(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, nn.functional.cross_entropy(logits.view(-1, vocabulary), targets.view(-1), ignore_index=-1)


data = torch.randint(0, 50257, (100_000,))


def get_batch():
    ix = torch.randint(len(data) - block, (batch_size,))
    x = torch.stack([data[i : i + block] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block] for i in ix])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)


model = torch.compile(GPT().to(device))
scaler = torch.amp.GradScaler("cuda", enabled=dtype == "float16")
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=True)
context = torch.amp.autocast("cuda", dtype=getattr(torch, dtype)) if device == "cuda" else nullcontext()

x, y = get_batch()
for step in range(100):
    for _ in range(accumulation):
        with context:
            _, loss = model(x, y)
            loss = loss / accumulation
        x, y = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(step, loss.item() * accumulation)
