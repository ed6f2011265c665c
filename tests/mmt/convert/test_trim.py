"""`mmt extract --pieces`: a target vocabulary of the pieces that a corpus has."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.convert import trim
from mmt.data import corpora
from mmt.data.cache.manifest import read_manifest
from mmt.data.vocabulary import Vocabulary
from mmt.run import Run
from mmt.translate import Translator
from tests.helpers import hf_runs

TARGETS = ("one two three", "day, world")


def corpus(folder, targets=TARGETS, target="eng_Latn", source="deu"):
    folder.mkdir()
    rows = "".join(f"eins\t{line}\n" for line in targets)
    (folder / "train.tsv").write_text(rows)
    (folder / "corpus.toml").write_text(f'target = "{target}"\n[train]\n{source} = "train.tsv"\n')
    return corpora.load(folder)


def vocabularies(run):
    return {side: Vocabulary.load(file) for side, file in Run(run).vocabularies().items()}


@pytest.fixture(scope="module", params=["t5", "t5, tied"])
def pair(request, tmp_path_factory):
    """A run directory, and the trimmed one."""
    folder = tmp_path_factory.mktemp("trim")
    whole = hf_runs.make_run(folder / "run", **hf_runs.VARIANTS[request.param])
    trim.trim(whole, corpus(folder / "corpus"), folder / "out")
    return whole, folder / "out"


def test_the_corpus_and_its_vocabulary_stay(pair):
    before, after = map(vocabularies, pair)
    assert before["source"].hash == after["source"].hash
    assert 256 < after["target"].size < before["target"].size
    for text in (*TARGETS, "two"):
        pieces = [[v["target"].piece(i) for i in v["target"].encode(text)] for v in (before, after)]
        assert pieces[0] == pieces[1]
    for text in (*TARGETS, "one, day", "Zoë"):
        assert after["target"].decode(after["target"].encode(text)) == text
    for name in ("pad", "eos", "unk", "tags"):
        assert getattr(before["target"], name) == getattr(after["target"], name)
    manifest = read_manifest(Run(pair[1]).manifest)
    for side, vocabulary in after.items():
        assert manifest.vocabulary_hash[side] == vocabulary.hash
        assert manifest.vocabulary_size[side] == vocabulary.size


def test_logits_are_those_of_the_kept_pieces(pair):
    whole, smaller = (Run(run).model() for run in pair)
    before, after = (vocabularies(run)["target"] for run in pair)
    kept = np.array([before.id(after.piece(i)) for i in range(after.size)])
    assert smaller.config.target_vocab_size == len(kept)
    source = jnp.array([[300, 7, 9, 1], [5, 1, 0, 0]])
    target = np.random.default_rng(0).integers(2, len(kept), (2, 6))
    expected, found = (
        jax.jit(model.apply)({"params": hf_runs.parameters(run)}, source, jnp.asarray(tokens))
        for model, run, tokens in zip((whole, smaller), pair, (kept[target], target), strict=True)
    )
    np.testing.assert_allclose(found, expected[..., kept], rtol=1e-5, atol=1e-5)


def test_a_model_that_has_learnt_its_corpus_translates_as_before(
    dense_toy_run, toy_corpus, tmp_path, mmt_command
):
    out = tmp_path / "out"
    done = mmt_command("extract", "--model", dense_toy_run, "--pieces", toy_corpus, "--out", out)
    assert done.returncode == 0, done.stderr.decode()
    assert b" target pieces\n" in done.stdout
    lines = ["eins zwei", "vier", "drei null drei"]
    whole, smaller = (
        [line.text for line in Translator.load(run).translate(lines)]
        for run in (dense_toy_run, out)
    )
    assert whole == smaller == ["one two", "four", "three zero three"]


def test_a_model_from_english_keeps_the_pieces_that_it_writes(tmp_path):
    """The corpus has the pairs as always; the model was trained on it reversed."""
    whole, out = hf_runs.make_run(tmp_path / "run", target="deu_Latn"), tmp_path / "out"
    manifest = read_manifest(Run(whole).manifest)
    dataclasses.replace(manifest, source="eng_Latn", target="").write(whole)
    with pytest.raises(ValueError, match="has the target fra_Latn, the model .* from eng_Latn"):
        trim.trim(whole, corpus(tmp_path / "french", target="fra_Latn"), out)
    trim.trim(whole, corpus(tmp_path / "corpus"), out)
    before, after = (vocabularies(run)["target"] for run in (whole, out))
    for text, is_kept in (("eins", True), ("one two three", False)):
        pieces = [[v.piece(i) for i in v.encode(text)] for v in (before, after)]
        assert (pieces[0] == pieces[1]) == is_kept


def test_the_separator_of_context_stays(tmp_path, monkeypatch):
    """A model that was trained with the modifier `context` writes it; no target of a corpus has it.
    """
    monkeypatch.setattr(hf_runs, "TEXTS", [*hf_runs.TEXTS, *["one ||| two"] * 9])
    whole = hf_runs.make_run(tmp_path / "run")
    trim.trim(whole, corpus(tmp_path / "corpus"), tmp_path / "out")
    before, after = (vocabularies(run)["target"] for run in (whole, tmp_path / "out"))
    pieces = [[v.piece(i) for i in v.encode("one ||| two")] for v in (before, after)]
    assert pieces[0] == pieces[1] and any("||" in piece for piece in pieces[0])


def test_what_cannot_be_trimmed_is_an_error(pair, tmp_path):
    whole, out = pair[0], tmp_path / "out"
    with pytest.raises(ValueError, match="has the target fra_Latn, the model .* into eng_Latn"):
        trim.trim(whole, corpus(tmp_path / "french", target="fra_Latn"), out)
    with pytest.raises(ValueError, match="has none of the languages of .* are deu_Latn"):
        trim.trim(whole, corpus(tmp_path / "other", source="swh"), out)
    with pytest.raises(ValueError, match="exist"):
        trim.trim(whole, corpus(tmp_path / "again"), pair[1])
    with pytest.raises(ValueError, match="the corpus all uses all of its pieces"):
        trim.trim(pair[1], corpus(tmp_path / "all"), out)
    assert not out.exists()
