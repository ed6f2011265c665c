"""`Scheduler`: one queue of sentences, and threads that translate them in batches.

Sentences of different requests share a batch if their keys are equal: model, languages, decoding
options and length. A batch starts when it is full, when no other batch runs, or when one of its
sentences has waited long enough. The scheduler knows no connection and no model.

The order is start-time fair queueing (Goyal et al. 1996): each request gets an equal share of the
tokens, so a short text does not wait for a long one that came before it.
"""

import dataclasses
import heapq
import itertools
import statistics
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from mmt.serve.errors import error_location

_TIMED_BATCHES = 5  # last batches of a key; their median ignores one that compiled
_TIMED_KEYS = 256  # keys whose times are stored
_MAX_RETRY_AFTER = 60  # seconds


class Sentence(NamedTuple):
    """A text that the model translates as a whole.

    Attributes:
        key: sentences with equal keys can share a batch.
        text: the text.
        tokens: its number of source tokens.
    """

    key: Hashable
    text: str
    tokens: int


class QueueFull(Exception):
    """The queue has no room; `retry_after` is the estimated number of seconds until it has."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full for about {retry_after} s")
        self.retry_after = retry_after


# Sentences with their translations, or with the error of their batch.
Results = list[tuple[Sentence, Any]]


@dataclasses.dataclass(eq=False)
class Ticket:
    """A request whose sentences are in the queue.

    Attributes:
        deliver: called in a decoding thread with the results of each batch.
        end: the `start` of its next sentence, if it submits one now.
        cancelled: whether its results are no longer needed.
    """

    deliver: Callable[[Results], None]
    end: float = 0.0
    cancelled: bool = False


class _Entry(NamedTuple):
    """A waiting sentence; entries are sorted by `start`, then by `number`."""

    start: float  # virtual start time, in tokens of its request at an equal share
    number: int
    since: float
    sentence: Sentence
    ticket: Ticket


class Scheduler:
    """Translates submitted sentences in batches, in its own threads.

    Args:
        decode: returns the translations of texts with one key; called by several threads at once.
        batch_size: maximum number of sentences in a batch with a key.
        queue_tokens: maximum number of source tokens that wait.
        queue_seconds: a request that would wait longer for other requests is refused.
        max_wait: maximum seconds that a sentence waits for others to fill its batch, while other
            batches run.
        threads: number of batches that are translated at once.
        observe: called after each batch with its key, sentences, and seconds.
    """

    def __init__(
        self,
        decode: Callable[[Any, list[str]], Sequence[Any]],
        batch_size: Callable[[Any], int],
        *,
        queue_tokens: int,
        queue_seconds: float = 4.0,
        max_wait: float = 0.05,
        threads: int = 1,
        observe: Callable[[Any, list[Sentence], float], None] = lambda *_: None,
    ) -> None:
        self._decode, self._batch_size, self._observe = decode, batch_size, observe
        self._queue_tokens, self._queue_seconds = queue_tokens, queue_seconds
        self._max_wait = max_wait
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, list[_Entry]] = {}  # heaps
        self._numbers = itertools.count()
        # The `start` of a new request. It grows with each batch: if it stayed at that of a waiting
        # sentence, further requests could precede the other sentences of a long one forever.
        self._served = 0.0
        self._queued = 0
        self._running = 0  # batches
        self._tokens: dict[Ticket, int] = {}  # that wait, of each request
        self._seconds: OrderedDict[Hashable, deque[float]] = OrderedDict()  # of the last batches
        self._closing = False
        self._threads = [
            threading.Thread(target=self._run, name=f"mmt-decoding-{i}", daemon=True)
            for i in range(threads)
        ]

    def __enter__(self) -> "Scheduler":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Translates what is queued, and ends the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    @property
    def alive(self) -> bool:
        """Returns whether all threads translate."""
        return all(thread.is_alive() for thread in self._threads)

    @property
    def queued_tokens(self) -> int:
        """Returns the number of source tokens that wait."""
        return self._queued

    def submit(self, sentences: Sequence[Sentence], ticket: Ticket) -> None:
        """Queues sentences of a request, all or none.

        Sentences that are longer than the queue are accepted when nothing else waits.

        Raises:
            QueueFull: they do not fit.
        """
        tokens = sum(sentence.tokens for sentence in sentences)
        with self._changed:
            wait = self._estimated_wait(tokens)
            if self._queued and (
                self._queued + tokens > self._queue_tokens or wait > self._queue_seconds
            ):
                raise QueueFull(min(_MAX_RETRY_AFTER, max(1, round(wait / 2))))
            ticket.end = max(ticket.end, self._served)
            now = time.monotonic()
            for sentence in sentences:
                entry = _Entry(ticket.end, next(self._numbers), now, sentence, ticket)
                heapq.heappush(self._waiting.setdefault(sentence.key, []), entry)
                ticket.end += sentence.tokens
            self._queued += tokens
            self._tokens[ticket] = self._tokens.get(ticket, 0) + tokens
            self._changed.notify()

    def cancel(self, ticket: Ticket) -> int:
        """Drops the waiting sentences of a request; returns their number."""
        dropped = 0
        with self._changed:
            ticket.cancelled = True
            for key, entries in list(self._waiting.items()):
                others = [entry for entry in entries if entry.ticket is not ticket]
                if len(others) < len(entries):
                    dropped += len(entries) - len(others)
                    self._remove_from_queue(entry for entry in entries if entry.ticket is ticket)
                    heapq.heapify(others)
                    self._set_waiting(key, others)
        return dropped

    def _remove_from_queue(self, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            self._queued -= entry.sentence.tokens
            self._tokens[entry.ticket] -= entry.sentence.tokens
            if not self._tokens[entry.ticket]:
                del self._tokens[entry.ticket]

    def _set_waiting(self, key: Hashable, entries: list[_Entry]) -> None:
        if entries:
            self._waiting[key] = entries
        else:
            self._waiting.pop(key, None)

    def _estimated_wait(self, tokens: int) -> float:
        """Returns the estimated seconds that a new request of `tokens` waits for others.

        At an equal share, at most `tokens` of each other request are translated before.
        """
        if not self._queued:
            return 0.0
        seconds = sum(
            -(-len(entries) // self._batch_size(key)) * self._batch_seconds(key)
            for key, entries in self._waiting.items()
        )
        before = sum(min(waiting, tokens) for waiting in self._tokens.values())
        return seconds * before / self._queued / len(self._threads)

    def _batch_seconds(self, key: Hashable) -> float:
        """Returns the median time of a key's batches, or of all batches for a new key."""
        recent = self._seconds.get(key) or [s for times in self._seconds.values() for s in times]
        return statistics.median(recent) if recent else 0.0

    def _run(self) -> None:
        while batch := self._next_batch():
            key, entries = batch
            sentences = [entry.sentence for entry in entries]
            begin = time.monotonic()
            try:
                results = self._decode(key, [sentence.text for sentence in sentences])
            except Exception as error:  # the requests fail, not the server
                print(
                    f"mmt serve: a batch failed: {error_location(error)}",
                    file=sys.stderr,
                    flush=True,
                )
                results = [error] * len(sentences)
            seconds = time.monotonic() - begin
            self._record_end(key, seconds)
            self._observe(key, sentences, seconds)
            by_ticket: dict[Ticket, Results] = {}
            for entry, result in zip(entries, results, strict=True):
                by_ticket.setdefault(entry.ticket, []).append((entry.sentence, result))
            for ticket, delivered in by_ticket.items():
                if not ticket.cancelled:
                    ticket.deliver(delivered)

    def _record_end(self, key: Hashable, seconds: float) -> None:
        with self._changed:
            self._running -= 1
            self._seconds.setdefault(key, deque(maxlen=_TIMED_BATCHES)).append(seconds)
            self._seconds.move_to_end(key)
            if len(self._seconds) > _TIMED_KEYS:
                self._seconds.popitem(last=False)

    def _next_batch(self) -> tuple[Hashable, list[_Entry]] | None:
        """Waits for a batch; None if the scheduler closes and nothing waits."""
        with self._changed:
            while True:
                now = time.monotonic()
                due = {key: self._due(key, entries) for key, entries in self._waiting.items()}
                ready = [key for key, start in due.items() if start <= now or self._closing]
                if ready:
                    return self._pop_batch(min(ready, key=lambda key: self._waiting[key][0][:2]))
                if self._closing:
                    return None
                self._changed.wait(min(due.values()) - now if due else None)

    def _due(self, key: Hashable, entries: list[_Entry]) -> float:
        """Returns the latest time at which a batch of the entries starts."""
        if not self._running or len(entries) >= self._batch_size(key):
            return 0.0
        return min(entry.since for entry in entries) + self._max_wait

    def _pop_batch(self, key: Hashable) -> tuple[Hashable, list[_Entry]]:
        entries = self._waiting[key]
        count = min(len(entries), self._batch_size(key))
        batch = [heapq.heappop(entries) for _ in range(count)]
        self._set_waiting(key, entries)
        tokens = sum(entry.sentence.tokens for entry in batch)
        share = tokens / (len(self._tokens) + 1)  # of each request, and of one that comes now
        self._remove_from_queue(batch)
        self._served = max(self._served + share, batch[0].start)
        self._running += 1
        if self._waiting:
            self._changed.notify()  # another thread takes the next batch
        return key, batch
