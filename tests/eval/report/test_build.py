"""The files of a report: which are written, from which files of rows, and when none is."""

import pytest

from eval import report
from eval.records import analysis
from mmt.cli.main import main
from tests.helpers.report_page import page_words, write_rows
from tests.helpers.report_rows import baseline, row, seven


def test_a_report_consists_of_these_files(render, whole):
    assert sorted(path.name for path in render(seven()).iterdir()) == [
        "bleu_by_size_cldr.png", "bleu_by_size_cldr.svg", "delta_bleu_cldr.png",
        "delta_bleu_cldr.svg", "means.csv", "report.csv", "report.html", "report.md",
    ]  # fmt: skip
    pictures = {path.stem for path in whole.glob("*.png")}
    assert pictures == {path.stem for path in whole.glob("*.svg")} == {
        "bleu_by_overlap_verses", "bleu_by_size_verses", "delta_bleu_verses", "experts_moe",
        "loss_by_tokens", "quality_by_cost_verses",
    }  # fmt: skip


def test_a_file_given_twice_is_read_once(tmp_path):
    file = write_rows(tmp_path, seven())
    report.report([file, tmp_path / "." / "results.jsonl"], tmp_path / "out")
    assert "several scores" not in page_words(tmp_path / "out")


def test_several_files_are_one_report(tmp_path):
    quality = {"testset": "cldr", "source": "deu_Latn", "target": "eng_Latn", "sentences": 9}
    for name, given, mark in (("a", row(), "fair"), ("b", baseline(), "poor")):
        rating = analysis.TestsetQuality(**quality, mark=mark, reasons=())
        write_rows(tmp_path / name, [given], [rating])
    files = [tmp_path / name / "results.jsonl" for name in "ab"]
    written = report.report(files, tmp_path / "out")
    assert written[0] == tmp_path / "out" / "report.html" and all(p.is_file() for p in written)
    text = written[0].read_text()
    assert "0 of 1" in text  # equal BLEU is not better
    assert 'class="grade poor"' in text, "the analysis beside each is read, the last counts"


def test_equal_rows_give_equal_bytes(whole):
    report.report([whole.parent / "results.jsonl"], whole.parent / "again")
    for path in whole.iterdir():
        assert path.read_bytes() == (whole.parent / "again" / path.name).read_bytes(), path.name


def test_without_a_folder_a_report_is_written_beside_its_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_rows(tmp_path / "runs/demo", seven())
    assert main(["report", str(file)]) == 0
    assert (file.parent / "report/report.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_file_is_no_folder_for_a_report(tmp_path):
    results = write_rows(tmp_path, [row()], [])
    with pytest.raises(ValueError, match=r"results\.jsonl is a file; a report is"):
        report.report([results], results)
    before = sorted(tmp_path.iterdir())
    assert main(["report", str(results), "--out", str(results)]) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [("results.jsonl", "", "no rows yet"),
     ("results.jsonl", '{"system": 1}\n', r"results.jsonl:1: missing key"),
     ("results.jsonl", "{\n", r"results.jsonl:1: no JSON"),
     ("analysis.jsonl", '\n{"kind": "guard"}\n', r"analysis.jsonl:2: .*'guards'")],
)  # fmt: skip
def test_a_faulty_file_writes_nothing(tmp_path, file, content, message):
    write_rows(tmp_path, [row()])
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        report.report([tmp_path / "results.jsonl"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_incomparable_rows_write_nothing_unless_allowed(tmp_path):
    file = write_rows(tmp_path, [row(), baseline(sentences=150)])
    with pytest.raises(ValueError, match=r"results\.jsonl: .*cannot be compared"):
        report.report([file], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    command = ["report", str(file), "--out", str(tmp_path / "out"), "--allow"]
    assert main([*command, "version"]) and not (tmp_path / "out").exists()
    assert main([*command, "versions", "--allow", "small"]) == 0
    assert "mixed, as allowed" in page_words(tmp_path / "out")


def test_a_missing_results_file_is_an_error(tmp_path):
    with pytest.raises(OSError, match=r"nowhere\.jsonl"):
        report.report([tmp_path / "nowhere.jsonl"], tmp_path / "out")
