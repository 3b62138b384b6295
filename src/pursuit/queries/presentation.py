"""An interview as its operator presents it: title, introduction, consent, contact, logo and colour, and what to say and
do for each result."""

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pursuit.files import read_bytes

MOST_LOGO_BYTES = 100_000
LOGO_TYPES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
LOGO_URI = re.compile(r"data:image/(?:png|jpeg|svg\+xml);base64,[\w+/=]+")
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
LANGUAGE = re.compile("[a-z]{2,3}")
LINKS = ("http", "https", "mailto", "tel")
"""What a link may begin with: nothing that runs in the page."""


@dataclass(frozen=True)
class Advice:
    """What to say and do where a label is the result."""

    text: str = ""
    link: str = ""
    link_text: str = ""
    """The words of the link; by default the page's own."""

    def __post_init__(self) -> None:
        if self.link and urlsplit(self.link).scheme not in LINKS:
            raise ValueError(f"a link begins with {', '.join(f'{kind}:' for kind in LINKS)}, not '{self.link}'")
        if self.link_text and not self.link:
            raise ValueError("link_text needs a link")


@dataclass(frozen=True)
class Presentation:
    """How an interview is presented; what is empty is the page's own."""

    title: str = ""
    introduction: str = ""
    """What a person reads before the first question; an empty line begins a paragraph."""
    consent: str = ""
    """What a person must agree to before the first question."""
    contact: str = ""
    """Whom to ask: an address or a sentence."""
    colour: str = ""
    """The colour of buttons and bars, as in #2456c7."""
    logo: str = ""
    """A picture as a data URI."""
    results: dict[str, Advice] = field(default_factory=dict)
    """By label."""
    languages: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each language, by its code, texts of the interview and what they are in it: questions, choices, labels, units
    and what is said here."""

    def __post_init__(self) -> None:
        if self.colour and not COLOUR.fullmatch(self.colour):
            raise ValueError(f"colour is six digits after a #, as in #2456c7, not '{self.colour}'")
        if self.logo and not LOGO_URI.fullmatch(self.logo):
            raise ValueError("logo is the name of a PNG, JPEG or SVG file")
        for code in self.languages:
            if not LANGUAGE.fullmatch(code):
                raise ValueError(f"a language goes by its code, as in [languages.de], not '{code}'")

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is said here in words."""
        own = (self.title, self.introduction, self.consent, self.contact)
        of_results = (text for one in self.results.values() for text in (one.text, one.link_text))
        return tuple(filter(None, (*own, *of_results)))


def logo_of(name: str, folder: Path | None) -> str:
    """A picture file beside a questions file as a data URI; one that is such a URI already stays."""
    if not name or name.startswith("data:"):
        return name
    path = (folder or Path()) / name
    if path.suffix.lower() not in LOGO_TYPES:
        raise ValueError(f"logo is the name of a PNG, JPEG or SVG file, not '{name}'")
    try:
        content = read_bytes(path, "a picture")
    except OSError:
        raise ValueError(f"there is no logo {path}") from None
    if len(content) > MOST_LOGO_BYTES:
        raise ValueError(f"the logo {path} has more than {MOST_LOGO_BYTES // 1000} kB: make it smaller")
    return f"data:{LOGO_TYPES[path.suffix.lower()]};base64,{base64.b64encode(content).decode()}"
