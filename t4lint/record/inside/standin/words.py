"""Made-up text, and a tokenizer for it that any text goes through."""

from __future__ import annotations

import json
import random
from typing import Any

SEED = 20
WORDS = 1500  # that text is made of
SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ka",
    "le",
    "mi",
    "no",
    "pu",
    "ra",
    "se",
    "ti",
    "vo",
    "zu",
    "an",
    "er",
    "is",
    "on",
    "ul",
)
BYTES = 256
LONGEST = 512  # tokens, of models that learn positions

# Special tokens of families, by role, in the order of their ids (transformers' own defaults for each tokenizer).
BERT = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
ROBERTA = {
    "bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>",
    "cls_token": "<s>", "sep_token": "</s>",
}  # fmt: skip
T5 = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
GPT2 = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
LLAMA = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
CHAT = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
CLIP = {
    "bos_token": "<|startoftext|>",
    "eos_token": "<|endoftext|>",
    "unk_token": "<|endoftext|>",
    "pad_token": "<|endoftext|>",
}
SPECIAL = {
    "bert": BERT, "distilbert": BERT, "electra": BERT, "deberta-v2": BERT, "roberta": ROBERTA, "xlm-roberta": ROBERTA,
    "bart": ROBERTA, "t5": T5, "gpt2": GPT2, "gpt_neox": GPT2, "qwen2": CHAT, "qwen3": CHAT, "qwen3_moe": CHAT,
    "clip_text_model": CLIP, "opt": ROBERTA, "whisper": GPT2,
}  # fmt: skip
# Around one text, and around two: as the families do it.
FRAMES = {
    "[PAD]": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
    "<pad>": ("$A </s>", "$A </s> $B </s>"),
    "<s>": ("<s> $A </s>", "<s> $A </s> </s> $B </s>"),
    "<unk>": ("<s> $A", "<s> $A $B"),
    "<|startoftext|>": ("<|startoftext|> $A <|endoftext|>", "<|startoftext|> $A $B <|endoftext|>"),
}
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{{ part['text'] if part['text'] is defined else '' }}{% endfor %}{% endif %}"
    "{{ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def words() -> list[str]:
    """The same ones each time."""
    chosen = random.Random(SEED)
    return sorted({"".join(chosen.choices(SYLLABLES, k=chosen.randint(1, 3))) for _ in range(2 * WORDS)})[:WORDS]


def sentence(chosen: random.Random, known: list[str], least: int = 5, most: int = 40) -> str:
    """Some words and a full stop."""
    return " ".join(chosen.choices(known, k=chosen.randint(least, most))).capitalize() + "."


UNIGRAM = frozenset(
    {"t5", "xlm-roberta", "deberta-v2", "mbart", "pegasus", "marian"}
)  # sentencepiece's own kind of model


def tokenizer(kind: str, size: int) -> dict[str, str]:
    """The files of a tokenizer with `size` entries for a kind of model: bytes, and the made-up words as one token each."""
    roles = SPECIAL.get(kind, LLAMA)
    specials = list(dict.fromkeys(roles.values()))
    library: Any = __import__("tokenizers")
    made = _pieces(library, specials) if kind in UNIGRAM else _merges(library, specials, size)
    _fill(made, size)
    frame = FRAMES.get(specials[0]) if kind not in ("gpt2", "opt") else None
    if frame is not None:
        ids = [(token, made.token_to_id(token)) for token in specials]
        single, pair = frame
        made.post_processor = library.processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)
    told: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **roles,
    }
    told["model_max_length"] = 77 if roles is CLIP else LONGEST if roles in (BERT, ROBERTA, T5) else 2048
    if roles in (CHAT, LLAMA):
        told["chat_template"] = TEMPLATE
    return {"tokenizer.json": made.to_str(), "tokenizer_config.json": json.dumps(told)}


def _merges(library: Any, specials: list[str], size: int) -> Any:
    """Bytes, put together as far as the words go."""
    byte_level = library.pre_tokenizers.ByteLevel
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = byte_level(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()
    learnt = max(min(size - len(specials), WORDS * 2 + BYTES), BYTES + len(specials))
    trainer = library.trainers.BpeTrainer(
        vocab_size=learnt, special_tokens=specials, show_progress=False, initial_alphabet=byte_level.alphabet()
    )
    made.train_from_iterator([" ".join(words())] * 2, trainer)
    return made


def _pieces(library: Any, specials: list[str]) -> Any:
    """The words as pieces, and letters."""
    letters = [chr(code) for code in range(33, 127)]
    pieces = [*((token, 0.0) for token in specials), ("\u2581", -2.0)]
    pieces += [(f"\u2581{word}", -3.0) for word in words()] + [(letter, -6.0) for letter in letters]
    made = library.Tokenizer(
        library.models.Unigram(pieces, unk_id=specials.index("<unk>") if "<unk>" in specials else 1)
    )
    made.pre_tokenizer = library.pre_tokenizers.Metaspace()
    made.decoder = library.decoders.Metaspace()
    return made


def _fill(made: Any, size: int) -> None:
    """As many entries as the model has rows, so that programs that compare the two see what they would."""
    missing = size - made.get_vocab_size()
    if missing > 0:
        made.add_tokens([f"<stand-in {number}>" for number in range(missing)])
