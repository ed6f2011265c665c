"""The embedded corpus: its files, and how they are made."""

import collections
import itertools
import math
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel import dates, localedata

from mmt import languages
from mmt.data import corpora
from mmt.data.cldr import corpus as cldr
from mmt.data.cldr.phrases import schedule
from mmt.data.cldr.speaker import plain

Pairs = dict[str, dict[str, list[tuple[str, str]]]]  # split -> language -> (source, English)


@pytest.fixture(scope="module")
def pairs(cldr_folder: Path) -> Pairs:
    read: Pairs = {}
    for split in corpora.SPLITS:
        read[split] = {}
        for file in sorted((cldr_folder / split).glob("*.tsv")):
            rows = [tuple(line.split("\t")) for line in file.read_text("utf-8").splitlines()]
            assert all(len(row) == 2 and all(row) for row in rows), file
            read[split][file.stem] = rows  # type: ignore[assignment]
    return read


def every(pairs: Pairs) -> list[tuple[str, str, str, str]]:
    """(split, language, source, English) of all pairs."""
    return [
        (split, code, source, english)
        for split, of in pairs.items()
        for code, rows in of.items()
        for source, english in rows
    ]


def test_a_corpus_folder_like_any_other(cldr_folder: Path, pairs: Pairs) -> None:
    corpus = corpora.load(cldr_folder)
    corpus.validate()
    assert (corpus.name, corpus.target) == ("cldr", "eng_Latn")
    assert corpus.languages == tuple(sorted(pairs["train"]))
    assert len(corpus.languages) == len(cldr.LOCALES) >= 110
    for code in corpus.languages:
        assert languages.find(code).code == code
        assert [corpus.count(code, s) for s in corpora.SPLITS] == [
            len(pairs[s][code]) for s in corpora.SPLITS
        ]


def test_sizes_follow_a_power_law_and_test_sets_are_full(pairs: Pairs) -> None:
    sizes = {code: len(rows) for code, rows in pairs["train"].items()}
    codes = [languages.find(locale.replace("_", "-")).code for locale in cldr.LOCALES]
    ranked = [sizes[code] for code in codes]
    assert ranked == sorted(sizes.values(), reverse=True)
    assert (ranked[0], ranked[-1]) == (20_000, 100)
    slope = math.log(100 / 20_000) / math.log(len(ranked))
    for rank, size in enumerate(ranked, start=1):
        assert size == pytest.approx(20_000 * rank**slope, rel=0.01)
    assert 80_000 < sum(ranked) < 100_000
    assert {len(rows) for rows in pairs["test"].values()} == {100}
    assert {len(rows) for rows in pairs["validation"].values()} == {50}
    large = {"deu_Latn", "fra_Latn", "zho_Hans", "rus_Cyrl", "jpn_Jpan"}
    assert large < set(codes[:10]) and "gla_Latn" not in codes[:60]


def test_no_held_out_english_is_in_any_training_data(pairs: Pairs) -> None:
    def loose(text: str) -> str:
        folded = unicodedata.normalize("NFKD", text).casefold()
        return "".join(c for c in folded if c.isalnum())  # blind to case, accents, punctuation

    exact = {
        split: {english for rows in of.values() for _, english in rows}
        for split, of in pairs.items()
    }
    near = {split: {loose(english) for english in them} for split, them in exact.items()}
    for first, other in (("train", "test"), ("train", "validation"), ("validation", "test")):
        assert not exact[first] & exact[other]
        # Without its points and spaces "1.15 euros" is "115 euros": only words must differ truly.
        assert not {t for t in near[first] & near[other] if not re.search(r"\d", t)}
    held_out = exact["test"] | exact["validation"]
    spaced = {" ".join(text.casefold().split()) for text in held_out}
    assert not spaced & {" ".join(text.casefold().split()) for text in exact["train"]}


def test_no_source_twice_and_no_equal_sides(pairs: Pairs) -> None:
    seen: set[tuple[str, str]] = set()
    for _, code, source, english in every(pairs):
        assert " ".join(source.casefold().split()) != " ".join(english.casefold().split())
        assert (code, source.casefold()) not in seen, (code, source)
        seen.add((code, source.casefold()))


def test_nothing_that_cldr_fills_in_for_lack_of_words(pairs: Pairs) -> None:
    keys = set(localedata.load("en")["unit_patterns"])
    gap = re.compile(
        r"\b[MQ]\d\d?\b"  # the root's months and quarters
        r"|[{}¤↑�]|\b(?:ZZ|XXX|Zzzz|Zyyy)\b"  # patterns, unknown codes
        r"|(?:^| )[+-]\d+ "  # the root's relative times, "+3 h"
    )
    unit = re.compile(r"\b[a-z]+(?:-[a-z]+)+\b")
    for split, code, source, english in every(pairs):
        for text in (source, english):
            assert not gap.search(text), (split, code, text)
            assert not keys.intersection(unit.findall(text)), (split, code, text)


def test_texts_are_as_people_type_them(pairs: Pairs) -> None:
    spelling = "\u200c\u200d\u070f"  # joiners, and Syriac's abbreviation mark
    for _, code, source, english in every(pairs):
        for text in (source, english):
            assert text == unicodedata.normalize("NFC", " ".join(text.split())), (code, text)
            kinds = {unicodedata.category(c): c for c in text if c not in spelling}
            assert not {"Cc", "Cf", "Co", "Cn", "Zl", "Zp"} & kinds.keys(), (code, text, kinds)


def test_other_scripts_have_no_untranslated_words(pairs: Pairs) -> None:
    """But clock halves, units' and currencies' symbols, which are Latin in many scripts.

    And but for the quarters' ordinals, which CLDR's Cherokee has as "3rd".
    """
    international = re.compile(r"[A-Z]{1,4}|am|pm|st|nd|rd|th")
    for _, code, source, english in every(pairs):
        if not code.endswith("_Latn"):
            words = [word for word in re.findall(r"[^\W\d_]+", source) if word.isascii()]
            assert all(international.fullmatch(w) for w in words), (code, source, english)


def test_every_language_has_its_own_months_and_weekdays(pairs: Pairs) -> None:
    """Babel's names, which are not the root's."""
    root = localedata.load("root")["months"]["format"]["wide"]
    for locale in cldr.LOCALES:
        months = [
            dates.get_month_names(width, context, locale=locale)
            for width in ("wide", "abbreviated")
            for context in ("format", "stand-alone")
        ]
        assert not set(months[0].values()) & set(root.values())
        names = [plain(names[3]).casefold() for names in months]
        code = languages.find(locale.replace("_", "-")).code
        march = [s.casefold() for s, e in pairs["train"][code] if re.search(r"\bMarch \d+, 20", e)]
        march = [text for text in march if not re.search(r"\d-03-\d|– 03-\d", text)]  # ISO's form
        named = [text for text in march if any(name in text for name in names)]
        assert len(named) >= 0.8 * len(march), (code, names, march[:3])


def test_test_sets_are_comparable(pairs: Pairs) -> None:
    """The same pool and mix: most sentences are shared, and every set has the large kinds."""
    common = collections.Counter(e for rows in pairs["test"].values() for _, e in rows)
    kinds = {
        r"(ago|^in \d.*)$": 2,
        r"^[\d,.]+ [a-z]": 10,
        r"\d{4}": 10,
        r"–": 6,
        r"( and | or )": 6,
        r"day\b": 6,
        r"^[A-Z][\w’. ]+$": 1,
    }
    for code, rows in pairs["test"].items():
        shared = sum(common[english] > len(pairs["test"]) / 2 for _, english in rows)
        assert shared >= 50, (code, shared)
        for pattern, least in kinds.items():
            matches = sum(bool(re.search(pattern, english)) for _, english in rows)
            assert matches >= least, (code, pattern, matches)


SMALL = """
import sys
from collections.abc import Iterator
from pathlib import Path
from mmt.data.cldr import corpus
corpus.LOCALES = ("sw", "th", "trw")
corpus.LARGEST = 300
print(corpus.ensure(Path(sys.argv[1])))
"""


def generate(root: Path, seed: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SMALL, str(root)],
        env=os.environ | {"PYTHONHASHSEED": seed},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_same_in_every_process_and_safe_when_two_start_at_once(tmp_path: Path) -> None:
    runs = [generate(tmp_path / root, seed) for root, seed in (("a", "1"), ("a", "2"), ("b", "3"))]
    outputs = [run.communicate(timeout=120)[0].strip() for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert outputs[0] == outputs[1] and Path(outputs[0]).name == Path(outputs[2]).name
    assert [child.name for child in (tmp_path / "a").iterdir()] == [Path(outputs[0]).name]
    files = [sorted(p for p in Path(out).rglob("*") if p.is_file()) for out in outputs[1:]]
    assert len(files[0]) == 10
    for file, other in zip(*files, strict=True):
        assert file.read_bytes() == other.read_bytes()


def few_held_out(weights: dict[str, int]) -> Iterator[str]:
    """Enough phrases to hold out of for a language or two: all of them take a while to draw."""
    return itertools.islice(schedule(weights), 4000)


def test_made_once_and_never_half(
    cldr_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {p: p.stat().st_mtime_ns for p in cldr_folder.rglob("*")}
    assert cldr.ensure(cldr_folder.parent) == cldr_folder
    assert before == {p: p.stat().st_mtime_ns for p in cldr_folder.rglob("*")}

    def interrupted(rank: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cldr, "schedule", few_held_out)
    monkeypatch.setattr(cldr, "train_size", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cldr.ensure(tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


def test_a_language_without_enough_data_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cldr, "schedule", few_held_out)
    monkeypatch.setattr(cldr, "LOCALES", ("sw", "io"))
    monkeypatch.setattr(cldr, "LARGEST", 120)
    assert corpora.load(cldr.ensure(tmp_path)).languages == ("swh_Latn",)
    assert "omitted ido_Latn" in capsys.readouterr().err
