"""Texts of the tests of vocabularies, and models with the ids of other programs."""

import io

import sentencepiece

from mmt import languages

TAGS = ["<2eng>", "<2deu>"]
TEXTS = [
    text
    for language in languages.all_languages()
    for text in (f"<2eng> {language.native} ({language.code})", f"{language.name} 1,234.50")
]


def foreign(*tags, **options) -> bytes:
    """A model with the ids of MADLAD-400: unk 0, no pad, the end 2."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=1500, hard_vocab_limit=False,
        minloglevel=2, user_defined_symbols=list(tags), num_threads=1, **options,
    )  # fmt: skip
    return model.getvalue()
