"""How much does the interpreter know? The share of arguments of training APIs whose value is known, over real code.

    python scripts/knowledge.py FOLDER [FOLDER ...]

For every call to a known training API that interpretation reaches, each argument that is written counts once per place:
known, or unknown with its reason. The folders are checkouts or unpacked source distributions; nothing in them is run.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

from t4lint.engine import Options, check
from t4lint.interpret.values import Choice, Const, DictValue, ListValue, Object, Symbol, Unknown, leaves
from t4lint.libraries import registry

PRECISION = ("fp16", "bf16", "tf32", "dtype", "torch_dtype", "mixed_precision", "precision", "enabled")
BATCH = ("per_device_train_batch_size", "per_device_eval_batch_size", "batch_size", "gradient_accumulation_steps")
WORKERS = ("num_workers", "pin_memory", "dataloader_num_workers", "dataloader_pin_memory", "persistent_workers")
OTHER = (
    "attn_implementation",
    "load_in_4bit",
    "load_in_8bit",
    "gradient_checkpointing",
    "accumulate_grad_batches",
    "backend",
)
COUNTED = frozenset((*PRECISION, *BATCH, *WORKERS, *OTHER))


def known(value: object) -> bool:
    """A constant, a dtype, an object of a known class, or a choice of such."""
    if isinstance(value, Choice):
        return all(known(leaf) for leaf in leaves(value))
    return isinstance(value, (Const, Symbol, Object, ListValue, DictValue))


def reason(value: object) -> str:
    found = next((leaf for leaf in leaves(value) if isinstance(leaf, Unknown)), None)  # type: ignore[arg-type]
    return found.reason if found is not None else type(value).__name__


def main(folders: list[str]) -> int:
    places: dict[tuple[str, str], tuple[bool, str]] = {}
    original = registry.call_symbol

    def counting(m, name, arguments):  # type: ignore[no-untyped-def]
        for key, value in arguments.keywords.items():
            if key in COUNTED and m.sites:
                source, node = m.sites[-1]
                place = (f"{source.path}#{id(node)}", key)
                value = m.resolve(value)
                before = places.get(place, (False, ""))[0]
                places[place] = (before or known(value), "" if known(value) else reason(value))
        return original(m, name, arguments)

    registry.call_symbol = counting
    files = 0
    for folder in folders:
        root = Path(folder).resolve()
        report = check([root], Options(cwd=root))
        files += report.files
    by_group: dict[str, Counter[bool]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for (_, key), (is_known, why) in places.items():
        group = next((g for g, names in GROUPS.items() if key in names), "other")
        by_group[group][is_known] += 1
        if not is_known:
            reasons[why] += 1
    total = sum(sum(c.values()) for c in by_group.values())
    print(f"{files} files, {total} arguments")
    for group, counts in sorted(by_group.items()):
        share = counts[True] / max(1, sum(counts.values()))
        print(f"  {group:<10} {share:6.1%} of {sum(counts.values())} known")
    everything = sum(c[True] for c in by_group.values())
    print(f"  {'all':<10} {everything / max(1, total):6.1%}")
    print("most frequent reasons for unknown:")
    for why, count in reasons.most_common(25):
        print(f"  {count:5}  {why}")
    return 0


GROUPS = {"precision": PRECISION, "batch": BATCH, "workers": WORKERS, "other": OTHER}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
