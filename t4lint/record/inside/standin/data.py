"""Data sets that are not here: of `datasets` by their columns, of torchvision by their shapes, and metrics of `evaluate`."""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH103, PTH112, PTH118, PTH119, PTH123

from __future__ import annotations

import os
import random
import re
import tempfile
from collections.abc import Callable
from typing import Any

from . import asked, columns, rows

NO_COLUMNS = (
    "its columns are not known: put it into the cache once (run the program with the network), or name them: "
    "--columns '{name}=text:text,label:label 2' (types: text, words N, int, float, label N, image, audio, list TYPE, turns, "
    "translation A B, answers)"
)
NOT_ASKED = "the data set is not on this machine: run with --synthetic, which makes up a small one, or put it into the cache once"
FOLDER_CLASSES = 10
FOLDER_IMAGES = 16  # in each class


# --- datasets ----------------------------------------------------------------------------------------------------


def loading(module: Any) -> None:
    """`datasets.load`: before the package takes `load_dataset` from it."""
    original = module.load_dataset

    def load_dataset(path: Any, name: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(path, name, *args, **kwargs)
        except Exception as error:
            if not _is_missing(error):
                raise
            if not asked.data():
                asked.lacking("data set", _called(path, kwargs), NOT_ASKED)
                raise
            found = _columns(path, name, kwargs)
            if found is None:
                asked.lacking("data set", _called(path, kwargs), NO_COLUMNS.format(name=_called(path, kwargs)))
                raise
            splits, types = found
            asked.told("data set", _called(path, kwargs), f"{rows.count(types)} made-up rows of {', '.join(types)}")
            return _as_asked(splits, types, kwargs)

    load_dataset.__doc__ = original.__doc__
    module.load_dataset = load_dataset


def _is_missing(error: Exception) -> bool:
    """The data are not here, or what reads them is not: not a mistake in how it was asked for."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(
        names & {"FileNotFoundError", "ConnectionError", "OfflineModeIsEnabled", "DatasetNotFoundError", "HTTPError"}
    ) or ("couldn't" in str(error).lower() or "offline" in str(error).lower() or "no longer supported" in str(error))


def _called(path: Any, kwargs: dict[str, Any]) -> str:
    """How the data set is named: files by their own name."""
    files = kwargs.get("data_files")
    while isinstance(files, (dict, list, tuple)) and files:
        files = next(iter(files.values())) if isinstance(files, dict) else files[0]
    return os.path.basename(files) if isinstance(files, str) else str(path)


def _columns(path: Any, name: Any, kwargs: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, str]] | None:
    called = _called(path, kwargs)
    given = asked.columns()
    said = given.get(called) or given.get(str(path)) or given.get("*")
    if said is not None:
        files = kwargs.get("data_files")
        splits = tuple(files) if isinstance(files, dict) else columns.ALL if files is None else ("train",)
        return splits, said
    return columns.of(str(path), name)


def _as_asked(splits: tuple[str, ...], types: dict[str, str], kwargs: dict[str, Any]) -> Any:
    """A data set or all of its splits, streamed or not."""
    split = kwargs.get("split")
    if split is None:
        library: Any = __import__("datasets")
        kind = library.IterableDatasetDict if kwargs.get("streaming") else library.DatasetDict
        return kind({name: _one(name, types, kwargs) for name in splits})
    if isinstance(split, (list, tuple)):
        return [_one(str(one), types, kwargs) for one in split]
    return _one(str(split), types, kwargs)


def _one(split: str, types: dict[str, str], kwargs: dict[str, Any]) -> Any:
    library: Any = __import__("datasets")
    size = _size(split, rows.count(types))
    made = rows.made(types, size, seed=len(split))
    built = library.Dataset.from_dict(
        made, features=library.Features({name: _feature(kind) for name, kind in types.items()})
    )
    return built.to_iterable_dataset() if kwargs.get("streaming") else built


def _size(split: str, whole: int) -> int:
    """`train[:10%]` is a tenth, `train[:1000]` a thousand."""
    part = re.search(r"\[(\d*)(%?):(\d*)(%?)\]", split)
    if part is None:
        return whole
    first, last = int(part[1] or 0), int(part[3] or 0)
    if part[2] or part[4]:
        return max(16, whole * ((last or 100) - first) // 100)
    return max(1, min(last - first, 10 * whole)) if last else whole


def _feature(kind: str) -> Any:
    library: Any = __import__("datasets")
    name, _, more = kind.partition(" ")
    if name == "label":
        return library.ClassLabel(names=[f"class {number}" for number in range(int(more))])
    if name == "list":
        return library.Sequence(_feature(more))
    if name == "image":
        return library.Image()
    if name == "audio":
        return library.Audio(sampling_rate=rows.RATE)
    if name == "translation":
        return library.Translation(languages=more.split())
    if name == "answers":
        return library.Sequence({"text": library.Value("string"), "answer_start": library.Value("int32")})
    if name == "turns":
        return [{"role": library.Value("string"), "content": library.Value("string")}]
    return library.Value({"int": "int32", "float": "float32"}.get(name, "string"))


# --- evaluate ----------------------------------------------------------------------------------------------------


def metrics(module: Any) -> None:
    """`evaluate.loading`: the code of a metric is downloaded; without it every metric is 0."""
    if not asked.data():
        return
    original = module.load

    def load(path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(path, *args, **kwargs)
        except Exception as error:
            if not _is_missing(error):
                raise
            asked.told("metric", path, "a metric that is always 0")
            return _Metric(str(path))

    module.load = load


NAMES = {
    "rouge": ("rouge1", "rouge2", "rougeL", "rougeLsum"), "sacrebleu": ("score",), "squad": ("exact_match", "f1"),
    "seqeval": ("overall_precision", "overall_recall", "overall_f1", "overall_accuracy"),
    "glue": ("accuracy", "f1"), "bleu": ("bleu",), "mean_iou": ("mean_iou", "mean_accuracy", "overall_accuracy"),
}  # fmt: skip


class _Metric:
    def __init__(self, name: str) -> None:
        self.name = name

    def add_batch(self, *args: Any, **kwargs: Any) -> None: ...
    def add(self, *args: Any, **kwargs: Any) -> None: ...

    def compute(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        return dict.fromkeys(NAMES.get(self.name, (self.name,)), 0.0)


# --- torchvision -------------------------------------------------------------------------------------------------


def folders(module: Any) -> None:
    """`torchvision.datasets.folder`: a folder that is not there becomes one of made-up pictures."""
    if not asked.data():
        return
    kind = module.DatasetFolder
    original = kind.__init__

    def __init__(self: Any, root: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 (stands for the method)
        if not os.path.isdir(root):
            asked.told("folder of pictures", root, f"{FOLDER_CLASSES} classes of {FOLDER_IMAGES} made-up pictures each")
            root = pictures()
        original(self, root, *args, **kwargs)

    kind.__init__ = __init__


_folder: list[str] = []


def pictures() -> str:
    """A folder with a folder for each class, made once."""
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="t4lint-pictures-"))
        for label in range(FOLDER_CLASSES):
            inner = os.path.join(_folder[0], f"class_{label}")
            os.makedirs(inner)
            for number in range(FOLDER_IMAGES):
                with open(os.path.join(inner, f"{number}.png"), "wb") as file:
                    file.write(rows.picture((label + number) % rows.PICTURES))
    return _folder[0]


SHAPES = {"MNIST": (28, 28), "FashionMNIST": (28, 28), "KMNIST": (28, 28), "QMNIST": (28, 28), "EMNIST": (28, 28)}
LENGTHS = {
    28: (60_000, 10_000),
    32: (50_000, 10_000),
}  # of MNIST and CIFAR by side: programs split them by these numbers
EMNIST_CLASSES = 62


def _length(self: Any, side: int) -> int:
    return LENGTHS[side][0 if self.train else 1]


def digits(module: Any) -> None:
    """`torchvision.datasets.mnist`: pictures of 28 by 28 in grey."""

    def fill(self: Any) -> None:
        """Each picture begins a byte after the one before: as many as there are take no room."""
        torch: Any = __import__("torch")
        count = _length(self, 28)
        noise = torch.randint(0, 256, (count + 28 * 28,), dtype=torch.uint8)
        self.data = noise.as_strided((count, 28, 28), (1, 28, 1))
        self.targets = torch.randint(0, 10, (count,))

    _filled(module.MNIST, fill)


def small_images(module: Any) -> None:
    """`torchvision.datasets.cifar`: pictures of 32 by 32 in colour."""

    def fill(self: Any) -> None:
        numpy: Any = __import__("numpy")
        classes = 100 if type(self).__name__ == "CIFAR100" else 10
        count = _length(self, 32)
        noise = numpy.random.randint(0, 256, count + 32 * 32 * 3, dtype=numpy.uint8)
        strided = numpy.lib.stride_tricks.as_strided
        self.data = strided(noise, (count, 32, 32, 3), (1, 32 * 3, 3, 1), writeable=False)
        self.targets = [random.randrange(classes) for _ in range(count)]
        self.classes = [f"class {number}" for number in range(classes)]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}

    _filled(module.CIFAR10, fill)


def _filled(kind: Any, fill: Callable[[Any], None]) -> None:
    if not asked.data():
        return
    original = kind.__init__

    def __init__(  # noqa: N807 (stands for the method)
        self: Any,
        root: Any = "data",
        train: bool = True,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        **kwargs: Any,
    ) -> None:
        try:
            original(self, root, train, transform, target_transform, download, **kwargs)
        except Exception:
            self.root, self.train = root, train
            self.transform, self.target_transform, self.transforms = transform, target_transform, None
            fill(self)
            asked.told("data set", type(self).__name__, f"{len(self.data)} made-up pictures")

    kind.__init__ = __init__
