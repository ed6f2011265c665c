"""The cost of each part at one size; each function runs in a process of its own.

They return quantity -> value. Times are CPU-seconds of the process with all threads. Memory is the
growth of MiB that no file backs: pages of mapped files, which the system may drop, do not count.
"""

import functools
import itertools
import os
import shutil
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.data.caching import Bench
from benchmarks.scale import made_up
from mmt import languages
from mmt.data import cache, corpora, mixing, pipeline, vocabulary
from mmt.data.cache import longest, records
from mmt.data.cache.manifest import Manifest
from mmt.data.cleaning import corpus_rules, rules
from mmt.data.mixture_sampler import MixtureSampler
from mmt.data.pair import Pair

Values = dict[str, float]

LENGTHS = {"inputs": 128, "targets": 128}
ROWS = 128  # of a batch
_PART = 250_000  # pairs of a file of text
_CHUNK = 256
_DRAWS = 1024
_OPEN = 40  # examples in the open rows of a virtual shard: 8 rows of 128 tokens


class _Clock:
    """CPU-seconds by phase: `phase` ends the current one and begins another."""

    def __init__(self) -> None:
        self.seconds: Values = {}
        self._name, self._since = "", time.process_time()

    def phase(self, name: str) -> None:
        now = time.process_time()
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + now - self._since
        self._name, self._since = name, now


def caching(folder: Path, pairs: int, count: int, words: int) -> Values:
    """Makes a cache of text in `folder`/cache, in files of text that are deleted when read.

    The phases are reading, removing duplicates, tokenising, and writing (wire format and files).
    """
    model = _vocabulary(folder, words)
    counts, clock, before = made_up.sizes(pairs, count), _Clock(), _reset_peak()
    cache.build(
        folder / "cache",
        {
            ("train", code): _Road(folder, clock, model, code, size)
            for code, size in counts.items()
        },
        name="made_up", target=made_up.TARGET, corpus_hash=f"{pairs}",
        vocabularies=dict.fromkeys(("source", "target"), model),
    )  # fmt: skip
    clock.phase("")
    del clock.seconds[""]
    del clock.seconds["make"]  # the text
    files = list((folder / "cache" / "train").iterdir())
    index = sum(path.stat().st_size for path in files if path.suffix == ".npy")
    shards = [path.stat().st_size for path in files if path.suffix == ".arrayrecord"]
    return {
        **{f"caching: {name}": seconds for name, seconds in clock.seconds.items()},
        "caching: all": sum(clock.seconds.values()),
        "caching: peak of memory, with mapped files": _peak() - before,
        "cache: records": float(sum(shards)), "cache: index": float(index),
        "cache: files of records": float(len(shards)),
    }  # fmt: skip


def beam_job(folder: Path, pairs: int, workers: int) -> Values:
    """Tokenises four languages of 12 words a side with SeqIO's job on Beam's DirectRunner.

    The seconds are those of the job and its workers, from their start.
    """
    folder.mkdir(parents=True)
    return {"caching: all": Bench(folder, pairs, 4).beam(workers).cpu}


class _Road:
    """The examples of one language; a call yields them and tells the clock its phases."""

    def __init__(self, folder: Path, clock: _Clock, model: Path, code: str, pairs: int):
        self._folder, self._clock, self._code, self._pairs = folder, clock, code, pairs
        self._words = made_up.SHORT if model.stem.endswith("short") else made_up.LONG
        self._tokenise = vocabulary.Tokeniser("<2eng> ", model, model)

    def __call__(self) -> Iterator[cache.Piece]:
        clean = corpus_rules.duplicates(
            rules.RuleContext(self._code, made_up.TARGET, pairs=self._pairs)
        )
        for first in range(0, self._pairs, _PART):
            self._clock.phase("make")
            place = self._text(first)
            self._clock.phase("read")
            read = corpora.load(place).pairs(self._code, "train")
            while pairs := list(itertools.islice(read, _CHUNK)):
                self._clock.phase("remove duplicates")
                kept = [pair for pair in map(clean, pairs) if isinstance(pair, Pair)]
                self._clock.phase("tokenise")
                sides = [[pair.source.encode() for pair in kept],
                         [pair.target.encode() for pair in kept]]  # fmt: skip
                tokens = self._tokenise(*sides, [pair.corpus for pair in kept])
                self._clock.phase("write")
                yield functools.partial(list, tokens)
                self._clock.phase("read")
            shutil.rmtree(place)
        self._clock.phase("write")

    def _text(self, first: int) -> Path:
        """Returns a folder with the text of at most `_PART` pairs and its description."""
        place = self._folder / "text"
        place.mkdir()
        name, seed = f"{self._code}.tsv", zlib.crc32(f"{self._code}/{first}".encode())
        groups = made_up.texts(seed, min(_PART, self._pairs - first), self._words)
        with (place / name).open("w", encoding="utf-8") as out:
            out.writelines(made_up.tab_separated(groups))
        described = f'name = "made_up"\ntarget = "eng"\n[train]\n{self._code} = "{name}"\n'
        (place / "corpus.toml").write_text(described)
        return place


def index(folder: Path, pairs: int, count: int) -> Values:
    """Writes the parts of a cache that starting needs, without records: `folder`/cache."""
    model = _vocabulary(folder, made_up.LONG)
    loaded, counts = vocabulary.Vocabulary.load(model), made_up.sizes(pairs, count)
    directory = folder / "cache" / "train"
    directory.mkdir(parents=True)
    seconds = 0.0
    for number, (code, size) in enumerate(counts.items()):
        path = directory / f"{code}.lengths.npy"
        with path.open("wb") as out:
            shape = {"descr": "<i4", "fortran_order": False, "shape": (size, 2)}
            np.lib.format.write_array_header_1_0(out, shape)
            for part in made_up.token_lengths(number, size):
                part.tofile(out)
        began = time.process_time()
        longest.write(longest.path_of(directory, code), np.load(path, mmap_mode="r"))
        seconds += time.process_time() - began
    sides = ("source", "target")
    manifest = Manifest(
        "made_up", made_up.TARGET, tuple(sorted(counts)), {"train": counts}, f"{pairs}",
        dict.fromkeys(sides, loaded.hash), dict.fromkeys(sides, loaded.size),
    )  # fmt: skip
    manifest.write(folder / "cache")
    (folder / "cache" / manifest.model_files["source"]).write_bytes(model.read_bytes())
    files = sum(-(-size // records.SHARD_RECORDS) for size in counts.values())
    return {"list of the longest: time": seconds, "cache: files of records": float(files)}


def starting(folder: Path) -> Values:
    """Opens the cache for training and looks up the first draws."""
    before, began = _held(), time.process_time()
    batches = _opened(folder)
    batches.order.plain(range(_DRAWS))
    used = time.process_time() - began
    values = {"start: time": used, "start: memory": _held() - before}
    batches.close()
    return values


def resuming(folder: Path) -> Values:
    """Opens the cache, and continues in the middle of an epoch of the largest language."""
    batches = _opened(folder)
    state = batches.get_state()
    shards = state["lanes"]
    middle = int(batches.order.sizes.max()) // shards * shards
    for number in state["lane"]:
        near = middle + int(number)
        held = [near - shards * (place + 1) for place in range(_OPEN)]
        rows = [[draw] for draw in held if draw >= 0][:8]
        state["lane"][number] = {"next": near, "open": rows}
    before, began = _held(), time.process_time()
    batches.set_state(state)
    batches.order.plain(range(middle, middle + _DRAWS))
    used = time.process_time() - began
    memory = _held() - before
    batches.close()
    return {"resume: time": used, "resume: memory": memory}


def reading(folder: Path, batches: int = 40) -> Values:
    """Opens all files of records, and measures batches after that."""
    opened = cache.open_cache(folder / "cache")
    before, files, began = _held(), _open_files(), time.process_time()
    readers = [opened.records(code, "train") for code in opened.manifest.languages]
    for reader in readers:
        for first in range(0, len(reader), records.SHARD_RECORDS):
            reader.raw(first)
    values = {"readers: time": time.process_time() - began,
              "readers: memory": _held() - before,
              "readers: open files": float(_open_files() - files)}  # fmt: skip
    del readers
    stream = _opened(folder)
    for _ in range(10):
        next(stream)
    began, done = time.process_time(), 0
    for _ in range(batches):
        batch = next(stream)
        starts = (batch["decoder_positions"] == 0) & (batch["decoder_segment_ids"] > 0)
        done += int(starts.sum())
    values["batches: microseconds per example"] = (time.process_time() - began) / done * 1e6
    stream.close()
    return values


def mixing_of(count: int, pairs: int, temperature: float = 5.0, batches: int = 200) -> Values:
    """Measures the sampler alone, for `count` languages with `pairs` pairs together."""
    names = [f"l{number}" for number in range(count)]
    rates = mixing.mixing_rates(made_up.sizes(pairs, count, names), temperature)
    before, began = _held(), time.process_time()
    sampler = MixtureSampler(list(rates.values()))
    start = time.process_time() - began
    each = 4 * ROWS  # examples of a batch
    began = time.process_time()
    for number in range(batches):
        sampler.at(np.arange(number * each, (number + 1) * each))
    used = (time.process_time() - began) / batches
    return {"mixing: start": start, "mixing: milliseconds per batch": used * 1e3,
            "mixing: memory": _held() - before}  # fmt: skip


def _opened(folder: Path) -> pipeline.TrainBatches:
    warnings.simplefilter("ignore")  # of examples that are too long
    opened = cache.open_cache(folder / "cache")
    return pipeline.train_batches(opened, feature_lengths=LENGTHS, batch_size=ROWS)


def _vocabulary(folder: Path, words: int) -> Path:
    """Trains a vocabulary of 4,000 pieces, or 1,000 for short pairs; returns its model."""
    short = words == made_up.SHORT
    folder.mkdir(parents=True, exist_ok=True)
    model = folder.parent / f"vocabulary-{'short' if short else 'long'}.model"
    if not model.is_file():
        lines = [side for group in made_up.texts(0, 4 * made_up.GROUP, 6) for pair in group
                 for side in pair]  # fmt: skip
        names = [f"{language.name}" for language in languages.all_languages()]
        vocabulary.train(lines + names, model, size=1000 if short else 4000, tags=["<2eng>"])
    return model


def _held() -> float:
    return _memory("RssAnon")


def _peak() -> float:
    """Returns the resident MiB at most since `_reset_peak`, with mapped files."""
    return _memory("VmHWM")


def _reset_peak() -> float:
    """Begins a new peak, and returns the resident MiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
