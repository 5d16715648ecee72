"""What is shown on the terminal: scenes, each with what happens, why, and a table of the sites; then the verdict.

On a terminal the table of a scene is live until the scene ends; elsewhere it is printed once, at its end. rich
decides about colours: it knows terminals and NO_COLOR. No information is in a colour alone.
"""

import time
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from reconvene.lab.demo.board import SiteRow
from reconvene.lab.demo.result import DemoResult
from reconvene.lab.demo.verdict import conclusion, figures_table, findings_table, places_of, what_next
from reconvene.lab.demo.voters import CANDIDATES

__all__ = ["Stage", "sites_table"]

_WIDE = 100
"""The most columns; also the width if there is no terminal."""
_STATES = {
    "primary": ("counts", "green"),
    "minority": ("takes votes", "yellow"),
    "forming": ("regroups", "cyan"),
    "down": ("killed", "bold red"),
    "silent": ("starts", "red"),
}
_FRAMES_A_SECOND = 6


def sites_table(rows: Sequence[SiteRow]) -> Table:
    """A candidate's cell is the number of counted votes, plus those that are only on this site's disk."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("site", "now", "configuration"):
        table.add_column(column, no_wrap=True)
    for column in (*CANDIDATES, "green", "yellow", "red"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        word, style = _STATES[row.state]
        name, state = Text(row.site, style="bold"), Text(word, style=style)
        if not row.members:
            table.add_row(name, state, "–", *("–" for _ in CANDIDATES), "–", "–", "–")
            continue
        table.add_row(
            name,
            state,
            Text(f"{row.configuration}[{','.join(row.members)}]"),
            *(_cell(row.counted.get(one, 0), row.tentative.get(one, 0)) for one in CANDIDATES),
            Text(str(row.green), style="green"),
            Text(str(row.yellow), style="yellow" if row.yellow else "dim"),
            Text(str(row.red), style="red" if row.red else "dim"),
        )
    return table


def _cell(counted: int, tentative: int) -> Text:
    text = Text(str(counted), style="green")
    if tentative:
        text.append(f"+{tentative}", style="red")
    return text


class Stage:
    """`live`: False for output to a file."""

    def __init__(self, console: Console, live: bool = True) -> None:
        self._console = console
        if not console.is_terminal:
            console.width = _WIDE
        self._began = time.monotonic()
        self._number = 0
        self._live: Live | None = None
        self.moves = live and console.is_terminal
        """Whether tables are live."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def opening(self) -> None:
        self.say("Wiredville elects a mayor.", style="bold")
        self.say(
            "Five polling places: five real processes on this machine, each with files of its own, and one"
            " replicated tally. Voters come to all of them, all the time. A vote is"
        )
        for colour, what in (
            ("green", "counted: it has its place in the one order, the same at every site, for good"),
            ("yellow", "perhaps counted: a majority was counting it, and this site does not know the result"),
            ("red", "accepted: on this site's disk, and sure to be counted; it has no place yet"),
        ):
            self._print(Text.assemble("  ", (f"{colour:<7}", colour), what))

    def note(self, text: str) -> None:
        """A line that is not part of the story."""
        self._print(Text(text, style="dim"))

    def say(self, text: str, style: str = "") -> None:
        self._print(Text(text, style=style))

    def begin(self, title: str) -> None:
        self._number += 1
        at = f"{self.seconds:.0f} s"
        self._print(Text())
        self._print(
            Rule(Text.assemble((f" {self._number}. {title} ", "bold"), (f" {at} ", "dim")), align="left", style="dim")
        )

    def show(self, rows: Sequence[SiteRow], aside: str) -> None:
        """Shows the sites as they are now, and one more line; the next call replaces it."""
        if not self.moves:
            return
        table: list[RenderableType] = [Text(), sites_table(rows)] if rows else []
        picture = Group(*table, Text(aside, style="dim"))
        if self._live is None:
            self._live = Live(picture, console=self._console, refresh_per_second=_FRAMES_A_SECOND, transient=True)
            self._live.start()
        else:
            self._live.update(picture)

    def picture(self, rows: Sequence[SiteRow], aside: str = "") -> None:
        """Prints the table of a scene that has ended."""
        self.still()
        self._print(Text())
        self._print(sites_table(rows))
        if aside:
            self.note(aside)

    def still(self) -> None:
        """Ends the live table."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def verdict(self, outcome: DemoResult) -> None:
        self.still()
        self.begin("The verdict")
        self._print(findings_table(outcome.findings))
        self._print(Text())
        if outcome.figures.votes:
            self._print(figures_table(outcome.figures))
            self._print(Text())
        self.say(*conclusion(outcome))
        for line in places_of(outcome):
            self._wide(line)
        for line in what_next(outcome):
            self.note(line)

    def _wide(self, line: str) -> None:
        """A path or a command: never wrapped."""
        self._console.print(Text(line), soft_wrap=True)

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, width=min(self._console.width, _WIDE))
