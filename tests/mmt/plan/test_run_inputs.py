"""From gin files to a forecast, and `mmt plan --run`; the compiled step is GShard's, kept."""

import json

import pytest

from mmt.cli import main
from mmt.plan import estimate, topology
from tests.mmt.plan.test_measured import save, start, write

MODEL = "--gin_file=gin_configs/models/gshard_600b.gin"
RUN = ["plan", "--run", MODEL, "--topology", "v3:32x32", "--gin.goodput.Failures.runs=5"]


@pytest.fixture
def compiled(gshard, monkeypatch):
    """Replaces the compiler by the kept step; returns the list of what was compiled."""
    asked = []

    def plan(files, bindings, name, **_):
        asked.append((files, bindings, name))
        return estimate.TopologyPlan(topology.parse(name), gshard)

    monkeypatch.setattr(estimate, "plan", plan)
    return asked


def test_the_command_prints_a_forecast(compiled, tmp_path, capsys):
    (tmp_path / "sizes.toml").write_text("[train]\nde = 900_000_000\nswh = 50_000\n")
    data = f"--gin.CORPUS={tmp_path / 'sizes.toml'}"
    assert main.main([*RUN, data, "--gin.PRICE=2.5"]) == 0
    text = capsys.readouterr().out
    for part in ("without failures", "goodput", "USD at 2.5", "deu_Latn German", "all-to-all",
                 "token cache", "30 is assumed"):  # fmt: skip
        assert part in text
    assert main.main([*RUN, data, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["money"] is None and row["hosts"] == 256
    assert row["languages"]["swh_Latn"]["passes"] > row["languages"]["deu_Latn"]["passes"]
    assert row["assumptions"]["failures"]["runs"] == 5


def test_a_file_that_binds_a_part_of_the_trainer_is_forecast(compiled, tmp_path):
    """The key of the step needs the whole run, as compiling it does."""
    file = tmp_path / "part.gin"
    file.write_text("from __gin__ import dynamic_registration\nfrom mmt import train\n"
                    "train.Trainer.microbatches = 2\n")  # fmt: skip
    assert main.main([*RUN, f"--gin_file={file}", "--gin.CORPUS=''"]) == 0


def test_a_directory_keeps_the_step_and_gets_the_files(compiled, tmp_path, capsys):
    """Prices and tokens do not compile again; another model does, and nothing is lost."""
    here = [*RUN[:1], "--run", str(tmp_path / "out"), *RUN[2:]]
    assert main.main(here) == 0
    first = json.loads((tmp_path / "out/forecast.json").read_text())
    assert (tmp_path / "out/forecast.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "out/forecast.svg").read_text()
    assert (tmp_path / "out/forecast.txt").read_text() == capsys.readouterr().out
    assert main.main([*here, "--gin.PRICE=3.0", "--gin.TOKENS=5e11"]) == 0
    second = json.loads((tmp_path / "out/forecast.json").read_text())
    assert len(compiled) == 1
    assert second["steps"] == pytest.approx(first["steps"] / 2, abs=1) and second["money"]
    assert main.main([*here, "--gin.DROPOUT_RATE=0.2"]) == 0
    assert len(compiled) == 2
    kept = list((tmp_path / "out").glob("program-*.json"))
    assert len(kept) == 2
    for file in kept:
        file.write_text("{")
    assert main.main(here) == 1
    assert "not a compiled step" in capsys.readouterr().err


def test_saving_and_restarting_are_as_measured_unless_a_binding_says_otherwise(
    compiled, tmp_path, capsys
):
    write(tmp_path, [save(5, 0.01, 0.1, 10**9), start(5, 77.0, 2.0, 10**9)])
    flags = [*RUN, "--json", f"--gin.MEASURED={tmp_path}"]
    assert main.main(flags) == 0
    row = json.loads(capsys.readouterr().out)
    saved = row["checkpoint"]
    assert saved["save_seconds"] == pytest.approx(saved["bytes"] / 256 / 1e10)
    assert saved["blocked_seconds"] == pytest.approx(saved["save_seconds"] / 10)
    assert saved["restore_seconds"] == pytest.approx(20 * saved["save_seconds"])
    assert row["assumptions"]["failures"]["restart_seconds"] == 75.0
    assert f"saving and restarting as measured in {tmp_path}" in row["notes"]
    bound = ["--gin.goodput.Failures.restart_seconds=30.0",
             "--gin.run_forecast.RunConditions.storage_rate=2e9"]  # fmt: skip
    assert main.main([*flags, *bound]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["assumptions"]["failures"]["restart_seconds"] == 30.0
    assert row["assumptions"]["conditions"]["storage_rate"] == 2e9
    assert row["assumptions"]["conditions"]["blocked_rate"] == 1e11
    assert len(compiled) == 2  # nothing is kept: no directory is given


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--topology", "v7:8x8"], "unknown topology 'v7:8x8'; nearest: v"),
        (["--topology", "cpu:8"], "cpu:8: no forecast for CPUs"),
        (["--gin.PRICE=-1.0"], "RunConditions.price = -1.0; allowed: 0 or more, or None"),
        (["--gin.MEASURED=nowhere"], "nowhere: no such directory"),
        (["--gin.TOKENS=0"], "TOKENS = 0; allowed: above 0"),
        (["--gin.goodput.Failures.chip_hour=5"], "chip_hours"),
        (["--gin.goodput.Failures.chip_hours=-5.0"], "chip_hours = -5.0; allowed: 0 or more"),
        (["--gin.CORPUS=nowhere.toml"], "no corpus at 'nowhere.toml'"),
    ],
)
def test_bad_input_is_an_error_before_anything_is_compiled(compiled, flags, message, capsys):
    assert main.main([*RUN, *flags]) == 1
    assert message in capsys.readouterr().err
    assert not compiled
