"""reconvene keygen: makes keys."""

from pathlib import Path
from typing import Annotated

import typer

from reconvene.cli._output import print_json, refuse
from reconvene.runtime.access.key_files import ROLES, add_client_key, write_cluster_key

__all__ = ["keygen_command"]


def keygen_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The key file; only its owner may read it.")],
    client: Annotated[str | None, typer.Option(metavar="NAME", help="Add a key for this client to FILE.")] = None,
    role: Annotated[str | None, typer.Option(metavar="|".join(ROLES), help="The client's role.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing key.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Make a cluster key, which seals the datagrams between sites, or with --client a client key."""
    if client is None:
        if role is not None:
            refuse("--role: expected with --client", as_json)
        key = write_cluster_key(file, force)
        if as_json:
            print_json({"file": str(file), "key": key.id.hex()})
        else:
            print(f"{file}: a new cluster key, {key.id.hex()}; every site of the cluster needs this file")
        return
    if role is None:
        refuse(f"--client {client}: expected with --role {'|'.join(ROLES)}", as_json)
    made = add_client_key(file, client, role, force)
    if as_json:
        print_json({"file": str(file), "client": made.name, "role": made.role})
    else:
        print(f"{file}: a new key for {made.name}, with the role {made.role}")
