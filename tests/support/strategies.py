"""What property tests draw from: types of columns, seeds, shares of missing and known answers, and stopping rules."""

from hypothesis import strategies as st

from pursuit.inference.stopping import AnyOf, Budget, Confidence, Stability

TYPES = st.lists(st.sampled_from(["yes_no", "choice", "number"]), min_size=1, max_size=6)
SEEDS = st.integers(0, 10_000)
SHARES = st.sampled_from([0.0, 0.4])
RULES = st.one_of(
    st.builds(Budget, st.integers(0, 7)),
    st.builds(Confidence, st.floats(0.3, 1)),
    st.builds(Stability, st.floats(0, 0.3), st.integers(1, 3)),
    st.builds(
        lambda n, level, epsilon: AnyOf((Budget(n), Confidence(level), Stability(epsilon))),
        st.integers(1, 7),
        st.floats(0.5, 1),
        st.floats(0, 0.1),
    ),
)
