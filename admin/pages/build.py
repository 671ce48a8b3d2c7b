"""Puts the pages together; importing this imports NiceGUI, which takes most of a second."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from nicegui import Client, core, ui

import admin.pages.views
from admin.pages.api_error import ApiError
from admin.pages.frame import serve_pages
from admin.pages.socket_owner import bind_sockets
from admin.pages.unopened import await_socket

ROOT: Final = "/admin"
_RECONNECT: Final = 20.0
_FAVICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1f5eff"/>'
    '<path d="M6 12h20M9 12v13M16 12v13M23 12v13" stroke="#fff" stroke-width="3" stroke-linecap="round"/></svg>'
)


def make_pages() -> FastAPI:
    """Return the application of all pages, to be served below ``/admin``; once in a process."""
    for found in pkgutil.iter_modules(admin.pages.views.__path__):
        importlib.import_module(f"{admin.pages.views.__name__}.{found.name}")
    serve_pages()
    outer = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    ui.run_with(
        outer,
        title="Pier",
        mount_path=ROOT,
        favicon=_FAVICON,
        reconnect_timeout=_RECONNECT,
        show_welcome_message=False,
        tailwind=False,
        gzip_middleware_factory=None,
        binding_refresh_interval=None,
    )
    importlib.import_module("nicegui.ui_run_with").gc = _NoObjects  # type: ignore[attr-defined]
    core.sio.eio.cors_allowed_origins = []  # the guard checks the origin
    bind_sockets()
    core.app.add_exception_handler(404, _missing(core.app.exception_handlers[404]))
    logging.getLogger("nicegui").addFilter(_is_to_be_logged)
    return outer


class _NoObjects:
    """Stands in for ``gc`` where NiceGUI searches all objects of the process for its own server: there is none.

    ``gc.get_objects`` breaks each tuple that another thread is filling from a generator meanwhile (``SystemError``):
    https://github.com/python/cpython/issues/39117.
    """

    @staticmethod
    def get_objects() -> list[object]:
        """Return nothing."""
        return []


def _missing(page_of: Callable[..., Any]) -> Callable[..., Awaitable[Response]]:
    """Return the 404 handler: a page, which NiceGUI keeps for a minute, for known viewers only; else a plain text."""

    async def answer(request: Request, error: Exception) -> Response:
        if "viewer" not in request.scope:
            return Response("there is no such file", 404)
        before = set(Client.instances)
        found: Response = await page_of(request, error)
        for made in Client.instances.keys() - before:
            await_socket(Client.instances[made])
        return found

    return answer


def _is_to_be_logged(record: logging.LogRecord) -> bool:
    """Whether to log a record: refusals of the API are shown to the viewer, and not logged."""
    return not isinstance(record.msg, ApiError)
