"""Test sets by name: a split of a corpus or cache, the folder of a published set, or sacreBLEU's.

A test set is checked completely before anything is translated. layouts.py reads folders.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import sacrebleu.utils
from sacrebleu.dataset import DATASETS

from eval.testsets import layouts
from eval.testsets.multiway import Sentences as Sentences
from mmt import languages, suggest
from mmt.data import corpora, vocabulary
from mmt.data.cache import Cache
from mmt.data.cache.manifest import Manifest
from mmt.data.pair import Pair
from mmt.system import text_lines

SACREBLEU = "sacrebleu:"  # prefix of the names of its sets


@dataclasses.dataclass(frozen=True)
class TestSet:
    """Sentences of several languages with references in one target language (FLORES codes).

    Attributes:
        name: name in rows of results.
        target: the target language.
        languages: sentences by source language.
        domain, licence, citation: text; '' if unknown.
    """

    __test__ = False  # tells pytest that this is not a test

    name: str
    target: str
    languages: Mapping[str, Sentences]
    domain: str = ""
    licence: str = ""
    citation: str = ""

    def only(self, names: Iterable[str]) -> "TestSet":
        """Returns the test set with some languages only. Raises ValueError for a missing one."""
        chosen = {}
        for name in names:
            code = languages.find(name).code
            if code not in self.languages:
                hint = suggest.hint(code, self.languages, 3, cutoff=0.0)
                raise ValueError(
                    f"test set {self.name!r} has no {code} ({name!r}) among its "
                    f"{len(self.languages)} languages{hint}"
                )
            chosen[code] = self.languages[code]
        return dataclasses.replace(self, languages=chosen)

    def version(self, language: str) -> str:
        """Returns 12 hex digits: a hash of a language's sentences and references, and of the
        target.

        Scores of one language are comparable if these are equal. The set's name, documents and
        other languages do not affect them.

        >>> one = {"deu_Latn": Sentences(("eins",), ("one",))}
        >>> TestSet("numbers", "eng_Latn", one).version("deu_Latn")
        'c3a5f936cc8b'
        """
        sentences = self.languages[language]
        content = json.dumps([self.target, sentences.sources, sentences.references])
        return hashlib.blake2b(content.encode(), digest_size=6).hexdigest()


def check_documents(testset: TestSet, language: str) -> None:
    """Raises ValueError if the documents of a language's sentences are unknown."""
    if not any(testset.languages[language].follows):
        known = sum(any(each.follows) for each in testset.languages.values())
        raise ValueError(
            f"test set {testset.name!r}: the documents of {language} are unknown, so its lines "
            f"have no context; those of {known} of {len(testset.languages)} languages are known. "
            "They come from ids or documents = true in a corpus, the third column of a TSV, or the "
            "files of published sets (docs/evaluation/context.md)"
        )


def check_place(name: str | Path) -> None:
    """Raises ValueError unless `name` is a folder, a corpus.toml or a known test set; see `load`.
    """
    folder = Path(name)
    named = str(name).startswith(SACREBLEU) or name == corpora.EMBEDDED
    if not named and folder.is_file() and folder.suffix != ".toml":
        raise ValueError(
            f"{name} is a file; a test set is a folder or a corpus.toml; the file is in the folder "
            f"{str(folder.parent)!r}"
        )
    if not named and not folder.exists() and not layouts.is_stem(folder):
        hint = suggest.hint(str(name), [*_siblings(folder), corpora.EMBEDDED])
        raise ValueError(
            f"no test set {str(name)!r}{hint}; a test set is a corpus folder, a folder of a "
            f"published set, a stem of Moses files, {SACREBLEU}NAME or {corpora.EMBEDDED!r}"
        )


def _siblings(path: Path) -> list[str]:
    """Returns the files and folders beside a path that does not exist."""
    return [str(sibling) for sibling in path.parent.iterdir()] if path.parent.is_dir() else []


def load(name: str | Path, *, split: str | None = None, target: str = "eng") -> TestSet:
    """Returns a test set from all its languages into `target` (any name), completely checked.

    name is one of
      * `cldr`, a folder with `corpus.toml`, or such a file: the corpus' `split` (default: `test`),
        with its own target, domain and licence; an id such as `JHN.4.10` names the document,
        `JHN.4`, and an empty line ends one in entries with `documents = true`;
      * the unpacked folder of a published set: FLORES-101, FLORES-200, FLORES+ (default split:
        `devtest`), TICO-19 or NTREX-128; also a split's own folder, `flores200_dataset/dev`;
      * a folder of plain files: for every language `<language>.src` and `<language>.ref`, or
        `<language>.tsv` with source<TAB>reference, or source<TAB>reference<TAB>document, with
        any name of the language (`deu.src`, `de.ref`);
      * a folder of Moses files, `<stem>.<language>` (or `.gz`), with two or more languages, one of
        which is the target. For a folder with several stems, give folder and stem: `data/test` for
        `data/test.de` and `data/test.en`;
      * `sacrebleu:wmt19/de-en`, or `sacrebleu:wmt14/full` for all its pairs into `target`: sets in
        sacreBLEU's cache (the error names the command that fetches one). If there are several
        references, sacreBLEU's first one is used. Licences are unknown, citations partly.

    >>> load("flores200_dataset").languages["deu_Latn"].documents[0]  # doctest: +SKIP
    'https://en.wikinews.org/wiki/...'

    Raises ValueError, with file and line if any, for a folder in another format and for a missing
    split, side or target. Raises it also for sides of unequal length, an unknown or duplicate
    language, and an empty or undecodable line. Only in TICO-19 and sacreBLEU's sets, pairs with an
    empty side are skipped as untranslated.
    """
    check_place(name)
    folder, target_code = Path(name), languages.find(target).code
    if str(name).startswith(SACREBLEU):
        if split not in (None, "test"):
            raise ValueError(f"{name} has no {split!r} split; dev sets have names of their own")
        return _from_sacrebleu(str(name).removeprefix(SACREBLEU), target_code)
    described = name == corpora.EMBEDDED or (folder / "corpus.toml").exists()
    if not described and (folder.is_dir() or layouts.is_stem(folder)):
        return TestSet(*layouts.read(folder, split=split, target=target_code))
    return _from_corpus(corpora.load(name), split or "test")


def for_model(name: str | Path, manifest: Manifest) -> TestSet:
    """Returns a test set into the target language of a model, else into English; see `load`."""
    return load(name, target=manifest.target or "eng")


def lines(names: Iterable[str], *, target: str) -> dict[str, dict[str, Sequence[str]]]:
    """Returns the lines that training must exclude: name -> FLORES code -> lines, of both sides.

    names: test sets, see `load`. Raises ValueError like `load`, and for two sets of one name.
    """
    by_name: dict[str, dict[str, Sequence[str]]] = {}
    for name in names:
        testset = load(name, target=target)
        if testset.name in by_name:
            raise ValueError(f"two test sets are called {testset.name!r}; the second is {name}")
        languages = testset.languages
        references = (line for sentences in languages.values() for line in sentences.references)
        by_name[testset.name] = {code: each.sources for code, each in languages.items()}
        by_name[testset.name][testset.target] = list(dict.fromkeys(references))
    return by_name


def from_cache(cache: Cache, *, split: str = "validation", limit: int = 8) -> TestSet:
    """Returns the first `limit` sentences of every language of a tokenised cache, as text.

    It needs no corpus: the vocabularies beside the cache decode the text without loss.
    """
    manifest = cache.manifest
    vocabularies = {
        side: vocabulary.Vocabulary.load(path) for side, path in cache.vocabulary_files().items()
    }
    prefix = vocabulary.source_prefix(vocabularies["source"], manifest.target)
    languages = {}
    for code in manifest.languages:
        if manifest.counts.get(split, {}).get(code):
            records = cache.records(code, split)
            examples = [records[i] for i in range(min(limit, len(records)))]
            sources = [vocabularies["source"].decode(e["inputs"].tolist()) for e in examples]
            targets = [vocabularies["target"].decode(e["targets"].tolist()) for e in examples]
            languages[code] = Sentences(
                tuple(s.removeprefix(prefix) for s in sources), tuple(targets)
            )
    return TestSet(f"{manifest.name}-{split}", manifest.target, languages)


def _from_corpus(corpus: corpora.Corpus, split: str) -> TestSet:
    if split not in corpora.SPLITS:
        raise ValueError(f"split is {split!r}; allowed: {', '.join(corpora.SPLITS)}")
    by_language = {}
    for code in corpus.languages:
        if corpus.count(code, split):
            pairs = list(corpus.pairs(code, split))
            documents = _documents(pairs)
            by_language[code] = Sentences(
                tuple(pair.source for pair in pairs),
                tuple(pair.target for pair in pairs),
                documents if any(documents) else (),
            )
    if not by_language:
        splits = ", ".join(name for name in corpora.SPLITS if corpus.files[name])
        raise ValueError(f"corpus {corpus.name!r} has no {split} split; it has: {splits}")
    suffix = "" if split == "test" else f"-{split}"
    return TestSet(corpus.name + suffix, corpus.target, by_language, corpus.domain, corpus.licence)


def _documents(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Returns the document of each pair; '' if unknown.

    If entries mark documents, these are named by their first line: `talks.de:120`. They end where
    an id names another document too. Else only ids name documents.
    """
    of_ids = [layouts.document_of(pair.id) for pair in pairs]
    if not any(pair.follows for pair in pairs):
        return tuple(of_ids)
    names: list[str] = []
    for number, pair in enumerate(pairs):
        follows = pair.follows and of_ids[number] == of_ids[number - 1]
        names.append(names[-1] if follows else f"{pair.corpus}:{pair.line}")
    return tuple(names)


def _from_sacrebleu(name: str, target: str) -> TestSet:
    # Some sets have a slash in their name: wmt14/full.
    dataset, _, pair = (name, "", "") if name in DATASETS else name.rpartition("/")
    if dataset not in DATASETS:
        hint = suggest.hint(name, DATASETS, 3, cutoff=0.0)
        raise ValueError(f"sacreBLEU has no test set {name!r}{hint}")
    pairs = sorted(DATASETS[dataset].langpairs)
    if pair and pair not in pairs:
        raise ValueError(f"sacreBLEU's {dataset} has no {pair!r}; it has: {', '.join(pairs)}")
    if pair:
        target = _side(pair, 1)
    chosen = [pair] if pair else [pair for pair in pairs if _side(pair, 1) == target]
    if not chosen:
        raise ValueError(f"sacreBLEU's {dataset} has no pair into {target}: {', '.join(pairs)}")
    sentences: dict[str, Sentences] = {}
    domains: list[str] = []
    for pair in chosen:
        fields = _fields(dataset, pair)
        sides = zip(fields["src"], fields["ref"], strict=True)
        complete = [i for i, pair in enumerate(sides) if all(side.strip() for side in pair)]
        sentences[_side(pair, 0)] = Sentences(
            *(tuple(fields[f][i] for i in complete) for f in ("src", "ref", "docid") if f in fields)
        )
        domains += fields.get("domain") or fields.get("genre", [])
    name = dataset.replace("/", "_")
    citation = _citation(DATASETS[dataset].citation or "")
    return TestSet(name, target, sentences, ", ".join(dict.fromkeys(domains)), citation=citation)


def _citation(bibtex: str) -> str:
    """Returns `title, year` of a BibTeX entry, '' if unknown."""
    title = re.search(r'^\s*title\s*=\s*["{](.+)["}],?\s*$', bibtex, re.MULTILINE)
    year = re.search(r'^\s*year\s*=\s*["{]?(\d{4})', bibtex, re.MULTILINE)
    return f"{re.sub('[{}]', '', title[1])}, {year[1]}" if title and year else ""


def _side(pair: str, side: int) -> str:
    return languages.find(pair.split("-", 1)[side]).code


def _fields(dataset: str, pair: str) -> dict[str, list[str]]:
    """Returns src, ref and other fields in sacreBLEU's cache, <set>/<set>.<pair>.<field>."""
    stem = f"{dataset.replace('/', '_')}.{pair}."
    folder = Path(sacrebleu.utils.SACREBLEU_DIR) / dataset
    files = {path.name.removeprefix(stem): path for path in folder.glob(f"{stem}*")}
    try:
        if not {"src", "ref"} <= {field.split("-")[0] for field in files}:  # no download
            raise FileNotFoundError(f"no {stem}src and {stem}ref in {folder}")
        files["ref"] = Path(DATASETS[dataset].get_reference_files(pair)[0])
    except OSError as error:
        raise ValueError(
            f"sacreBLEU's cache lacks {dataset} {pair}: {error}; fetch it with: "
            f"sacrebleu -t {dataset} -l {pair} --echo src ref"
        ) from error
    names = ("src", "ref", "docid", "domain", "genre")
    fields: dict[str, list[str]] = {
        field: list(text_lines.read(files[field])) for field in names if field in files
    }
    for field, values in fields.items():
        if len(values) != len(fields["src"]):
            raise ValueError(
                f"{files['src']} has {len(fields['src'])} lines, {files[field]} has "
                f"{len(values)}: they must be parallel"
            )
    return fields
