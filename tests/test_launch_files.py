"""Launch commands in workflows, manifests, Dockerfiles, Makefiles and Markdown, with the place of every word."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t4lint.engine import Options, check
from t4lint.sources.document import Document, LaunchCommand, Word
from t4lint.sources.launch_files import embedded_shell, is_launch_file
from t4lint.sources.shell import launches
from t4lint.trace import Location

Said = list[tuple[str | None, str]]


class Found:
    """The launches in a file, and what stands at their places."""

    def __init__(self, folder: Path, name: str, text: str) -> None:
        self.text = textwrap.dedent(text).lstrip("\n")
        (folder / "train.py").write_text("")
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.text, encoding="utf-8")
        document = Document(name, file, "shell", self.text)
        self.launches = [command for part in embedded_shell(document) for command in launches(part, folder)]

    def one(self) -> LaunchCommand:
        (command,) = self.launches
        return command

    def at(self, place: Location) -> str:
        lines = self.text.split("\n")
        if place.line != place.end_line:
            return f"{place.line}-{place.end_line}"
        return lines[place.line - 1][place.column - 1 : place.end_column - 1]

    def said(self, words: tuple[Word, ...]) -> Said:
        return [(word.text, self.at(word.location)) for word in words]

    def exact(self) -> None:
        """Every known word stands at its place as it is."""
        for command in self.launches:
            given = [it for name, it in command.environment.items() if not name.startswith(("PET_", "WORLD_SIZE"))]
            for word in (*command.arguments, *command.launcher_flags.values(), *given):
                assert word.text is None or word.text == "true" or self.at(word.location) == word.text, word

    def environment(self, command: LaunchCommand) -> dict[str, str | None]:
        return {name: word.text for name, word in command.environment.items()}


# --- jobs whose operator knows the layout -------------------------------------------------------------------------

POD = "template: {spec: {containers: [{name: c, image: i, command: [%s], resources: {limits: {nvidia.com/gpu: 2}}}]}}"
PYTORCH_JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, %s}
    Worker: {replicas: 3}
"""
TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {%s, command: [torchrun, train.py]}
"""
MPI_JOB = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher: {replicas: 1, %s}
    Worker: {replicas: 3}
"""
VOLCANO = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec:
  plugins: %s
  tasks:
    - {replicas: 1, name: master, %s}
    - {replicas: 2, name: worker}
"""
PLAIN = """
apiVersion: batch/v1
kind: Job
spec: {completions: 4, %s}
"""
Layout = tuple[int | None, int | None]


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        (PYTORCH_JOB % (POD % "python, train.py"), (4, 1)),
        (PYTORCH_JOB % (POD % "torchrun, train.py"), (4, 2)),  # as many processes as the pod has GPUs
        (PYTORCH_JOB % (POD % "torchrun, --nnodes=2, --nproc_per_node=1, train.py"), (2, 1)),
        (PYTORCH_JOB.replace("spec:", "spec:\n  nprocPerNode: '1'", 1) % (POD % "torchrun, train.py"), (4, 1)),
        (PYTORCH_JOB.replace("spec:", "spec:\n  elasticPolicy: {minReplicas: 1}", 1) % (POD % "torchrun, train.py"), (None, 2)),
        (PYTORCH_JOB.replace("3}", "$NODES}") % (POD % "python, train.py"), (None, 1)),
        (TRAIN_JOB % "numNodes: 3, resourcesPerNode: {limits: {nvidia.com/gpu: 2}}", (3, 2)),
        (TRAIN_JOB % "numNodes: 3, numProcPerNode: 4", (3, 4)),
        (TRAIN_JOB % "numProcPerNode: 4", (None, 4)),  # the runtime says how many nodes
        (MPI_JOB % (POD % "mpirun, -np, '6', python, train.py"), (3, 2)),
        (MPI_JOB % (POD % "mpirun, python, train.py"), (3, 2)),
        (VOLCANO % ("{pytorch: ['--master=master']}", POD % "python, train.py"), (3, 1)),
        (VOLCANO % ("{svc: []}", POD % "python, train.py"), (1, 1)),
        (PLAIN % (POD % "python, train.py"), (1, 1)),
    ],
)  # fmt: skip
def test_layout_of_a_job(text: str, layout: Layout, tmp_path: Path) -> None:
    command = Found(tmp_path, "job.yaml", text).one()
    assert (command.nodes.it, command.processes_per_node.it) == layout
    assert command.in_container


def test_what_an_operator_gives_its_pods(tmp_path: Path) -> None:
    job = Found(tmp_path, "job.yaml", PYTORCH_JOB % (POD % "torchrun, train.py")).one()
    said = {name: word.text for name, word in job.environment.items()}
    assert said["WORLD_SIZE"] == said["PET_NNODES"] == "4" and said["PET_NPROC_PER_NODE"] == "2"
    assert said["MASTER_ADDR"] is None and said["PET_NODE_RANK"] is None  # which only the running pod knows
    volcano = Found(tmp_path, "job.yaml", VOLCANO % ("{pytorch: []}", POD % "torchrun, train.py")).one()
    assert "MASTER_ADDR" in volcano.environment and "PET_MASTER_ADDR" not in volcano.environment


@pytest.mark.parametrize(
    ("command", "layout"),
    [
        ("mpirun -np 4 -H a:2,b:2 python train.py", (2, 2)),
        ("mpirun -np 4 python train.py", (1, 4)),
        ("mpiexec -n 4 -ppn 2 python train.py", (2, 2)),
        ("horovodrun -np 4 -H a:2,b:2 python train.py", (2, 2)),
        ("mpirun -np 4 --hostfile hosts python train.py", (None, None)),
        ("mpirun python train.py", (1, None)),
        ("mpirun -np $N python train.py", (1, None)),
        ("srun -N 2 --ntasks-per-node=4 python train.py", (2, 4)),
    ],
)
def test_layout_of_mpi(command: str, layout: Layout, tmp_path: Path) -> None:
    found = Found(tmp_path, "Makefile", f"train:\n\t{command}\n").one()
    assert (found.nodes.it, found.processes_per_node.it) == layout


# --- YAML --------------------------------------------------------------------------------------------------------


def test_github_workflow(tmp_path: Path) -> None:
    text = """
        on: push
        env:
          A: "1"
        jobs:
          train:
            runs-on: [self-hosted, gpu]
            env: {OMP_NUM_THREADS: 4}
            steps:
              - uses: actions/checkout@v4
              - run: |
                  # é
                  cd .
                  python train.py \\
                    --fp16 --name "${{ matrix.name }}" --ü=1
                env:
                  B: it's
                working-directory: .
              - run: python train.py --x ${{ env.A }} --y ${{ secrets.TOKEN }}
              - name: folded
                run: >-
                  torchrun --nproc_per_node 2
                  train.py
                  --bf16 True
    """
    found = Found(tmp_path, ".github/workflows/ci.yml", text)
    first, second, third = found.launches
    assert found.said(first.arguments) == [
        ("--fp16", "--fp16"), ("--name", "--name"), (None, "${{ matrix.name }}"), ("--ü=1", "--ü=1"),
    ]  # fmt: skip
    assert found.environment(first) == {"A": "1", "OMP_NUM_THREADS": "4", "B": "it's"}
    assert found.at(first.environment["OMP_NUM_THREADS"].location) == "4"
    assert first.where.line == 13 and not first.in_container
    assert found.said(second.arguments) == [
        ("--x", "--x"), ("1", "1"), ("--y", "--y"), (None, "${{ secrets.TOKEN }}"),
    ]  # fmt: skip
    assert (third.launcher, third.processes_per_node.it) == ("torchrun", 2)
    assert found.said(third.arguments) == [("--bf16", "--bf16"), ("True", "True")]


def test_kubernetes(tmp_path: Path) -> None:
    text = """
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        spec:
          pytorchReplicaSpecs:
            Worker:
              replicas: 2
              template:
                spec:
                  containers:
                    - name: pytorch
                      image: team/train:1
                      workingDir: /app
                      env:
                        - name: NCCL_DEBUG
                          value: INFO
                        - {name: SECRET, valueFrom: {secretKeyRef: {name: a, key: b}}}
                      command: ["torchrun", "--nproc_per_node=2", "/app/train.py"]
                      args:
                        - --bf16
                        - "True"
                        - --name
                        - a b
                        - --rank
                        - $(RANK)
                    - image: team/train:1
                      command: [/bin/bash, -c]
                      args:
                        - |
                          pip install x
                          accelerate launch --num_processes 2 train.py --lr '1e-4'
                    - image: x
                      args: [python, train.py, --only-args]
    """
    found = Found(tmp_path, "job.yaml", text)
    first, second, third = found.launches
    assert first.file == tmp_path / "train.py" and first.in_container
    assert found.said(first.arguments) == [
        ("--bf16", "--bf16"), ("True", "True"), ("--name", "--name"), ("a b", "a b"), ("--rank", "--rank"), (None, "$(RANK)"),
    ]  # fmt: skip
    assert found.environment(first)["NCCL_DEBUG"] == "INFO"
    assert found.said(second.arguments) == [("--lr", "--lr"), ("1e-4", "1e-4")]
    assert second.where.line == 30
    assert found.said(third.arguments) == [("--only-args", "--only-args")]
    found.exact()


def test_compose(tmp_path: Path) -> None:
    text = """
        x-base: &base
          image: team/train
          environment:
            - OMP_NUM_THREADS=1
            - HF_TOKEN
        services:
          a:
            <<: *base
            command: python train.py --epochs 3
          b:
            <<: *base
            environment: {X: 1}
            entrypoint: ["python", "train.py"]
            command: ["--x", "1"]
          c:
            image: x
            entrypoint: python -u
            command:
              - train.py
              - --it's
    """
    found = Found(tmp_path, "docker-compose.yml", text)
    first, second, third = found.launches
    assert found.environment(first) == {"OMP_NUM_THREADS": "1"}
    assert found.said(first.arguments) == [("--epochs", "--epochs"), ("3", "3")]
    assert found.said(second.arguments) == [("--x", "--x"), ("1", "1")] and found.environment(second) == {"X": "1"}
    assert found.said(third.arguments) == [("--it's", "--it's")]
    found.exact()


@pytest.mark.parametrize(
    "text",
    [
        "train:\n  script:\n    - export A=1\n    - python train.py --x 1\n",
        "run: python train.py --x 1\nenvs: {A: '1'}\n",
        "command: >\n  python train.py\n    --x 1\nenvironment_variables:\n  A: 1\n",
        "command: python train.py\n  --x\n  1\nenv: {A: 1}\n",
        "command: 'python train.py --x 1'\nenv:\n  A: &a 1\n",
        'run: "python train.py --x 1"\nenv: {A: 1}\n',
        "run: |2\n    A=1 python train.py \\\n      --x 1\n",
        "setup: |\n  pip install x\nrun: |-\n\n\n  export A=1\n  python train.py --x 1\n\n\n",
        "tasks:\n- cmd: [python, train.py, --x, 1]\n  env: {A: 1}\n",
    ],
)
def test_yaml_scalars(tmp_path: Path, text: str) -> None:
    found = Found(tmp_path, "x.yaml", text)
    command = found.one()
    assert [word.text for word in command.arguments] == ["--x", "1"] and found.environment(command) == {"A": "1"}
    found.exact()


def test_what_yaml_starts_nothing(tmp_path: Path) -> None:
    assert Found(tmp_path, "x.yaml", "a: python train.py\nrun: [1, 2]\nargs: {a: b}\ncommand:\n").launches == []
    assert Found(tmp_path, "x.yaml", "run: [python train.py\n").launches == []


# --- Dockerfile --------------------------------------------------------------------------------------------------


def test_dockerfile(tmp_path: Path) -> None:
    text = """
        # syntax=docker/dockerfile:1
        FROM nvidia/cuda AS base
        ARG N=2
        ENV A=1 \\
            # a comment
            B="x y"
        ENV OLD style value
        WORKDIR /app
        RUN --mount=type=cache,target=/x pip install torch && \\
            # another
            python train.py --n $N
        FROM other
        RUN python train.py --clean
        FROM base
        RUN <<EOF
        python train.py --heredoc
        EOF
        ENTRYPOINT ["python", "-u", "/app/train.py"]
        CMD ["--bf16", \\
             "True", "a\\tb"]
    """
    found = Found(tmp_path, "docker/Dockerfile.gpu", text)
    run, clean, heredoc, start = found.launches
    assert all(command.in_container and command.file == tmp_path / "train.py" for command in found.launches)
    assert found.said(run.arguments) == [("--n", "--n"), ("2", "2")]
    assert run.arguments[1].location.line == 3
    assert found.environment(run) == {"A": "1", "B": "x y", "OLD": "style value"}
    assert found.environment(clean) == {}
    assert found.said(heredoc.arguments) == [("--heredoc", "--heredoc")] and heredoc.where.line == 16
    assert found.said(start.arguments) == [("--bf16", "--bf16"), ("True", "True"), ("a\tb", "a\\tb")]
    assert found.environment(start) == {"A": "1", "B": "x y", "OLD": "style value"}


@pytest.mark.parametrize(
    "text",
    [
        "CMD python train.py --x 1",
        "cmd [ \"python\", \"train.py\", \"--x\", \"1\" ]",
        "ENTRYPOINT python train.py --x 1\nCMD ignored",
        "ENTRYPOINT [\"python\"]\nCMD [\"train.py\", \"--x\", \"1\"]",
        "CMD python other.py\nCMD [\"bash\", \"-c\", \"python train.py --x 1\"]",
        "ENTRYPOINT [\"/bin/sh\", \"-c\"]\nCMD [\"python train.py --x 1\"]",
        "# escape=`\nRUN python train.py `\n  --x 1",
        "RUN python train.py \\\n\n  --x 1 \\",
        "ONBUILD RUN ls\nRUN set -ex; python train.py --x 1",
    ],
)  # fmt: skip
def test_forms_of_instructions(tmp_path: Path, text: str) -> None:
    found = Found(tmp_path, "Dockerfile", text)
    assert found.said(found.one().arguments) == [("--x", "--x"), ("1", "1")]


# --- Makefile ----------------------------------------------------------------------------------------------------


def test_makefile(tmp_path: Path) -> None:
    text = """
        GPUS ?= 2
        ARGS = --lr 1e-4 \\
           --bf16  # c
        ARGS += --x ${GPUS}
        GPUS ?= 8
        export OMP_NUM_THREADS := 1
        .PHONY: train
        train: data
        \t@torchrun --nproc_per_node=$(GPUS) \\
        \t  train.py $(ARGS) --out $@ --home $$X $(shell date) $(UNKNOWN)
        \t-X=1; python train.py --$$X
    """
    found = Found(tmp_path, "Makefile", text)
    first, second = found.launches
    assert first.processes_per_node.it == 2 and found.at(first.launcher_flags["nproc_per_node"].location) == "2"
    assert found.said(first.arguments) == [
        ("--lr", "--lr"), ("1e-4", "1e-4"), ("--bf16", "--bf16"), ("--x", "--x"), ("2", "2"), ("--out", "--out"),
        (None, "$@"), ("--home", "--home"), (None, "$X"), (None, "$(shell date)"), (None, "$(UNKNOWN)"),
    ]  # fmt: skip
    assert first.arguments[1].location.line == 2 and first.arguments[4].location.line == 1
    assert found.environment(first) == {"OMP_NUM_THREADS": "1"}
    assert [word.text for word in second.arguments] == ["--1"]


def test_variables_of_make_that_never_end(tmp_path: Path) -> None:
    lines = ["A0 = $(A0)"] + [f"A{n} = {f'$(A{n - 1})' * 50}" for n in range(1, 9)]
    start = time.process_time()
    found = Found(tmp_path, "Makefile", "\n".join([*lines, "all:", "\tpython train.py $(A8) --x"]))
    assert found.one().file is not None
    assert time.process_time() - start < 3


# --- Markdown ----------------------------------------------------------------------------------------------------


def test_placeholders_of_markdown(tmp_path: Path) -> None:
    text = """
        ```bash
        torchrun --nproc_per_node=2 --master_port=<your_random_port> train.py --model <path to llama> --bf16 True < in > out
        ```
    """
    command = Found(tmp_path, "README.md", text).one()
    assert [word.text for word in command.arguments] == ["--model", None, "--bf16", "True"]
    assert command.launcher_flags["master_port"].text is None


@pytest.mark.parametrize(
    ("block", "read"),
    [
        ("# pretraining\npython train.py --epochs 3 \\\n  --lr 1e-3\n", True),
        ("$ CUDA_VISIBLE_DEVICES=0 python train.py\n", True),
        ("for i in range(3):\n    print('python train.py')\n", False),
        ("├── train.py\n└── data.py\n", False),
        ("import train\npython train.py\n", False),
    ],
)
def test_markdown_without_a_language(tmp_path: Path, block: str, read: bool) -> None:
    """Such a block is shell where each of its commands is one; trees, Python and output are not."""
    text = f"# Use\n\n```\n{block}```\n"
    assert bool(embedded_shell(Document("README.md", tmp_path / "README.md", "launch", text))) is read


def test_markdown(tmp_path: Path) -> None:
    text = """
        # Train
        1. Do this

           ```bash
           CUDA_VISIBLE_DEVICES=0 python train.py \\
             --bf16 true
           ```
        ```console
        (env) user@host:~$ python train.py --y \\
        > --z
        python train.py --output
        $ ls
        ```
        > ~~~{.sh}
        > # é
        > accelerate launch --num_processes 2 train.py --q
        > ~~~
        ```python
        !python train.py
        ```
        ````md
        ```bash
        python train.py --inner
        ```
        ````
        ```sh title="x"
        python train.py --last
    """
    found = Found(tmp_path, "README.md", text)
    assert [found.said(command.arguments) for command in found.launches] == [
        [("--bf16", "--bf16"), ("true", "true")],
        [("--y", "--y"), ("--z", "--z")],
        [("--q", "--q")],
        [("--last", "--last")],
    ]
    assert [command.where.line for command in found.launches] == [5, 9, 16, 27]
    found.exact()


# --- all ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("Dockerfile", True), ("gpu.dockerfile", True), ("Containerfile", True), ("Makefile", True), ("rules.mk", True),
        ("README.MD", True), ("a.yml", True), ("run.sh", False), ("train.py", False), ("makefile.py", False), ("x.json", False),
    ],
)  # fmt: skip
def test_names(name: str, is_one: bool) -> None:
    assert is_launch_file(name) == is_one


ALPHABET = "ab:-[]{}&*|>'\"\\\n #$%@`~=()\t"
PARTS = st.sampled_from(
    ["python train.py", "RUN ", "CMD ", "ENV ", "```bash\n", "run: ", "\t", "$(A)", "A = ", "<<EOF\n", "\\\n"]
)


@given(
    st.lists(st.text(alphabet=ALPHABET, max_size=8) | PARTS, max_size=14),
    st.sampled_from(["Dockerfile", "Makefile", "a.md", "a.yml"]),
)
@settings(max_examples=400, deadline=None)
def test_no_text_raises(parts: list[str], name: str) -> None:
    text = "".join(parts)
    for part in embedded_shell(Document(name, Path(name), "shell", text)):
        for command in launches(part):
            assert 1 <= command.where.line <= text.count("\n") + 1


@pytest.mark.parametrize("name", ["Dockerfile", "Makefile", "a.md", "a.yml"])
@pytest.mark.parametrize(
    "unit",
    [
        "RUN python train.py\n",
        "a:\n\tpython train.py\n",
        "```bash\npython train.py\n```\n",
        "- run: python train.py\n",
        "ENV A=python \\\n",
        "$(python) ",
    ],
)
def test_large_files(name: str, unit: str) -> None:
    start = time.process_time()
    embedded_shell(Document(name, Path(name), "shell", unit * 20_000))
    assert time.process_time() - start < 5


# --- programs that a command is given as a text ------------------------------------------------------------------

INLINE = """\
import os
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DistributedDataParallel(torch.nn.Linear(4096, 4096).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for step in range(10):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.mse_loss(model(torch.randn(8, 4096, device="cuda")), torch.zeros(8, 4096, device="cuda"))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torchrun --standalone --nproc_per_node=2 --no-python python3 -c '\n", "'\n"),
        ("read -r -d '' ARGS <<EOF\n--nproc_per_node=2 \\\n--standalone\nEOF\ntorchrun $ARGS --no-python python -c '\n", "'\n"),
        ("python - <<'EOF'\n", "EOF\n"),
    ],
)  # fmt: skip
def test_a_program_in_a_command_is_read_at_its_place(tmp_path: Path, before: str, after: str) -> None:
    text = f"{before}{INLINE}{after}"
    (tmp_path / "run.sh").write_text(text)
    (found,) = check([tmp_path], Options(cwd=tmp_path, select=("gloo-backend-on-cuda",))).findings
    line = text.splitlines()[found.location.line - 1]
    assert line[found.location.column - 1 : found.location.end_column - 1] == '"gloo"'


def test_a_line_of_python_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("python -c \"import torch; torch.distributed.init_process_group('gloo')\"\n")
    assert check([tmp_path], Options(cwd=tmp_path, select=("all",))).findings == ()
