"""Finds the line of a key in a TOML file, for messages; tomllib does not report it."""

import re
from pathlib import Path


def located(text: str, file: Path, key: str, table: str = "") -> str:
    """Returns 'file:line' of a key, or of the table of that name, in a TOML text; else 'file'."""
    current_table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            current_table = re.sub(r"""[\s"']""", "", header[1])
            is_key = f"{current_table}.".startswith(f"{table}.{key}." if table else f"{key}.")
        else:
            word = re.match(r"""\s*["']?([^"'=.]*?)["']?\s*[=.]""", line)
            is_key = current_table == table and word is not None and word[1] == key
        if is_key:
            return f"{file}:{number}"
    return str(file)
