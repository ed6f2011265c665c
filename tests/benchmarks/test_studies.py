"""The studies of all benchmarks load, and no two runs of a study share a folder."""

import shlex
from pathlib import Path

import pytest

from eval.study import Study
from mmt import config

ROOT = Path(__file__).resolve().parents[2]
STUDIES = [
    path.relative_to(ROOT)
    for path in sorted((ROOT / "benchmarks").rglob("*.gin"))
    if "study.Study" in path.read_text()
]


@pytest.mark.parametrize("file", STUDIES, ids=str)
def test_a_studys_runs_load_and_each_has_a_folder_of_its_own(file, monkeypatch):
    monkeypatch.chdir(ROOT)
    config.load([str(file)])
    study, folders = config.configured(Study)(), []
    for run in study.runs:
        _, gin_file = shlex.split(run)
        config.load([gin_file])
        folders.append(config.macro("MODEL_DIR"))
    assert len(set(folders)) == len(study.runs) > 1
    assert {Path(folder).parent for folder in folders} == {Path(study.results).parent}
