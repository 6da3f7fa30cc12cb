"""Settings files: which one wins, and what people read when they made a mistake in one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from t4lint.settings import Settings, find_line, load, schema


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(path: str, text: str) -> None:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def mistakes(text: str, file: str = "t4lint.toml") -> list[str]:
    """The problems with a settings file, as `path:line: message`."""
    write(file, text)
    return [f"{it.path}:{it.line}: {it.message}" for it in load(Path()).problems]


# --- which file --------------------------------------------------------------------------------------------------


def test_without_a_file_the_defaults_hold() -> None:
    assert load(Path("train.py")) == (Settings(), (), None, "", {})


def test_everything_that_can_be_set() -> None:
    write(
        "pyproject.toml",
        """
        [tool.t4lint]
        target = "g4dn.12xlarge"
        select = ["precision"]
        ignore = ["bf16-weights"]
        extend-select = ["fp16-reduction"]
        exclude = ["build"]
        min-confidence = "possible"
        fail-on = "error"
        versions = { torch = "2.4" }
        """,
    )
    assert load(Path()).settings == Settings(
        target="g4dn.12xlarge",
        select=("precision",),
        ignore=("bf16-weights",),
        extend_select=("fp16-reduction",),
        exclude=("build",),
        min_confidence="possible",
        fail_on="error",
        versions={"torch": "2.4"},
    )


def test_the_nearest_file_wins_and_files_without_settings_do_not_count() -> None:
    write("t4lint.toml", 'target = "l4"')
    write("a/pyproject.toml", "[tool.t4lint]\ntarget = 'a10'\n")
    write("a/b/pyproject.toml", "[project]\nname = 't4lint-user'\n")
    write("a/b/train.py", "")
    assert load(Path("a/b/train.py")).settings.target == "a10"
    assert load(Path("a/b/not_there.py")).settings.target == "a10"
    assert load(Path("a")).settings.target == "a10"
    assert load(Path("other/x.py")).settings.target == "l4"


def test_t4lint_toml_wins_over_pyproject_beside_it() -> None:
    write("pyproject.toml", "[tool.t4lint]\ntarget = 'a10'\n")
    write("t4lint.toml", "target = 'l4'\n")
    assert load(Path()).settings.target == "l4"


def test_a_byte_order_mark_is_no_mistake() -> None:
    Path("t4lint.toml").write_bytes(b"\xef\xbb\xbftarget = 'l4'\n")
    assert load(Path()).settings.target == "l4"


def test_a_broken_pyproject_that_is_not_about_us_is_not_ours_to_report() -> None:
    assert mistakes("[project\n", "pyproject.toml") == []


# --- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nextend_select = []", "2: unknown setting 'extend_select'; did you mean 'extend-select'?"),
        ("targt = 't4'", "1: unknown setting 'targt'; did you mean 'target'?"),
        (
            "colour = 1",
            "1: unknown setting 'colour'; the settings are "
            "extend, target, select, ignore, extend-select, exclude, min-confidence, fail-on, severity, versions, "
            "per-file-ignores, rules, own-rules, overrides",
        ),
        (
            "target = 't4'\nfail-on = 'warnings'",
            "2: fail-on must be one of error, warning, note, not 'warnings'; did you mean 'warning'?",
        ),
        ("min-confidence = 3", "1: min-confidence must be one of certain, likely, possible, not 3"),
        ("select = 'bf16-weights'", '1: select must be a list, e.g. select = ["bf16-weights"]'),
        ("ignore = [\n  'a',\n  7,\n]", "3: ignore must be text in quotes, not 7"),
        ("target = 4", "1: target must be text in quotes, not 4"),
        ("[versions]\ntorch = 2.4", '2: the version of torch must be text in quotes, e.g. torch = "2.4"'),
        ("versions = '2.4'", '1: versions must be a table, e.g. versions = { torch = "2.4" }'),
        ("target = 't4'\nselect = [,]", "2: this file is not valid TOML: invalid value"),
    ],
)
def test_mistakes(text: str, said: str) -> None:
    assert mistakes(text) == [f"t4lint.toml:{said}"]


def test_all_mistakes_are_told_at_once_in_order() -> None:
    text = "[tool.other]\ntarget = 1\n\n[tool.t4lint]\nselct = []\ntarget = 1\n"
    assert mistakes(text, "pyproject.toml") == [
        "pyproject.toml:5: unknown setting 'selct'; did you mean 'select'?",
        "pyproject.toml:6: target must be text in quotes, not 1",
    ]


def test_a_table_is_needed() -> None:
    said = "pyproject.toml:2: tool.t4lint must be a table: [tool.t4lint]"
    assert mistakes("[tool]\nt4lint = 't4'\n", "pyproject.toml") == [said]


def test_a_file_that_is_not_text() -> None:
    Path("t4lint.toml").write_bytes(b"target = 't4'\n# \xff\n")
    assert [(it.line, it.message) for it in load(Path()).problems] == [(2, "this file is not UTF-8 text")]


def test_a_later_mistake_is_placed_too() -> None:
    write("pyproject.toml", "[tool.t4lint]\nselect = [\n  'data',\n  'dta',\n]\n")
    problem = load(Path()).problem("unknown rule", "select", "dta")
    assert (problem.path, problem.line, problem.message) == ("pyproject.toml", 4, "unknown rule")


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\n[b]\na = 2", ("b", "a"), 3),
        ("b.a = 2", ("b", "a"), 1),
        ('[ \'b\' . "c" ]\n"a" = 2', ("b", "c", "a"), 2),
        ("x = 1\nb = { c = 1, a = 2 }", ("b", "a"), 2),
        ("x = 1\nb = ['y',\n 'z']", ("b", "z"), 3),
        ("x = 1\nb = ['y']\nz = 1", ("b", "z"), 2),
        ("x = 1", ("b",), None),
    ],
)
def test_find_line(text: str, path: tuple[str, ...], line: int | None) -> None:
    assert find_line(text, path) == line


# --- around it ---------------------------------------------------------------------------------------------------


def test_the_schema_describes_every_setting() -> None:
    properties = schema()["properties"]
    assert set(properties) == {item.name.replace("_", "-") for item in fields(Settings)}
    assert all(one["description"] for one in properties.values())


def test_without_a_file_nothing_heavy_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from t4lint.settings import load; load(Path());"
        "print(sorted({'pydantic', 'tomllib', 'tomli', 'rich', 'libcst'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parent.parent
    env = {"PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
