"""Manifests: the pods of the one in docs/ are started, others are refused with the field."""

from pathlib import Path

import pytest
import yaml

from mmt.launch import jobset

FILE = Path(__file__).resolve().parents[3] / "docs/launch/jobset.yaml"
PLACE = {"JAX_COORDINATOR_ADDRESS": "localhost:1", "PATH": "/bin"}


def test_the_manifest_of_the_documents_gives_each_pod_its_index(monkeypatch):
    tasks = jobset.tasks(FILE, ["--gin.TRAIN_STEPS=5"], None, PLACE)
    assert [task.environment["JOB_COMPLETION_INDEX"] for task in tasks] == ["0", "1", "2", "3"]
    for task in tasks:
        assert task.environment["JAX_NUM_PROCESSES"] == "4"
        assert task.environment["JAX_COORDINATOR_ADDRESS"] == "localhost:1"
        assert task.command == [
            "mmt", "train", "--gin_file=/shared/my_run.gin", "--gin.MODEL_DIR=/shared/runs/mine",
            "--gin.TRAIN_STEPS=5",
        ]  # fmt: skip
    monkeypatch.setenv("RUN", "runs/try")
    one, two = jobset.tasks(FILE, [], 2, PLACE)
    assert two.command[-1] == "--gin.MODEL_DIR=runs/try"
    assert two.environment["JAX_NUM_PROCESSES"] == "2"


def changed(tmp_path, change):
    content = yaml.safe_load(FILE.read_text())
    change(content, content["spec"]["replicatedJobs"][0]["template"]["spec"])
    file = tmp_path / "jobset.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def variables(job):
    return job["template"]["spec"]["containers"][0]["env"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda all, job: job.pop("completions"), "template.spec.completions is missing"),
        (lambda all, job: job.update(completions=0), "completions is 0; allowed: 1 or more"),
        (lambda all, job: job.update(completions="4"), "completions is '4'; allowed: int"),
        (lambda all, job: job.update(completions=8), "parallelism is 4, completions is 8"),
        (lambda all, job: job.pop("parallelism"), "parallelism is 1, completions is 4"),
        (lambda all, job: job.update(parallelism=8, completions=8), "'4', completions is 8"),
        (lambda all, job: job.pop("completionMode"), "'NonIndexed'; allowed: 'Indexed'"),
        (lambda all, job: all["metadata"].update(name="big"), "first pod is big-workers-0-0.big"),
        (lambda all, job: all["spec"]["replicatedJobs"][0].update(replicas=2), "replicas is 2"),
        (lambda all, job: all["spec"].update(replicatedJobs=[]), "has 0 elements; allowed: 1"),
        (lambda all, job: all["spec"].pop("replicatedJobs"), "replicatedJobs is missing"),
        (lambda all, job: all.update(kind="Job"), "must have one JobSet; it has: Job"),
        (lambda all, job: variables(job).append("X"), r"env\[5\] is 'X'; allowed: a mapping"),
        (lambda all, job: variables(job).append({"name": "X", "value": 1}), "value is 1; allowed"),
    ],
)
def test_what_a_cluster_would_not_start_as_one_run_is_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        jobset.tasks(changed(tmp_path, change), [], None, PLACE)


def test_a_manifest_for_tpus_needs_no_coordinator(tmp_path):
    def change(content, job):
        env = variables(job)
        env[:] = [one for one in env if not one["name"].startswith("JAX_")]

    assert len(jobset.tasks(changed(tmp_path, change), [], None, PLACE)) == 4


def test_broken_yaml_is_named_by_its_line(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("a: 1\nb: [1\nc: 2\n")
    with pytest.raises(ValueError, match=r"x.yaml:3: "):
        jobset.tasks(file, [], None, PLACE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \x01", "x.yaml: unacceptable character"),
        (b"a: \xff", "x.yaml: 'utf-8' codec can't decode byte 0xff"),
        (b"[" * 5000, "x.yaml: nested too deeply"),
    ],
)
def test_a_file_that_is_no_yaml_is_named(tmp_path, content, message):
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        jobset.tasks(file, [], None, PLACE)
