"""Translation with random weights: in order, complete, reproducible."""

import dataclasses
import io
import os
import threading

import jax
import numpy as np
import pytest

from mmt.data import vocabulary as vocab
from mmt.decoding import Decoding
from mmt.identify import IdentifierConfig
from mmt.identify.training import train
from mmt.model import transformer
from mmt.translate import (
    Hypothesis,
    Translator,
    arriving_lines,
    model_search,
    sentences,
    to_json,
)
from mmt.translate.sentences import ArrivingLines
from tests.helpers.tiny_translator import WORDS, make, train_vocabulary

TWO = Decoding(nbest=2)
LINES = [" ".join(WORDS[i % 5 : i % 5 + 1 + i % 4]) for i in range(21)]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return train_vocabulary(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def translator(vocabulary):
    return make(vocabulary)


def assert_alike(translations, expected):
    """Checks equal texts; scores may differ in the last bits between compiled programs."""
    assert [line.source for line in translations] == [line.source for line in expected]
    assert [[h.text for h in line.hypotheses] for line in translations] == [
        [h.text for h in line.hypotheses] for line in expected
    ]
    for ours, other in zip(translations, expected, strict=True):
        np.testing.assert_allclose(
            [h.score for h in ours.hypotheses], [h.score for h in other.hypotheses], rtol=1e-4
        )


def test_a_translation_does_not_depend_on_the_other_lines(translator):
    together = list(translator.translate(LINES))
    assert [line.source for line in together] == LINES
    assert [line.line for line in together] == list(range(len(LINES)))
    assert len({line.text for line in together}) > 5
    for start in (0, 8, 20):
        alone = list(translator.translate(LINES[start : start + 1]))
        assert [line.hypotheses for line in alone] == [together[start].hypotheses]
    turned = list(translator.translate(LINES[::-1]))
    assert [line.hypotheses for line in turned[::-1]] == [line.hypotheses for line in together]


def test_the_number_of_rows_and_the_windows_change_nothing(translator, monkeypatch):
    expected = list(translator.translate(LINES))
    monkeypatch.setattr(sentences, "WINDOW", 5)
    assert list(translator.translate(iter(LINES))) == expected
    assert_alike(list(dataclasses.replace(translator, batch_size=1).translate(LINES)), expected)


def test_with_experts_too_a_line_does_not_depend_on_the_others(vocabulary):
    translator = make(vocabulary, moe_period=1)
    together = list(translator.translate(LINES[:6], decoding=Decoding(beam=2)))
    for line in (0, 5):
        alone = next(translator.translate([LINES[line]], decoding=Decoding(beam=2)))
        assert_alike([alone], [together[line]])


def test_one_beam_is_argmax_of_the_teacher_forced_logits(vocabulary):
    translator = make(vocabulary, spare=40, seed=1)  # no spare piece may come out
    model, params = translator.model, translator.params
    for line in LINES[1:4]:
        translation = next(translator.translate([line], decoding=Decoding(beam=1, alpha=0.0)))
        greedy = translation.hypotheses[0]
        source = [*vocabulary.encode(f"<2eng> {line}"), vocab.EOS]
        limit = 2 * len(source) + 16
        tokens, total = [vocab.PAD], 0.0
        decoder_input = np.zeros((1, limit), np.int32)
        apply = jax.jit(lambda s, t: model.apply({"params": params}, s, t))
        while tokens[-1] != vocab.EOS:
            decoder_input[0, : len(tokens)] = tokens
            logits = apply(np.array([source]), decoder_input)[0, len(tokens) - 1]
            logprobs = np.asarray(jax.nn.log_softmax(logits[: vocabulary.size]))
            last = len(tokens) == limit
            tokens.append(vocab.EOS if last else 1 + int(np.argmax(logprobs[1:])))
            total += logprobs[tokens[-1]]
        assert greedy.text == " ".join(vocabulary.decode(tokens[1:]).split("\n")).strip()
        np.testing.assert_allclose(greedy.score, total, rtol=1e-3)


def test_empty_lines_give_empty_lines(translator):
    translations = list(translator.translate(["", LINES[0], " \t", "\u3000"], decoding=TWO))
    assert [line.text == "" for line in translations] == [True, False, True, True]
    assert translations[0].hypotheses == (Hypothesis("", 0.0),)
    assert translations[2].source == " \t"
    assert list(translator.translate([])) == []


def test_nbest_is_sorted_and_its_first_is_the_best(translator):
    best = list(translator.translate(LINES[:5]))
    translations = translator.translate(LINES[:5], decoding=Decoding(nbest=4))
    for line, translation in zip(best, translations, strict=True):
        scores = [translations.score for translations in translation.hypotheses]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        assert translation.hypotheses[0] == line.hypotheses[0]


def test_a_line_too_long_is_translated_in_pieces_that_together_are_the_line(translator):
    translator = dataclasses.replace(translator, max_source_length=16)
    long = ("eins zwei drei vier fünf sechs. sieben acht neun. " * 4).strip()
    unbroken = "三" * 20  # three bytes and so three tokens each; no space anywhere
    translation, short, other = translator.translate([long, LINES[0], unbroken], decoding=TWO)
    assert " ".join(piece.source for piece in translation.pieces) == long
    assert all(piece.source.endswith(".") for piece in translation.pieces)
    for rank in range(2):
        texts = [piece.hypotheses[rank].text for piece in translation.pieces]
        assert translation.hypotheses[rank].text == " ".join(filter(None, texts))
    alone = next(translator.translate([translation.pieces[0].source], decoding=TWO))
    assert alone.hypotheses == translation.pieces[0].hypotheses
    assert not short.pieces
    assert "".join(piece.source for piece in other.pieces) == unbroken


def test_arrived_lines_are_translated_before_more_are_read(translator):
    """Writes a line only after the answer to the last one, as a person at a terminal does."""
    read, write = os.pipe()
    answered = threading.Semaphore(0)

    def write_lines():
        with os.fdopen(write, "wb") as stream:
            for line in LINES[:3]:
                stream.write(line.encode()[:2])
                stream.flush()
                stream.write(line.encode()[2:] + b"\n")
                stream.flush()
                assert answered.acquire(timeout=60), "nothing came out"

    writer = threading.Thread(target=write_lines, daemon=True)
    writer.start()
    with os.fdopen(read, "rb") as stream:
        translations = []
        for line in translator.translate(arriving_lines(stream)):
            translations.append(line)
            answered.release()
    writer.join()
    assert translations == list(translator.translate(LINES[:3]))


def test_an_iterable_is_read_a_window_at_a_time(translator, monkeypatch):
    monkeypatch.setattr(sentences, "WINDOW", 4)
    given = []
    translations = translator.translate(given.append(line) or line for line in LINES)
    assert given == []
    next(translations)
    assert given == LINES[:4]


@pytest.mark.parametrize("wrong", [b"\xff", b"ab\xc3", b"\xed\xa0\x80"])
def test_invalid_utf8_is_replaced_with_one_warning_and_no_line_lost(wrong, capsys):
    lines = list(ArrivingLines(io.BytesIO(b"one\n" + wrong + b"\n" + wrong + b"\nfour\n")))
    assert len(lines) == 4
    assert "\ufffd" in lines[1]
    assert (lines[0], lines[3]) == ("one", "four")
    error = capsys.readouterr().err
    assert error.startswith("line 2: invalid UTF-8")
    assert error.count("\n") == 1


def test_only_a_line_feed_ends_a_line(capsys):
    text = "\ufeffa\u2028b\x85c\x0bd\re\r\n\nf\ufffd\n\nlast"
    for size in (1, 3, 1 << 16):  # however it arrives
        stream = io.BufferedReader(Slow(text.encode(), size))
        assert list(ArrivingLines(stream)) == ["a\u2028b\x85c\x0bd\re", "", "f\ufffd", "", "last"]
    assert list(ArrivingLines(io.BytesIO(b""))) == []
    assert list(ArrivingLines(io.BytesIO(b"\n"))) == [""]
    assert capsys.readouterr().err == ""


class Slow(io.RawIOBase):
    """Gives `size` bytes at a time."""

    def __init__(self, content, size):
        self._stream, self._size = io.BytesIO(content), size

    def readable(self):
        return True

    def readinto(self, buffer):
        chunk = self._stream.read(min(self._size, len(buffer)))
        buffer[: len(chunk)] = chunk
        return len(chunk)


def test_windows_of_a_file_are_full(tmp_path):
    path = tmp_path / "lines"
    path.write_text("line\n" * 250)
    with open(path, "rb") as stream:
        assert [len(window) for window in ArrivingLines(stream).windows(100)] == [100, 100, 50]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"source": "French"}, r"fra_Latn \(French\) is none of the 2 .* German \(deu_Latn\)"),
        ({"source": "Germann"}, "nearest: German"),
        ({"target": "de"}, r"deu_Latn \(German\): .* only into English \(eng_Latn\)$"),
        ({"target": ""}, "unknown language ''"),
        ({"target": "en-Shaw"}, r"eng_Shaw .* only into English \(eng_Latn\)$"),
    ],
)
def test_impossible_requests_are_errors_at_once(translator, options, message):
    with pytest.raises(ValueError, match=message):
        translator.translate(LINES, **options)


def test_languages_go_by_any_name(translator):
    expected = list(translator.translate(LINES[:2]))
    for name in ("de", "German", "deu_Latn", "Swahili"):
        assert list(translator.translate(LINES[:2], source=name, target="English")) == expected


def test_a_model_that_routes_by_language_translates_each_line_by_its_language(vocabulary):
    translator = make(vocabulary, moe_period=1, languages=2)
    german, swahili = (list(translator.translate(LINES[:6], source=s)) for s in ("de", "swh"))
    differ = [a.hypotheses != b.hypotheses for a, b in zip(german, swahili, strict=True)]
    assert any(differ)
    names = ["German", "swh_Latn"] * 3
    for number, mixed in enumerate(translator.translate(LINES[:6], sources=iter(names))):
        assert_alike([mixed], [(german, swahili)[number % 2][number]])
    short = dataclasses.replace(translator, max_source_length=16)  # pieces have the line's language
    long = ("eins zwei drei vier fünf sechs. sieben acht neun. " * 2).strip()
    translation = next(short.translate([long], source="swh"))
    piece = translation.pieces[1]
    assert_alike([piece], list(short.translate([piece.source], source="swh")))


def test_a_model_into_many_languages_routes_by_the_target(vocabulary):
    many = {"target": "", "source": "deu_Latn", "languages": ("eng_Latn", "swh_Latn")}
    translator = make(vocabulary, moe_period=1, languages=2, manifest=many)
    assert translator.language_id(None) == 0 and translator.language_id(None, "Swahili") == 1
    both = [list(translator.translate(LINES[:2], source=s, target="en")) for s in (None, "de")]
    assert both[0] == both[1]
    with pytest.raises(ValueError, match="target language fra_Latn .* none of the 2"):
        translator.language_id(None, "fr")


def test_languages_that_a_routed_model_needs_and_lacks_are_errors(vocabulary):
    translator = make(vocabulary, moe_period=1, languages=2)
    with pytest.raises(ValueError, match=r"source language is needed .*--from.* deu_Latn, swh_L"):
        translator.translate(LINES)
    with pytest.raises(ValueError, match=r"fra_Latn \(French\) is none of the 2 .* German"):
        translator.translate(LINES, source="fr")
    with pytest.raises(ValueError, match=r"fra_Latn \(French\) is none of the 2 .* German"):
        list(translator.translate(LINES[:2], sources=["de", "fr"]))
    with pytest.raises(ValueError, match="fewer sources than lines: none for 'eins"):
        list(translator.translate(LINES[:6], sources=["de"] * 5))
    with pytest.raises(ValueError, match="sources, and the source 'de' for all; give one"):
        translator.translate(LINES[:1], source="de", sources=["de"])
    fewer = dataclasses.replace(translator.manifest, languages=("deu_Latn",))
    with pytest.raises(ValueError, match="has 2 languages .*its manifest 1"):
        dataclasses.replace(translator, manifest=fewer)


def test_new_params_are_used_without_compiling(vocabulary, translator):
    list(translator.translate(LINES[:4]))
    before = model_search.prefill._cache_size(), model_search.decode_segment._cache_size()
    other = dataclasses.replace(translator, params=make(vocabulary, seed=5).params)
    translations = list(other.translate(LINES[:4]))
    assert (model_search.prefill._cache_size(), model_search.decode_segment._cache_size()) == before
    assert translations != list(translator.translate(LINES[:4]))


def test_a_vocabulary_of_another_model_is_an_error(translator):
    stale = dataclasses.replace(
        translator.manifest, vocabulary_hash={"source": "0123", "target": "0123"}
    )
    with pytest.raises(ValueError, match="not the one that the model was trained with"):
        dataclasses.replace(translator, manifest=stale)
    config = dataclasses.replace(translator.model.config, vocab_size=300)
    with pytest.raises(ValueError, match="pieces, the model only 300 embeddings"):
        dataclasses.replace(translator, model=transformer.Transformer(config))


def test_a_diverged_model_is_an_error(translator):
    broken = jax.tree.map(lambda leaf: leaf * np.nan, translator.params)
    with pytest.raises(ValueError, match="diverge"):
        list(dataclasses.replace(translator, params=broken).translate(LINES[:1]))


def test_hypotheses_have_tokens_and_their_scores(translator, vocabulary):
    translations = list(
        translator.translate(LINES[:4], decoding=Decoding(nbest=3), token_scores=True)
    )
    for line in translations:
        for each in line.hypotheses:
            assert len(each.tokens) == len(each.token_scores)
            assert vocabulary.decode(map(vocabulary.id, each.tokens)).strip() == each.text
            total = each.score * ((5 + len(each.tokens)) / 6) ** 0.8
            np.testing.assert_allclose(sum(each.token_scores), total, rtol=1e-4)
    shown = to_json(translations[0])["hypotheses"][0]
    assert shown["tokens"] == list(translations[0].hypotheses[0].tokens)
    np.testing.assert_allclose(
        shown["token_scores"], translations[0].hypotheses[0].token_scores, atol=1e-6
    )
    plain = next(translator.translate(LINES[:1])).hypotheses[0]
    assert plain.tokens and not plain.token_scores


def test_a_prefix_for_all_and_for_each_line(translator):
    free = [line.text for line in translator.translate(LINES[:3])]
    forced = Decoding(prefix="acht Montag")
    all_forced = list(translator.translate([*LINES[:3], ""], decoding=forced))
    assert all(line.text.startswith("acht Montag") for line in all_forced[:3])
    assert all_forced[3].text == ""
    mixed = list(translator.translate(LINES[:3], prefixes=["", "acht Montag", "zehn"]))
    assert mixed[0].text == free[0] and mixed[2].text.startswith("zehn")
    assert mixed[1].hypotheses == all_forced[1].hypotheses
    long = "eins zwei drei vier fünf sechs. sieben acht neun. " * 2
    pieces = dataclasses.replace(translator, max_source_length=16).translate(
        [long], decoding=forced
    )
    starts = [piece.text.startswith("acht Montag") for piece in next(pieces).pieces]
    assert starts == [True, *[False] * (len(starts) - 1)] and len(starts) > 1


def test_impossible_prefixes_are_errors(translator, vocabulary, monkeypatch):
    with pytest.raises(ValueError, match="fewer prefixes than lines: none for 'eins"):
        list(translator.translate([LINES[5], LINES[5]], prefixes=["a"]))
    with pytest.raises(ValueError, match="'a' for all; give one"):
        translator.translate(LINES[:1], prefixes=["b"], decoding=Decoding(prefix="a"))
    monkeypatch.setattr(type(vocabulary), "encode", lambda *_: [5, vocab.UNK])
    with pytest.raises(ValueError, match="prefix 'x🙂': the target vocabulary cannot write it"):
        translator.translate(LINES[:1], decoding=Decoding(prefix="x🙂"))


@pytest.mark.parametrize("value", ["a", 2.5, True, 0, 10**10])
@pytest.mark.parametrize("name", ["average", "rows"])
def test_a_binding_of_another_type_is_an_error(name, value, tmp_path, as_users_have_it):
    with pytest.raises(ValueError, match=f"{name}: .*; allowed: int, 1 to "):
        Translator.load(tmp_path, **{name: value})


def test_the_source_may_be_detected(vocabulary):
    config = IdentifierConfig(buckets=2**10, dimensions=8, epochs=8)
    swahili = ["moja mbili tatu", "nne tano sita", "saba nane", "tisa kumi"] * 9
    identifier = train({"deu_Latn": LINES * 2, "swh_Latn": swahili}, {}, config=config)
    options = {"moe_period": 1, "languages": 2, "identifier": identifier}
    translator = make(vocabulary, **options)
    mixed = ["drei vier fünf", "moja mbili tatu", "eins zwei drei"]
    codes = ["deu_Latn", "swh_Latn", "deu_Latn"]
    found = list(translator.translate(mixed, source="auto"))
    assert [line.detected.language for line in found] == codes
    assert [ranking[0][0] for ranking in translator.identify(mixed)] == codes
    given = list(translator.translate(mixed, sources=codes))
    assert [line.text for line in given] == [line.text for line in found]
    assert to_json(found[1])["detected"]["language"] == "swh_Latn"
    assert "detected" not in to_json(given[1])
    without = make(vocabulary)
    for use in (lambda: without.translate(mixed, source="auto"), lambda: without.identify(mixed)):
        with pytest.raises(ValueError, match="no language identifier"):
            use()
