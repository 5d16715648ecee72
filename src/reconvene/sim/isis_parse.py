"""The keys of scenario files that stack `isis` alone has: processes, and what they do."""

import re
from collections import Counter

from reconvene.errors import Rejected
from reconvene.isis import labels
from reconvene.isis.events import ALL
from reconvene.isis.limits import IsisLimits
from reconvene.sim.fields import Nodes, Table, show
from reconvene.sim.isis_scenario import Cast, Casting, Flush, IsisVerb, Join, Kill, Label, Leave, ProcessPlan, Rank

__all__ = ["ISIS_LOAD", "ISIS_VERBS", "needs_isis", "parse_casting", "parse_processes", "parse_verb", "process_names"]

ISIS_VERBS = ("join", "leave", "kill", "cbcast", "abcast", "gbcast", "flush", "rank")
ISIS_LOAD = ("processes", "cast", "to", "label", "causal", "replies")
"""Keys of a load, in place of `nodes` and `service`."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_LIMITS = IsisLimits()
_MOST_COUNT = 100_000
_CASTS = ("cbcast", "abcast", "gbcast")


def needs_isis(table: Table, key: str, stack: str) -> None:
    if stack == "wide":
        table.fail(key, "expected isis = true in the file: its processes only join wide groups")
    if stack != "isis":
        table.fail(key, f'expected stack = "isis" in the file, not "{stack}": processes are not there')


def parse_processes(top: Table, nodes: Nodes, stack: str, isis: bool = False) -> tuple[ProcessPlan, ...]:
    """`isis`: of stack wide, whether they are those of ISIS."""
    tables = top.tables("process")
    if tables and stack != "wide":
        needs_isis(top, "process", stack)
    plans: dict[str, ProcessPlan] = {}
    for table in tables:
        more = ("replies", "state") if stack == "isis" else ("replies",) if isis else ()
        table.only(("node", "name", "groups", *more))
        name = table.text("name")
        if not _NAME.fullmatch(name):
            expected = "up to 64 letters, digits, '_' and '-', a letter or digit first, and no dot"
            table.fail("name", f"expected a name of {expected}, not {show(name)}")
        plan = ProcessPlan(
            node=nodes.one(table, "node", table.text("node", "a node")),
            name=name,
            groups=_groups(table),
            replies=table.flag("replies"),
            state=table.flag("state"),
        )
        if plan.written in plans:
            table.fail("name", f"process {show(plan.written)} stands there twice; expected it once")
        plans[plan.written] = plan
    for node, count in Counter(plan.node for plan in plans.values()).items():
        if count > _LIMITS.processes:
            top.fail("process", f"expected {_LIMITS.processes} processes of node {show(node)} at most, not {count}")
    return tuple(plans.values())


def process_names(plans: tuple[ProcessPlan, ...]) -> Nodes:
    return Nodes([plan.written for plan in plans], "process", "processes", "the file's [[process]] entries")


def _groups(table: Table) -> tuple[str, ...]:
    if not table.has("groups"):
        return ()
    groups = table.list_of("groups", 'a list of groups such as ["bank"]')
    for place, group in enumerate(groups):
        _check_group(table, "groups", group)
        if group in groups[:place]:
            table.fail("groups", f"group {show(group)} stands there twice; expected it once")
    return tuple(groups)


def _check_group(table: Table, key: str, group: object) -> str:
    if not isinstance(group, str) or not 0 < len(group.encode()) <= _LIMITS.group_bytes:
        table.fail(key, f"expected a group's name of 1 to {_LIMITS.group_bytes} bytes, not {show(group)}")
    return group


def parse_verb(table: Table, verb: str, processes: Nodes, *, wide: bool = False) -> IsisVerb:
    """`table`: the entry of [[at]]; `verb`: the one that it has. `wide`: there are several clusters."""
    if verb == "kill":
        return Kill(processes.distinct(table, "kill"))
    inner = table.table(verb)
    if verb in _CASTS:
        return _cast(inner, verb, processes, wide)
    inner.only(("process", *{"flush": (), "rank": ("group", "order")}.get(verb, ("group",))))
    process = _process(inner, processes)
    if verb == "flush":
        return Flush(process)
    group = _check_group(inner, "group", inner.text("group", "a group"))
    if verb == "rank":
        return Rank(process, group, processes.distinct(inner, "order"))
    return Join(process, group) if verb == "join" else Leave(process, group)


def _process(table: Table, processes: Nodes) -> str:
    return processes.one(table, "process", table.text("process", "a process such as a.x"))


def _cast(table: Table, kind: str, processes: Nodes, wide: bool) -> Cast:
    own = {"cbcast": ("to", "label", "replies"), "abcast": ("to", "label", "causal", "replies"), "gbcast": ("group",)}
    table.only(("process", *own[kind], "count", "size", *(("scope",) if wide else ())))
    return Cast(
        process=_process(table, processes),
        casting=parse_casting(table, kind, processes, "group" if kind == "gbcast" else "to", wide=wide),
        count=table.whole("count", 0, _MOST_COUNT) if table.has("count") else 1,
    )


def parse_casting(table: Table, kind: str, processes: Nodes, to: str = "to", *, wide: bool = False) -> Casting:
    """`to`: the key that says to whom. `wide`: there are several clusters."""
    if kind not in _CASTS:
        table.fail("cast", f"expected one of {', '.join(_CASTS)}, not {show(kind)}")
    if kind == "gbcast":
        for key in ("label", "replies"):
            if table.has(key):
                table.fail(key, "expected none: a GBCAST has no label and asks for no replies")
    if kind != "abcast" and table.has("causal"):
        table.fail("causal", f"expected none: it is of an ABCAST, and this is a {kind}")
    whom = _to(table, to, kind, processes)
    scope = _scope(table, kind) if wide else "cluster"
    if scope == "wide" and table.has("causal"):
        table.fail("causal", 'expected none beside scope = "wide": a causal ABCAST stays in its cluster')
    return Casting(
        kind=kind,
        to=whom,
        size=table.whole("size", 0, _LIMITS.payload_bytes) if table.has("size") else 64,
        label=_label(table, kind) if table.has("label") else None,
        causal=table.flag("causal"),
        replies=_replies(table, _LIMITS.destinations if isinstance(whom, str) else len(whom))
        if table.has("replies")
        else 0,
        scope=scope,
    )


def _scope(table: Table, kind: str) -> str:
    if not table.has("scope"):
        return "cluster" if kind == "gbcast" else "wide"
    scope = table.choice("scope", ("wide", "cluster"))
    if kind == "gbcast" and scope == "wide":
        table.fail("scope", 'expected "cluster": a GBCAST stays in its cluster')
    return scope


def _to(table: Table, key: str, kind: str, processes: Nodes) -> str | tuple[str, ...]:
    value = table.content.get(key)
    if kind != "gbcast" and isinstance(value, list):
        names = processes.distinct(table, key)
        if not 0 < len(names) <= _LIMITS.destinations:
            table.fail(key, f"expected a group, or 1 to {_LIMITS.destinations} processes, not {len(names)}")
        return names
    expected = "a group" if kind == "gbcast" else 'a group, or a list of processes such as ["a.x"]'
    return _check_group(table, key, table.text(key, expected))


def _label(table: Table, kind: str) -> Label:
    value = table.content["label"]
    if not isinstance(value, str) and (kind != "cbcast" or not isinstance(value, dict)):
        expected = "text or a table of numbers" if kind == "cbcast" else "text"
        table.fail("label", f"expected a label, which is {expected}, not {show(value)}")
    try:
        labels.check(value)
    except Rejected as error:
        table.fail("label", str(error))
    return value


def _replies(table: Table, most: int) -> int:
    if table.content["replies"] == "all":
        return ALL
    if isinstance(table.content["replies"], str):
        table.fail("replies", f'expected a number or "all", not {show(table.content["replies"])}')
    return table.whole("replies", 0, most)
