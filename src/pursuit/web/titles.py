"""What models are about, in words: the title of an interview, and the names of several targets of one."""

from collections.abc import Iterable
from pathlib import Path

from pursuit.estimators import PursuitEstimator, load
from pursuit.queries import Questions


def title_of(estimator: PursuitEstimator, default: str = "pursuit") -> str:
    """What a model is about: its target or its data set, in words; the default where nobody noted it."""
    notes = getattr(estimator, "notes_", {})
    if title := Questions.presented(notes).title:
        return title
    task = notes.get("task", {})
    words = str(task.get("target") or task.get("name") or default).replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def load_by_title(folders: Iterable[str | Path], first: str) -> dict[str, PursuitEstimator]:
    """The models in these folders by what they are about; raises ValueError if that is the same of two, or of one and
    the model that they are asked with, which is about `first`."""
    models = [(Path(folder).name, load(folder)) for folder in folders]
    found = {title_of(model, name): model for name, model in models}
    if len({first, *found}) < 1 + len(models):
        raise ValueError("Two of the targets have the same name: give models of different targets.")
    return found
