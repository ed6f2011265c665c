"""`mmt plan`: what follows from a compile's answer, hand-made here; real compiles are `mesh`."""

import importlib.util
import json

import pytest

from mmt import config, plan
from mmt.cli import main
from mmt.plan import topology

TINY = "--gin_file=gin_configs/models/tiny.gin"
GIB = 2**30
EXHAUSTED = (
    "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
    "Used 19.30G of 15.48G hbm. Exceeded hbm capacity by 3.82G."
)
TEMPORARIES = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
    "required for HLO temporaries (25.45G) exceeds available HBM (15.48G). HLO module: jit__step."
)


def found(**changes) -> dict:
    """A compiled step on v4:4x4x4 in which one all-to-all sends 1e9 bytes."""
    exchange = {"kind": "all-to-all", "bytes": 10**9, "largest": 10**9, "executed": 3, "group": 64,
                "source": ""}  # fmt: skip
    memory = {"argument": 5 * GIB, "output": 5 * GIB, "alias": 5 * GIB, "temp": 2 * GIB,
              "generated_code": GIB // 2}  # fmt: skip
    return {
        "devices": 64, "mesh": {"data": 64, "model": 1}, "notes": [],
        "parameters": {"total": 10**9, "active": 10**8}, "parameter_bytes": 4 * GIB,
        "replicated_bytes": GIB, "optimizer_bytes": GIB // 2,
        "work": {"flops": 64 * 275e12, "bytes": 64 * 1e9}, "tokens_per_step": 10**6,
        "tokens": 1e12, "collectives": [exchange], "memory": memory, "compile_seconds": 10.0,
        "compile_cpu_seconds": 12.0, "peak_rss": 10**9,
    } | changes  # fmt: skip


def made(name: str = "v4:4x4x4", **changes) -> plan.TopologyPlan:
    return plan.TopologyPlan(topology.parse(name), found(**changes))


def without(*names: str, name: str = "v4:4x4x4") -> plan.TopologyPlan:
    values = {key: value for key, value in found().items() if key not in names}
    return plan.TopologyPlan(topology.parse(name), values)


def test_bytes_of_a_device():
    sizes = made().bytes_per_device
    assert sizes["temporary"] == 2.5 * GIB  # the program lies in the chip's memory, too
    assert (sizes["total"], sizes["limit"]) == (7.5 * GIB, 30.75 * GIB)
    assert made().fits is True


def test_a_plan_that_is_too_large_proposes_changes():
    result = without("memory", "collectives", name="v3:4x8")
    large = plan.TopologyPlan(result.machine, {**result.answer, "exhausted": EXHAUSTED})
    assert large.fits is False
    assert large.bytes_per_device["total"] == pytest.approx(19.3 * GIB)
    note = large.notes[0]
    assert "needs 19.30 GiB of 15.48 GiB" in note
    for change in ("remat", "fully_sharded", "BATCH_SIZE", "microbatches"):
        assert change in note
    assert large.to_json()["collectives"] is None
    smaller = plan.TopologyPlan(result.machine, {**result.answer, "exhausted": TEMPORARIES})
    part = smaller.bytes_per_device
    assert part["temporary"] == pytest.approx(25.45 * GIB)
    assert part["total"] == pytest.approx((25.45 + 4.5) * GIB)


def test_without_a_compiler_only_a_misfit_is_certain():
    assert without("memory", "collectives").fits is None
    gpu = made("gpu:64", parameter_bytes=50 * GIB, memory=None)
    assert gpu.fits is False  # with its gradients
    assert "does not fit: needs more than all of" in gpu.notes[0]


def test_the_roofline_is_arithmetic():
    """275 TFLOP a device are a second of v4; 3 all-to-alls of 1e9 bytes cross a 4 x 4 x 4 torus,
    of which a device has 2 links of 50 GB/s.
    """
    parts = made().roofline
    assert parts["compute"] == pytest.approx(1.0)
    assert parts["memory"] == pytest.approx((1e9 + 3 * GIB + 12 * GIB + GIB) / 1200e9)
    assert parts["interconnect"] == pytest.approx(3 * 63 / 64 * 1e9 / 100e9)
    assert made().step_seconds == pytest.approx(1.0 + parts["interconnect"])
    assert made().days == pytest.approx(1e12 / 1e6 * made().step_seconds / 86400)
    years = made().to_json()["chip_years"]
    assert years == pytest.approx(made().days / 365.25 * 64)


def test_gshards_days_are_those_of_its_steps_a_second():
    """Table 1: 0.72 steps/s of 4M source tokens are 4.0 days, on 2,048 cores 22.4 core-years."""
    machine = topology.parse("v3:32x32")
    work = {"flops": 61.5e12 * 2048 / 0.72, "bytes": 0.0}
    paper = plan.TopologyPlan(machine, found(devices=2048, work=work, collectives=[],
                                     tokens_per_step=4 * 10**6, parameter_bytes=0,
                                     optimizer_bytes=0, replicated_bytes=0))  # fmt: skip
    assert paper.days == pytest.approx(4.0, abs=0.05)
    assert 2 * paper.to_json()["chip_years"] == pytest.approx(22.4, rel=0.01)


def test_decoding_has_no_days():
    result = made(tokens_per_step=None)
    assert result.days is None and result.to_json()["chip_years"] is None


def test_decoding_needs_its_parameters_once():
    """They are 60 % of a chip: gradients would not fit, and there are none."""
    size = int(0.6 * topology.parse("gpu:1").chip.memory)
    sizes = {"devices": 1, "parameter_bytes": size, "replicated_bytes": size, "optimizer_bytes": 0,
             "work": {"flops": 1e9, "bytes": size / 2}, "memory": None}  # fmt: skip
    assert made("gpu:1", **sizes).fits is False
    result = made("gpu:1", **sizes, tokens_per_step=None)
    assert result.fits is None
    assert result.roofline["memory"] == pytest.approx(1.5 * size / 3350e9)
    large = made("gpu:1", **sizes | {"parameter_bytes": 2 * size}, tokens_per_step=None)
    assert large.fits is False
    assert "meshes/model.gin" in large.notes[0] and "fully_sharded" in large.notes[0]
    for change in ("remat", "BATCH_SIZE", "microbatches"):  # of training
        assert change not in large.notes[0]


def test_the_answer_has_the_documented_keys():
    row = made().to_json()
    assert set(row["bytes_per_device"]) == {
        "parameters", "optimizer", "temporary", "total", "limit"
    }  # fmt: skip
    assert set(row["parameters"]) == {"total", "active"}
    assert row["collectives"] == {"all-to-all": {"count": 1, "executed": 3, "bytes": 3 * 10**9}}
    required = {"devices", "fits", "flops_per_step", "compile_seconds", "step_seconds_estimate"}
    assert required <= set(row)
    json.dumps(row)


def test_the_table_names_what_is_not_known():
    text = without("memory", "collectives", "compile_seconds", name="cpu:1").table()
    rows = {line[:20].strip(): line[20:] for line in text.splitlines()}
    assert rows["fits"] == rows["step, at best"] == rows["compiled in"] == "not known"
    assert "compiled in         10.0 s" in made().table()
    assert "large pages" in rows and "large pages" not in made().table()  # of a CPU, of a TPU


def test_comparing_keeps_what_was_refused():
    both = plan.MeshComparison({"data": made(), "model": ValueError("heads of 12")})
    first, second = both.table().splitlines()[1:3]
    assert first.split()[:3] == ["data", "yes", "7.50"] and second.startswith("model")
    assert both.table().endswith("model: heads of 12")
    assert both.to_json()["model"] == {"error": "heads of 12"}


def test_comparing_tells_unknown_collectives_from_none():
    """Each note is printed once; a program without collectives receives 0 MB."""
    unknown = without("memory", "collectives", name="gpu:64")
    plans = {"data": unknown, "model": unknown, "one": made(collectives=[])}
    lines = plan.MeshComparison(plans).table().splitlines()
    assert lines[1].split()[:6] == ["data", "?", "?", "?", "?", "?"]
    assert lines[3].split()[3:6] == ["0", "0", "0"]
    assert lines[4:] == ["note: the step time excludes collectives, which are unknown"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--topology", "v7:8x8"], "unknown topology 'v7:8x8'; nearest: v"),
        (["--topology", "v4:8x16"], "v4 is NxNxN, as in v4:8x16x16"),
        (["--topology", "v4:8x16", "--compare"], "v4 is NxNxN"),
    ],
)
def test_topologies_are_checked_before_anything_starts(flags, message, capsys):
    assert main.main(["plan", TINY, *flags]) == 1
    assert message in capsys.readouterr().err


def test_either_params_or_topology_is_required(capsys):
    for flags in ([], ["--params", "--topology", "cpu:8"]):
        with pytest.raises(SystemExit):
            main.main(["plan", TINY, *flags])
        assert "--params" in capsys.readouterr().err


# -- real compiles, each in its process

SMALL = ["BATCH_SIZE=16", "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 16}", "VOCAB_SIZE=512"]
GROUPS = "moe.MoeConfig.group_size=32"  # of the 256 tokens: a group for each of 8 devices
needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed: mmt[plan]"
)


def test_a_gpus_plan_is_shapes_and_arithmetic():
    """FLOPs as 6·N·D, with the active parameters of a token's own side."""
    result = plan.plan(["gin_configs/models/tiny.gin"], SMALL, "gpu:8")
    assert result.bytes_per_device["parameters"] == 4 * result.answer["parameters"]["total"]
    assert result.fits is None and result.exchanges is None and result.step_seconds > 0
    assert "no compiler for GPUs" in result.notes[0]
    products = 6 * 16 * 16 * result.answer["parameters"]["active"]
    assert products < result.answer["work"]["flops"] < 1.5 * products  # and attention, dots kept


def test_the_chosen_mesh_divides_a_microbatch():
    """32 microbatches of 128 rows have 4 rows each, for 8 devices."""
    bindings = ["train.Trainer.microbatches=32", "moe.MoeConfig.group_size=256"]
    result = plan.plan(["gin_configs/models/tiny_moe.gin"], bindings, "gpu:8")
    assert result.answer["mesh"] == {"data": 4, "model": 2}
    assert result.notes[0].startswith("mesh chosen: 4 x 2; rows of a microbatch, groups and exp")


@pytest.mark.parametrize(
    ("files", "bindings", "message"),
    [
        (["gin_configs/models/tiny.gin"], ["BATCH_SIZE=0"], "BATCH_SIZE"),
        (["gin_configs/models/tiny_moe.gin"], ["train.Trainer.microbatches=256"],
         "128 rows does not divide into 256 microbatches"),
        (["gin_configs/meshes/data.gin"], [], "no MODEL"),
        (["gin_configs/models/tiny.gin", "gin_configs/meshes/data_model.gin"],
         ["sharding.device_mesh.axes={'data': 16, 'model': 1}"], "does not f"),
    ],
)  # fmt: skip
def test_plans_of_impossible_programs_are_errors(files, bindings, message):
    with pytest.raises(ValueError, match=message):
        plan.plan(files, bindings, "gpu:8")


@pytest.mark.mesh
def test_the_command_compiles_for_made_up_devices(capsys):
    """State and its sums are those of the run: the compiled arguments hold them and the batch."""
    bindings = [f"--gin.{binding}" for binding in [*SMALL, GROUPS]]
    model = "--gin_file=gin_configs/models/tiny_moe.gin"
    assert main.main(["plan", model, "--topology", "cpu:8", "--json", *bindings]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["devices"], row["fits"], row["mesh"]) == (8, True, {"data": 8, "model": 1})
    assert row["collectives"]["all-to-all"]["count"] >= 8
    sizes = row["bytes_per_device"]
    held = sizes["parameters"] + sizes["optimizer"] + sizes["temporary"]
    assert held < sizes["total"] < 1.1 * held
    experts = 2 * 8 * 3 * 128 * 384  # a layer in each stack, cut by 8; all else on every device
    total = row["parameters"]["total"]
    assert sizes["parameters"] == 4 * (total - experts + experts // 8)


@pytest.mark.mesh
def test_the_command_compiles_the_search():
    files = ["gin_configs/models/tiny_moe.gin"]
    result = plan.plan(files, [*SMALL, GROUPS], "cpu:8", decode=True)
    assert result.answer["optimizer_bytes"] == 0 and result.days is None
    sizes = result.bytes_per_device  # the encoder's parameters too, which the step does not read
    assert sizes["total"] > sizes["parameters"] + sizes["temporary"]
    assert 0 < result.answer["work"]["flops"] < 2 * 8 * 4 * 8 * result.answer["parameters"]["total"]


@pytest.mark.mesh
@needs_libtpu
def test_gshards_layers_for_a_tpu(monkeypatch):
    """A small GShard on 16 chips of v4: exchanges in both scans; of tokens and weights, nothing is
    gathered, for a row of 256 numbers on every chip is more than all that is.
    """
    monkeypatch.setenv("JAX_OPTIMIZATION_LEVEL", "O1")
    bindings = ["moe.MoeConfig.num_experts=16", "BATCH_SIZE=256", "VOCAB_SIZE=4096",
                "transformer.Config.mlp_dim=512", "transformer.Config.emb_dim=256"]  # fmt: skip
    result = plan.plan(["gin_configs/models/gshard_600b.gin"], bindings, "v4:2x2x4").to_json()
    assert result["fits"] is True and result["bytes_per_device"]["limit"] == 30.75 * GIB
    sent = result["collectives"]
    assert sent["all-to-all"]["count"] == 12
    assert sent["all-to-all"]["executed"] == 12 * 9  # pairs of 18 layers
    assert sent.get("all-gather", {"bytes": 0})["bytes"] < 16 * 256 * 4


@pytest.mark.mesh
@needs_libtpu
def test_plans_that_a_tpu_refuses_are_errors(monkeypatch):
    monkeypatch.setenv("JAX_OPTIMIZATION_LEVEL", "O1")
    large = ["BATCH_SIZE=4096", "TASK_FEATURE_LENGTHS={'inputs': 2048, 'targets': 2048}"]
    result = plan.plan(["gin_configs/models/large.gin"], large, "v5e:2x2")
    assert result.fits is False
    assert result.bytes_per_device["total"] > result.bytes_per_device["limit"]
    with pytest.raises(ValueError, match="v5e:32x64"):
        plan.plan(["gin_configs/models/tiny.gin"], ["BATCH_SIZE=2048"], "v5e:32x64")


def test_config_knows_what_is_bound():
    from mmt import sharding, train

    config.load(["gin_configs/models/tiny.gin"])
    assert not config.binds(train.Trainer)
    files = ["gin_configs/runs/train.gin", "gin_configs/models/tiny.gin"]
    config.load(files, may_leave_open=True)
    assert config.binds(train.Trainer) and not config.binds(sharding.device_mesh)
    config.load([*files, "gin_configs/meshes/data.gin"], may_leave_open=True)
    assert config.binds(sharding.device_mesh)
