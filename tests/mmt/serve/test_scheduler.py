"""The queue: batches of equal keys, in fair order, bounded, without what was cancelled."""

import contextlib
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.serve.scheduler import QueueFull, Scheduler, Sentence, Ticket

SIZE = 4


class Decoder:
    """Records batches; waits for `go` before each."""

    def __init__(self):
        self.batches, self.go = [], threading.Semaphore(0)

    def __call__(self, key, texts):
        self.go.acquire()
        self.batches.append((key, texts))
        if "broken" in texts:
            raise ValueError("secret")
        return [text.upper() for text in texts]


class Client:
    """A request and its results."""

    def __init__(self, scheduler, *texts, key="a", tokens=10):
        self.results, self.scheduler = [], scheduler
        self.ticket = Ticket(self.results.extend)
        self.sentences = [Sentence(key, text, tokens) for text in texts]
        scheduler.submit(self.sentences, self.ticket)


@contextlib.contextmanager
def make(decoder, *, queue_tokens=10_000, queue_seconds=60.0, max_wait=0.01, threads=1):
    scheduler = Scheduler(
        decoder, lambda key: SIZE,
        queue_tokens=queue_tokens, queue_seconds=queue_seconds, max_wait=max_wait,
        threads=threads,
    )  # fmt: skip
    with scheduler:
        try:
            yield scheduler
        finally:
            decoder.go.release(10_000)  # else the thread would never end


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 50)), max_size=9)),
    st.integers(1, 3),
)
def test_each_sentence_is_delivered_once_in_a_batch_of_its_key(requests, threads):
    decoder = Decoder()
    decoder.go.release(10_000)
    tickets = []
    with make(decoder, queue_tokens=100_000, threads=threads) as scheduler:
        for i, sentences in enumerate(requests):
            sentences = [Sentence(key, f"{key}{i}.{j}", n) for j, (key, n) in enumerate(sentences)]
            results = []
            tickets.append((sentences, results))
            scheduler.submit(sentences, Ticket(results.extend))
    for sentences, results in tickets:
        assert sorted(results) == sorted((s, s.text.upper()) for s in sentences)
    assert all(len(texts) <= SIZE for _, texts in decoder.batches)
    assert all(text.startswith(key) for key, texts in decoder.batches for text in texts)
    assert scheduler.queued_tokens == 0


def test_requests_share_a_batch():
    decoder = Decoder()
    with make(decoder, max_wait=5.0, threads=2) as scheduler:
        Client(scheduler, "b", key="b")
        until(lambda: scheduler.queued_tokens == 0)  # its batch is in work
        clients = [Client(scheduler, f"t{i}") for i in range(SIZE)]
        until(lambda: scheduler.queued_tokens == 0)  # without waiting 5 s
        decoder.go.release(9)
        until(lambda: all(client.results for client in clients))
        assert ("a", ["t0", "t1", "t2", "t3"]) in decoder.batches


def test_threads_translate_batches_at_once():
    both = threading.Barrier(2, timeout=10)  # breaks if they come one after the other

    def decode(key, texts):
        both.wait()
        return texts

    with Scheduler(decode, lambda key: SIZE, queue_tokens=100, threads=2) as scheduler:
        clients = [Client(scheduler, key, key=key) for key in "ab"]
        until(lambda: all(client.results for client in clients))
    assert [client.results[0][1] for client in clients] == ["a", "b"]


def test_all_threads_take_batches_of_sentences_that_came_together():
    both = threading.Barrier(2, timeout=10)  # breaks if they come one after the other

    def decode(key, texts):
        both.wait()
        return texts

    with Scheduler(decode, lambda key: 1, queue_tokens=100, threads=2) as scheduler:
        time.sleep(0.1)  # both threads wait without a timeout
        client = Client(scheduler, "a", "b")
        until(lambda: len(client.results) == 2)
    assert sorted(result for _, result in client.results) == ["a", "b"]


def test_an_incomplete_batch_waits_for_others_but_not_long():
    decoder = Decoder()
    with make(decoder, max_wait=0.2, threads=2) as scheduler:
        Client(scheduler, "b", key="b")
        until(lambda: scheduler.queued_tokens == 0)
        begin = time.monotonic()
        Client(scheduler, "x")
        until(lambda: scheduler.queued_tokens == 0)
        assert 0.19 < time.monotonic() - begin < 5


@pytest.mark.parametrize("threads", [1, 2])
def test_an_incomplete_batch_starts_at_once_when_no_other_runs(threads):
    decoder = Decoder()
    with make(decoder, max_wait=60.0, threads=threads) as scheduler:
        for text in "xy":
            client = Client(scheduler, text)
            decoder.go.release()
            until(lambda client=client: client.results)
    assert decoder.batches == [("a", ["x"]), ("a", ["y"])]


def test_waiting_sentences_start_when_the_last_batch_ends():
    decoder = Decoder()
    with make(decoder, max_wait=60.0, threads=2) as scheduler:
        Client(scheduler, "b", key="b")
        until(lambda: scheduler.queued_tokens == 0)
        client = Client(scheduler, "x")
        decoder.go.release(9)
        until(lambda: client.results)


def test_a_short_text_does_not_wait_for_a_long_one():
    decoder = Decoder()
    with make(decoder) as scheduler:
        long = Client(scheduler, *(f"l{i}" for i in range(40)))
        until(lambda: scheduler.queued_tokens == 360)  # the first batch is in work
        short = Client(scheduler, "s")
        decoder.go.release(2)
        until(lambda: short.results)
        assert len(long.results) <= 2 * SIZE
        decoder.go.release(99)


def test_a_long_text_advances_while_short_ones_keep_coming():
    decoder = Decoder()
    with make(decoder) as scheduler:
        long = Client(scheduler, *(f"l{i}" for i in range(8)))
        for batch in range(60):  # there are always more short texts than a batch takes
            for i in range(2 * SIZE if batch == 0 else SIZE):
                Client(scheduler, f"s{batch}-{i}")
            decoder.go.release()
            until(lambda after=batch: len(decoder.batches) > after)
        assert len(long.results) == 8


def test_what_was_cancelled_is_not_translated():
    decoder = Decoder()
    with make(decoder) as scheduler:
        first = Client(scheduler, *"abcd")
        until(lambda: scheduler.queued_tokens == 0)
        gone, other = Client(scheduler, *"efghi"), Client(scheduler, "z")
        assert scheduler.cancel(gone.ticket) == 5
        assert scheduler.queued_tokens == 10
        scheduler.cancel(first.ticket)  # it is in work already
        decoder.go.release(9)
        until(lambda: other.results)
    assert decoder.batches == [("a", list("abcd")), ("a", ["z"])]
    assert first.results == gone.results == []


def test_a_full_queue_refuses_whole_requests_and_accepts_later():
    decoder = Decoder()
    with make(decoder, queue_tokens=100) as scheduler:
        Client(scheduler, *"abcd")
        until(lambda: scheduler.queued_tokens == 0)
        Client(scheduler, *"efghijkl")
        with pytest.raises(QueueFull) as error:
            Client(scheduler, "m", "n", "o")
        assert 1 <= error.value.retry_after <= 60
        assert scheduler.queued_tokens == 80
        Client(scheduler, "m", "n")
        decoder.go.release(9)
        until(lambda: scheduler.queued_tokens == 0)
        assert len(Client(scheduler, *(f"t{i}" for i in range(50))).sentences) == 50  # alone
        decoder.go.release(99)


def test_a_failure_ends_its_batch_only_and_is_logged_without_text(capsys):
    decoder = Decoder()
    decoder.go.release(9)
    with make(decoder) as scheduler:
        broken = Client(scheduler, "broken", key="b")
        until(lambda: broken.results)
        well = Client(scheduler, "x")
        until(lambda: well.results)
        assert scheduler.alive
    assert isinstance(broken.results[0][1], ValueError)
    assert well.results[0][1] == "X"
    logged = capsys.readouterr().err
    assert "ValueError" in logged and "secret" not in logged and "broken" not in logged


def test_what_was_accepted_is_finished_at_the_end():
    decoder = Decoder()
    decoder.go.release(99)
    with make(decoder, max_wait=60.0) as scheduler:
        client = Client(scheduler, *(f"t{i}" for i in range(21)))
    assert len(client.results) == 21
    assert not scheduler.alive


def test_a_request_that_would_wait_long_is_refused(monkeypatch):
    """A long request is not in the way of short ones, since they get an equal share."""
    monkeypatch.setattr(Scheduler, "_batch_seconds", lambda *_: 0.2)
    with make(Decoder(), queue_tokens=10**6, queue_seconds=0.55) as scheduler:
        Client(scheduler, *"abcd")
        until(lambda: scheduler.queued_tokens == 0)
        long = Client(scheduler, *(f"l{i}" for i in range(400)))
        for i in range(9):
            Client(scheduler, f"s{i}")
        with pytest.raises(QueueFull):
            Client(scheduler, *(f"m{i}" for i in range(99)))
        assert scheduler.cancel(long.ticket) == 400
        with pytest.raises(QueueFull):  # after three batches of 0.2 s
            Client(scheduler, "u")
