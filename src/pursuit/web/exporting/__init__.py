"""A trained model as one HTML file that asks people without a server, with the interview, the weights and all that
computes them inside. `page.html` is its frame; `engine.js` computes in the browser what the interview shows."""

import base64
import copy
import hashlib
import html
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

import pursuit.methods  # noqa: F401  makes all that a model may be made of known
from pursuit.estimators import PursuitEstimator, load
from pursuit.files import write_whole
from pursuit.inference.stopping import StoppingRule
from pursuit.queries import Questions
from pursuit.report.facts import count
from pursuit.report.measured import Measured, kept
from pursuit.version import __version__
from pursuit.web.bundle import LANGUAGES, bundle, part
from pursuit.web.exporting.description import Tensors, compressed, describe_model, exportable, suitable_widths
from pursuit.web.titles import title_of

__all__ = ["Exported", "export"]

FORMAT = 2


@dataclass(frozen=True)
class Exported:
    """A page that was written."""

    path: Path
    n_bytes: int
    n_queries: int
    n_labels: int
    belief_error: float
    """The most that rounding the weights changes a probability, on random histories."""
    is_number: bool = False
    """Whether the model predicts a number, of which the labels are ranges."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "path": str(self.path)}

    def __str__(self) -> str:
        predicted = "a number" if self.is_number else count(self.n_labels, "label")
        return f"{self.path}: {count(self.n_queries, 'question')}, {predicted}, {self.n_bytes / 1e6:.2f} MB"


def export(
    model: PursuitEstimator | str | Path,
    path: str | Path,
    *,
    stop: StoppingRule | str | None = None,
    title: str | None = None,
    language: str | None = None,
    measured: Measured | None = None,
) -> Exported:
    """Write a trained model as one HTML file, which asks a person without a server, a network or anything else.

    `model` is an estimator or the folder of one; `stop` and `title` are the model's own by default, and `language` is
    that of the page's own words: "en" or "de", by default what the browser prefers. Questions stay as the query set
    words them. What the page reports of the model's quality is `measured`, by default what the folder holds.
    """
    path = Path(path)
    if language is not None and language not in LANGUAGES:
        raise ValueError(f"The page speaks {' or '.join(LANGUAGES)}, not {language!r}: questions stay as they are.")
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"The page cannot be written to {path}: give a file in a folder that exists.")
    estimator = model if isinstance(model, PursuitEstimator) else load(model)
    check_is_fitted(estimator, "model_")
    rule = estimator.stopping_rule(stop)
    if measured is None and not isinstance(model, PursuitEstimator) and str(rule) == str(estimator.stopping_rule()):
        measured = kept(Path(model), estimator)
    exact = copy.deepcopy(exportable(estimator.model_)).cpu().float().eval()
    widths = suitable_widths(exact)
    tensors = Tensors(widths.bits)
    described = describe_model(exact, rule, tensors)
    described |= {
        "format": FORMAT,
        "pursuit": __version__,
        "title": title or title_of(estimator),
        "language": language,
        "tensors": [packed.to_dict() for packed in tensors.packed],
        "interview": asdict(Questions.presented(estimator.notes_)),
        "experience": None if measured is None else asdict(measured.experience),
        "expects_reports": estimator.has_initially_known_,
    }
    text = render(described, b"".join(packed.data for packed in tensors.packed))
    write_whole(path, text.encode())
    sizes = len(text.encode()), len(described["queries"]), len(described["labels"])
    return Exported(path, *sizes, widths.belief_error, is_number=described["target"] is not None)


def render(described: dict[str, Any], weights: bytes) -> str:
    """The page of a model."""
    words = {code: json.loads(part(f"interview/{code}.json")) for code in LANGUAGES}
    own = words[described["language"] or LANGUAGES[0]]
    program, loader = bundle("exporting/start.js"), part("exporting/loader.js")
    style = part("interview/page.css")
    fingerprint = hashlib.sha256(weights).hexdigest()[:12]  # by which a browser keeps interviews of models apart
    page = {"program": program, "words": words, "model": {**described, "fingerprint": fingerprint}}
    parts = {
        "LANGUAGE": described["language"] or LANGUAGES[0],
        "TITLE": html.escape(described["title"]),
        "POLICY": f"default-src 'none'; script-src '{_hash(loader)}' '{_hash(program)}'; style-src '{_hash(style)}'; "
        "img-src data:; "
        "base-uri 'none'; form-action 'none'",
        "STYLE": style,
        "NOSCRIPT": html.escape(own["needs_script"]),
        "BROKEN": html.escape(own["broken"]),
        "PAGE": compressed(json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()),
        "WEIGHTS": compressed(weights),
        "LOADER": loader,
    }
    # In one pass, so that nothing in the data is taken for a place to fill.
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda place: parts[place[1]], part("exporting/page.html"))


def _hash(text: str) -> str:
    """How a content policy names the only text that may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
