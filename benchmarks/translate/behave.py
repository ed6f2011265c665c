"""How often the properties of `mmt behave` fail right translations.

    python -m benchmarks.translate.behave [CORPUS]

The first table judges the right translation of each case of CLDR, and of CORPUS. The second judges
lines of CORPUS that have two English translations, one with the other as its reference: an upper
limit, because some of them are wrong.
"""

import argparse
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

from eval import testsets
from eval.behave import cases, properties
from eval.behave.cases import BEHAVIOURS, Case
from eval.behave.material import TextPair, materials
from mmt import languages
from mmt.data import cldr, corpora

LANGUAGES = "deu rus jpn tur arb hin zho_Hans hun swh kor heb fin".split()
LINES = 60_000  # of a language's training pairs


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", help="a corpus with a test split into English")
    corpus = parser.parse_args().corpus
    codes = [languages.find(locale.replace("_", "-")).code for locale in cldr.LOCALES]
    tables = {"right translations of the cases of CLDR": of_cases(codes, None)}
    if corpus:
        testset = testsets.load(corpus)
        known = list(testset.languages)
        tables["right translations of the cases of the corpus"] = of_cases(known, testset)
        tables["second translations"] = Counter(second_translations(corpora.load(corpus)))
    for title, counts in tables.items():
        print(f"{title}\n\n| behaviour | judged | failed | share |\n|---|---:|---:|---:|")
        for name in BEHAVIOURS:
            failed, passed = counts[name, True], counts[name, False]
            if judged := failed + passed:
                print(f"| {name} | {judged:,} | {failed:,} | {failed / judged:.2%} |")
        print()


def of_cases(codes: list[str], testset: testsets.TestSet | None) -> Counter[tuple[str, bool]]:
    """Returns how many right translations fail (True), by behaviour."""
    return Counter(
        (name, bool(BEHAVIOURS[name].fault(case, case.right, case.right.lower())))
        for material in materials(codes, testset)
        for name, of_behaviour in cases.make(material, 10, list(BEHAVIOURS)).items()
        for case in of_behaviour
    )


def second_translations(corpus: corpora.Corpus) -> Iterator[tuple[str, bool]]:
    """Yields behaviour and whether it fails, of training lines with several translations."""
    known = [code for name in LANGUAGES if (code := languages.find(name).code) in corpus.languages]
    for code in known:
        english = defaultdict[str, dict[str, None]](dict)
        for pair in itertools.islice(corpus.pairs(code, "train"), LINES):
            english[pair.source][pair.target] = None
        for source, (first, *others) in english.items():
            for other in others[:1]:
                if cases.is_base(TextPair(source, first)):
                    case = Case(source, first)
                    capitals = Case(source.upper(), first.upper(), plain=source)
                    thrice = Case(source, " ".join([first] * 3))
                    yield "sentences", bool(properties.sentence(case, other, ""))
                    yield "capitals", bool(properties.alike(capitals, other.upper(), first))
                    yield "repeats", bool(properties.bounded(thrice, " ".join([other] * 3), ""))
                if cases.has_numbers(TextPair(source, first)):
                    yield "numbers", bool(properties.numbers(Case(source, first), other, ""))


if __name__ == "__main__":
    main()
