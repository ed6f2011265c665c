"""A run directory names its system."""

import json

import pytest

from eval import systems


def make_run_directory(folder, counts):
    folder.mkdir()
    manifest = {
        "name": "phrases", "target": "eng_Latn", "languages": sorted(counts),
        "counts": {"train": counts}, "corpus_hash": "0", "vocabulary_hash": {},
        "vocabulary_size": {}, "version": 1,
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "config.gin").write_text("train.train.steps = 100\n")
    return folder


def test_a_run_directory_says_which_system_it_is(tmp_path):
    folder = make_run_directory(tmp_path / "tiny", {"deu_Latn": 500, "swh_Latn": 20})
    system = systems.system_of(folder, step=100)
    assert (system.name, system.kind, system.checkpoint) == ("tiny", "multilingual", "tiny/100")
    assert system.train_pairs == {"deu_Latn": 500, "swh_Latn": 20}
    (folder / "config.gin").write_text("train.train.steps = 200\n")
    assert systems.system_of(folder, step=100).config != system.config
    before = systems.system_of(folder, step=100).weights
    (folder / "checkpoints/100").mkdir(parents=True)
    (folder / "checkpoints/100/digests.json").write_text("trained anew")
    assert systems.system_of(folder, step=100).weights != before
    alone = make_run_directory(tmp_path / "deu", {"deu_Latn": 500})
    assert systems.system_of(alone, step=5, name="bilingual").kind == "bilingual"
    assert systems.system_of(alone, step=5, name="bilingual").checkpoint == "deu/5"
    assert systems.system_of(alone, step=(3, 4, 5)).checkpoint == "deu/3+4+5"  # their average
    imported = make_run_directory(tmp_path / "imported", {})
    (imported / "manifest.json").write_text(
        (imported / "manifest.json").read_text().replace('{"train": {}}', "{}")
    )
    assert systems.system_of(imported, step=0).kind == "multilingual"
    (folder / "config.gin").unlink()
    with pytest.raises(ValueError, match="no model directory: it has no config.gin"):
        systems.system_of(folder, step=100)


def test_an_ensemble_is_a_baseline_only_if_all_its_models_are(tmp_path):
    both = make_run_directory(tmp_path / "both", {"deu_Latn": 500, "swh_Latn": 20})
    alone = [make_run_directory(tmp_path / name, {"deu_Latn": 900}) for name in ("a", "b")]
    first, second, multilingual = (systems.system_of(run, step=1) for run in (*alone, both))
    assert systems.ensemble_of(first, second).kind == "bilingual"
    mixed = systems.ensemble_of(first, multilingual)
    assert mixed.kind == "multilingual" and mixed.name == "a+both"
    assert mixed.train_pairs == {"deu_Latn": 900, "swh_Latn": 20}
