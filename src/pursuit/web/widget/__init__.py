"""The interview in a cell of a notebook, computed by the kernel. It needs the extra `notebook` and no network."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"The interview in a notebook needs {error.name}, which is not installed: pip install 'pursuit[notebook]'"
    ) from None

from pursuit.estimators import PursuitEstimator, load
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target_bins import target_of
from pursuit.queries import DoubtfulAnswer, Questions
from pursuit.report.measured import kept
from pursuit.sessions.session import Session, make_move
from pursuit.sessions.state import question_of
from pursuit.web.bundle import LANGUAGES, bundle, part
from pursuit.web.titles import title_of

FRAME = """<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>pursuit</title>
<style>{style}</style></head><body><header id="head"></header><main id="main"></main>
<p id="spoken" class="unseen" role="status" aria-live="polite"></p>
<script>globalThis.framedPage = {page};
{program}</script></body></html>"""


class Interview(anywidget.AnyWidget):
    """An interview in a cell: `Interview(model)` shows it, and `session` is what was said so far.

    `model` is a trained estimator or the folder of one. `language` is that of the page's own words, "en" or "de", by
    default what the browser prefers.
    """

    _esm = part("widget/widget.js")
    title = traitlets.Unicode().tag(sync=True)
    page = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        model: PursuitEstimator | str | Path,
        *,
        stop: StoppingRule | str | None = None,
        title: str | None = None,
        language: str | None = None,
    ):
        folder = None if isinstance(model, PursuitEstimator) else Path(model)
        self._estimator = model if isinstance(model, PursuitEstimator) else load(model)
        if self._estimator.model_.query_set.patches is not None:
            raise ValueError("Patches of a picture are answered by the picture: serve the model to ask about one.")
        self._stop = stop
        measured = None if folder is None or stop is not None else kept(folder, self._estimator)
        self._experience = None if measured is None else measured.experience
        self.session: Session = self._estimator.session(stop)
        """The session, whose `answers`, `posterior`, `chain` and `why()` may be looked at at any time."""
        self._accepted = False
        shown = title or title_of(self._estimator)
        super().__init__(title=shown, page=self._page(shown, language))
        self.on_msg(lambda _, content, __: self.send(self.answer(content)))

    def _page(self, title: str, language: str | None) -> str:
        model = self._estimator.model_
        values = {
            "title": title,
            "outcome": {"is_number": target_of(model) is not None, "n_labels": len(model.classes)},
            "presentation": asdict(Questions.presented(self._estimator.notes_)),
            "words": {code: json.loads(part(f"interview/{code}.json")) for code in LANGUAGES},
            "language": language,
        }
        page = json.dumps(values).replace("<", "\\u003c")  # nothing in it may end the script
        style = part("interview/page.css")
        return FRAME.format(
            language=language or LANGUAGES[0], style=style, page=page, program=bundle("widget/start.js")
        )

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """What Python answers to a message of the page: what was found, or what is wrong."""
        try:
            return {"id": message.get("id"), "found": self._found(str(message.get("what")), message)}
        except DoubtfulAnswer as error:
            return {"id": message.get("id"), "problem": {"doubt": error.doubt.to_dict()}}
        except (ValueError, KeyError) as error:
            return {"id": message.get("id"), "problem": {"message": str(error)}}

    def _found(self, what: str, message: Mapping[str, Any]) -> Any:
        query = message.get("query")
        match what:
            case "why":
                return self.session.why().to_dict()
            case "question":
                query_set = self.session.pursuer.query_set
                return asdict(question_of(query_set, query_set.index_of[str(query)]))
            case "state":
                pass
            case "accept":
                self._accepted = True
            case "undo" if self._accepted:  # what was done last is that the person was content
                self._accepted = False
            case "restart":
                self.session, self._accepted = self._estimator.session(self._stop), False
            case _:
                answer, label, confirmed = message.get("answer"), message.get("label"), bool(message.get("confirmed"))
                make_move(self.session, what, query, answer, label, confirmed)
                self._accepted = False
        options = {"accepted": self._accepted, "expects_reports": self._estimator.has_initially_known_}
        return asdict(self.session.state(self.title, self._experience, **options))
