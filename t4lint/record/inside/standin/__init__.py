"""What stands in for weights and data that are not on this machine, in the person's own process.

Only where the library itself has failed to find them, so that what is there is always used; each is told of. Weights do so on a
phantom, where values do not exist, and with `--synthetic`; data with `--synthetic` only. Nothing but the standard library
and the person's own libraries is imported, and these only once the program has imported them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _later(name: str, function: str) -> Callable[[Any], None]:
    """A hook whose code is imported when it is needed: most programs need none."""

    def hook(module: Any) -> None:
        getattr(importlib.import_module(f"{__name__}.{name}"), function)(module)

    return hook


HOOKS: dict[str, Callable[[Any], None]] = {
    "transformers.utils.hub": _later("models", "hub"),
    "transformers.modeling_utils": _later("models", "modeling"),
    "diffusers.models.modeling_utils": _later("models", "diffusion"),
    "diffusers.schedulers.scheduling_utils": _later("models", "schedulers"),
    "torch": _later("files", "loading"),
    "torch.hub": _later("files", "downloads"),
    "timm.models._builder": _later("files", "timm"),
    "datasets.load": _later("data", "loading"),
    "evaluate.loading": _later("data", "metrics"),
    "torchvision.datasets.folder": _later("data", "folders"),
    "torchvision.datasets.mnist": _later("data", "digits"),
    "torchvision.datasets.cifar": _later("data", "small_images"),
}
