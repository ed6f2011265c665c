"""The exports that the tests of conversion share."""

import shutil

import pytest

from mmt.convert import hf
from tests.helpers.hf_runs import VARIANTS, make_run


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """name -> (run directory, exported directory), made once each."""
    made = {}

    def get(name):
        if name not in made:
            run = make_run(tmp_path_factory.mktemp("hf") / "run", **VARIANTS[name])
            hf.export_hf(run, run.parent / "out")
            made[name] = run, run.parent / "out"
        return made[name]

    return get


@pytest.fixture
def directory(exported, tmp_path):
    """A good directory, to be broken."""
    shutil.copytree(exported("t5")[1], tmp_path / "t5")
    return tmp_path / "t5"
