"""Work that a dataset does for each sample: decoding files, augmenting, splitting text into tokens.

What a worker process would do is looked at apart from the training loop (`torch_data.quietly`), and noted here.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, Abstract, Const, Function, ListValue, Object, Unknown
from t4lint.libraries.api import Arguments, Call, calls, methods
from t4lint.libraries.symbols import GONE_METHODS, say_symbol
from t4lint.trace import Call as CallEvent

# functions that read a file and decode it
DECODERS = (
    "PIL.Image.open", "cv2.imread", "cv2.imdecode", "cv2.VideoCapture", "imageio.imread", "imageio.v2.imread",
    "imageio.v3.imread", "skimage.io.imread", "tifffile.imread", "librosa.load", "soundfile.read", "torchaudio.load",
    "torchvision.io.read_image", "torchvision.io.decode_image", "torchvision.io.decode_jpeg", "torchvision.io.read_video",
    "torchvision.datasets.folder.default_loader", "torchvision.datasets.folder.pil_loader", "decord.VideoReader", "av.open",
    "nibabel.load", "pydicom.dcmread", "rasterio.open", "turbojpeg.TurboJPEG", "accimage.Image",
)  # fmt: skip
# transforms of torchvision that do work for each sample beyond a resize, a crop of the middle or a flip
AUGMENTATIONS = frozenset({
    "RandomResizedCrop", "RandomCrop", "RandomRotation", "ColorJitter", "RandAugment", "AutoAugment", "TrivialAugmentWide",
    "AugMix", "GaussianBlur", "RandomAffine", "RandomPerspective", "ElasticTransform", "RandomPosterize", "RandomSolarize",
    "RandomAdjustSharpness", "RandomAutocontrast", "RandomEqualize", "ScaleJitter", "RandomIoUCrop", "RandomZoomOut",
})  # fmt: skip


# a kind of work, under the undecided tests around it: their names and sides
Noted = tuple[str, frozenset[tuple[str, bool]]]
MAX_CONDITIONS = 8  # different conditions of one kind of work that are compared with each other


def note(m: Any, work: str) -> None:
    """A sample costs this, on the path that is looked at."""
    if "$work" in m.globals:
        m.globals["$work"].add((work, frozenset(m.path.items())))


def noted_work(m: Any, noted: set[Noted]) -> Abstract:
    """What a sample costs, of all that was noted: what it costs whichever way the tests inside the dataset go.

    A sample that is decoded only if it was not prepared before costs something that is not known.
    """
    around = frozenset(m.path.items())
    under: dict[str, set[frozenset[tuple[str, bool]]]] = {}
    for kind, path in noted:
        under.setdefault(kind, set()).add(path - around)
    sure = {kind for kind, conditions in under.items() if always(conditions)}
    return work_of(sure) if sure or not under else Unknown("what a sample costs depends on what is not known")


def always(conditions: set[frozenset[tuple[str, bool]]]) -> bool:
    """Is one of these conditions met whichever way their tests go?"""
    if frozenset() in conditions:
        return True
    if not conditions or len(conditions) > MAX_CONDITIONS:
        return False
    test = min(name for condition in conditions for name, _ in condition)
    sides = ({c - {(test, side)} for c in conditions if (test, not side) not in c} for side in (True, False))
    return all(always(side) for side in sides)


@calls(*DECODERS)
def decode(call: Call) -> Abstract:
    note(call.machine, "decode")
    return Unknown(f"what {call.name} returns is not known", varies=bool(call.machine.loops))


@calls("torchvision.transforms.*")
def transform(call: Call) -> Abstract:
    return Object("transform", call.name, {"$parts": ListValue(call.arguments.positional)})


@methods("transform", "__call__")
def apply(call: Call) -> Abstract:
    for name in names_of(call.receiver):
        if name in AUGMENTATIONS:
            note(call.machine, "augment")
    return Unknown("a transformed sample", varies=True)


@methods("transform", "*")
def method(call: Call) -> Abstract:
    return Unknown("a value of a transform")


@methods("transform", "getattr")
def attribute(call: Call) -> Abstract:
    return Unknown(f"{call.arguments.positional[0].value} of a transform")  # type: ignore[attr-defined]


def names_of(value: Abstract | None, depth: int = 0) -> list[str]:
    """The transforms in a nest of compositions, by class name."""
    if isinstance(value, Object) and value.kind == "transform" and depth < 4:
        inside = names_of(value.attributes.get("$parts"), depth + 1)
        return [value.name.rpartition(".")[2], *inside]
    if isinstance(value, ListValue) and depth < 8:
        return [name for item in value.items for name in names_of(item, depth + 1)]
    return []


def tokenized(call: Call) -> Unknown:
    """A tokenizer is called."""
    note(call.machine, "tokenize")
    return Unknown("what a tokenizer returns", varies=bool(call.machine.loops))


@methods("tokenizer", "__call__", "encode", "encode_plus", "batch_encode_plus", "tokenize", "apply_chat_template")
def tokenizer_call(call: Call) -> Abstract:
    if call.name.rpartition(".")[2] in GONE_METHODS:
        say_symbol(call, "transformers", f"PreTrainedTokenizerBase.{call.name.rpartition('.')[2]}")
    arguments = {name: call.machine.resolve(value) for name, value in call.arguments.keywords.items()}
    call.machine.emit(CallEvent, "tokenize", function="tokenizer", arguments=arguments)
    if (
        CUTS in call.machine.globals
        and "max_length" in arguments
        and call.machine.truth(arguments.get("truncation") or NONE)
    ):
        call.machine.globals[CUTS].append(arguments["max_length"])
    encoded = tokenized(call)
    if pads(call):
        made = call.machine.globals.setdefault("$padded", [])
        made.append(call.machine.here("derived", "this tokenizer call pads"))
        return Unknown(encoded.reason, varies=encoded.varies, uid=f"{PADDED}{len(made) - 1}")
    return encoded


# how the name of an unknown begins that is what a tokenizer gives for texts of uneven length
PADDED = "padded texts "


CUTS = "$cuts"  # the lengths that tokenizers cut at, while one looks into what is done with a row


def say_cuts(m: Any, cuts: list[Abstract]) -> None:
    """Lengths that texts are cut at before a batch is made of them."""
    for length in cuts:
        m.emit(CallEvent, "cut", function="the length of a tokenizer", arguments={"max_length": length})


def pads(call: Call) -> bool:
    """Does it pad several texts to one length?"""
    padding, texts = call.argument("padding", None, Const(False)), call.argument("text", 0)
    to_maximum = isinstance(padding, Const) and padding.value == "max_length"
    to_longest = isinstance(padding, Const) and padding.value in (True, "longest")
    one = isinstance(texts, Const) and isinstance(texts.value, str)
    return call.name.endswith("__call__") and (to_maximum or (to_longest and not one))


@methods("unknown", "map")
def mapped(call: Call) -> Abstract:
    from t4lint.interpret.calls import unresolved

    say_map(call)
    return unresolved(call.machine, call.machine.attribute(call.receiver, "map"), call.arguments)


def say_map(call: Call) -> None:
    """`dataset.map(function)` of Hugging Face's datasets: what the function does with a row."""
    from t4lint.libraries.torch_data import quietly

    m = call.machine
    function = m.resolve(call.arguments.get("function", 0) or Unknown("which function"))
    if isinstance(function, Function) and "datasets" in m.imported and "$work" not in m.globals:
        m.globals["$work"], m.globals[CUTS], entered = set(), [], set(m.entered)
        quietly(m, lambda: m.call(function, Arguments((Unknown("a row", varies=True),))))
        m.entered = entered  # it is looked at by itself too
        work = noted_work(m, m.globals.pop("$work", set()))
        say_cuts(m, m.globals.pop(CUTS, []))
        batched = call.argument("batched", None, Const(False))
        m.emit(CallEvent, "map", function="datasets.Dataset.map", arguments={"batched": batched, "work": work})


@methods("processor", "tokenizer")
def own_tokenizer(call: Call) -> Abstract:
    """`processor.tokenizer(text)`"""
    return tokenized(call)


@methods("processor", "__call__", "preprocess", "feature_extractor", "image_processor", "video_processor")
def processed(call: Call) -> Abstract:
    """A processor of transformers: it resizes images, or computes the spectrogram of a sound."""
    if call.given("images", None) or call.given("videos", None) or not call.given("text", None):
        note(call.machine, "extract")
    if call.given("text", None):
        note(call.machine, "tokenize")
    return Unknown("what a processor returns", varies=bool(call.machine.loops))


@methods("processor", "*")
def processor_method(call: Call) -> Abstract:
    return Unknown("a value of a processor", varies=bool(call.machine.loops))


@methods("processor", "getattr")
def processor_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name == "tokenizer":
        return Object("tokenizer", f"{call.receiver.name}.tokenizer")
    if name in ("feature_extractor", "image_processor", "video_processor"):
        return Object("processor", f"{call.receiver.name}.{name}")
    return Unknown(f"{name} of a processor", uid=f"{call.receiver.uid}.{name}")


@methods("tokenizer", "*")
def tokenizer_method(call: Call) -> Abstract:
    if call.name.rpartition(".")[2] in GONE_METHODS:
        say_symbol(call, "transformers", f"PreTrainedTokenizerBase.{call.name.rpartition('.')[2]}")
    return Unknown("a value of a tokenizer", varies=bool(call.machine.loops))


@methods("tokenizer", "getattr")
def tokenizer_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    return Unknown(f"{name} of a tokenizer", uid=f"{call.receiver.uid}.{name}")


def work_of(found: set[str]) -> Abstract:
    """A value for `Loader.work`."""
    return Const(tuple(sorted(found))) if found else Unknown("what a sample costs is not known")
