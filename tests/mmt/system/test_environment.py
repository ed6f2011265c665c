"""What a run directory notes of the machine."""

import pytest

from mmt.system import environment


def test_what_is_written_is_read(tmp_path):
    assert environment.read(tmp_path) is None
    environment.write(tmp_path)
    found = environment.read(tmp_path)
    assert found == environment.here()
    assert found.devices == environment.cores() and found.device.endswith(" core")
    assert {"python", "jax", "mmt"} <= found.versions.keys()


def test_a_broken_file_is_named(tmp_path):
    for text in ("{", '{"device": "x"}', "[]"):
        (tmp_path / "environment.json").write_text(text)
        with pytest.raises(ValueError, match=r"environment\.json"):
            environment.read(tmp_path)
