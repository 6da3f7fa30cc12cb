"""Files that configure a trainer as a whole, so that no program of the project is there to follow: axolotl and torchtune.

Which one a file is for is told by its keys (`configs.kind_of_config`).
"""

from __future__ import annotations

from t4lint.findings import Problem
from t4lint.sources.configs import YAML_SUFFIXES, ConfigNode, config_from, kind_of_config
from t4lint.sources.document import Document
from t4lint.sources.environment import ELSEWHERE
from t4lint.trace import Origin, TrainerFile, Value

# words that such a file holds: without them it is not parsed
SIGNS = {"axolotl": ("base_model", "micro_batch_size"), "torchtune": ("_component_", "optimizer")}
MAX_TEXT = 200_000  # characters
MAX_DEPTH = 3


def trainer_file(document: Document) -> TrainerFile | None:
    """The trainer that a file configures, with its plain values by dotted key; None for any other file."""
    text = document.text
    if document.file.suffix.lower() not in YAML_SUFFIXES or len(text) > MAX_TEXT:
        return None
    if ELSEWHERE.search(document.path.lower()):
        return None
    if not any(all(word in text for word in words) for words in SIGNS.values()):
        return None
    config = config_from(text, document.file, document.path)
    if isinstance(config, Problem):
        return None
    kind = kind_of_config(config.data)
    if kind not in SIGNS:
        return None
    return TrainerFile(where=config.data.location, role=kind, fields=_fields(config.data, "", 0))


def _fields(node: ConfigNode, prefix: str, depth: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, child in node.entries.items():
        key = f"{prefix}{name}"
        if child.kind == "scalar":
            found[key] = Value(child.value, (Origin("key", f"{key}: {child.value}", child.location),))
        elif child.kind == "mapping" and depth < MAX_DEPTH:
            found.update(_fields(child, f"{key}.", depth + 1))
    return found
