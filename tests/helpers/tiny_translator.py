"""A translator with random weights: it compiles in seconds, and translates into nonsense."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import Manifest
from mmt.model import moe, transformer
from mmt.translate import Translator

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
