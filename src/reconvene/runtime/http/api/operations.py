"""What is served over HTTP, as a table: paths, parameters, roles, answers.

`routes` serves what is under /v1/ from it, and `openapi` describes all of it. The dashboard's paths are its own.
"""

from dataclasses import dataclass, field
from typing import Any

from reconvene.ids import Service
from reconvene.runtime.access.auth import Role
from reconvene.runtime.http.api import documents
from reconvene.wire.client_log import FETCH_MESSAGES

__all__ = ["API", "BESIDE", "ENCODINGS", "SERVICES", "Operation", "Parameter"]

ENCODINGS = ("auto", "base64")
SERVICES = (Service.AGREED.label, *(service.label for service in Service if service is not Service.AGREED))
"""The default first."""
_TEXT: dict[str, Any] = {"type": "string"}
_CURSOR: dict[str, Any] = {"type": "string", "pattern": r"^[0-9]{1,18}(\.[0-9]{1,18})?$"}
_DURATION: dict[str, Any] = {"type": "string", "pattern": r"^[0-9.]+(ns|us|ms|s|min)$"}


def _one_of(choices: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "string", "enum": list(choices), "default": choices[0]}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    schema: dict[str, Any]
    text: str
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    name: str
    """The handler's, and the description's operationId."""
    text: str
    answers: dict[int, type | str]
    """By status: what the answer consists of, or its media type."""
    refusals: tuple[int, ...] = ()
    """Besides those that any operation has."""
    role: Role | None = None
    """None: every key will do."""
    what: str = ""
    """What the role is needed for."""
    parameters: tuple[Parameter, ...] = ()
    body: bool = False
    events: dict[str, type | None] = field(default_factory=dict)
    """Of a stream: what each event consists of."""

    @property
    def query(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.parameters if one.place == "query")


_ENCODING = Parameter(
    "encoding", _one_of(ENCODINGS), "auto: messages that are UTF-8 as `data`, others as `data_base64`"
)
_LIMIT = Parameter(
    "limit", {"type": "integer", "minimum": 1, "maximum": FETCH_MESSAGES, "default": 100}, "most messages"
)
_GROUP = Parameter("group", _TEXT, "the group's name", "path")
_TIMEOUT = Parameter("timeout", {**_DURATION, "default": "30s"}, "how long to wait, at most 60s")

API = (
    Operation(
        "POST", "/v1/log", "append", "Appends the body to the log, as one message.",
        {201: documents.LogReceipt, 200: documents.LogReceipt, 202: documents.LogReceipt},
        (408, 409, 413, 415, 429, 504), Role.APPEND, "append to the log",
        (
            Parameter("wait", _one_of(("durable", "ordered")), "until when: it is on disk here, or has its position"),
            _TIMEOUT,
            Parameter(
                "Idempotency-Key", {"type": "string", "pattern": "^.{1,64}/[0-9]{1,18}$"},
                "SESSION/NUMBER: a message with the same key is appended once", "header",
            ),
        ),
        body=True,
    ),
    Operation(
        "GET", "/v1/log", "read", "Messages of the log, in order.", {200: documents.LogPage}, (410,), Role.READ,
        "read the log",
        (
            Parameter("start", {**_CURSOR, "default": "0"}, "the first position, or a cursor"),
            Parameter("stop", {"type": "integer", "minimum": 0}, "the position before which to stop"),
            _LIMIT,
            _ENCODING,
        ),
    ),
    Operation(
        "GET", "/v1/log/entries/{position}", "entry", "One message, as it was appended.",
        {200: "application/octet-stream"}, (404, 410), Role.READ, "read the log",
        (Parameter("position", {"type": "integer", "minimum": 0}, "its position", "path"),),
    ),
    Operation(
        "GET", "/v1/log/events", "follow", "Messages of the log as they are ordered, as server-sent events.",
        {200: "text/event-stream"}, (410, 429), Role.READ, "follow the log",
        (
            Parameter("start", {"type": "string", "default": "0"}, "the first position, a cursor, or `end`"),
            _ENCODING,
            Parameter("Last-Event-ID", _CURSOR, "go on after this event; comes before `start`", "header"),
        ),
        events={"entry": documents.LogEntry, "error": documents.Failure},
    ),
    Operation(
        "GET", "/v1/log/pending", "pending", "Messages that have no position yet, as far as this site has them.",
        {200: documents.LogPending}, (), Role.READ, "read the log", (_LIMIT, _ENCODING),
    ),
    Operation(
        "GET", "/v1/log/status", "log_status", "The log's status at this site.", {200: dict}, (), Role.READ,
        "read the log's status",
    ),
    Operation(
        "GET", "/v1/log/health", "log_health", "200 if the log does what is required here, otherwise 503.",
        {200: documents.LogHealth, 503: documents.LogHealth}, (), Role.READ, "read the log's status",
        (Parameter("require", _one_of(("appends", "order")), "that it accepts appends, or orders them, too"),),
    ),
    Operation(
        "POST", "/v1/groups/{group}/messages", "send", "Sends the body to a group, as one message.",
        {202: documents.Sent}, (408, 413, 415, 429), Role.APPEND, "send",
        (_GROUP, Parameter("service", _one_of(SERVICES), "what is promised of its delivery"), _TIMEOUT),
        body=True,
    ),
    Operation(
        "GET", "/v1/groups/{group}/events", "listen", "Joins a group: its views and messages as server-sent events.",
        {200: "text/event-stream"}, (429,), Role.READ, "receive in groups",
        (
            _GROUP,
            Parameter("primary", {"type": "boolean", "default": False}, "only where the majority is"),
            _ENCODING,
        ),
        events={
            "view": documents.GroupView, "message": documents.GroupMessage, "blocked": None,
            "left": documents.GroupLeft,
        },
    ),
)  # fmt: skip
"""Served where `http.api` is set."""

BESIDE = (
    Operation(
        "GET", "/health", "health", "Whether the site is well.", {200: dict, 503: dict}, (400,),
        parameters=(Parameter("require", {"type": "string", "enum": ["primary"]}, "that it is in a majority"),),
    ),
    Operation("GET", "/metrics", "metrics", "Metrics in Prometheus' text format.", {200: "text/plain"}),
    Operation("GET", "/status", "status", "The site's status.", {200: dict}),
    Operation("GET", "/openapi.json", "openapi", "This description.", {200: dict}),
)  # fmt: skip
"""Served always."""
