"""Computes the `corpus_effect` rows: scores with a corpus minus scores without it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eval.analyses import significance, update
from eval.analyses.significance import Judged
from eval.records.provenance import GROUPS, CorpusEffect
from mmt.data.cache.manifest import Manifest
from mmt.data.cache.origins import in_corpora

_Scores = Mapping[str, Judged]  # by system


def effects(
    results_file: Path, system: str, ablations: Mapping[str, str], manifest: Manifest
) -> list[CorpusEffect]:
    """Returns the effect of each corpus by language and by group, on each test set.

    The texts must be stored with the results file. Languages that one of the two systems was not
    evaluated on are omitted.

    Args:
      results_file: has the rows of all systems.
      system: the system that was trained on all corpora.
      ablations: corpus -> the system that was trained without it.
      manifest: of the first system.
    """
    judged: dict[tuple[str, str], dict[str, dict[str, Judged]]] = {}
    for scored in update.newest([results_file.resolve()]):
        if (
            scored.row.system in (system, *ablations.values())
            and scored.has_texts
            and scored.judged
        ):
            of_testset = judged.setdefault((scored.row.testset, scored.row.target), {})
            of_testset.setdefault(scored.row.source, {})[scored.row.system] = scored.judged
    return [
        effect
        for of_testset in judged.values()
        for corpus, ablation in ablations.items()
        for effect in _of_corpus(of_testset, system, (corpus, ablation), manifest)
    ]


def _of_corpus(
    judged: Mapping[str, _Scores], system: str, ablation: tuple[str, str], manifest: Manifest
) -> list[CorpusEffect]:
    corpus, ablation_system = ablation
    both_systems = {
        code: (scores[system], scores[ablation_system])
        for code, scores in judged.items()
        if system in scores and ablation_system in scores
    }
    pairs = {code: _pairs(manifest, code, corpus) for code in both_systems}
    groups = {code: _group(manifest, code, corpus) for code in both_systems}
    result = [
        _effect([both_systems[code]], corpus, groups[code], pairs[code], code)
        for code in both_systems
    ]
    for group in GROUPS:
        if codes := [code for code in both_systems if groups[code] == group]:
            number = sum(pairs[code] for code in codes)
            result.append(_effect([both_systems[code] for code in codes], corpus, group, number))
    return result


def _effect(
    pairs_of_rows: Sequence[tuple[Judged, Judged]],
    corpus: str,
    group: str,
    pairs: int,
    source: str = "",
) -> CorpusEffect:
    ours, theirs = (judged.row for judged in pairs_of_rows[0])
    return CorpusEffect(
        system=ours.system, checkpoint=ours.checkpoint, decode=ours.decode,
        against=theirs.system, against_checkpoint=theirs.checkpoint,
        testset=ours.testset, target=ours.target, corpus=corpus, group=group, source=source,
        languages=len(pairs_of_rows), pairs=pairs,
        sentences=sum(judged.row.sentences for judged, _ in pairs_of_rows),
        **significance.mean_difference(pairs_of_rows), resamples=significance.RESAMPLES,
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
