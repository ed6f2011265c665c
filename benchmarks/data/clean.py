"""Measures the cleaning of a made-up corpus: speed by rule and by process, and memory by pairs.

    python -m benchmarks.data.clean

"of CPU" is per second of CPU time, which other load hardly affects. The rules are the default ones,
with a test set of 2,000 sentences. A twelfth of the pairs has a fault.
"""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mmt.data import corpora
from mmt.data.cleaning import prepare, rulebook
from mmt.data.cleaning.corpus_rules import LengthRatios
from mmt.data.cleaning.rules import Dropped, RuleContext
from mmt.data.pair import Pair

LETTERS = {
    "deu_Latn": "aeinrstdhulcgmobwfkzpvjyxqäöüß", "rus_Cyrl": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэф",
    "hin_Deva": "कखगघचछजझटठडढतथदधनपफबभमयरलवशसह",
    "zho_Hans": "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道",
    "eng_Latn": "etaoinshrdlcumwfgypbvkjxqz",
}  # fmt: skip
PAIRS, TESTS, DIRT = 240_000, 2000, 12


class Words:
    """A language of 20,000 made-up words with a Zipf distribution."""

    def __init__(self, code: str, random: np.random.Generator) -> None:
        letters = np.array(list(LETTERS[code]))
        sizes = random.integers(2, 9, 20_000)
        self.words = np.array(["".join(random.choice(letters, size)) for size in sizes])
        self.space = "" if code == "zho_Hans" else " "
        weights = 1 / np.arange(10, 20_010)
        self.edges = np.cumsum(weights / weights.sum())

    def sentences(self, sizes: np.ndarray, random: np.random.Generator) -> list[str]:
        """Returns sentences with these numbers of words."""
        drawn = self.words[np.searchsorted(self.edges, random.random(sizes.sum()))]
        ends = np.cumsum(sizes)
        return [
            self.space.join(drawn[end - size : end]) for size, end in zip(sizes, ends, strict=True)
        ]


def dirty(source: str, target: str, kind: int) -> tuple[str, str]:
    """Returns a pair with a fault of this kind."""
    return [
        (source, target + " caf\u00c3\u00a9"), (f"{source} 17", f"{target} 71"), (target, target),
        (source, f"{target} {target} {target} {target}"), (f"<b>{source}</b>", target),
        (source, "a" * 30 + target), (source + "  ", f" {target}"), (source, "the same"),
    ][kind % 8]  # fmt: skip


def write(folder: Path, pairs: int, codes: tuple[str, ...]) -> corpora.Corpus:
    """Writes a corpus of `pairs` pairs, with two entries per language, and a test split."""
    random = np.random.default_rng(0)
    english = Words("eng_Latn", random)
    text: dict[str, list[str]] = {"train": [], "test": []}
    for code in codes:
        words, each = Words(code, random), pairs // len(codes)
        sizes = random.integers(4, 28, each + TESTS)
        sources, targets = words.sentences(sizes, random), english.sentences(sizes, random)
        rows = [
            dirty(*sides, place) if place % DIRT == 0 else sides
            for place, sides in enumerate(zip(sources, targets, strict=True))
        ]
        named = {"train": (rows[: each // 2], rows[each // 2 : each]), "test": (rows[each:],)}
        for split, parts in named.items():
            names = [f"{split}-{code}-{place}.tsv" for place in range(len(parts))]
            for name, part in zip(names, parts, strict=True):
                lines = "".join(f"{source}\t{target}\n" for source, target in part)
                (folder / name).write_text(lines, encoding="utf-8")
            text[split].append(f"{code} = {names}")
    toml = "\n".join(line for split, named in text.items() for line in (f"[{split}]", *named))
    (folder / "corpus.toml").write_text(f"name = 'made_up'\n{toml}\n", encoding="utf-8")
    return corpora.load(folder)


def used() -> float:
    """Returns CPU seconds of this process and of those it waited for."""
    counted = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(who)[:2]) for who in counted)


def cleaned(pairs: int, codes: tuple[str, ...], processes: int) -> tuple[float, float, float, int]:
    """Returns seconds, CPU seconds, peak MiB of this process, and pairs kept."""
    with tempfile.TemporaryDirectory() as folder:
        (root := Path(folder, "raw")).mkdir()
        corpus = _apart(write, root, pairs, codes)
        start, before = time.perf_counter(), used()
        report = prepare.prepare(corpus, Path(folder, "clean"), processes=processes)
        taken = time.perf_counter() - start, used() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return *taken, peak, report.kept


def by_rule(count: int = 4000) -> dict[str, list[float]]:
    """Returns CPU microseconds per pair, by rule and language."""
    times: dict[str, list[float]] = {name: [] for name in rulebook.RULES}
    for code in list(LETTERS)[:-1]:
        random = np.random.default_rng(1)
        sizes = random.integers(4, 28, count)
        words, english = Words(code, random), Words("eng_Latn", random)
        sides = zip(words.sentences(sizes, random), english.sentences(sizes, random), strict=True)
        pairs = [Pair(*two, code, "made_up", line) for line, two in enumerate(sides)]
        tests = {"test": {code: [p.source for p in pairs[:50]], "eng_Latn": ["none of it"]}}
        about = RuleContext(code, "eng_Latn", LengthRatios(count, 0.0, 0.3), tests, {}, count)
        for name, make in rulebook.RULES.items():
            rule, start = make(about), time.process_time()
            for pair in pairs:
                assert isinstance(rule(pair), (Pair, Dropped))
            times[name].append((time.process_time() - start) / count * 1e6)
    return times


def _apart(function: Callable[..., Any], *given: Any) -> Any:
    """Returns the function's result from a new process, so its memory is not counted."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *given).result()


def main() -> None:
    """Prints three tables."""
    from benchmarks.header import header  # imports jax, which the child processes do not need

    console = Console(width=100)
    console.print(header())
    codes = tuple(LETTERS)[:-1]
    table = Table(title=f"{PAIRS:,} pairs of {len(codes)} languages, default rules")
    for column in ("processes", "seconds", "pairs/s", "pairs/s of CPU", "kept"):
        table.add_column(column, justify="right")
    for processes in (1, 2):
        wall, cpu, _, kept = _apart(cleaned, PAIRS, codes, processes)
        row = (processes, f"{wall:.1f}", f"{PAIRS / wall:,.0f}", f"{PAIRS / cpu:,.0f}", f"{kept:,}")
        table.add_row(*map(str, row))
    console.print(table)

    table = Table(title="Peak memory of one process, one language (rus_Cyrl)")
    for column in ("pairs", "MiB", "bytes for each pair more"):
        table.add_column(column, justify="right")
    last = None
    for pairs in (30_000, 60_000, 240_000):
        _, _, peak, _ = _apart(cleaned, pairs, ("rus_Cyrl",), 1)
        more = "" if last is None else f"{(peak - last[1]) * 2**20 / (pairs - last[0]):.0f}"
        table.add_row(f"{pairs:,}", f"{peak:.0f}", more)
        last = pairs, peak
    console.print(table)

    table = Table(title="Microseconds of CPU for a pair of 16 words, rule by rule")
    for column in ("rule", *codes):
        table.add_column(column, justify="left" if column == "rule" else "right")
    for name, times in by_rule().items():
        table.add_row(name, *(f"{microseconds:.1f}" for microseconds in times))
    console.print(table)


if __name__ == "__main__":
    main()
