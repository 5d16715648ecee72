"""The site.toml of each site of a local cluster."""

from collections.abc import Mapping, Sequence

from reconvene.local.layout import Choices, Layout
from reconvene.local.ports import LOOPBACK
from reconvene.local.toml import to_toml

__all__ = ["write_site_file"]


def write_site_file(layout: Layout, choices: Choices, name: str, blocked: Sequence[str]) -> None:
    """Contains the current partition, so that a site that starts follows it from the first moment."""
    if name in choices.outposts:
        _write(layout, name, _outpost(layout, choices, name))
        return
    document: dict[str, object] = {
        "cluster": choices.cluster,
        "name": name,
        "dir": str(layout.data(name)),
        "sites": {site: f"{LOOPBACK}:{ports.datagrams}" for site, ports in sorted(choices.sites.items())},
        "seal": {"insecure": True} if choices.insecure else {"keys": [str(layout.key)]},
        "order": {"engine": choices.order},
        "clients": {"unix": str(layout.socket(choices, name))},
        "http": {"address": f"{LOOPBACK}:{choices.ports(name).http}", "api": True},
        "dashboard": {
            "payloads": True,
            "peers": {
                other: f"{LOOPBACK}:{ports.http}" for other, ports in sorted(choices.sites.items()) if other != name
            },
            "beside": {
                other: f"{LOOPBACK}:{ports.http}"
                for other, ports in sorted({**choices.followers, **choices.outposts}.items())
            },
        },
        "log": {"begin": True},
        "faults": {"allowed": True, "blocked": _blocked(choices, name, blocked), "record": str(layout.faults)},
    }
    if name in choices.followers:
        _make_follower(document, layout, choices, name)
    elif choices.isis:
        document["isis"] = {"enabled": True}
    if choices.trace:
        document["trace"] = {"dir": str(layout.trace)}
    _write(layout, name, _over(document, _settings(choices, name)))


def _blocked(choices: Choices, name: str, blocked: Sequence[str]) -> list[str]:
    """With those of the cluster above, at a gateway."""
    domain = choices.settings.get("domain")
    gateways = domain.get("gateways", ()) if isinstance(domain, Mapping) else ()
    return [*blocked, *(choices.blocked_above if name in gateways else ())]


def _write(layout: Layout, name: str, document: Mapping[str, object]) -> None:
    text = to_toml(document)
    path = layout.config(name)
    path.write_text(f"# Written anew at each start; settings of your own belong into {layout}/cluster.toml.\n{text}")


def _outpost(layout: Layout, choices: Choices, name: str) -> dict[str, object]:
    """It begins with another site than the other outposts."""
    turned = sorted(choices.outposts).index(name) % len(choices.names)
    sites = [*choices.names[turned:], *choices.names[:turned]]
    document: dict[str, object] = {
        "cluster": choices.cluster,
        "name": name,
        "dir": str(layout.data(name)),
        "clients": {"unix": str(layout.socket(choices, name))},
        "http": {"address": f"{LOOPBACK}:{choices.outposts[name].http}", "api": True},
        "log": {"outpost": True, "follow": [f"unix:{layout.socket(choices, site)}" for site in sites]},
    }
    if choices.trace:
        document["trace"] = {"dir": str(layout.trace)}
    return document


def _settings(choices: Choices, name: str) -> Mapping[str, object]:
    """What was chosen for every site.toml; who the replicas are is none of a follower's settings."""
    if name not in choices.followers:
        return choices.settings
    found = {key: value for key, value in choices.settings.items() if key not in ("isis", "sites")}
    log = found.get("log")
    if isinstance(log, Mapping):
        found["log"] = {key: value for key, value in log.items() if key not in ("replicas", "quorum", "begin")}
    return found


def _make_follower(document: dict[str, object], layout: Layout, choices: Choices, name: str) -> None:
    """A cluster of its own, of one site. The followers are a tree: each pulls from another one, or, if it
    can't, from the sites."""
    place = sorted(choices.followers).index(name)
    above = [] if place == 0 else [sorted(choices.followers)[(place - 1) // 2]]
    turned = place % len(choices.names)
    sources = [*above, *choices.names[turned:], *choices.names[:turned]]
    document["sites"] = {name: f"{LOOPBACK}:{choices.followers[name].datagrams}"}
    document["dashboard"] = {"payloads": True}
    document["log"] = {"follow": [f"unix:{layout.socket(choices, source)}" for source in sources]}
    document["faults"] = {"allowed": True}


def _over(document: Mapping[str, object], settings: Mapping[str, object]) -> dict[str, object]:
    """The document, with these settings over what it has."""
    merged = dict(document)
    for key, value in settings.items():
        under = merged.get(key)
        merged[key] = _over(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged
