"""What training does not import, and that it is there for others all the same."""

import subprocess
import sys

import numpy as np
import pytest

from pursuit.estimators.lazy_imports import geometric_mean

LEARNING = """
import sys
import numpy as np
from pursuit import VIPClassifier
from pursuit.tables.splitting import Division

draw = np.random.default_rng(0)
X = draw.integers(0, 2, (60, 3))
y = np.where(draw.random(60) < 0.1, 2, X[:, 0])
Division(y).split(0.2, seed=0)
VIPClassifier(random_state=0).fit(X, y)
assert "sklearn.ensemble._hist_gradient_boosting.gradient_boosting" in sys.modules
assert "scipy.stats" not in sys.modules
"""
OTHERS = """
from scipy import stats
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.preprocessing import QuantileTransformer

assert stats.norm.cdf(0) == 0.5
assert IsotonicRegression(increasing="auto").fit([1, 2, 3], [3, 2, 1]).increasing_ == False
assert label_ranking_average_precision_score([[0, 1]], [[0.2, 0.8]]) == 1
assert QuantileTransformer(n_quantiles=3, output_distribution="normal").fit_transform([[1], [2], [3]])[1] == 0
from sklearn.covariance import MinCovDet
assert MinCovDet(random_state=0).fit(draw.normal(size=(40, 2))).covariance_.shape == (2, 2)
"""


@pytest.mark.programs
def test_learning_does_without_statistics() -> None:
    """They would take longer to import than scikit-learn does."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", LEARNING + OTHERS], check=True)


def test_the_mean_is_that_of_scipy() -> None:
    from scipy.stats import gmean

    shares = np.random.default_rng(0).dirichlet([1, 2, 3], size=5)
    for axis in (0, 1, None):
        np.testing.assert_array_equal(geometric_mean(shares, axis=axis), gmean(shares, axis=axis))
