"""New pieces: SentencePiece merges as the learner does; the old text keeps its pieces."""

import itertools

import pytest

from mmt.data import vocabulary as vocab
from mmt.data.extension import pieces
from mmt.data.vocabulary import Vocabulary

OLD = [f"<2eng> {a} {b}, {c} 17." for a, b, c in itertools.permutations(
    ["Haus", "Maus", "Baum", "Auto", "sehr", "schön", "kaufen"], 3)]  # fmt: skip
NEW = [f"<2eng> {a} {b} {c} 17." for a, b, c in itertools.permutations(
    ["ერთი", "ორი", "სამი", "xhoisa", "kaufxho", "schönq", "ሰላም"], 3)]  # fmt: skip
RARE = "<2eng> Haus ორი xhoisa"  # an old line with words of the new languages


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("pieces") / "old.model"
    vocab.train(OLD, path, size=350, tags=["<2eng>"])
    return path


def extend(model, new=NEW, old=OLD, most=60, overlap=0.01):
    """The new pieces, the old vocabulary and the new one."""
    before = Vocabulary.load(model)
    added = pieces.learn(before, new, old, most=most, overlap=overlap)
    after = pieces.extended(model.read_bytes(), added, pieces.next_rank(before))
    return added, before, Vocabulary(after)


def test_old_ids_stay_and_new_ones_follow(model):
    added, before, after = extend(model)
    assert after.size == before.size + len(added) and 0 < len(added) <= 60
    assert [after.piece(i) for i in range(before.size)] == [
        before.piece(i) for i in range(before.size)
    ]
    assert [after.id(piece) for piece in added] == list(range(before.size, after.size))
    for name in ("pad", "eos", "unk", "tags"):
        assert getattr(before, name) == getattr(after, name)


def test_new_text_is_shorter_old_text_is_the_same(model):
    _, before, after = extend(model)
    for text in OLD:
        assert after.encode(text) == before.encode(text)
    for text in NEW:
        assert len(after.encode(text)) < len(before.encode(text)) / 2
        assert after.decode(after.encode(text)) == text
    assert not {after.piece(i) for i in after.encode("<2eng> ერთი ሰላም")} & {"<0xE1>", "<0xE0>"}


def test_sentencepiece_divides_every_word_as_the_learner(model):
    before = Vocabulary.load(model)
    learner = pieces._Learner(before, [*NEW, RARE], [*OLD, RARE], 1.0)
    added = learner.pieces(60)
    after = Vocabulary(pieces.extended(model.read_bytes(), added, pieces.next_rank(before)))
    words = list(dict.fromkeys(pieces._words([*NEW, RARE, *OLD])))
    assert len(words) == len(learner._words)
    for word, divided in zip(words, learner._words, strict=True):
        if "<2eng>" not in word:
            names = [after.piece(i) for i in after.encode(word.replace("\u2581", " "))]
            assert [name for name in names if not name.startswith("<0x")] == [
                piece for piece in divided if after.has(piece)
            ]


def test_overlap_0_keeps_every_old_line(model):
    old = [*OLD, RARE]
    loose, before, after = extend(model, old=old, most=500, overlap=0.1)
    strict, _, kept = extend(model, old=old, most=500, overlap=0.0)
    assert after.encode(RARE) != before.encode(RARE)
    assert kept.encode(RARE) == before.encode(RARE)
    assert "▁ორი" in loose and "▁ორი" not in strict and "▁ሰላም" in strict


def test_only_as_many_as_asked_and_no_rare_ones(model):
    assert len(extend(model, most=7)[0]) == 7
    assert extend(model, most=0)[0] == []
    assert extend(model, new=NEW[:3])[0] == []  # fewer than LEAST occurrences


def test_pieces_are_parts_of_words(model):
    new = [f"<2eng> {number}xhoi-{number}!xhoi" for number in range(100, 160)]
    for piece in extend(model, new=new, overlap=1.0)[0]:
        assert piece.removeprefix("\u2581").isalpha() or len(piece) == 1


def test_further_training_can_drop_merges(model):
    """BPE-dropout reads the ranks: they are of one order, the new ones last."""
    added, before, after = extend(model)
    ranks = after.merges()
    assert max(before.merges().values()) < min(ranks[piece] for piece in added)
    assert sorted(added, key=ranks.__getitem__) == added


def test_another_kind_of_vocabulary_is_refused(tmp_path):
    import sentencepiece

    prefix = tmp_path / "unigram"
    (tmp_path / "text").write_text("\n".join(OLD))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(prefix), vocab_size=45, minloglevel=2,
        hard_vocab_limit=False,
    )
    with pytest.raises(ValueError, match="not BPE"):
        extend(prefix.with_suffix(".model"))
