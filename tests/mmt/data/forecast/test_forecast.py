"""A forecast against what the batches then hold."""

from collections import Counter

import pytest

from mmt.data import mixing, pipeline
from mmt.data.forecast import forecast
from mmt.data.schedule import Schedule
from mmt.data.stages import Stage
from tests.helpers.streams import LENGTHS, examples_of
from tests.mmt.data.forecast.conftest import BATCH, COUNTS, STEPS


@pytest.mark.parametrize("packing", [True, False])
def test_a_forecast_equals_what_the_batches_contain(make, directory, packing):
    mixture = mixing.Mixing(temperature=2.0)
    foreseen = forecast.forecast(make(mixture, packing=packing), STEPS)
    stream = pipeline.train_batches(
        directory, feature_lengths=LENGTHS, batch_size=BATCH, mixing=mixture, packing=packing
    )
    drawn, steps = Counter(), {}
    tokens = Counter()
    for step in range(1, STEPS + 1):
        batch = next(stream)
        for language, _ in examples_of(batch):
            drawn[language] += 1
            steps.setdefault(language, []).append(step)
        for side in ("encoder", "decoder"):
            tokens[side] += int((batch[f"{side}_segment_ids"] > 0).sum())
    stream.close()
    total = sum(drawn.values())
    rel = 0.03 if packing else 1e-9  # how many examples a row holds is known on average
    assert foreseen.examples_a_row * STEPS * BATCH == pytest.approx(total, rel=rel)
    assert sum(row["source_tokens"] for row in foreseen.rows) == pytest.approx(
        tokens["encoder"], rel=rel
    )
    assert sum(row["tokens"] for row in foreseen.rows) == pytest.approx(tokens.total(), rel=rel)
    for number, row in enumerate(foreseen.rows):
        assert row["pairs"] == list(COUNTS.values())[number]
        assert row["examples"] == pytest.approx(drawn[number], rel=rel, abs=2)
        assert row["epochs"] == row["examples"] / row["pairs"]
        assert row["repeats"] == max(row["examples"] - row["pairs"], 0)
        assert abs(row["first"] - steps[number][0]) <= (8 if packing else 1)  # in open rows
        assert abs(row["last"] - steps[number][-1]) <= (8 if packing else 1)
        assert row["estimated"] is False


def test_a_language_that_is_never_drawn_is_reported(make):
    foreseen = forecast.forecast(make(mixing.Mixing(temperature=1.0), packing=False), 1)
    last = foreseen.rows[-1]
    assert (last["examples"], last["first"], last["last"], last["tokens"]) == (0, None, None, 0)
    assert "never" in forecast.table(foreseen)


def test_a_cap_made_for_fewer_examples_is_warned_of(make):
    short = mixing.Mixing(max_epochs=3.0, examples=200)
    foreseen = forecast.forecast(make(short, packing=False), STEPS)
    assert max(row["epochs"] for row in foreseen.rows) > 3
    message = f"examples = 200, but the run draws about {STEPS * BATCH}; set examples"
    assert message in foreseen.notes[0] and message in forecast.table(foreseen)
    two = [Stage({"steps": 20}, short), Stage(mixing=mixing.Mixing())]
    assert not make(None, packing=False, stages=two).warnings(25)
    two = [Stage({"steps": 60}, short), Stage(mixing=mixing.Mixing())]
    (warning,) = make(None, packing=False, stages=two).warnings(70)
    assert "but stage 1 draws about 480;" in warning


def test_a_stage_that_never_begins_is_warned_of(make):
    two = [Stage({"steps": 60}, mixing.Mixing()), Stage(mixing=mixing.Mixing())]
    message = "stage 2 of 2 never begins: the previous one ends after 480 examples, and the run"
    assert make(None, packing=False, stages=two).warnings(60) == [f"{message} draws about 480"]
    assert not make(None, packing=False, stages=two).warnings(61)


def test_a_schedule_is_forecast_up_to_what_losses_decide(make):
    acting = Schedule(steps=STEPS, late_epochs=3.0)
    foreseen = forecast.forecast(make(None, packing=False, schedule=acting), STEPS)
    (late,) = (row for row in foreseen.rows if row["language"] == "yor_Latn")
    assert late["first"] > 20 and late["epochs"] == pytest.approx(3, abs=0.1)
    assert "neither lower rates nor ends" in foreseen.notes[0]


def test_a_description_is_estimated(toy_corpus, tmp_path):
    opened = forecast.open_source(str(toy_corpus))
    with pytest.raises(IndexError):
        opened.records("deu", "train").raw(0)
    batches = pipeline.train_batches(opened, feature_lengths=forecast.LENGTHS, batch_size=8)
    foreseen = forecast.forecast(batches, 10)
    batches.close()
    assert {row["language"]: row["pairs"] for row in foreseen.rows} == {
        "deu_Latn": 400, "fra_Latn": 200, "swh_Latn": 60,
    }  # fmt: skip
    assert all(row["estimated"] and row["tokens"] > 0 for row in foreseen.rows)
    assert "estimates" in foreseen.notes[0]
    for line in forecast.table(foreseen).splitlines()[1:5]:  # epochs, repeats, tokens
        assert line.count("~") == 3
    (tmp_path / "corpus.toml").write_text('[test]\ndeu = "deu.tsv"\n')
    (tmp_path / "deu.tsv").write_text("eins\tone\n")
    with pytest.raises(ValueError, match="has no training pairs"):
        forecast.open_source(str(tmp_path))
    (tmp_path / "corpus.toml").write_text(
        '[train]\ndeu = "deu.tsv"\nswh = "deu.tsv"\n'
        '[monolingual]\nfra = { text = "deu.tsv", column = 1 }\n'
    )
    for mixture, expected in (
        ("toy_to_eng", {"deu_Latn", "swh_Latn"}),
        ("toy_deu_Latn_to_eng", {"deu_Latn"}),
        ("toy_eng_to_swh_Latn", {"swh_Latn"}),
        ("toy_fra_Latn_monolingual", {"fra_Latn.monolingual"}),
        ("toy_mixed", {"deu_Latn", "swh_Latn", "fra_Latn.monolingual"}),
        ("toy_monolingual", {"fra_Latn.monolingual"}),
    ):
        opened = forecast.open_source(str(tmp_path), mixture)
        batches = pipeline.train_batches(opened, feature_lengths=LENGTHS, batch_size=4)
        foreseen = forecast.forecast(batches, 5)
        assert {row["language"] for row in foreseen.rows} == expected
        names = {row["name"] for row in foreseen.rows if "." in row["language"]}
        assert names <= {"French, monolingual"}
    with pytest.raises(ValueError, match="nothing for 'toy_fra_Latn_to_eng'; .*: deu_Latn, swh"):
        forecast.open_source(str(tmp_path), "toy_fra_Latn_to_eng")
    with pytest.raises(ValueError, match="no corpus at"):
        forecast.open_source(str(tmp_path / "nothing"))


def test_a_forecast_of_a_reverse_model_has_its_sides_and_no_back_translated_pairs(tmp_path):
    (tmp_path / "deu.tsv").write_text("eine lange Quelle mit Wörtern\tone\n")
    (tmp_path / "swh.tsv").write_text("moja\tone\n")
    (tmp_path / "corpus.toml").write_text(
        '[train]\ndeu = "deu.tsv"\nswh = { pairs = "swh.tsv", back_translated = true }\n'
    )
    opened = forecast.open_source(str(tmp_path), "toy_from_eng")
    assert opened.manifest.counts["train"] == {"deu_Latn": 1}
    assert (opened.manifest.source, opened.manifest.target) == ("eng_Latn", "")
    assert opened.lengths("deu_Latn", "train").tolist() == [[2, 8]]  # with the tag


def test_options_that_need_a_cache_do_not_stop_a_forecast_of_a_corpus(tmp_path):
    """Alignments are made of a cache; corpora to leave out are those of the description."""
    for name, lines in (("a", 2), ("b", 3)):
        (tmp_path / f"{name}.tsv").write_text(f"{name} eins\t{name} one\n" * lines)
    (tmp_path / "corpus.toml").write_text('[train]\ndeu = ["a.tsv", "b.tsv"]\n')
    source = forecast.open_source(str(tmp_path))

    def pairs(**options):
        made = pipeline.train_batches(
            source, feature_lengths=forecast.LENGTHS, batch_size=2, **options
        )
        made.close()
        return [row["pairs"] for row in forecast.forecast(made, 2).rows]

    assert pairs(alignment=True) == [5]
    assert pairs(leave_out=["b.tsv"]) == [2]
    with pytest.raises(ValueError, match=r"no corpus 'c\.tsv' .* known: a\.tsv, b\.tsv"):
        pairs(leave_out=["c.tsv"])
