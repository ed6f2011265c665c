"""What a run writes about itself."""

import json
import resource

import jax.numpy as jnp
import numpy as np
import pytest

from mmt import metrics, train
from mmt.run import read_metrics


def test_losses_are_summed_by_language():
    values = jnp.asarray([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    ids = jnp.asarray([[0, 2, 2], [0, 0, 1]])
    np.testing.assert_array_equal(metrics.by_language(values, ids, 4), [25.0, 32.0, 6.0, 0.0])


def test_rows_and_events(tmp_path, toy_program, toy_batches):
    train.train(toy_program(), toy_batches(), model_dir=str(tmp_path), steps=12)
    rows = read_metrics(tmp_path / "metrics.jsonl")
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


def test_every_token_is_in_a_sum_of_its_language(tmp_path, toy_program, toy_batches):
    program = toy_program(log_every=6, languages_every=4)
    train.train(program, toy_batches(), model_dir=str(tmp_path), steps=14)
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows if "language_tokens" in row] == [12, 14]
    by_language = [sum(row.get("language_tokens", {}).values()) for row in rows]
    assert sum(by_language) == sum(row["target_tokens"] for row in rows)


def test_a_row_is_the_mean_over_the_steps_since_the_last(tmp_path, toy_program, toy_batches):
    every = toy_program(log_every=1, languages_every=100)
    train.train(every, toy_batches(), model_dir=str(tmp_path / "every"), steps=5)
    train.train(toy_program(), toy_batches(), model_dir=str(tmp_path / "fifth"), steps=5)
    single = [row["loss"] for row in read_metrics(tmp_path / "every/metrics.jsonl")]
    (together,) = read_metrics(tmp_path / "fifth/metrics.jsonl")
    np.testing.assert_allclose(together["loss"], np.mean(single), rtol=1e-5)


def test_tokens_count_once_where_a_finished_run_is_made_longer(tmp_path, toy_program, toy_batches):
    once, twice = tmp_path / "once", tmp_path / "twice"
    train.train(toy_program(), toy_batches(), model_dir=str(once), steps=20)
    for steps in (12, 12, 20):
        train.train(toy_program(), toy_batches(), model_dir=str(twice), steps=steps)
        if steps == 12:  # a second start changes nothing
            rows = read_metrics(twice / "metrics.jsonl")
            assert [row["step"] for row in rows] == [5, 10, 12] and "language_loss" in rows[-1]
    rows, longer = (read_metrics(run / "metrics.jsonl") for run in (once, twice))
    for key in ("step", "target_tokens", "loss", "language_tokens"):
        assert [row.get(key) for row in longer] == [row.get(key) for row in rows]


def test_a_last_line_cut_short_is_left_out(tmp_path):
    (tmp_path / "m.jsonl").write_text(json.dumps({"step": 1}) + '\n{"step": 2, "lo')
    assert read_metrics(tmp_path / "m.jsonl") == [{"step": 1}]


def test_a_long_message_is_one_line_of_a_log(tmp_path, capsys):
    message = "step 20: " + "translated and scored, " * 10
    with metrics.Log(tmp_path, 100, languages=["a"], every=1, languages_every=1) as log:
        log.say(message)
    assert message in capsys.readouterr().err.splitlines()


def test_rows_wait_for_space_on_the_disk_and_are_complete(tmp_path, capsys):
    """A limit on the size of files stands for the disk's; half a line fits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sizes = {"languages": ["a"], "every": 1, "languages_every": 1}
    try:
        with metrics.Log(tmp_path, 100, **sizes, shown=False) as log:
            log.start(0)
            for step in range(1, 9):
                if step == 3:
                    size = (tmp_path / "metrics.jsonl").stat().st_size
                    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
                if step == 6:
                    assert [row["step"] for row in read_metrics(log.path)] == [1, 2]
                    assert [row["step"] for row in log.rows()] == [1, 2, 3, 4, 5]
                    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                log.write({"step": step, "bleu": 10.0 * step})
        assert [row["step"] for row in read_metrics(log.path)] == [*range(1, 9)]
        with pytest.raises(OSError, match="1 rows could not be written: File too large"):
            with metrics.Log(tmp_path, 100, **sizes, shown=False) as log:
                log.start(8)
                resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
                log.write({"step": 9, "bleu": 1.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert capsys.readouterr().err.count("its rows stay in memory") == 2
    assert [row["step"] for row in read_metrics(log.path)] == [*range(1, 9)]


def test_two_starts_in_one_second_have_two_files_of_events(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1e9)
    for start in (0, 1):
        with metrics.Log(tmp_path, 9, languages=["a"], every=1, languages_every=1) as log:
            log.start(start)
            log.write({"step": start + 1, "bleu": 1.0})
            log.start(start)
            log.write({"step": start + 1, "bleu": 1.0})
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 4


def test_losses_of_corpora_are_means_and_add_up_to_their_language(tmp_path):
    corpora = [("aaa", "web"), ("aaa", "books"), ("bbb", "web"), ("ccc", "web"), ("ccc", "books")]
    meters = metrics.Meters(
        {"steps": 1.0, "loss": 9.0, "target_tokens": 9.0, "tokens": 18.0},
        np.array([6.0, 4.0, 3.0, 5.0, 0.0]), np.array([2.0, 4.0, 1.0, 2.0, 0.0]),
    )  # fmt: skip
    sizes = {"languages": ["aaa", "bbb", "ccc"], "every": 1, "languages_every": 1}
    with metrics.Log(tmp_path, 1, **sizes, corpora=corpora, shown=False) as log:
        log.start(0)
        log.train_step(1, meters, last=True)
        assert log.language_losses(meters) == {"aaa": 10 / 6, "bbb": 3.0, "ccc": 2.5}
    (row,) = read_metrics(log.path)
    assert row["language_tokens"] == {"aaa": 6.0, "bbb": 1.0, "ccc": 2.0}
    assert row["language_loss"] == {"aaa": 10 / 6, "bbb": 3.0, "ccc": 2.5}
    assert row["corpus_tokens"] == {"aaa": {"web": 2.0, "books": 4.0}, "ccc": {"web": 2.0}}
    assert row["corpus_loss"] == {"aaa": {"web": 3.0, "books": 1.0}, "ccc": {"web": 2.5}}
