"""HTTP responses of a site: JSON documents, and errors with a reason."""

import msgspec
from aiohttp import web

__all__ = ["Refusal", "json_answer", "refusal"]


class Refusal(Exception):
    """Raised while a request is handled: an HTTP status, and the reason in words."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def json_answer(document: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(document) + b"\n", content_type="application/json")


def refusal(status: int, why: str) -> web.Response:
    return json_answer({"error": why}, status)
