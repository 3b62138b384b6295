"""What each answer of a chain did to the belief in its prediction."""

import math

import pandas as pd
import pytest

from pursuit.methods import NaiveBayesIPClassifier


def test_reasons_add_up_to_what_the_whole_chain_says() -> None:
    X = pd.DataFrame({"fur": ["no", "no", "yes", "yes"] * 20, "wings": ["no", "yes", "no", None] * 20})
    model = NaiveBayesIPClassifier(stop="budget=2").fit(X, ["fish", "bird", "cat", "cat"] * 20)
    for chain in model.explain(X[:4]):
        best = int(chain.posterior.argmax())
        assert len(chain.reasons) == chain.n_answered
        total = sum(reason.bits or 0.0 for reason in chain.reasons)
        assert total == pytest.approx(math.log2(chain.posterior[best] / chain.prior[best]), abs=1e-4)
        assert all(reason.is_for == ((reason.bits or 0) > 0) for reason in chain.reasons)
        assert len(chain.to_dict()["reasons"]) == len(chain.reasons)
