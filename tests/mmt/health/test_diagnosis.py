"""The host at fault is named, and no other one."""

import re

import pytest

from mmt.health import Health, Heartbeat, examine, stalled, table

NOW = 1_000_000.0
GIB = 2**30


def beats(count=4, *, health=Health(), **fields):  # noqa: B008
    """Heartbeats of a run in step 100, that wait for the device; fields: name -> {process: value}.
    """
    base = {"step": 100, "activity": "device", "idle": 0.5, "compiled": True, "steps": 50,
            "step_seconds": 1.0, "host_seconds": 0.05, "time": NOW - 4,
            "free": {"/shared": 900 * GIB}}  # fmt: skip
    return [
        Heartbeat(start=NOW - 5000, process=process, processes=count, host=f"node{process}", pid=7,
             health=health, **base | {name: of[process] for name, of in fields.items()
                                      if process in of})
        for process in range(count)
    ]  # fmt: skip


def named(every, now=NOW):
    return [(problem.kind, problem.processes) for problem in examine(every, now)]


def everywhere(value, count=4):
    return dict.fromkeys(range(count), value)


def test_a_healthy_run_has_no_problem():
    assert named(beats()) == []
    assert named(beats(1)) == []
    assert named([]) == [] and stalled([], NOW) == 0
    assert named(beats(activity={2: "hooks"}, step={3: 101})) == []


@pytest.mark.parametrize(
    ("fields", "processes", "words"),
    [
        ({"activity": {2: "input"}}, (2,), r"node2 \(process 2\) is at step 100 \(input\)"),
        ({"step": {1: 98}, "activity": {1: "validating BLEU"}}, (1,), "step 98 .validating BLEU"),
        ({"activity": everywhere("dispatch") | {0: "input", 3: "input"}}, (0, 3), "others wait"),
        ({}, (), "none|no host can be named"),
        ({"time": {3: NOW - 400}}, (3,), "node3"),  # frozen at the same place
    ],
)
def test_a_hung_collective_names_the_host_that_is_behind(fields, processes, words):
    every = beats(**{"idle": everywhere(200.0)} | fields)
    (hung,) = [problem for problem in examine(every, NOW) if problem.kind == "hung"]
    assert hung.processes == processes
    assert re.search(words, hung.text), hung.text


def test_a_run_is_not_hung_while_a_process_makes_progress():
    validating = beats(idle=everywhere(4000.0) | {0: 3.0}, activity={0: "validating BLEU"})
    assert named(validating) == [] and stalled(validating, NOW) == 7
    compiling = beats(idle=everywhere(300.0), compiled=everywhere(False))
    assert named(compiling) == [] and stalled(compiling, NOW) == 76
    assert named(beats(idle=everywhere(300.0))) == [("hung", ())]
    (compiling,) = examine(beats(idle=everywhere(600.0), compiled=everywhere(False)), NOW)
    assert "They may be compiling" in compiling.text


def test_a_silent_host_is_named():
    assert named(beats(time={1: NOW - 61})) == [("silent", (1,))]
    assert named(beats(time={1: NOW - 59})) == []
    slow_beats = Health(period=60.0)
    assert named(beats(time={1: NOW - 61}, health=slow_beats)) == []


def test_a_directory_that_is_not_shared_is_reported():
    alone = beats()[:1]
    (missing,) = examine(alone, NOW)
    assert missing.kind == "missing" and missing.processes == (1, 2, 3)
    assert "is MODEL_DIR shared by all hosts?" in missing.text and "1, 2, 3" in missing.text
    assert named(alone, alone[0].start + 20) == []  # the others are still starting


def test_a_process_that_ended_alone_is_named():
    every = beats(ended={2: "process 2 of 4 on host node2: No space left on device"})
    (ended,) = examine(every, NOW)
    assert ended.processes == (2,) and "No space left" in ended.text
    assert named(beats(ended=everywhere("all is written")), NOW + 10**6) == []


def test_a_run_that_has_ended_because_it_hung_still_names_the_host():
    every = beats(ended=everywhere("hung"), activity={2: "input"})
    assert named(every, NOW + 10**6) == [*(("ended", (n,)) for n in range(4)), ("hung", (2,))]
    frozen = beats(2, ended={0: "hung"}, step={1: 98})
    assert ("hung", (1,)) in named(frozen, NOW + 3600)


def test_a_slow_host_is_named_by_its_own_time():
    """All have the same time per step: the others wait for it."""
    step = everywhere(2.0)
    assert named(beats(step_seconds=step, host_seconds={3: 1.6})) == [("slow", (3,))]
    assert named(beats(step_seconds=step, host_seconds={3: 0.6})) == []  # hidden by the device
    assert named(beats(step_seconds=step, host_seconds=everywhere(1.6))) == []  # all alike
    assert named(beats(step_seconds=step, host_seconds={3: 1.6}, steps={3: 2})) == []
    assert named(beats(2, step_seconds=step, host_seconds={1: 1.6})) == [("slow", (1,))]
    assert named(beats(1, step_seconds=step, host_seconds={0: 1.6})) == []


def test_full_disks_are_named_by_directory():
    free = {"/shared": 900 * GIB, "/tmp": GIB}
    (disk,) = examine(beats(free={1: free}), NOW)
    assert disk.processes == (1,) and "node1 (process 1): 1.00 GiB free for /tmp" in disk.text
    (disk,) = examine(beats(20, free=everywhere({"/shared": GIB}, 20)), NOW)
    assert disk.processes == tuple(range(20)) and "and 12 more" in disk.text
    assert named(beats(free={1: free}, health=Health(free_gib=0.5))) == []


def test_the_table_has_a_line_for_each_process():
    lines = table(beats(ended={1: "hung"}), NOW).splitlines()
    assert len(lines) == 5 and "node3" in lines[4] and "hung" in lines[2]
