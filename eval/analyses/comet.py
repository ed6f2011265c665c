"""COMET for results with stored texts, by a local model (`mmt.translate.comet`)."""

import itertools
from collections.abc import Collection, Sequence
from pathlib import Path

from eval.analyses.update import ScoredTexts, newest
from eval.records import analysis
from eval.records.results import Row
from mmt.translate.comet import CometModel


def score(
    files: Sequence[Path], model: CometModel, *, only: Collection[Row] | None = None
) -> tuple[int, list[str]]:
    """Adds a `comet` row to analysis.jsonl for each row of results files that has its texts.

    The command is started once for all sentences, because loading takes longer than scoring. Texts
    that have a score by this model are skipped.

    Args:
        files: results files.
        model: the model.
        only: rows to score; None is all rows.

    Returns the number of rows scored, and the codes of rejected languages (source or target that
    the model's encoder was not trained on). Raises ValueError if the command fails; no row is added
    then.
    """
    stored = {
        file: {row.key: row for row in analysis.read(analysis.path_for(file))} for file in files
    }
    pending, unsupported = [], set[str]()
    keys = None if only is None else {row.key for row in only}
    for scored in newest(files):
        if keys is not None and scored.row.key not in keys:
            continue
        if not scored.has_texts or scored.judged is None:
            continue
        unknown = model.unknown([scored.row.source, scored.row.target])
        unsupported |= unknown
        row = stored[scored.file].get(("comet", *scored.row.key))
        is_scored = isinstance(row, analysis.Comet) and (row.model, row.hypotheses) == (
            model.name,
            scored.hash,
        )
        if not unknown and not is_scored:
            pending.append(scored)
    if pending:
        lines = [line for scored in pending for line in scored.lines]
        scores = iter(model.scores(*map(list, zip(*lines, strict=True))))
        rows = [
            (scored, _row(scored, model.name, list(itertools.islice(scores, len(scored.lines)))))
            for scored in pending
        ]
        for file in files:
            analysis.add(
                analysis.path_for(file), [row for scored, row in rows if scored.file == file]
            )
    return len(pending), sorted(unsupported)


def _row(scored: ScoredTexts, name: str, scores: Sequence[float]) -> analysis.Comet:
    about = {field: getattr(scored.row, field) for field in analysis.Comet.about}
    mean = round(sum(scores) / len(scores), 6)
    return analysis.Comet(**about, score=mean, model=name, hypotheses=scored.hash)
