"""Exports dense models to CTranslate2, by CTranslate2's converter of Hugging Face's T5.

The converter needs torch and transformers. A model with experts is an error, because CTranslate2
has no experts.
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
    """Exports a run directory's best checkpoint to the directory `out`, in float32.

    `ctranslate2.Translator(out, compute_type="int8")` loads it, with any compute type. Tokens are
    the pieces of the SentencePiece model `spiece.model` in `out`; a source ends with the end piece.

    Raises:
        ValueError: the model has experts or two vocabularies, a package is missing, or `out`
            exists. No partial output is left.
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
            hf_directory = Path(hub) / "hf"
            hf.export_hf(model_dir, hf_directory)
            pieces = tokenizer.sentencepiece_file(hf_directory)
            conversion = converter(
                hf_directory,
                tied=model.config.tied_logits,
                pieces=_Pieces(pieces, model.config.pad_id),
            )
            with contextlib.redirect_stdout(None):
                conversion.convert(str(temporary), force=True)
            shutil.copyfile(pieces, temporary / tokenizer.MODEL)


class _Pieces:
    """The part of a tokenizer that the converter uses, from the SentencePiece model only.

    An imported tokenizer may have no other files; transformers would then add tokens for which the
    model has no embeddings.
    """

    def __init__(self, model: Path, pad: int) -> None:
        vocabulary = self._vocabulary = Vocabulary.load(model)
        self.pad_token = vocabulary.piece(pad)
        self.eos_token = vocabulary.piece(vocabulary.eos)
        self.unk_token = vocabulary.piece(vocabulary.unk)

    def get_vocab(self) -> dict[str, int]:
        return {self._vocabulary.piece(i): i for i in range(self._vocabulary.size)}

    def convert_ids_to_tokens(self, token: int) -> str:
        return self._vocabulary.piece(token)


def _converter() -> Any:
    """Returns CTranslate2's converter, to be given a directory, its pieces, and tied logits."""
    try:
        from ctranslate2.converters import TransformersConverter
        from ctranslate2.converters import transformers as module

        module.torch, module.transformers  # noqa: B018  (importing it succeeds without them)
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
            # transformers 5 sets True for every T5; the converter would scale logits as for T5 1.0.
            model.config.tie_word_embeddings = self.tied
            return model

        def load_tokenizer(self, *_: Any, **__: Any) -> Any:
            return self.pieces

    return Converter
