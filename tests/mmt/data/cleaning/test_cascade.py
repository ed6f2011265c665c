"""A cleaner's outcomes, what a tally keeps of them, and the sets that must not be trained on."""

from collections import Counter

from mmt.data import corpora
from mmt.data.cleaning import cascade, rulebook
from mmt.data.cleaning.cascade import Cleaner, Tally
from mmt.data.cleaning.rules import Dropped, RuleContext
from mmt.data.pair import Pair

ABOUT = RuleContext("deu_Latn", "eng_Latn")


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
        invisible = pair(""), pair("a", " \u00a0"), pair("\u200b", "a"), pair("\x00 "), pair("\t")
        for empty in invisible:
            assert cleaner(empty).result.reason == "empty"
            assert list(cleaner.steps(empty))[-1][1] == cleaner(empty).result


def test_a_tally_counts_all_and_its_examples_do_not_depend_on_the_order():
    cleaner = Cleaner({"normalise": {}, "numbers": {}}, ABOUT)
    pairs = [pair(f"{line} und", f"{line + line % 2}  and", line) for line in range(1, 101)]
    tallies = [Tally(), Tally()]
    for tally, order in zip(tallies, (pairs, pairs[::-1]), strict=True):
        for each in order:
            tally.add(each, cleaner(each))
    forward, backward = tallies
    assert (forward.read, forward.kept, forward.dropped, forward.changed) == (
        100, 50, {"numbers": 50}, {"normalise": 100},
    )  # fmt: skip
    assert forward.examples == backward.examples
    assert {reason: len(examples) for reason, examples in forward.examples.items()} == {
        "numbers": 5, "changed: normalise": 5,
    }  # fmt: skip
    assert Tally.from_json(forward.to_json()).examples == forward.examples
    halves = [Tally(), Tally()]
    for place, each in enumerate(pairs):
        halves[place % 2].add(each, cleaner(each))
    both = halves[0].plus(halves[1])
    assert both.examples == forward.examples and both.dropped == forward.dropped


def test_an_example_of_every_rule_that_changed_a_pair_has_the_new_text():
    dirty, tally = pair("Ã¼ber  Nacht"), Tally()
    tally.add(dirty, Cleaner({"encoding": {}, "normalise": {}}, ABOUT)(dirty))
    example = [(1, "Ã¼ber  Nacht", "a target", "now über Nacht")]
    assert tally.examples == {"changed: encoding": example, "changed: normalise": example}


def test_a_later_stage_moves_pairs_from_kept_to_dropped():
    tally = Tally()
    pairs = [pair(str(line), "a target", line) for line in range(9)]
    for counted in pairs:
        tally.add(counted, cascade.Outcome(counted))
    cleaner = Cleaner({"one_side": {"most": 4}}, RuleContext("deu_Latn", "eng_Latn", pairs=9))
    assert list(tally.filtered(pairs, cleaner)) == pairs[:4]
    assert (tally.read, tally.kept, tally.dropped) == (9, 4, {"one_side": 5})


def test_the_corpus_own_splits_are_test_sets(toy_corpus):
    corpus = corpora.load(toy_corpus)
    testsets = cascade.test_sets(corpus, {"given": {"deu_Latn": ["eins"]}})
    assert testsets["given"] == {"deu_Latn": ["eins"]}
    for split in corpora.SPLITS[1:]:
        sentences = testsets[f"{corpus.name} {split}"]
        for code in corpus.files[split]:
            assert sentences[code] == [each.source for each in corpus.pairs(code, split)]
        targets = Counter(each.target for code in corpus.files[split]
                          for each in corpus.pairs(code, split))  # fmt: skip
        assert set(sentences[corpus.target]) == set(targets)


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
