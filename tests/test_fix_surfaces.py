"""Fixes and comments in notebooks, launch files and configurations: what is not edited stays byte for byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t4lint.changes import Fixed, OnlyNew, add_ignores, fix, write
from t4lint.engine import Options, check
from t4lint.findings import Report
from t4lint.fix.config import ConfigFile
from t4lint.fix.notebook import NotebookFile
from t4lint.fix.render import rendered
from t4lint.fix.text import Lines, NoPlace, Splice, edited, spliced
from t4lint.rule import (
    AddArgument,
    AddFlag,
    AddImport,
    AddVariable,
    DropArgument,
    DropStatement,
    Edit,
    InsertBefore,
    RenameArgument,
    SetValue,
)
from t4lint.trace import How, Location, Origin, Value

RULE = "training-arguments-tf32"
UNUSED = "unused-suppression"
TRAIN = """\
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", fp16=True{more})
Trainer(args=args).train()
"""
CONFIGURED = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_{kind}_file("args.{kind}")
Trainer(args=args).train()
"""


def notebook(*cells: str | list[str], indent: int | None = 1, ascii_only: bool = False) -> str:
    made = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# é\n", "x"]},
        *({"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [{"text": ["é\n"]}],
           "source": cell.splitlines(keepends=True) if isinstance(cell, str) else cell} for cell in cells),
    ]  # fmt: skip
    whole = {"cells": made, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=indent, ensure_ascii=ascii_only) + "\n"


def fixed(folder: Path, **options: object) -> Fixed:
    given, nothing = Options(cwd=folder, **options), OnlyNew(None, (), None, folder, "likely")  # type: ignore[arg-type]
    done = fix([folder], given, nothing, unsafe=True)
    write(done, [folder], given, nothing)
    return done


def linted(folder: Path) -> Report:
    return check([folder], Options(cwd=folder))


def names(report: Report) -> list[str]:
    return sorted(finding.rule for finding in report.findings)


def cells_of(file: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]]


# --- whole programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_line_of_a_cell_goes(tmp_path: Path, indent: int | None, ascii_only: bool, newline: str) -> None:
    cell = TRAIN.format(more=", run_name='é',\n    tf32=True").rstrip("\n")
    made = {"indent": indent, "ascii_only": ascii_only}
    file = tmp_path / "a.ipynb"
    file.write_bytes(notebook("%pip install x\n!nvidia-smi", cell, **made).replace("\n", newline).encode())  # type: ignore[arg-type]
    assert names(linted(tmp_path)) == [RULE]
    fixed(tmp_path)
    after = cell.replace(",\n    tf32=True", "")
    expected = notebook("%pip install x\n!nvidia-smi", after, **made)  # type: ignore[arg-type]
    assert file.read_bytes() == expected.replace("\n", newline).encode()
    assert not linted(tmp_path).findings


def test_cells_that_are_one_string(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    text = notebook([TRAIN.format(more=", run_name='é', tf32=True")])
    whole = json.loads(text)
    whole["cells"][1]["source"] = whole["cells"][1]["source"][0]
    file.write_text(json.dumps(whole), encoding="utf-8")
    fixed(tmp_path)
    whole["cells"][1]["source"] = whole["cells"][1]["source"].replace(", tf32=True", "")
    assert file.read_text(encoding="utf-8") == json.dumps(whole)


def test_a_flag_in_a_cell(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "Trainer(args=args).train()\n"
    )
    file = tmp_path / "a.ipynb"
    command = "!python train.py --output_dir out \\\n    --fp16 True \\\n    --tf32 True\n"
    cell = f"x = 'é'\n{command}"
    file.write_text(notebook(cell, "%%bash\n" + command[1:]), encoding="utf-8")
    assert names(linted(tmp_path)) == [RULE, RULE]
    fixed(tmp_path)
    assert not linted(tmp_path).findings
    after = cell.replace(" \\\n    --tf32 True", "")
    assert cells_of(file)[1:] == [after, after.replace("x = 'é'\n!", "%%bash\n")]


def test_a_file_that_a_cell_writes(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    program = TRAIN.format(more=", tf32=True")
    file.write_text(notebook(f"%%writefile train.py\n{program}", "!python train.py"), encoding="utf-8")
    assert names(linted(tmp_path)) == [RULE]
    fixed(tmp_path)
    assert cells_of(file)[1] == "%%writefile train.py\n" + TRAIN.format(more="")


def test_a_notebook_whose_fix_inserts(tmp_path: Path) -> None:
    """A new statement is a line of its own in the list of the cell's lines, and so is a new argument."""
    file = tmp_path / "a.ipynb"
    source = (Path(__file__).parents[1] / "fixtures/gradient-clipping-before-unscale/bad_clip_norm.py").read_text()
    after = (Path(__file__).parents[1] / "fixtures/gradient-clipping-before-unscale/bad_clip_norm.fixed.py").read_text()
    file.write_text(notebook("import os\n", source), encoding="utf-8")
    fixed(tmp_path)
    assert file.read_text(encoding="utf-8") == notebook("import os\n", after)


CONFIGS = [
    ("json", '{{"output_dir": "out", "fp16": true{}, "seed": 1}}\n', ', "tf32": true'),
    ("json", '{{\n  "output_dir": "out",\n  "fp16": true{}\n}}\n', ',\n  "tf32": true'),
    ("json", '{{\r\n\t{}"fp16": true,\r\n\t"output_dir": "out"\r\n}}', '"tf32" : true,\r\n\t'),
    ("yaml", "output_dir: out # é\nfp16: true\n{}seed: 1\n", "tf32: true  # fast\n"),
    ("yaml", "{{output_dir: out, fp16: true{}}}\n", ", tf32: yes"),
]


@pytest.mark.parametrize(("kind", "text", "part"), CONFIGS)
def test_a_key_goes(kind: str, text: str, part: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CONFIGURED.format(kind=kind))
    file = tmp_path / f"args.{kind}"
    file.write_bytes(text.format(part).encode())
    assert names(linted(tmp_path)) == [RULE]
    fixed(tmp_path)
    assert file.read_bytes() == text.format("").encode()
    assert not linted(tmp_path).findings


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_configuration_alone_is_judged_by_what_reads_it(kind: str, tmp_path: Path) -> None:
    """What a hook does: it names the files that changed."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(CONFIGURED.format(kind=kind))
    (tmp_path / "other.py").write_text(TRAIN.format(more=", tf32=True"))
    file, data = tmp_path / f"args.{kind}", tmp_path / f"data.{kind}"
    file.write_text('{"output_dir": "out", "fp16": true, "tf32": true}')
    data.write_text('{"not": "Python" , "a": [true, null]}')
    report = check([file, data], Options(cwd=tmp_path))
    assert [(it.location.path, it.rule) for it in report.findings] == [(f"args.{kind}", RULE)]
    assert not report.problems


def test_a_flag_in_other_files(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(
        "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "Trainer(args=args).train()\n"
    )
    command = "python train.py --output_dir out --fp16 True --tf32 True"
    texts = {
        "Makefile": f"train:\n\t{command}\n",
        ".github/workflows/train.yml": f"jobs:\n  a:\n    steps:\n      - run: |\n          {command}\n      - run: {command}\n",
        "README.md": f"```bash\n{command}\n```\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert len(linted(tmp_path).findings) == 4
    fixed(tmp_path)
    for name, text in texts.items():
        assert (tmp_path / name).read_text() == text.replace(" --tf32 True", ""), name


# --- comments -----------------------------------------------------------------------------------------------------


def accepted(folder: Path) -> None:
    options = Options(cwd=folder)
    add_ignores(check([folder], options), options, "ours")


def test_comments_in_a_notebook(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    cells = ["import os\n", TRAIN.format(more=", tf32=True")]
    file.write_text(notebook(*cells), encoding="utf-8")
    accepted(tmp_path)
    behind = cells[1].replace("tf32=True)", f"tf32=True)  # t4lint: ignore[{RULE}] ours")
    assert file.read_text(encoding="utf-8") == notebook(cells[0], behind)
    report = linted(tmp_path)
    assert not report.findings and [it.rule for it in report.suppressed] == [RULE]
    (hidden,) = report.suppressed
    assert hidden.suppressed is not None and hidden.suppressed.reason == "ours"
    assert hidden.suppressed.location is not None and hidden.suppressed.location.cell == 2
    file.write_text(notebook(cells[0], behind.replace(", tf32=True", "")), encoding="utf-8")
    (unused,) = linted(tmp_path).findings
    assert unused.rule == UNUSED and (unused.location.cell, unused.location.cell_line) == (2, 2)
    fixed(tmp_path)
    assert file.read_text(encoding="utf-8") == notebook(cells[0], TRAIN.format(more=""))


def test_a_comment_above_a_statement_and_for_the_whole_notebook(tmp_path: Path) -> None:
    cell = TRAIN.format(more=",\n  tf32=True")
    for before, cells in ((f"# t4lint: ignore[{RULE}]\n", []), ("", [f"# t4lint: ignore-file[{RULE}]"])):
        text = cell.replace("args = ", f"{before}args = ", 1)
        (tmp_path / "a.ipynb").write_text(notebook(*cells, text), encoding="utf-8")
        assert not linted(tmp_path).findings


def test_comments_on_commands_of_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "Trainer(args=args).train()\n"
    )
    file = tmp_path / "a.ipynb"
    command = "python train.py --output_dir out --fp16 True --tf32 True"
    file.write_text(notebook(f"!{command}", f"%%bash\necho\n{command}\n"), encoding="utf-8")
    accepted(tmp_path)
    comment = f"  # t4lint: ignore[{RULE}] ours"
    assert cells_of(file)[1:] == [f"!{command}{comment}", f"%%bash\necho\n{command}{comment}\n"]
    assert not linted(tmp_path).findings


def test_comments_in_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CONFIGURED.format(kind="yaml"))
    file = tmp_path / "args.yaml"
    file.write_text("output_dir: it's\nfp16: true\ntf32: true\nname: '# t4lint: ignore'\n")
    accepted(tmp_path)
    assert f"tf32: true  # t4lint: ignore[{RULE}] ours\nname" in file.read_text()
    assert not linted(tmp_path).findings
    file.write_text(file.read_text().replace("tf32: true", "tf32: false"))
    assert names(linted(tmp_path)) == [UNUSED]
    fixed(tmp_path)
    assert file.read_text() == "output_dir: it's\nfp16: true\ntf32: false\nname: '# t4lint: ignore'\n"


def test_json_has_no_comments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(CONFIGURED.format(kind="json"))
    text = '{"output_dir": "out", "fp16": true, "tf32": true}'
    (tmp_path / "args.json").write_text(text)
    accepted(tmp_path)
    assert (tmp_path / "args.json").read_text() == text
    said = capsys.readouterr().err
    assert "args.json" in said and "baseline" in said


# --- edits, one by one --------------------------------------------------------------------------------------------


def at(text: str, part: str, how: How = "key", note: str = "", path: str = "a.yaml") -> Value:
    lines, start = Lines(text), text.index(part)
    location = Location(path, *lines.place(start), *lines.place(start + len(part)))
    return Value(None, (Origin(how, note, location),))


def made(text: str, edit: Edit, path: str) -> str | None:
    found = rendered([edit], {path: text}.get, "safe", "")
    return edited(text, found.edits) if found else None


VALUES = [
    ("a.yaml", "x: bf16\n", "bf16", '"fp16"', "x: fp16\n"),
    ("a.yaml", "x: 'bf16' # y\n", "'bf16'", '"fp16"', "x: 'fp16' # y\n"),
    ("a.yaml", "x: [1]\ny: yes\n", "yes", '"no"', 'x: [1]\ny: "no"\n'),
    ("a.yaml", "x: True\n", "True", "False", "x: False\n"),
    ("a.yaml", "x: on\n", "on", "False", "x: false\n"),
    ("a.yaml", "x: 3\n", "3", "None", "x: null\n"),
    ("a.yaml", "x: 3\n", "3", "n >= 8", None),
    ("a.yaml", "x: |\n  3\n", "|", "4", None),
    ("a.json", '{"a": [{"x": "é"}]}', '"é"', '"ü"', '{"a": [{"x": "ü"}]}'),
    ("a.json", '{"a": true}', "true", "False", '{"a": false}'),
    ("a.json", '{"a": [true]}', "true", "False", None),
]


@pytest.mark.parametrize(("path", "text", "part", "value", "after"), VALUES)
def test_values_are_set(path: str, text: str, part: str, value: str, after: str | None) -> None:
    assert made(text, SetValue(at(text, part, path=path), value), path) == after


DROPPED = [
    ("a.yaml", "a:\n  tf32: on\n  b: 1\n", "on", "a:\n  b: 1\n"),
    ("a.yaml", "a:\n  tf32: on\nb: 1\n", "on", None),
    ("a.yaml", "- tf32: on\n  b: 1\n", "on", None),
    ("a.yaml", "a: {b: 1, # why\n  tf32: on}\n", "on", None),
    ("a.yaml", "fast: &x on\ntf32: *x\n", "&x", None),
    ("a.yaml", "fast: on\nb: 1\n", "on", None),
    ("a.json", '{"tf32": true}', "true", "{}"),
    ("a.json", '{"fast": true}', "true", None),
]


@pytest.mark.parametrize(("path", "text", "part", "after"), DROPPED)
def test_keys_are_dropped(path: str, text: str, part: str, after: str | None) -> None:
    assert made(text, DropArgument(at(text, part, path=path), "tf32"), path) == after


def test_keys_are_renamed() -> None:
    for path, text in (("a.yaml", "'bf16': true # bf16\n"), ("a.json", '{"bf16": true}')):
        edit = RenameArgument(at(text, "true", path=path), "bf16", "fp16")
        assert made(text, edit, path) == text.replace("bf16", "fp16", 1)
    both = "fp16: false\nbf16: true\n"
    assert made(both, RenameArgument(at(both, "true"), "bf16", "fp16"), "a.yaml") is None


@pytest.mark.parametrize("edit", [AddArgument, AddImport, DropStatement])
def test_what_has_no_form_in_a_configuration(edit: type[Edit]) -> None:
    more = {AddArgument: ("a", "b"), AddImport: ("torch",)}.get(edit, ())  # type: ignore[call-overload]
    assert made("x: 1\n", edit(at("x: 1\n", "1"), *more), "a.yaml") is None


def test_broken_files_have_no_fix() -> None:
    for text, kind in (("{", "json"), ("a: [", "yaml")):
        with pytest.raises(NoPlace):
            ConfigFile(text, kind)
    with pytest.raises(NoPlace):
        NotebookFile("a.ipynb", "{}")


def test_no_edit_reaches_over_cells_or_into_magics() -> None:
    raw = notebook("x = 1\n", "%matplotlib inline\ny = 2", "  z = 3\n  w = 4\n")
    file = NotebookFile("a.ipynb", raw)
    view = file.module
    assert view.text == "x = 1\npass\ny = 2\nz = 3\nw = 4\n"
    for start, end, text in ((0, 11, ""), (6, 10, "a"), (6, 6, "a\n"), (17, 17, "a\n")):
        with pytest.raises(NoPlace):
            view.edits([Splice(start, end, text)])
    done = edited(
        raw, view.edits([Splice(5, 5, "\nb"), Splice(11, 17, ""), Splice(len(view.text) - 2, len(view.text) - 1, "5")])
    )
    assert ["".join(it["source"]) for it in json.loads(done)["cells"]][1:] == [
        "x = 1\nb\n", "%matplotlib inline", "  z = 3\n  w = 5\n",
    ]  # fmt: skip


def test_words_of_an_inserted_line_come_from_the_notebook() -> None:
    raw = notebook("import torch\n", "f(1)")
    view = NotebookFile("a.ipynb", raw).module
    place = view.location(view.text.index("f(1)"), len(view.text) - 1)
    assert (place.cell, place.cell_line, place.column) == (2, 1, 1)
    done = made(raw, InsertBefore(place, "g()"), "a.ipynb")
    assert done == notebook("import torch\n", "g()\nf(1)")
    assert made(raw, AddImport(place, "numpy"), "a.ipynb") == notebook("import numpy\nimport torch\n", "f(1)")
    assert made(raw, AddImport(place, "zlib"), "a.ipynb") == notebook("import torch\nimport zlib\n", "f(1)")


LINES = st.lists(
    st.sampled_from(["a = 1", "b('é')", "", "  # x", "%magic", "!sh \\", "😀 = '\\t'"]), min_size=1, max_size=5
)


@given(st.lists(LINES, min_size=1, max_size=3), st.booleans(), st.booleans(), st.booleans(), st.data())
@settings(max_examples=300, deadline=None)
def test_an_edit_of_cells_is_that_edit_and_nothing_else(
    cells: list[list[str]], as_list: bool, ascii_only: bool, ends: bool, data: st.DataObject
) -> None:
    texts = ["\n".join(cell) + ("\n" if ends else "") for cell in cells]
    whole = json.loads(notebook(*texts))
    if not as_list:
        for cell in whole["cells"][1:]:
            cell["source"] = "".join(cell["source"])
    raw = json.dumps(whole, indent=1, ensure_ascii=ascii_only)
    view = NotebookFile("a.ipynb", raw).code
    start = data.draw(st.integers(0, len(view.text)))
    end = data.draw(st.integers(start, min(len(view.text), start + 12)))
    splice = Splice(start, end, data.draw(st.sampled_from(["", "x", "é\n", "\ny = '\"'"])))
    try:
        edits = view.edits([splice])
    except NoPlace:
        return
    done = edited(raw, edits)
    after = json.loads(done)
    now = ["".join(cell["source"]) for cell in after["cells"]][1:]
    lines = "".join(text if text.endswith("\n") or not text else f"{text}\n" for text in now)
    expected = spliced(view.text, [splice])
    # A cell that ends without a line end keeps doing so, and an empty last line is none: two line ends where both come together.
    assert re.findall(".+", lines) == re.findall(".+", expected)
    assert abs(lines.count("\n") - expected.count("\n")) <= 1 + (not ends)
    for cell, old in zip(after["cells"], whole["cells"], strict=True):
        assert {**cell, "source": 0} == {**old, "source": 0}
    for (
        edit
    ) in edits:  # the bytes around stay, which `edited` holds by construction; the edits are inside strings' lists
        assert edit.path == "a.ipynb" and edit.start <= edit.end


# --- variables of the environment ---------------------------------------------------------------------------------


def place_of(text: str, written: str, path: str = "run.sh") -> Location:
    start = text.index(written)
    (line, column), (end_line, end_column) = Lines(text).place(start), Lines(text).place(start + len(written))
    return Location(path, line, column, end_line, end_column)


def variable(text: str, name: str, value: str, written: str = "", path: str = "run.sh") -> Value:
    return Value(value, (Origin("environment", f"{name}={value}", place_of(text, written or value, path)),))


def after(text: str, edit: Edit, path: str = "run.sh") -> str | None:
    fix = rendered([edit], {path: text}.get, "safe", "")
    return None if fix is None else edited(text, fix.edits)


@pytest.mark.parametrize(
    ("text", "written", "expected"),
    [
        ("export NCCL_DEBUG=INFO\n", "INFO", "export NCCL_DEBUG=WARN\n"),
        ("export NCCL_DEBUG='INFO'\r\nx\r\n", "INFO", "export NCCL_DEBUG='WARN'\r\nx\r\n"),
        ("export NCCL_DEBUG=${NCCL_DEBUG:-INFO}\n", "${NCCL_DEBUG:-INFO}", "export NCCL_DEBUG=${NCCL_DEBUG:-WARN}\n"),
        ("env NCCL_DEBUG=INFO torchrun a.py\n", "NCCL_DEBUG=INFO", "env NCCL_DEBUG=WARN torchrun a.py\n"),
        ("export NCCL_DEBUG=$LEVEL\n", "$LEVEL", None),  # what is behind the name is for others too
    ],
)
def test_another_value_for_a_variable(text: str, written: str, expected: str | None) -> None:
    assert after(text, SetValue(variable(text, "NCCL_DEBUG", "INFO", written), '"WARN"')) == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("run.sh", "# OLD, see below\nexport OLD=1\n", "# OLD, see below\nexport NEW=1\n"),
        ("Dockerfile", "FROM x\nENV OLD 1\n", "FROM x\nENV NEW 1\n"),
        ("a.yaml", "env:\n  - name: 'OLD'  # why\n    value: '1'\n", "env:\n  - name: 'NEW'  # why\n    value: '1'\n"),
        ("a.yaml", "env: [{name: OLD, value: 1}]\n", "env: [{name: NEW, value: 1}]\n"),
        ("a.json", '{"env": {"OLD": "1"}}\n', '{"env": {"NEW": "1"}}\n'),
        ("run.sh", "export OLD=1\nmpirun -x OLD python a.py\n", None),
        ("run.sh", "export OLD=1\necho $OLD\n", None),
        ("run.sh", "export OLD=1\nexport NEW=0\n", None),
        ("run.sh", "export NOT_OLD=1\n", None),
    ],
)
def test_another_name_for_a_variable(path: str, text: str, expected: str | None) -> None:
    value = variable(text, "OLD", "1", path=path)
    assert after(text, RenameArgument(value, "OLD", "NEW"), path) == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("run.sh", "srun bash -c 'torchrun a.py'\n", "srun bash -c 'torchrun --master_addr=$HOST a.py'\n"),
        ("run.sh", "python -m torch.distributed.run \\\n  a.py\n", "python -m torch.distributed.run --master_addr=$HOST \\\n  a.py\n"),
        ("Makefile", "train:\n\ttorchrun a.py\n", "train:\n\ttorchrun --master_addr=node0 a.py\n"),  # `$HOST` is `$H` there
        ("a.yaml", "command:\n  - torchrun\n  - a.py\n", "command:\n  - torchrun\n  - --master_addr=node0\n  - a.py\n"),
        ("a.yaml", "command: [torchrun, a.py]\n", "command: [torchrun, --master_addr=node0, a.py]\n"),
        ("run.sh", "torchrun a.py || torchrun b.py\n", None),
    ],
)  # fmt: skip
def test_a_flag_for_a_launcher(path: str, text: str, expected: str | None) -> None:
    whole = Location(path, 1, 1, len(text.splitlines()), len(text.splitlines()[-1]) + 1)
    assert after(text, AddFlag(whole, "master_addr", "{HOST}", {"HOST": Value("node0")}), path) == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("run.sh", "  torchrun a.py\n", "  export A=1\n  torchrun a.py\n"),
        ("run.sh", "docker run x torchrun a.py\n", "docker run -e A=1 x torchrun a.py\n"),
        ("a.yaml", "command: torchrun a.py\n", None),
    ],
)
def test_a_variable_for_a_command(path: str, text: str, expected: str | None) -> None:
    at = place_of(text, text.strip(), path)
    assert after(text, AddVariable(at, "A", "1"), path) == expected
