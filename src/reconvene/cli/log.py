"""reconvene log: the durable, totally ordered log, from the command line. One file for each of its commands."""

import typer

from reconvene.cli.log_append import append_command
from reconvene.cli.log_check import check_command
from reconvene.cli.log_copy import backup_command, restore_command
from reconvene.cli.log_read import follow_command, read_command
from reconvene.cli.log_replicas import replicas_command
from reconvene.cli.log_snapshot import snapshot_command
from reconvene.cli.log_status import status_command

__all__ = ["log_app"]

log_app = typer.Typer(help="The durable, totally ordered log.", add_completion=False)
log_app.command("append")(append_command)
log_app.command("read")(read_command)
log_app.command("follow")(follow_command)
log_app.command("status")(status_command)
log_app.command("check")(check_command)
log_app.command("snapshot")(snapshot_command)
log_app.command("replicas")(replicas_command)
log_app.command("backup")(backup_command)
log_app.command("restore")(restore_command)
