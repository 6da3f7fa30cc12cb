"""Writing files: whole or not at all, in their own encoding, and never over what somebody else wrote meanwhile."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import tempfile
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)


class NotWritten(Exception):  # noqa: N818
    """A file was left as it is; the message says why."""


def write(file: Path, before: str, after: str) -> None:
    """Replace the text of a file, which must still be `before`. Mode, encoding and byte order mark stay."""
    target = file.resolve()
    try:
        data = target.read_bytes()
        encoded = _encoded(data, before, after)
        _replace(target, data, encoded)
    except OSError as error:
        raise NotWritten(f"cannot be written: {error.strerror or error}") from error


def _encoded(data: bytes, before: str, after: str) -> bytes:
    """The new bytes, in the encoding in which the old text gives the old bytes."""
    for mark, encoding in _encodings(data):
        if _as(before, encoding) != data[len(mark) :]:
            continue
        new = _as(after, encoding)
        if new is None:
            raise NotWritten(f"not written: the encoding of the file, {encoding}, lacks a character of the new text")
        return mark + new
    raise NotWritten("not written: the file has changed meanwhile, or has bytes that are no text")


def _as(text: str, encoding: str) -> bytes | None:
    try:
        return text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return None


def _encodings(data: bytes) -> Iterator[tuple[bytes, str]]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            yield mark, encoding
            return
    with suppress(SyntaxError):
        yield b"", tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    yield b"", "utf-8"


def _replace(target: Path, before: bytes, after: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".t4lint")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(after)
        shutil.copymode(target, temporary)
        if target.read_bytes() != before:
            raise NotWritten("not written: the file has changed meanwhile")
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def save(file: Path, text: str) -> None:
    """Write a file of t4lint's own, whole or not at all."""
    data = text.encode("utf-8")
    try:
        if file.exists():
            _replace(file.resolve(), file.read_bytes(), data)
        else:
            file.write_bytes(data)
    except OSError as error:
        raise NotWritten(f"cannot be written: {error.strerror or error}") from error
