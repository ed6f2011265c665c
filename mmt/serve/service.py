"""`Service`: the objects that all requests share: models, queue, cache, limits, keys, metrics."""

import dataclasses
import functools

from mmt.serve.files import FileThreads, TranslatedFiles
from mmt.serve.limits import ApiKeys, Limits
from mmt.serve.metrics import ServerMetrics
from mmt.serve.models import Models
from mmt.serve.parameters import MemoryBudget
from mmt.serve.scheduler import Scheduler, Sentence
from mmt.serve.sentence_cache import SentenceCache
from mmt.serve.sentence_work import SentenceWork
from mmt.translate import Decoding

_MAX_QUEUE_SHARE = 1 / 64  # of one request


@dataclasses.dataclass(frozen=True)
class Service:
    """The objects that the handlers of all requests share.

    Attributes:
        models: the models.
        scheduler: the queue and its thread, which owns the models.
        metrics: the counters.
        decoding: options of every search.
        limits: limits of requests.
        keys: API keys that may use the server; None allows everybody.
    """

    models: Models
    scheduler: Scheduler
    metrics: ServerMetrics
    decoding: Decoding
    limits: Limits
    keys: ApiKeys | None = None

    @functools.cached_property
    def cache(self) -> SentenceCache:
        """Returns the cache of translated sentences."""
        return SentenceCache(self.limits.cache_characters)

    @functools.cached_property
    def memory(self) -> MemoryBudget:
        """Returns the limit of bytes that requests keep in memory."""
        return MemoryBudget(self.limits.held_bytes)

    @functools.cached_property
    def translated_files(self) -> TranslatedFiles:
        """Returns the translated files."""
        return TranslatedFiles(self.limits.held_bytes, self.limits.file_seconds)

    @functools.cached_property
    def file_threads(self) -> FileThreads:
        """Returns the threads that read and write files."""
        return FileThreads()

    def work(self, sentences: list[Sentence]) -> SentenceWork:
        """Returns the translation of a request's sentences; entering it queues them."""
        return SentenceWork(
            sentences, scheduler=self.scheduler, cache=self.cache, metrics=self.metrics,
            window=int(self.limits.queue_tokens * _MAX_QUEUE_SHARE),
        )  # fmt: skip

    def admit(self, key: str) -> None:
        """Counts a request with a key. Raises Refusal if the key does not allow it."""
        if self.keys is not None:
            self.keys.spend(key)
