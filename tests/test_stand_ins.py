"""Models and data that are not on this machine: what stands in for them, and what is said of it."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t4lint.cli.flags import _columns, parser
from t4lint.record.inside.standin import asked, columns, data, pipelines, rows, shapes, words

ROOT = Path(__file__).resolve().parents[1]


def table() -> list[dict[str, str]]:
    with (ROOT / "t4lint" / "memory" / "checkpoints.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["layers"]]


def one_of_each() -> list[str]:
    """A checkpoint for each kind of row, the smallest one."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in sorted(table(), key=lambda row: int(row["parameters"])):
        found.setdefault((row["family"], row["block"]), row)
    return [row["id"] for row in found.values()]


# --- shapes ------------------------------------------------------------------------------------------------------


def test_every_checkpoint_of_the_table_has_a_configuration() -> None:
    for row in table():
        fields = shapes.configuration(row["id"])
        assert fields is not None and fields["model_type"], row["id"]


def test_names_are_found_as_people_write_them() -> None:
    assert shapes.configuration("gpt2") == shapes.configuration("openai-community/GPT2")
    assert shapes.configuration("bert-base-uncased") is not None
    assert shapes.configuration("somebody/gpt2") is None  # another's checkpoint may have another shape
    assert shapes.configuration("resnet50") is None  # no model of transformers


@pytest.mark.heavy
@pytest.mark.parametrize("name", one_of_each())
def test_the_model_has_the_parameters_that_the_table_says(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    fields = shapes.configuration(name)
    assert fields is not None
    config = transformers.AutoConfig.for_model(**fields)
    kinds = [getattr(transformers, kind) for kind in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModel")]
    order = {"bart": kinds[1:], "whisper": kinds[2:]}.get(config.model_type, kinds)
    order = kinds[2:] if config.model_type in ("bert", "roberta", "xlm-roberta", "electra") else order
    kind = next(kind for kind in order if type(config) in kind._model_mapping)
    with torch.device("meta"):
        model = kind.from_config(config)
    row = next(row for row in table() if row["id"] == name)
    told, head = int(row["parameters"]), int(row["vocabulary"] or 0) * int(row["hidden"])
    made = sum(it.numel() for it in model.parameters())
    # where nothing says whether the head is the embedding table, the table of checkpoints counts it once
    assert any(made == pytest.approx(it, rel=0.02) for it in ([told] if row["tied"] else [told, told + head]))


# --- words and rows ----------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "size"), [("gpt2", 50257), ("bert", 30522), ("llama", 32000), ("t5", 32128), ("qwen2", 151936)]
)
def test_a_tokenizer_has_as_many_entries_as_its_model(kind: str, size: int) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    files = words.tokenizer(kind, size)
    made = tokenizers.Tokenizer.from_str(files["tokenizer.json"])
    assert made.get_vocab_size() == size
    known = words.words()
    inner = made.encode(f" {known[3]} {known[4]}", add_special_tokens=False).ids
    assert len(inner) <= 4 and max(inner) < size
    around = made.encode(known[3]).ids
    roles = json.loads(files["tokenizer_config.json"])
    if kind == "bert":
        assert (around[0], around[-1]) == (made.token_to_id(roles["cls_token"]), made.token_to_id(roles["sep_token"]))


def test_every_known_column_can_be_made() -> None:
    pytest.importorskip("PIL")
    chosen, known = random.Random(1), words.words()
    for name, (splits, types) in columns.KNOWN.items():
        assert splits and types, name
        for kind in set(types.values()):
            assert rows.value(kind, chosen, known) is not None, (name, kind)
    with pytest.raises(rows.BadTypeError):
        rows.value("vector 3", chosen, known)


@pytest.mark.heavy
def test_mnist_and_cifar_have_their_numbers_of_pictures_and_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(asked, "data", lambda: True)
    monkeypatch.setattr(asked, "told", lambda *args: None)

    class Lacking:
        def __init__(self, *args: Any) -> None:
            raise RuntimeError("Dataset not found")

    class MNIST(Lacking): ...

    class CIFAR10(Lacking): ...

    data.digits(SimpleNamespace(MNIST=MNIST))
    data.small_images(SimpleNamespace(CIFAR10=CIFAR10))
    train: Any = MNIST("data", True)
    assert train.data.shape == (60_000, 28, 28) and train.targets.shape == (60_000,)
    assert train.data.untyped_storage().nbytes() < 100_000
    assert not torch.equal(train.data[0], train.data[1])
    held_out: Any = CIFAR10("data", False)
    assert held_out.data.shape == (10_000, 32, 32, 3) and len(held_out.targets) == 10_000
    assert held_out.data[[0, 9_999]].std() > 0


def test_the_same_rows_each_time() -> None:
    types = {"text": "text", "label": "label 3"}
    assert rows.made(types, 5, seed=3) == rows.made(types, 5, seed=3) != rows.made(types, 5, seed=4)
    assert {rows.value("label 3", random.Random(seed), []) for seed in range(50)} == {0, 1, 2}


def test_data_sets_are_found_by_name_and_configuration() -> None:
    assert columns.of("nyu-mll/glue", "mrpc") == columns.KNOWN["glue:mrpc"]
    assert columns.of("stanfordnlp/imdb", None) == columns.KNOWN["imdb"]
    assert columns.of("wikitext", "wikitext-2-raw-v1") == columns.KNOWN["wikitext"]
    assert columns.of("somebody/private", None) is None


@pytest.mark.parametrize(
    ("name", "hub"),
    [
        ("gpt2", True),
        ("a/b", True),
        ("./model", False),
        ("/models/x", False),
        ("a/b/c", False),
        ("https://x/y", False),
        (3, False),
    ],
)
def test_what_may_be_a_name_on_the_hub(name: Any, hub: bool) -> None:
    assert asked.is_hub_name(name) is hub


def test_networks_of_pipelines() -> None:
    assert pipelines.network("CompVis/stable-diffusion-v1-4", "unet", "UNet2DConditionModel") == pipelines.UNET
    assert pipelines.network("somebody/else", "unet", "UNet2DConditionModel") is None
    assert pipelines.text_model("stabilityai/stable-diffusion-xl-base-1.0", "text_encoder_2") == pipelines.TEXT_G


def test_columns_on_the_command_line() -> None:
    assert _columns("me/chat=text:words 40, label:label 2") == ("me/chat", {"text": "words 40", "label": "label 2"})
    args = parser().parse_args(["verify", "--columns", "a=x:int", "--columns", "b=y:text"])
    assert dict(args.columns) == {"a": {"x": "int"}, "b": {"y": "text"}}
    for bad in ("a", "a=", "a=b", "=x:int", "a=x:int,y"):
        with pytest.raises(Exception, match="DATASET=COLUMN:TYPE"):
            _columns(bad)


# --- whole runs --------------------------------------------------------------------------------------------------

TRAINER = """
    from datasets import load_dataset
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

    tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", num_labels=2)
    data = load_dataset("imdb", split="train[:64]")
    data = data.map(lambda batch: tokenizer(batch["text"], truncation=True, padding="max_length", max_length=32), batched=True)
    args = TrainingArguments(output_dir="out", per_device_train_batch_size=4, max_steps=3, report_to=[])
    Trainer(model=model, args=args, train_dataset=data).train()
"""


def verified(folder: Path, script: str, *flags: str) -> dict[str, Any]:
    (folder / "train.py").write_text(textwrap.dedent(script).lstrip("\n"), encoding="utf-8")
    (folder / "home").mkdir(exist_ok=True)
    called = [
        sys.executable, "-m", "t4lint", "verify", "--device", "phantom", "--output-format", "text",
        "--output-format", "json:report.json", *flags, "--",
        sys.executable, "train.py",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HOME": str(folder / "home")}
    done = subprocess.run(called, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (folder / "report.json").exists(), done.stderr
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    report["said"] = done.stdout + done.stderr
    return report


@pytest.mark.heavy
def test_a_trainer_without_weights_and_data_runs_and_says_what_stood_in(tmp_path: Path) -> None:
    for needed in ("torch", "transformers", "datasets", "accelerate"):
        pytest.importorskip(needed)
    report = verified(tmp_path, TRAINER, "--synthetic")
    assert report["errors"] == [], report["said"]
    notes = report["said"]
    assert "the weights bert-base-cased is not on this machine; in its place: its sizes in t4lint's table" in notes
    assert "the data set imdb is not on this machine; in its place: 2048 made-up rows of text, label" in notes
    weights = report["memory"]["components"]["weights"]
    assert weights == pytest.approx(4 * 108_311_810, rel=0.02)


@pytest.mark.heavy
def test_without_synthetic_it_says_what_to_provide(tmp_path: Path) -> None:
    for needed in ("torch", "datasets"):
        pytest.importorskip(needed)
    report = verified(
        tmp_path, "import torch\nfrom datasets import load_dataset\nload_dataset('me/chat', split='train')\n"
    )
    said = " ".join(it["message"] for it in report["errors"])
    assert "the data set me/chat is not on this machine" in said and "--synthetic" in said
    report = verified(
        tmp_path,
        "import torch\nfrom datasets import load_dataset\nload_dataset('me/chat', split='train')\n",
        "--synthetic",
    )
    said = " ".join(it["message"] for it in report["errors"])
    assert "--columns 'me/chat=" in said
    told = "import torch\nfrom datasets import load_dataset\nassert load_dataset('me/chat', split='train')[0]['label'] in (0, 1)\n"
    report = verified(tmp_path, told, "--synthetic", "--columns", "me/chat=text:text,label:label 2")
    assert report["errors"] == [], report["said"]


@pytest.mark.heavy
def test_a_model_whose_shape_is_not_known(tmp_path: Path) -> None:
    for needed in ("torch", "transformers"):
        pytest.importorskip(needed)
    script = "import torch\nfrom transformers import AutoModel\nAutoModel.from_pretrained('me/mine')\n"
    report = verified(tmp_path, script)
    said = " ".join(it["message"] for it in report["errors"])
    assert "the model me/mine is not on this machine" in said and "hf download me/mine config.json" in said
