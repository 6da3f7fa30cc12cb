"""What t4lint says on well-known training projects, as the table of docs/real-code.md.

    python scripts/real_code.py FOLDER [FOLDER ...] > docs/real-code.md

Each folder is a checkout named `owner+name`. Nothing in it is run, and only figures are written.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import t4lint
from t4lint.engine import Options, check
from t4lint.findings import Report

HEAD = """\
# t4lint on well-known projects

<!-- Written by scripts/real_code.py: do not edit. -->

What `t4lint .` of version {version} counts in a checkout, for a T4. A project that is listed with a finding is not at
fault: most were written for other GPUs. Certain and likely findings are counted, by rule; a launch command in a shell
script or a README counts as a run of its own.

| project | commit | files | findings |
| --- | --- | ---: | --- |
"""


def commit(folder: Path) -> str:
    done = subprocess.run(
        ["git", "-C", folder, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def row(folder: Path, result: Report) -> str:
    rules = Counter(finding.rule for finding in result.findings)
    said = ", ".join(f"{rule} {count}" for rule, count in rules.most_common()) or "none"
    if result.problems:
        said += f"; {len(result.problems)} files not read"
    return f"| {folder.name.replace('+', '/')} | {commit(folder)} | {result.files} | {said} |"


def main(folders: list[str]) -> int:
    if not folders:
        print(__doc__, file=sys.stderr)
        return 2
    print(HEAD.format(version=t4lint.__version__), end="")
    for name in sorted(folders, key=str.lower):
        folder = Path(name).resolve()
        print(row(folder, check([folder], Options(cwd=folder))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
