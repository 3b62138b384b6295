"""The pages hold together: every link leads somewhere, pictures are there, the site has all pages and builds."""

import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted(DOCS.rglob("*.md")),
]
FROM_OUTSIDE = {"changelog.md", "contributing.md", "security.md"}
"""Pages of the site that tools/site.py makes."""
CODE = re.compile(r"^( *)(```+).*?^ *\2|`[^`\n]+`", flags=re.M | re.S)
LOADED = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:[^\"> ]+)")
LINK = re.compile(r"!?\[[^\[\]]*\]\(<?([^)\s>]+)>?\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """A page without its code, in which a link is no link."""
    return CODE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(text_of(page)) if not re.match(r"\w+:", link)]


def anchors(page: Path) -> set[str]:
    """The anchors of headings that code hosts and the site make alike: of a heading that comes twice, they number the
    second one in different ways."""
    without_blocks = re.sub(r"^( *)(```+).*?^ *\2", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*?)\s*$", without_blocks, flags=re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    slugs = Counter(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in plain)
    return {slug for slug, n in slugs.items() if n == 1}


def navigation() -> list[str]:
    """The pages that mkdocs.yml lists."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    return re.findall(r"([\w./-]+\.md)$", listed, flags=re.M)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in links(page):
            target, _, anchor = link.partition("#")
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{name_of(page)} links to {link}"
            assert path.is_relative_to(ROOT), f"{name_of(page)} links out of the repository: {link}"
            if anchor:
                assert anchor in anchors(path), f"{name_of(page)} links to {link}"


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = "`[b](c.md)`\n```sh\n[d](e.md)\n```\n"
    page.write_text(f"# Two words, `code`\n\n[a](#two-words-code) {code}![f](g.png)\n# H\n# H\n")
    assert links(page) == ["#two-words-code", "g.png"]
    assert anchors(page) == {"two-words-code"}


def test_the_site_has_every_page_once() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert Counter(navigation()) == Counter(pages | FROM_OUTSIDE)


@pytest.mark.parametrize("name", ["command_reference", "python_reference"])
def test_the_reference_is_that_of_the_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = importlib.import_module(name)
    pages = tool.pages() if hasattr(tool, "pages") else {tool.PAGE: tool.page()}
    for path, text in pages.items():
        assert text == path.read_text(encoding="utf-8"), f"run: python tools/{name}.py"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="the extra docs is not installed")
def test_the_site_builds_without_a_warning_and_loads_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    built = list((tmp_path / "site").rglob("*.html"))
    assert len(built) > 30
    for page in built:
        loaded = LOADED.findall(page.read_text(encoding="utf-8"))
        assert not loaded, f"{page.name} loads {loaded}"


def test_the_left_column_has_seven_groups() -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    groups = re.findall(r"^  - (.*?):(.*)$", listed, flags=re.M)
    assert len(groups) == 7
    assert not any(page.strip() for _, page in groups)
    assert "navigation.sections" not in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")  # which opens all of them
