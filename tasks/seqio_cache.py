"""Reads tokens from SeqIO's own cache, as its Beam job (`seqio_cache_tasks`) writes it."""

import seqio

from tasks.mixture import Stream, TaskSource, token_ids

_SAMPLE = 64  # examples that must be in the cache


def examples(folder: str, source: TaskSource, split: str) -> Stream:
    """Yields the examples of a task's split from SeqIO's cache in `folder`, in cache order.

    SeqIO's cache does not record its corpus. So the number of examples is compared, and the first
    64 examples of the task must be in the cache.

    Raises:
      ValueError: the task has no finished cache, or one of another corpus or vocabulary.
    """
    task = source.task
    seqio.add_global_cache_dirs([folder])
    if not task.cache_dir:
        raise ValueError(
            f"{folder} has no finished cache of the task {task.name!r}: "
            f"{seqio.get_task_dir_from_name(task.name)}/COMPLETED is missing; run "
            "seqio_cache_tasks"
        )
    text = task.preprocess_precache(task.source.get_dataset(split, shuffle=False).take(_SAMPLE))
    missing = set(token_ids(task, text))
    count, expected = 0, task.num_input_examples(split)
    for ids in token_ids(task, task.get_dataset(None, split, use_cached=True, shuffle=False)):
        yield *ids, source.corpus_name
        count += 1
        missing.discard(ids)
    if missing or count != (expected or count):
        raise ValueError(
            f"the SeqIO cache {task.cache_dir} is of another corpus or vocabulary than the task "
            f"{task.name!r} now has: {count} {split} examples, of {expected}, and {len(missing)} "
            f"of the first {_SAMPLE} are missing; build it again"
        )
