"""The experts' figure: languages that share experts stand together, and all numbers are shown."""

import dataclasses

import numpy as np
import pytest

from eval.records import analysis
from eval.report.figures import drawing
from eval.report.figures import routing as figures_routing
from mmt import languages
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import titles


def routing(source, load, layer="encoder.1", **changes):
    return analysis.ExpertLoad(**{
        "system": "moe", "checkpoint": "moe/1", "testset": "bible", "layer": layer,
        "source": source, "load": tuple(load), "drop_rate": 0.1, "entropy": 0.5, "tokens": 9,
        **changes,
    })  # fmt: skip


LOADS = {"deu_Latn": (0.7, 0.2, 0.1), "swh_Latn": (0.0, 0.1, 0.9), "nld_Latn": (0.6, 0.3, 0.1),
         "zul_Latn": (0.1, 0.0, 0.9)}  # fmt: skip


def test_what_languages_share_is_the_overlap_of_their_loads():
    rows = [routing(code, load) for code, load in LOADS.items()]
    rows += [routing(code, load[::-1], "decoder.1") for code, load in LOADS.items()]
    layers = figures_routing.layers(rows)
    assert list(layers.by_layer) == ["encoder.1", "decoder.1"] and len(layers.codes) == 4
    shared = figures_routing.shared(layers)
    for i, language in enumerate(layers.codes):
        for j, other in enumerate(layers.codes):
            expected = sum(min(a, b) for a, b in zip(LOADS[language], LOADS[other], strict=True))
            assert shared[i, j] == pytest.approx(expected)
    np.testing.assert_allclose(np.diag(shared), 1)


def test_neighbours_in_the_tree_share_experts():
    rows = [routing(code, load) for code, load in LOADS.items()]
    order = figures_routing.tree(figures_routing.layers(rows))
    assert {frozenset(order.codes[:2]), frozenset(order.codes[2:])} == {
        frozenset({"deu_Latn", "nld_Latn"}), frozenset({"swh_Latn", "zul_Latn"}),
    }  # fmt: skip
    assert len(order.lines) == 3  # a join less than languages
    places = sorted({place for _, at in order.lines for place in at if place == int(place)})
    assert places == [0, 1, 2, 3], "the lines end at the rows"


@pytest.mark.parametrize("count", [1, 2])
def test_few_languages_need_no_tree(count):
    rows = [routing(code, load) for code, load in list(LOADS.items())[:count]]
    (figure,) = figures_routing.experts("moe", rows)
    assert len(titles(drawing.svg(figure))) == count


def test_languages_without_a_layer_are_left_out_and_counted():
    rows = [routing(code, load) for code, load in LOADS.items()]
    rows += [routing(code, load, "decoder.1") for code, load in list(LOADS.items())[1:]]
    layers = figures_routing.layers(rows)
    assert len(layers.codes) == 3 and layers.left_out == 1
    (figure,) = figures_routing.experts("moe", rows)
    assert "languages left out: 1" in figure.get_suptitle()
    assert not figures_routing.experts("moe", [rows[0], rows[4]])


def test_a_layer_has_one_number_of_experts():
    rows = [routing("deu_Latn", (0.5, 0.5)), routing("swh_Latn", (1.0,))]
    with pytest.raises(ValueError, match=r"encoder.1: load of swh_Latn has 1 experts, of deu_.* 2"):
        figures_routing.layers(rows)


def test_a_figure_shows_every_load_once():
    rows = [item for item in made_up(5, ("dense", "moe"))[1] if item.kind == "routing"]
    (figure,) = figures_routing.experts("moe", rows)
    heat = {axes.get_title().split(",")[0]: axes for axes in figure.axes if axes.images}
    layers = figures_routing.layers(rows)
    names = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    codes = figures_routing.tree(layers).codes
    assert names == [languages.find(code).name for code in codes]
    for layer, here in layers.by_layer.items():
        experts = [int(label.get_text()) - 1 for label in heat[layer].get_xticklabels()]
        strength = np.asarray(heat[layer].images[0].get_array())[..., 3]
        expected = np.array([here[code].load for code in codes])[:, experts] * len(experts) / 4
        np.testing.assert_allclose(strength, np.minimum(expected, 1))
    tips = titles(drawing.svg(figure))
    assert [tooltip.split(":")[0] for tooltip in tips] == names
    assert all(layer in tooltip for tooltip in tips for layer in layers.by_layer)


def test_many_layers_are_several_figures_and_many_experts_have_no_numbers():
    rows = [routing(code, [1 / 40] * 40, f"encoder.{layer}") for code in LOADS
            for layer in range(1, 15, 2)]  # fmt: skip
    pictures = figures_routing.experts("moe", rows)
    assert [sum(bool(axes.images) for axes in figure.axes) for figure in pictures] == [6, 5]
    assert not [label for axes in pictures[0].axes[1:] for label in axes.get_xticklabels()]
    assert [len(figures_routing.experts("moe", rows, drawing.NARROW))] == [7], "one layer each"
    uniform = dataclasses.replace(rows[0], entropy=1.0)
    assert figures_routing.experts("moe", [uniform]), "a strip of one value"
