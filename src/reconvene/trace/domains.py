"""Traces of domains: a tree of clusters, each with a trace of its own, and what passes between them.

    DIR/domains.json               what the tree is, and how the run ended
    DIR/DOMAIN/                    the trace of each domain, of those above others too
    DIR/wide/run.json              stack `wide`; its nodes are DOMAIN/SITE, of all domains that have none below
    DIR/wide/DOMAIN/SITE.jsonl     the events of layer `wide` at that site

A site's `n` counts over its two files, DIR/DOMAIN/SITE.jsonl and DIR/wide/DOMAIN/SITE.jsonl, so that the rows of both
have one order. The domain above others has the sites DOMAIN.SITE, one for each of their gateways.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct, field

from reconvene.errors import Malformed
from reconvene.trace.events import Int, Row, Run
from reconvene.trace.reader import Trace, check_schema, read_file, read_trace
from reconvene.trace.writer import RUN_FILE, encode_document, write_trace

__all__ = [
    "DOMAINS_FILE",
    "WIDE_DIR",
    "Domain",
    "Domains",
    "Pass",
    "Tree",
    "WideTrace",
    "check_domains",
    "check_nodes",
    "encode_domains",
    "is_wide",
    "level_name",
    "matches",
    "read_domains",
    "read_wide_trace",
    "refuse_wide",
    "upper_site",
    "wide_node",
    "write_domains",
    "write_wide_trace",
]

DOMAINS_FILE = "domains.json"
WIDE_DIR = "wide"


class Pass(Struct, kw_only=True, rename={"into": "in"}):
    """Which groups pass a domain's border: patterns, in which `*` stands for any characters."""

    out: list[str] = field(default_factory=list)
    into: list[str] = field(default_factory=list)


class Domain(Struct, kw_only=True, rename={"passes": "pass"}):
    name: str
    nodes: list[str]
    gateways: list[str] = field(default_factory=list)
    """In configured order."""
    upper: str | None = None
    """The domain above. None: this is the root."""
    passes: Pass | None = None
    """None: nothing passes."""


class Domains(Struct, kw_only=True):
    """domains.json."""

    schema: int
    run: str
    seed: Int
    settled: bool
    components: list[list[str]]
    """The domains that were connected while the run settled. A domain in none of them was alone."""
    down: list[str]
    """DOMAIN/SITE of the sites that were down at the end."""
    domains: list[Domain]


_DOMAINS = msgspec.json.Decoder(Domains)


def wide_node(domain: str, site: str) -> str:
    """A site's name in the layer `wide`."""
    return f"{domain}/{site}"


def upper_site(domain: str, site: str) -> str:
    """A gateway's name in the domain above."""
    return f"{domain}.{site}"


def matches(patterns: Iterable[str], group: str) -> bool:
    """Does one of the patterns match the whole name?"""
    return any(re.fullmatch(".*".join(map(re.escape, each.split("*"))), group, re.DOTALL) for each in patterns)


class Tree:
    """What domains.json says of the domains, by name."""

    def __init__(self, domains: Iterable[Domain]) -> None:
        self.domains = {domain.name: domain for domain in domains}
        self._passing: dict[tuple[str, str, str], bool] = {}

    @cached_property
    def leaves(self) -> list[str]:
        """The domains that have none below, by name: their sites are the nodes of the layer `wide`."""
        above = {domain.upper for domain in self.domains.values()}
        return sorted(name for name in self.domains if name not in above)

    @cached_property
    def nodes(self) -> list[str]:
        """The nodes of the layer `wide`, sorted."""
        return sorted(wide_node(leaf, site) for leaf in self.leaves for site in self.domains[leaf].nodes)

    def below(self, name: str) -> list[Domain]:
        return [domain for domain in self.domains.values() if domain.upper == name]

    def line(self, name: str) -> list[str]:
        """The domain, and those above it up to the root."""
        found = []
        at: str | None = name
        while at is not None:
            found.append(at)
            at = self.domains[at].upper
        return found

    def lets_out(self, group: str, origin: str) -> bool:
        """Does a message to this group leave the domain at all?"""
        domain = self.domains[origin]
        return domain.upper is not None and matches((domain.passes or Pass()).out, group)

    def passes(self, group: str, origin: str, to: str) -> bool:
        """Does a message to this group pass from one domain to the other, by the rules of all borders on its way?"""
        key = (group, origin, to)
        if key not in self._passing:
            up, down = self.line(origin), self.line(to)
            self._passing[key] = all(
                matches(rules.out if name in up else rules.into, group)
                for name in set(up) ^ set(down)
                for rules in (self.domains[name].passes or Pass(),)
            )
        return self._passing[key]


def level_name(run: str, domain: str) -> str:
    """What the run of one domain is called where all are judged together."""
    return f"{run}/{domain}"


def is_wide(directory: Path) -> bool:
    """Is this a trace of domains?"""
    return (directory / DOMAINS_FILE).exists()


def refuse_wide(directory: Path, what: str) -> None:
    """Raises `Malformed` for a trace of domains, where only one of a single cluster will do."""
    if is_wide(directory):
        name = read_domains(directory).domains[0].name
        raise Malformed(f"{directory}: is a trace of domains; {what} takes one of them, such as {directory / name}")


# -- writing --------------------------------------------------------------------------------------------------------


def encode_domains(domains: Domains) -> bytes:
    return encode_document(domains)


def write_domains(directory: Path, domains: Domains) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / DOMAINS_FILE).write_bytes(encode_domains(domains))


class WideTrace(Struct):
    """A whole trace of domains in memory."""

    domains: Domains
    levels: dict[str, Trace]
    """The trace of each domain, by name."""
    wide: Trace


def write_wide_trace(
    directory: Path,
    domains: Domains,
    levels: Mapping[str, tuple[Run, Mapping[str, Iterable[Row]]]],
    wide: tuple[Run, Mapping[str, Iterable[Row]]],
) -> None:
    """Writes it all. domains.json comes last: a directory whose writing was cut short is no trace."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / DOMAINS_FILE).unlink(missing_ok=True)
    for name, (run, rows) in levels.items():
        write_trace(directory / name, run, rows)
    write_trace(directory / WIDE_DIR, *wide)
    write_domains(directory, domains)


# -- reading --------------------------------------------------------------------------------------------------------


def read_wide_trace(directory: Path) -> WideTrace:
    """May raise Malformed."""
    domains = read_domains(directory)
    levels = {domain.name: read_trace(directory / domain.name) for domain in domains.domains}
    trace = WideTrace(domains, levels, read_trace(directory / WIDE_DIR, wide=True))
    for domain in domains.domains:
        check_nodes(directory / domain.name / RUN_FILE, levels[domain.name].run, domain.nodes)
    check_nodes(directory / WIDE_DIR / RUN_FILE, trace.wide.run, Tree(domains.domains).nodes)
    return trace


def read_domains(directory: Path) -> Domains:
    """May raise Malformed."""
    path = directory / DOMAINS_FILE
    data = read_file(path)
    check_schema(path, data)
    try:
        domains = _DOMAINS.decode(data)
        check_domains(domains)
    except (Malformed, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"{path}: {error}") from None
    return domains


def check_nodes(path: Path, run: Run, nodes: Iterable[str]) -> None:
    """Has the trace of a domain, or the wide one, the nodes that domains.json says?"""
    expected, found = set(nodes), set(run.nodes)
    for node in sorted(expected ^ found):
        where = "it lacks" if node in expected else "it has"
        raise Malformed(f"{path}: `nodes` differs from {DOMAINS_FILE}: {where} {node}")


def check_domains(domains: Domains) -> None:
    """Is it one tree? Raises `Malformed` where it contradicts itself."""
    tree = Tree(domains.domains)
    if not domains.domains or len(tree.domains) != len(domains.domains):
        raise Malformed("`domains` expected to name each domain once, and at least one")
    for domain in domains.domains:
        _check_domain(domain, tree)
    roots = sorted(name for name, domain in tree.domains.items() if domain.upper is None)
    if len(roots) != 1:
        raise Malformed(f"`domains` expected to have one root, a domain without `upper`; found {len(roots)}")
    for name in tree.domains:
        _check_line(name, tree)
    for domain in domains.domains:
        _check_sites(domain, tree)
    connected = [name for component in domains.components for name in component]
    for name in connected:
        if name not in tree.domains:
            raise Malformed(f"`components` names {name}, which is not in `domains`")
    if len(set(connected)) != len(connected):
        raise Malformed("`components` expected to name a domain once at most")
    sites = {wide_node(domain.name, site) for domain in domains.domains for site in domain.nodes}
    for node in domains.down:
        if node not in sites:
            raise Malformed(f"`down` names {node}, which is no DOMAIN/SITE of `domains`")


def _check_domain(domain: Domain, tree: Tree) -> None:
    name = domain.name
    if not name or "/" in name or "\0" in name or name.startswith(".") or name == WIDE_DIR:
        raise Malformed(f"`domains` has {name!r}; expected a name that can name a directory, other than {WIDE_DIR}")
    for what, sites in (("nodes", domain.nodes), ("gateways", domain.gateways)):
        if len(set(sites)) != len(sites):
            raise Malformed(f"domain {name}: `{what}` expected to name each site once")
    for site in domain.nodes:
        if not site or "/" in site or site.startswith("."):
            raise Malformed(f"domain {name}: `nodes` has {site!r}; expected a name that can name a file")
    for site in domain.gateways:
        if site not in domain.nodes:
            raise Malformed(f"domain {name}: `gateways` names {site}, which is not in its `nodes`")
    if domain.upper is not None and domain.upper not in tree.domains:
        raise Malformed(f"domain {name}: `upper` is {domain.upper}, which is not in `domains`")


def _check_line(name: str, tree: Tree) -> None:
    seen = {name}
    at = tree.domains[name].upper
    while at is not None:
        if at in seen:
            raise Malformed(f"domain {name}: `upper` expected to lead to the root; it leads back to {at}")
        seen.add(at)
        at = tree.domains[at].upper


def _check_sites(domain: Domain, tree: Tree) -> None:
    below = tree.below(domain.name)
    if not below:
        if not domain.nodes:
            raise Malformed(f"domain {domain.name}: `nodes` expected to name at least one site")
        return
    expected = {upper_site(each.name, site) for each in below for site in each.gateways}
    for site in sorted(expected ^ set(domain.nodes)):
        what = "lacks" if site in expected else "has"
        raise Malformed(
            f"domain {domain.name}: `nodes` {what} {site}; expected DOMAIN.SITE for each gateway of the domains below"
        )
