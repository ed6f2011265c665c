"""After an interruption at any line, every shard is translated once, and the output is complete."""

import gzip
import itertools
import json

import pytest

from mmt.system import lock
from mmt.translate.bulk import BulkJob, Storage

LINES = {"a.de": 5, "b.de.gz": 7, "empty.de": 0, "c.de": 3}


@pytest.fixture
def texts(tmp_path):
    """Four files of lines: plain with a byte order mark, compressed, empty, with carriage returns.
    """
    folder = tmp_path / "texts"
    folder.mkdir()
    lines = [f"zeile {number} ö\u2028" for number in range(7)]
    (folder / "a.de").write_bytes(b"\xef\xbb\xbf" + "\n".join(lines[:5]).encode())
    (folder / "b.de.gz").write_bytes(gzip.compress("".join(f"{x}\n" for x in lines).encode()))
    (folder / "c.de").write_bytes(b"x\r\n\r\ny\r\n")
    (folder / "empty.de").touch()
    (folder / ".hidden").write_text("no text")
    return folder


def plan(texts, shard_lines=2):
    return BulkJob.plan([str(texts)], str(texts.parent / "out"), shard_lines=shard_lines)


def numbered(log, until=10_000):
    """A translator that writes the number of each line, and dies after `until` lines."""

    def translate(lines, first):
        for number, line in enumerate(lines, first):
            if len(log) == until:
                raise KeyboardInterrupt
            log.append(line)
            yield f"{number} {line.upper()}"

    return lambda: translate


def outputs(texts):
    return {path.name: path.read_text() for path in sorted((texts.parent / "out").iterdir())}


@pytest.fixture
def whole(texts, tmp_path):
    """The output of an undisturbed job with one shard a file, and all lines."""
    job, log = BulkJob.plan([str(texts)], str(tmp_path / "whole")), []
    job.begin({})
    job.run(numbered(log))
    return {file: (tmp_path / "whole" / file).read_text() for file in ("a.de", "b.de", "c.de")}, log


def test_a_line_of_input_is_a_line_of_output(texts, whole):
    written, log = whole
    assert written["a.de"].split("\n") == [f"{n} ZEILE {n} Ö\u2028" for n in range(5)] + [""]
    assert written["c.de"] == "0 X\n1 \n2 Y\n" and len(log) == sum(LINES.values())


@pytest.mark.parametrize("until", [0, 1, 4, 5, 11, 14])
def test_an_interruption_loses_no_shard_and_repeats_none(texts, whole, until, tmp_path):
    job, log = plan(texts), []
    job.begin({"model": "a"})
    with pytest.raises(KeyboardInterrupt):
        job.run(numbered(log, until))
    for folder in (tmp_path / "out/.shards").glob("*"):
        (folder / "000000-of-000004.0123.tmp").write_text("of a killed process")
    done = job.lines_done()
    assert until - 2 < done <= until
    again, more = plan(texts), []
    again.begin({"model": "a"})
    again.run(numbered(more))
    assert log[:done] + more == whole[1]
    written = outputs(texts)
    assert written.pop("translation.json") and written == {**whole[0], "empty.de": ""}
    complete = plan(texts)
    complete.begin({"model": "a"})
    complete.run(lambda: pytest.fail("the model is loaded for nothing"))


def test_a_job_may_have_further_files_and_keeps_the_shards_of_others(texts, tmp_path):
    job, log = plan(texts), []
    job.begin({})
    with pytest.raises(KeyboardInterrupt):
        job.run(numbered(log, until=4))
    (tmp_path / "new.de").write_text("neu\n")
    other = BulkJob.plan([str(tmp_path / "new.de")], str(tmp_path / "out"), shard_lines=2)
    other.begin({})
    other.run(numbered([]))
    assert (tmp_path / "out/new.de").read_text() == "0 NEU\n"
    again = BulkJob.plan([str(tmp_path / "out")], str(tmp_path / "third"))
    assert [file.path for file in again.files] == [str(tmp_path / "third/new.de")]
    job = plan(texts)
    job.begin({})
    assert job.lines_done() == 4
    described = json.loads((tmp_path / "out/translation.json").read_text())["files"]
    assert {name: file["lines"] for name, file in described.items()} == {
        "new.de": 1, **{name.removesuffix(".gz"): lines for name, lines in LINES.items()}
    }  # fmt: skip


def test_another_recipe_a_changed_file_and_a_strange_folder_are_refused(texts, tmp_path):
    plan(texts).begin({"model": "none"})  # with it, nothing is translated
    job = plan(texts)
    job.begin({"model": "a"})
    with pytest.raises(KeyboardInterrupt):
        job.run(numbered([], until=2))
    with pytest.raises(ValueError, match=r"another recipe \(model: 'a' there, 'b' requested\)"):
        plan(texts).begin({"model": "b"})
    (tmp_path / "new.de").touch()
    (tmp_path / "out/new.de").write_text("of the user")
    with pytest.raises(ValueError, match="out/new.de exists, and is not of this job"):
        BulkJob.plan([str(tmp_path / "new.de")], str(tmp_path / "out")).begin({"model": "a"})
    (texts / "c.de").write_text("z\n")
    with pytest.raises(ValueError, match=r"c.de is not the file .* it has 1 lines .*, not 3 and"):
        plan(texts).begin({"model": "a"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").touch()
    with pytest.raises(ValueError, match="mine holds something else"):
        BulkJob.plan([str(texts / "a.de")], str(tmp_path / "mine")).begin({})
    (tmp_path / "mine/translation.json").write_text('{"model": "a"}')
    with pytest.raises(ValueError, match="translation.json is not of `mmt translate --in`"):
        BulkJob.plan([str(texts / "a.de")], str(tmp_path / "mine")).begin({})


def test_inputs_that_cannot_be_translated_are_named(texts, tmp_path):
    (tmp_path / "b.de").write_text("b\n")
    (tmp_path / "bad.de").write_bytes(b"gut\ngut\nschl\xffecht\n")
    (tmp_path / "no").mkdir()
    (texts / lock.FILE).touch()

    def refused(message, *inputs, out=tmp_path / "out", **options):
        with pytest.raises(ValueError, match=message):
            BulkJob.plan([str(texts.parent / name) for name in inputs], str(out), **options)

    refused("there are no input files")
    refused("no: a folder without files", "no")
    refused("texts/emty.de: no such file; nearest: empty.de", "texts/emty.de")
    both = r"texts/b.de.gz and \S+/b.de would both be written to \S+out/b.de"
    refused(both, "texts/b.de.gz", "b.de")
    refused("bad.de:3: not UTF-8: invalid start byte 0xff at byte 5", "bad.de")
    refused("a.de would be written to .*, which is an input", "texts/a.de", out=texts)
    refused(f"{lock.FILE} is a file of the job; rename it", f"texts/{lock.FILE}")
    refused("shard_lines: 0; allowed: 1 or more", "b.de", shard_lines=0)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", [lambda lines: list(lines)[1:], lambda lines: [*lines, "more"]])
def test_a_shard_has_a_translation_per_line(texts, wrong, tmp_path):
    job = plan(texts)
    job.begin({})
    with pytest.raises(ValueError, match=r"a.de:1: [13] translations of 2 lines"):
        job.run(lambda: lambda lines, first: iter(wrong(lines)))
    assert not list((tmp_path / "out/.shards").rglob("*0*"))


def test_an_incomplete_job_is_no_success(texts):
    with pytest.raises(OSError, match="out/a.de is missing; run the same command again"):
        plan(texts).finish()


def test_reading_begins_at_any_byte(texts):
    storage = Storage()
    for name in ("b.de.gz", "c.de"):
        content = b"".join(storage.read(str(texts / name)))
        for start in itertools.chain(range(12), [len(content) - 1, len(content)]):
            assert b"".join(storage.read(str(texts / name), start)) == content[start:]
