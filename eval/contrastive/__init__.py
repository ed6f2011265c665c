"""Contrastive evaluation of pronouns and repeated names that depend on previous sentences.

As in ContraPro (Müller et al. 2018), nothing is translated: the model scores the reference and the
same text with another pronoun or name, with its context, without, and with that of another
document. The examples come from any test set with documents, into English.
"""

from eval.contrastive.accuracy import measure, table
from eval.contrastive.examples import ContrastiveExample, find

__all__ = ["ContrastiveExample", "find", "measure", "table"]
