"""Whatever one client replies, the round goes on, the others are heard, and the books agree."""

import pytest
from fuzzing import replies
from mutations import MUTATIONS, Target, corpus

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_replies_of_the_corpus_are_survived(tmp_path):
    verdicts = {}
    Target(tmp_path, len(corpus()) + 1).play(corpus(), verdicts.setdefault)
    assert len(verdicts) == len(corpus()) >= 10
    assert set(verdicts.values()) == {"accepted", "rejected"}


def test_random_replies_are_survived():
    found = replies(steps=120, seed=1)
    assert found["failures"] == []
    assert found["cases"]["rejected"] > 60
    assert MUTATIONS.keys() <= found["cases"].keys()
