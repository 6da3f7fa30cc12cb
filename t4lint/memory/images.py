"""Models whose activations are counted by image: convolutional networks, vision transformers of timm, diffusion networks.

`images.csv` is made by `scripts/build_images.py` from traces: bytes that one sample keeps for backward at the reference
size, in float32 and under fp16 autocast, and what the backward needs more at its peak. Both grow with the pixels.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).parent / "images.csv"


@dataclass(frozen=True, slots=True)
class ImageModel:
    """An image model at `size` pixels a side (of the image, also for a network that sees latents)."""

    id: str
    kind: str  # cnn, vit, unet, dit
    parameters: int
    size: int
    kept_fp32: float
    kept_amp: float
    work_fp32: float
    work_amp: float
    source: str

    def kept_bytes(self, autocast: bool, dtype: str) -> float:
        """Bytes a sample at the end of the forward."""
        return self.kept_amp if autocast or dtype in ("float16", "bfloat16") else self.kept_fp32

    def work_bytes(self, autocast: bool, dtype: str) -> float:
        """Bytes a sample that the backward needs more."""
        return self.work_amp if autocast or dtype in ("float16", "bfloat16") else self.work_fp32


def find_image_model(name: str) -> ImageModel | None:
    """By the name of timm, torchvision or a diffusion checkpoint; a tag after a dot (`resnet50.a1_in1k`) says how it was trained."""
    models = _models()
    key = name.strip().lower()
    return models.get(key) or models.get(key.rpartition("/")[2].partition(".")[0])


@cache
def _models() -> Mapping[str, ImageModel]:
    if not _TABLE.exists():
        return {}
    with _TABLE.open(encoding="utf-8", newline="") as file:
        found = {}
        for row in csv.DictReader(file):
            model = ImageModel(
                row["id"], row["kind"], int(row["parameters"]), int(row["size"]), float(row["kept_fp32"]),
                float(row["kept_amp"]), float(row["work_fp32"]), float(row["work_amp"]), row["source"],
            )  # fmt: skip
            for key in (row["id"], *row["aliases"].split()):
                found[key.lower()] = model
        return found
