"""The table of operations as an OpenAPI 3.1 document."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from reconvene.runtime.http.api import documents
from reconvene.runtime.http.api.operations import Operation, Parameter

__all__ = ["describe"]

_TEXTS = {
    200: "done", 201: "appended: it was new", 202: "accepted; what was waited for has not happened yet",
    400: "bad input: the line names the field", 401: "no key, or an unknown one",
    403: "the key's role is too low, or the request comes from another origin's page",
    404: "there is no such message",
    408: "the body did not come in time", 409: "the Idempotency-Key was used with other data: nothing was appended",
    410: "not in the log any more", 413: "the body is too large", 415: "an encoded body",
    421: "this site can't do that: ask another one", 429: "no room now: try again after Retry-After",
    503: "not now: try again after Retry-After; nothing happened",
    504: "unknown: it may have happened; repeat it with the same Idempotency-Key",
}  # fmt: skip
_ALWAYS = (401, 403)
_OF_API = (400, 421, 503)


def describe(operations: Sequence[Operation], version: str, has_keys: bool) -> dict[str, Any]:
    """`has_keys`: every request needs one."""
    structs = [kind for operation in operations for kind in _kinds(operation)] + [documents.Failure]
    unique = list(dict.fromkeys(structs))
    _, components = msgspec.json.schema_components(unique, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Reconvene", "version": version, "description": "A site over HTTP: docs/http-api.md."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "a client key"}},
        },
    }
    if has_keys:
        found["security"] = [{"key": []}]
    return found


def _kinds(operation: Operation) -> list[Any]:
    answers = [kind for kind in operation.answers.values() if _is_struct(kind)]
    return [*answers, *(kind for kind in operation.events.values() if kind is not None)]


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation(operation: Operation) -> dict[str, Any]:
    role = "" if operation.role is None else f" Needs the role {operation.role.label}."
    refusals = {*_ALWAYS, *operation.refusals, *(_OF_API if operation.role is not None else ())}
    failure = dict if operation.role is None else documents.Failure  # only the API's have an outcome
    responses = {
        **{status: _answer(operation, status, "application/json", failure) for status in refusals},
        **{status: _response(operation, status, kind) for status, kind in operation.answers.items()},
    }
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.text,
        "description": operation.text + role,
        "responses": {str(status): response for status, response in sorted(responses.items())},
    }
    if operation.parameters:
        found["parameters"] = [_parameter(one) for one in operation.parameters]
    if operation.body:
        found["requestBody"] = {
            "description": "The message; its Content-Type is ignored.",
            "required": False,
            "content": {"*/*": {}},
        }
    return found


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.text,
        "schema": parameter.schema,
    }


def _response(operation: Operation, status: int, kind: type | str) -> dict[str, Any]:
    if isinstance(kind, str):
        return _answer(operation, status, kind, None)
    return _answer(operation, status, "application/json", kind)


def _answer(operation: Operation, status: int, media: str, kind: type | None) -> dict[str, Any]:
    if kind is None:
        schema: dict[str, Any] = {"type": "string"}
    elif _is_struct(kind):
        schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    else:
        schema = {"type": "object"}
    text = _TEXTS.get(status, "done")
    if media == "text/event-stream":
        names = (
            name if struct is None else f"{name} ({struct.__name__})" for name, struct in operation.events.items()
        )
        text = f"events: {', '.join(names)}"
    found: dict[str, Any] = {"description": text, "content": {media: {"schema": schema}}}
    if status in (429, 503) and re.match("/v1/", operation.path):
        found["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "in seconds"}}
    return found
