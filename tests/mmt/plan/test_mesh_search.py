"""Candidates, ranking and table of a search over meshes; compiling them is `mesh`."""

import json
import math

import pytest

from mmt import config, sharding
from mmt.cli import main
from mmt.plan import compile, estimate, mesh_search, step_time, topology

GSHARD = ["gin_configs/models/gshard_600b.gin"]


@pytest.fixture(scope="module")
def gshard() -> mesh_search.MeshSearch:
    """Returns the search for GShard's 600B on the machine of the paper."""
    return mesh_search.search(GSHARD, [], "v3:32x32")


def test_candidates_are_the_files_and_all_factorisations():
    layouts = mesh_search.candidates(8)
    files = {layout.file: layout for layout in layouts if layout.file}
    assert set(files) == {path.rsplit("/")[-1] for path in estimate.meshes()}
    assert files["expert_data_model.gin"].axes == {"data": 2, "expert": 2, "model": 2}
    assert all(math.prod(layout.axes.values()) == 8 for layout in layouts)
    assert len({layout.name for layout in layouts}) == len(layouts)
    sizes = {tuple(layout.axes.get(axis, 1) for axis in ("data", "expert", "model"))
             for layout in layouts}  # fmt: skip
    every = {(d, e, 8 // d // e) for d in (1, 2, 4, 8) for e in (1, 2, 4, 8) if 8 % (d * e) == 0}
    # One axis for experts and batch is called data.
    assert sizes == {(d, e, m) for d, e, m in every if e == 1 or d > 1}


def test_gshards_own_layout_is_among_the_fastest(gshard):
    """One expert on each core, the batch over all cores: section 3.3 of the paper."""
    names = [row.layout.file for row in gshard.ranked[: mesh_search.TABLE_ROWS]]
    assert "data.gin" in names
    seconds = [row.step.seconds for row in gshard.ranked]
    assert seconds == sorted(seconds)
    assert all(row.plan.fits for row in gshard.ranked)
    assert 0.05 < gshard.mfu(gshard.ranked[0]) < 0.6  # 19 % in the paper, by 6 N D


def test_every_mesh_is_counted(gshard):
    total = len(mesh_search.candidates(2048))
    assert len(gshard.ranked) + sum(gshard.refused.values()) == total
    assert any("do not fit into 15.48 GiB" in reason for reason in gshard.refused)


def refused(batch: int) -> dict[str, int]:
    """Returns the reasons of a search for a dense model with four heads on 16 devices."""
    bindings = [f"BATCH_SIZE = {batch}", "VOCAB_SIZE = 6016"]
    return dict(mesh_search.search(["gin_configs/models/tiny.gin"], bindings, "v4:4x2x2").refused)


def test_what_a_mesh_does_not_divide_is_named():
    """Each mesh is counted once, by the first array that it does not divide."""
    layouts = mesh_search.candidates(16)
    heads = sum(layout.axes["model"] > 4 for layout in layouts)
    assert refused(64) == {"the mesh does not divide the heads": heads}
    whole = sum(layout.axes["model"] == 16 for layout in layouts)  # a batch in one part
    assert refused(63) == {"the mesh does not divide BATCH_SIZE": len(layouts) - whole,
                           "the mesh does not divide the heads": whole}  # fmt: skip


def test_an_error_that_is_not_about_division_is_not_counted(monkeypatch):
    """Two rules for one mesh axis: no other number of devices would help."""
    rules = {"mlp": "data", "embed": "data"}
    wrong = mesh_search.MeshLayout({"data": 16, "model": 1}, rules)
    monkeypatch.setattr(mesh_search, "candidates", lambda devices: [wrong])
    with pytest.raises(ValueError, match=r"mesh data 16, fully sharded: .*already shards its axis"):
        refused(64)


def test_the_table_ends_with_the_lines_that_select_the_best(gshard):
    lines = gshard.table().splitlines()
    assert lines[0].split() == ["mesh", "step", "compute", "memory", "links", "GiB", "MFU", "from"]
    assert len(lines[1 : lines.index("")]) == mesh_search.TABLE_ROWS
    best = gshard.ranked[0].layout
    assert lines[-2:] == best.bindings
    config.load([*GSHARD, compile.MESH], lines[-2:])
    assert config.value(sharding.device_mesh, "axes") == best.axes
    assert config.value(sharding.Layout, "over") == best.over
    assert json.loads(json.dumps(gshard.to_json()))["best"] == best.bindings


def test_what_limits_a_step_sums_to_it(gshard):
    step = gshard.ranked[0].step
    assert list(step.limits) == ["compute", "memory", "links"]
    assert sum(step.limits.values()) == pytest.approx(step.seconds)
    assert step.limits["links"] == pytest.approx(
        step.parts["all-to-all"] + step.parts["all-reduce"]
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--topology", "cpu:8"], "no forecast for CPUs"),
        (["--topology", "gpu:8", "--search", "2"], "--search 0 ranks by shapes"),
        (["--topology", "v4:2x2x1", "--search", "-1"], "allowed: 0 or more"),
    ],
)
def test_searches_that_cannot_be_made_are_errors(flags, message, capsys):
    flags = [*flags, *([] if "--search" in flags else ["--search"])]
    assert main.main(["plan", "--gin_file=gin_configs/models/tiny.gin", *flags]) == 1
    assert message in capsys.readouterr().err


def test_compiled_meshes_come_first_and_refused_ones_are_said(monkeypatch, gshard):
    """The compiler finds the second one slower, and refuses the third."""
    names = [row.layout.name for row in gshard.ranked[:3]]
    times = dict(zip(names, (2.0, 1.0, None), strict=True))

    def planned(files, bindings, name):
        row = next(r for r in gshard.ranked[:3] if r.layout.bindings == bindings)
        if times[row.layout.name] is None:
            raise ValueError("the compiler rejects the program")
        cycles = {"routing": times[row.layout.name] * topology.parse(name).chip.clock}
        answer = {**row.plan.answer, "profile": {"products": [], "cycles": cycles, "bytes": {}}}
        return estimate.TopologyPlan(row.plan.machine, answer | {"collectives": []})

    monkeypatch.setattr(estimate, "plan", planned)
    monkeypatch.setattr(compile, "why_not", lambda machine: "")
    monkeypatch.setattr(mesh_search, "_search_by_shapes", lambda *_: gshard)
    found = mesh_search.search(GSHARD, [], "v3:32x32", compiled=3)
    assert [row.layout.name for row in found.ranked[:2]] == [names[1], names[0]]
    assert [row.compiled for row in found.ranked[:3]] == [True, True, False]
    assert found.errors == {names[2]: "the compiler rejects the program"}
    assert names[2] not in [row.layout.name for row in found.ranked]
    assert "program" in found.table().splitlines()[1]
    assert step_time.forecast(found.ranked[0].plan).seconds == pytest.approx(1.0)
