"""Examples have one pronoun and a context; likelihoods are the model's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eval import contrastive
from mmt.data import corpora
from mmt.data.pair import Pair
from tests.helpers.tiny_translator import make, train_vocabulary

DOCUMENT = [
    ("Die Tür ist zu.", "The door is closed."),
    ("Sie klemmt.", "It is stuck."),
    ("Eva kommt.", "Eva comes."),
    ("Sie hilft.", "Then she helps."),
    ("Er sieht sie.", "He sees her."),  # two pronouns
    ("Er sagt, sie geht.", "He says she goes."),
]


def pairs():
    for number, (source, target) in enumerate(DOCUMENT):
        yield Pair(source, target, "deu_Latn", "talk", number + 1, follows=number not in (0, 2))


def test_examples_have_one_pronoun_and_a_context():
    stuck, helps = contrastive.examples(pairs(), 2)
    assert (stuck.pronoun, stuck.changed) == ("it", ("He is stuck.", "She is stuck."))
    assert stuck.source.joined == "Die Tür ist zu. ||| Sie klemmt."
    assert (helps.pronoun, helps.changed) == ("she", ("Then he helps.", "Then it helps."))
    assert helps.target.joined == "Eva comes. ||| Then she helps."  # not of the document before
    assert not list(contrastive.examples((p._replace(follows=False) for p in pairs()), 2))


def test_accuracies_are_compared_by_pairs():
    alone = {"he": [True, False], "it": [False] * 8}
    result = contrastive.PronounAccuracy(alone, {"he": [False, True], "it": [True] * 8})
    assert result.p_value() == pytest.approx(2 * (1 + 10) / 2**10)  # nine gained, one lost
    assert result.table().splitlines()[1:4] == [
        "he\t2\t50.0\t50.0", "it\t8\t0.0\t100.0", "all\t10\t10.0\t90.0"
    ]  # fmt: skip
    assert contrastive.PronounAccuracy(alone, alone).p_value() == 1


def test_likelihoods_are_those_of_single_rows(tmp_path):
    vocabulary = train_vocabulary(tmp_path)
    translator = make(vocabulary, spare=3, batch_size=2)
    texts = [("eins zwei", "drei"), ("vier", "elf zwölf fünf Montag")]
    apply = jax.jit(translator.model.apply)
    expected = []
    for source, target in texts:
        ids = [*vocabulary.encode(f"<2eng> {source}"), 1], [*vocabulary.encode(target), 1]
        sources, targets = (jnp.array([each], jnp.int32) for each in ids)
        inputs = jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1]
        logits = np.asarray(apply({"params": translator.params}, sources, inputs), np.float64)
        rows = logits[0, :, : vocabulary.size]
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        expected.append(sum(rows[i, token] for i, token in enumerate(ids[1])))
    found = contrastive.log_likelihoods(translator, texts)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    (tmp_path / "corpus.toml").write_text('[test]\ndeu = "a.tsv"\n')
    (tmp_path / "a.tsv").write_text("".join("\t".join(pair) + "\n" for pair in DOCUMENT))
    with pytest.raises(ValueError, match="no test pair of de with one of he, she, it behind"):
        contrastive.pronouns(translator, corpora.load(tmp_path), "de")
    with pytest.raises(ValueError, match="is into deu_Latn; allowed: eng_Latn"):
        (tmp_path / "corpus.toml").write_text('target = "deu"\n[test]\nfra = "a.tsv"\n')
        contrastive.pronouns(translator, corpora.load(tmp_path), "fra")
