"""Scenario files: TOML in, a Scenario out, or one line that says where the file is wrong and what was expected.

Every field is read through a `Table`, which knows its place, so that no message can forget to say where.
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from reconvene.core.options import Limits
from reconvene.corel.limits import LogLimits
from reconvene.corel.replicas.quorum import check_intersects
from reconvene.corel.replicas.sets import MAJORITY
from reconvene.errors import Malformed, Rejected
from reconvene.ids import MAX_SITES, Service
from reconvene.quorum import Spec, make_quorum
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.durations import parse_duration
from reconvene.sim.fields import Nodes, Table, one_line, show
from reconvene.sim.isis_parse import (
    ISIS_LOAD,
    ISIS_VERBS,
    needs_isis,
    parse_casting,
    parse_processes,
    parse_verb,
    process_names,
)
from reconvene.sim.scenario import (
    FAULTS,
    ISIS_FAULTS,
    LIST_FAULTS,
    WIDE_FAULTS,
    AddSites,
    Append,
    ChaosPlan,
    Crash,
    Cut,
    Heal,
    Load,
    Mend,
    NetworkChange,
    Partition,
    Pause,
    RemoveSites,
    Restart,
    Resume,
    Scenario,
    Send,
    Step,
    Verb,
)
from reconvene.sim.timeline import check_timeline
from reconvene.sim.wide_parse import (
    FAR_VERBS,
    WIDE_GROUP_VERBS,
    WIDE_TOP,
    WIDE_VERBS,
    needs_wide,
    parse_between,
    parse_domains,
    parse_group,
    parse_isis,
    parse_scope,
    parse_watch,
    parse_wide_verb,
)
from reconvene.sim.wide_scenario import DomainPlan

__all__ = ["load_scenario", "parse_scenario"]

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_MOST_BYTES = 4 << 20
_MOST_COUNT = 1_000_000
_MOST_REMOTES = 256
_MOST_RATE = 1_000_000.0
_SERVICES = {service.label: service for service in Service}
_SETTLE = "10s"
_TOP = (
    *(
        "name",
        "nodes",
        "sites",
        "followers",
        "outposts",
        "seed",
        "stack",
        "quorum",
        "order",
        "duration",
        "settle",
        "final",
        "final_down",
    ),
    *("network", "link", "process", "at", "load", "chaos"),
    *WIDE_TOP,
)
_NETWORK = ("latency", "jitter", "loss", "duplicate", "reorder", "bandwidth", "mtu")


def load_scenario(path: Path) -> Scenario:
    """Raises Malformed, with one line, where the file can't be read or is no scenario."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Malformed(f"{path}: expected a scenario file: {error.strerror or error}") from None
    if len(content) > _MOST_BYTES:
        raise Malformed(f"{path}: expected a scenario file of {_MOST_BYTES} bytes at most")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"{path}: expected UTF-8, which byte {error.start} is not") from None
    return parse_scenario(text, path)


def parse_scenario(text: str, path: Path) -> Scenario:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"{path}: expected TOML: {one_line(str(error))}") from None
    return _scenario(Table(str(path), "", document), path)


def _scenario(top: Table, path: Path) -> Scenario:
    top.only(_TOP)
    stack = top.choice("stack", ("evs", "corel", "isis", "wide")) if top.has("stack") else "evs"
    domains = _domains(top, stack)
    names = [node for plan in domains for node in plan.nodes] if stack == "wide" else _nodes(top)
    duration_ns = top.duration("duration")
    followers = _remotes(top, "followers", names, stack)
    outposts = _remotes(top, "outposts", [*names, *followers], stack)
    everyone = [*sorted(names), *followers, *outposts]
    nodes = Nodes(everyone)
    chaos = _chaos(top, stack, duration_ns)
    between, patience_ns = parse_between(top)
    isis = parse_isis(top)
    plans = parse_processes(top, Nodes(names), stack, isis)
    processes = process_names(plans)
    scenario = Scenario(
        name=_name(top, path),
        nodes=tuple(sorted(names)),
        seed=top.whole("seed", 0, 2**63 - 1) if top.has("seed") else 0,
        stack=stack,
        order=top.choice("order", ("atop", "all-ack")) if top.has("order") else "atop",
        duration_ns=duration_ns,
        settle_ns=top.duration("settle") if top.has("settle") else parse_duration(_SETTLE),
        final=_final(top, nodes, domains) if top.has("final") else (tuple(everyone),),
        final_down=nodes.distinct(top, "final_down") if top.has("final_down") else (),
        conditions=_changes(top.table("network")).over(Conditions()) if top.has("network") else Conditions(),
        links=_links(top, nodes),
        steps=_steps(top, nodes, Nodes(names), processes, _domain_names(domains), stack, duration_ns, isis),
        loads=tuple(
            _load(table, nodes, Nodes(names), processes, stack, duration_ns, isis) for table in top.tables("load")
        ),
        chaos=chaos,
        quorum=_quorum(top, names, stack),
        processes=plans,
        followers=followers,
        outposts=outposts,
        domains=domains,
        between=_changes(between) if between.content else Changes(),
        patience_ns=patience_ns,
        isis=isis,
        path=path,
        sites=_sites(top, Nodes(names), stack),
    )
    if chaos is None:
        check_timeline(scenario, top.file)
    return scenario


def _domains(top: Table, stack: str) -> tuple[DomainPlan, ...]:
    if stack == "wide":
        return parse_domains(top)
    for key in WIDE_TOP:
        if top.has(key):
            needs_wide(top, key, stack)
    return ()


def _domain_names(domains: tuple[DomainPlan, ...]) -> Nodes:
    return Nodes([plan.name for plan in domains], "domain", "domains", "the [[domain]] entries")


def _final(top: Table, nodes: Nodes, domains: tuple[DomainPlan, ...]) -> tuple[tuple[str, ...], ...]:
    """Of stack wide it lists domains; one that is in no list is alone, with all its nodes."""
    if not domains:
        return nodes.components(top, "final")
    components = _domain_names(domains).components(top, "final")
    named = {name for component in components for name in component}
    components += tuple((plan.name,) for plan in domains if plan.name not in named)
    plans = {plan.name: plan for plan in domains}
    return tuple(tuple(node for name in component for node in plans[name].nodes) for component in components)


def _name(top: Table, path: Path) -> str:
    if not top.has("name"):
        return path.stem
    name = top.text("name")
    if not name or not name.isprintable() or len(name) > 200:
        top.fail("name", f"expected up to 200 printable characters, not {show(name)}")
    return name


def _nodes(top: Table) -> list[str]:
    names = top.list_of("nodes", 'a list of names such as ["p", "q", "r"]')
    if not 1 <= len(names) <= MAX_SITES:
        top.fail("nodes", f"expected 1 to {MAX_SITES} nodes, not {len(names)}")
    _check_names(top, "nodes", names)
    return names


def _sites(top: Table, nodes: Nodes, stack: str) -> tuple[str, ...] | None:
    """The list of sites at the start, if the file gives it."""
    if not top.has("sites"):
        return None
    _needs_list(top, "sites", stack)
    sites = nodes.distinct(top, "sites")
    if not sites:
        top.fail("sites", "expected at least one of the nodes")
    return tuple(sorted(sites))


def _needs_list(table: Table, key: str, stack: str) -> None:
    if stack not in ("evs", "corel"):
        table.fail(
            key, f'expected stack = "evs" or "corel" in the file, not "{stack}": there the list stays as it is'
        )


def _check_names(top: Table, key: str, names: list[str]) -> None:
    for place, name in enumerate(names):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            # A node's name is its trace file's too.
            expected = "up to 64 letters, digits, '.', '_' and '-', a letter or digit first"
            top.fail(key, f"expected a name of {expected}, not {show(name)}")
        if name in names[:place]:
            top.fail(key, f"node {show(name)} stands there twice; expected it once")


def _remotes(top: Table, key: str, taken: list[str], stack: str) -> tuple[str, ...]:
    """Followers or outposts of the log, sorted."""
    if not top.has(key):
        return ()
    _needs_log(top, key, stack)
    names = top.list_of(key, 'a list of names such as ["f", "g"]')
    if len(names) > _MOST_REMOTES:
        top.fail(key, f"expected up to {_MOST_REMOTES} of them, not {len(names)}")
    _check_names(top, key, names)
    for name in names:
        if name in taken:
            top.fail(key, f"{show(name)} is the name of another one already; expected another name")
    return tuple(sorted(names))


def _quorum(top: Table, names: list[str], stack: str) -> Spec:
    if not top.has("quorum"):
        return MAJORITY
    _needs_log(top, "quorum", stack)
    spec = top.table("quorum").content
    try:
        quorum = make_quorum(spec, names)
        check_intersects(quorum, names)
    except (Malformed, Rejected) as error:
        why = str(error).removeprefix("quorum: ")
        top.fail("quorum", why if "expected" in why else f"{why}; expected a quorum of the nodes {', '.join(names)}")
    return quorum.spec()


def _needs_log(table: Table, key: str, stack: str) -> None:
    if stack != "corel":
        table.fail(key, f'expected stack = "corel" in the file, not "{stack}": the durable log is not there')


def _needs_plain(table: Table, key: str, stack: str) -> None:
    if stack == "isis":
        table.fail(key, 'expected stack = "evs" or "corel" in the file, not "isis": there, processes cast')


def _changes(table: Table) -> Changes:
    table.only(_NETWORK)

    def given(key: str, read: Callable[[str], T]) -> T | None:
        return read(key) if table.has(key) else None

    return Changes(
        latency_ns=given("latency", table.duration),
        jitter_ns=given("jitter", table.duration),
        loss=given("loss", lambda key: table.number(key, 0, 1)),
        duplicate=given("duplicate", lambda key: table.number(key, 0, 1)),
        reorder=given("reorder", lambda key: table.number(key, 0, 1)),
        bandwidth_bps=given("bandwidth", table.bandwidth),
        mtu=given("mtu", lambda key: table.whole(key, 0, 1 << 20)),
    )


def _links(top: Table, nodes: Nodes) -> dict[tuple[str, str], Changes]:
    links: dict[tuple[str, str], Changes] = {}
    for table in top.tables("link"):
        table.only(("between", *_NETWORK))
        one, other = sorted(nodes.between(table, "between"))
        if (one, other) in links:
            table.fail("between", f"expected one entry for {show(one)} and {show(other)}")
        fields = {key: value for key, value in table.content.items() if key != "between"}
        links[one, other] = _changes(Table(table.file, table.place, fields))
    return links


def _steps(
    top: Table, nodes: Nodes, sites: Nodes, processes: Nodes, domains: Nodes, stack: str, duration_ns: int, isis: bool
) -> tuple[Step, ...]:
    """`nodes`: all that crash and part; `sites`: those of them that are sites."""
    steps: list[Step] = []
    for table in top.tables("at"):
        time_ns = table.duration("time")
        if time_ns > duration_ns:
            table.fail("time", f"expected a time within duration, not {show(table.content['time'])}")
        steps.append(Step(time_ns, _verb(table, nodes, sites, processes, domains, stack, isis), table.place))
    return tuple(sorted(steps, key=lambda step: step.time_ns))


_VERBS = (
    *("partition", "heal", "cut", "mend", "crash", "restart", "pause", "resume", "network", "send"),
    *("append", "add", "remove"),
    *ISIS_VERBS,
    *WIDE_VERBS,
    *FAR_VERBS,
)


def _verb(table: Table, nodes: Nodes, sites: Nodes, processes: Nodes, domains: Nodes, stack: str, isis: bool) -> Verb:
    table.only(("time", *_VERBS))
    verbs = [verb for verb in _VERBS if table.has(verb)]
    if len(verbs) != 1:
        found = " and ".join(verbs) or "none"
        table.fail("", f"expected one verb of {', '.join(_VERBS)}, not {found}")
    match verbs[0]:
        case "partition":
            return Partition(nodes.components(table, "partition"))
        case "heal":
            if table.content["heal"] is not True:
                table.fail("heal", f"expected true, not {show(table.content['heal'])}")
            return Heal()
        case "cut":
            return Cut(nodes.pairs(table, "cut"))
        case "mend":
            return Mend(nodes.pairs(table, "mend"))
        case "crash":
            return Crash(nodes.distinct(table, "crash"))
        case "restart":
            return Restart(nodes.distinct(table, "restart"))
        case "pause":
            return Pause(nodes.distinct(table, "pause"))
        case "resume":
            return Resume(nodes.distinct(table, "resume"))
        case "network":
            return NetworkChange(_changes(table.table("network")))
        case "send":
            _needs_plain(table, "send", stack)
            return _send(table.table("send"), sites, stack)
        case "append":
            _needs_log(table, "append", stack)
            return _append(table.table("append"), nodes)
        case ("add" | "remove") as verb:
            _needs_list(table, verb, stack)
            return (AddSites if verb == "add" else RemoveSites)(sites.distinct(table, verb))
        case ("split" | "handover") as verb:
            needs_wide(table, verb, stack)
            return parse_wide_verb(table, verb, domains)
        case "watch":
            if not isis:
                needs_wide(table, "watch", stack)
                needs_isis(table, "watch", stack)
            return parse_watch(table, processes)
        case verb:
            if not isis and (stack != "wide" or verb not in WIDE_GROUP_VERBS):
                needs_isis(table, verb, stack)
            return parse_verb(table, verb, processes, wide=isis)


def _send(table: Table, nodes: Nodes, stack: str) -> Send:
    table.only(("node", "service", "count", "size", *_WIDE_SEND))
    _check_wide_send(table, stack)
    return Send(
        node=nodes.one(table, "node", table.text("node", "a node")),
        service=_service(table),
        count=table.whole("count", 0, _MOST_COUNT) if table.has("count") else 1,
        size=_size(table),
        group=parse_group(table),
        scope=parse_scope(table),
    )


_WIDE_SEND = ("group", "scope")


def _check_wide_send(table: Table, stack: str) -> None:
    for key in _WIDE_SEND:
        if table.has(key):
            needs_wide(table, key, stack)


def _append(table: Table, nodes: Nodes) -> Append:
    table.only(("node", "count", "size"))
    return Append(
        node=nodes.one(table, "node", table.text("node", "a node")),
        count=table.whole("count", 0, _MOST_COUNT) if table.has("count") else 1,
        size=_append_size(table),
    )


def _append_size(table: Table) -> int:
    return table.whole("size", 0, LogLimits().message_bytes) if table.has("size") else 64


def _service(table: Table) -> Service:
    return _SERVICES[table.choice("service", tuple(_SERVICES))] if table.has("service") else Service.AGREED


def _size(table: Table) -> int:
    return table.whole("size", 0, Limits().message_bytes) if table.has("size") else 64


def _load(
    table: Table, nodes: Nodes, sites: Nodes, processes: Nodes, stack: str, duration_ns: int, isis: bool
) -> Load:
    table.only(("nodes", "service", "append", "rate", "size", "from", "until", *ISIS_LOAD, *_WIDE_SEND))
    _check_wide_send(table, stack)
    if stack == "isis" or (isis and table.has("processes")):
        return _isis_load(table, processes, stack, duration_ns)
    for key in ISIS_LOAD:
        if table.has(key):
            needs_isis(table, key, stack)
    appends = table.has("append")
    if appends:
        _needs_log(table, "append", stack)
        if table.content["append"] is not True:
            table.fail("append", f"expected true, not {show(table.content['append'])}")
        if table.has("service"):
            table.fail("service", "expected no service beside append")
    from_ns, until_ns = _window(table, duration_ns)
    return Load(
        nodes=(nodes if appends else sites).distinct(table, "nodes"),
        service=None if appends else _service(table),
        rate=table.number("rate", 0, _MOST_RATE),
        size=_append_size(table) if appends else _size(table),
        from_ns=from_ns,
        until_ns=until_ns,
        group=parse_group(table),
        scope=parse_scope(table),
    )


def _isis_load(table: Table, processes: Nodes, stack: str, duration_ns: int) -> Load:
    for key in ("nodes", "service", *(() if stack == "isis" else ("group",))):
        if table.has(key):
            _needs_plain(table, key, "isis")
    if table.has("append"):
        _needs_log(table, "append", stack)
    from_ns, until_ns = _window(table, duration_ns)
    kind = table.text("cast", "one of cbcast, abcast, gbcast")
    casting = parse_casting(table, kind, processes, wide=stack == "wide")
    return Load(
        nodes=(),
        service=None,
        rate=table.number("rate", 0, _MOST_RATE),
        size=casting.size,
        from_ns=from_ns,
        until_ns=until_ns,
        processes=processes.distinct(table, "processes"),
        casting=casting,
    )


def _chaos(top: Table, stack: str, duration_ns: int) -> ChaosPlan | None:
    if not top.has("chaos"):
        return None
    table = top.table("chaos")
    table.only(("from", "until", "faults", "mean_gap"))
    known = {"isis": ISIS_FAULTS, "wide": WIDE_FAULTS}.get(stack, LIST_FAULTS)
    expected = f"a list of faults of {', '.join(known)}"
    faults = table.list_of("faults", expected) if table.has("faults") else list(FAULTS[:5])
    if not faults:
        table.fail("faults", f"expected {expected}, not an empty one")
    for fault in faults:
        if fault not in known:
            table.fail("faults", f"expected {expected}, not {show(fault)}")
    from_ns, until_ns = _window(table, duration_ns)
    mean_gap_ns = table.duration("mean_gap") if table.has("mean_gap") else parse_duration("500ms")
    if mean_gap_ns < 1_000:
        table.fail("mean_gap", "expected a duration of 1us or more")
    return ChaosPlan(from_ns, until_ns, tuple(faults), mean_gap_ns)


def _window(table: Table, duration_ns: int) -> tuple[int, int]:
    """`from` and `until`; what lies beyond the scenario's duration is cut off."""
    from_ns = table.duration("from") if table.has("from") else 0
    until_ns = table.duration("until") if table.has("until") else max(from_ns, duration_ns)
    if until_ns < from_ns:
        table.fail("until", f"expected a time not before from, not {show(table.content['until'])}")
    return from_ns, min(until_ns, duration_ns)
