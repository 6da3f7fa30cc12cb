"""torch.utils.data: loaders, and what iterating over them gives."""

from __future__ import annotations

from t4lint.interpret.expressions import Elements
from t4lint.interpret.values import Abstract, Const, Instance, Object, Symbol, Tensor, TensorFacts, Unknown
from t4lint.libraries.api import Call, calls, methods
from t4lint.libraries.python import with_elements
from t4lint.trace import Loader


@calls(
    "torch.utils.data.DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
    "torch_geometric.loader.DataLoader",
)
def data_loader(call: Call) -> Abstract:
    """Defaults as in torch 1.13 to 2.15: batch 1, no workers, nothing pinned."""
    m = call.machine
    sampler = call.arguments.get("sampler", 3)
    loader = Object(
        "loader",
        call.name,
        {"dataset": call.argument("dataset", 0), "batch_size": call.argument("batch_size", 1, Const(1))},
    )
    m.emit(
        Loader,
        subject=loader.uid,
        batch_size=loader.attributes["batch_size"],
        workers=call.argument("num_workers", 5, Const(0)),
        pin_memory=call.argument("pin_memory", 7, Const(False)),
        persistent_workers=call.argument("persistent_workers", None, Const(False)),
        prefetch_factor=call.argument("prefetch_factor", None, Const(None)),
        shuffle=call.argument("shuffle", 2, Const(False)),
        sampler=sampler_name(m.resolve(sampler)) if sampler is not None else Const("none"),
        drop_last=call.argument("drop_last", 8, Const(False)),
    )
    return loader


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
    "torch.utils.data.DistributedSampler",
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


@calls("torch.utils.data.*", "torchvision.datasets.*", "torchvision.transforms.*", "datasets.*")
def dataset(call: Call) -> Abstract:
    return Object("dataset", call.name)


@methods("dataset", "*")
def dataset_method(call: Call) -> Abstract:
    return Object("dataset", call.name)


@methods("dataset", "getitem")
def dataset_item(call: Call) -> Abstract:
    return Object("dataset", "a part of a dataset")


@methods("dataset", "getattr")
def dataset_attribute(call: Call) -> Abstract:
    return Unknown(f"{call.arguments.positional[0].value} of a dataset")  # type: ignore[attr-defined]


@methods("loader", "iter")
def batches(call: Call) -> Abstract:
    batch = Tensor(TensorFacts(device="cpu"))
    return with_elements(Elements(None, batch, stream=True))


@methods("loader", "getattr")
def loader_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name in ("sampler", "batch_sampler"):
        return Object("sampler", "torch.utils.data.Sampler")
    return Unknown(f"{name} of a loader")


@methods("loader", "*")
def loader_method(call: Call) -> Abstract:
    return Unknown("a value of a loader", varies=True)


__all__ = ["Symbol"]
