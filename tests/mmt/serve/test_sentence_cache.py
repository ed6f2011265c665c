"""The cache: exact keys, a bounded size, the least recently used dropped first."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmt.serve.scheduler import Sentence
from mmt.serve.sentence_cache import SentenceCache, _size
from mmt.translate import Hypothesis
from mmt.translate.alignment import Alignment


def entry(text, key="k"):
    return Sentence(key, text, len(text)), (Hypothesis(text.upper(), -1.0),)


def test_a_translation_belongs_to_its_key_and_text():
    cache = SentenceCache(10_000)
    sentence, hypotheses = entry("a")
    cache.put(sentence, hypotheses)
    assert cache.get(sentence) == hypotheses
    assert cache.get(sentence._replace(key="other")) is None
    assert cache.get(sentence._replace(text="b")) is None


@given(st.lists(st.tuples(st.text(max_size=300), st.booleans())), st.integers(0, 2000))
def test_it_holds_the_most_recently_used_that_fit(steps, most):
    cache, recent = SentenceCache(most), {}
    for text, only_get in steps:
        sentence, hypotheses = entry(text)
        if only_get:
            found = cache.get(sentence)
            assert (found is not None) == (sentence in recent)
            if found:
                recent[sentence] = recent.pop(sentence)
            continue
        cache.put(sentence, hypotheses)
        recent.pop(sentence, None)
        if _size(sentence, hypotheses) <= most:
            recent[sentence] = hypotheses
        while sum(_size(*item) for item in recent.items()) > most:
            recent.pop(next(iter(recent)))
        assert cache.size == sum(_size(*item) for item in recent.items()) <= most
        assert len(cache) == len(recent)


def test_alignments_count():
    sentence, (hypothesis,) = entry("a")
    alignment = Alignment(((0, 1),) * 30, ((0, 1),) * 20, np.zeros((20, 30), np.float32))
    aligned = (hypothesis._replace(alignment=alignment),)
    assert _size(sentence, aligned) == _size(sentence, (hypothesis,)) + 2400
