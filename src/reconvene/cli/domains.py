"""reconvene domains: shows joined clusters."""

from reconvene.cli._cluster import AsJson, Dir, console
from reconvene.cli._domains import domains_document, domains_tree
from reconvene.cli._output import print_json
from reconvene.local import LocalDomains

__all__ = ["domains_command"]


def domains_command(directory: Dir, as_json: AsJson = False) -> None:
    """Show joined clusters: gateways, representatives, wide configurations, and what crosses."""
    document = domains_document(LocalDomains(directory))
    if as_json:
        print_json(document)
    else:
        console().print(domains_tree(document))
