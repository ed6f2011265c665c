"""Limits and keys."""

import hashlib

import pytest

from mmt.serve.errors import Refusal
from mmt.serve.limits import ApiKeys, Limits

KEY = "0123456789abcdef"
HASH = hashlib.sha256(KEY.encode()).hexdigest()


def write(folder, text):
    file = folder / "keys.txt"
    file.write_text(text)
    return file


def refusal(keys, key=KEY):
    with pytest.raises(Refusal) as error:
        keys.spend(key)
    return error.value


def test_limits_are_checked():
    with pytest.raises(ValueError, match="Limits.texts = 0; allowed: above 0"):
        Limits(texts=0)
    assert Limits(max_wait=0.0, cache_characters=0)


def test_only_keys_of_the_file_are_known(tmp_path):
    keys = ApiKeys.read(write(tmp_path, f"# team\n\n{HASH}  0 the team  # since May\n"))
    assert keys.knows(KEY) and not keys.knows(HASH)
    for _ in range(500):
        keys.spend(KEY)
    assert refusal(keys, "").status == refusal(keys, HASH).status == 403
    assert refusal(keys, "\ud800").status == 403


def test_requests_of_a_minute_come_back_one_by_one(tmp_path):
    now = [0.0]
    ApiKeys.read(write(tmp_path, f"{HASH} 6\n"))
    keys = ApiKeys({HASH: 6}, clock=lambda: now[0])
    for _ in range(6):
        keys.spend(KEY)
    error = refusal(keys)
    assert (error.status, error.retry_after) == (429, 10) and error.message.startswith("Slowdown")
    now[0] += 10
    keys.spend(KEY)
    assert refusal(keys).status == 429
    now[0] += 3600
    for _ in range(6):
        keys.spend(KEY)
    assert refusal(keys).status == 429


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no key"),
        (f"{HASH}\n{KEY} 6\n", r"keys.txt:2: expected SHA256 .*01234567…"),
        (f"{HASH} -1", "keys.txt:1"),
        (f"{HASH}\n{HASH}\n", "keys.txt:2: .* given twice"),
    ],
)
def test_a_broken_file_is_refused_without_showing_keys(text, message, tmp_path):
    with pytest.raises(ValueError, match=message) as error:
        ApiKeys.read(write(tmp_path, text))
    assert KEY not in str(error.value)
