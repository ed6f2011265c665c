"""Token for token what Hugging Face's `generate` finds, where both mean the same; random T5s.

There the pad token may come out and here never, so it is suppressed there. Greedy search with a
repetition penalty is not compared: there it is applied to logits, here to log-probabilities.

Two continuations whose scores differ by less than float32's rounding have no order that both
programs must agree on. Where such a pair lies at the edge of the beam, the searches part, and their
final scores differ by any amount. `Margins` finds these sentences, which are then not compared.
"""

import numpy as np
import pytest

from mmt.decoding import Decoding
from mmt.decoding.bucketing import BucketedBatches, Source
from mmt.model.config import Config
from mmt.model.transformer import Transformer
from mmt.translate.model_search import TransformerSearch

pytestmark = pytest.mark.parity

VOCABULARY, SIZE, LONGEST = 50, 10, 20  # pieces, tokens of a source, of a hypothesis at most
HF = {
    "penalty": "length", "search_style": "hf", "early_stopping": "never",
    "max_length_ratio": LONGEST / SIZE,
}  # fmt: skip
BEAM = {"num_beams": 4, "early_stopping": "never", "num_return_sequences": 4}


@pytest.fixture(scope="module", params=[(0, 1, 0), (1, 2, 0)], ids=["t5", "madlad"])
def models(request):
    """Theirs and ours with the same weights; T5's special ids (pad, end, start) and MADLAD's."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from mmt.convert import names
    from mmt.model import parameter_names

    pad, eos, start = request.param
    settings = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=16, num_heads=2, d_kv=8, d_ff=24, num_layers=2,
        num_decoder_layers=2, feed_forward_proj="gated-gelu", dropout_rate=0.0,
        tie_word_embeddings=False, pad_token_id=pad, eos_token_id=eos,
        decoder_start_token_id=start,
    )  # fmt: skip
    torch.manual_seed(3)
    theirs = transformers.T5ForConditionalGeneration(settings).eval()
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            weight.copy_(torch.randn_like(weight) * (1.0 if "norm" in name else 0.4))
    ours = Transformer(
        Config(
            vocab_size=VOCABULARY, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=24,
            encoder_layers=2, decoder_layers=2, pad_id=pad, eos_id=eos, start_id=start,
        )
    )  # fmt: skip
    weights = {name: np.asarray(w.detach()) for name, w in theirs.state_dict().items()}
    entries = names.table(ours).values()
    arrays = {entry.ours: entry.to_ours(weights.__getitem__) for entry in entries}
    params = parameter_names.from_flat(arrays, ours)
    return theirs, ours, params


def sources(eos, count=200):
    random = np.random.default_rng(5)
    return [[*random.integers(3, VOCABULARY, SIZE - 1).tolist(), eos] for _ in range(count)]


class Margins:
    """A logits processor of `generate` that keeps, for each sentence, how close the beam came to
    holding another hypothesis: the smallest relative difference of the worst continuation that is
    kept and the best that is not, over all steps; once among all continuations, of which the best
    may end, and once among those that go on.
    """

    def __init__(self, beams, eos):
        self.beams, self.eos, self.least = beams, eos, None

    def __call__(self, tokens, log_probs):
        import torch

        tokens = tokens.view(-1, self.beams, tokens.shape[-1])
        sums = log_probs.view(*tokens.shape[:2], -1).double()
        if self.least is None:
            self.least = torch.full((len(tokens),), torch.inf, dtype=torch.float64)
            sums[:, 1:] = -torch.inf  # the other beams are copies of the first
        else:
            before, last = tokens[..., :-1], tokens[..., -1:]
            parents = (before[:, :, None] == self.tokens[:, None]).all(-1).int().argmax(-1)
            rows = torch.arange(len(tokens))[:, None]
            sums += self.sums[rows, parents].gather(-1, last)
        self.tokens, self.sums = tokens, sums
        for among in (sums, sums.index_fill(-1, torch.tensor([self.eos]), -torch.inf)):
            best = among.flatten(1).topk(self.beams + 1).values
            gaps = (best[:, -2] - best[:, -1]) / best[:, -2].abs()
            self.least = self.least.minimum(gaps.nan_to_num(torch.inf))
        return log_probs


def generated(theirs, given, *, forced=(), **options):
    """Returns for each source its [(tokens, score)] by `generate`, without start and padding, and
    the margin of the search.
    """
    import torch

    start, pad = theirs.config.decoder_start_token_id, theirs.config.pad_token_id
    margins = Margins(options["num_beams"], theirs.config.eos_token_id)
    output = theirs.generate(
        input_ids=torch.as_tensor(given), do_sample=False, suppress_tokens=[pad],
        decoder_input_ids=torch.as_tensor([[start, *forced]] * len(given)),
        max_new_tokens=LONGEST - len(forced), return_dict_in_generate=True, output_scores=True,
        logits_processor=[margins], **options,
    )  # fmt: skip
    rows = output.sequences[:, 1:].tolist()
    texts = [own_tokens(row, eos=theirs.config.eos_token_id) for row in rows]
    if options["num_beams"] == 1:  # in place of scores: how near the second best token came
        best = torch.stack(output.scores).topk(2).values
        gaps = (best[..., 0] - best[..., 1]).T.tolist()
        return [
            ([(text, None)], min(gap[: len(text)]) / 10)
            for text, gap in zip(texts, gaps, strict=True)
        ]
    both = list(zip(texts, output.sequences_scores.tolist(), strict=True))
    each = options["num_return_sequences"]
    texts_and_scores = [both[i : i + each] for i in range(0, len(both), each)]
    return list(zip(texts_and_scores, margins.least.tolist(), strict=True))


def own_tokens(tokens, eos):
    return tokens[: tokens.index(eos) + 1] if eos in tokens else tokens


def found_by(ours, params, given, decoding, forced=()):
    model = TransformerSearch(ours, params, VOCABULARY)
    batches = BucketedBatches(model, decoding, batch_size=16, longest=16, token_scores=True)
    return batches.search([Source(source, forced) for source in given])


CASES = {
    "greedy": (Decoding(beam=1, **HF), {"num_beams": 1}),
    "greedy bigrams": (
        Decoding(beam=1, no_repeat_ngram=2, **HF), {"num_beams": 1, "no_repeat_ngram_size": 2},
    ),
    "beam": (Decoding(alpha=1.0, nbest=4, **HF), {"length_penalty": 1.0}),
    "beam without penalty": (Decoding(alpha=0.0, nbest=4, **HF), {"length_penalty": 0.0}),
    "beam for long": (Decoding(alpha=1.6, nbest=4, **HF), {"length_penalty": 1.6}),
    "beam by default": (
        Decoding(alpha=1.0, nbest=4, **HF | {"early_stopping": "unlikely"}),
        {"length_penalty": 1.0, "early_stopping": False},
    ),
    "trigrams": (
        Decoding(alpha=1.0, nbest=4, no_repeat_ngram=3, **HF),
        {"length_penalty": 1.0, "no_repeat_ngram_size": 3},
    ),
    "repetition": (
        Decoding(alpha=1.0, nbest=4, repetition_penalty=1.3, **HF),
        {"length_penalty": 1.0, "repetition_penalty": 1.3},
    ),
    "both": (
        Decoding(alpha=0.6, nbest=4, repetition_penalty=0.8, no_repeat_ngram=2, **HF),
        {"length_penalty": 0.6, "repetition_penalty": 0.8, "no_repeat_ngram_size": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_equals_generate(models, case):
    decoding, options = CASES[case]
    theirs, ours, params = models
    if decoding.beam > 1:
        options = BEAM | options
    given = sources(ours.config.eos_id)
    hypotheses = found_by(ours, params, given, decoding)
    compared = assert_same(generated(theirs, given, **options), hypotheses)
    print(f"{case}: {compared} of {len(given)} compared, the rest has ties")
    assert compared >= 0.9 * len(given)


def assert_same(expected, results):
    """Scores to a part in 10^5 and tokens, of the sentences with a margin of as much; where two of
    theirs are nearer, either may be first. Returns of how many sentences the tokens were compared.
    """
    compared = 0
    for (texts_and_scores, margin), got in zip(expected, results, strict=True):
        if margin < 1e-5:
            continue
        texts, scores = zip(*texts_and_scores, strict=True)
        if len(texts_and_scores) > 1:
            np.testing.assert_allclose([hypothesis.score for hypothesis in got], scores, rtol=1e-5)
            if np.min(np.abs(np.diff(scores) / scores[0])) < 1e-5:
                continue
        assert [hypothesis.tokens for hypothesis in got] == list(texts)
        compared += 1
    return compared


@pytest.mark.parametrize("least", [5, 12])
def test_least_length_equals_generate(models, least):
    """`generate` counts `min_new_tokens` without the end token; here the end counts."""
    theirs, ours, params = models
    given = sources(ours.config.eos_id)
    decoding = Decoding(alpha=1.0, nbest=4, min_length_ratio=least / SIZE, **HF)
    options = BEAM | {"length_penalty": 1.0, "min_new_tokens": least - 1}
    expected = generated(theirs, given, **options)
    assert_same(expected, found_by(ours, params, given, decoding))


def test_a_prefix_equals_decoder_input_ids(models):
    """In `generate` a prefix has no score and no length; without a length penalty the order is the
    same.
    """
    theirs, ours, params = models
    given, forced = sources(ours.config.eos_id), [7, 7, 9]
    decoding = Decoding(alpha=0.0, nbest=4, no_repeat_ngram=2, **HF)
    options = BEAM | {"no_repeat_ngram_size": 2, "length_penalty": 0.0}
    hypotheses = [
        [h._replace(score=h.score - sum(h.token_scores[: len(forced)])) for h in each]
        for each in found_by(ours, params, given, decoding, forced)
    ]
    assert assert_same(generated(theirs, given, forced=forced, **options), hypotheses) >= 0.9 * len(
        given
    )


def test_sampling_filters_equal_generates_warpers(models):
    import jax
    import jax.numpy as jnp
    import torch
    from transformers.generation import logits_process as theirs

    from mmt.decoding import sampling

    logits = np.random.default_rng(0).normal(size=(50, 80)).astype(np.float32) * 3
    for temperature, top_k, top_p in ((0.7, 10, 0.9), (1.5, 0, 0.5), (1.0, 3, 1.0)):
        scores = theirs.TemperatureLogitsWarper(temperature)(None, torch.as_tensor(logits))
        if top_k:
            scores = theirs.TopKLogitsWarper(top_k)(None, scores)
        if top_p < 1:
            scores = theirs.TopPLogitsWarper(top_p)(None, scores)
        filtered = sampling.top_k_top_p_filter(
            jnp.asarray(logits), temperature=temperature, top_k=top_k, top_p=top_p
        )
        probabilities = torch.softmax(scores, dim=-1).numpy()
        np.testing.assert_allclose(jax.nn.softmax(filtered), probabilities, atol=1e-6)
