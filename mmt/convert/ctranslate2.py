"""Dense models for CTranslate2, through its own converter of Hugging Face's T5.

Only here are torch and transformers needed, by that converter. A model with experts is an error:
CTranslate2 has none.
"""

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from mmt.convert import hf, tokenizer
from mmt.data.vocabulary import Vocabulary
from mmt.run import Run


def export(model_dir: str | Path, out: str | Path) -> None:
    """Makes the directory `out` of a run directory's best checkpoint, float32, for
    `ctranslate2.Translator(out, compute_type="int8")` or any other type. The SentencePiece model
    lies beside it as spiece.model; tokens are its pieces, a source ends with the end's.

    Raises ValueError for a model with experts or two vocabularies, where the packages are missing,
    and where `out` exists. Nothing half-made is left.
    """
    model = Run(model_dir).model()
    if model.config.moe_period:
        raise ValueError(
            f"{model_dir} is a model with experts, which CTranslate2 does not have: distil it into "
            "a dense one (`mmt distill`) and export that"
        )
    with hf.staged(Path(out)) as temporary:
        converter = _converter()
        with tempfile.TemporaryDirectory(prefix=f".{Path(out).name}.", dir=Path(out).parent) as hub:
            theirs = Path(hub) / "hf"
            hf.export_hf(model_dir, theirs)
            pieces = tokenizer.sentencepiece_file(theirs)
            made = converter(
                theirs, tied=model.config.tied_logits, pieces=_Pieces(pieces, model.config.pad_id)
            )
            with contextlib.redirect_stdout(None):
                made.convert(str(temporary), force=True)
            shutil.copyfile(pieces, temporary / tokenizer.MODEL)


class _Pieces:
    """What the converter asks of a tokenizer, by the SentencePiece model alone: an imported one may
    have no other files, and transformers then makes up tokens that the model has no room for.
    """

    def __init__(self, model: Path, pad: int) -> None:
        own = self._vocabulary = Vocabulary.load(model)
        self.pad_token, self.eos_token = own.piece(pad), own.piece(own.eos)
        self.unk_token = own.piece(own.unk)

    def get_vocab(self) -> dict[str, int]:
        return {self._vocabulary.piece(i): i for i in range(self._vocabulary.size)}

    def convert_ids_to_tokens(self, token: int) -> str:
        return self._vocabulary.piece(token)


def _converter() -> Any:
    """A function of a directory, its pieces, and whether its logits are tied (and scaled)."""
    try:
        from ctranslate2.converters import TransformersConverter
        from ctranslate2.converters import transformers as module

        module.torch, module.transformers  # noqa: B018  (it forgives that they are missing)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            "exporting to CTranslate2 needs ctranslate2, torch and transformers: "
            f"pip install 'mmt[parity]' ({error})"
        ) from error

    class Converter(TransformersConverter):
        def __init__(self, directory: Path, *, tied: bool, pieces: _Pieces) -> None:
            super().__init__(str(directory))
            self.tied, self.pieces = tied, pieces

        def load_model(self, model_class: Any, model_name_or_path: str, **options: Any) -> Any:
            model = super().load_model(model_class, model_name_or_path, **options)
            # transformers 5 says True for every T5, and the converter takes it for T5 1.0's scale.
            model.config.tie_word_embeddings = self.tied
            return model

        def load_tokenizer(self, *_: Any, **__: Any) -> Any:
            return self.pieces

    return Converter
