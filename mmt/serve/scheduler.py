"""`Scheduler`: one queue of sentences, and one thread that translates them in batches.

Sentences of different requests share a batch if their keys are equal: model, languages, decoding
options and length. A batch starts when it is full, or when one of its sentences has waited long
enough. The scheduler knows no connection and no model.

The order is start-time fair queueing (Goyal et al. 1996): each request gets an equal share of the
tokens, so a short text does not wait for a long one that came before it.
"""

import dataclasses
import heapq
import itertools
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from mmt.serve.errors import place_of

_SMOOTHING = 0.2  # weight of the last batch in the measured speed
_RETRY = 60  # seconds; the longest advice


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


# What became of sentences: their translations, or the error of their batch.
Results = list[tuple[Sentence, Any]]


@dataclasses.dataclass(eq=False)
class Ticket:
    """A request whose sentences are in the queue.

    Attributes:
        deliver: called in the decoding thread with the results of each batch.
        end: the `start` of its next sentence, if it submits one at once.
        cancelled: whether its results are not wanted any more.
    """

    deliver: Callable[[Results], None]
    end: int = 0
    cancelled: bool = False


class _Entry(NamedTuple):
    """A waiting sentence; entries are sorted by `start`, then by `number`."""

    start: int  # tokens that its request would have had translated before it, at an equal share
    number: int
    since: float
    sentence: Sentence
    ticket: Ticket


class Scheduler:
    """Translates submitted sentences in batches, in a thread of its own.

    Args:
        decode: returns the translations of texts with one key.
        batch_size: maximum number of sentences in a batch with a key.
        queue_tokens: maximum number of source tokens that wait.
        max_wait: seconds that a sentence waits at most for others to fill its batch.
        observe: called after each batch with its key, sentences, and seconds.
    """

    def __init__(
        self,
        decode: Callable[[Any, list[str]], Sequence[Any]],
        batch_size: Callable[[Any], int],
        *,
        queue_tokens: int,
        max_wait: float = 0.05,
        observe: Callable[[Any, list[Sentence], float], None] = lambda *_: None,
    ) -> None:
        self._decode, self._batch_size, self._observe = decode, batch_size, observe
        self._queue_tokens, self._max_wait = queue_tokens, max_wait
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, list[_Entry]] = {}  # heaps
        self._numbers = itertools.count()
        self._served = 0  # the `start` of the latest sentence that left the queue
        self._queued = 0
        self._speed = 0.0  # tokens per second
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="mmt-decoding", daemon=True)

    def __enter__(self) -> "Scheduler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Translates what is queued, and ends the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Returns whether the thread translates."""
        return self._thread.is_alive()

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
            if self._queued and self._queued + tokens > self._queue_tokens:
                raise QueueFull(self._retry_after())
            ticket.end = max(ticket.end, self._served)
            now = time.monotonic()
            for sentence in sentences:
                entry = _Entry(ticket.end, next(self._numbers), now, sentence, ticket)
                heapq.heappush(self._waiting.setdefault(sentence.key, []), entry)
                ticket.end += sentence.tokens
            self._queued += tokens
            self._changed.notify()

    def cancel(self, ticket: Ticket) -> int:
        """Drops the waiting sentences of a request; returns their number."""
        dropped = 0
        with self._changed:
            ticket.cancelled = True
            for key, entries in list(self._waiting.items()):
                kept = [entry for entry in entries if entry.ticket is not ticket]
                if len(kept) < len(entries):
                    dropped += len(entries) - len(kept)
                    self._forget(entry for entry in entries if entry.ticket is ticket)
                    heapq.heapify(kept)
                    self._keep(key, kept)
        return dropped

    def _forget(self, entries: Iterable[_Entry]) -> None:
        self._queued -= sum(entry.sentence.tokens for entry in entries)

    def _keep(self, key: Hashable, entries: list[_Entry]) -> None:
        if entries:
            self._waiting[key] = entries
        else:
            self._waiting.pop(key, None)

    def _retry_after(self) -> int:
        """Returns the seconds until half of the queue is translated."""
        seconds = self._queued / 2 / self._speed if self._speed else 1
        return min(_RETRY, max(1, round(seconds)))

    def _run(self) -> None:
        while batch := self._next_batch():
            key, entries = batch
            sentences = [entry.sentence for entry in entries]
            begin = time.monotonic()
            try:
                results = self._decode(key, [sentence.text for sentence in sentences])
            except Exception as error:  # the requests fail, not the server
                print(f"mmt serve: a batch failed: {place_of(error)}", file=sys.stderr, flush=True)
                results = [error] * len(sentences)
            seconds = time.monotonic() - begin
            self._measure(sum(sentence.tokens for sentence in sentences), seconds)
            self._observe(key, sentences, seconds)
            by_ticket: dict[Ticket, Results] = {}
            for entry, result in zip(entries, results, strict=True):
                by_ticket.setdefault(entry.ticket, []).append((entry.sentence, result))
            for ticket, delivered in by_ticket.items():
                if not ticket.cancelled:
                    ticket.deliver(delivered)

    def _measure(self, tokens: int, seconds: float) -> None:
        speed = tokens / max(seconds, 1e-6)
        self._speed += (speed - self._speed) * (_SMOOTHING if self._speed else 1)

    def _next_batch(self) -> tuple[Hashable, list[_Entry]] | None:
        """Waits for a batch; None if the scheduler closes and nothing waits."""
        with self._changed:
            while True:
                now = time.monotonic()
                due = {key: self._due(key, entries) for key, entries in self._waiting.items()}
                ready = [key for key, at in due.items() if at <= now or self._closing]
                if ready:
                    return self._take(min(ready, key=lambda key: self._waiting[key][0][:2]))
                if self._closing:
                    return None
                self._changed.wait(min(due.values()) - now if due else None)

    def _due(self, key: Hashable, entries: list[_Entry]) -> float:
        """Returns the time at which a batch of the entries starts at the latest."""
        if len(entries) >= self._batch_size(key):
            return 0.0
        return min(entry.since for entry in entries) + self._max_wait

    def _take(self, key: Hashable) -> tuple[Hashable, list[_Entry]]:
        entries = self._waiting[key]
        count = min(len(entries), self._batch_size(key))
        batch = [heapq.heappop(entries) for _ in range(count)]
        self._keep(key, entries)
        self._forget(batch)
        self._served = max(self._served, batch[0].start)
        return key, batch
