"""Tiny COMET checkpoints with random weights, which the real command scores by."""

LETTERS = "abcdefghijklmnopqrstuvwxyzäöüß"
HYPER_PARAMETERS = {
    "referenceless_regression_metric": {},
    "regression_metric": {},
    "unified_metric": {"input_segments": ["mt", "src"]},  # as CometKiwi
}


def write(folder, kind):
    """Writes an encoder into `folder/tiny-xlm-r` and a checkpoint beside it; returns the model's
    folder. The command draws the weights that the checkpoint lacks from a fixed seed.
    """
    import tokenizers
    import torch
    import transformers
    import yaml

    encoder = folder / "tiny-xlm-r"
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*special, "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.Unigram([(piece, -1.0) for piece in pieces], unk_id=3)
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )  # fmt: skip
    config = transformers.XLMRobertaConfig(
        vocab_size=len(pieces) + 1, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=130, type_vocab_size=1,
        initializer_range=0.5,  # so that scores differ
    )  # fmt: skip
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>",
        unk_token="<unk>", cls_token="<s>", sep_token="</s>", mask_token="<mask>",
    ).save_pretrained(encoder)  # fmt: skip
    config.save_pretrained(encoder)
    settings = {
        "class_identifier": kind, "encoder_model": "XLM-RoBERTa", "pretrained_model": str(encoder),
        "layer": "mix", "pool": "avg", "hidden_sizes": [8], "batch_size": 4,
        "layer_transformation": "softmax", "sent_layer": "mix", "word_layer": 2,
        **HYPER_PARAMETERS[kind],
    }  # fmt: skip
    model = folder / f"tiny-{kind}"
    (model / "checkpoints").mkdir(parents=True)
    (model / "hparams.yaml").write_text(yaml.safe_dump(settings))
    del settings["class_identifier"]
    checkpoint = {
        "state_dict": {},
        "hyper_parameters": settings,
        "pytorch-lightning_version": "2.0.0",
    }
    torch.save(checkpoint, model / "checkpoints/model.ckpt")
    return model
