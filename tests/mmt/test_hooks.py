"""Validation loss and stopping early."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

from mmt import hooks, train
from mmt.checkpoint import Policy
from mmt.run import read_metrics
from tests.conftest import ToyBatches


def test_validation_loss_weighs_languages_alike(tmp_path, toy_program, toy_batches):
    held_out = [next(toy_batches())]
    ids = held_out[0]["decoder_language_ids"]
    ids[:] = 0
    ids[0] = 2  # one row of one language, the others of another, none of the third
    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path), steps=6,
        hooks=[hooks.ValidationLoss(held_out, 4)],
    )  # fmt: skip
    rows = [r for r in read_metrics(tmp_path / "metrics.jsonl") if "validation_loss" in r]
    assert [row["step"] for row in rows] == [4, 6]  # every 4, and at the end
    assert all("loss" not in row for row in rows)
    by_language = rows[0]["language_validation_loss"]
    assert set(by_language) == {"aaa_Latn", "ccc_Latn"}
    assert rows[0]["validation_loss"] == pytest.approx(np.mean(list(by_language.values())))
    assert rows[0]["validation_tokens"] == held_out[0]["decoder_loss_weights"].sum()


@pytest.mark.parametrize("reads", [True, False])
def test_source_use_is_the_loss_with_another_source_minus_the_loss(
    tmp_path, toy_program, toy_batches, reads
):
    """Of a new model, whose logits depend on everything; nothing where sources are alike."""
    held_out = [next(toy_batches()) for _ in range(2)]
    if not reads:
        for batch in held_out:
            batch["encoder_input_tokens"][:] = 5
    program = toy_program()
    state = train.train(
        program, toy_batches(), model_dir=str(tmp_path), steps=3,
        hooks=[hooks.SourceUse(held_out, 2)],
    )  # fmt: skip
    rows = [row for row in read_metrics(tmp_path / "metrics.jsonl") if "source_use" in row]
    assert [row["step"] for row in rows] == [2, 3]
    measured = rows[-1]["language_source_use"]
    assert rows[-1]["source_use"] == pytest.approx(np.mean(list(measured.values())))
    for index, code in enumerate(("aaa_Latn", "bbb_Latn", "ccc_Latn")):
        loss = {True: 0.0, False: 0.0}
        tokens = 0
        for batch in held_out:
            for other in loss:
                sources = batch["encoder_input_tokens"]
                sources = np.concatenate([sources[-1:], sources[:-1]]) if other else sources
                given = map(jnp.asarray, (sources, batch["decoder_input_tokens"]))
                logits = program.model.apply({"params": state.params}, *given)
                logits = np.asarray(logits, np.float64)
                logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
                picked = np.take_along_axis(logs, batch["decoder_target_tokens"][..., None], -1)
                mine = batch["decoder_language_ids"] == index
                loss[other] -= picked[..., 0][mine].sum()
            tokens += mine.sum()
        assert measured[code] == pytest.approx((loss[True] - loss[False]) / tokens, abs=1e-5)
    assert (max(map(abs, measured.values())) > 1e-3) == reads


def test_one_row_has_no_other_sources(tmp_path, toy_program, toy_batches):
    with pytest.raises(ValueError, match="batches of one row"):
        train.train(
            toy_program(), toy_batches(), model_dir=str(tmp_path), steps=1,
            hooks=[hooks.SourceUse([next(toy_batches(rows=1))], 1)],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("losses", "since", "end"),
    [
        ([3.0, 2.0, 2.5, 2.1, 9.0, 8.0, 1.0], 0, 4),  # the best was the second
        ([3.0, 2.0, 2.5, 2.1, 9.0, 8.0, 1.0], 2, 6),  # of those that count, the fourth
        ([math.nan, 2.0, 1.5, 1.6, 1.7], 0, 5),
    ],
)
def test_stops_after_patience_and_stays_stopped(
    tmp_path, toy_program, toy_batches, losses, since, end
):
    values = iter(losses)

    def measure(now):
        value = next(values)
        now.measured["validation_loss"] = value
        now.log.write({"step": now.number, "validation_loss": value})

    run = {"model_dir": str(tmp_path), "steps": 50, "policy": Policy(period=1)}
    stop = hooks.EarlyStop(2, since=since)
    state = train.train(toy_program(), toy_batches(), hooks=[measure, stop], **run)
    assert int(state.step) == end  # two more than the best did not improve
    again = train.train(toy_program(), toy_batches(), hooks=[measure], **run)
    assert int(again.step) == end


def test_a_metric_that_nothing_measures_is_named_once(tmp_path, toy_program, toy_batches, capsys):
    """Such a run never stops early. The hook may also be before those that measure."""

    def measure(now):
        now.measured["validation_loss"] = 1.0
        now.log.write({"step": now.number, "validation_loss": 1.0})

    stop = hooks.EarlyStop(1, metric="validation_los")
    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path / "misspelt"), steps=3,
        hooks=[measure, stop],
    )  # fmt: skip
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "EarlyStop" in line]
    assert "step 1: no hook before" in line and line.endswith(
        "'validation_los'; measured: validation_loss; nearest: validation_loss"
    )
    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path / "first"), steps=3,
        hooks=[hooks.EarlyStop(1, metric="bleu"), measure],
    )  # fmt: skip
    assert "step 3: no hook before hooks.EarlyStop has measured its metric 'bleu'; measured: " \
           "nothing" in capsys.readouterr().err  # fmt: skip


def test_a_corpus_without_validation_data_is_an_error(tmp_path, toy_program, toy_batches):
    with pytest.raises(ValueError, match="no validation examples"):
        train.train(
            toy_program(), toy_batches(), model_dir=str(tmp_path), steps=1,
            hooks=[hooks.ValidationLoss([], 1)],
        )  # fmt: skip


class StagedBatches(ToyBatches):
    """The toy's batches, with a stage that asks for the losses."""

    def __init__(self):
        super().__init__()
        self.told = []

    def validated(self, losses, draw, *, training, step):
        self.told.append((losses, draw))
        assert step * 8 == draw and set(training) <= set(self.manifest.languages)
        text = f"a stage of the data ends, after {draw} examples"
        return [{"step": step, "rule": "stage", "text": text}] if len(self.told) == 2 else []


def test_batches_with_stages_receive_every_validation_loss(
    tmp_path, toy_program, toy_batches, capsys
):
    batches = StagedBatches()
    train.train(
        toy_program(), batches, model_dir=str(tmp_path), steps=6,
        hooks=[hooks.ValidationLoss([next(toy_batches())], 2)],
    )  # fmt: skip
    rows = [r for r in read_metrics(tmp_path / "metrics.jsonl") if "validation_loss" in r]
    assert batches.told == [
        (row["language_validation_loss"], 8 * step)
        for row, step in zip(rows, (2, 4, 6), strict=True)
    ]
    assert all("language_examples" in row for row in rows)
    (decided,) = (r for r in read_metrics(tmp_path / "metrics.jsonl") if "decisions" in r)
    assert decided["step"] == 4 and decided["decisions"][0]["rule"] == "stage"
    error = capsys.readouterr().err
    assert error.count("a stage of the data ends") == 1
    assert "step 4: a stage of the data ends, after 32 examples" in error


def test_a_stage_that_waits_for_unmeasured_losses_is_refused(
    tmp_path, toy_program, toy_batches
):
    batches = StagedBatches()
    batches.waits_for_losses = True
    given = {"model_dir": str(tmp_path / "run"), "steps": 1}
    batches.warnings = lambda steps: [f"no cap for {steps}"]
    refused = pytest.raises(ValueError, match=r"no hook measures it. Add @hooks.ValidationLoss\(\)")
    with pytest.warns(UserWarning, match="no cap for 1"), refused:
        train.train(toy_program(), batches, hooks=[lambda now: None], **given)
    batches.warnings = lambda steps: []
    assert not (tmp_path / "run").exists()
    losses = hooks.ValidationLoss([next(toy_batches())], 2)
    train.train(toy_program(), batches, hooks=[losses], **given)


class Counted(list):
    """Held-out batches that can be fewer."""

    def share(self, rows):
        pass

    def languages(self):
        return ["aaa_Latn"]

    def at_most(self, batches):
        return Counted(self[:batches])


def test_validation_keeps_to_its_budget_by_counting_not_by_the_clock(toy_batches):
    held_out = Counted([next(toy_batches())] * 500)
    sizes = {
        (period, budget): len(hooks.ValidationLoss(held_out, period, budget).batches)
        for period, budget in [(100, 0.05), (1000, 0.05), (1000, 0.1), (100, 0.0)]
    }
    assert sizes == {(100, 0.05): 64, (1000, 0.05): 150, (1000, 0.1): 300, (100, 0.0): 500}
    assert len(hooks.SourceUse(held_out, 1000).batches) == 75  # it goes through them twice
    with pytest.raises(ValueError, match="ValidationLoss.budget is 2.0; allowed: 0 to 1"):
        hooks.ValidationLoss(held_out, 100, 2.0)


def test_a_smaller_validation_is_said_once(tmp_path, toy_program, toy_batches, capsys):
    held_out = Counted([next(toy_batches())] * 65)
    given = {"model_dir": str(tmp_path), "steps": 2, "hooks": [hooks.ValidationLoss(held_out, 1)]}
    train.train(toy_program(), toy_batches(), **given)
    said = "hooks.ValidationLoss measures on 64 of 65 batches, the first examples of each language"
    assert capsys.readouterr().err.count(f"{said}: ValidationLoss.budget = 0.05") == 1


def test_load_of_experts(tmp_path, toy_program, toy_batches):
    """A file with the latest counts, a row with the least used expert; losses are the same."""
    held_out = [next(toy_batches()) for _ in range(2)]
    losses = []
    for name, measured in (("plain", []), ("measured", [hooks.ExpertUse(held_out, 2)])):
        train.train(
            toy_program(moe_period=2), toy_batches(), model_dir=str(tmp_path / name), steps=5,
            hooks=measured,
        )  # fmt: skip
        rows = read_metrics(tmp_path / name / "metrics.jsonl")
        losses.append([row["loss"] for row in rows if "loss" in row])
    assert losses[0] == losses[1]
    measured = [row for row in rows if "moe_least_load" in row]
    assert [row["step"] for row in measured] == [2, 4, 5]
    content = json.loads((tmp_path / "measured/expert_load.json").read_text())
    assert content["step"] == 5 and set(content["layers"]) == {"encoder.2", "decoder.2"}
    least = []
    for layer, by_language in content["layers"].items():
        counts = np.array(list(by_language.values()))
        segments = f"{layer.split('.')[0]}_segment_ids"
        tokens = sum(int((batch[segments] > 0).sum()) for batch in held_out)
        assert counts.sum() == 2 * tokens and counts.shape == (3, 4)  # the two best of 4 experts
        least.append(counts.sum(axis=0).min() * 4 / counts.sum())
    assert measured[-1]["moe_least_load"] == pytest.approx(min(least), abs=1e-4)


def test_a_dense_model_has_no_load_of_experts(tmp_path, toy_program, toy_batches):
    with pytest.raises(ValueError, match="the model has no experts"):
        train.train(
            toy_program(), toy_batches(), model_dir=str(tmp_path), steps=1,
            hooks=[hooks.ExpertUse([next(toy_batches())], 1)],
        )  # fmt: skip
