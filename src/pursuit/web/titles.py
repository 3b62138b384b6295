"""What stands at the top of a page."""

from pursuit.estimators import PursuitEstimator


def title_of(estimator: PursuitEstimator, default: str = "pursuit") -> str:
    """What a model is about: its target or its data set, in words; the default where nobody noted it."""
    task = getattr(estimator, "notes_", {}).get("task", {})
    words = str(task.get("target") or task.get("name") or default).replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]
