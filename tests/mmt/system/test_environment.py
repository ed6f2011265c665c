"""What a run directory notes of the machine."""

import pytest

from mmt.system import environment


def test_what_is_written_is_read(tmp_path):
    file = tmp_path / "environment.json"
    assert environment.read(file) is None
    environment.write(file)
    found = environment.read(file)
    assert found == environment.here()
    assert found.devices == environment.cores() and found.device.endswith(" core")
    assert {"python", "jax", "mmt"} <= found.versions.keys()


def test_a_broken_file_is_named(tmp_path):
    file = tmp_path / "environment.json"
    for text in ("{", '{"device": "x"}', "[]"):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"environment\.json"):
            environment.read(file)
