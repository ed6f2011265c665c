"""Random models of Hugging Face of every family, small, in directories as `transformers` saves
them: the oracles of the parity tests. Import where torch and transformers are.
"""

import io
import json
from pathlib import Path

import numpy as np
import sentencepiece

from mmt import languages

SIZES = {
    "d_model": 32, "d_kv": 8, "num_heads": 3, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2,
}  # fmt: skip
OF_T5 = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
OF_MADLAD = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0}
EXPERTS = {"num_experts": 4, "expert_capacity": 10_000, "router_jitter_noise": 0.01}
# name -> class of transformers, own logits, settings
FAMILIES = {
    "T5 1.0": ("T5", False, {"feed_forward_proj": "relu", **OF_T5}),
    "T5 1.1": ("T5", True, {"feed_forward_proj": "gated-gelu", **OF_T5}),
    "mT5": (  # narrower attention than the model, wide feed-forward layers, as many of both
        "MT5", True,
        {"feed_forward_proj": "gated-gelu", **OF_T5, "d_model": 40, "d_kv": 6, "num_heads": 4,
         "d_ff": 100, "num_layers": 4, "num_decoder_layers": 4,
         "relative_attention_num_buckets": 24, "relative_attention_max_distance": 20},
    ),
    "MADLAD-400": ("T5", True, {"feed_forward_proj": "gated-gelu", **OF_MADLAD}),
    "UMT5": ("UMT5", True, {"feed_forward_proj": "gated-gelu", **OF_T5}),
    "Switch, every other layer": (
        "SwitchTransformers", False,
        {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, **EXPERTS, **OF_T5},
    ),
    "Switch, every layer": (
        "SwitchTransformers", False,
        {"num_sparse_encoder_layers": 3, "num_sparse_decoder_layers": 2, **EXPERTS, **OF_T5},
    ),
}  # fmt: skip


def texts() -> list[str]:
    known = languages.all_languages()
    return [f"{each.native} {each.name} ({each.code}) 1,234.50" for each in known]


def sentencepiece_model(family: str, *, size: int = 700) -> bytes:
    """Unigram as T5's, with its ids; mT5's of more pieces and bytes; MADLAD's has <unk> 0, <s> 1,
    </s> 2 and tags.
    """
    madlad, mt5 = family == "MADLAD-400", family == "mT5"
    ids = {"pad_id": -1, "unk_id": 0, "bos_id": 1, "eos_id": 2} if madlad else {
        "pad_id": 0, "unk_id": 2, "bos_id": -1, "eos_id": 1}  # fmt: skip
    tags = ["<2en>", "<2de>", "<2zh_Hant>", "<2ber>"]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts()), model_writer=model, model_type="unigram",
        vocab_size=size + 260 * mt5, character_coverage=0.99, minloglevel=2, num_threads=1,
        byte_fallback=madlad or mt5,
        user_defined_symbols=tags if madlad else [], **ids,
    )  # fmt: skip
    return model.getvalue()


def make(family: str, directory: Path, *, dtype="float32", seed=3, shard="5GB", spare=4) -> Path:
    """Saves a random model of the family, its SentencePiece model beside it, of `spare` pieces
    fewer than the model has embeddings.
    """
    import torch
    import transformers

    name, untied, settings = FAMILIES[family]
    vocabulary = sentencepiece_model(family)
    spare += 8 * (family == "mT5")  # 250,112 embeddings for 250,100 pieces
    pieces = sentencepiece.SentencePieceProcessor(model_proto=vocabulary).get_piece_size()
    settings = {"vocab_size": pieces + spare, **SIZES, **settings}
    config = getattr(transformers, f"{name}Config")(**settings, tie_word_embeddings=not untied)
    generator = torch.Generator().manual_seed(seed)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    if untied:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    with torch.no_grad():
        for key, weight in model.named_parameters():
            scale = 0.4 if "shared" in key else weight.shape[-1] ** -0.5  # no mere copying
            weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
            if "layer_norm" in key:
                weight.add_(1.0)
        model.lm_head.weight[config.eos_token_id] *= 3.0  # so that texts end now and then
    model.to(getattr(torch, dtype)).save_pretrained(directory, max_shard_size=shard)
    (directory / "spiece.model").write_bytes(vocabulary)
    if family == "UMT5":  # transformers 5 writes true, whatever it was given, and then scales
        edit_config(directory, tie_word_embeddings=False)
    return directory


def edit_config(directory: Path, **changes) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def load(directory: Path):
    """Loads a model by transformers; UMT5's logits are unscaled if config.json says so."""
    import transformers

    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
    if model.config.model_type == "umt5":
        config = json.loads((directory / "config.json").read_text())
        model.config.tie_word_embeddings = config["tie_word_embeddings"]
    return model


def batch(config, *, rows=4, source=19, target=14, seed=0) -> tuple[np.ndarray, np.ndarray]:
    """Sources that end and are padded, targets that start, as the ids of `config` say."""
    random = np.random.default_rng(seed)
    s = random.integers(3, config.vocab_size, (rows, source)).astype(np.int32)
    t = random.integers(3, config.vocab_size, (rows, target)).astype(np.int32)
    t[:, 0] = config.start_id
    for row, cut in enumerate(random.integers(0, source - 1, rows)):
        s[row, source - cut - 1] = config.eos_id
        s[row, source - cut :] = config.pad_id
    return s, t
