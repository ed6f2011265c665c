"""The folder of a cleaned corpus: `corpus.toml`, and each entry's pairs and line numbers.

Back-translation writes `facts` and `monolingual` of a corpus into its own.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from mmt.data.cleaning.job import CleaningJob, EntryWork
from mmt.data.corpora import Corpus
from mmt.data.entries import MONOLINGUAL
from mmt.data.pair import Pair
from mmt.data.readers.files import Files
from mmt.system.atomic import packed


def write_entry(job: CleaningJob, item: EntryWork, pairs: Iterable[Pair]) -> None:
    """Writes the final files of an entry, pairs and their line numbers, unless it is empty.

    An entry with documents has an empty line wherever the next pair was not the next line.
    """
    stem = str(job.work / "corpus" / _stem(job, item))
    with contextlib.ExitStack() as stack:
        files: list[Callable[[str], None]] = []
        documents, last_line = job.files(item).documents, 0
        for pair in pairs:
            if not files:
                sides = [".source", ".target"] if pair.id else [""]
                names = [f"{stem}{side}.tsv.zst" for side in sides] + [f"{stem}.lines.zst"]
                files = [stack.enter_context(packed(Path(name))) for name in names]
            if documents and last_line and pair.line != last_line + 1:
                files[0]("")
                files[-1]("")  # of ids, the targets have no order
            last_line, texts = pair.line, [f"{pair.source}\t{pair.target}"]
            if pair.id:
                texts = [f"{pair.id}\t{pair.source}", f"{pair.id}\t{pair.target}"]
            for write, text in zip(files, [*texts, str(pair.line)], strict=True):
                write(text)


def write_description(job: CleaningJob, items: Iterable[EntryWork]) -> None:
    """Writes the `corpus.toml`."""
    text = facts(job.corpus)
    tables: dict[str, dict[str, list[str]]] = {}
    for item in items:
        stem, name = _stem(job, item), json.dumps(job.name(item), ensure_ascii=False)
        options = ("back_translated", "documents")
        name += "".join(f", {key} = true" for key in options if getattr(job.files(item), key))
        entries = tables.setdefault(item.split, {}).setdefault(item.language, [])
        if (job.work / "corpus" / f"{stem}.tsv.zst").exists():
            entries.append(f'{{ pairs = "{stem}.tsv.zst", name = {name} }}')
        elif (job.work / "corpus" / f"{stem}.lines.zst").exists():
            files = f'source = "{stem}.source.tsv.zst", target = "{stem}.target.tsv.zst"'
            entries.append(f'{{ {files}, join = "id", name = {name} }}')
    for split, by_language in tables.items():
        text.append(f"[{split}]")
        for code, entries in by_language.items():
            if tables["train"].get(code):
                text.append(f"{code} = [\n" + "".join(f"  {entry},\n" for entry in entries) + "]")
    text += monolingual(job.corpus)
    (job.work / "corpus" / "corpus.toml").write_text("\n".join(text) + "\n", encoding="utf-8")


def facts(corpus: Corpus) -> list[str]:
    """Returns the lines of a description before its tables: name, target, domain, licence."""
    named = [(key, getattr(corpus, key)) for key in ("name", "target", "domain", "licence")]
    return [f"{key} = {json.dumps(fact, ensure_ascii=False)}" for key, fact in named if fact]


def monolingual(corpus: Corpus) -> list[str]:
    """Returns the lines of a description with the monolingual text, at its place; [] for none."""
    if not corpus.monolingual:
        return []
    lines = [f"[{MONOLINGUAL}]"]
    for code, texts in corpus.files[MONOLINGUAL].items():
        lines += [f"{code} = [", *(f"  {_as_text(entry)}," for entry in texts), "]"]
    return lines


def _stem(job: CleaningJob, item: EntryWork) -> str:
    """Returns the path of an entry's files without suffixes: 'train/deu_Latn.0-europarl'."""
    name = re.sub(r"\W+", "_", job.name(item)).strip("_")[:60]
    return f"{item.split}/{item.language}.{item.entry}-{name}"


def _as_text(files: Files) -> str:
    """Returns the TOML of an entry of monolingual text, which is not cleaned."""
    table: dict[str, object] = {"text": str(files.source.absolute()), "name": files.name}
    if files.columns:
        column = files.columns[0]
        table["column"] = int(column) if column.isdigit() else column
    if files.sample:
        table["sample"] = files.sample
    fields = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items())
    return f"{{ {', '.join(fields)} }}"
