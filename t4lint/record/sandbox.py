"""Where a run may write: an overlay over the project where the kernel allows it, a copy of the project elsewhere.

An overlay (Linux, unprivileged user namespaces) shows the project at its own path, costs nothing however large it is,
and keeps what the run writes apart, also behind links that lead out of the project. It comes with a network namespace
of its own that holds the loopback only. A copy is what remains: it bounds what is copied and links the rest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Kind = Literal["auto", "overlay", "copy"]

LARGE = 100 * 2**20  # bytes from which a file is linked instead of copied
BUDGET = 2 * 2**30  # bytes that are copied at most; what comes after them is linked
MOST_OVERLAYS = 16  # folders outside the project that links lead to
MOST_LINKED = 10_000  # files and folders behind a link out of the project that are copied
MOST_ENTRIES = 200_000  # that are looked at for such links

SKIPPED = {
    ".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".tox", ".nox", "node_modules",
    ".t4lint_cache", ".ipynb_checkpoints",
}  # fmt: skip
ENCLOSE = Path(__file__).parent / "inside" / "enclose.py"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A prepared sandbox. `folder` is where the project stands for the run: its own place under an overlay."""

    kind: Literal["overlay", "copy"]
    root: Path
    folder: Path
    overlays: tuple[tuple[Path, Path, Path], ...] = ()
    links: tuple[Path, ...] = ()
    network: bool = False

    @property
    def offline(self) -> bool:
        """Is the network taken away, or only asked to stay unused?"""
        return self.kind == "overlay" and not self.network

    def put(self, file: Path, text: str) -> None:
        """Let the run see `text` where the project has this file. Raises OSError for a file outside the project."""
        if self.root not in file.parents:
            raise OSError(f"{file} lies outside the project")
        top = self.folder if self.kind == "copy" else self.overlays[0][1]
        place = top / file.relative_to(self.root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            place.unlink()  # a large file that was only linked
        place.write_bytes(text.encode())
        if file.exists():
            shutil.copymode(file, place)

    def started(self, command: Sequence[str], cwd: Path, failed: Path) -> list[str]:
        """The command that starts `command` inside. Where it cannot start, why goes into the file `failed`."""
        if sys.platform == "win32":
            return list(command)
        plan = {
            "overlays": [[str(part) for part in overlay] for overlay in self.overlays],
            "network": not self.offline,
            "cwd": str(cwd),
            "failed": str(failed),
            "parent": os.getpid(),
        }
        return [sys.executable, "-I", "-S", str(ENCLOSE), json.dumps(plan), *command]


def prepare(root: Path, scratch: Path, kind: Kind, network: bool) -> Sandbox:
    """An overlay where it works, else a copy below `scratch`."""
    if kind != "copy":
        folders = overlaid(root)
        if folders and (works(network) and _can_overlay(root, folders, scratch, network)):
            return Sandbox("overlay", root, root, tuple(_layers(folders, scratch)), (), network)
        if kind == "overlay":
            raise OSError("this machine does not allow overlays over this project")
    copy = scratch / "project"
    return Sandbox("copy", root, copy, links=tuple(copy_project(root, copy)), network=network)


# --- overlays ----------------------------------------------------------------------------------------------------


@cache
def works(network: bool = False) -> bool:
    """Does this kernel give an ordinary user a mount of their own (and a network)? Tried in a process of its own."""
    if sys.platform != "linux":
        return False
    scratch = Path(tempfile.mkdtemp(prefix="t4lint-"))
    try:
        (scratch / "lower").mkdir()
        return _tries(list(_layers([scratch / "lower"], scratch)), network)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def overlaid(root: Path) -> list[Path]:
    """The project, and the folders outside it that its links lead to; empty where a mount below would be hidden."""
    folders = [root]
    for target in _leaving(root):
        if any(target == folder or folder in target.parents for folder in folders):
            continue
        if target in root.parents or target == Path(target.anchor):
            continue  # an overlay over a folder above would hide the project's own
        folders = [folder for folder in folders if target not in folder.parents] + [target]
        if len(folders) > MOST_OVERLAYS:
            break
    return [] if any(_above(folder, mount) for folder in folders for mount in _mounts()) else folders


def _leaving(root: Path) -> Iterator[Path]:
    """Folders outside that links in the project lead to; for a link to a file the folder of the file."""
    left = MOST_ENTRIES
    for folder, folders, files in os.walk(root):
        folders[:] = [
            name for name in folders if name not in SKIPPED and not (Path(folder) / name / "pyvenv.cfg").exists()
        ]
        left -= len(files) + 1
        if left < 0:
            return
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and path.exists():
                target = path.resolve()
                target = target if target.is_dir() else target.parent
                if target != root and root not in target.parents:
                    yield target


def _above(folder: Path, mount: Path) -> bool:
    return folder in mount.parents


def _mounts() -> list[Path]:
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    return [Path(line.split(" ")[4].replace("\\040", " ")) for line in lines if line.count(" ") > 4]


def _layers(folders: Sequence[Path], scratch: Path) -> Iterator[tuple[Path, Path, Path]]:
    for number, folder in enumerate(folders):
        upper, work = scratch / "layers" / str(number) / "upper", scratch / "layers" / str(number) / "work"
        upper.mkdir(parents=True, exist_ok=True)
        work.mkdir(exist_ok=True)
        yield folder, upper, work


def _can_overlay(root: Path, folders: Sequence[Path], scratch: Path, network: bool) -> bool:
    """These very folders: some file systems cannot be a layer."""
    return root not in scratch.parents and _tries(list(_layers(folders, scratch)), network)


def _tries(layers: Sequence[tuple[Path, Path, Path]], network: bool) -> bool:
    plan = {"overlays": [[str(part) for part in layer] for layer in layers], "network": network}
    command = [sys.executable, "-I", "-S", str(ENCLOSE), json.dumps(plan)]
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


# --- a copy ------------------------------------------------------------------------------------------------------


def copy_project(root: Path, copy: Path) -> list[Path]:
    """Copy what a run may touch, also behind links to folders. Returns the files and folders that are only linked."""
    links: list[Path] = []
    left = BUDGET
    waiting = [(root, copy)]
    while waiting:
        source, target = waiting.pop()
        left -= _copy_folder(source, target, left, links)
        for place in _linked_folders(source):
            made = target / place.relative_to(source)
            led = place.resolve()
            own = copy / led.relative_to(root) if root in (led, *led.parents) else None
            if own is not None and own.exists():
                made.symlink_to(own, target_is_directory=True)
            elif own is None and source == root and _is_small(led, root, left):
                waiting.append((led, made))
            else:
                made.symlink_to(led, target_is_directory=True)
                links.append(place)
    return links


def _copy_folder(root: Path, copy: Path, left: int, links: list[Path]) -> int:
    """One folder with all below it, but for links to folders; returns the bytes that it took."""
    before = left
    copy.mkdir(parents=True)
    for folder, folders, files in os.walk(root):
        source = Path(folder)
        target = copy / source.relative_to(root)
        for name in list(folders):
            if name in SKIPPED:
                folders.remove(name)
            elif _is_environment(source / name):
                folders.remove(name)  # it is read, not written
                (target / name).symlink_to((source / name).resolve(), target_is_directory=True)
            elif (source / name).is_symlink():
                folders.remove(name)
            else:
                (target / name).mkdir(exist_ok=True)
        for name in files:
            left -= _copy_file(source / name, target / name, left, links)
    return before - left


def _linked_folders(root: Path) -> list[Path]:
    found: list[Path] = []
    for folder, folders, _ in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED and not _is_environment(Path(folder, name))]
        found += [Path(folder, name) for name in folders if Path(folder, name).is_symlink()]
    return found


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").exists()


def _is_small(folder: Path, root: Path, left: int) -> bool:
    """May a folder outside of the project be copied as well? One above it, or a whole data set, is not."""
    if folder in root.parents or folder == Path(folder.anchor):
        return False
    entries = 0
    for name, folders, files in os.walk(folder):
        entries += len(folders) + len(files)
        for file in files:
            with suppress(OSError):
                left -= Path(name, file).stat().st_size
        if entries > MOST_LINKED or left < 0:
            return False
    return True


def _copy_file(source: Path, target: Path, left: int, links: list[Path]) -> int:
    """Copy or link one file; returns the bytes that it took."""
    try:
        if not source.is_file():
            return 0
        size = source.stat().st_size
        if size > min(LARGE, left):
            target.symlink_to(source.resolve())
            links.append(source)
            return 0
        shutil.copy2(source, target)
        return size
    except OSError:  # unreadable: the run will meet the same
        return 0


def moved(word: str, root: Path, copy: Path) -> str:
    """A path into the project, alone or behind `--flag=`, becomes the same path in the copy."""
    if root == copy:
        return word
    flag, equals, value = word.partition("=")
    if equals and flag.startswith("-"):
        return flag + equals + moved(value, root, copy)
    if word == str(root) or word.startswith(str(root) + os.sep):
        return str(copy) + word[len(str(root)) :]
    return word


def remove(scratch: Path) -> None:
    """Overlayfs leaves a folder in `work` that nobody may enter until it is given back its mode."""
    for folder in scratch.glob("layers/*/work/work"):
        try:
            folder.chmod(0o700)
        except OSError:
            continue
    shutil.rmtree(scratch, ignore_errors=True)
