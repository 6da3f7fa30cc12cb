"""Writes docs/settings.md, docs/zh/settings.md and t4lint/t4lint.schema.json from the settings.

`--check` only says whether they are current. The Chinese of a description is in the catalogue (`settings`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "settings.md"
CHINESE_FILE = ROOT / "docs" / "zh" / "settings.md"
HEAD = """\
# Settings

<!-- Written by scripts/settings_docs.py from t4lint/settings.py: change them there. -->

A project's settings stand in `[tool.t4lint]` of `pyproject.toml`, or in `t4lint.toml` without that header. For each file
that is checked the nearest of these above it wins; flags of the command line win over it. A key that is not known is an
error. `t4lint settings FILE` shows what holds for a file and where each value comes from. `t4lint verify` runs a command with
the settings near the script that it starts.

```toml
target = "colab"
exclude = ["third_party"]
per-file-ignores = { "tests/**" = ["precision"] }
severity = { fp32-training = "note" }

[rules.too-many-dataloader-workers]
per-cpu = 2

[[overrides]]
paths = ["multi_gpu/**"]
target = "g4dn.12xlarge"
```

A settings file may `extend` another one, also of another name. Where two say something, as there and in overrides, the nearer
one comes on top: lists and tables add, `select` starts afresh, any other value replaces.

Editors complete and check the file by `t4lint/t4lint.schema.json`, which `t4lint settings --schema` prints.
"""
CHINESE_HEAD = """\
# 设置

<!-- 由 scripts/settings_docs.py 写出，请勿直接修改 -->

项目的设置写在 `pyproject.toml` 的 `[tool.t4lint]` 中，或写在 `t4lint.toml` 中（没有该表头）。对每个被检查的文件，其上方最近的一份设置有效；
命令行的参数优先于它。不认识的键是错误。`t4lint settings FILE` 显示对某个文件有效的设置及其来源。`t4lint verify`
按所启动脚本附近的设置运行命令。

```toml
target = "colab"
exclude = ["third_party"]
per-file-ignores = { "tests/**" = ["precision"] }
severity = { fp32-training = "note" }

[rules.too-many-dataloader-workers]
per-cpu = 2

[[overrides]]
paths = ["multi_gpu/**"]
target = "g4dn.12xlarge"
```

设置文件可以用 `extend` 引用另一个文件，名称不限。两处都有的设置（overrides 也一样），较近的叠加在上面：列表和表相加，`select`
重新开始，其他值替换。

编辑器按 `t4lint/t4lint.schema.json` 补全和检查该文件，`t4lint settings --schema` 会输出它。
"""
# Longer ones first: a type is put together of several.
_CHINESE = {
    "a list of tables, see ": "表的列表，见 ",
    "a table of tables with values": "表的表，值不限",
    "a table with lists of texts": "表，值为文本列表",
    "a table with texts": "表，值为文本",
    "a table with ": "表，值为 ",
    "a list of texts": "文本列表",
    "text": "文本",
    ", ": "、",
    " or ": " 或 ",
}
MANY = 3  # kinds of values that are not worth naming one by one
SCHEMA = ROOT / "t4lint" / "t4lint.schema.json"

_PLURALS = {
    "text": "texts",
    "anything": "values",
    "a number": "numbers",
    "a whole number": "whole numbers",
    "a list of texts": "lists of texts",
}

Schema = dict[str, Any]


def page(schema: Schema, language: str = "en") -> str:
    """The page: each setting with its type, its default and what it does, then the tables that settings consist of."""
    parts = [HEAD if language == "en" else CHINESE_HEAD, *_settings(schema, "##", language)]
    for name, table in sorted(schema.get("$defs", {}).items()):
        if "properties" in table:
            parts += [f"## {name}\n", *_description(table, language), *_settings(table, "###", language)]
    return "\n".join(parts)


def _settings(schema: Schema, level: str, language: str) -> Iterator[str]:
    required = schema.get("required", [])
    for name, one in schema.get("properties", {}).items():
        yield f"{level} {name}\n"
        yield from _description(one, language)
        kind, default = _type(one), _default(one.get("default"))
        if language == "en":
            yield f"- type: {kind}\n- {'required' if name in required else f'default: {default}'}\n"
        else:
            default = default.replace("none", "无")
            yield f"- 类型：{_in_chinese(kind)}\n- {'必需' if name in required else f'默认：{default}'}\n"


def _in_chinese(kind: str) -> str:
    for english, chinese in _CHINESE.items():
        kind = kind.replace(english, chinese)
    return kind


def _description(schema: Schema, language: str) -> Iterator[str]:
    from t4lint.language import phrase

    if text := schema.get("description"):
        yield f"{phrase(text.strip(), language, 'settings')}\n"


def _default(value: object) -> str:
    return "none" if value in (None, [], {}, "") else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(schema: Schema) -> str:
    """A JSON schema type in words."""
    if reference := schema.get("$ref"):
        return f"a table, see {reference.rpartition('/')[2]}"
    if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        if len(choices) > MANY:
            return "anything"
        return " or ".join(dict.fromkeys(_type(choice) for choice in choices if choice.get("type") != "null"))
    if values := schema.get("enum"):
        return ", ".join(f"`{json.dumps(value)}`" for value in values[:-1]) + f" or `{json.dumps(values[-1])}`"
    kind = schema.get("type")
    if kind == "array":
        return f"a list of {_plural(schema.get('items', {}))}".replace("of a table", "of tables")
    if kind == "object":
        return f"a table with {_plural(schema.get('additionalProperties', {}))}".replace("with a table", "of tables")
    return {"string": "text", "boolean": "`true` or `false`", "integer": "a whole number", "number": "a number"}.get(
        str(kind), "anything"
    )


def _plural(schema: object) -> str:
    found = _type(schema) if isinstance(schema, dict) else "anything"
    return _PLURALS.get(found, found)


def main() -> int:
    """Write the page and the schema, or with `--check` compare them."""
    sys.path.insert(0, str(ROOT))
    from t4lint.asked import schema

    old = 0
    pages = ((FILE, page(schema())), (CHINESE_FILE, page(schema(), "zh")))
    for file, text in (*pages, (SCHEMA, json.dumps(schema(), indent=2) + "\n")):
        if "--check" not in sys.argv[1:]:
            file.write_text(text, encoding="utf-8", newline="\n")
        elif not file.is_file() or file.read_text(encoding="utf-8") != text:
            print(f"{file.relative_to(ROOT)} is out of date: run scripts/settings_docs.py", file=sys.stderr)
            old = 1
    return old


if __name__ == "__main__":
    sys.exit(main())
