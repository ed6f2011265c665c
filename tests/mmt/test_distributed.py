"""Several processes as one run: how they start, equal numbers, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from mmt import distill, distributed
from mmt.checkpoint import digests
from mmt.distributed import Launch
from mmt.run import Run, read_metrics
from tests.helpers.processes import (
    DENSE,
    MOE,
    ROOT,
    Runner,
    finish,
    free_port,
    records,
    write_corpus,
)
from tests.helpers.runs import rows_without_clocks

SLURM = dict.fromkeys(distributed.SLURM, "1") | {"SLURM_NTASKS": "4", "SLURM_PROCID": "2"}
MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}
ADDRESS = {"JAX_COORDINATOR_ADDRESS": "node0:1234"}


def launched(environment, coordinator="", count=None, index=None):
    return distributed.launched(environment, coordinator=coordinator, count=count, index=index)


@pytest.mark.parametrize(
    ("environment", "arguments", "launch"),
    [
        ({}, {}, None),
        ({"JOB_COMPLETION_INDEX": "3"}, {}, None),  # a Job of Kubernetes, each pod on its own
        ({"JAX_NUM_PROCESSES": "1"}, {}, None),
        (ADDRESS | {"JAX_NUM_PROCESSES": "1", "JAX_PROCESS_ID": "0"}, {}, None),
        (ADDRESS | {"JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "2"}, {}, ("node0:1234", 4, 2)),
        (ADDRESS | {"JAX_NUM_PROCESSES": "4", "JOB_COMPLETION_INDEX": "2"}, {},
         ("node0:1234", 4, 2)),
        ({}, {"coordinator": "[::1]:80", "count": 2, "index": 0}, ("[::1]:80", 2, 0)),
        (ADDRESS | {"JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "2"},
         {"coordinator": "other:1", "count": 3, "index": 1}, ("other:1", 3, 1)),
        (SLURM, {}, (None, None, None)),
        (SLURM | {"SLURM_NTASKS": "1"}, {}, None),
        (SLURM | ADDRESS, {}, ("node0:1234", None, None)),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}, {}, None),  # the batch script, not a step
        (ADDRESS | MPI, {}, ("node0:1234", 4, 3)),
        (MPI | {"OMPI_MCA_orte_hnp_uri": "4096.0;tcp://10.0.0.1:5"}, {}, (None, None, None)),
        (MPI | {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}, {}, None),
    ],
)  # fmt: skip
def test_the_launcher_s_environment_names_the_process(environment, arguments, launch):
    assert launched(environment, **arguments) == (None if launch is None else Launch(*launch))


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ({}, {"count": 2, "index": 1}, "process 1 of 2 has no coordinator: set distributed.start"),
        (MPI, {}, "process 3 of 4 has no coordinator"),
        (ADDRESS, {}, "no process_count .*JAX_NUM_PROCESSES.* and no process_index"),
        (ADDRESS, {"count": 2}, "node0:1234, but no process_index .or JAX_PROCESS_ID.$"),
        ({}, {"coordinator": "node0", "count": 2, "index": 0}, "'node0'; allowed: host:port"),
        ({}, {"coordinator": "node0:99999", "count": 2, "index": 0}, "allowed: host:port"),
        (ADDRESS, {"count": 2, "index": 2}, r"process_index is 2; allowed: 0 \.\.\. 1"),
        (ADDRESS, {"count": 0, "index": 0}, "process_count is 0; allowed: 1 or more"),
        (ADDRESS | {"JAX_NUM_PROCESSES": "two"}, {}, "JAX_NUM_PROCESSES is 'two'; allowed: an int"),
    ],
)
def test_contradicting_settings_are_errors(environment, arguments, message):
    with pytest.raises(ValueError, match=message):
        launched(environment, **arguments)
    with pytest.raises(ValueError, match="heartbeat is 0; allowed: 1 or more"):
        distributed.start(heartbeat=0)


def test_one_task_per_node_uses_all_gpus_of_the_node():
    node = SLURM | {"SLURM_STEP_NUM_NODES": "4", "SLURM_GPUS_ON_NODE": "8"}
    assert distributed._devices_of_node(node) == list(range(8))
    assert distributed._devices_of_node(node | {"SLURM_NTASKS": "32"}) is None  # one per GPU
    assert distributed._devices_of_node(node | {"JAX_LOCAL_DEVICE_IDS": "3"}) is None
    assert distributed._devices_of_node(SLURM) is None
    assert distributed._devices_of_node({}) is None


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (RuntimeError("Gloo all-reduce failed: connection reset"), ValueError, 75),
        (OSError(28, "No space left on device"), OSError, None),
    ],
)
def test_errors_of_several_processes_name_the_host(error, kind, status, monkeypatch):
    monkeypatch.setattr(distributed.jax, "process_count", lambda: 4)
    monkeypatch.setattr(distributed.socket, "gethostname", lambda: "node7")
    with pytest.raises(kind, match="process 0 of 4 on host node7") as raised:
        with distributed.losses_named():
            raise error
    assert str(error).split(":")[0] in str(raised.value)
    assert getattr(raised.value, "status", None) == status


def test_a_single_process_needs_no_coordination():
    distributed.start()
    assert distributed.is_first()
    assert distributed.gather({"a": 1}) == [{"a": 1}]
    assert distributed.from_first(lambda: [1, 2]) == [1, 2]
    assert distributed.first_then_others(lambda: "made") == "made"
    tree = {"a": np.ones(3)}
    assert distributed.to_first_device(tree) is tree
    with pytest.raises(RuntimeError, match="Gloo"), distributed.losses_named():
        raise RuntimeError("Gloo is nobody's business here")


def test_states_are_put_together():
    first = {"version": 1, "lane": {"0": {"next": 8}, "1": {"next": 9}}}
    second = {"version": 1, "lane": {"2": {"next": 2}, "1": {"next": 9}}}
    assert distributed.merged([first, second]) == {
        "version": 1, "lane": {"0": {"next": 8}, "1": {"next": 9}, "2": {"next": 2}}
    }  # fmt: skip
    with pytest.raises(ValueError, match="differ in their data/lane/1/next: 9, 7"):
        distributed.merged([first, {"lane": {"1": {"next": 7}}}], "data")
    with pytest.raises(ValueError, match="differ in their state: 1, None"):
        distributed.merged([1, 1, None])


@pytest.mark.parametrize("index", [0, 1])
def test_missing_processes_are_named_after_the_timeout(index):
    """Process 1 finds no coordinator, process 0 finds no other process."""
    port = free_port()
    code = f"from mmt import distributed; distributed.start('localhost:{port}', 2, {index}, 2)"
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False, timeout=120
    )
    assert time.perf_counter() - begin < 60
    error = done.stderr.decode()
    assert done.returncode == 1 and error.count("mmt: ") == 1 and "Traceback" not in error
    message = ("not all of the processes, 2, reached", "cannot be reached")[index]
    assert message in error and f"localhost:{port}" in error and "within 2 seconds" in error


def test_several_processes_do_not_write_one_corpus(toy_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed.jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match="said are not complete, and one process must write them"):
        distill.Translations("runs/teacher", str(toy_corpus), str(tmp_path / "said")).write()
    assert not (tmp_path / "said").exists()


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
    return Runner(write_corpus(tmp_path_factory.mktemp("data") / "words"))


def measured(directory):
    """The numbers of a run without its clocks: name -> value, also of each language."""
    rows = rows_without_clocks(directory)
    for row in rows:
        for name in [name for name in row if isinstance(row[name], dict)]:
            row |= {f"{name}/{key}": value for key, value in row.pop(name).items()}
    return [{k: v for k, v in row.items() if isinstance(v, (int, float))} for row in rows]


def assert_same_run(directory, other):
    ours, theirs = measured(directory), measured(other)
    assert [row["step"] for row in ours] == [row["step"] for row in theirs]
    for row, expected in zip(ours, theirs, strict=True):
        assert row == pytest.approx(expected, rel=2e-5, abs=1e-6)


@pytest.mark.mesh
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("model", "runs"),
    [
        (DENSE, [(2, 1, {}), (2, 2, {"data": 2, "model": 2}), (2, 1, {"data": 1, "model": 2})]),
        (MOE, [(2, 1, {}), (4, 1, {})]),
    ],
    ids=["dense", "moe"],
)
def test_several_processes_train_as_one(runner, tmp_path, model, runs):
    runner.run(tmp_path / "one", *model)
    together = records(tmp_path / "one")
    for number, (processes, devices, axes) in enumerate(runs):
        name = tmp_path / str(number)
        flags = [f"--gin.sharding.device_mesh.axes={axes}"] if axes else []
        errors = runner.run(name, *model, *flags, processes=processes, devices=devices)
        assert_same_run(name, tmp_path / "one")
        assert len(list(name.glob("events.out.tfevents.*"))) == 1
        assert errors[0].count("validation loss") == 2
        assert not any("mmt" in error or "step" in error for error in errors[1:])
        copies = processes if axes.get("data") == 1 else 1  # rows in one part: all read all
        assert records(name) == [step * copies for step in together]


@pytest.mark.mesh
def test_validation_by_bleu_is_done_by_one(runner, tmp_path):
    hooks = (
        "--gin.train.train.hooks=[@validation.ValidationBleu(), @hooks.EarlyStop()]",
        "--gin.hooks.EarlyStop.patience=1", "--gin.hooks.EarlyStop.metric=bleu",
        "--gin.hooks.EarlyStop.larger_is_better=True", "--gin.EVAL_PERIOD=2",
    )  # fmt: skip
    stopped = {}
    for processes in (1, 2):
        directory = tmp_path / str(processes)
        runner.run(directory, *DENSE, *hooks, processes=processes, steps=12)
        rows = read_metrics(directory / "metrics.jsonl")
        stopped[processes] = [row for row in rows if "stopped" in row]
        assert [row for row in rows if "bleu" in row]
    assert_same_run(tmp_path / "1", tmp_path / "2")
    assert stopped[1] == stopped[2] != []


def running(directory, started, rows=3):
    """Waits until a run has made a few steps."""
    while len(read_metrics(directory / "metrics.jsonl")) < rows:
        assert all(process.poll() is None for process in started), finish(started)
        time.sleep(0.05)


@pytest.mark.mesh
@pytest.mark.parametrize("victim", [0, 2])
def test_the_death_of_a_process_ends_all(runner, tmp_path, victim):
    flags = (*DENSE, "--gin.BATCH_SIZE=12")
    started = runner.start(tmp_path / "run", *flags, processes=3, steps=10**6)
    running(tmp_path / "run", started)
    started[victim].kill()
    begin = time.perf_counter()
    ended = finish(started, timeout=90)
    assert time.perf_counter() - begin < 40  # the heartbeat is 10
    for index, (status, _, error) in enumerate(ended):
        assert status != 0
        if index != victim:
            assert "lost another one" in error or "another task died" in error, error


@pytest.mark.mesh
@pytest.mark.parametrize("victim", [0, 1])
def test_a_death_while_saving_leaves_the_previous_checkpoint(runner, tmp_path, victim):
    flags = (*DENSE, "--gin.CHECKPOINT_PERIOD=2")
    started = runner.start(tmp_path / "run", *flags, processes=2, steps=10**6)
    running(tmp_path / "run", started, rows=6)
    while not list(tmp_path.glob("run/checkpoints/*.orbax-checkpoint-tmp")):
        assert all(process.poll() is None for process in started), finish(started)
    started[victim].kill()
    assert all(status != 0 for status, _, _ in finish(started, timeout=90))
    steps = Run(tmp_path / "run").checkpoint_steps()
    folders = [tmp_path / "run/checkpoints" / str(step) for step in steps]
    assert folders and not any(map(digests.verify, folders))
    assert all(map(digests.has_digests, folders))
    errors = runner.run(tmp_path / "run", *flags, processes=2, steps=steps[-1] + 3)
    assert "damaged" not in "".join(errors)
    assert not list(tmp_path.glob("run/checkpoints/*tmp*"))


@pytest.mark.mesh
def test_sigterm_to_a_process_ends_all_with_a_checkpoint(runner, tmp_path):
    flags = (*DENSE, "--gin.EVAL_PERIOD=1000000")  # a validation would end with a recovery state
    started = runner.start(tmp_path / "run", *flags, processes=2, steps=10**6)
    running(tmp_path / "run", started)
    os.kill(started[1].pid, signal.SIGTERM)
    ended = finish(started, timeout=90)
    assert [status for status, _, _ in ended] == [143, 143]
    (step,) = Run(tmp_path / "run").checkpoint_steps()
    assert f"checkpoint {step} is written" in ended[0][2]
    rows = read_metrics(tmp_path / "run/metrics.jsonl")
    assert [row["step"] for row in rows if "loss" in row] == list(range(1, step + 1))
    runner.run(tmp_path / "run", *DENSE, steps=step + 2)


@pytest.mark.mesh
def test_sigterm_to_one_while_all_compile_ends_all_after_a_few_steps(
    runner, tmp_path, monkeypatch
):
    """Compiled code is not interrupted: the processes agree on the step after which all end."""
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")
    flags = (*DENSE, "--gin.transformer.Config.encoder_layers=6", "--gin.EVAL_PERIOD=1000000")
    started = runner.start(tmp_path / "run", *flags, processes=2, steps=10**6)
    while not (tmp_path / "run/metrics.jsonl").exists():
        assert all(process.poll() is None for process in started), finish(started)
        time.sleep(0.01)
    os.kill(started[1].pid, signal.SIGTERM)
    ended = finish(started, timeout=120)
    assert [status for status, _, _ in ended] == [143, 143], ended
    (step,) = Run(tmp_path / "run").checkpoint_steps()
    assert 1 <= step <= 5
    assert f"checkpoint {step} is written" in ended[0][2]


@pytest.mark.mesh
@pytest.mark.parametrize(
    ("flags", "flags_of", "message"),
    [
        (["--gin.BATCH_SIZE=9"], {}, "BATCH_SIZE 9 is not divisible by 2"),
        (["--gin.pipeline.train_batches.lanes=1"], {}, "1 virtual shards of 8 rows cannot be"),
        ([], {1: ("--gin.SEED=1",)}, "the processes differ in their data/settings/seed: 0, 1"),
        ([], {1: ("--gin.CORPUS=nowhere", "--gin.CACHE_DIR=nowhere")}, "nowhere"),
    ],
)  # fmt: skip
def test_every_process_reports_what_cannot_run(runner, tmp_path, flags, flags_of, message):
    started = runner.start(tmp_path / "run", *DENSE, *flags, processes=2, flags_of=flags_of)
    ended = finish(started, timeout=120)
    assert [status != 0 for status, _, _ in ended] == [True, True], ended
    assert message in ended[1][2]
    if not flags_of or "SEED" in json.dumps(flags_of):
        assert message in ended[0][2]
        assert "Traceback" not in ended[0][2] + ended[1][2]


COMPILES = """
import jax, numpy as np
from mmt import distributed
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.split("/")[-1]))
distributed.start()
sharded = jax.sharding.NamedSharding(jax.make_mesh((2,), ("data",)), jax.P("data"))
rows = jax.make_array_from_process_local_data(sharded, np.ones((2, 3), np.float32))
jax.jit(lambda x: (x * x).sum())(rows).block_until_ready()
print(events.count("compile_requests_use_cache"), events.count("cache_hits"))
distributed.finish()
"""


@pytest.mark.mesh
def test_the_first_process_writes_the_cache_of_programs_and_finds_them_again(tmp_path):
    """What docs/training/hosts.md says of a shared cache. On the CPU, JAX's keys of the other
    processes differ, so they are not asked for hits.
    """

    def start(*caches) -> list[tuple[int, int]]:
        """Returns (programs, programs found) of each process, which has the cache given."""
        port, started = free_port(), []
        for index, cache in enumerate(caches):
            environment = os.environ | {
                "JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PLATFORMS": "cpu",
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_NUM_PROCESSES": "2",
                "JAX_COORDINATOR_ADDRESS": f"localhost:{port}", "JAX_PROCESS_ID": str(index),
            }  # fmt: skip
            environment.pop("XLA_FLAGS", None)  # one device for each
            started.append(
                subprocess.Popen([sys.executable, "-c", COMPILES], cwd=ROOT, env=environment,
                                 text=True, stdout=subprocess.PIPE)
            )  # fmt: skip
        outputs = [process.communicate(timeout=300)[0] for process in started]
        assert [process.returncode for process in started] == [0, 0]
        return [tuple(map(int, output.split()[-2:])) for output in outputs]

    shared, other = tmp_path / "shared", tmp_path / "other"
    (programs, found), _ = start(shared, other)
    assert programs > 0 and found == 0
    names = sorted(path.name for path in shared.iterdir())
    assert names and not list(other.glob("*"))
    (again, found), _ = start(shared, shared)
    assert again == found == programs
    assert sorted(path.name for path in shared.iterdir()) == names
