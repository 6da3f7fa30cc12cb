"""Arrays in host memory whose size can be computed from their shape."""

from __future__ import annotations

from math import prod

from t4lint.interpret.values import Abstract, Const, ListValue, Object, Symbol, Unknown
from t4lint.libraries.api import Call, calls
from t4lint.trace import Allocation

LARGE = 2**28  # bytes, from which on an array is told: a fiftieth of the smallest machine's memory
SIZES = {
    "uint8": 1, "int8": 1, "bool": 1, "bool_": 1, "float16": 2, "half": 2, "bfloat16": 2, "int16": 2, "float32": 4, "float": 8,
    "int32": 4, "int": 8, "int64": 8, "long": 8, "float64": 8, "double": 8, "single": 4,
}  # fmt: skip


@calls("numpy.zeros", "numpy.empty", "numpy.ones", "numpy.full")
def numpy_array(call: Call) -> Abstract:
    note(call, call.argument("shape", 0), "float64")
    return Unknown("an array", varies=bool(call.machine.loops))


def note(call: Call, shape: Abstract, default: str) -> None:
    """Say that an array of this shape is made, where shape and dtype are known and it is large."""
    m = call.machine
    position = 2 if call.name.endswith(".full") else 1
    dtype = m.resolve(
        call.arguments.get("dtype", position if call.name.startswith("numpy.") else None) or Const(default)
    )
    name = dtype.name if isinstance(dtype, Symbol) else dtype.value if isinstance(dtype, Const) else ""
    size = SIZES.get(str(name).rpartition(".")[2])
    numbers = [m.resolve(item) for item in shape.items] if isinstance(shape, ListValue) and shape.complete else [shape]
    known = [item.value for item in numbers if isinstance(item, Const) and isinstance(item.value, int)]
    if size is None or len(known) != len(numbers):
        return
    total = prod(known) * size
    if total >= LARGE:
        m.emit(Allocation, size=Const(total))


def torch_array(call: Call) -> None:
    """torch.zeros(1, 2) and torch.zeros((1, 2)), on the CPU unless a device is given."""
    given = call.arguments.positional
    shape = call.machine.resolve(call.arguments.get("size", 0) or Unknown("a shape"))
    if given and not isinstance(shape, (ListValue, Object)):
        shape = ListValue(given[:1] if call.name.endswith(".full") else given, "tuple")
    if not call.given("device") and call.machine.globals.get("torch.default_device", "cpu") == "cpu":
        note(call, shape, "float32")
