"""The harvested signatures: what they say by version, and that they agree with the libraries that are installed."""

from __future__ import annotations

import importlib
import inspect
from importlib import metadata
from typing import Any

import pytest

from t4lint.libraries import signatures
from t4lint.trace import release

PIVOTS = [
    ("trl.SFTConfig", "bf16", "trl", "0.18.2", "0.19.0", False, None),
    ("trl.SFTConfig", "gradient_checkpointing", "trl", "0.21.0", "0.22.0", None, True),
    ("transformers.TrainingArguments", "overwrite_output_dir", "transformers", "4.57.6", "5.0.0", False, "gone"),
]


@pytest.mark.parametrize(("name", "parameter", "library", "before", "since", "old", "new"), PIVOTS)
def test_defaults_by_version(
    name: str, parameter: str, library: str, before: str, since: str, old: object, new: object
) -> None:
    def at(version: str) -> object:
        found = signatures.default(name, parameter, {library: version})
        return found[0] if found is not None else "gone"

    assert (at(before), at(since)) == (old, new)


def test_the_newest_counts_where_no_version_is_known() -> None:
    newest = signatures.parameters("transformers.TrainingArguments", {})
    assert newest == signatures.parameters("transformers.TrainingArguments", {"transformers": "99"})
    assert signatures.parameters("transformers.TrainingArguments", {"transformers": "4.0"})["fp16"] == {
        "default": False
    }


MOVED = ("trl.CPOConfig", "trl.ORPOConfig")


@pytest.mark.parametrize("name", MOVED)
def test_a_class_that_has_moved_keeps_what_it_took(name: str) -> None:
    """trl 0.26 left aliases of these, and later versions nothing: no default was known then, not even the batch size's."""
    assert signatures.parameters(name, {}) == {}
    assert signatures.last_parameters(name, {})["per_device_train_batch_size"] == {"default": 8}
    assert "per_device_train_batch_size" in signatures.last_parameters(name, {"trl": "0.26.0"})


def target(name: str) -> Any:
    """The class or function itself; some bases cannot be reached by their own name."""
    if name in ("trl.BaseConfig", "peft.PeftConfigMixin"):
        pytest.skip("a base that is seen in what derives from it")
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found
    return None


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(signatures.table()))
def test_the_data_agree_with_the_installed_library(name: str) -> None:
    library = signatures.table()[name]["library"]
    try:
        installed = metadata.version(library).partition("+")[0]
    except metadata.PackageNotFoundError:
        pytest.skip(f"{library} is not installed")
    if installed not in signatures.table()[name]["read"]:
        pytest.skip(f"{library} {installed} was not read: run scripts/harvest.py")
    harvested = signatures.parameters(name, {library: installed, "transformers": metadata.version("transformers")})
    if not harvested:
        assert target(name) is None or release(installed) >= release(signatures.table()[name]["read"][-1])
        return
    real = inspect.signature(target(name)).parameters
    assert set(harvested) == {
        parameter
        for parameter, it in real.items()
        if it.kind not in (it.VAR_POSITIONAL, it.VAR_KEYWORD) and parameter != "self"
    }
    for parameter, said in harvested.items():
        if "default" in said:
            assert real[parameter].default == said["default"], parameter


def test_models_take_harvested_defaults() -> None:
    """A default that the model states is only what holds where none was harvested."""
    from types import SimpleNamespace

    from t4lint.interpret.values import Const
    from t4lint.libraries.api import Arguments, Call

    machine = SimpleNamespace(versions={"lightning": "2.0.9"}, resolve=lambda value: value)
    trainer = Call(machine, "lightning.pytorch.Trainer", Arguments(), None)
    assert trainer.argument("precision", None, Const("stale")).value == "32-true"
    assert trainer.argument("accumulate_grad_batches", None, Const(7)).value == 1
    assert trainer.argument("made_up", None, Const(7)).value == 7
    given = Call(machine, "lightning.pytorch.Trainer", Arguments((), {"precision": Const("16-mixed")}), None)
    assert given.argument("precision").value == "16-mixed"
