"""A trained model as one HTML file that asks people without a server. `page.html` is its frame, `mathematics.js` what
it computes, `page.js` what it shows, `page.css` how that looks, and `en.json` and `de.json` are its own words."""

from pursuit.web.exporting.page import Exported, export

__all__ = ["Exported", "export"]
