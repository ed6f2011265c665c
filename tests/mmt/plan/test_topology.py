"""Topologies by name, and the rates that follow from their shape."""

import pytest

from mmt.plan import topology


@pytest.mark.parametrize(
    ("name", "chips", "devices"),
    [("v3:32x32", 1024, 2048), ("v4:8x16x16", 2048, 2048), ("v5e:16x16", 256, 256),
     ("v5p:8x16x16", 2048, 2048), ("v6e:16x16", 256, 256), ("gpu:8", 8, 8), ("cpu:8", 8, 8)],
)  # fmt: skip
def test_chips_and_devices(name, chips, devices):
    """GShard's 2,048 v3 cores are 1,024 chips; the two cores of a v4 chip are one device."""
    topology_parsed = topology.parse(name)
    assert (topology_parsed.chips, topology_parsed.devices) == (chips, devices)
    assert topology_parsed.tpu == name.startswith("v")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v4:8x16", "v4 is NxNxN, as in v4:8x16x16"),
        ("v5litepod:16x16", "nearest: v5"),
        ("tpu4:8x16x16", "nearest: v4:8x16x16"),
        ("v3:0x4", "v3 is NxN"),
        ("gpu:", "gpu is N, as in gpu:8"),
        ("cpu:8x8", "cpu is N, as in cpu:8"),
        ("", "unknown topology ''"),
    ],
)
def test_an_unknown_topology_is_an_error(name, message):
    with pytest.raises(ValueError, match="v3:32x32, v4:8x16x16, .*cpu:8") as error:
        topology.parse(name)
    assert message in str(error.value)


def test_an_all_to_all_is_bound_by_the_torus_middle():
    """v5e's pod: 1.6 TB/s through its middle (Google's), which a half of a half of all crosses."""
    pod = topology.parse("v5e:16x16")
    through = 256 / 2 / 2 * pod.rate(all_to_all=True, devices=256)
    assert through == pytest.approx(1.6e12)
    assert pod.rate(all_to_all=False, devices=256) == pytest.approx(1600e9 / 8)  # 1,600 Gbit/s
    assert topology.parse("v6e:16x16").rate(all_to_all=True, devices=256) == pytest.approx(
        2 * pod.rate(all_to_all=True, devices=256)
    )


def test_a_small_torus_is_bound_by_its_links_and_a_part_of_it_is_nearer():
    small, large = topology.parse("v4:2x2x2"), topology.parse("v4:16x16x16")
    assert small.rate(all_to_all=True, devices=8) == 4 * 50e9
    assert large.rate(all_to_all=True, devices=4096) == 0.5 * 50e9
    assert large.rate(all_to_all=True, devices=8) == small.rate(all_to_all=True, devices=8)


def test_beyond_a_node_gpus_have_the_network():
    gpus = topology.parse("gpu:64")
    assert gpus.rate(all_to_all=True, devices=8) > gpus.rate(all_to_all=True, devices=64)


def test_made_up_devices_share_the_machine():
    single, eight = topology.parse("cpu:1"), topology.parse("cpu:8")
    assert single.chip.memory == pytest.approx(8 * eight.chip.memory)
    assert eight.rate(all_to_all=True, devices=8) is None


@pytest.mark.parametrize(
    ("name", "devices", "links"),
    [
        ("v4:8x16x16", 2048, 6),
        ("v4:8x16x16", 256, 4),  # two whole sides
        ("v4:8x16x16", 16, 2),
        ("v4:8x16x16", 64, 3),  # a side, and a line of 4
        ("v4:8x16x16", 2, 1),
        ("v3:32x32", 64, 2),  # 32 chips of two devices
    ],
)
def test_the_ring_of_a_part_has_the_links_of_its_sides(name, devices, links):
    machine = topology.parse(name)
    rate = machine.rate(all_to_all=False, devices=devices)
    assert rate == pytest.approx(links * machine.chip.link)
