"""Write small random data where scripts of public repositories look for the real ones, so that they run offline.

    python scripts/synthetic_data.py mnist FOLDER | text FOLDER | characters FOLDER | pictures FOLDER | lines FILE

`mnist`: MNIST as torchvision stores it (FOLDER/MNIST/raw); `text`: train.txt, valid.txt and test.txt of made-up words;
`characters`: train.bin, val.bin and meta.pkl as nanoGPT prepares them; `pictures`:
train, val and test with a folder for each class; `lines`: JSON lines with a `text` of made-up words. For
scripts/differential.py and scripts/reach.py.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import struct
import zlib
from pathlib import Path

SEED = 0
IMAGES = 256  # of each part; the real set has 60,000 and 10,000
SIDE = 28  # pixels
# magic numbers of the IDX format: unsigned bytes in three dimensions, and in one
THREE, ONE = 0x00000803, 0x00000801
CLASSES = 10  # of pictures
LETTERS = "abcdefghijklmnopqrstuvwxyz ,.\n"


def mnist(folder: Path) -> None:
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        pixels = random.randbytes(IMAGES * SIDE * SIDE)
        labels = bytes(random.randrange(10) for _ in range(IMAGES))
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", THREE, IMAGES, SIDE, SIDE) + pixels)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", ONE, IMAGES) + labels)


def text(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    words = ["".join(random.choices(LETTERS[:26], k=random.randint(1, 8))) for _ in range(200)]
    for name in ("train", "valid", "test"):
        lines = [" ".join(random.choices(words, k=20)) for _ in range(400)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def characters(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train", "val"):
        numbers = [random.randrange(len(LETTERS)) for _ in range(20_000)]
        (folder / f"{name}.bin").write_bytes(struct.pack(f"<{len(numbers)}H", *numbers))
    meta = {
        "vocab_size": len(LETTERS),
        "itos": dict(enumerate(LETTERS)),
        "stoi": {letter: number for number, letter in enumerate(LETTERS)},
    }
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def pictures(folder: Path) -> None:
    for part in ("train", "val", "test"):
        for label in range(CLASSES):
            inner = folder / part / f"class_{label}"
            inner.mkdir(parents=True, exist_ok=True)
            for number in range(16):
                (inner / f"{number}.png").write_bytes(_png(64))


def lines(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    words = ["".join(random.choices(LETTERS[:26], k=random.randint(1, 8))) for _ in range(200)]
    rows = [{"text": " ".join(random.choices(words, k=random.randint(20, 200)))} for _ in range(64)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _png(side: int) -> bytes:
    """Noise in colour. Format: ISO/IEC 15948, 8 bits a channel, no filter."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + random.randbytes(3 * side) for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


KINDS = {"mnist": mnist, "text": text, "characters": characters, "pictures": pictures, "lines": lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    random.seed(SEED)
    KINDS[args.kind](args.folder)


if __name__ == "__main__":
    main()
