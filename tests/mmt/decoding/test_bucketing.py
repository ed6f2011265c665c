"""A source's hypotheses do not depend on its batch, bit for bit, after MoE training."""

import dataclasses
import threading

import numpy as np
import pytest

from mmt import train
from mmt.decoding import Decoding, bucketing
from mmt.decoding.bucketing import BucketedBatches, Source
from mmt.translate.model_search import TransformerSearch

EOS = 1
BEAM = Decoding(nbest=4, max_length_ratio=1.0)
SAMPLE = Decoding(
    beam=1, temperature=1.0, top_p=0.9, no_repeat_ngram=3, repetition_penalty=1.1,
    min_length_ratio=0.5, max_length_ratio=1.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(toy_program, toy_batches, tmp_path_factory):
    """A model whose experts had a capacity in training."""
    program, place = toy_program(moe_period=2), tmp_path_factory.mktemp("run")
    state = train.train(program, toy_batches(), model_dir=str(place), steps=30)
    return program.model, state.params


def make(trained, decoding=BEAM):
    model = TransformerSearch(*trained, vocabulary=20)
    return BucketedBatches(model, decoding, batch_size=8, longest=64, token_scores=True)


def sources(count, seed=0, longest=15):
    random = np.random.default_rng(seed)
    return [
        Source([*random.integers(2, 20, random.integers(1, longest)).tolist(), EOS])
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    "decoding", [BEAM, pytest.param(SAMPLE, marks=pytest.mark.slow)], ids=["beam", "sampling"]
)
def test_a_source_has_the_same_program_in_any_batch(trained, decoding):
    texts, search = sources(60, longest=25), make(trained, decoding).search
    together = search(texts)
    assert len({nbest[0].score for nbest in together}) > 50
    for size in (1, 7, 64):
        order = np.random.default_rng(size).permutation(60)[: 20 if size == 1 else 60]
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            for i, nbest_found in zip(batch, search([texts[i] for i in batch]), strict=True):
                assert nbest_found == together[i]


def test_short_sources_are_encoded_at_three_quarters_of_the_length(trained, monkeypatch):
    encoded, prefill = [], TransformerSearch.prefill

    def noted(self, source, limits, **options):
        encoded.append((source.shape[1], options["source_length"]))
        return prefill(self, source, limits, **options)

    monkeypatch.setattr(TransformerSearch, "prefill", noted)
    batches = make(trained)
    for tokens, lengths in ((24, [(24, 32)]), (25, [(32, 32)])):
        texts = [Source([*[7] * (tokens - 1), EOS]), Source([*[9] * 18, EOS])]
        expected = batches.search(texts)
        assert encoded == [(32, 32)]
        encoded.clear()
        found = dataclasses.replace(batches, fixed=False).search(texts)
        assert encoded == lengths
        encoded.clear()
        assert [nbest[0].tokens for nbest in found] == [nbest[0].tokens for nbest in expected]


def test_token_scores_add_up(trained):
    for nbest in make(trained).search(sources(9)):
        for best in nbest:
            assert best.tokens[-1] == EOS and len(best.tokens) == len(best.token_scores)
            total = best.score * ((5 + len(best.tokens)) / 6) ** 0.8
            np.testing.assert_allclose(total, sum(best.token_scores), rtol=1e-4)


@pytest.mark.parametrize("decoding", [BEAM, SAMPLE], ids=["beam", "sampling"])
def test_token_scores_are_kept_on_request_and_change_nothing(trained, decoding):
    search = make(trained, decoding)
    without = dataclasses.replace(search, token_scores=False).search(sources(20))
    for nbest, all_ in zip(without, search.search(sources(20)), strict=True):
        assert [(h.tokens, h.token_scores) for h in nbest] == [(o.tokens, []) for o in all_]
        np.testing.assert_allclose([o.score for o in nbest], [o.score for o in all_], rtol=1e-5)


def test_samples_depend_on_the_seed_and_the_source(trained):
    texts = sources(20)
    sampled, same, other = (
        make(trained, dataclasses.replace(SAMPLE, seed=seed)).search([*texts, *texts])
        for seed in (1, 1, 2)
    )
    assert sampled == same and sampled[:20] == sampled[20:]
    assert sum(a != b for a, b in zip(sampled, other, strict=True)) > 20


def test_prefix_and_lengths(trained):
    search = make(trained, SAMPLE).search
    for source, nbest in zip(sources(20), search(sources(20)), strict=True):
        size = len(source.tokens)
        assert 0.5 * size <= len(nbest[0].tokens) <= size
    forced = [9, 9, 9, 4] * 5  # as long as the source allows
    (nbest,) = search([Source([7] * 20 + [EOS], forced)])[0]
    assert nbest.tokens == [*forced, EOS]
    with pytest.raises(ValueError, match="prefix of 20 tokens; .* at most 20 tokens"):
        search([Source([7] * 19 + [EOS], forced)])


@pytest.mark.slow
def test_a_thousand_lines_translate_alike_in_batches_of_any_size(
    mmt_command, toy_corpus, toy_training, tmp_path
):
    """As text, by a model whose experts had a capacity in training."""
    from mmt.translate import Translator

    flags = [flag for flag in toy_training if "TRAIN_STEPS" not in flag]
    done = mmt_command(
        "train", *flags, "--gin.TRAIN_STEPS=400", f"--gin.CORPUS={toy_corpus}",
        f"--gin.MODEL_DIR={tmp_path}", MMT_DATA=str(toy_corpus.parent),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    translator = Translator.load(tmp_path)
    assert translator.model.config.moe_period and translator.model.config.dtype == "float32"
    random, words = np.random.default_rng(0), "null eins zwei drei sifuri moja zéro un deux".split()
    lines = [" ".join(random.choice(words, random.integers(1, 14))) for _ in range(1000)]
    together = [line.hypotheses[0] for line in translator.translate(lines)]
    assert len({best.text for best in together}) > 100
    same_bits = 0
    for size in (1, 7, 64):
        order = random.permutation(1000)
        for start in range(0, 1000, size):
            batch = order[start : start + size]
            translations = translator.translate([lines[i] for i in batch])
            for i, line in zip(batch, translations, strict=True):
                best = line.hypotheses[0]
                assert (best.text, best.tokens) == (together[i].text, together[i].tokens)
                np.testing.assert_allclose(best.score, together[i].score, rtol=0, atol=1e-5)
                same_bits += best == together[i]
    print(f"{same_bits} of 3000 are the same to the last bit")


@pytest.mark.parametrize("searches", [1, 3])
def test_a_single_search_runs_in_the_thread_of_its_mesh(trained, monkeypatch, searches):
    threads = []

    def noted(self, sources, bucket, numbers):
        threads.append(threading.current_thread())
        return {number: [] for number in numbers}

    monkeypatch.setattr(BucketedBatches, "_search_part", noted)
    monkeypatch.setattr(bucketing, "concurrent_searches", lambda: searches)
    make(trained).search(sources(40, longest=25))
    assert len(threads) > 1
    assert {thread is threading.current_thread() for thread in threads} == {searches == 1}


def test_searches_at_once_share_the_batches_evenly(trained, monkeypatch):
    batches, texts = make(trained), sources(40, longest=25)
    monkeypatch.setattr(bucketing, "concurrent_searches", lambda: 1)
    alone = batches.search(texts)
    monkeypatch.setattr(bucketing, "concurrent_searches", lambda: 3)
    assert batches.search(texts) == alone
    bucket = bucketing.Bucket(16, 0, 0, (0, 0, 0))
    long = bucket._replace(length=32)
    parts = batches._parts({bucket: list(range(30)), long: list(range(30, 45))})
    assert [(part.length, members[0], len(members)) for part, members in parts] == [
        (32, 30, 15), (16, 0, 16), (16, 16, 14)]  # fmt: skip
