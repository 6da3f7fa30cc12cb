"""`t4lint` and `python -m t4lint`."""

import sys
from pathlib import Path


def main() -> int:
    """The command line; the exit code."""
    from t4lint.cli import main as run

    return run()


def leave_the_folder() -> None:
    """`python -m` puts the working directory before the libraries; a `yaml.py` there is the project's, and is not ours to run."""
    own = Path(__file__).resolve().parents[1]
    if not getattr(sys.flags, "safe_path", False) and sys.path and Path(sys.path[0] or ".").resolve() != own:
        del sys.path[0]


if __name__ == "__main__":
    leave_the_folder()
    sys.exit(main())
