"""A server process and its clients, for the measurements of `mmt serve`."""

import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

MODEL = "benchmarks/mix150/model"
SOURCE = "de"
_MAX_OPEN = 10_000  # connections; a machine has 28,000 ports for them
_WORDS = (
    "wir sie ich er haben brauchen sehen kennen suchen mehr viel wenig zeit geld wasser haus stadt "
    "freund bruder arbeit morgen heute gestern nicht und oder aber groß klein neu alt gut schnell"
).split()


class Reply(NamedTuple):
    """The answer to one request: its status (0 for none), and the seconds it took."""

    status: int
    seconds: float


def texts(count: int, seed: int = 0) -> list[str]:
    """Returns made-up sentences of 4 to 10 words, which all differ."""
    draw = random.Random(seed)
    return [
        f"{' '.join(draw.choices(_WORDS, k=draw.randint(3, 9)))} {seed}{i}." for i in range(count)
    ]


class Server:
    """A running server: its port, and its memory."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.port, self._status = port, Path(f"/proc/{process.pid}/status")

    def memory(self) -> float:
        """Returns the resident memory in MB."""
        match = re.search(r"VmRSS:\s+(\d+)", self._status.read_text())
        return int(match[1]) / 1024 if match else 0.0

    async def translate(self, text: str, timeout: float = 90) -> Reply:
        """Asks for one translation, over a connection of its own."""
        body = json.dumps({"q": text, "source": SOURCE, "target": "en"}).encode()
        head = (
            "POST /translate HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        begin = time.perf_counter()
        try:
            async with asyncio.timeout(timeout), self.connected() as (reader, writer):
                writer.write(head.encode() + body)
                await writer.drain()
                answer = await reader.read()
            status = int(answer.split(b" ", 2)[1])
        except (OSError, TimeoutError, IndexError):
            status = 0
        return Reply(status, time.perf_counter() - begin)

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Yields a connection to the server."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@contextlib.contextmanager
def server(model: str = MODEL) -> Iterator[Server]:
    """Serves a model without a cache, in a process of its own."""
    command = [sys.executable, "-m", "mmt.cli", "serve", "--model", model, "--port", "0"]
    flags = ["--gin.Limits.cache_characters=0"]
    with subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            for line in process.stderr:
                if address := re.search(r"http://127\.0\.0\.1:(\d+) translates", line):
                    break
                print(line, end="", file=sys.stderr)
            else:
                raise ChildProcessError("the server did not start")
            yield Server(process, int(address[1]))
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()


async def closed_loop(target: Server, clients: int, lines: list[str]) -> list[Reply]:
    """Returns the replies to `lines`; each client sends its next one when it has a translation.

    A refused request is sent again after a second.
    """
    rest = iter(lines)

    async def translated(line: str) -> Reply:
        while (reply := await target.translate(line)).status == 503:
            await asyncio.sleep(1)
        return reply

    async def client() -> list[Reply]:
        return [await translated(line) for line in rest]

    replies = await asyncio.gather(*(client() for _ in range(clients)))
    return [reply for some in replies for reply in some]


async def open_loop(target: Server, rate: float, seconds: float, seed: int = 1) -> list[Reply]:
    """Returns the replies to requests that arrive at random, `rate` per second on average.

    While 10,000 connections are open, the next request waits.
    """
    draw, tasks, free = random.Random(seed), [], asyncio.Semaphore(_MAX_OPEN)

    async def translated(line: str) -> Reply:
        try:
            return await target.translate(line)
        finally:
            free.release()

    at = begin = time.perf_counter()
    for line in texts(round(rate * seconds), seed):
        at += draw.expovariate(rate)
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        await free.acquire()
        tasks.append(asyncio.create_task(translated(line)))
        if time.perf_counter() - begin > seconds:
            break
    return list(await asyncio.gather(*tasks))
