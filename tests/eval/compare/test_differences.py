"""What differs in configurations, data and machines."""

import json

from eval.compare import compared_run, differences
from eval.compare.differences import Property
from mmt.run import Run


def test_a_macro_that_differs_is_one_row(made_run):
    runs = compared_run.read([made_run("a"), made_run("b", dropout=0.2), made_run("c")])
    found = differences.configuration(runs)
    assert found.different == (Property("DROPOUT_RATE", ("0.1", "0.2", "0.1")),)
    assert found.equal == 2  # dropout_rate = %DROPOUT_RATE and emb_dim; MODEL_DIR is left out


def test_values_count_and_not_their_spelling(made_run):
    runs = [made_run("a"), made_run("b")]
    config = Run(runs[1]).config
    text = config.read_text().replace("%DROPOUT_RATE", "0.1").replace("emb_dim = 16", "emb_dim =16")
    config.write_text(text + "transformer.Config.mlp_dim = 32\n")
    found = differences.configuration(compared_run.read(runs))
    assert found.different == (Property("transformer.Config.mlp_dim", (None, "32")),)


def test_data_and_machines(made_run):
    runs = [made_run("a"), made_run("b", codes=("deu_Latn", "wol_Latn"), vocabulary="other")]
    noted = json.loads(Run(runs[1]).environment.read_text())
    noted |= {"device": "a chip", "versions": {"python": "3.11.7", "jax": "0.11.0", "mmt": "1"}}
    Run(runs[1]).environment.write_text(json.dumps(noted))
    read = compared_run.read(runs)
    assert {one.name: one.values for one in differences.data(read).different} == {
        "target vocabulary": ("320 pieces, abc", "320 pieces, other"),
        "languages": ("3", "2"),
        "training pairs": ("300", "200"),
    }
    assert {one.name: one.values for one in differences.languages(read).different} == {
        "fra_Latn": ("100", None), "swh_Latn": ("100", None), "wol_Latn": (None, "100"),
    }  # fmt: skip
    assert differences.languages(read).equal == 1
    assert {one.name: one.values for one in differences.machines(read).different} == {
        "device": ("a core", "a chip"), "jax": ("0.10.2", "0.11.0"), "mmt": (None, "1"),
    }  # fmt: skip


def test_machines_are_compared_where_they_are_known(made_run):
    runs = [made_run("a"), made_run("b"), made_run("c")]
    Run(runs[0]).environment.unlink()
    found = differences.machines(compared_run.read(runs))
    assert not found.different and found.equal >= 4
    noted = json.loads(Run(runs[2]).environment.read_text()) | {"device": "a chip"}
    Run(runs[2]).environment.write_text(json.dumps(noted))
    assert differences.machines(compared_run.read(runs)).different == (
        Property("device", (None, "a core", "a chip")),
    )
    Run(runs[1]).environment.unlink()
    assert differences.machines(compared_run.read(runs)) == differences.Differences((), 0)
