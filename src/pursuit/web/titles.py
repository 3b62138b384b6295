"""What stands at the top of a page."""

from pursuit.estimators import PursuitEstimator


def title_of(estimator: PursuitEstimator) -> str:
    """What a model is about: its target or its data set, in words."""
    task = getattr(estimator, "notes_", {}).get("task", {})
    words = str(task.get("target") or task.get("name") or "pursuit").replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]
