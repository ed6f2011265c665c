"""Each sentence goes in with what is before it, and only its own translation comes out."""

import dataclasses
import types

import pytest

from mmt.decoding import Decoding
from mmt.documents import MarkedText
from mmt.translate import Hypothesis, Translation, Translator, markup
from mmt.translate.context import ContextTranslator, History
from tests.helpers.tiny_translator import word_alignment

LINES = Decoding(split="long")
SENTENCES = Decoding(split="sentences")


class UpperCaseTranslator(Translator):
    """Translates into upper case; drops the separator of a source with one of `forgets`."""

    def __init__(self, *forgets, longest=100):
        vars(self).update(forgets=forgets, max_source_length=longest, seen=[])

    def translate(self, lines, *, decoding, **options):
        for line in lines:
            self.seen.append(line)
            text = line.upper()
            if any(word in line for word in self.forgets):
                text = text.replace(" |||", "")
            hypotheses = [Hypothesis(f"{text}{'!' * i}", -1.0, ("a",), (-1.0,)) for i in range(2)]
            yield Translation(line, tuple(hypotheses[: decoding.nbest]))

    default_decoding = LINES
    manifest = types.SimpleNamespace(source="deu_Latn", target="eng_Latn")

    def source_tokens(self, texts, target=None):
        return [len(text.split()) for text in texts]

    def align(self, pairs, **options):
        return [word_alignment(s, t, range(len(t.split()))) for s, t in pairs]


def translated(translator, lines, count, decoding=LINES):
    context = ContextTranslator(translator, count)
    return [t.text for t in context.translate(lines, decoding=decoding)], context


def test_context_is_of_the_document_and_no_part_of_the_output():
    translator = UpperCaseTranslator()
    lines = ["a", "b", "* * *", "c", "", "d", " \t", "e", "f", "g"]
    texts, context = translated(translator, lines, 2)
    assert texts == ["A", "B", "* * *", "C", "", "D", "", "E", "F", "G"]
    assert sorted(translator.seen) == [
        "* * *", "a", "a ||| b", "a ||| b ||| c", "d", "e", "e ||| f", "e ||| f ||| g",
    ]  # fmt: skip
    assert (context.translated, context.joined, context.retranslated) == (8, 4, 0)
    numbers = [t.line for t in ContextTranslator(translator, 1).translate(lines, decoding=LINES)]
    assert numbers == list(range(len(lines)))


def test_an_output_without_its_separators_is_made_again_without_context():
    translator = UpperCaseTranslator("x")
    texts, context = translated(translator, ["a", "x", "b", "c ||| d", "e"], 1)
    assert texts == ["A", "X", "B", "C ||| D", "E"]
    # The line with a separator is no context: the one before it is.
    joined = [line for line in translator.seen if "|||" in line]
    assert joined == ["a ||| x", "x ||| b", "b ||| e", "c ||| d"]
    assert [line for line in translator.seen if "|||" not in line] == ["a", "x", "b"]
    assert (context.translated, context.joined, context.retranslated) == (5, 3, 2)
    assert "context: 3 of 5 different sentences had" in context.report()
    assert "; 2 of these were translated again without" in context.report()


def test_context_is_shortened_until_it_fits():
    translator = UpperCaseTranslator(longest=6)
    texts, context = translated(translator, ["a a", "b", "c", "d d d d d", "e"], 3)
    assert texts == ["A A", "B", "C", "D D D D D", "E"]
    seen = ["a a", "d d d d d", "e", "a a ||| b", "b ||| c"]  # a a ||| b ||| c has 6, and fits
    seen[-1] = "a a ||| b ||| c"
    assert sorted(translator.seen) == sorted(seen)
    assert context.joined == 2


def test_sentences_of_a_line_are_context_of_each_other():
    translator = UpperCaseTranslator()
    nbest = dataclasses.replace(SENTENCES, beam=2, nbest=2)
    context = ContextTranslator(translator, 1)
    first, second = context.translate(["Eva kam. Sie lachte. 👍", "Alle gingen."], decoding=nbest)
    assert [h.text for h in first.hypotheses] == [
        "EVA KAM. SIE LACHTE. 👍", "EVA KAM.! SIE LACHTE.! 👍"
    ]  # fmt: skip
    assert "Sie lachte. ||| Alle gingen." in translator.seen
    assert [h.text for h in second.hypotheses] == ["ALLE GINGEN.", "ALLE GINGEN.!"]
    assert not any(h.tokens or h.token_scores for h in second.hypotheses)
    with pytest.raises(ValueError, match="prefix 'A': it excludes context"):
        list(context.translate(["a"], decoding=Decoding(prefix="A")))


def test_hypotheses_that_differ_only_in_the_context_are_one():
    class Varying(UpperCaseTranslator):
        def translate(self, lines, *, decoding, **options):
            for each in super().translate(lines, decoding=decoding):
                text = each.text
                texts = text, text.replace("A", "AH"), f"{text}!", text.replace("A", "OH")
                yield each._replace(hypotheses=tuple(Hypothesis(t, 0.0) for t in texts))

    context = ContextTranslator(Varying(), 1)
    _, second = context.translate(["a", "b"], decoding=dataclasses.replace(LINES, nbest=4))
    assert [each.text for each in second.hypotheses] == ["B", "B!"]


def test_placeholders_belong_to_the_sentence():
    kept = dataclasses.replace(LINES, keep_placeholders=True)

    class Misplacing(UpperCaseTranslator):
        def translate(self, lines, *, decoding, **options):
            for each in super().translate(lines, decoding=decoding):
                text = each.text.replace("A ||| {0} B", "{0} A ||| B")
                yield each._replace(hypotheses=(Hypothesis(text, 0.0),))

    texts, context = translated(Misplacing(), ["a", "{0} b"], 1, kept)
    assert texts == ["A", "{0} B"] and context.retranslated == 1


def test_sentences_in_capitals_are_recased_with_their_context():
    translator = UpperCaseTranslator("x")
    vars(translator).update(translate=lambda lines, **options: map(given_back, lines))

    def given_back(line):
        translator.seen.append(line)
        return Translation(line, (Hypothesis(line, 0.0), Hypothesis(line.lower(), -1.0)))

    recased = dataclasses.replace(LINES, recase_capitals=True)
    context = ContextTranslator(translator, 1)
    lines = ["Ja.", "ICH BIN DA.", "NATO", "WO IST {A}?", "Hier."]
    translations = list(context.translate(lines, decoding=recased, target="eng"))
    assert translator.seen[:4] == [
        "Ja. ||| Ich bin da.", "Ich bin da. ||| NATO", "NATO ||| Wo ist {A}?",
        "Wo ist {A}? ||| Hier.",
    ]  # fmt: skip
    assert [each.text for each in translations] == lines
    assert [each.source for each in translations] == lines
    second = translations[1]
    assert second.recased and [each.text for each in second.hypotheses] == ["ICH BIN DA."]
    assert not translations[2].recased and len(translations[2].hypotheses) == 2


def test_a_file_is_one_document_and_tags_stay_in_their_sentence():
    translator = UpperCaseTranslator("x")
    segments = [markup.parse(text) for text in ("ja. <b>nein.</b>", "x", "ja. ja.", "nein.")]
    context = ContextTranslator(translator, 1)
    results = list(markup.translate(translator, segments, decoding=SENTENCES, context=context))
    assert list(map(markup.write, results)) == ["JA. <b>NEIN.</b>", "X", "JA. JA.", "NEIN."]
    joined = [line for line in translator.seen if "|||" in line]
    assert joined == [
        "ja. ||| nein.", "nein. ||| x", "x ||| ja.", "ja. ||| ja.",
    ]  # fmt: skip
    assert context.retranslated == 2
    plain = markup.translate(UpperCaseTranslator(), segments, decoding=SENTENCES)
    assert list(plain) == results and isinstance(results[0], MarkedText)
    prefixed = dataclasses.replace(SENTENCES, prefix="A")
    with pytest.raises(ValueError, match="prefix 'A': it excludes context"):
        list(markup.translate(translator, segments, decoding=prefixed, context=context))


def test_no_lines_are_no_context():
    history = History(0)
    assert [history.add(text).previous for text in "abc"] == [(), (), ()]
