"""Notebooks: the module that their cells make, what IPython handles itself, and the place of each line in the file."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t4lint.findings import Problem
from t4lint.sources.document import LaunchCommand
from t4lint.sources.notebook import NotebookDocument, notebook_from, read_notebook
from t4lint.sources.shell import launches

FILE = Path("train.ipynb")


def lines_of(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def code(source: str | list[str], **more: Any) -> dict[str, Any]:
    outputs: list[Any] = []
    return {"cell_type": "code", "metadata": {}, "outputs": outputs, "source": source, **more}


def text(*cells: dict[str, Any] | str, metadata: dict[str, Any] | None = None, indent: int | None = 1) -> str:
    made = [code(lines_of(cell)) if isinstance(cell, str) else cell for cell in cells]
    return json.dumps({"cells": made, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}, indent=indent)


def notebook(*cells: dict[str, Any] | str, **more: Any) -> NotebookDocument:
    result = notebook_from(text(*cells, **more), FILE, "train.ipynb")
    assert isinstance(result, NotebookDocument), result
    return result


def module(*cells: str) -> str:
    return notebook(*cells).text


# --- the module --------------------------------------------------------------------------------------------------


def test_code_cells_in_order() -> None:
    markdown = {"cell_type": "markdown", "metadata": {}, "source": ["import nothing\n"]}
    result = notebook("import torch\nx = 1", markdown, "y = x\n", code("z = 1\nw = 2"))
    assert result.text == "import torch\nx = 1\ny = x\nz = 1\nw = 2\n"
    assert result.sources == ("import torch\nx = 1", "import nothing\n", "y = x\n", "z = 1\nw = 2")
    place = result.positions.locate(3, 1, 3, 2)
    assert (place.cell, place.cell_line, place.column, place.end_column) == (2, 1, 1, 2)
    assert result.positions.line_of(place) == 3
    assert result.document().positions is result.positions


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1\n"),
        ("!nvidia-smi", "pass\n"),
        ("if x:\n    !ls -l\n    %time\ny", "if x:\n    pass\n    pass\ny\n"),
        ("!pip install \\\n  torch \\\n  x\ny = 1", "pass\n\n\ny = 1\n"),
        ("a = (b\n  % c)\nd = '''\n!python x.py\n%env A=1\n'''", "a = (b\n  % c)\nd = '''\n!python x.py\n%env A=1\n'''\n"),
        ("torch.nn?\n?torch\ntorch??\n%time?", "pass\npass\npass\npass\n"),
        ("files = !ls *.py", "files = get_ipython()\n"),
        ("t = %timeit -o f()", "t = get_ipython()\n"),
        ("x != y\nx % y\nx = y % z", "x != y\nx % y\nx = y % z\n"),
        ("pip install torch", "pass\n"),
        ("pip = 1\ncd = 2\ncat(1)\nls -l", "pip = 1\ncd = 2\ncat(1)\nls -l\n"),
        ("%%time\nx = 1", "\nx = 1\n"),
        ("\n%%capture out\n%%time\n!ls\nx = 1", "\n\n\npass\nx = 1\n"),
        ("%%html\n<b>x</b>", "\n\n"),
        ("%%bash\npython train.py", "\n\n"),
        ("%%some_library_magic --flag\nx = 1", "\nx = 1\n"),
        ("%%some_other_magic\nselect * from x", "\n\n"),
        ("%env A=b", "import os; os.environ['A'] = 'b'\n"),
        ("  %env A = b c", "import os; os.environ['A'] = 'b c'\n"),
        ("%set_env A b", "import os; os.environ['A'] = 'b'\n"),
        ("%env A=it's", "import os; os.environ['A'] = \"it's\"\n"),
        ("%env A=$x", "import os; os.environ['A'] = str(x)\n"),
        ("%env A", "pass\n"),
        ("%env", "pass\n"),
        ("await f()", "await f()\n"),
        ("  x = 1\n  y = 2", "x = 1\ny = 2\n"),
        ("x = \"\"\"a\\\"\"\"\n%no\n\"\"\"", "x = \"\"\"a\\\"\"\"\n%no\n\"\"\"\n"),
        ("x = 'it\\'s' # (\n%cd y", "x = 'it\\'s' # (\npass\n"),
        ("x = [  # ]\n%y\n]", "\n\n\n"),
        ("", ""),
    ],
)  # fmt: skip
def test_cells(cell: str, python: str) -> None:
    result = module(cell)
    assert result == python
    ast.parse(result)


def test_a_cell_that_is_not_python_is_left_out() -> None:
    result = notebook("x = 1", "To do:\nwrite this", "y = 2")
    assert result.text == "x = 1\n\n\ny = 2\n"
    (problem,) = result.problems
    assert "cell 1 is not Python" in problem.message
    assert (
        problem.line is not None
        and "To do" in text("x = 1", "To do:\nwrite this", "y = 2").splitlines()[problem.line - 1]
    )


# --- places ------------------------------------------------------------------------------------------------------


def test_places_are_exact() -> None:
    raw = text("# é\nx = \"a\\t\"; y = 'ü'\n", "%env WANDB=off\nz = 1")
    result = notebook_from(raw, FILE, "train.ipynb")
    assert isinstance(result, NotebookDocument)
    place = result.positions.locate(2, 12, 2, 19)
    line = raw.splitlines()[place.line - 1]
    assert line.strip().startswith('"x = ')
    # columns are those of the cell's own line: escapes in the file do not shift them
    assert (place.column, place.end_column, place.cell, place.cell_line) == (12, 19, 0, 2)
    value = result.positions.locate(3, 35, 3, 38)
    assert (value.cell, value.cell_line, value.column, value.end_column) == (1, 1, 12, 15)
    assert result.sources[1][11:14] == "off"


def test_listing() -> None:
    raw = text('# é\nx = "a\\t"', {"cell_type": "markdown", "source": ["no"]}, "y")
    result = notebook_from(raw, FILE, "train.ipynb")
    assert isinstance(result, NotebookDocument)
    lines = result.listing.split("\n")
    assert [line for line in lines if line] == ["# é", 'x = "a\\t"', "y"]
    place = result.positions.locate(2, 5, 2, 10)
    assert lines[place.line - 1][place.column - 1 : place.end_column - 1] == '"a\\t"'
    assert notebook(code("x\ny"), indent=None).listing == ""


def test_one_physical_line() -> None:
    result = notebook(code("x = 1\ny = 22\n"), "z = 3", indent=None)
    place = result.positions.locate(2, 1, 2, 7)
    assert (place.line, place.column, place.end_column, place.cell, place.cell_line) == (1, 1, 7, 0, 2)
    over_lines = result.positions.locate(1, 1, 2, 3)
    assert (over_lines.column, over_lines.end_column, over_lines.cell_line) == (1, 6, 1)
    assert result.positions.locate(3, 1, 3, 2).cell == 1


def test_source_strings_need_not_be_lines() -> None:
    result = notebook(code(["a = ", "1\nb =", " 2\n", "\n", "c = 3"]), indent=1)
    assert result.text == "a = 1\nb = 2\n\nc = 3\n"
    raw = text(code(["a = ", "1\nb =", " 2\n", "\n", "c = 3"])).splitlines()
    assert [raw[result.positions.locate(line, 1).line - 1].strip(' ",') for line in (1, 2, 3, 4)] == [
        "a =", "1\\nb =", "\\n", "c = 3",
    ]  # fmt: skip


@given(st.lists(st.text(alphabet="ab \n\r\t'\"\\é%!(){}=#?😀", max_size=30), max_size=5), st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_line_of_the_module_is_a_line_of_a_cell(cells: list[str], as_list: bool) -> None:
    made = [code(lines_of(cell) if as_list else cell) for cell in cells]
    result = notebook(*made)
    lines = result.text.split("\n")[:-1]
    for number, line in enumerate(lines, start=1):
        place = result.positions.locate(number, 1, number, len(line) + 1)
        assert place.cell is not None and place.cell_line is not None
        assert (
            1 <= place.cell_line <= result.sources[place.cell].count("\n") + result.sources[place.cell].count("\r") + 1
        )
        assert place.end_column >= place.column or place.end_line > place.line


# --- what IPython does -------------------------------------------------------------------------------------------


def started(tmp_path: Path, *cells: str) -> list[LaunchCommand]:
    (tmp_path / "train.py").write_text("")
    file = tmp_path / "n.ipynb"
    result = notebook_from(text(*cells), file, "n.ipynb")
    assert isinstance(result, NotebookDocument)
    written = [one.file for one in result.written]
    return [command for fragment in result.shell for command in launches(fragment, tmp_path, written)]


def test_shell_lines(tmp_path: Path) -> None:
    cells = [
        "LR = 1e-4\nname = 'bert'\nimport os\nos.environ['A'] = 'b'",
        "%env OMP_NUM_THREADS=2",
        "!torchrun --nproc_per_node 2 train.py --lr {LR} --model $name \\\n    --x {other['y']}",
        "if True:\n    !python train.py --y",
    ]
    first, second = started(tmp_path, *cells)
    assert [word.text for word in first.arguments] == ["--lr", "1e-4", "--model", "bert", "--x", None]
    lr, model = first.arguments[1].location, first.arguments[3].location
    assert (lr.cell, lr.cell_line, lr.column, lr.end_column) == (0, 1, 6, 10)
    assert (model.cell, model.cell_line, model.column) == (0, 2, 9)
    assert first.arguments[4].location.cell_line == 2 and first.arguments[4].location.column == 5
    assert {name: word.text for name, word in first.environment.items()} == {"A": "b", "OMP_NUM_THREADS": "2"}
    assert (first.where.cell, first.where.cell_line, first.where.column, first.processes_per_node.it) == (2, 1, 2, 2)
    assert (second.where.cell, second.where.cell_line, second.where.column) == (3, 2, 6)


def test_a_variable_that_is_computed_is_not_known(tmp_path: Path) -> None:
    (command,) = started(tmp_path, "lr = 1", "lr = lr * 2", "!python train.py --lr $lr")
    assert command.arguments[1].text is None


def test_shell_cells(tmp_path: Path) -> None:
    (command,) = started(tmp_path, "%%bash\nX=1\n\naccelerate launch train.py \\\n  --x $X")
    assert [word.text for word in command.arguments] == ["--x", "1"]
    assert (command.where.cell, command.where.cell_line) == (0, 4)
    assert len(started(tmp_path, "%%script --bg bash\npython train.py")) == 1
    assert started(tmp_path, "%%script false\npython train.py") == []


def test_run_and_folders(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.py").write_text("")
    (command,) = started(tmp_path, "%cd sub", "%run other.py --x 1")
    assert command.file == tmp_path / "sub" / "other.py" and [w.text for w in command.arguments] == ["--x", "1"]


def test_written_files(tmp_path: Path) -> None:
    cells = [
        "%%writefile /content/model.py\nimport torch\n",
        "%%writefile -a /content/model.py\nx = 1",
        "!python model.py --z",
    ]
    result = notebook(*cells)
    (written,) = result.written
    assert (written.name, written.text) == ("/content/model.py", "import torch\nx = 1\n")
    assert written.file == Path("model.py")
    place = written.positions.locate(2, 1, 2, 6)
    assert (place.cell, place.cell_line, place.column, place.end_column) == (1, 2, 1, 6)
    assert result.modules()[0].file == Path("model.py")
    (command,) = started(tmp_path, *cells)
    assert command.file == tmp_path / "model.py"
    assert notebook("%%writefile {name}\nx").written == ()


def test_pins() -> None:
    result = notebook(
        "!pip install -q torch==2.1.0+cu118 'transformers>=4.30' -f page && echo done",
        "%pip install trl==0.7.1",
        "%%bash\npip install accelerate==0.25.0",
        "!pip install -U trl",
        "pip install peft==0.6.0",
    )
    assert result.pins == {
        "torch": "2.1.0+cu118", "transformers": "", "trl": "", "accelerate": "0.25.0", "peft": "0.6.0",
    }  # fmt: skip


# --- the file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "cell", "target"),
    [
        ({"accelerator": "GPU", "colab": {"gpuType": "T4"}}, "x", "colab"),
        ({"accelerator": "GPU", "colab": {}}, "x", "colab"),
        ({"accelerator": "GPU", "colab": {"gpuType": "A100"}}, "x", None),
        ({"accelerator": "TPU"}, "x", None),
        ({"kaggle": {"accelerator": "nvidiaTeslaT4"}}, "x", "kaggle-2xt4"),
        ({"kaggle": {"accelerator": "nvidiaTeslaP100"}}, "open('/kaggle/input/a')", None),
        ({}, "open('/kaggle/input/a')", "kaggle-2xt4"),
        ({}, "x", None),
    ],
)  # fmt: skip
def test_likely_target(metadata: dict[str, Any], cell: str, target: str | None) -> None:
    assert notebook(cell, metadata=metadata).likely_target == target


def test_other_languages_are_skipped() -> None:
    result = notebook("library(x)", metadata={"kernelspec": {"name": "ir", "language": "R"}})
    assert (result.text, result.language, result.problems) == ("", "r", ())


def test_format_3() -> None:
    cells = [{"cell_type": "code", "input": ["x = 1\n"], "language": "python", "outputs": []}]
    raw = json.dumps({"worksheets": [{"cells": cells}], "metadata": {}, "nbformat": 3})
    result = notebook_from(raw, FILE, "n")
    assert isinstance(result, NotebookDocument) and result.text == "x = 1\n"


@pytest.mark.parametrize(
    ("raw", "message", "line"),
    [
        ('{\n "cells": [\n', "not valid JSON", 3),
        ('{"cells": [}', "not valid JSON", 1),
        ("", "not valid JSON", 1),
        ("[1, 2]", "not a notebook", None),
        ('{"a": 1}', "not a notebook", None),
        ('{"cells": 1}', "not a notebook", None),
        ('"' + "x" * 100, "not valid JSON", 1),
        ("[" * 100_000, "nested", 1),
        ('{"outputs": ' + "[" * 100_000, "not valid JSON", 1),
    ],
)
def test_what_is_no_notebook(raw: str, message: str, line: int | None) -> None:
    result = notebook_from(raw, FILE, "n.ipynb")
    assert isinstance(result, Problem) and message in result.message and result.line == line


@pytest.mark.parametrize("outputs", ["x", 1, None, [], {}, ["]", {"a": '["'}], [["a"] * 3000]])
def test_outputs_of_any_shape(outputs: Any) -> None:
    assert notebook({"outputs": outputs, "cell_type": "code", "source": "x = 1"}, "y = 2").text == "x = 1\ny = 2\n"


@pytest.mark.parametrize(
    "cell",
    [{}, {"cell_type": "code"}, {"cell_type": "code", "source": 1}, {"cell_type": "code", "source": [1, None, {}]}],
)
def test_odd_cells(cell: dict[str, Any]) -> None:
    assert notebook(cell, "x = 1").text == "x = 1\n"


def test_large_outputs_are_passed_over(tmp_path: Path) -> None:
    image = "A" * 50_000_000
    outputs = [{"data": {"image/png": image, "text/plain": ['[{"\\\\', 'x\\"'] * 1000}}]
    file = tmp_path / "n.ipynb"
    file.write_text(text(code("x = 1", outputs=outputs), "y = 2"), encoding="utf-8")
    start = time.process_time()
    result = read_notebook(file, "n.ipynb")
    assert isinstance(result, NotebookDocument) and result.text == "x = 1\ny = 2\n"
    assert time.process_time() - start < 5


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert isinstance(read_notebook(tmp_path / "none.ipynb", "n"), Problem)
    assert isinstance(read_notebook(tmp_path, "n"), Problem)
    broken = tmp_path / "b.ipynb"
    broken.write_bytes(b'{\n"cells": "\xff"}')
    result = read_notebook(broken, "b.ipynb")
    assert isinstance(result, Problem) and result.line == 2


def test_frames_and_fingerprints_where_a_file_is_one_line(tmp_path: Path) -> None:
    """Kaggle writes notebooks so: the frame shows the line of the cell, and two cells are told apart by their words."""
    from t4lint.engine import Options, check
    from t4lint.report.text import render

    cells = [
        "from transformers import Trainer, TrainingArguments\nbase = 1\n"
        + f"Trainer(args=TrainingArguments(output_dir='{name}', fp16=True, tf32=True)).train()"
        for name in ("one", "two")
    ]
    raw = text(*cells, indent=None)
    assert "\n" not in raw
    (tmp_path / "a.ipynb").write_text(raw)
    found = check([tmp_path], Options(cwd=tmp_path))
    shown = render(found, colour=False)
    assert "3 | Trainer(args=TrainingArguments(output_dir='one'" in shown
    assert shown.index("a.ipynb:cell 1:3") < shown.index("a.ipynb:cell 2:3")
    before = [it.fingerprint for it in found.findings]
    (tmp_path / "a.ipynb").write_text(text(cells[1], indent=None))
    (left,) = check([tmp_path], Options(cwd=tmp_path)).findings
    assert len(set(before)) == 2 and left.fingerprint == before[1]


def test_frames_count_lines_and_columns_in_the_cell(tmp_path: Path) -> None:
    """As its place does; the finding is about a statement that is indented."""
    from t4lint.engine import Options, check
    from t4lint.report.text import render

    setup = (
        "import torch\n\nmodel = torch.nn.Linear(4, 4).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    )
    loop = """scaler = torch.amp.GradScaler("cuda")
for inputs in torch.randn(8, 4, 4):
    scaler.scale(model(inputs.cuda()).sum()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()"""
    (tmp_path / "a.ipynb").write_text(text(setup, loop))
    report = check([tmp_path], Options(cwd=tmp_path, select=("gradient-clipping-before-unscale",)))
    shown = render(report, colour=False).splitlines()
    at = shown.index(" --> a.ipynb:cell 2:4:5")
    assert shown[at + 2] == "4 |     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert shown[at + 3] == "  |     " + "^" * 55
    assert report.runs[0].command == "a.ipynb"
