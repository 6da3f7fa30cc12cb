"""Fixes: the fixtures' results, the edits one by one, and what must hold of every fix.

`fixtures/<rule>/bad_x.fixed.py` (or a folder `bad_x.fixed`) beside a program is what `--fix` makes of it; with `# fix: unsafe`
on the first line of a program it is what `--fix --unsafe-fixes` does.
"""

from __future__ import annotations

import ast
import codecs
import re
import shutil
import stat
from collections import Counter
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from t4lint.baseline import Changes
from t4lint.changes import Fixed, OnlyNew, fix, write
from t4lint.engine import Options, check, check_with_fixes, rules
from t4lint.findings import TextEdit
from t4lint.fix.loop import diff
from t4lint.fix.render import rendered
from t4lint.fix.text import Lines, NoPlace, edited, overlap
from t4lint.fix.write import NotWritten
from t4lint.fix.write import write as write_file
from t4lint.rule import (
    AddArgument,
    AddImport,
    DropArgument,
    DropStatement,
    DropUnusedImport,
    Edit,
    InsertAfter,
    InsertBefore,
    RenameArgument,
    SetArgument,
    SetValue,
    Written,
)
from t4lint.trace import How, Location, Origin, Value

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
RESULTS = sorted(path for path in FIXTURES.glob("*/bad_*") if ".fixed" in path.name)
NAMES = [f"{path.parent.name}/{path.name}" for path in RESULTS]
OFF = {rule.name for rule in rules() if not rule.default}
BAD = sorted(path for path in FIXTURES.glob("*/bad_*") if ".fixed" not in path.name)


def program_of(result: Path) -> Path:
    return result.with_name(result.name.replace(".fixed", ""))


def files_of(program: Path) -> dict[str, bytes]:
    if program.is_file():
        return {program.name.replace(".fixed", ""): program.read_bytes()}
    return {file.relative_to(program).as_posix(): file.read_bytes() for file in program.rglob("*") if file.is_file()}


def is_unsafe(program: Path) -> bool:
    return any(data.startswith(b"# fix: unsafe") for data in files_of(program).values())


def target(program: Path) -> str:
    found = [re.search(rb"^#\s*target:\s*(\S+)$", data, re.MULTILINE) for data in files_of(program).values()]
    return next((match[1].decode() for match in found if match), "t4")


def copied(program: Path, folder: Path) -> None:
    if program.is_file():
        shutil.copy(program, folder / program.name)
    else:
        shutil.copytree(program, folder, dirs_exist_ok=True)


def fixed(folder: Path, *, unsafe: bool = False, only: OnlyNew | None = None, **options: object) -> Fixed:
    given = Options(cwd=folder, **options)  # type: ignore[arg-type]
    nothing = OnlyNew(None, (), None, folder, "likely")
    done = fix([folder], given, only or nothing, unsafe=unsafe)
    write(done, [folder], given, nothing)
    return done


# --- fixtures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", RESULTS, ids=NAMES)
def test_fixture(result: Path, tmp_path: Path) -> None:
    program = program_of(result)
    copied(program, tmp_path)
    own = (program.parent.name,) if program.parent.name in OFF else ()
    given = {"extend_select": own, "target": target(program)}
    done = fixed(tmp_path, unsafe=is_unsafe(program), **given)
    now = files_of(tmp_path)
    assert {name: data.decode() for name, data in now.items()} == {
        name: data.decode() for name, data in files_of(result).items()
    }
    assert not fixed(tmp_path, unsafe=is_unsafe(program), **given).outcome.after
    left = check([tmp_path], Options(cwd=tmp_path, **given)).findings
    gone = {(it.rule, it.severity) for it in done.outcome.fixed}  # a milder case of the rule may be left
    assert gone and not [it for it in left if (it.rule, it.severity) in gone]


@pytest.mark.parametrize("result", [it for it in RESULTS if is_unsafe(program_of(it))], ids=lambda it: it.name)
def test_unsafe_fixes_are_not_applied_unasked(result: Path, tmp_path: Path) -> None:
    copied(program_of(result), tmp_path)
    assert not fixed(tmp_path, target=target(program_of(result))).outcome.after


def test_each_rule_with_a_fix_has_a_result() -> None:
    from t4lint.engine import rules

    named = {path.parent.name for path in RESULTS}
    assert {rule.name for rule in rules() if rule.fixes is not None} <= named


def test_offered_fixes_have_been_tried(tmp_path: Path) -> None:
    """Dropping bf16 here would leave the training in fp32, so nothing is offered."""
    shutil.copy(FIXTURES / "bf16-guard-always-true/bad_kwargs.py", tmp_path)
    shutil.copy(FIXTURES / "training-arguments-tf32/bad_literal.py", tmp_path)
    report = check_with_fixes([tmp_path], Options(cwd=tmp_path))
    offered = {finding.rule: finding.fix for finding in report.findings}
    assert offered["bf16-guard-always-true"] is None
    tf32 = offered["training-arguments-tf32"]
    assert tf32 is not None and tf32.safety == "safe"
    assert tf32.edits == (TextEdit("bad_literal.py", (12, 1), (13, 1), ""),)
    assert all(finding.fix is None for finding in check([tmp_path], Options(cwd=tmp_path)).findings)


def is_python(text: bytes) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@pytest.mark.heavy
@pytest.mark.parametrize("shard", range(8))
def test_whatever_is_fixed_parses_and_stays(shard: int, tmp_path: Path) -> None:
    """Every faulty program: what is fixed is gone or milder, files parse, and fixing again changes nothing."""
    for number, program in enumerate(BAD[shard::8]):
        folder = tmp_path / str(number)
        folder.mkdir()
        copied(program, folder)
        done = fixed(folder, unsafe=True)
        for path, text in done.outcome.after.items():
            if path.endswith(".py"):
                assert is_python(text.encode()) or not is_python(done.outcome.before[path].encode())
        after, before, gone = (
            Counter((it.rule, it.location.path, it.severity) for it in findings)
            for findings in (check([folder], Options(cwd=folder)).findings, done.report.findings, done.outcome.fixed)
        )
        assert all(after[key] <= before[key] - gone[key] for key in gone), program
        assert not fixed(folder, unsafe=True).outcome.after, program


# --- edits, one by one --------------------------------------------------------------------------------------------


def at(text: str, part: str, how: How = "literal", note: str = "", path: str = "a.py") -> Value:
    """The place of `part` in `text`, as the origin of a value."""
    lines = Lines(text)
    start = text.index(part)
    location = Location(path, *lines.place(start), *lines.place(start + len(part)))
    return Value(None, (Origin(how, note, location),))


def made(text: str, *edits: Edit, path: str = "a.py") -> str | None:
    found = rendered(edits, {path: text}.get, "safe", "")
    return edited(text, found.edits) if found else None


DROPS = [
    ("f(a, tf32=True, b=1)\n", "f(a, b=1)\n"),
    ("f(tf32=True, b=1)\n", "f(b=1)\n"),
    ("f(a, tf32=True)\n", "f(a)\n"),
    ("f(a, tf32=True,)\n", "f(a,)\n"),
    ("f(tf32=True)\n", "f()\n"),
    ("f(tf32=True, )\n", "f()\n"),
    ("f(\n    a=1,\n    tf32=True,  # fast\n    b=2,  # slow\n)\n", "f(\n    a=1,\n    b=2,  # slow\n)\n"),
    ("f(\n    a=1,\n    # why\n    tf32=True\n)\n", "f(\n    a=1\n    # why\n)\n"),
    ("f(a=1,  # one\n  tf32=True, b=2)\n", "f(a=1,  # one\n  b=2)\n"),
    ("f(a=1,\n  b=2, tf32=True,\n  c=3)\n", "f(a=1,\n  b=2,\n  c=3)\n"),
    ("f(a=1,\n  tf32=True)\n", "f(a=1)\n"),
    ("x = {'a': 1, 'tf32': True}\n", "x = {'a': 1}\n"),
    ("x['tf32'] = True\ny = 1\n", "y = 1\n"),
    ("if a:\n    x['tf32'] = True  # fast\n", "if a:\n    pass  # fast\n"),
    ("tf32 = True\nf(tf32=tf32)\n", "tf32 = False\nf(tf32=tf32)\n"),
    ("f(a,\r\n  b=1,\r\n  tf32=True,\r\n)\r\n", "f(a,\r\n  b=1,\r\n)\r\n"),
    ("f('ä😀', tf32=True)\n", "f('ä😀')\n"),
]


@pytest.mark.parametrize(("before", "after"), DROPS)
def test_drop_argument(before: str, after: str) -> None:
    assert made(before, DropArgument(at(before, "True"), "tf32", otherwise="False")) == after
    ast.parse(after)


def test_drop_argument_needs_the_name() -> None:
    text = "f(default=True)\n"
    assert made(text, DropArgument(at(text, "True"), "tf32")) is None


ADDS = [
    ("f()\n", "f(fp16=True)\n"),
    ("f(a)\n", "f(a, fp16=True)\n"),
    ("f(a, **b)\n", "f(a, **b, fp16=True)\n"),
    ("f(a,)\n", "f(a, fp16=True)\n"),
    ("f(\n    a=1,\n    b=2,  # two\n)\n", "f(\n    a=1,\n    b=2,  # two\n    fp16=True,\n)\n"),
    ("f(\n    a=1,\n    b=2  # two\n)\n", "f(\n    a=1,\n    b=2,  # two\n    fp16=True\n)\n"),
    ("f(a=1,\n  b=2)\n", "f(a=1,\n  b=2,\n  fp16=True)\n"),
    ("f(\r\n  a,\r\n)\r\n", "f(\r\n  a,\r\n  fp16=True,\r\n)\r\n"),
]


@pytest.mark.parametrize(("before", "after"), ADDS)
def test_add_argument(before: str, after: str) -> None:
    whole = at(before, before.rstrip())
    result = made(before, AddArgument(whole, "fp16", "True", callee="f"))
    assert result is not None and ast.dump(ast.parse(result)) == ast.dump(ast.parse(after))
    assert result.replace(",)", ")") == after.replace(",)", ")")


def test_set_argument() -> None:
    text = "x = f(g(1), fp16=False)\n"
    assert made(text, SetArgument(at(text, text.strip()), "fp16", "True", callee="f")) == "x = f(g(1), fp16=True)\n"
    assert made(text, AddArgument(at(text, text.strip()), "fp16", "True", callee="f")) is None
    assert made(text, SetArgument(at(text, text.strip()), "fp16", "True", callee="h")) is None
    twice = "f(1); f(2)\n"
    assert made(twice, SetArgument(at(twice, twice.strip()), "fp16", "True", callee="f")) is None


def test_set_value() -> None:
    text = "a = 'x'; b = ask(); c = b'y'; d = -ask(1); e = not ask(2)\n"
    assert made(text, SetValue(at(text, "'x'"), '"sdpa"')) == text.replace("'x'", "'sdpa'")
    assert made(text, SetValue(at(text, "ask()"), "n >= 8")) == text.replace("ask()", "n >= 8")
    assert made(text, SetValue(at(text, "ask(1)"), "n >= 8")) == text.replace("ask(1)", "(n >= 8)")
    assert made(text, SetValue(at(text, "ask(2)"), "n >= 8")) == text.replace("ask(2)", "n >= 8")
    assert made(text, SetValue(at(text, "sk()"), "1")) is None


def test_rename_argument() -> None:
    def renamed(text: str) -> str | None:
        return made(text, RenameArgument(at(text, "True"), "bf16", "fp16"))

    assert renamed("f(bf16=True)\n") == "f(fp16=True)\n"
    assert renamed("f(fp16=False, bf16=True)\n") == "f(fp16=True)\n"
    assert renamed("x = {'bf16': True}\n") == "x = {'fp16': True}\n"
    assert renamed("bf16 = True\n") is None


def test_statements() -> None:
    text = "if a:\n    one()\n    two()  # 2\n"
    assert made(text, DropStatement(at(text, "two()"))) == "if a:\n    one()\n"
    assert made(text, InsertBefore(at(text, "two()"), "new()")) == "if a:\n    one()\n    new()\n    two()  # 2\n"
    assert made(text, InsertAfter(at(text, "two()"), "new()")) == text + "    new()\n"
    line = "if a: one()\n"
    assert made(line, InsertBefore(at(line, "one()"), "new()")) is None
    pair = "one(); two()\n"
    assert made(pair, DropStatement(at(pair, "two()"))) is None


def test_words_are_taken_as_written() -> None:
    text = "def f(s, o):\n    clip()\n    s.amp.step(o)\ndef g(s, o):\n    s.step(o)\n"
    words = {
        "s": Written(at(text, "s.amp.step(o)"), "step", "receiver"),
        "o": Written(at(text, "s.amp.step(o)"), "step", 0),
    }
    edit = InsertBefore(at(text, "clip()"), "{s}.unscale_({o})", words)
    assert made(text, edit) == text.replace("    clip()", "    s.amp.unscale_(o)\n    clip()")
    words["s"] = Written(at(text, "s.step(o)"), "step", "receiver")
    assert made(text, edit) is None


IMPORTS = [
    ("", "f()\n", "import torch\n\nf()\n"),
    ("", '"""Doc."""\nfrom __future__ import annotations\nf()\n', '"""Doc."""\nfrom __future__ import annotations\nimport torch\n\nf()\n'),
    ("", "import torch\nf()\n", None),
    ("", "import os\n\nfrom trl import A\nf()\n", "import os\n\nimport torch\nfrom trl import A\nf()\n"),
    ("", "import numpy\nimport zlib\nf()\n", "import numpy\nimport torch\nimport zlib\nf()\n"),
    ("", "import torch.nn\nf()\n", "import torch\nimport torch.nn\nf()\n"),
    ("", "import numpy\nf()\n", "import numpy\nimport torch\nf()\n"),
]  # fmt: skip


@pytest.mark.parametrize(("_", "before", "after"), IMPORTS)
def test_add_import(_: str, before: str, after: str | None) -> None:
    assert made(before, AddImport(at(before, "f()"), "torch")) == after


UNUSED = [
    ("from a import f\nf()\n", "g()\n"),
    ("from a import f, h\nf()\n", "from a import h\ng()\n"),
    ("from a import e, f\nf()\n", "from a import e\ng()\n"),
    ("from a import (\n    e,\n    f,\n)\nf()\n", "from a import (\n    e,\n)\ng()\n"),
    ("from a import f\nf()\nx = f\n", "from a import f\ng()\nx = f\n"),
]


@pytest.mark.parametrize(("before", "after"), UNUSED)
def test_drop_unused_import(before: str, after: str) -> None:
    place = at(before, "f()")
    assert made(before, DropUnusedImport(place, "f"), SetValue(place, "g()")) == after


SHELL = [
    ("python a.py --tf32 True --x 1\n", "--tf32 True", "python a.py --x 1\n"),
    ("python a.py --x 1 --tf32\n", "--tf32", "python a.py --x 1\n"),
    ("python a.py --tf32=True --x 1\n", "--tf32 True", "python a.py --x 1\n"),
    ("python a.py \\\n  --tf32 True \\\n  --x 1\n", "--tf32 True", "python a.py \\\n  --x 1\n"),
    ("python a.py \\\n  --x 1 \\\n  --tf32 True\n", "--tf32 True", "python a.py \\\n  --x 1\n"),
    ("python a.py \\\n  --tf32 \\\n  True --x 1\n", "--tf32 True", "python a.py \\\n  --x 1\n"),
    ("python a.py --tf32 'True' # why\n", "--tf32 True", "python a.py # why\n"),
    ("ARGS=(\n  --tf32 True\n  --x 1\n)\n", "--tf32 True", "ARGS=(\n  --x 1\n)\n"),
    ('ARGS="--tf32 True --x 1"\n', "--tf32 True", 'ARGS="--x 1"\n'),
    ("python a.py --tf32 $FAST --x 1\n", "--tf32 True", None),
]


@pytest.mark.parametrize(("before", "note", "after"), SHELL)
def test_drop_flag(before: str, note: str, after: str | None) -> None:
    word = "--tf32=True" if "--tf32=" in before else "--tf32"
    place = at(before, word, "flag", note, "run.sh")
    assert made(before, DropArgument(place, "tf32"), path="run.sh") == after


def test_flags_are_set_and_renamed() -> None:
    text = "python a.py --bf16 \\\n True --pin-memory=False\n"
    bf16 = at(text, "--bf16", "flag", "--bf16 True", "run.sh")
    pin = at(text, "--pin-memory=False", "flag", "--pin_memory False", "run.sh")
    assert made(text, RenameArgument(bf16, "bf16", "fp16"), path="run.sh") == text.replace("--bf16", "--fp16")
    assert made(text, SetValue(pin, "True"), path="run.sh") == text.replace("False", "True")
    assert made(text, SetValue(bf16, '"a b"'), path="run.sh") is None
    assert made("python a.py --bf16 1 --fp16 0\n", RenameArgument(bf16, "bf16", "fp16"), path="run.sh") is None


# --- conflicts and rounds -----------------------------------------------------------------------------------------


def test_overlap() -> None:
    one = TextEdit("a", (1, 1), (1, 5), "x")
    assert overlap([one], [TextEdit("a", (1, 4), (1, 6), "y")])
    assert overlap([one], [TextEdit("a", (1, 1), (1, 1), "y")])
    assert not overlap([one], [one])
    assert not overlap([one], [TextEdit("a", (1, 5), (1, 6), "y")])
    assert not overlap([one], [TextEdit("b", (1, 1), (1, 5), "y")])


def test_several_faults_in_one_call(tmp_path: Path) -> None:
    text = (FIXTURES / "training-arguments-tf32/bad_literal.py").read_text()
    text = text.replace("    fp16=True,\n", "    fp16=True, dataloader_pin_memory=False, tf32=True,\n").replace(
        "    tf32=True,  # expect: training-arguments-tf32\n", ""
    )
    (tmp_path / "train.py").write_text(text)
    done = fixed(tmp_path)
    assert sorted(it.rule for it in done.outcome.fixed) == ["pin-memory-disabled", "training-arguments-tf32"]
    assert "    fp16=True, dataloader_pin_memory=True,\n" in (tmp_path / "train.py").read_text()


def test_select_chooses_what_is_fixed(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "training-arguments-tf32/bad_literal.py", tmp_path)
    assert not fixed(tmp_path, select=("pin-memory-disabled",)).outcome.after
    assert fixed(tmp_path, select=("training-arguments-tf32",)).outcome.after


def test_files_that_were_not_named_are_left_alone(tmp_path: Path) -> None:
    copied(FIXTURES / "training-arguments-tf32/bad_launch_flag", tmp_path)
    options = Options(cwd=tmp_path)
    done = fix([tmp_path / "train.py"], options, OnlyNew(None, (), None, tmp_path, "likely"), unsafe=False)
    assert not done.outcome.after and done.elsewhere == ("run.sh",)


def test_only_new_findings_are_fixed(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "training-arguments-tf32/bad_literal.py", tmp_path)
    nothing_changed = OnlyNew(None, (), Changes({}, tmp_path), tmp_path, "likely")
    assert not fixed(tmp_path, only=nothing_changed).outcome.after


def test_diff(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text((FIXTURES / "training-arguments-tf32/bad_literal.py").read_text().rstrip("\n"))
    options = Options(cwd=tmp_path)
    done = fix([tmp_path], options, OnlyNew(None, (), None, tmp_path, "likely"), unsafe=False)
    shown = diff(done.outcome)
    assert shown.startswith("--- a.py\n+++ a.py\n@@ -9,7 +9,6 @@\n")
    assert "\n-    tf32=True,  # expect: training-arguments-tf32\n" in shown


# --- what holds of every fix --------------------------------------------------------------------------------------

WRAPPERS = st.sampled_from(
    ["", "# -*- coding: utf-8 -*-\n", "\n\n", '"""Doc with # t4 😀."""\n', "x = '''\n  a\n'''\n"]
)
TAILS = st.sampled_from(["", "\n", "# end", "\n\n\ny = [  # kept\n  1,\n]\n", "\tz = 1\n".lstrip("\t"), "é = 'ü'  \n"])
SAFE = [program_of(path) for path in RESULTS if path.is_file() and not is_unsafe(program_of(path))]


@settings(max_examples=25, deadline=None)
@given(
    program=st.sampled_from(SAFE), head=WRAPPERS, tail=TAILS, newline=st.sampled_from(["\n", "\r\n"]), bom=st.booleans()
)
def test_every_other_byte_stays(
    tmp_path_factory: pytest.TempPathFactory, program: Path, head: str, tail: str, newline: str, bom: bool
) -> None:
    folder = tmp_path_factory.mktemp("fix")
    body = program.read_text(encoding="utf-8").removeprefix("# runs: python\n")
    text = (head + body + tail).replace("\n", newline)
    file = folder / "train.py"
    data = (codecs.BOM_UTF8 if bom else b"") + text.encode()
    file.write_bytes(data)
    done = fixed(folder, extend_select=(program.parent.name,) if program.parent.name in OFF else ())
    now = file.read_bytes()
    assert is_python(now) or not is_python(
        data
    )  # some fixtures have syntax that is newer than the Python that runs this
    assert now.startswith(codecs.BOM_UTF8) is bom
    assert (b"\r\n" in now) is (newline == "\r\n") and now.count(b"\n") == now.replace(b"\r\n", b"").count(
        b"\n"
    ) + now.count(b"\r\n")
    assert done.outcome.fixed
    kept = [
        line
        for line in done.outcome.before["train.py"].split("\n")
        if "expect" not in line and "is_bf16" not in line and "is_torch_bf16" not in line
    ]
    new = done.outcome.after["train.py"].split("\n")
    assert [line for line in kept if line in new] == kept
    file_after = file.read_bytes()
    assert not fixed(folder).outcome.after and file.read_bytes() == file_after


@given(text=st.text(alphabet="ab\n\r😀\t", max_size=40), data=st.data())
def test_positions_go_there_and_back(text: str, data: st.DataObject) -> None:
    lines = Lines(text)
    offset = data.draw(st.integers(0, len(text)))
    assert lines.offset(*lines.place(offset)) == offset or text[offset - 1 : offset + 1] == "\r\n"


# --- writing ------------------------------------------------------------------------------------------------------


def test_mode_encoding_and_links_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "a.py", tmp_path / "b.py"
    file.write_bytes("# -*- coding: latin-1 -*-\nx = 'é'\r\n".encode("latin-1"))
    file.chmod(0o750)
    link.symlink_to(file)
    write_file(link, "# -*- coding: latin-1 -*-\nx = 'é'\r\n", "# -*- coding: latin-1 -*-\nx = 'ü'\r\n")
    assert file.read_bytes() == "# -*- coding: latin-1 -*-\nx = 'ü'\r\n".encode("latin-1")
    assert link.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o750
    assert sorted(it.name for it in tmp_path.iterdir()) == ["a.py", "b.py"]


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("new\n")
    with pytest.raises(NotWritten, match="changed meanwhile"):
        write_file(file, "old\n", "fixed\n")
    assert file.read_text() == "new\n"


def test_utf16(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes("x = 1\n".encode("utf-16"))
    write_file(file, "x = 1\n", "x = 2\n")
    assert file.read_bytes().decode("utf-16") == "x = 2\n"


def test_text_that_the_encoding_lacks_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"# coding: ascii\n")
    with pytest.raises(NotWritten):
        write_file(file, "# coding: ascii\n", "# coding: ascii\nx = '\u4e2d'\n")


def test_places_outside_the_text() -> None:
    with pytest.raises(NoPlace):
        Lines("a\n").offset(5, 1)


# --- edits of code that nobody wrote for them ---------------------------------------------------------------------

LIBRARY = sorted(Path(ast.__file__).parent.glob("*.py"))


class Without(ast.NodeTransformer):
    """A tree without the keyword argument at a place."""

    def __init__(self, place: tuple[int, int], drop: str) -> None:
        self.place = place
        self.drop = drop

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords = [it for it in node.keywords if it.arg != self.drop or (it.lineno, it.col_offset) != self.place]
        return node


def news(text: str) -> int:
    return sum(isinstance(node, ast.keyword) and node.arg == "new" for node in ast.walk(ast.parse(text)))


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_real_code(data: st.DataObject) -> None:
    from t4lint.fix.python import PythonFile

    text = data.draw(st.sampled_from(LIBRARY)).read_text(encoding="utf-8")
    file = PythonFile(text)
    arguments = [it for it in file.of_kind(cst.Arg) if it.keyword is not None and isinstance(file.parent(it), cst.Call)]
    assume(arguments)
    argument = data.draw(st.sampled_from(arguments))
    assert argument.keyword is not None
    start, end = file.span(argument.value)
    location = Location("a.py", *file.lines.place(start), *file.lines.place(end))
    name = argument.keyword.value
    result = made(text, DropArgument(location, name))
    assert result is not None
    line, column = file.lines.place(file.span(argument)[0])
    place = line, len(file.lines.line(line)[: column - 1].encode())
    expected = Without(place, name).visit(ast.parse(text))
    assert ast.dump(ast.parse(result)) == ast.dump(expected)
    lines = Counter(text.splitlines())
    lines.subtract(result.splitlines())
    assert sum(abs(count) for count in lines.values()) <= 2 + 2 * text[start:end].count("\n") + 2
    call = file.span(file.parent(argument))
    whole = Location("a.py", *file.lines.place(call[0]), *file.lines.place(call[1]))
    added = made(text, AddArgument(whole, "new", "1"))
    assert added is not None
    assert news(added) == news(text) + 1


@pytest.mark.parametrize(
    ("more", "count"), [("", 1), (", packing=False", 1), (", packing=True", 0), (", padding_free=True", 0)]
)
def test_flash_attention_stays_where_packing_leans_on_it(more: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n"
        'model = AutoModelForCausalLM.from_pretrained("a/b", attn_implementation="flash_attention_2")\n'
        f'SFTTrainer(model=model, args=SFTConfig(output_dir="out", fp16=True{more})).train()\n'
    )
    report = check_with_fixes([tmp_path], Options(cwd=tmp_path))
    found = [finding for finding in report.findings if finding.rule == "flash-attention-backend"]
    assert len(found) == 1 and sum(finding.fix is not None for finding in found) == count


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("2.3.1", "torch.cuda.get_device_capability()[0] >= 8"),
        ("2.4.0", "torch.cuda.is_bf16_supported(including_emulation=False)"),
    ],
)
def test_older_torch_is_asked_for_the_capability(version: str, text: str, tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "bf16-guard-always-true/bad_variable.py", tmp_path / "a.py")
    fixed(tmp_path, versions={"torch": version})
    assert f"bf16 = {text}  #" in (tmp_path / "a.py").read_text()


CLIPPING = """\
import torch
model = torch.nn.Linear(4, 4).cuda()
a = torch.optim.AdamW(model.parameters())
b = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for x in torch.randn(9, 4):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x.cuda()).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(a)
    scaler.step(b)
    scaler.update()
"""


def test_two_optimizers_are_left_to_people(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CLIPPING)
    assert not fixed(tmp_path).outcome.after
    (tmp_path / "a.py").write_text(CLIPPING.replace("    scaler.step(b)\n", ""))
    fixed(tmp_path)
    assert "    scaler.unscale_(a)\n    torch.nn.utils.clip" in (tmp_path / "a.py").read_text()


def test_a_quantized_base_is_left_to_people(tmp_path: Path) -> None:
    text = (FIXTURES / "trl-bf16-default/bad_one_line.py").read_text()
    load = 'AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", quantization_config=BitsAndBytesConfig(load_in_4bit=True))'
    text = text.replace('"Qwen/Qwen2.5-0.5B"', load).replace(
        "from trl", "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\nfrom trl", 1
    )
    (tmp_path / "a.py").write_text(text)
    assert "fp16=True" not in (fixed(tmp_path, unsafe=True).outcome.after.get("a.py") or "")


def test_bf16_weights_keep_bf16(tmp_path: Path) -> None:
    text = (FIXTURES / "bf16-mixed-precision/bad_training_arguments.py").read_text()
    text = text.replace("num_labels=2)", 'num_labels=2, dtype="bfloat16")')
    (tmp_path / "a.py").write_text(text)
    assert not fixed(tmp_path, unsafe=True).outcome.after
