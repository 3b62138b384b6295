"""Pages from templates. Whatever a template writes from data is text: it is escaped, and characters that a page may not
have become �."""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from pursuit.inference.chain import bits_text, percent
from pursuit.inference.pursuer import label_text
from pursuit.report.facts import count, share
from pursuit.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff￾￿]")


def clean(value: Any) -> Any:
    """A value without characters that a page may not have; what is HTML already was cleaned when it was made."""
    return value if hasattr(value, "__html__") else _CONTROL.sub("�", str(value))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pursuit.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=clean,
    )
    environment.filters |= {
        "bits": bits_text,
        "decimals": lambda value, n: "–" if value is None else f"{round(value, n) + 0.0:.{n}f}",
        "label": label_text,
        "percent": percent,
        "share": share,
        "thousands": "{:,}".format,
        "within": lambda value: min(1.0, max(0.0, value)),
    }
    environment.globals |= {"count": count, "version": __version__}
    return environment


def render(template: str, **values: Any) -> str:
    """The page of a template."""
    return _environment().get_template(template).render(values)
