"""Messages in Chinese: the catalogue is current, and what people read holds no English sentence."""

from __future__ import annotations

import importlib
import json
import re
import string
from pathlib import Path
from types import ModuleType

import pytest

from t4lint import cli, language
from t4lint.engine import Options, check, rules
from t4lint.language import CHINESE, ENGLISH, pattern, phrase, translated
from t4lint.report.text import render
from t4lint.report.wrap import wrapped

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"
# English in a Chinese sentence: three words in a row outside of code. Names of products come in twos.
SENTENCE = re.compile(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}")
_CODE = re.compile(r"`[^`]*`")
SAMPLE = [rule.name for rule in rules() if rule.default][::6]


@pytest.fixture
def translations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("translations")


def chinese(text: str) -> bool:
    return re.search("[\u4e00-\u9fff]", text) is not None


# --- the catalogue -----------------------------------------------------------------------------------------------


@pytest.mark.heavy  # so that who changes a sentence need not stop: `.ci/run` asks for it before a release
def test_no_entry_is_stale(translations: ModuleType) -> None:
    gone = translations.stale(translations.files())
    said = "\n".join(f"{it.family}.po, {it.context}: {it.english!r}" for it in gone)
    assert not gone, f"the English of these has changed: `python scripts/translations.py --update` drops them\n{said}"


def test_an_entry_whose_english_has_changed_is_stale(translations: ModuleType) -> None:
    catalogue = translations.files()
    entry = next(it for it in catalogue["precision"] if it.msgctxt == "fp32-training/message")
    entry.msgid += " And more."
    assert entry.msgid in {it.english for it in translations.stale(catalogue)}
    assert entry.msgctxt in {it.context for it in translations.missing(catalogue)}


def test_gaps_are_those_of_the_english(translations: ModuleType) -> None:
    def gaps(text: str) -> set[str]:
        return {name.strip() for _, name, _, _ in string.Formatter().parse(text) if name}

    for file in translations.files().values():
        for entry in file:
            if entry.msgstr and entry.msgctxt.endswith(("/message", "/help")) and "{" in entry.msgid:
                assert gaps(entry.msgid) == gaps(entry.msgstr), entry.msgctxt


def test_code_in_a_translation_is_code_of_the_english(translations: ModuleType) -> None:
    for file in translations.files().values():
        for entry in file:
            if entry.msgstr and "/" in entry.msgctxt:
                surplus = set(_CODE.findall(entry.msgstr)) - set(_CODE.findall(entry.msgid))
                assert not surplus, f"{entry.msgctxt}: {surplus}"


def test_what_is_missing_is_listed(
    translations: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = translations.files()
    entry = next(it for it in catalogue["precision"] if it.msgctxt == "fp32-training/message")
    entry.msgstr = ""
    monkeypatch.setattr(translations, "files", lambda: catalogue)
    monkeypatch.setattr("sys.argv", ["translations.py"])
    translations.main()
    assert "missing  precision  fp32-training/message  " in capsys.readouterr().out


# --- what people read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", SAMPLE)
def test_messages_of_fixtures_are_chinese(rule: str) -> None:
    for program in sorted(FIXTURES.joinpath(rule).glob("bad_*"))[:1]:
        report = check([program], Options(cwd=program.parent))
        shown = translated(report, CHINESE)
        for before, after in zip(report.findings, shown.findings, strict=True):
            if after.message == before.message:
                continue  # not translated yet, which `scripts/translations.py` lists
            said = _CODE.sub("", after.message)
            assert chinese(said), after.message
            assert not SENTENCE.search(said), after.message
            assert (after.rule, after.location, after.fingerprint) == (before.rule, before.location, before.fingerprint)


def test_a_report_in_chinese() -> None:
    program = FIXTURES / "bf16-guard-always-true" / "bad_keyword.py"
    report = translated(check([program], Options(cwd=program.parent)), CHINESE)
    text = render(report, colour=False)
    assert text.startswith("警告[bf16-guard-always-true]: ")
    assert "= 建议: " in text
    assert "；目标：NVIDIA T4\n修复：" in text


@pytest.mark.parametrize("format", ["markdown", "junit", "concise", "github", "gitlab", "rdjson"])
def test_labels_and_problems_in_chinese(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels of tables and cases, and why a file could not be read; what a parser says itself stays as it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text("x = 1\n")
    (tmp_path / "bad.py").write_text("import torch\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n    pass\n")
    (tmp_path / "deep.py").write_text(f"import torch\nx = {'(' * 300}1{')' * 300}\n")
    (tmp_path / "list.ipynb").write_text("[]")
    cli.main([".", "--output-format", format, "--language", "zh"])
    said = capsys.readouterr().out
    assert "括号嵌套超过 200 层" in said and "不是笔记本：没有单元格列表" in said
    english = re.findall(r'could not be checked|no findings|(?<!")severity|from:|help:|is not|nested', said)
    assert not english, english


def test_another_gpu_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from transformers import TrainingArguments\nTrainingArguments('out', tf32=True)\n"
    )
    report = translated(check([tmp_path], Options(cwd=tmp_path, target="v100")), CHINESE)
    messages = [it.message for it in report.findings if it.rule == "training-arguments-tf32"]
    assert (
        messages == ["`TrainingArguments(tf32=True)` 在 V100 上会以 ValueError 结束，因为 V100 没有 TF32。"]
        or not messages
    )


def test_json_is_english_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("from torch.utils.data import DataLoader\nDataLoader([1], prefetch_factor=2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("T4LINT_LANG")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")

    def said(*flags: str) -> str:
        cli.main(["check", "--no-cache", *flags, "train.py"])
        out = capsys.readouterr().out
        return str(json.loads(out)["findings"][0]["message"]) if "json" in flags else out

    assert chinese(said())
    assert not chinese(said("--output-format", "json"))
    assert chinese(said("--output-format", "json", "--language", "zh"))
    assert not chinese(said("--language", "en"))
    monkeypatch.setenv("T4LINT_LANG", "zh")
    assert chinese(said("--output-format", "json"))


def test_a_kept_result_is_shown_in_the_language_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("from torch.utils.data import DataLoader\nDataLoader([1], prefetch_factor=2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("T4LINT_CACHE_DIR", str(tmp_path / "cache"))
    for _ in range(2):
        for flag in ("zh", "en"):
            cli.main(["train.py", "--language", flag])
            assert chinese(capsys.readouterr().out) == (flag == "zh")


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8"}, CHINESE),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, ENGLISH),
        ({"LANG": "de_DE.UTF-8"}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8", "T4LINT_LANG": "en"}, ENGLISH),
        ({"T4LINT_LANG": "zh-Hans"}, CHINESE),
        ({"LANG": "zh_CN.UTF-8", "T4LINT_LANG": "fr"}, CHINESE),
    ],
)
def test_the_language_of_a_person(environ: dict[str, str], found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "T4LINT_LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert language.chosen() == found


def test_help_and_errors_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--language", "zh", "--help"]) == 0
    assert "用法：t4lint" in capsys.readouterr().out
    assert cli.main(["explain", "bf17", "--language=zh"]) == 2
    assert capsys.readouterr().err.startswith("t4lint: 错误: 未知规则 'bf17'")
    assert cli.main(["--language", "fr"]) == 2
    assert "en and zh" in capsys.readouterr().err


def test_the_page_of_a_rule_has_chinese_headings() -> None:
    from t4lint.report.page import explain

    page = explain(next(it for it in rules() if it.name == "training-arguments-tf32"), CHINESE)
    assert "## 在 T4 上会发生什么" in page
    assert "zh/rules/training-arguments-tf32.html" in page


LOADER = """import torch
from torch.utils.data import DataLoader

data = [torch.randn(4) for _ in range(8)]
for batch in DataLoader(data, pin_memory=False):
    batch.to("cuda")
"""
TRAINING = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
Trainer(model, TrainingArguments("out", per_device_train_batch_size=4)).train()
"""


def test_what_fills_the_card_in_chinese(tmp_path: Path) -> None:
    from t4lint.fit import fit
    from t4lint.memory.reading import Given
    from t4lint.report import fit_text

    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    found = fit([tmp_path / "train.py"], Options(cwd=tmp_path), Given(sequence_length=1024))
    text = fit_text.render(found, colour=False, width=100, language=CHINESE)
    assert "放不下：峰值 " in text
    assert "怎样才放得下，代价最小的在前：" in text
    assert "优化器状态" in text
    assert not SENTENCE.search(re.sub(r"\[[^\]]*\]", "", text)), text
    assert "Does not fit: " in fit_text.render(found, colour=False, width=100)


def test_what_verify_says_in_chinese(tmp_path: Path) -> None:
    from t4lint.findings import Effect, Finding, Report, Verdict
    from t4lint.record.journal import Journal
    from t4lint.record.launch import Limits, Outcome, Recording
    from t4lint.report.screen import ending, intention, table
    from t4lint.trace import Location

    said = intention(["python", "train.py"], tmp_path, Limits(), CHINESE)
    assert said[0] == "verify 将运行您的命令：python train.py"
    assert not any(SENTENCE.search(line) for line in said)
    outcome = Outcome("exception", 1, "ValueError: no", "train.py", 3)
    recording = Recording(("python",), tmp_path, tmp_path, Journal(()), outcome, 1.5, "", "")
    assert ending(recording, CHINESE) == [
        "  结束      异常: ValueError: no，位于 train.py:3 (1.5 s，退出码 1)",
        "  它没有输出任何内容",
    ]
    finding = Finding(
        "pin-memory-disabled", "note", "certain", Location("train.py", 4, 1, 4, 2), "message", "help",
        verdict=Verdict("confirmed", "cpu", "certain", "pinned=False, held 2 of 3 times"),
        effect=Effect("faster and less memory", "cpu", 4),
    )  # fmt: skip
    report = Report("t4", (finding,), (), (), 1)
    assert table(translated(report, CHINESE)).splitlines() == [
        "已证实 (1): 运行表明确实如此",
        "  x  train.py:4 pin-memory-disabled",
        "       pinned=False，3 次中有 2 次成立",
        "       修复后：更快，占用更少",
    ]


def test_an_editor_in_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygls")
    from pygls.workspace import PositionCodec

    from t4lint.lsp.actions import Editor
    from t4lint.lsp.diagnostics import Documents, shown
    from t4lint.lsp.results import Wishes, results_of
    from t4lint.lsp.server import language_of

    file = tmp_path / "train.py"
    results = results_of(file, tmp_path, {file: LOADER}, Wishes(), fixes=True)
    in_chinese = shown(results, Documents(results, {}, PositionCodec(), CHINESE))
    (one,) = [it for it in in_chinese if it.finding.rule == "pin-memory-disabled"]
    assert chinese(one.diagnostic.message)
    assert not chinese(one.finding.message)  # what fixes and comments go by
    assert chinese(Editor(results, {}, PositionCodec(), language=CHINESE).title(one.finding))
    in_english = shown(results, Documents(results, {}, PositionCodec()))
    assert [it.diagnostic.data for it in in_english] == [it.diagnostic.data for it in in_chinese]

    assert language_of("zh-cn") == ENGLISH  # T4LINT_LANG of the tests
    monkeypatch.delenv("T4LINT_LANG")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert (language_of("zh-cn"), language_of("de"), language_of(None)) == (CHINESE, ENGLISH, CHINESE)
    assert language_of("zh-cn", "en") == ENGLISH


# --- patterns and lines ------------------------------------------------------------------------------------------


def test_a_pattern_finds_what_stands_in_its_gaps() -> None:
    found = pattern("{count} steps of {engine:.1f} and {count}").fullmatch("3 steps of 2.5 and 3")
    assert found is not None
    assert found.groupdict() == {"count": "3", "engine": "2.5"}
    assert pattern("{a} and {a}").fullmatch("1 and 2") is None


def test_of_two_gaps_in_a_row_the_second_holds_known_words() -> None:
    found = pattern("with {version}{instead}.", near=("; use {}",)).fullmatch("with 4.56; use `dtype`.")
    assert found is not None
    assert found.groupdict() == {"version": "4.56", "instead": "; use `dtype`"}


@pytest.mark.parametrize(
    ("english", "other"),
    [
        ("not reached: stopped after 3 optimizer steps", "未到达：3 个优化器步后停止"),
        ("the run ended before: ValueError: a and b (x.py:3)", "运行在此之前结束：ValueError: a and b (x.py:3)"),
        ("the weights a/b is not on this machine; in its place: its sizes in t4lint's table", None),
    ],
)
def test_reasons_of_a_run_are_translated_and_the_words_of_an_error_are_not(english: str, other: str | None) -> None:
    said = phrase(english, CHINESE, "run")
    assert said == other if other else not SENTENCE.search(said)


def test_numbers_and_their_unit() -> None:
    assert phrase("1.0 to 2.5 GiB", CHINESE, "span") == "1.0 到 2.5 GiB"
    assert phrase("from here to there", CHINESE, "span") == "from here to there"


def test_no_space_is_left_between_wide_characters() -> None:
    fill = language._fill
    assert fill("{what} 要求 bf16", {"what": "该 autocast 区域"}) == "该 autocast 区域要求 bf16"
    assert fill("{what} 要求 bf16", {"what": "`bf16=True`"}) == "`bf16=True` 要求 bf16"


def test_what_the_catalogue_does_not_have_stays() -> None:
    assert phrase("never heard of", CHINESE) == "never heard of"
    assert phrase("and 3 more", CHINESE) == "以及另外 3 个"


@pytest.mark.parametrize("width", [20, 40, 60])
def test_lines_keep_within_the_width_in_any_language(width: int) -> None:
    from rich.cells import cell_len

    text = "在 T4 上回答 True，因为它把模拟也算在内（`torch.cuda.is_bf16_supported()`），于是这里选择了 bf16。" * 2
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert not any(line[:1] in "，。）" for line in lines)
