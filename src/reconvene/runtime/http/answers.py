"""HTTP responses of a site: JSON documents, and errors with a reason."""

import msgspec
from aiohttp import web

__all__ = ["Refusal", "json_answer", "refusal"]


class Refusal(Exception):
    """Raised while a request is handled: an HTTP status, and the reason in words.

    `outcome`: of a request that could change something, what is known of it: refused (nothing happened) or unknown.
    `retry_s`: when it makes sense to try again.
    """

    def __init__(self, status: int, why: str, outcome: str | None = None, retry_s: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.outcome = outcome
        self.retry_s = retry_s


def json_answer(document: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(document) + b"\n", content_type="application/json")


def refusal(status: int, why: str, outcome: str | None = None, retry_s: int | None = None) -> web.Response:
    response = json_answer({"error": why} if outcome is None else {"error": why, "outcome": outcome}, status)
    if retry_s is not None:
        response.headers["Retry-After"] = str(retry_s)
    return response
