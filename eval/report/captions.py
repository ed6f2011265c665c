"""Titles and captions of the report's figures, and the key numbers at the head of a section."""

from eval.records.analysis_index import AnalysisIndex, sure
from eval.report import cells
from eval.report.comparison import SMALL, Comparison, Score, by_resource
from eval.report.figures.routing import STRONG
from eval.report.figures.scores import FEW, SEVERAL, WINDOW, slides

_VALUES = "Hover over a mark, or tap it, for its values."
_PALE = f"Pale marks: fewer than {SMALL} sentences, in no mean. "
EXPERTS = (
    "Each row is a language and each column is an expert. The colour is the share of the "
    f"language's tokens that the expert receives; it is full at {STRONG:g} times the fair share. "
    "Languages that share experts are neighbours: the tree (on wide screens) clusters them by the "
    "share of their tokens that goes to the same experts (average linkage over all layers). On the "
    "right, one column per layer: dropped tokens, if any (darker is more), and entropy of the load "
    "(darker is less); with conditional routing also the gate, the weight of the experts against "
    "the shared MLP (darker is more). "
    "Hover over a row, or tap it, for its values."
)


BEHAVIOURS = (
    "Cases of `mmt behave`: the share that the system passes, as a mean over languages. In the "
    "figure, the colour is the share of failed cases of a language, and a dot means that there are "
    "none; languages with the most passed cases come first. Hover over a row, or tap it, for its "
    "values."
)
CONTRASTIVE = (
    "Contrastive examples: the reference, and the same text with another pronoun, or with another "
    "name in place of one that the context has. Right is a higher likelihood of the reference. "
    "`Lines` is the maximum number of previous lines of the document, on both sides. What the "
    "context gives is the difference to `without`, and to the context of another document."
)
CORPORA = (
    "Examples seen are those of the whole run, with repeats. The training loss is the mean over "
    "the target tokens of the second half of the steps, in nats, with dropout. A pair that "
    "overlaps several test sets is counted once in the tables."
)
CORPUS_EFFECTS = (
    "The scores of the system less those of the same system trained without the corpus, in as "
    "many steps; the other corpora take its place. Above zero the corpus helps. Intervals are "
    "95 %, by paired bootstrap over the test sentences. They do not contain the effect of the "
    "training seed, and the languages are fixed."
)
SOURCE_USE = (
    "What the source tells, against target tokens",
    "The validation loss with another line's source less the loss with its own. At 0 the model "
    "knows only its target language.",
)
RELIABILITY = (
    "Reliability of the confidence",
    "Validation lines that the confidence was not fitted on, in bins of confidence: their mean "
    "chrF++ against their mean confidence. On the diagonal both are equal.",
)
LOSS = ("Loss against target tokens", "Loss on target tokens. The first steps are cut off.")


def of(figure: str, comparison: Comparison, analyses: AnalysisIndex) -> tuple[str, str]:
    """Returns title and caption of a figure of scores, by the name of its drawing function."""
    if figure == "delta_bleu":
        return "ΔBLEU against bilingual baselines", _delta_bleu(comparison, analyses)
    if figure == "bleu_by_size":
        return "BLEU by training data", _bleu_by_size(comparison)
    if figure == "bleu_by_overlap":
        return "BLEU by overlap with the training English", (
            "BLEU of test lines, by how many 4-grams of their reference occur in the training "
            "English. A decoder that recites training lines is good only at the right. BLEU is the "
            "mean over languages, weighted by their lines in the bin. Bars count the lines. Hollow "
            f"marks: fewer than {SMALL} lines."
        )
    assert figure == "quality_by_cost", figure
    with_costs = [system for system in comparison.systems if analyses.costs(system)]
    unknown = [each for each in with_costs if None in analyses.parent_costs(each).values()]
    return "Quality against cost", (
        "As Figure 1 of GShard. Vertical lines: 95 % interval of the mean over languages. The "
        "baselines are one point: the sums of their hours, parameters and tokens. The hours and "
        "tokens of a student include those of its teacher. Those of a system that started from "
        "another system's weights include those of that system."
        + (f" They are unknown for {', '.join(unknown)} (see Caveats)." if unknown else "")
    )


def _delta_bleu(comparison: Comparison, analyses: AnalysisIndex) -> str:
    count, systems = len(comparison.compared.entries), len(comparison.systems)
    caption = (
        "Languages with a bilingual baseline, from much to little training data. Above zero, the "
        "multilingual system is better. "
    )
    if slides(count):
        caption += f"Lines: mean over {WINDOW} neighbouring languages, fewer at both ends"
    else:
        caption += f"{'Dashed line' if systems == 1 else 'Dashed lines'}: mean over all languages"
    caption += "; bands: its 95 % interval. " if systems <= SEVERAL else ". "
    if slides(count) and systems > FEW:
        caption += f"Dots: the languages of {comparison.primary_system}. "
    tested = any(
        analyses.paired(row, entry.baseline)
        for entry in comparison.compared.entries
        for row in entry.rows.values()
    )
    if tested and (systems <= FEW or slides(count)):
        caption += "Thin vertical lines: 95 % interval of a language (paired bootstrap). "
    if any(not comparison.counts(entry) for entry in comparison.entries if entry.baseline):
        caption += _PALE
    return caption + _VALUES


def _bleu_by_size(comparison: Comparison) -> str:
    systems = len(comparison.systems)
    caption = "Each language is at its number of training pairs. "
    if slides(len(comparison.all.entries)):
        caption += f"Lines: mean over {WINDOW} neighbouring languages. "
        if systems > FEW:
            caption += f"Dots: the languages of {comparison.primary_system}. "
    if systems <= FEW and comparison.compared.entries:
        caption += "Thin lines connect a language with its bilingual baseline. "
    if len(comparison.all.entries) < len(comparison.entries):
        caption += _PALE
    return caption + _VALUES


def headline(
    comparison: Comparison, analyses: AnalysisIndex, system: str
) -> list[tuple[str, str, str]]:
    """Returns a few (number, its name, its languages) of a system."""
    everything, compared = comparison.all, comparison.compared
    numbers = []
    deltas = compared.deltas(system)
    if mean := cells.mean(compared, system, "delta"):
        ends = cells.interval(mean, "delta", " (95 %: {})")
        languages = f"{_count(len(deltas))} with a baseline"
        numbers.append((cells.text(mean.value, "delta"), f"mean ΔBLEU{ends}", languages))
        better = sum(delta > 0 for delta in deltas)
        tests = [sure(analyses.paired(e.rows.get(system), e.baseline)) for e in compared.entries]
        tested = [test for test in tests if test is not None]
        by_bleu = f"by BLEU; {sum(tested)} differ significantly" if tested else "by BLEU"
        numbers.append((f"{better} of {len(deltas)}", "better than bilingual", by_bleu))
        low = by_resource(compared)[-1]
        if low.deltas(system):
            max_pairs = max(entry.train_pairs for entry in low.entries)
            languages = f"{_count(len(low.deltas(system)))}, {max_pairs:,} pairs or fewer"
            delta = cells.text(low.delta(system), "delta")
            numbers.append((delta, "ΔBLEU, low-resource", languages))
    count = _count(len(everything.values(system, "bleu")))
    scores: tuple[tuple[str, Score], ...] = (("BLEU", "bleu"), ("chrF++", "chrf"))
    for name, score in scores:
        if mean := cells.mean(everything, system, score):
            ends = cells.interval(mean, "score", " (95 %: {})")
            numbers.append((cells.text(mean.value, "score"), f"mean {name}{ends}", count))
    return numbers


def _count(number: int) -> str:
    return f"{number} language{'' if number == 1 else 's'}"
