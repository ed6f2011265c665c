"""Draws what experts gain over a dense model, by tokens and by distinct English lines.

    python -m benchmarks.mix150.expert_gain

It reads result/distinct_english.jsonl, the validation losses of ablations/distinct_english.gin, and
writes expert_gain.png. A row is one validation of one run: `lines` are the distinct English lines
of its corpus, `experts` those of a layer (0: dense), `tokens` those read so far, source and target
(3,090 a step).
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from eval.report.figures import drawing

FOLDER = Path(__file__).parent
Losses = dict[int, float]  # by tokens


class Pair(NamedTuple):
    """The losses of the dense model and of the one with experts, on the same corpus."""

    dense: Losses
    experts: Losses

    def gains(self) -> dict[int, float]:
        """Returns dense minus experts, where both are measured; above 0 experts are better."""
        return {
            tokens: loss - self.experts[tokens]
            for tokens, loss in self.dense.items()
            if tokens in self.experts
        }


def read(file: Path) -> dict[int, Pair]:
    """Returns the losses by distinct English lines, most lines first."""
    losses: dict[int, Pair] = defaultdict(lambda: Pair({}, {}))
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        of_kind = losses[row["lines"]][bool(row["experts"])]
        of_kind[row["tokens"]] = row["validation_loss"]
    return dict(sorted(losses.items(), reverse=True))


def draw(pairs: dict[int, Pair]) -> Figure:
    """Draws the losses (experts dashed) beside the gains."""
    names = [f"{lines:,} distinct English lines" for lines in pairs]
    with drawing.styled():
        figure = drawing.canvas("16 experts against dense, equal step cost", height=4.4)
        left, right = figure.subplots(1, 2)
        for name, pair in zip(names, pairs.values(), strict=True):
            colour, gains = drawing.colour(names, name), pair.gains()
            for losses, style, label in ((pair.dense, "-", name), (pair.experts, "--", None)):
                millions = [tokens / 1e6 for tokens in losses]
                left.plot(millions, list(losses.values()), style, color=colour, label=label)
            right.plot([tokens / 1e6 for tokens in gains], list(gains.values()), "o-", ms=4,
                       color=colour)  # fmt: skip
        left.set_ylabel("validation loss, nats per token (dashed: experts)")
        right.set_ylabel("dense − experts, nats per token")
        right.axhline(0, color=drawing.PALETTE["ink"], lw=0.8)
        for axes in (left, right):
            axes.set_xlabel("million tokens, source and target")
        drawing.legend_of_all(figure)
    return figure


def main() -> None:
    """Writes the picture and prints its path."""
    path = FOLDER / "expert_gain.png"
    path.write_bytes(drawing.png(draw(read(FOLDER / "result" / "distinct_english.jsonl"))))
    print(path)


if __name__ == "__main__":
    main()
