"""Rows of made-up data, of columns with the types that `columns` lists."""

from __future__ import annotations

import io
import random
from typing import Any

from . import words

ROWS = 2048  # of a split of text; of pictures and sounds fewer, which are larger
HEAVY_ROWS = 256
PICTURES = 8  # different ones
SIDE = 256  # pixels
RATE, SECONDS = 16_000, 2  # of a sound
HEAVY = ("image", "audio")


class BadTypeError(ValueError):
    """A type that nobody knows."""


def count(columns: dict[str, str]) -> int:
    """How many rows to make."""
    return HEAVY_ROWS if any(kind.startswith(HEAVY) for kind in columns.values()) else ROWS


def made(columns: dict[str, str], rows: int, seed: int) -> dict[str, list[Any]]:
    """Values by column."""
    chosen, known = random.Random(seed), words.words()
    return {name: [value(kind, chosen, known) for _ in range(rows)] for name, kind in columns.items()}


def value(kind: str, chosen: random.Random, known: list[str]) -> Any:
    """One value of a type."""
    name, _, more = kind.partition(" ")
    if name == "text":
        return words.sentence(chosen, known)
    if name == "words":
        length = int(more)
        return words.sentence(chosen, known, max(1, length // 2), length * 3 // 2)
    if name == "label":
        return chosen.randrange(int(more))
    if name == "int":
        return chosen.randrange(1000)
    if name == "float":
        return round(chosen.random() * 5, 3)
    if name == "list":
        return [_element(more, chosen, known) for _ in range(chosen.randint(5, 25))]
    if name in COMPOSED:
        return COMPOSED[name](more, chosen, known)
    raise BadTypeError(f"{kind!r} is no type of a column")


def _element(kind: str, chosen: random.Random, known: list[str]) -> Any:
    return chosen.choice(known) if kind == "text" else value(kind, chosen, known)


def _translation(languages: str, chosen: random.Random, known: list[str]) -> Any:
    return {language: words.sentence(chosen, known) for language in languages.split()}


def _answers(more: str, chosen: random.Random, known: list[str]) -> Any:
    """They stand at the start of any text that is long enough."""
    return {"text": [chosen.choice(known)], "answer_start": [chosen.randrange(20)]}


def _turns(more: str, chosen: random.Random, known: list[str]) -> Any:
    roles = ("user", "assistant") * chosen.randint(1, 3)
    return [{"role": role, "content": words.sentence(chosen, known)} for role in roles]


def _image(more: str, chosen: random.Random, known: list[str]) -> Any:
    return {"bytes": picture(chosen.randrange(PICTURES)), "path": None}


def _audio(more: str, chosen: random.Random, known: list[str]) -> Any:
    return {"bytes": sound(chosen.randrange(PICTURES)), "path": None}


COMPOSED = {"translation": _translation, "answers": _answers, "turns": _turns, "image": _image, "audio": _audio}
_files: dict[tuple[str, int], bytes] = {}


def picture(number: int) -> bytes:
    """A PNG of colours in squares, by Pillow, which a program that reads pictures has."""
    if ("picture", number) not in _files:
        image: Any = __import__("PIL.Image").Image
        chosen = random.Random(number)
        small = image.frombytes("RGB", (8, 8), chosen.randbytes(8 * 8 * 3))
        stream = io.BytesIO()
        small.resize((SIDE, SIDE)).save(stream, "PNG")
        _files["picture", number] = stream.getvalue()
    return _files["picture", number]


def sound(number: int) -> bytes:
    """A WAV of noise, 16 bits, one channel."""
    import wave

    if ("sound", number) not in _files:
        stream = io.BytesIO()
        with wave.open(stream, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(random.Random(number).randbytes(2 * RATE * SECONDS))
        _files["sound", number] = stream.getvalue()
    return _files["sound", number]
