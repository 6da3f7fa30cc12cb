"""Inputs that nobody writes by hand: they must not end the process, nor take minutes or gigabytes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import libcst as cst
import pytest

from t4lint import cli
from t4lint.engine import Options, check
from t4lint.findings import Problem, Report
from t4lint.interpret.source import SourceModule, parse
from t4lint.settings import common_folder, load
from t4lint.sources import nesting, thin
from t4lint.sources.document import Document
from t4lint.sources.printed import spans
from t4lint.sources.statements import statement_span

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
TAIL = "\nfor batch in DataLoader([1], prefetch_factor=2):\n    pass\n"
RULE = "worker-options-without-workers"


def document(text: str) -> Document:
    return Document("m.py", Path("m.py"), "python", text)


def lint(folder: Path, text: str) -> Report:
    file = folder / "m.py"
    file.write_text(text)
    return check([file], Options(cwd=folder))


# --- depth -------------------------------------------------------------------------------------------------------

CHAINS = {
    "not": ("x = ", "not ", "1"),
    "and": ("x = ", "a and ", "b"),
    "or": ("x = ", "a or ", "b"),
    "minus": ("x = ", "-", "1"),
    "plus": ("x = 1", " + 1", ""),
    "lines": ("x = (1", "\n + 1", ")"),
    "backslashes": ("x = 1", " + \\\n 1", ""),
    "power": ("x = ", "2**", "2"),
    "attribute": ("x = a", ".b", ""),
    "call": ("x = a", "()", ""),
    "subscript": ("x = a", "[0]", ""),
    "strings": ("x = ", "'a' ", ""),
    "lines of strings": ("x = (", "'a'\n", ")"),
    "elif": ("if a:\n    pass\n", "elif a:\n    pass\n", ""),
    "comparison": ("x = 1", " < 1", ""),
    "import": ("import a", ".b", ""),
}
# Two levels or more each time.
HEAVY = {
    "lambda": ("x = ", "lambda: ", "1"),
    "choice": ("x = ", "1 if a else ", "1"),
    "method": ("x = a", ".f(1)", ""),
    "comprehension": ("x = [a", " for a in b", "]"),
}


@pytest.mark.parametrize("kind", [*CHAINS, *HEAVY])
def test_endless_chains_are_refused_with_a_place(kind: str) -> None:
    start, link, end = {**CHAINS, **HEAVY}[kind]
    began = time.process_time()
    problem = parse(document(f"import os\n{start}{link * 20_000}{end}\n"), "m")
    assert isinstance(problem, Problem) and "nested too deeply to be followed" in problem.message
    assert problem.line is not None and problem.line >= 2
    assert time.process_time() - began < 5


@pytest.mark.parametrize("kind", CHAINS)
def test_what_is_let_through_is_followed(kind: str, tmp_path: Path) -> None:
    start, link, end = CHAINS[kind]
    times = nesting.MAX_DEPTH // 2 - 10 if kind in ("power", "subscript") else nesting.MAX_DEPTH - 20
    report = lint(tmp_path, f"{HEAD}{start}{link * times}{end}{TAIL}")
    assert not report.problems
    assert [finding.rule for finding in report.findings] == [RULE]


@pytest.mark.heavy
def test_the_parser_is_far_from_the_end_of_its_stack() -> None:
    """Three times what is let through, in a process of its own."""
    chains = [(start, link, end) for start, link, end in CHAINS.values() if link != "()"]
    code = (
        "import libcst\n"
        f"for start, link, end in {chains!r}:\n"
        "    try: libcst.parse_module(start + link * 1800 + end + '\\n')\n"
        "    except RecursionError: pass\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def test_blocks_and_brackets_that_python_refuses_too() -> None:
    blocks = "".join(f"{' ' * depth}if a:\n" for depth in range(150)) + " " * 150 + "pass\n"
    problem = parse(document(blocks), "m")
    assert isinstance(problem, Problem) and (problem.line, "blocks are nested" in problem.message) == (101, True)
    problem = parse(document("x = 1\ny = " + "(" * 300 + ")" * 300 + "\n"), "m")
    assert isinstance(problem, Problem) and (problem.line, "brackets are nested" in problem.message) == (2, True)


def test_long_is_not_deep() -> None:
    many = "x = [" + "-1, a.b.c, 'd' 'e', f(1)[0],\n" * 2_000 + "]\n"
    texts = [
        many,
        "if a:\n    pass\nelif b:\n    pass\n" * 1_000,
        "x = 1; " * 2_000 + "\n",
        "'''" + "- a.b.c (d) + e\n" * 2_000 + "'''\n",
        "# " + "(.)-" * 2_000 + "\n",
        "f(\n" + "    a=b.c,\n" * 2_000 + ")\n",
    ]
    assert [nesting.too_deep(text) for text in texts] == [None] * len(texts)


# --- size --------------------------------------------------------------------------------------------------------


def huge(unit: str, size: int = 5_000_000) -> str:
    return unit * (size // len(unit))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda: huge("x = torch.tensor([1,2,3])\n"), id="statements"),
        pytest.param(lambda: "".join(f"x{i} = torch.tensor([1,2,{i}])\n" for i in range(150_000)), id="names"),
        pytest.param(lambda: f"x = [{huge('1, ')}]\n", id="numbers"),
        pytest.param(lambda: f"x = [\n{huge('    1.5,' + chr(10))}]\n", id="lines"),
        pytest.param(lambda: f"x = [\n{huge('    {1: 2, 3: [1,2,3]},' + chr(10))}]\nprint(x[0])\n", id="records"),
        pytest.param(lambda: "".join(f"r{i} = [{'1, ' * 500}]\n" for i in range(3_300)), id="rows"),
        pytest.param(lambda: huge("# words for padding of the line\n"), id="comments"),
        pytest.param(lambda: huge("\n", 2_000_000), id="blank lines"),
        pytest.param(lambda: f"x = '''{huge('abc def' + chr(10))}'''\n", id="string"),
    ],
)
def test_huge_files_are_linted(text: object, tmp_path: Path) -> None:
    assert callable(text)
    whole = f"{HEAD}{text()}{TAIL}"
    began = time.process_time()
    report = lint(tmp_path, whole)
    assert time.process_time() - began < 15
    assert not report.problems
    (finding,) = report.findings
    line = whole.count("\n", 0, whole.index("for batch")) + 1
    assert (finding.rule, finding.location.line) == (RULE, line)
    assert whole.split("\n")[line - 1][finding.location.column - 1 :].startswith("2)")


def test_places_in_a_thinned_text_are_those_of_the_document() -> None:
    text = "a = 1\nx = [\n" + "  1,\n" * 200_000 + "]; last = 'é'\n\nif a:\n    b = 2\n"
    source = parse(document(text), "m")
    assert isinstance(source, SourceModule) and source.document.text == text and len(source.text) < 200
    places = {}
    for statement in source.tree.body:
        where = source.location(statement)
        places[source.code(statement)] = (where.line, where.column, where.end_line, where.end_column)
    assert places["a = 1"] == (1, 1, 1, 6)
    assert places["last = 'é'"] == (200_003, 4, 200_003, 14)
    assert places["if a:\n    b = 2"][:2] == (200_005, 1)
    assert source.text.startswith("a = 1\nx = [*_,]; last")
    assert statement_span(text, 200_006) == (200_006, 200_006) and statement_span(text, 9) == (2, 200_003)


def test_what_matters_stays() -> None:
    text = (
        "lr = 1\n"
        + "x = 0\n" * 100_000
        + "model.train(False)\n" * 50
        + "used = 3\n" * 100_000
        + "print(used)\n"
        + "lr = 2\nf(lr)\nlr = 3\ng(lr)\n"
        + "z = torch.tensor([1], dtype=torch.float64)\n"
        + "y = f(x)\n"
    )
    left = thin.thin(text)
    assert left is not None and len(left.text) < 10_000
    assert left.text.count("model.train(False)\n") == 50
    for line in (
        "lr = 1\n",
        "x = 0\n",
        "used = 3\nprint(used)\n",
        "lr = 2\nf(lr)\nlr = 3\ng(lr)\n",
        "dtype=torch.float64",
        "y = f(x)\n",
    ):
        assert line in left.text
    assert thin.thin("x = 0\n" * 1_000) == thin.Thinned("x = 0\n" * 1_000)


def test_broken_and_huge(tmp_path: Path) -> None:
    (problem,) = lint(tmp_path, HEAD + "x = [\n" + "  1,\n" * 200_000 + "]\ny = = 2\n").problems
    assert (problem.line, problem.column) == (200_005, 5) and "cannot be parsed" in problem.message


def test_too_large_to_be_followed() -> None:
    text = "".join(f"f{number}(a, b)\n" for number in range(200_000))
    problem = parse(document(text), "m")
    assert isinstance(problem, Problem) and "too large to be followed" in problem.message


def test_form_feeds_do_not_shift_places() -> None:
    source = parse(document("a = 1\n\x0c\nb = '\x1c'\nc = 3\n"), "m")
    assert isinstance(source, SourceModule)
    assert [source.location(node).line for node in source.tree.body] == [1, 3, 4]


@pytest.mark.parametrize(
    "line",
    [
        "except (A, B) :",
        "except  (A, B)\t:  # why",
        "except(A, B)  \\\n  :",
        "except A :",
        "except (A, B) as e :",
        "except* (A, B) :",
    ],
)
def test_places_after_blanks_that_the_parser_forgets(line: str) -> None:
    star = "*" if "*" in line else ""
    text = f"try:\n    a = f'{{b ! r : {{c}}}}'\n{line}\n    d = e\ntry:\n    pass\nexcept{star} F:\n    g = h\n"
    tree = cst.parse_module(text)
    places = spans(tree, text)
    pending: list[cst.CSTNode] = [tree]
    names = set()
    while pending:
        node = pending.pop()
        pending.extend(node.children)
        if isinstance(node, cst.Name):
            names.add(node.value)
            assert text[slice(*places[id(node)])] == node.value
    assert names >= set("abcdghAF")


# --- the command line and the settings ---------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_that_no_file_can_have(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["a" * 5_000]) == 2
    said = capsys.readouterr().err
    assert "does not exist" in said and len(said) < 200


def test_imports_that_no_file_can_have(tmp_path: Path) -> None:
    text = f"{HEAD}import {'a' * 5_000}\nfrom .{'b' * 300} import c\nfrom {'d.' * 300}e import f{TAIL}"
    assert [finding.rule for finding in lint(tmp_path, text).findings] == [RULE]


def test_closed_stdin(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["-"]) == 2
    assert "stdin" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x = 1\n")))
    assert cli.main(["-"]) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed")
def test_working_directory_that_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli.main(["train.py"]) == 2
    assert "working directory" in capsys.readouterr().err


def test_settings_nested_without_end(here: Path) -> None:
    (here / "t4lint.toml").write_text("select = " + "[" * 5_000 + "\n")
    (problem,) = load(here / "train.py").problems
    assert problem.path == "t4lint.toml" and "nested too deeply" in problem.message


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights")
def test_a_link_to_itself_leaves_the_other_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "self.py").symlink_to("self.py")
    (here / "train.py").write_text(f"{HEAD}{TAIL}")
    for names in (["self.py", "train.py"], ["train.py", "self.py"]):
        assert cli.main(names) == 2
        said = "".join(capsys.readouterr())
        assert RULE in said and "self.py" in said
    assert load(here / "self.py").problems == ()


def test_versions_that_are_none(here: Path) -> None:
    (here / "t4lint.toml").write_text(
        '[versions]\ntorch = "garbage"\ntranformers = "5.0"\nnosuch = "1"\naccelerate = "1.2rc1"\nflash-attn = "2.8"\n'
    )
    said = [(problem.line, problem.message) for problem in load(here).problems]
    assert [line for line, _ in said] == [2, 3, 4]
    assert "'garbage' is not a version of torch" in said[0][1]
    assert "did you mean 'transformers'?" in said[1][1]
    assert "'nosuch'" in said[2][1]


def test_force_exclude(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t4lint.toml").write_text('exclude = ["old"]\n')
    (here / "old").mkdir()
    for name in ("old/a.py", "b.py"):
        (here / name).write_text("x = (\n")
    assert cli.main(["old/a.py", "b.py"]) == 2
    assert "a.py" in "".join(capsys.readouterr())
    assert cli.main(["--force-exclude", "old/a.py", "b.py"]) == 2
    said = "".join(capsys.readouterr())
    assert "a.py" not in said and "b.py" in said
    assert cli.main(["--force-exclude", "old/a.py"]) == 0


def test_settings_do_not_depend_on_the_order_of_paths(here: Path) -> None:
    (here / "t4lint.toml").write_text('target = "a100"\n')
    for name in ("one", "two"):
        (here / name).mkdir()
        (here / name / "t4lint.toml").write_text('target = "l4"\n')
        (here / name / "a.py").write_text("")
    one, two = Path("one/a.py"), Path("two/a.py")
    for paths in ([one, two], [two, one], [Path("one"), two]):
        assert load(common_folder(paths)).settings.target == "a100"
    assert load(common_folder([one])).settings.target == load(common_folder([one, Path("one")])).settings.target == "l4"
    assert common_folder([Path("a" * 5_000), one]).resolve() == here.resolve()
    assert os.fspath(common_folder([Path("one"), Path("two")])) == os.fspath(here)


# --- what the fuzzer found ---------------------------------------------------------------------------------------


def test_a_chain_in_an_f_string_is_refused_as_python_does(tmp_path: Path) -> None:
    """The bound on depth does not look into strings, and libcst takes seconds for what Python refuses at once."""
    report = lint(tmp_path, f'x = f"{{a{".b" * 20_000}}}"\n')
    assert [it.message for it in report.problems] == ["cannot be parsed: it is nested more deeply than Python reads"]


@pytest.mark.parametrize("digits", [1, 5000])
def test_a_number_of_processes_of_any_length(digits: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(1).half())\n")
    number = "3" * digits
    (tmp_path / "run.sh").write_text(
        f"accelerate launch --num_machines 2 --num_processes {number} --machine_rank {number} --use_fsdp "
        f"--fsdp_sharding_strategy {number} train.py\n"
        f"if [ {number} -gt {number} ]; then torchrun --nproc_per_node {number} train.py; fi\n"
    )
    assert not check([tmp_path], Options(cwd=tmp_path)).problems


@pytest.mark.parametrize("machines", ["'2'", "many", "[2]", "-1", "2.5"])
def test_a_number_of_machines_that_is_none(machines: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(1).half())\n")
    (tmp_path / "config.yaml").write_text(
        f"compute_environment: LOCAL_MACHINE\nnum_machines: {machines}\nnum_processes: 3\n"
    )
    (tmp_path / "run.sh").write_text("accelerate launch --config_file config.yaml --num_processes 3 train.py\n")
    assert not check([tmp_path], Options(cwd=tmp_path)).problems


def test_a_setup_that_is_no_python_says_no_commands(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("setup(entry_points={'console_scripts': ['a = b:c']}\n")
    (tmp_path / "train.py").write_text(HEAD + TAIL)
    report = check([tmp_path / "train.py"], Options(cwd=tmp_path))
    assert [it.rule for it in report.findings] == [RULE]


def test_a_command_of_a_library_that_documentation_repeats_is_one_run(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("base_model: gpt2\nbf16: true\n")
    block = "```bash\naxolotl train a.yml\n```\n\n"
    (tmp_path / "README.md").write_text(block * 30 + block.replace("a.yml", "a.yml --micro-batch-size 2"))
    report = check([tmp_path], Options(cwd=tmp_path))
    assert [it.launch for it in report.runs] == ["README.md:2", "README.md:122"]


def test_hundreds_of_mistakes_in_settings_are_not_all_told(tmp_path: Path) -> None:
    (tmp_path / "t4lint.toml").write_text("".join(f"a{number} = 1\n" for number in range(300)))
    problems = load(tmp_path).problems
    assert len(problems) == 51
    assert problems[-1].message == "and 250 more mistakes in these settings"


def test_thousands_of_micro_batches_cost_time_in_proportion(tmp_path: Path) -> None:
    """Counted in calls, since seconds say little on a busy machine: twice the statements are not four times the work."""

    def calls(number: int) -> int:
        text = (
            "import torch\nmodel = torch.nn.Linear(4, 4).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            + "model(torch.ones(4)).sum().backward()\n" * number
            + "for x in torch.utils.data.DataLoader(range(8)):\n    optimizer.step()\n"
        )
        import cProfile
        import pstats

        profile = cProfile.Profile()
        profile.runcall(lint, tmp_path, text)
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    calls(1)  # imports
    assert calls(600) < 3 * calls(300)
