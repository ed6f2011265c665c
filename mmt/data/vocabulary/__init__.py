"""SentencePiece vocabularies: trained on a temperature-sampled stream, loaded, used."""

from mmt.data.vocabulary.sentencepiece_model import (
    EOS,
    PAD,
    SENTINELS,
    UNK,
    Tokeniser,
    Vocabulary,
    sentinel,
)
from mmt.data.vocabulary.tags import find_tag, source_prefix, tag, tag_of
from mmt.data.vocabulary.training import (
    BACK_TRANSLATED,
    SIDES,
    quotas,
    source_text,
    train,
    training_texts,
)

__all__ = [
    "BACK_TRANSLATED",
    "EOS",
    "PAD",
    "SENTINELS",
    "SIDES",
    "UNK",
    "Tokeniser",
    "Vocabulary",
    "find_tag",
    "quotas",
    "sentinel",
    "source_prefix",
    "source_text",
    "tag",
    "tag_of",
    "train",
    "training_texts",
]
