"""When checkpoints are written, under former names too."""

import pytest

from mmt.checkpoint import Policy


def test_former_names_are_accepted():
    assert Policy(skips=3, returns=1) == Policy(max_skipped_steps=3, max_rollbacks=1)
    with pytest.raises(ValueError, match="max_skipped_steps must be 1 or more"):
        Policy(skips=0)
