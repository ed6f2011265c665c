"""`CometModel`: neural scores by a local COMET checkpoint and a local `comet-score` command.

COMET (Rei et al., 2020) pins library versions that conflict with this project's, so it runs in its
own environment. Only its command must be on the PATH. Nothing is downloaded. Scores are meaningless
for languages that the model's encoder was not trained on, so these are refused.
"""

import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mmt import languages, suggest

COMMAND = "comet-score"
ENCODERS = ("xlm-r", "xlmr", "infoxlm")  # names of encoders that know the languages below
_NEEDS_REFERENCE = {  # by `class_identifier` of COMET
    "regression_metric": True,
    "ranking_metric": True,
    "referenceless_regression_metric": False,
    "unified_metric": False,  # except with the input segments below
    "xcomet_metric": False,
}
_LONGEST = 2000  # characters of the command's messages in an error
_WITHOUT_SOURCE = ["mt", "ref"]

# XLM-R's languages (Conneau et al., 2020, table 6). InfoXLM, XLM-R XL and their distilled models
# have the same. Scripts are those of its data, without romanised text.
KNOWN = frozenset(
    """
    afr_Latn als_Latn amh_Ethi arb_Arab asm_Beng azj_Latn bel_Cyrl ben_Beng bos_Latn bre_Latn
    bul_Cyrl cat_Latn ces_Latn cym_Latn dan_Latn deu_Latn ell_Grek eng_Latn epo_Latn est_Latn
    eus_Latn fin_Latn fra_Latn fry_Latn gaz_Latn gla_Latn gle_Latn glg_Latn guj_Gujr hau_Latn
    heb_Hebr hin_Deva hrv_Latn hun_Latn hye_Armn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan
    kan_Knda kat_Geor kaz_Cyrl khk_Cyrl khm_Khmr kir_Cyrl kmr_Latn kor_Hang lao_Laoo lat_Latn
    lit_Latn lvs_Latn mal_Mlym mar_Deva mkd_Cyrl mya_Mymr nld_Latn nob_Latn npi_Deva ory_Orya
    pan_Guru pbt_Arab pes_Arab plt_Latn pol_Latn por_Latn ron_Latn rus_Cyrl san_Deva sin_Sinh
    slk_Latn slv_Latn snd_Arab som_Latn spa_Latn srp_Cyrl sun_Latn swe_Latn swh_Latn tam_Taml
    tel_Telu tgl_Latn tha_Thai tur_Latn uig_Arab ukr_Cyrl urd_Arab uzn_Latn vie_Latn xho_Latn
    ydd_Hebr zho_Hans zho_Hant zsm_Latn
    """.split()
)


@dataclasses.dataclass(frozen=True)
class CometModel:
    """A COMET checkpoint with the command that scores by it.

    Attributes:
        checkpoint: `NAME/checkpoints/model.ckpt`, beside `NAME/hparams.yaml`.
        settings: the contents of `hparams.yaml`.
        command: path of `comet-score`.
    """

    checkpoint: Path
    settings: Mapping[str, Any]
    command: str

    @classmethod
    def find(cls, path: str | Path) -> "CometModel":
        """Finds a model and the command; the command loads the weights when it scores.

        path: the folder NAME, or its checkpoint. Raises ValueError if the model or the command is
        missing, or if the languages of its encoder are unknown.
        """
        path = Path(path).absolute()
        checkpoint = path / "checkpoints/model.ckpt" if path.is_dir() else path
        if not (checkpoint.suffix == ".ckpt" and checkpoint.is_file()):
            raise ValueError(
                f"{path} is no COMET model: expected the folder NAME with the file "
                "NAME/checkpoints/model.ckpt, which COMET's download_model writes, or this file; "
                "mmt does not download it"
            )
        settings = _settings(checkpoint.parent.parent / "hparams.yaml")
        command = shutil.which(COMMAND)
        if command is None:
            raise ValueError(
                f"{COMMAND} is not on the PATH; in an environment of its own: "
                "`pip install unbabel-comet`"
            )
        return cls(checkpoint, settings, command)

    @functools.cached_property
    def name(self) -> str:
        """Returns the name and hash of the model: `wmt22-comet-da:1f2e3d4c5b6a`."""
        folder = self.checkpoint.parent.parent
        if folder.parent.name == "snapshots":  # Hugging Face's models--OWNER--NAME/snapshots/HASH
            folder = Path(folder.parent.parent.name.rpartition("--")[2])
        with open(self.checkpoint, "rb") as file:
            return f"{folder.name}:{hashlib.file_digest(file, 'sha256').hexdigest()[:12]}"

    @staticmethod
    def unknown(codes: Iterable[str]) -> set[str]:
        """Returns those FLORES codes whose languages the encoder was not trained on."""
        return set(codes) - KNOWN

    def check_reference_free(self) -> None:
        """Raises ValueError if the model needs reference translations to score."""
        kind = str(self.settings.get("class_identifier"))
        file = self.checkpoint.parent.parent / "hparams.yaml"
        if kind not in _NEEDS_REFERENCE:
            raise ValueError(
                f"{file}: class_identifier is {kind!r}; allowed: {', '.join(_NEEDS_REFERENCE)}"
                f"{suggest.hint(kind, _NEEDS_REFERENCE)}"
            )
        if _NEEDS_REFERENCE[kind] or self.settings.get("input_segments") == _WITHOUT_SOURCE:
            raise ValueError(
                f"{file}: class_identifier is {kind!r}, a model that needs references; expected a "
                "model that scores without them, such as wmt22-cometkiwi-da"
            )

    def check_languages(self, names: Iterable[str]) -> None:
        """Raises ValueError for languages, by any name, that the encoder was not trained on."""
        for language in map(languages.find, names):
            if self.unknown([language.code]):
                raise ValueError(
                    f"{self.checkpoint}: no neural scores for {language.code} ({language.name}), "
                    f"because the encoder {self.settings['pretrained_model']} was not trained on it"
                )

    def scores(
        self,
        sources: Sequence[str],
        translations: Sequence[str],
        references: Sequence[str] | None = None,
        *,
        messages: bool = True,
    ) -> list[float]:
        """Returns the score of each translation, by one start of the command.

        A start takes many seconds, so pass many sentences at once. messages: whether the command
        shows its progress and messages on stderr. Raises ValueError if the command fails.
        """
        columns, options = {"src": sources, "hyp": translations}, ["-s", "src", "-t", "hyp"]
        if references is not None:
            columns["ref"] = references
            options += ["-r", "ref"]
        with tempfile.TemporaryDirectory() as folder:
            for name, texts in columns.items():
                content = "".join(f"{_on_one_line(text)}\n" for text in texts)
                Path(folder, name).write_bytes(content.encode(errors="replace"))
            process = subprocess.run(
                [self.command, *options, "--model", str(self.checkpoint), "--only_system",
                 "--to_json", "scores.json"],
                cwd=folder, env=_environment(), stdout=subprocess.PIPE,
                stderr=None if messages else subprocess.PIPE, text=True, errors="replace",
                check=False,
            )  # fmt: skip
            output_file = Path(folder, "scores.json")
            if process.returncode or not output_file.is_file():
                reason = f": {process.stderr.strip()[-_LONGEST:]}" if process.stderr else ""
                raise ValueError(
                    f"{COMMAND} ended with status {process.returncode}{self._offline()}{reason}"
                )
            try:
                outputs = json.loads(output_file.read_text(encoding="utf-8"))["hyp"]
                scores = [float(output["COMET"]) for output in outputs]
            except (ValueError, LookupError, TypeError) as error:
                raise ValueError(
                    f"{self.command} wrote no scores by sentence ({error!r}): expected the "
                    f"{COMMAND} of unbabel-comet 2"
                ) from error
        if len(scores) != len(translations) or not all(map(math.isfinite, scores)):
            raise ValueError(
                f"{COMMAND} gave {len(scores)} scores for {len(translations)} sentences, or NaN"
            )
        return scores

    def _offline(self) -> str:
        """Returns a likely reason of a failure; '' where downloads are allowed or not needed."""
        encoder = str(self.settings["pretrained_model"])
        if _environment()["HF_HUB_OFFLINE"] == "0" or Path(encoder).is_dir():
            return ""
        return (
            f" (it does not download: the configuration and tokenizer of {encoder} must be in "
            "Hugging Face's cache; HF_HUB_OFFLINE=0 allows downloads)"
        )


def _settings(file: Path) -> dict[str, Any]:
    """Returns the contents of an hparams.yaml. Raises ValueError for an encoder without a list of
    languages.
    """
    if not file.is_file():
        raise ValueError(f"no {file}, which COMET needs; it names the encoder")
    try:
        settings = dict(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from error
    encoder = str(settings.get("pretrained_model"))
    if not any(part in Path(encoder).name.lower() for part in ENCODERS):
        raise ValueError(
            f"{file}: pretrained_model is {encoder!r}; allowed: encoders "
            f"named {', '.join(ENCODERS)}, whose training languages are known"
        )
    return settings


def _environment() -> dict[str, str]:
    """Returns the environment of the command: no download, and no libraries of this process."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {"HF_HUB_OFFLINE": "1"} | own


def _on_one_line(text: str) -> str:
    return re.sub("[\r\n]", " ", text)
