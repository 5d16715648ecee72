"""reconvene node: one site as a foreground process."""

from functools import partial
from pathlib import Path

import typer

from reconvene.errors import Malformed
from reconvene.runtime.config.check_domain import check_together
from reconvene.runtime.config.file import load
from reconvene.runtime.config.settings import Config
from reconvene.runtime.node.main import run_site
from reconvene.runtime.outside import Dial

__all__ = ["node_command"]


def node_command(
    config: Path = typer.Option(..., "--config", metavar="FILE", help="The site's configuration."),
    check: bool = typer.Option(
        False, "--check", help="Only check the configuration, and print what follows from it."
    ),
    as_json: bool = typer.Option(False, "--json", help="With --check: print one JSON document."),
    others: list[Path] = typer.Option(
        [], "--with", metavar="FILE", help="With --check: the file of another site, compared with this one."
    ),
) -> int:
    """Run one site until SIGTERM or SIGINT. A second signal ends it at once. SIGHUP reads key files and certificates
    again."""
    told = load(config)
    if not check:
        for option, given in (("--json", as_json), ("--with", others)):
            if given:
                raise Malformed(f"{option}: expected --check with it")
        if told.log.outpost:
            from reconvene.outpost_site.node import run_outpost  # a site needs nothing of it

            return run_outpost(told)
        return run_site(told, partial(load, config), _dial(config, told))
    check_together([(str(config), told), *((str(other), load(other)) for other in others)])
    _check(told, config, as_json)
    return 0


def _check(told: Config, config: Path, as_json: bool) -> None:
    """Prints what follows from the file."""
    from msgspec import to_builtins

    from reconvene.cli._output import print_json
    from reconvene.outpost_site.node import outpost_addresses
    from reconvene.runtime.node.explain import explain, lines
    from reconvene.runtime.node.preflight import preflight, secret_warnings

    preflight(told)
    _dial(config, told)
    good = {"file": str(config), "ok": True}
    if told.log.outpost:
        addresses, warnings = list(map(str, outpost_addresses(told))), list(secret_warnings(told))
        if as_json:
            print_json({**good, "outpost": told.name, "follow": addresses, "warnings": warnings})
        else:
            print(
                f"{config}: good\n  outpost {told.name} of cluster {told.cluster} forwards to {', '.join(addresses)}"
            )
            for warning in warnings:
                print(f"  warning: {warning}")
        return
    found = explain(told)
    if as_json:
        print_json({**good, **to_builtins(found)})
    else:
        print(f"{config}: good")
        for line in lines(found):
            print(f"  {line}")


def _dial(file: Path, config: Config) -> Dial | None:
    """How a follower connects. Raises Malformed for bad addresses or a bad key; nothing is connected."""
    if not config.log.follow or config.log.outpost:
        return None
    from reconvene.client.source_link import source_dial  # others need nothing of the client

    try:
        return source_dial(config)
    except Malformed as error:
        raise Malformed(f"{file}: {error}") from None
