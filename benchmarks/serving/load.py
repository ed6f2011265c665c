"""Measures `mmt serve` with many clients at once: throughput, latency, overload, bad clients.

    python -m benchmarks.serving.load [--model RUN] [--seconds 60]

The texts are single made-up sentences, and the cache is off. Throughput is compared with the same
model translating one text after the other, in this process before the server starts: once with
batches of one row, once with batches as the server has them. Load is a share of the measured
throughput. The exit status is 1 if a request got no answer.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from benchmarks.serving.clients import (
    MODEL,
    SOURCE,
    Reply,
    Server,
    closed_loop,
    open_loop,
    server,
    texts,
)

CLIENTS = 64
_ONE_BY_ONE = 20  # texts


def one_by_one(model: str, batch_size: int) -> float:
    """Returns texts per second of one text after the other."""
    from mmt.translate import Translator

    translator = Translator.load(model, batch_size=batch_size)
    lines = texts(_ONE_BY_ONE, seed=7)
    for line in lines:  # compiles
        list(translator.translate([line], source=SOURCE))
    begin = time.perf_counter()
    for line in lines:
        list(translator.translate([line], source=SOURCE))
    return len(lines) / (time.perf_counter() - begin)


def quantile(replies: list[Reply], share: float) -> float:
    """Returns a quantile of the seconds of the translated requests."""
    seconds = sorted(reply.seconds for reply in replies if reply.status == 200)
    return seconds[min(len(seconds) - 1, int(share * len(seconds)))] if seconds else float("nan")


class Bench:
    """The rows of the table."""

    def __init__(self, running: Server, seconds: float) -> None:
        self.running, self.seconds = running, seconds
        self.rows: list[tuple[str, list[Reply], str]] = []

    def add(self, name: str, replies: list[Reply], note: str = "") -> None:
        """Adds a row."""
        self.rows.append((name, replies, note))
        print(f"{name}: {len(replies)} requests {note}", file=sys.stderr, flush=True)

    async def throughput(self) -> float:
        """Returns the requests per second of many clients; the first round compiles."""
        await closed_loop(self.running, CLIENTS, texts(10 * CLIENTS, seed=2))
        begin = time.perf_counter()
        replies = await closed_loop(self.running, CLIENTS, texts(20 * CLIENTS, seed=3))
        rate = len(replies) / (time.perf_counter() - begin)
        self.add(f"{CLIENTS} clients", replies, f"{rate:.1f} requests/s")
        return rate

    async def alone(self) -> None:
        """Measures latency of one client."""
        self.add("1 client", await closed_loop(self.running, 1, texts(40, seed=11)))

    async def loaded(self, rate: float, share: float) -> None:
        """Measures latency at a share of the throughput."""
        replies = await open_loop(self.running, share * rate, self.seconds / 2)
        self.add(f"{share:.0%} load", replies)

    async def overload(self, rate: float) -> None:
        """Sends ten times what the server can do, then measures when it is back to normal."""
        before, peak = self.running.memory(), 0.0

        async def watch() -> None:
            nonlocal peak
            while True:
                peak = max(peak, self.running.memory())
                await asyncio.sleep(0.2)

        watching = asyncio.create_task(watch())
        replies = await open_loop(self.running, 10 * rate, self.seconds, seed=4)
        watching.cancel()
        self.add("10 × overload", replies, f"memory × {peak / before:.2f}")
        begin = time.perf_counter()
        after = [await self.running.translate(line) for line in texts(8, seed=5)]
        slow = [reply for reply in after if reply.status != 200]
        first = time.perf_counter() - begin if slow else after[0].seconds
        self.add("after it", after, f"normal after {first:.1f} s")

    async def bad_clients(self, rate: float) -> None:
        """Measures latency at half load beside clients that do no work, read nothing, or send
        much.
        """
        half = 0.5 * rate
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(1000):
                await stack.enter_async_context(self.running.connected())
            self.add("1,000 idle", await open_loop(self.running, half, self.seconds / 4, seed=6))
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(20):
                _, writer = await stack.enter_async_context(self.running.connected())
                writer.write(_stream_request(20_000))  # nobody reads the answer
            replies = await open_loop(self.running, half, self.seconds / 4, seed=8)
            self.add("20 slow readers", replies, "of 20,000 characters each")
        large = [asyncio.create_task(self.running.translate("x" * 1_000_000)) for _ in range(50)]
        replies = await open_loop(self.running, half, self.seconds / 4, seed=9)
        refused = [reply.status for reply in await asyncio.gather(*large)]
        self.add("50 bodies of 1 MB", replies, f"these: {_statuses(refused)}")

    async def run(self) -> None:
        """Measures all rows."""
        rate = await self.throughput()
        await self.alone()
        await self.loaded(rate, 0.5)
        await self.loaded(rate, 0.9)
        await self.overload(rate)
        await self.bad_clients(rate)

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yields the cells of each row."""
        for name, replies, note in self.rows:
            times = [f"{quantile(replies, share):.2f}" for share in (0.5, 0.99)]
            yield name, str(len(replies)), _statuses([r.status for r in replies]), *times, note

    @property
    def lost(self) -> int:
        """Returns the number of requests without an answer."""
        return sum(reply.status == 0 for _, replies, _ in self.rows for reply in replies)


def _statuses(statuses: list[int]) -> str:
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    return ", ".join(f"{count} × {status or 'none'}" for status, count in counts.items())


def _stream_request(characters: int) -> bytes:
    lines = "%0A".join(line.replace(" ", "+") for line in texts(characters // 40, seed=10))
    body = f"q={lines}&source={SOURCE}&target=en".encode()
    head = (
        "POST /translate HTTP/1.1\r\nHost: a\r\nAccept: application/x-ndjson\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def main() -> int:
    """Prints the table; returns the exit status."""
    from benchmarks.header import header

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--seconds", type=float, default=60.0, help="of overload; default: 60")
    args = parser.parse_args()
    alone = {size: one_by_one(args.model, size) for size in (1, 32)}
    with server(args.model) as running:
        bench = Bench(running, args.seconds)
        asyncio.run(bench.run())
    print(header())
    table = Table("load", "requests", "statuses", "p50 s", "p99 s", "")
    for cells in bench.cells():
        table.add_row(*cells)
    Console().print(table)
    rate = float(bench.rows[0][2].split()[0])
    for size, each in alone.items():
        ratio = f"{each:.2f}/s; the server: {rate / each:.1f} ×"
        print(f"one text after the other, batch size {size}: {ratio}")
    print(f"requests without an answer: {bench.lost}")
    return 1 if bench.lost else 0


if __name__ == "__main__":
    sys.exit(main())
