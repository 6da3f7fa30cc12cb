"""Real training code to test the interpreter on: packages of pinned versions from the index, unpacked, never installed or run.

    python scripts/corpus.py FOLDER

Wheels are taken, since pip would run the build script of a source distribution to learn its name. A wheel of a pure Python
package holds the same modules. What is there already is not fetched again; without an index the script says so and ends
with status 3.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

# Programs and libraries with training loops of their own, in many styles; chosen for variety, not for findings.
PACKAGES = (
    "adapters==1.3.0", "anomalib==2.7.0", "asteroid==0.7.0", "axolotl==0.19.0", "catalyst==21.5", "colbert-ai==0.2.22",
    "coqui-tts==0.28.0", "detoxify==0.5.4", "flagembedding==1.4.2", "flair==0.15.1", "litgpt==0.5.13", "llamafactory==0.9.5",
    "llm-foundry==0.22.0", "mmengine==0.10.7", "monai==1.6.1", "ms-swift==4.6.0", "open-clip-torch==3.3.0",
    "pyannote-audio==4.0.7", "pytorch-ignite==0.5.5", "sentence-transformers==6.2.0", "setfit==1.2.0",
    "simpletransformers==0.70.8", "speechbrain==1.1.2", "super-gradients==3.7.1", "tevatron==0.1.0", "torchgeo==0.8.1",
    "torchtune==0.6.1", "trl==1.16.0", "xtuner==0.2.0", "yolov5==7.0.14",
)  # fmt: skip
KEPT = (".py", ".yaml", ".yml", ".json", ".toml", ".sh", ".md", ".cfg", ".ini", ".txt")
MAX_FILE = 1_000_000  # bytes: larger ones are data
TRAINS = re.compile(
    r"\.backward\(|\.training_step\(|\bTrainer\(|TrainingArguments\(|\bAccelerator\(|\bDataLoader\(|\bFabric\(|HfArgumentParser"
)
NO_INDEX = 3


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    missing = [package for package in PACKAGES if not place(folder, package).is_dir()]
    if missing and not fetch(folder / "wheels", missing):
        print("the package index cannot be reached: no corpus")
        return NO_INDEX
    for package in missing:
        unpack(folder, package)
    print(f"{sum(1 for _ in training_files(folder))} training files of {len(PACKAGES)} packages in {folder}")
    return 0


def place(folder: Path, package: str) -> Path:
    return folder / package.replace("==", "-")


def fetch(wheels: Path, packages: list[str]) -> bool:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--timeout", "20", "--retries", "1", "--dest", str(wheels), *packages]
    return subprocess.run(command, check=False).returncode == 0


def unpack(folder: Path, package: str) -> None:
    """The texts of a package as a project of its own, with a mark at its root."""
    name, _, version = package.partition("==")
    start = re.sub(r"[-_.]+", "_", name).lower() + f"-{version}"
    wheel = next(file for file in (folder / "wheels").iterdir() if file.name.lower().startswith(start))
    root = place(folder, package)
    root.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            wanted = (
                entry.filename.endswith(KEPT) and entry.file_size <= MAX_FILE and ".dist-info/" not in entry.filename
            )
            if wanted:
                archive.extract(entry, root)
    (root / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "{version}"\n', encoding="utf-8")


def training_files(folder: Path) -> Iterator[Path]:
    """The modules that train: they call a trainer, a loader or backward."""
    for package in PACKAGES:
        for file in sorted(place(folder, package).rglob("*.py")):
            if TRAINS.search(file.read_text(encoding="utf-8", errors="replace")):
                yield file


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
