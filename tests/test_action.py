"""The GitHub Action: its file, and its shell steps run as a runner runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOT_OF_ACTION = str(ROOT)
BASH = shutil.which("bash")
yaml = pytest.importorskip("yaml")  # comes with pre-commit
pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not there")

BAD = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments(output_dir="out", bf16=True)
Trainer(model=model, args=args, train_dataset=[]).train()
"""
RULE = "bf16-mixed-precision"


def action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


class Job:
    """A job on a runner: a checkout, the folders and files that steps get, and what they leave behind."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.temp = folder / "work space", folder / "temp"
        for made in (self.workspace, self.temp):
            made.mkdir()
        self.output, self.summary = folder / "output", folder / "summary"
        self.outputs: dict[str, dict[str, str]] = {"python": {"python-path": sys.executable}}

    def environment(self) -> dict[str, str]:
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "T4LINT", "PYTHON"))
        }
        return {
            **inherited,
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": ROOT_OF_ACTION,
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temp),
        }

    def install_fake(self) -> None:
        """The environment that the install step makes, with this checkout in it."""
        program = self.temp / "t4lint" / "bin" / "t4lint"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m t4lint "$@"\n')
        program.chmod(0o755)

    def run(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """One step, by its name, as `shell: bash` runs it."""
        (step,) = [step for step in action()["runs"]["steps"] if step.get("name") == name]
        known = {key: str(value["default"]) for key, value in action()["inputs"].items()} | inputs
        assert set(known) == set(action()["inputs"])
        env = {key: self.evaluated(value, known) for key, value in step["env"].items()}
        assert "${{" not in step["run"], "what people give goes through the environment, not into the script"
        script = self.temp / "step.sh"
        script.write_text(step["run"], encoding="utf-8")
        self.output.write_text("")
        done = subprocess.run(
            [str(BASH), "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace, env=self.environment() | env, capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        if "id" in step:
            self.outputs[step["id"]] = dict(line.split("=", 1) for line in self.output.read_text().splitlines())
        return done

    def evaluated(self, text: str, inputs: dict[str, str]) -> str:
        def value(found: re.Match[str]) -> str:
            kind, *names = found[1].split(".")
            return inputs[names[0]] if kind == "inputs" else self.outputs[names[0]][names[2]]

        return re.sub(r"\$\{\{ (\S+) \}\}", value, text)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path)
    made.install_fake()
    (made.workspace / "train.py").write_text(BAD)
    return made


# --- the file ----------------------------------------------------------------------------------------------------


def test_the_file_is_a_composite_action() -> None:
    found = action()
    assert found["runs"]["using"] == "composite"
    assert all(one["description"] for one in (*found["inputs"].values(), *found["outputs"].values()))
    for step in found["runs"]["steps"]:
        assert ("run" in step) == ("shell" in step) != ("uses" in step)


def test_every_reference_leads_somewhere() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    found = action()
    ids = {step["id"] for step in found["runs"]["steps"] if "id" in step}
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(found["inputs"])
    assert set(re.findall(r"steps\.([\w-]+)\.", text)) <= ids
    said = {"python-path", "python-version", *re.findall(r'"([\w-]+)=\$\w+" >> "\$GITHUB_OUTPUT"', text)}
    assert set(re.findall(r"\.outputs\.([\w-]+)", text)) == said


def test_every_input_is_documented() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \| ", page.split("### Code scanning")[0], re.MULTILINE) == list(
        action()["inputs"]
    )


def test_examples_in_the_documentation_are_yaml() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 5
    for example in examples:
        yaml.safe_load(example)
        for given in re.findall(r"t4lint@\S+\n +with:\n((?: {10}\S.*\n)+)", example):
            assert set(yaml.safe_load(given)) <= set(action()["inputs"])


def test_the_workflow_of_the_readme_is_one() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(name: t4lint\n.*?)```", readme, re.DOTALL)
    steps = yaml.safe_load(block)["jobs"]["t4lint"]["steps"]
    assert [step["uses"].partition("@")[0] for step in steps] == ["actions/checkout", "t4lint/t4lint"]


# --- its steps ---------------------------------------------------------------------------------------------------


def test_findings_fail_the_job(job: Job) -> None:
    done = job.run("Check")
    assert done.returncode == 1, done.stderr
    assert job.outputs["check"] == {"exit-code": "1"}
    assert f"warning[{RULE}]" in done.stdout
    assert re.search(rf"^::warning file=train\.py,line=4,.*title={RULE}::", done.stdout, re.MULTILINE)
    assert f"`{RULE}`" in job.summary.read_text()


def test_sarif_is_written_though_the_job_fails(job: Job) -> None:
    done = job.run("Check", sarif="true")
    assert done.returncode == 1, done.stderr
    file = Path(job.outputs["check"]["sarif-file"])
    assert json.loads(file.read_text())["runs"][0]["results"][0]["ruleId"] == RULE


def test_every_input_reaches_the_command(job: Job) -> None:
    (job.workspace / "a b").mkdir()
    (job.workspace / "a b" / "x.py").write_text(BAD)
    given = {"target": "a100", "fail-on": "error", "args": "--select 'bf16-mixed-precision' --min-confidence certain"}
    done = job.run("Check", paths="train.py\n\na b\n", **given)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 files; target: NVIDIA A100" in done.stdout


def test_a_mistake_is_told_and_fails_with_2(job: Job) -> None:
    done = job.run("Check", target="gtx")
    assert done.returncode == 2
    assert "gtx" in done.stderr
    assert job.outputs["check"] == {"exit-code": "2"}


@pytest.mark.parametrize("name", ["paths", "target", "args", "fail-on", "sarif"])
def test_inputs_are_no_shell(job: Job, name: str) -> None:
    job.run("Check", **{name: "x; touch owned; $(touch owned) `touch owned` \" '"})
    assert not (job.workspace / "owned").exists()


def test_flags_that_cannot_be_read_fail_the_job(job: Job) -> None:
    done = job.run("Check", args="--select 'bf16")
    assert done.returncode != 0
    assert "No closing quotation" in done.stderr


def test_another_t4lint_is_another_entry_of_the_cache(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "Find out what is to be installed"
    assert job.run(name, version="0.2.0").returncode == 0 and job.outputs["source"] == {"source": "0.2.0"}
    keys = []
    for text in ("one", "one", "other"):
        for below in ("t4lint/__init__.py", "rules/loop/a.py", "pyproject.toml"):
            file = job.temp / "action" / below
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        monkeypatch.setattr(sys.modules[__name__], "ROOT_OF_ACTION", str(job.temp / "action"))
        assert job.run(name).returncode == 0
        keys.append(job.outputs["source"]["source"])
    assert re.fullmatch("[0-9a-f]{16}", keys[0]) and keys[0] == keys[1] != keys[2]


@pytest.mark.heavy
def test_from_installation_to_findings(tmp_path: Path) -> None:
    job = Job(tmp_path)
    broken = job.temp / "t4lint" / "bin"  # from a cache, its Python gone
    broken.mkdir(parents=True)
    (broken / "python").symlink_to(job.temp / "gone")
    (broken / "t4lint").symlink_to(job.temp / "gone")
    (job.workspace / "train.py").write_text(BAD)
    done = job.run("Install t4lint")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("t4lint ")
    assert job.run("Check").returncode == 1


# --- verify ------------------------------------------------------------------------------------------------------


def told_verify(job: Job) -> list[list[str]]:
    """Put a t4lint in place that only writes down how it was called, and fails where it is told to."""
    program = job.temp / "t4lint" / "bin" / "t4lint"
    program.write_text(
        f'#!/bin/sh\n"{sys.executable}" -c \'import json, sys; print(json.dumps(sys.argv[1:]))\' "$@" >> "{job.temp}/calls"\n'
        f'case "$*" in *" bad.py"*) exit 2 ;; *" worse.py"*) exit 1 ;; esac\n'
    )
    return []


def calls(job: Job) -> list[list[str]]:
    file = job.temp / "calls"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_verify_runs_each_command_as_it_is_written(job: Job) -> None:
    told_verify(job)
    done = job.run("Verify", verify="python train.py --name 'a b'\n\npython other.py\n", target="t4")
    assert done.returncode == 0, done.stderr
    first, second = calls(job)
    assert first[first.index("--") :] == ["--", "python", "train.py", "--name", "a b"]
    assert second[-2:] == ["python", "other.py"]
    for given in (first, second):
        assert given[:3] == ["verify", "--device", "phantom"]
        assert "--synthetic" in given and "--timeout" in given and given[7:9] == ["--target", "t4"]
    assert job.outputs["verify"] == {"verify-exit-code": "0"}


def test_the_worst_command_decides_and_the_others_go_on(job: Job) -> None:
    told_verify(job)
    done = job.run("Verify", verify="python bad.py\npython worse.py\npython good.py")
    assert (done.returncode, len(calls(job))) == (2, 3)
    assert job.outputs["verify"] == {"verify-exit-code": "2"}


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run", "issue_comment"])
def test_with_the_rights_of_the_repository_nothing_is_run(
    job: Job, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_verify(job)
    given = {**job.environment(), "GITHUB_EVENT_NAME": event}
    monkeypatch.setattr(job, "environment", lambda: given)
    done = job.run("Verify", verify="changed\npython train.py")
    assert (done.returncode, calls(job)) == (2, [])
    assert done.stdout.startswith("::error title=t4lint::verify runs the code")


def test_changed_needs_a_pull_request(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    told_verify(job)
    done = job.run("Verify", verify="changed")
    assert (done.returncode, calls(job)) == (0, [])
    given = {**job.environment(), "GITHUB_BASE_REF": "main", "GITHUB_EVENT_NAME": "pull_request"}
    monkeypatch.setattr(job, "environment", lambda: given)
    assert job.run("Verify", verify="changed").returncode == 0
    (made,) = calls(job)
    assert made[:2] == ["verify", "--changed"] and made[made.index("--diff-base") + 1] == "origin/main"


@pytest.mark.parametrize("name", ["verify", "verify-args", "target", "fail-on"])
def test_inputs_of_verify_are_no_shell(job: Job, name: str) -> None:
    told_verify(job)
    job.run("Verify", **{"verify": "python train.py", name: "x; touch owned; $(touch owned) `touch owned` \" '"})
    assert not (job.workspace / "owned").exists()
