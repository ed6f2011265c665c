"""A forecast from flags and gin files equals that of the library; missing settings are named."""

import json
import shutil

import pytest

from mmt.cli.main import main
from mmt.data import mixing, pipeline
from mmt.data.forecast import forecast, request
from mmt.data.forecast.request import ForecastArguments
from tests.helpers.streams import LENGTHS, write_cache

COUNTS = {"deu_Latn": 500, "yor_Latn": 30}
GIN = "gin_configs/runs/train.gin"
MODEL = "gin_configs/models/tiny.gin"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("data"), COUNTS)


def by_hand(directory, mixture, steps=50, lengths=LENGTHS, batch_size=8):
    batches = pipeline.train_batches(
        directory, feature_lengths=lengths, batch_size=batch_size, mixing=mixture
    )
    batches.close()
    return forecast.forecast(batches, steps)


def test_flags_alone_describe_a_mixture(directory):
    foreseen, fitted = request.make_forecast(ForecastArguments(str(directory), 50, 8, 3.0))
    assert fitted is None
    assert foreseen == by_hand(directory, mixing.Mixing(3.0), lengths=forecast.LENGTHS)
    capped, _ = request.make_forecast(ForecastArguments(str(directory), 6, 4, 3.0, max_epochs=1.5))
    assert max(row["epochs"] for row in capped.rows) < 1.6


def test_a_gin_file_sets_what_flags_do_not(directory):
    bindings = [
        f"CACHE_DIR={directory}", f"TASK_FEATURE_LENGTHS={LENGTHS}", "BATCH_SIZE=8",
        "TRAIN_STEPS=50", "TEMPERATURE=2.0", "MIXTURE_OR_TASK_NAME=toy",
    ]  # fmt: skip
    foreseen, _ = request.make_forecast(ForecastArguments(), [MODEL, GIN], bindings)
    assert foreseen == by_hand(directory, mixing.Mixing(2.0))
    foreseen, _ = request.make_forecast(
        ForecastArguments(steps=70, temperature=4.0), [MODEL, GIN], bindings
    )
    assert foreseen == by_hand(directory, mixing.Mixing(4.0), steps=70)
    foreseen, fitted = request.make_forecast(
        ForecastArguments(fit="share>=0.3"), [MODEL, GIN], bindings
    )
    assert foreseen == by_hand(directory, fitted)
    foreseen, _ = request.make_forecast(
        ForecastArguments(str(directory), 50), [MODEL, GIN], bindings[1:-1]
    )
    assert foreseen == by_hand(directory, mixing.Mixing(2.0))


def test_the_flag_for_steps_is_that_of_a_schedule_too(tmp_path):
    for code, count in (("deu", 900), ("yor", 20)):
        (tmp_path / f"{code}.tsv").write_text("eins\tone\n" * count)
    tables = 'deu = "deu.tsv"\nyor = "yor.tsv"\n', 'deu = "yor.tsv"\nyor = "yor.tsv"\n'
    (tmp_path / "corpus.toml").write_text("[train]\n{}[validation]\n{}".format(*tables))
    bindings = [
        f"CORPUS={tmp_path}", f"TASK_FEATURE_LENGTHS={LENGTHS}", "BATCH_SIZE=8", "CACHE_DIR=none",
        "MIXTURE_OR_TASK_NAME=toy", "pipeline.train_batches.schedule=@schedule.Schedule()",
    ]  # fmt: skip
    forecasts = [
        request.make_forecast(arguments, [MODEL, GIN], [*bindings, f"TRAIN_STEPS={steps}"])[0]
        for arguments, steps in ((ForecastArguments(), 40), (ForecastArguments(steps=40), 9000))
    ]
    assert forecasts[0] == forecasts[1]
    assert 1 < forecasts[0].rows[1]["first"] < 40


def test_a_stale_cache_is_not_forecast(directory, tmp_path):
    (tmp_path / "deu.tsv").write_text("eins\tone\n" * 40)
    (tmp_path / "corpus.toml").write_text('[train]\ndeu = "deu.tsv"\n')
    bindings = [
        f"CORPUS={tmp_path}", f"CACHE_DIR={directory}", "MIXTURE_OR_TASK_NAME=toy",
        f"TASK_FEATURE_LENGTHS={LENGTHS}", "BATCH_SIZE=8", "TRAIN_STEPS=5",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"is stale: the corpus .* has changed since it was made"):
        request.make_forecast(ForecastArguments(), [MODEL, GIN], bindings)
    (tmp_path / "empty").mkdir()
    bindings[1] = f"CACHE_DIR={tmp_path / 'empty'}"
    foreseen, _ = request.make_forecast(ForecastArguments(), [MODEL, GIN], bindings)
    assert [row["pairs"] for row in foreseen.rows] == [40]


@pytest.mark.parametrize(
    ("flags", "files", "message"),
    [
        (
            ForecastArguments(),
            [],
            "missing: CORPUS, --steps, --batch; add them, or the run's --gin_file",
        ),
        (ForecastArguments(fit="epochs<=9", max_epochs=3.0), [], "allowed: --fit 'epochs<=N'"),
        (ForecastArguments("cldr", batch=8), [], "missing: --steps; add"),
        (ForecastArguments(batch=8), [MODEL, GIN], "missing: CORPUS, --steps; add"),
        (ForecastArguments("nowhere", 1, 1), [], "no corpus at 'nowhere'"),
        (
            ForecastArguments("tests", 1, 1),
            [],
            r"tests holds neither a cache \(manifest.json\) nor a corpus",
        ),
    ],
)
def test_missing_settings_are_named(flags, files, message):
    with pytest.raises(ValueError, match=message):
        request.make_forecast(flags, files)


def test_a_run_directory_is_not_a_cache(directory, tmp_path):
    shutil.copy(directory / "manifest.json", tmp_path)
    shutil.copy(directory / "vocabulary.model", tmp_path)
    (tmp_path / "config.gin").touch()
    with pytest.raises(ValueError, match=r"is a run, not a cache: give --gin_file=.*/config.gin"):
        request.make_forecast(ForecastArguments(str(tmp_path), 1, 1))


def test_the_command_prints_the_forecast(directory, tmp_path, capsys):
    command = ["data", "shares", str(directory), "--steps=50", "--batch=8"]
    assert main([*command, "--json", f"--figure={tmp_path / 'a.png'}", "--fit=share>=0.3"]) == 0
    out, error = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["language"] for row in rows] == list(COUNTS)
    for row in rows:
        assert row["share"] >= 0.3
        assert row.keys() >= {"language", "pairs", "share", "epochs", "tokens"}
    assert "mixing.Mixing.temperature = " in error
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert main(command) == 0
    assert "deu_Latn" in capsys.readouterr().out
    for wrong, message in (("--fit=", "no bound ''"), ("--batch=0", "batch_size 0; allowed: 1 or")):
        assert main([*command, wrong]) == 1
        assert message in capsys.readouterr().err
    assert main([*command, "--gin.TEMPERATURE=2"]) == 1
    assert "name it with --gin_file" in capsys.readouterr().err
