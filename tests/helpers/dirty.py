"""A deliberately dirty corpus of 12 languages, and how many pairs a cleaner must drop for what.

Words are made up of each language's own letters. A format is a function that writes pairs
and says what stands in corpus.toml.
"""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from xml.sax.saxutils import escape

from mmt import languages

LETTERS = {
    "deu_Latn": "abcdefghijklmnoprstuvwzäöü", "swh_Latn": "abcdefghijklmnopstuvwyz",
    "rus_Cyrl": "абвгдежзиклмнопрстуфхцчшыюя", "ell_Grek": "αβγδεζηθικλμνξοπρστυφχψω",
    "arb_Arab": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "hin_Deva": "अआइउएओकखगघचछजझटठडढतथदधनपफबभमयरलवशसह",
    "heb_Hebr": "אבגדהוזחטיכלמנסעפצקרשת", "amh_Ethi": "ሀለመሠረሰቀበተኀነአከወዘየደገጠጰጸፀፈፐ",
    "kor_Hang": "가나다라마바사아자차카타파하고노도로모보소오조초코토포호",
    "zho_Hans": "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生",
    "jpn_Jpan": "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほ日本語学校山川",
    "tha_Thai": "กขคงจฉชซญดตถทนบปผฝพฟภมยรลวศสหอ",
}  # fmt: skip
CLEAN = 150
TARGET = "eng_Latn"
OFTEN = "the very same thing is said here, time and again, of all that there is"
Written = tuple[str, str, str]  # source, target, what becomes of it: '' kept, '~rule' changed


def sentence(code: str, words: int, random: Random) -> str:
    """Returns made-up words of 4 to 6 letters, joined as the language writes them."""
    letters = LETTERS.get(code, "abcdefghiklmnoprstuvwy")
    made = ["".join(random.choices(letters, k=random.randint(4, 6))) for _ in range(words)]
    return ("" if code[-4:] in ("Hans", "Jpan", "Thai") else " ").join(made)


def translated(code: str, random: Random, words: int = 0) -> tuple[str, str]:
    """A source and a target of equally many words."""
    words = words or random.randint(9, 13)
    return sentence(code, words, random), sentence(TARGET, words, random)


def dirt(code: str, tests: Sequence[tuple[str, str]], random: Random) -> list[Written]:
    """Pairs of every kind of dirt. tests: pairs of the validation and the test split."""
    written: list[Written] = []

    def add(reason: str, change: Callable[[str, str], tuple[str, str]], times: int = 1) -> None:
        for _ in range(times):
            written.append((*change(*translated(code, random, 12)), reason))

    latin = code.endswith("Latn")
    add("~encoding", lambda s, t: (s, t + " caf\u00c3\u00a9"), 2)
    add("encoding", lambda s, t: (s + "\ufffd", t), 3)
    add("~normalise", lambda s, t: (s, f"{t}  e\u0301"), 4)
    add("empty", lambda s, t: (" ", t), 2)
    add("empty", lambda s, t: (s, ""), 1)
    add("length: long", lambda s, t: (s * 30, t), 1)
    add("length: long", lambda s, t: (s, " ".join(["a"] * 260)), 2)
    add("ratio", lambda s, t: (s, " ".join(sentence(TARGET, 12, random) for _ in range(9))), 3)
    add("script", lambda s, t: (sentence("rus_Cyrl" if latin else TARGET, 12, random), t), 4)
    add("script", lambda s, t: (s, sentence("hin_Deva", 12, random)), 1)
    add("repeats: character", lambda s, t: (s + "!" * 20, t + "!" * 20), 2)
    add("repeats: loop", lambda s, t: (s, " ".join(t.split()[:2] * 6)), 2)
    add("copies" if latin else "script", lambda s, t: (t, t + "."), 3)
    add("tags", lambda s, t: (f"<b>{s}</b>", t), 2)
    add("urls", lambda s, t: (f"{s} https://a.example/x", f"{t} https://b.example/x"), 1)
    add("placeholders", lambda s, t: (f"{s} %s", f"{t} %d"), 2)
    add("numbers", lambda s, t: (f"{s} 17", f"{t} 71"), 3)
    add("", lambda s, t: (f"{s} 1.017,5 {{x}} <i>1</i>", f"{t} 1,017.5 {{x}} <i>1</i>"), 2)
    (valid_source, valid_target), (test_source, test_target) = tests[:2]
    add("overlap: dirty validation", lambda s, t: (valid_source.upper(), t), 2)
    add("overlap: dirty test", lambda s, t: (s, f"abc {test_target}"), 2)
    long = " ".join([test_source, sentence(code, 2, random)])
    add("overlap: dirty test", lambda s, t: (long, t), 1)
    add("overlap: dirty validation + dirty test", lambda s, t: (test_source, valid_target), 1)
    for number in range(11):
        source, _ = translated(code, random, 12)
        written.append((source, OFTEN, "one_side" if number >= 8 else ""))
    pair = translated(code, random)
    written += [(*pair, ""), (pair[0] + " .", pair[1].upper(), "duplicates"), (*pair, "duplicates")]
    return written


def write_tsv(stem: Path, pairs: Sequence[Written]) -> dict[str, str]:
    """source<TAB>target."""
    return _written({"pairs": (stem.with_suffix(".tsv"), [f"{s}\t{t}" for s, t, _ in pairs])})


def write_tsv_gz(stem: Path, pairs: Sequence[Written]) -> dict[str, str]:
    """The same, compressed."""
    return _written({"pairs": (stem.with_suffix(".tsv.gz"), [f"{s}\t{t}" for s, t, _ in pairs])})


def write_moses(stem: Path, pairs: Sequence[Written]) -> dict[str, str]:
    """Two files, line by line."""
    sides = {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
    return _written({side: (stem.with_suffix(f".{side}"), lines) for side, lines in sides.items()})


def write_jsonl(stem: Path, pairs: Sequence[Written]) -> dict[str, str]:
    """An object a line."""
    rows = [json.dumps({"source": s, "target": t}, ensure_ascii=False) for s, t, _ in pairs]
    return _written({"pairs": (stem.with_suffix(".jsonl"), rows)})


def write_tmx(stem: Path, pairs: Sequence[Written]) -> dict[str, str]:
    """Units of two variants, the target's first."""
    code = stem.name.split("-")[0]
    units = [
        "<tu>" + "".join(
            f'<tuv xml:lang="{tag}"><seg>{escape(text)}</seg></tuv>'
            for tag, text in (("en", target), (languages.find(code).bcp47, source))
        ) + "</tu>"
        for source, target, _ in pairs
    ]  # fmt: skip
    head = '<tmx version="1.4"><header/><body>'
    return _written({"pairs": (stem.with_suffix(".tmx"), [head, *units, "</body></tmx>"])})


def write_xliff(stem: Path, pairs: Sequence[Written]) -> dict[str, str]:
    """Version 1.2."""
    tag = languages.find(stem.name.split("-")[0]).bcp47
    units = [
        f'<trans-unit id="{number}"><source>{escape(source)}</source>'
        f"<target>{escape(target)}</target></trans-unit>"
        for number, (source, target, _) in enumerate(pairs)
    ]
    head = f'<xliff version="1.2"><file source-language="{tag}" target-language="en"><body>'
    rows = [head, *units, "</body></file></xliff>"]
    return _written({"pairs": (stem.with_suffix(".xlf"), rows)})


def write_po(stem: Path, pairs: Sequence[Written]) -> dict[str, str]:
    """Messages in the source language, translated into English."""
    rows = ['msgid ""', 'msgstr "Language: en\\nContent-Type: text/plain; charset=utf-8\\n"', ""]
    for source, target, _ in pairs:
        rows += [f"{key} {json.dumps(text, ensure_ascii=False)}"
                 for key, text in (("msgid", source), ("msgstr", target))] + [""]  # fmt: skip
    return _written({"pairs": (stem.with_suffix(".po"), rows)})


WEB = (write_tsv, write_moses, write_tsv_gz, write_jsonl)  # of dirt: a side may be empty
NEWS = (write_po, write_tmx, write_xliff)


def make(folder: Path, *, clean: int = CLEAN, codes: Sequence[str] = tuple(LETTERS)) -> Counter:
    """Writes the corpus `dirty`, languages in turns of format, each in two entries, 'web' and
    'news'; returns how many pairs become what, by (language, entry, reason).
    """
    random = Random(0)
    described: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    expected: Counter = Counter()
    for place, code in enumerate(codes):
        held = [translated(code, random, 12) for _ in range(4)]
        for split, part in (("validation", held[::2]), ("test", held[1::2])):
            entry = write_tsv(folder / split / code, [(*pair, "") for pair in part])
            described[split].append(f"{code} = {_table(folder, entry)}")
        plain: list[Written] = [(*translated(code, random), "") for _ in range(clean)]
        web = [*plain[: clean // 2], *dirt(code, held, random)]
        order = random.sample(web[:-14], len(web) - 14)  # what is there twice stays in its order
        web = [*order, *web[-14:]]
        news = [*plain[clean // 2 :], (*web[-3][:2], "duplicates"), ("a", "b", "")]
        entries = []
        for name, pairs in (("web", web), ("news", news)):
            formats = WEB if name == "web" else NEWS
            write = formats[place % len(formats)]
            entry = write(folder / "train" / f"{code}-{name}", pairs)
            entries.append(_table(folder, entry | {"name": name}))
            expected.update((code, name, reason) for _, _, reason in pairs)
        described["train"].append(f"{code} = [{', '.join(entries)}]")
    text = ['name = "dirty"']
    for split, lines in described.items():
        text += [f"[{split}]", *lines]
    (folder / "corpus.toml").write_text("\n".join(text) + "\n", "utf-8")
    return expected


def _written(files: dict[str, tuple[Path, list[str]]]) -> dict[str, str]:
    entry = {}
    for key, (path, lines) in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
        entry[key] = str(path)
    return entry


def _table(folder: Path, entry: dict[str, str]) -> str:
    inside = ", ".join(
        f"{key} = {json.dumps(str(Path(value).relative_to(folder)) if key != 'name' else value)}"
        for key, value in entry.items()
    )
    return f"{{ {inside} }}"
