"""A cleaner's outcomes, what a tally keeps of them, and the sets that must not be trained on."""

from collections import Counter

from mmt.data import corpora
from mmt.data.cleaning import cascade, rulebook
from mmt.data.cleaning.cascade import Cleaner, Tally
from mmt.data.cleaning.rules import About, Dropped
from mmt.data.pair import Pair

ABOUT = About("deu_Latn", "eng_Latn")


def pair(source, target="a target", line=1):
    return Pair(source, target, "deu_Latn", "made_up", line)


def test_rules_follow_one_another_and_the_first_that_drops_is_named():
    settings = {"encoding": {}, "normalise": {}, "length": {"words": 3}, "numbers": {}}
    cleaner = Cleaner(settings, ABOUT)
    result, changed = cleaner(pair("Ã¼ber  Nacht"))
    assert (result.source, result.line, changed) == ("über Nacht", 1, ("encoding", "normalise"))
    assert cleaner(pair("1 2 3 4", "5")).result.reason == "length: long"
    assert [name for name, _ in cleaner.steps(pair("1 2 3 4"))] == [
        "empty", "encoding", "normalise", "length",
    ]  # fmt: skip


def test_an_empty_side_is_dropped_whatever_the_rules():
    for settings in ({}, {"normalise": {}, "length": {"characters": (1, 9)}}):
        cleaner = Cleaner(settings, ABOUT)
        for one in (pair(""), pair("a", " \u00a0"), pair("\x00 " if settings else "\t")):
            assert cleaner(one).result.reason == "empty"
            assert list(cleaner.steps(one))[-1][1] == cleaner(one).result


def test_a_tally_counts_all_and_its_examples_do_not_depend_on_the_order():
    cleaner = Cleaner({"normalise": {}, "numbers": {}}, ABOUT)
    pairs = [pair(f"{line} und", f"{line + line % 2}  and", line) for line in range(1, 101)]
    tallies = [Tally(), Tally()]
    for tally, order in zip(tallies, (pairs, pairs[::-1]), strict=True):
        for one in order:
            tally.add(one, cleaner(one))
    one, other = tallies
    assert (one.read, one.kept, one.dropped, one.changed) == (
        100, 50, {"numbers": 50}, {"normalise": 100},
    )  # fmt: skip
    assert one.examples == other.examples
    assert {reason: len(found) for reason, found in one.examples.items()} == {
        "numbers": 5, "changed: normalise": 5,
    }  # fmt: skip
    assert Tally.from_json(one.to_json()).examples == one.examples
    halves = [Tally(), Tally()]
    for place, each in enumerate(pairs):
        halves[place % 2].add(each, cleaner(each))
    both = halves[0].plus(halves[1])
    assert both.examples == one.examples and both.dropped == one.dropped


def test_a_later_stage_moves_pairs_from_kept_to_dropped():
    tally = Tally()
    pairs = [pair(str(line), "a target", line) for line in range(9)]
    for one in pairs:
        tally.add(one, cascade.Outcome(one))
    cleaner = Cleaner({"one_side": {"most": 4}}, About("deu_Latn", "eng_Latn", pairs=9))
    assert list(tally.filtered(pairs, cleaner)) == pairs[:4]
    assert (tally.read, tally.kept, tally.dropped) == (9, 4, {"one_side": 5})


def test_the_corpus_own_splits_are_test_sets(toy_corpus):
    corpus = corpora.load(toy_corpus)
    found = cascade.test_sets(corpus, {"given": {"deu_Latn": ["eins"]}})
    assert found["given"] == {"deu_Latn": ["eins"]}
    for split in corpora.SPLITS[1:]:
        own = found[f"{corpus.name} {split}"]
        for code in corpus.files[split]:
            assert own[code] == [one.source for one in corpus.pairs(code, split)]
        targets = Counter(one.target for code in corpus.files[split]
                          for one in corpus.pairs(code, split))  # fmt: skip
        assert set(own[corpus.target]) == set(targets)


def test_rules_given_go_before_the_corpus_own_and_these_before_the_default(toy_corpus, tmp_path):
    corpus = corpora.load(toy_corpus)
    assert cascade.rules_of(corpus) is rulebook.DEFAULT
    given = rulebook.Rulebook({"": {}}, {"": ""})
    assert cascade.rules_of(corpus, given) is given


def test_explaining_stops_where_the_pair_is_dropped(toy_corpus):
    corpus = corpora.load(toy_corpus)
    code = corpus.languages[0]
    text = cascade.explain(corpus, ("  ", "x"), code, book=rulebook.DEFAULT, tests={})
    assert "drops it, 'empty': the source is empty" in text and "length" not in text
    assert isinstance(Dropped("a"), tuple)
