"""Which versions of libraries a project pins: `name==1.2.3` in its requirement files and pyproject.toml."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PIN = re.compile(r"""^[\s"']*([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*===?\s*([0-9][0-9A-Za-z.+!]*)""")
MAX_BYTES = 200_000


@cache
def pinned(root: Path) -> dict[str, str]:
    """Exact pins at the root of a project; the first file that names a library decides."""
    versions: dict[str, str] = {}
    for file in (*sorted(root.glob("requirements*.txt")), root / "pyproject.toml"):
        try:
            text = file.read_bytes()[:MAX_BYTES].decode("utf-8", "replace")
        except OSError:
            continue
        for line in text.splitlines():
            match = PIN.match(line)
            if match:
                versions.setdefault(match.group(1).lower().replace("_", "-"), match.group(2))
    return versions
