"""`mmt behave`: does a model do what every model should, in each of its languages?

`material` finds texts of a language, `cases` makes cases of them, `suite` translates and judges,
`properties` says what is wrong with a translation, `difference` compares two models.
"""

from eval.behave.material import corpus_of, materials
from eval.behave.suite import BehaviourResult, JudgedCase, Suite, languages_of, run

__all__ = [
    "BehaviourResult", "JudgedCase", "Suite", "corpus_of", "languages_of", "materials", "run",
]  # fmt: skip
