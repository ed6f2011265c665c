"""What each corpus gives: scores with it less scores without it. The `corpus_effect` rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eval.analyses import significance, update
from eval.analyses.significance import Judged
from eval.records.provenance import GROUPS, CorpusEffect
from mmt.data.cache.manifest import Manifest
from mmt.data.cache.origins import in_corpora

_Scores = Mapping[str, Judged]  # by system


def effects(
    results_file: Path, system: str, without: Mapping[str, str], manifest: Manifest
) -> list[CorpusEffect]:
    """Returns the effect of each corpus by language and by group, on each test set.

    Texts must be stored beside the results file. Languages that one of the two systems was not
    evaluated on are left out.

    Args:
      results_file: has the rows of all systems.
      system: the system that was trained on all corpora.
      without: corpus -> the system that was trained without it.
      manifest: of the first system.
    """
    judged: dict[tuple[str, str], dict[str, dict[str, Judged]]] = {}
    for item in update.newest([results_file.resolve()]):
        if item.row.system in (system, *without.values()) and item.is_there and item.judged:
            of_testset = judged.setdefault((item.row.testset, item.row.target), {})
            of_testset.setdefault(item.row.source, {})[item.row.system] = item.judged
    return [
        effect
        for of_testset in judged.values()
        for corpus, other in without.items()
        for effect in _of_corpus(of_testset, system, (corpus, other), manifest)
    ]


def _of_corpus(
    judged: Mapping[str, _Scores], system: str, without: tuple[str, str], manifest: Manifest
) -> list[CorpusEffect]:
    corpus, other = without
    both = {
        code: (scores[system], scores[other])
        for code, scores in judged.items()
        if system in scores and other in scores
    }
    pairs = {code: _pairs(manifest, code, corpus) for code in both}
    groups = {code: _group(manifest, code, corpus) for code in both}
    made = [_effect([both[code]], corpus, groups[code], pairs[code], code) for code in both]
    for group in GROUPS:
        if codes := [code for code in both if groups[code] == group]:
            number = sum(pairs[code] for code in codes)
            made.append(_effect([both[code] for code in codes], corpus, group, number))
    return made


def _effect(
    both: Sequence[tuple[Judged, Judged]], corpus: str, group: str, pairs: int, source: str = ""
) -> CorpusEffect:
    ours, theirs = (judged.row for judged in both[0])
    return CorpusEffect(
        system=ours.system, checkpoint=ours.checkpoint, decode=ours.decode,
        against=theirs.system, against_checkpoint=theirs.checkpoint,
        testset=ours.testset, target=ours.target, corpus=corpus, group=group, source=source,
        languages=len(both), pairs=pairs,
        sentences=sum(judged.row.sentences for judged, _ in both),
        **significance.mean_difference(both), resamples=significance.RESAMPLES,
        seed=significance.SEED,
    )  # fmt: skip


def _pairs(manifest: Manifest, code: str, corpus: str) -> int:
    runs = manifest.corpora.get("train", {}).get(code, [])
    return sum(count for name, count in runs if in_corpora(name, [corpus]))


def _group(manifest: Manifest, code: str, corpus: str) -> str:
    pairs = _pairs(manifest, code, corpus)
    if not pairs:
        return "others"
    return "only" if pairs == manifest.counts["train"][code] else "with"
