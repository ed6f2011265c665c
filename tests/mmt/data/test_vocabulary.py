"""Vocabularies are lossless, the same every time and in SeqIO, and clear about bad sizes."""

import io
import warnings

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mmt import languages
from mmt.data import corpora
from mmt.data import vocabulary as vocab

TAGS = ["<2eng>", "<2deu>"]
TEXTS = [
    text
    for language in languages.all_languages()
    for text in (f"<2eng> {language.native} ({language.code})", f"{language.name} 1,234.50")
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.model"
    vocab.train(TEXTS, path, size=1500, tags=TAGS)
    return path


@pytest.fixture(scope="module")
def vocabulary(model):
    return vocab.Vocabulary.load(model)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """3,000 pairs of German, 300 of French, 30 of Swahili; every text contains its line number."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = ["[train]"]
    for code, count in (("deu", 3000), ("fra", 300), ("swh", 30)):
        pairs = (f"{code} {i}\tenglish {code} {i}\n" for i in range(count))
        (folder / f"{code}.tsv").write_text("".join(pairs))
        lines.append(f'{code} = "{code}.tsv"')
    (folder / "corpus.toml").write_text("\n".join(lines))
    return corpora.load(folder)


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


def test_training_again_gives_the_same_file(model, vocabulary, tmp_path):
    vocab.train(iter(TEXTS), tmp_path / "again.model", size=1500, tags=TAGS)
    assert (tmp_path / "again.model").read_bytes() == model.read_bytes()
    assert vocab.Vocabulary.load(tmp_path / "again.model").hash == vocabulary.hash
    vocab.train(TEXTS[::2], tmp_path / "other.model", size=1200, tags=TAGS)
    assert vocab.Vocabulary.load(tmp_path / "other.model").hash != vocabulary.hash


def test_impossible_sizes_are_errors(tmp_path):
    path = tmp_path / "vocabulary.model"
    with pytest.raises(ValueError, match=r"vocabulary of 200 pieces is too small.*alone are \d+"):
        vocab.train(TEXTS, path, size=200, tags=TAGS)
    with pytest.raises(ValueError, match="no text"):
        vocab.train(["", " "], path, size=500, tags=TAGS)
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(UserWarning, match=r"have only (\d+) pieces, so the vocabulary has fewer"):
        vocab.train(["Guten Tag", "Good day"], path, size=500, tags=TAGS)
    assert 256 < vocab.Vocabulary.load(path).size < 300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vocab.train(TEXTS, path, size=1500, tags=TAGS)


def test_a_failing_stream_or_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "vocabulary.model"
    path.write_text("old")

    def broken():
        yield "text"
        raise ValueError("corpus.de:7: broken UTF-8")

    with pytest.raises(ValueError, match="corpus.de:7"):
        vocab.train(broken(), path, size=300, tags=TAGS)
    assert path.read_text() == "old"
    with pytest.raises(OSError, match="vocabulary.model"):
        vocab.train(TEXTS, path / "inside.model", size=1500, tags=TAGS)
    assert [file.name for file in tmp_path.iterdir()] == ["vocabulary.model"]


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


def foreign(*tags, **options) -> bytes:
    """A model with the ids of MADLAD-400: unk 0, no pad, the end 2."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=1500, hard_vocab_limit=False,
        minloglevel=2, user_defined_symbols=list(tags), num_threads=1, **options,
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module")
def madlad(tmp_path_factory):
    path = tmp_path_factory.mktemp("madlad") / "spiece.model"
    path.write_bytes(foreign("<2en>", "<2de>", "<2zh>", "<2zh_Hant>", "<2sr>", "<2ber>", "<2 x>"))
    return vocab.Vocabulary.load(path)


def test_models_with_other_special_ids_load(madlad, vocabulary):
    assert (madlad.pad, madlad.eos, madlad.unk) == (-1, 2, 0)
    assert (vocabulary.pad, vocabulary.eos, vocabulary.unk) == (0, 1, 2)
    ids = madlad.encode("Swahili")
    assert 1 not in ids and madlad.decode([*ids, 1, 2, *ids]) == "Swahili"  # 1 is <s>
    assert madlad.decode([madlad.size + 5]).strip() == "⁇"


def test_tags_by_any_name_of_their_language(madlad, vocabulary):
    assert madlad.tags == {
        "<2en>": "eng_Latn", "<2de>": "deu_Latn", "<2zh>": "zho_Hans", "<2zh_Hant>": "zho_Hant",
        "<2sr>": "srp_Cyrl", "<2ber>": None,
    }  # fmt: skip
    assert vocabulary.tags == {"<2eng>": "eng_Latn", "<2deu>": "deu_Latn"}

    def find(name, of=madlad, **options):
        return vocab.find_tag(of, name, **options)

    assert {find(name) for name in ("en", "eng", "English", "eng_Latn", "en-GB")} == {"<2en>"}
    assert {find(name, vocabulary) for name in ("de", "German", "deu_Latn")} == {"<2deu>"}
    assert (find("zh"), find("zh_TW"), find("zho_Hant")) == ("<2zh>", "<2zh_Hant>", "<2zh_Hant>")
    assert find("ber") == "<2ber>"  # only the file knows it
    assert find("srp_Cyrl") == "<2sr>"
    with pytest.raises(ValueError, match=r"srp_Latn \(Serbian.*translates only into .*srp_Cyrl"):
        find("srp_Latn")  # another script is another language
    with pytest.raises(ValueError, match=r"target language gsw_Latn .* German \(deu_Latn\)"):
        find("gsw")
    with pytest.raises(ValueError, match="unknown language 'Klingonn'"):
        find("Klingonn")


def test_a_tag_may_stand_for_the_script_that_was_trained(tmp_path):
    path = tmp_path / "serbian.model"
    vocab.train(TEXTS, path, size=1500, tags=["<2srp>"])
    vocabulary = vocab.Vocabulary.load(path)
    assert vocab.find_tag(vocabulary, "sr") == "<2srp>"
    assert vocab.find_tag(vocabulary, "sr-Latn", trained="srp_Latn") == "<2srp>"
    with pytest.raises(ValueError, match="srp_Latn"):
        vocab.find_tag(vocabulary, "sr-Cyrl", trained="srp_Latn")


def test_an_unknown_tag_is_an_error_with_the_nearest_languages(tmp_path):
    tags = sorted({f"<2{entry.iso1}>" for entry in languages.all_languages() if entry.iso1})
    path = tmp_path / "many.model"
    path.write_bytes(foreign(*tags))
    with pytest.raises(ValueError) as error:
        vocab.find_tag(vocab.Vocabulary.load(path), "gsw")
    assert "nearest: " in str(error.value) and len(str(error.value)) < 250


def test_training_texts_are_sampled_by_temperature(corpus):
    def counted(**options):
        texts = list(vocab.training_texts(corpus, side="source", **options))
        assert len(set(texts)) == len(texts)
        codes = [text.split()[1] for text in texts]
        assert all(text.startswith("<2eng> ") for text in texts)
        return [codes.count(code) for code in ("deu", "fra", "swh")]

    assert counted(limit=333, temperature=1.0) == [300, 30, 3]
    assert counted(limit=330, temperature=1e9) == [150, 150, 30]  # all of Swahili, once
    large, middle, small = counted(limit=100, temperature=2.0)
    assert large / middle == pytest.approx(10**0.5, rel=0.1)
    assert middle / small == pytest.approx(10**0.5, rel=0.2)
    assert counted(limit=10**9) == [3000, 300, 30]


def test_training_texts_cover_the_files_evenly_and_by_side(corpus):
    options = {"limit": 111, "temperature": 1.0}
    source = list(vocab.training_texts(corpus, side="source", **options))
    target = list(vocab.training_texts(corpus, side="target", **options))
    assert target == [text.replace("<2eng>", "english") for text in source]
    both = list(vocab.training_texts(corpus, side="both", **options))
    assert both == [text for pair in zip(source, target, strict=True) for text in pair]
    lines = [int(text.split()[2]) for text in source if "deu" in text]
    assert len(lines) == 100
    assert {b - a for a, b in zip(lines, lines[1:], strict=False)} == {30}
    with pytest.raises(ValueError, match="'sauce'.*nearest: source"):
        next(vocab.training_texts(corpus, side="sauce"))
