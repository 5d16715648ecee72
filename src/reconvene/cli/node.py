"""reconvene node: one site as a foreground process."""

from functools import partial
from pathlib import Path

import typer
from msgspec import to_builtins

from reconvene.cli._output import print_json
from reconvene.client.source_link import source_dial
from reconvene.errors import Malformed
from reconvene.outpost_site.node import outpost_addresses, run_outpost
from reconvene.runtime.config.file import load
from reconvene.runtime.node.explain import explain, lines
from reconvene.runtime.node.main import run_site
from reconvene.runtime.node.preflight import preflight

__all__ = ["node_command"]


def node_command(
    config: Path = typer.Option(..., "--config", metavar="FILE", help="The site's configuration."),
    check: bool = typer.Option(
        False, "--check", help="Only check the configuration, and print what follows from it."
    ),
    as_json: bool = typer.Option(False, "--json", help="With --check: print one JSON document."),
) -> int:
    """Run one site until SIGTERM or SIGINT. A second signal ends it at once. SIGHUP reads the key files again."""
    told = load(config)
    if not check:
        if as_json:
            raise Malformed("--json: expected --check with it")
        if told.log.outpost:
            return run_outpost(told)
        return run_site(told, partial(load, config), source_dial(told) if told.log.follow else None)
    preflight(told)
    if told.log.outpost:
        addresses = list(map(str, outpost_addresses(told)))
        if as_json:
            print_json({"file": str(config), "ok": True, "outpost": told.name, "follow": addresses})
        else:
            print(
                f"{config}: good\n  outpost {told.name} of cluster {told.cluster} forwards to {', '.join(addresses)}"
            )
        return 0
    found = explain(told)
    if as_json:
        print_json({"file": str(config), "ok": True, **to_builtins(found)})
    else:
        print(f"{config}: good")
        for line in lines(found):
            print(f"  {line}")
    return 0
