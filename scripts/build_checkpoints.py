"""Build `t4lint/memory/checkpoints.csv` from what published packages state about checkpoints.

    python scripts/build_checkpoints.py DOWNLOADS

DOWNLOADS is a folder with the wheels of litgpt, torchvision and keras-hub (`pip download --no-deps`); nothing of them is
imported but litgpt's table. transformers and torch must be installed. Three kinds of rows come out:

* language models of litgpt's table: their padded vocabulary is the row count of the checkpoint's own embedding, because
  litgpt loads the checkpoint into it; parameters are counted from the same shapes as litgpt's modules have;
* models whose shape is written in this file: the model is built by transformers on the meta device, and its size must be
  within 1 % of the parameter count that keras-hub states for the same checkpoint, else the build stops;
* image models of torchvision: it states `num_params` for each set of weights.

litgpt does not say whether the output layer shares the embedding. It is taken from torchtune's model builders, from
keras-hub's counts, from the model class, from a size in the checkpoint's name that only one of the two answers
rounds to, else from what transformers' configuration class for the architecture presumes, unless a checkpoint says otherwise.
Where releases of transformers differ (T5 v1.1), `tied` is empty and `parameters` counts the embedding once: a lower bound.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Row = dict[str, Any]

COLUMNS = [
    "id", "aliases", "family", "block", "parameters", "layers", "hidden", "heads", "kv_heads", "head_size",
    "intermediate", "vocabulary", "tied", "experts", "active_experts", "checkpoint_dtype", "source",
]  # fmt: skip
TARGET = Path(__file__).resolve().parent.parent / "t4lint" / "memory" / "checkpoints.csv"

# A checkpoint name, whether the output layer shares the embedding, and who says so. The first match decides.
TIED = [
    (r"Llama-3\.2-(1B|3B)", True, "torchtune 0.6.1 models/llama3_2"),
    (r"Qwen2\.5-(Coder-)?(0\.5B|1\.5B|3B)(-|$)", True, "torchtune 0.6.1 models/qwen2_5"),
    (r"Qwen2\.5-(Coder-)?(7B|14B|32B|72B)(-|$)", False, "torchtune 0.6.1 models/qwen2_5"),
    (r"Qwen3-4B", True, "keras-hub count of qwen3_4b_en"),
    (r"Qwen3-(8B|14B|32B)", False, "keras-hub counts of qwen3"),
    (r"[Gg]emma", True, "torchtune 0.6.1 models/gemma; transformers' gemma configurations"),
    (r"(Code)?[Ll][Ll]a[Mm][Aa]-2-|CodeLlama-7b|CodeLlama-13b", False, "torchtune 0.6.1 models/llama2, code_llama2"),
    (r"Llama-3(\.1|\.3)?-", False, "torchtune 0.6.1 models/llama3, llama3_1"),
    (r"Mistral-7B", False, "torchtune 0.6.1 models/mistral"),
    (r"Phi-3-mini", False, "torchtune 0.6.1 models/phi3"),
    (r"phi-4$", False, "torchtune 0.6.1 models/phi4"),
    (r"Phi-4-mini", True, "model card of Phi-4-mini-instruct: shared input and output embedding"),
    (r"OLMo-1B", True, "allenai/OLMo configs/official/OLMo-1B.yaml: weight_tying"),
    (r"SmolLM2-360M", True, "the size in the name: 362 million with one embedding, 409 with two"),
    (r"pythia", False, "GPT-NeoX checkpoints hold embed_out (litgpt convert_hf_checkpoint.py)"),
]

# A checkpoint name and the configuration class of transformers that its config.json is read with, whose default holds where that
# file does not say otherwise; those that do say otherwise stand above. The counts that follow are those that the cards state,
# as far as they state one (QwQ-32B 32.8 billion, Qwen3-30B-A3B 30.5, OLMo-2-1124-7B 7.3, phi-2 2.7).
CLASSES = [
    (r"^falcon-", "FalconConfig"),
    (r"OLMo-2-", "Olmo2Config"),
    (r"OLMo-", "OlmoConfig"),
    (r"^phi-(1|2)", "PhiConfig"),
    (r"^Phi-", "Phi3Config"),
    (r"[Mm]ixtral", "MixtralConfig"),
    (r"[Mm]istral|mathstral", "MistralConfig"),
    (r"Qwen3-\d+B-A", "Qwen3MoeConfig"),
    (r"Qwen2|QwQ", "Qwen2Config"),
    (r"(stablelm|stablecode)-.*alpha", "GPTNeoXConfig"),
    (r"stablelm|stable-code", "StableLmConfig"),
    (r"[Ll]lama|Platypus|FreeWilly|Falcon3|salamandra", "LlamaConfig"),
]

# Written here, checked against the count that keras-hub states for the preset of the last column.
_BERT = {"num_hidden_layers": 12}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_T5_LARGE = {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16}
_FLAN = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
_ROBERTA = {"max_position_embeddings": 514, "type_vocab_size": 1}
_DEBERTA = {"vocab_size": 128100, "type_vocab_size": 0, "relative_attention": True, "position_buckets": 256,
            "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False}  # fmt: skip
WRITTEN: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("google-bert/bert-base-uncased", "bert", "", {}, "bert_base_en_uncased"),
    ("google-bert/bert-base-cased", "bert", "", {"vocab_size": 28996}, "bert_base_en"),
    ("google-bert/bert-base-chinese", "bert", "", {"vocab_size": 21128}, "bert_base_zh"),
    ("google-bert/bert-base-multilingual-cased", "bert", "", {"vocab_size": 119547}, "bert_base_multi"),
    ("google-bert/bert-large-uncased", "bert", "", _LARGE, "bert_large_en_uncased"),
    ("google-bert/bert-large-cased", "bert", "", {**_LARGE, "vocab_size": 28996}, "bert_large_en"),
    ("sentence-transformers/all-MiniLM-L6-v2", "bert", "",
     {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}, "all_minilm_l6_v2_en"),
    ("sentence-transformers/all-MiniLM-L12-v2", "bert", "",
     {"hidden_size": 384, "num_hidden_layers": 12, "intermediate_size": 1536}, "all_minilm_l12_v2_en"),
    ("BAAI/bge-base-en-v1.5", "bert", "", {}, "bge_base_v1.5_en"),
    ("BAAI/bge-large-en-v1.5", "bert", "", _LARGE, "bge_large_v1.5_en"),
    ("openai-community/gpt2", "gpt2", "CausalLM", {}, "gpt2_base_en"),
    ("openai-community/gpt2-medium", "gpt2", "CausalLM", {"n_embd": 1024, "n_layer": 24, "n_head": 16},
     "gpt2_medium_en"),
    ("openai-community/gpt2-large", "gpt2", "CausalLM", {"n_embd": 1280, "n_layer": 36, "n_head": 20},
     "gpt2_large_en"),
    ("openai-community/gpt2-xl", "gpt2", "CausalLM", {"n_embd": 1600, "n_layer": 48, "n_head": 25},
     "gpt2_extra_large_en"),
    ("FacebookAI/roberta-base", "roberta", "", {**_ROBERTA, "vocab_size": 50265}, "roberta_base_en"),
    ("FacebookAI/roberta-large", "roberta", "", {**_LARGE, **_ROBERTA, "vocab_size": 50265}, "roberta_large_en"),
    ("FacebookAI/xlm-roberta-base", "xlm-roberta", "", {**_ROBERTA, "vocab_size": 250002}, "xlm_roberta_base_multi"),
    ("FacebookAI/xlm-roberta-large", "xlm-roberta", "", {**_LARGE, **_ROBERTA, "vocab_size": 250002},
     "xlm_roberta_large_multi"),
    ("distilbert/distilbert-base-uncased", "distilbert", "", {}, "distil_bert_base_en_uncased"),
    ("distilbert/distilbert-base-cased", "distilbert", "", {"vocab_size": 28996}, "distil_bert_base_en"),
    ("distilbert/distilbert-base-multilingual-cased", "distilbert", "", {"vocab_size": 119547},
     "distil_bert_base_multi"),
    ("google/electra-base-discriminator", "electra", "",
     {"hidden_size": 768, "embedding_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
     "electra_base_discriminator_uncased_en"),
    ("google/electra-large-discriminator", "electra", "", {**_LARGE, "embedding_size": 1024},
     "electra_large_discriminator_uncased_en"),
    ("microsoft/deberta-v3-xsmall", "deberta-v2", "",
     {**_DEBERTA, "hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536},
     "deberta_v3_extra_small_en"),
    ("microsoft/deberta-v3-small", "deberta-v2", "",
     {**_DEBERTA, "hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 3072},
     "deberta_v3_small_en"),
    ("microsoft/deberta-v3-base", "deberta-v2", "",
     {**_DEBERTA, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
     "deberta_v3_base_en"),
    ("microsoft/deberta-v3-large", "deberta-v2", "", {**_DEBERTA, **_LARGE}, "deberta_v3_large_en"),
    ("google-t5/t5-small", "t5", "Seq2SeqLM", {}, "t5_small_multi"),
    ("google-t5/t5-base", "t5", "Seq2SeqLM", {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
     "t5_base_multi"),
    ("google-t5/t5-large", "t5", "Seq2SeqLM", _T5_LARGE, "t5_large_multi"),
    ("google/flan-t5-small", "t5", "Seq2SeqLM",
     {**_FLAN, "d_model": 512, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "d_kv": 64}, "flan_small_multi"),
    ("google/flan-t5-base", "t5", "Seq2SeqLM",
     {**_FLAN, "d_model": 768, "d_ff": 2048, "num_layers": 12, "num_heads": 12}, "flan_base_multi"),
    ("google/flan-t5-large", "t5", "Seq2SeqLM", {**_FLAN, **_T5_LARGE, "d_ff": 2816}, "flan_large_multi"),
    ("facebook/bart-base", "bart", "Seq2SeqLM",
     {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
      "encoder_attention_heads": 12, "decoder_attention_heads": 12}, "bart_base_en"),
    ("facebook/bart-large", "bart", "Seq2SeqLM", {}, "bart_large_en"),
    ("facebook/bart-large-cnn", "bart", "Seq2SeqLM", {}, "bart_large_en_cnn"),
    ("facebook/opt-125m", "opt", "CausalLM", {}, "opt_125m_en"),
    ("bigscience/bloom-560m", "bloom", "CausalLM", {"vocab_size": 250880, "hidden_size": 1024, "n_layer": 24,
     "n_head": 16}, "bloom_560m_multi"),
    ("bigscience/bloom-3b", "bloom", "CausalLM", {"vocab_size": 250880, "hidden_size": 2560, "n_layer": 30,
     "n_head": 32}, "bloom_3b_multi"),
    ("openai/whisper-tiny", "whisper", "SpeechSeq2Seq", {}, "whisper_tiny_multi"),
    ("google/vit-base-patch16-224", "vit", "", {}, "vit_base_patch16_224_imagenet"),
    ("google/vit-large-patch16-224", "vit", "", _LARGE, "vit_large_patch16_224_imagenet"),
]  # fmt: skip


def main(downloads: Path) -> None:
    """Write the table; fail when a count does not agree with what a package states."""
    rows = [*litgpt_rows(downloads), *written_rows(downloads), *torchvision_rows(downloads)]
    unique = {str(row["id"]).lower(): row for row in reversed(rows)}
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(unique.values(), key=lambda row: str(row["id"]).lower()))
    print(f"{len(unique)} checkpoints")


def wheel(downloads: Path, name: str) -> tuple[zipfile.ZipFile, str]:
    """The wheel of a package in the folder, and its version."""
    path = next(downloads.glob(f"{name}-*.whl"))
    return zipfile.ZipFile(path), path.name.split("-")[1]


# --- litgpt --------------------------------------------------------------------------------------------------------


def litgpt_rows(downloads: Path) -> Iterator[Row]:
    """A row for each entry of litgpt's table that names a checkpoint on the Hub."""
    archive, version = wheel(downloads, "litgpt")
    module: dict[str, Any] = {"__name__": "litgpt_config"}
    fake = sys.modules["litgpt_config"] = type(sys)("litgpt_config")
    fake.__dict__.update(module)
    exec(compile(archive.read("litgpt/config.py"), "litgpt/config.py", "exec"), fake.__dict__)
    for entry in fake.configs:
        config = fake.Config(**entry)
        if "org" in config.hf_config:
            yield litgpt_row(config, version)


def litgpt_row(config: Any, version: str) -> Row:
    """Shapes of one litgpt configuration."""
    checkpoint = config.hf_config["name"]
    embedding = config.padded_vocab_size * config.n_embd
    body = sum(litgpt_layer(config)) * config.n_layer + norm_size(config)
    once, twice = body + embedding, body + 2 * embedding
    if config.lm_head_bias:
        once, twice = once + config.padded_vocab_size, twice + config.padded_vocab_size
    tied, why = tied_of(checkpoint, once, twice)
    return {
        "id": f"{config.hf_config['org']}/{checkpoint}",
        "aliases": config.name if config.name.lower() != checkpoint.lower() else "",
        "family": family_of(checkpoint),
        "block": block_of(config),
        "parameters": twice if tied is False else once,
        "layers": config.n_layer,
        "hidden": config.n_embd,
        "heads": config.n_head,
        "kv_heads": config.n_query_groups,
        "head_size": config.head_size,
        "intermediate": config.intermediate_size or config.moe_intermediate_size,
        "vocabulary": config.padded_vocab_size,
        "tied": "" if tied is None else "yes" if tied else "no",
        "experts": config.n_expert or "",
        "active_experts": config.n_expert_per_token or "",
        "source": f"litgpt {version} litgpt/config.py; tied: {why}",
    }


def block_of(config: Any) -> str:
    """The kind of block in `t4lint/memory/blocks.csv` that litgpt/model.py builds for a configuration."""
    if config.mlp_class_name == "GptNeoxMLP":
        return "phi" if config.lm_head_bias and config.bias else "gpt_neox"
    if config.mlp_class_name == "GemmaMLP":
        return "gemma3" if config.norm_qk else "gemma2" if config.post_attention_norm else "gemma"
    if config.norm_qk:
        return "qwen3" if config.norm_1 else "olmo2"
    return "llama"


def litgpt_layer(config: Any) -> Iterator[int]:
    """Parameters of one block: as litgpt/model.py builds it."""
    hidden, heads, groups, size = config.n_embd, config.n_head, config.n_query_groups, config.head_size
    qkv = (heads + 2 * groups) * size
    yield hidden * qkv + (qkv if config.bias or config.attn_bias else 0)
    yield heads * size * hidden + (hidden if config.bias else 0)
    if config.norm_qk:
        yield 2 * size if config.norm_qk_type == "default" else (heads + groups) * size
    norms = config.norm_1 + (config.norm_2 and not config.shared_attention_norm)
    yield (norms + config.post_attention_norm + config.post_mlp_norm) * norm_size(config)
    if config.mlp_class_name == "LLaMAMoE":
        yield config.n_expert * 3 * hidden * (config.moe_intermediate_size or config.intermediate_size)
        yield hidden * config.n_expert
        return
    wide = config.intermediate_size
    matrices = 2 if config.mlp_class_name == "GptNeoxMLP" else 3
    yield matrices * hidden * wide + ((matrices - 1) * wide + hidden if config.bias else 0)


def norm_size(config: Any) -> int:
    return int(config.n_embd) * (2 if config.norm_class_name == "LayerNorm" else 1)


def tied_of(checkpoint: str, once: int, twice: int) -> tuple[bool | None, str]:
    """Does the output layer share the embedding, and who says so; None when nothing does."""
    for pattern, answer, who in TIED:
        if re.search(pattern, checkpoint):
            return answer, who
    stated = re.search(r"(\d+\.\d+)[bB]|(\d+)[mM](?=-|$)", checkpoint)
    if stated:
        unit, text = (1e9, stated[1]) if stated[1] else (1e6, stated[2])
        digits = len(text.partition(".")[2])
        fits = [f"{count / unit:.{digits}f}" == text for count in (once, twice)]
        if fits[0] != fits[1]:
            return fits[0], "the size in the name"
    for pattern, name in CLASSES:
        if re.search(pattern, checkpoint):
            import transformers

            return bool(
                getattr(transformers, name)().tie_word_embeddings
            ), f"default of transformers {transformers.__version__} {name}"
    return None, "not stated"


def family_of(checkpoint: str) -> str:
    """The name's leading word: `Llama-2-7b-hf` → `llama`."""
    name = checkpoint.lower().removeprefix("meta-").removeprefix("deepseek-r1-distill-")
    known = ("tinyllama", "codellama", "codegemma", "mixtral", "mistral", "mathstral", "falcon", "pythia", "stablelm",
             "qwen", "gemma", "llama", "phi", "olmo", "smollm")  # fmt: skip
    return next((family for family in known if family in name), re.split(r"[-_\d]", name)[0])


# --- transformers, checked against keras-hub -----------------------------------------------------------------------


def written_rows(downloads: Path) -> Iterator[Row]:
    """Build each written shape on the meta device and hold it against the stated count."""
    import transformers

    archive, version = wheel(downloads, "keras_hub")
    stated = stated_counts(archive)
    for name, kind, head, given, preset in WRITTEN:
        config = transformers.AutoConfig.for_model(kind, **given)
        backbone, total = (count(config, auto) for auto in ("AutoModel", f"AutoModel{head and 'For' + head}"))
        untied = total + (count_embedding(config) if given.get("tie_word_embeddings") is False else 0)
        near = min((backbone, total, untied), key=lambda it: abs(it - stated[preset]))
        if abs(near - stated[preset]) > 0.01 * stated[preset]:
            raise SystemExit(f"{name}: built {near:,}, keras-hub states {stated[preset]:,}")
        row = written_row(name, kind, config, total)
        if untied != total:
            row["tied"] = ""
        built = f"transformers {transformers.__version__} {type(config).__name__}"
        row["source"] = f"{built}, size within 1 % of keras-hub {version} preset {preset}"
        yield row


def count(config: Any, auto: str) -> int:
    """Parameters of the model that an auto class builds, on the meta device; shared ones once."""
    import torch
    import transformers

    with torch.device("meta"):
        model = getattr(transformers, auto).from_config(config)
    return int(sum(parameter.numel() for parameter in model.parameters()))


def count_embedding(config: Any) -> int:
    return int(config.vocab_size * config.hidden_size)


def stated_counts(archive: zipfile.ZipFile) -> dict[str, int]:
    """The parameter count of each preset, from the source of keras-hub."""
    counts: dict[str, int] = {}
    for name in archive.namelist():
        if name.endswith("_presets.py"):
            for node in ast.walk(ast.parse(archive.read(name))):
                if isinstance(node, ast.Dict):
                    counts.update(preset_counts(node))
    return counts


def preset_counts(node: ast.Dict) -> Iterator[tuple[str, int]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(value, ast.Dict):
            for inner, metadata in zip(value.keys, value.values, strict=True):
                if isinstance(inner, ast.Constant) and inner.value == "metadata" and isinstance(metadata, ast.Dict):
                    for field, number in zip(metadata.keys, metadata.values, strict=True):
                        if isinstance(field, ast.Constant) and field.value == "params":
                            yield str(key.value), int(ast.literal_eval(number))


def written_row(name: str, kind: str, config: Any, parameters: int) -> Row:
    read = SimpleNamespace(**{**config.to_dict(), **{k: getattr(config, k) for k in config.attribute_map}})
    layers = int(getattr(read, "num_hidden_layers", 0) or getattr(read, "encoder_layers", 0))
    decoder = int(getattr(read, "num_decoder_layers", 0) or getattr(read, "decoder_layers", 0))
    heads = getattr(read, "num_attention_heads", 0)
    wide = next((getattr(read, k) for k in ("intermediate_size", "d_ff", "encoder_ffn_dim", "ffn_dim", "hidden_dim")
                 if getattr(read, k, None)), 4 * read.hidden_size)  # fmt: skip
    return {
        "id": name,
        "family": kind,
        "block": block_of_type(kind, read),
        "parameters": parameters,
        "layers": layers + decoder,
        "hidden": read.hidden_size,
        "heads": heads,
        "kv_heads": heads,
        "head_size": getattr(read, "d_kv", 0) or getattr(read, "head_dim", 0) or read.hidden_size // heads,
        "intermediate": wide,
        "vocabulary": getattr(read, "vocab_size", ""),
        "tied": "yes" if getattr(read, "tie_word_embeddings", False) else "no",
    }


def block_of_type(kind: str, read: Any) -> str:
    """The kind of block of a model_type; T5 v1.1 and FLAN have a gated MLP."""
    from t4lint.memory.blocks import kind_of

    return kind_of("mt5" if kind == "t5" and "gated" in read.feed_forward_proj else kind)


# --- torchvision ---------------------------------------------------------------------------------------------------


def torchvision_rows(downloads: Path) -> Iterator[Row]:
    """A row for each enumeration of weights: its name is the builder's, in other case."""
    archive, version = wheel(downloads, "torchvision")
    for name in archive.namelist():
        folder = re.match(r"torchvision/models/([a-z_]+/)?[a-z0-9_]+\.py$", name)
        if folder is None or folder[1] == "quantization/":
            continue
        for node in ast.walk(ast.parse(archive.read(name))):
            if isinstance(node, ast.ClassDef) and node.name.endswith("_Weights"):
                numbers = set(stated_parameters(node))
                if len(numbers) == 1:
                    yield {
                        "id": node.name.removesuffix("_Weights").lower(),
                        "family": "torchvision",
                        "parameters": numbers.pop(),
                        "source": f"torchvision {version} {name} {node.name}",
                    }


def stated_parameters(node: ast.ClassDef) -> Iterator[int]:
    for part in ast.walk(node):
        if isinstance(part, ast.Dict):
            for key, value in zip(part.keys, part.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "num_params" and isinstance(value, ast.Constant):
                    yield int(ast.literal_eval(value))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
