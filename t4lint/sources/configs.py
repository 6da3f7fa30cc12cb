"""Configuration files in YAML and JSON: plain values, with the place of every key and value.

Values are what `yaml.safe_load` and `json.load` give, since that is how training programs read them: in YAML `1e-4` is a
string and `on` is True. Nothing is constructed from tags. A file may be hostile: depth, size and what aliases expand to
are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from t4lint.findings import Problem
from t4lint.sources.document import Document
from t4lint.sources.json_text import JsonError, JsonNode, duplicates, parse_json
from t4lint.sources.positions import Lines, PositionMap
from t4lint.trace import Location

YAML_SUFFIXES = (".yaml", ".yml")
JSON_SUFFIXES = (".json",)
TOML_SUFFIXES = (".toml",)
INI_SUFFIXES = (".ini", ".cfg", ".conf")
SUFFIXES = YAML_SUFFIXES + JSON_SUFFIXES
LARGEST = 2_000_000  # characters: larger ones are data, not configuration
MAX_NODES = 100_000  # values in JSON

ConfigKind = Literal["accelerate", "deepspeed", "hf_arguments", "axolotl", "llamafactory", "torchtune", "ultralytics"]
NodeKind = Literal["scalar", "mapping", "sequence", "cycle"]
Style = Literal["plain", "quoted", "literal", "folded", "json"]


@dataclass(slots=True, eq=False)
class ConfigNode:
    """A value of a configuration. Nodes under an alias are shared, and so is the place where they are written.

    `key` is the place of the key that it stands under, in the mapping that wrote it. Keys are texts here, whatever YAML
    makes of them (`on`, `0`). `style` is how a scalar is written.
    """

    kind: NodeKind
    location: Location
    value: object = None
    key: Location | None = None
    style: Style = "plain"
    entries: dict[str, ConfigNode] = field(default_factory=dict)
    items: list[ConfigNode] = field(default_factory=list)

    def child(self, name: str) -> ConfigNode | None:
        """The value under a key, or the element at an index."""
        if self.kind == "sequence":
            index = int(name) if name.isdecimal() and len(name) < 7 else -1
            return self.items[index] if 0 <= index < len(self.items) else None
        return self.entries.get(name)

    def find(self, path: str) -> ConfigNode | None:
        """The value under a dotted path; a key that holds dots itself is found too."""
        if path in self.entries:
            return self.entries[path]
        node: ConfigNode | None = self
        for part in path.split("."):
            node = node.child(part) if node is not None else None
        return node

    def plain(self) -> object:
        """The value as Python has it. What is shared by aliases is shared here too."""
        return _plain(self, {})

    def walk(self) -> Iterator[tuple[tuple[str, ...], ConfigNode]]:
        """Every value that is written, once, with the path of keys to it."""
        pending: list[tuple[tuple[str, ...], ConfigNode]] = [((), self)]
        seen: set[int] = set()
        while pending:
            path, node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield path, node
            below = [((*path, name), child) for name, child in node.entries.items()]
            below += [((*path, str(index)), child) for index, child in enumerate(node.items)]
            pending.extend(reversed(below))


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """A configuration file. `data` is its first document, `documents` are all of them.

    `duplicates` are keys that stand twice in a mapping, at the places that do not count.
    """

    path: str
    file: Path
    kind: Literal["yaml", "json", "toml", "ini"]
    text: str
    data: ConfigNode
    documents: tuple[ConfigNode, ...] = ()
    duplicates: tuple[Location, ...] = ()

    def get(self, path: str) -> tuple[object, Location, Location] | None:
        """Value, place of its key and place of the value under `a.b.c`; None where there is none."""
        node = self.data.find(path)
        return None if node is None else (node.plain(), node.key or node.location, node.location)


def is_config(file: Path) -> bool:
    """Could a file be a configuration, by its name?"""
    return file.name.lower().endswith(SUFFIXES)


def read_config(document: Document | Problem) -> ConfigDocument | Problem:
    """A configuration from its file as it was read."""
    if isinstance(document, Problem):
        return document
    return config_from(document.text, document.file, document.path, document.positions)


def config_from(text: str, file: Path, display: str, positions: PositionMap | None = None) -> ConfigDocument | Problem:
    """A configuration from its text. `positions` maps a text that stands inside another file (a notebook's cell)."""
    if len(text) > LARGEST:
        return Problem(display, f"is too large for a configuration: over {LARGEST // 1_000_000} million characters")
    if file.name.lower().endswith(JSON_SUFFIXES):
        return _read_json(text, file, display, positions)
    if file.name.lower().endswith((*TOML_SUFFIXES, *INI_SUFFIXES)):
        return _read_tables(text, file, display, positions)
    from t4lint.sources.yaml_text import YamlError, parse_yaml

    places = _Places(text, display, positions)
    try:
        documents, repeated = parse_yaml(text, places.location)
    except YamlError as error:
        return Problem(display, f"is not valid YAML: {error.message}", *places.start(error.offset))
    first = documents[0] if documents else ConfigNode("scalar", places.location(0, 0))
    return ConfigDocument(display, file, "yaml", text, first, tuple(documents), tuple(repeated))


def plain_yaml(text: str) -> object:
    """The plain value of a YAML text's first document; None where it is not YAML."""
    document = config_from(text, Path("text.yaml"), "text.yaml")
    return None if isinstance(document, Problem) else document.data.plain()


class _Places:
    """Offsets of a text as locations of the file that it stands in."""

    def __init__(self, text: str, path: str, positions: PositionMap | None) -> None:
        self.path = path
        self.lines = Lines(text)
        self.positions = positions

    def location(self, start: int, end: int) -> Location:
        if self.positions is not None:
            return self.positions.location(start, end)
        return self.lines.location(self.path, start, end)

    def start(self, offset: int) -> tuple[int, int]:
        place = self.location(offset, offset)
        return place.line, place.column


def _read_tables(text: str, file: Path, display: str, positions: PositionMap | None) -> ConfigDocument | Problem:
    from t4lint.sources.table_text import TextError, parse_ini, parse_toml

    toml = file.name.lower().endswith(TOML_SUFFIXES)
    places = _Places(text, display, positions)
    try:
        data = (parse_toml if toml else parse_ini)(text, places.location)
    except TextError as error:
        return Problem(display, f"is not valid {'TOML' if toml else 'INI'}: {error}")
    return ConfigDocument(display, file, "toml" if toml else "ini", text, data, (data,))


def _read_json(text: str, file: Path, display: str, positions: PositionMap | None) -> ConfigDocument | Problem:
    places = _Places(text, display, positions)
    try:
        root = parse_json(text, limit=MAX_NODES)
    except JsonError as error:
        return Problem(display, f"is not valid JSON: {error.message}", *places.start(error.offset))
    data = _from_json(root, places)
    repeated = tuple(places.location(key.start, key.end) for key in duplicates(root))
    return ConfigDocument(display, file, "json", text, data, (data,), repeated)


def _from_json(root: JsonNode, places: _Places) -> ConfigNode:
    """As deep as `parse_json` lets a text be, which is less than calls may be."""

    def made(node: JsonNode, key: JsonNode | None) -> ConfigNode:
        at = places.location(node.start, node.end)
        key_at = places.location(key.start, key.end) if key is not None else None
        if node.kind == "object":
            entries = {str(name.value): made(child, name) for name, child in node.entries}
            return ConfigNode("mapping", at, None, key_at, "json", entries)
        if node.kind == "array":
            return ConfigNode("sequence", at, None, key_at, "json", items=[made(item, None) for item in node.items])
        return ConfigNode("scalar", at, node.value, key_at, "json")

    return made(root, None)


def _plain(node: ConfigNode, done: dict[int, object]) -> object:
    if node.kind == "scalar" or node.kind == "cycle":
        return node.value
    if id(node) not in done:
        if node.kind == "mapping":
            done[id(node)] = {name: _plain(child, done) for name, child in node.entries.items()}
        else:
            done[id(node)] = [_plain(child, done) for child in node.items]
    return done[id(node)]


# --- what it configures ------------------------------------------------------------------------------------------

# Keys that only one kind of configuration has, and how many of them make it one.
_SIGNS: tuple[tuple[ConfigKind, frozenset[str], int], ...] = (
    ("torchtune", frozenset({"_component_"}), 1),
    ("accelerate", frozenset({
        "compute_environment", "distributed_type", "num_machines", "num_processes", "machine_rank", "main_training_function",
        "downcast_bf16", "rdzv_backend", "use_cpu", "deepspeed_config", "fsdp_config", "same_network", "tpu_env",
    }), 2),
    ("deepspeed", frozenset({
        "zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "zero_allow_untested_optimizer",
        "wall_clock_breakdown", "steps_per_print", "activation_checkpointing", "gradient_clipping", "amp",
        "zero_force_ds_cpu_optimizer", "communication_data_type", "prescale_gradients", "flops_profiler", "aio", "autotuning",
        "gradient_accumulation_steps", "fp16", "bf16", "optimizer", "scheduler",
    }), 2),
    ("llamafactory", frozenset({
        "finetuning_type", "lora_target", "dataset_dir", "cutoff_len", "template", "stage", "overwrite_cache", "flash_attn",
        "preprocessing_num_workers", "quantization_bit", "pref_beta", "plot_loss", "use_unsloth",
    }), 2),
    ("axolotl", frozenset({
        "base_model", "micro_batch_size", "sequence_len", "sample_packing", "datasets", "adapter", "lora_target_linear",
        "dataset_prepared_path", "flash_attention", "val_set_size", "lora_model_dir", "pad_to_sequence_len", "tf32",
        "strict", "special_tokens", "wandb_project", "lora_r", "num_epochs", "chat_template", "train_on_inputs",
    }), 3),
    ("ultralytics", frozenset({
        "imgsz", "close_mosaic", "nbs", "warmup_epochs", "mosaic", "hsv_h", "amp", "lrf", "batch", "epochs", "workers",
        "cos_lr", "overlap_mask", "mask_ratio", "single_cls", "rect", "task", "mode", "deterministic", "patience",
    }), 4),
    ("hf_arguments", frozenset({
        "per_device_train_batch_size", "per_device_eval_batch_size", "model_name_or_path", "output_dir", "num_train_epochs",
        "gradient_accumulation_steps", "learning_rate", "lr_scheduler_type", "save_strategy", "eval_strategy",
        "evaluation_strategy", "logging_steps", "torch_dtype", "bf16", "fp16", "gradient_checkpointing", "report_to",
        "max_seq_length", "max_length", "use_peft", "load_in_4bit", "attn_implementation", "dataset_name", "warmup_ratio",
        "max_steps", "dataloader_num_workers", "do_train", "do_eval", "dataset_mixer", "hub_model_id", "push_to_hub",
    }), 2),
)  # fmt: skip
# DeepSpeed's precision and optimizer are objects; in the arguments of a Trainer they are plain values.
_OBJECTS = frozenset({"fp16", "bf16", "optimizer", "scheduler", "zero_optimization", "activation_checkpointing", "amp"})
_SURELY_DEEPSPEED = frozenset({"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"})


def kind_of_config(data: ConfigNode) -> ConfigKind | None:
    """What a configuration configures, by its keys: names of files say little."""
    if data.kind != "mapping":
        return None
    keys = set(data.entries)
    for kind, signs, wanted in _SIGNS:
        found = keys & signs
        if kind == "deepspeed":
            found = {key for key in found if key not in _OBJECTS or data.entries[key].kind == "mapping"}
            if not any(key in _SURELY_DEEPSPEED or data.entries[key].child("enabled") for key in found):
                continue
        if kind == "torchtune":
            found = {name for name, child in data.entries.items() if "_component_" in child.entries}
        if kind == "ultralytics" and not found & {"imgsz", "nbs", "close_mosaic", "mosaic", "lrf", "hsv_h"}:
            continue
        if kind == "axolotl" and "per_device_train_batch_size" in keys:
            continue
        if len(found) >= wanted:
            return kind
    return None


__all__ = [
    "ConfigDocument", "ConfigKind", "ConfigNode", "config_from", "is_config", "kind_of_config", "plain_yaml", "read_config",
]  # fmt: skip
