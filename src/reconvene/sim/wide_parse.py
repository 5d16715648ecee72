"""The parts of a scenario file that only stack `wide` has: clusters, and what concerns whole clusters."""

import re

from reconvene.ids import MAX_SITES
from reconvene.sim.fields import Nodes, Table, show
from reconvene.sim.isis_scenario import Watch
from reconvene.sim.wide_scenario import DEFAULT_GROUP, UPPER, DomainPlan, Handover, Split

__all__ = [
    "FAR_VERBS",
    "WIDE_GROUP_VERBS",
    "WIDE_TOP",
    "WIDE_VERBS",
    "needs_wide",
    "parse_between",
    "parse_domains",
    "parse_group",
    "parse_isis",
    "parse_scope",
    "parse_watch",
    "parse_wide_verb",
]

WIDE_TOP = ("domain", "between", "isis")
WIDE_VERBS = ("split", "handover")
WIDE_GROUP_VERBS = ("join", "leave")
"""Which stack isis has too. With `isis = true` stack wide has all of these …"""
FAR_VERBS = ("watch",)
"""… and this."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_EXPECTED = "up to 64 letters, digits, '_' and '-', a letter or digit first"
_SITE_EXPECTED = "up to 64 letters, digits, '.', '_' and '-', a letter or digit first"
_TAKEN = (UPPER, "wide")
_MOST_DOMAINS = MAX_SITES
_MOST_PATTERNS = 256
_SCOPES = ("wide", "cluster")


def needs_wide(table: Table, key: str, stack: str) -> None:
    if stack != "wide":
        table.fail(key, f'expected stack = "wide" in the file, not "{stack}": there is one cluster only')


def parse_domains(top: Table) -> tuple[DomainPlan, ...]:
    """The clusters in the file's order. Raises Malformed where their gateways are more than one cluster can hold."""
    if top.has("nodes"):
        top.fail("nodes", 'expected no nodes beside stack = "wide": each [[domain]] has its own')
    plans: list[DomainPlan] = []
    for table in top.tables("domain"):
        plan = _domain(table)
        if any(plan.name == other.name for other in plans):
            table.fail("name", f"domain {show(plan.name)} stands there twice; expected another name")
        plans.append(plan)
    if not 1 <= len(plans) <= _MOST_DOMAINS:
        top.fail("domain", f"expected 1 to {_MOST_DOMAINS} [[domain]] entries, not {len(plans)}")
    gateways = sum(len(plan.gateways) for plan in plans)
    if gateways > MAX_SITES:
        top.fail("domain", f"expected {MAX_SITES} gateways in all domains together at most, not {gateways}")
    return tuple(plans)


def _domain(table: Table) -> DomainPlan:
    if table.has("upper"):
        table.fail("upper", "expected no third level: all domains are joined by one cluster above them")
    table.only(("name", "nodes", "gateways", "pass"))
    name = table.text("name", 'a name such as "berlin"')
    if not _NAME.fullmatch(name):
        table.fail("name", f"expected a name of {_EXPECTED}, not {show(name)}")
    if name in _TAKEN:
        table.fail("name", f"expected another name than {' and '.join(_TAKEN)}, not {show(name)}")
    sites = _names(table, "nodes")
    if not 1 <= len(sites) <= MAX_SITES:
        table.fail("nodes", f"expected 1 to {MAX_SITES} nodes, not {len(sites)}")
    known = Nodes(sites)
    gateways = known.distinct(table, "gateways")
    if not gateways:
        table.fail("gateways", "expected at least one of the domain's nodes")
    out, into = _passes(table)
    return DomainPlan(name, tuple(sorted(sites)), gateways, out, into)


def _names(table: Table, key: str) -> list[str]:
    names = table.list_of(key, 'a list of names such as ["a", "b", "c"]')
    for place, name in enumerate(names):
        if not isinstance(name, str) or not _SITE.fullmatch(name):
            table.fail(key, f"expected a name of {_SITE_EXPECTED}, not {show(name)}")
        if name in names[:place]:
            table.fail(key, f"node {show(name)} stands there twice; expected it once")
    return names


def _passes(table: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where there is no `pass`, everything passes; where there is one, what it lists."""
    if not table.has("pass"):
        return ("*",), ("*",)
    rules = table.table("pass")
    rules.only(("out", "in"))
    return _patterns(rules, "out"), _patterns(rules, "in")


def _patterns(table: Table, key: str) -> tuple[str, ...]:
    if not table.has(key):
        return ()
    expected = 'a list of groups such as ["bank", "news.*"]'
    patterns = table.list_of(key, expected)
    if len(patterns) > _MOST_PATTERNS:
        table.fail(key, f"expected up to {_MOST_PATTERNS} of them, not {len(patterns)}")
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            table.fail(key, f"expected {expected}, not {show(pattern)} in it")
    return tuple(patterns)


def parse_between(top: Table) -> tuple[Table, int | None]:
    """The network between clusters, and how long a gateway may be silent above; None: as in a cluster."""
    if not top.has("between"):
        return Table(top.file, "between", {}), None
    table = top.table("between")
    if not table.has("patience"):
        return table, None
    patience_ns = table.duration("patience")
    if not 100_000_000 <= patience_ns <= 60_000_000_000:
        table.fail("patience", f"expected 100ms to 1min, not {show(table.content['patience'])}")
    fields = {key: value for key, value in table.content.items() if key != "patience"}
    return Table(table.file, table.place, fields), patience_ns


def parse_group(table: Table) -> str:
    if not table.has("group"):
        return DEFAULT_GROUP
    group = table.text("group", "a group's name")
    if not group or len(group.encode()) > 256 or not group.isprintable():
        table.fail("group", f"expected up to 256 bytes of printable characters, not {show(group)}")
    return group


def parse_scope(table: Table) -> str:
    return table.choice("scope", _SCOPES) if table.has("scope") else "wide"


def parse_isis(top: Table) -> bool:
    """Whether the processes are those of ISIS."""
    return top.flag("isis")


def parse_watch(table: Table, processes: Nodes) -> Watch:
    inner = table.table("watch")
    inner.only(("process", "watched"))
    process = processes.one(inner, "process", inner.text("process", "a process such as berlin/a.x"))
    watched = processes.one(inner, "watched", inner.text("watched", "a process such as paris/p.y"))
    if process.partition("/")[0] == watched.partition("/")[0]:
        inner.fail("watched", f"expected a process of another domain than {show(process)}, not {show(watched)}")
    return Watch(process, watched)


def parse_wide_verb(table: Table, verb: str, domains: Nodes) -> Split | Handover:
    if verb == "split":
        return Split(domains.components(table, "split"))
    return Handover(domains.distinct(table, "handover"))
