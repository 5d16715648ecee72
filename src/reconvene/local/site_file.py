"""The site.toml of each site of a local cluster."""

from collections.abc import Mapping, Sequence

from reconvene.local.layout import Choices, Layout
from reconvene.local.ports import LOOPBACK
from reconvene.local.toml import to_toml

__all__ = ["write_site_file"]


def write_site_file(layout: Layout, choices: Choices, name: str, blocked: Sequence[str]) -> None:
    """Contains the current partition, so that a site that starts follows it from the first moment."""
    document: dict[str, object] = {
        "cluster": choices.cluster,
        "name": name,
        "dir": str(layout.data(name)),
        "sites": {site: f"{LOOPBACK}:{ports.datagrams}" for site, ports in sorted(choices.sites.items())},
        "seal": {"insecure": True} if choices.insecure else {"keys": [str(layout.key)]},
        "order": {"engine": choices.order},
        "clients": {"unix": str(layout.socket(choices, name))},
        "http": {"address": f"{LOOPBACK}:{choices.sites[name].http}"},
        "dashboard": {
            "payloads": True,
            "peers": {
                other: f"{LOOPBACK}:{ports.http}" for other, ports in sorted(choices.sites.items()) if other != name
            },
        },
        "log": {"begin": True},
        "faults": {"allowed": True, "blocked": list(blocked), "record": str(layout.faults)},
    }
    if choices.isis:
        document["isis"] = {"enabled": True}
    if choices.trace:
        document["trace"] = {"dir": str(layout.trace)}
    text = to_toml(_over(document, choices.settings))
    path = layout.config(name)
    path.write_text(f"# Written anew at each start; settings of your own belong into {layout}/cluster.toml.\n{text}")


def _over(document: Mapping[str, object], settings: Mapping[str, object]) -> dict[str, object]:
    """The document, with these settings over what it has."""
    merged = dict(document)
    for key, value in settings.items():
        under = merged.get(key)
        merged[key] = _over(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged
