"""The embedded corpus as SeqIO tasks: an import registers `cldr_deu_Latn_to_eng` …, `cldr_to_eng`.

The first import on a machine generates the corpus, because its languages and counts determine the
tasks and rates. This takes seconds and shows a progress bar on stderr. The vocabulary is trained
when a task first tokenises. Both are stored under `$MMT_DATA`. With T5X: MIXTURE_OR_TASK_MODULE =
'tasks.cldr'.
"""

import tasks
from mmt.data import corpora

MIXTURE = tasks.register(corpora.load("cldr")).name
