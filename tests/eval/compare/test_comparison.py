"""The whole comparison as JSON, and that it needs no JAX."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eval import compare

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


def test_json_has_all_of_it(made_run):
    first = made_run("a", scores={"deu_Latn": 0.3})
    other = made_run("b", dropout=0.2, scores={"deu_Latn": 0.1})
    content = json.loads(json.dumps(compare.compare([first, other]).as_json(), allow_nan=False))
    assert content["runs"] == ["a", "b"] and not content["faults"]
    assert content["configuration"] == {
        "different": [{"name": "DROPOUT_RATE", "values": ["0.1", "0.2"]}], "equal": 2,
    }  # fmt: skip
    point = content["training"]["at_steps"][0]
    assert point["losses"][0] == {"loss": 2.0, "interpolated": False}
    (row,) = content["scores"][0]["comparisons"][0]["languages"]
    assert row["verdict"] == "better"
    assert row["delta"] == pytest.approx(row["bleu"][1] - row["bleu"][0])


def test_numbers_that_are_not_finite_are_none(made_run):
    first, other = made_run("a"), made_run("b")
    lines = (other / "metrics.jsonl").read_text().replace('"target_tokens": 1000, ', "")
    (other / "metrics.jsonl").write_text(lines)
    content = compare.compare([first, other]).as_json()
    json.dumps(content, allow_nan=False)
    assert content["training"]["summaries"][1]["validation"]["tokens"] == [None, None]
    assert content["training"]["at_tokens"] == []


def test_it_starts_fast(made_run):
    command = ["compare", str(OLD / "toy"), str(made_run("a"))]
    code = f"import sys; from mmt.cli.main import main; status = main({command}); "
    code += "sys.exit(status or bool({'jax', 'flax', 'orbax', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.slow
def test_two_trained_runs(toy_run, dense_toy_run):
    """One has experts and 40 steps, the other none and 200; their data are equal."""
    made = compare.compare([toy_run, dense_toy_run])
    assert not made.faults and made.runs == ("toy", "dense")
    bindings = {one.name: one.values for one in made.configuration.different}
    assert bindings["TRAIN_STEPS"] == ("40", "200")
    assert bindings["moe.MoeConfig.num_experts"] == ("4", None)
    assert "BATCH_SIZE" not in bindings and made.configuration.equal > 50
    assert not made.data.different and not made.languages.different
    assert made.training.comparable == (True, True)
    toy, dense = made.training.summaries
    assert (toy.steps, dense.steps) == (40, 200) and toy.tokens < dense.tokens
    assert dense.best_loss < toy.best_loss
    assert [point.amount for point in made.training.at_steps] == [20, 40]
    assert [one.language for one in made.training.languages] == ["deu_Latn", "fra_Latn", "swh_Latn"]
