"""A share of the fuzzing of the API: a few requests of every operation, and what counts as a finding."""

from types import ModuleType

import pytest

from pursuit.web.serving.security import HEADERS

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def api() -> ModuleType:
    """Imported here, because it takes seconds even where these tests are not selected."""
    pytest.importorskip("schemathesis")
    from fuzz import api

    return api


def test_requests_made_from_the_description_find_nothing(api: ModuleType) -> None:
    found = api.main(n_examples=4, seed=1)
    assert found["findings"] == {}
    assert found["outcomes"]["2xx"] > 20
    assert found["outcomes"]["4xx"] > 20


@pytest.mark.parametrize(
    ("status", "headers", "content", "finding"),
    [
        (200, {}, b"{}", "without Content-Security-Policy"),
        (500, HEADERS, b'Traceback (most recent call last):\n  File "/x.py"', "tells of the inside"),
        (200, {**HEADERS, "content-type": "application/json"}, b'{"p": NaN}', "NaN is not a number"),
        (404, {**HEADERS, "content-type": "application/json"}, b'{"detail": 1}', "without a sentence"),
    ],
)
def test_what_is_wrong_with_an_answer_is_a_finding(
    api: ModuleType, status: int, headers: dict[str, str], content: bytes, finding: str
) -> None:
    with pytest.raises(api.Finding, match=finding):
        api.judge(status, headers, content)
