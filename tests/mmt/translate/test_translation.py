"""Translations as lines of text, as n-best lists and as JSON; lines joined from pieces."""

from mmt.translate import Hypothesis, Translation, format_text, to_json
from mmt.translate.translation import join, on_one_line


def test_outputs_are_single_lines():
    assert on_one_line(" a\nb\r\n\u2028c\x85 ") == "a b c"


def test_formats():
    piece = Translation("c", (Hypothesis("d", -0.25),))
    nbest = Hypothesis("x y", -0.5), Hypothesis("z", -1.0)
    example = Translation("a b", nbest, (piece, piece), 7)
    assert format_text(example) == "x y"
    assert format_text(example, nbest=2) == "7 ||| x y ||| -0.500000\n7 ||| z ||| -1.000000"
    assert to_json(example) == {
        "source": "a b",
        "hypotheses": [{"text": "x y", "score": -0.5}, {"text": "z", "score": -1.0}],
        "pieces": [{"source": "c", "hypotheses": [{"text": "d", "score": -0.25}]}] * 2,
    }


def test_of_hypotheses_with_equal_texts_the_first_stays():
    texts = ("x", -1.0), ("X", -2.0), ("y", -3.0), ("x", -4.0)
    translation = Translation("a", tuple(Hypothesis(*each) for each in texts))
    assert [each.score for each in translation.distinct().hypotheses] == [-1.0, -2.0, -3.0]
    recased = translation.recased_by(str.upper)
    assert recased.recased and not translation.distinct().recased
    assert recased.hypotheses == (Hypothesis("X", -1.0), Hypothesis("Y", -3.0))


def test_a_line_of_pieces_joins_texts_and_averages_scores():
    first = Translation("a", (Hypothesis("x", -1.0, ("x",)), Hypothesis("y", -2.0)))
    second = Translation("b", (Hypothesis("", -3.0), Hypothesis("z", -4.0), Hypothesis("w", -5.0)))
    joined = join("a b", [first, second])
    assert joined.hypotheses == (Hypothesis("x", -2.0), Hypothesis("y z", -3.0))
    assert joined.pieces == (first, second)
    assert join("a", [first]).hypotheses == first.hypotheses and not join("a", [first]).pieces
    kept = Translation("…", (Hypothesis("…", 0.0),) * 2)
    assert join("a … b", [first, kept, second]).hypotheses == (
        Hypothesis("x …", -2.0), Hypothesis("y … z", -3.0)
    )  # fmt: skip
    assert join("", []).hypotheses == (Hypothesis("", 0.0),)
