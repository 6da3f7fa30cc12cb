"""Finds the model of a library function, method or attribute. Models are loaded when their library is first touched."""

from __future__ import annotations

import builtins
import importlib
import sys
from functools import cache
from typing import Any

from t4lint.interpret.operators import tensor_of, ungraphed, unknown_from
from t4lint.interpret.values import (
    NONE,
    Abstract,
    Bound,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Returned,
    Symbol,
    Tensor,
    Unknown,
)
from t4lint.libraries import symbols
from t4lint.libraries.api import ALIASES, ATTRIBUTES, CALLS, METHODS, Arguments, Call
from t4lint.trace import release

# library → module of this package that models it
MODELS = {
    "torch": (
        "torch",
        "torch_autocast",
        "torch_data",
        "torch_distributed",
        "torch_cuda",
        "torch_operations",
        "torch_attention",
        "networks",
        "sharding",
    ),
    "torchvision": ("torch", "vision", "media"),
    "timm": ("torch", "vision"),
    "transformers": ("torch", "transformers", "peft"),
    "trl": ("torch", "transformers", "peft", "trl"),
    "accelerate": ("torch", "accelerate", "sharding"),
    "peft": ("torch", "peft"),
    "bitsandbytes": ("torch", "bitsandbytes"),
    "lightning": ("torch", "lightning", "lightning_cli"),
    "pytorch_lightning": ("torch", "lightning", "lightning_cli"),
    "lightning_fabric": ("torch", "lightning"),
    "unsloth": ("torch", "transformers", "unsloth"),
    "diffusers": ("torch", "transformers", "peft", "diffusers"),
    "safetensors": ("torch",),
    "datasets": ("torch", "torch_data"),
    "huggingface_hub": ("torch", "torch_data"),
    "flash_attn": ("torch", "flash_attn"),
    "flash_attn_interface": ("torch", "flash_attn"),
    "xformers": ("torch", "kernels"),
    "vllm": ("torch", "kernels"),
    "torchao": ("torch", "kernels"),
    "transformer_engine": ("torch", "kernels"),
    "triton": ("torch", "triton"),
    "liger_kernel": ("torch", "kernels"),
    "fla": ("torch", "kernels"),
    "cut_cross_entropy": ("torch", "kernels"),
    "ultralytics": ("torch", "ultralytics"),
    "sentence_transformers": ("torch", "transformers", "peft", "sentence_transformers"),
    "setfit": ("torch", "transformers", "peft", "sentence_transformers"),
    "submitit": ("submitit",),
    "ray": ("torch", "torch_data", "ray"),
    "ignite": ("torch", "ignite"),
    "sacred": ("python", "sacred"),
    "wandb": ("python", "trackers"),
    "t4lint_programs": ("torch", "programs"),
}
# Libraries of which single calls are modelled: a project's own package of that name is followed instead.
FOLLOWED = frozenset({"liger_kernel", "fla", "cut_cross_entropy"})
PYTHON = ("python", "paths", "classes", "code", "arguments", "configs", "commands", "patterns")
# libraries that read configuration files, modelled in one file
CONFIGS = frozenset({
    "yaml", "omegaconf", "hydra", "toml", "tomli", "ruamel", "ml_collections", "addict", "munch", "box", "deepspeed", "dotenv",
    "yacs", "fvcore", "orjson", "json5", "easydict", "attrdict", "dotmap",
})  # fmt: skip
# libraries that decode files, modelled in one file
MEDIA = frozenset({
    "PIL", "cv2", "imageio", "skimage", "tifffile", "librosa", "soundfile", "torchaudio", "decord", "av", "nibabel", "pydicom",
    "rasterio", "turbojpeg", "accimage",
})  # fmt: skip
# command line libraries, modelled in one file
ENTRY = frozenset({"click", "typer", "fire", "absl", "simple_parsing", "tyro", "jsonargparse", "configargparse", "nox"})

# Libraries that t4lint knows by name even where a project carries them itself.
KNOWN = (frozenset(MODELS) - FOLLOWED) | {
    "lightning",
    "pytorch_lightning",
    "deepspeed",
    "diffusers",
    "xformers",
    "triton",
}

# The newest releases that the models were read against (knowledge base, 2026-11-30).
NEWEST = {
    "torch": "2.15.0",
    "transformers": "5.24.0",
    "trl": "1.16.0",
    "accelerate": "1.15.0",
    "peft": "0.21.2",
    "bitsandbytes": "0.50.2",
    "lightning": "2.6.6",
    "flash-attn": "2.8.3",
    "triton": "3.9.0",
}

SHEDDING = ("transformers.", "trl.", "datasets.", "peft.")  # libraries with names that are gone: symbols.py

# NVIDIA archived apex's amp; programs that try it guard the import, and current wheels do not exist.
ABSENT = frozenset({"apex"})


def newest_version(library: str) -> str:
    return NEWEST.get(library, "0")


def is_library(top: str) -> bool:
    return top in KNOWN or top in sys.stdlib_module_names


def is_absent(top: str) -> bool:
    return top in ABSENT


@cache
def load(top: str) -> None:
    """Import the models of a library."""
    names: tuple[str, ...] = MODELS.get(top, ())
    if top == "builtins" or top in sys.stdlib_module_names:
        names = PYTHON
    elif top in ENTRY:
        names = (*PYTHON, "entry")
    elif top in CONFIGS:
        names = (*PYTHON, "torch", "torch_cuda", "configs", "deepspeed", "entry")
    elif top in MEDIA:
        names = ("torch", "media")
    elif top == "numpy":
        names = ("arrays",)
    for name in names:
        importlib.import_module(f"t4lint.libraries.{name}")


_canonical: dict[str, str] = {}


def canonical(name: str) -> str:
    """One name for what a library offers under several."""
    found = _canonical.get(name)
    if found is None:
        known = len(ALIASES)
        found = _find_canonical(name)
        if len(ALIASES) != known:
            _canonical.clear()  # a model that was just loaded brought further aliases
        _canonical[name] = found
    return found


def _find_canonical(name: str) -> str:
    load(name.partition(".")[0])
    prefix = name
    while prefix:
        if prefix in ALIASES:
            return canonical(ALIASES[prefix] + name[len(prefix) :])
        prefix = prefix.rpartition(".")[0]
    return name


@cache
def builtin(name: str) -> Abstract | None:
    return Symbol(f"builtins.{name}") if hasattr(builtins, name) else None


# --- symbols -----------------------------------------------------------------------------------------------------


def symbol_attribute(m: Any, owner: str, name: str) -> Abstract:
    full = canonical(f"{owner}.{name}")
    if full in m.globals:
        value: Abstract = m.resolve(m.globals[full])
        return value
    reader = ATTRIBUTES.get(full)
    return reader(m) if reader is not None else Symbol(full)


def call_symbol(m: Any, name: str, arguments: Arguments) -> Abstract:
    name = canonical(name)
    m.hear(name, arguments)
    call = Call(m, name, arguments, None)
    if "$settings" in m.globals and name.partition(".")[0] not in HARMLESS:
        handed_settings(m, name, arguments)
    if name.startswith(SHEDDING):
        symbols.say_gone(call)
    handler = CALLS.get(name)
    short = name.rpartition(".")[2]
    if handler is not None:
        return computed(m, short, arguments, handler(call), method=False)
    prefix = name.rpartition(".")[0]
    while prefix:
        handler = CALLS.get(f"{prefix}.*")
        if handler is not None:
            return computed(m, short, arguments, handler(call), method=False)
        prefix = prefix.rpartition(".")[0]
    own = carried(m, name)
    return m.call(own, arguments) if own is not None else library_default(call)


def computed(m: Any, name: str, arguments: Arguments, result: Abstract, method: bool) -> Abstract:
    """What a library's function or a tensor's method returns: with its graph, and what became of an overflow."""
    if isinstance(result, Tensor) and result.facts.squares:
        from t4lint.libraries import overflows

        result = overflows.passed(m, name, arguments, result, method)
    return ungraphed(m, name, result)


# Libraries of models that programs train; their own repositories carry them, with helpers that no model here describes.
CARRIED = frozenset({"timm", "torchvision", "ultralytics"})


def carried(m: Any, name: str) -> Abstract | None:
    """A function or class without a model, from the project's own copy of the library; None where it has none."""
    from t4lint.interpret import imports

    top = name.partition(".")[0]
    if top not in CARRIED or imports.local_file(m, top) is None:
        return None
    module, _, last = name.rpartition(".")
    file = imports.local_file(m, module) if module else None
    if file is None:
        return None
    found = m.attribute(imports.load(m, file, module), last)
    return found if isinstance(found, (Function, Class)) else None


def handed_settings(m: Any, name: str, arguments: Arguments) -> None:
    """A parsed command line goes as a whole into a library, which may read any of its flags."""
    silent = name.startswith(("builtins.", "logging.", "pprint.", "dataclasses.", "copy."))
    if not silent and any(isinstance(v, Object) and v.kind == "namespace" for v in arguments.values()):
        m.globals["$namespace handed"] = True


def library_default(call: Call) -> Abstract:
    """A library function without a model: a tensor where one goes in, else unknown."""
    for value in call.arguments.values():
        if isinstance(value, Tensor):
            return tensor_of(*[v for v in call.arguments.values() if isinstance(v, Tensor)])
    top = call.name.partition(".")[0]
    if top not in HARMLESS and top not in sys.stdlib_module_names and top != "builtins":
        from t4lint.libraries.torch import hand_over

        hand_over(call.machine, f"what {call.name} does is not known", call.arguments)
    varies = any(isinstance(v, (Unknown, Const)) and v.varies for v in call.arguments.values())
    uid = "" if call.machine.loops else unknown_from(f"call {call.name}", *call.arguments.values()).uid
    reason = f"what {call.name} returns is not known"
    foreign = top not in HARMLESS and top not in sys.stdlib_module_names and top != "builtins"
    if foreign and top not in KNOWN:
        return Returned(call.name, reason, varies, uid, call.machine.autocast_dtype())
    return Unknown(reason, varies=varies, uid=uid, autocast=call.machine.autocast_dtype() if foreign else "")


# Libraries that take models, loaders or optimizers without training with them.
HARMLESS = frozenset({
    "torch", "numpy", "pandas", "tqdm", "wandb", "matplotlib", "tensorboard", "tensorboardX", "torchinfo", "torchsummary",
    "loguru", "rich", "sklearn", "scipy", "PIL", "cv2", "yaml", "json", "evaluate", "datasets", "torchmetrics", "einops",
    "thop", "fvcore", "mlflow", "comet_ml", "safetensors", "huggingface_hub", "tokenizers", "transformers", "peft", "timm",
    "torchvision", "torchaudio", "torch_ema", "bitsandbytes",
})  # fmt: skip


# --- objects -----------------------------------------------------------------------------------------------------


def has_method(receiver: Object, name: str) -> bool:
    return (receiver.kind, name) in METHODS


def call_method(m: Any, receiver: Object, name: str, arguments: Arguments) -> Abstract:
    handler = METHODS.get((receiver.kind, name)) or METHODS.get((receiver.kind, "*"))
    call = Call(m, f"{receiver.name}.{name}", arguments, None, receiver)
    return handler(call) if handler is not None else library_default(call)


def object_attribute(m: Any, receiver: Object, name: str) -> Abstract:
    handler = METHODS.get((receiver.kind, "getattr"))
    if handler is not None and not has_method(receiver, name):
        return handler(Call(m, receiver.name, Arguments((Const(name),)), None, receiver))
    return Bound(receiver, name)


def subscript(m: Any, receiver: Abstract, index: Abstract) -> Abstract:
    if isinstance(receiver, Object):
        handler = METHODS.get((receiver.kind, "getitem"))
        if handler is not None:
            return handler(Call(m, receiver.name, Arguments((index,)), None, receiver))
        return Unknown(f"an item of {receiver.name}")
    if isinstance(receiver, Function):
        from t4lint.libraries import triton

        return triton.launched(receiver) if triton.is_kernel(receiver) else unknown_from("item", receiver, index)
    if isinstance(receiver, Instance):
        found = receiver.cls.find("__getitem__")
        if isinstance(found, Function):
            item: Abstract = m.call(Bound(receiver, found), Arguments((index,)))
            return item
        from t4lint.libraries import classes

        if classes.is_dict(receiver.cls):
            return expressions_item(m, classes.contents(m, receiver), index)
    if isinstance(receiver, Symbol) and receiver.name == "os.environ":
        variable: Abstract = m.method(Symbol("os.environ"), "__getitem__", Arguments((index,)))
        return variable
    if isinstance(receiver, Symbol) and receiver.name.endswith(".__dict__") and isinstance(index, Const):
        return symbol_attribute(m, receiver.name.removesuffix(".__dict__"), str(index.value))
    if isinstance(receiver, Symbol) and receiver.name.partition(".")[0] in ("typing", "builtins", "collections"):
        return receiver
    return unknown_from("item", receiver, index)


def expressions_item(m: Any, value: Abstract, index: Abstract) -> Abstract:
    from t4lint.interpret.expressions import item

    return item(m, value, index)


def iterated(m: Any, receiver: Abstract) -> Any:
    """The elements of a library object or of an instance that defines `__iter__`; None when nothing is known."""
    from t4lint.interpret.expressions import Elements, element_of, iterate

    if isinstance(receiver, Object):
        handler = METHODS.get((receiver.kind, "iter"))
        if handler is None:
            return None
        result = handler(Call(m, receiver.name, Arguments(), None, receiver))
        elements = getattr(result, "elements", None)
        return elements if elements is not None else Elements(None, result, stream=True)
    if isinstance(receiver, Instance):
        from t4lint.libraries import classes

        found = receiver.cls.find("__iter__")
        if found is None and classes.is_dict(receiver.cls):
            return iterate(m, classes.contents(m, receiver))
        if isinstance(found, Function):
            result = m.call(Bound(receiver, found), Arguments())
            if result is receiver:
                return Elements(None, Unknown("an element", varies=True), stream=True)
            elements = iterate(m, result)
            if elements.known is not None and not elements.stream and isinstance(result, ListValue):
                return elements
            return Elements(None, element_of(m, result) if elements.known else elements.any_element, stream=True)
    return None


# objects whose attributes are the items of a dict that they hold
MAPPINGS = frozenset({"config tree", "cfg node"})


def assigned(m: Any, receiver: Abstract, name: str, value: Abstract) -> None:
    """An attribute of a library object or module was set."""
    if isinstance(receiver, Object):
        handler = METHODS.get((receiver.kind, "setattr"))
        if handler is not None:
            handler(Call(m, receiver.name, Arguments((Const(name), value)), None, receiver))
    elif isinstance(receiver, Symbol):
        handler = CALLS.get(f"{canonical(receiver.name + '.' + name)}=")
        if handler is not None:
            handler(Call(m, f"{receiver.name}.{name}", Arguments((value,)), None))


def entered(m: Any, region: Abstract) -> Abstract:
    """A library object is entered as a context manager; the value that `as` binds."""
    if isinstance(region, Object):
        handler = METHODS.get((region.kind, "enter"))
        if handler is not None:
            return handler(Call(m, region.name, Arguments(), None, region))
    return region


def decorator_region(m: Any, decorator: Abstract) -> Abstract | None:
    """The region that a decorated function runs in, for decorators such as `@torch.no_grad()`."""
    decorator = m.resolve(decorator)
    if isinstance(decorator, Symbol) and decorator.name in (
        "torch.no_grad",
        "torch.inference_mode",
        "torch.enable_grad",
    ):
        return call_symbol(m, decorator.name, Arguments())
    if isinstance(decorator, Object) and decorator.kind in ("autocast", "grad mode"):
        return decorator
    return None


def is_command(function: Function) -> bool:
    """Is a function the entry of a command line program (click), which reads its parameters from the command line?"""
    if not function.decorators:
        return False
    from t4lint.libraries import configs, entry

    return entry.is_command(function) or configs.hydra_of(function) is not None


def call_function_method(m: Any, function: Function, name: str, arguments: Arguments) -> Abstract:
    """A method of a decorated function: `@cli.command()`."""
    handler = METHODS.get(("function", name))
    if handler is None:
        return Unknown(f"{name} of {function.name}")
    return handler(Call(m, f"function.{name}", arguments, None, function))


def enter_command(m: Any, function: Function) -> Abstract:
    from t4lint.libraries import configs, entry

    decorator = configs.hydra_of(function)
    return configs.enter_hydra(m, function, decorator) if decorator is not None else entry.enter_command(m, function)


# --- instances of project classes that derive from library classes ------------------------------------------------


def provided(m: Any, function: Function, name: str) -> Abstract | None:
    """What a decorator fills in for an argument that the caller does not give."""
    from t4lint.libraries import sacred

    return sacred.provided(m, function, name)


def handed(function: Function) -> tuple[Abstract, ...]:
    """What a tool hands to a function of the project that nothing in it calls."""
    for decorator in function.decorators:
        name = decorator.name if isinstance(decorator, (Symbol, Object)) else ""
        if name == "nox.session":
            return (Object("nox session", "nox.Session"),)
    return ()


def instantiate_subclass(m: Any, cls: Class, arguments: Arguments) -> Abstract | None:
    """Build an object of a project class whose library base decides what it is, e.g. a subclass of TrainingArguments."""
    for base in cls.library_bases():
        load(base.partition(".")[0])
        handler = CALLS.get(f"{canonical(base)}(subclass)")
        if handler is not None:
            call = Call(m, canonical(base), arguments, None, cls)
            return handler(call)
    return None


def instance_kind(instance: Instance) -> str | None:
    """The kind of library object that an instance of a project class stands for."""
    from t4lint.interpret.calls import is_network

    return "module" if is_network(instance.cls) else None


# Library classes whose subclasses in projects stay what they are; see `part_of`.
EXTENDED = frozenset({
    "transformers.HfArgumentParser", "trl.TrlParser", "argparse.ArgumentParser", "lightning.cli.LightningCLI", "ultralytics.YOLO",
})  # fmt: skip


def extended(cls: Class) -> str:
    """The library class that an object of a project class also is; empty where there is none."""
    for base in cls.library_bases():
        load(base.partition(".")[0])
        if canonical(base) in EXTENDED:
            return canonical(base)
    return ""


def part_of(instance: Instance) -> Object | None:
    """The library object inside an object whose class extends a library's: it has the methods that the project does not."""
    part = instance.attributes.get("$part")
    return part if isinstance(part, Object) else None


def instance_attribute(m: Any, instance: Instance, name: str) -> Abstract | None:
    part = part_of(instance)
    if part is not None:
        found: Abstract = m.attribute(part, name)
        return found
    kind = instance_kind(instance)
    if kind is not None and (kind, name) in METHODS:
        return Bound(instance, name)
    if kind is not None and (kind, "getattr") in METHODS:
        return METHODS[kind, "getattr"](Call(m, "torch.nn.Module", Arguments((Const(name),)), None, instance))
    return None


def call_instance_method(m: Any, instance: Instance, name: str, arguments: Arguments) -> Abstract | None:
    from t4lint.libraries import classes

    if classes.is_dict(instance.cls):
        if name == "__init__":
            classes.fill_dict(m, instance, arguments)
            return NONE
        return call_builtin_method(m, classes.contents(m, instance), name, arguments)
    part = part_of(instance)
    if name == "__init__" and (base := extended(instance.cls)):
        m.write(instance.attributes, "$part", call_symbol(m, base, arguments))
        return NONE
    if part is not None:
        return call_method(m, part, name, arguments)
    kind = instance_kind(instance)
    handler = METHODS.get((kind, name)) if kind is not None else None
    if handler is not None:
        return handler(Call(m, f"torch.nn.Module.{name}", arguments, None, instance))
    return None


def class_attribute(m: Any, cls: Class, name: str) -> Abstract | None:
    """What a project class inherits from a library class, e.g. `from_pretrained`."""
    for base in cls.library_bases():
        if base.partition(".")[0] in MODELS and base != "torch.nn.Module":
            return symbol_attribute(m, canonical(base), name)
    return None


# --- tensors, builtins, unknowns -----------------------------------------------------------------------------------


def tensor_attribute(m: Any, tensor: Tensor, name: str) -> Abstract:
    load("torch")
    handler = METHODS.get(("tensor", "getattr"))
    return handler(Call(m, "torch.Tensor", Arguments((Const(name),)), None, tensor)) if handler else tensor


def call_tensor_method(m: Any, tensor: Tensor, name: str, arguments: Arguments) -> Abstract:
    load("torch")
    handler = METHODS.get(("tensor", name))
    if handler is not None:
        result = handler(Call(m, f"torch.Tensor.{name}", arguments, None, tensor))
        return computed(m, name, arguments, result, method=True)
    from t4lint.libraries.torch_operations import after

    others = [value for value in arguments.values() if isinstance(value, Tensor)]
    return computed(m, name, arguments, after(m, name, tensor, tensor_of(tensor, *others)), method=True)


def arithmetic(m: Any, name: str, left: Abstract, right: Abstract, result: Tensor) -> Abstract:
    from t4lint.libraries import torch_operations

    return torch_operations.arithmetic(m, name, left, right, result)


def call_builtin_method(m: Any, receiver: Abstract, name: str, arguments: Arguments) -> Abstract:
    load("builtins")
    kind = "list" if isinstance(receiver, ListValue) else "dict" if isinstance(receiver, DictValue) else "constant"
    handler = METHODS.get((kind, name)) or METHODS.get((kind, "*"))
    call = Call(m, f"{kind}.{name}", arguments, None, receiver)
    return handler(call) if handler is not None else unknown_from(name, receiver, *arguments.values())


def call_unknown_method(m: Any, receiver: Unknown, name: str, arguments: Arguments) -> Abstract:
    """A method of something unknown: in a training program `.backward()` means one thing."""
    load("torch")
    handler = METHODS.get(("unknown", name))
    if handler is not None:
        return handler(Call(m, name, arguments, None, receiver))
    from t4lint.interpret.calls import unresolved

    return unresolved(m, m.attribute(receiver, name), arguments)


def at_least(version: str | None, wanted: str, library: str) -> bool:
    return release(version or newest_version(library)) >= release(wanted)
