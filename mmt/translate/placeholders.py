"""Placeholders, URLs, e-mail addresses and code in a text: parts that are not translated.

`spans` finds them, `counts` compares them, `rejoin` puts a text together from their translated
surroundings. This module knows no model.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

from mmt.documents import words

# Repetitions before a mark are bounded, so that a search takes linear time.
_URL = r"[A-Za-z0-9\-._~:/?#@!$&'()*+,;=%\[\]]*[A-Za-z0-9\-_~/#@$&*+=%]"
# Tags that strings of applications have; others, such as <file>, may be words to translate.
_TAG = (
    r"</?(?i:abbr|big|br|code|del|div|em|font|h[1-6r]|img|ins|kbd|li|mark|ol|pre|small|span|strong"
    r"|sub|sup|table|t[dhrt]|ul|[abipqsu]|\d{1,2})(?:\s[^<>\n]*)?/?>"
)
_BRACES = r"\{[^{}\n]*\}"
for _ in range(5):  # a placeholder in a branch of a select in a branch of a plural
    _BRACES = rf"\{{(?:[^{{}}\n]|{_BRACES})*+\}}"
# In order of preference: what begins at the same character is the first of these.
_KINDS = (
    r"`{1,3}[^`\n]+`{1,3}",  # code, as in Markdown
    rf"(?:[A-Za-z][A-Za-z0-9+.\-]{{1,15}}://|(?i:mailto:|www\.)){_URL}",
    _TAG,
    r"[A-Za-z0-9._%+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]+)+",
    r"\{\{[^{}\n]*\}\}",  # Mustache, Jinja, MediaWiki
    rf"[$#%]?{_BRACES}",  # Python, ICU, JavaScript, Ruby
    r"(?<![0-9%])%(?:(?:\d{1,2}\$)?#@\w{1,64}@|arg\b)",  # Apple's substitutions
    r"(?<![0-9%])%(?:\([^()\s]+\)|\d{1,2}\$)?[\-+#0]*(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?"
    r"(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGcspan@]",  # printf
    r"%%",  # a percent sign, in printf
    r"\$t\([^()\n]*\)",  # i18next's nesting
    r"(?<![A-Za-z0-9$])\$\d{1,2}(?![\d.,]*\d)",  # MediaWiki's $1
)
_PATTERN = re.compile("|".join(f"(?:{kind})" for kind in _KINDS), re.ASCII)
_NONE: Counter[str] = Counter()


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of every placeholder, from left to right.

    >>> text = "Hi {name}, see https://mmt.org/a?b=1. You owe %1$d to `sum(x)`."
    >>> [text[start:end] for start, end in spans(text)]
    ['{name}', 'https://mmt.org/a?b=1', '%1$d', '`sum(x)`']
    """
    return (match.span() for match in _PATTERN.finditer(text))


def counts(text: str) -> Counter[str]:
    """Returns how often each placeholder occurs."""
    return Counter(text[start:end] for start, end in spans(text))


def agree(source: str, translation: str, added: Counter[str] = _NONE) -> bool:
    """Returns whether a translation has the placeholders of its source, and others only of `added`.

    >>> agree("Hi {name}", "{name}, www.x.org"), agree("Hi {name}", "Hi", Counter(["%s"]))
    (False, False)
    """
    expected, found = counts(source), counts(translation)
    return not (expected - found) and not (found - expected - added)


def surroundings(text: str) -> list[str]:
    """Returns the text before, between and after the placeholders: one more part than placeholders.
    """
    ends = [(0, 0), *spans(text), (len(text), len(text))]
    return [text[end:start] for (_, end), (start, _) in zip(ends, ends[1:], strict=False)]


def words_and_placeholders(text: str) -> list[tuple[int, int]]:
    """Returns start and end of each word and placeholder, in order.

    >>> text = "Hi {first name}!"
    >>> [text[start:end] for start, end in words_and_placeholders(text)]
    ['Hi', '{first name}', '!']
    """
    found, end = [], 0
    for start, next_end in [*spans(text), (len(text), len(text))]:
        found += [(end + first, end + last) for first, last in words.spans(text[end:start])]
        if start < next_end:
            found.append((start, next_end))
        end = next_end
    return found


def rejoin(text: str, translations: Sequence[str], added: Counter[str] = _NONE) -> str:
    """Returns a text whose surroundings are translated, with each placeholder once, in order.

    White space next to a placeholder is kept. A word next to a placeholder gets a space if the
    source has none there, as in Chinese. Placeholders of a translation that are not `added` are
    removed. If joining changes a placeholder, spaces separate them; if that fails too, as with
    unbalanced braces, the text is returned untranslated.

    >>> rejoin("Hallo {name}!", ["Hello", "!"])
    'Hello {name}!'
    """
    originals = [text[start:end] for start, end in spans(text)]
    source_parts = surroundings(text)
    parts = [
        _with_space_of(
            source,
            _without_placeholders(translation, added),
            first=i == 0,
            last=i == len(originals),
        )
        for i, (source, translation) in enumerate(zip(source_parts, translations, strict=True))
    ]
    spaced = [f" {part.strip()} " if part.strip() else " " for part in parts]
    for candidate in (parts, spaced):
        pairs = zip(candidate, [*originals, ""], strict=True)
        joined = "".join(part + placeholder for part, placeholder in pairs).strip()
        if agree(text, joined, added):
            return joined
    return text


def _without_placeholders(text: str, added: Counter[str]) -> str:
    def kept(match: re.Match[str]) -> str:
        return match[0] if match[0] in added else ""

    while (shorter := _PATTERN.sub(kept, text)) != text:
        text = shorter
    return text


def _with_space_of(source: str, translation: str, *, first: bool, last: bool) -> str:
    """Returns the translation with the white space at the joints of its source."""
    core, translation = source.strip(), translation.strip()
    if not core or not translation:
        return source if not core else " "
    start = source[: len(source) - len(source.lstrip())]
    end = source[len(source.rstrip()) :]
    if not (start or first) and _needs_space(core[0], translation[0]):
        start = " "
    if not (end or last) and _needs_space(core[-1], translation[-1]):
        end = " "
    return start + translation + end


def _needs_space(source: str, translation: str) -> bool:
    """Returns whether a translated character is a letter or digit, and the source's one is not or
    belongs to a script without spaces.
    """
    wide = unicodedata.east_asian_width(source) == "W"
    return translation.isalnum() and (wide or not source.isalnum())
