"""Bytes and seconds: what fits, and what a step costs."""

from t4lint.memory.fill import fill
from t4lint.memory.shapes import Shape, find_shape

__all__ = ["Shape", "fill", "find_shape"]
