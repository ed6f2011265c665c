"""Finds the line of a key in a TOML file, for messages; tomllib does not report it."""

import re
from pathlib import Path


def located(text: str, file: Path, key: str, table: str = "") -> str:
    """Returns 'file:line' of a key, or of the table of that name, in a TOML text; else 'file'."""
    inside = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            inside = re.sub(r"""[\s"']""", "", header[1])
            here = f"{inside}.".startswith(f"{table}.{key}." if table else f"{key}.")
        else:
            word = re.match(r"""\s*["']?([^"'=.]*?)["']?\s*[=.]""", line)
            here = inside == table and word is not None and word[1] == key
        if here:
            return f"{file}:{number}"
    return str(file)
