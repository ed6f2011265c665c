"""Beam: shards are written once though a worker is killed, on the local disk and elsewhere.

BULK_LINES is the number of lines of the longest test, a million by default.
"""

import functools
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("apache_beam", reason="needs the extra [beam]")

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.options.pipeline_options import PipelineOptions

from mmt.translate.bulk import BulkJob
from mmt.translate.bulk.pipeline import BeamRunner, BeamStorage
from tests.helpers import bulk_lines

ROOT = Path(__file__).resolve().parents[4]
OLD = ROOT / "tests/data/old_run/toy"
LINES = int(os.environ.get("BULK_LINES", 1_000_000))
COMMAND = (
    sys.executable, "-m", "mmt.cli", "translate", "--model", str(OLD), "--beam", "1", "--weights",
    "float32",
)  # fmt: skip
TWO_WORKERS = "--direct_num_workers=2,--direct_running_mode=multi_processing"


class Shelf(LocalFileSystem):
    """A file system with a scheme: shelf:// is a folder of the disk."""

    root = ""

    @classmethod
    def scheme(cls):
        return "shelf"

    @classmethod
    def on_disk(cls, path):
        return path.replace("shelf://", f"{cls.root}/")

    def join(self, base, *paths):
        return "/".join([base.rstrip("/"), *paths])

    def split(self, path):
        head, _, tail = path.rpartition("/")
        return head, tail

    def _list(self, place):
        for path in sorted(Path(self.on_disk(place)).rglob("*")):
            if path.is_file():
                yield FileMetadata(str(path).replace(f"{self.root}/", "shelf://"), 0, 0.0)

    def _path_open(self, path, *options, **more):
        return super()._path_open(self.on_disk(path), *options, **more)

    def create(self, path, *options, **more):
        os.makedirs(os.path.dirname(self.on_disk(path)), exist_ok=True)
        return self._path_open(path, "wb", *options, **more)

    def exists(self, path):
        return os.path.isfile(self.on_disk(path))  # as in stores of objects

    def size(self, path):
        return os.path.getsize(self.on_disk(path))

    def rename(self, sources, targets):
        super().rename(*(list(map(self.on_disk, paths)) for paths in (sources, targets)))

    def delete(self, paths):
        for path in paths:
            os.remove(self.on_disk(path))


def made(folder):
    """The first lines and the number of times of the shards that a `bulk_lines` translator made."""
    firsts = [int(path.name.split(".")[1]) for path in folder.glob("shard.*")]
    return {first: firsts.count(first) for first in sorted(set(firsts))}


def test_files_elsewhere_are_read_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(Shelf, "root", str(tmp_path / "shelf"))
    folder = tmp_path / "shelf/texts"
    folder.mkdir(parents=True)
    (folder / "a.de.gz").write_bytes(gzip.compress(b"eins\nzwei\ndrei\nvier\n"))
    (folder / "b.de").write_text("null\n")

    def job(*inputs):
        storage = BeamStorage()
        job = BulkJob.plan(inputs, "shelf://out", storage=storage, shard_lines=3)
        job.begin({})
        return job

    log = tmp_path / "log"
    log.mkdir()
    load = functools.partial(bulk_lines.loaded, log)
    job("shelf://texts/*").run(load)
    assert made(log) == {0: 2, 3: 1}
    out = tmp_path / "shelf/out"
    assert (out / "a.de").read_text() == "EINS\nZWEI\nDREI\nVIER\n"
    assert (out / "b.de").read_text() == "NULL\n"
    assert {path.name for path in out.rglob("*") if path.is_file()} == {
        "a.de", "b.de", "translation.json"
    }  # fmt: skip
    (tmp_path / "c.de").write_text("moja\n")
    job("shelf://texts", str(tmp_path / "c.de")).run(load)
    assert made(log) == {0: 3, 3: 1} and (out / "c.de").read_text() == "MOJA\n"
    for inputs, message in ((["shelf://none/*.de"], "no such file"), ([], "no input files")):
        with pytest.raises(ValueError, match=message):
            job(*inputs)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("DirectRuner", "", "Unexpected pipeline runner: DirectRuner"),
        ("DirectRunner", "--direct_num_worker=2", "no --direct_num_worker; nearest: direct_num_w"),
        ("DirectRunner", "--direct_num_workers=two", "--direct_num_workers=two"),
        ("DirectRunner", "direct_num_workers=2", "expected --NAME=VALUE"),
        ("FlinkRunner", "--parallelism=2,--runner=SparkRunner", "and no --runner"),
    ],
)
def test_runners_and_options_that_do_not_exist_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        BeamRunner(name, options)


def test_the_pipeline_options_of_the_documents_are_known():
    """There is no cluster here. Beam at least parses what the documents say for one."""
    runners = set()
    for name in ("bulk", "seqio"):
        text = (ROOT / f"docs/{name}.md").read_text("utf-8")
        for line in re.findall(r"^.* --pipeline_options=--.*$", text, re.MULTILINE):
            flags = re.split(r",(?=--)", line.partition("--pipeline_options=")[2])
            runner = re.search(r"--(?:beam_)?runner[ =](\w+)", line)
            assert runner, line
            runners.add(runner[1])
            known = PipelineOptions([]).get_all_options()
            assert {flag[2:].partition("=")[0] for flag in flags} - {"runner"} <= known.keys()
            parsed = PipelineOptions([f"--runner={runner[1]}", *flags]).get_all_options()
            assert parsed["runner"] == runner[1]
    assert {"DirectRunner", "DataflowRunner", "FlinkRunner", "SparkRunner"} <= runners


@pytest.mark.slow
def test_a_killed_worker_costs_the_shards_in_progress_only(tmp_path):
    """Each of two workers loads the model once; complete shards are not translated again."""
    bulk_lines.write_lines(tmp_path / "a.de", 300)
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    job = BulkJob.plan([str(tmp_path / "a.de")], str(out), storage=BeamStorage(), shard_lines=10)
    job.begin({})
    load = functools.partial(bulk_lines.loaded, log, dies_at=155)
    BeamRunner("DirectRunner", TWO_WORKERS).run(job, load)
    assert (out / "a.de").read_text() == (tmp_path / "a.de").read_text().upper()
    assert (log / "killed").exists()
    times = made(log)
    assert list(times) == list(range(0, 300, 10)) and sum(times.values()) <= 30 + 1
    processes = [path.name.split(".")[1] for path in log.glob("loaded.*")]
    assert len(processes) == len(set(processes)) == 4  # two, and two again
    assert sorted(path.name for path in out.iterdir()) == ["a.de", "translation.json"]


@pytest.mark.slow
def test_workers_that_always_die_and_faults_of_lines_end_the_job(tmp_path, monkeypatch):
    (tmp_path / "a.de").write_text("gut\n" * 10 + "fault\n")
    log = tmp_path / "log"
    log.mkdir()

    def job():
        inputs, out = [str(tmp_path / "a.de")], str(tmp_path / "out")
        job = BulkJob.plan(inputs, out, storage=BeamStorage(), shard_lines=10)
        job.begin({})
        return job

    runner = BeamRunner("DirectRunner", TWO_WORKERS.replace("=2", "=1"))
    with pytest.raises(OSError, match="line 10 cannot be translated$"):
        runner.run(job(), functools.partial(bulk_lines.loaded, log))
    assert made(log) == {0: 1}
    with pytest.raises(OSError, match="a worker died 4 times without a new shard"):
        runner.run(job(), functools.partial(os._exit, 9))


def workers(marker: str) -> list[int]:
    """The worker processes with a value in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((place / n).read_bytes() for n in ("cmdline", "environ"))
        except OSError:
            continue
        is_python = b"python" in command.split(b"\0")[0]
        if is_python and b"sdk_worker_main" in command and marker.encode() in environment:
            found.append(int(place.name))
    return found


def bulk_command(folder: Path, *flags) -> subprocess.Popen:
    """Starts `mmt translate --in` of a file a.de with two workers; it writes to a file log."""
    command = [
        *COMMAND, "--in", folder / "a.de", "--out", folder / "out", *flags, "--beam_runner",
        "DirectRunner", f"--pipeline_options={TWO_WORKERS}",
    ]  # fmt: skip
    with open(folder / "log", "a") as log:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "BULK_TEST": str(folder)}
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def wait_for_shards(folder: Path, process: subprocess.Popen, count: int = 3) -> None:
    while len(list((folder / "out/.shards/a.de").glob("*of*[0-9]"))) < count:
        assert process.poll() is None, (folder / "log").read_text()
        time.sleep(0.05)


def check_translations(folder: Path, distinct: list[str]) -> None:
    """Checks that every line has the translation that `mmt translate` prints."""
    single = subprocess.run(
        COMMAND, input="".join(f"{line}\n" for line in distinct), capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True,
    ).stdout.splitlines()  # fmt: skip
    translations = dict(zip(distinct, single, strict=True))
    expected = (translations[line] for line in (folder / "a.de").read_text().splitlines())
    assert (folder / "out/a.de").read_text() == "".join(f"{line}\n" for line in expected)


@pytest.mark.slow
def test_a_killed_command_ends_its_workers_and_is_resumed(tmp_path):
    distinct = bulk_lines.write_lines(tmp_path / "a.de", 5000)
    process = bulk_command(tmp_path, "--shard_lines", "100")
    wait_for_shards(tmp_path, process)
    assert len(workers(str(tmp_path))) == 2
    process.kill()
    process.wait()
    end = time.monotonic() + 10
    while workers(str(tmp_path)):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert not (tmp_path / "out/a.de").exists()
    assert bulk_command(tmp_path, "--shard_lines", "100").wait() == 0
    check_translations(tmp_path, distinct)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_lines_of_which_a_worker_is_killed(tmp_path):
    """Each line has the translation that `mmt translate` prints."""
    distinct = bulk_lines.write_lines(tmp_path / "a.de", LINES)
    began = time.monotonic()
    process = bulk_command(tmp_path, "--shard_lines", str(max(LINES // 250, 1000)))
    wait_for_shards(tmp_path, process)
    pids = workers(str(tmp_path))
    assert len(pids) == 2
    os.kill(pids[0], signal.SIGKILL)
    status, told = process.wait(), (tmp_path / "log").read_text()
    print(f"{LINES:,} lines in {time.monotonic() - began:.0f} s")
    assert status == 0 and "a worker process died; its shards are translated again" in told, told
    check_translations(tmp_path, distinct)
    recipe = json.loads((tmp_path / "out/translation.json").read_text())
    assert recipe["files"]["a.de"]["lines"] == LINES and not workers(str(tmp_path))
