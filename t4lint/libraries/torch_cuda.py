"""What `torch.cuda` and its kin answer on the target.

The truth table of capability predicates is in `devices.Target.bf16_supported`; its source is the table of predicates
that were read in torch 1.13 to 2.15, transformers 4.30 to 5.24, accelerate 1.15 and unsloth 2026.10.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import Abstract, Const, ListValue, Object, Unknown
from t4lint.libraries.api import Call, aliases, attribute, calls, methods
from t4lint.trace import Predicate

aliases({"torch.cuda.random": "torch.random", "torch.accelerator.is_available": "torch.cuda.is_available"})


def answer(call: Call, value: Any, note: str) -> Const:
    return Const(value, (call.machine.here("target", note),))


def asked(call: Call, result: Abstract) -> Abstract:
    """Say that the program asks this question, and give the answer."""
    call.machine.emit(Predicate, call.name, function=call.name, result=result)
    return result


def _shown(m: Any) -> int | None:
    """How many GPUs a list in CUDA_VISIBLE_DEVICES names; None without one."""
    value = m.resolve(m.environment.get("CUDA_VISIBLE_DEVICES") or Const(None))
    parts = [part.strip() for part in str(value.value).split(",")] if isinstance(value, Const) and value.value else []
    return len(parts) if parts and all(part.isdecimal() for part in parts) else None


@calls("torch.cuda.is_available")
def is_available(call: Call) -> Abstract:
    there = call.machine.target.gpu is not None
    return asked(call, answer(call, there, f"{call.name}() is {there} on {call.machine.target.name}"))


@calls("torch.cuda.device_count", "torch.accelerator.device_count")
def device_count(call: Call) -> Abstract:
    target = call.machine.target
    if target.gpu is None:
        return asked(call, answer(call, 0, "no GPU on this target"))
    shown = _shown(call.machine)
    if shown is not None and (target.gpus is None or shown <= target.gpus):
        return asked(call, answer(call, shown, f"CUDA_VISIBLE_DEVICES shows {shown}"))
    if target.gpus is None:
        return asked(call, Unknown("how many GPUs the target shows", uid="device count"))
    launch = call.machine.launch
    started = launch.processes_per_node.it if launch is not None else None
    if isinstance(started, int) and started > target.gpus:
        return asked(call, Unknown(f"the launch starts {started} processes on a node", uid="device count"))
    return asked(call, answer(call, target.gpus, f"{target.gpus} GPU on {target.name}"))


@calls("torch.cuda.get_device_capability")
def capability(call: Call) -> Abstract:
    gpu = call.machine.target.gpu
    if gpu is None:
        return asked(call, Unknown("the capability of a GPU that is not there"))
    major, minor = gpu.capability
    note = f"compute capability {major}.{minor} on {gpu.name}"
    return asked(call, ListValue((answer(call, major, note), answer(call, minor, note)), "tuple"))


@calls("torch.cuda.get_device_properties")
def properties(call: Call) -> Abstract:
    gpu = call.machine.target.gpu
    if gpu is None:
        return Unknown("the properties of a GPU that is not there")
    call.machine.emit(Predicate, call.name, function=call.name, result=Unknown("several properties"))
    return Object(
        "device properties",
        "torch.cuda._CudaDeviceProperties",
        {
            "major": answer(call, gpu.capability[0], f"major of {gpu.name}"),
            "minor": answer(call, gpu.capability[1], f"minor of {gpu.name}"),
            "total_memory": answer(call, gpu.total_memory, f"total_memory of {gpu.name}"),
            "multi_processor_count": answer(call, gpu.sm_count, f"multi_processor_count of {gpu.name}"),
            "name": answer(call, gpu.device_name, f"name of {gpu.name}"),
        },
    )


@calls("torch.cuda.get_device_name")
def device_name(call: Call) -> Abstract:
    gpu = call.machine.target.gpu
    if gpu is None:
        return asked(call, Unknown("the name of a GPU that is not there"))
    return asked(call, answer(call, gpu.device_name, f"the name of a {gpu.name}"))


@calls("torch.cuda.mem_get_info")
def memory_info(call: Call) -> Abstract:
    gpu = call.machine.target.gpu
    if gpu is None:
        return Unknown("the memory of a GPU that is not there")
    return ListValue((Unknown("free memory"), answer(call, gpu.total_memory, f"of {gpu.name}")), "tuple")


# predicates that count emulation, and since which version of their library they call torch's
EMULATING = {
    "torch.cuda.is_bf16_supported": ("torch", "0"),
    "transformers.utils.is_torch_bf16_gpu_available": ("transformers", "4.35"),
    "transformers.utils.is_torch_bf16_available": ("transformers", "4.35"),
    "transformers.utils.is_torch_bf16_available_on_device": ("transformers", "4.35"),
    "accelerate.utils.is_bf16_available": ("accelerate", "0"),
}


@calls(*EMULATING, "deepspeed.get_accelerator.is_bf16_supported")
def bf16_predicate(call: Call) -> Abstract:
    m = call.machine
    supported = bf16_answer(call)
    if supported is None:
        # torch 2.13 answers False without a GPU
        return asked(call, answer(call, False, f"{call.name}() is False on {m.target.name}"))
    note = f"{call.name}() is {supported} on {m.target.name}"
    if supported and m.target.gpu.capability < (8, 0):
        note = f"{call.name}() is {supported} on {m.target.name}: it counts emulation"
    return asked(call, answer(call, supported, note))


def bf16_answer(call: Call) -> bool | None:
    m = call.machine
    if m.target.gpu is None:
        return None
    emulation = call.constant("including_emulation", 0, True) if call.name == "torch.cuda.is_bf16_supported" else True
    library, since = EMULATING.get(call.name, ("torch", "0"))
    if "unsloth" in m.imported or not m.at_least(library, since):
        emulation = False  # unsloth replaces the predicate by one that asks for hardware support
    return bool(m.target.bf16_supported(m.version("torch"), including_emulation=bool(emulation)))


@calls("unsloth.is_bfloat16_supported", "unsloth.is_bf16_supported", "transformer_engine.pytorch.is_bf16_available")
def bf16_in_hardware(call: Call) -> Abstract:
    return at_least_ampere(call)


@calls("torch.cuda.is_tf32_supported", "transformers.utils.is_torch_tf32_available")
def at_least_ampere(call: Call) -> Abstract:
    gpu = call.machine.target.gpu
    value = gpu is not None and gpu.capability >= (8, 0)
    return asked(call, answer(call, value, f"{call.name}() is {value} on {call.machine.target.name}"))


# Questions for a package, and the module that they look for where its name is another (transformers 5.24, accelerate 1.15,
# diffusers). They ask for the package, not for the GPU, so they do not protect a T4.
PACKAGES = {
    "flash_attn_2": "flash_attn", "bitsandbytes": "bitsandbytes", "bnb": "bitsandbytes", "flash_attn": "flash_attn",
    "transformer_engine": "transformer_engine", "liger_kernel": "liger_kernel", "torch": "torch", "sklearn": "sklearn",
}  # fmt: skip
# accelerators other than CUDA, which no T4 machine has
ELSEWHERE = frozenset({
    "torch_xpu", "torch_npu", "torch_mps", "torch_hpu", "torch_mlu", "torch_musa", "torch_sdaa", "torch_neuroncore",
    "torch_xla", "torch_tpu", "xpu", "npu", "mps", "hpu", "mlu", "musa", "sdaa", "ipex", "habana_gaudi1", "hip",
})  # fmt: skip


@calls("transformers.utils.*", "transformers.is_*", "diffusers.utils.*", "peft.import_utils.*")
def package_question(call: Call) -> Abstract:
    from t4lint.interpret.imports import is_installed
    from t4lint.libraries.registry import library_default

    name = call.name.rpartition(".")[2]
    if not (name.startswith("is_") and name.endswith("_available")):
        return library_default(call)
    what = name.removeprefix("is_").removesuffix("_available")
    if what in ELSEWHERE:
        return answer(call, False, f"{name}() is False on {call.machine.target.name}")
    if what in ("torch_cuda", "cuda"):
        return is_available(call)
    module = PACKAGES.get(what, what)
    there = is_installed(call.machine, module)
    if there is None:
        return Unknown(f"whether {module} is installed", uid=f"{module} is installed")
    return Const(there, (call.machine.here("version", f"{module} is installed"),))


@calls(
    "torch.xpu.is_available", "torch.npu.is_available", "torch.mps.is_available", "torch.backends.mps.is_available",
    "torch.backends.mps.is_built", "torch.mlu.is_available", "torch.hpu.is_available", "torch.musa.is_available",
    "torch.mtia.is_available",
)  # fmt: skip
def other_accelerators(call: Call) -> Abstract:
    return answer(call, False, f"{call.name}() is False on {call.machine.target.name}")


# Names of torch that programs look for, and the release that brought them (release notes and documentation of torch).
SINCE = {
    "torch.compile": "2.0", "torch._dynamo": "2.0", "torch.set_float32_matmul_precision": "1.12", "torch.inference_mode": "1.9",
    "torch.nn.functional.scaled_dot_product_attention": "2.0", "torch.cuda.is_bf16_supported": "1.10", "torch.bfloat16": "1.0",
    "torch.cuda.amp": "1.6", "torch.amp": "1.10", "torch.amp.GradScaler": "2.3", "torch.amp.autocast": "1.10",
    "torch.autocast": "1.10", "torch.nn.RMSNorm": "2.4", "torch.accelerator": "2.6", "torch.float8_e4m3fn": "2.1",
    "torch.cuda.amp.autocast": "1.6", "torch.cuda.amp.GradScaler": "1.6", "torch.channels_last": "1.5", "torch.cuda": "0.1",
    "torch.backends.cuda": "1.3", "torch.backends.mps": "1.12", "torch.nn.attention": "2.3", "torch.func": "2.0",
    "torch.distributed.fsdp": "1.11", "torch.cuda.memory": "1.4", "torch.backends.cudnn": "0.1", "torch.version": "0.1",
    "torch.nn.attention.flex_attention": "2.5", "torch.set_default_device": "2.0", "torch.cuda.is_tf32_supported": "2.7",
}  # fmt: skip


@methods("device properties", "*")
def no_method(call: Call) -> Abstract:
    return Unknown("a device property")


@attribute("torch.__version__")
def torch_version(m: Any) -> Abstract:
    from t4lint.libraries.registry import newest_version

    return Const(m.version("torch") or newest_version("torch"), (m.here("version", "the version of torch"),))


@attribute("transformers.__version__")
def transformers_version(m: Any) -> Abstract:
    from t4lint.libraries.registry import newest_version

    return Const(m.version("transformers") or newest_version("transformers"))


@attribute("torch.version.cuda")
def cuda_version(m: Any) -> Abstract:
    return Unknown("the CUDA version of torch", uid="torch.version.cuda")


@attribute("torch.version.hip")
def hip_version(m: Any) -> Abstract:
    return Const(None)


@calls("torch.device")
def device(call: Call) -> Abstract:
    value = call.machine.resolve(call.arguments.get("type", 0) or Unknown("a device"))
    index = call.arguments.get("index", 1)
    if index is not None and isinstance(value, Const):
        value = Const(value.value, (*value.origins, *call.machine.resolve(index).origins))
    return call.machine.mapped(value, as_device)  # type: ignore[no-any-return]


def as_device(value: Abstract) -> Abstract:
    if isinstance(value, Object) and value.kind == "device":
        return value
    if isinstance(value, Const) and isinstance(value.value, str):
        return Object(
            "device", "torch.device", {"type": Const(value.value.partition(":")[0], value.origins)}, value.origins
        )
    if isinstance(value, Const) and isinstance(value.value, int):
        return Object("device", "torch.device", {"type": Const("cuda", value.origins)}, value.origins)
    return Object("device", "torch.device", {"type": value}, value.origins)


def device_type(m: Any, value: Abstract) -> str:
    """`"cuda"`, `"cpu"`, ... of anything that names a device; an empty string when it is not known."""
    value = m.resolve(value)
    if isinstance(value, Object) and value.kind == "device":
        value = m.resolve(value.attributes["type"])
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value.partition(":")[0]
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return "cuda"
    return ""


@calls("torch.cuda.current_device")
def current_device(call: Call) -> Abstract:
    return Const(0)


@calls(
    "torch.cuda.manual_seed_all",
    "torch.cuda.manual_seed",
)
def nothing(call: Call) -> Abstract:
    return Const(None)
