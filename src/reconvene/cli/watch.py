"""reconvene watch: shows a running cluster, live."""

import select
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from reconvene.cli._beside import beside_line, beside_table, furthest_green, kind_of, split
from reconvene.cli._cluster import console, health_style, short
from reconvene.cli._rates import rates
from reconvene.cli._shown import readable
from reconvene.cli._target import Key, Look, MaybeDir, Node, Target, Tls
from reconvene.cli._units import parse_seconds
from reconvene.errors import Malformed
from reconvene.local import SiteState

__all__ = ["watch_command"]

_CHANGES = 8
_GROUPS = 8
_FIRST_S = 0.3
"""Time between the first two looks, from which the first rates are computed."""


def watch_command(
    directory: MaybeDir = None,
    node: Node = None,
    key: Key = None,
    tls: Tls = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="How often to look.")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
) -> None:
    """Watch sites live: configurations, health, groups, followers, rates, changes. q or Ctrl-C ends it."""
    every_s = parse_seconds(every, "--every")
    if not 0.05 <= every_s <= 3600:
        raise Malformed(f"--every {every}: expected 50ms to 60min")
    watch = Watch(Target(directory, node, key, tls).look())
    out = console()
    try:
        watch.look()
        if once or not out.is_terminal:
            _lines(watch, every_s, once)
        else:
            _live(watch, out, every_s)
    except KeyboardInterrupt:
        pass  # the usual way to end it


class Watch:
    """The last state of each site, rates since the look before, and recent changes."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.views: list[SiteState] = []
        self.rates: dict[str, dict[str, float]] = {}
        self.changes: deque[tuple[str, Text]] = deque(maxlen=_CHANGES)
        """The last changes: (time of day, what changed)."""

    def look(self) -> None:
        now = self._look()
        self.rates = rates(self.views, now)
        before = {view.name: view for view in self.views}
        alike: dict[str, tuple[list[str], Text]] = {}
        for view in now:
            change = _change(before.get(view.name), view)
            if change is not None:
                alike.setdefault(change.plain, ([], change))[0].append(view.name)
        at = time.strftime("%H:%M:%S")
        for names, change in alike.values():
            self.changes.append((at, Text.assemble((" ".join(names), "bold"), " ", change)))
        self.views = now

    def components(self) -> list[list[SiteState]]:
        """Sites grouped by configuration. A site that reports none comes last, alone."""
        together: dict[str, list[SiteState]] = {}
        for view in split(self.views)[0]:
            key = view.name if view.status is None else f" {view.status['configuration']}"
            together.setdefault(key, []).append(view)
        return sorted(together.values(), key=lambda part: (part[0].status is None, part[0].name))


def _change(before: SiteState | None, now: SiteState) -> Text | None:
    """How a site changed since the look before; None: it did not."""
    if now.status is None:
        if before is None or before.state == now.state:
            return None
        return Text(f"is {now.state}")
    old = None if before is None else before.status
    if old is not None and old["configuration"] == now.status["configuration"]:
        return None
    if kind_of(now) != "site":
        return Text("is up")
    text = _configuration(now.status)
    if old is not None and old["incarnation"] == now.status["incarnation"]:
        more = now.status["configurations"] - old["configurations"] - 1
        if more > 0:
            text.append(f" after {more} more", style="dim")
    return text


def _configuration(status: dict[str, Any]) -> Text:
    return Text(f"{short(status)}[{','.join(status['members'])}]", style=health_style(status["health"]))


def _lines(watch: Watch, every_s: float, once: bool) -> None:
    """For pipes and files: one line per site at each look."""
    pause_s = min(every_s, _FIRST_S)
    while True:
        time.sleep(pause_s)
        pause_s = every_s
        watch.look()
        at = time.strftime("%H:%M:%S")
        for view in watch.views:
            if view.status is None:
                print(f"{at} {view.name} {view.state}", flush=True)
                continue
            if kind_of(view) != "site":
                words = beside_line(view.status["log"], furthest_green(watch.views))
                print(f"{at} {view.name} {view.state} {words}", flush=True)
                continue
            rate = watch.rates.get(view.name, {})
            print(
                f"{at} {view.name} {view.state} {view.status['health']}"
                f" {short(view.status)}[{','.join(view.status['members'])}]"
                f" groups={view.status['group_count']} processes={view.status['processes']}"
                f" sent/s={rate.get('sent', 0):.0f} delivered/s={rate.get('delivered', 0):.0f}"
                f"{_isis_words(view.status.get('isis'), rate)}",
                flush=True,
            )
        if once:
            return


def _live(watch: Watch, out: Console, every_s: float) -> None:
    with _keys() as wait_key, Live(_screen(watch), console=out, screen=True, auto_refresh=False) as live:
        pause_s = min(every_s, _FIRST_S)
        while True:
            due = time.monotonic() + pause_s
            while (left_s := due - time.monotonic()) > 0:
                if wait_key(left_s) in ("q", "Q", "\x03", "\x1b"):
                    return
            pause_s = every_s
            watch.look()
            live.update(_screen(watch), refresh=True)


@contextmanager
def _keys() -> Iterator[Any]:
    """A function that waits for a key press, at most so many seconds. If the input is no terminal, it only waits."""
    if not sys.stdin.isatty():

        def sleep(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield sleep
        return
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)

    def key(seconds: float) -> str:
        ready, _, _ = select.select([handle], [], [], seconds)
        return sys.stdin.read(1) if ready else ""

    try:
        tty.setcbreak(handle)
        yield key
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _screen(watch: Watch) -> Group:
    changes = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for at, change in reversed(watch.changes):
        changes.add_row(Text(at, style="dim"), change)
    return Group(
        _heading(watch),
        *(_component(component, watch.rates) for component in watch.components()),
        *_beside(watch),
        _groups(split(watch.views)[0]),
        *_isis(watch),
        Panel(changes, title="last changes", title_align="left", border_style="dim"),
    )


def _heading(watch: Watch) -> Text:
    sites, beside = split(watch.views)
    statuses = [view.status for view in (*sites, *beside) if view.status is not None]
    cluster = statuses[0]["cluster"] if statuses else "no site is up"
    up = f"{sum(view.status is not None for view in sites)} of {len(sites)} sites up"
    sent = sum(rate["sent"] for rate in watch.rates.values())
    return Text.assemble(
        (f" {cluster} ", "reverse bold"),
        f"  {up}   {sent:,.0f} messages/s sent   ",
        (time.strftime("%H:%M:%S"), "dim"),
        ("   q ends", "dim"),
    )


def _component(component: Sequence[SiteState], grown: dict[str, dict[str, float]]) -> Panel:
    first = component[0].status
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    table.add_column("site", no_wrap=True)
    for column in ("inc", "phase", "sent/s", "delivered/s", "in", "out", "waiting"):
        table.add_column(column, no_wrap=True, justify="left" if column == "phase" else "right")
    table.add_column("round trips, µs", overflow="fold")
    for view in component:
        status, rate = view.status, grown.get(view.name, {})
        if status is None:
            table.add_row(Text(view.name, style="bold red"), "", view.state)
            continue
        trips = {other: us for other, us in status["round_trips_us"].items() if other in status["members"]}
        table.add_row(
            Text(view.name, style="bold"),
            str(status["incarnation"]),
            status["phase"],
            f"{rate.get('sent', 0):,.0f}",
            f"{rate.get('delivered', 0):,.0f}",
            _traffic(rate.get("bytes_in", 0)),
            _traffic(rate.get("bytes_out", 0)),
            f"{status['waiting']['messages']:,}",
            "  ".join(f"{other} {us:,.0f}" for other, us in trips.items()),
        )
    if first is None:
        return Panel(table, title=Text(component[0].state), title_align="left", border_style="red")
    title = Text.assemble(_configuration(first), " ", (first["health"], health_style(first["health"])))
    return Panel(table, title=title, title_align="left", border_style=health_style(first["health"]))


def _beside(watch: Watch) -> list[Panel]:
    beside = split(watch.views)[1]
    if not beside:
        return []
    table = beside_table(beside, furthest_green(watch.views))
    return [Panel(table, title="followers and outposts of the log", title_align="left", border_style="dim")]


def _traffic(rate: float) -> str:
    """Bytes a second, short."""
    for unit in ("B/s", "kB/s", "MB/s"):
        if rate < 1000:
            return f"{rate:.0f} {unit}"
        rate /= 1000
    return f"{rate:.1f} GB/s"


def _groups(views: Sequence[SiteState]) -> Panel:
    """Groups by component, since a group has a view in each."""
    seen: dict[str, list[str]] = {}
    for configuration in {view.status["configuration"]: view.status for view in views if view.status}.values():
        for group in configuration["groups"]:
            seen.setdefault(group["name"], []).append(f"{group['members']} in {short(configuration)}")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, where in sorted(seen.items())[:_GROUPS]:
        table.add_row(Text(name, style="bold"), ", ".join(where))
    if len(seen) > _GROUPS:
        table.add_row("", f"and {len(seen) - _GROUPS} more")
    if not seen:
        table.add_row(Text("none", style="dim"))
    return Panel(table, title="groups, by members", title_align="left", border_style="dim")


def _isis(watch: Watch) -> list[Panel]:
    """Process groups in the manner of ISIS, as the first site that is not blocked knows them."""
    known = {view.name: view.status["isis"] for view in watch.views if view.status and view.status.get("isis")}
    if not known:
        return []
    open_ = [name for name, isis in known.items() if not isis["blocked"]]
    isis = known[open_[0] if open_ else min(known)]
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for group in isis["groups"][:_GROUPS]:
        members = readable(" ".join(group["members"]).encode())
        table.add_row(Text(readable(group["name"].encode()), style="bold"), f"view {group['view']}", members)
    if isis["group_count"] > _GROUPS:
        table.add_row("", f"and {isis['group_count'] - _GROUPS} more")
    if not isis["groups"]:
        table.add_row(Text("none", style="dim"))
    casts = sum(rate.get("casts", 0) for rate in watch.rates.values())
    title = Text.assemble("process groups, by rank", (f"   {casts:,.0f} casts/s{_packed(watch.rates)}", "dim"))
    blocked = sorted(set(known) - set(open_))
    if isis["refused"]:
        title.append(f"   can't be used while these take no part: {' '.join(isis['refused'])}", style="red")
    elif blocked:
        title.append(f"   blocked: {' '.join(blocked)}", style="yellow")
    return [Panel(table, title=title, title_align="left", border_style="dim")]


def _packed(rates: dict[str, dict[str, float]]) -> str:
    packets = sum(rate.get("packets", 0) for rate in rates.values())
    records = sum(rate.get("records", 0) for rate in rates.values())
    return f", {records / packets:.1f} messages a packet" if packets else ""


def _isis_words(isis: dict[str, Any] | None, rate: dict[str, float]) -> str:
    if isis is None:
        return ""
    blocked = " isis=blocked" if isis["blocked"] else ""
    return f" isis_groups={isis['group_count']} casts/s={rate.get('casts', 0):.0f}{blocked}"
