"""Build `t4lint/memory/images.csv`: what image models keep for backward, a sample, from traces.

    python scripts/build_images.py [NAME ...]

With names, only these rows are made anew. timm (with a torchvision that fits torch) and diffusers must be installed. Each model
is built without weights on a GPU that is not there (`benchmarks/tracing.py`) and run forward and backward with two batch sizes,
in float32 and under fp16 autocast; the difference of the two is what a sample costs. The size is the model's own; diffusion
networks see latents, an eighth of a side. The shapes of timm's models are timm's; those of diffusion networks stand in this
file, with where they were read.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import torch  # noqa: E402
import tracing  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

TARGET = ROOT / "t4lint" / "memory" / "images.csv"
COLUMNS = ["id", "aliases", "kind", "parameters", "size", "kept_fp32", "kept_amp", "work_fp32", "work_amp", "source"]
CNN = [
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "seresnet50",
    "nf_resnet50",
    "densenet121",
    "vgg16",
    "vgg16_bn",
    "inception_v3",
    "mobilenetv2_100",
    "mobilenetv3_large_100",
    "efficientnet_b0",
    "efficientnet_b4",
    "efficientnetv2_s",
    "convnext_tiny",
    "convnext_base",
    "regnety_032",
    "resmlp_24_224",
    "mixer_b16_224",
]
VIT = [
    "vit_small_patch16_224",
    "vit_base_patch16_224",
    "vit_large_patch16_224",
    "vit_base_patch16_384",
    "deit_small_patch16_224",
    "deit_base_patch16_224",
    "beit_base_patch16_224",
    "beit_large_patch16_224",
    "swin_tiny_patch4_window7_224",
    "swin_base_patch4_window7_224",
    "cait_s24_224",
    "coat_tiny",
    "levit_256",
    "poolformer_s12",
    "pvt_v2_b2",
    "volo_d1_224",
]
_SDXL = {
    "sample_size": 128, "cross_attention_dim": 2048, "block_out_channels": (320, 640, 1280),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), "transformer_layers_per_block": (1, 2, 10),
    "attention_head_dim": (5, 10, 20), "use_linear_projection": True, "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816,
}  # fmt: skip
# name, aliases, class of diffusers, fields, pixels of a side, where the shape was read
DIFFUSION: list[tuple[str, str, str, dict[str, Any], int, str]] = [
    ("stable-diffusion-v1-5/stable-diffusion-v1-5", "runwayml/stable-diffusion-v1-5 stable-diffusion-v1-5 CompVis/stable-diffusion-v1-4 "
     "stable-diffusion-v1-4", "UNet2DConditionModel", {"sample_size": 64, "cross_attention_dim": 768}, 512,
     "CompVis/stable-diffusion configs/stable-diffusion/v1-inference.yaml"),
    ("stabilityai/stable-diffusion-xl-base-1.0", "stable-diffusion-xl-base-1.0", "UNet2DConditionModel", _SDXL, 1024,
     "Stability-AI/generative-models configs/inference/sd_xl_base.yaml"),
    ("facebook/DiT-XL-2-256", "DiT-XL-2-256", "DiTTransformer2DModel", {}, 256, "defaults of diffusers DiTTransformer2DModel"),
]  # fmt: skip


def main(only: list[str]) -> None:
    import diffusers
    import timm

    classes = {cls: getattr(diffusers, cls) for _, _, cls, *_ in DIFFUSION}  # imported while torch.cuda is as it is
    tracing.install()
    rows = []
    for kind, names in (("cnn", CNN), ("vit", VIT)):
        for name in names:
            if only and name not in only:
                continue
            source = f"traced: timm {timm.__version__}, torch {torch.__version__.split('+')[0]}"
            rows.append(row_of(name, "", kind, lambda name=name: timm.create_model(name), image_inputs, source))
    for name, aliases, cls, fields, size, where in DIFFUSION:
        if only and name not in only:
            continue
        kind = "unet" if "UNet" in cls else "dit"
        source = f"{where}; traced: diffusers {diffusers.__version__}"
        made = row_of(
            name, aliases, kind, lambda build=classes[cls], fields=fields: build(**fields), diffusion_inputs, source
        )
        rows.append({**made, "size": size} if made else None)
    rows = [row for row in rows if row]
    if only:
        with TARGET.open(encoding="utf-8", newline="") as file:
            rows += [row for row in csv.DictReader(file) if row["id"] not in only]
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: row["id"].lower()))
    print(len(rows), "models")


def row_of(
    name: str, aliases: str, kind: str, build: Callable[[], Any], inputs: Callable[[Any, int], dict[str, Any]], source: str
) -> dict[str, Any] | None:  # fmt: skip
    row: dict[str, Any] = {"id": name, "aliases": aliases, "kind": kind, "source": source}
    try:
        for mode, autocast in (("fp32", False), ("amp", True)):
            small, large = (traced(build, inputs, batch, autocast) for batch in (2, 4))
            row[f"kept_{mode}"] = round((large[0] - small[0]) / 2)
            row[f"work_{mode}"] = max(0, round((large[1] - small[1] - large[0] + small[0]) / 2))
            row["parameters"], row["size"] = large[2], large[3]
    except Exception as error:
        print(f"{name}: {type(error).__name__} {str(error)[:200]}", file=sys.stderr)
        return None
    print(row, flush=True)
    return row


def traced(
    build: Callable[[], Any], inputs: Callable[[Any, int], dict[str, Any]], batch: int, autocast: bool
) -> tuple[int, ...]:
    """(bytes kept after the forward, bytes at the peak of the backward, parameters, pixels of a side)."""
    tracer = tracing.Tracer()
    with torch.device("meta"):
        model = build()
    with FakeTensorMode(allow_non_fake_inputs=True), tracer:
        on_gpu(model)
        model.train()
        given = inputs(model, batch)
        before = tracer.now
        with torch.autocast("cuda", dtype=torch.float16, enabled=autocast):
            out = model(**given)
            out = out[0] if isinstance(out, tuple) else getattr(out, "sample", out)
            loss = out.float().pow(2).mean()
        del out
        kept = tracer.now - before
        tracer.peaks.clear()
        loss.backward()
        peak = max(tracer.peaks.values()) - before
    size = int(model.default_cfg["input_size"][-1]) if hasattr(model, "default_cfg") else 0
    return kept, peak, sum(it.numel() for it in model.parameters()), size


def on_gpu(model: Any) -> None:
    """Empty parameters and buffers on the GPU in the place of those on the meta device."""
    for module in model.modules():
        for name, it in list(module._parameters.items()):
            if it is not None:
                module._parameters[name] = torch.nn.Parameter(torch.empty(it.shape, dtype=it.dtype, device="cuda"))
        for name, it in list(module._buffers.items()):
            if it is not None:
                module._buffers[name] = torch.empty(it.shape, dtype=it.dtype, device="cuda")


def image_inputs(model: Any, batch: int) -> dict[str, Any]:
    return {"x": torch.zeros(batch, *model.default_cfg["input_size"], device="cuda")}


def diffusion_inputs(model: Any, batch: int) -> dict[str, Any]:
    config = model.config
    size, steps = config.sample_size, torch.zeros(batch, device="cuda", dtype=torch.long)
    if "num_embeds_ada_norm" in config:
        latents = torch.zeros(batch, 4, size, size, device="cuda")
        return {"hidden_states": latents, "timestep": steps, "class_labels": steps, "return_dict": False}
    given = {"sample": torch.zeros(batch, 4, size, size, device="cuda"), "timestep": steps,
             "encoder_hidden_states": torch.zeros(batch, 77, config.cross_attention_dim, device="cuda")}  # fmt: skip
    if config.addition_embed_type == "text_time":
        given["added_cond_kwargs"] = {"text_embeds": torch.zeros(batch, 1280, device="cuda"),
                                      "time_ids": torch.zeros(batch, 6, device="cuda")}  # fmt: skip
    return given


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # C++ still points at what Python would free now
