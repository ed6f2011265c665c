"""Shape annotations of all of `mmt` are checked in every test; and the toy run they share."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest
from jaxtyping import install_import_hook

ROOT = Path(__file__).resolve().parent.parent

# A program that one test compiled is there for the next, also in another process. JAX has read its
# environment when it was imported, so this process needs the options too.
_COMPILATION_CACHE = {
    "jax_compilation_cache_dir": str(ROOT / ".pytest_cache/xla"),
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
for _option, _value in _COMPILATION_CACHE.items():
    os.environ[_option.upper()] = str(_value)
    jax.config.update(_option, _value)
# Programs here are small and run a few steps: most of a test is their compilation. Both flags make
# it faster, together by a half.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

install_import_hook(["mmt"], "beartype.beartype")  # for the whole session


@pytest.fixture(autouse=True, scope="module")
def few_memory_maps():
    """Frees compiled programs after a module of tests if they take many memory maps.

    Linux allows a process 65,530 (vm.max_map_count). Beyond it LLVM aborts the process.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()


@pytest.fixture
def as_users_have_it(monkeypatch):
    """Disables the type-checking hook, which would raise before the code's own check."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


class ToyBatches:
    """Three made-up languages whose translation is the source reversed; position is one integer."""

    manifest = types.SimpleNamespace(
        languages=("aaa_Latn", "bbb_Latn", "ccc_Latn"), corpus_table=(),
        vocabulary_size={"source": 20, "target": 20},
    )  # fmt: skip

    def __init__(self, rows: int = 8, length: int = 6) -> None:
        self.index, self.rows, self.length = 0, rows, length

    def __next__(self) -> dict[str, np.ndarray]:
        random = np.random.default_rng(self.index)
        self.index += 1
        source = random.integers(2, 20, (self.rows, self.length)).astype(np.int32)
        target = np.concatenate([source[:, ::-1], np.ones((self.rows, 1), np.int32)], axis=1)
        language = random.integers(0, 3, (self.rows, 1)).astype(np.int32)
        ones = np.ones_like(target)
        return {
            "encoder_input_tokens": source,
            "encoder_segment_ids": np.ones_like(source),
            "encoder_positions": np.arange(self.length, dtype=np.int32) * np.ones_like(source),
            "decoder_input_tokens": np.pad(target, ((0, 0), (1, 0)))[:, :-1],
            "decoder_target_tokens": target,
            "decoder_loss_weights": ones.astype(np.float32),
            "decoder_segment_ids": ones,
            "decoder_positions": np.arange(self.length + 1, dtype=np.int32)[None] * ones,
            "decoder_language_ids": language * ones,
        }

    waits_for_losses = False

    def add_corpus_ids(self) -> None:
        pass

    def share(self, rows) -> None:
        pass

    def warnings(self, steps: int) -> list[str]:
        return []

    def next_draw(self) -> int:
        return self.rows * self.index

    def drawn(self, draw: int) -> dict[str, int]:
        return {}

    def validated(self, losses, draw: int, *, training, step: int) -> list:
        return []

    def ledger(self) -> None:
        return None

    def close(self) -> None:
        pass

    def get_state(self) -> dict[str, int]:
        return {"index": self.index}

    def set_state(self, state: dict[str, int]) -> None:
        self.index = state["index"]


@pytest.fixture(scope="session")
def toy_batches():
    """A function that makes the toy run's batches."""
    return ToyBatches


@pytest.fixture(scope="session")
def toy_program():
    """A function that makes a tiny Trainer: toy_program(moe_period=2, log_every=5, ...)."""
    import functools

    import optax

    from mmt import train
    from mmt.model import moe, transformer

    adafactor = optax.adafactor(0.05)

    @functools.cache
    def make(
        *, vocab_size=20, emb_dim=16, moe_period=0, experts=4, routing="token", **options
    ) -> train.Trainer:
        config = transformer.Config(
            vocab_size=vocab_size, emb_dim=emb_dim, num_heads=2, head_dim=8, mlp_dim=32,
            encoder_layers=2, decoder_layers=2, dropout_rate=0.1, moe_period=moe_period,
            moe=moe.MoeConfig(num_experts=experts), encoder_routing=routing,
            decoder_routing=routing, languages=0 if routing == "token" else 3,
        )  # fmt: skip
        options = {"optimizer": adafactor, "log_every": 5, "languages_every": 10} | options
        return train.Trainer(transformer.Transformer(config), **options)

    return make


@pytest.fixture
def toy_trained(toy_batches):
    """A function that trains a toy program for some steps in a directory, which then holds all that
    a run's does but vocabularies: toy_trained(program, directory, steps=5).
    """
    from mmt import train

    def make(program, directory: Path, steps: int = 5) -> Path:
        train.train(program, toy_batches(), model_dir=str(directory), steps=steps)
        sizes = {name: value for name, value in vars(program.model.config).items() if name != "moe"}
        text = "from __gin__ import dynamic_registration\n"
        text += "from mmt.model import moe\nfrom mmt.model import transformer\n"
        text += "transformer.Transformer.config = @transformer.Config()\n"
        text += "transformer.Config.moe = @moe.MoeConfig()\n"
        text += f"moe.MoeConfig.num_experts = {program.model.config.moe.num_experts}\n"
        text += "".join(f"transformer.Config.{name} = {sizes[name]!r}\n" for name in sizes)
        (directory / "config.gin").write_text(text)
        return directory

    return make


@pytest.fixture(scope="session")
def mmt_command():
    """Returns a function that runs `mmt` in its own process: mmt_command("report", ..., stdin=b"").
    """

    def run(*arguments, stdin: bytes = b"", **environment) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "mmt.cli", *map(str, arguments)],
            input=stdin, capture_output=True, cwd=ROOT, timeout=600, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder that all workers of this test session (pytest-xdist) share."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent / "shared" if "PYTEST_XDIST_WORKER" in os.environ else folder / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@contextlib.contextmanager
def made_once(place: Path):
    """Whether this worker is to make `place`; the others wait until it is made."""
    done = place.with_name(f"{place.name}.made")
    with open(place.with_name(f"{place.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not done.exists()
        done.touch()


@pytest.fixture(scope="session")
def toy_corpus(shared_folder):
    """A corpus folder of three made-up dialects of numbers: 'eins zwei' -> 'one two'."""
    folder = shared_folder / "numbers"
    with made_once(folder) as missing:
        if missing:
            write_numbers(folder)
    return folder


def write_numbers(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    words = {
        "deu": "null eins zwei drei vier".split(),
        "swh": "sifuri moja mbili tatu nne".split(),
        "fra": "zéro un deux trois quatre".split(),
    }
    english = "zero one two three four".split()
    random = np.random.default_rng(0)
    sizes = {"train": {"deu": 400, "swh": 60, "fra": 200}, "validation": 20, "test": 30}
    text = ""
    for split, size in sizes.items():
        text += f"[{split}]\n"
        for language, foreign in words.items():
            count = size[language] if isinstance(size, dict) else size
            lines = []
            for _ in range(count):
                ids = random.integers(0, 5, random.integers(1, 5))
                pair = " ".join(foreign[i] for i in ids), " ".join(english[i] for i in ids)
                lines.append("\t".join(pair))
            (folder / f"{split}.{language}.tsv").write_text("\n".join(lines) + "\n")
            text += f'{language} = "{split}.{language}.tsv"\n'
    (folder / "corpus.toml").write_text(text)


TOY_TRAINING = (
    "--gin_file=gin_configs/models/tiny_moe.gin", "--gin_file=gin_configs/runs/train.gin",
    "--gin.MIXTURE_OR_TASK_NAME=numbers_to_eng", "--gin.VOCAB_SIZE=340", "--gin.BATCH_SIZE=8",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 32, 'targets': 32}", "--gin.TRAIN_STEPS=40",
    "--gin.EVAL_PERIOD=20", "--gin.CHECKPOINT_PERIOD=20",
    "--gin.transformer.Config.emb_dim=32", "--gin.transformer.Config.mlp_dim=64",
    "--gin.moe.MoeConfig.num_experts=4", "--gin.train.inverse_sqrt.peak=0.05",
    "--gin.train.inverse_sqrt.warmup_steps=20",
)  # fmt: skip


@pytest.fixture(scope="session")
def cldr_folder():
    """The embedded corpus, made where it is missing: in a process without the hook, far faster."""
    code = "from mmt.data import cldr; print(cldr.ensure())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def toy_training():
    """The flags of `mmt train` on the toy corpus but CORPUS and MODEL_DIR."""
    return TOY_TRAINING


@pytest.fixture(scope="session")
def toy_run(mmt_command, toy_corpus):
    """A run directory, trained on the toy corpus by the command line. MMT_DATA lies beside it.

    All workers read it: a test that changes a run copies it first.
    """
    pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
    directory = toy_corpus.parent / "runs" / "toy"
    with made_once(toy_corpus.parent / "toy") as missing:
        if missing:
            done = mmt_command(
                "train", *TOY_TRAINING, f"--gin.CORPUS={toy_corpus}",
                f"--gin.MODEL_DIR={directory}", MMT_DATA=str(toy_corpus.parent),
            )  # fmt: skip
            assert done.returncode == 0, done.stderr.decode()
            assert done.stdout.decode().strip() == str(directory)
    return directory


@pytest.fixture(scope="session")
def dense_toy_run(mmt_command, toy_corpus):
    """A run directory as `toy_run`, of a dense model that has learnt the corpus."""
    pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
    directory = toy_corpus.parent / "runs" / "dense"
    flags = [flag for flag in TOY_TRAINING if "moe" not in flag and "TRAIN_STEPS" not in flag]
    with made_once(toy_corpus.parent / "dense") as missing:
        if missing:
            done = mmt_command(
                "train", "--gin_file=gin_configs/models/tiny.gin", *flags, "--gin.TRAIN_STEPS=200",
                f"--gin.CORPUS={toy_corpus}", f"--gin.MODEL_DIR={directory}",
                MMT_DATA=str(toy_corpus.parent),
            )  # fmt: skip
            assert done.returncode == 0, done.stderr.decode()
    return directory


@pytest.fixture(scope="module")
def browser():
    """Chromium, run by Playwright; without either the test is skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="extra [clients]")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on this machine: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        with contextlib.closing(
            playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        ) as running:
            yield running


def pytest_terminal_summary(terminalreporter) -> None:
    """What the parity tests measured and kept by `record_property`: the differences per family."""
    stats = terminalreporter.stats
    reports = [*stats.get("passed", []), *stats.get("failed", [])]
    marked = [report for report in reports if {"parity", "t5x"} & report.keywords.keys()]
    measured = [report for report in marked if report.when == "call"]
    lines = [f"{name}: {value}" for report in measured for name, value in report.user_properties]
    if lines:
        terminalreporter.section("parity")
        terminalreporter.write_line("\n".join(lines))
