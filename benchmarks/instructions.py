"""How many bytecode instructions linting a fixed file takes: a figure that no busy machine changes.

    python -m benchmarks.instructions [--write]

Counted over a second run in one process, when all tables are read, with a fixed hash seed and a fixed set of rules. `--write` records
the figure of this Python version in `benchmarks/instructions.json`; a test holds later ones against it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORDED = Path(__file__).with_suffix(".json")
PROGRAM = ROOT / "examples" / "verify_me.py"
RULES = ("bf16-mixed-precision", "pin-memory-disabled", "gradient-clipping-before-unscale", "backward-inside-autocast")


def count() -> int:
    """The instructions of one run, in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from benchmarks.instructions import counted; print(counted())"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


def counted() -> int:
    from t4lint.engine import Options, check

    options = Options(cwd=PROGRAM.parent, select=RULES)
    assert check([PROGRAM], options).findings
    counter = _monitored if hasattr(sys, "monitoring") else _traced
    return counter(lambda: check([PROGRAM], options))


def _monitored(run: Any) -> int:
    """By `sys.monitoring` (Python 3.12 and later)."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    number = 0

    def seen(*_: object) -> None:
        nonlocal number
        number += 1

    tool = monitoring.PROFILER_ID
    monitoring.use_tool_id(tool, "t4lint")
    monitoring.register_callback(tool, monitoring.events.INSTRUCTION, seen)
    monitoring.set_events(tool, monitoring.events.INSTRUCTION)
    try:
        run()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    return number


def _traced(run: Any) -> int:
    """By a trace function that is called for each instruction."""
    number = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal number
        number += event == "opcode"
        return step

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    return number


def version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def recorded() -> dict[str, int]:
    found: dict[str, int] = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.is_file() else {}
    return found


def main(arguments: list[str]) -> int:
    now, before = count(), recorded().get(version())
    ratio = f", {now / before:.3f} of the recorded {before:,}" if before else ""
    print(f"Python {version()}: {now:,} instructions{ratio}")
    if "--write" in arguments:
        text = json.dumps({**recorded(), version(): now}, indent=2, sort_keys=True)
        RECORDED.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
