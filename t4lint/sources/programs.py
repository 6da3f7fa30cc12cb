"""Commands and modules of installed libraries that train: which of their programs runs, and what is left of the words.

The programs are not in the project; short ones that stand for them are in `t4lint/libraries/programs/`. Read from trl 1.16,
axolotl 0.19, LLaMA-Factory 0.9.5, ms-swift 4.6, torchtune 0.6, ultralytics 8.4 and the example scripts of diffusers and sd-scripts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from t4lint.sources.document import Word
from t4lint.sources.launchers import Start, Token, launcher_flags

# The commands by their name; `start_of_program` reads what follows.
TRL_METHODS = frozenset({"sft", "dpo", "grpo", "kto", "reward", "rloo"})
SWIFT_METHODS = frozenset({"sft", "pt", "rlhf"})
# Flags of `accelerate launch` that trl and axolotl hand on.
_HANDED_ON = frozenset({
    "num_processes", "num_machines", "machine_rank", "main_process_ip", "main_process_port", "multi_gpu", "config_file",
    "accelerate_config",
})  # fmt: skip
MODULES = {
    "axolotl.cli.train": "axolotl",
    "llamafactory.cli": "llamafactory",
    **{f"swift.cli.{method}": "swift" for method in sorted(SWIFT_METHODS)},
    "llamafactory.launcher": "llamafactory",
    "llamafactory.train.tuner": "llamafactory",
    **{f"trl.scripts.{method}": f"trl_{method}" for method in TRL_METHODS},
}
# Scripts that people start from a clone beside their project, by their names.
SCRIPTS = (
    (re.compile(r"^(?:train_(?:dreambooth|text_to_image|controlnet|instruct_pix2pix|lcm_distill|custom_diffusion|unconditional)"
                r"\w*|textual_inversion\w*)\.py$"), "diffusers_example"),
    (re.compile(r"^(?:(?:sdxl|sd3|flux|lumina|hunyuan_image|anima)_)?train(?:_network|_textual_inversion|_db|_controlnet|"
                r"_control_net_lllite|_leco)?\.py$|^fine_tune\.py$"), "kohya"),
)  # fmt: skip
# `train.py` alone is anybody's: kohya's scripts are taken for that only in a folder of this name, or with such a prefix.
_KOHYA_FOLDER = re.compile(r"(?:^|/)(?:sd-scripts|kohya\w*|sd_scripts)/")
_DIFFUSERS_FOLDER = re.compile(r"(?:^|/)diffusers\w*/|(?:^|/)examples/")
_OWN_NAMES = re.compile(
    r"^(?:train_network|sdxl_train|flux_train|sd3_train|train_dreambooth|train_text_to_image)\w*\.py$"
)


def is_program(name: str) -> bool:
    """Is this the name of a command that trains?"""
    return name in _READERS


def start_of_program(name: str, tokens: Sequence[Token]) -> Start | None:
    """The program that a command of a library starts, with its launcher and words; None for its other commands."""
    return _READERS[name](tokens)


def program_of_module(name: str) -> str:
    """The program behind `python -m NAME`; empty where it is none that is known."""
    return MODULES.get(name, "")


def program_of_script(path: str) -> str:
    """The program that a script which is not there stands for, by its name and folder."""
    folder, _, name = path.replace("\\", "/").rpartition("/")
    if f"{folder}/".endswith("swift/cli/") and name.removesuffix(".py") in SWIFT_METHODS:
        return "swift"
    for pattern, program in SCRIPTS:
        if pattern.match(name):
            known = _KOHYA_FOLDER if program == "kohya" else _DIFFUSERS_FOLDER
            return program if known.search(f"{folder}/") or _OWN_NAMES.match(name) else ""
    return ""


# --- commands ----------------------------------------------------------------------------------------------------


def _trl(tokens: Sequence[Token]) -> Start | None:
    """`trl sft --accelerate_config multi_gpu --num_processes 2 --config sft.yaml`: everything in one line."""
    if len(tokens) < 2 or tokens[1].text not in TRL_METHODS:
        return None
    flags = _handed_on(tokens[2:])
    return Start("accelerate", tokens[0], False, tuple(tokens[2:]), flags, program=f"trl_{tokens[1].text}")


def _axolotl(tokens: Sequence[Token]) -> Start | None:
    """`axolotl train config.yml --launcher torchrun -- --nproc_per_node=2`"""
    if len(tokens) < 3 or tokens[1].text != "train":
        return None
    own, launchers = _divided(tokens[2:])
    launcher = _value(own, "launcher") or "accelerate"
    flags = launcher_flags(launcher if launcher in ("torchrun", "accelerate") else "accelerate", launchers)
    if launcher == "accelerate":
        flags = {**_handed_on(own), **flags}
    return Start(launcher, tokens[0], False, tuple(own), flags, program="axolotl")


def _llamafactory(tokens: Sequence[Token]) -> Start | None:
    """It starts torchrun by itself where there are several GPUs, with what the environment says."""
    if len(tokens) < 3 or tokens[1].text != "train":
        return None
    return Start("llamafactory", tokens[0], False, tuple(tokens[2:]), {}, program="llamafactory")


def _swift(tokens: Sequence[Token]) -> Start | None:
    """`NPROC_PER_NODE=2 swift sft --model ...`: where such a variable is set, it starts torchrun with it (see `as_started`)."""
    if len(tokens) < 3 or tokens[1].text not in SWIFT_METHODS:
        return None
    return Start("swift", tokens[0], False, tuple(tokens[2:]), {}, program="swift")


SWIFT_VARIABLES = ("NPROC_PER_NODE", "MASTER_PORT", "NNODES", "NODE_RANK", "MASTER_ADDR")


def as_started(start: Start, environment: Mapping[str, Word]) -> Start:
    """The launcher that a command starts by itself, with the flags that it makes of variables."""
    if start.launcher != "swift":
        return start
    flags = {name.lower(): environment[name] for name in SWIFT_VARIABLES if name in environment}
    if not {"NPROC_PER_NODE", "NNODES"} & environment.keys():
        return replace(start, launcher="python")
    return replace(start, launcher="torchrun", flags=flags)


def _tune(tokens: Sequence[Token]) -> Start | None:
    """`tune run [flags of torchrun] RECIPE --config NAME key=value`"""
    if len(tokens) < 3 or tokens[1].text != "run":
        return None
    at = next((i for i, token in enumerate(tokens[2:], 2) if _is_recipe(token, tokens[i - 1])), None)
    if at is None or tokens[at].text.endswith(".py"):
        return None  # a recipe of the project is a script: its settings are what it does with them
    flags = launcher_flags("torchrun", tokens[2:at])
    launcher = "torchrun" if flags else "python"
    return Start(launcher, tokens[at], False, tuple(tokens[at + 1 :]), flags, program="torchtune")


def _is_recipe(token: Token, before: Token) -> bool:
    return bool(re.fullmatch(r"[\w/]+(?:\.py)?", token.text)) and (
        "_" in token.text and not (before.text.startswith("--") and before.value is None)
    )


def _yolo(tokens: Sequence[Token]) -> Start | None:
    """`yolo detect train data=coco8.yaml workers=8`; a `device=0,1` makes two processes."""
    if not any(token.text in ("train", "mode=train") for token in tokens[1:4]):
        return None
    return Start("python", tokens[0], False, tuple(tokens[1:]), {}, program="ultralytics")


def _fabric(tokens: Sequence[Token]) -> Start | None:
    """`fabric run --devices=2 train.py --flags of the script`, before Lightning 2.5 `lightning run model`."""
    skipped = 3 if [token.text for token in tokens[1:3]] == ["run", "model"] else 2
    if len(tokens) <= skipped or tokens[1].text != "run":
        return None
    at = next((i for i, token in enumerate(tokens) if i >= skipped and token.tail.endswith(".py")), None)
    if at is None:
        return None
    flags = launcher_flags("fabric", tokens[skipped:at])
    return Start("fabric", tokens[at], False, tuple(tokens[at + 1 :]), flags)


_READERS: dict[str, Callable[[Sequence[Token]], Start | None]] = {
    "trl": _trl,
    "axolotl": _axolotl,
    "llamafactory-cli": _llamafactory,
    "lmf": _llamafactory,
    "swift": _swift,
    "tune": _tune,
    "yolo": _yolo,
    "fabric": _fabric,
    "lightning": _fabric,
}


def _handed_on(tokens: Sequence[Token]) -> dict[str, Word]:
    """What a command hands on to `accelerate launch`."""
    found: dict[str, Word] = {}
    for index, token in enumerate(tokens):
        name = (token.flag or token.text).lstrip("-").replace("-", "_")
        if token.text.startswith("--") and name in _HANDED_ON:
            following = tokens[index + 1].word if index + 1 < len(tokens) else Word("true", token.word.location)
            found["config_file" if name == "accelerate_config" else name] = token.value or following
    return found


def _divided(tokens: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """The words before and after a bare `--`."""
    at = next((i for i, token in enumerate(tokens) if token.text == "--"), len(tokens))
    return list(tokens[:at]), list(tokens[at + 1 :])


def _value(tokens: Sequence[Token], flag: str) -> str:
    for index, token in enumerate(tokens):
        if (token.flag or token.text) == f"--{flag}":
            return (
                (token.value.text or "")
                if token.value is not None
                else (tokens[index + 1].text if index + 1 < len(tokens) else "")
            )
    return ""
