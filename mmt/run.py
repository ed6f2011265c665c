"""`Run`: the content of a run directory. The only module that names its files.

It imports only light modules; `mmt.checkpoint` reads the arrays.
"""

import contextlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmt import config, suggest
from mmt.system import environment, json_objects

if TYPE_CHECKING:
    from mmt.model.transformer import Transformer

MANIFEST = "manifest.json"  # in a run directory and in a cache
SIDES = ("source", "target")
_TEMPORARY_PREFIX = ".new-"  # begins the name of a temporary directory whose files move into a run


class Run:
    """A run directory: its files, its checkpoints by their steps, its model.

    A cache has a manifest and vocabularies under the same names.

    >>> run = Run("runs/demo")    # doctest: +SKIP
    >>> run.best_step(), run.config
    (500, PosixPath('runs/demo/config.gin'))
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r})"

    @property
    def config(self) -> Path:
        """The operative gin configuration."""
        return self.directory / "config.gin"

    @property
    def manifest(self) -> Path:
        """The languages, counts and vocabulary hashes; `mmt.data.cache.manifest` reads it."""
        return self.directory / MANIFEST

    @property
    def metrics(self) -> Path:
        """The logged rows; `read_metrics` reads them."""
        return self.directory / "metrics.jsonl"

    @property
    def timings(self) -> Path:
        """The seconds of all starts and saves; `mmt.timings` reads it."""
        return self.directory / "timings.jsonl"

    @property
    def ledger(self) -> Path:
        """The examples seen so far; `mmt.data.ledger` reads it."""
        return self.directory / "ledger.json"

    @property
    def expert_load(self) -> Path:
        """The tokens of each language that each expert gets; `mmt.hooks.ExpertUse` writes it."""
        return self.directory / "expert_load.json"

    @property
    def environment(self) -> Path:
        """The devices and library versions; `mmt.system.environment` reads it."""
        return self.directory / "environment.json"

    @property
    def checkpoints(self) -> Path:
        """The directory of the checkpoints."""
        return self.directory / "checkpoints"

    @property
    def cache(self) -> Path:
        """The token cache of a run that `mmt extend` has made; further runs are trained on it."""
        return self.directory / "cache"

    @property
    def recovery(self) -> Path:
        """The directory of the state saved between checkpoints; only resuming reads it."""
        return self.directory / "recovery"

    @property
    def hosts(self) -> Path:
        """The heartbeat and the log of each process, of a run of several; `mmt.health` has them."""
        return self.directory / "hosts"

    @property
    def results(self) -> Path:
        """The default file for the scores of this run."""
        return self.directory / "results.jsonl"

    @property
    def identifier(self) -> Path:
        """The language identifier; `mmt.identify` reads it. Not every run has one."""
        return self.directory / "languages.npz"

    @property
    def risk(self) -> Path:
        """The calibration of confidence; `mmt.translate.risk` reads it. Not every run has one."""
        return self.directory / "risk.json"

    @property
    def card(self) -> Path:
        """The card of a published model: data, licences, scores, risks."""
        return self.directory / "README.md"

    @property
    def hashes(self) -> Path:
        """The SHA-256 sums of the files of a published model."""
        return self.directory / "SHA256SUMS"

    def weights(self, step: int) -> Path:
        """Returns the file of published weights; `mmt.checkpoint.published` reads it."""
        return self.checkpoint(step) / "weights.npz"

    def ctranslate2(self, steps: Sequence[int]) -> Path:
        """Returns the directory of the CTranslate2 export of a checkpoint, or of averaged ones.

        `mmt.convert.ctranslate2` makes it. `exports` holds those of all checkpoints.
        """
        return self.exports / "-".join(map(str, steps))

    @property
    def exports(self) -> Path:
        """The directory of the exports that CTranslate2 translates."""
        return self.directory.absolute() / "ctranslate2"

    def checkpoint(self, step: int) -> Path:
        """Returns the absolute path of the checkpoint of a step."""
        return self.checkpoints.absolute() / str(step)

    def vocabulary(self, side: str = "", *, shared: bool) -> Path:
        """Returns the SentencePiece model of a side; the model of both sides if it is shared."""
        return self.directory / ("vocabulary.model" if shared else f"vocabulary.{side}.model")

    def vocabularies(self) -> dict[str, Path]:
        """Returns the files of 'source' and 'target'; the same file twice if it is shared.

        Raises ValueError if a file is missing.
        """
        shared = self.vocabulary(shared=True)
        separate = {side: self.vocabulary(side, shared=False) for side in SIDES}
        files = dict.fromkeys(SIDES, shared) if shared.is_file() else separate
        for path in files.values():
            if not path.is_file():
                raise ValueError(f"{self.directory} has neither {shared.name} nor {path.name}")
        return files

    def check_is_model(self, *files: Path) -> None:
        """Raises ValueError if a file is missing that the directory of a model has.

        files: by default the configuration and the manifest.
        """
        for file in files or (self.config, self.manifest):
            if not file.is_file():
                raise ValueError(
                    f"{self.directory} is no model directory: it has no {file.name}"
                    f"{self.nearest()}"
                )

    def nearest(self) -> str:
        """Returns a hint for error messages, the nearest directory, if this one does not exist."""
        if self.directory.is_dir() or not self.directory.parent.is_dir():
            return ""
        parent = self.directory.parent
        names = [path.name for path in parent.iterdir() if path.is_dir()]
        return suggest.hint(self.directory.name, names, show=lambda name: str(parent / name))

    def model(self) -> "Transformer":
        """Returns the model of the configuration. Raises ValueError if it has none."""
        from mmt.model.transformer import Transformer

        self.check_is_model(self.config)
        with config.isolated(self.config):
            try:
                return config.configured(Transformer)()
            except TypeError as error:
                message = str(error).splitlines()[0]
                raise ValueError(f"{self.config} describes no model: {message}") from error

    def checkpoint_steps(self) -> list[int]:
        """Returns the steps of the complete checkpoints, in order."""
        return sorted(
            int(path.name)
            for path in (self.checkpoints.iterdir() if self.checkpoints.is_dir() else ())
            if path.name.isdigit() and path.is_dir()
        )

    def last_step(self) -> int:
        """Returns the step of the latest checkpoint; 0 if there is none."""
        return max(self.checkpoint_steps(), default=0)

    def best_step(self) -> int:
        """Returns the step with the lowest validation loss if it was measured, else the latest.

        Raises ValueError if there is no checkpoint.
        """
        steps = self.checkpoint_steps()
        if not steps:
            raise ValueError(f"no checkpoint in {self.checkpoints}: is it trained yet?")
        losses = {}
        for step in steps:
            directory = self.checkpoint(step) / "measured"
            try:
                text = (directory / "metadata").read_text("utf-8") if directory.is_dir() else "{}"
                measured = json.loads(text)
            except (ValueError, OSError) as error:
                print(f"{directory} is damaged: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            loss = measured.get("validation_loss") if isinstance(measured, dict) else None
            if isinstance(loss, int | float) and math.isfinite(loss):  # NaN is not the least
                losses[step] = loss
        return min(losses, key=losses.__getitem__) if losses else steps[-1]

    def last_steps(
        self, count: int, *, step: int | None = None, keep: int | None = None
    ) -> list[int]:
        """Returns the steps of the last `count` checkpoints, in order, up to `step` if it is given.

        keep: how many latest checkpoints the run keeps; it may keep an older one, the best.

        Raises ValueError if there are fewer.
        """
        if count < 1:
            raise ValueError(f"the last {count} checkpoints; allowed: 1 or more")
        all_steps = self.checkpoint_steps()
        latest = all_steps[-keep:] if keep else all_steps
        steps = [kept_step for kept_step in latest if step is None or kept_step <= step]
        if len(steps) < count or (step is not None and steps[-1] != step):
            kept = f"the last {keep}" if keep and latest != all_steps else "some"
            raise ValueError(
                f"the last {count} checkpoints{'' if step is None else f' up to {step}'}: "
                f"{self.directory} has {', '.join(map(str, all_steps)) or 'none'} (a run keeps "
                f"{kept}, checkpoint.Policy.keep, and the best)"
            )
        return steps[-count:]

    def is_trained(self, steps: int | None) -> bool:
        """Returns whether the run has done `steps` steps, or a hook has stopped it before.

        steps: None if the configuration does not set the number.
        """
        last, rows = self.last_step(), read_metrics(self.metrics)
        stopped = any("stopped" in row and row["step"] <= last for row in rows)
        return bool(last) and (stopped or (steps is not None and last >= steps))

    def keeps_description(self) -> bool:
        """Returns whether the run is trained already, so that `describe` must not change it.

        Reports settings on stderr that differ from those it was trained with, also if it is resumed
        with them.
        """
        if not self.config.is_file():
            return False
        if self.is_trained(config.macro("TRAIN_STEPS")):
            if changes := config.unlike(self.config):
                self._report(
                    "is trained with other settings; without effect now", changes, "train with them"
                )
            return True
        if self.checkpoint_steps() or self.recovery.is_dir():
            with contextlib.suppress(ValueError):  # the configuration of an earlier version
                changes = config.unlike(self.config)
                if changes := [each for each in changes if not each.startswith("TRAIN_STEPS = ")]:
                    self._report(
                        "was trained so far with other settings; from now on", changes,
                        "train with them from the start",
                    )  # fmt: skip
        return False

    def _report(self, state: str, changes: Sequence[str], purpose: str) -> None:
        print(
            f"mmt: {self.directory} {state}: {'; '.join(changes)}. Set another MODEL_DIR to "
            f"{purpose}",
            file=sys.stderr,
        )

    def describe(self, cache: Any, languages: Sequence[str] = ()) -> None:
        """Writes the files that translation needs besides the checkpoints.

        These are the vocabularies, the loaded configuration, the manifest and the environment.
        Every file is replaced atomically.

        cache: the `mmt.data.cache.Cache` that the run is trained on.
        languages: the languages of the manifest; by default all of the cache's.

        Raises ValueError if there are checkpoints that were trained on another text, and OSError if
        a file cannot be written.
        """
        cache.manifest.check_continues(self)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for unfinished in self.directory.glob(f"{_TEMPORARY_PREFIX}*"):
                shutil.rmtree(unfinished)
            with tempfile.TemporaryDirectory(
                prefix=_TEMPORARY_PREFIX, dir=self.directory
            ) as temporary:
                new = Run(temporary)
                for file in set(cache.vocabulary_files().values()):
                    shutil.copy(file, new.directory / file.name)
                manifest = cache.manifest.only(languages) if languages else cache.manifest
                manifest.write(new.directory)
                new.config.write_text(config.complete(), encoding="utf-8")
                environment.write(new.environment)
                for file in new.directory.iterdir():
                    os.replace(file, self.directory / file.name)
        except OSError as error:
            raise OSError(f"cannot write {self.directory}: {error.strerror}") from error


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Returns the rows of a run's metrics without an incomplete last line of a killed run.

    Raises ValueError, with file and line, for any other line that is no row.
    """
    rows: list[dict[str, Any]] = []
    lines = file.read_bytes().rstrip().split(b"\n") if file.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            row = json_objects.parse(line)
            if type(row.get("step")) is not int:
                raise ValueError("a row without its step, a whole number")
        except ValueError as error:
            if number == len(lines):
                break
            raise ValueError(f"{file}:{number}: {error}") from error
        rows.append(row)
    return rows
