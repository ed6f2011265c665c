"""Conversion of Hugging Face's files: memory, a full disk, a signal, NaN. Their contents are tested
in test_hf.py.
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from mmt.convert import hf, hf_config, names, tensors
from mmt.data import vocabulary
from mmt.model.config import Config
from mmt.model.transformer import Transformer

SMALL = {
    "vocab_size": 320, "emb_dim": 64, "num_heads": 2, "head_dim": 32, "mlp_dim": 512,
    "encoder_layers": 2, "decoder_layers": 2,
}  # fmt: skip
LARGE = {  # 2.2 GB
    "vocab_size": 32128, "emb_dim": 1024, "num_heads": 16, "head_dim": 64, "mlp_dim": 2816,
    "encoder_layers": 16, "decoder_layers": 16,
}  # fmt: skip


def write_model(directory, *, spoil=None, **sizes):
    """A directory of Hugging Face with random numbers, and the bytes of its weights."""
    directory.mkdir()
    texts = ["<2eng> Guten Tag, Welt", "Good day, world"]
    vocabulary.train(texts, directory / "spiece.model", size=300, tags=["<2eng>"])
    made = Config(**sizes)
    (directory / "config.json").write_text(json.dumps(hf_config.from_config(made)))
    entries = names.table(Transformer(made)).values()
    shapes = {name: entry.their_shape for entry in entries for name in entry.theirs}
    random = np.random.default_rng(0)
    with tensors.TensorWriter(directory, shapes) as writer:
        for name, shape in shapes.items():
            values = random.random(shape, np.float32)
            if name == spoil:
                values.flat[values.size // 2] = np.nan
            writer[name] = values
    return sum(4 * int(np.prod(shape)) for shape in shapes.values())


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A directory of Hugging Face, and the run directory imported from it."""
    place = tmp_path_factory.mktemp("small")
    write_model(place / "hf", **SMALL)
    hf.import_hf(place / "hf", place / "run")
    return place / "hf", place / "run"


MEASURED = """
import sys
import jax
from mmt.convert import hf

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

jax.devices()
before = peak()
getattr(hf, sys.argv[1])(*sys.argv[2:])
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_a_conversion_needs_memory_for_less_than_half_of_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(tensors, "SHARD_BYTES", 500_000_000)
    size = write_model(tmp_path / "hf", **LARGE)
    assert size > 2e9 and len(list((tmp_path / "hf").glob("*.safetensors"))) > 4
    steps = [("import_hf", "hf", "run"), ("export_hf", "run", "out")]
    try:
        for name, source, out in steps:
            command = [sys.executable, "-c", MEASURED, name, tmp_path / source, tmp_path / out]
            done = subprocess.run(command, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode()
            share = int(done.stdout) / size
            print(f"{name}: {int(done.stdout) / 1e9:.2f} of {size / 1e9:.2f} GB, {share:.2f} x")
            assert 0.01 < share <= 0.5, name
        first, second = tensors.Tensors(tmp_path / "hf"), tensors.Tensors(tmp_path / "out")
        assert len(first) > 100 and first.keys() == second.keys()
        assert all(np.array_equal(first[name], second[name]) for name in first)
    finally:
        for place in tmp_path.iterdir():
            shutil.rmtree(place)


LIMITED = """
import resource, sys
from mmt.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("room", [100_000, 3_000])
def test_a_full_disk_is_an_error_of_one_line_and_leaves_nothing(small, tmp_path, room):
    """A limit on the size of a file stands for the disk's: that of weights, and the first file."""
    flags = [str(room), "import", "hf", small[0], "--out", tmp_path / "run"]
    done = subprocess.run([sys.executable, "-c", LIMITED, *flags], capture_output=True, check=False)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 1 and len(lines) == 1, lines
    assert lines[0].startswith(f"mmt import: cannot write {tmp_path / 'run'}: ")
    assert "File too large" in lines[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["import", "export"])
def test_sigterm_leaves_nothing(small, tmp_path, monkeypatch, way):
    handled, calls = signal.getsignal(signal.SIGTERM), []
    owner, name = {
        "import": (tensors.Tensors, "__getitem__"), "export": (tensors.TensorWriter, "__setitem__"),
    }[way]  # fmt: skip
    original = getattr(owner, name)

    def ended(*arguments):
        calls.append(1)
        if len(calls) == 10:
            assert signal.getsignal(signal.SIGTERM) != handled
            assert len(list(tmp_path.iterdir())) == 1
            signal.raise_signal(signal.SIGTERM)
        return original(*arguments)

    monkeypatch.setattr(owner, name, ended)
    with pytest.raises(SystemExit) as raised:
        if way == "import":
            hf.import_hf(small[0], tmp_path / "out")
        else:
            hf.export_hf(small[1], tmp_path / "out")
    assert raised.value.code == 143
    assert list(tmp_path.iterdir()) == [] and signal.getsignal(signal.SIGTERM) == handled


@pytest.mark.parametrize("name", ["shared.weight", "decoder.block.1.layer.2.layer_norm.weight"])
def test_tensors_with_nan_are_refused_by_name(tmp_path, name):
    write_model(tmp_path / "hf", spoil=name, **SMALL)
    with pytest.raises(ValueError, match=f"model.safetensors: {name} is not finite: 1 of its"):
        hf.import_hf(tmp_path / "hf", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]
