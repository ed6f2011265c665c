"""OPUS-100 as SeqIO tasks: 99 languages into English, `opus100_deu_Latn_to_eng` … `opus100_to_eng`.

The corpus of Zhang et al. 2020 (https://arxiv.org/abs/2004.11867) is sampled from OPUS. It has at
most 1M training pairs per language, and 2,000 pairs each for validation and test (94 languages).
Importing this module registers the tasks offline. TFDS downloads a language when it is first read
(https://object.pouta.csc.fi/OPUS-100). As in the paper, the rates are n^(1/5) of COUNTS and the
vocabulary has 64,000 pieces.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

import tasks
from mmt import languages
from tasks.tfds import TfdsSet, TfdsSource, tfds_corpus

VOCABULARY_SIZE = 64_000

# Training pairs by OPUS's language code, as TFDS's catalogue lists them for version 1.0
# (docs/community_catalog/huggingface/opus100.md in tensorflow/datasets).
_MILLION = (
    "ar bg bn bs ca cs da de el es et eu fa fi fr he hr hu id is it ja ko lt lv mk ms mt nl no pl "
    "pt ro ru sk sl sq sr sv th tr uk vi zh"
)
COUNTS = dict.fromkeys(_MILLION.split(), 1_000_000) | {
    "af": 275512, "am": 89027, "an": 6961, "as": 138479, "az": 262089, "be": 67312, "br": 153447,
    "cy": 289521, "dz": 624, "eo": 337106, "fy": 54342, "ga": 289524, "gd": 16316, "gl": 515344,
    "gu": 318306, "ha": 97983, "hi": 534319, "hy": 7059, "ig": 18415, "ka": 377306, "kk": 79927,
    "km": 111483, "kn": 14537, "ku": 144844, "ky": 27215, "li": 25535, "mg": 590771, "ml": 822746,
    "mn": 4294, "mr": 27007, "my": 24594, "nb": 142906, "ne": 406381, "nn": 486055, "oc": 35791,
    "or": 14273, "pa": 107296, "ps": 79127, "rw": 173823, "se": 35907, "sh": 267211, "si": 979109,
    "ta": 227014, "te": 64352, "tg": 193882, "tk": 13110, "tt": 100843, "ug": 72170, "ur": 753913,
    "uz": 173157, "wa": 104496, "xh": 439671, "yi": 15010, "yo": 10375, "zu": 38616,
}  # fmt: skip
HELD_OUT = {"gd": (1605, 1606), "ig": (1843, 1843), "kn": (917, 918), "or": (1317, 1318)} | {
    "tk": (1852, 1852)
}  # numbers of validation and test pairs other than 2,000
WITHOUT_HELD_OUT = ("an", "dz", "hy", "mn", "yo")

_CODES = {"no": "nor_Latn"}  # Norwegian in general; OPUS-100 also has Bokmål (nb)


class Opus100(tfds.core.GeneratorBasedBuilder):
    """The TFDS set `opus100`: a config for each language pair ('de-en', 'en-fr')."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="-".join(sorted((code, "en")))) for code in sorted(COUNTS)
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=tfds.features.Translation(languages=self.builder_config.name.split("-")),
            homepage="https://opus.nlpl.eu/opus-100.php",
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        pair = self.builder_config.name
        archive = dl_manager.download_and_extract(
            f"https://object.pouta.csc.fi/OPUS-100/v1.0/opus-100-corpus-{pair}-v1.0.tar.gz"
        )
        folder = archive / "opus-100-corpus" / "v1.0" / "supervised" / pair
        names = {"train": "train", "validation": "dev", "test": "test"}
        return {
            split: self._generate_examples(folder / f"opus.{pair}-{name}")
            for split, name in names.items()
            if (folder / f"opus.{pair}-{name}.en").exists()
        }

    def _generate_examples(self, stem: Any) -> Iterator[tuple[int, dict[str, str]]]:
        first, second = self.builder_config.name.split("-")
        sides = [stem.parent / f"{stem.name}.{code}" for code in (first, second)]
        with sides[0].open("rb") as first_side, sides[1].open("rb") as second_side:
            for number, lines in enumerate(zip(first_side, second_side, strict=True)):
                texts = [line.decode().rstrip("\n") for line in lines]
                yield number, {first: texts[0], second: texts[1]}


def _set(code: str) -> TfdsSet:
    validation, test = HELD_OUT.get(code, (2000, 2000))
    held_out = {} if code in WITHOUT_HELD_OUT else {"validation": validation, "test": test}
    pair = "-".join(sorted((code, "en")))
    counts = {"train": COUNTS[code], **held_out}
    return TfdsSet(f"opus100/{pair}:1.0.0", code, "en", counts=counts)


CORPUS = tfds_corpus(
    "opus100",
    {_CODES.get(code) or languages.find(code).code: _set(code) for code in COUNTS},
    target="eng_Latn",
)
MIXTURE = tasks.register(CORPUS, vocabularies=VOCABULARY_SIZE, source=TfdsSource).name
