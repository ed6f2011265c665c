"""The consumption log equals a count of the batches that were read, after any history."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmt import distributed
from mmt.data import ledger, mixing, pipeline
from tests.helpers.streams import LENGTHS, example, examples_of, part, write_cache

COUNTS = {"deu_Latn": 400, "fra_Latn": 90, "yor_Latn": 11}
CORPORA = ("bible", "news", "web")
SHORT = {"inputs": 21, "targets": 20}  # a fifth does not fit


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("data"), COUNTS, corpora=CORPORA)


def seen(batches):
    """(language, corpus) -> examples, source tokens, target tokens."""
    counts = Counter()
    for batch in batches:
        for language, index in examples_of(batch):
            code = list(COUNTS)[language]
            name = CORPORA[index * len(CORPORA) // COUNTS[code]]
            sides = (len(text) + 1 for text in example(language, index))
            for field, number in zip(ledger.FIELDS[:3], (1, *sides), strict=True):
                counts[code, name, field] += number
    return +counts


def written(directory):
    rows = ledger.load(directory)["rows"]
    return +Counter(
        {
            (row["language"], name, field): row["corpora"][name][field]
            for row in rows
            for name in row["corpora"]
            for field in ledger.FIELDS
        }
    )


class Run:
    """A run with several processes, simulated one after another in one process."""

    def __init__(self, directory, out, **options):
        self.directory, self.out, self.options = directory, out, options
        self.parts, self.batches, self.state = [], [], None

    def start(self, processes, batch_size=16):
        self.close()
        for process in range(processes):
            stream = pipeline.train_batches(
                self.directory, batch_size=batch_size, virtual_shards=8, **self.options
            )
            stream.share(part(process, processes))
            if self.state is not None:
                stream.set_state(self.state)
            self.parts.append(stream)

    def train(self, steps):
        for _ in range(steps):
            parts = [next(stream) for stream in self.parts]
            self.batches.append({k: np.concatenate([p[k] for p in parts]) for k in parts[0]})

    def checkpoint(self):
        self.state = distributed.merged([stream.get_state() for stream in self.parts])
        self.account()
        return json.loads(json.dumps(self.state)), list(self.batches)

    def account(self):
        ledgers = [stream.ledger() for stream in self.parts]
        former = ledgers[0].read(self.out)
        counted = [p.count(former, self.state, i, len(ledgers)) for i, p in enumerate(ledgers)]
        ledgers[0].write(self.out, former, self.state, counted, len(self.batches))

    def close(self):
        while self.parts:
            self.parts.pop().close()


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["train", "train", "kill", "lose", "back"]),
        st.integers(1, 9), st.sampled_from([1, 2, 4]), st.sampled_from([8, 16, 32]),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*do not fit")
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(MOVES, st.booleans(), st.sampled_from([LENGTHS, SHORT]))
def test_consumption_equals_what_was_read_after_any_history(
    directory, tmp_path_factory, moves, packing, lengths
):
    check_moves(directory, tmp_path_factory, moves, packing, lengths)


@pytest.mark.filterwarnings("ignore:.*do not fit")
def test_consumption_equals_what_was_read(directory, tmp_path_factory):
    """Killed after a checkpoint, the ledger lost, or back to the checkpoint before; on 1, 2 or 4
    processes, with another batch size.
    """
    moves = [("kill", 3, 4, 16), ("back", 2, 1, 32), ("lose", 2, 2, 8), ("train", 3, 1, 8)]
    check_moves(directory, tmp_path_factory, moves, packing=True, lengths=SHORT)


def check_moves(directory, tmp_path_factory, moves, packing, lengths):
    run = Run(
        directory, tmp_path_factory.mktemp("run"), packing=packing, feature_lengths=lengths,
        mixing=mixing.Mixing(temperature=2.0),
    )  # fmt: skip
    run.start(2)
    saved = [run.checkpoint()]
    for what, steps, processes, batch_size in moves:
        run.train(steps)
        saved.append(run.checkpoint())
        assert written(run.out) == seen(run.batches)
        if what == "lose":
            (run.out / "ledger.json").write_text('{"step": ')
        if what == "back":
            run.state, batches = saved[max(0, len(saved) - 3)]
            run.batches = list(batches)
        if what != "train":
            run.start(processes, batch_size)
    run.close()
    for row in ledger.load(run.out)["rows"] if what != "lose" else ():
        assert row["tokens"] == row["source_tokens"] + row["target_tokens"]
        assert row["epochs"] == pytest.approx(row["examples"] / row["pairs"])


def test_the_chi_square_test_is_pearsons():
    ours, freedom = ledger.chi_square([18, 30, 12, 0], [20.0, 25.0, 15.0, 0.0])
    assert (ours, freedom) == (pytest.approx(4 / 20 + 25 / 25 + 9 / 15), 2)


def test_the_command_prints_the_consumption(directory, tmp_path, capsys):
    from mmt.cli.main import main

    run = Run(directory, tmp_path, feature_lengths=LENGTHS)
    run.start(1)
    run.train(10)
    run.checkpoint()
    run.close()
    assert main(["data", "ledger", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "chi-square" in shown and "  bible " in shown and "consumed up to step 10" in shown
    assert main(["data", "ledger", str(tmp_path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == ledger.load(tmp_path)["rows"]
    assert [row["language"] for row in rows] == list(COUNTS)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    for row in rows:  # nearer to the shares than chance would be
        assert abs(row["examples"] - row["foreseen"]) < 2 + 0.2 * row["foreseen"]
    whole = json.loads((tmp_path / "ledger.json").read_text())
    row = whole["rows"][0]
    for key, value in (("share", 10**400), ("tokens", None), ("corpora", 3)):
        damaged = whole | {"rows": [row | {key: value}]}
        (tmp_path / "ledger.json").write_text(json.dumps(damaged))
        assert main(["data", "ledger", str(tmp_path)]) == 1
    assert "no readable ledger.json" in capsys.readouterr().err
    assert main(["data", "ledger", str(tmp_path / "none")]) == 1
    assert "no readable ledger.json" in capsys.readouterr().err


def test_batches_name_the_corpus_of_every_token(directory):
    """The ids are those of the examples themselves, which encode their index."""
    stream = pipeline.train_batches(directory, feature_lengths=LENGTHS, batch_size=8)
    plain = pipeline.train_batches(directory, feature_lengths=LENGTHS, batch_size=8)
    stream.add_corpus_ids()
    table = stream.manifest.corpus_table
    for _ in range(4):
        batch, same = next(stream), next(plain)
        ids = batch.pop("decoder_corpus_ids")
        assert all(np.array_equal(batch[name], same[name]) for name in same)
        assert (ids.shape, ids.dtype) == (batch["decoder_language_ids"].shape, np.int32)
        named = Counter()
        for number, count in zip(*np.unique(ids[same["decoder_loss_weights"] > 0],
                                            return_counts=True), strict=True):  # fmt: skip
            named[table[number]] += count
        tokens = Counter()
        for (code, name, field), number in seen([batch]).items():
            if field == "target_tokens":
                tokens[code, name] += number
        assert named == tokens
    for made in (stream, plain):
        made.close()


def test_a_corpus_that_is_left_out_is_not_consumed(directory, tmp_path):
    run = Run(directory, tmp_path, feature_lengths=LENGTHS, leave_out=("news",))
    run.start(1)
    run.train(20)
    state, batches = run.checkpoint()
    assert {name for _, name, _ in seen(batches)} == {"bible", "web"}
    assert written(tmp_path) == seen(batches)
    run.close()
    other = pipeline.train_batches(directory, feature_lengths=LENGTHS, batch_size=16)
    with pytest.raises(ValueError, match=r"has leave_out \['news'\], this run has None"):
        other.set_state(state)
    other.close()
    with pytest.raises(ValueError, match="the corpora .*, no train example remains .*leave_out"):
        pipeline.train_batches(
            directory, feature_lengths=LENGTHS, batch_size=8, leave_out=list(CORPORA)
        )
