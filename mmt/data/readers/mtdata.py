"""Files that mtdata (github.com/thammegowda/mtdata) has downloaded: output folders and its cache.

It reads files on disk and never downloads; mtdata itself need not be installed. The layouts are
those of mtdata 0.5. An output folder (`mtdata get … --out DIR`) has
`train-parts/<id>.<language>[.gz]`, `dev.<language>` and `test1.<language>`, …. The cache ($MTDATA,
or ~/.mtdata) has a download in `<host>/<md5 of the address: 4 digits>/<the others>/<file name>`,
with `<file name>._valid` beside complete files. The index of all data sets is
`mtdata.index.<version>.jsonl`. Recipes are in `mtdata.recipes*.yml`, in the cache or in
$MTDATA_RECIPES.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from fnmatch import filter as matching
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from mmt import suggest
from mmt.data.readers.files import Files, code_of
from mmt.system import compression, text_lines

_FIELDS = {"train": "train", "validation": "dev", "test": "test"}


def is_output(folder: Path) -> bool:
    """Returns whether a folder is an output of `mtdata get`."""
    return (folder / "train-parts").is_dir() or (folder / "mtdata.signature.txt").is_file()


def output(folder: Path, split: str) -> list[Path]:
    """Returns the files of a split in such a folder; for training the parts, named after corpora.
    """
    pattern = {"train": "train-parts/*", "validation": "dev.*", "test": "test[0-9]*.*"}[split]
    return [path for path in sorted(folder.glob(pattern)) if path.is_file()]


def find(name: str, split: str, languages: tuple[str, str]) -> list[Files]:
    """Returns the files of a data set ('Statmt-europarl-10-deu-eng') or of a recipe's ids.

    Raises:
      ValueError: an unknown id, a pair of other languages, files that are missing or incomplete in
        the cache, compressions and formats that only mtdata reads.
    """
    recipes = _recipes()
    if name in recipes:
        names = _ids(recipes[name].get(_FIELDS[split]))
        if not names:
            raise ValueError(f"mtdata's recipe {name} has nothing for {split}")
    elif re.fullmatch(r"[^-\s]+-[^-\s]+-[^-\s]+-[^-\s]+-[^-\s]+", name):
        names = [name]
    else:
        raise ValueError(
            f"{name!r} is no id of mtdata, such as group-name-version-deu-eng, and no recipe in "
            f"{_root()}{suggest.hint(name, recipes, 3)}"
        )
    files = _indexed(names)
    return [_files(files[name], name, languages) for name in names]


def _root() -> Path:
    return Path(os.environ.get("MTDATA") or "~/.mtdata").expanduser()


def _recipes() -> dict[str, Mapping[str, Any]]:
    import yaml

    folders = [_root(), Path(os.environ["MTDATA_RECIPES"])] if os.environ.get("MTDATA_RECIPES") \
        else [_root()]  # fmt: skip
    recipes: dict[str, Mapping[str, Any]] = {}
    for path in (p for folder in folders for p in sorted(folder.glob("mtdata.recipes*.yml"))):
        try:
            content = yaml.safe_load(compression.whole(path))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{path}: {error}") from None
        if not isinstance(content, list) or not all(isinstance(recipe, dict) for recipe in content):
            raise ValueError(f"{path}: no list of recipes")
        recipes |= {str(recipe.get("id")): recipe for recipe in content}
    return recipes


def _ids(value: Any) -> list[str]:
    """Returns a recipe's ids: one, several with commas, or a list of both."""
    entries = value if isinstance(value, list) else [value or ""]
    return [name.strip() for entry in entries for name in str(entry).split(",") if name.strip()]


def _indexed(names: list[str]) -> dict[str, Mapping[str, Any]]:
    indexes = sorted(_root().glob("mtdata.index.*.jsonl"))
    if not indexes:
        raise ValueError(f"no index of mtdata in {_root()} ($MTDATA); run: mtdata list")
    path, entries, keys = indexes[-1], {}, [f'"{name}"' for name in names]
    for number, line in enumerate(text_lines.read(path), 1):
        if any(key in line for key in keys):
            try:
                entry = json.loads(line)
                entries[entry["did"]] = entry
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: no entry of an index: {error!r}") from None
    for name in names:
        if name not in entries:
            raise ValueError(f"mtdata's index {path} has no {name}; `mtdata list` shows all")
    return entries


def _files(entry: Mapping[str, Any], name: str, languages: tuple[str, str]) -> Files:
    file_languages = tuple(map(code_of, name.split("-")[-2:]))
    if sorted(file_languages) != sorted(languages):
        raise ValueError(f"mtdata's {name} is not for {' and '.join(languages)}")
    swapped = file_languages != languages
    urls = entry["url"] if isinstance(entry.get("url"), list) else [entry.get("url", "")]
    ext = str(entry.get("in_ext") or entry.get("ext") or "")
    file_name = str(entry.get("filename") or "") if len(urls) == 1 else ""
    paths = [_cached(str(url), file_name, name) for url in urls]
    if inner := entry.get("in_paths"):
        if paths[0].suffix != ".zip":
            raise ValueError(f"{paths[0]}: the only supported archive is .zip; run: mtdata get")
        members = list(compression.members(paths[0]))
        paths = [paths[0] / member for glob in inner for member in matching(members, str(glob))]
    if len(paths) == 2 and not ext.startswith(("sgm", "tmx", "opus")):
        source, target = paths[::-1] if swapped else paths
        return Files(source, target, name=name)
    if len(paths) == 1 and ext.startswith("tmx"):
        return Files(paths[0], name=name)
    if len(paths) == 1 and ext.startswith("tsv"):
        source_column, target_column = (int(column) + 1 for column in entry.get("cols") or (0, 1))
        columns = str(source_column), str(target_column)
        return Files(paths[0], columns=columns[::-1] if swapped else columns, name=name)
    raise ValueError(f"mtdata's {name}: {len(paths)} files of {ext!r}; run: mtdata get -tr {name}")


def _cached(url: str, file_name: str, name: str) -> Path:
    """Returns the file in mtdata's cache that was downloaded from an address."""
    key = hashlib.md5(url.encode(), usedforsecurity=False).hexdigest()
    folder = _root() / (urlparse(url).hostname or "nohost") / key[:4] / key[4:]
    path = folder / (file_name or url.split("/")[-1])
    if not path.is_file():
        raise ValueError(f"mtdata's {name} is not in its cache: no {path}; run: mtdata cache")
    if not path.with_name(path.name + "._valid").exists():
        raise ValueError(f"mtdata's {name} is incomplete: {path} has no ._valid beside it")
    return path
