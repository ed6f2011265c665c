"""`SentenceWork`: translates the sentences of one request, through the cache and the queue."""

import asyncio
import collections
from collections.abc import Iterable

from mmt.serve.errors import Refusal
from mmt.serve.metrics import ServerMetrics
from mmt.serve.scheduler import QueueFull, Results, Scheduler, Sentence, Ticket
from mmt.serve.sentence_cache import SentenceCache
from mmt.translate import Translation

_RETRY_SECONDS = 0.1  # until a request tries again to queue its next sentences


class SentenceWork:
    """Translates the sentences of one request; equal sentences only once.

    Cached sentences are ready at once. The others are queued window by window, so that one request
    never fills the queue. Leaving the `with` statement drops the sentences that still wait.

    Args:
        sentences: the sentences.
        scheduler: the queue.
        cache: translations of earlier sentences; new ones are added.
        metrics: counts cached and dropped sentences.
        window: source tokens of this request that wait at the same time.

    Raises:
        Refusal: the queue is full.
    """

    def __init__(
        self,
        sentences: Iterable[Sentence],
        *,
        scheduler: Scheduler,
        cache: SentenceCache,
        metrics: ServerMetrics,
        window: int,
    ) -> None:
        self._scheduler, self._cache, self._metrics = scheduler, cache, metrics
        self._window = window
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._results: dict[Sentence, Translation] = {}
        self._failed = False
        self._ticket = Ticket(self._deliver)
        self._pending = 0  # source tokens in the queue
        self._closed = False
        unique = dict.fromkeys(sentences)
        self.total = len(unique)
        for sentence in unique:
            if (cached := cache.get(sentence)) is not None:
                self._results[sentence] = cached
        self._remaining = collections.deque(s for s in unique if s not in self._results)
        metrics.count_sentences("cache", len(self._results))

    def __enter__(self) -> "SentenceWork":
        try:
            self._queue_next()
        except QueueFull as error:
            raise Refusal(
                503, "Slowdown: the server has too much to translate",
                retry_after=error.retry_after,
            ) from None  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        dropped = self._scheduler.cancel(self._ticket) + len(self._remaining)
        if dropped:
            self._metrics.count_sentences("dropped", dropped)

    @property
    def done(self) -> int:
        """Returns the number of translated sentences."""
        return len(self._results)

    async def result(self, sentence: Sentence) -> Translation:
        """Waits for the translation of a sentence. Raises Refusal if the model failed."""
        while sentence not in self._results:
            await self.progress()
        return self._results[sentence]

    async def progress(self) -> None:
        """Waits until more sentences are translated. Raises Refusal if the model failed."""
        if not self._failed:
            self._changed.clear()
            await self._changed.wait()
        if self._failed:
            raise Refusal(500, "the model failed to translate this text")

    def _queue_next(self) -> None:
        window: list[Sentence] = []
        tokens = 0
        while self._remaining and (
            not window or tokens + self._remaining[0].tokens <= self._window
        ):
            window.append(self._remaining.popleft())
            tokens += window[-1].tokens
        if not window:
            return
        try:
            self._scheduler.submit(window, self._ticket)
        except QueueFull:
            self._remaining.extendleft(reversed(window))
            raise
        self._pending += tokens

    def _deliver(self, results: Results) -> None:
        self._loop.call_soon_threadsafe(self._receive, results)

    def _receive(self, results: Results) -> None:
        for sentence, result in results:
            self._pending -= sentence.tokens
            if isinstance(result, Exception):
                self._failed = True
            else:
                self._results[sentence] = result
                self._cache.put(sentence, result)
        self._changed.set()
        self._refill_queue()

    def _refill_queue(self) -> None:
        """Queues the next window when half of the current one is translated."""
        if self._pending > self._window // 2 or self._closed or self._failed:
            return
        try:
            self._queue_next()
        except QueueFull:
            self._loop.call_later(_RETRY_SECONDS, self._refill_queue)
