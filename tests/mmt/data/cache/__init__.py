"""A small cache of made-up token ids."""

from mmt.data import cache


def made_up(count: int, first: int = 3):
    """Examples that encode their index."""
    return lambda: (([first, 10 + i % 100, 300 + i // 100], [i % 500]) for i in range(count))


EXAMPLES = {
    ("train", "swh_Latn"): made_up(250),
    ("train", "deu_Latn"): made_up(1000),
    ("validation", "deu_Latn"): made_up(3),
    ("validation", "swh_Latn"): made_up(0),
}


def build(directory, models, examples=EXAMPLES, **changes):
    described = {"name": "toy", "target": "eng_Latn", "corpus_hash": "c0ffee"} | changes
    return cache.build(directory, examples, vocabularies=models, **described)
