"""Reuse counts: the incremental sums, the definition and the closed form agree to the
last unit.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.theory import reuse
from studies.paper import theory

admissions = st.lists(st.integers(0, 40), min_size=1, max_size=30)


def counts_after_each_round(admitted, K):
    """The plain way: every sample by itself. One that stays is a round older
    (eq:age-evolution), of age K it leaves.
    """
    age, present = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    for arriving in admitted:
        age = np.concatenate([age, np.zeros(arriving, dtype=np.int64)])
        new = np.concatenate(
            [np.zeros(len(present), dtype=bool), np.ones(arriving, dtype=bool)]
        )
        present = np.concatenate([present, np.zeros(arriving, dtype=bool)])
        present = (present & (age != K)) | new
        age = age + present
        yield age, present


@pytest.mark.paper(
    "eq:Neff-def",
    "eq:kstep-drop",
    "def:kstep",
    "eq:age-evolution",
    "eq:kstep-vtilde-exact",
)
@pytest.mark.paper("eq:boundary-deficit-1", "eq:boundary-deficit-2")
@given(admissions, st.integers(1, 12))
def test_incremental_equals_definition_equals_closed_form(admitted, K):
    total = squares = in_memory = 0
    present_before = np.zeros(0, dtype=bool)
    closed, backwards = theory.kstep_uniformity(
        np.array([admitted, admitted[::-1]]), K
    )  # of two runs at once
    assert np.array_equal(
        backwards, theory.kstep_uniformity(np.array(admitted[::-1]), K), equal_nan=True
    )
    first, second = theory.boundary_deficits(np.array(admitted), K)
    for t, (age, present) in enumerate(counts_after_each_round(admitted, K)):
        n, N = int(present.sum()), int(sum(admitted[: t + 1]))
        gone = present_before & ~present[: len(present_before)]
        in_memory += n - int(age[: len(gone)][gone].sum())
        present_before = present
        total, squares = reuse.count_uses(total, squares, in_memory, n)
        assert (int(total), int(squares)) == (
            int(age.sum()),
            int((age**2).sum()),
        )  # definition, in integers
        assert int(total) == K * N - int(first[t])  # closed form, in integers
        assert int(squares) == K**2 * N - int(second[t])
        if N:
            exact = Fraction(int(total) ** 2, N * int(squares))
            assert closed[t] == pytest.approx(float(exact), rel=1e-14)
            assert theory.uniformity(age) == pytest.approx(float(exact), rel=1e-12)
            assert reuse.effective_sample_size(total, squares) == pytest.approx(
                float(N * exact), rel=1e-14
            )


@pytest.mark.paper(
    "eq:Vtilde-def-body", "eq:Neff-def", "eq:omega-l2", "eq:omega-def-opt"
)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_uniformity_is_kish_over_N(uses):
    uses = np.array(uses)
    weights = uses / uses.sum()
    n_eff = reuse.effective_sample_size(uses.sum(), (uses**2).sum())
    assert 1 / (weights**2).sum() == pytest.approx(float(n_eff))  # eq:omega-l2
    assert len(uses) * theory.uniformity(uses) == pytest.approx(float(n_eff))
    assert 0 < theory.uniformity(uses) <= 1


@pytest.mark.paper(
    "eq:vck-exact",
    "eq:ck-buffer-occupancy",
    "eq:ck-training-size",
    "eq:ck-distinct-samples",
)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 7))
def test_constant_admission_closed_form(K, T, rate):
    exact = theory.kstep_uniformity(np.full(T, rate), K)
    assert reuse.ck_uniformity(K, np.arange(1, T + 1)) == pytest.approx(
        exact, rel=1e-12
    )
    held = [int(present.sum()) for _, present in counts_after_each_round([rate] * T, K)]
    n, N = reuse.ck_counts(K, rate, np.arange(1, T + 1))
    assert n.tolist() == held
    assert N.tolist() == [rate * t for t in range(1, T + 1)]


def test_nothing_used_yet():
    assert float(reuse.effective_sample_size(0, 0)) == 0.0
    assert np.isnan(theory.kstep_uniformity(np.array([0, 4]), 3)).tolist() == [
        True,
        False,
    ]
