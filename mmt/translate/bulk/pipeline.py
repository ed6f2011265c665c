"""Runs a `BulkJob` with Apache Beam: the elements are shards. The only `import apache_beam`.

Every worker process loads the model once. A runner repeats the shards of a worker that died. Only
Beam's DirectRunner would wait for it forever, so this module starts the pipeline again.
"""

import contextlib
import dataclasses
import functools
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any

try:
    import apache_beam as beam
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineState
    from apache_beam.utils.shared import Shared
except ImportError as error:
    raise ImportError(
        f"--beam_runner needs the extra [beam] (pip install 'mmt[beam]'): {error}"
    ) from error

from mmt import suggest
from mmt.system.progress import progress_bar
from mmt.translate.bulk.job import LINES, BulkFile, BulkJob, Shard, TranslateLines
from mmt.translate.bulk.storage import Storage

_MAX_ATTEMPTS = 4  # without a new shard; Dataflow's default
_POLL_SECONDS = 5.0  # between two updates of the progress bar
_WORKER_DIED = 3  # exit status of a DirectRunner whose worker died


class BeamStorage(Storage):
    """Files of the local disk, and by Beam's file systems those with a scheme, such as `gs://`."""

    def is_remote(self, path: str) -> bool:
        """Returns whether a path has a scheme."""
        return "://" in path

    def files(self, name: str) -> list[str]:
        """Returns the files of this name; a name with a scheme may be a pattern."""
        if not self.is_remote(name):
            return super().files(name)
        files = _matches(name) or _matches(f"{name.rstrip('/')}/*")
        if not files:
            raise ValueError(f"{name}: no such file")
        return files

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder, sorted; folders have names only on the local disk."""
        if not self.is_remote(folder):
            return super().names(folder)
        return [path.rpartition("/")[2] for path in _matches(f"{folder.rstrip('/')}/*")]

    def exists(self, path: str) -> bool:
        """Returns whether a file exists."""
        return FileSystems.exists(path) if self.is_remote(path) else super().exists(path)

    def read(self, path: str, start: int = 0) -> Iterator[bytes]:
        """Yields the bytes of a file, decompressed by its suffix, from the `start`-th one."""
        if not self.is_remote(path):
            yield from super().read(path, start)
            return
        with FileSystems.open(path) as file:
            file.seek(start)
            while piece := file.read(1 << 18):
                yield piece

    def write(self, path: str, content: Iterable[bytes], *, temporary: str) -> None:
        """Writes a file that gets its name when it is complete."""
        if not self.is_remote(path):
            return super().write(path, content, temporary=temporary)
        with FileSystems.create(temporary) as file:
            for piece in content:
                file.write(piece)
        FileSystems.rename([temporary], [path])

    def remove(self, path: str) -> None:
        """Removes a file, or all files below a folder."""
        if not self.is_remote(path):
            return super().remove(path)
        if files := _matches(f"{path.rstrip('/')}/**") or _matches(path):
            FileSystems.delete(files)


@dataclasses.dataclass(frozen=True)
class BeamRunner:
    """A runner of Beam and its options.

    Attributes:
        name: DirectRunner, DataflowRunner, FlinkRunner, SparkRunner, ...
        options: pipeline options, separated by commas: '--direct_num_workers=2,--job_name=a'.

    Raises:
        ValueError: there is no such runner, or `options` has another form, or an option that
            DirectRunner does not have.
    """

    name: str
    options: str = ""

    def __post_init__(self) -> None:
        beam_options = PipelineOptions([]).get_all_options()
        for flag in self._flags():
            name = flag.partition("=")[0]
            if not name.startswith("--") or name == "--runner":
                raise ValueError(
                    f"pipeline options: {flag!r}; expected --NAME=VALUE,--NAME=VALUE, and no "
                    "--runner"
                )
            # A job server of Flink or Spark may have options that are not known here.
            if self._local and name[2:] not in beam_options:
                raise ValueError(
                    f"pipeline options: no {name}{suggest.hint(name[2:], beam_options)}"
                )
        try:
            self.pipeline().options.get_all_options()
        except SystemExit:  # Beam has printed the fault of a value
            raise ValueError(f"pipeline options: {self.options}") from None

    def pipeline(self) -> beam.Pipeline:
        """Returns an empty pipeline."""
        flags = [f"--runner={self.name}", "--default_sdk_harness_log_level=WARNING"]
        if self._local:  # it may be Prism otherwise, which has no --direct_num_workers
            flags.append("--allow_unsafe_triggers")
        return beam.Pipeline(options=PipelineOptions([*flags, *self._flags()]))

    @property
    def _local(self) -> bool:
        """Returns whether the runner starts workers on this machine and does not restart them."""
        return self.name.lower().removesuffix("runner") in ("direct", "switchingdirect", "fnapi")

    def _flags(self) -> list[str]:
        return [flag for flag in re.split(r",(?=--)", self.options) if flag]

    def run(self, job: BulkJob, load: Callable[[], TranslateLines]) -> None:
        """Translates the missing shards of a job and joins those of each file.

        Args:
            job: the job; its `storage` is a `BeamStorage`.
            load: returns the function that translates; it is pickled, and called once by each
                worker process.

        Raises:
            OSError: the pipeline failed, or workers die repeatedly. Finished shards are kept.
        """
        if any(not job.storage.exists(file.path) for file in job.files):
            with _progress(job):
                if self._local:
                    _run_until_complete(self, job, load)
                else:
                    _run(self, job, load)
        job.finish()


class _Translate(beam.DoFn):
    """Translates a shard if its translations do not exist; yields the index of its file."""

    def __init__(self, load: Callable[[], TranslateLines], storage: Storage) -> None:
        self._load, self._storage, self._shared = load, storage, Shared()

    def setup(self) -> None:
        self._translate = self._shared.acquire(self._load)

    def process(self, element: tuple[int, Shard]) -> Iterator[tuple[int, None]]:
        index, shard = element
        shard.write(self._translate, self._storage)
        yield index, None


def _run(runner: BeamRunner, job: BulkJob, load: Callable[[], TranslateLines]) -> None:
    """Runs the pipeline: the missing shards, then the files that have all of theirs."""
    files = {
        index: file for index, file in enumerate(job.files) if not job.storage.exists(file.path)
    }
    missing = [
        (index, shard) for index, file in files.items() for shard in file.missing(job.storage)
    ]
    pipeline = runner.pipeline()
    translated = (
        pipeline
        | "shards" >> beam.Create(missing)
        | "spread" >> beam.Reshuffle()
        | "translate" >> beam.ParDo(_Translate(load, job.storage))
    )
    every = pipeline | "files" >> beam.Create([(index, None) for index in files])
    _ = (
        (every, translated)
        | beam.Flatten()
        | "by file" >> beam.GroupByKey()
        | "join" >> beam.Map(functools.partial(_join, files, job.storage))
    )
    state = pipeline.run().wait_until_finish()
    if state != PipelineState.DONE:
        raise OSError(f"the pipeline ended as {state}; run the same command again to resume")


def _join(files: dict[int, BulkFile], storage: Storage, group: tuple[int, Any]) -> None:
    files[group[0]].join(storage)


def _run_until_complete(
    runner: BeamRunner, job: BulkJob, load: Callable[[], TranslateLines]
) -> None:
    """Runs the pipeline with DirectRunner; starts it again if a worker dies and there is progress.
    """
    context = multiprocessing.get_context("spawn")
    attempts, lines_done = 0, job.lines_done()
    while True:
        receiver, sender = context.Pipe()
        process = context.Process(target=_attempt, args=(runner, job, load, sender))
        process.start()
        sender.close()
        try:
            process.join()
        finally:
            _end_group(process.pid)
        if not process.exitcode:
            return
        if process.exitcode != _WORKER_DIED:
            raise OSError(_error_message(receiver) or f"the pipeline ended with {process.exitcode}")
        lines_before, lines_done = lines_done, job.lines_done()
        attempts = 1 if lines_done > lines_before else attempts + 1
        if attempts == _MAX_ATTEMPTS:
            raise OSError(f"a worker died {attempts} times without a new shard: too little memory?")
        print("a worker process died; its shards are translated again", file=sys.stderr)


def _error_message(errors: Connection) -> str:
    try:
        return errors.recv()
    except EOFError:
        return ""


def _attempt(
    runner: BeamRunner, job: BulkJob, load: Callable[[], TranslateLines], errors: Connection
) -> None:
    """Runs the pipeline in its own process group, which ends with its parent."""
    os.setsid()
    threading.excepthook = _end_if_worker_died
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _run(runner, job, load)
    except Exception as error:
        if os.environ.get("MMT_TRACEBACK"):
            raise
        errors.send(_message(error))
        sys.exit(1)


def _end_if_worker_died(args: threading.ExceptHookArgs) -> None:
    """Ends the process if the thread that watches a worker reports its death."""
    if args.thread is not None and args.thread.name == "run_worker":
        os._exit(_WORKER_DIED)
    threading.__excepthook__(args)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _end_group(group: int | None) -> None:
    """Ends the workers that a DirectRunner left."""
    if group is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _message(error: Exception) -> str:
    """Returns the last line of an error; of a worker that is the error without its traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return re.sub(r" \[while running .*", "", lines[-1])[:2000] if lines else repr(error)


def _matches(pattern: str) -> list[str]:
    (result,) = FileSystems.match([pattern])
    return sorted(each.path for each in result.metadata_list)


@contextlib.contextmanager
def _progress(job: BulkJob) -> Iterator[None]:
    """Shows how many lines are translated, by the shards that exist."""
    stop = threading.Event()
    with progress_bar(*LINES) as bar:
        task = bar.add_task("translating", total=sum(file.lines for file in job.files))

        def watch() -> None:
            while not stop.wait(_POLL_SECONDS):
                bar.update(task, completed=job.lines_done())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            bar.update(task, completed=job.lines_done())
