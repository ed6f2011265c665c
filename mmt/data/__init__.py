"""From corpora to batches of token arrays. Import the modules; this package imports none of them.

`corpora` reads a corpus description, `cleaning` cleans it, `vocabulary` tokenises, `cache` stores
the tokens, and `pipeline` makes batches. `forecast` predicts the examples of a mixture, `ledger`
counts the examples that a run has consumed.
"""
