"""The parameters that `mmt plan` counts, against arithmetic and against what the papers print."""

import json

import pytest

from mmt import config
from mmt.cli import main
from mmt.plan import parameters

V = 32_128  # T5's pieces: 32,000 and 100 sentinels, filled up to a multiple of 128

# By file: d_model, d_ff, heads, d_kv; encoder and decoder layers; rows of all tables of width
# d_model; matrices of an MLP (3 with a gate); layers with experts, experts; and the total in
# billions as printed (papers.md 1.3 and 2.1, model cards).
MODELS = {
    "gshard_600b": ((1024, 8192, 16, 128), (18, 18), 128_000, 2, (18, 2048), "619.4"),
    "gshard_200b": ((1024, 8192, 16, 128), (6, 6), 128_000, 2, (6, 2048), "206.55"),
    "gshard_150b": ((1024, 8192, 16, 128), (18, 18), 128_000, 2, (18, 512), "155.5"),
    "gshard_50b": ((1024, 8192, 16, 128), (6, 6), 128_000, 2, (6, 512), "51.9"),
    "gshard_37b": ((1024, 8192, 16, 128), (18, 18), 128_000, 2, (18, 128), "39.5"),
    "gshard_12b": ((1024, 8192, 16, 128), (6, 6), 128_000, 2, (6, 128), "13.3"),
    "gshard_1t": ((1024, 8192, 16, 128), (30, 30), 128_000, 2, (30, 2048), "1032"),
    # Heads of 64, not the other models' 128, which would make 2.95: the paper does not print them.
    "gshard_t96l": ((1024, 8192, 16, 64), (48, 48), 128_000, 2, (0, 0), "2.3"),
    "switch_base": ((768, 2048, 12, 64), (12, 12), 2 * V, 3, (12, 128), "7"),
    # Printed as 26B, which is the experts' 26.57 cut off; every other row of Table 9 is rounded.
    "switch_large": ((1024, 2816, 16, 64), (24, 24), 2 * V, 3, (24, 128), "27"),
    # Table 9 prints 64 experts, with which there would be 201; the released file has 128.
    "switch_xxl": ((4096, 10240, 64, 64), (24, 24), 2 * V, 3, (24, 128), "395"),
    "switch_c": ((2080, 6144, 32, 64), (15, 15), 2 * V, 2, (30, 2048), "1571"),
    "small": ((512, 1024, 6, 64), (8, 8), 2 * V, 3, (0, 0), "0.077"),
    "base": ((768, 2048, 12, 64), (12, 12), 2 * V, 3, (0, 0), "0.248"),
    "large": ((1024, 2816, 16, 64), (24, 24), 2 * V, 3, (0, 0), "0.783"),
    "xl": ((2048, 5120, 32, 64), (24, 24), 2 * V, 3, (0, 0), "3"),
    "xxl": ((4096, 10240, 64, 64), (24, 24), 2 * V, 3, (0, 0), "11"),
    "mt5_small": ((512, 1024, 6, 64), (8, 8), 2 * 250_112, 3, (0, 0), "0.30"),
    "mt5_base": ((768, 2048, 12, 64), (12, 12), 2 * 250_112, 3, (0, 0), "0.58"),
    "mt5_large": ((1024, 2816, 16, 64), (24, 24), 2 * 250_112, 3, (0, 0), "1.2"),
    "mt5_xl": ((2048, 5120, 32, 64), (24, 24), 2 * 250_112, 3, (0, 0), "3.7"),
    "mt5_xxl": ((4096, 10240, 64, 64), (24, 24), 2 * 250_112, 3, (0, 0), "13"),
    "madlad_3b": ((1024, 8192, 16, 128), (32, 32), 512_000, 3, (0, 0), "3"),
    # Published as 7.2B, which is without its two tables of 0.52; the 10.7B is with them.
    "madlad_7b": ((2048, 8192, 16, 128), (48, 48), 512_000, 3, (0, 0), "8.3"),
    "madlad_10b": ((2048, 16384, 32, 128), (32, 32), 512_000, 3, (0, 0), "10.7"),
    # One table for both inputs and the logits. Biases and LayerNorm's, which ours lacks, are 0.001.
    "nllb": ((2048, 8192, 16, 128), (24, 24), 256_206, 2, (0, 0), "3.3"),
    "nllb_moe": ((2048, 8192, 16, 128), (24, 24), 256_206, 2, (12, 128), "54.5"),
}


def count(name: str, *bindings: str) -> parameters.Parameters:
    t5 = ["VOCAB_SIZE=32128"] if name in ("small", "base", "large", "xl", "xxl") else []
    config.load([f"gin_configs/models/{name}.gin"], [*t5, *bindings])
    return parameters.count(config.macro("MODEL"))


@pytest.fixture(scope="module")
def counts():
    return {name: count(name) for name in MODELS}


def by_arithmetic(sizes, depth, rows, matrices, sparse) -> dict[str, int]:
    """The parts from the columns of MODELS."""
    (d, ff, heads, kv), (encoder, decoder), (layers, experts) = sizes, depth, sparse
    bias = 32 * heads  # one table of 32 buckets for each stack
    attention, mlp = 4 * d * heads * kv, matrices * d * ff
    return {
        "encoder attention": encoder * attention + bias,
        "decoder attention": 2 * decoder * attention + bias,
        "dense MLPs": (encoder + decoder - layers) * mlp,
        "experts": layers * experts * mlp,
        "routers": layers * d * experts,
        "norms": (2 * encoder + 3 * decoder + 2) * d,
        "tables": rows * d,
    }


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_arithmetic_and_what_is_printed(name, counts):
    *columns, printed = MODELS[name]
    parts = {part: count_of_part.total for part, count_of_part in counts[name].parts.items()}
    parts["tables"] = parts.pop("embeddings") + parts.pop("logits", 0)
    assert parts == {part: size for part, size in by_arithmetic(*columns).items() if size}
    total = counts[name].whole.total
    digits = len(printed.partition(".")[2])
    assert f"{total / 1e9:.{digits}f}" == printed
    if name == "madlad_7b":
        assert f"{(total - parts['tables']) / 1e9:.1f}" == "7.2"


@pytest.mark.parametrize("name", [name for name in MODELS if "switch" in name or "gshard" in name])
def test_active_parameters_are_all_but_the_unused_experts(name, counts):
    counted, (layers, experts) = counts[name], MODELS[name][4]
    (d, ff, *_), matrices = MODELS[name][0], MODELS[name][3]
    chosen = min(experts, 1 if "switch" in name else 2)
    passed_by = layers * (experts - chosen) * matrices * d * ff
    assert counted.whole.active == (
        counted.whole.total - passed_by - counted.parts["embeddings"].total
    )
    assert (counted.experts, counted.choices) == (experts, chosen)


def test_active_counts_of_the_papers(counts):
    """GShard (papers.md 1.3): 1.39 and 0.49 B, without its routers. Switch-Base: T5 Base's."""

    def without_routers(name: str) -> int:
        routers = counts[name].parts.get("routers", parameters.Count(0, 0))
        return counts[name].whole.active - routers.active

    for name in ("gshard_600b", "gshard_150b", "gshard_37b"):
        assert f"{without_routers(name) / 1e9:.2f}" == "1.39"
    for name in ("gshard_200b", "gshard_50b", "gshard_12b"):
        assert f"{without_routers(name) / 1e9:.2f}" == "0.49"
    assert without_routers("switch_base") == without_routers("base")
    assert without_routers("switch_xxl") == without_routers("xxl")


def test_one_table_for_all_is_active_where_it_makes_the_logits(counts):
    parts = counts["nllb"].parts
    assert "logits" not in parts
    assert parts["embeddings"].active == parts["embeddings"].total == 256_206 * 2048
    untied = count("nllb", "TARGET_VOCAB_SIZE=1000").parts["embeddings"]
    assert (untied.active, untied.total) == (1000 * 2048, 257_206 * 2048)


def test_layers_of_their_own_bias_and_a_rest_without_experts():
    """UMT5's bias in each layer; 3 layers in blocks of 2 leave a dense remainder."""
    bindings = ["transformer.Config.encoder_layers=3", "moe.MoeConfig.num_experts=1"]
    parts = count("tiny_moe", *bindings).parts
    mlp = 3 * 128 * 384
    assert (parts["experts"].total, parts["dense MLPs"].total) == (2 * mlp, 3 * mlp)
    assert parts["experts"].active == 2 * mlp  # there is no second one to choose
    more = count("tiny_moe", *bindings, "transformer.Config.relative_bias_per_layer=True").parts
    added = more["encoder attention"].total - parts["encoder attention"].total
    assert added == 2 * 32 * 4


def test_a_shared_mlp_is_dense_and_its_gate_is_a_router():
    plain = count("tiny_moe").parts
    options = ("shared_mlp_dim=100", "gate_budget=0.8", "balance_rate=0.001")
    parts = count("tiny_moe", *(f"moe.MoeConfig.{option}" for option in options)).parts
    layers, width, experts = 2, 128, 8  # one layer with experts in each stack
    added = parts["dense MLPs"].active - plain["dense MLPs"].active
    assert added == layers * 3 * width * 100
    assert parts["routers"].total - plain["routers"].total == layers * (width + experts)
    assert parts["experts"] == plain["experts"]


def test_a_table_of_languages_is_only_looked_up():
    plain = count("tiny_moe").parts["routers"]
    options = ("decoder_routing='language'", "languages=100")
    routers = count("tiny_moe", *(f"transformer.Config.{o}" for o in options)).parts["routers"]
    width, experts = 128, 8  # one layer with experts in each stack
    assert plain.total == plain.active == 2 * width * experts
    assert routers.total == (width + 100) * experts and routers.active == width * experts


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (999, "999"), (94_208, "94.21 K"), (32_768_000, "32.77 M"),
     (206_553_000_000, "206.55 B"), (1_571_380_000_000, "1571.38 B")],
)  # fmt: skip
def test_counts_are_readable(size, text):
    assert parameters.readable(size) == text


def test_the_command_prints_a_table_and_json(capsys, counts):
    command = ["plan", "--params", "--gin_file=gin_configs/models/gshard_200b.gin"]
    assert main.main(command) == 0
    rows = [line.rsplit(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    assert ["total", "206.55", "B", "498.37", "M"] in rows
    assert main.main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["parameters"]
    parts, whole = printed.pop("parts"), counts["gshard_200b"].whole
    assert printed == {"total": whole.total, "active": whole.active}
    assert printed == {key: sum(part[key] for part in parts.values()) for key in printed}


def test_what_is_no_model_has_no_parameters(as_users_have_it):
    with pytest.raises(ValueError, match="MODEL is 3; allowed: a transformer.Transformer"):
        parameters.count(3)


def test_the_widest_and_the_deepest_are_counted_from_shapes():
    most = ["moe.MoeConfig.num_experts=100000000", "transformer.Config.encoder_layers=10000"]
    parts = count("tiny_moe", *most).parts
    assert parts["experts"].total == 5001 * 10**8 * 3 * 128 * 384
    assert parts["routers"].total == 5001 * 10**8 * 128


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--gin_file=gin_configs/models/gshard_60b.gin"], "models/gshard_600b.gin"),
        (["--gin_file=gin_configs/models/tiny.gin", "--decode"], "omit --decode"),
        (["--gin_file=gin_configs/runs/train.gin"], "no MODEL; add a --gin_file of gin"),
        (["--gin_file=gin_configs/models/tiny.gin", "--gin.VOCABSIZE=9"], "nearest: VOCAB_SIZE"),
        (["--gin_file=gin_configs/models/tiny.gin", "--gin.VOCAB_SIZE=0"], "allowed: 1 or more"),
        (["--gin_file=gin_configs/models/tiny.gin", "--gin.MODEL=3"], "MODEL is 3; allowed: a "),
        (
            [
                "--gin_file=gin_configs/models/tiny_moe.gin",
                "--gin.moe.MoeConfig.num_experts=2147483647",
            ],
            "choices of 2147483647 experts",
        ),
    ],
)
def test_impossible_models_are_errors(flags, message, capsys, as_users_have_it):
    assert main.main(["plan", "--params", *flags]) == 1
    assert message in capsys.readouterr().err
