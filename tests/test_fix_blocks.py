"""Fixes that put statements into a block, or find their place by what a loop does; and those that must not be made."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from t4lint.changes import OnlyNew, fix
from t4lint.engine import Options
from t4lint.fix.render import rendered
from t4lint.fix.text import Lines, edited
from t4lint.rule import Edit, InsertBeforeUse, InsertFirst, LeaveToInnerShell, PutUnder, StartBlockEarlier
from t4lint.trace import Location

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def at(text: str, part: str, path: str = "a.py") -> Location:
    """The place of `part` in `text`."""
    lines = Lines(text)
    start = text.index(part)
    return Location(path, *lines.place(start), *lines.place(start + len(part)))


def made(text: str, edit: Edit, path: str = "a.py") -> str | None:
    found = rendered([edit], {path: text}.get, "safe", "")
    return edited(text, found.edits) if found else None


def under(text: str, part: str = "save(x)") -> str | None:
    return made(text, PutUnder(at(text, part), "if {module}.get_rank() == 0:", "torch.distributed"))


GUARDED = [
    ("import torch\nsave(x)\n", "import torch\nif torch.distributed.get_rank() == 0:\n    save(x)\n"),
    ("import torch.distributed as dist\nsave(x)\n", "import torch.distributed as dist\nif dist.get_rank() == 0:\n    save(x)\n"),
    ("from torch import distributed\nsave(x)\n", "from torch import distributed\nif distributed.get_rank() == 0:\n    save(x)\n"),
    ("from torch import distributed as d\nsave(x)\n", "from torch import distributed as d\nif d.get_rank() == 0:\n    save(x)\n"),
    ("import os\nsave(x)\n", "import os\n\nimport torch.distributed\nif torch.distributed.get_rank() == 0:\n    save(x)\n"),
    ("import torch\nfor i in y:\n  save(x)  # here\n", "import torch\nfor i in y:\n  if torch.distributed.get_rank() == 0:\n"
        "    save(x)  # here\n"),
    ("import torch\r\nsave(x)\r\n", "import torch\r\nif torch.distributed.get_rank() == 0:\r\n    save(x)\r\n"),
    ("import torch\nx = save(x)\n", None),  # what it gives is used
    ("import torch\nif a: save(x)\n", None),
    ("import torch\na(); save(x)\n", None),
    ("import torch.distributed as dist\ndef f(dist):\n    save(x)\n", None),  # another `dist`
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), GUARDED)
def test_a_call_goes_under_a_line(before: str, after: str | None) -> None:
    result = under(before, "x = save(x)" if "x = " in before else "save(x)")
    assert result is not None if after is not None else result is None
    if result is not None and after is not None:
        assert ast.dump(ast.parse(result)) == ast.dump(ast.parse(after))
        assert result.splitlines()[-2:] == after.splitlines()[-2:] and ("\r\n" in result) == ("\r\n" in after)


def test_all_lines_of_a_call_go_with_it_but_no_string_changes() -> None:
    text = "import torch\nsave(\n    x,\n\n    # where\n    y,\n)\n"
    whole = "save(\n    x,\n\n    # where\n    y,\n)"
    assert under(text, whole) == (
        "import torch\nif torch.distributed.get_rank() == 0:\n    save(\n        x,\n\n        # where\n        y,\n    )\n"
    )
    assert under('import torch\nsave("""a\nb""")\n', 'save("""a\nb""")') is None


HEAD = "import contextlib\nfor i, x in enumerate(loader):\n"


def earlier(body: str) -> str | None:
    text = HEAD + body
    return made(text, StartBlockEarlier(at(text, "loss.backward()"), "no_sync"))


def test_a_chosen_block_begins_before_the_forward() -> None:
    body = "    loss = model(x)\n    # last?\n    with model.no_sync() if i % 4 else contextlib.nullcontext():\n        loss.backward()\n"
    assert earlier(body) == (
        HEAD + "    with model.no_sync() if i % 4 else contextlib.nullcontext():\n"
        "        loss = model(x)\n        # last?\n        loss.backward()\n"
    )


def test_a_block_on_one_side_of_a_test_takes_the_forward_in() -> None:
    body = (
        "    if i % 4:\n        loss = model(x)\n        with model.no_sync():\n            loss.backward()\n"
        "    else:\n        model(x).sum()\n"
    )
    assert earlier(body) == (
        HEAD
        + "    if i % 4:\n        with model.no_sync():\n            loss = model(x)\n            loss.backward()\n"
        "    else:\n        model(x).sum()\n"
    )


def test_two_sides_become_one_block() -> None:
    body = (
        "    loss = model(x)\n    if i % 4 == 3:\n        loss.backward()\n    else:\n        with model.no_sync():\n"
        "            loss.backward()\n    step()\n"
    )
    text = HEAD + body
    place = at(text, "            loss.backward()")
    assert made(text, StartBlockEarlier(place, "no_sync")) == (
        HEAD + "    with contextlib.nullcontext() if i % 4 == 3 else model.no_sync():\n"
        "        loss = model(x)\n        loss.backward()\n    step()\n"
    )


NO_BLOCK = [
    "    loss = model(x)\n    with model.no_sync():\n        loss.backward()\n",  # always: gradients would never meet
    "    loss = other(x)\n    with model.no_sync() if i % 4 else contextlib.nullcontext():\n        loss.backward()\n",
    "    loss = model(x)\n    n = len(x)\n    with model.no_sync() if n % 4 else contextlib.nullcontext():\n        loss.backward()\n",
    "    loss = model(x)\n    if ask(i):\n        with model.no_sync():\n            loss.backward()\n    else:\n        loss.backward()\n",
    "    loss = model(x)\n    if i % 4:\n        with model.no_sync():\n            loss.backward()\n"
    "    else:\n        (2 * loss).backward()\n",
    "    loss = model(x)\n    if i % 4:\n        with model.no_sync():\n            loss.backward()\n"
    "    elif i:\n        loss.backward()\n",
]


@pytest.mark.parametrize("body", NO_BLOCK)
def test_a_block_stays_where_the_meaning_would_change(body: str) -> None:
    assert earlier(body) is None


def before_use(text: str) -> str | None:
    code = "{name}.sync = {when}"
    return made(text, InsertBeforeUse(at(text, "opt.step()"), at(text, "model = DDP(net)"), code))


START = "model = DDP(net)\nfor i, x in enumerate(loader):\n"
USES = [
    (START + "    loss = model(x)\n    if (i + 1) % n == 0:\n        opt.step()\n", "    model.sync = (i + 1) % n == 0\n"),
    (START + "    with amp():\n        loss = model(x)\n    if i % n == 0 or i == len(loader):\n"
        "        opt.step()\n", "    model.sync = i % n == 0 or i == len(loader)\n"),
    (START + "    for k in range(args.n):\n        loss = model(x)\n    opt.step()\n", "        model.sync = k == args.n - 1\n"),
    (START + "    loss = model(x)\n    i += 1\n    if i % n == 0:\n        opt.step()\n", None),  # counted in between
    (START + "    loss = model(x)\n    if ready(i):\n        opt.step()\n", None),  # who knows what asking does
    (START + "    loss = model(x)\n    if i % n:\n        pass\n    else:\n        opt.step()\n", None),
    (START + "    loss = other(x)\n    if i % n == 0:\n        opt.step()\n", None),
    (START + "    loss = model(x)\n    opt.step()\n", None),
    ("def make():\n    model = DDP(net)\ndef run(model):\n    for i in y:\n        model(i)\n"
        "        if i % n == 0:\n            opt.step()\n", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), USES)
def test_a_line_before_the_forward_says_when(text: str, line: str | None) -> None:
    result = before_use(text)
    if line is None:
        assert result is None
        return
    assert result is not None
    forward = next(it for it in text.splitlines(keepends=True) if "model(x)" in it or "with amp" in it)
    assert result == text.replace(forward, line + forward)


def test_a_line_before_all_imports() -> None:
    code = 'os.environ["A"] = "0"'

    def first(text: str) -> str | None:
        return made(text, InsertFirst(at(text, "f()"), "os", code))

    lines = f"import os\n\n{code}\n\n"
    assert first('"""Doc."""\nfrom __future__ import annotations\nimport torch\nf()\n') == (
        f'"""Doc."""\nfrom __future__ import annotations\n{lines}import torch\nf()\n'
    )
    assert first("import torch\nimport os\nf()\n") == f"{lines}import torch\nf()\n"
    assert first("import os\nimport torch\nf()\n") == f"{lines}import torch\nf()\n"
    assert first("f()\n") is None


SHELLS = [
    ('srun bash -c "torchrun --node_rank=$SLURM_PROCID a.py"\n', 'srun bash -c "torchrun --node_rank=\\$SLURM_PROCID a.py"\n'),
    ('srun sh -lc "torchrun --node_rank ${SLURM_NODEID} a.py"\n', 'srun sh -lc "torchrun --node_rank \\${SLURM_NODEID} a.py"\n'),
    ('srun -N 2 \\\n  bash -c "torchrun \\\n  --node_rank=$SLURM_PROCID a.py"\n', 'srun -N 2 \\\n'
        '  bash -c "torchrun \\\n  --node_rank=\\$SLURM_PROCID a.py"\n'),
    ("srun torchrun --node_rank=$SLURM_PROCID a.py\n", None),  # no shell on the node
    ("srun bash -c 'torchrun --node_rank=$SLURM_PROCID a.py'\n", None),  # right already
    ('LAUNCH="torchrun --node_rank=$SLURM_PROCID"\n', None),
    ('srun bash -c "echo" "$SLURM_PROCID"\n', None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), SHELLS)
def test_a_variable_is_left_to_the_inner_shell(before: str, after: str | None) -> None:
    word = next(it for it in ("$SLURM_PROCID", "${SLURM_NODEID}") if it in before)
    assert made(before, LeaveToInnerShell(at(before, word, path="run.sh")), path="run.sh") == after


def test_a_notebook_shows_one_card_before_its_first_import(tmp_path: Path) -> None:
    program = (FIXTURES / "quantized-batch-doubling/bad_one_device.py").read_text().partition("\n")[2]
    cells = [
        {
            "cell_type": "code",
            "id": str(number),
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": source,
        }
        for number, source in enumerate((["%pip install peft\n", "import random"], program.splitlines(keepends=True)))
    ]
    notebook = tmp_path / "train.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1))
    done = fix(
        [tmp_path],
        Options(cwd=tmp_path, target="kaggle-2xt4"),
        OnlyNew(None, (), None, tmp_path, "likely"),
        unsafe=True,
    )
    assert "quantized-batch-doubling" in {it.rule for it in done.outcome.fixed}
    first = json.loads(done.outcome.after["train.ipynb"])["cells"][0]["source"]
    assert "".join(first) == '%pip install peft\nimport os\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n\nimport random'
