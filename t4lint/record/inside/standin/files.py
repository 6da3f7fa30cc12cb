"""Weights that are downloaded as one file: torch.hub's, torchvision's and timm's."""

from __future__ import annotations

from typing import Any

from . import asked

HOW = "the model as it is initialised"


class Missing(dict[str, Any]):
    """What a file of weights would have held. Whatever part of it is asked for is missing too."""

    def __missing__(self, key: Any) -> Missing:
        return Missing()

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key]

    def pop(self, key: Any, default: Any = None) -> Any:
        return Missing()

    def __bool__(self) -> bool:
        return True


def loading(torch: Any) -> None:
    """Loading what is missing changes nothing; a download that fails is missing."""
    if not asked.weights():
        return
    load = torch.nn.Module.load_state_dict

    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(state_dict, Missing):
            return torch.nn.modules.module._IncompatibleKeys([], [])
        return load(self, state_dict, *args, **kwargs)

    torch.nn.Module.load_state_dict = load_state_dict


def downloads(module: Any) -> None:
    """`torch.hub.load_state_dict_from_url`."""
    if asked.weights():
        _or_missing(module, "load_state_dict_from_url")


def timm(module: Any) -> None:
    """`timm.models._builder`: what it does with weights before it loads them needs them."""
    if not asked.weights():
        return
    original = module.load_pretrained

    def load_pretrained(model: Any, pretrained_cfg: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(model, pretrained_cfg, *args, **kwargs)
        except Exception:
            asked.told("weights", getattr(pretrained_cfg, "architecture", None) or type(model).__name__, HOW)

    module.load_pretrained = load_pretrained


def _or_missing(module: Any, name: str) -> None:
    original = getattr(module, name, None)
    if original is None:
        return

    def load(where: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(where, *args, **kwargs)
        except Exception:
            asked.told("weights", str(where).rpartition("/")[2] or where, HOW)
            return Missing()

    setattr(module, name, load)
