"""What runs share: work is done once, and no run sees what another one did."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from t4lint import engine
from t4lint.engine import Options, Session, check, session
from t4lint.findings import Report
from t4lint.interpret import launching, run
from t4lint.interpret.project import Project
from t4lint.sources.document import LaunchCommand

TRAIN = 'from transformers import TrainingArguments\n\nTrainingArguments("out", bf16=True)\n'


def found(folder: Path, *names: str) -> list[tuple[str, int, str]]:
    report = check([folder / name for name in names] or [folder], Options(cwd=folder))
    return [(f.location.path, f.location.line, f.rule) for f in report.findings]


class TestOtherAccelerators:
    def write(self, folder: Path) -> None:
        (folder / "pyproject.toml").write_text("")
        (folder / "vendored").mkdir()
        (folder / "vendored" / "__init__.py").write_text("import jax\nfrom vendored import arguments\n")
        (folder / "vendored" / "arguments.py").write_text("from vendored import base\n" + TRAIN)
        (folder / "vendored" / "base.py").write_text("import jax\n" + TRAIN)
        (folder / "plain.py").write_text(TRAIN)
        (folder / "start.py").write_text('import vendored\nimport plain\n\nif __name__ == "__main__":\n    print(1)\n')

    def test_modules_that_bring_one_are_not_run_each_by_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.write(tmp_path)
        runs: list[str] = []
        real = Session.run

        def noted(self: Session, file: Path, launch: LaunchCommand | None) -> None:
            runs.append(file.name)
            real(self, file, launch)

        monkeypatch.setattr(Session, "run", noted)
        report = check([tmp_path], Options(cwd=tmp_path))
        assert runs == ["start.py", "plain.py"]
        assert [(f.location.path, f.rule) for f in report.findings] == [("plain.py", "bf16-mixed-precision")]
        assert [note.partition(" ")[0] for note in report.notes] == [
            "start.py",
            "vendored/__init__.py",
            "vendored/arguments.py",
            "vendored/base.py",
        ]

    def test_a_module_alone_is_judged_as_its_own_run_says(self, tmp_path: Path) -> None:
        self.write(tmp_path)
        assert found(tmp_path, "plain.py") == [("plain.py", 3, "bf16-mixed-precision")]
        assert found(tmp_path, "vendored/base.py") == []

    def test_a_program_that_only_measures_with_jax_trains_in_torch(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(
            "import jax\nimport torch\n\nmodel = torch.nn.Linear(8, 8).cuda()\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "for _ in range(9):\n"
            '    loss = model(torch.randn(2, 8, device="cuda")).sum()\n'
            "    loss.backward()\n    optimizer.step()\n"
        )
        assert found(tmp_path) == [("train.py", 7, "fp32-training")]


class TestCollector:
    def test_its_settings_are_as_before_after_a_check(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "a.py").write_text(TRAIN)
        before = gc.get_threshold()
        seen = []
        monkeypatch.setattr(engine.Session, "check_script", lambda self, file: seen.append(gc.get_threshold()[0]))
        check([tmp_path], Options(cwd=tmp_path))
        assert seen == [engine.COLLECT_AFTER]
        assert gc.get_threshold() == before


class TestIsolation:
    SETTINGS = 'OPTIONS = {"bf16": False}\nNAMES = ["fp16"]\n\n\nclass S:\n    bf16 = False\n\n\ndef more(items=[]):\n    return items\n'
    HEAD = "from transformers import TrainingArguments\nimport settings\n\n"
    USE = """TrainingArguments("o", **settings.OPTIONS)
TrainingArguments("o", bf16="bf16" in settings.NAMES)
TrainingArguments("o", bf16=settings.S.bf16)
TrainingArguments("o", bf16="bf16" in settings.more())
"""
    CHANGE = """settings.OPTIONS["bf16"] = True
settings.NAMES.append("bf16")
settings.S.bf16 = True
settings.more().append("bf16")
"""

    def test_what_a_run_changes_is_fresh_in_the_next(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text("")
        (tmp_path / "settings.py").write_text(self.SETTINGS)
        (tmp_path / "changes.py").write_text(self.HEAD + self.CHANGE + self.USE)
        (tmp_path / "reads.py").write_text(self.HEAD + self.USE)
        for names in (["changes.py", "reads.py"], ["reads.py", "changes.py"]):
            session = Session(Options(cwd=tmp_path))
            files = session.collect([tmp_path / name for name in names])
            for file in files:
                session.run(file, None)
            report = engine.report(session, [*files, tmp_path / "settings.py"])
            assert {f.location.path for f in report.findings if f.rule == "bf16-mixed-precision"} == {"changes.py"}
            assert sum(f.rule == "bf16-mixed-precision" for f in report.findings) >= 3


class TestLaunchesThatAreAlike:
    TRAIN = (
        "import argparse\nfrom transformers import TrainingArguments\n\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--bf16", action="store_true")\nparser.add_argument("--batch", type=int, default=8)\n'
        "args = parser.parse_args()\n"
        'TrainingArguments("out", bf16=args.bf16, per_device_train_batch_size=args.batch)\n'
    )

    def write(self, folder: Path) -> None:
        (folder / "pyproject.toml").write_text("")
        (folder / "train.py").write_text(self.TRAIN)
        (folder / "one.sh").write_text("python train.py --bf16 --batch 4\n")
        (folder / "two.sh").write_text(
            "# again\n\npython train.py --bf16 --batch 4\npython train.py --bf16 --batch 2\n"
        )

    def runs(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Report]:
        interpreted: list[str] = []
        real = run.interpret

        def noted(project: Project, script: Path, *rest: Any) -> object:
            interpreted.append(script.name)
            return real(project, script, *rest)

        monkeypatch.setattr(run, "interpret", noted)
        report = check([folder], Options(cwd=folder))
        return len(interpreted), report

    def test_one_interpretation_and_a_finding_at_each_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.write(tmp_path)
        count, shared = self.runs(tmp_path, monkeypatch)
        assert count == 2
        monkeypatch.undo()
        numbers = iter(range(100))
        monkeypatch.setattr(launching, "likeness", lambda launch, folder: str(next(numbers)))
        count, apart = self.runs(tmp_path, monkeypatch)
        assert count == 3
        assert shared == apart
        places = {(f.location.path, f.location.line) for f in shared.findings if f.rule == "bf16-mixed-precision"}
        assert places == {("one.sh", 1), ("two.sh", 3), ("two.sh", 4)}

    def test_launches_in_other_folders_are_not_alike(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """They may find other files: a relative path of a configuration begins there."""
        self.write(tmp_path)
        (tmp_path / "sub").mkdir()
        (tmp_path / "two.sh").unlink()
        (tmp_path / "sub" / "three.sh").write_text("cd ..\npython train.py --bf16 --batch 4\n")
        assert self.runs(tmp_path, monkeypatch)[0] == 2


class TestBudget:
    def test_when_all_steps_are_spent_the_rest_gets_few_and_the_report_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        long = "".join(f"x{number} = {number}\n" for number in range(40))
        (tmp_path / "common.py").write_text("")  # what belongs together shares the steps
        for name in ("a", "b"):
            (tmp_path / f"{name}.py").write_text("import common\n" + long + TRAIN)
        (tmp_path / "c.py").write_text("import common\n" + TRAIN)
        monkeypatch.setattr(session, "MOST_STEPS", 50)
        monkeypatch.setattr(session, "LEAST_STEPS", 30)
        report = check([tmp_path], Options(cwd=tmp_path))
        assert [f.location.path for f in report.findings] == ["c.py"]
        assert [note.partition(":")[0] for note in report.notes] == ["a.py", "a.py", "b.py"]
        monkeypatch.setattr(session, "MOST_STEPS", 10_000)
        report = check([tmp_path], Options(cwd=tmp_path))
        assert [f.location.path for f in report.findings] == ["a.py", "b.py", "c.py"]
        assert report.notes == ()
