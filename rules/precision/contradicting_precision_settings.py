"""The DeepSpeed configuration asks for another precision than the program or its launch.

## What happens on a T4

Training ends before the first step. With transformers the message is `Please correct the following DeepSpeed config values
that mismatch TrainingArguments values`; with accelerate it is `--mixed_precision arg cannot be set to fp16 when bf16 is set in
the DeepSpeed config file`. The settings stand in different files, so each looks right by itself: a DeepSpeed JSON written for
an A100, an accelerate YAML that was answered for this machine, a flag in a shell script.

## How to fix it

Say it once. Set `enabled` of the `fp16` and `bf16` sections to `"auto"` in the DeepSpeed configuration, so that it follows the
arguments, and ask for fp16 there: a T4 has no hardware for bf16.

## When it is right to ignore it

Never; it fails on every GPU.

## Sources

* transformers 5.24, `integrations/deepspeed.py` (`fill_match`, `trainer_config_finalize`)
* accelerate 1.15, `utils/dataclasses.py` (`DeepSpeedPlugin.set_mixed_precision`)
* both were run on objects of these releases, without DeepSpeed itself
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from t4lint.rule import Candidate, rule
from t4lint.trace import Engine, Fact, Trace, Value

SECTIONS = ("bf16", "fp16")


@rule(
    name="contradicting-precision-settings",
    severity="error",
    summary="DeepSpeed's configuration and the program ask for different precisions",
    message="{places}: the settings contradict each other, and training ends in a ValueError before its first step.",
    help='Set `enabled` of both sections to "auto" in the DeepSpeed configuration and ask for fp16 in one place.',
    triggers=("deepspeed",),
    reads=(Engine,),
)
def contradicting_precision_settings(trace: Trace) -> Iterator[Candidate]:
    for engine in trace.all(Engine):
        program = engine.asked.get("program")
        if engine.role != "DeepSpeed" or program is None:
            continue
        launch = engine.asked.get("launch")
        for section in SECTIONS:
            enabled = engine.asked.get(f"{section}.enabled")
            if enabled is None:
                continue
            when = _contradict(program, section, enabled, _by_transformers(trace))
            words = {"places": _said(section, enabled, program, launch)}
            yield Candidate(engine, when, blame=_with_places(enabled, program, launch), words=words)
            if when.holds:
                break


def _contradict(program: Value, section: str, enabled: Value, by_transformers: bool) -> Fact:
    """transformers compares each section with the arguments; accelerate only refuses two precisions that are both asked for."""
    on, asked = enabled.equals(True), program.equals(section)
    if by_transformers:
        return (on & ~asked) | (~on & asked)
    return on & ~asked & ~program.equals("no")


def _by_transformers(trace: Trace) -> bool:
    return any(engine.role not in ("DeepSpeed", "Accelerator") for engine in trace.all(Engine))


def _with_places(enabled: Value, program: Value, launch: Value | None) -> Value:
    """The setting of the configuration, with every other place that says something else behind it."""
    origins = [*enabled.origins, *program.origins]
    if launch is not None and launch.known and launch.it != program.it:
        origins += launch.origins
    return replace(enabled, origins=tuple(dict.fromkeys(origins)))


def _said(section: str, enabled: Value, program: Value, launch: Value | None) -> str:
    parts = [f"DeepSpeed's `{section}.enabled` is {str(enabled.it).lower()}"]
    place = next((origin.location for origin in program.origins if origin.location is not None), None)
    where = f" ({place.path}:{place.line})" if place is not None else ""
    parts.append(f"the program asks for {program.it}{where}")
    if launch is not None and launch.known and launch.it not in (program.it, "no"):
        at = next((origin.location for origin in launch.origins if origin.location is not None), None)
        parts.append(f"the launch for {launch.it}" + (f" ({at.path}:{at.line})" if at is not None else ""))
    return ", ".join(parts)
