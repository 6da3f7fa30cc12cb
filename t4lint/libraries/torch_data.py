"""torch.utils.data: loaders, and what iterating over them gives."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from t4lint.interpret import ranks
from t4lint.interpret.expressions import Elements
from t4lint.interpret.source import statements_of
from t4lint.interpret.values import (
    Abstract,
    Bound,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Tensor,
    TensorFacts,
    Unknown,
)
from t4lint.libraries import media
from t4lint.libraries.api import Arguments, Call, calls, methods
from t4lint.libraries.python import with_elements
from t4lint.libraries.torch import tensors_in, with_facts
from t4lint.trace import Call as CallEvent
from t4lint.trace import DataRead, Loader


@calls(
    "torch.utils.data.DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
    "torch_geometric.loader.DataLoader",
)
def data_loader(call: Call) -> Abstract:
    """Defaults as in torch 1.13 to 2.15: batch 1, no workers, nothing pinned."""
    m = call.machine
    sampler = call.arguments.get("sampler", 3)
    collate = call.arguments.get("collate_fn", 6)
    loader = Object(
        "loader",
        call.name,
        {"dataset": call.argument("dataset", 0), "batch_size": call.argument("batch_size", 1, Const(1))},
    )
    if collate is not None:
        loader.attributes["$collate"] = m.resolve(collate)
    named = sampler_name(m.resolve(sampler)) if sampler is not None else Const("none")
    loader.attributes["$pins"] = call.argument("pin_memory", 7, Const(False))
    m.emit(
        Loader,
        subject=loader.uid,
        batch_size=loader.attributes["batch_size"],
        workers=call.argument("num_workers", 5, Const(0)),
        pin_memory=loader.attributes["$pins"],
        persistent_workers=call.argument("persistent_workers", None, Const(False)),
        prefetch_factor=prefetch(call),
        shuffle=shuffled(call, named),
        sampler=named,
        drop_last=call.argument("drop_last", 8, Const(False)),
        repeats=repeated(m, call),
    )
    return loader


def prefetch(call: Call) -> Abstract:
    """2 where nothing is said and there are workers (torch 2.0 to 2.15)."""
    asked = call.argument("prefetch_factor", None, Const(None))
    if not (isinstance(asked, Const) and asked.value is None):
        return asked

    def default(workers: Abstract) -> Abstract:
        if isinstance(workers, Const) and isinstance(workers.value, int):
            return Const(2 if workers.value > 0 else None, asked.origins)
        return Unknown("it follows the number of workers")

    return call.machine.mapped(call.argument("num_workers", 5, Const(0)), default)  # type: ignore[no-any-return]


# Words of a dataset that takes care of its workers, or whose samples are drawn at random.
CAREFUL = ("worker", "rank", "shard", "rand", "shuffle", "world_size")


def repeated(m: Any, call: Call) -> Abstract:
    """Does each worker read the whole of an iterable dataset of the project? Known only for one over plain things: a range,
    an open file, a list of its own. What it takes from another dataset may be split there."""
    dataset = m.resolve(call.arguments.get("dataset", 0) or Unknown("the dataset"))
    if not isinstance(dataset, Instance) or not any("IterableDataset" in base for base in dataset.cls.library_bases()):
        return Unknown("whether the dataset is iterable")
    if call.given("worker_init_fn", 9) or call.arguments.open:
        return Unknown("what each worker does at its start")
    text = "".join(cls.source.code(cls.node) for cls in dataset.cls.lineage() if isinstance(cls, Class))
    if any(word in text.lower() for word in CAREFUL):
        return Unknown("whether the dataset splits itself by worker")
    iterate = dataset.cls.find("__iter__")
    body = iterate.node.body if isinstance(iterate, Function) else None
    inside = list(statements_of(body)) if isinstance(body, list) else []
    loops, files = [node for node in inside if isinstance(node, ast.For)], opened_in(inside)
    if not loops or not all(plain_iterable(m, dataset, loop.iter, files) for loop in loops):
        return Unknown("what the dataset iterates over")
    return Const(True)


def opened_in(statements: Iterable[ast.stmt]) -> set[str]:
    """The names of files that statements open: `with open(...) as file`."""
    items = [item for node in statements if isinstance(node, ast.With) for item in node.items]
    return {
        item.optional_vars.id
        for item in items
        if called(item.context_expr) == "open" and isinstance(item.optional_vars, ast.Name)
    }


def called(node: ast.expr) -> str:
    """The plain name that a call calls."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def plain_iterable(m: Any, dataset: Instance, node: ast.expr, files: set[str]) -> bool:
    """A range, an open file, or a list that the dataset holds: nothing that could split itself by worker."""
    if isinstance(node, ast.Name):
        return node.id in files
    if isinstance(node, ast.Call) and called(node) == "enumerate" and node.args:
        return plain_iterable(m, dataset, node.args[0], files)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        held = dataset.attributes.get(node.attr)
        return isinstance(m.resolve(held) if held is not None else None, ListValue)
    return called(node) in ("range", "open")


def shuffled(call: Call, sampler: Abstract) -> Abstract:
    """Do batches come in random order: as it is asked for, or as the sampler in its place makes them."""
    asked = call.argument("shuffle", 2, Const(False))
    if isinstance(asked, Const) and asked.value is None:  # the default since torch 2.0, which is no
        asked = Const(False, asked.origins)
    if not isinstance(sampler, Const) or sampler.value == "none":
        return asked if isinstance(sampler, Const) else Unknown("the sampler decides the order")
    order = {"RandomSampler": True, "SequentialSampler": False}.get(str(sampler.value))
    return Unknown("the sampler decides the order") if order is None else Const(order, sampler.origins)


def sampler_name(value: Abstract) -> Abstract:
    if isinstance(value, Object):
        return Const(value.name.rpartition(".")[2], value.origins)
    if isinstance(value, Instance):
        return Const(value.cls.name)
    if isinstance(value, Const) and value.value is None:
        return Const("none", value.origins)
    return Unknown("which sampler is used")


@calls(
    "torch.utils.data.distributed.*",
    "torch.utils.data.sampler.*",
    "torch.utils.data.RandomSampler",
    "torch.utils.data.SequentialSampler",
    "torch.utils.data.WeightedRandomSampler",
    "torch.utils.data.BatchSampler",
)
def sampler(call: Call) -> Abstract:
    return Object("sampler", call.name, {"shuffle": call.argument("shuffle", 3, Const(True))})


@methods("sampler", "*")
def sampler_method(call: Call) -> Abstract:
    return Const(None)


# datasets of torchvision that read one file for each sample
FOLDERS = frozenset(f"torchvision.datasets.{name}" for name in (
    "ImageFolder", "DatasetFolder", "CocoDetection", "CocoCaptions", "VOCDetection", "VOCSegmentation", "ImageNet",
    "Cityscapes", "CelebA", "OxfordIIITPet", "Food101", "Flowers102", "Places365",
))  # fmt: skip


@calls("torch.utils.data.*", "torchvision.datasets.*", "datasets.*")
def dataset(call: Call) -> Abstract:
    if call.name in FOLDERS:
        call.machine.emit(DataRead, "folder", root=call.argument("root", 0))
    if call.name.endswith("load_dataset"):
        long_work(call.machine, "a dataset is loaded")
    parts = call.arguments.positional if call.name.endswith("TensorDataset") else ()
    result = Object("dataset", call.name, {"$tensors": ListValue(parts)})
    if call.name.startswith("torchvision.datasets."):
        second = 1 if call.name.endswith(".ImageFolder") else None
        transform = call.machine.resolve(call.arguments.get("transform", second) or Const(None))
        augments = any(name in media.AUGMENTATIONS for name in media.names_of(transform))
        kinds = (("decode", call.name in FOLDERS), ("augment", augments))
        result.attributes["$work"] = frozenset(kind for kind, does in kinds if does)
    if call.name.endswith(("Subset", "ConcatDataset", "random_split")) and call.arguments.positional:
        whole = call.machine.resolve(call.arguments.positional[0])
        if isinstance(whole, Object) and "$work" in whole.attributes:
            result.attributes["$work"] = whole.attributes["$work"]
    return result


@calls("huggingface_hub.snapshot_download")
def download(call: Call) -> Abstract:
    long_work(call.machine, "a repository is downloaded")
    return Unknown("where the download is")


def long_work(m: Any, what: str) -> None:
    """Work that may take minutes, where only some of the processes do it."""
    if ranks.guard_of(m) is not None:
        m.emit(CallEvent, "long work", function=what, arguments={"ranks": ranks.who_runs(m, what)})


@methods("dataset", "*")
def dataset_method(call: Call) -> Abstract:
    if call.name.endswith((".map", ".filter")) and call.receiver.name.startswith("datasets."):
        long_work(call.machine, "a dataset is prepared")
    if call.name.endswith(".map") and call.receiver.name.startswith("datasets."):
        media.say_map(call)
    result = Object("dataset", call.receiver.name if call.receiver.name.startswith("datasets.") else call.name)
    if call.name.endswith((".with_transform", ".set_transform")):  # it runs whenever samples are read
        for changed in (result, call.receiver) if call.name.endswith(".set_transform") else (result,):
            call.machine.write(changed.attributes, "$transform", call.machine.resolve(call.argument("transform", 0)))
    elif not call.name.endswith((".map", ".with_format", ".set_format")) and "$transform" in call.receiver.attributes:
        result.attributes["$transform"] = call.receiver.attributes["$transform"]
    return result


@methods("dataset", "getitem")
def dataset_item(call: Call) -> Abstract:
    """A split of a dataset, or a sample of it."""
    for kind in call.receiver.attributes.get("$work", ()):
        media.note(call.machine, kind)
    whole = call.receiver.name
    part = Object("dataset", whole if whole.startswith("datasets.") else "a part of a dataset")
    if "$transform" in call.receiver.attributes:
        part.attributes["$transform"] = call.receiver.attributes["$transform"]
    return part


@methods("dataset", "getattr")
def dataset_attribute(call: Call) -> Abstract:
    return Unknown(f"{call.arguments.positional[0].value} of a dataset")  # type: ignore[attr-defined]


@methods("loader", "iter")
def batches(call: Call) -> Abstract:
    return with_elements(Elements(None, batch_of(call.machine, call.receiver), stream=True))


def batch_of(m: Any, loader: Object) -> Abstract:
    """A batch, with the structure and device that the dataset and the collate function give it."""
    known = loader.attributes.get("$batch")
    if isinstance(known, Abstract):
        return known
    pins = m.truth(loader.attributes.get("$pins") or Unknown("whether the loader pins"))
    m.globals["$work"], m.globals[media.CUTS] = set(), []
    facts = TensorFacts(device="cpu", loader=loader.uid, pinned={True: "loader", False: "no"}.get(pins, ""))
    sample = quietly(m, lambda: sample_of(m, loader.attributes.get("dataset")))
    collate = loader.attributes.get("$collate")
    if isinstance(collate, (Function, Bound, Partial)):
        sample = quietly(m, lambda: collated(m, collate, sample))
    work = media.noted_work(m, m.globals.pop("$work", set()))
    media.say_cuts(m, m.globals.pop(media.CUTS, []))
    m.globals.setdefault("$sample work", {})[loader.uid] = work
    tensors = tensors_in(sample)
    if any(tensor.facts.device == "cuda" for tensor in tensors):
        m.globals.setdefault("$fed", {})[loader.uid] = {"none"}  # made on the GPU: nothing is copied
        facts = facts.but(device="cuda")
    structured = isinstance(sample, (ListValue, DictValue)) and tensors
    batch = with_facts(sample, facts) if structured else Tensor(facts)
    m.write(loader.attributes, "$batch", batch)
    return batch


def collated(m: Any, collate: Abstract, sample: Abstract) -> Abstract:
    """The batch that the project's own collate function makes of samples."""
    batch = Arguments((ListValue((sample,), complete=False),))
    if isinstance(collate, Instance) and isinstance(collate.cls.find("__call__"), Function):
        return m.method(collate, "__call__", batch)  # type: ignore[no-any-return]
    if isinstance(collate, (Function, Bound, Partial)):
        return m.call(collate, batch)  # type: ignore[no-any-return]
    return Unknown("a batch", varies=True)


def sample_of(m: Any, dataset: Abstract | None) -> Abstract:
    dataset = m.resolve(dataset) if dataset is not None else Unknown("the dataset")
    if isinstance(dataset, Instance) and isinstance(dataset.cls.find("__getitem__"), Function):
        return m.method(dataset, "__getitem__", Arguments((Unknown("an index", varies=True),)))  # type: ignore[no-any-return]
    if isinstance(dataset, Object) and dataset.kind == "dataset":
        for kind in dataset.attributes.get("$work", ()):
            media.note(m, kind)
        transform = dataset.attributes.get("$transform")
        if isinstance(transform, (Function, Bound, Partial)):
            return m.call(transform, Arguments((Unknown("rows", varies=True),)))  # type: ignore[no-any-return]
        parts = dataset.attributes.get("$tensors")
        if isinstance(parts, ListValue) and parts.items:
            return ListValue(
                tuple(part if isinstance(part, Tensor) else Unknown("a part", varies=True) for part in parts.items),
                "tuple",
            )
    if isinstance(dataset, Tensor):
        return dataset
    return Unknown("a sample", varies=True)


def quietly(m: Any, run: Callable[[], Abstract]) -> Abstract:
    """Look into code that runs in the loader's workers: what it says there is no part of the training loop."""
    drafts, gaps, entries, grad = len(m.drafts), len(m.gaps), dict(m.entries), m.grad
    cuda, seen = m.globals.get("$cuda"), (set(m.backward_in), set(m.stepped_in), set(m.surely_stepped_in))
    result, _ = m.captured(run)
    del m.drafts[drafts:], m.gaps[gaps:]
    m.entries, m.grad = entries, grad
    m.backward_in, m.stepped_in, m.surely_stepped_in = seen
    m.globals["$cuda"] = cuda
    return result  # type: ignore[no-any-return]


@methods("loader", "getattr")
def loader_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name in ("sampler", "batch_sampler"):
        return Object("sampler", "torch.utils.data.Sampler")
    return Unknown(f"{name} of a loader")


@methods("loader", "*")
def loader_method(call: Call) -> Abstract:
    return Unknown("a value of a loader", varies=True)
