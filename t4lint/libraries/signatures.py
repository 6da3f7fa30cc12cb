"""Parameters of training APIs by version: `data/api.json`, which `scripts/harvest.py` reads from released wheels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from t4lint.trace import release

DATA = Path(__file__).parent / "data" / "api.json"
BASES = {
    "PeftConfig": "peft.PeftConfig", "PeftConfigMixin": "peft.PeftConfigMixin",
    "TrainingArguments": "transformers.TrainingArguments", "_BaseConfig": "trl.BaseConfig", "BaseConfig": "trl.BaseConfig",
    "transformers.TrainingArguments": "transformers.TrainingArguments",
}  # fmt: skip
# Classes and functions whose defaults the models ask for one by one: the data is read for no other.
ASKED = frozenset({
    "accelerate.Accelerator", "accelerate.notebook_launcher", "lightning.fabric.Fabric", "lightning.pytorch.Trainer",
    "torch.amp.GradScaler", "torch.amp.autocast", "torch.nn.parallel.DistributedDataParallel", "torch.optim.AdamW",
    "torch.utils.data.DataLoader", "transformers.BitsAndBytesConfig",
})  # fmt: skip
Version = Mapping[str, "str | None"]  # library → the version that runs; None: the newest that was read


@cache
def table() -> dict[str, Any]:
    """The names that were harvested."""
    loaded: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return loaded


def parameters(name: str, versions: Version) -> dict[str, dict[str, Any]]:
    """What each parameter is in a version: `{"default": value}`, `{"code": text}` or `{"required": True}`, bases first."""
    entry = table().get(name)
    if entry is None:
        return {}
    found: dict[str, dict[str, Any]] = {}
    version, read = versions.get(entry["library"]), entry["read"]
    for base in at(entry["bases"], version, read) or ():
        if base in BASES and BASES[base] != name:
            found.update(parameters(BASES[base], versions))
    for parameter, history in entry["parameters"].items():
        now = at(history, version, read)
        if now is not None:
            found[parameter] = now
    return found


def last_parameters(name: str, versions: Version) -> dict[str, dict[str, Any]]:
    """The same; of a class that has moved away from its name, those that it had in the last version that was read before."""
    entry = table()[name]
    version, alias = versions.get(entry["library"]), f"_{name.rpartition('.')[2]}"
    if alias in (at(entry["bases"], version, entry["read"]) or ()):
        moved = next(since for since, bases in entry["bases"] if alias in (bases or ()))
        version = next((it for it in reversed(entry["read"]) if release(it) < release(moved)), version)
    return parameters(name, {**versions, entry["library"]: version})


def at(history: list[tuple[str, Any]], version: str | None, read: list[str]) -> Any:
    """What holds in a version. For one that is older than any that was read, what held in the oldest of these."""
    if not history:
        return None
    if version is None:
        return history[-1][1]
    wanted = max(release(version), release(read[0]))
    holding = [value for since, value in history if release(since) <= wanted]
    return holding[-1] if holding else None


def default(name: str, parameter: str, versions: Version) -> tuple[Any] | None:
    """The default of a parameter in a 1-tuple; None where it has none, or one that is computed."""
    entry = table().get(name)
    if entry is None:
        return None
    if any(bases for _, bases in entry["bases"]):
        found = parameters(name, versions).get(parameter)
    else:
        found = at(entry["parameters"].get(parameter, ()), versions.get(entry["library"]), entry["read"])
    return (found["default"],) if found is not None and "default" in found else None


@cache
def releases(library: str) -> tuple[str, ...]:
    """The releases of a library that the index listed when the data was refreshed, oldest first."""
    listed = json.loads(DATA.with_name("releases.json").read_text(encoding="utf-8"))
    return tuple(listed.get(library, ()))


def newest_within(library: str, high: str, included: bool) -> str | None:
    """The newest release below an upper bound: what an installer takes. None where the bound excludes none that is known."""
    known = releases(library)
    allowed = [v for v in known if release(v) < release(high) or (included and release(v) == release(high))]
    return allowed[-1] if allowed and len(allowed) < len(known) else None
