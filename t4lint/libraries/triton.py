"""triton: kernels of the project, the tiles that they load, and what `tl.dot` keeps of them in shared memory.

A block of a kernel is an `Object("triton block")` of which only this is kept: its shape, each side at least (what an unknown
operand adds can only broadcast it further); the dtype of its elements; which loads of whole tiles it is made of. Read in triton
3.0 to 3.9; `tl.make_block_ptr` is gone in 3.9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from t4lint.interpret.operators import origins_of
from t4lint.interpret.values import (
    Abstract,
    Const,
    DictValue,
    Function,
    ListValue,
    Object,
    Provenance,
    Symbol,
    Tensor,
    Unknown,
)
from t4lint.libraries.api import Arguments, Call, calls, methods
from t4lint.libraries.kernels import said
from t4lint.libraries.torch_operations import exact_dtype
from t4lint.trace import Call as CallEvent

# dtypes that a kernel may compute in and a T4 does not have; a comparison with one computes nothing
AMPERE_DTYPES = ("triton.language.bfloat16", "triton.language.float8e4nv")
# bytes of one element, by the names of torch and of triton.language
ELEMENT_BYTES = {
    "float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2,
    "int8": 1, "uint8": 1, "float8e5": 1, "float8e4nv": 1, "float8_e5m2": 1, "float8_e4m3fn": 1,
}  # fmt: skip
MOST_CONFIGS = 16  # of `triton.autotune`, each of which is one more way through the kernel
_serial = count()


@dataclass(frozen=True, slots=True)
class Tile:
    """What is known of a block: `shape` (each side at least), `dtype` of its elements or of what it points at, the fewest
    bytes of an element on its way here, `loads` of whole tiles that it is made of, and where its sides were written."""

    shape: tuple[int, ...] = ()
    dtype: str = ""
    narrowest: int = 0
    pointer: bool = False
    loads: frozenset[int] = frozenset()
    origins: Provenance = ()


def block(tile: Tile) -> Object:
    found = Object("triton block", "triton.block")
    found.attributes["$tile"] = tile
    return found


def tile_of(value: Abstract | None) -> Tile | None:
    if isinstance(value, Object) and value.kind == "triton block":
        tile: Tile = value.attributes["$tile"]
        return tile
    return None


# --- kernels and their launches ----------------------------------------------------------------------------------


def decorators(function: Function) -> Iterator[tuple[str, Abstract]]:
    for decorator in function.decorators:
        if isinstance(decorator, (Symbol, Object)):
            yield decorator.name, decorator


def is_kernel(function: Function) -> bool:
    return any(name in ("triton.jit", "triton.runtime.jit.jit") for name, _ in decorators(function))


def inside_kernel(m: Any) -> bool:
    """Is the code that is being read the body of a `@triton.jit` function?"""
    return any(isinstance(frame.function, Function) and is_kernel(frame.function) for frame in reversed(m.frames))


@calls("triton.jit")
def jit(call: Call) -> Abstract:
    function = call.arguments.get("fn", 0)
    return function if function is not None else Object("decorator", "triton.jit")


@calls("triton.Config")
def config(call: Call) -> Abstract:
    return Object("triton config", call.name, {"$kwargs": call.argument("kwargs", 0)})


@calls("triton.autotune", "triton.heuristics")
def tuned(call: Call) -> Abstract:
    """A decorator that gives the kernel some of its arguments at each launch."""
    pruned = Const(call.given("prune_configs_by"))
    return Object("decorator", call.name, {"$given": call.argument("configs", 0), "$pruned": pruned})


def launched(function: Function) -> Abstract:
    """`kernel[grid]`, which is called with the arguments of the kernel."""
    return Object("triton launch", function.name, {"$function": function})


@methods("triton launch", "__call__")
def launch(call: Call) -> Abstract:
    """Enter the kernel once for each configuration that it may run with."""
    from t4lint.libraries.torch import hand_over

    m, function = call.machine, call.receiver.attributes["$function"]
    given = Arguments(
        tuple(_in_kernel(m, value) for value in call.arguments.positional),
        {name: _in_kernel(m, value) for name, value in call.arguments.keywords.items()},
        call.arguments.open,
    )
    ways = configurations(m, function)
    before, number = m.globals.get("$triton launch"), next(_serial)
    for position, chosen in enumerate(ways if ways is not None else [{}]):
        m.globals["$triton launch"] = (number, position, len(ways)) if ways is not None else None
        m.call(function, Arguments(given.positional, {**given.keywords, **chosen}, given.open))
    m.globals["$triton launch"] = before
    hand_over(m, f"what {function.name} does with its arguments is not known", call.arguments)
    return Unknown(f"what {function.name} returns is not known")


def _in_kernel(m: Any, value: Abstract) -> Abstract:
    """What a kernel sees of an argument: a pointer for a tensor."""
    value = m.resolve(value)
    return block(Tile(dtype=exact_dtype(m, value), pointer=True)) if isinstance(value, Tensor) else value


def configurations(m: Any, function: Function) -> list[dict[str, Abstract]] | None:
    """The arguments of each configuration that a launch may pick; None where these are not known."""
    ways: list[dict[str, Abstract]] = [{}]
    for name, decorator in decorators(function):
        if name == "triton.heuristics":
            return None
        if name != "triton.autotune":
            continue
        listed = m.resolve(decorator.attributes["$given"]) if isinstance(decorator, Object) else None
        if not isinstance(listed, ListValue) or not listed.complete or decorator.attributes["$pruned"].value:  # type: ignore[attr-defined]
            return None
        found = [_arguments_of(m, item) for item in listed.items]
        if not 0 < len(found) <= MOST_CONFIGS or None in found:
            return None
        ways = [one for one in found if one is not None]
    return ways


def _arguments_of(m: Any, item: Abstract) -> dict[str, Abstract] | None:
    item = m.resolve(item)
    kwargs = (
        m.resolve(item.attributes["$kwargs"]) if isinstance(item, Object) and item.kind == "triton config" else None
    )
    return dict(kwargs.items) if isinstance(kwargs, DictValue) and kwargs.complete else None


# --- blocks ------------------------------------------------------------------------------------------------------


def arithmetic(name: str, left: Abstract, right: Abstract) -> Abstract:
    """An operator between two values of a kernel, of which one is a block."""
    return block(together(name, [tile for tile in (tile_of(left), tile_of(right)) if tile is not None]))


def together(name: str, tiles: list[Tile]) -> Tile:
    """A block computed from others, elementwise. Only a sum with a pointer is one, and its elements are what that points at."""
    width = max(len(tile.shape) for tile in tiles)
    sides = [(1,) * (width - len(tile.shape)) + tile.shape for tile in tiles]
    pointers = [tile for tile in tiles if tile.pointer]
    made_of = pointers if pointers and name in ("Add", "Subtract") else tiles
    dtypes = {tile.dtype for tile in made_of}
    return Tile(
        tuple(max(column) for column in zip(*sides, strict=True)),
        dtypes.pop() if len(dtypes) == 1 else "",
        min((tile.narrowest for tile in made_of), default=0),
        pointer=len(pointers) == 1 and name in ("Add", "Subtract"),
        loads=frozenset().union(*(tile.loads for tile in tiles)),
        origins=_origins(*tiles),
    )


def _origins(*tiles: Tile) -> Provenance:
    return origins_of(*(Const(0, tile.origins) for tile in tiles))


def _sides(m: Any, value: Abstract | None) -> Tile | None:
    """A shape written as a list or tuple of constants; None where a side is not known."""
    value = m.resolve(value) if value is not None else None
    items = [m.resolve(item) for item in value.items] if isinstance(value, ListValue) and value.complete else None
    if items is None or not all(isinstance(item, Const) and type(item.value) is int for item in items):
        return None
    return Tile(tuple(item.value for item in items), origins=origins_of(*items))


@calls("triton.language.program_id", "triton.language.num_programs", "triton.language.cdiv", "triton.cdiv")
def number(call: Call) -> Abstract:
    values = [call.machine.resolve(value) for value in call.arguments.positional]
    if call.name.endswith("cdiv") and len(values) == 2:
        if all(isinstance(value, Const) and type(value.value) is int and value.value > 0 for value in values):
            return Const(-(-values[0].value // values[1].value), origins_of(*values))
    return Unknown(f"what {call.name} returns is not known")


@calls("triton.language.arange")
def arange(call: Call) -> Abstract:
    start, end = call.argument("start", 0), call.argument("end", 1)
    if isinstance(start, Const) and isinstance(end, Const) and type(start.value) is int and type(end.value) is int:
        return block(Tile((end.value - start.value,), "int32", 4, origins=end.origins))
    return Unknown("an arange whose ends are not known")


@methods("triton block", "getitem")
def indexed(call: Call) -> Abstract:
    """`offsets[:, None]`: None makes a side of 1, a colon keeps one."""
    tile, index = call.receiver.attributes["$tile"], call.arguments.positional[0]
    parts = index.items if isinstance(index, ListValue) else (index,)
    kept, shape = list(tile.shape), []
    for part in parts:
        if isinstance(part, Const) and part.value is None:
            shape.append(1)
        elif isinstance(part, Unknown) and part.reason == "a slice" and kept:
            shape.append(kept.pop(0))
        else:
            return Unknown("an index of a block")
    return block(replace(tile, shape=(*shape, *kept)))


@calls("triton.language.make_block_ptr")
def block_pointer(call: Call) -> Abstract:
    return _window(call, call.argument("block_shape", 4))


@calls("triton.language.make_tensor_descriptor", "triton.language._experimental_make_tensor_descriptor")
def descriptor(call: Call) -> Abstract:
    return _window(call, call.argument("block_shape", 3))


def _window(call: Call, shape: Abstract) -> Abstract:
    base, sides = tile_of(call.argument("base", 0)), _sides(call.machine, shape)
    if base is None or sides is None:
        return Unknown("a pointer to a block whose shape is not known")
    return block(replace(base, shape=sides.shape, origins=sides.origins, pointer=True))


@calls("triton.language.advance")
def advance(call: Call) -> Abstract:
    return call.argument("base", 0)


@calls("triton.language.load")
def load(call: Call) -> Abstract:
    return _loaded(tile_of(call.argument("pointer", 0)))


@methods("triton block", "load")
def load_described(call: Call) -> Abstract:
    return _loaded(tile_of(call.receiver))


def _loaded(tile: Tile | None) -> Abstract:
    if tile is None or not tile.pointer:
        return Unknown("what is loaded is not known")
    # a row that is broadcast later may be kept as a row: only whole tiles are counted
    whole = len(tile.shape) >= 2 and min(tile.shape) > 1
    loads = frozenset({next(_serial)}) if whole else frozenset()
    return block(Tile(tile.shape, tile.dtype, ELEMENT_BYTES.get(tile.dtype, 0), loads=loads, origins=tile.origins))


@calls("triton.language.trans")
def transposed(call: Call) -> Abstract:
    return _transposed(call.argument("input", 0), len(call.arguments.positional) > 1 or bool(call.arguments.keywords))


@methods("triton block", "trans")
def transposed_block(call: Call) -> Abstract:
    return _transposed(call.receiver, bool(call.arguments.positional))


def _transposed(value: Abstract, permuted: bool) -> Abstract:
    tile = tile_of(value)
    if tile is None or permuted or len(tile.shape) != 2:
        return Unknown("a block whose sides change places")
    return block(replace(tile, shape=tile.shape[::-1]))


@methods("triton block", "getattr")
def attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    tile: Tile = call.receiver.attributes["$tile"]
    if name == "T":
        return _transposed(call.receiver, False)
    if name == "dtype" and not tile.pointer and tile.dtype:
        return Object("triton dtype", f"triton.language.{tile.dtype}")  # compared with another, it decides nothing
    return Unknown(f"{name} of a block")


@methods("triton block", "to")
def cast_block(call: Call) -> Abstract:
    say_dtypes(call)
    return _cast(call, call.receiver, call.argument("dtype", 0))


@calls("triton.language.cast")
def cast_call(call: Call) -> Abstract:
    say_dtypes(call)
    return _cast(call, call.argument("input", 0), call.argument("dtype", 1))


def _cast(call: Call, value: Abstract, dtype: Abstract) -> Abstract:
    tile, dtype = tile_of(value), call.machine.resolve(dtype)
    if tile is None:
        return Unknown("a cast of what is not known")
    name = dtype.name.rpartition(".")[2] if isinstance(dtype, (Symbol, Object)) else ""
    size = ELEMENT_BYTES.get(name, 0)
    return block(replace(tile, dtype=name if size else "", narrowest=min(size, tile.narrowest)))


@methods("triton block", "*")
def other_method(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")


@calls("triton.language.zeros", "triton.language.full", "triton.language.zeros_like", "triton.language.pointer_type")
def filled(call: Call) -> Abstract:
    """A block of one value takes no shared memory; its dtype is said."""
    say_dtypes(call)
    return Unknown(f"what {call.name} returns is not known")


@calls("triton.language.exp", "triton.language.exp2", "triton.language.where", "triton.language.sigmoid")
def elementwise(call: Call) -> Abstract:
    tiles = [tile for value in call.arguments.positional if (tile := tile_of(call.machine.resolve(value))) is not None]
    return block(together(call.name, tiles)) if tiles else Unknown(f"what {call.name} returns is not known")


def say_dtypes(call: Call) -> None:
    """Say which of the dtypes that a T4 lacks a kernel casts to or makes a block of."""
    m = call.machine
    for value in call.arguments.values():
        dtype = m.resolve(value)
        if isinstance(dtype, Symbol) and dtype.name in AMPERE_DTYPES and inside_kernel(m):
            m.emit(CallEvent, dtype.name.rpartition(".")[2], function=dtype.name, arguments={"dtype": dtype})


# --- tl.dot ------------------------------------------------------------------------------------------------------


@calls("triton.language.dot", "triton.language.dot_scaled")
def dot(call: Call) -> Abstract:
    m = call.machine
    if not inside_kernel(m):
        return Tensor()
    one, other = tile_of(call.argument("input", 0)), tile_of(call.argument("other", 1))
    number, position, ways = m.globals.get("$triton launch") or (None, None, None)
    shared = operand_bytes(one, other) if call.name.endswith(".dot") else None
    if one is None or other is None or shared is None or number is None:
        said(call, shared=Unknown("the tiles of this product are not known"))
        return Unknown("a product of blocks")
    said(
        call,
        shared=Const(shared, _origins(one, other)),
        tiles=Const((one.shape, other.shape, one.dtype)),
        launch=Const(number), configuration=Const(position), configurations=Const(ways),
    )  # fmt: skip
    return block(Tile((one.shape[0], other.shape[1]), "float32", 4, origins=_origins(one, other)))


def operand_bytes(one: Tile | None, other: Tile | None) -> int | None:
    """The fewest bytes of shared memory that both operands of a product take at the same time on a GPU before Ampere.

    Measured by compiling for compute capability 7.5 with triton 3.0, 3.2, 3.4 and 3.9 (`python benchmarks/triton_tiles.py`): each
    operand that was loaded as a whole tile lies in shared memory while the other does; a transposed view of the same load
    shares its place; one that is cast to a narrower type may lie there in that type.
    """
    if one is None or other is None or not (one.narrowest and other.narrowest) or not (one.loads and other.loads):
        return None
    if len(one.shape) != 2 or len(other.shape) != 2 or one.loads & other.loads:
        return None
    return sum(math.prod(tile.shape) * tile.narrowest for tile in (one, other))


@calls("triton.*")
def anything(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")
