"""Build `t4lint/memory/checkpoints.csv` from what published packages state about checkpoints.

    python scripts/build_checkpoints.py DOWNLOADS

DOWNLOADS is a folder with the wheels of litgpt (0.4.0 too, whose table has models that later ones dropped), torchvision,
torchtune and keras-hub (`pip download --no-deps`); nothing of them is imported but litgpt's table. transformers and torch must
be installed. These kinds of rows come out:

* language models of litgpt's table: their padded vocabulary is the row count of the checkpoint's own embedding, because
  litgpt loads the checkpoint into it; parameters are counted from the same shapes as litgpt's modules have;
* models whose shape is written in this file: the model is built by transformers on the meta device, and its size must be
  within 1 % of the parameter count that keras-hub states for the same checkpoint, else the build stops; or within 3 % of the
  rounded count that the named file states or that is in the checkpoint's name;
* Qwen 2, as torchtune builds it, on the meta device too;
* checkpoints that were trained on from another one, and so have its shape, by who says so;
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
    (r"(stablelm|stablecode)-.*alpha|dolly|RedPajama", "GPTNeoXConfig"),
    (r"stablelm|stable-code", "StableLmConfig"),
    (r"[Ll]lama|vicuna|longchat|Nous-Hermes|Platypus|FreeWilly|Falcon3|salamandra", "LlamaConfig"),
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
_T5_SMALL_GATED = {"d_model": 512, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "d_kv": 64}
_T5_BASE_GATED = {"d_model": 768, "d_ff": 2048, "num_layers": 12, "num_heads": 12}
_T5_XL = {"d_model": 2048, "d_ff": 5120, "num_layers": 24, "num_heads": 32}
_T5_XXL = {"d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64}
_GEMMA3_270M = {"vocab_size": 262144, "hidden_size": 640, "intermediate_size": 2048, "num_hidden_layers": 18,
                "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256}  # fmt: skip


def _bert(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
    }


def _opt(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "ffn_dim": 4 * hidden,
            "word_embed_proj_dim": hidden}  # fmt: skip


def _bloom(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {"vocab_size": 250880, "hidden_size": hidden, "n_layer": layers, "n_head": heads}


def _whisper(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {"d_model": hidden, "encoder_layers": layers, "decoder_layers": layers, "encoder_ffn_dim": 4 * hidden,
            "decoder_ffn_dim": 4 * hidden, "encoder_attention_heads": heads, "decoder_attention_heads": heads}  # fmt: skip


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
    ("facebook/opt-1.3b", "opt", "CausalLM", _opt(2048, 24, 32), "opt_1.3b_en"),
    ("facebook/opt-6.7b", "opt", "CausalLM", _opt(4096, 32, 32), "opt_6.7b_en"),
    *((f"bigscience/{name}-{size}", "bloom", "CausalLM", _bloom(*shape), f"{name}_{preset}_multi") for name in ("bloom", "bloomz")
      for size, preset, shape in (("560m", "560m", (1024, 24, 16)), ("1b1", "1.1b", (1536, 24, 16)), ("1b7", "1.7b", (2048, 24, 16)),
                                  ("3b", "3b", (2560, 30, 32)))),
    ("openai/whisper-tiny", "whisper", "SpeechSeq2Seq", {}, "whisper_tiny_multi"),
    ("openai/whisper-base", "whisper", "SpeechSeq2Seq", _whisper(512, 6, 8), "whisper_base_multi"),
    ("openai/whisper-small", "whisper", "SpeechSeq2Seq", _whisper(768, 12, 12), "whisper_small_multi"),
    ("openai/whisper-medium", "whisper", "SpeechSeq2Seq", _whisper(1024, 24, 16), "whisper_medium_multi"),
    ("openai/whisper-large", "whisper", "SpeechSeq2Seq", _whisper(1280, 32, 20), "whisper_large_multi"),
    ("openai/whisper-large-v2", "whisper", "SpeechSeq2Seq", _whisper(1280, 32, 20), "whisper_large_multi_v2"),
    ("google/vit-base-patch16-224", "vit", "", {}, "vit_base_patch16_224_imagenet"),
    ("google/vit-large-patch16-224", "vit", "", _LARGE, "vit_large_patch16_224_imagenet"),
    ("google/vit-base-patch16-224-in21k", "vit", "", {}, "vit_base_patch16_224_imagenet21k"),
    ("google/vit-large-patch16-224-in21k", "vit", "", _LARGE, "vit_large_patch16_224_imagenet21k"),
    ("prajjwal1/bert-tiny", "bert", "", _bert(128, 2, 2), "bert_tiny_en_uncased"),
    ("prajjwal1/bert-small", "bert", "", _bert(512, 4, 8), "bert_small_en_uncased"),
    ("prajjwal1/bert-medium", "bert", "", _bert(512, 8, 8), "bert_medium_en_uncased"),
    ("BAAI/bge-small-en-v1.5", "bert", "", _bert(384, 12, 12), "bge_small_v1.5_en"),
    ("BAAI/bge-base-zh-v1.5", "bert", "", {"vocab_size": 21128}, "bge_base_v1.5_zh"),
    ("BAAI/bge-large-zh-v1.5", "bert", "", {**_LARGE, "vocab_size": 21128}, "bge_large_v1.5_zh"),
    ("BAAI/bge-m3", "xlm-roberta", "", {**_LARGE, **_ROBERTA, "max_position_embeddings": 8194, "vocab_size": 250002}, "bge_m3"),
    ("intfloat/multilingual-e5-base", "xlm-roberta", "", {**_ROBERTA, "vocab_size": 250002}, "multilingual_e5_base"),
    ("intfloat/multilingual-e5-large", "xlm-roberta", "", {**_LARGE, **_ROBERTA, "vocab_size": 250002}, "multilingual_e5_large"),
    ("sentence-transformers/paraphrase-MiniLM-L6-v2", "bert", "", _bert(384, 6, 12), "paraphrase_minilm_l6_v2_en"),
    ("google/electra-small-discriminator", "electra", "", {**_bert(256, 12, 4), "embedding_size": 128},
     "electra_small_discriminator_uncased_en"),
    ("google/t5-v1_1-small", "t5", "Seq2SeqLM", {**_FLAN, **_T5_SMALL_GATED}, "t5_1.1_small"),
    ("google/t5-v1_1-base", "t5", "Seq2SeqLM", {**_FLAN, **_T5_BASE_GATED}, "t5_1.1_base"),
    ("google/t5-v1_1-large", "t5", "Seq2SeqLM", {**_FLAN, **_T5_LARGE, "d_ff": 2816}, "t5_1.1_large"),
    ("google/t5-v1_1-xl", "t5", "Seq2SeqLM", {**_FLAN, **_T5_XL}, "t5_1.1_xl"),
    ("google/flan-t5-xl", "t5", "Seq2SeqLM", {**_FLAN, **_T5_XL}, "t5_1.1_xl"),
    ("google/flan-t5-xxl", "t5", "Seq2SeqLM", {**_FLAN, **_T5_XXL}, "t5_1.1_xxl"),
    ("google/gemma-3-270m", "gemma3_text", "CausalLM", _GEMMA3_270M, "gemma3_270m"),
    ("google/gemma-3-270m-it", "gemma3_text", "CausalLM", _GEMMA3_270M, "gemma3_instruct_270m"),
    ("HuggingFaceTB/SmolLM3-3B", "smollm3", "CausalLM", {}, "smollm3_3b_en"),
]  # fmt: skip

# Written here, checked against a rounded count: of the file that is named, or in the checkpoint's own name.
_DISTILLED = "huggingface/transformers examples/research_projects/distillation"
_DEBERTA_1 = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0, "position_biased_input": False,
              "vocab_size": 50265}  # fmt: skip
ROUNDED: list[tuple[str, str, str, dict[str, Any], float, str]] = [
    ("distilbert/distilgpt2", "gpt2", "CausalLM", {"n_layer": 6}, 82e6,
     f"{_DISTILLED}/training_configs/distilgpt2.json; 82 million by its card"),
    ("distilbert/distilroberta-base", "roberta", "", {**_ROBERTA, "vocab_size": 50265, "num_hidden_layers": 6}, 82e6,
     f"{_DISTILLED}/training_configs/distilroberta-base.json; 82 million by its card"),
    ("EleutherAI/gpt-neo-1.3B", "gpt_neo", "CausalLM", {}, 1.3e9, "defaults of transformers' GPTNeoConfig"),
    ("EleutherAI/gpt-neo-2.7B", "gpt_neo", "CausalLM", {"hidden_size": 2560, "num_layers": 32, "num_heads": 20,
     "attention_types": [[["global", "local"], 16]]}, 2.7e9, "EleutherAI/gpt-neo configs/gpt3_2-7B_256.json"),
    ("EleutherAI/gpt-j-6B", "gptj", "CausalLM", {}, 6e9, "defaults of transformers' GPTJConfig"),
    ("bigscience/bloom-7b1", "bloom", "CausalLM", _bloom(4096, 30, 32), 7.1e9, "the size in the name"),
    ("bigscience/bloomz-7b1", "bloom", "CausalLM", _bloom(4096, 30, 32), 7.1e9, "the size in the name"),
    ("facebook/opt-2.7b", "opt", "CausalLM", _opt(2560, 32, 32), 2.7e9, "the size in the name"),
    ("google/mt5-small", "mt5", "Seq2SeqLM", {"tie_word_embeddings": False}, 300e6,
     "defaults of transformers' MT5Config; the paper's 300 million"),
    ("google/mt5-base", "mt5", "Seq2SeqLM", {**_T5_BASE_GATED, "vocab_size": 250112, "tie_word_embeddings": False}, 580e6,
     "the paper's 580 million"),
    ("microsoft/deberta-base", "deberta", "", _DEBERTA_1, 139e6,
     "microsoft/DeBERTa README.md: 100 million beside a vocabulary of 50K"),
    ("microsoft/deberta-large", "deberta", "", {**_LARGE, **_DEBERTA_1}, 401e6,
     "microsoft/DeBERTa README.md: 350 million beside a vocabulary of 50K"),
    ("answerdotai/ModernBERT-base", "modernbert", "", {}, 149e6, "its config.json; 149 million by its card"),
    ("answerdotai/ModernBERT-large", "modernbert", "",
     {"hidden_size": 1024, "intermediate_size": 2624, "num_hidden_layers": 28, "num_attention_heads": 16}, 395e6,
     "its config.json; 395 million by its card"),
    ("microsoft/mpnet-base", "mpnet", "", {}, 110e6, "defaults of transformers' MPNetConfig; 420 MiB in float32 by sbert.net"),
    ("sentence-transformers/all-mpnet-base-v2", "mpnet", "", {}, 110e6,
     "defaults of transformers' MPNetConfig; 420 MiB in float32 by sbert.net"),
]  # fmt: skip

# A checkpoint, that whose training it went on from, other names of it, and who says so.
_VICUNA = "lm-sys/FastChat docs/vicuna_weights_version.md: v1.3 is LLaMA 1 trained on, without new tokens"
_DISTILL = "deepseek-ai/DeepSeek-R1 README.md"
COPIES = [
    ("huggyllama/llama-7b", "lmsys/vicuna-7b-v1.3", "llama-7b-hf", _VICUNA),
    ("huggyllama/llama-13b", "lmsys/vicuna-13b-v1.3", "llama-13b-hf", _VICUNA),
    ("huggyllama/llama-30b", "lmsys/vicuna-33b-v1.3", "llama-30b-hf", _VICUNA),
    ("HuggingFaceH4/zephyr-7b-beta", "mistralai/Mistral-7B-v0.1", "zephyr-7b-alpha zephyr-7b-sft-full",
     "huggingface/alignment-handbook recipes/zephyr-7b-beta/sft/config_full.yaml"),
    ("facebook/bart-large-mnli", "facebook/bart-large", "", "facebookresearch/fairseq examples/bart/README.md"),
    ("facebook/bart-large-xsum", "facebook/bart-large", "", "facebookresearch/fairseq examples/bart/README.md"),
    ("microsoft/DialoGPT-small", "openai-community/gpt2", "", "microsoft/DialoGPT README.md: 117M"),
    ("microsoft/DialoGPT-medium", "openai-community/gpt2-medium", "", "microsoft/DialoGPT README.md: 345M"),
    *((f"openai/whisper-{size}.en", f"openai/whisper-{size}", "", "openai/whisper README.md: the same sizes") for size in
      ("tiny", "base", "small", "medium")),
    ("dslim/bert-base-NER", "google-bert/bert-base-cased", "", "its card"),
    ("Qwen/Qwen3-Embedding-0.6B", "Qwen/Qwen3-0.6B", "", "QwenLM/Qwen3-Embedding README.md: from Qwen3"),
    ("Qwen/Qwen3-Embedding-4B", "Qwen/Qwen3-4B", "", "QwenLM/Qwen3-Embedding README.md: from Qwen3"),
    # Their output layer is not shared where that of the model below may be: the count is a lower bound.
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "Qwen/Qwen2.5-Math-1.5B", "", _DISTILL),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen/Qwen2.5-Math-7B", "", _DISTILL),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "Qwen/Qwen2.5-14B", "", _DISTILL),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "Qwen/Qwen2.5-32B", "", _DISTILL),
]  # fmt: skip


def main(downloads: Path) -> None:
    """Write the table; fail when a count does not agree with what a package states."""
    rows = [*litgpt_rows(downloads), *written_rows(downloads), *rounded_rows(), *torchtune_rows(downloads)]
    rows += [*copied_rows({row["id"]: row for row in reversed(rows)}), *torchvision_rows(downloads)]
    unique = {str(row["id"]).lower(): row for row in reversed(rows)}
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(unique.values(), key=lambda row: str(row["id"]).lower()))
    print(f"{len(unique)} checkpoints")


def wheels(downloads: Path, name: str) -> list[tuple[zipfile.ZipFile, str]]:
    """The wheels of a package in the folder, the newest first, and their versions."""
    paths = {path.name.split("-")[1]: path for path in downloads.glob(f"{name}-*.whl")}
    ordered = sorted(paths, key=lambda version: [int(part) for part in version.split(".")], reverse=True)
    return [(zipfile.ZipFile(paths[version]), version) for version in ordered]


def wheel(downloads: Path, name: str) -> tuple[zipfile.ZipFile, str]:
    """The newest wheel of a package in the folder, and its version."""
    return wheels(downloads, name)[0]


# --- litgpt --------------------------------------------------------------------------------------------------------


def litgpt_rows(downloads: Path) -> Iterator[Row]:
    """A row for each entry of litgpt's tables that names a checkpoint on the Hub; older tables for what newer ones dropped."""
    seen = set()
    fields: Any = None
    for archive, version in wheels(downloads, "litgpt"):
        module = litgpt_table(archive)
        fields = fields or module.Config  # the newest knows the fields of all
        for entry in module.configs:
            name = entry.get("hf_config", {}).get("name")
            if name not in seen and "org" in entry.get("hf_config", {}) and "{}" not in name:
                seen.add(name)
                yield litgpt_row(fields(**entry), version)


def litgpt_table(archive: zipfile.ZipFile) -> Any:
    """litgpt's module of configurations, without the rest of litgpt, which the table does not need."""
    fake = sys.modules["litgpt_config"] = type(sys)("litgpt_config")
    tree = ast.parse(archive.read("litgpt/config.py"))
    tree.body = [
        it for it in tree.body if not (isinstance(it, (ast.Import, ast.ImportFrom)) and "litgpt" in ast.unparse(it))
    ]
    exec(compile(tree, "litgpt/config.py", "exec"), fake.__dict__)
    return fake


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


def rounded_rows() -> Iterator[Row]:
    """The same for shapes of which a rounded count is stated."""
    import transformers

    for name, kind, head, given, stated, where in ROUNDED:
        config = transformers.AutoConfig.for_model(kind, **given)
        total = count(config, f"AutoModel{head and 'For' + head}")
        untied = total + (count_embedding(config) if given.get("tie_word_embeddings") is False else 0)
        if min(abs(total - stated), abs(untied - stated)) > 0.03 * stated:
            raise SystemExit(f"{name}: built {total:,}, stated {stated:,}")
        row = written_row(name, kind, config, total)
        if untied != total:
            row["tied"] = ""
        row["source"] = f"transformers {transformers.__version__} {type(config).__name__}: {where}"
        yield row


def torchtune_rows(downloads: Path) -> Iterator[Row]:
    """Qwen 2, from the keywords of torchtune's builders."""
    import transformers

    archive, version = wheel(downloads, "torchtune")
    file = "torchtune/models/qwen2/_model_builders.py"
    for node in ast.parse(archive.read(file)).body:
        size = re.fullmatch(r"qwen2_(\d+)(?:_(\d+))?b", node.name) if isinstance(node, ast.FunctionDef) else None
        built = next(
            (it for it in ast.walk(node) if isinstance(it, ast.Call) and getattr(it.func, "id", "") == "qwen2"), None
        )
        if size is None or built is None:
            continue
        said = {it.arg: it.value.value for it in built.keywords if isinstance(it.value, ast.Constant)}
        config = transformers.Qwen2Config(
            vocab_size=said["vocab_size"], hidden_size=said["embed_dim"], num_hidden_layers=said["num_layers"],
            num_attention_heads=said["num_heads"], num_key_value_heads=said["num_kv_heads"],
            intermediate_size=said["intermediate_dim"], tie_word_embeddings=said.get("tie_word_embeddings", False),
        )  # fmt: skip
        total = count(config, "AutoModelForCausalLM")
        for ending in ("", "-Instruct"):
            name = f"Qwen/Qwen2-{'.'.join(filter(None, size.groups()))}B{ending}"
            yield {**written_row(name, "qwen2", config, total), "source": f"torchtune {version} {file}"}


def copied_rows(rows: dict[str, Row]) -> Iterator[Row]:
    """Checkpoints with the shape of another."""
    for name, original, aliases, who in COPIES:
        row = {
            **rows[original],
            "id": name,
            "aliases": aliases,
            "family": family_of(name.partition("/")[2]),
            "source": f"as {original}: {rows[original]['source']}; {who}",
        }
        if who == _DISTILL and row["tied"] == "yes":
            row["tied"] = ""
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
        "kv_heads": getattr(read, "num_key_value_heads", None) or heads,
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
