"""reconvene demo: a network breaks and mends, in virtual time, shown scene by scene and then judged."""

import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import typer
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from reconvene.cli._output import print_json
from reconvene.errors import Malformed
from reconvene.ids import counter_of
from reconvene.sim.conditions import Changes
from reconvene.sim.durations import show_duration
from reconvene.testing.cluster import SimCluster, Violated
from reconvene.testing.service import Configuration, Message
from reconvene.verify.report import Report

__all__ = ["demo_command"]

_NODES = ("p", "q", "r", "s", "t")
_COLOURS = ("cyan", "magenta", "yellow", "green", "bright_blue", "bright_red", "bright_magenta", "bright_cyan")
_FAMILIES = (
    ("evs.1", "what is delivered was sent before, and is delivered once"),
    ("evs.2", "configurations come to all their members, in one way"),
    ("evs.3", "everyone delivers what it sent itself"),
    ("evs.4", "those who go on together have delivered the same"),
    ("evs.5", "causes come before their effects"),
    ("evs.6", "agreed messages have one order, everywhere"),
    ("evs.7", "a safe message that one delivers, all deliver who do not fail"),
    ("evs.primary", "primary components follow each other"),
    ("transis", "a view that one is told of all are told of, if only as hidden"),
    ("to", "timestamps are unique, and prove the order"),
    ("live", "in the end who is connected is together, and all has arrived"),
)
"""Checks by their ids' beginnings, and what they are about."""
_PAUSE_S = 1.2
"""Between scenes, for someone who watches."""


@dataclass(slots=True)
class Scene:
    """One step: what happens, and what each site was told meanwhile."""

    title: str
    network: str
    words: list[str]
    time_ns: int = 0
    told: dict[str, list[Message | Configuration]] = field(default_factory=dict)
    now: dict[str, Configuration] = field(default_factory=dict)


def demo_command(
    seed: int = typer.Option(7, min=0, max=2**63 - 1, metavar="N", help="Chance in the network."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
    svg: Path | None = typer.Option(None, metavar="FILE", help="Save what is shown as a picture, too."),
    wait: bool = typer.Option(True, help="Pause between scenes, on a terminal."),
) -> None:
    """Watch a network break and mend: who is in which configuration, and what is delivered where."""
    cluster = SimCluster(_NODES, seed=seed, latency="2ms", jitter="1ms")
    if as_json:
        raise typer.Exit(_as_json(cluster))
    console = Console(highlight=False, record=svg is not None, width=100 if svg else None)
    painter = Painter(console)
    pause_s = _PAUSE_S if wait and sys.stdout.isatty() else 0.0
    painter.opening()
    for scene in Story(cluster).scenes():
        time.sleep(pause_s)
        painter.scene(scene)
    time.sleep(pause_s)
    report = _judge(cluster)
    painter.verdict(report)
    if svg is not None:
        try:
            svg.write_text(_without_links(console.export_svg(title="reconvene demo")))
        except OSError as error:
            raise Malformed(f"{svg}: --svg: expected a file to write to: {error.strerror or error}") from None
    raise typer.Exit(0 if report.ok else 1)


def _without_links(picture: str) -> str:
    """Rich's pictures load their fonts from the web; one that lies in a repository should stand alone."""
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", picture, flags=re.DOTALL)


def _judge(cluster: SimCluster) -> Report:
    try:
        return cluster.verify()
    except Violated as violated:
        return violated.report


def _as_json(cluster: SimCluster) -> int:
    scenes = [
        {
            "scene": scene.title,
            "time_ns": scene.time_ns,
            "sites": {
                site: {
                    "configuration": scene.now[site].id,
                    "members": list(scene.now[site].members),
                    "delivered": [m.payload.decode() for m in told if isinstance(m, Message)],
                }
                for site, told in scene.told.items()
            },
        }
        for scene in Story(cluster).scenes()
    ]
    report = _judge(cluster)
    print_json({"ok": report.ok, "violated": report.violated(), "scenes": scenes})
    return 0 if report.ok else 1


class Story:
    """Plays the scenes on a cluster. What it says of them beforehand is what the protocol promises."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._seen = dict.fromkeys(cluster.nodes, 0)
        self._sent = dict.fromkeys(cluster.nodes, 0)

    def scenes(self) -> Iterator[Scene]:
        yield self._find_each_other()
        yield self._one_order()
        yield self._break()
        yield self._go_on()
        yield self._break_while_mending()
        yield self._mend()

    def _find_each_other(self) -> Scene:
        self._cluster.wait_together()
        return self._scene(
            "Five sites start and find each other",
            "p q r s t",
            "Each begins in a configuration of its own, and goes on, through a transitional one, into the next:"
            " an agreed set of sites with a number.",
        )

    def _one_order(self) -> Scene:
        for _ in range(2):
            for site in self._cluster.nodes:
                self._send(site, "agreed")
        self._delivered_by_all(10)
        return self._scene(
            "All send at once; all deliver in one order",
            "p q r s t",
            "Agreed messages have one order, and nobody had to ask a leader for it.",
        )

    def _break(self) -> Scene:
        self._cluster.run_for("200ms")  # all is acknowledged, so that r3 leaves at once
        self._send("r", "safe")
        self._cluster.partition(["p", "q"], ["r", "s", "t"])
        self._cluster.wait_together("p", "q")
        self._cluster.wait_together("r", "s", "t")
        return self._scene(
            "r sends a safe message, and the network breaks before p and q have it",
            "p q ┃ r s t",
            "A transitional configuration holds those who go on together from the old one. Safe means that every"
            " member has it: r3 was not safe among five, so it is delivered among the three who all have it.",
        )

    def _go_on(self) -> Scene:
        before = {site: len(self._cluster.deliveries(site)) for site in self._cluster.nodes}
        for site in "ptqs":
            self._send(site, "agreed")
        self._cluster.run_until(
            lambda: all(len(self._cluster.deliveries(s)) == before[s] + 2 for s in self._cluster.nodes)
        )
        return self._scene(
            "Both sides go on working",
            "p q ┃ r s t",
            "Neither waits for the other; each has its own order for what it sends now.",
        )

    def _break_while_mending(self) -> Scene:
        """What p and q say takes long, so that there is a moment at which they have heard all and the others not."""
        cluster = self._cluster
        slow = [(one, other) for one in "pq" for other in "rst"]
        overlay = cluster.sim.overlay("delay", Changes(latency_ns=40_000_000), slow)
        cluster.heal()
        cluster.run_until(lambda: all(len(cluster.configuration(site).members) == len(_NODES) for site in "pq"))
        cluster.partition(["p", "q"], ["r", "s", "t"])
        cluster.sim.lift(overlay)
        self._cluster.wait_together("p", "q")
        self._cluster.wait_together("r", "s", "t")
        return self._scene(
            "It mends, and breaks again before all have met",
            "p q r s t → p q ┃ r s t",
            self._who_installed(),
        )

    def _who_installed(self) -> str:
        """Of the last configuration of all five: by whom it was installed, and for whom it stayed hidden."""
        kinds: dict[str, list[str]] = {"regular": [], "hidden": []}
        for site in self._cluster.nodes:
            whole = [c for c in self._cluster.configurations(site) if len(c.members) == len(_NODES)]
            kinds.setdefault(whole[-1].kind, []).append(site)
        installed = f"{_listed(kinds['regular'])} had just installed a configuration of all five."
        if not kinds["hidden"]:
            return installed
        return (
            f"{installed} {_listed(kinds['hidden'])} had agreed to it, but parted before that, and are told so by a"
            " hidden configuration: never theirs, but perhaps somebody's. From it one can find out which side went"
            " ahead."
        )

    def _mend(self) -> Scene:
        self._cluster.heal()
        self._cluster.wait_together()
        before = {site: len(self._cluster.deliveries(site)) for site in self._cluster.nodes}
        self._send("q", "safe")
        self._send("t", "agreed")
        self._cluster.run_until(
            lambda: all(len(self._cluster.deliveries(s)) == before[s] + 2 for s in self._cluster.nodes)
        )
        self._cluster.settle("2s")
        return self._scene(
            "It mends for good: they reconvene",
            "p q r s t",
            "One configuration again. Who came from where is in the transitional ones before it.",
        )

    def _send(self, site: str, service: str) -> None:
        self._sent[site] += 1
        self._cluster.send(site, f"{site}{self._sent[site]}".encode(), service)

    def _delivered_by_all(self, count: int) -> None:
        self._cluster.run_until(lambda: all(len(self._cluster.deliveries(s)) >= count for s in self._cluster.nodes))

    def _scene(self, title: str, network: str, words: str) -> Scene:
        scene = Scene(title, network, [words], self._cluster.now_ns)
        for site in self._cluster.nodes:
            history = self._cluster.history(site)
            scene.told[site] = history[self._seen[site] :]
            scene.now[site] = self._cluster.configuration(site)
            self._seen[site] = len(history)
        return scene


class Painter:
    """Shows scenes. A configuration keeps its colour throughout, a message its sender's."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._colours: dict[str, str] = {}
        self._number = 0

    def opening(self) -> None:
        self._console.print()
        self._console.print(
            Panel(
                "Five sites in virtual time. Watch in which configuration each of them is, and what is delivered"
                " in it.\n[bold]2p\\[p,q,r][/] is configuration number 2, proposed by p, with these members."
                " Messages are named after their sender: r3 is r's third.",
                title="[bold]reconvene demo[/]",
                border_style="dim",
            )
        )

    def scene(self, scene: Scene) -> None:
        self._number += 1
        console = self._console
        console.print()
        console.print(Rule(Text(f" {self._number}. {scene.title} ", style="bold"), align="left", style="dim"))
        console.print(
            Text.assemble(
                ("  the network  ", "dim"), (scene.network, "bold"), (f"   at {show_duration(scene.time_ns)}", "dim")
            )
        )
        table = Table(box=None, padding=(0, 2), header_style="dim")
        table.add_column("site", justify="right")
        table.add_column("is in")
        table.add_column("was told, in this order", overflow="fold")
        for site, told in scene.told.items():
            now = scene.now[site]
            table.add_row(Text(site, style="bold"), self._configuration(now), self._told(told))
        console.print(table)
        for line in scene.words:
            console.print(Text(line, style="italic"), width=min(console.width, 100))

    def verdict(self, report: Report) -> None:
        console = self._console
        console.print()
        console.print(Rule(Text(" The verdict ", style="bold"), align="left", style="dim"))
        table = Table(box=None, padding=(0, 1), show_header=False)
        for column in ("verdict", "family", "meaning", "cases"):
            table.add_column(column, justify="right" if column == "cases" else "left")
        for family, meaning in _FAMILIES:
            checks = [c for c in report.checks if c.id == family or c.id.startswith(f"{family}.")]
            cases = sum(check.cases for check in checks)
            if any(check.violations for check in checks):
                table.add_row("✗", family, meaning, str(cases), style="bold red")
            elif cases:
                table.add_row(Text("✓", style="bold green"), family, meaning, Text(str(cases), style="dim"))
        console.print(table)
        for check in report.checks:
            for witness in check.witnesses:
                console.print(Text(f"{check.id}: {witness.node}#{witness.n}: {witness.detail}", style="red"))
        looked_at = sum(check.cases > 0 for check in report.checks)
        console.print()
        if report.ok:
            console.print(
                f"[bold green]All holds.[/] {looked_at} properties were checked over {report.events} events, by a"
                " judge that knows the trace and not the program."
            )
            console.print("[dim]Next: reconvene sim scenarios/figure-6.toml --trace out/figure-6[/]")
        else:
            console.print(f"[bold red]Something does not hold:[/] {', '.join(report.violated())}")

    def _told(self, told: list[Message | Configuration]) -> Text:
        text = Text()
        for item in told:
            if text:
                text.append(" ")
            if isinstance(item, Message):
                text.append(item.payload.decode(), style=_COLOURS[_NODES.index(item.sender)])
            else:
                text.append_text(self._configuration(item))
        return text if text else Text("nothing", style="dim")

    def _configuration(self, configuration: Configuration) -> Text:
        members = ",".join(configuration.members)  # without spaces, so that a line does not break within it
        match configuration.kind:
            case "regular":
                return Text(f"{_short(configuration.id)}[{members}]", style=f"bold {self._colour(configuration.id)}")
            case "transitional":
                return Text(f"transitional({members})", style="dim")
            case _:
                return Text(
                    f"hidden {_short(configuration.id)}[{members}]",
                    style=f"reverse {self._colour(configuration.id)}",
                )

    def _colour(self, configuration: str) -> str:
        return self._colours.setdefault(configuration, _COLOURS[len(self._colours) % len(_COLOURS)])


def _short(configuration: str) -> str:
    """A number as people say it: its counter, and who proposed it."""
    number = int(configuration)
    return f"{counter_of(number)}{_NODES[number & 0xFFFF]}"


def _listed(sites: list[str]) -> str:
    return sites[0] if len(sites) == 1 else f"{', '.join(sites[:-1])} and {sites[-1]}"
