"""`ServerMetrics`: what `/metrics` shows. Labels hold no text, no address and no key."""

from collections.abc import Callable

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry

_SECONDS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60)
_ROWS = (1, 2, 4, 8, 16, 24, 32, 64, 128)
CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST


class ServerMetrics:
    """Counters of one server, in a registry of their own.

    queued_tokens: returns the source tokens that wait at present.
    """

    def __init__(self, queued_tokens: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = prometheus.Counter(
            "mmt_requests", "Requests, by path and status.", ("path", "status"), registry=registry
        )
        self._seconds = prometheus.Histogram(
            "mmt_request_seconds", "Seconds from the request to the end of its answer.", ("path",),
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._sentences = prometheus.Counter(
            "mmt_sentences", "Sentences, by origin: model, cache, dropped with their request.",
            ("origin",), registry=registry,
        )  # fmt: skip
        self._tokens = prometheus.Counter(
            "mmt_source_tokens", "Source tokens translated.", registry=registry
        )
        self._batches = prometheus.Histogram(
            "mmt_batch_rows", "Sentences per batch.", buckets=_ROWS, registry=registry
        )
        self._batch_seconds = prometheus.Histogram(
            "mmt_batch_seconds", "Seconds per batch, by its length in source tokens.", ("length",),
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        queue = prometheus.Gauge(
            "mmt_queued_tokens", "Source tokens that wait for translation.", registry=registry
        )
        queue.set_function(queued_tokens)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Counts an answered request. `path` is that of a route, not the client's."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def count_batch(self, length: int, rows: int, tokens: int, seconds: float) -> None:
        """Counts a translated batch."""
        self._batches.observe(rows)
        self._batch_seconds.labels(str(length)).observe(seconds)
        self._tokens.inc(tokens)
        self._sentences.labels("model").inc(rows)

    def count_sentences(self, origin: str, count: int) -> None:
        """Counts sentences that the cache had ('cache') or whose client left ('dropped')."""
        self._sentences.labels(origin).inc(count)

    def text(self) -> bytes:
        """Returns the metrics in Prometheus' text format."""
        return prometheus.generate_latest(self._registry)
