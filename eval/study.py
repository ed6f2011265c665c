"""`mmt report --train`: a whole study, from gin files to the report, over many starts.

A study is a list of runs and what they are judged on. Each run is one `mmt` command in a process
of its own, which goes on from where an earlier start of it stopped; what is done is not done again.
How a run trains is its own gin file's matter, how it is judged evaluate.py's.
"""

import dataclasses
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from eval import analysis, results
from eval.overlap import Training
from eval.refresh import refresh
from eval.report import report
from mmt import checkpoint, config
from mmt.data import corpora, prepare

COMMANDS = ("train", "distill", "baselines")


@dataclasses.dataclass(frozen=True)
class Study:
    """Runs, in their order, and where their rows and the report go.

    runs: `COMMAND FILE NAME=VALUE …`, such as `train my/dense.gin TEMPERATURE=2 MODEL_DIR=runs/T2`;
        commands: COMMANDS. A run's system is named by the last part of its MODEL_DIR; baselines are
        judged by their own `Judge`.
    testsets: what `mmt evaluate` judges each trained or distilled run on; decoding: how, such as
        `beam=1`, in the words of `mmt.decoding.Decoding`; scores: which beside BLEU and chrF++,
        such as `ter=True`, in those of `eval.metrics.Metrics`. Baselines' `Judge` has its own.
    bindings: of every run that has none of its own for it, such as `TRAIN_STEPS=100`.
    corpus: whose training targets a system may recite; "" looks for none.
    examples: whether the report shows sentences.
    remarks: what the report's recipe notes say: heading -> text.
    """

    runs: Sequence[str]
    testsets: Sequence[str]
    results: str
    out: str
    decoding: Sequence[str] = ()
    scores: Sequence[str] = ()
    bindings: Sequence[str] = ()
    corpus: str = ""
    examples: bool = True
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for run in self.runs:
            try:
                command, *rest = shlex.split(run) or [""]
            except ValueError as error:  # a quote that is not closed
                raise ValueError(f"Study.runs: {run!r}: {error}") from None
            if command not in COMMANDS or not rest or not all("=" in one for one in rest[1:]):
                raise ValueError(
                    f"Study.runs: {run!r}; expected a command of {', '.join(COMMANDS)}, its gin "
                    "file and bindings, as in 'train my/dense.gin TRAIN_STEPS=100'"
                )

    def finish(self) -> list[Path]:
        """Trains and judges what is missing, then writes the report; returns its files.

        Where it stands is printed before each run. ValueError where a run fails: the report of what
        is there is not written, and the next start goes on with that run.
        """
        judged = [f"--gin.Decoding.{one}" for one in self.decoding]
        judged += [f"--gin.Metrics.{one}" for one in self.scores]
        for run in map(self._run, self.runs):
            print_stand([_stand(one, Path(self.results)) for one in map(self._run, self.runs)])
            mmt(run.command, f"--gin_file={run.file}", *(f"--gin.{one}" for one in run.bindings))
            for testset in self.testsets if run.command != "baselines" else ():
                mmt("evaluate", "--model", str(run.directory), "--testset", testset,
                    "--out", self.results, *judged)  # fmt: skip
        print_stand([_stand(one, Path(self.results)) for one in map(self._run, self.runs)])
        training = Training(targets(self.corpus)) if self.corpus else None
        refresh([Path(self.results)], training=training)
        remarks = [analysis.Remark(title=title, text=text) for title, text in self.remarks.items()]
        analysis.add(analysis.beside(Path(self.results)), remarks)
        return report([self.results], Path(self.out), examples=self.examples)

    def _run(self, run: str) -> "Run":
        command, file, *bindings = shlex.split(run)
        bindings = [*self.bindings, *bindings]
        config.load([file], bindings)
        directory, steps = config.macro("MODEL_DIR"), config.macro("TRAIN_STEPS")
        if directory is None or steps is None:
            missing = "MODEL_DIR" if directory is None else "TRAIN_STEPS"
            raise ValueError(f"Study.runs: {run!r}: neither it nor {file} gives {missing}")
        wanted = config.macro("BASELINE_LANGUAGES", 0)
        count = wanted if isinstance(wanted, int) else len(wanted)
        return Run(command, file, bindings, Path(directory), steps, count)


def targets(corpus: str) -> Iterator[str]:
    """The target sides of what a corpus trains on."""
    found = prepare.cleaned(corpora.load(corpus))
    for code in found.languages:
        for pair in found.pairs(code, "train"):
            yield pair.target


def mmt(*arguments: str) -> None:
    """Runs a command in a process of its own, its stdout sent to stderr; ValueError if it fails.

    SIGTERM stops the command, which writes its checkpoint first, and then this; Ctrl-C, of which a
    terminal tells the command too, stops both at once.
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
        raise ValueError(f"{command} was stopped; started again, this goes on from there")
    if status:
        raise ValueError(f"{command} ended with status {status}")


@dataclasses.dataclass(frozen=True)
class Run:
    """A command, its gin file and bindings, and where it trains.

    steps: of its training. baselines: how many models there are to be, 0 where it is one.
    """

    command: str
    file: str
    bindings: Sequence[str]
    directory: Path
    steps: int
    baselines: int


@dataclasses.dataclass(frozen=True)
class Stand:
    """How far a run is, in words, and how many rows its system has."""

    run: Run
    trained: str
    rows: int


def _stand(run: Run, file: Path) -> Stand:
    rows = results.read_rows(file) if file.exists() else []
    if run.command == "baselines":
        judged = [row for row in rows if row.kind == "bilingual"]
        done = len({row.source for row in judged})
        return Stand(run, f"{done:,} of {run.baselines:,} models", len(judged))
    step = max(checkpoint.available_steps(run.directory), default=0)
    judged = [row for row in rows if row.system == run.directory.name]
    return Stand(run, f"{step:,} of {run.steps:,} steps", len(judged))


def print_stand(stands: Sequence[Stand]) -> None:
    """A table on stderr: a row per run."""
    table = Table("run", "command", "trained", "rows", box=None)
    for stand in stands:
        table.add_row(
            stand.run.directory.name, stand.run.command, stand.trained, f"{stand.rows:,}"
        )
    Console(stderr=True).print(table)
