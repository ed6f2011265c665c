"""A SentencePiece model as a Hugging Face tokenizer: the same ids and the same texts."""

import io
import json

import numpy as np
import pytest
import sentencepiece

from mmt import languages
from mmt.convert import tokenizer
from mmt.data import vocabulary

TEXTS = [
    text
    for language in languages.all_languages()
    for text in (f"<2eng> {language.native} ({language.code})", f"{language.name} 1,234.50")
]
AWKWARD = [
    "", " ", "  two  spaces, before, inside and after  ", "\u2581a\u2581", "tab\tline\nend\r\n",
    "👩‍👩‍👧 ᚠᚢᚦ ꙮ \ufeff e\u0301 é ﬁ \u00a0", "\x00 \x01 \x7f \u200b\u200d",
    "<0x41> </s> <unk> <pad>",
    "a literal <2eng> tag", "x<2eng>y<2deu><2eng>", "<2eng>", "<2en", "2021 ٢٠٢١ ৪৫ 1,000.5",
    "aaaaaaaaaaaaaaaaaaaaa", "Donaudampfschifffahrtsgesellschaftskapitän", "日本語のテキスト",
    "\U0010ffff",
]  # fmt: skip


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.model"
    vocabulary.train(TEXTS, path, size=1500, tags=["<2eng>", "<2deu>"])
    return path


def unigram(**options) -> bytes:
    model = io.BytesIO()
    options = {"pad_id": -1, "unk_id": 0, "bos_id": 1, "eos_id": 2} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, model_type="unigram", vocab_size=700,
        character_coverage=0.99, user_defined_symbols=["<2en>", "<2zh_Hant>"], minloglevel=2,
        num_threads=1, **options,
    )  # fmt: skip
    return model.getvalue()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_model_is_read_as_sentencepiece_reads_it(bpe, kind):
    model = bpe.read_bytes() if kind == "bpe" else unigram(byte_fallback=True)
    parsed, theirs = tokenizer.parse(model), sentencepiece.SentencePieceProcessor(model_proto=model)
    assert len(parsed.pieces) == theirs.get_piece_size()
    for i, (piece, score, type_) in enumerate(parsed.pieces):
        assert piece == theirs.id_to_piece(i) and score == theirs.get_score(i)
        assert (type_ == tokenizer.CONTROL) == theirs.is_control(i)
        assert (type_ == tokenizer.BYTE) == theirs.is_byte(i)
        assert (type_ == tokenizer.UNKNOWN) == theirs.is_unknown(i)
    assert parsed.byte_fallback and parsed.kind == {"bpe": tokenizer.BPE, "unigram": 1}[kind]
    assert parsed.dummy_prefix == parsed.single_spaces == (kind == "unigram")
    assert bool(parsed.charsmap) == (kind == "unigram")


def test_tokenizers_without_an_equivalent_are_refused(tmp_path):
    for options in ({"model_type": "word"}, {"model_type": "bpe"}):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=1500, minloglevel=2,
            hard_vocab_limit=False, **options,
        )  # fmt: skip
        with pytest.raises(ValueError, match="model type 3|no equal tokenizer.json"):
            tokenizer.to_json(model.getvalue(), eos=2, pad=0)
    with pytest.raises(ValueError, match="has no spiece.model"):
        tokenizer.sentencepiece_file(tmp_path)


def test_an_imported_tokenizer_is_exported_unchanged(bpe, tmp_path):
    kept, out = tmp_path / "kept", tmp_path / "out"
    kept.mkdir(), out.mkdir()
    (kept / "spiece.model").write_bytes(bpe.read_bytes())
    (kept / "tokenizer_config.json").write_text('{"made by": "someone else"}')
    tokenizer.write(bpe, out, kept=kept, pad=0)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in kept.iterdir()
    }
    other = tmp_path / "other.model"
    other.write_bytes(unigram())
    new = tmp_path / "new"
    new.mkdir()
    tokenizer.write(other, new, kept=kept, pad=1)  # fine-tuned with another vocabulary
    assert (new / "spiece.model").read_bytes() == other.read_bytes()
    assert json.loads((new / "tokenizer_config.json").read_text())["pad_token"] == "<s>"


# ---------------------------------------------------------------- Hugging Face


def theirs(model, directory, *, pad):
    transformers = pytest.importorskip("transformers")
    directory.mkdir()
    tokenizer.write(model, directory, kept=directory / "none", pad=pad)
    (directory / "config.json").write_text('{"model_type": "t5"}')
    return transformers.AutoTokenizer.from_pretrained(directory)


@pytest.mark.parity
def test_bpe_gives_the_same_ids_and_texts(bpe, tmp_path, record_property):
    ours, other = vocabulary.Vocabulary.load(bpe), theirs(bpe, tmp_path / "hf", pad=0)
    random = np.random.default_rng(0)
    others = ["<2eng>", "<2deu>", "\x00", "😀", "  ", "</s>"]
    characters = [c for text in TEXTS for c in text] + others
    mixed = ["".join(random.choice(characters, random.integers(1, 40))) for _ in range(1000)]
    texts = [*AWKWARD, *TEXTS, *mixed]
    assert (other.pad_token_id, other.eos_token_id, other.unk_token_id) == (0, 1, 2)
    for text in texts:
        ids = ours.encode(text)
        assert other(text).input_ids == [*ids, ours.eos], repr(text)
        assert other.decode([*ids, ours.eos, 0, 0], skip_special_tokens=True) == ours.decode(ids)
    record_property("tokenizer.json of a BPE model", f"{len(texts)} texts, all ids and texts equal")


@pytest.mark.parity
@pytest.mark.parametrize("options", [{}, {"byte_fallback": True}, {"add_dummy_prefix": False}])
def test_unigram_gives_the_same_ids(tmp_path, options):
    model = tmp_path / "spiece.model"
    model.write_bytes(unigram(**options))
    ours, other = vocabulary.Vocabulary.load(model), theirs(model, tmp_path / "hf", pad=1)
    names = {"<0x41> </s> <unk> <pad>"}  # of pieces: Unigram takes them at their word there
    texts = [text for text in (*AWKWARD, *TEXTS, "<2zh_Hant> Hello  there") if text not in names]
    for text in texts:
        ids = ours.encode(text)
        assert other(text).input_ids == [*ids, ours.eos], repr(text)
        if ours.unk not in ids:
            assert other.decode(ids, skip_special_tokens=True) == ours.decode(ids), repr(text)
