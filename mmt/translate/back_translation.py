"""Back-translation: a reverse model translates monolingual target text into a new corpus.

Sennrich et al. 2016, with the tag of Caswell et al. 2019. Sources are written by the model, targets
by people. The corpus description marks the entries as back-translated, and `mmt.data` adds `<bt>`
to their sources. Otherwise the result is a corpus as any other.
"""

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mmt import languages
from mmt.data import corpora
from mmt.data.cleaning.cleaned_folder import facts, monolingual
from mmt.data.cleaning.prepare import check_place, cleaned
from mmt.data.entries import MONOLINGUAL
from mmt.decoding import Decoding
from mmt.system import lock
from mmt.system import text_lines as lines
from mmt.translate import output_log
from mmt.translate.translator import Translator

PROVENANCE = "back_translation.json"


@dataclasses.dataclass(frozen=True)
class BackTranslation:
    """A new corpus: the pairs of a corpus, and translations of its monolingual target text.

    Attributes:
        model_dir: run directory of the translator.
        corpus: name or folder of the corpus, as `corpora.load` accepts it.
        directory: folder of the new corpus, which is named <corpus>_back_translated.
        into: languages to translate into, by any name; by default the languages of the corpus that
            the model writes.
        lines: maximum number of lines per language, spread evenly over the text; 0 is all.

    >>> work = BackTranslation("runs/reverse", "news", "news_bt")
    >>> work.write(Translator.load("runs/reverse"), DEFAULT)  # doctest: +SKIP
    """

    model_dir: str
    corpus: str
    directory: str
    into: Sequence[str] = ()
    lines: int = 0

    def write(
        self,
        translator: Translator,
        decoding: Decoding,
        *,
        engine: str = "jax",
        weights: str | None = None,
    ) -> None:
        """Writes the missing parts of the corpus; a complete corpus is left unchanged.

        A killed run resumes after the last complete line; `corpus.toml` is written last.
        `back_translation.json` records model, engine, weights, text and decoding. Lines with an
        empty translation are removed and counted there. The first column of a line is its number in
        the text.

        Args:
            translator: the loaded model.
            decoding: the search options.
            engine, weights: those of the translator, for the record; None: as trained.

        Raises:
            ValueError: there is no text, the model has another direction, or the directory holds
                something else, a corpus of another recipe, or files of the corpus.
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
        codes = self._target_codes(translator, corpus)
        precision = {"engine": engine, "weights": weights}
        recipe = self._recipe(translator, decoding, corpus, codes) | precision
        complete = (folder / "corpus.toml").exists()
        with contextlib.nullcontext() if complete else lock.held(folder):
            output_log.begin(folder / PROVENANCE, recipe, added=precision)
            if not (folder / "corpus.toml").exists():
                self._translate(translator, decoding, corpus, codes)
                self._describe(cleaned(corpus), codes, recipe)

    def _target_codes(self, translator: Translator, corpus: corpora.Corpus) -> list[str]:
        """Returns the FLORES codes of the languages to translate into."""
        manifest = translator.manifest
        if manifest.source:
            target_languages = list(manifest.translated)
        elif manifest.target:
            target_languages = [manifest.target]
        else:
            target_languages = [
                code for code in translator.vocabularies["source"].tags.values() if code
            ]
        source_languages = (manifest.source,) if manifest.source else manifest.translated
        if source_languages and corpus.target not in source_languages:
            raise ValueError(
                f"{self.model_dir} has the wrong direction: it translates from "
                f"{_listed(source_languages)} into {_listed(target_languages)}, but "
                f"back-translation needs a model from {_listed([corpus.target])}; train it on the "
                "same corpus with --gin_file=gin_configs/runs/reverse.gin"
            )
        requested = [languages.find(name).code for name in self.into]
        for code in requested:
            if code not in target_languages or code == corpus.target:
                raise ValueError(
                    f"{self.model_dir} does not translate into {code}, but into "
                    f"{_listed(target_languages)}"
                )
        codes = requested or [
            code for code in target_languages
            if code != corpus.target and (not corpus.languages or code in corpus.languages)
        ]  # fmt: skip
        if not codes:
            raise ValueError(
                f"{self.model_dir} translates into {_listed(target_languages)}, which are no "
                f"languages of {corpus.name}; it has {_listed(corpus.languages)}"
            )
        return sorted(dict.fromkeys(codes))

    def _recipe(
        self, translator: Translator, decoding: Decoding, corpus: corpora.Corpus,
        codes: Sequence[str],
    ) -> dict[str, Any]:  # fmt: skip
        """Returns everything that determines the corpus, the start of `back_translation.json`."""
        model = output_log.model_recipe(self.model_dir, translator.steps, translator.manifest)
        return model | {
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
        """Writes `train.<code>.tsv`: number of a line, its translation, the line."""
        available = corpus.count(corpus.target, MONOLINGUAL)
        total = min(available, self.lines) if self.lines else available

        def chosen() -> Iterator[tuple[int, str]]:
            texts = corpus.pairs(corpus.target, MONOLINGUAL)
            for number, pair in enumerate(texts, 1):
                if number * total // available > (number - 1) * total // available:
                    yield number, pair.target

        def rows() -> Iterator[str]:
            for code, file in zip(codes, files, strict=True):
                if file.path.exists():
                    continue
                numbered, inputs = itertools.tee(itertools.islice(chosen(), file.done, None))
                translations = translator.translate(
                    (text for _, text in inputs), source=corpus.target, target=code,
                    decoding=decoding,
                )  # fmt: skip
                for (number, text), translation in zip(numbered, translations, strict=True):
                    yield output_log.row(str(number), translation.text, text)

        files = [output_log.OutputFile(_file(Path(self.directory), code), total) for code in codes]
        output_log.write(files, rows())

    def _describe(
        self, corpus: corpora.Corpus, codes: Sequence[str], recipe: dict[str, Any]
    ) -> None:
        """Removes empty translations, copies the corpus' pairs, and writes the description."""
        folder = Path(self.directory)
        available = corpus.count(corpus.target, MONOLINGUAL)
        total = min(available, self.lines) if self.lines else available
        line_counts = {code: _without_empty(_file(folder, code)) for code in codes}
        if not any(line_counts.values()):
            raise ValueError(
                f"{self.model_dir} gives an empty translation of every line of {recipe['text']}"
            )
        entries: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for split in corpora.SPLITS:
            for code in corpus.files[split]:
                entries.setdefault(split, {})[code] = _copied(corpus, split, code, folder)
        names = recipe["text"]
        name = f"back_translated/{names[0]}" if len(names) == 1 else "back_translated"
        for code in filter(line_counts.__getitem__, codes):
            entry = {"pairs": _file(folder, code).name, "columns": [2, 3], "name": name}
            train_entries = entries.setdefault("train", {}).setdefault(code, [])
            train_entries.append(entry | {"back_translated": True})
        counts = {
            code: {"lines": line_counts[code], "empty": total - line_counts[code]} for code in codes
        }
        with output_log.new_file(folder / PROVENANCE) as file:
            json.dump(recipe | {"written": counts}, file, indent=1, ensure_ascii=False)
        text = facts(dataclasses.replace(corpus, name=f"{corpus.name}_back_translated"))
        for split, by_language in entries.items():
            text.append(f"[{split}]")
            for code, code_entries in sorted(by_language.items()):
                tables = ", ".join(map(_toml_inline_table, code_entries))
                text.append(f"{code} = [{tables}]")
        text += monolingual(corpus)
        with output_log.new_file(folder / "corpus.toml") as file:
            file.write("\n".join(text) + "\n")


def _file(folder: Path, code: str) -> Path:
    return folder / f"train.{code}.tsv"


def _copied(corpus: corpora.Corpus, split: str, code: str, folder: Path) -> list[dict[str, Any]]:
    """Copies the pairs of a split, one file per entry of the corpus; returns the new entries.

    An entry with documents has an empty line wherever the next pair does not follow.
    """
    entries: dict[str, dict[str, Any]] = {}
    documents = {files.name for files in corpus.files[split][code] if files.documents}
    for name, pairs in itertools.groupby(corpus.pairs(code, split), key=lambda pair: pair.corpus):
        mode = "a" if name in entries else "w"
        entry = entries.setdefault(name, {"pairs": f"own.{split}.{code}.{len(entries)}.tsv"})
        with (folder / entry["pairs"]).open(mode, encoding="utf-8", newline="\n") as file:
            for number, pair in enumerate(pairs):
                if name in documents and number and not pair.follows:
                    file.write("\n")
                file.write(output_log.row(pair.source, pair.target))
                if pair.back_translated:
                    entry["back_translated"] = True
        entry["name"] = name
        if name in documents:
            entry["documents"] = True
    return list(entries.values())


def _without_empty(path: Path) -> int:
    """Removes lines with an empty translation from a file; returns the number that remain."""
    count = sum(1 for line in lines.read(path) if line.split("\t")[1])
    if count < lines.count(path):
        remaining = (line for line in lines.read(path) if line.split("\t")[1])
        with output_log.new_file(path) as file:
            file.writelines(f"{line}\n" for line in remaining)
    return count


def _toml_inline_table(entry: dict[str, Any]) -> str:
    """Returns an entry as an inline table of TOML."""
    fields = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())
    return f"{{ {', '.join(fields)} }}"


def _listed(codes: Sequence[str]) -> str:
    """Returns at most five codes with their languages' names, for a message."""
    rest = f", … ({len(codes)})" if len(codes) > 5 else ""
    return ", ".join(f"{languages.find(code).name} ({code})" for code in codes[:5]) + rest
