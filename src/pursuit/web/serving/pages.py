"""The pages and what they are made of, from the package."""

import hashlib
import mimetypes
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from pursuit.web.serving.problems import NotFound

FRAME, BELOW = "served.html", "served/"
"""The page, and the folder of what only the server's pages need."""
SUFFIXES = (".js", ".css", ".json", ".svg", ".png", ".ico", ".webmanifest")
PAGES = ("/", "/m/{model_id}", "/s/{session_id}", "/sessions", "/about/{model_id}")
"""One frame for all of them: its script looks at the address."""
MEDIA_TYPES = {".js": "text/javascript", ".json": "application/json", ".webmanifest": "application/manifest+json"}


class Pages:
    """The files of the interview, read once."""

    def __init__(self, folder: Traversable | None = None, lists_sessions: bool = True):
        self._folder, self._lists_sessions = folder or files("pursuit.web") / "interview", lists_sessions

    @cached_property
    def assets(self) -> dict[str, bytes]:
        found = {}
        for prefix, folder in (("", self._folder), (BELOW, self._folder / BELOW.rstrip("/"))):
            if folder.is_dir():
                files = [one for one in folder.iterdir() if one.name.endswith(SUFFIXES)]
                found.update({f"{prefix}{one.name}": one.read_bytes() for one in files})
        return found

    @cached_property
    def frame(self) -> bytes:
        """The page at all addresses."""
        place = self._folder / FRAME
        if not place.is_file():
            raise NotFound("The pages are not installed here; the API is at /api/models.")
        frame = place.read_bytes()
        return frame if self._lists_sessions else frame.replace(b"<html ", b'<html data-lists="no" ', 1)


def is_page(path: str) -> bool:
    """Whether this is the address of a page."""
    return path in PAGES or path.startswith(tuple(page.split("{")[0] for page in PAGES if "{" in page))


of_pages = APIRouter(include_in_schema=False)


def _show_page(request: Request) -> Response:
    pages: Pages = request.app.state.pages
    return _unless_known(request, pages.frame, "text/html")


for _path in PAGES:
    of_pages.add_api_route(_path, _show_page, methods=["GET", "HEAD"])


@of_pages.get("/assets/{name:path}")
def show_asset(request: Request, name: str) -> Response:
    pages: Pages = request.app.state.pages
    if name not in pages.assets:
        raise NotFound("There is no such file.")
    suffix = name[name.rfind(".") :]
    media_type = MEDIA_TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return _unless_known(request, pages.assets[name], media_type)


def _unless_known(request: Request, content: bytes, media_type: str) -> Response:
    """The content, unless the browser has it already."""
    headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)
