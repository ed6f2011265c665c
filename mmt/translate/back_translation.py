"""Back-translation: a corpus of what a reverse model makes of monolingual text of the target.

Sennrich et al. 2016, with the tag of Caswell et al. 2019: the sources are the model's, the targets
are people's, and the description says so, whereupon each source is given a `<bt>` (`mmt.data`). The
corpus then takes the normal road. The search is `mmt.translate`'s, files are those of
`mmt.translate.output_log`.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mmt import languages
from mmt.checkpoint import digests
from mmt.data import corpora
from mmt.data.cleaning.prepare import check_place, cleaned
from mmt.data.entries import MONOLINGUAL
from mmt.decoding import Decoding
from mmt.run import Run
from mmt.system import lock
from mmt.system import text_lines as lines
from mmt.translate import output_log
from mmt.translate.translator import Translator

PROVENANCE = "back_translation.json"


@dataclasses.dataclass(frozen=True)
class BackTranslation:
    """The monolingual text of a corpus' target, translated into its languages, as a new corpus.

    model_dir: the run of `translator`. corpus: as `corpora.load` takes it; its own pairs come
    beside. directory: of the new corpus, named <corpus>_back_translated. into: languages by any
    name; default: those of the corpus that the model writes. lines: so many for each language at
    most, spread evenly over the text; 0: all.

    >>> work = BackTranslation("runs/reverse", "news", "news_bt")
    >>> work.write(Translator.load("runs/reverse"), DEFAULT)  # doctest: +SKIP
    """

    model_dir: str
    corpus: str
    directory: str
    into: Sequence[str] = ()
    lines: int = 0

    def write(self, translator: Translator, decoding: Decoding) -> None:
        """Writes what is missing of the corpus; one that is whole is left as it is.

        Killed and started again it goes on after the last whole line; `corpus.toml` comes last.
        `back_translation.json` says which model, text and decoding made it. A line for which the
        model finds no words is left out, and counted there; a line's number is its first column.

        ValueError: no such text, or an empty one; a model of another direction; a directory that
        holds something else, or the work of another recipe, or lies among the corpus' files.
        """
        corpus, folder = corpora.load(self.corpus), Path(self.directory)
        check_place(folder, corpus)
        if self.lines < 0:
            raise ValueError(f"lines is {self.lines}; allowed: 0 (all) or more")
        if corpus.target not in corpus.monolingual:
            raise ValueError(
                f"{self.corpus} has no text of {corpus.target} to translate; its corpus.toml names "
                f"it under [monolingual], which has {', '.join(corpus.monolingual) or 'nothing'}"
            )
        codes = self._into(translator, corpus)
        recipe = self._recipe(translator, decoding, corpus, codes)
        whole = (folder / "corpus.toml").exists()
        with contextlib.nullcontext() if whole else lock.held(folder):
            output_log.begin(folder / PROVENANCE, recipe)
            if not (folder / "corpus.toml").exists():
                self._translate(translator, decoding, corpus, codes)
                self._describe(cleaned(corpus), codes, recipe)

    def _into(self, translator: Translator, corpus: corpora.Corpus) -> list[str]:
        """The languages to translate into, of those that the model writes, as FLORES codes."""
        manifest = translator.manifest
        if manifest.source:
            written = list(manifest.translated)
        elif manifest.target:
            written = [manifest.target]
        else:
            written = [code for code in translator.vocabularies["source"].tags.values() if code]
        known = (manifest.source,) if manifest.source else manifest.translated
        if known and corpus.target not in known:
            raise ValueError(
                f"{self.model_dir} is of the wrong direction: it translates from "
                f"{_named(known)} into {_named(written)}, back-translation needs one from "
                f"{_named([corpus.target])}; train it on the same corpus with "
                "--gin_file=gin_configs/runs/reverse.gin"
            )
        wanted = [languages.find(name).code for name in self.into]
        for code in wanted:
            if code not in written or code == corpus.target:
                raise ValueError(
                    f"{self.model_dir} does not translate into {code}; it does into "
                    f"{_named(written)}"
                )
        found = wanted or [
            code for code in written
            if code != corpus.target and (not corpus.languages or code in corpus.languages)
        ]  # fmt: skip
        if not found:
            raise ValueError(
                f"{self.model_dir} translates into {_named(written)}: into no language of "
                f"{corpus.name}, which has {_named(corpus.languages)}"
            )
        return sorted(dict.fromkeys(found))

    def _recipe(
        self, translator: Translator, decoding: Decoding, corpus: corpora.Corpus,
        codes: Sequence[str],
    ) -> dict[str, Any]:  # fmt: skip
        """All that decides what is written; it begins `back_translation.json`."""
        digest = hashlib.blake2b(digest_size=8)
        for step in translator.steps:
            noted = Run(self.model_dir).checkpoint(step) / digests.FILE
            digest.update(noted.read_bytes() if noted.exists() else str(step).encode())
        return {
            "model": str(Path(self.model_dir).absolute()),
            "steps": list(translator.steps),
            "model_digest": digest.hexdigest(),
            "vocabulary": dict(translator.manifest.vocabulary_hash),
            "decoding": str(decoding),
            "corpus": corpus.hash(),
            "text": list(corpus.entries(corpus.target, MONOLINGUAL)),
            "lines": self.lines,
            "into": list(codes),
        }

    def _translate(
        self, translator: Translator, decoding: Decoding, corpus: corpora.Corpus,
        codes: Sequence[str],
    ) -> None:  # fmt: skip
        """Writes `train.<code>.tsv`: number of the line, what the model says, the line."""
        there = corpus.count(corpus.target, MONOLINGUAL)
        total = min(there, self.lines) if self.lines else there

        def chosen() -> Iterator[tuple[int, str]]:
            texts = corpus.pairs(corpus.target, MONOLINGUAL)
            for number, pair in enumerate(texts, 1):
                if number * total // there > (number - 1) * total // there:
                    yield number, pair.target

        def rows() -> Iterator[str]:
            for code, part in zip(codes, parts, strict=True):
                if part.path.exists():
                    continue
                own, ahead = itertools.tee(itertools.islice(chosen(), part.done, None))
                found = translator.translate(
                    (text for _, text in ahead), source=corpus.target, target=code,
                    decoding=decoding,
                )  # fmt: skip
                for (number, text), said in zip(own, found, strict=True):
                    yield output_log.row(str(number), said.text, text)

        parts = [output_log.OutputFile(_file(Path(self.directory), code), total) for code in codes]
        output_log.write(parts, rows())

    def _describe(
        self, corpus: corpora.Corpus, codes: Sequence[str], recipe: dict[str, Any]
    ) -> None:
        """Takes out lines without words; copies the corpus' own pairs; says what all of it is."""
        folder = Path(self.directory)
        there = corpus.count(corpus.target, MONOLINGUAL)
        total = min(there, self.lines) if self.lines else there
        kept = {code: _without_empty(_file(folder, code)) for code in codes}
        if not any(kept.values()):
            raise ValueError(f"{self.model_dir} finds no words for any line of {recipe['text']}")
        entries: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for split in corpora.SPLITS:
            for code in corpus.files[split]:
                entries.setdefault(split, {})[code] = _copied(corpus, split, code, folder)
        names = recipe["text"]
        name = f"back_translated/{names[0]}" if len(names) == 1 else "back_translated"
        for code in filter(kept.__getitem__, codes):
            made = {"pairs": _file(folder, code).name, "columns": [2, 3], "name": name}
            own = entries.setdefault("train", {}).setdefault(code, [])
            own.append(made | {"back_translated": True})
        counts = {code: {"lines": kept[code], "empty": total - kept[code]} for code in codes}
        with output_log.whole(folder / PROVENANCE) as file:
            json.dump(recipe | {"written": counts}, file, indent=1, ensure_ascii=False)
        text = f'name = "{corpus.name}_back_translated"\ntarget = "{corpus.target}"\n'
        for split, by_language in entries.items():
            text += f"[{split}]\n"
            for code, some in sorted(by_language.items()):
                text += f"{code} = [{', '.join(map(_inline, some))}]\n"
        with output_log.whole(folder / "corpus.toml") as file:
            file.write(text)


def _file(folder: Path, code: str) -> Path:
    return folder / f"train.{code}.tsv"


def _copied(corpus: corpora.Corpus, split: str, code: str, folder: Path) -> list[dict[str, Any]]:
    """The pairs of a split as files of the folder, one for each entry of the corpus."""
    found: dict[str, dict[str, Any]] = {}
    for name, pairs in itertools.groupby(corpus.pairs(code, split), key=lambda pair: pair.corpus):
        mode = "a" if name in found else "w"
        one = found.setdefault(name, {"pairs": f"own.{split}.{code}.{len(found)}.tsv"})
        with (folder / one["pairs"]).open(mode, encoding="utf-8", newline="\n") as file:
            for pair in pairs:
                file.write(output_log.row(pair.source, pair.target))
                if pair.back_translated:
                    one["back_translated"] = True
        one["name"] = name
    return list(found.values())


def _without_empty(path: Path) -> int:
    """Takes lines out of a file in which the model said nothing; how many are left."""
    count = sum(1 for line in lines.read(path) if line.split("\t")[1])
    if count < lines.count(path):
        kept = (line for line in lines.read(path) if line.split("\t")[1])
        with output_log.whole(path) as file:
            file.writelines(f"{line}\n" for line in kept)
    return count


def _inline(entry: dict[str, Any]) -> str:
    """An entry as TOML has it in one line."""
    own = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())
    return f"{{ {', '.join(own)} }}"


def _named(codes: Sequence[str]) -> str:
    more = f", … ({len(codes)})" if len(codes) > 5 else ""
    return ", ".join(f"{languages.find(code).name} ({code})" for code in codes[:5]) + more
