"""A translator with random weights: it compiles in seconds, and translates into nonsense. And one
without a model, which translates and aligns at random.
"""

import random
import re

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import Manifest
from mmt.model import moe, transformer
from mmt.translate import Hypothesis, Translation, Translator
from mmt.translate.alignment import Alignment

WORDS = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf Montag Dienstag".split()
ROUTING = ("encoder_routing", "decoder_routing")


def train_vocabulary(folder):
    """A vocabulary of WORDS, trained into a folder."""
    path = folder / "vocabulary.model"
    texts = [f"<2eng> {a} {b}, {c}." for a in WORDS for b in WORDS for c in WORDS[::3]]
    vocab.train(texts, path, size=360, tags=["<2eng>"])
    return vocab.Vocabulary.load(path)


def make(vocabulary, *, moe_period=0, spare=0, seed=0, languages=0, manifest=None, **options):
    """A translator; `spare` embeddings have no piece in the vocabulary."""
    model = transformer.Transformer(
        transformer.Config(
            vocab_size=vocabulary.size + spare, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
            encoder_layers=1, decoder_layers=2, moe_period=moe_period,
            moe=moe.MoeConfig(num_experts=4), mlp_activations=("relu",), languages=languages,
            **dict.fromkeys(ROUTING, "language" if languages else "token"),
        )
    )  # fmt: skip
    tokens = jnp.ones((1, 4), jnp.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(seed), tokens, tokens)["params"])
    if languages:  # clear preferences
        params = jax.tree_util.tree_map_with_path(
            lambda path, leaf: leaf * 10 if path[-1].key == "router" else leaf, params
        )
    facts = {"target": "eng_Latn", "languages": ("deu_Latn", "swh_Latn")} | (manifest or {})
    manifest = Manifest(
        name="toy", counts={"train": {}}, **facts,
        corpus_hash="", vocabulary_hash=dict.fromkeys(["source", "target"], vocabulary.hash),
        vocabulary_size=dict.fromkeys(["source", "target"], vocabulary.size),
    )  # fmt: skip
    both = {"source": vocabulary, "target": vocabulary}
    options = {"batch_size": 4, "max_source_length": 32} | options
    return Translator(model, params, vocabularies=both, manifest=manifest, **options)


def word_alignment(source, target, links):
    """Each target word attends to one source word."""
    spans = [[m.span() for m in re.finditer(r"\S+", text)] for text in (source, target)]
    weights = np.zeros((len(spans[1]), len(spans[0])), np.float32)
    for place, linked in enumerate(links):
        weights[place, linked] = 1
    return Alignment(tuple(spans[0]), tuple(spans[1]), weights)


class RandomTranslator(Translator):
    """Translates sentences into any words, and aligns them in any way."""

    def __init__(self, seed):
        vars(self).update(seen=[], aligned=[], random=random.Random(seed))

    def translate(self, lines, *, decoding, **options):
        self.seen.append(lines)
        for line in lines:
            words = self.random.choices(["ja", "nein", "<", "&", "三", ","], k=len(line) % 5)
            yield Translation(line, (Hypothesis(" ".join(words), 0.0),))

    def align(self, pairs, **options):
        self.aligned.append(pairs)
        return [self._alignment(*pair) for pair in pairs]

    def _alignment(self, source, target):
        size = len(source.split())
        return word_alignment(source, target, [self.random.randrange(size) for _ in target.split()])
