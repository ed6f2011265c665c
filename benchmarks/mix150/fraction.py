"""Writes a corpus with a part of the distinct English lines of another.

    python -m benchmarks.mix150.fraction CORPUS PARTS OUT

OUT gets the training pairs of CORPUS whose target is in one of PARTS equal parts of the distinct
targets, by a hash, and all validation pairs and test lines. All pairs of a line stay together, so
the English of the languages remains shared. The part of 32 is within the part of 8.

    python -m benchmarks.mix150.fraction runs/mix150/data/mix150 8 runs/mix150/data/mix150_8
"""

import argparse
import hashlib
from pathlib import Path

from benchmarks.mix150 import extend
from mmt.data import corpora


def in_part(target: str, parts: int) -> bool:
    """Returns whether a target is in the first of `parts` equal parts."""
    digest = hashlib.blake2b(target.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % parts == 0


def main() -> None:
    """Writes the corpus and prints its folder."""
    parser = argparse.ArgumentParser("python -m benchmarks.mix150.fraction")
    parser.add_argument("corpus")
    parser.add_argument("parts", type=int)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    if args.parts < 1:
        parser.error(f"argument parts: must be at least 1, got {args.parts}")
    corpus = corpora.load(args.corpus)
    name = f"{corpus.name}_{args.parts}"
    print(extend.write(corpus, args.out, name, keep=lambda pair: in_part(pair.target, args.parts)))


if __name__ == "__main__":
    main()
