"""reconvene down: stops a local cluster."""

from typing import Annotated

import typer
from rich.console import Console

from reconvene.cli._cluster import AsJson, Dir, console
from reconvene.cli._domains import are_joined
from reconvene.cli._output import print_json
from reconvene.errors import ReconveneError
from reconvene.local import LocalCluster, LocalDomains
from reconvene.trace.domains import read_domains
from reconvene.trace.reader import read_run

__all__ = ["down_command"]


def down_command(
    directory: Dir,
    settle: Annotated[bool, typer.Option("--settle", help="First wait until the cluster is quiet.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop the cluster: every site leaves; a site that does not within 15 s is killed. State and trace stay."""
    if are_joined(directory):
        _down_joined(LocalDomains(directory), settle, as_json)
        return
    cluster = LocalCluster(directory)
    running = list(cluster.pids)
    with Console(stderr=True).status(f"ending {len(running)} sites"):
        if settle and running:
            cluster.settle()
        killed = cluster.stop()
    settled, trouble = _judgeable(cluster)
    if as_json:
        trace = str(cluster.trace_dir) if cluster.choices.trace else None
        print_json({"ended": running, "killed": killed, "trace": trace, "settled": settled})
        return
    out = console()
    out.print(f"{' '.join(running)}: ended" if running else "nothing was running")
    if killed:
        out.print(f"{' '.join(killed)}: did not leave in time and had to be killed", style="yellow")
    if cluster.choices.trace:
        rest = "; the run ended quietly" if settled else ""
        what = trouble or f"trace in {cluster.trace_dir}{rest}: reconvene verify {cluster.trace_dir}"
        out.print(what, soft_wrap=True, style="yellow" if trouble else None)


def _down_joined(domains: LocalDomains, settle: bool, as_json: bool) -> None:
    running = [node for node, state in domains.states().items() if state != "down"]
    with Console(stderr=True).status(f"ending {len(running)} sites"):
        if settle and running:
            domains.settle()
        killed = domains.stop()
    trace = domains.trace_dir if domains.choices.trace else None
    settled = trace is not None and read_domains(trace).settled
    if as_json:
        print_json(
            {
                "ended": running,
                "killed": killed,
                "trace": None if trace is None else str(trace),
                "settled": settled,
            }
        )
        return
    out = console()
    out.print(f"{' '.join(running)}: ended" if running else "nothing was running", soft_wrap=True)
    if killed:
        out.print(f"{' '.join(killed)}: did not leave in time and had to be killed", style="yellow")
    if trace is not None:
        rest = "; the run ended quietly" if settled else ""
        out.print(f"trace in {trace}{rest}: reconvene verify {trace}", soft_wrap=True)


def _judgeable(cluster: LocalCluster) -> tuple[bool, str]:
    """Whether the run ended quietly, and why its trace can't be verified, if it can't. The cluster has stopped in any
    case."""
    try:
        return cluster.choices.trace and read_run(cluster.trace_dir).settled, ""
    except ReconveneError as error:
        return False, str(error)
