"""Strict parsing of JSON objects: no repeated keys, valid characters, no other kind of value."""

import json
from typing import Any


def parse(line: str | bytes) -> dict[str, Any]:
    """Returns the object of a line of JSON; bytes must be UTF-8.

    Raises ValueError with the fault: another value than an object, a repeated key, half of a
    surrogate pair, a byte that is not UTF-8.
    """
    try:
        return _object(line.decode() if isinstance(line, bytes) else line)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at column {error.colno}") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(f"no UTF-8: byte {error.start + 1} is 0x{byte:02x}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _object(line: str) -> dict[str, Any]:
    values = json.loads(line, object_pairs_hook=_unique_keys)
    if "\\u" in line:  # only an escape can hold half of a surrogate pair
        try:
            json.dumps(values, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            surrogate = ascii(error.object[error.start])[1:-1]
            raise ValueError(f"no text: {surrogate}, half of a character") from error
    if not isinstance(values, dict):
        raise ValueError(f"expected an object of keys and values, found {line[:40]!r}")
    return values


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {max(names, key=names.count)!r} is given twice")
    return values
