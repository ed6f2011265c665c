"""Vocabularies are lossless and have SeqIO's ids; other files are errors."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mmt.data import vocabulary as vocab
from tests.mmt.data.vocabulary import TEXTS, foreign


def test_every_language_comes_back_whole(vocabulary):
    for text in TEXTS:
        assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.encode_all(TEXTS) == [vocabulary.encode(text) for text in TEXTS]


@settings(deadline=None)
@given(st.text().filter(lambda text: "\u2581" not in text))
@example("  two  spaces, before, inside and after  ")
@example(" ")
@example("👩‍👩‍👧 ᚠᚢᚦ ꙮ \ufeff e\u0301 é ﬁ \u00a0 \x00 <0x41> </s>")
@example("a literal <2eng> tag")
def test_every_text_comes_back_whole(vocabulary, text):
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert not {vocab.PAD, vocab.EOS, vocab.UNK} & set(ids)
    assert all(0 < number < vocabulary.size for number in ids)


def test_sentencepieces_own_sign_for_a_space_reads_as_a_space(vocabulary):
    assert vocabulary.decode(vocabulary.encode("a\u2581b")) == "a b"


def test_tags_are_pieces_and_digits_stand_alone(vocabulary):
    assert vocab.tag("eng_Latn") == "<2eng>"
    tag = vocabulary.id("<2eng>")
    assert vocabulary.encode("<2eng> 2021")[0] == tag
    assert vocabulary.encode("x<2eng>y").count(tag) == 1  # typed by a user: the tag all the same
    digits = [vocabulary.id(digit) for digit in "2021"]
    assert vocabulary.encode("<2eng> 2021")[-4:] == digits
    assert vocabulary.has("<2deu>") and not vocabulary.has("<2fra>")
    with pytest.raises(ValueError, match="no piece '<2enk>'; nearest: <2eng>"):
        vocabulary.id("<2enk>")


def test_decode_stops_at_eos_and_survives_ids_of_the_model_alone(vocabulary):
    ids = vocabulary.encode("Swahili")
    assert vocabulary.decode([0, *ids, 0, 1, *ids]) == "Swahili"
    assert vocabulary.decode([]) == ""
    assert vocabulary.decode([vocabulary.size + 5]).strip() == "⁇"


def test_seqio_gives_the_same_ids(model, vocabulary):
    seqio = pytest.importorskip("seqio")
    theirs = seqio.SentencePieceVocabulary(str(model))
    assert theirs.vocab_size == vocabulary.size
    assert (theirs.pad_id, theirs.eos_id, theirs.unk_id) == (vocab.PAD, vocab.EOS, vocab.UNK)
    texts = [*TEXTS[::10], "  spaces  ", "👩 <2eng> ꙮ", "<2deu>x", ""]
    for text in texts:
        ids = vocabulary.encode(text)
        assert list(theirs.encode(text)) == ids
        assert theirs.encode_tf(text).numpy().tolist() == ids
        assert theirs.decode([*ids, 1, 5]) == vocabulary.decode([*ids, 1, 5]) == text


def test_only_fitting_models_load(tmp_path):
    with pytest.raises(ValueError, match="no vocabulary at .*none.model"):
        vocab.Vocabulary.load(tmp_path / "none.model")
    (tmp_path / "text.model").write_text("not a model")
    with pytest.raises(ValueError, match="text.model is not a SentencePiece model"):
        vocab.Vocabulary.load(tmp_path / "text.model")
    (tmp_path / "empty.model").touch()
    with pytest.raises(ValueError, match="empty.model is not a SentencePiece model: it is empty"):
        vocab.Vocabulary.load(tmp_path / "empty.model")
    (tmp_path / "torn.model").write_bytes(foreign().replace("▁".encode(), b"\xe2\x20\x81"))
    with pytest.raises(ValueError, match="torn.model is not a SentencePiece model: .*utf-8"):
        vocab.Vocabulary.load(tmp_path / "torn.model")
    (tmp_path / "endless.model").write_bytes(foreign(eos_id=-1))
    with pytest.raises(ValueError, match="endless.model has no id for the end of a text"):
        vocab.Vocabulary.load(tmp_path / "endless.model")


def test_models_with_other_special_ids_load(madlad, vocabulary):
    assert (madlad.pad, madlad.eos, madlad.unk) == (-1, 2, 0)
    assert (vocabulary.pad, vocabulary.eos, vocabulary.unk) == (0, 1, 2)
    ids = madlad.encode("Swahili")
    assert 1 not in ids and madlad.decode([*ids, 1, 2, *ids]) == "Swahili"  # 1 is <s>
    assert madlad.decode([madlad.size + 5]).strip() == "⁇"
