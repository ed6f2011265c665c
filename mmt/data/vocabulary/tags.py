"""Tags of target languages: the piece before a source, which says what to translate into."""

from mmt import languages, suggest
from mmt.data.corpora import Corpus
from mmt.data.vocabulary.sentencepiece_model import Vocabulary


def tag(target: str) -> str:
    """Returns the tag of a target language: 'eng_Latn' -> '<2eng>'."""
    return f"<2{target.split('_')[0]}>"


def tag_of(corpus: Corpus, language: str) -> str:
    """Returns the tag before the sources of a language's pairs.

    It is that of the corpus's target. In a reversed corpus it is '<2srp_Latn>', with the script,
    because a language may have two.
    """
    return f"<2{language}>" if corpus.reverse else tag(corpus.target)


def find_tag(vocabulary: Vocabulary, language: str, *, trained: str = "") -> str:
    """Returns the tag of `language` as the vocabulary spells it: '<2eng>' or '<2en>' for 'English'.

    Args:
      vocabulary: the model's source vocabulary.
      language: by any name.
      trained: FLORES code of a target language of the model, whose tag has no script: with
        'srp_Latn' the tag '<2srp>' means Latin script.

    Raises:
      ValueError: there is no such tag; the message has the nearest.
    """
    literal_tag = f"<2{language}>"
    if literal_tag in vocabulary.tags and vocabulary.tags[literal_tag] is None:
        return literal_tag  # a tag that `languages` does not know
    codes_by_tag = {piece: code for piece, code in vocabulary.tags.items() if code}
    if trained and vocabulary.has(tag(trained)):
        codes_by_tag[tag(trained)] = trained
    target = languages.find(language)
    if tags := [piece for piece, code in codes_by_tag.items() if code == target.code]:
        return min(tags, key=lambda piece: (piece != literal_tag, len(piece), piece))
    codes = sorted(set(codes_by_tag.values()))
    labels = {code: f"{languages.find(code).name} ({code})" for code in codes}
    if len(labels) > 12:
        by_name = {languages.find(code).name: label for code, label in labels.items()}
        hint = suggest.hint(target.name, by_name, 3, cutoff=0.0, show=by_name.__getitem__)
        listed = f"{len(labels)} languages{hint}"
    else:
        listed = ", ".join(labels.values()) or "languages that its vocabulary has no tag for"
    raise ValueError(
        f"target language {target.code} ({target.name}): the model translates only into {listed}"
    )


def source_prefix(vocabulary: Vocabulary, target: str) -> str:
    """Returns the text before each source of a model into `target`: '<2eng> ' or '<2en> '.

    It is '' for a vocabulary without tags. vocabulary, target: as for `find_tag`, which raises
    ValueError for a vocabulary with tags of other languages only.
    """
    return f"{find_tag(vocabulary, target, trained=target)} " if vocabulary.tags else ""
