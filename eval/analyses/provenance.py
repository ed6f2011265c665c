"""The corpora that a run was trained on: its `corpora` rows.

They are computed from the run directory: manifest, ledger and metrics.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.records.provenance import CorpusUse, CorpusUses
from eval.systems import System
from mmt.data import ledger, mixing
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.cache.origins import CorpusOrigin
from mmt.run import Run, read_metrics

_Sums = Mapping[tuple[str, str], tuple[float, float]]  # (language, corpus) -> tokens, nats


def uses(model_dir: Path, system: System) -> list[CorpusUses]:
    """Returns a row per language that the run was trained on; [] for an imported model."""
    run = Run(model_dir)
    manifest = read_manifest(run.manifest)
    pairs = _pairs(manifest)
    examples_seen = _seen(run) if run.ledger.is_file() else {}
    sums = _losses(read_metrics(run.metrics), list(pairs))
    origins = {(origin.language, origin.corpus): origin for origin in manifest.origins}
    by_language: dict[str, list[CorpusUse]] = {}
    for key, count in pairs.items():
        use = _use(key, count, examples_seen.get(key), sums.get(key), origins.get(key))
        by_language.setdefault(mixing.language_of(key[0]), []).append(use)
    named = bool(manifest.corpus_table)
    return [
        CorpusUses(system=system.name, source=code, named=named, corpora=tuple(of_language))
        for code, of_language in by_language.items()
    ]


def _pairs(manifest: Manifest) -> Counter[tuple[str, str]]:
    """Returns the training examples by language and corpus; without names one corpus a language."""
    pairs: Counter[tuple[str, str]] = Counter()
    for code, count in manifest.counts.get("train", {}).items():
        runs = manifest.corpora["train"][code] if manifest.corpus_table else []
        for name, number in runs or [[manifest.name, count]] if count else ():
            pairs[code, name] += number
    return pairs


def _use(
    key: tuple[str, str], pairs: int, examples: int | None, sums: tuple[float, float] | None,
    origin: CorpusOrigin | None,
) -> CorpusUse:  # fmt: skip
    (code, corpus), (tokens, nats) = key, sums or (0.0, 0.0)
    origin_facts: dict[str, Any] = {"files": origin.files} if origin else {}
    if origin and origin.read >= 0:
        names = "read", "dropped", "changed", "overlap", "listed"
        origin_facts |= {name: getattr(origin, name) for name in names}
    return CorpusUse(
        corpus=corpus, text=mixing.is_monolingual(code), pairs=pairs, examples=examples,
        loss=round(nats / tokens, 4) if tokens else None, tokens=tokens or None, **origin_facts,
    )  # fmt: skip


def _seen(run: Run) -> dict[tuple[str, str], int]:
    """Returns the examples that a run has seen, by language and corpus."""
    content = ledger.load(run.directory)
    return {
        (row["language"], corpus): counts["examples"]
        for row in content["rows"]
        for corpus, counts in row["corpora"].items()
    }


def _losses(rows: Sequence[Mapping[str, Any]], table: Sequence[tuple[str, str]]) -> _Sums:
    """Returns target tokens and their loss in the second half of the steps."""
    rows = [row for row in rows if "language_loss" in row]
    half = rows[-1]["step"] / 2 if rows else 0
    corpora: dict[str, list[str]] = defaultdict(list)
    for code, corpus in table:
        corpora[code].append(corpus)
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    for row in rows:
        for code in corpora if row["step"] > half else ():
            counts, losses = (row.get(name, {}).get(code, {}) for name in
                              ("corpus_tokens", "corpus_loss"))  # fmt: skip
            if len(corpora[code]) == 1 and code in row.get("language_tokens", {}):
                only = corpora[code][0]
                counts = {only: row["language_tokens"][code]}
                losses = {only: row["language_loss"][code]}
            for corpus, count in counts.items():
                tokens, nats = sums.get((code, corpus), (0.0, 0.0))
                sums[code, corpus] = tokens + count, nats + count * losses[corpus]
    return sums
