"""Columns of data sets that many programs train on, as their cards on the Hub have them.

Types: `text`, `words N` (a text of about N words), `int`, `float`, `label N` (one of N classes), `image`, `audio`, `list TYPE`,
`translation A B`, `answers` (of SQuAD), `turns` (a chat: a list of roles and contents), `choice` (not in use). A name may have a
configuration behind a colon. What a program asks for beyond this can be said with --columns.
"""

from __future__ import annotations

TRAIN_TEST = ("train", "test")
ALL = ("train", "validation", "test")
PAIR = {"sentence1": "text", "sentence2": "text", "label": "label 2", "idx": "int"}
QUESTION = {"id": "text", "title": "text", "context": "words 120", "question": "text", "answers": "answers"}
REVIEW = {"text": "words 200", "label": "label 2"}
PREFERENCE = {"prompt": "text", "chosen": "turns", "rejected": "turns"}
ALPACA = {"instruction": "text", "input": "text", "output": "words 60", "text": "words 120"}
SUMMARY = {"document": "words 300", "summary": "text", "id": "text"}

Columns = dict[str, str]
KNOWN: dict[str, tuple[tuple[str, ...], Columns]] = {
    # text classification
    "glue:mrpc": (ALL, PAIR), "glue:rte": (ALL, PAIR), "glue:wnli": (ALL, PAIR),
    "glue:stsb": (ALL, {**PAIR, "label": "float"}),
    "glue:sst2": (ALL, {"sentence": "text", "label": "label 2", "idx": "int"}),
    "glue:cola": (ALL, {"sentence": "text", "label": "label 2", "idx": "int"}),
    "glue:qqp": (ALL, {"question1": "text", "question2": "text", "label": "label 2", "idx": "int"}),
    "glue:qnli": (ALL, {"question": "text", "sentence": "text", "label": "label 2", "idx": "int"}),
    "glue:mnli": (
        ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched"),
        {"premise": "text", "hypothesis": "text", "label": "label 3", "idx": "int"},
    ),
    "imdb": (("train", "test", "unsupervised"), REVIEW), "rotten_tomatoes": (ALL, {"text": "text", "label": "label 2"}),
    "yelp_review_full": (TRAIN_TEST, {"label": "label 5", "text": "words 150"}),
    "yelp_polarity": (TRAIN_TEST, REVIEW), "amazon_polarity": (TRAIN_TEST, {"label": "label 2", "title": "text", "content": "words 80"}),
    "ag_news": (TRAIN_TEST, {"text": "text", "label": "label 4"}),
    "emotion": (ALL, {"text": "text", "label": "label 6"}), "sst2": (ALL, {"idx": "int", "sentence": "text", "label": "label 2"}),
    "dbpedia_14": (TRAIN_TEST, {"label": "label 14", "title": "text", "content": "words 50"}),
    "tweet_eval": (ALL, {"text": "text", "label": "label 3"}), "banking77": (TRAIN_TEST, {"text": "text", "label": "label 77"}),
    "xnli": (ALL, {"premise": "text", "hypothesis": "text", "label": "label 3"}),
    "snli": (ALL, {"premise": "text", "hypothesis": "text", "label": "label 3"}),
    # tokens and answers
    "conll2003": (
        ALL,
        {"id": "text", "tokens": "list text", "pos_tags": "list label 47", "chunk_tags": "list label 23", "ner_tags": "list label 9"},
    ),
    "wnut_17": (ALL, {"id": "text", "tokens": "list text", "ner_tags": "list label 13"}),
    "squad": (("train", "validation"), QUESTION), "squad_v2": (("train", "validation"), QUESTION),
    "swag": (
        ALL,
        {
            "video-id": "text", "fold-ind": "text", "startphrase": "text", "sent1": "text", "sent2": "text",
            "gold-source": "text", "ending0": "text", "ending1": "text", "ending2": "text", "ending3": "text",
            "label": "label 4",
        },
    ),
    # text to go on with
    "wikitext": (ALL, {"text": "words 90"}), "ptb_text_only": (ALL, {"sentence": "text"}), "wikipedia": (("train",), {
        "id": "text", "url": "text", "title": "text", "text": "words 400"}),
    "bookcorpus": (("train",), {"text": "text"}), "openwebtext": (("train",), {"text": "words 500"}),
    "c4": (("train", "validation"), {"text": "words 300", "timestamp": "text", "url": "text"}),
    "tiny_shakespeare": (ALL, {"text": "words 20000"}), "tinystories": (("train", "validation"), {"text": "words 150"}),
    "eli5_category": (ALL, {"q_id": "text", "title": "text", "selftext": "text", "text": "words 100"}),
    "english_quotes": (("train",), {"quote": "text", "author": "text", "tags": "list text"}),
    "the_pile": (("train",), {"text": "words 400"}), "fineweb": (("train",), {"text": "words 400", "id": "text"}),
    # translation and summaries
    "wmt16:ro-en": (ALL, {"translation": "translation ro en"}), "wmt16:de-en": (ALL, {"translation": "translation de en"}),
    "wmt14:de-en": (ALL, {"translation": "translation de en"}),
    "opus_books:en-fr": (("train",), {"id": "text", "translation": "translation en fr"}),
    "kde4": (("train",), {"id": "text", "translation": "translation en fr"}),
    "cnn_dailymail": (ALL, {"article": "words 500", "highlights": "words 50", "id": "text"}),
    "xsum": (ALL, SUMMARY), "samsum": (ALL, {"id": "text", "dialogue": "words 100", "summary": "text"}),
    "billsum": (("train", "test", "ca_test"), {"text": "words 600", "summary": "words 100", "title": "text"}),
    "gigaword": (ALL, {"document": "text", "summary": "text"}),
    # instructions, chats, preferences
    "alpaca": (("train",), ALPACA), "alpaca-cleaned": (("train",), {name: ALPACA[name] for name in ("output", "input", "instruction")}),
    "databricks-dolly-15k": (("train",), {"instruction": "text", "context": "words 60", "response": "words 60", "category": "text"}),
    "openassistant-guanaco": (TRAIN_TEST, {"text": "words 200"}), "guanaco-llama2-1k": (("train",), {"text": "words 200"}),
    "ultrachat_200k": (("train_sft", "test_sft", "train_gen", "test_gen"), {"prompt": "text", "prompt_id": "text", "messages": "turns"}),
    "capybara": (TRAIN_TEST, {"source": "text", "messages": "turns", "num_turns": "int"}),
    "ultrafeedback_binarized": (TRAIN_TEST, {"chosen": "turns", "rejected": "turns", "score_chosen": "float", "score_rejected": "float"}),
    "hh-rlhf": (TRAIN_TEST, {"chosen": "words 120", "rejected": "words 120"}),
    "hh-rlhf-helpful-base": (TRAIN_TEST, PREFERENCE), "zen": (TRAIN_TEST, {"text": "text"}),
    "tldr": (ALL, {"prompt": "words 200", "completion": "text"}), "gsm8k": (TRAIN_TEST, {"question": "text", "answer": "words 60"}),
    "oasst1": (("train", "validation"), {"message_id": "text", "text": "words 80", "role": "text", "lang": "text"}),
    "medical-o1-reasoning-sft": (("train",), {"Question": "text", "Complex_CoT": "words 300", "Response": "words 100"}),
    "twitter_complaints": (TRAIN_TEST, {"Tweet text": "text", "ID": "int", "Label": "label 3"}),
    "raft:twitter_complaints": (TRAIN_TEST, {"Tweet text": "text", "ID": "int", "Label": "label 3"}),
    "financial_phrasebank": (("train",), {"sentence": "text", "label": "label 3"}),
    # pictures
    "mnist": (TRAIN_TEST, {"image": "image", "label": "label 10"}), "fashion_mnist": (TRAIN_TEST, {"image": "image", "label": "label 10"}),
    "cifar10": (TRAIN_TEST, {"img": "image", "label": "label 10"}),
    "cifar100": (TRAIN_TEST, {"img": "image", "fine_label": "label 100", "coarse_label": "label 20"}),
    "beans": (ALL, {"image_file_path": "text", "image": "image", "labels": "label 3"}),
    "food101": (("train", "validation"), {"image": "image", "label": "label 101"}),
    "imagenet-1k": (ALL, {"image": "image", "label": "label 1000"}),
    "imagenette": (("train", "validation"), {"image": "image", "label": "label 10"}),
    "cats_vs_dogs": (("train",), {"image": "image", "labels": "label 2"}),
    "tiny-imagenet": (("train", "valid"), {"image": "image", "label": "label 200"}),
    "pokemon-blip-captions": (("train",), {"image": "image", "text": "text"}),
    "naruto-blip-captions": (("train",), {"image": "image", "text": "text"}),
    "flowers-102-categories": (("train",), {"image": "image"}), "smithsonian_butterflies_subset": (("train",), {
        "image": "image", "name": "text"}),
    "scene_parse_150": (ALL, {"image": "image", "annotation": "image", "scene_category": "label 1055"}),
    # sound
    "minds14": (("train",), {"path": "text", "audio": "audio", "transcription": "text", "intent_class": "label 14"}),
    "superb:ks": (ALL, {"file": "text", "audio": "audio", "label": "label 12"}),
    "common_voice": (ALL, {"audio": "audio", "sentence": "text"}),
    "librispeech_asr": (ALL, {"file": "text", "audio": "audio", "text": "text", "id": "text"}),
}  # fmt: skip
# Other names of the same.
ALIASES = {
    "common_voice_11_0": "common_voice", "common_voice_13_0": "common_voice", "guanaco": "openassistant-guanaco",
    "wikitext-2-raw-v1": "wikitext", "imagenet_1k": "imagenet-1k", "shakespeare": "tiny_shakespeare",
    "lambdalabs-pokemon-blip-captions": "pokemon-blip-captions", "openassistant_oasst1": "oasst1",
    "trl-lib-tldr": "tldr", "stanfordnlp-imdb": "imdb", "squad2": "squad_v2", "food-101": "food101",
}  # fmt: skip


def of(name: str, configuration: str | None) -> tuple[tuple[str, ...], Columns] | None:
    """Splits and columns of a data set, by its name without the organisation; None where they are not known."""
    short = name.rstrip("/").rpartition("/")[2].lower()
    short = ALIASES.get(short, short)
    found = KNOWN.get(f"{short}:{configuration}") or KNOWN.get(short)
    if found is None and configuration is None:
        named = [known for known in KNOWN if known.startswith(f"{short}:")]
        found = KNOWN[named[0]] if named else None
    return found
