"""Every family's random weights give Hugging Face's numbers: encoder, logits, all gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sentencepiece

from mmt import checkpoint, languages
from mmt.convert import hf, names, tokenizer
from mmt.decoding import beam_search
from mmt.model import parameter_names
from mmt.model.transformer import parameter_shapes
from mmt.run import Run

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from tests.helpers import hf_families  # noqa: E402

torch.set_num_threads(1)  # others may compute here, too
pytestmark = pytest.mark.parity
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
LIMIT = 1e-4


@pytest.fixture(scope="module", params=hf_families.FAMILIES)
def family(request, tmp_path_factory):
    """(name, directory, their model, our model, our parameters)."""
    directory = hf_families.make(request.param, tmp_path_factory.mktemp("hf") / "theirs")
    run = directory.parent / "run"
    hf.import_hf(directory, run)
    model = Run(run).model()
    params = checkpoint.restore_params(run, parameter_shapes(model))
    return request.param, directory, hf_families.load(directory), model, params


def tokens(array):
    return torch.as_tensor(np.asarray(array), dtype=torch.long)


def test_logits_losses_and_gradients_equal_transformers(family, record_property):
    name, _, theirs, model, params = family
    source, target = hf_families.batch(model.config)
    labels = np.random.default_rng(1).integers(0, model.config.vocab_size, target.shape)

    source_ids, target_ids = jnp.asarray(source), jnp.asarray(target)

    def ours(params):
        variables = {"params": params}
        encoded = model.apply(variables, source_ids, method="encode")
        logits = model.apply(variables, source_ids, target_ids)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
        return -jnp.mean(chosen), (encoded, logits)

    (_, (encoded, logits)), gradients = jit(jax.value_and_grad(ours, has_aux=True))(params)
    padding_mask = source != model.config.pad_id
    theirs.zero_grad()
    output = theirs(
        input_ids=tokens(source), attention_mask=torch.as_tensor(padding_mask),
        decoder_input_ids=tokens(target),
    )  # fmt: skip
    flat_logits, flat_labels = output.logits.flatten(0, 1), tokens(labels).flatten()
    torch.nn.functional.cross_entropy(flat_logits, flat_labels).backward()
    want = output.encoder_last_hidden_state.detach().numpy()
    worst = {
        "encoder": np.abs(encoded - want)[padding_mask].max(),
        "logits": np.abs(logits - output.logits.detach().numpy()).max(),
    }

    entries, differences, parameters = names.table(model), {}, dict(theirs.named_parameters())
    idle = 0
    for path, leaf in parameter_names.to_flat(gradients, model.config).items():
        for key, gradient in entries[path].to_theirs(np.asarray(leaf)):
            found_there = parameters.pop(key).grad
            unused = found_there is None and "experts" in key  # no token went to this one
            expected = np.zeros(gradient.shape) if unused else found_there.numpy()
            idle += unused
            differences[key] = np.abs(gradient - expected).max()
            assert unused or differences[key] < 0.02 * np.abs(expected).max(), key
    assert not parameters  # every one of their parameters is compared
    assert idle < 0.1 * len(differences)
    worst["gradients"] = max(differences.values())
    listed = ", ".join(f"{what} {value:.1e}" for what, value in worst.items())
    record_property(name, f"largest differences {listed} ({len(differences)} tensors)")
    assert max(worst.values()) <= LIMIT, (worst, max(differences, key=differences.get))


def search(model, params, source, settings):
    """(tokens [B T], scores [B]) of the best hypotheses."""

    @jit
    def run(params, source):
        variables = {"params": params}
        encoded = model.apply(variables, source, method="encode")
        memory = model.apply(variables, encoded, source, method="cross_kv")
        cache = model.apply(
            variables, len(source), settings.max_length, settings.beams, method="empty_cache"
        )

        def step(tokens, cache):
            return model.apply(variables, tokens, memory, cache, method="decode_step")

        limits = beam_search.RowLimits(jnp.full(len(source), settings.max_length))
        return beam_search.beam_search(step, cache, limits=limits, settings=settings)

    hypotheses = run(params, jnp.asarray(source))
    return np.asarray(hypotheses.tokens[:, 0]), np.asarray(hypotheses.scores[:, 0])


@pytest.mark.parametrize("beams, alpha", [(1, 0.0), (4, 0.0), (4, 1.0)])
def test_beam_search_equals_generate(family, record_property, beams, alpha):
    name, _, theirs, model, params = family
    config, length = model.config, 16
    source, _ = hf_families.batch(config, rows=200, seed=2)
    settings = beam_search.BeamSettings(
        length, beams, alpha, pad=config.pad_id, eos=config.eos_id, start=config.start_id,
        penalty="length", search_style="hf", early_stopping="never",
    )  # fmt: skip
    got, scores = search(model, params, source, settings)
    options = {"num_beams": beams, "early_stopping": "never", "length_penalty": alpha}
    with torch.no_grad():
        output = theirs.generate(
            input_ids=tokens(source), attention_mask=torch.as_tensor(source != config.pad_id),
            max_new_tokens=length, do_sample=False, suppress_tokens=[config.pad_id],
            return_dict_in_generate=True, output_scores=True,
            **(options if beams > 1 else {}),
        )  # fmt: skip
    want = output.sequences.numpy()[:, 1:]
    want = np.pad(want, ((0, 0), (0, length - want.shape[1])), constant_values=config.pad_id)
    after = np.cumsum(want == config.eos_id, axis=1) - (want == config.eos_id) > 0
    want = np.where(after, config.pad_id, want)  # generate fills up with whatever it likes
    same = (got == want).all(axis=1)
    ended = (want == config.eos_id).any(axis=1).mean()
    assert ended > 0.05 and len(np.unique(want, axis=0)) > 50
    record_property(name, f"beam {beams}, alpha {alpha}: {same.sum()} of 200 texts are equal")
    if beams == 1:
        assert same.mean() > 0.98  # ties of two logits
        return
    close = np.abs(scores - output.sequences_scores.numpy()) < LIMIT
    assert (same | close).all()
    assert same.mean() > 0.98 and close.all()


def test_mmt_translate_gives_the_text_of_generate(mmt_command, tmp_path, record_property):
    """A MADLAD-shaped model with MADLAD's ids, from a directory to text, by the command line."""
    theirs, run = tmp_path / "theirs", tmp_path / "run"
    hf_families.make("MADLAD-400", theirs, spare=0)
    model = (theirs / "spiece.model").rename(tmp_path / "spiece.model")
    tokenizer.write(model, theirs, kept=tmp_path / "none", pad=1)
    done = mmt_command("import", "hf", theirs, "--out", run)
    assert done.returncode == 0, done.stderr.decode()
    lines = [language.name for language in languages.all_languages()[::40]]
    done = mmt_command(
        "translate", "--model", run, "--to", "German", "--beam", 4, "--alpha", 1,
        "--gin.Decoding.penalty=length", "--gin.Decoding.rules=hf",
        "--gin.Decoding.early_stopping=never", "--weights", "float32",
        stdin="\n".join(lines).encode(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    model = hf_families.load(theirs)
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(theirs)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(theirs / "spiece.model"))
    want = []
    for line in lines:
        given = their_tokenizer(f"<2de> {line}", return_tensors="pt")
        assert given.input_ids[0, 1] == their_tokenizer.convert_tokens_to_ids("<2de>")
        output = model.generate(
            input_ids=given.input_ids, attention_mask=given.attention_mask, num_beams=4,
            early_stopping="never", length_penalty=1.0, do_sample=False, suppress_tokens=[1],
            max_new_tokens=2 * given.input_ids.shape[1] + 16,
        )  # fmt: skip
        # SentencePiece's text: `tokenizers` reads bytes that are no UTF-8, which a random model
        # produces, in another way.
        special = their_tokenizer.all_special_ids
        ids = [token for token in output[0].tolist() if token not in special]
        want.append(" ".join(pieces.decode(ids).split()))
    got = [" ".join(line.split()) for line in done.stdout.decode().split("\n")[:-1]]
    same = [a == b for a, b in zip(got, want, strict=True)]
    record_property("mmt translate = generate", f"{sum(same)} of {len(lines)} lines, beam 4")
    assert all(same) and len(set(want)) > len(want) // 2

    done = mmt_command("translate", "--model", run, "--to", "Dutch", stdin=b"a")
    assert done.returncode == 1 and b"German (deu_Latn)" in done.stderr
    done = mmt_command("import", "hf", theirs, "--out", run)
    assert done.returncode == 1 and b"exists" in done.stderr
    done = mmt_command("export", "hf", "--model", run, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr.decode()
    for name in ("model.safetensors", "tokenizer.json", "spiece.model", "tokenizer_config.json"):
        if name == "model.safetensors":
            import safetensors.numpy

            first, second = (safetensors.numpy.load_file(at / name)
                             for at in (theirs, tmp_path / "out"))  # fmt: skip
            assert first.keys() == second.keys()
            assert all(first[key].tobytes() == second[key].tobytes() for key in first)
        else:
            assert (theirs / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_exported_directories_load_unchanged(family, tmp_path, record_property):
    """transformers reads what we write: the same tensors, and the same logits bit for bit."""
    import safetensors.torch

    name, directory, theirs, model, _ = family
    hf.export_hf(directory.parent / "run", tmp_path / "out")
    first, second = (safetensors.torch.load_file(at / "model.safetensors")
                     for at in (directory, tmp_path / "out"))  # fmt: skip
    assert first.keys() == second.keys()
    assert all(first[key].numpy().tobytes() == second[key].numpy().tobytes() for key in first)
    again = hf_families.load(tmp_path / "out")
    source, target = (tokens(array) for array in hf_families.batch(model.config))
    with torch.no_grad():
        logits = [t5(input_ids=source, decoder_input_ids=target).logits for t5 in (theirs, again)]
    assert torch.equal(*logits)
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        assert getattr(again.generation_config, key) == getattr(theirs.generation_config, key)
    record_property(name, f"HF -> ours -> HF: {len(first)} tensors equal byte for byte")
