"""The comparison as chapters of sentences and tables of text, for the terminal and the page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eval.compare.comparison import RunComparison
from eval.compare.differences import Differences
from eval.compare.scores import LanguageDifference, RunPair, ScoreComparison
from eval.compare.training import EqualPoint, LossAt, TrainingSummary

NONE = "–"  # what a run does not have
_NAMED = 8  # languages that a sentence names
_MARKS = {"better": "▲", "tie": "=", "worse": "▼", "untested": "?"}
_WORDS = {"better": "better", "tie": "no difference", "worse": "worse", "untested": "not tested"}


@dataclass(frozen=True)
class TextTable:
    """A table of text. left: how many of the first columns are text; the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


@dataclass(frozen=True)
class Chapter:
    """A part of the comparison: sentences, tables, and sentences about the tables."""

    title: str
    sentences: tuple[str, ...]
    tables: tuple[TextTable, ...]
    notes: tuple[str, ...] = ()


def chapters(comparison: RunComparison) -> list[Chapter]:
    """Returns the chapters in the order in which they are read."""
    runs = comparison.runs
    places = zip(runs, comparison.directories, strict=True)
    head = Chapter(
        "Runs", (), (_table("", ("run", "directory"), places, left=2),),
        (*(f"damaged: {fault}" for fault in comparison.faults), *comparison.notes),
    )  # fmt: skip
    data = Chapter(
        "Data and machines",
        (
            f"Data: {_counted(comparison.data, 'property')}",
            f"Training pairs: {_counted(comparison.languages, 'language')}",
            *_only(runs, comparison.languages),
            f"Machines: {_counted(comparison.machines, 'property')}",
        ),
        (
            *_properties("Data", "", runs, comparison.data, left=len(runs) + 1),
            *_properties("Machines", "", runs, comparison.machines, left=len(runs) + 1),
        ),
    )
    pairs, languages = map(_scores, comparison.scores), _of_each_language(comparison)
    parts = [head, _configuration(comparison), data, _training(comparison), *pairs]
    return [*parts, languages] if languages.tables else parts


def _of_each_language(comparison: RunComparison) -> Chapter:
    """Returns the tables that have a row for each language, except those of scores."""
    runs, losses = comparison.runs, comparison.training.languages
    tables = [*_properties("Training pairs", "language", runs, comparison.languages)]
    if losses:
        rows = [(row.language, *_losses(row.losses, row.comparable)) for row in losses]
        title = "Validation loss by language, at the best step of each run"
        tables.append(_table(title, _with_differences("language", runs), rows))
    return Chapter("Languages", (), tuple(tables))


def _configuration(comparison: RunComparison) -> Chapter:
    configuration, runs = comparison.configuration, comparison.runs
    in_all = tuple(binding for binding in configuration.different if None not in binding.values)
    in_some = tuple(binding for binding in configuration.different if None in binding.values)
    sentence = _counted(Differences(in_all, configuration.equal), "binding").rstrip(".")
    sentence += f", {len(in_some):,} not in every run." if in_some else "."
    tables = [
        table
        for title, part in (("Different values", in_all), ("Not in every run", in_some))
        for table in _properties(title, "binding", runs, Differences(part, 0), left=len(runs) + 1)
    ]
    return Chapter("Configuration", (sentence,), tuple(tables))


def _only(runs: Sequence[str], languages: Differences) -> list[str]:
    """Returns which languages only one run has."""
    sentences = []
    for i, run in enumerate(runs):
        alone = [j == i for j in range(len(runs))]
        codes = [
            language.name
            for language in languages.different
            if [value is not None for value in language.values] == alone
        ]
        if codes:
            sentences.append(f"Only {run} has {_names(codes)}.")
    return sentences


def _counted(differences: Differences, noun: str) -> str:
    count = len(differences.different)
    if not count and not differences.equal:
        return "not known."
    return f"{_number(count, noun)} differ{'s' * (count == 1)}, {differences.equal:,} equal."


def _number(count: int, noun: str) -> str:
    plural = noun if count == 1 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {plural}"


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1
) -> TextTable:
    return TextTable(title, tuple(columns), tuple(tuple(row) for row in rows), left)


def _properties(
    title: str, noun: str, runs: Sequence[str], differences: Differences, *, left: int = 1
) -> tuple[TextTable, ...]:
    rows = [
        (row.name, *(NONE if value is None else value for value in row.values))
        for row in differences.different
    ]
    return (_table(title, (noun, *runs), rows, left=left),) if rows else ()


def _training(comparison: RunComparison) -> Chapter:
    training, runs = comparison.training, comparison.runs
    summary = _summaries(runs, training.summaries)
    tables = [summary] if summary.rows else []
    for title, unit, points in (
        ("Validation loss at equal steps", "step", training.at_steps),
        ("Validation loss at equal target tokens", "target tokens", training.at_tokens),
    ):
        if points:
            rows = [_point(point, training.comparable) for point in points]
            tables.append(_table(title, _with_differences(unit, runs), rows))
    sentence = f"Losses are in nats per target token; Δ is the difference to {runs[0]}."
    if any(
        loss and loss.interpolated
        for point in (*training.at_steps, *training.at_tokens) for loss in point.losses
    ):  # fmt: skip
        sentence += " ~: interpolated between two validations."
    return Chapter("Training", (sentence,) if tables else (), tuple(tables), training.notes)


def _summaries(runs: Sequence[str], summaries: Sequence[TrainingSummary]) -> TextTable:
    def loss_at_step(loss: float | None, step: int | None) -> str:
        return NONE if loss is None else f"{loss:.4f} at step {step:,}"

    def formatted(value: float | None, form: str) -> str:
        return NONE if value is None else format(value, form)

    rows = (
        ("steps", *(formatted(summary.steps, ",") for summary in summaries)),
        ("target tokens", *(formatted(summary.tokens, ",.0f") for summary in summaries)),
        (
            "hours, with validation and saving",
            *(formatted(summary.hours, ",.3f") for summary in summaries),
        ),
        (
            "best validation loss",
            *(loss_at_step(summary.best_loss, summary.best_step) for summary in summaries),
        ),
        (
            "last validation loss",
            *(loss_at_step(summary.last_loss, summary.last_step) for summary in summaries),
        ),
        ("best validation BLEU", *(formatted(summary.best_bleu, ".2f") for summary in summaries)),
    )
    return _table("", ("", *runs), [row for row in rows if set(row[1:]) != {NONE}])


def _with_differences(heading: str, runs: Sequence[str]) -> tuple[str, ...]:
    return (heading, *runs, *(f"Δ {run}" if len(runs) > 2 else "Δ" for run in runs[1:]))


def _point(point: EqualPoint, comparable: Sequence[bool]) -> tuple[str, ...]:
    losses = [loss and loss.loss for loss in point.losses]
    cells = _losses(losses, comparable)
    marked = [_tilde(cell, loss) for cell, loss in zip(cells, point.losses, strict=False)]
    return (f"{point.amount:,.0f}", *marked, *cells[len(marked) :])


def _tilde(cell: str, loss: LossAt | None) -> str:
    return f"~{cell}" if loss and loss.interpolated else cell


def _losses(losses: Sequence[float | None], comparable: Sequence[bool]) -> tuple[str, ...]:
    """Returns the losses, then the differences to the first."""
    first = losses[0]
    values = [NONE if loss is None else f"{loss:.4f}" for loss in losses]
    differences = [
        NONE if loss is None or first is None or not may else signed(loss - first, 4)
        for loss, may in zip(losses[1:], comparable[1:], strict=True)
    ]
    return (*values, *differences)


def signed(value: float, digits: int) -> str:
    """Returns a difference with its sign.

    >>> signed(0.5, 2), signed(-0.001, 2)
    ('+0.50', '0.00')
    """
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def _scores(scores: RunPair) -> Chapter:
    sentences, tables = [], list[TextTable]()
    if not scores.comparisons:
        sentences.append(
            "No row of both runs can be compared."
            if scores.left_out
            else "Neither run has scores: evaluate both with mmt evaluate, or name the file that "
            "has them with --results."
        )
    else:
        sentences.append(f"Δ is {scores.other} minus {scores.first}.")
        tables += [_summary(scores.comparisons), _wins(scores)]
    tested = [row for score_comparison in scores.comparisons for row in score_comparison.languages]
    if any(row.q is not None for row in tested):
        sentences.append(
            "▲ better, ▼ worse, = no significant difference: q < 0.05. p is the greater one of "
            "paired bootstrap and approximate randomisation; q is p corrected for the number of "
            "languages (Benjamini-Hochberg). Intervals are 95 %: bootstrap over sentences, of a "
            "mean over languages."
        )
    if any(row.q is None for row in tested):
        sentences.append("?: not tested, since analysis.jsonl has no counts of both runs' rows.")
    return Chapter(
        f"Scores: {scores.other} against {scores.first}",
        tuple(sentences),
        (*tables, *map(_languages, scores.comparisons)),
        (
            *(note for part in scores.comparisons for note in part.notes),
            *(f"{testset}: not compared, {part.reason}: {_names(part.languages)}"
              for testset, parts in scores.left_out.items() for part in parts),
        ),
    )  # fmt: skip


def _summary(comparisons: Sequence[ScoreComparison]) -> TextTable:
    verdicts = [
        name for name in _MARKS if name != "untested" or any(map(_is_untested, comparisons))
    ]
    columns = ("test set", "decoding", "languages", "mean ΔBLEU", "mean ΔchrF++")
    rows = [
        (
            part.title, part.decode, f"{len(part.languages):,}", _mean(part),
            signed(part.mean("chrf_delta"), 2), *(f"{part.count(name):,}" for name in verdicts),
        )
        for part in comparisons
    ]  # fmt: skip
    heads = (f"{_WORDS[name]} {_MARKS[name]}" for name in verdicts)
    return _table("Languages won and lost", (*columns, *heads), rows, left=2)


def _mean(part: ScoreComparison) -> str:
    mean, ends = signed(part.mean("delta"), 2), part.interval
    return f"{mean} ({signed(ends.low, 2)} to {signed(ends.high, 2)})" if ends else mean


def _is_untested(part: ScoreComparison) -> bool:
    return part.count("untested") > 0


def _wins(scores: RunPair) -> TextTable:
    def largest(part: ScoreComparison, sign: int) -> str:
        named = (
            f"{_name(row, part)} {signed(row.delta, 1)} {_MARKS[row.verdict]}"
            for row in part.most(sign)
        )
        return ", ".join(named) or NONE

    rows = [
        (part.title, part.decode, largest(part, 1), largest(part, -1))
        for part in scores.comparisons
    ]
    columns = ("test set", "decoding", scores.other, scores.first)
    return _table("Where each wins most BLEU", columns, rows, left=4)


def _name(row: LanguageDifference, of: ScoreComparison) -> str:
    several = len({language.target for language in of.languages}) > 1
    return f"{row.source}-{row.target}" if several else row.source


def _languages(part: ScoreComparison) -> TextTable:
    tested = any(row.q is not None for row in part.languages)
    columns = ["language", "sentences", f"BLEU {part.first}", f"BLEU {part.other}", "ΔBLEU"]
    columns += ["95 %", "p", "q", ""] if tested else []
    columns += [f"chrF++ {part.first}", f"chrF++ {part.other}", "ΔchrF++"]
    rows = []
    for row in part.languages:
        cells = [_name(row, part), f"{row.sentences:,}", *(f"{score:.2f}" for score in row.bleu)]
        cells += [signed(row.delta, 2), *(_test(row) if tested else ())]
        cells += [*(f"{score:.2f}" for score in row.chrf), signed(row.chrf_delta, 2)]
        rows.append(cells)
    return _table(f"{part.title}, {part.decode}", columns, rows)


def _test(row: LanguageDifference) -> tuple[str, ...]:
    if row.low is None or row.high is None or row.p is None or row.q is None:
        return NONE, NONE, NONE, _MARKS["untested"]
    ends = f"{signed(row.low, 2)} to {signed(row.high, 2)}"
    return ends, f"{row.p:.4f}", f"{row.q:.4f}", _MARKS[row.verdict]


def _names(languages: Sequence[str]) -> str:
    rest = f" and {len(languages) - _NAMED} more" if len(languages) > _NAMED else ""
    return f"{_number(len(languages), 'language')} ({', '.join(languages[:_NAMED])}{rest})"
