"""Only examples that fit into a row are counted; a warning counts the others."""

import numpy as np
import pytest

from mmt.data.split import Split
from tests.mmt.data.conftest import COUNTS


def test_only_what_fits_is_counted(opened):
    with pytest.warns(UserWarning, match="omitted; most of them: deu_Latn 132, swh_Latn 8$"):
        split = Split(opened, "train", list(COUNTS), {"inputs": 16, "targets": 6})
    assert split.counts == {"deu_Latn": 168, "swh_Latn": 12}
    lengths = np.array([[e.source, e.target] for e in (split.example(0, 0, i) for i in range(168))])
    assert lengths.max() == 6
