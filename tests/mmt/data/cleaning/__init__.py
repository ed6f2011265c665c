"""The files of a folder, and the pairs of a corpus before cleaning."""

from mmt.data.cleaning import cascade


def files(folder):
    """Every file of a folder, and what it holds."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def prepared_raw(corpus, code):
    """The training pairs of a language, not cleaned."""
    for place in range(len(corpus.entries(code, "train"))):
        yield from cascade.entry_pairs(corpus, code, "train", place)
