"""Names of corpora are found by entry, glob or folder; overlap is counted by test set."""

import pytest

from mmt.data.cache.origins import CorpusOrigin, check_corpora, in_corpora


def test_a_corpus_is_an_entry_or_a_file_of_a_glob():
    names = ["news/a.tmx", "news/b.tmx", "newsletter", "web"]
    assert [name for name in names if in_corpora(name, ["news"])] == names[:2]
    assert [name for name in names if in_corpora(name, ["news/b.tmx", "web"])] == names[1::2]
    check_corpora(["news", "news/a.tmx", "web"], names)


def test_an_unknown_corpus_is_an_error_with_the_nearest():
    with pytest.raises(ValueError, match="no corpus 'wep' .* known: books, web; nearest: web"):
        check_corpora(["wep"], ["web", "books"])
    with pytest.raises(ValueError, match="the cache names no corpora .* build it again"):
        check_corpora(["web"], [])


def test_a_pair_that_overlaps_two_test_sets_counts_for_both():
    origin = CorpusOrigin(
        "deu_Latn", "web", read=10, kept=3, tests=["flores", "own test", "ntrex"],
        dropped={"overlap: flores + own test": 2, "overlap: flores": 4, "duplicates": 1},
    )  # fmt: skip
    assert origin.overlap == {"flores": 6, "own test": 2, "ntrex": 0}


@pytest.mark.parametrize("names", ["web", [5]])
def test_what_is_no_list_of_names_is_an_error(names, as_users_have_it):
    with pytest.raises(ValueError, match=r"corpora to leave out: .*; allowed: a list"):
        check_corpora(names, ["web"])
