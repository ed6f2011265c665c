"""Measures `mmt watch`: reading, memory, updates of the page, and a training beside it.

    python -m benchmarks.watch.follow [FOLDER] [--languages 200] [--steps 1000000] [--training]

FOLDER holds the made-up run, and is kept (default: a temporary one). The default size takes about
a minute, and 150 MB of disk. `--training` trains a tiny model six times, by turns alone and with an
open page.
"""

import argparse
import contextlib
import json
import multiprocessing
import resource
import shutil
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.faulty_run import LENGTH, PIECES, ROWS, make_cache
from benchmarks.watch.made_up_run import MadeUpRun
from mmt.run import read_metrics
from mmt.system import http_server
from mmt.watch import export, open_runs, server

SPAWN = multiprocessing.get_context("spawn")
ROUNDS = 3
CODES = 8  # languages that are drawn as curves


def timed(work: Callable[[], Any]) -> float:
    """Returns the seconds of a call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def peak() -> float:
    """Returns the most memory that this process has used, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def files(directory: Path, size: MadeUpRun) -> Iterator[tuple[str, str]]:
    """Yields (quantity, value) of reading a run and answering the page, without a server."""
    before = peak()
    (run,) = open_runs([directory])
    seconds = timed(run.read_all)
    bytes_ = (directory / "metrics.jsonl").stat().st_size
    yield "metrics.jsonl", f"{bytes_ / 1e6:,.0f} MB"
    yield "first reading", f"{seconds:.2f} s ({bytes_ / 1e6 / seconds:.0f} MB/s)"
    yield "memory of the whole process, before and after", f"{before:.0f} MiB, {peak():.0f} MiB"
    yield "looking at files without news", f"{1e6 * timed(run.read):.0f} µs"
    codes = size.codes[:CODES]
    views = {
        "heat map of all languages, 600 columns": lambda: run.series("loss", columns=600),
        f"curves of {CODES} languages": lambda: run.series(
            "loss", columns=500, codes=codes, bands=True
        ),
        "numbers of the whole run": lambda: run.totals(columns=300),
        "overview and warnings": run.overview,
    }
    total = 0
    for name, view in views.items():
        milliseconds = 1000 * median(timed(view) for _ in range(3))
        length = len(json.dumps(view()))
        total += length
        yield name, f"{milliseconds:.0f} ms, {length / 1000:,.0f} kB"
    yield "all that an update sends", f"{total / 1000:,.0f} kB"
    file = directory / "watch.html"
    seconds = timed(lambda: export([run], file))
    yield "--export", f"{seconds:.1f} s, {file.stat().st_size / 1e6:.1f} MB"


@contextlib.contextmanager
def served(directory: Path) -> Iterator[str]:
    """Serves a run in a thread; yields the address."""
    bound = http_server.bind("127.0.0.1", 0)
    running = server.server(open_runs([directory]))
    thread = threading.Thread(target=lambda: running.run(sockets=[bound]))
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"
    finally:
        running.should_exit = True
        thread.join()
        bound.close()


def page(directory: Path, size: MadeUpRun) -> Iterator[tuple[str, str]]:
    """Yields (quantity, value) of the page in a browser, while rows are appended."""
    from playwright.sync_api import sync_playwright

    with served(directory) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        tab.goto(address)
        text = f"{size.steps:,} of"
        tab.locator("#runs dd", has_text=text).wait_for(timeout=120_000)
        tab.wait_for_timeout(3000)
        draws = []
        for _ in range(5):
            tab.locator("#metric").select_option("validation_loss")
            tab.wait_for_timeout(700)
            tab.locator("#metric").select_option("loss")
            tab.wait_for_timeout(700)
            draws.append(float(tab.evaluate("document.documentElement.dataset.milliseconds")))
        yield "asking for and drawing another metric", f"{median(draws):.0f} ms"
        yield "frames while the pointer moves over the heat map", frames(tab)
        with (directory / "metrics.jsonl").open("a") as file:
            file.writelines(size.lines(size.steps + size.period))
        begun = time.perf_counter()
        tab.locator("#runs dd", has_text=f"{size.steps + size.period:,} of").wait_for()
        yield "from an appended row to the drawn page", f"{time.perf_counter() - begun:.1f} s"
        browser.close()


def frames(tab: Any) -> str:
    """Returns the median and 95th percentile of the time between frames of the browser."""
    tab.locator("#heat .rows canvas").first.scroll_into_view_if_needed()
    box = tab.locator("#heat .rows").first.bounding_box()
    tab.evaluate(
        """() => {
            window.spans = [];
            let last = performance.now();
            const each = now => { window.spans.push(now - last); last = now; requestAnimationFrame(each); };
            requestAnimationFrame(each);
        }"""  # noqa: E501
    )
    for turn in range(60):
        x, y = box["x"] + 160 + 7 * turn % 400, box["y"] + 10 + 5 * turn % 400
        tab.mouse.move(x, y)
    spans = np.array(tab.evaluate("window.spans"))[1:]
    return f"median {np.median(spans):.0f} ms, 95 % under {np.quantile(spans, 0.95):.0f} ms"


def train_tiny(directory: Path, cache: Path, steps: int) -> None:
    """Trains a tiny model in this process."""
    import optax

    from mmt import checkpoint, train
    from mmt.data import pipeline
    from mmt.model import transformer

    config = transformer.Config(
        vocab_size=PIECES, emb_dim=128, num_heads=2, head_dim=64, mlp_dim=256, encoder_layers=2,
        decoder_layers=2,
    )  # fmt: skip
    program = train.Trainer(
        transformer.Transformer(config), optax.adafactor(0.01), log_every=10, languages_every=10
    )
    batches = pipeline.train_batches(
        cache, feature_lengths={"inputs": LENGTH, "targets": LENGTH}, batch_size=ROWS
    )
    policy = checkpoint.Policy(period=steps, keep=1)
    train.train(program, batches, model_dir=str(directory), steps=steps, policy=policy, hooks=[])
    batches.close()


def training(folder: Path, *, steps: int = 1000) -> Iterator[tuple[str, str]]:
    """Yields (quantity, value) of a training alone and with an open page that follows it."""
    cache = folder / "cache"
    make_cache(cache)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    losses, shares = set(), []
    for turn in range(ROUNDS):
        for watched in (False, True):
            directory = folder / f"run-{turn}-{watched}"
            directory.mkdir()
            (directory / "config.gin").write_text(f"TRAIN_STEPS = {steps}\n")
            process = SPAWN.Process(target=train_tiny, args=(directory, cache, steps))
            process.start()
            before = time.process_time(), time.perf_counter()
            with served(directory) if watched else contextlib.nullcontext() as address:
                while process.is_alive():
                    if address:
                        look(address)
                    time.sleep(2)
            process.join()
            if watched:
                spent, passed = time.process_time() - before[0], time.perf_counter() - before[1]
                shares.append(spent / passed)
            rows = [row for row in read_metrics(directory / "metrics.jsonl") if "loss" in row]
            seconds[watched].append(sum(row["seconds"] for row in rows[10:]))
            losses.add(tuple(row["loss"] for row in rows))
    for watched, times in seconds.items():
        name = "with an open page" if watched else "alone"
        yield f"training {name}", ", ".join(f"{each:.2f} s" for each in times)
    ratios = [a / b for a, b in zip(seconds[True], seconds[False], strict=True)]
    yield "ratio of times, each round", ", ".join(f"{ratio:.3f}" for ratio in ratios)
    shown = ", ".join(f"{share:.1%}" for share in shares)
    yield "one processor's time for the page, server and client", shown
    yield "different sequences of losses", str(len(losses))


def look(address: str) -> None:
    """Asks for what the page asks for at an update."""
    paths = ["api/runs", "api/totals?columns=300"]
    paths += [f"api/series?metric=loss&columns=600{end}" for end in ("", "&bands=1")]
    for path in paths:
        with contextlib.suppress(OSError):  # 400: no row yet
            urllib.request.urlopen(address + path, timeout=20).read()


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--languages", type=int, default=200)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--training", action="store_true")
    args = parser.parse_args()
    size = MadeUpRun(languages=args.languages, steps=args.steps)
    title = f"{size.languages} languages x {size.steps:,} steps"
    table = Table("quantity", "value", title="a tiny training" if args.training else title)
    with contextlib.ExitStack() as stack:
        folder = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if args.training:
            rows = training(folder)
        else:
            size.write(folder / "made_up")
            rows = (row for part in (files, page) for row in part(folder / "made_up", size))
        for quantity, value in rows:
            table.add_row(quantity, value)
    from benchmarks.header import header

    print(header())
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
