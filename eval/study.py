"""`mmt report --train`: a whole study, from gin files to the report.

A study is a list of runs and the test sets they are evaluated on. Each run is one `mmt` command in
its own process. Run the same study again to resume; finished runs are skipped.
"""

import contextlib
import dataclasses
import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from eval import testsets
from eval.analyses.corpus_effects import effects
from eval.analyses.train_overlap import TrainingTargets
from eval.analyses.update import update
from eval.metrics import Metrics
from eval.records import analysis, results
from eval.report import check_folder, report
from mmt import config
from mmt.data import corpora, recipe
from mmt.data.cache.manifest import read_manifest
from mmt.data.cleaning import prepare
from mmt.decoding import Decoding
from mmt.run import Run

COMMANDS = ("train", "distill", "baselines")


@dataclasses.dataclass(frozen=True)
class Study:
    """A list of runs, their evaluation, and the report.

    Attributes:
        runs: `COMMAND FILE`, such as `train my/dense.gin`, with a command of COMMANDS. The name of
            a system is the last part of MODEL_DIR in its gin file.
        testsets: test sets on which each trained or distilled run is evaluated. Baselines are
            evaluated by their own `Judge`.
        results: the results file.
        out: folder of the report.
        decoding: options of the search.
        scores: metrics in addition to BLEU and chrF++.
        bindings: old way to bind settings of all runs, see below.
        corpus: corpus with whose training targets outputs are compared, to find recited ones; ""
            for none.
        examples: whether the report shows sentences.
        remarks: recipe notes of the report: heading -> text.
        leave_out: names of corpora. The first run, a `train`, is also trained without each of
            them, as system `without:NAME`; the report has the effect of each corpus.

    Studies of earlier versions have settings as text, which are still read: `NAME=VALUE` after a
    run's file, in `bindings` for all runs, and lists such as `['beam=1']` in `decoding` and
    `scores`.
    """

    runs: Sequence[str]
    testsets: Sequence[str]
    results: str
    out: str
    decoding: Decoding | Sequence[str] = Decoding()
    scores: Metrics | Sequence[str] = Metrics()
    bindings: Sequence[str] = ()
    corpus: str = ""
    examples: bool = True
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    leave_out: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("runs", "testsets", "decoding", "scores", "bindings", "leave_out"):
            value = getattr(self, name)
            if isinstance(value, Decoding | Metrics):
                continue
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise ValueError(f"Study.{name}: {value!r}; expected a list of texts")
        if not self.runs:
            raise ValueError("Study.runs: []; expected a run or more")
        if not isinstance(self.remarks, Mapping):
            raise ValueError(f"Study.remarks: {self.remarks!r}; expected headings with their texts")
        self._check_runs()
        if self.leave_out and not self.runs[0].lstrip().startswith("train"):
            raise ValueError(
                f"Study.leave_out: its corpora are left out of the first run, {self.runs[0]!r}; "
                "expected a run of the command train"
            )
        if old := self._settings_as_text():
            warnings.warn(
                f"{', '.join(old)}: settings as text; since this version a study's run names a gin "
                "file that has its settings, and decoding and scores are @decoding.Decoding() and "
                "@metrics.Metrics()", stacklevel=2,
            )  # fmt: skip

    def _check_runs(self) -> None:
        for run in self.runs:
            try:
                command, *arguments = shlex.split(run) or [""]
            except ValueError as error:  # an unclosed quote
                raise ValueError(f"Study.runs: {run!r}: {error}") from None
            are_bindings = all("=" in argument for argument in arguments[1:])
            if command not in COMMANDS or not arguments or not are_bindings:
                raise ValueError(
                    f"Study.runs: {run!r}; expected a command of {', '.join(COMMANDS)} and its gin "
                    "file, as in 'train my/dense.gin'"
                )

    def _settings_as_text(self) -> list[str]:
        """Returns the parameters that hold settings as text, as in earlier versions."""
        old = {
            "runs": any(len(shlex.split(run)) > 2 for run in self.runs),
            "bindings": bool(self.bindings),
            "decoding": bool(self.decoding) and not isinstance(self.decoding, Decoding),
            "scores": bool(self.scores) and not isinstance(self.scores, Metrics),
        }
        return [f"Study.{name}" for name, is_old in old.items() if is_old]

    def finish(self) -> list[Path]:
        """Trains and evaluates what is missing, then writes the report and returns its files.

        Progress of all runs is printed before each run. Raises ValueError before training for
        settings that the evaluation or the report would reject. If a run fails, ValueError is
        raised without a report; the next start resumes that run.
        """
        runs = list(map(self._run, self.runs))
        ablation_runs = {corpus: self._ablation_run(corpus, runs[0]) for corpus in self.leave_out}
        runs += ablation_runs.values()
        self._check(runs)
        evaluation_flags = [f"--gin.{name}" for name in self._evaluation_bindings]
        for run in runs:
            print_statuses([_status(each, Path(self.results)) for each in runs])
            bindings = [f"--gin.{binding}" for binding in run.bindings]
            mmt(run.command, f"--gin_file={run.file}", *bindings)
            for testset in self.testsets if run.command != "baselines" else ():
                mmt("evaluate", "--model", str(run.directory), "--testset", testset,
                    "--out", self.results, *evaluation_flags)  # fmt: skip
        print_statuses([_status(each, Path(self.results)) for each in runs])
        training = TrainingTargets(targets(self.corpus)) if self.corpus else None
        update([Path(self.results)], training=training)
        analysis.add(analysis.path_for(Path(self.results)), self._remarks())
        if ablation_runs:
            systems = {corpus: run.directory.name for corpus, run in ablation_runs.items()}
            manifest = read_manifest(Run(runs[0].directory).manifest)
            effect_rows = effects(Path(self.results), runs[0].directory.name, systems, manifest)
            analysis.add(analysis.path_for(Path(self.results)), effect_rows)
        return report([self.results], Path(self.out), examples=self.examples)

    def _run(self, run: str) -> "PlannedRun":
        command, file, *bindings = shlex.split(run)
        bindings = [*self.bindings, *bindings]
        try:
            config.load([file], bindings)
        except ValueError as error:
            raise ValueError(f"Study.runs: {run!r}: {error}") from error
        macros = {name: config.macro(name) for name in ("MODEL_DIR", "TRAIN_STEPS")}
        for (name, value), kind in zip(macros.items(), (str, int), strict=True):
            if value is None:
                raise ValueError(f"Study.runs: {run!r}: neither it nor {file} gives {name}")
            if not isinstance(value, kind):
                expected = "a folder's name" if kind is str else "a number of steps"
                raise ValueError(f"Study.runs: {run!r}: {name} is {value!r}; expected {expected}")
        rows = config.macro("RESULTS")
        if command == "baselines" and rows and Path(rows) != Path(self.results):
            raise ValueError(
                f"Study.runs: {run!r}: its baselines' rows go into {rows}, the study's are in "
                f"{self.results}; have it end in RESULTS={self.results}"
            )
        directory, steps = Path(macros["MODEL_DIR"]), macros["TRAIN_STEPS"]
        languages = config.macro("BASELINE_LANGUAGES", 0)
        count = languages if isinstance(languages, int) else len(languages)
        target = "" if command == "baselines" else _target()
        return PlannedRun(command, file, bindings, directory, steps, count, target)

    def _ablation_run(self, corpus: str, run: "PlannedRun") -> "PlannedRun":
        """Returns a run without a corpus. Raises ValueError if its data do not have the corpus."""
        command, file, *bindings = shlex.split(self.runs[0])
        config.load([file], [*self.bindings, *bindings])
        try:
            config.configured(recipe.CacheConfig)().check_leave_out([corpus])
        except ValueError as error:
            raise ValueError(f"Study.leave_out: {error}") from error
        name = re.sub(r"[^\w.-]+", "_", corpus)
        directory = run.directory.with_name(f"without:{name}")
        bindings += [f"MODEL_DIR={str(directory)!r}",
                     f"pipeline.train_batches.leave_out={[corpus]!r}"]  # fmt: skip
        return self._run(shlex.join([command, file, *bindings]))

    @property
    def _evaluation_bindings(self) -> list[str]:
        settings = {"Decoding": self.decoding, "Metrics": self.scores}
        return [
            f"{name}.{binding}"
            for name, value in settings.items()
            for binding in _bindings(value)
        ]

    def _remarks(self) -> list[analysis.Remark]:
        return [analysis.Remark(title=title, text=text) for title, text in self.remarks.items()]

    def _check(self, runs: Sequence["PlannedRun"]) -> None:
        """Raises ValueError for faults that would otherwise appear only after training."""
        names: dict[str, Path] = {}
        for run in runs:
            name = run.directory.name
            if run.command != "baselines":
                results.check_system(name)
                if name in names:
                    raise ValueError(
                        f"Study.runs: {names[name]} and {run.directory}: a system is named by its "
                        f"folder, and both would be {name!r}"
                    )
                names[name] = run.directory
        for name in self.testsets:
            testsets.check_place(name)
            for target in {run.target for run in runs if run.target}:
                testsets.load(name, target=target)
        config.bind(self._evaluation_bindings, (Decoding, Metrics))
        config.configured(Decoding)()
        config.configured(Metrics)()
        if self.corpus:
            corpora.load(self.corpus)
        self._remarks()
        check_folder(Path(self.out))


def _target() -> str:
    """Returns the target that `testsets.for_model` will choose for the configured run, or ""."""
    corpus = config.value(recipe.CacheConfig, "corpus")
    mixture = config.value(recipe.CacheConfig, "mixture")
    if corpus and mixture:
        with contextlib.suppress(ValueError):  # a run may first make its corpus
            described = recipe.select(corpora.load(corpus), mixture).corpus
            return "eng_Latn" if described.reverse else described.target
    return ""


def _bindings(settings: Decoding | Metrics | Sequence[str]) -> list[str]:
    """Returns the fields that are not the default, as `NAME=VALUE`.

    >>> _bindings(Decoding(beam=1, prefix="so"))
    ['beam=1', "prefix='so'"]
    """
    if not isinstance(settings, Decoding | Metrics):
        return list(settings)
    return [
        f"{field.name}={getattr(settings, field.name)!r}"
        for field in dataclasses.fields(settings)
        if getattr(settings, field.name) != field.default
    ]


def load(file: str, bindings: Sequence[str] = ()) -> Study:
    """Returns the study in a gin file. Raises ValueError if the file does not define one."""
    config.load([file], bindings)
    for name, parameter in inspect.signature(Study).parameters.items():
        if parameter.default is parameter.empty and config.bound(Study, name) is None:
            raise ValueError(f"{file} is no study: it has no study.Study.{name}")
    return config.configured(Study)()


def targets(corpus: str) -> Iterator[str]:
    """Yields the target side of each training pair of a corpus, after cleaning."""
    cleaned = prepare.cleaned(corpora.load(corpus))
    for code in cleaned.languages:
        for pair in cleaned.pairs(code, "train"):
            yield pair.target


def mmt(*arguments: str) -> None:
    """Runs a command in its own process, with stdout sent to stderr; ValueError if it fails.

    SIGTERM is passed to the command, which saves a checkpoint first. Ctrl-C reaches both processes
    through the terminal.
    """
    stopped = []

    def stop(sign: int, _: object) -> None:
        stopped.append(sign)
        if sign == signal.SIGTERM:
            child.terminate()

    with subprocess.Popen(
        [sys.executable, "-m", "mmt.cli", *arguments], stdout=sys.stderr,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as child:  # fmt: skip
        before = {sign: signal.signal(sign, stop) for sign in (signal.SIGTERM, signal.SIGINT)}
        try:
            status = child.wait()
        finally:
            for sign, handler in before.items():
                signal.signal(sign, handler)
    command = f"`mmt {' '.join(arguments)}`"
    if stopped:
        raise ValueError(f"{command} was stopped; run the same study again to resume")
    if status:
        raise ValueError(f"{command} ended with status {status}")


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A command with its gin file, bindings and run directory.

    steps: training steps. baselines: number of bilingual models, 0 for a single model. target: the
    language that its test sets are read into; "" if unknown.
    """

    command: str
    file: str
    bindings: Sequence[str]
    directory: Path
    steps: int
    baselines: int
    target: str


@dataclasses.dataclass(frozen=True)
class RunStatus:
    """The progress of a run as text, and the number of rows of its system."""

    run: PlannedRun
    trained: str
    rows: int


def _status(run: PlannedRun, file: Path) -> RunStatus:
    rows = results.read_rows(file) if file.exists() else []
    if run.command == "baselines":
        system_rows = [row for row in rows if row.kind == "bilingual"]
        trained_models = len({row.source for row in system_rows})
        return RunStatus(run, f"{trained_models:,} of {run.baselines:,} models", len(system_rows))
    step = Run(run.directory).last_step()
    system_rows = [row for row in rows if row.system == run.directory.name]
    return RunStatus(run, f"{step:,} of {run.steps:,} steps", len(system_rows))


def print_statuses(statuses: Sequence[RunStatus]) -> None:
    """Prints a table on stderr, with a row per run."""
    table = Table("run", "command", "trained", "rows", box=None)
    for status in statuses:
        table.add_row(
            status.run.directory.name, status.run.command, status.trained, f"{status.rows:,}"
        )
    Console(stderr=True).print(table)
