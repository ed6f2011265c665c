"""Alignment: attention of the model itself, tokens that cover their texts, no influence of others.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.model import stack
from mmt.translate import alignment
from tests.helpers.tiny_translator import make, train_vocabulary

PAIRS = [("eins zwei drei", "vier fünf"), ("acht, 三 neun!", "zehn \u0301x elf"), ("a", "b")]


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return make(train_vocabulary(tmp_path_factory.mktemp("vocabulary")), moe_period=1)


def test_tokens_cover_the_texts_in_order(translator):
    for line, translation in PAIRS:
        (aligned,) = translator.align([(line, translation)])
        for text, spans in ((line, aligned.source), (translation, aligned.target)):
            assert "".join(text[start:end] for start, end in spans) == text
            assert all(a[1] == b[0] for a, b in zip(spans, spans[1:], strict=False))


def test_weights_are_the_attention_of_all_layers(translator):
    line, translation = PAIRS[0]
    (aligned,) = translator.align([PAIRS[0]])
    assert aligned.weights.shape == (len(aligned.target), len(aligned.source))
    vocabulary, config = translator.vocabularies["source"], translator.model.config
    source = np.array([[*vocabulary.encode(f"<2eng> {line}"), config.eos_id]])
    target = np.array([[config.start_id, *vocabulary.encode(translation)]])
    nll = []
    for place in range(source.shape[1]):  # the loss of guided alignment is another way to read it
        _, sown = translator.model.apply(
            {"params": translator.params}, jnp.asarray(source), jnp.asarray(target),
            decoder_alignment=jnp.full(target.shape, place), mutable=["intermediates"],
        )  # fmt: skip
        layers = [stack.alignment_nll(sown["intermediates"], i) for i in range(2)]
        nll.append(np.exp(-np.asarray(layers)).mean(axis=0)[0])
    expected = np.stack(nll, axis=-1)[:-1, :-1]
    np.testing.assert_allclose(aligned.weights, expected, rtol=1e-4, atol=1e-6)


def test_an_alignment_does_not_depend_on_the_others(translator):
    together = translator.align(PAIRS)
    for pair, expected in zip(PAIRS, together, strict=True):
        (alone,) = translator.align([pair])
        assert alone.source == expected.source and (alone.weights == expected.weights).all()
    assert translator.align([]) == []


def test_lines_in_capitals_are_aligned_in_lower_case(translator):
    upper, lower = translator.align([("EİNS ZWEİ", "VIER FÜNF"), ("eins zwei", "vier fünf")])
    assert upper.source == lower.source and upper.target == lower.target
    assert (upper.weights == lower.weights).all()
    (acronym,) = translator.align([("EINS", "VIER")])
    assert acronym.weights.shape != translator.align([("eins", "vier")])[0].weights.shape


def test_each_word_is_linked_with_the_source_word_that_it_attends_to_most():
    line, translation = "eins  zwei, drei", "drei eins"
    spans = [(0, 0), (0, 2), (2, 4), (4, 10), (10, 11), (11, 16)], [(0, 4), (4, 6), (6, 9)]
    weights = np.array(
        [[0.5, 0.1, 0.1, 0.0, 0.0, 0.3], [0.1, 0.2, 0.2, 0.3, 0.1, 0.1], [0.1, 0.3, 0.3, 0.1, 0, 0]]
    )
    aligned = alignment.Alignment(tuple(spans[0]), tuple(spans[1]), weights)
    assert aligned.word_links(line, translation) == [(2, 0), (0, 1)]
    assert aligned.word_links("", translation) == aligned.word_links(line, "") == []


def test_a_joined_alignment_has_the_parts_side_by_side(translator):
    first, second = translator.align(PAIRS[:2])
    joined = alignment.join([first, second.shifted(20, 10)])
    assert joined.source[len(first.source)] == (20, 20)  # the tag before the second line
    assert joined.weights.sum() == pytest.approx(first.weights.sum() + second.weights.sum())
    assert not joined.weights[: len(first.target), len(first.source) :].any()


def test_other_passes_keep_no_attention(translator):
    tokens = jnp.ones((1, 4), jnp.int32)
    shapes = jax.eval_shape(lambda: translator.model.init(jax.random.key(0), tokens, tokens))
    assert "attention" not in shapes
