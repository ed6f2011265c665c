"""The languages of a document: those of its source and target, and their names in the file."""

import functools
import re
from typing import Literal, NamedTuple

from mmt import languages

_TAG = re.compile(
    r"(?P<language>[A-Za-z]{2,3})(?:[-_](?P<script>[A-Za-z]{4}))?"
    r"(?:[-_](?P<region>[A-Za-z]{2}|\d{3}))?(?:@(?P<modifier>[a-z]+))?"
)
_MODIFIERS = {"latin": "Latn", "cyrillic": "Cyrl", "arabic": "Arab", "devanagari": "Deva"}
_OF_SCRIPTS = {script: modifier for modifier, script in _MODIFIERS.items()}


class Locales(NamedTuple):
    """The languages of source and target.

    Attributes:
      source, target: FLORES codes; '' for an unknown one.
      region: the region that the target was named with, such as 'GB', or ''.
      detected: whether the source was detected in the text.
    """

    source: str = ""
    target: str = ""
    region: str = ""
    detected: bool = False

    @property
    def target_tag(self) -> str:
        """Returns the target as a BCP-47 tag, which files use."""
        tag = languages.find(self.target).bcp47
        return f"{tag}-{self.region}" if self.region else tag

    @property
    def differ(self) -> bool:
        """Returns whether both languages are known, and are not the same."""
        return bool(self.source and self.target and self.source != self.target)

    @property
    def turned(self) -> Literal["", "ltr", "rtl"]:
        """Returns the direction of the target's script if it is not that of the source."""
        right = [languages.right_to_left(code) for code in (self.source, self.target)]
        if not self.differ or right[0] == right[1]:
            return ""
        return "rtl" if right[1] else "ltr"

    def with_detected(self, name: str) -> "Locales":
        """Returns the languages with a source that was detected; an unknown name is none."""
        return self._replace(source=code_of(name), detected=True)

    def or_source(self, name: str) -> "Locales":
        """Returns the languages; a file's own name of its language stands in for an unknown source.

        It also replaces a source that was detected.
        """
        if self.source and not self.detected:
            return self
        return self._replace(source=code_of(name) or self.source)

    def renamed(self, name: str, *, separator: str = "-", posix: bool = False) -> str:
        """Returns the target in the style of a file's name of the source; another name stays.

        Args:
          name: the name in the file: a code with script and region or without.
          separator: what stands between the parts, if the name has only one.
          posix: whether regions and modifiers stand in for scripts (`zh_TW`, `sr@latin`).

        >>> locales("de", "en").renamed("de_DE"), locales("de", "en").renamed("fr")
        ('en_US', 'fr')
        """
        if not self.differ or not _TAG.fullmatch(name) or code_of(name) != self.source:
            return name
        return self.name_like(name, separator=separator, posix=posix)

    def name_like(self, name: str, *, separator: str = "-", posix: bool = False) -> str:
        """Returns the target in the style of a code, as `renamed`; the target must be known."""
        match = _TAG.fullmatch(name)
        assert match, name
        target = languages.find(self.target)
        language, _, script = target.bcp47.partition("-")
        if len(match["language"]) == 3 and languages.find(name).iso1:
            language = target.iso3
        if match["script"]:
            script = self.target.partition("_")[2]
        region = self.region or (main_region(target.bcp47) if match["region"] else "")
        modifier = ""
        if posix and script and not match["script"]:
            region = region or (main_region(target.bcp47) if target.iso3 == "zho" else "")
            modifier, script = "" if region else _OF_SCRIPTS.get(script, ""), ""
        given = re.search("[-_]", name)
        parts = filter(None, (language, script, region))
        renamed = (given[0] if given else separator).join(parts)
        if len(name) > 3 and name.islower():
            renamed = renamed.lower()
        elif name.isupper():
            renamed = renamed.upper()
        return f"{renamed}@{modifier}" if modifier else renamed


UNKNOWN = Locales()


def locales(source: str | None, target: str | None) -> Locales:
    """Returns the languages of any names. Raises ValueError for an unknown one."""
    source_code, target_code = (
        languages.find(name).code if name else "" for name in (source, target)
    )
    return Locales(source_code, target_code, region_of(target or ""))


@functools.lru_cache(maxsize=1 << 12)
def code_of(name: str) -> str:
    """Returns the FLORES code of a file's language name; '' for an unknown one."""
    plain, _, modifier = name.partition("@")
    script = _MODIFIERS.get(modifier, "")
    try:
        return languages.find(f"{plain}-{script}" if script else plain).code
    except ValueError:
        return ""


def region_of(name: str) -> str:
    """Returns the region of a file's language name, '' without one: 'BR' for 'pt_br'."""
    match = _TAG.fullmatch(name)
    return (match["region"] or "").upper() if match else ""


def main_region(tag: str) -> str:
    """Returns the region of most readers of a language, '' for an unknown one."""
    from babel.core import get_global  # a machine that only trains has no Babel

    likely = get_global("likely_subtags")
    language = tag.partition("-")[0]
    expanded = likely.get(tag.replace("-", "_")) or likely.get(language) or ""
    return expanded.rpartition("_")[2] if expanded else ""
