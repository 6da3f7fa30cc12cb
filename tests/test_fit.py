"""`t4lint fit`: what fills the card, from what, and what would make it fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from t4lint.cli import main
from t4lint.engine import Options
from t4lint.fit import Fit, fit
from t4lint.fit_evaluation import TITLE as EVALUATION
from t4lint.memory.adapters import lora
from t4lint.memory.plan import Plan, usage
from t4lint.memory.reading import Given
from t4lint.memory.shapes import find_shape
from t4lint.memory.ways import largest_batch, largest_length, spanned

GIB = 2**30

SFT = """
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("{model}", dtype=torch.float16)
args = SFTConfig(output_dir="out", per_device_train_batch_size={batch}, max_length=1024, gradient_checkpointing={checkpointing}, fp16=True)
data = load_dataset("json", data_files="data.json")
peft = LoraConfig(r=16, target_modules=["q_proj", "v_proj"], lora_dropout=0.05)
SFTTrainer(model=model, args=args, train_dataset=data, peft_config=peft).train()
"""
LOOP = """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("{model}", dtype=torch.float32).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for batch in DataLoader(data, batch_size=4):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def measured(folder: Path, text: str, **given: object) -> list[Fit]:
    (folder / "train.py").write_text(text, encoding="utf-8")
    return list(fit([folder / "train.py"], Options(cwd=folder), Given(**given)).fits)  # type: ignore[arg-type]


def sft(model: str = "Qwen/Qwen2.5-1.5B", batch: int = 1, checkpointing: bool = True) -> str:
    return SFT.format(model=model, batch=batch, checkpointing=checkpointing)


def test_adapters_on_a_small_base_fit(tmp_path: Path) -> None:
    (found,) = measured(tmp_path, sft())
    assert found.answer == "fits"
    assert found.usage is not None and found.peak is not None
    assert found.usage.components["weights"][0] == pytest.approx(2 * 1_543_714_304, rel=0.001)
    assert not found.ways
    assert found.largest_batch is not None and found.largest_batch > 1


def test_a_large_batch_without_checkpointing_does_not_fit_and_the_cheapest_way_comes_first(tmp_path: Path) -> None:
    (found,) = measured(tmp_path, sft(batch=16, checkpointing=False))
    assert found.answer == "does not fit"
    first = found.ways[0]
    assert first.title.startswith("micro-batch") and first.fits
    assert first.peak[1] <= found.limit


def test_every_number_says_where_it_was_read(tmp_path: Path) -> None:
    (found,) = measured(tmp_path, sft(batch=4))
    origins = {fact.name: fact.origins for fact in found.reading.facts}
    lines = {name: it[0].location.line for name, it in origins.items() if it and it[0].location is not None}
    assert lines["model"] == lines["weights"] == 8
    assert lines["micro-batch"] == lines["sequence length"] == 9
    assert lines["trained"] == 11
    assert "default of" in origins["optimizer"][0].note


def test_what_is_not_known_is_asked_for(tmp_path: Path) -> None:
    (found,) = measured(tmp_path, LOOP.format(model="me/private"))
    assert found.answer == "unknown" and found.usage is None
    assert {it.flag.split()[0] for it in found.reading.missing} == {"--model", "--sequence-length"}
    (found,) = measured(tmp_path, LOOP.format(model="me/private"), model="gpt2", sequence_length=256)
    assert found.answer == "fits"
    assert found.usage is not None and found.usage.components["optimizer state"][0] == 8 * 124_439_808


def test_a_model_of_ones_own_is_told_how_to_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("import torch\nnet = torch.nn.Linear(2, 2).cuda()\n" + OWN_LOOP)
    assert main(["fit", str(tmp_path / "train.py")]) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "`t4lint verify --device phantom -- COMMAND` measures it without a GPU; pass --model NAME" in said


OWN_LOOP = """optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in torch.randn(8, 4, 2):
    net(batch.cuda()).sum().backward()
    optimizer.step()
"""


def test_a_configuration_file_gives_the_shape(tmp_path: Path) -> None:
    fields = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
              "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    text = LOOP.format(model="me/private")
    (found,) = measured(tmp_path, text, model=str(tmp_path / "config.json"), sequence_length=256)
    assert found.usage is not None
    assert found.usage.components["weights"][0] == pytest.approx(4 * 1_235_814_400, rel=0.001)  # Llama 3.2 1B


def test_a_model_built_from_a_configuration_in_the_code(tmp_path: Path) -> None:
    text = LOOP.replace(
        'AutoModelForCausalLM.from_pretrained("{model}", dtype=torch.float32)', "GPT2LMHeadModel(GPT2Config())"
    )
    text = text.replace("import AutoModelForCausalLM", "import GPT2Config, GPT2LMHeadModel")
    (found,) = measured(tmp_path, text, sequence_length=256)
    assert found.usage is not None
    assert found.usage.components["weights"][0] == pytest.approx(4 * 124_439_808, rel=0.001)


def test_a_diffusion_network_is_counted_by_image(tmp_path: Path) -> None:
    text = """
import torch
from diffusers import UNet2DConditionModel

unet = UNet2DConditionModel.from_pretrained("stable-diffusion-v1-5/stable-diffusion-v1-5", subfolder="unet").cuda()
optimizer = torch.optim.AdamW(unet.parameters(), fused=True)
for latents, steps, text in torch.utils.data.DataLoader(data, batch_size=2):
    loss = unet(latents, steps, text).sample.mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    (found,) = measured(tmp_path, text)
    (small,) = measured(tmp_path, text, image_size=256)
    assert found.usage is not None and small.usage is not None
    assert found.usage.components["weights"][0] == 4 * 859_520_964
    assert small.expected < found.expected


def test_a_head_that_classifies_has_no_logits(tmp_path: Path) -> None:
    text = LOOP.replace("AutoModelForCausalLM", "AutoModelForSequenceClassification").format(model="bert-base-uncased")
    (found,) = measured(tmp_path, text, sequence_length=128)
    assert found.usage is not None and "logits" not in found.usage.components


def test_each_launch_is_a_run_of_its_own(tmp_path: Path) -> None:
    script = LOOP.replace("import torch\n", "import argparse\nimport torch\n", 1).replace(
        "batch_size=4", "batch_size=options.batch"
    ).format(model="gpt2")  # fmt: skip
    parser = "parser = argparse.ArgumentParser()\nparser.add_argument('--batch', type=int, default=2)\noptions = parser.parse_args()\n"
    (tmp_path / "train.py").write_text(script.replace("\nmodel =", f"\n{parser}model =", 1), encoding="utf-8")
    (tmp_path / "run.sh").write_text("python train.py --batch 4\npython train.py --batch 64\n", encoding="utf-8")
    found = fit([tmp_path], Options(cwd=tmp_path), Given(sequence_length=1024))
    assert [it.reading.plans[0].batch for it in found.fits] == [4, 64]
    assert [it.answer for it in found.fits][1] == "does not fit"
    assert found.report.runs[1].launch == "run.sh:2"
    batch = next(fact for fact in found.fits[1].reading.facts if fact.name == "micro-batch")
    assert batch.origins[0].location is not None and batch.origins[0].location.path == "run.sh"


def test_json_is_the_contract_and_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(sft(batch=16, checkpointing=False), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "train.py", "--output-format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    memory = report["memory"]
    assert memory["low"] <= memory["peak_allocated"] <= memory["high"]
    assert memory["limit"] < report["target"]["total_memory"]
    assert memory["basis"] == "closed form" and memory["phase"] in ("forward", "backward", "optimizer")
    step = report["fit"][0]
    assert step["answer"] == "does not fit" and step["ways"][0]["fits"]
    assert {"model", "micro-batch"} <= {fact["name"] for fact in step["facts"]}


@pytest.mark.parametrize("width", [80, 120])
def test_lines_stay_within_the_terminal(tmp_path: Path, width: int) -> None:
    from t4lint.report.fit_text import render

    (tmp_path / "train.py").write_text(sft(batch=16, checkpointing=False), encoding="utf-8")
    text = render(fit([tmp_path / "train.py"], Options(cwd=tmp_path)), colour=False, width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "What would make it fit" in text and "█" in text


def test_no_training_step_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "empty.py"]) == 2
    assert "No training step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "limit", "said"),
    [
        ("GN7.LARGE20", "of 4.0", "a quarter of a T4"),
        ("t4/2", "of 8.0", "half of a T4"),
        ("GN7.2XLARGE32", "of 14.6", ""),
    ],
)
def test_a_part_of_a_gpu_is_not_the_gpu(
    target: str,
    limit: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").write_text(sft(batch=4), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    main(["fit", "--target", target, "train.py"])
    text = " ".join(capsys.readouterr().out.split())
    assert limit in text and (said in text if said else "time is shared" not in text)
    heavy = "import torch\n" + LOOP.format(model="meta-llama/Llama-3.1-8B")
    (tmp_path / "train.py").write_text(heavy, encoding="utf-8")
    main(["check", "--target", target, "--no-cache", "train.py"])
    assert f"{said or 'a T4'} leaves" in " ".join(capsys.readouterr().out.split())


def test_a_target_without_a_gpu_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--target", "cpu", str(tmp_path)]) == 2
    assert "no GPU" in capsys.readouterr().err


# --- the model itself ---------------------------------------------------------------------------------------------


def gpt2(**more: object) -> Plan:
    shape = find_shape("gpt2")
    assert shape is not None
    plan = Plan(
        parameters=shape.parameters, trainable=shape.parameters, embedding=shape.embedding, layers=shape.layers,
        widths=shape.widths, kind=shape.block, vocabulary=shape.vocabulary, batch=4, length=512, autocast=True, fused=True,
    )  # fmt: skip
    return replace(plan, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 2}, {"length": 256}, {"checkpointing": True}, {"optimizer": "sgd"}, {"optimizer": "adamw_8bit"},
        {"chunked_loss": True}, {"ranks": 4, "sharding": "fsdp"}, {"ranks": 4, "sharding": "zero3"},
    ],
)  # fmt: skip
def test_what_saves_memory_lowers_both_edges(change: dict[str, object]) -> None:
    before, after = usage(gpt2()).peak, usage(gpt2(**change)).peak
    assert after[0] < before[0] and after[1] < before[1]


@pytest.mark.parametrize(
    "change", [{"eager": True}, {"accumulation": 2}, {"ranks": 2, "sharding": "ddp"}, {"copies_logits": True}]
)
def test_what_costs_memory_raises_the_upper_edge(change: dict[str, object]) -> None:
    assert usage(gpt2(**change)).peak[1] > usage(gpt2()).peak[1]


def test_foreach_peaks_in_the_optimizer_where_activations_are_few() -> None:
    assert usage(gpt2(batch=1, length=32, fused=None, autocast=False, vocabulary=0)).moment == "optimizer"
    assert usage(gpt2(batch=1, length=32, fused=None, autocast=False, vocabulary=0)).expected == pytest.approx(
        20 * 124.4e6, rel=0.02
    )


def test_largest_values_are_the_last_that_fit() -> None:
    limit = 8 * GIB
    batch = largest_batch([gpt2()], limit)
    length = largest_length([gpt2(batch=1)], limit)
    assert batch is not None and length is not None
    assert spanned([gpt2(batch=batch)])[0][1] <= limit < spanned([gpt2(batch=batch + 1)])[0][1]
    assert spanned([gpt2(batch=1, length=length)])[0][1] <= limit < spanned([gpt2(batch=1, length=length + 64)])[0][1]
    assert largest_batch([gpt2()], 1 * GIB) is None


def test_a_smaller_micro_batch_is_counted_with_the_gradients_that_stay_between_its_parts() -> None:
    whole = gpt2(batch=8)
    parts = [replace(whole, batch=size, accumulation=8 / size) for size in (1, 2, 4)]
    limit = spanned([parts[0]])[0][1] - 1  # one sample fits alone, but not beside the gradients of the others
    assert spanned([replace(whole, batch=1)])[0][1] <= limit
    assert largest_batch([whole], limit) is None
    assert largest_batch([whole], spanned([parts[1]])[0][1]) == 2
    assert largest_batch([replace(whole, batch=2)], spanned([replace(whole, batch=2)])[0][1]) == 2


EVALUATED = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("openai-community/gpt2")
args = TrainingArguments("out", fp16=True, per_device_train_batch_size=2, per_device_eval_batch_size=4, {arguments})
Trainer(model=model, args=args, train_dataset=d, eval_dataset=e, compute_metrics=metrics, {more}).train()
"""


@pytest.mark.parametrize(
    ("arguments", "more", "kept"),
    [
        ('eval_strategy="steps"', "", "gpu"),
        ('eval_strategy="steps", eval_accumulation_steps=4', "", "host"),
        ('eval_strategy="steps", prediction_loss_only=True', "", "nothing"),
        ('eval_strategy="steps"', "preprocess_logits_for_metrics=argmax", "reduced"),
        ('eval_strategy="no"', "", None),
    ],
)
def test_what_an_evaluation_keeps(tmp_path: Path, arguments: str, more: str, kept: str | None) -> None:
    (found,) = measured(tmp_path, EVALUATED.format(arguments=arguments, more=more), sequence_length=512)
    sections = [section.values for section in found.sections if section.title == EVALUATION]
    if kept is None:
        assert sections == []
        return
    (values,) = sections
    assert values is not None
    assert values["kept"] == kept
    assert values["sample"] == 512 * 50257 * 4
    assert values["batch"] == 4 * 512 * 50257 * 4
    assert (values["samples"] is not None) is (kept == "gpu")
    if kept == "gpu":  # 14 GiB less weights and Adam's states, twice over
        assert 60 < values["samples"] < 75  # type: ignore[operator]


EVALUATING = """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM{imports}
{begin}
model = AutoModelForCausalLM.from_pretrained("openai-community/gpt2").cuda()
train, valid = DataLoader(t, batch_size=4, shuffle=True), DataLoader(v, batch_size=16)
optimizer = torch.optim.AdamW(model.parameters())
{prepare}
for epoch in range(3):
    model.train()
    for batch in train:
        loss = model(**batch).loss
        {backward}
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    kept = []
    {above}
    for batch in valid:
        outputs = model(**batch)
        {keep}
"""
PLAIN = {"imports": "", "begin": "", "prepare": "", "backward": "loss.backward()", "above": ""}
ACCELERATE = {
    "imports": "\nfrom accelerate import Accelerator", "begin": 'accelerator = Accelerator(mixed_precision="fp16")',
    "prepare": "model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)",
    "backward": "accelerator.backward(loss)", "above": "torch.set_grad_enabled(False)",
}  # fmt: skip
OFF = {**PLAIN, "above": "torch.set_grad_enabled(False)"}
LOGITS = 512 * 50257  # numbers that GPT-2 makes of a sample of 512 tokens


@pytest.mark.parametrize(
    ("loop", "keep", "recorded", "kept", "sample"),
    [
        (PLAIN, "kept.append(outputs.logits)", True, "outputs.logits", None),
        (OFF, "kept.append(outputs.logits)", False, "outputs.logits", 4 * LOGITS),
        (OFF, "kept.append(outputs.logits.cpu())", False, None, None),
        (PLAIN, "kept.append(outputs.loss.item())", True, None, None),
        (ACCELERATE, "kept.append(accelerator.gather_for_metrics(outputs.logits))", False,
         "accelerator.gather_for_metrics(outputs.logits)", 4 * LOGITS),
    ],
)  # fmt: skip
def test_what_an_evaluation_in_a_loop_needs(
    tmp_path: Path, loop: dict[str, str], keep: str, recorded: bool, kept: str | None, sample: int | None
) -> None:
    (found,) = measured(tmp_path, EVALUATING.format(keep=keep, **loop), sequence_length=512)
    assert found.usage is not None and {it.name: it.text for it in found.reading.facts}["micro-batch"] == "4"
    (values,) = [section.values for section in found.sections if section.title == EVALUATION]
    assert values is not None
    assert (values["batch_size"], values["recorded"], values["kept"]) == (16, recorded, kept)
    assert values.get("sample") == sample
    states = (4 + 8) * 124_439_808
    logits = 16 * LOGITS * (2 if loop is ACCELERATE else 4)
    assert values["low"] >= states + logits, "weights, Adam's states and the logits are there at the same time"  # type: ignore[operator]
    assert (values["low"] > 8 * 2**30) is recorded, "and what autograd keeps"  # type: ignore[operator]


@pytest.mark.parametrize(
    ("version", "config", "trainer", "length"),
    [
        ("0.12.2", "", ", max_seq_length=512", "512 at most"),
        ("0.12.2", ", max_seq_length=768", ", max_seq_length=512", "512 at most"),
        ("0.12.2", ", max_seq_length=768", "", "768 at most"),
        ("0.18.2", ", max_seq_length=256", "", "256 at most"),
        ("0.18.2", ", max_length=2048", "", "2048 at most"),
        ("1.16.0", ", max_length=2048", "", "2048 at most"),
        ("1.16.0", "", "", "1024 at most"),
    ],
)
def test_the_length_is_read_as_each_version_of_trl_reads_it(
    tmp_path: Path, version: str, config: str, trainer: str, length: str
) -> None:
    (tmp_path / "requirements.txt").write_text(f"trl=={version}\n", encoding="utf-8")
    text = f"""
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
args = SFTConfig(output_dir="out", per_device_train_batch_size=1, fp16=True{config})
SFTTrainer(model=model, args=args, train_dataset=data{trainer}).train()
"""
    (found,) = measured(tmp_path, text)
    assert {it.name: it.text for it in found.reading.facts}["sequence length"] == length


def test_a_loop_without_an_evaluation_has_no_such_section(tmp_path: Path) -> None:
    text = EVALUATING.format(keep="outputs.loss.backward()", **PLAIN)
    (found, *_) = measured(tmp_path, text, sequence_length=512)
    assert not [section for section in found.sections if section.title == EVALUATION]


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 50}
TWO = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
       "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "vocab_size": 50, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1,
       "decoder_start_token_id": 1, "forced_eos_token_id": 1}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("llama", {**SMALL, "num_key_value_heads": 2}),
        ("qwen3", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 96, "vocab_size": 50}),
        ("gpt_neox", SMALL),
        ("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50}),
        ("bert", SMALL),
        ("opt", {**SMALL, "ffn_dim": 96, "word_embed_proj_dim": 32}),
        ("phi", SMALL),
        ("vit", {key: it for key, it in SMALL.items() if key != "vocab_size"}),
        ("distilbert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, "vocab_size": 50}),
        ("deberta-v2", SMALL),
        ("mpnet", SMALL),
        ("modernbert", {**SMALL, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1, "cls_token_id": 1, "sep_token_id": 1}),
        ("gptj", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 96, "vocab_size": 50, "rotary_dim": 4}),
        ("gpt_neo", {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "intermediate_size": 96, "vocab_size": 50,
                     "attention_types": [[["global"], 2]]}),
        ("t5", {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 16, "d_ff": 96, "vocab_size": 50}),
        ("mt5", {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 16, "d_ff": 96, "vocab_size": 50}),
        ("bart", TWO),
        ("whisper", TWO),
    ],
)  # fmt: skip
def test_lora_parameters_are_those_that_peft_makes(model_type: str, given: dict[str, int]) -> None:
    """Each layer of each kind of block by itself, on the real model with the real peft."""
    import peft
    import torch
    import transformers

    from t4lint.memory.adapters import _LAYERS
    from t4lint.memory.configs import shape_of_config

    config = transformers.AutoConfig.for_model(model_type, **given)
    shape = shape_of_config(config.to_dict())
    assert shape is not None
    assert shape.block
    for name in _LAYERS[shape.block]:
        with torch.device("meta"):
            model = transformers.AutoModel.from_config(config)
        if name == "dense" and hasattr(
            model, "pooler"
        ):  # a layer of the same name, that causal models are built without
            model.pooler = None
        if not any(key.endswith(f".{name}") for key, _ in model.named_modules()):
            assert model_type == "vit"  # whose layers had other names until transformers 5
            continue
        wrapped = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=[name], lora_dropout=0.1))
        count = sum(it.numel() for key, it in wrapped.named_parameters() if "lora_" in key)
        made = lora(shape, [name], 4)
        assert made is not None
        assert made.parameters == count, name


@pytest.mark.heavy
@pytest.mark.parametrize("model_type", ["llama", "qwen3", "gpt2", "gpt_neo", "gptj", "gpt_neox", "bloom", "bert", "mpnet", "modernbert",
                                        "deberta-v2", "distilbert", "opt", "phi", "t5", "mt5", "bart", "whisper", "vit"])  # fmt: skip
def test_parameters_of_a_configuration_are_those_of_the_model(model_type: str) -> None:
    """The default configuration of each class, built on the meta device: within 4 %, which positions of Whisper make."""
    import torch
    import transformers

    from t4lint.memory.configs import shape_of_config

    config = transformers.AutoConfig.for_model(model_type)
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config)
    count = sum(it.numel() for it in model.parameters())
    shape = shape_of_config({"model_type": model_type})
    assert shape is not None
    embedding = (
        shape.vocabulary * shape.hidden if shape.tied is False else 0
    )  # of the head, which the bare model has not
    assert shape.parameters - embedding == pytest.approx(count, rel=0.04)


def test_lora_parameters_are_those_that_peft_prints() -> None:
    """Counts that peft prints for these models: 4,194,304 (Llama-2 7B, rank 8, q and v) and 294,912 (GPT-2, rank 8)."""
    llama, small = find_shape("meta-llama/Llama-2-7b-hf"), find_shape("gpt2")
    assert llama is not None and small is not None
    assert (made := lora(llama, ["q_proj", "v_proj"], 8)) is not None and made.parameters == 4_194_304
    assert (made := lora(small, None, 8)) is not None and made.parameters == 294_912
    assert lora(llama, ["no_such_layer"], 8) is None
    saved = lora(llama, ["q_proj"], 8, saved=["lm_head", "embed_tokens"])
    assert saved is not None and saved.whole == 2 * 32000 * 4096


CUT = """
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


def tokenize(batch):
    return tokenizer(batch["text"], truncation=True, max_length={length})


data = load_dataset("imdb").map(tokenize, batched=True)
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=16, fp16=True), train_dataset=data["train"]).train()
"""


@pytest.mark.parametrize(("length", "said"), [("256", "256 at most"), ("2 * 96", "192 at most"), ("LENGTH", "")])
def test_the_length_that_texts_are_cut_at(tmp_path: Path, length: str, said: str) -> None:
    """A tokenizer in a function that `map` calls: an upper bound, where the number is known."""
    script = tmp_path / "train.py"
    script.write_text(CUT.format(length=length))
    (found,) = fit([script], Options(cwd=tmp_path)).fits
    facts = {fact.name: fact.text for fact in found.reading.facts}
    assert facts.get("sequence length", "").startswith(said)
    assert [it.name for it in found.reading.missing] == ([] if said else ["the sequence length"])
