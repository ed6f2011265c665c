"""What a run writes about itself."""

import json

import jax.numpy as jnp
import numpy as np

from mmt import metrics, train


def test_by_language_sums():
    values = jnp.asarray([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    ids = jnp.asarray([[0, 2, 2], [0, 0, 1]])
    np.testing.assert_array_equal(metrics.by_language(values, ids, 4), [25.0, 32.0, 6.0, 0.0])


def test_rows_and_events(tmp_path, toy_program, toy_batches):
    train.train(toy_program(), toy_batches(), model_dir=str(tmp_path), steps=12)
    rows = metrics.read(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [5, 10, 12]  # every 5, and always the last
    for row in rows:
        assert row["loss"] > 0 and 0 <= row["accuracy"] <= 1
        assert row["tokens_per_second"] > 0 and 0 <= row["data_wait"] <= 1
        assert row["tokens"] >= row["target_tokens"] > 0
    assert "language_loss" not in rows[0] and "language_tokens" not in rows[0]
    both_windows = sum(row["target_tokens"] for row in rows[:2])
    assert sum(rows[1]["language_tokens"].values()) == both_windows
    assert set(rows[1]["language_loss"]) == {"aaa_Latn", "bbb_Latn", "ccc_Latn"}
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_a_row_is_the_mean_over_the_steps_since_the_one_before(tmp_path, toy_program, toy_batches):
    every = toy_program(log_every=1, languages_every=100)
    train.train(every, toy_batches(), model_dir=str(tmp_path / "every"), steps=5)
    train.train(toy_program(), toy_batches(), model_dir=str(tmp_path / "fifth"), steps=5)
    single = [row["loss"] for row in metrics.read(tmp_path / "every/metrics.jsonl")]
    (together,) = metrics.read(tmp_path / "fifth/metrics.jsonl")
    np.testing.assert_allclose(together["loss"], np.mean(single), rtol=1e-5)


def test_a_last_line_cut_short_is_left_out(tmp_path):
    (tmp_path / "m.jsonl").write_text(json.dumps({"step": 1}) + '\n{"step": 2, "lo')
    assert metrics.read(tmp_path / "m.jsonl") == [{"step": 1}]
