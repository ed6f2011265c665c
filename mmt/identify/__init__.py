"""Language identification of lines, by a small classifier that is trained on a run's own text."""

from mmt.identify.corpus import add_to_run, train_on_corpus
from mmt.identify.identifier import NONE, LanguageIdentifier
from mmt.identify.training import IdentifierConfig

__all__ = ["NONE", "IdentifierConfig", "LanguageIdentifier", "add_to_run", "train_on_corpus"]
