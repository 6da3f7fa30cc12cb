"""Shell scripts: which scripts they start, with which words, and where each of those is written."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t4lint.engine import Options, check
from t4lint.sources.document import Document, LaunchCommand, Word
from t4lint.sources.shell import exports, launches
from t4lint.sources.shell_words import calculate


def document(text: str, file: Path = Path("run.sh")) -> Document:
    return Document(file.name, file, "shell", textwrap.dedent(text).lstrip("\n"))


def all_of(text: str) -> list[LaunchCommand]:
    return launches(document(text))


def one(text: str) -> LaunchCommand:
    (command,) = all_of(text)
    return command


def arguments(text: str) -> list[str | None]:
    return [word.text for word in one(text).arguments]


def written(text: str, word: Word) -> str:
    """What stands at the place of a word."""
    place = word.location
    lines = document(text).text.splitlines()
    assert place.line == place.end_line
    return lines[place.line - 1][place.column - 1 : place.end_column - 1]


# --- launchers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("python train.py --x", "python"),
        ("python3.11 -u -W ignore train.py --x", "python"),
        ("/opt/conda/bin/python train.py --x", "python"),
        ("$PYTHON train.py --x", "python"),
        ("${PYTHON:-python3} train.py --x", "python"),
        ("./train.py --x", "python"),
        ("torchrun --nproc_per_node=2 train.py --x", "torchrun"),
        ("torchrun --standalone --nproc-per-node 2 --some-new-switch train.py --x", "torchrun"),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py --x", "torchrun"),
        ("python -m torch.distributed.launch --use_env train.py --x", "torch.distributed.launch"),
        ("accelerate launch --multi_gpu --num_processes 2 train.py --x", "accelerate"),
        ("accelerate-launch train.py --x", "accelerate"),
        ("python3 -m accelerate.commands.launch --config_file c.yaml train.py --x", "accelerate"),
        ("deepspeed --num_gpus 2 train.py --x", "deepspeed"),
        ("srun -N2 --ntasks-per-node=4 python train.py --x", "python"),
        ("srun --label bash -c 'python train.py --x'", "python"),
        ("time python train.py --x", "python"),
        ("nohup python train.py --x > log 2>&1 &", "python"),
        ("exec python train.py --x", "python"),
        ("CUDA_VISIBLE_DEVICES=0 python train.py --x", "python"),
        ("env A=1 -u B python train.py --x", "python"),
        ("uv run --with torch python train.py --x", "python"),
        ("uv run train.py --x", "python"),
        ("poetry run torchrun train.py --x", "torchrun"),
        ("conda run -n env --no-capture-output python train.py --x", "python"),
        ("sudo -E timeout 10h nice -n 5 python train.py --x", "python"),
        ("bash -c 'python train.py --x'", "python"),
        ("bash -lc \"python train.py --x\"", "python"),
        ("eval \"python train.py --x\"", "python"),
        ("! python train.py --x", "python"),
        ("python train.py --x | tee log", "python"),
        ("(cd somewhere; python train.py --x)", "python"),
        ("{ python train.py --x; }", "python"),
        ("if true; then python train.py --x; fi", "python"),
        ("case $1 in a) python train.py --x;; esac", "python"),
        ("while true; do python train.py --x; done", "python"),
        ("f() { python train.py --x; }", "python"),
        ("f() { python train.py --x; }; f", "python"),
        ("nvidia-smi && python train.py --x || exit 1", "python"),
    ],
)  # fmt: skip
def test_launchers(line: str, launcher: str) -> None:
    command = one(line)
    assert (command.launcher, command.script) == (launcher, "train.py" if "./" not in line else "./train.py")
    assert [word.text for word in command.arguments] == ["--x"]


@pytest.mark.parametrize(
    "text",
    [
        "python -m pip install torch",
        "python -c 'import torch'",
        "python - <<EOF\nimport torch\nEOF",
        "cat > train.sh <<'EOF'\npython train.py\nEOF",
        "echo python train.py",
        "# python train.py",
        "accelerate config default",
        "torchrun --help",
        "pip install accelerate",
        "exit 0\npython train.py",
        "",
        "((((",
        "if",
        "'",
    ],
)
def test_what_starts_nothing(text: str) -> None:
    assert all_of(text) == []


def test_container() -> None:
    assert one("docker run --gpus all -v /a:/b image python train.py").in_container
    assert not one("python train.py").in_container


def test_flags_of_the_launcher() -> None:
    flags = one(
        "accelerate launch --mixed-precision=fp16 --multi_gpu --main_process_port 29501 train.py"
    ).launcher_flags
    assert {name: word.text for name, word in flags.items()} == {
        "mixed_precision": "fp16",
        "multi_gpu": "true",
        "main_process_port": "29501",
    }
    (unknown,) = one("torchrun --rdzv_endpoint=$HOST:29500 train.py").launcher_flags.values()
    assert (unknown.text, unknown.why) == (None, "$HOST is not set in run.sh")


def test_what_is_not_known_is_a_script_or_its_flags() -> None:
    assert one("torchrun $FLAGS --nnodes=2 train.py").script == "train.py"
    assert one("python $FLAGS train.py").script == "train.py"
    assert one("torchrun $SCRIPT --config c.py").script == "$SCRIPT"
    assert one("python $DIR/train.py --config c.py").script == "$DIR/train.py"


# --- counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nodes", "per_node"),
    [
        ("python train.py", 1, 1),
        ("torchrun train.py", 1, 1),
        ("torchrun --nnodes=2 --nproc_per_node 4 train.py", 2, 4),
        ("torchrun --standalone --nnodes 9 --nproc-per-node=4 train.py", 1, 4),
        ("torchrun --nnodes=2:2 train.py", 2, 1),
        ("torchrun --nnodes=1:4 train.py", None, 1),
        ("torchrun --nproc_per_node=gpu train.py", 1, None),
        ("torchrun --nproc_per_node=auto train.py", 1, None),
        ("torchrun --nproc_per_node=$N train.py", 1, None),
        ("N=2; torchrun --nproc_per_node=$((N * 2)) train.py", 1, 4),
        ("export PET_NPROC_PER_NODE=3; torchrun train.py", 1, 3),
        ("export NPROC_PER_NODE=3; torchrun train.py", 1, 1),
        ("accelerate launch --num_processes 4 --num_machines 2 train.py", 2, 2),
        ("accelerate launch --num_processes 2 train.py", 1, 2),
        ("accelerate launch --num_processes 1 --num_machines 2 train.py", 2, None),
        ("accelerate launch train.py", 1, None),
        ("accelerate launch --config_file x.yaml --num_processes 2 train.py", None, None),
        ("torchrun $FLAGS train.py", None, None),
        ("torchrun $FLAGS --nproc_per_node 2 train.py", None, 2),
        ("python $FLAGS train.py", 1, 1),
        ("deepspeed train.py", 1, None),
        ("deepspeed --num_gpus=2 --num_nodes 3 train.py", 3, 2),
        ("deepspeed --hostfile hosts --num_gpus=2 train.py", None, 2),
        ("deepspeed --include localhost:0,1 train.py", 1, 2),
        ("deepspeed --include a:0,1@b:2,3 train.py", 2, 2),
        ("srun -N 2 --ntasks-per-node 4 python train.py", 2, 4),
        ("srun -n 8 -N2 python train.py", 2, 4),
        ("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun python train.py", 2, 4),
        ("#SBATCH -N 2\npython train.py", 1, 1),
        ("#SBATCH -N 2\n#SBATCH --gres=gpu:t4:4\nsrun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE train.py", 2, 4),
        ("#SBATCH --nodes=2\nsrun bash -c 'python train.py'", 2, 1),
    ],
)  # fmt: skip
def test_counts(text: str, nodes: int | None, per_node: int | None) -> None:
    command = one(text)
    assert (command.nodes.it, command.processes_per_node.it) == (nodes, per_node)
    assert all(value.known or value.unknown for value in (command.nodes, command.processes_per_node))


def test_a_count_has_its_origin() -> None:
    text = "GPUS=2\ntorchrun --nproc_per_node=$GPUS train.py"
    (origin,) = one(text).processes_per_node.origins
    assert origin.note == "--nproc_per_node 2"
    assert origin.location is not None
    assert (origin.location.line, origin.location.column) == (1, 6)
    assert one("torchrun --nnodes=1:4 train.py").nodes.unknown == "--nnodes 1:4 leaves the number open"


# --- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python t.py a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
        ("X=1; python t.py $X ${X} \"$X\" '$X' a${X}b", ["1", "1", "1", "$X", "a1b"]),
        ("python t.py ${X:-1e-4} ${X-2} ${X:='a b'}", ["1e-4", "2", "a b"]),
        (": ${X:=2} \"${Y=a}\"\npython t.py $X $Y", ["2", "a"]),
        ("X=1; : ${X:=2} ${Z:-3}; python t.py $X ${Z:-4}", ["1", "4"]),
        (": ${N:=2}\n: ${D:=\"--n $N --m\"}\npython t.py $D", ["--n", "2", "--m"]),
        ("X=; python t.py a$X $X ${X:-1} ${X-2} \"$X\"", ["a", "1", ""]),
        ("X='--a 1  --b'; python t.py $X", ["--a", "1", "--b"]),
        ("X='--a 1'; python t.py \"$X\"", ["--a 1"]),
        ("A=(--a 1 'x y'); python t.py \"${A[@]}\"", ["--a", "1", "x y"]),
        ("A=(--a 'x y'); python t.py ${A[@]}", ["--a", "x", "y"]),
        ("A=(a b); A+=(c); python t.py ${A[1]} $A ${#A[@]}", ["b", "a", "3"]),
        ("X=a; X+=b; python t.py $X", ["ab"]),
        ("A=\"--a 1\"\nB=\"$A --b 2\"\npython t.py $B", ["--a", "1", "--b", "2"]),
        ("python t.py \\\n  --a \\\n  1", ["--a", "1"]),
        ("python t.py \\\r\n  --a \\\r\n  1\r\n", ["--a", "1"]),
        ("F=run.tar.gz; python t.py ${F%.*} ${F%%.*} ${F#*.} ${F##*.}", ["run.tar", "run", "tar.gz", "gz"]),
        ("B=4; G=2; python t.py $((B * G + 1)) $((B / 3))", ["9", "1"]),
        ("f() { python t.py \"$2\" \"$@\"; }; f a b", ["b", "a", "b"]),
        ("f() { shift; local X=$1; python t.py ${X:-none}; }; X=1; f a", ["a"]),
        ("python t.py --a=1 <in >out 2>err", ["--a=1"]),
        ("python t.py $'a\\tb' \"a\\$b\"", ["a\tb", "a$b"]),
        ("X=1; (X=2; true); python t.py $X", ["1"]),
        ("X=1; X=2 true; python t.py $X", ["1"]),
        ("set -a; X=1; unset X; python t.py ${X:-2}", ["2"]),
        ("X=$(nproc); python t.py $X", [None]),
        ("python t.py $1 ${2:-3}", [None, "3"]),
        ("python t.py \"$@\"", [None]),
        ("python t.py --a=$X --b", ["--a", None, "--b"]),
        ("for x in a; do python t.py $x; done", ["a"]),
        ("for x in a b c d e; do python t.py $x; done", [None]),
        ("i=0; while true; do python t.py $i; i=$((i+1)); done", ["0"]),
        ("i=0; while true; do i=$((i+1)); done; python t.py $i", [None]),
        ("X=1; if [ $# -gt 1 ]; then X=2; fi; python t.py $X", [None]),
        ("X=1; if [ $# -gt 1 ]; then X=1; fi; python t.py $X", ["1"]),
        ("if [ $# -gt 1 ]; then X=1; else X=1; fi; python t.py $X", ["1"]),
        ("if [ $# -gt 1 ]; then X=1; else X=2; fi; python t.py $X", [None]),
        ("X=1; if [ $# -lt 1 ]; then X=2; exit 1; fi; python t.py $X", ["1"]),
        ("X=1; [ -n \"$Y\" ] && X=2; python t.py $X", [None]),
        ("X=1; false || X=2; python t.py $X", ["1"]),
        ("case $1 in a) X=1;; *) X=2;; esac; python t.py $X", [None]),
        ("X=1; echo | read X; python t.py $X", ["1"]),
    ],
)  # fmt: skip
def test_words(text: str, expected: list[str | None]) -> None:
    assert arguments(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("python t.py $X", "$X is not set in run.sh"),
        ("python t.py $1", "$1 is an argument that run.sh is given"),
        ("python t.py $(nproc)", "`$(nproc)` is only known when it runs"),
        ("python t.py ${X//a/b}", "`${X//a/b}` is not followed"),
        ("if x; then X=1; fi\npython t.py $X", "$X depends on the branch taken at line 1 of run.sh"),
        ("for x in a b c d e; do python t.py $x; done", "$x is one of a, b, c, d, ..."),
    ],
)
def test_reasons(text: str, why: str) -> None:
    assert one(text).arguments[0].why == why


def test_positions_are_where_a_word_is_written() -> None:
    text = """
    LR=1e-4  # é
    OPTS="--é 1 --bf16 True"
    ARGS=(--lr "$LR"  --ü)
    python t.py $OPTS "${ARGS[@]}" --x='y z' ${N:-3} a$LR
    """
    words = one(text).arguments
    assert [word.text for word in words] == [
        "--é",
        "1",
        "--bf16",
        "True",
        "--lr",
        "1e-4",
        "--ü",
        "--x=y z",
        "3",
        "a1e-4",
    ]
    expected = ["--é", "1", "--bf16", "True", "--lr", "1e-4", "--ü", "--x='y z", "3", "a$LR"]
    assert [written(text, word) for word in words] == expected


def test_positions_inside_a_string_that_is_code() -> None:
    text = 'srun bash -c "torchrun --node_rank \\$SLURM_PROCID --x 1 train.py --é $OUT"\n'
    command = one(text)
    assert command.where.line == 1
    assert written(text, command.arguments[0]) == "--é"
    assert command.launcher_flags["node_rank"].why == "`$SLURM_PROCID` is only known when it runs"
    assert command.arguments[1].why == "$OUT is not set in run.sh"


def test_position_of_the_command() -> None:
    place = one("\n# x\nA=1 torchrun \\\n  train.py > log\n").where
    assert (place.path, place.line, place.column, place.end_line, place.end_column) == ("run.sh", 2, 1, 3, 11)
    assert one("A=1 torchrun \\\n   train.py").text == "A=1 torchrun train.py"


# --- environment -------------------------------------------------------------------------------------------------


def test_environment() -> None:
    text = """
    export A=1 B="x y"
    C=3
    D=4; export D
    declare -x E=5
    A=2
    F=6 env G=7 python t.py
    """
    environment = {name: word.text for name, word in one(text).environment.items()}
    assert environment == {"A": "2", "B": "x y", "D": "4", "E": "5", "F": "6", "G": "7"}


def test_exports() -> None:
    text = "export A=1\nif x; then export B=$Y; fi\nC=3\nexport C\nset -a\nD=4\n"
    found = exports(document(text))
    assert [(name, word.text) for name, word in found] == [("A", "1"), ("B", None), ("C", "3"), ("D", "4")]
    assert [written(text, word) for _, word in found] == ["1", "$Y", "3", "4"]


# --- files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("train.py", "scripts/run.sh", "scripts/local.py", "pkg/train.py", "src/lib/main.py", "sub/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python train.py", "train.py"),
        ("python local.py", "scripts/local.py"),
        ("python scripts/local.py", "scripts/local.py"),
        ("python ../train.py", "train.py"),
        ("cd pkg && python train.py", "pkg/train.py"),
        ("cd pkg; cd ..; python train.py", "train.py"),
        ("(cd pkg; true); python train.py", "train.py"),
        ("cd \"$(dirname \"$0\")\"; python local.py", "scripts/local.py"),
        ("cd $(dirname ${BASH_SOURCE[0]})/..; python sub/x.py", "sub/x.py"),
        ("D=$(cd \"$(dirname \"$0\")\" && pwd); python $D/local.py", "scripts/local.py"),
        ("python $HOME/code/train.py", None),
        ("python $ROOT/sub/x.py", "sub/x.py"),
        ("python -m pkg.train", "pkg/train.py"),
        ("torchrun -m lib.main", "src/lib/main.py"),
        ("torchrun -m gone.main", None),
        ("python gone.py", None),
    ],
)  # fmt: skip
def test_script_files(project: Path, text: str, expected: str | None) -> None:
    (command,) = launches(document(text, project / "scripts/run.sh"))
    assert command.file == (project / expected if expected else None)


def test_no_script_is_taken_from_above_the_root(project: Path) -> None:
    inner = project / "scripts"
    (command,) = launches(document("python train.py", inner / "run.sh"), inner)
    assert command.file is None


# --- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "A=aaaaaaaa\n" + "A=$A$A\n" * 60 + "python t.py $A",
        "A='a b'\n" + 'A="$A $A"\n' * 60 + "python t.py $A",
        "A=(a b)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60 + 'python t.py "${A[@]}"',
        "f() { f; f; }; f\npython t.py",
        "".join(f"f{i}() {{ f{i + 1}; f{i + 1}; f{i + 1}; f{i + 1}; }}\n" for i in range(40)) + "f0\npython t.py",
        'X=\'eval "$X"\'; eval "$X"\npython t.py',
        "(" * 3000 + "python t.py" + ")" * 3000,
        "$(" * 3000 + ")" * 3000,
        '"${' * 3000,
        "python t.py\n" * 30_000,
        "if x; then\n" * 500 + "python t.py\n" + "fi\n" * 500,
        "for i in {1..1000000000}; do python t.py; done",
        "python t.py $((" + "9*" * 90 + "9))",
    ],
)
def test_nothing_takes_long(text: str) -> None:
    begun = time.process_time()
    found = all_of(text)
    assert time.process_time() - begun < 5
    assert len(found) <= 64


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([
    "python", "t.py", "$X", "${X:-", "}", "\"", "'", "(", ")", "\n", " ", ";", "if", "then", "fi", "do", "done", "for", "in",
    "case", "esac", "X=", "A=(", "export", "&&", "||", "|", "\\", "é", "$(", "`", "<<EOF", "EOF", "bash -c", "cd", "{", "f()",
    "#", "\r\n", "[[", "]]", "$((", "))", "torchrun", "--nnodes=", "1", "😀", "eval", "srun", "-", "${#", "${A[@]}", "*)",
]), max_size=40))  # fmt: skip
def test_no_text_raises(parts: list[str]) -> None:
    for text in ("".join(parts), " ".join(parts)):
        all_of(text)
        exports(document(text))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1+2*3", 7),
        ("-7/2", -3),
        ("-7%2", -1),
        ("(1+1)*4", 8),
        ("2**3", None),
        ("1/0", None),
        ("x", None),
        ("08", None),
        ("", None),
    ],
)
def test_arithmetic(text: str, result: int | None) -> None:
    assert calculate(text) == result


def test_a_loop_over_known_words_is_a_launch_each() -> None:
    found = all_of("for x in a b; do python t.py $x; done")
    assert [[word.text for word in launch.arguments] for launch in found] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ('[ "$M" = fast ]', True),
        ("[[ $M == slow ]]", False),
        ("[[ $M != slow && -n $M ]]", True),
        ("[[ 0 > 0 ]]", False),
        ("[[ $M > a ]]", True),
        ("[ $N -gt 1 ]", True),
        ("[ -z $M ]", False),
        ("! [ $M = fast ]", False),
    ],
)
def test_tests_of_known_words_are_decided(test: str, holds: bool) -> None:
    (launch,) = all_of(f"M=fast; N=2; if {test}; then python t.py yes; else python t.py no; fi")
    assert launch.arguments[0].text == ("yes" if holds else "no")


@pytest.mark.parametrize("test", ["[ -f x ]", "[[ $M == f* ]]", "[ $UNKNOWN = a ]", "grep -q x y"])
def test_other_tests_take_both_sides(test: str) -> None:
    assert len(all_of(f"M=fast; if {test}; then python t.py yes; else python t.py no; fi")) == 2


# --- what commands print -----------------------------------------------------------------------------------------

# Each is what bash 5.2 makes of it: `test_bash_agrees` asks it.
PRINTED = {
    "$(expr 16 / 4)": "4",
    "$(expr 2 \\* 3 + 1)": "7",
    "$(echo 0,1,2 | tr ',' '\\n' | wc -l)": "3",
    "$(echo '0 1' | wc -w)": "2",
    "$(echo 0,1,2,3 | awk -F, '{print NF}')": "4",
    "$(echo 0,1 | awk -F ',' '{ print NF }')": "2",
    "$(echo VLLM | tr '[:upper:]' '[:lower:]')": "vllm",
    "$(echo -n a b)": "a b",
    "$(printf 0,1 | wc -l)": "0",
}


@pytest.mark.parametrize("text", PRINTED)
def test_what_a_known_command_prints(text: str) -> None:
    assert arguments(f'python train.py "{text}"') == [PRINTED[text]]


@pytest.mark.skipif(not shutil.which("bash") or not shutil.which("awk"), reason="needs bash and awk")
def test_bash_agrees() -> None:
    script = "\n".join(f'echo "{text}"' for text in PRINTED)
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == list(PRINTED.values())


@pytest.mark.parametrize(
    "text",
    [
        "$(jq .gpus a.json)",
        "$(wc -l < hosts)",
        "$(echo $UNKNOWN | wc -w)",
        "$(expr 16 / $N)",
        "$(echo a-z | tr a-z A-Z)",
        "$(expr 1 / 0)",
    ],
)
def test_what_other_commands_print_is_not_known(text: str) -> None:
    assert arguments(f'python train.py "{text}"') == [None]


@pytest.mark.parametrize(
    "count",
    [
        "$(nvidia-smi -L | wc -l)", "$(nvidia-smi --list-gpus 2>/dev/null | wc -l)",
        "$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)",
        "$(python -c 'import torch; print(torch.cuda.device_count())')", "gpu",
    ],
)  # fmt: skip
def test_one_process_for_each_gpu_is_what_the_target_has(count: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"torchrun --standalone --nproc_per_node={count} train.py\n")
    (tmp_path / "train.py").write_text("import torch\n")
    for target, processes in (("g4dn.12xlarge", 4), ("g4dn.xlarge", 1), ("t4", None)):
        seen = check(
            [tmp_path], Options(cwd=tmp_path, target=target, select=("more-processes-than-gpus",), show_trace=True)
        )
        (launch,) = [line for line in seen.trace if "Launch" in line]
        assert (f"processes_per_node={processes}" in launch) is (processes is not None), launch
