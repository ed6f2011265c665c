"""The reader of metrics: what is new, incomplete lines, replaced files, damaged lines."""

import json

import numpy as np
import pytest

from mmt.run import read_metrics
from mmt.watch.run_metrics import RunMetrics
from tests.mmt.watch.conftest import SIZE


def read(metrics):
    """Reads all; returns whether anything changed."""
    changed = False
    while metrics.read():
        changed = True
    return changed


def content(metrics):
    """All that a reader holds, comparable."""
    tracks = {**metrics.totals, **metrics.by_language}
    columns = {name: (t.steps.tolist(), t.values.tolist()) for name, t in tracks.items()}
    return repr((metrics.languages, columns, metrics.samples, metrics.events))


def test_it_holds_what_the_rows_say(made_up):
    metrics = RunMetrics(made_up / "metrics.jsonl")
    assert read(metrics) and metrics.step == 4000 and not metrics.fault
    rows = [row for row in read_metrics(metrics.file) if "language_loss" in row]
    track = metrics.by_language["language_loss"]
    assert track.steps.tolist() == [row["step"] for row in rows]
    for row, values in zip(rows, track.values, strict=True):
        assert metrics.languages == list(row["language_loss"])
        np.testing.assert_allclose(values, list(row["language_loss"].values()), rtol=1e-6)
    assert len(metrics.totals["loss"]) == 100 and len(metrics.totals["bleu"]) == 20
    assert not read(metrics)


def test_pieces_of_any_size_give_the_same(made_up, tmp_path):
    """A file that grows by some bytes at a time, in the middle of lines and of characters."""
    text = b"".join((made_up / "metrics.jsonl").open("rb").readlines()[:40])
    text += json.dumps({"step": 9000, "stopped": "für immer"}, ensure_ascii=False).encode() + b"\n"
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(text)
    whole = RunMetrics(file)
    read(whole)
    random = np.random.default_rng(0)
    file.write_bytes(b"")
    growing, place = RunMetrics(file), 0
    while place < len(text):
        size = int(random.integers(1, 3000))
        with file.open("ab") as opened:
            opened.write(text[place : place + size])
        place += size
        read(growing)
        assert not growing.fault and growing.place <= place
    assert content(growing) == content(whole)


def test_an_incomplete_last_line_waits(tmp_path):
    file = tmp_path / "metrics.jsonl"
    metrics = RunMetrics(file)
    assert not metrics.read()  # the run has not begun
    file.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert read(metrics) and metrics.step == 1 and not metrics.fault
    assert not read(metrics)
    with file.open("a") as opened:
        opened.write('ss": 3.0}\n')
    assert read(metrics) and metrics.totals["loss"].values.ravel().tolist() == [2.0, 3.0]


def test_a_replaced_file_is_read_from_the_start(tmp_path):
    """A restart drops the rows after its checkpoint; the new file may even be longer."""
    file = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "loss": step / 7, "seconds": 0.1}) for step in range(1, 50)]
    file.write_text("\n".join(lines) + "\n")
    metrics = RunMetrics(file)
    read(metrics)
    others = [json.dumps({"step": step, "loss": step / 9, "seconds": 1}) for step in range(20, 99)]
    replacement = tmp_path / "metrics.tmp"
    replacement.write_text("\n".join(lines[:19] + others) + "\n")
    replacement.replace(file)
    assert read(metrics) and metrics.step == 98
    assert metrics.totals["loss"].steps.tolist() == list(range(1, 99))
    assert metrics.totals["loss"].values[-1, 0] == pytest.approx(98 / 9)
    file.unlink()
    assert read(metrics) and metrics.step == 0 and not metrics.totals


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"step": 3, "loss"', "no JSON: Expecting ':' delimiter at column 19"),
        ("\0\0\0", "no JSON: Expecting value"),
        (b"\xff", "no JSON: "),
        ("[1]", "expected an object, found '[1]'"),
        ('{"loss": 2.0}', "step is null; allowed: an integer from 0"),
        ('{"step": "4"}', 'step is "4"; allowed'),
        ('{"step": 1, "loss": 2.0}', "loss of step 1 is after that of step 2"),
        ('{"step": 3, "language_loss": {"deu_Latn": "x"}}', 'language_loss of deu_Latn is "x"'),
        ('{"step": 3, "samples": {"deu_Latn": "x"}}', "samples is "),
        ('{"step": 3, "decisions": [{"step": 3, "rule": "end"}]}', "decisions is "),
        (
            '{"step": 3, "decisions": [{"step": 3, "rule": "end", "name": "deu_Latn", "text": "x",'
            ' "languages": 5}]}',
            "decisions is ",
        ),
        ('{"step": 3, "returned_from": [9]}', "returned_from is [9]"),
        ('{"step": 3, "loss": 1' + 400 * "0" + "}", "loss is 1000"),
        ('{"step": 3, "language_loss": {"deu_Latn": 1' + 400 * "0" + "}}", "of deu_Latn is 1000"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_of_it_counts(line, message, tmp_path):
    file = tmp_path / "metrics.jsonl"
    good = b'{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 2.0}\n'
    raw = line if isinstance(line, bytes) else line.encode()
    file.write_bytes(good + raw + b'\n{"step": 5, "loss": 1.0}\n')
    metrics = RunMetrics(file)
    assert read(metrics)
    assert metrics.fault.startswith(f"{file}:3: ") and message in metrics.fault
    assert metrics.step == 2 and set(metrics.totals) == {"loss"} and not metrics.by_language
    assert not read(metrics)  # it does not read the file again and again
    file.write_bytes(good + b'{"step": 3, "loss": 2.0}\n{"step": 5, "loss": 1.0}\n')
    assert read(metrics) and not metrics.fault and metrics.step == 5


def test_languages_may_come_later_and_values_may_be_missing(tmp_path):
    file = tmp_path / "metrics.jsonl"
    rows = [
        {"step": 1, "language_loss": {"deu_Latn": 1.0}},
        {"step": 2, "language_loss": {"fra_Latn": float("nan"), "deu_Latn": 1e300}},
        {"step": 3, "language_bleu": {"swh_Latn": 4.0}, "unknown": True, "none": None},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    metrics = RunMetrics(file, ("fra_Latn",))
    read(metrics)
    assert metrics.languages == ["fra_Latn", "deu_Latn", "swh_Latn"] and not metrics.fault
    loss = metrics.by_language["language_loss"].values
    assert loss.shape == (2, 3) and loss[0, 1] == 1.0 and np.isinf(loss[1, 1])
    assert np.isnan(loss).sum() == 4 and not metrics.totals


def test_few_samples_stay_in_memory(tmp_path):
    file = tmp_path / "metrics.jsonl"
    row = {"samples": {"deu_Latn": [["a", "b", "c"]]}}
    file.write_text("".join(json.dumps({"step": step} | row) + "\n" for step in range(70)))
    metrics = RunMetrics(file)
    read(metrics)
    assert [each["step"] for each in metrics.samples] == list(range(20, 70))


def test_made_up_rows_are_those_of_a_run():
    """The made-up run has the fields of a real training row."""
    row = json.loads(SIZE.lines(40)[0])
    assert {"step", "loss", "tokens_per_second", "data_wait", "language_loss"} <= set(row)
