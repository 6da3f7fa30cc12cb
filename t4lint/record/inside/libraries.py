"""Which libraries are loaded."""

from __future__ import annotations

import sys

from . import journal


def tell() -> None:
    """Top-level libraries that are loaded, with the versions that they state."""
    libraries: dict[str, str | None] = {}
    for name, module in list(sys.modules.items()):
        if "." not in name and not name.startswith("_") and name not in sys.stdlib_module_names:
            version = getattr(module, "__dict__", {}).get("__version__")
            libraries[name] = str(version) if isinstance(version, str) else None
    journal.fact("imports", None, libraries=dict(sorted(libraries.items())[:256]))
