"""What a site's configuration says of the tree of clusters, and how a gateway's site above is configured."""

from msgspec import structs

from reconvene.domains.author import Limits
from reconvene.domains.tree import Domain, Tree
from reconvene.errors import Rejected
from reconvene.ids import MAX_SITES
from reconvene.runtime.config.settings import (
    Config,
    FaultSettings,
    LogSettings,
    Seal,
    Trace,
)

__all__ = ["limits_of", "tree_of", "upper_config", "upper_name"]


_UNKNOWN = ("",) * MAX_SITES
"""The sites of another cluster: it tells of them by their numbers, and how many it has is not known here."""


def upper_name(config: Config) -> str:
    """The site's name in the cluster above."""
    return f"{config.cluster}.{config.name}"


def tree_of(config: Config, names: tuple[str, ...]) -> Tree:
    """`names`: the cluster's sites by their numbers. Of the other clusters only their gateways are known."""
    domain = config.domain
    assert domain is not None
    gateways: dict[str, list[str]] = {}
    for site in domain.upper.sites:
        cluster, _, name = site.partition(".")
        gateways.setdefault(cluster, []).append(name)
    gateways[config.cluster] = list(domain.gateways)
    return Tree(
        [
            Domain(name, names, domain.gateways, domain.pass_.out, domain.pass_.in_)
            if name == config.cluster
            else Domain(name, _UNKNOWN, tuple(sorted(known)))
            for name, known in sorted(gateways.items())
        ]
    )


def limits_of(config: Config) -> Limits:
    domain = config.domain
    assert domain is not None
    return Limits(messages=domain.backlog, size=domain.backlog_bytes, message_bytes=config.limits.message_bytes)


def upper_config(config: Config) -> Config:
    """Of the gateway's site in the cluster above: a site of its own, with its own storage, socket and keys."""
    domain = config.domain
    assert domain is not None
    upper = domain.upper
    name = upper_name(config)
    if name not in upper.sites:
        raise Rejected(f"domain.upper.sites: missing {name}")
    return Config(
        cluster=upper.cluster,
        name=name,
        sites=upper.sites,
        dir=config.dir / "upper",
        seal=Seal(keys=upper.keys, insecure=config.seal.insecure),
        transport=structs.replace(config.transport, kind="unicast", group=None),
        order=config.order,
        timing=upper.timing,
        limits=config.limits,
        log=LogSettings(enabled=False),
        trace=Trace(
            dir=None if config.trace.dir is None else config.trace.dir / upper.cluster,
            max_bytes=config.trace.max_bytes,
        ),
        logging=config.logging,
        faults=FaultSettings(
            allowed=config.faults.allowed,
            blocked=tuple(site for site in config.faults.blocked if site in upper.sites),
        ),
    )
