"""A trained model as one HTML file that asks people without a server. `page.html` is its frame; `engine.js` computes in
the browser what the interview shows."""

from pursuit.web.exporting.page import Exported, export

__all__ = ["Exported", "export"]
