"""What a loader's samples cost: files that are decoded while the main process waits for a batch."""

from __future__ import annotations

import sys
from typing import Any

from .journal import fact
from .probe import wrap


def _decoder(*names: str) -> Any:
    def hook(module: Any) -> None:
        for name in names:
            wrap(module, name, _note)

    return hook


def _note(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Is the main process fetching a batch? Then its dataset does this work."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_next_data" and "dataloader" in frame.f_code.co_filename:
            fact("sample_work", None, work="decode", dataset=id(frame.f_locals["self"]._dataset))
            return
        frame = frame.f_back  # type: ignore[assignment]


HOOKS = {
    "PIL.Image": _decoder("open"),
    "cv2": _decoder("imread", "imdecode"),
    "librosa": _decoder("load"),
    "soundfile": _decoder("read"),
    "torchaudio": _decoder("load"),
    "torchvision.io": _decoder("read_image", "decode_image", "decode_jpeg"),
}
