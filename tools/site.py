"""What MkDocs does here besides its own: pages from outside docs/, source files that pages link to, interviews, and
MathML.

A page links to `../src/pursuit/vip.py`, which a code host shows. The site has no such file, so each one that is linked
becomes a page below source/. CHANGELOG, CONTRIBUTING and SECURITY are pages of the site, too, and links to the README
go home.
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gallery
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".js": "javascript"}
CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", flags=re.M | re.S)
TARGET = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^)#\s]+)\)")
BLOCK = re.compile(r"^```math\n(.*?)^```", flags=re.M | re.S)
LOG = '<mi>log</mi><mspace width="0.17em"/>'
INLINE = re.compile(r"(?<![\\$\w])\$([^$\n]+?)\$(?!\w)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside docs/ and every source file that a page links to."""
    pages = {file.src_uri: file.content_string for file in files if file.src_uri.endswith(".md")}
    for name, uri in OUTSIDE.items():
        if uri not in pages:
            pages[uri] = TARGET.sub(_seen_from_docs, (ROOT / name).read_text(encoding="utf-8"))
            files.append(File.generated(config, uri, content=pages[uri]))
    for path in sorted({path for uri, text in pages.items() for path in _linked_sources(uri, text)}):
        content = (ROOT / path).read_text(encoding="utf-8").rstrip()
        language = LANGUAGES.get(Path(path).suffix, "text")
        text = f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{content}\n````\n"
        files.append(File.generated(config, _source_page(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    for page in sorted(gallery.PAGES.glob("*.html")):
        files.append(File.generated(config, f"gallery/{page.name}", abs_src_path=str(page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Equations become MathML, and links that leave docs/ lead to pages of the site."""
    uri = page.file.src_uri
    markdown = gallery.frames(markdown) if uri == "gallery.md" else markdown
    text = BLOCK.sub(lambda found: f"\n{_equation(found[1], 'block')}\n", markdown)
    return _outside_code(text, lambda part: INLINE.sub(lambda found: _equation(found[1], "inline"), _linked(uri, part)))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if i % 2 else change(part) for i, part in enumerate(CODE.split(text)))


def _equation(tex: str, display: str) -> str:
    """MathML in one line, which Markdown leaves as it is."""
    formula = " ".join(convert(tex.strip(), display=display).split()).replace("<mi>log</mi>", LOG)
    return f'<div class="equation">{formula}</div>' if display == "block" else f"<span>{formula}</span>"


def _linked(uri: str, text: str) -> str:
    """A part of a page with links that hold in the site."""

    def led(found: re.Match[str]) -> str:
        path = _in_repository(uri, found[1])
        if path is None or path.startswith("docs/") or (ROOT / path).is_dir():
            return found[0]
        anchor = found[2] or ""
        to, anchor = (OUTSIDE[path], anchor) if path in OUTSIDE else (_source_page(path), "")
        return f"]({posixpath.relpath(to, posixpath.dirname(uri) or '.')}{anchor})"

    def without_folders(found: re.Match[str]) -> str:
        path = _in_repository(uri, found[2])
        return found[1] if path and (ROOT / path).is_dir() else found[0]

    return TARGET.sub(led, LINK.sub(without_folders, text))


def _linked_sources(uri: str, text: str) -> list[str]:
    """Files outside docs/ that a page links to, from the root of the repository."""
    targets: list[tuple[str, str]] = []
    _outside_code(text, lambda part: targets.extend(TARGET.findall(part)) or part)
    paths = [_in_repository(uri, target) for target, _ in targets]
    outside = [path for path in paths if path and not path.startswith("docs/") and path not in OUTSIDE]
    return [path for path in outside if (ROOT / path).is_file()]


def _in_repository(uri: str, target: str) -> str | None:
    """A link's target from the root of the repository; None for addresses, anchors and what is not there."""
    if not target or ":" in target:
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(uri), target))
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def _seen_from_docs(found: re.Match[str]) -> str:
    """A link of a page in the repository's root, as a page in docs/ would have it."""
    target, anchor = found[1], found[2] or ""
    return found[0] if not target or ":" in target else f"]({posixpath.relpath(target, 'docs')}{anchor})"


def _source_page(path: str) -> str:
    return f"source/{path}.md"
