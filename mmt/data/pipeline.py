"""From a cache to batches of token arrays: mix, shuffle, split into virtual shards, pack, prefetch.

An example is a function of seed and draw. So the state is a few integers per virtual shard, and the
stream does not depend on the number of processes. Nothing here knows the model.
"""

import bisect
import copy
import functools
import itertools
import json
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grain.experimental import ThreadPrefetchDatasetIterator

from mmt import checked
from mmt.data.cache import Cache, open_cache
from mmt.data.cache.manifest import Manifest
from mmt.data.curriculum import CurriculumSampler
from mmt.data.denoising import Denoising
from mmt.data.ledger import Ledger
from mmt.data.mixing import Mixing, is_monolingual
from mmt.data.packing import Batch, Row
from mmt.data.process_batches import ProcessBatches, ProcessRows, WorkerBatches, check_workers
from mmt.data.schedule import Schedule, ScheduleState
from mmt.data.split import Split
from mmt.data.stages import Stage, planned_stages
from mmt.data.virtual_shards import SampleOrder, density

OPEN_ROWS = 8
PREFETCH = 4  # batches made ahead by a thread
STATE_VERSION = 1


def train_batches(
    cache_dir: str | Path | Cache,
    *,
    feature_lengths: Mapping[str, int],
    batch_size: int,
    mixing: Mixing | None = None,
    stages: Sequence[Stage] | None = None,
    packing: bool = True,
    seed: int = 0,
    virtual_shards: int | None = None,
    denoising: Denoising = Denoising(),  # noqa: B008
    alignment: bool = False,
    schedule: Schedule | None = None,
    leave_out: Sequence[str] = (),
    workers: int = 0,
    lanes: int | None = None,
) -> "TrainBatches":
    """Returns the endless training batches of a cache, see `TrainBatches`.

    Args:
      cache_dir: the cache's directory, or the open cache.
      feature_lengths: {'inputs': S, 'targets': T}, tokens per row with EOS. Longer examples are
        omitted, and one warning counts them; nothing is truncated.
      batch_size: rows of the global batch.
      mixing: mixing rates of the languages; default `Mixing()`, all languages at T = 5.
      stages: mixtures over time, each with this `mixing` or another; default: one, without end.
      packing: whether several examples share a row.
      seed: of the order of each language's examples, which differs in every epoch.
      virtual_shards: number of streams that are packed separately: a divisor of batch_size, and a
        multiple of every number of processes that may share the run. Default: the largest divisor
        of batch_size up to 64.
      denoising: options of the examples of monolingual text.
      alignment: whether batches have `decoder_alignment`, see `packing.assemble`, from the files of
        `mmt data align`. Monolingual and modified examples have no alignment.
      schedule: changes the rates of the last stage by validation losses; default: no changes.
      leave_out: corpora whose examples are omitted, by the names of entries, globs or folders.
      workers: processes that read and pack; 0: a thread of this one. The batches are the same.
      lanes: old name of `virtual_shards`.

    Raises:
      ValueError: no cache, an unknown or missing feature, numbers that do not divide each other,
        an unknown language or corpus, a mixture without examples, invalid stages, no alignments.
    """
    arguments = {**locals(), "workers": 0}  # of a worker
    process = ProcessRows.whole(batch_size, lanes if virtual_shards is None else virtual_shards)
    cache = cache_dir if isinstance(cache_dir, Cache) else open_cache(Path(cache_dir))
    known = cache.manifest.languages
    curriculum = planned_stages(stages, mixing)
    mixed = {code for stage in curriculum if stage.mixing for code in stage.mixing.choose(known)}
    languages = [code for code in known if code in mixed]
    split = Split(cache, "train", languages, feature_lengths, denoising, alignment, leave_out)
    open_rows = OPEN_ROWS if packing else 0
    sampler = CurriculumSampler(
        [stage.with_examples(split.counts, known) for stage in curriculum],
        split.counts, rows=batch_size,
        density=functools.partial(density, split, seed=seed, open_rows=open_rows),
    )  # fmt: skip
    scheduled = ScheduleState(schedule, sampler, known, cache.manifest.counts.get("validation", {}))
    make = functools.partial(_make_in_worker, arguments)
    return TrainBatches(split, scheduled, process, seed, packing, make, workers)


def _make_in_worker(
    arguments: Mapping[str, Any], virtual_shards: int, with_corpora: bool
) -> "TrainBatches":
    # A resumed run keeps the number of its state.
    batches = train_batches(**{**arguments, "virtual_shards": virtual_shards})
    if with_corpora:
        batches.add_corpus_ids()
    return batches


def eval_batches(
    cache_dir: str | Path,
    *,
    feature_lengths: Mapping[str, int],
    batch_size: int,
    split: str = "validation",
    languages: Sequence[str] | None = None,
    limit: int | None = None,
) -> "EvalBatches":
    """Returns the batches of a split, one example per row, in the cache's order.

    They are finite and can be iterated any number of times. The last batch is padded with empty
    rows, which have no weight. Monolingual text is left out.

    Args:
      split: 'validation', 'test' or 'train'.
      languages: by any name; default: all.
      limit: maximum number of examples per language, the first ones; default: all.
      The others are as in `train_batches`.

    Raises:
      ValueError: as `train_batches`, and for a limit below 1.
    """
    process = ProcessRows.whole(batch_size, batch_size)
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be positive, or None for all examples, got {limit}")
    cache = open_cache(Path(cache_dir))
    codes = Mixing(languages=languages).choose(cache.manifest.languages)
    if split == "train":  # the other splits have no monolingual text
        codes = [code for code in codes if not is_monolingual(code)]
    return EvalBatches(Split(cache, split, codes, feature_lengths), process, limit)


class TrainBatches:
    """An iterator of batches with exact state; `train_batches` makes it.

    `MixtureSampler` draws languages, and each language's examples are in random order. Draw
    i goes to virtual shard i % n, which packs its draws into rows. Row r of the stream is the next
    row of virtual shard r % n; in a batch the rows of a shard are adjacent. So the rows depend on
    neither batch size nor number of processes, only on the number of shards n.

    Attributes:
      manifest: the cache's manifest; `decoder_language_ids` are indices into its `languages`.
      order: the order of the examples.
      schedule: changes the mixing rates by validation losses; None: nothing does.
    """

    def __init__(
        self, split: Split, scheduled: ScheduleState, process: ProcessRows, seed: int,
        packing: bool, make: Callable[[int, bool], "TrainBatches"], workers: int,
    ):  # fmt: skip
        check_workers(workers)
        self.manifest: Manifest = split.cache.manifest
        self._make = make
        self._workers = workers
        self.order = SampleOrder(split, scheduled.sampler, seed)
        self._packing = packing
        self._scheduled = scheduled
        self.schedule = scheduled.schedule
        self._start(process)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Returns this process's rows of the next batch: the arrays of `packing.assemble`."""
        return next(self._prefetched)

    def add_corpus_ids(self) -> None:
        """Adds `decoder_corpus_ids` (indices into `Manifest.corpus_table`) from the first batch on.
        """
        self.close()
        self.order.split.with_corpora = True
        self._start(self._process)

    def share(self, rows: Callable[[int], Sequence[range]]) -> None:
        """Restricts reading and packing to this process's rows of every batch.

        `rows(batch_size)` returns them. Call it before the first batch.

        Raises:
          ValueError: the rows are not those of whole virtual shards.
        """
        process = self._process._replace(rows=tuple(rows(self._process.batch_size)))
        if process != self._process:
            process.check()
            self.close()
            self._start(process)

    @property
    def leave_out(self) -> tuple[str, ...]:
        """The corpora whose examples are omitted."""
        return self.order.split.leave_out

    @property
    def batch_size(self) -> int:
        """The number of rows of the global batch."""
        return self._process.batch_size

    def get_state(self) -> dict[str, Any]:
        """Returns the state after the last returned batch, independent of prefetching; plain JSON.

        `lanes` is the number of virtual shards. `lane` has, per virtual shard of this process, the
        next draw and the draws in its open rows. `stages`, if there are several, has the first draw
        after every stage but the last, and the losses that may end the current one. `schedule`, if
        there is one, has its decisions and the losses so far.
        """
        return self._common_state() | {"lane": json.loads(self._prefetched.get_state())}

    def _common_state(self) -> dict[str, Any]:
        """Returns the state without `lane`."""
        return {
            "version": STATE_VERSION,
            "settings": self._settings(),
            "lanes": self._process.virtual_shards,
        } | self._scheduled.state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continues after the batch at which `state` was saved.

        Batch size and number of processes may differ. The number of virtual shards is the state's.
        If the number of processes changes, `lane` must hold the entries of all processes.

        Raises:
          ValueError: a state of other data or settings, or without this process's shards.
        """
        self.check_state(state)
        self._scheduled.restore(state)
        self._resume(state["lanes"], state["lane"])

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raises ValueError for a state of other data or settings."""
        if (version := state.get("version")) != STATE_VERSION:
            raise ValueError(f"the data state has version {version}, not {STATE_VERSION}")
        checked.same(state["settings"], self._settings(), "the saved data state", first="stages")

    def _resume(self, virtual_shards: int, shards: Mapping[str, Any]) -> None:
        """Continues with the states of these shards, in the order that losses have determined."""
        sampler = self._scheduled.sampler
        if sampler is not self.order.sampler or virtual_shards != self._process.virtual_shards:
            process = self._process._replace(virtual_shards=virtual_shards)
            process.check()
            self.close()
            self.order = SampleOrder(self.order.split, sampler, self.order.seed)
            self._start(process)
        shard_numbers = [str(number) for number in self._process.shard_numbers()]
        if missing := [number for number in shard_numbers if number not in shards]:
            raise ValueError(
                f"the data state lacks the virtual shards {', '.join(missing)}; `lane` must hold "
                "the entries of all processes of the run that saved it"
            )
        self._prefetched.set_state(json.dumps({number: shards[number] for number in shard_numbers}))

    def next_draw(self) -> int:
        """Returns the first draw that this process's shards have not used for returned batches."""
        return max(shard["next"] for shard in json.loads(self._prefetched.get_state()).values())

    def drawn(self, draw: int) -> dict[str, int]:
        """Returns how many examples of each language the draws before `draw` are."""
        counts = self.order.sampler.before(draw).tolist()
        return dict(zip(self.order.sampler.counts, counts, strict=True))

    @property
    def waits_for_losses(self) -> bool:
        """Returns whether a stage or schedule depends on losses, to be passed to `validated`."""
        return self._scheduled.waits

    def validated(
        self,
        losses: Mapping[str, float],
        draw: int,
        *,
        training: Mapping[str, float] | None = None,
        step: int,
    ) -> list[dict[str, Any]]:
        """Takes validation losses, which may end a stage or change rates.

        Args:
          losses: by FLORES code, in nats per token.
          draw: the largest `next_draw` of all processes, from which on a change holds.
          training: the latest training losses, in the same way.
          step: of the measurement. It replaces losses of this step or later, which a rollback
            repeats.

        Returns:
          What changed since the last call, for the log: dictionaries with `step`, `rule` ('stage',
          'wait', 'enter', 'lower', 'end'), `name` (code or group), `text`; for rates also
          `languages`, and the rates `before` and `after`.

        Raises:
          ValueError: the stage waits for a language that has no loss.
        """
        changes = self._scheduled.validated(losses, training or {}, draw, step)
        if self._scheduled.sampler is not self.order.sampler:
            shards = json.loads(self._prefetched.get_state())
            self._resume(self._process.virtual_shards, shards)
        return changes

    def warnings(self, steps: int) -> list[str]:
        """Returns warnings about a run of `steps`.

        They are about stages that never begin, exceeded caps, and rates that the schedule keeps.
        """
        return self.order.sampler.warnings(steps * self.batch_size) + self._scheduled.warnings()

    def ledger(self) -> Ledger:
        """Returns the ledger, which counts the examples that were consumed up to a data state."""
        return Ledger(self.order)

    def close(self) -> None:
        """Stops prefetching and ends the iteration."""
        self._stop()

    def _start(self, process: ProcessRows) -> None:
        self._process = process
        rows = ProcessBatches(self.order, process, OPEN_ROWS if self._packing else 0)
        batches: ProcessBatches | WorkerBatches = rows
        if self._workers:
            with_corpora = self.order.split.with_corpora
            make = functools.partial(self._make, process.virtual_shards, with_corpora)
            state = self._common_state() | {"lane": json.loads(rows.get_state())}
            batches = WorkerBatches(make, process, self._workers, state, self.order.changed)
        self._holder = [ThreadPrefetchDatasetIterator(batches, PREFETCH)]
        # Grain's iterator must stop before Python's modules are torn down.
        self._stop = weakref.finalize(self, _stop, self._holder, batches.close)

    @property
    def _prefetched(self) -> ThreadPrefetchDatasetIterator:
        if not self._holder:
            raise ValueError("the batches are closed")
        return self._holder[0]

    def _settings(self) -> dict[str, Any]:
        return self.order.settings() | {"packing": self._packing} | self._scheduled.settings()


class EvalBatches:
    """Batches of held-out examples, iterable any number of times; `eval_batches` makes them."""

    def __init__(self, split: Split, process: ProcessRows, limit: int | None):
        self.manifest: Manifest = split.cache.manifest
        self._split = split
        self._process = process
        self._counts = [min(count, limit or count) for count in split.counts.values()]

    def share(self, rows: Callable[[int], Sequence[range]]) -> None:
        """Restricts reading to this process's rows, as `TrainBatches.share` does."""
        self._process = self._process._replace(rows=tuple(rows(self._process.batch_size)))

    def languages(self) -> list[str]:
        """Returns the codes of the languages that have examples, in the order of the batches."""
        codes = zip(self._split.counts, self._counts, strict=True)
        return [code for code, count in codes if count]

    def at_most(self, batches: int) -> "EvalBatches":
        """Returns at most `batches` batches with fewer examples per language, at least one."""
        limited = copy.copy(self)
        limits = range(1, max(self._counts, default=1) + 1)
        examples = batches * self._process.batch_size
        largest_limit = bisect.bisect_right(
            limits, examples, key=lambda limit: sum(min(count, limit) for count in self._counts)
        )
        limited._counts = [min(count, max(largest_limit, 1)) for count in self._counts]
        return limited

    def __len__(self) -> int:
        return -(-sum(self._counts) // self._process.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        local_rows = self._process.shard_numbers()  # a shard is a row here
        batch_size = self._process.batch_size
        examples = (
            self._split.example(0, language, index)
            for language, count in enumerate(self._counts)
            for index in range(count)
        )
        for _ in range(len(self)):
            rows: list[Row] = [[example] for example in itertools.islice(examples, batch_size)]
            rows += [[]] * (batch_size - len(rows))
            yield self._split.batch([rows[number] for number in local_rows])


def _stop(holder: list[ThreadPrefetchDatasetIterator], close: Callable[[], None]) -> None:
    while holder:
        holder.pop().close()
        close()
