"""Distillation: the loss and its gradient, the step, the checkpoint, the teacher's translations."""

import dataclasses
import itertools
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mmt import checkpoint, distill, losses, train
from mmt.data import corpora
from mmt.data.cache.manifest import read_manifest
from mmt.data.pair import Pair
from mmt.run import Run
from mmt.translate import Hypothesis, Translation
from tests.helpers.runs import equal_trees, training_rows

HASHES = {"source": "aaaa", "target": "aaaa"}


@pytest.fixture
def toy_teacher(tmp_path, toy_program, toy_trained):
    """The directory of a teacher with experts, of vocabularies with HASHES."""
    directory = toy_trained(toy_program(moe_period=2), tmp_path / "teacher")
    write_manifest(directory, HASHES)
    return directory


def write_manifest(directory, hashes, languages=("aaa_Latn",)) -> None:
    keys = ("name", "target", "languages", "counts", "corpus_hash", "vocabulary_hash",
            "vocabulary_size", "version")  # fmt: skip
    values = ("toy", "eng_Latn", list(languages), {}, "", hashes, {"source": 20, "target": 20}, 1)
    (directory / "manifest.json").write_text(json.dumps(dict(zip(keys, values, strict=True))))


@pytest.fixture
def student_batches(toy_batches):
    """The toy's batches, of vocabularies with HASHES."""

    def make(hashes=HASHES):
        batches = toy_batches()
        batches.manifest = types.SimpleNamespace(
            **vars(type(batches).manifest), vocabulary_hash=hashes
        )
        return batches

    return make


def student_of(program, model_dir, **objective) -> train.Trainer:
    return dataclasses.replace(
        program, teacher=distill.Teacher(str(model_dir)), objective=losses.Objective(**objective)
    )


def quiet(program) -> train.Trainer:
    """The same without dropout, by plain gradient descent."""
    config = dataclasses.replace(program.model.config, dropout_rate=0.0)
    return train.Trainer(type(program.model)(config), optax.sgd(1.0))


def test_a_step_mixes_teacher_and_labels_as_switch_does(toy_program, toy_teacher, toy_batches):
    program = student_of(quiet(toy_program()), toy_teacher, label_smoothing=0.0, teacher=0.25)
    batch = next(toy_batches())
    batch["decoder_loss_weights"][2:, 3:] = 0.0
    state = program.init(3)
    inputs = [jnp.asarray(batch[f"{stack}coder_input_tokens"]) for stack in ("en", "de")]
    student = jax.jit(program.model.apply)({"params": state.params}, *inputs)
    taught = jax.jit(program.teacher.model.apply)(
        {"params": program.teacher.parameters(program.layout)}, *inputs
    )
    after, loss = program.step(state, program.place(batch))
    student, taught = (np.asarray(logits, np.float64) for logits in (student, taught))
    label_loss = teacher_loss = 0.0
    for row, at in np.argwhere(batch["decoder_loss_weights"]):
        at_token = (np.exp(logits[row, at]) for logits in (student, taught))
        p, q = (weights / weights.sum() for weights in at_token)
        label_loss -= np.log(p[batch["decoder_target_tokens"][row, at]])
        teacher_loss += sum(q[v] * np.log(q[v] / p[v]) for v in range(20))
    tokens = batch["decoder_loss_weights"].sum()
    assert teacher_loss / tokens > 0.05
    assert loss == pytest.approx((0.75 * label_loss + 0.25 * teacher_loss) / tokens, rel=1e-5)
    assert after.meters.sums["teacher_loss"] == pytest.approx(teacher_loss, rel=1e-4)


@pytest.mark.slow
def test_a_student_equal_to_its_teacher_does_not_change(tmp_path, toy_program, toy_trained,
                                                      toy_batches):  # fmt: skip
    dense = quiet(toy_program())
    teacher = toy_trained(dense, tmp_path / "teacher")
    program = student_of(dense, teacher, label_smoothing=0.0, teacher=1.0)
    program = dataclasses.replace(program, initial_model_dir=str(teacher))
    before = jax.tree.map(jnp.copy, program.start(3).params)
    state, loss = program.step(program.start(3), program.place(next(toy_batches())))
    assert abs(float(loss)) < 1e-6 and float(state.meters.sums["gradient_norm"]) < 1e-5
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), before, state.params)


def test_the_gradient_is_that_of_mixed_targets(toy_batches):
    """KL(teacher || student) and labels at 1:3, or the cross entropy with their mixture."""
    random = np.random.default_rng(0)
    logits, teacher = (jnp.asarray(random.normal(size=(2, 3, 7)), jnp.float32) for _ in range(2))
    labels = jnp.asarray(random.integers(0, 7, (2, 3)))

    def parts(logits):
        label = losses.cross_entropy(logits, labels)[0]
        return (0.25 * losses.divergence(logits, teacher) + 0.75 * label).sum()

    mixed = 0.25 * jax.nn.softmax(teacher) + 0.75 * jax.nn.one_hot(labels, 7)
    whole = lambda logits: -(mixed * jax.nn.log_softmax(logits)).sum()  # noqa: E731
    np.testing.assert_allclose(jax.grad(parts)(logits), jax.grad(whole)(logits), atol=1e-6)


@pytest.mark.slow
def test_microbatches_have_their_own_teacher_logits(toy_program, toy_teacher, toy_batches):
    batch, after = next(toy_batches()), []
    for microbatches in (1, 2):
        program = student_of(quiet(toy_program()), toy_teacher)
        program = dataclasses.replace(program, microbatches=microbatches)
        after.append(program.step(program.init(3), program.place(batch))[0])
    for x, y in zip(*(jax.tree.leaves(state.params) for state in after), strict=True):
        np.testing.assert_allclose(x, y, atol=2e-6)


@pytest.mark.slow
def test_stopped_and_started_again_is_bit_identical_and_holds_no_teacher(
    tmp_path, toy_program, toy_teacher, student_batches
):
    program = student_of(toy_program(), toy_teacher)
    whole = train.train(program, student_batches(), model_dir=str(tmp_path / "whole"), steps=10)
    for steps in (4, 10):
        parts = train.train(
            program, student_batches(), model_dir=str(tmp_path / "parts"), steps=steps
        )
    assert equal_trees(whole, parts)
    rows = training_rows(tmp_path / "parts")
    assert rows[-1] == training_rows(tmp_path / "whole")[-1] and rows[-1]["teacher_loss"] > 0
    # the checkpoint is that of a student which never had a teacher
    checkpoint.restore_params(tmp_path / "parts", toy_program().shapes(3).params)
    sizes = [
        sum(file.stat().st_size for file in directory.rglob("*"))
        for directory in (tmp_path / "parts/checkpoints/10", toy_teacher / "checkpoints/5")
    ]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(
    ("side", "size", "words"),
    [
        ("target", 20, ["target vocabulary (aaaa)", "(bbbb)", "by sequence"]),
        pytest.param(
            "source", 20, ["source vocabulary (aaaa)", "(bbbb)", "VOCABULARY_FROM"],
            marks=pytest.mark.slow,
        ),
        ("", 24, ["logits of 20 pieces", "of 24"]),
    ],
)
def test_a_student_of_other_tokens_is_refused_before_anything_is_written(
    tmp_path, toy_program, toy_teacher, student_batches, side, size, words
):
    program = student_of(toy_program(vocab_size=size), toy_teacher)
    batches = student_batches({**HASHES, side: "bbbb"} if side else HASHES)
    with pytest.raises(ValueError) as error:
        train.train(program, batches, model_dir=str(tmp_path / "student"), steps=1)
    assert all(word in str(error.value) for word in words), error.value
    assert not (tmp_path / "student").exists()


def test_a_directory_that_is_no_teacher_is_refused(tmp_path, toy_program, student_batches):
    program = student_of(toy_program(), tmp_path)
    with pytest.raises(ValueError, match="no checkpoint"):
        train.train(program, student_batches(), model_dir=str(tmp_path / "student"), steps=1)


class Shouting:
    """A translator that returns upper case and dies after a number of lines; 'null' has an empty
    translation.
    """

    def __init__(self, lines: int, *, by_language: bool = False) -> None:
        self.lines, self.asked, self.routes_by_language = lines, [], by_language
        self.languages = []

    def language_id(self, source, target):
        return {"deu_Latn": 0, "fra_Latn": 1, "swh_Latn": 2}[source]

    def translate(self, lines, *, target, decoding, sources):
        sources = iter(sources) if self.routes_by_language else itertools.repeat(sources)
        for i, line in enumerate(lines):
            self.languages.append(next(sources))
            if i == self.lines:
                raise KeyboardInterrupt
            self.asked.append(line)
            text = "" if line == "null" else line.upper()
            yield Translation(line, (Hypothesis(text, 0.0),))


@pytest.fixture
def shouting(monkeypatch, tmp_path):
    """Returns a function that translates a corpus by a translator that dies after a number of
    lines.
    """
    monkeypatch.setattr(Run, "best_step", lambda run: 7)

    def write(corpus, lines, *, by_language=False, **options):
        translator = Shouting(lines, by_language=by_language)
        monkeypatch.setattr(distill.Translator, "load", lambda directory: translator)
        distill.Translations("runs/teacher", str(corpus), str(tmp_path / "said"), **options).write()
        return translator

    return write


def test_translations_resume_after_a_kill_and_lose_no_line(toy_corpus, tmp_path, shouting):
    corpus = corpora.load(toy_corpus)
    with pytest.raises(KeyboardInterrupt):
        shouting(toy_corpus, 450)
    part = next((tmp_path / "said").glob("*.part"))
    with part.open("a") as file:
        file.write("half a li")  # of a line that was on its way
    assert not (tmp_path / "said/corpus.toml").exists()
    again = shouting(toy_corpus, 10_000)
    assert len(again.asked) < 660 - 400  # the first language is not translated twice
    distilled = corpora.load(tmp_path / "said")
    assert distilled.name == "numbers_distilled" and distilled.languages == corpus.languages
    for code in corpus.languages:
        pairs = list(distilled.pairs(code, "train"))
        lines = list(corpus.pairs(code, "train"))
        assert [pair.source for pair in pairs] == [pair.source for pair in lines]
        expected = [pair.source.upper() if pair.source != "null" else pair.target for pair in lines]
        assert [pair.target for pair in pairs] == expected
        for split in ("validation", "test"):
            texts = [[pair[:2] for pair in each.pairs(code, split)] for each in (distilled, corpus)]
            assert texts[0] == texts[1]
    assert shouting(toy_corpus, 0).asked == []  # whole: nothing to do


def test_only_the_pairs_on_their_way_are_in_memory(toy_corpus, shouting, monkeypatch):
    gone, waiting = [], []

    class Counted(Pair):
        def __del__(self):
            gone.append(1)

    def selected(self, corpus, code):
        for pair in chosen(self, corpus, code):
            yield Counted(*pair)
            waiting.append(len(waiting) + 1 - len(gone))

    chosen = distill.Translations._selected_pairs
    monkeypatch.setattr(distill.Translations, "_selected_pairs", selected)
    shouting(toy_corpus, 10_000)
    assert len(waiting) > 600 and max(waiting) < 130  # itertools.tee keeps blocks of 57


def test_a_teacher_that_routes_by_language_is_given_that_of_each_line(toy_corpus, shouting):
    corpus = corpora.load(toy_corpus)
    translator = shouting(toy_corpus, 10_000, by_language=True, pairs=50)
    assert translator.languages == [code for code in corpus.languages for _ in range(50)]


@pytest.mark.slow
@pytest.mark.parametrize("languages", [("aaa_Latn", "bbb_Latn", "ccc_Latn"), ("aaa_Latn",) * 3])
def test_a_teacher_that_routes_by_language_has_the_students_languages(
    tmp_path, toy_program, toy_trained, toy_batches, languages
):
    """Its logits are those of the languages in the batch; other languages are an error."""
    teacher = toy_trained(toy_program(moe_period=2, routing="language"), tmp_path / "teacher")
    write_manifest(teacher, HASHES, ["aaa_Latn", "bbb_Latn", "ccc_Latn"])
    program = student_of(quiet(toy_program()), teacher)
    manifest = read_manifest(teacher / "manifest.json")
    if len(set(languages)) < 3:
        with pytest.raises(ValueError, match="routes by language, .*only the model bbb_Latn"):
            program.teacher.check(
                program.model, dataclasses.replace(manifest, languages=languages)
            )
        return
    program.teacher.check(program.model, manifest)
    batch = next(toy_batches())
    params = program.teacher.parameters(program.layout)
    other = {**batch, "decoder_language_ids": (batch["decoder_language_ids"] + 1) % 3}
    logits = [jax.jit(program.teacher.logits)(params, b) for b in (batch, other)]
    assert np.abs(logits[0] - logits[1]).max() > 1e-3
    state, loss = program.step(program.init(3), program.place(batch))
    assert np.isfinite(loss) and state.meters.sums["teacher_loss"] > 0


def test_a_limit_of_pairs_takes_them_evenly_spread(toy_corpus, tmp_path, shouting):
    shouting(toy_corpus, 10_000, pairs=100)
    distilled, corpus = corpora.load(tmp_path / "said"), corpora.load(toy_corpus)
    assert [distilled.count(code, "train") for code in distilled.languages] == [100, 100, 60]
    sources = [pair.source for pair in corpus.pairs("deu", "train")]
    assert [pair.source for pair in distilled.pairs("deu", "train")] == sources[3::4]


def test_references_are_written_beside_the_translations(toy_corpus, tmp_path, shouting):
    shouting(toy_corpus, 10_000, pairs=100, references=True)
    distilled, corpus = corpora.load(tmp_path / "said"), corpora.load(toy_corpus)
    for code in corpus.languages:
        corpus_pairs = [pair[:2] for pair in corpus.pairs(code, "train")]
        pairs = [pair[:2] for pair in distilled.pairs(code, "train")]
        assert len(pairs) == min(100, len(corpus_pairs)) + len(corpus_pairs)
        assert pairs[-len(corpus_pairs) :] == corpus_pairs


def test_translations_of_another_recipe_or_directory_are_refused(
    toy_corpus, tmp_path, shouting, monkeypatch
):
    shouting(toy_corpus, 10_000)
    monkeypatch.setattr(Run, "best_step", lambda run: 9)
    with pytest.raises(ValueError, match=r"another recipe \(step: 7 there, 9 requested"):
        distill.Translations("runs/teacher", str(toy_corpus), str(tmp_path / "said")).write()
    monkeypatch.setattr(Run, "best_step", lambda run: 7)
    monkeypatch.setattr(distill.digests, "of_steps", lambda run, steps: "trained anew")
    with pytest.raises(ValueError, match=r"another recipe \(teacher_digest: .*'trained anew' req"):
        distill.Translations("runs/teacher", str(toy_corpus), str(tmp_path / "said")).write()
    file = tmp_path / "said/translations.json"
    recipe = json.loads(file.read_text())
    del recipe["teacher_digest"]  # an earlier version had none
    file.write_text(json.dumps(recipe))
    assert shouting(toy_corpus, 0).asked == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").touch()
    with pytest.raises(ValueError, match="holds something else"):
        distill.Translations("runs/teacher", str(toy_corpus), str(tmp_path / "mine")).write()
