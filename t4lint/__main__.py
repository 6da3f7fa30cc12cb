"""`python -m t4lint`."""

import sys

from t4lint.cli import main

if __name__ == "__main__":
    sys.exit(main())
