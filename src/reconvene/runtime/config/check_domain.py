"""Checks [domain]: a cluster that is joined with others by a cluster above it.

Promised of a configuration that passes: the gateways are sites of the cluster and of the one above, no cluster is
above itself, and the levels share no key file. `check_together` compares the files of several sites. All raise
Malformed, in one line.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES
from reconvene.runtime.config.settings import Config, DomainSettings
from reconvene.units import exact_size

__all__ = ["check_domain", "check_together", "domains_above"]

RESERVED = "wide"
"""A trace of domains has a directory of this name."""

LEAST_MESSAGE = 2 << 20
"""A list of all senders of 64 clusters with 64 sites each fits, with the longest names."""

Fail = Callable[[str, str], NoReturn]


def domains_above(domain: DomainSettings) -> tuple[str, ...]:
    """The clusters that the cluster above joins, sorted."""
    return tuple(sorted({site.partition(".")[0] for site in domain.upper.sites}))


def check_domain(config: Config, fail: Fail) -> None:
    """`fail` raises Malformed for a key and what is wrong with it. The types are checked already."""
    domain = config.domain
    if domain is None:
        return
    if config.log.outpost or config.log.follow:
        fail("domain", "expected none at an outpost or a follower, which is no site of the cluster")
    if "." in config.cluster or config.cluster == RESERVED:
        fail(
            "cluster",
            f"expected a name without '.', and not {RESERVED}, where there is [domain], not {config.cluster!r}",
        )
    if config.limits.message_bytes < LEAST_MESSAGE:
        fail(
            "limits.message_bytes",
            f"expected at least {exact_size(LEAST_MESSAGE)} where there is [domain], not "
            f"{exact_size(config.limits.message_bytes)}: what gateways tell each other has to fit",
        )
    _check_gateways(config, domain, fail)
    _check_upper(config, domain, fail)
    for place, patterns in (("out", domain.pass_.out), ("in", domain.pass_.in_)):
        for pattern in patterns:
            if not pattern:
                fail(f"domain.pass.{place}", 'expected patterns of group names such as "orders*", not an empty one')


def _check_gateways(config: Config, domain: DomainSettings, fail: Fail) -> None:
    if not domain.gateways:
        fail("domain.gateways", "expected at least one site of [sites]")
    for index, name in enumerate(domain.gateways):
        if name not in config.sites:
            fail("domain.gateways", f"{name!r} is not in this cluster; expected sites of [sites]")
        if name in domain.gateways[:index]:
            fail("domain.gateways", f"{name} is named twice")
        if f"{config.cluster}.{name}" not in domain.upper.sites:
            fail("domain.upper.sites", f"missing {config.cluster}.{name}, which domain.gateways names")


def _check_upper(config: Config, domain: DomainSettings, fail: Fail) -> None:
    upper = domain.upper
    if upper.cluster == config.cluster or upper.cluster in domains_above(domain):
        fail("domain.upper.cluster", f"{upper.cluster} would be above itself: a circle; expected another cluster")
    if "." in upper.cluster or upper.cluster == RESERVED:
        fail("domain.upper.cluster", f"expected a name without '.', and not {RESERVED}, not {upper.cluster!r}")
    if not 1 <= len(upper.sites) <= MAX_SITES:
        fail("domain.upper.sites", f"expected 1 to {MAX_SITES} gateways, not {len(upper.sites)}")
    for site in upper.sites:
        cluster, dot, name = site.partition(".")
        if not (cluster and dot and name):
            fail("domain.upper.sites", f"expected names such as {config.cluster}.{config.name}, not {site!r}")
        if cluster == config.cluster and name not in domain.gateways:
            fail("domain.upper.sites", f"{site}: {name} is not in domain.gateways")
    own = set(config.sites.values())
    for site, address in upper.sites.items():
        if address in own:
            fail(f"domain.upper.sites.{site}", "has the address of a site of [sites]; expected another port")
    if set(upper.keys) & set(config.seal.keys):
        fail("domain.upper.keys", "has a key file of seal.keys; expected a key of its own for each level")
    if config.seal.insecure and upper.keys:
        fail("domain.upper.keys", "expected none where seal.insecure is true")
    if not config.seal.insecure and config.is_gateway and not upper.keys:
        fail("domain.upper.keys", "missing; expected key files of the cluster above (reconvene keygen makes one)")


def check_together(configs: Sequence[tuple[str, Config]]) -> None:
    """Do these files, each with its name, belong to one tree of clusters?"""
    above: dict[str, tuple[str, str]] = {}
    first: dict[str, tuple[str, Config]] = {}
    for source, config in configs:
        domain = config.domain
        if domain is None:
            continue
        other, known = first.setdefault(config.cluster, (source, config))
        assert known.domain is not None
        if (domain.pass_, domain.gateways) != (known.domain.pass_, known.domain.gateways):
            what = "gateways" if domain.gateways != known.domain.gateways else "pass"
            raise Malformed(
                f"{source}: domain.{what}: differs from {other}; expected the same at every site of {config.cluster}"
            )
        if domain.upper.cluster == known.domain.upper.cluster and domain.upper.sites != known.domain.upper.sites:
            raise Malformed(f"{source}: domain.upper.sites: differs from {other}; expected the same at every site")
        name, told = above.setdefault(config.cluster, (source, domain.upper.cluster))
        if told != domain.upper.cluster:
            raise Malformed(f"{source}: domain.upper.cluster: {domain.upper.cluster} differs from {told} in {name}")
    for cluster, (source, _) in above.items():
        _check_line(cluster, source, above)


def _check_line(cluster: str, source: str, above: dict[str, tuple[str, str]]) -> None:
    line = [cluster]
    while line[-1] in above:
        line.append(above[line[-1]][1])
        if line[-1] == cluster:
            raise Malformed(f"{source}: domain.upper.cluster: a circle of clusters: {' below '.join(line)}")
        if line[-1] in line[:-1]:
            return  # a circle that this cluster is not in: its members find it
