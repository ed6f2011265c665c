"""The choices of a translation: what makes no sense, lengths, and how results name them."""

import dataclasses

import pytest

from mmt.decoding import DEFAULT, Decoding


def test_a_default_keeps_its_name_and_other_options_are_named_in_full():
    assert str(DEFAULT) == "beam:4|alpha:0.8|early_stopping:unlikely"
    assert str(Decoding(early_stopping="never")) == "beam:4|alpha:0.8"
    assert str(Decoding(beam=1, alpha=0.0)) == "beam:1|alpha:0"
    assert str(Decoding(prefix="a|b", penalty="length")) == (
        "beam:4|alpha:0.8|penalty:length|early_stopping:unlikely|prefix:'a|b'"
    )
    other = {
        "beam": 2, "alpha": 0.5, "penalty": "length", "search_style": "hf", "nbest": 2, "seed": 3,
        "no_repeat_ngram": 3, "repetition_penalty": 1.2, "min_length_ratio": 0.5,
        "early_stopping": "never",
        "max_length_ratio": 3.0, "prefix": "x", "split": "sentences", "keep_placeholders": True,
        "recase_capitals": True,
    }  # fmt: skip
    sampled = {"beam": 1, "temperature": 0.7, "top_k": 5, "top_p": 0.9}
    assert {*other, *sampled} == {field.name for field in dataclasses.fields(Decoding)}
    names = [str(Decoding(**{name: value})) for name, value in other.items()]
    decoding = Decoding(beam=1, temperature=0.5)
    names += [str(dataclasses.replace(decoding, **{name: v})) for name, v in sampled.items()]
    assert len(set(names) | {str(DEFAULT)}) == len(names) + 1


def test_lengths_are_ratios_of_the_source():
    assert [DEFAULT.longest(n) for n in (1, 10)] == [18, 36]
    assert [DEFAULT.shortest(n) for n in (1, 10)] == [0, 0]
    bound = Decoding(min_length_ratio=0.75, max_length_ratio=1.25)
    assert [(bound.shortest(n), bound.longest(n)) for n in (1, 2, 10)] == [(1, 2), (2, 3), (8, 13)]
    same = Decoding(min_length_ratio=0.3, max_length_ratio=0.3)
    assert all(same.shortest(n) <= same.longest(n) for n in range(1, 99))
    most = Decoding(min_length_ratio=2.0)
    assert all(most.shortest(n) <= most.longest(n) for n in range(1, 99))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nbest": 5}, "5-best of beam size 4"),
        ({"beam": 0}, "beam size 0"),
        ({"alpha": -1.0}, "alpha -1.0"),
        ({"temperature": 0.0, "beam": 1}, "temperature 0.0; allowed: above 0"),
        ({"temperature": 1.0}, "beam must be 1, not 4"),
        ({"temperature": 1.0, "beam": 1, "nbest": 2}, "2-best of beam size 1"),
        ({"temperature": 1.0, "beam": 1, "top_p": 1.1}, "top_p 1.1"),
        ({"top_p": 0.9}, "set a temperature"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram -1"),
        ({"min_length_ratio": 1.5, "max_length_ratio": 1.0}, "1.5; allowed: 0 to 1.0, the max"),
        ({"min_length_ratio": 2.5}, "2.5; allowed: 0 to 2 .more needs a max_length_ratio"),
        ({"min_length_ratio": -0.5}, "min_length_ratio -0.5"),
        ({"max_length_ratio": 0.0}, "max_length_ratio 0.0"),
        ({"max_length_ratio": float("inf")}, "max_length_ratio inf"),
        ({"max_length_ratio": 1e9}, "max_length_ratio 1000000000.0; allowed: above 0, to 1000"),
        ({"top_k": 1.5}, "Decoding.top_k = 1.5; allowed: int$"),
        ({"beam": True}, "Decoding.beam = True; allowed: int$"),
        ({"beam": 1001}, r"beam size 1001; allowed: 1 .greedy. to 1000"),
        ({"alpha": float("inf")}, "alpha inf; allowed: 0 or more"),
        ({"prefix": "a\nb"}, r"prefix 'a\\nb'; allowed: text on one line"),
        ({"prefix": "a\n"}, "allowed: text on one line"),
        ({"split": "sentence"}, "'sentence'; nearest: sentences; allowed: long, sentences"),
        ({"early_stopping": "always"}, "early_stopping 'always'; allowed: never, unlikely"),
        ({"penalty": "google"}, "penalty 'google'; allowed: gnmt, length"),
    ],
)  # fmt: skip
def test_impossible_options_are_errors(wrong, message, as_users_have_it):
    with pytest.raises(ValueError, match=message):
        Decoding(**wrong)


def test_the_old_name_of_search_style_is_accepted_and_recorded(as_users_have_it):
    """Configurations written before say `rules`, and results rows are identified by 'rules:hf'."""
    old, new = Decoding(rules="hf"), Decoding(search_style="hf")
    assert old == new and str(new) == "beam:4|alpha:0.8|rules:hf|early_stopping:unlikely"
    assert dataclasses.replace(old, beam=2).search_style == "hf"
    assert Decoding(rules="t5x") == DEFAULT
    with pytest.raises(ValueError, match="search_style = 'hf' and Decoding.rules = 't5x' differ"):
        Decoding(search_style="hf", rules="t5x")
    with pytest.raises(ValueError, match="search_style 'fairseq'; allowed: t5x, hf"):
        Decoding(rules="fairseq")
