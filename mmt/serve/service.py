"""`Service`: what all requests share: models, queue, cache, limits, keys, metrics, files."""

import dataclasses
import functools

from mmt.serve.files import FileThreads, KeptFiles
from mmt.serve.limits import ApiKeys, Limits
from mmt.serve.metrics import ServerMetrics
from mmt.serve.models import Models
from mmt.serve.parameters import HeldBytes
from mmt.serve.scheduler import Scheduler, Sentence
from mmt.serve.sentence_cache import SentenceCache
from mmt.serve.sentence_work import SentenceWork
from mmt.translate import Decoding

_WINDOWS = 64  # a request takes at most this part of the queue at once


@dataclasses.dataclass(frozen=True)
class Service:
    """What the handlers of requests share.

    Attributes:
        models: the models.
        scheduler: the queue and its thread, which owns the models.
        metrics: the counters.
        decoding: options of every search.
        limits: limits of requests.
        keys: who may use the server; None is everybody.
    """

    models: Models
    scheduler: Scheduler
    metrics: ServerMetrics
    decoding: Decoding
    limits: Limits
    keys: ApiKeys | None = None

    @functools.cached_property
    def cache(self) -> SentenceCache:
        """Returns the translations of former sentences."""
        return SentenceCache(self.limits.cache_characters)

    @functools.cached_property
    def held(self) -> HeldBytes:
        """Returns the count of bytes that requests keep in memory."""
        return HeldBytes(self.limits.held_bytes)

    @functools.cached_property
    def kept_files(self) -> KeptFiles:
        """Returns the translated files."""
        return KeptFiles(self.limits.held_bytes, self.limits.file_seconds)

    @functools.cached_property
    def file_threads(self) -> FileThreads:
        """Returns the threads that read and write files."""
        return FileThreads()

    def work(self, sentences: list[Sentence]) -> SentenceWork:
        """Returns the sentences of a request on their way; entering it queues them."""
        return SentenceWork(
            sentences, scheduler=self.scheduler, cache=self.cache, metrics=self.metrics,
            window=self.limits.queue_tokens // _WINDOWS,
        )  # fmt: skip

    def admit(self, key: str) -> None:
        """Counts a request with a key. Raises Refusal if the key does not allow it."""
        if self.keys is not None:
            self.keys.spend(key)
