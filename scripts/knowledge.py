"""How much does the interpreter know? The share of arguments of training APIs whose value is known, over real code.

    python scripts/knowledge.py FOLDER [FOLDER ...]
    python scripts/knowledge.py --markdown FOLDER [FOLDER ...] > docs/knowledge.md

For every call to a known training API that interpretation reaches, each argument that is written counts once per place:
known in some run, or unknown with its reason. Launches count their processes, nodes and precision. "Scripts" leaves out
what only functions say that no program calls: their arguments are somebody else's to give. The folders are checkouts or
unpacked packages; nothing in them is run.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from t4lint.engine import Options, Session, check
from t4lint.interpret.values import Choice, Const, DictValue, ListValue, Object, Symbol, Unknown, leaves
from t4lint.libraries import registry

PRECISION = ("fp16", "bf16", "tf32", "dtype", "torch_dtype", "mixed_precision", "precision", "enabled")
BATCH = (
    "per_device_train_batch_size", "per_device_eval_batch_size", "batch_size", "gradient_accumulation_steps",
    "accumulate_grad_batches",
)  # fmt: skip
WORKERS = ("num_workers", "pin_memory", "dataloader_num_workers", "dataloader_pin_memory", "persistent_workers")
OTHER = ("attn_implementation", "load_in_4bit", "load_in_8bit", "gradient_checkpointing", "backend")
GROUPS = {"precision": PRECISION, "batch": BATCH, "workers": WORKERS, "other": OTHER}
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
ASKED = ("precision", "batch", "workers", "launch")  # the groups that the bar is about
MAX_REASONS = 25


@dataclass
class Tally:
    """What was seen: the arguments of calls by place, and those of launches."""

    calls: dict[tuple[str, str], tuple[bool, str, bool]] = field(default_factory=dict)
    launches: list[tuple[bool, str]] = field(default_factory=list)
    files: int = 0


def known(value: object) -> bool:
    """A constant, a dtype, an object of a known class, or a choice of such."""
    if isinstance(value, Choice):
        return all(known(leaf) for leaf in leaves(value))
    return isinstance(value, (Const, Symbol, Object, ListValue, DictValue))


def reason(value: object) -> str:
    found = next((leaf for leaf in leaves(value) if isinstance(leaf, Unknown)), None)  # type: ignore[arg-type]
    text = found.reason if found is not None else type(value).__name__
    return re.sub(r"\b[A-Za-z_]\w*\.py\b|\b[a-z]+(?:_[a-z0-9]+)+\b", "…", text)


def measure(folders: list[str]) -> Tally:
    tally = Tally()
    original, interpret = registry.call_symbol, Session.interpret

    def counting(m: Any, name: str, arguments: Any) -> Any:
        uncalled = any(frame.function is not None and id(frame.function.node) in LOOSE for frame in m.frames)
        for key, value in arguments.keywords.items():
            if key in GROUP_OF and m.sites:
                source, node = m.sites[-1]
                value = m.resolve(value)
                place = (f"{source.path}#{id(node)}", key)
                before = tally.calls.get(place, (False, "", True))
                why = "" if known(value) else reason(value)
                tally.calls[place] = (before[0] or known(value), why, before[2] and uncalled)
        return original(m, name, arguments)

    def launching(session: Session, file: Path, launch: Any) -> None:
        if launch is not None:
            for value in (launch.nodes, launch.processes_per_node):
                tally.launches.append((value.known, value.unknown))
            precision = launch.launcher_flags.get("mixed_precision")
            if precision is not None:
                tally.launches.append((precision.text is not None, precision.why))
        interpret(session, file, launch)

    registry.call_symbol, Session.interpret = counting, launching  # type: ignore[method-assign]
    note_loose_functions()
    for folder in folders:
        root = Path(folder).resolve()
        tally.files += check([root], Options(cwd=root)).files
    return tally


LOOSE: set[int] = set()  # functions that were entered though nothing calls them


def note_loose_functions() -> None:
    from t4lint.interpret import calls, run

    original = calls.enter_uncalled

    def noting(m: Any, functions: Any) -> None:
        LOOSE.update(id(function.node) for function in functions)
        original(m, functions)

    calls.enter_uncalled = run.enter_uncalled = noting


def table(tally: Tally) -> list[tuple[str, int, float, int, float]]:
    """Rows of group, arguments in scripts and the share known, arguments everywhere and the share known."""
    scripts: dict[str, Counter[bool]] = defaultdict(Counter)
    everywhere: dict[str, Counter[bool]] = defaultdict(Counter)
    for (_, key), (is_known, _, loose) in tally.calls.items():
        everywhere[GROUP_OF[key]][is_known] += 1
        if not loose:
            scripts[GROUP_OF[key]][is_known] += 1
    for is_known, _ in tally.launches:
        scripts["launch"][is_known] += 1
        everywhere["launch"][is_known] += 1
    for counts in (scripts, everywhere):
        counts["asked for"] = sum((counts[group] for group in ASKED), Counter())
    return [
        (group, scripts[group].total(), share(scripts[group]), everywhere[group].total(), share(everywhere[group]))
        for group in (*ASKED, "other", "asked for")
    ]


def share(counts: Counter[bool]) -> float:
    return counts[True] / max(1, counts.total())


def reasons(tally: Tally) -> list[tuple[str, int]]:
    found = Counter(why for is_known, why, loose in tally.calls.values() if not is_known and not loose)
    found.update(why for is_known, why in tally.launches if not is_known)
    return found.most_common(MAX_REASONS)


def main(arguments: list[str]) -> int:
    markdown = "--markdown" in arguments
    folders = [argument for argument in arguments if argument != "--markdown"]
    tally = measure(folders)
    rows, why = table(tally), reasons(tally)
    if markdown:
        names = ", ".join(sorted(Path(folder).resolve().name for folder in folders))
        print(HEADER.format(files=tally.files, folders=len(folders), names=names))
        for group, count, part, total, whole in rows:
            print(f"| {group} | {count} | {part:.1%} | {total} | {whole:.1%} |")
        print("\nThe most frequent reasons for unknown, in scripts:\n\n| places | reason |\n| ---: | --- |")
        for text, count in why:
            print(f"| {count} | {text} |")
        return 0
    print(f"{tally.files} files")
    for group, count, part, total, whole in rows:
        print(f"  {group:<10} {part:6.1%} of {count:5} in scripts   {whole:6.1%} of {total:5} everywhere")
    print("most frequent reasons for unknown, in scripts:")
    for text, count in why:
        print(f"  {count:5}  {text}")
    return 0


HEADER = """# What the interpreter knows of real code

Made by `python scripts/knowledge.py --markdown FOLDER ...` over {files} files of {folders} projects: {names}. Each argument of
a training API that is written counts once per place. "In scripts" leaves out functions that nothing in the project calls: their
arguments are somebody else's to give.

| arguments | in scripts | known | everywhere | known |
| --- | ---: | ---: | ---: | ---: |"""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
