"""The pages and what they are made of, from the package."""

import hashlib
import mimetypes
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from pursuit.web.serving.problems import NotFound

FRAME = "served.html"
SUFFIXES = (".js", ".css", ".json", ".svg", ".png", ".ico", ".webmanifest")
PAGES = ("/", "/m/{model_id}", "/s/{session_id}", "/sessions", "/about/{model_id}")
"""One frame for all of them: its script looks at the address."""
MEDIA_TYPES = {".js": "text/javascript", ".json": "application/json", ".webmanifest": "application/manifest+json"}


class Pages:
    """The files of the interview, read once."""

    def __init__(self, folder: Traversable | None = None):
        self._folder = folder or files("pursuit.web") / "interview"

    @cached_property
    def assets(self) -> dict[str, bytes]:
        if not self._folder.is_dir():
            return {}
        return {one.name: one.read_bytes() for one in self._folder.iterdir() if one.name.endswith(SUFFIXES)}

    @cached_property
    def frame(self) -> bytes:
        """The page of all addresses."""
        place = self._folder / FRAME
        if not place.is_file():
            raise NotFound("The pages are not installed here; the API is at /api/models.")
        return place.read_bytes()


router = APIRouter(include_in_schema=False)


def _show_page(request: Request) -> Response:
    pages: Pages = request.app.state.pages
    return _unless_known(request, pages.frame, "text/html")


for _path in PAGES:
    router.add_api_route(_path, _show_page, methods=["GET", "HEAD"])


@router.get("/assets/{name}")
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
