"""Made-up languages: words of letters with their own frequencies."""

import numpy as np

ALPHABETS = {
    "deu_Latn": "aeeinrstdhulä", "fin_Latn": "aaiioekkltnyö", "rus_Cyrl": "оеаинтсрвлкмд",
    "eng_Latn": "ethoainsrwgcf",
}  # fmt: skip


def lines(seed: int = 0, count: int = 200, codes: tuple[str, ...] = tuple(ALPHABETS)):
    """Lines of 1 to 12 words, by language; each language has 300 words."""
    made = {}
    for place, code in enumerate(codes):
        vocabulary = np.random.default_rng(100 + place)
        letters = list(ALPHABETS[code])
        sizes = vocabulary.integers(2, 9, 300)
        words = ["".join(vocabulary.choice(letters, size)) for size in sizes]
        random = np.random.default_rng([seed, place])
        made[code] = [" ".join(random.choice(words, random.integers(1, 13))) for _ in range(count)]
    return made
