"""Results files: read strictly, written so that nothing is lost."""

import dataclasses
import json
import multiprocessing
import resource

import pytest

from eval.records import results
from eval.records.results import Row

ROW = Row(
    system="multilingual", kind="multilingual", testset="cldr", source="deu_Latn",
    target="eng_Latn", bleu=45.25, bleu_signature="nrefs:1|tok:13a", chrf=61.0,
    chrf_signature="nrefs:1|nw:2", sentences=200, train_pairs=20000,
    checkpoint="multilingual/1200", decode="beam:4|alpha:0.8", seconds=1.5, config="3fa9b2c41d07",
)  # fmt: skip


def with_(**changes) -> Row:
    return dataclasses.replace(ROW, **changes)


def test_rows_come_back_in_order(tmp_path):
    path = tmp_path / "deep" / "results.jsonl"
    rows = [with_(source=code, bleu=index) for index, code in enumerate(("swh_Latn", "deu_Latn"))]
    results.add_rows(path, rows)
    assert results.read_rows(path) == rows
    assert list(json.loads(path.read_text().splitlines()[0])) == [
        field.name for field in dataclasses.fields(Row)
    ]


def test_several_origins_of_rows_are_counted():
    assert not results.several_origins([with_(), with_(source="fra_Latn", weights="f0")])
    rows = [with_(weights="f0"), with_(weights="f1", config="c"), with_(config="c")]
    assert results.several_origins(rows) == [
        "config: 3fa9b2c41d07 (1), c (2)", "hash of weights: f0 (1), f1 (1)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"system": "b"}, {"testset": "b"}, {"source": "fra_Latn"}, {"target": "deu_Latn"},
        {"checkpoint": "b/1"}, {"decode": "beam:1|alpha:0"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_only_a_row_of_the_same_key_is_replaced(tmp_path, change):
    path = tmp_path / "results.jsonl"
    results.add_rows(path, [ROW])
    results.add_rows(path, [with_(bleu=1.0, **change)])
    assert results.read_rows(path) == [ROW, with_(bleu=1.0, **change)]
    newer = with_(bleu=2.0, kind="bilingual", config="other", seconds=9.0)
    results.add_rows(path, [newer])
    assert results.read_rows(path) == [with_(bleu=1.0, **change), newer]


def test_other_lines_stay_byte_for_byte(tmp_path):
    path = tmp_path / "results.jsonl"
    odd = json.dumps(dict(reversed(dataclasses.asdict(ROW).items())), indent=None) + "   \r"
    path.write_text(odd)  # keys in another order, blanks, no line feed at the end
    results.add_rows(path, [with_(source="swh_Latn")])
    assert path.read_bytes().split(b"\n")[0] == odd.encode()
    assert [row.source for row in results.read_rows(path)] == ["deu_Latn", "swh_Latn"]


def test_old_rows_without_other_scores_are_read(tmp_path):
    path = tmp_path / "results.jsonl"
    later = ("spbleu", "spbleu_signature", "ter", "ter_signature", "testset_version",
             "weights")  # fmt: skip
    old = {name: value for name, value in dataclasses.asdict(ROW).items() if name not in later}
    path.write_text(json.dumps(old) + "\n")
    assert results.read_rows(path) == [ROW] and all(getattr(ROW, name) is None for name in later)
    new = with_(checkpoint="b/1", ter=120.5, ter_signature="nrefs:1", testset_version="abc")
    results.add_rows(path, [new])
    assert results.read_rows(path) == [ROW, new]
    assert path.read_text().splitlines()[0] == json.dumps(old)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda values: values.pop("chrf"), "missing key 'chrf'"),
        (lambda values: values.update(blue=values.pop("bleu")), "'blue'; nearest: 'bleu'"),
        (lambda values: values.update(bleu="45"), "bleu is '45'; expected a number"),
        (lambda values: values.update(sentences=True), "sentences is True; expected a whole"),
        (lambda values: values.update(sentences=0), "sentences is 0; allowed: 1 or more"),
        (lambda values: values.update(bleu=float("nan")), "bleu is nan; allowed: 0 to 100"),
        (lambda values: values.update(seconds=float("inf")), "seconds is inf"),
        (lambda values: values.update(chrf=101), "chrf is 101; allowed: 0 to 100"),
        (lambda values: values.update(spbleu=101, spbleu_signature="x"), "spbleu is 101"),
        (lambda values: values.update(ter=5.0), "ter and ter_signature: give both or none"),
        (lambda values: values.update(kind="bilingal"), "nearest: 'bilingual'"),
        (lambda values: values.update(source="deu"), "source is 'deu'; expected 'deu_Latn'"),
        (lambda values: values.update(source="qqq_Latn"), "qqq_Latn"),
        (lambda values: values.update(system="../../etc"), "system is '../../etc'"),
        (lambda values: values.update(testset=""), "testset is ''"),
        (lambda values: values.update(testset="x" * 201), "allowed: names of up to 200 bytes"),
        (lambda values: values.update(checkpoint="a\nb"), "'a\\nb'; expected text on one line"),
        (lambda values: values.update(seconds=1e300), "seconds is 1e+300; allowed: 0 to 1e+18"),
    ],
)
def test_a_broken_row_names_file_and_line(tmp_path, edit, message):
    path = tmp_path / "results.jsonl"
    values = dataclasses.asdict(ROW)
    edit(values)
    content = json.dumps(dataclasses.asdict(ROW)) + "\n\n" + json.dumps(values) + "\n"
    path.write_text(content)
    with pytest.raises(ValueError) as error:
        results.read_rows(path)
    assert str(error.value).startswith(f"{path}:3: ") and message in str(error.value)
    with pytest.raises(ValueError, match=":3: "):
        results.add_rows(path, [with_(source="swh_Latn")])
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"system": "a', "no JSON"),
        (b"[1, 2]", "expected an object"),
        (b'{"system": "\xff"}', "no UTF-8: byte 13 is 0xff"),
    ],
)
def test_a_line_that_is_no_row_is_an_error(tmp_path, line, message):
    path = tmp_path / "results.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(ValueError) as error:
        results.read_rows(path)
    assert str(error.value).startswith(f"{path}:1: ") and message in str(error.value)


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "results.jsonl"
    results.add_rows(path, [ROW])
    before, limit = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            results.add_rows(path, [with_(source="swh_Latn")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_an_error_with_the_nearest_name(tmp_path):
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(FileNotFoundError, match=r"nearest: 'results\.jsonl': .*resluts\.jsonl"):
        results.read_rows(tmp_path / "resluts.jsonl")


def test_an_unwritable_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        results.add_rows(tmp_path / "file" / "results.jsonl", [ROW])
    assert (tmp_path / "file").read_text() == ""


def _add_many(path, system):
    for step in range(15):
        results.add_rows(path, [with_(system=system, checkpoint=f"{system}/{step}")])


def test_two_writers_lose_no_row(tmp_path):
    path = tmp_path / "results.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_add_many, args=(path, name)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert sorted(row.checkpoint for row in results.read_rows(path)) == sorted(
        f"{name}/{step}" for name in ("a", "b") for step in range(15)
    )
