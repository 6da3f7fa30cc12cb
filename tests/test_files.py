"""Finding files and reading them: every odd thing that a disk can hold is a problem with a place, never an exception."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t4lint.findings import Problem
from t4lint.sources import files
from t4lint.sources.document import Document


def put(path: Path, content: str | bytes = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def found(
    tmp_path: Path, *starts: str, exclude: Sequence[str] = (), gitignore: bool = True, root: Path | None = None
) -> tuple[list[str], list[Problem]]:
    problems: list[Problem] = []
    paths = [tmp_path / start for start in starts or (".",)]
    result = files.find(paths, exclude=exclude, respect_gitignore=gitignore, root=root, problems=problems)
    return [path.relative_to(tmp_path).as_posix() for path in result], problems


def document(file: Path) -> Document:
    result = files.read(file, file.name)
    assert isinstance(result, Document), result
    return result


def problem(file: Path) -> Problem:
    result = files.read(file, file.name)
    assert isinstance(result, Problem), result
    return result


# --- finding -----------------------------------------------------------------------------------------------------


def test_folders_are_walked_in_order(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.sh", "a/b/c.bash", "c.pyw", "notes.txt", "d.PY"):
        put(tmp_path / name)
    assert found(tmp_path) == (["a/b/c.bash", "a/z.sh", "b.py", "c.pyw", "d.PY"], [])


def test_default_excludes_hold_below_but_not_for_what_is_named(tmp_path: Path) -> None:
    put(tmp_path / "venv/lib/x.py")
    put(tmp_path / "sub/node_modules/y.py")
    put(tmp_path / "train.py")
    assert found(tmp_path)[0] == ["train.py"]
    assert found(tmp_path, "venv")[0] == ["venv/lib/x.py"]


def test_nested_gitignore(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "out/\n*_old.py\n")
    put(tmp_path / "keep/.gitignore", "!special_old.py\n/local.py\n")
    for name in ("out/a.py", "x_old.py", "keep/special_old.py", "keep/y_old.py", "keep/local.py", "keep/deep/local.py"):
        put(tmp_path / name)
    assert found(tmp_path)[0] == ["keep/deep/local.py", "keep/special_old.py"]
    assert len(found(tmp_path, gitignore=False)[0]) == 6


def test_gitignore_above_the_start_counts_up_to_the_root(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "/sub/skip.py\ndata/\n")
    for name in ("sub/skip.py", "sub/keep.py", "sub/data/x.py"):
        put(tmp_path / name)
    assert found(tmp_path, "sub", root=tmp_path)[0] == ["sub/keep.py"]
    assert found(tmp_path, "sub")[0] == ["sub/data/x.py", "sub/keep.py", "sub/skip.py"]


def test_an_ignored_folder_that_is_named_is_walked(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "out/\n")
    put(tmp_path / "out/a.py")
    assert found(tmp_path, "out", root=tmp_path)[0] == ["out/a.py"]


def test_relative_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / ".gitignore", "b.py\n")
    put(tmp_path / "sub/a.py")
    put(tmp_path / "sub/b.py")
    monkeypatch.chdir(tmp_path)
    problems: list[Problem] = []
    got = files.find([Path()], exclude=(), respect_gitignore=True, root=tmp_path, problems=problems)
    assert list(got) == [Path("sub/a.py")]
    got = files.find([Path("sub")], exclude=(), respect_gitignore=True, root=tmp_path, problems=problems)
    assert list(got) == [Path("sub/a.py")]


def test_exclude_wins_over_gitignore(tmp_path: Path) -> None:
    put(tmp_path / "sub/.gitignore", "!a.py\n")
    put(tmp_path / "sub/a.py")
    put(tmp_path / "b.py")
    assert found(tmp_path, exclude=["sub/"])[0] == ["b.py"]
    assert found(tmp_path, exclude=["a.py"])[0] == ["b.py"]


def test_a_file_that_is_named_is_read_even_if_ignored_and_once(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "*")
    put(tmp_path / "notes.txt")
    put(tmp_path / "a.py")
    assert found(tmp_path, "notes.txt", "a.py", ".", "a.py")[0] == ["notes.txt", "a.py"]


def test_what_is_missing_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    put(tmp_path / "a.py")
    (tmp_path / "dead.py").symlink_to("nowhere")
    paths, problems = found(tmp_path, "gone.py", "dead.py", "a\0b", ".")
    assert paths == ["a.py"]
    assert [item.message for item in problems[:2]] == ["does not exist", "is a broken symbolic link"]
    assert problems[-1].path.endswith("dead.py")
    assert len(problems) == 4


def test_links_never_loop_and_lead_to_each_file_once(tmp_path: Path) -> None:
    put(tmp_path / "a/x.py")
    (tmp_path / "a/loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "b.py").symlink_to("a/x.py")
    (tmp_path / "self.py").symlink_to("self.py")
    paths, problems = found(tmp_path)
    assert paths == ["a/x.py"]
    assert [item.path.rpartition("/")[2] for item in problems] == ["self.py"]


def test_unreadable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "locked/a.py")
    put(tmp_path / "open.py")
    scandir: Callable[..., Any] = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    paths, problems = found(tmp_path)
    assert paths == ["open.py"]
    assert [item.message for item in problems] == ["cannot be read: Permission denied"]
    assert problems[0].path.endswith("locked")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert found(tmp_path) == ([], [])
    assert found(tmp_path, "pipe.py")[1][0].message == "is not a regular file"
    assert problem(tmp_path / "pipe.py").message == "is not a regular file"


def test_a_bad_pattern_is_named(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "a.py\n!\nb.py\n")
    for name in ("a.py", "b.py", "c.py"):
        put(tmp_path / name)
    assert found(tmp_path)[0] == ["c.py"]


# --- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks(tmp_path: Path, codec: str) -> None:
    assert document(put(tmp_path / "a.py", "x = 'é'\n".encode(codec))).text == "x = 'é'\n"


def test_utf_16_of_both_orders(tmp_path: Path) -> None:
    for codec, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        assert document(put(tmp_path / "a.py", mark + "x = 1\r\n".encode(codec))).text == "x = 1\r\n"


@pytest.mark.parametrize("first", ["", "#!/usr/bin/env python\n", "\n"])
def test_declared_latin_1(tmp_path: Path, first: str) -> None:
    text = f"{first}# -*- coding: latin-1 -*-\nx = 'é'\n"
    assert document(put(tmp_path / "a.py", text.encode("latin-1"))).text == text


def test_a_declaration_after_code_or_on_line_three_is_none(tmp_path: Path) -> None:
    for first in ("x = 1\n", "\n\n"):
        assert problem(put(tmp_path / "a.py", f"{first}# coding: latin-1\ny = 'é'\n".encode("latin-1"))).column == 6


def test_line_endings_are_kept(tmp_path: Path) -> None:
    assert document(put(tmp_path / "a.py", "a\r\nb\rc\n")).text == "a\r\nb\rc\n"


def test_empty(tmp_path: Path) -> None:
    assert document(put(tmp_path / "a.py")).text == ""


def test_five_megabytes(tmp_path: Path) -> None:
    assert len(document(put(tmp_path / "a.py", "x = 1\n" * 900_000)).text) == 5_400_000


def test_too_large(tmp_path: Path) -> None:
    assert "too large" in problem(put(tmp_path / "a.py", b"#" * (files.LARGEST + 1))).message


def test_bytes_that_are_not_utf_8_have_a_place(tmp_path: Path) -> None:
    result = problem(put(tmp_path / "a.py", "é = 1\r\nüü = '".encode() + b"\xff'\n"))
    assert (result.line, result.column) == (2, 7)
    assert result.message == "is not text: byte 0xff is not utf-8"


def test_nul_bytes(tmp_path: Path) -> None:
    result = problem(put(tmp_path / "a.py", b"x = 1\ny\0"))
    assert (result.line, result.column, result.message) == (2, 2, "is not text: it has a NUL byte")
    assert problem(put(tmp_path / "b.py", bytes(range(256)))).message.startswith("is not text")


@pytest.mark.parametrize("codec", ["no-such-codec", "hex", "rot13", "punycode", "undefined", "idna", "zlib"])
def test_declared_codec_that_cannot_be(tmp_path: Path, codec: str) -> None:
    result = problem(put(tmp_path / "a.py", f"#!/bin/x\n# coding: {codec}\n"))
    assert result.line == 2
    assert codec in result.message


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert problem(tmp_path / "gone.py").message == "does not exist"
    assert problem(tmp_path).message == "is not a regular file"


def test_a_shell_script_with_odd_bytes_is_still_read(tmp_path: Path) -> None:
    assert document(put(tmp_path / "a.sh", b"# \xe9\npython x.py\n")).text == "# �\npython x.py\n"


@pytest.mark.parametrize(
    ("name", "first", "kind"),
    [
        ("a.py", b"#!/bin/bash", "python"),
        ("a.sh", b"", "shell"),
        ("run", b"#!/usr/bin/env bash", "shell"),
        ("x", b"", "python"),
    ],
)
def test_kinds(name: str, first: bytes, kind: str) -> None:
    assert files.kind_of(Path(name), first) == kind


@given(st.binary(max_size=300), st.sampled_from(["python", "shell"]))
def test_no_bytes_raise(data: bytes, kind: Any) -> None:
    result = files.decode(data, "a.py", kind)
    assert isinstance(result, str | Problem)


@given(st.from_regex(rb"\A# coding[:=] ?[-\w.]{0,20}\n", fullmatch=True), st.binary(max_size=50))
def test_no_declaration_raises(first: bytes, rest: bytes) -> None:
    assert isinstance(files.decode(first + rest, "a.py", "python"), str | Problem)


def test_display_path(tmp_path: Path) -> None:
    assert files.display_path(tmp_path / "a/b.py", tmp_path) == "a/b.py"
    assert files.display_path(Path("a/../b.py"), tmp_path) == "b.py"
    assert files.display_path(tmp_path / "x.py", tmp_path / "sub") == (tmp_path / "x.py").as_posix()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert files.display_path(tmp_path / "link/x.py", tmp_path / "real") == "x.py"
    assert files.display_path(Path(os.fsdecode(b"\xff.py")), tmp_path).isprintable()


def test_what_git_tracks_is_not_ignored(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "scripts/\nlocal*.sh\n")
    for name in ("scripts/run.sh", "scripts/mine.sh", "local_a.sh", "local_b.sh", "other/scripts/run.sh"):
        put(tmp_path / name, "python train.py\n")
    run = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True)
    run(["git", "init", "-q"])
    assert found(tmp_path)[0] == []
    run(["git", "add", "-f", "scripts/run.sh", "local_a.sh"])
    # what is beside a tracked file in an ignored folder stays ignored by the pattern of the folder: git lists it neither
    assert found(tmp_path)[0] == ["local_a.sh", "scripts/run.sh"]
