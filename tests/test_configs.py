"""Configuration files: the values that Python's own readers give, and the place of each key and value."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from t4lint.findings import Problem
from t4lint.sources.configs import ConfigDocument, config_from, is_config, kind_of_config, plain_yaml, read_config
from t4lint.sources.files import read
from t4lint.sources.notebook import NotebookDocument, notebook_from
from t4lint.trace import Location


def config(text: str, name: str = "config.yaml") -> ConfigDocument:
    result = config_from(text, Path(name), name)
    assert isinstance(result, ConfigDocument), result
    return result


def problem(text: str, name: str = "config.yaml") -> Problem:
    start = time.process_time()
    result = config_from(text, Path(name), name)
    assert time.process_time() - start < 3
    assert isinstance(result, Problem)
    return result


def written(text: str, place: Location) -> str:
    """What stands at a place."""
    lines = text.split("\n")
    if place.line == place.end_line:
        return lines[place.line - 1][place.column - 1 : place.end_column - 1]
    first, *middle, last = lines[place.line - 1 : place.end_line]
    return "\n".join([first[place.column - 1 :], *middle, last[: place.end_column - 1]])


# --- YAML --------------------------------------------------------------------------------------------------------

RECIPE = """\
# Model
model: &model
  name: "é/ü"   # comment
  dtype: bfloat16
training:
  <<: *model
  learning_rate: 1e-4
  bf16: on
  batch: [1, 2.5, {deep: null}]
  dtype: float16
other: *model
text: |
  a
  b
"""


@pytest.mark.parametrize(
    ("path", "value", "key", "at"),
    [
        ("model.name", "é/ü", "name", '"é/ü"'),
        ("training.name", "é/ü", "name", '"é/ü"'),
        ("training.learning_rate", "1e-4", "learning_rate", "1e-4"),
        ("training.bf16", True, "bf16", "on"),
        ("training.batch.1", 2.5, "2.5", "2.5"),
        ("training.batch.2.deep", None, "deep", "null"),
        ("training.batch", [1, 2.5, {"deep": None}], "batch", "[1, 2.5, {deep: null}]"),
        ("training.dtype", "float16", "dtype", "float16"),
        ("other.dtype", "bfloat16", "dtype", "bfloat16"),
        ("text", "a\nb\n", "text", "|\n  a\n  b\n"),
    ],
)
def test_yaml_places(path: str, value: object, key: str, at: str) -> None:
    found = config(RECIPE).get(path)
    assert found is not None
    assert found[0] == value
    assert (written(RECIPE, found[1]), written(RECIPE, found[2])) == (key, at)


@pytest.mark.parametrize(
    "path", ["", "none", "model.none", "model.name.none", "training.batch.9", "training.batch.x", "text.0"]
)
def test_what_is_not_there(path: str) -> None:
    assert config(RECIPE).get(path) is None


def test_an_alias_stands_under_its_own_key() -> None:
    found = config(RECIPE).get("other")
    assert found is not None and written(RECIPE, found[1]) == "other" and found[2].line == 2


@pytest.mark.parametrize(
    "text",
    [
        RECIPE,
        "a: 1\na: 2\n",
        "- 1\n- - 2\n  - x: y\n",
        "just text",
        "",
        "a: 012\nb: 0x1F\nc: 1_000\nd: 1:30\ne: .inf\nf: ~\ng: yes\nh: 'yes'\ni: 2001-01-01\nj: !!str 1\nk: !!int '3'\nl: 1.5e+3\n",
        "a: >-\n  folded\n  text\n\n  more\n",
        "base: &b {x: 1, y: 2}\na: {<<: *b, x: 3}\nb: {<<: [*b, {z: 1, x: 9}]}\n",
        "\ufeffa: 1\n",
        "a:\r\n  b: 1\r\n",
    ],
)
def test_values_are_those_of_safe_load(text: str) -> None:
    assert config(text).data.plain() == yaml.safe_load(text)


scalars = (
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=12) | st.floats(allow_nan=False, width=32)
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@given(trees, st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_yaml(tree: object, flow: bool) -> None:
    text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    result = config(text).data
    assert result.plain() == yaml.safe_load(text)
    for _, node in result.walk():
        if node.style == "plain" and node.kind == "scalar" and node.value is not None:
            assert yaml.safe_load(written(text, node.location)) == node.value or "\n" in text.rstrip("\n")


def test_several_documents() -> None:
    result = config("a: 1\n---\nb: 2\n---\n")
    assert [document.plain() for document in result.documents] == [{"a": 1}, {"b": 2}, None]
    assert result.data.plain() == {"a": 1}


def test_tags_construct_nothing() -> None:
    assert config("a: !!python/object/apply:os.system [x]\nb: !env X\nc: !!python/name:os.x ''").data.plain() == {
        "a": ["x"], "b": "X", "c": "",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["config.yaml", "config.json"])
def test_duplicate_keys(name: str) -> None:
    text = '{"a": 1,\n "a": 2, "b": {"c": 1, "c": 2}}'
    result = config(text, name)
    assert result.data.plain() == {"a": 2, "b": {"c": 2}}
    assert sorted((place.line, written(text, place)) for place in result.duplicates) == [(1, '"a"'), (2, '"c"')]


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (bomb(9), "expand to too much"),
        ("a: " + "[" * 100_000, "nest"),
        ("{a: " * 10_000, "nest"),
        ("- " * 5_000 + "x", "nested more than"),
        ("\n".join(" " * n + "a:" for n in range(1_000)), "nested more than"),
        ("a: [" + "x, " * 300_000 + "]", "more than"),
        ("a: *none", "alias that is not defined"),
        ("a: b: c", "not valid YAML"),
        ("a: 'x", "not valid YAML"),
        ("a\x00b", "not valid YAML"),
        ("\t- a", "not valid YAML"),
        ("x" * 2_000_001, "too large"),
    ],
)
def test_hostile_yaml(text: str, message: str) -> None:
    assert message in problem(text).message


def test_place_of_a_problem() -> None:
    found = problem("a: 1\nb: [1,\nc: }\n")
    assert found.line == 3


def test_cycles() -> None:
    result = config("a: &a\n  b: *a\n  c: [*a]\nd: &d [*d]\ne: &e {<<: *e, f: 1}\n")
    assert result.data.plain() == {"a": {"b": None, "c": [None]}, "d": [None], "e": {"f": 1}}
    assert len(list(result.data.walk())) < 20


def test_numbers_that_no_person_wrote() -> None:
    assert config("a: " + "9" * 100_000).data.plain() == {"a": "9" * 100_000}
    assert config("a: 2001-99-99\nb: 0x" + "f" * 50_000).data.entries["a"].value == "2001-99-99"
    assert isinstance(config('{"a": ' + "9" * 100_000 + "}", "a.json").data.entries["a"].value, str)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"\n #%@,?<1.\t", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_raises(text: str) -> None:
    for name in ("x.yaml", "x.json"):
        result = config_from(text, Path(name), name)
        if isinstance(result, ConfigDocument):
            kind_of_config(result.data)
            list(result.data.walk())


# --- JSON --------------------------------------------------------------------------------------------------------


def test_json_places() -> None:
    text = '{\n  "fp16": {"enabled": true},\n  "é\\u00e9": ["a\\n", -1.5e3, {"x.y": null}]\n}\n'
    result = config(text, "ds.json")
    enabled = result.get("fp16.enabled")
    assert enabled is not None and enabled[0] is True
    assert (written(text, enabled[1]), written(text, enabled[2])) == ('"enabled"', "true")
    number = result.get("éé.1")
    assert number is not None and number[0] == -1500.0 and written(text, number[2]) == "-1.5e3"
    assert result.data.plain() == json.loads(text)


@given(trees)
@settings(max_examples=100, deadline=None)
def test_any_json(tree: object) -> None:
    text = json.dumps(tree, indent=2)
    assert config(text, "x.json").data.plain() == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", "{", '{"a"}', '{"a": }', "[1, ]", "[1 2]", "{'a': 1}", '{"a": 1} x', '"a', "tru", "[" * 100_000]
)
def test_broken_json(text: str) -> None:
    assert "not valid JSON" in problem(text, "x.json").message


# --- what it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 2", "accelerate"),
        ('{"zero_optimization": {"stage": 2}, "fp16": {"enabled": true}, "train_batch_size": "auto"}', "deepspeed"),
        ('{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}', "deepspeed"),
        ("per_device_train_batch_size: 4\nbf16: true\nlearning_rate: 1e-4\noptim: adamw_torch", "hf_arguments"),
        ("model_name_or_path: x\ntorch_dtype: bfloat16\nuse_peft: true", "hf_arguments"),
        ("base_model: x\nmicro_batch_size: 2\nsequence_len: 2048\nadapter: qlora\nbf16: auto", "axolotl"),
        ("model_name_or_path: x\nstage: sft\nfinetuning_type: lora\nper_device_train_batch_size: 1\nbf16: true", "llamafactory"),
        ("model:\n  _component_: torchtune.models.llama3.llama3_8b\ndtype: bf16", "torchtune"),
        ("optimizer:\n  _component_: torch.optim.AdamW\ngradient_accumulation_steps: 8\nmodel: {_component_: x}", "torchtune"),
        ("optimizer: {lr: 1}\nscheduler: {x: 1}", None),
        ("imgsz: 640\nbatch: 16\nepochs: 10\nworkers: 8\namp: true", "ultralytics"),
        ("name: CI\non: push\njobs: {}", None),
        ("- 1", None),
        ("", None),
        ("optimizer: adam\nscheduler: cosine\nfp16: true", None),
    ],
)  # fmt: skip
def test_kinds(text: str, kind: str | None) -> None:
    assert kind_of_config(config(text).data) == kind


# --- files -------------------------------------------------------------------------------------------------------


def test_reading(tmp_path: Path) -> None:
    file = tmp_path / "a.yml"
    file.write_text("a: 1\n")
    result = read_config(read(file, "a.yml"))
    assert isinstance(result, ConfigDocument) and result.kind == "yaml"
    assert isinstance(read_config(read(tmp_path / "none.yaml", "none.yaml")), Problem)
    assert is_config(file) and not is_config(Path("a.py"))


def test_a_config_that_a_notebook_writes() -> None:
    source = ["%%writefile ds.json\n", "{\n", ' "fp16": {"enabled": true}}\n']
    raw = json.dumps({"cells": [{"cell_type": "code", "source": source}]}, indent=1)
    notebook = notebook_from(raw, Path("n.ipynb"), "n.ipynb")
    assert isinstance(notebook, NotebookDocument)
    (file,) = notebook.written
    result = config_from(file.text, file.file, "n.ipynb", file.positions)
    assert isinstance(result, ConfigDocument)
    found = result.get("fp16.enabled")
    assert found is not None
    assert (found[2].cell, found[2].cell_line, found[2].column) == (0, 3, 22)
    assert "enabled" in raw.splitlines()[found[2].line - 1]


def test_plain() -> None:
    assert plain_yaml("a: [1, 2]") == {"a": [1, 2]} and plain_yaml("a: b: c") is None
