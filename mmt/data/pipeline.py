"""From a cache to batches of token arrays: mix, shuffle, deal to lanes, pack, prefetch.

The order is arithmetic: example = f(seed, draw). So the state is a few small integers per lane,
and the stream is the same however many processes share it. Nothing here knows the model.
"""

import dataclasses
import functools
import itertools
import json
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from grain.experimental import ThreadPrefetchDatasetIterator

from mmt.data.cache import Cache, open_cache
from mmt.data.cache.manifest import Manifest
from mmt.data.denoising import Denoising
from mmt.data.ledger import Ledger
from mmt.data.mixing import Mixing, resolve
from mmt.data.packing import Batch, Row
from mmt.data.stages import Stage, Timeline, planned
from mmt.data.virtual_shards import Draws, Lane, Split, density

MOST_LANES = 64  # where the number of lanes is not given
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
    lanes: int | None = None,
    denoising: Denoising = Denoising(),  # noqa: B008
) -> "TrainBatches":
    """The endless training batches of a cache, see `TrainBatches`.

    Args:
      cache_dir: the cache's directory, or the open cache.
      feature_lengths: {'inputs': S, 'targets': T}, tokens per row with EOS. Examples that do not
        fit are left out, and one warning counts them; nothing is cut.
      batch_size: rows of the global batch.
      mixing: how often each language is drawn; default `Mixing()`, all languages at T = 5.
      stages: mixtures over time, each with this `mixing` or its own; default: one, without end.
      packing: whether several examples share a row.
      seed: of the order of each language's examples, which is a new one in every epoch.
      lanes: how many streams are packed apart: a divisor of batch_size, a multiple of every number
        of processes that may share the run. Default: the largest divisor of batch_size up to 64.
      denoising: what is made of monolingual text, where the mixture has some.

    Raises:
      ValueError: no cache, an unknown or missing feature, numbers that do not divide each other,
        an unknown language, a mixture without examples, stages that are none.
    """
    if lanes is None:
        lanes = max(n for n in range(1, MOST_LANES + 1) if batch_size % n == 0)
    shard = _Shard(batch_size, lanes, (range(batch_size),))
    shard.check()
    cache = cache_dir if isinstance(cache_dir, Cache) else open_cache(Path(cache_dir))
    known = cache.manifest.languages
    several = planned(stages, mixing)
    chosen = {code for stage in several if stage.mixing for code in stage.mixing.choose(known)}
    drawn = [code for code in known if code in chosen]
    split = Split(cache, "train", drawn, feature_lengths, denoising)
    timeline = Timeline(
        [_of_those(split.counts, known, stage) for stage in several],
        split.counts,
        rows=batch_size,
        density=functools.partial(
            density, split, seed=seed, open_rows=OPEN_ROWS if packing else 0
        ),
    )
    return TrainBatches(Draws(split, timeline, seed), shard, packing=packing)


def _of_those(counts: Mapping[str, int], known: Sequence[str], stage: Stage) -> Stage:
    """The stage that draws only languages of which there are examples that fit."""
    if stage.mixing is None or stage.mixing.languages is None:
        return stage
    codes = [code for code in stage.mixing.choose(known) if code in counts]
    return dataclasses.replace(stage, mixing=dataclasses.replace(stage.mixing, languages=codes))


def eval_batches(
    cache_dir: str | Path,
    *,
    feature_lengths: Mapping[str, int],
    batch_size: int,
    split: str = "validation",
    languages: Sequence[str] | None = None,
    limit: int | None = None,
) -> "EvalBatches":
    """The batches of a split of some languages (by any name), or of all, one example a row.

    Finite, in the cache's order, to be gone through as often as one likes. The last batch is
    filled up with empty rows, which have no weight. `limit` takes the first so many of every
    language. The other arguments, and what is raised, as in `train_batches`.
    """
    shard = _Shard(batch_size, batch_size, (range(batch_size),))
    shard.check()
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be positive, or None for all examples, got {limit}")
    cache = open_cache(Path(cache_dir))
    codes = Mixing(languages=languages).choose(cache.manifest.languages)
    return EvalBatches(Split(cache, split, codes, feature_lengths), shard, limit)


class TrainBatches:
    """An iterator of batches with exact state; made by `train_batches`.

    Languages are drawn by `mixing.Schedule`, each language's examples in a random order. Draw i
    goes to lane i % lanes, a lane packs its draws into rows, and row n of the stream is the next
    one of lane n % lanes; in a batch the rows of a lane stand together. So the rows depend on
    neither the batch size nor the number of processes, given the number of lanes.

    Attributes:
      manifest: the cache's; `decoder_language_ids` are indices into its `languages`.
      draws: the order of the examples.
    """

    def __init__(self, draws: Draws, shard: "_Shard", *, packing: bool):
        self.manifest: Manifest = draws.split.cache.manifest
        self.draws = draws
        self._packing = packing
        self._losses: list[float] = []  # of the stage that ends by them
        self._start(shard)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """This process's rows of the next batch: the nine arrays of `packing.assemble`."""
        return next(self._prefetched)

    def share(self, rows: Callable[[int], Sequence[range]]) -> None:
        """From now on only this process's rows are read and packed: `rows(batch_size)` of every
        batch. To be called before the first one. ValueError where those are no whole lanes.
        """
        shard = self._shard._replace(rows=tuple(rows(self._shard.batch_size)))
        if shard != self._shard:
            shard.check()
            self.close()
            self._start(shard)

    @property
    def batch_size(self) -> int:
        """Rows of the global batch."""
        return self._shard.batch_size

    def get_state(self) -> dict[str, Any]:
        """The state after the batch returned last, however far prefetching has come; plain JSON.

        `lane` has, for each lane of this process, the next draw and the draws in its open rows;
        `stages`, where there are several, the first draws after all but the last, and the losses
        that may end the present one.
        """
        state = {
            "version": STATE_VERSION,
            "settings": self._settings(),
            "lanes": self._shard.lanes,
            "lane": json.loads(self._prefetched.get_state()),
        }
        if len(self.draws.timeline.stages) == 1:
            return state
        return state | {"stages": {"ends": self.draws.timeline.ends, "losses": self._losses}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on after the batch at which `state` was taken; batch size and processes may differ.

        The number of lanes is taken from the state, which has to have this process's lanes (put
        the `lane` of all processes together if what they share changes). ValueError: a state of
        other data or settings.
        """
        if state.get("version") != STATE_VERSION:
            found = state.get("version")
            raise ValueError(f"the data state has version {found}, not {STATE_VERSION}")
        own, saved = self._settings(), state["settings"]
        for key in sorted(own.keys() | saved.keys(), key=lambda key: key != "stages"):
            if saved.get(key) != own.get(key):
                where, was, now = _difference(key, saved.get(key), own.get(key))
                raise ValueError(
                    f"the saved data state is of a run with {where} {was!r}, this one has {now!r}: "
                    "go on with the same, or start a new run"
                )
        stages = state.get("stages", {"ends": [], "losses": []})
        if state["lanes"] != self._shard.lanes or stages["ends"] != self.draws.timeline.ends:
            shard = self._shard._replace(lanes=state["lanes"])
            shard.check()
            self.close()
            timeline = self.draws.timeline.resumed(stages["ends"])
            self.draws = Draws(self.draws.split, timeline, self.draws.seed)
            self._start(shard)
        self._losses = list(stages["losses"])
        lanes = [str(lane) for lane in self._shard.own_lanes()]
        missing = [lane for lane in lanes if lane not in state["lane"]]
        if missing:
            raise ValueError(f"the data state lacks the lanes {', '.join(missing)}")
        self._prefetched.set_state(json.dumps({lane: state["lane"][lane] for lane in lanes}))

    def next_draw(self) -> int:
        """The first draw to which no lane of this process has come by the batch returned last."""
        return max(one["next"] for one in json.loads(self._prefetched.get_state()).values())

    @property
    def waits_for_losses(self) -> bool:
        """Whether a stage ends by a validation loss, which `validated` has to be told."""
        return any(stage.watched() for stage in self.draws.timeline.stages)

    def validated(self, losses: Mapping[str, float], draw: int) -> bool:
        """Takes note of validation losses by FLORES code; ends the stage that goes on until they no
        longer improve, if it is time, and returns whether it was.

        draw: the largest `next_draw` of all processes: there the next stage begins, in every lane.
        ValueError where the stage waits for a language that has no loss.
        """
        timeline = self.draws.timeline
        stage = timeline.watching()
        watched = stage.watched() if stage else None
        if watched is None or draw < timeline.parts[-1].start:
            return False
        language, patience = watched
        found = list(losses.values())
        if language:
            found = [losses[resolve(language, list(losses))]]
        self._losses.append(float(np.mean(found)))
        best = self._losses.index(min(self._losses))
        if len(self._losses) - 1 - best < patience:
            return False
        state = self.get_state()
        self.set_state(state | {"stages": {"ends": timeline.ended(draw).ends, "losses": []}})
        return True

    def warnings(self, steps: int) -> list[str]:
        """What to warn of in so many steps: stages that never begin, caps that are not kept."""
        return self.draws.timeline.warnings(steps * self.batch_size)

    def ledger(self) -> Ledger:
        """What counts the examples seen up to a data state."""
        return Ledger(self.draws)

    def close(self) -> None:
        """Stops prefetching; no batch comes after this."""
        self._stop()

    def _start(self, shard: "_Shard") -> None:
        self._shard = shard
        batches = _Batches(self.draws, shard, OPEN_ROWS if self._packing else 0)
        self._holder = [ThreadPrefetchDatasetIterator(batches, PREFETCH)]
        # Also when this is dropped, or the program ends: Grain's iterator cannot outlive modules.
        self._stop = weakref.finalize(self, _stop, self._holder)

    @property
    def _prefetched(self) -> ThreadPrefetchDatasetIterator:
        if not self._holder:
            raise ValueError("the batches are closed")
        return self._holder[0]

    def _settings(self) -> dict[str, Any]:
        return self.draws.settings() | {"packing": self._packing}


class EvalBatches:
    """Batches of held-out examples, as often as one iterates; made by `eval_batches`."""

    def __init__(self, split: Split, shard: "_Shard", limit: int | None):
        self.manifest: Manifest = split.cache.manifest
        self._split = split
        self._shard = shard
        self._kept = [min(count, limit or count) for count in split.counts.values()]

    def share(self, rows: Callable[[int], Sequence[range]]) -> None:
        """As of `TrainBatches`."""
        self._shard = self._shard._replace(rows=tuple(rows(self._shard.batch_size)))

    def __len__(self) -> int:
        return -(-sum(self._kept) // self._shard.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        own = self._shard.own_lanes()
        examples = (
            self._split.example(0, language, index)
            for language, count in enumerate(self._kept)
            for index in range(count)
        )
        for _ in range(len(self)):
            rows: list[Row] = [[one] for one in itertools.islice(examples, self._shard.batch_size)]
            rows += [[]] * (self._shard.batch_size - len(rows))
            yield self._split.batch([rows[lane] for lane in own])


class _Shard(NamedTuple):
    """Which rows of the global batch are this process's; lane n has rows [n·k, (n + 1)·k)."""

    batch_size: int
    lanes: int
    rows: tuple[range, ...]

    def check(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size}; allowed: 1 or more")
        if self.lanes < 1 or self.batch_size % self.lanes:
            raise ValueError(
                f"batch_size {self.batch_size} must be a positive multiple of lanes, {self.lanes}"
            )
        own, each = sum(map(len, self.rows)), self.batch_size // self.lanes
        if len(self.own_lanes()) * each != own:
            raise ValueError(
                f"{self.lanes} lanes of {each} rows cannot be shared by processes with {own} of "
                f"{self.batch_size} rows each: set pipeline.train_batches.lanes to a multiple of "
                f"{self.batch_size // own} that divides {self.batch_size}, in a new run"
            )

    def own_lanes(self) -> list[int]:
        each = self.batch_size // self.lanes
        return sorted({row // each for some in self.rows for row in some})


class _Batches:
    """The batches of one process, made when asked for; the state is a string (cheap to copy)."""

    def __init__(self, draws: Draws, shard: _Shard, open_rows: int):
        self._split = draws.split
        self._rows = shard.batch_size // shard.lanes
        self._lanes = {
            str(number): Lane(draws, number, shard.lanes, open_rows) for number in shard.own_lanes()
        }

    def __next__(self) -> Batch:
        return self._split.batch(
            [lane.row() for lane in self._lanes.values() for _ in range(self._rows)]
        )

    def get_state(self) -> str:
        return json.dumps({number: lane.get_state() for number, lane in self._lanes.items()})

    def set_state(self, state: str) -> None:
        for number, saved in json.loads(state).items():
            self._lanes[number].set_state(saved)


def _difference(where: str, was: Any, now: Any) -> tuple[str, Any, Any]:
    """The first place where two settings differ, and what is there.

    >>> _difference("stages", [{"until": {"steps": 5}}], [{"until": {"steps": 9}}])
    ('stages[0].until.steps', 5, 9)
    """
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted(was.keys() & now.keys()):
            if was[key] != now[key]:
                return _difference(f"{where}.{key}", was[key], now[key])
    if isinstance(was, list) and isinstance(now, list):
        if len(was) == len(now) and isinstance([*was, ""][0], dict):
            place = next(place for place, one in enumerate(was) if one != now[place])
            return _difference(f"{where}[{place}]", was[place], now[place])
        less, more = ([x for x in a if x not in b] for a, b in ((was, now), (now, was)))
        if less or more:
            return f"{where} (what they share is left out)", less, more
    return where, was, now


def _stop(holder: list[ThreadPrefetchDatasetIterator]) -> None:
    while holder:
        holder.pop().close()
