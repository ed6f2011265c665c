"""CTranslate2 translates what we export as we do; models that it does not have are errors."""

import errno
import filecmp
import shutil
import sys

import numpy as np
import pytest

from mmt import checkpoint
from mmt.convert import ctranslate2 as convert
from mmt.model.moe import MoeConfig
from mmt.model.transformer import Config, Transformer, parameter_shapes
from mmt.run import Run
from tests.helpers import hf_runs

SIZES = {
    "emb_dim": 16, "num_heads": 2, "head_dim": 4, "mlp_dim": 24, "encoder_layers": 2,
    "decoder_layers": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moe_period": 2, "moe": MoeConfig(num_experts=2)},
         r"experts, which CTranslate2 does not .*`mmt distill`"),
        ({"mlp_activations": ("gelu", "relu")}, r"mlp_activations = .*one of relu, gelu, silu"),
        ({"mlp_activations": ("linear",)}, "mlp_activations"),
        ({"encoder_layers": 0}, r"Config.encoder_layers = 0; CTranslate2 needs 1 or more"),
    ],
)  # fmt: skip
def test_models_that_ctranslate2_lacks_are_refused(options, message, tmp_path, monkeypatch):
    made = Transformer(Config(40, **(SIZES | options)))
    monkeypatch.setattr(Run, "model", lambda _: made)
    for write in (
        lambda: convert.export(tmp_path / "run", tmp_path / "out"),
        lambda: convert.exported(tmp_path / "run", [3]),
    ):
        with pytest.raises(ValueError, match=message):
            write()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "model", lambda _: Transformer(Config(40, **SIZES)))
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ValueError, match=r"not installed: pip install 'mmt\[ctranslate2\]'"):
        convert.export(tmp_path / "run", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def run(tmp_path):
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    return hf_runs.make_run(tmp_path / "run", **hf_runs.VARIANTS["t5, tied"])


def test_an_export_beside_the_checkpoint_is_made_once_and_follows_it(run):
    old = Run(run).ctranslate2([7])  # of a checkpoint that the run no longer has
    old.mkdir(parents=True)
    place = convert.exported(run, [0])
    assert place == Run(run).ctranslate2([0]) and not old.exists()
    written = (place / "model.bin").stat().st_mtime_ns
    assert convert.exported(run, [0]) == place
    assert (place / "model.bin").stat().st_mtime_ns == written
    before = (place / "model.bin").read_bytes()
    shutil.rmtree(Run(run).checkpoint(0))
    checkpoint.write_params(
        run, parameter_shapes(Run(run).model()),
        lambda _, shape: np.full(shape.shape, 0.5, np.float32),
    )  # fmt: skip
    assert convert.exported(run, [0]) == place
    assert (place / "model.bin").read_bytes() != before
    assert [path.name for path in Run(run).exports.iterdir()] == ["0"]
    with pytest.raises(ValueError, match=r"no checkpoint .*/5; there are: 0"):
        convert.exported(run, [5])


def test_a_run_directory_that_cannot_be_written_is_named(run, monkeypatch):
    def full(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(convert, "_write", full)
    with pytest.raises(OSError, match=r"made once in the run directory: .*Read-only .*engine jax"):
        convert.exported(run, [0])
    assert list(Run(run).exports.iterdir()) == []


def reference(directory, out, *, tied, vocabulary, pad):
    """Converts a directory of Hugging Face by CTranslate2's own converter."""
    from ctranslate2.converters import TransformersConverter

    class Pieces:  # the part of a tokenizer that the converter uses
        pad_token, eos_token = vocabulary.piece(pad), vocabulary.piece(vocabulary.eos)
        unk_token = vocabulary.piece(vocabulary.unk)

        def get_vocab(self):
            return {vocabulary.piece(i): i for i in range(vocabulary.size)}

        def convert_ids_to_tokens(self, token):
            return vocabulary.piece(token)

    class Converter(TransformersConverter):
        def load_model(self, model_class, name, **options):
            model = super().load_model(model_class, name, **options)
            # transformers 5 sets True for every T5; the converter would scale logits as for T5 1.0.
            model.config.tie_word_embeddings = tied
            return model

        def load_tokenizer(self, *_, **__):
            return Pieces()

    Converter(str(directory)).convert(str(out))


@pytest.mark.parity
@pytest.mark.parametrize("family", ["T5 1.0", "T5 1.1", "mT5", "MADLAD-400", "UMT5"])
def test_the_files_are_those_of_the_converter(family, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    from mmt.convert import hf
    from mmt.data.vocabulary import Vocabulary
    from tests.helpers import hf_families

    spare = -8 if family == "mT5" else 0  # embeddings without a piece are not exported
    hf_families.make(family, tmp_path / "theirs", spare=spare)
    hf.import_hf(tmp_path / "theirs", tmp_path / "run")
    hf.export_hf(tmp_path / "run", tmp_path / "hf")
    convert.export(tmp_path / "run", tmp_path / "out")
    vocabulary, config = Vocabulary.load(tmp_path / "out/spiece.model"), Run(tmp_path / "run")
    made = config.model().config
    reference(
        tmp_path / "hf", tmp_path / "expected", tied=made.tied_logits, vocabulary=vocabulary,
        pad=made.pad_id,
    )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "expected").iterdir())
    assert names == ["config.json", "model.bin", "shared_vocabulary.json"]
    for name in names:
        assert filecmp.cmp(tmp_path / "expected" / name, tmp_path / "out" / name, shallow=False)


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
def dense_run(mmt_command, dense_toy_run):
    """A dense model that has learnt the toy corpus, and its export by `mmt export ctranslate2`."""
    pytest.importorskip("ctranslate2")
    out = dense_toy_run.parent / "ctranslate2"
    done = mmt_command("export", "ctranslate2", "--model", dense_toy_run, "--out", out)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == str(out)
    return dense_toy_run, out


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
    alike = Decoding(beam=4, alpha=1.0, penalty="length", search_style="hf", early_stopping="never")
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
