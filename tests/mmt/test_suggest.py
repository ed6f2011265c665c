"""Which names an error message suggests, and in what words."""

import pytest

from mmt import suggest

NAMES = ("encoder_layers", "decoder_layers", "emb_dim")


def test_the_closest_name_is_the_one_spelled_most_alike():
    assert suggest.closest_name("encoder_layer", NAMES) == "encoder_layers"
    assert suggest.closest_names("encoder_layer", NAMES) == ["encoder_layers", "decoder_layers"]


def test_a_name_unlike_all_others_has_no_closest_name():
    assert suggest.closest_name("qqq", NAMES) is None
    assert suggest.closest_names("qqq", NAMES) == []
    assert suggest.hint("qqq", NAMES) == suggest.hint_by_end("qqq", NAMES) == ""


def test_a_cutoff_of_zero_always_suggests():
    assert suggest.closest_name("qqq", NAMES, cutoff=0.0) in NAMES
    assert suggest.closest_name("qqq", (), cutoff=0.0) is None


def test_a_hint_is_the_end_of_a_message():
    assert suggest.hint("emb_dims", NAMES) == "; nearest: emb_dim"
    assert suggest.hint("encoder_layer", NAMES, 2) == "; nearest: encoder_layers, decoder_layers"
    assert suggest.hint("emb_dims", NAMES, show=repr) == "; nearest: 'emb_dim'"


@pytest.mark.parametrize("written", ["emb_dims", "Confg.emb_dim", "a.Config.emb_dims"])
def test_a_dotted_name_may_lack_its_beginning(written):
    names = ["a.Config.emb_dim", "a.Config.vocab_size"]
    assert suggest.hint_by_end(written, names) == "; nearest: a.Config.emb_dim"


def test_choices_name_the_nearest_before_what_is_allowed():
    allowed = "allowed: encoder_layers, decoder_layers, emb_dim"
    assert suggest.choices("emb_dims", NAMES) == f"nearest: emb_dim; {allowed}"
    assert suggest.choices("qqq", iter(NAMES)) == allowed
