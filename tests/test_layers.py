"""Dependencies point one way: import-linter's contracts, and what they cannot say."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

CHECKOUT = Path(__file__).resolve().parent.parent
RULES = sorted((CHECKOUT / "rules").rglob("*.py"))
# What runs in the person's own process finds only what their interpreter has.
INSIDE = sorted(
    path for folder in ("record/inside", "phantom") for path in (CHECKOUT / "t4lint" / folder).rglob("*.py")
)
THEIRS = {
    "torch", "numpy", "transformers", "trl", "accelerate", "peft", "bitsandbytes", "deepspeed", "lightning",
    "pytorch_lightning", "datasets", "diffusers", "flash_attn", "apex", "xformers", "triton", "safetensors",
}  # fmt: skip


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it; relative imports by their full name."""
    package = path.relative_to(CHECKOUT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(name: str, *modules: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def label(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


def test_contracts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.setattr(sys, "path", [str(CHECKOUT), *sys.path])
    status = lint_imports(config_filename=str(CHECKOUT / "pyproject.toml"), no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


@pytest.mark.parametrize("path", RULES, ids=label)
def test_rules_import_only_what_a_rule_needs(path: Path) -> None:
    for name in imported(path):
        ours = within(name, "t4lint.rule", "t4lint.trace", "t4lint.devices", "rules")
        assert ours or name.partition(".")[0] in sys.stdlib_module_names, f"{label(path)} imports {name}"
        assert not within(name, "importlib", "ast", "tokenize", "inspect"), f"{label(path)} reads code: {name}"


@pytest.mark.parametrize("path", INSIDE, ids=label)
def test_what_runs_inside_the_person_s_process_imports_nothing_of_ours(path: Path) -> None:
    own = {file.stem for file in INSIDE} | {"sitecustomize", "usercustomize"}
    for name in imported(path):
        top = name.partition(".")[0]
        allowed = within(name, "t4lint.record.inside", "t4lint.phantom") or top in THEIRS | own
        assert allowed or top in sys.stdlib_module_names, f"{label(path)} imports {name}"


def test_no_module_names_a_rule() -> None:
    for path in sorted((CHECKOUT / "t4lint").rglob("*.py")):
        for name in imported(path):
            assert not within(name, "rules", "t4lint.rules"), f"{label(path)} imports {name}"


def test_each_library_function_has_one_model() -> None:
    """Models are imported with the libraries of a program: of two, the last imported would count. `calls` refuses the second."""
    import importlib
    import pkgutil

    import t4lint.libraries

    for module in pkgutil.iter_modules(t4lint.libraries.__path__):
        importlib.import_module(f"t4lint.libraries.{module.name}")
