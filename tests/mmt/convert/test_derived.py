"""A run directory made from another one."""

import numpy as np
import pytest

from mmt.convert import derived
from mmt.model import parameter_names
from mmt.run import Run
from tests.helpers import hf_runs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Run(hf_runs.make_run(tmp_path_factory.mktemp("derived") / "run"))


def test_the_configuration_has_the_bindings_and_its_own_directory(run, tmp_path):
    config = run.config.read_text()
    made = Run(tmp_path)
    made.config.write_text(derived.gin_text(run, ["transformer.Config.mlp_dim = 7"], tmp_path))
    assert made.model().config.mlp_dim == 7 and "MODEL_DIR" not in made.config.read_text()
    run.config.write_text(f"{config}\nMODEL_DIR = 'old'\n")
    text = derived.gin_text(run, [], "new")
    run.config.write_text(config)
    assert "MODEL_DIR = 'new'" in text and "'old'" not in text


def test_parameters_are_those_of_the_model(run, tmp_path):
    params, config = hf_runs.parameters(run.directory), run.model().config
    leaves = parameter_names.to_flat(params, config)
    flat = {name: np.asarray(leaf) for name, leaf in leaves.items()}
    Run(tmp_path).config.write_text(run.config.read_text())
    with pytest.raises(ValueError, match="logits/kernel"):
        derived.write_parameters(tmp_path, {n: v for n, v in flat.items() if "logits" not in n})
    derived.write_parameters(tmp_path, flat)
    written = parameter_names.to_flat(hf_runs.parameters(tmp_path), config)
    assert written.keys() == flat.keys()
    for name, leaf in written.items():
        np.testing.assert_array_equal(leaf, flat[name])
