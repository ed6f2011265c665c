"""The folder of what is made on first use: from the environment, else in the home folder."""

from mmt.system.data_root import data_root


def test_the_data_root_is_the_environments_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.delenv("MMT_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root() == tmp_path / ".cache" / "mmt"
