"""Models of transformers and diffusers whose files are not here: a configuration from t4lint's table, and no weights.

The files of a repository that a library asks for and does not find are made in a folder of their own: `config.json`, a tokenizer,
what prepares images. The library then goes its own way, up to the weights: these stay as they are initialised.
"""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH110, PTH118, PTH123

from __future__ import annotations

import importlib
import json
import os
import tempfile
from typing import Any

from . import asked, pipelines, shapes, words

NO_SHAPE = (
    "its shape is not in t4lint's table: give a local folder with its config.json in place of the name, or put the file into "
    "the cache once with `hf download {name} config.json`"
)
ONLY_GUESSED = " (or run with --synthetic, which takes the defaults of its kind)"


class _Repository:
    """A folder that stands for a repository on the hub."""

    def __init__(self, name: str, folder: str, fields: dict[str, Any], how: str) -> None:
        self.name, self.folder, self.fields, self.how = name, folder, fields, how
        self.write("config.json", json.dumps(fields))

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def file(self, name: str) -> str | None:
        """The path of a file; a tokenizer is made when it is asked for."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path) and name in ("tokenizer.json", "tokenizer_config.json"):
            for made, text in words.tokenizer(
                self.fields["model_type"], int(self.fields.get("vocab_size") or 32000)
            ).items():
                self.write(made, text)
            asked.told("tokenizer", self.name, "a tokenizer of made-up words with as many entries")
        if not os.path.exists(path) and name in ("preprocessor_config.json", "processor_config.json") and self._sees():
            size = int(self.fields.get("image_size") or 224)
            told = {
                "image_processor_type": "ViTImageProcessor",
                "size": {"height": size, "width": size},
                "do_resize": True,
            }
            self.write("preprocessor_config.json", json.dumps(told))
        return path if os.path.exists(path) else None

    def _sees(self) -> bool:
        return "image_size" in self.fields or self.fields["model_type"] in ("vit", "beit", "deit", "dinov2", "swin")


_known: dict[str, _Repository | None] = {}


def repository(name: str, subfolder: str = "") -> _Repository | None:
    """What stands in for a repository, or one folder of it; None where its shape is not known."""
    key = f"{name}/{subfolder}" if subfolder else name
    if key not in _known:
        found = _fields(name, subfolder)
        if found is None:
            _known[key] = None
        else:
            _known[key] = _Repository(key, tempfile.mkdtemp(prefix="t4lint-standin-"), *found)
    return _known[key]


def _fields(name: str, subfolder: str) -> tuple[dict[str, Any], str] | None:
    if subfolder:
        found = pipelines.text_model(name, subfolder)
        return None if found is None else (found, "the published configuration")
    found = shapes.configuration(name)
    if found is not None:
        return found, "its sizes in t4lint's table"
    kind = _kind_in(name) if asked.data() else ""
    return (
        ({"model_type": kind}, f"the defaults of {kind}, whose name is in it: its real size is not known")
        if kind
        else None
    )


def _kind_in(name: str) -> str:
    """The kind of model whose name is a part of this one, the longest first, as AutoConfig itself looks."""
    mapping = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    spelled = name.lower().replace("-", "_")
    kinds = sorted(mapping.keys(), key=len, reverse=True)
    return next((kind for kind in kinds if kind.replace("-", "_") in spelled and len(kind) > 2), "")


# --- transformers ------------------------------------------------------------------------------------------------


def hub(module: Any) -> None:
    """`transformers.utils.hub`: before anything takes its functions by name."""
    if not asked.weights():
        return
    original = module.cached_files

    def cached_files(path_or_repo_id: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            found = original(path_or_repo_id, filenames, *args, **kwargs)
            failed = None
        except OSError as error:
            found, failed = None, error
        if found or not asked.is_hub_name(path_or_repo_id) or kwargs.get("repo_type") not in (None, "model"):
            return _or_raise(found, failed)
        stands = repository(path_or_repo_id, kwargs.get("subfolder") or "")
        if stands is None:
            if "config.json" in filenames:
                advice = NO_SHAPE.format(name=path_or_repo_id) + ("" if asked.data() else ONLY_GUESSED)
                asked.lacking("model", path_or_repo_id, advice)
            return _or_raise(found, failed)
        files = [path for name in filenames if (path := stands.file(name)) is not None]
        return files or _or_raise(None, failed if kwargs.get("_raise_exceptions_for_missing_entries", True) else None)

    module.cached_files = cached_files


def _or_raise(found: Any, failed: BaseException | None) -> Any:
    if failed is not None:
        raise failed
    return found


def modeling(module: Any) -> None:
    """`transformers.modeling_utils`: a model whose files of weights are not found is loaded from none."""
    if not asked.weights() or not hasattr(module, "_get_resolved_checkpoint_files"):
        return
    resolve = module._get_resolved_checkpoint_files

    def _get_resolved_checkpoint_files(*args: Any, **kwargs: Any) -> Any:
        name: Any = kwargs.get("pretrained_model_name_or_path", args[0] if args else None)
        try:
            return resolve(*args, **kwargs)
        except OSError:
            if not asked.is_hub_name(name):
                raise
            given = kwargs.get("download_kwargs") or kwargs
            stands = repository(name, given.get("subfolder") or "")
            asked.told("weights", name, stands.how if stands is not None else "the config.json in the cache")
            return None, None

    module._get_resolved_checkpoint_files = _get_resolved_checkpoint_files
    kind = module.PreTrainedModel
    load = kind._load_pretrained_model

    def _load_pretrained_model(model: Any, state_dict: Any, checkpoint_files: Any, *args: Any, **kwargs: Any) -> Any:
        if state_dict is None and checkpoint_files is None:
            state_dict = {}
        return load(model, state_dict, checkpoint_files, *args, **kwargs)

    kind._load_pretrained_model = staticmethod(_load_pretrained_model)


# --- diffusers ---------------------------------------------------------------------------------------------------


def diffusion(module: Any) -> None:
    """`diffusers.models.modeling_utils`: networks of the pipelines whose configurations are known."""
    _from_pretrained(module.ModelMixin, "weights")


def schedulers(module: Any) -> None:
    """`diffusers.schedulers.scheduling_utils`."""
    _from_pretrained(module.SchedulerMixin, "scheduler")


def _from_pretrained(kind: Any, what: str) -> None:
    if not asked.weights():
        return
    original = kind.from_pretrained.__func__

    def from_pretrained(cls: Any, pretrained_model_name_or_path: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(cls, pretrained_model_name_or_path, *args, **kwargs)
        except Exception:
            name = pretrained_model_name_or_path
            fields = (
                pipelines.network(name, kwargs.get("subfolder") or "", cls.__name__)
                if asked.is_hub_name(name)
                else None
            )
            if fields is None:
                if asked.is_hub_name(name):
                    asked.lacking("model", name, NO_SHAPE.format(name=name))
                raise
            asked.told(what, f"{name}/{kwargs.get('subfolder') or ''}".rstrip("/"), "the published configuration")
            made = cls.from_config(fields) if hasattr(cls, "from_config") else cls(**fields)
            dtype = kwargs.get("torch_dtype", kwargs.get("dtype"))
            if what != "weights":
                return made
            made.register_to_config(_name_or_path=str(name))
            made = made if dtype is None or isinstance(dtype, str) else made.to(dtype)
            return made.eval()

    kind.from_pretrained = classmethod(from_pretrained)
