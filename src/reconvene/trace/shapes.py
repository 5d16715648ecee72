"""Which fields an event of each layer and kind has, and what is wrong with a row that lacks them."""

import re
from collections.abc import Mapping

from msgspec import UNSET

from reconvene.trace.events import Row

__all__ = ["CASTS", "CONF_KINDS", "LABEL", "REQUIRED", "SCOPES", "SERVICES", "check_row", "check_wide_row"]

CONF_KINDS = frozenset({"regular", "transitional", "hidden"})
SERVICES = frozenset({"fifo", "causal", "agreed", "safe"})
_EVS = {
    "conf": ("conf", "conf_kind", "members"),
    "send": ("conf", "msg", "service"),
    "deliver": ("conf", "msg", "sender", "service"),
    "fail": ("conf",),
    "stop": ("conf",),
}
_ESTABLISH = ("primary", "conf", "members")
_LOG = {
    "offer": ("msg",),
    "accept": ("msg",),
    "log": ("msg", "ts"),
    "yellow": ("msg",),
    "red": ("msg",),
    "green": ("msg", "pos"),
    "attempt": _ESTABLISH,
    "commit": _ESTABLISH,
    "establish": _ESTABLISH,
    "adopt": ("primary",),
    "snapshot": ("pos",),
}
_FILTER = {
    "view": ("group", "view", "process", "members", "primary", "conf"),
    "cast": ("group", "view", "process", "msg", "service"),
    "deliver": ("group", "view", "process", "msg", "sender", "service"),
    "stop": ("group", "view", "process"),
}
_CAST = ("process", "msg", "attempt", "dests", "replies")
_ISIS = {
    "site": ("conf", "primary", "members"),
    "begin": ("process",),
    "end": ("process",),
    "join": ("process", "group"),
    "leave": ("process", "group"),
    "view": ("process", "group", "view", "members", "dests", "primary", "conf"),
    "cbcast": (*_CAST, "label", "service"),
    "abcast": (*_CAST, "label", "service"),
    "gbcast": (*_CAST, "group", "view"),
    "receive": ("process", "sender", "msg", "attempt"),
    "reject": ("process", "sender", "msg", "attempt", "group", "view"),
    "answer": ("process", "sender", "msg"),
    "failed": ("process", "sender"),
    "flush": ("process",),
    "state": ("process", "group", "view"),
}
_WIDE: dict[str, tuple[str, ...]] = {
    "conf": ("conf", "conf_kind", "members", "ts"),
    "send": ("conf", "msg", "service", "group", "scope"),
    "deliver": ("conf", "msg", "sender", "service", "group"),
    "rep": ("conf", "view"),
    "cross": ("conf", "view", "msg", "pos", "members"),
    "in": ("conf", "view", "msg", "ts", "sender", "reg", "pos", "members"),
    "view": ("conf", "group", "ts", "members"),
    "lost": ("conf", "sender", "reg"),
    "unreachable": ("conf", "sender"),
    "cbcast": ("conf", "process", "msg", "dests", "label", "service"),
    "abcast": ("conf", "process", "msg", "dests", "label", "service"),
    "receive": ("conf", "process", "msg", "sender", "reg"),
    "failed": ("conf", "process", "sender"),
    "fail": (),
    "stop": (),
}
"""A part of a cluster may have no representative, so a `rep` may lack its `sender`; a site may fail before its first
wide configuration, so `fail` and `stop` may lack their `conf`."""
_FAR = ("cbcast", "abcast", "receive", "failed")
"""Kinds of the layer `wide` that are about processes."""
SCOPES = frozenset({"wide", "cluster"})
CASTS = ("cbcast", "abcast", "gbcast", "receive")
"""Kinds of the layer `isis` that have both a group and a view, or neither."""
_COMPONENT = (
    r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+){0,64}":[ ]?-?(?:0|[1-9][0-9]{0,18})'
)
LABEL = rf"\{{(?:{_COMPONENT}(?:,[ ]?{_COMPONENT}){{0,15}})?\}}"
"""A CBCAST's label, a JSON object of whole numbers, with a space after a colon or comma or none: a regular expression
that Python and Java read alike. Its repetitions are bounded, since Java's would use up the stack."""
_IS_LABEL = re.compile(LABEL)

REQUIRED = {"evs": _EVS, "corel": _LOG, "vs": {**_FILTER, "establish": _ESTABLISH}, "isis": _ISIS}
"""By layer and kind: the fields that such an event of a node has."""


def check_row(row: Row) -> str | None:
    """What is wrong with this row's shape, if anything is."""
    if row.layer == "evs":
        return _check_evs(row)
    if row.layer == "corel":
        return _check_log(row)
    if row.layer == "isis":
        return _check_isis(row)
    if row.layer != "vs":
        return f"`layer` is {row.layer!r}; expected evs, corel, vs or isis"
    if row.kind == "establish":
        return _missing(row, _ESTABLISH)
    return _check_filter(row)


def _check_log(row: Row) -> str | None:
    kind = row.kind
    # These are most of every trace of a log: they are looked at first, and by name.
    if row.msg is not UNSET and row.inc > 0 and row.pos is UNSET:
        if kind == "yellow" or (kind == "log" and row.ts is not UNSET):
            return None
    elif kind == "green" and row.msg is not UNSET and row.inc > 0 and row.pos is not UNSET and row.pos >= 0:
        return None
    return _check_kind(row, _LOG)


def _check_kind(row: Row, kinds: Mapping[str, tuple[str, ...]]) -> str | None:
    """What all layers above evs have in common: a known kind with its columns, an incarnation, a position."""
    required = kinds.get(row.kind)
    if required is None:
        return f"`kind` is {row.kind!r}; expected {', '.join(kinds)}"
    problem = _missing(row, required)
    if problem is not None:
        return problem
    if row.inc < 1:
        return "`inc` expected to be 1 or more"
    if row.pos is not UNSET and row.pos < 0:
        return f"`pos` is {row.pos}; expected 0 or more"
    return None


def _check_filter(row: Row) -> str | None:
    """Of the layer `vs`, the events of groups with the filter."""
    required = _FILTER.get(row.kind)
    if required is None:
        return f"`kind` is {row.kind!r}; expected {', '.join(_FILTER)}"
    problem = _missing(row, required)
    if problem is not None:
        return problem
    if row.inc < 1:
        return "`inc` expected to be 1 or more"
    return _check_service(row) or _check_process(row)


def _check_isis(row: Row) -> str | None:
    """Of the layer `isis`, the events of process groups."""
    kind = row.kind
    required = _ISIS.get(kind)
    if required is None:
        return f"`kind` is {kind!r}; expected {', '.join(_ISIS)}"
    problem = _missing(row, required)
    if problem is not None:
        return problem
    if row.inc < 1:
        return "`inc` expected to be 1 or more"
    if row.attempt is not UNSET and row.attempt < 0:
        return f"`attempt` is {row.attempt}; expected 0 or more"
    if row.replies is not UNSET and row.replies < -1:
        return f"`replies` is {row.replies}; expected -1 or more"
    if kind in CASTS and (row.group is UNSET) is not (row.view is UNSET):
        return f"`{'group' if row.group is UNSET else 'view'}` is missing; a cast to a group has both"
    if kind == "cbcast" and (row.label is UNSET or not _IS_LABEL.fullmatch(row.label)):
        return f"`label` is {row.label!r}; expected a JSON object of up to 16 whole numbers"
    return _check_service(row) or (None if kind == "site" else _check_process(row))


def check_wide_row(row: Row) -> str | None:
    """The same of a row of the layer `wide`, what passes between domains; such rows are in files of their own."""
    if row.layer == "evs" and row.kind in ("fail", "stop"):
        return _check_evs(row)  # they are in both files of a site, "as in layer evs"
    if row.layer != "wide":
        return f"`layer` is {row.layer!r}; expected wide"
    problem = _check_kind(row, _WIDE)
    if problem is not None:
        return problem
    if row.kind == "send" and row.scope not in SCOPES:
        return f"`scope` is {row.scope!r}; expected {', '.join(sorted(SCOPES))}"
    if row.kind == "conf":
        if row.conf_kind not in ("regular", "transitional"):
            return f"`conf_kind` is {row.conf_kind!r}; expected regular or transitional"
        if row.conf_kind == "transitional":
            return _missing(row, ("reg",))
    if row.kind == "cbcast" and (row.label is UNSET or not _IS_LABEL.fullmatch(row.label)):
        return f"`label` is {row.label!r}; expected a JSON object of up to 16 whole numbers"
    return _check_service(row) or (_check_process(row) if row.kind in _FAR else None)


def _check_service(row: Row) -> str | None:
    if row.service is not UNSET and row.service not in SERVICES:
        return f"`service` is {row.service!r}; expected {', '.join(sorted(SERVICES))}"
    return None


def _check_process(row: Row) -> str | None:
    home = f"{row.node}:{row.inc}:"
    # A process is of one incarnation of one node: that is how it is known whose failure ends it.
    if row.process is UNSET or not row.process.startswith(home) or not row.process[len(home) :].isdecimal():
        return f"`process` is {row.process!r}; expected a process of this node and incarnation, {home}NUMBER"
    return None


def _check_evs(row: Row) -> str | None:
    kind = row.kind
    # Deliveries are most of every trace: they are looked at first, and by name.
    if kind == "deliver":
        if row.conf is UNSET or row.msg is UNSET or row.sender is UNSET or row.service not in SERVICES:
            return _missing(row, _EVS[kind]) or f"`service` is {row.service!r}; expected a service"
        return None if row.inc > 0 else "`inc` expected to be 1 or more"
    required = _EVS.get(kind)
    if required is None:
        return f"`kind` is {kind!r}; expected {', '.join(_EVS)}"
    problem = _missing(row, required)
    if problem is not None:
        return problem
    if row.inc < 1:
        return "`inc` expected to be 1 or more"
    if kind == "send" and row.service not in SERVICES:
        return f"`service` is {row.service!r}; expected {', '.join(sorted(SERVICES))}"
    if kind == "conf":
        if row.conf_kind not in CONF_KINDS:
            return f"`conf_kind` is {row.conf_kind!r}; expected {', '.join(sorted(CONF_KINDS))}"
        if row.conf_kind == "transitional":
            return _missing(row, ("reg",))
    return None


def _missing(row: Row, fields: tuple[str, ...]) -> str | None:
    for field in fields:
        if getattr(row, field) is UNSET:
            return f"`{field}` is missing; a {row.kind} event has it"
    return None
