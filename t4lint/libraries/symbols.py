"""Names that libraries had and have no more: a program that uses one ends where it imports it.

What took their place, and when, is in the table of the rule `removed-argument`.
"""

from __future__ import annotations

from t4lint.interpret.values import Const
from t4lint.libraries.api import Call
from t4lint.trace import Call as CallEvent

GONE = frozenset({
    "transformers.AdamW", "transformers.AutoModelWithLMHead", "transformers.AutoModelForVision2Seq",
    *(
        f"transformers.{name}FeatureExtractor"
        for name in (
            "ViT", "Segformer", "Detr", "Beit", "CLIP", "ConvNext", "DeiT", "DPT", "VideoMAE", "Yolos", "Donut", "LayoutLMv2", "LayoutLMv3",
            "MaskFormer", "Vilt",
        )
    ),
    *(
        f"trl.{name}"
        for name in (
            "ORPOTrainer", "ORPOConfig", "CPOTrainer", "CPOConfig", "PPOTrainer", "PPOConfig", "BCOTrainer", "BCOConfig", "GKDTrainer",
            "GKDConfig", "OnlineDPOTrainer", "OnlineDPOConfig", "AutoModelForCausalLMWithValueHead",
            "AutoModelForSeq2SeqLMWithValueHead", "DataCollatorForCompletionOnlyLM", "setup_chat_format", "DDPOTrainer", "DDPOConfig",
            "IterativeSFTTrainer", "PPOv2Trainer", "PPOv2Config",
        )
    ),
    "datasets.load_metric", "peft.prepare_model_for_int8_training",
})  # fmt: skip
TOKENIZER = "transformers.PreTrainedTokenizerBase"
# methods that tokenizers of transformers 4 had
GONE_METHODS = frozenset({"encode_plus", "batch_encode_plus", "as_target_tokenizer", "prepare_seq2seq_batch"})
LOADERS = (".from_pretrained", ".from_config")


def say_gone(call: Call) -> None:
    """A name of a library is called that not every version has: by its own name, or in a module of the library."""
    name = call.name
    for loader in LOADERS:
        name = name.removesuffix(loader)
    top, _, rest = name.partition(".")
    module, _, last = rest.rpartition(".")
    if f"{top}.{last}" in GONE and module.count(".") == 0 and module != "experimental":
        say_symbol(call, top, last)


def say_symbol(call: Call, library: str, name: str) -> None:
    """Not where the import may have another way out."""
    from t4lint.libraries.torch_distributed import mentioned

    if not mentioned(call.machine, "ImportError", "AttributeError"):
        call.machine.emit(
            CallEvent, "symbol", function=f"{library}.{name}", arguments={name.rpartition(".")[2]: Const(None)}
        )
