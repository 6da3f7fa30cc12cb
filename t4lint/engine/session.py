"""One invocation: the projects that were read, their runs, and the findings so far."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from t4lint.devices import find_target
from t4lint.engine.discovery import (
    COMMANDS,
    LAUNCHES,
    PROSE,
    is_script,
    is_shell,
    is_source,
    launch_files,
    launches_others,
    python_files,
    shell_files,
)
from t4lint.engine.finding import merged
from t4lint.engine.judging import NO_RUN, judge_all, judge_by_versions, written_for
from t4lint.engine.options import Held, Options, chosen_by, everywhere, settings_of, severities_of
from t4lint.findings import Finding, Problem, RunInfo, cell_source
from t4lint.rule import Edit, Rule
from t4lint.sources import disk
from t4lint.sources.configs import is_config
from t4lint.sources.document import Document, LaunchCommand, ShellFragment
from t4lint.sources.files import LARGEST, display_path, find, kind_of, read
from t4lint.sources.gate import Gate
from t4lint.suppress import MARK
from t4lint.trace import NOT_SAID, Backward, Location

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine
    from t4lint.interpret.run import Interpretation
    from t4lint.interpret.worlds import Segment
    from t4lint.sources.notebook import NotebookDocument

# Steps of the interpreter over the runs of scripts that belong together, about three minutes; and of a run after that.
MOST_STEPS = 30_000_000
LEAST_STEPS = 5_000
OTHER_ACCELERATORS = frozenset({"torch_xla", "jax"})  # programs that import these are not judged
MAX_PROGRAMS = 100  # commands that start programs of libraries, in one invocation: documentation may hold any number
MAX_LAUNCHES = 16  # of one script; the rest are named in the report


class Helpers(Protocol):
    """Who checks the parts of an invocation: other processes, here or elsewhere (`workers.py`)."""

    def check(self, session: Session, paths: Sequence[Path], parts: Sequence[Sequence[Path]]) -> Iterator[list[Step]]:
        """What `Session.check_part` gives for each part, in their order. All of it is plain data."""
        ...

    def takes_long(self, session: Session, parts: Sequence[Sequence[Path]]) -> bool:
        """Is it worth to show what was found before all is done?"""
        ...


@dataclass(slots=True)
class Step:
    """What checking one script adds to the results. `runs` and those of findings are counted within its part."""

    script: Path
    part: Path  # its first script
    first_run: int
    runs: list[RunInfo]
    problems: list[Problem]
    notes: list[str]
    trace: list[str]
    found: list[Finding]
    sources: dict[str, str]
    data: dict[Path, str]
    edits: list[tuple[str, Location, tuple[Edit, ...]]]  # with the rule's name


class Session:
    """One invocation: the projects that were read, and the findings so far."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.held: dict[Path, Held] = {}
        self.all_held: list[Held] = []
        self.here = self.holding(options)
        self.problems: list[Problem] = []
        self.runs: list[RunInfo] = []
        self.notes: list[str] = []
        self.found: dict[tuple[str, Location], Finding] = {}
        self.sources: ChainMap[str, str] = ChainMap()
        self.cells: dict[str, str] = {}  # of notebooks, by `cell_source`
        self.shown: set[str] | None = None
        self.projects: dict[Path, Any] = {}
        self.opened: dict[Path, Any] = {}  # the same before any run
        self.roots: dict[Path, Path] = {}
        self.launches: dict[Path, dict[Path, list[LaunchCommand]]] = {}
        self.alone: dict[str, list[LaunchCommand]] = {}  # by their file: those whose program is not in sight
        self.asked_for: dict[tuple[Path, Path], Any] = {}  # what the files of a project ask for, seen from a folder
        self.entered: dict[Path, set[int]] = {}
        self.data: ChainMap[Path, str] = ChainMap()
        self.notebooks: dict[Path, NotebookDocument] = {}
        self.notebook_texts: dict[Path, str] = {}  # of those with comments for t4lint
        self.imported: set[Path] = set()
        self.gates: dict[tuple[Path, int], Gate] = {}
        self.trace: list[str] = []
        self.deferred: dict[Path, tuple[Machine, int, bool]] = {}  # modules that a run has loaded
        self.triggers: dict[tuple[str, int], frozenset[str]] = {}  # by the text and the number of settings
        self.steps_left = MOST_STEPS
        self.done: dict[str, Interpretation] = {}  # runs of the script at hand, by what its launches have in common
        self.edits: dict[tuple[str, Location], tuple[Rule, tuple[Edit, ...]]] = {}
        # programs of libraries and console scripts, by the names they go by, and what has been said of their commands
        self.stand_ins: dict[Path, LaunchCommand] = {}
        self.commands: set[tuple[str, str]] = set()
        self.folders: tuple[Path, ...] = ()  # that were named: all programs that use the files in them are in sight

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts of files, and of the cells of notebooks."""
        return ChainMap(self.sources, self.cells)

    # --- settings ---

    def near(self, file: Path) -> Held:
        """What holds for a file: that of the invocation, or what the settings near the file say."""
        if self.options.near is None:
            return self.here
        if file not in self.held:
            self.held[file] = self.holding(self.options.near(file))
        return self.held[file]

    def holding(self, options: Options) -> Held:
        for held in self.all_held:
            if settings_of(held.options) == settings_of(options):
                return held
        self.all_held.append(Held(options, chosen_by(options), find_target(options.target), severities_of(options)))
        return self.all_held[-1]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules that run on any file."""
        return tuple({rule.name: rule for held in self.all_held for rule in held.rules}.values())

    # --- files ---

    def collect(self, paths: Sequence[Path]) -> list[Path]:
        """The files to look at; each is read once, and what cannot be read is a problem."""
        options = self.options
        files: list[Path] = []
        absolute = [path if path.is_absolute() else options.cwd / path for path in paths]
        self.folders = tuple(path for path in absolute if disk.is_folder(path))
        buffers = [path for path in absolute if self.buffer(path) is not None]  # they need no file on disk
        on_disk = find(
            [path for path in absolute if path not in buffers],
            exclude=options.exclude, root=options.exclude_root, problems=self.problems, wanted=is_source,
        )  # fmt: skip
        for file in chain(buffers, on_disk):
            if file not in absolute and self.is_excluded(file):
                continue
            document = self.read_notebook(file) if file.suffix.lower() == ".ipynb" else self.read(file)
            if isinstance(document, Problem):
                self.problems.append(document)
            else:
                self.data[file] = document.text
            files.append(file)
        self.problems = [
            replace(problem, path=display_path(Path(problem.path), options.cwd)) for problem in self.problems
        ]
        self.shown = {display_path(file, options.cwd) for file in files}
        return files

    def is_excluded(self, file: Path) -> bool:
        """Do the settings near a file leave it out? Those of the invocation were asked in the walk."""
        near = self.near(file)
        return near is not self.here and near.excludes(file)

    def read(self, file: Path) -> Document | Problem:
        """A file, or the text that stands in its place."""
        path = display_path(file, self.options.cwd)
        text = self.buffer(file)
        if text is None:
            return read(file, path)
        return Document(path, file, kind_of(file, text[:200].encode("utf-8", "replace")), text)

    def buffer(self, file: Path) -> str | None:
        """The open buffer that stands for a file."""
        return self.options.texts.get(display_path(file, self.options.cwd)) if self.options.texts else None

    def read_notebook(self, file: Path) -> Document | Problem:
        """A notebook as one module; what its cells write are files of the project."""
        from t4lint.sources.notebook import notebook_from, notebook_text

        path = display_path(file, self.options.cwd)
        text = self.buffer(file)
        found = notebook_text(file, path) if text is None else text
        if isinstance(found, Problem):
            return found
        notebook = notebook_from(found, file, path)
        if isinstance(notebook, Problem):
            return notebook
        if MARK in found:
            self.notebook_texts[file] = found
        self.notebooks[file] = notebook
        self.cells |= {cell_source(path, cell): notebook.sources[cell] for cell in notebook.squeezed}
        self.notes.extend(f"{problem.path}:{problem.line}: a cell {problem.message}" for problem in notebook.problems)
        for module in notebook.modules():
            self.data[disk.real(module.file)] = module.text
        return notebook.document()

    def order(self, files: Sequence[Path]) -> Iterator[Path]:
        """Scripts first: a function that a script enters needs no look of its own."""
        launching = {file for file in files if file in self.data and launches_others(file, self.data[file])}
        configs = [file for file in files if is_config(file)]
        others = launching.difference(self.notebooks).union(configs)
        python = [file for file in files if file in self.data and file not in others]
        started = [script for file in launching for script in self.started_by(file) if script not in python]
        started += [script for file in configs for script in self.readers_of(file) if script not in python]
        # commands that programs start are launches of other programs: these come first
        starters = [file for file in python if self.starts_others(file)]
        yield from starters
        scripts = [file for file in python if is_script(self.data[file])]
        started += self.started_in_folders()
        launched = [file for file in [*python, *started] if self.starts(file)]
        alone = [file for file in files if file in launching and display_path(file, self.options.cwd) in self.alone]
        alone += self.jobs_alone()
        later = dict.fromkeys([*launched, *scripts, *started, *python, *alone])
        yield from (file for file in later if file not in starters)

    def jobs_alone(self) -> list[Path]:
        """The manifests of jobs below the folders that were named, where what they start is no file of the project."""
        for root in dict.fromkeys(self.root_of(folder) for folder in self.folders):
            self.launches_of(root)
        paths = [path for path, found in self.alone.items() if any(launch.in_container for launch in found)]
        files = [disk.real(self.options.cwd / path) for path in paths if path.lower().endswith((".yaml", ".yml"))]
        return [it for it in files if any(it.is_relative_to(disk.real(folder)) for folder in self.folders)]

    def ordered(self, files: Sequence[Path]) -> list[Path]:
        """All scripts in their order. Those that start others by commands are run for these, and again in their parts."""
        starters = [file for file in files if file in self.data and self.is_starter(file)]
        if starters:
            quiet = copy(self)
            quiet.options = everywhere(self.options, watch=None, show_trace=False)
            for step in quiet.check_part(starters):
                self.sources |= step.sources
                self.data |= step.data
        scripts = list(self.order(files))
        for script in scripts:
            self.project_of(script)  # which knows the programs that are no files
        return scripts

    def is_starter(self, file: Path) -> bool:
        return not is_config(file) and not is_shell(file, self.data[file]) and self.starts_others(file)

    def starts_others(self, file: Path) -> bool:
        """Is a file a program that may start others by commands? What tests start says nothing of how people train."""
        text = self.data[file]
        is_test = file.name.startswith(("test_", "conftest")) or "tests" in file.parts
        return not is_test and any(word in text for word in COMMANDS) and bool(LAUNCHES.search(text))

    def note_commands(self, machine: Machine, file: Path) -> None:
        """The launches among the commands that a run starts, for the scripts that are looked at after it."""
        from t4lint.sources.shell import launches
        from t4lint.sources.versions import console_scripts

        root = machine.project.root
        started = self.launches_of(root)
        for fragment in machine.globals.get("$commands", ()):
            found = launches(fragment, root, (), console_scripts(root))
            text = self.notebooks[file].listing if file in self.notebooks else self.data.get(file, "")
            fresh = [it for it in found if it.file is not None and it not in started.get(disk.real(it.file), ())]
            self.note_launches(started, fresh, fragment.path, text, root)
        machine.project.documents |= self.programs_of(root)

    def started_in_folders(self) -> Iterator[Path]:
        """The programs of libraries that commands in any file of the folders named start."""
        for root in dict.fromkeys(self.root_of(folder) for folder in self.folders):
            self.launches_of(root)
        for program, launch in self.stand_ins.items():
            if any((self.options.cwd / launch.where.path).is_relative_to(folder) for folder in self.folders):
                yield program

    def readers_of(self, config: Path) -> Iterator[Path]:
        """The scripts that may read a configuration that was named: it is spelled in them, or in their launch commands."""
        root = self.root_of(config)
        for script, commands in self.launches_of(root).items():
            if any(config.name in command.text for command in commands):
                yield script
        spelled = [config.name, f'"{config.stem}"', f"'{config.stem}'"]
        for file in python_files(root):
            text = self.text_of(file) or ""
            if any(name in text for name in spelled):
                yield file

    def started_by(self, shell: Path) -> list[Path]:
        """The scripts that the launch commands of a shell file start."""
        return [
            script
            for script, commands in self.launches_of(self.root_of(shell)).items()
            if any(c.where.path == display_path(shell, self.options.cwd) for c in commands)
        ]

    def root_of(self, file: Path) -> Path:
        from t4lint.interpret.project import find_root

        if file not in self.roots:
            self.roots[file] = find_root(file)
        return self.roots[file]

    def project_of(self, file: Path) -> Any:
        from t4lint.interpret.project import Project

        root = self.root_of(file)
        if root not in self.projects:
            first = self.opened.get(root)
            if first is None:
                first = self.opened[root] = Project(root, self.options.cwd, self.texts_below(root))
                for file, notebook in self.notebooks.items():
                    first.documents[file] = notebook.document()
                    for module in notebook.written_documents():
                        first.documents.setdefault(disk.real(module.file), module)
                first.documents |= self.programs_of(root)
            self.projects[root] = first.afresh()
        return self.projects[root]

    def texts_below(self, root: Path) -> dict[Path, str]:
        """What stands for files of a project: the texts that were read, and open buffers."""
        prefix = f"{root}{os.sep}"
        texts = {path: text for path, text in self.data.items() if str(path).startswith(prefix)}
        buffers = {self.options.cwd / path: text for path, text in self.options.texts.items()}
        return texts | buffers | {disk.real(file): text for file, text in buffers.items()}

    def programs_of(self, root: Path) -> dict[Path, Document]:
        """The programs that stand for those that launches start and that are no files; their place is the command."""
        self.launches_of(root)
        if not self.stand_ins:
            return {}
        from t4lint.libraries.programs import program_text
        from t4lint.sources.positions import OnePlace

        found = {}
        for file, launch in self.stand_ins.items():
            written = next((document for document in launch.written if document.file == file), None)
            if written is not None:
                self.data[file], found[file] = written.text, written
                continue
            text = self.data.setdefault(file, program_text(launch.program))
            path = display_path(file, self.options.cwd)
            found[file] = Document(path, file, "python", text, OnePlace(launch.where, text))
        return found

    def launches_of(self, root: Path) -> dict[Path, list[LaunchCommand]]:
        """The launch commands in the shell files of a project, by the script that they start."""
        if root not in self.launches:
            self.launches[root] = self.read_launches(root)
        return self.launches[root]

    def read_launches(self, root: Path) -> dict[Path, list[LaunchCommand]]:
        from t4lint.sources.shell import launches
        from t4lint.sources.versions import console_scripts

        consoles = console_scripts(root)
        started: dict[Path, list[LaunchCommand]] = {}
        found: list[tuple[str, str, list[LaunchCommand]]] = []
        given = {file: text for file, text in self.data.items() if file.is_relative_to(root)}
        for file in shell_files(root, given):
            document = self.read(file)
            if isinstance(document, Problem) or document.kind != "shell":
                continue
            found.append((document.path, document.text, launches(document, root, (), consoles)))
        for file, fragments in self.fragments(root):
            for fragment in fragments:
                notebook = self.notebooks.get(file)
                written = [item.file for item in notebook.written] if notebook is not None else ()
                text = notebook.listing if notebook is not None else self.data.get(file, "")
                text = text or self.text_of(file) or ""
                found.append((fragment.path, text, launches(fragment, root, written, consoles)))
        # what a script is called for by another one is known better from there than from itself
        called = {launch.where for path, _, its in found for launch in its if launch.where.path != path}
        for path, text, its in found:
            own = [launch for launch in its if launch.where.path != path or launch.where not in called]
            self.note_launches(started, own, path, text, root)
        return started

    def note_launches(
        self, started: dict[Path, list[LaunchCommand]], found: Iterable[LaunchCommand], path: str, text: str, root: Path
    ) -> None:
        """Keep the launches of scripts of the project. Others are read only where they were given, or are where we work.

        A command of a library that a file says over and over, as documentation does, is one.
        """
        from t4lint.interpret.launching import likeness

        for launch in found:
            if launch.file is not None:
                file = disk.real(launch.file)
                if launch.program:
                    command = launch.where.path, likeness(replace(launch, file=None), "")
                    if command in self.commands:
                        continue
                    self.commands.add(command)
                if launch.program and len(self.stand_ins) >= MAX_PROGRAMS and file not in self.stand_ins:
                    self.notes.append(f"{launch.where.path}:{launch.where.line} was not followed: too many commands")
                    continue
                if launch.program or any(written.file == file for written in launch.written):
                    self.stand_ins[file] = launch
                elif not (file.is_relative_to(root) or file in self.data or self.is_here(file)):
                    continue
                started.setdefault(file, []).append(launch)
                where = launch.where.path
                self.sources[where] = text if where == path else self.text_of(self.options.cwd / where) or ""
            elif launch.launcher != "python" and launch.where.path == path and not path.lower().endswith(PROSE):
                self.alone.setdefault(path, []).append(launch)
                self.sources[path] = text

    def is_here(self, file: Path) -> bool:
        """Is a file below the working directory?"""
        return file.is_relative_to(self.options.cwd) or file.is_relative_to(disk.real(self.options.cwd))

    def fragments(self, root: Path) -> Iterator[tuple[Path, Sequence[ShellFragment]]]:
        """Shell commands inside other files of a project: notebooks, Makefiles, Dockerfiles, workflows, README blocks."""
        from t4lint.sources.launch_files import embedded_shell, is_launch_file

        for file, notebook in self.notebooks.items():
            if file.is_relative_to(root):
                yield file, notebook.shell
        for file in launch_files(root, is_launch_file):
            document = self.read(file)
            if not isinstance(document, Problem):
                yield file, embedded_shell(document)

    # --- parts ---

    def parts(self, scripts: Sequence[Path]) -> list[list[Path]]:
        """The scripts in sets that share no module, by path: what one run leads to is looked at once in each of them."""
        from t4lint.parts import parts

        return [list(scripts)] if len(scripts) < 2 else sorted(parts(scripts, self.root_of, self.gate_of), key=min)

    def check_part(self, scripts: Sequence[Path]) -> list[Step]:
        """Check scripts that belong together, as if there were no others."""
        part = self.empty()
        steps = []
        for script in scripts:
            first = len(part.runs)
            part.problems, part.notes, part.trace, part.found, part.edits = [], [], [], {}, {}
            sources, data = part.sources.new_child(), part.data.new_child()
            part.sources, part.data = sources, data
            part.check_script(script)
            edits = [(rule.name, place, edits) for (_, place), (rule, edits) in part.edits.items()]
            step = Step(
                script, scripts[0], first, part.runs[first:], part.problems, part.notes, part.trace,
                list(part.found.values()), dict(sources.maps[0]), dict(data.maps[0]), edits,
            )  # fmt: skip
            part.sources.maps[1].update(step.sources)
            part.data.maps[1].update(step.data)
            part.sources, part.data = part.sources.parents, part.data.parents
            if any((step.runs, step.problems, step.notes, step.trace, step.found, step.sources, step.data)):
                steps.append(step)
        return steps

    def empty(self) -> Session:
        """A session over the same files without results, and without anything that a run has left behind."""
        part = copy(self)
        part.problems, part.runs, part.notes, part.trace, part.found, part.edits = [], [], [], [], {}, {}
        part.sources, part.data = ChainMap({}, self.sources), ChainMap({}, self.data)
        part.projects, part.entered, part.imported, part.deferred, part.done = {}, {}, set(), {}, {}
        part.steps_left = MOST_STEPS
        return part

    def take(self, order: Sequence[Path], made: Iterable[list[Step]]) -> None:
        """Add what the parts have given, in the order of the scripts."""
        place = {script: number for number, script in enumerate(order)}
        numbers: dict[Path, dict[int, int]] = {}  # of runs, from those of a part to those of the report
        for step in sorted(chain.from_iterable(made), key=lambda step: place[step.script]):
            renamed = numbers.setdefault(step.part, {NO_RUN: NO_RUN})
            for number, run in enumerate(step.runs, step.first_run):
                renamed[number] = len(self.runs)
                self.runs.append(run)
            self.problems += step.problems
            self.notes += step.notes
            self.trace += step.trace
            self.sources |= step.sources
            self.data |= step.data
            for finding in step.found:
                moved = replace(finding, runs=tuple(renamed[run] for run in finding.runs))
                key = (finding.rule, finding.location)
                self.found[key] = merged(self.found[key], moved) if key in self.found else moved
            by_name = {rule.name: rule for rule in self.rules} if step.edits else {}
            for name, at, edits in step.edits:
                self.edits.setdefault((name, at), (by_name[name], edits))

    # --- runs ---

    def check_script(self, file: Path) -> None:
        commands = self.launches_of(self.root_of(file)).get(disk.real(file), [])
        self.project_of(file)  # which knows the programs that are no files
        text = self.data.get(file)
        if text is None:
            document = self.read(file)
            if isinstance(document, Problem):
                return
            text = self.data[file] = document.text
        if launches_others(file, text) and file.suffix.lower() not in (".py", ".pyw", ".ipynb"):
            self.check_commands(file)
            return
        if file in self.deferred and not commands and not is_script(text):
            self.look_at_uncalled(file)
            return
        if not commands and not is_script(text) and self.trains_elsewhere(file):
            self.note_elsewhere(file)
            return
        if not self.relevant(file, commands):
            self.check_syntax(file, text)
            return
        self.done.clear()
        for launch in commands[:MAX_LAUNCHES]:
            self.run(file, launch)
        for launch in commands[MAX_LAUNCHES:]:
            self.notes.append(
                f"{launch.where.path}:{launch.where.line} was not followed: too many launches of {file.name}"
            )
        if not commands:
            self.run(file, None)
        elif all(launch.gpus != NOT_SAID for launch in commands):
            # a program that is only ever tried without a GPU is judged with one too, unless several processes share the CPUs
            for launch in [launch for launch in commands[:MAX_LAUNCHES] if launch.launcher == "python"]:
                self.run(file, on_a_gpu(launch))

    def check_commands(self, file: Path) -> None:
        """The launch commands of a file whose programs are not in sight: what they say by themselves."""
        self.launches_of(self.root_of(file))
        for launch in self.alone.get(display_path(file, self.options.cwd), ())[:MAX_LAUNCHES]:
            self.run(file, launch)

    def trains_elsewhere(self, file: Path) -> bool:
        """Would a run of a module end in not being judged? Known for what earlier runs have imported."""
        return not OTHER_ACCELERATORS.isdisjoint(self.project_of(file).brings(file))

    def note_elsewhere(self, file: Path) -> None:
        self.notes.append(f"{display_path(file, self.options.cwd)} trains on another accelerator and was not judged")

    def starts(self, file: Path) -> bool:
        """Does a launch command start this script?"""
        return disk.real(file) in self.launches_of(self.root_of(file))

    def relevant(self, file: Path, commands: Sequence[LaunchCommand]) -> bool:
        """Can any enabled rule have something to say about a run of this script?"""
        if file in self.stand_ins or (file in self.data and self.starts_others(file)):
            return True
        return self.gate_of(file).passes(file, [self.sources.get(command.where.path, "") for command in commands])

    def gate_of(self, file: Path) -> Gate:
        key = self.root_of(file), self.all_held.index(self.near(file))
        if key not in self.gates:
            triggers = [trigger for rule in self.near(file).rules for trigger in rule.triggers]
            self.gates[key] = Gate(triggers, self.project_of(file).find, self.text_of)
        return self.gates[key]

    def text_of(self, file: Path) -> str | None:
        """The text of a file for the gate: what was given, else as much of it as is text."""
        if file in self.data:
            return self.data[file]
        buffer = self.buffer(file)
        if buffer is not None:
            return buffer
        try:
            return disk.read_start(file, LARGEST).decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    def check_syntax(self, file: Path, text: str) -> None:
        """A file without anything to judge still has to be Python."""
        import ast
        import warnings

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            # a newer syntax than this interpreter's is no error: the other parser decides
            from t4lint.interpret.source import parse

            result = parse(Document(display_path(file, self.options.cwd), file, "python", text), file.stem)
            if isinstance(result, Problem):
                self.problems.append(result)

    def run(self, file: Path, launch: LaunchCommand | None) -> None:
        """Interpret one run and judge it; a fault of t4lint's own must not take the other files with it."""
        try:
            self.interpret(file, launch)
        except Exception as error:
            if os.environ.get("T4LINT_DEBUG"):
                raise
            text = f"t4lint failed on this file ({type(error).__name__}: {error}); please report it"
            self.problems.append(Problem(display_path(file, self.options.cwd), text))

    def interpret(self, file: Path, launch: LaunchCommand | None) -> None:
        project = self.project_of(file)
        versions = self.versions_of(project.root, file, launch)
        entered = self.entered.setdefault(project.root, set())
        before = set(entered)
        # what a launched program imports is run as that program does it, not as a program of its own
        main = launch is not None or file not in self.imported
        result = self.followed(project, file, launch, versions, entered, main)
        if isinstance(result, Problem):
            if result not in self.problems:
                self.problems.append(result)
            return
        if launch is not None:
            self.imported |= set(project.modules)
        if result.machine.globals.get("$commands"):
            self.note_commands(result.machine, file)
        number = len(self.runs)
        self.runs.append(run_info(file, launch, versions, self.options.cwd))
        path = display_path(file, self.options.cwd)
        for config in dict.fromkeys(result.machine.unread):
            line = f":{config.line}" if config.line else ""
            self.notes.append(f"{config.path}{line}: a configuration that {config.message}: what it sets is not known")
        for why in dict.fromkeys(result.machine.given_up):
            self.notes.append(f"{path}: a part of this program was not followed: {why}")
        for source in project.modules.values():
            if not isinstance(source, Problem):
                notebook = self.notebooks.get(source.document.file)
                if notebook is not None or source.document.positions is None:
                    self.sources[source.path] = notebook.listing if notebook is not None else source.document.text
        if trained_elsewhere(result.machine.imported, result.segments):
            self.note_elsewhere(file)
            return
        if self.options.show_trace:
            from t4lint.interpret import show

            self.trace.extend(show.lines(result, self.runs[-1].command))
        self.sources |= project.read_texts
        for module in project.modules:
            if f"module {module}" in result.machine.globals:
                self.deferred.setdefault(module, (result.machine, number, launch is not None))
        if self.options.watch is not None:
            from t4lint.interpret.heard import arguments

            for argument in arguments(result.machine, launch is not None):
                self.options.watch(argument)
        presumed = written_for(result.machine, result.segments, launch is not None)
        older = self.followed(project, file, launch, versions, before, main, presumed) if presumed else None
        if older is None or isinstance(older, Problem):
            self.judge_all(result.machine, result.segments, number, launch is not None)
            return
        for module in (it for it in project.modules if self.deferred.get(it, (None,))[0] is result.machine):
            self.deferred[module] = (older.machine, number, launch is not None)
        self.judge_by_versions(result, older, number, launch is not None)

    def followed(
        self, project: Any, file: Path, launch: LaunchCommand | None, versions: Mapping[str, str], entered: set[int],
        main: bool, presumed: Mapping[str, str] = MappingProxyType({}),
    ) -> Interpretation | Problem:  # fmt: skip
        """What a run does, also with presumed versions. Launches of the script at hand that are alike share one run."""
        from t4lint.interpret.launching import likeness
        from t4lint.interpret.machine import MAX_STEPS
        from t4lint.interpret.run import interpret, interpret_command, repeated

        target = self.near(file).target if launch is None or launch.gpus == NOT_SAID else find_target("cpu")
        if launch is not None and launch.file is None:
            return interpret_command(project, target, versions, launch)
        alike = ""
        if launch is not None:
            folder = str((self.options.cwd / launch.where.path).parent)
            alike = f"{likeness(launch, folder)}{versions}{dict(presumed)}"
            again = repeated(self.done[alike], launch) if alike in self.done else None
            if again is not None:
                return again
        most = min(MAX_STEPS, max(self.steps_left, LEAST_STEPS))
        listen = self.options.watch is not None and not presumed
        result = interpret(project, file, target, versions, launch, entered, main, listen, most, presumed)
        if not isinstance(result, Problem):
            if launch is not None:
                self.done[alike] = result
            self.spend(result.machine, display_path(file, self.options.cwd))
        return result

    def judge_by_versions(self, newest: Interpretation, older: Interpretation, number: int, launched: bool) -> None:
        """Judge a program that the newest versions of its libraries refuse."""
        judge_by_versions(self, newest, older, number, launched)

    def judge_all(self, machine: Machine, segments: Sequence[Segment], number: int, launched: bool) -> None:
        """Judge what one interpretation gave."""
        judge_all(self, machine, segments, number, launched)

    def spend(self, machine: Machine, script: str) -> None:
        """Count the steps of a run. When all are spent, the next runs get few, and the report says so once."""
        if self.steps_left > 0:
            self.steps_left -= machine.spent + machine.steps
            if self.steps_left <= 0:
                self.notes.append(
                    f"{script}: from here on programs were followed for {LEAST_STEPS:,} steps each: those before took"
                    f" more than {MOST_STEPS:,}. Check folders one at a time to follow all of them"
                )

    def look_at_uncalled(self, file: Path) -> None:
        """The functions of a module that no run entered, seen from a run that imported it."""
        from t4lint.interpret.run import uncalled_segments

        machine, number, launched = self.deferred[file]
        source = machine.project.modules.get(file)
        if source is not None and not isinstance(source, Problem):
            self.judge_all(machine, uncalled_segments(machine, source), number, launched)

    def versions_of(self, root: Path, script: Path, launch: LaunchCommand | None) -> dict[str, str]:
        """Pins of the project, of the script itself, of what installs before it starts it, and of the settings, which win.

        A range stands for the newest release that it allows: an installer takes that.
        """
        from t4lint.libraries.signatures import newest_within
        from t4lint.sources.versions import inline, pins_in, read

        starter = self.options.cwd / launch.where.path if launch is not None else script
        notebook = self.notebooks.get(script) or self.notebooks.get(starter)
        pins = notebook.pins if notebook is not None else {}
        if notebook is None and launch is not None:
            pins = pins_in(self.sources.get(launch.where.path, ""))
        where = root, script.parent
        if where not in self.asked_for:
            self.asked_for[where] = read(*where)
        pinned, allowed = self.asked_for[where]
        ranges = {
            name: newest
            for name, bound in allowed.items()
            if bound.high is not None and (newest := newest_within(name, bound.high, bound.high_included)) is not None
        }
        own = inline(self.data.get(script, ""))
        found = {**ranges, **pinned, **own, **pins, **self.near(script).options.versions}
        return {name: version for name, version in found.items() if version}


def on_a_gpu(launch: LaunchCommand) -> LaunchCommand:
    """The same launch where it is not left without a GPU."""
    if launch.gpus == NOT_SAID:
        return launch
    shown = {name: word for name, word in launch.environment.items() if name != "CUDA_VISIBLE_DEVICES"}
    return replace(launch, environment=shown, gpus=NOT_SAID)


def trained_elsewhere(imported: Collection[str], segments: Sequence[Segment]) -> bool:
    """Does a run train on a TPU or with jax? A program that goes backward in torch may use jax for what it measures."""
    if "torch_xla" in imported or OTHER_ACCELERATORS.isdisjoint(imported):
        return "torch_xla" in imported
    return not any(draft.kind is Backward for segment in segments for draft in segment.drafts)


def run_info(file: Path, launch: LaunchCommand | None, versions: Mapping[str, str], cwd: Path) -> RunInfo:
    script = display_path(file, cwd)
    if launch is None:
        return RunInfo(script, script if file.suffix == ".ipynb" else f"python {script}", None, dict(versions), 1)
    nodes, per_node = launch.nodes, launch.processes_per_node
    known = nodes.known and per_node.known and isinstance(nodes.it, int) and isinstance(per_node.it, int)
    processes = nodes.it * per_node.it if known else None
    return RunInfo(script, launch.text, f"{launch.where.path}:{launch.where.line}", dict(versions), processes)
