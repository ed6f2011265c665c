"""The cache: exact keys, a bounded size, the least recently used dropped first."""

import weakref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmt.serve.models import BatchKey
from mmt.serve.scheduler import Sentence
from mmt.serve.sentence_cache import SentenceCache, _size
from mmt.translate import Decoding, Glossary, Hypothesis, Translation
from mmt.translate.alignment import Alignment
from mmt.translate.translation import Risk, Signals


def entry(text, key="k"):
    return Sentence(key, text, len(text)), Translation(text, (Hypothesis(text.upper(), -1.0),))


def test_a_translation_belongs_to_its_key_and_text():
    cache = SentenceCache(10_000)
    sentence, translation = entry("a")
    cache.put(sentence, translation)
    assert cache.get(sentence) == translation
    assert cache.get(sentence._replace(key="other")) is None
    assert cache.get(sentence._replace(text="b")) is None


@given(st.lists(st.tuples(st.text(max_size=300), st.booleans())), st.integers(0, 2000))
def test_it_holds_the_most_recently_used_that_fit(steps, most):
    cache, recent = SentenceCache(most), {}
    for text, only_get in steps:
        sentence, translation = entry(text)
        translation = translation._replace(risk=Risk(0.5, (), Signals()) if "a" in text else None)
        if only_get:
            found = cache.get(sentence)
            assert (found is not None) == (sentence in recent)
            if found:
                recent[sentence] = recent.pop(sentence)
            continue
        cache.put(sentence, translation)
        recent.pop(sentence, None)
        if _size(sentence, translation) <= most:
            recent[sentence] = translation
        while sum(_size(*item) for item in recent.items()) > most:
            recent.pop(next(iter(recent)))
        assert cache.size == sum(_size(*item) for item in recent.items()) <= most
        assert len(cache) == len(recent)


def test_an_entry_does_not_keep_the_glossary_of_its_request():
    def key(terms):
        return BatchKey(None, "deu_Latn", "eng_Latn", Decoding(), 16, Glossary.parse(terms))

    cache = SentenceCache(10_000)
    sentence, translation = entry("a", key("ein\tone\n"))
    glossary = weakref.ref(sentence.key.glossary)
    cache.put(sentence, translation)
    assert cache.get(sentence) == translation
    del sentence
    assert glossary() is None
    assert cache.get(entry("a", key("# equal\nein\tone\n"))[0]) == translation
    assert cache.get(entry("a", key("ein\ta\n"))[0]) is None
    assert cache.get(entry("a", key("ein\tone\n")._replace(glossary=None))[0]) is None


def test_alignments_count():
    sentence, translation = entry("a")
    alignment = Alignment(((0, 1),) * 30, ((0, 1),) * 20, np.zeros((20, 30), np.float32))
    aligned = (translation.hypotheses[0]._replace(alignment=alignment),)
    size = _size(sentence, translation._replace(hypotheses=aligned))
    assert size == _size(sentence, translation) + 2400
