"""Interpret training files of the corpus and print what was understood, one JSON line a package; nothing of it is run.

    python scripts/interpret_corpus.py FOLDER FILES_A_PACKAGE

`steps` and `events` are the most that one run took. A fault of the interpreter ends the script.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ["T4LINT_DEBUG"] = "1"  # faults surface

import corpus

from t4lint.engine import Options, check
from t4lint.interpret import run


def main(folder: Path, most: int) -> int:
    used: list[tuple[int, int]] = []
    original = run.interpret

    def counting(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        if isinstance(result, run.Interpretation):
            used.append((result.machine.steps, sum(len(segment.drafts) for segment in result.segments[:1])))
        return result

    run.interpret = counting
    for package, group in groupby(corpus.training_files(folder), lambda file: file.relative_to(folder).parts[0]):
        used.clear()
        files = list(group)[:most]
        root = folder / package
        report = check(files, Options(cwd=root, show_trace=True, min_confidence="possible"))
        found = {
            "package": package,
            "files": len(files),
            "steps": max((steps for steps, _ in used), default=0),
            "events": max((events for _, events in used), default=0),
            "findings": [[f.rule, f.location.path, f.location.line, f.confidence, f.message] for f in report.findings],
            "problems": [str(problem) for problem in report.problems],
            "trace": list(report.trace),
        }
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), int(sys.argv[2])))
