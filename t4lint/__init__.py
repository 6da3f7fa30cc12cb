"""t4lint: what a PyTorch or Hugging Face training script will do on an NVIDIA T4, before it runs."""

from pathlib import Path

__version__ = "0.1.0"

# In a checkout the rules stand beside the package; in a wheel they are shipped inside it, as t4lint/rules.
_checkout = Path(__file__).resolve().parent.parent
if (_checkout / "rules").is_dir() and (_checkout / "pyproject.toml").is_file():
    __path__.append(str(_checkout))
