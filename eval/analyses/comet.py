"""COMET for results with stored texts, by a local `comet-score` command and a local model.

COMET (Rei et al., 2020) pins library versions that conflict with this project's, so it runs in its
own environment. Only its command must be on the PATH. Nothing is downloaded. COMET's scores are
meaningless for languages that the model's encoder was not trained on, so these get none.
"""

import hashlib
import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from eval.analyses.update import SUFFIXES, ScoredTexts, newest
from eval.records import analysis

COMMAND = "comet-score"
ENCODERS = ("xlm-r", "xlmr", "infoxlm")  # names of encoders that know the languages below

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


def score(files: Sequence[Path], model: Path) -> tuple[int, list[str]]:
    """Adds a `comet` row to analysis.jsonl for each row of results files that has its texts.

    model: a checkpoint in the layout of COMET's authors, `NAME/checkpoints/model.ckpt` with
    `NAME/hparams.yaml`. The command is started once for all sentences, because loading takes longer
    than scoring. Texts that have a score by this model are skipped.

    Returns the number of rows scored, and the codes of rejected languages (source or target not in
    KNOWN). Raises ValueError if the model or the command is missing, if the encoder's languages are
    unknown, or if the command fails; no row is added then.
    """
    command, name = _command(), name_of(model)
    stored = {
        file: {row.key: row for row in analysis.read(analysis.path_for(file))} for file in files
    }
    pending, unsupported = [], set[str]()
    for scored in newest(files):
        if not scored.has_texts or scored.judged is None:
            continue
        unknown = {scored.row.source, scored.row.target} - KNOWN
        unsupported |= unknown
        row = stored[scored.file].get(("comet", *scored.row.key))
        is_scored = isinstance(row, analysis.Comet) and (row.model, row.hypotheses) == (
            name,
            scored.hash,
        )
        if not unknown and not is_scored:
            pending.append(scored)
    if pending:
        scores = iter(_run(command, model, pending))
        rows = [
            (scored, _row(scored, name, [next(scores) for _ in scored.lines])) for scored in pending
        ]
        for file in files:
            analysis.add(
                analysis.path_for(file), [row for scored, row in rows if scored.file == file]
            )
    return len(pending), sorted(unsupported)


def name_of(model: Path) -> str:
    """Returns the model's name and hash: `wmt22-comet-da:1f2e3d4c5b6a`. Raises ValueError."""
    if not (model.suffix == ".ckpt" and model.is_file()):
        raise ValueError(
            f"{model} is no COMET checkpoint: expected the file NAME/checkpoints/model.ckpt, "
            "which COMET's download_model writes; mmt does not download it"
        )
    folder = model.resolve().parent.parent
    settings = folder / "hparams.yaml"
    if not settings.is_file():
        raise ValueError(f"{model}: no {settings}, which COMET needs; it names the encoder")
    try:
        encoder = str(dict(yaml.safe_load(settings.read_text())).get("pretrained_model"))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise ValueError(f"{settings}: {error}") from error
    if not any(part in encoder.lower() for part in ENCODERS):
        raise ValueError(
            f"{settings}: pretrained_model is {encoder!r}; allowed: encoders "
            f"named {', '.join(ENCODERS)}, whose training languages are known"
        )
    with open(model, "rb") as file:
        return f"{folder.name}:{hashlib.file_digest(file, 'sha256').hexdigest()[:12]}"


def _command() -> str:
    command = shutil.which(COMMAND)
    if command is None:
        raise ValueError(
            f"{COMMAND} is not on the PATH; in an environment of its own: "
            "`pip install unbabel-comet`"
        )
    return command


def _run(command: str, model: Path, pending: Iterable[ScoredTexts]) -> list[float]:
    """Returns COMET of every sentence, in order."""
    lines = [line for scored in pending for line in scored.lines]
    with tempfile.TemporaryDirectory() as folder:
        for column, suffix in enumerate(SUFFIXES):
            text = "".join(f"{line[column]}\n" for line in lines)
            Path(folder, suffix).write_text(text, encoding="utf-8", newline="")
        process = subprocess.run(
            [command, "-s", "src", "-t", "hyp", "-r", "ref", "--model", str(model.resolve()),
             "--only_system", "--to_json", "scores.json"],
            cwd=folder, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        output_file = Path(folder, "scores.json")
        if process.returncode or not output_file.is_file():
            raise ValueError(f"{COMMAND} ended with status {process.returncode}; see above")
        scores = [float(output["COMET"]) for output in json.loads(output_file.read_text())["hyp"]]
    if len(scores) != len(lines) or not all(map(math.isfinite, scores)):
        raise ValueError(f"{COMMAND} gave {len(scores)} scores for {len(lines)} sentences, or NaN")
    return scores


def _row(scored: ScoredTexts, name: str, scores: Sequence[float]) -> analysis.Comet:
    about = {field: getattr(scored.row, field) for field in analysis.Comet.about}
    mean = round(sum(scores) / len(scores), 6)
    return analysis.Comet(**about, score=mean, model=name, hypotheses=scored.hash)
