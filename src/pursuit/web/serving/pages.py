"""The pages and the files that they are made of, from the package."""

import mimetypes
import os
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parents[1] / "interview"
PAGES = ("/", "/m/{model_id}", "/s/{session_id}", "/sessions", "/operator", "/about/{model_id}")
"""One frame for all of them: its script looks at the address."""
ASSETS = "/assets"
"""The address of the files, which are given to everybody: they are the same everywhere."""
EMBED = "/embed.js"
"""The script that puts the interview into pages of other sites, where that is allowed."""
CHECKED = {"Cache-Control": "no-cache"}
"""A browser that has a file asks whether it is still the same."""

mimetypes.add_type("text/javascript", ".js")  # which the registry of Windows may not know


class Assets(StaticFiles):
    """The files of the interview."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(CHECKED)
        return response


def read_frame(lists_sessions: bool, keep_days: float | None, has_words: bool = False) -> bytes:
    """The page at all addresses, which knows whether a browser lists its sessions, for how many days they are kept, and
    whether people may answer in their own words."""
    told = {"lists": None if lists_sessions else "no", "keep-days": None if keep_days is None else f"{keep_days:g}"}
    told["words"] = "yes" if has_words else None
    attributes = "".join(f'data-{name}="{value}" ' for name, value in told.items() if value is not None)
    frame = (FOLDER / "served.html").read_bytes()
    return frame.replace(b"<html ", f"<html {attributes}".encode(), 1)


def is_page(path: str) -> bool:
    """Whether this is the address of a page."""
    return path in PAGES or path.startswith(tuple(page.split("{")[0] for page in PAGES if "{" in page))


of_pages = APIRouter(include_in_schema=False)


async def _show_page(request: Request) -> HTMLResponse:
    return HTMLResponse(request.app.state.frame, headers=CHECKED)


@of_pages.get(EMBED)
def _embed(request: Request) -> Response:
    if not request.app.state.embedders:
        return Response("// This server lets no site embed its interview: --embed.", 404, media_type="text/javascript")
    headers = {**CHECKED, "Cross-Origin-Resource-Policy": "cross-origin"}
    return Response((FOLDER / "embed.js").read_bytes(), headers=headers, media_type="text/javascript")


for _path in PAGES:
    of_pages.add_api_route(_path, _show_page, methods=["GET", "HEAD"])
