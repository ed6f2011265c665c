"""CTranslate2 translates what we export as we do; models that it does not have are errors."""

import sys

import numpy as np
import pytest

from mmt.convert import ctranslate2 as convert
from mmt.model.moe import MoeConfig
from mmt.model.transformer import Config, Transformer
from mmt.run import Run

SIZES = {
    "emb_dim": 16, "num_heads": 2, "head_dim": 4, "mlp_dim": 24, "encoder_layers": 2,
    "decoder_layers": 2,
}  # fmt: skip


def test_experts_are_refused_and_distillation_named(tmp_path, monkeypatch):
    made = Transformer(Config(40, moe_period=2, moe=MoeConfig(num_experts=2), **SIZES))
    monkeypatch.setattr(Run, "model", lambda _: made)
    with pytest.raises(ValueError, match=r"experts, which CTranslate2 does not .*`mmt distill`"):
        convert.export(tmp_path / "run", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_name_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "model", lambda _: Transformer(Config(40, **SIZES)))
    monkeypatch.setitem(sys.modules, "ctranslate2.converters", None)
    with pytest.raises(ValueError, match=r"needs ctranslate2, torch and transformers: pip install"):
        convert.export(tmp_path / "run", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parity
def test_an_import_that_came_with_its_sentencepiece_model_alone(tmp_path):
    pytest.importorskip("transformers")
    ctranslate2 = pytest.importorskip("ctranslate2")
    from mmt.convert import hf
    from mmt.data.vocabulary import Vocabulary
    from mmt.decoding import Decoding
    from mmt.translate import Translator
    from tests.helpers import hf_families

    theirs = hf_families.make("T5 1.1", tmp_path / "theirs")
    (theirs / "spiece.model").rename(theirs / "sentencepiece.model")
    hf.import_hf(theirs, tmp_path / "run")
    convert.export(tmp_path / "run", tmp_path / "out")
    vocabulary = Vocabulary.load(tmp_path / "out" / "spiece.model")
    lines = [text[:20] for text in hf_families.texts()[:40]]
    ids = [[*vocabulary.encode(line), vocabulary.eos] for line in lines]
    results = ctranslate2.Translator(str(tmp_path / "out")).translate_batch(
        [[vocabulary.piece(i) for i in line_ids] for line_ids in ids],
        beam_size=1, max_decoding_length=12, suppress_sequences=[[vocabulary.piece(0)]],
    )  # fmt: skip
    greedy = Decoding(beam=1, alpha=0.0, search_style="hf")
    ours = Translator.load(tmp_path / "run").translate(lines, decoding=greedy)
    same = 0
    for translation, other in zip(ours, results, strict=True):
        tokens = [token for token in translation.hypotheses[0].tokens if token != "</s>"][:12]
        same += tokens == other.hypotheses[0][:12]
    assert same >= 38  # ties of two logits


@pytest.fixture(scope="module")
def dense_run(mmt_command, toy_corpus, toy_training):
    """A dense model, trained on the toy corpus, and its export by `mmt export ctranslate2`."""
    pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    directory = toy_corpus.parent / "runs" / "dense"
    flags = [flag for flag in toy_training if "moe" not in flag and "TRAIN_STEPS" not in flag]
    done = mmt_command(
        "train", "--gin_file=gin_configs/models/tiny.gin", *flags, "--gin.TRAIN_STEPS=200",
        f"--gin.CORPUS={toy_corpus}", f"--gin.MODEL_DIR={directory}",
        MMT_DATA=str(toy_corpus.parent),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    out = directory.parent / "ctranslate2"
    done = mmt_command("export", "ctranslate2", "--model", directory, "--out", out)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == str(out)
    return directory, out


def lines_of(toy_corpus, count=300):
    random, sources = np.random.default_rng(5), []
    for path in sorted(toy_corpus.glob("*.tsv")):
        sources += [line.split("\t")[0] for line in path.read_text().splitlines()]
    unique = sorted(set(sources))
    return [unique[i] for i in random.permutation(len(unique))[:count]]


@pytest.mark.parity
def test_exported_models_translate_the_same_lines(dense_run, toy_corpus, record_property):
    import ctranslate2
    import sacrebleu

    from mmt.data.vocabulary import Vocabulary
    from mmt.decoding import Decoding
    from mmt.translate import Translator

    run, out = dense_run
    lines = lines_of(toy_corpus)
    alike = Decoding(beam=4, alpha=1.0, penalty="length", search_style="hf")
    ours = list(Translator.load(run).translate(lines, decoding=alike))
    vocabulary = Vocabulary.load(out / "spiece.model")
    pieces = [
        [vocabulary.piece(i) for i in (*vocabulary.encode(f"<2eng> {line}"), vocabulary.eos)]
        for line in lines
    ]
    texts = {}
    for kind in ("float32", "int8"):
        translator = ctranslate2.Translator(str(out), compute_type=kind, inter_threads=1)
        results = translator.translate_batch(
            pieces, beam_size=4, length_penalty=1.0, max_decoding_length=64, return_scores=True,
            patience=3,  # by default it stops at four hypotheses, though a better one may live
        )  # fmt: skip
        texts[kind] = [
            vocabulary.decode([vocabulary.id(piece) for piece in result.hypotheses[0]])
            for result in results
        ]
        if kind == "float32":
            scores = [result.scores[0] for result in results]
    our_texts = [result.text for result in ours]
    same = np.array([a == b for a, b in zip(our_texts, texts["float32"], strict=True)])
    gap = np.abs(np.array([result.hypotheses[0].score for result in ours]) - scores)
    record_property("CTranslate2 float32", f"{same.sum()} of {len(same)} lines are ours, beam 4")
    bleu = sacrebleu.corpus_bleu(texts["int8"], [our_texts]).score
    record_property("CTranslate2 int8", f"BLEU against our float32 output {bleu:.2f}, ours 100")
    assert len(set(our_texts)) > 50
    assert same.mean() >= 0.995 and gap[~same].max(initial=0) < 1e-3
    assert bleu > 90
