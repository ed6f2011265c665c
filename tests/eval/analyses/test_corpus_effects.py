"""The effect of a corpus: differences of scores, with intervals of the paired bootstrap."""

import numpy as np
import pytest

from eval import metrics
from eval.analyses import corpus_effects, significance
from mmt.data.cache.manifest import Manifest
from tests.eval.analyses.test_update import write

MANIFEST = Manifest(
    name="numbers", target="eng_Latn", languages=("deu_Latn", "fra_Latn", "swh_Latn", "yor_Latn"),
    counts={"train": {"deu_Latn": 9, "fra_Latn": 5, "swh_Latn": 2, "yor_Latn": 4}}, corpus_hash="1",
    vocabulary_hash={}, vocabulary_size={},
    corpora={"train": {
        "deu_Latn": [["news/a", 3], ["web", 4], ["news/b", 2]], "swh_Latn": [["news/a", 2]],
        "fra_Latn": [["web", 5]], "yor_Latn": [["web", 3], ["news/a", 1]],
    }},
)  # fmt: skip
SEEDS = {"deu_Latn": 1, "fra_Latn": 2, "swh_Latn": 3, "yor_Latn": 4}


@pytest.fixture(scope="module")
def effects(tmp_path_factory):
    """The effects of the corpus `news`, by group and language; without it all are worse."""
    file = tmp_path_factory.mktemp("effects") / "results.jsonl"
    for source, seed in SEEDS.items():
        write(file, "whole", "multilingual", 0.1, source=source, seed=seed)
        write(file, "without:news", "multilingual", 0.3, source=source, seed=seed)
    write(file, "other", "multilingual", 0.2)
    made = corpus_effects.effects(file, "whole", {"news": "without:news"}, MANIFEST)
    return {(effect.group, effect.source): effect for effect in made}


def test_languages_are_grouped_by_what_they_have_of_the_corpus(effects):
    assert set(effects) == {
        ("with", "deu_Latn"), ("with", "yor_Latn"), ("with", ""), ("only", "swh_Latn"),
        ("only", ""), ("others", "fra_Latn"), ("others", ""),
    }  # fmt: skip
    assert effects["with", "deu_Latn"].pairs == 5 and effects["with", ""].pairs == 6
    assert effects["with", ""].languages == 2 and effects["others", ""].pairs == 0
    for effect in effects.values():
        assert (effect.system, effect.against, effect.corpus) == ("whole", "without:news", "news")
        assert effect.bleu_low < effect.bleu < effect.bleu_high and effect.bleu_low > 0


def test_the_effect_of_a_language_is_the_difference_of_its_scores(effects, tmp_path):
    """The interval equals that of a paired test, which equals sacreBLEU's."""
    ours = write(tmp_path / "r.jsonl", "whole", "multilingual", 0.1, seed=1)
    theirs = write(tmp_path / "r.jsonl", "without:news", "multilingual", 0.3, seed=1)
    effect = effects["with", "deu_Latn"]
    assert effect.bleu == pytest.approx(ours.bleu - theirs.bleu, abs=1e-4)
    assert effect.chrf == pytest.approx(ours.chrf - theirs.chrf, abs=1e-4)


def test_the_effect_of_a_group_is_a_mean_with_the_interval_of_the_mean(effects):
    """Against a bootstrap that draws sentences and scores them by `metrics`, one by one."""
    both = [effects["with", code] for code in ("deu_Latn", "yor_Latn")]
    whole = effects["with", ""]
    assert whole.bleu == pytest.approx(np.mean([effect.bleu for effect in both]), abs=1e-3)
    width = whole.bleu_high - whole.bleu_low
    assert width < np.mean([effect.bleu_high - effect.bleu_low for effect in both])


def test_the_interval_is_that_of_resampled_sentences():
    from tests.helpers.translations import judged, texts

    pairs = [
        (judged("a", *texts(seed, 0.1)), judged("b", *texts(seed + 5, 0.25))) for seed in (1, 2)
    ]
    made = significance.mean_difference(pairs)
    rng = np.random.default_rng(significance.SEED)
    count = len(pairs[0][0].bleu)
    means = []
    for drawn in rng.choice(count, size=(significance.RESAMPLES, count), replace=True):
        scores = [[metrics.bleu(side.bleu[drawn].sum(axis=0)) for side in pair] for pair in pairs]
        means.append(np.mean([ours - theirs for ours, theirs in scores]))
    low, high = np.sort(means)[[25, -26]]
    assert (made["bleu_low"], made["bleu_high"]) == pytest.approx((low, high), abs=1e-3)


def test_a_system_without_texts_has_no_effect(tmp_path):
    file = tmp_path / "results.jsonl"
    write(file, "whole", "multilingual", 0.1)
    assert corpus_effects.effects(file, "whole", {"news": "without:news"}, MANIFEST) == []
