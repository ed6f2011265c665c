"""A folder of made-up files of a test set."""

import pytest


@pytest.fixture
def write(tmp_path):
    """write({'devtest/deu_Latn.devtest': lines}) makes a folder of such files and returns it."""

    def make(files):
        for name, lines in files.items():
            path = tmp_path / "set" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        return tmp_path / "set"

    return make
