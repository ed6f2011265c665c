"""Damaged files of a run are named, and what is no run."""

import json
import shutil

import pytest

from mmt.watch import open_runs


def test_a_configuration_that_is_no_text_is_named(made_up, tmp_path):
    directory = shutil.copytree(made_up, tmp_path / "run")
    (directory / "config.gin").write_bytes(b'A = "\xff"\n')
    (run,) = open_runs([directory])
    with pytest.raises(ValueError, match="run/config.gin: 'utf-8' codec can't decode"):
        run.check()


@pytest.mark.parametrize(
    "content", ['{"step": 1}', '{"step": 1, "layers": {"encoder.2": {"deu_Latn": [1, -1]}}}',
                '{"step": 1, "layers": {"encoder.2": {"deu_Latn": [1], "fra_Latn": [1, 2]}}}',
                '{"step": 1, "layers": {"encoder.2": {"deu_Latn": [1' + 400 * "0" + ", 1]}}}",
                '{"step": null, "layers": {}}', '{"step": 1, "layers": {"encoder.2": []}}'],
)  # fmt: skip
def test_a_wrong_load_of_experts(content, made_up, tmp_path):
    directory = shutil.copytree(made_up, tmp_path / "run")
    (directory / "expert_load.json").write_text(content)
    (run,) = open_runs([directory])
    with pytest.raises(ValueError, match="expert_load.json: expected step, and layers of counts"):
        run.check()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target_tokens", None, "target_tokens of aar_Latn is None; allowed: a number from 0."),
        ("share", float("nan"), "share of aar_Latn is nan"),
        ("pairs", 10**400, "pairs of aar_Latn is 1000"),
        ("epochs", "many", "no readable ledger.json"),
    ],
)
def test_a_wrong_ledger(field, value, message, made_up, tmp_path):
    """Also that of an older version, which lacks a field; the rest of the run is shown."""
    directory = shutil.copytree(made_up, tmp_path / "run")
    content = json.loads((directory / "ledger.json").read_text())
    content["rows"][0][field] = value
    if value is None:
        del content["rows"][0][field]
    (directory / "ledger.json").write_text(json.dumps(content))
    (run,) = open_runs([directory])
    run.read_all()
    (fault,) = run.overview()["faults"]
    assert message in fault and "ledger.json" in fault
    assert run.overview()["ledger_step"] is None and "epochs" not in run.overview()["metrics"]


def test_no_run(made_up, tmp_path):
    with pytest.raises(ValueError, match=r"made_ap: no such directory; nearest: .*made_up"):
        open_runs([made_up.parent / "made_ap"])
    with pytest.raises(ValueError, match=r"no metrics.jsonl; runs in it: .*made_up"):
        open_runs([made_up.parent])
    shutil.copytree(made_up, tmp_path / "demo/small")
    with pytest.raises(ValueError, match=r"no metrics.jsonl; runs in it: .*demo/small"):
        open_runs([tmp_path])
    for name in ("baselines/aa", "baselines/bb", "baselines/cc", "baselines/dd", "baselines/ee"):
        shutil.copytree(made_up, tmp_path / "demo" / name)
    with pytest.raises(ValueError, match=r"runs in it: \S+demo/small, \S+/aa, .*/dd and 1 more$"):
        open_runs([tmp_path / "demo"])
    with pytest.raises(ValueError, match="is given twice"):
        open_runs([made_up, f"{made_up}/../made_up"])


def test_names_of_runs(made_up, tmp_path):
    same = shutil.copytree(made_up, tmp_path / "other/made_up")
    names = [run.name for run in open_runs([made_up, same])]
    assert names == [str(made_up), str(same)]
