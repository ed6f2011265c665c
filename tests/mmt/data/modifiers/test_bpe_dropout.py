"""BPE-dropout keeps the text, and its distribution is SentencePiece's own."""

import random
from collections import Counter

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from mmt.data import vocabulary as vocab
from mmt.data.modifiers.bpe_dropout import BpeDropout

LINES = [
    "the lower the newer the wider", "wider and newer, lower and lower", "a new lower width",
    "ein neuer, weiterer und tieferer Text", "новый и ещё более новый", "12 newer 345",
] * 3  # fmt: skip
TEXT = st.text(st.sampled_from("thelowrnidÄн今😀 ,.12▁"), max_size=30) | st.text(max_size=20)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("bpe") / "v.model"
    vocab.train(LINES, file, size=400, tags=["<2eng>", "<bt>"])
    return file


@given(TEXT, st.booleans(), st.integers(0, 2**32), st.sampled_from([0.1, 0.5, 1.0]))
def test_the_text_stays_and_without_dropout_the_pieces(model, text, tagged, seed, dropout):
    vocabulary = vocab.Vocabulary.load(model)
    ids = vocabulary.encode("<2eng> " * tagged + text)
    assert BpeDropout(vocabulary, 0.0)(ids, random.random) == ids
    made = BpeDropout(vocabulary, dropout)(ids, random.Random(seed).random)
    assert made == BpeDropout(vocabulary, dropout)(ids, random.Random(seed).random)
    assert vocabulary.decode(made) == vocabulary.decode(ids)
    assert made[:1] == ids[:1] or not tagged


def test_all_merges_omitted_are_characters(model):
    vocabulary = vocab.Vocabulary.load(model)
    ids = vocabulary.encode("<2eng> the lower")
    made = BpeDropout(vocabulary, 1.0)(ids, random.random)
    assert [vocabulary.piece(number) for number in made] == ["<2eng>", *"▁the▁lower"]


@pytest.mark.parametrize("text", ["the lower", "newer and wider"])
def test_the_distribution_is_that_of_sentencepiece(model, text):
    """Frequencies of 6,000 draws each; two samples of one distribution differ by under 0.03."""
    vocabulary, draws = vocab.Vocabulary.load(model), 6_000
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(model))
    divide, chance = BpeDropout(vocabulary, 0.2), random.Random(0).random
    ids = vocabulary.encode(text)
    ours = Counter(tuple(divide(ids, chance)) for _ in range(draws))
    sampled = Counter(
        tuple(theirs.encode(text, enable_sampling=True, nbest_size=-1, alpha=0.2))
        for _ in range(draws)
    )
    assert len(ours) > 5
    assert max(abs(ours[key] - sampled[key]) for key in ours | sampled) / draws < 0.03


def test_another_kind_of_vocabulary_is_an_error(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_prefix=str(tmp_path / "v"), model_type="unigram",
        vocab_size=45, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    with pytest.raises(ValueError, match="the vocabulary is not BPE"):
        BpeDropout(vocab.Vocabulary.load(tmp_path / "v.model"))
