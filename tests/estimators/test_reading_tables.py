"""Rows of any library, checked in scikit-learn's manner."""

import numpy as np
import pytest
from scipy import sparse

from pursuit import VIPClassifier
from small_table import QUICKEST, patients

pl = pytest.importorskip("polars")


@pytest.mark.parametrize("library", ["polars", "lazy", "arrow"])
def test_tables_of_any_library_keep_their_names(library: str) -> None:
    X, y = patients()
    table = {"polars": pl.from_pandas(X), "lazy": pl.from_pandas(X).lazy(), "arrow": pl.from_pandas(X).to_arrow()}[
        library
    ]
    model = VIPClassifier(random_state=0, **QUICKEST).fit(table, y)
    assert model.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(model.predict_proba(table), model.predict_proba(X))
    with pytest.raises(ValueError, match="yet now missing:\n- age"):
        model.predict(pl.from_pandas(X).drop("age"))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_rows_are_predicted_as_dense_ones(form: str) -> None:
    X = sparse.random(60, 5, density=0.4, random_state=0, format=form)
    y, weight = np.arange(60) % 2, (np.arange(60) > 5).astype(float)
    model = VIPClassifier(random_state=0, **QUICKEST).fit(X, y, weight)
    assert model.n_features_in_ == 5
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X.toarray()))


def test_sparse_rows_are_found_by_the_names_of_training() -> None:
    randomness = np.random.default_rng(0)
    X, y = patients()
    X = X[["age", "smokes"]].fillna(0).astype(float).assign(site=1.0, weight=randomness.random(len(X)))
    with pytest.warns(UserWarning, match="Not asked for: 'site'"):
        model = VIPClassifier(random_state=0, **QUICKEST).fit(X, y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        predicted = model.predict_proba(sparse.csr_array(X.to_numpy()))
    np.testing.assert_array_equal(predicted, model.predict_proba(X))
