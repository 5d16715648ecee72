"""A calendar that several people have on their screens: what one of them books, all see at once.

Service: process groups in the manner of ISIS, by a resilient object. Every screen has a copy of the calendar, and so
has a *keeper* beside each site, for the time when no screen is open. To book is an operation: one process decides
whether the hour is free, and all copies change together. If that process or its site dies meanwhile, another one goes
on with it, and the hour is booked once.

In a minority: nothing can be booked: two people could get the same hour. The screen shows what it had, and says that
this may be old. What was typed waits, and is decided when the site is back among the others; then the screen has what
they did meanwhile.

Run it: python examples/shared_calendar.py            it shows by itself what happens when processes are killed
        python examples/shared_calendar.py serve      three sites; it prints what to type in two other terminals
"""

import argparse
import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import reconvene
from reconvene.local import LocalCluster
from reconvene.objects import ResilientObject, Work, change, operation

DAYS = ("mon", "tue", "wed", "thu", "fri")
HOURS = range(9, 18)
CELL = 14
HELP = "DAY HOUR WHAT books, as in: tue 14 lunch.   DAY HOUR - cancels.   q quits."


class Calendar:
    """One week. Each hour belongs to at most one person."""

    def __init__(self) -> None:
        self.booked: dict[str, dict[int, tuple[str, str]]] = {day: {} for day in DAYS}
        """By day and hour: who, and what."""

    @operation(by="day")
    async def book(self, work: Work, day: str, hour: int, who: str, what: str) -> str:
        taken = self.booked[day].get(hour)
        if taken is not None:
            return f"{day} {hour}:00 is taken: {taken[0]}: {taken[1]}"
        work.change(self.write, day, hour, who, what)
        return f"booked: {day} {hour}:00 {what}"

    @operation(by="day")
    async def cancel(self, work: Work, day: str, hour: int, who: str) -> str:
        taken = self.booked[day].get(hour)
        if taken is None or taken[0] != who:
            return f"{day} {hour}:00 is not yours"
        work.change(self.wipe, day, hour)
        return f"cancelled: {day} {hour}:00 {taken[1]}"

    @change
    def write(self, day: str, hour: int, who: str, what: str) -> None:
        self.booked[day][hour] = (who, what)

    @change
    def wipe(self, day: str, hour: int) -> None:
        del self.booked[day][hour]

    def snapshot(self) -> Any:
        return self.booked

    def restore(self, state: Any) -> None:
        self.booked = {day: {hour: (who, what) for hour, (who, what) in state[day].items()} for day in DAYS}


Shared = ResilientObject[Calendar]


def shared(site: reconvene.Site) -> Shared:
    return ResilientObject(site.isis, "calendar", Calendar(), last_to_fail=True)


def week(calendar: Calendar) -> list[str]:
    lines = ["".join([" " * 8, *(day.ljust(CELL + 2) for day in DAYS)]).rstrip()]
    for hour in HOURS:
        cells = []
        for day in DAYS:
            who, what = calendar.booked[day].get(hour, ("", ""))
            cells.append((f"{who}: {what}" if who else "·")[:CELL].ljust(CELL + 2))
        lines.append("".join([f"{hour:5}:00"[-6:], "  ", *cells]).rstrip())
    return lines


class Screen:
    """One person's: what it shows, and what is typed."""

    def __init__(self, who: str, site: reconvene.Site, calendar: Shared) -> None:
        self.who = who
        self.site = site
        self.calendar = calendar
        self.typed = ""
        self.message = HELP

    def lines(self) -> list[str]:
        if self.calendar.is_current:
            where = f"{self.who} at site {self.site.name}, {len(self.calendar.members)} copies"
        else:
            where = f"{self.who}: cut off from the others: this may be old"
        return [f"Shared calendar    {where}", "", *week(self.calendar.copy), "", self.message, f"> {self.typed}"]

    async def enter(self, text: str) -> str:
        """Carries out a line that was typed, and returns what came of it."""
        self.message = f"{text} …"
        try:
            day, hour, *rest = text.split()
            what = " ".join(rest)
            if day not in DAYS or int(hour) not in HOURS or not what:
                raise ValueError(text)
        except ValueError:
            self.message = f"{text!r}: {HELP}"
            return self.message
        if what == "-":
            self.message = await self.calendar.run(Calendar.cancel, day, int(hour), self.who)
        else:
            self.message = await self.calendar.run(Calendar.book, day, int(hour), self.who, what)
        return self.message


# -- the program of a terminal


@contextmanager
def terminal() -> Iterator[None]:
    """Keys come one by one, and the screen is the program's; afterwards it is as before."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    sys.stdout.write("\x1b[?1049h")
    try:
        yield
    finally:
        sys.stdout.write("\x1b[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def draw(lines: list[str]) -> None:
    """The cursor stays behind the last line, where one types."""
    width = os.get_terminal_size(sys.stdout.fileno()).columns
    sys.stdout.write("\x1b[H" + "\r\n".join(f"{line[: width - 1]}\x1b[K" for line in lines) + "\x1b[J\x1b[?25h")
    sys.stdout.flush()


async def sit(who: str, addresses: list[str]) -> None:
    logging.getLogger("reconvene").setLevel(logging.CRITICAL)  # the screen itself says what is the matter
    keys: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    async with reconvene.connect(addresses, wait=10) as site, shared(site) as calendar, asyncio.TaskGroup() as tasks:
        screen = Screen(who, site, calendar)
        with terminal():
            loop.add_reader(
                sys.stdin, lambda: keys.put_nowait(os.read(sys.stdin.fileno(), 1024).decode(errors="replace"))
            )
            drawing = tasks.create_task(redraw(screen))
            try:
                await read_keys(screen, keys, tasks)
            finally:
                loop.remove_reader(sys.stdin)
                drawing.cancel()


async def redraw(screen: Screen) -> None:
    shown: list[str] = []
    while True:
        lines = screen.lines()
        if lines != shown:
            draw(lines)
            shown = lines
        await asyncio.sleep(0.03)


async def read_keys(screen: Screen, keys: asyncio.Queue[str], tasks: asyncio.TaskGroup) -> None:
    while True:
        for key in await keys.get() or "\x04":
            if key in "\x03\x04" or (key in "\r\n" and screen.typed == "q"):
                return
            if key in "\r\n":
                if screen.typed:
                    tasks.create_task(screen.enter(screen.typed))
                screen.typed = ""
            elif key == "\x7f":
                screen.typed = screen.typed[:-1]
            elif key.isprintable():
                screen.typed += key


# -- keepers, and the sites


async def keep(address: str) -> None:
    async with reconvene.connect(address, wait=30) as site, shared(site):
        print("kept", flush=True)
        await asyncio.Event().wait()


class Keeper:
    """A program beside a site."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, __file__, "keep", address]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._said = self.process.stdout
        assert self._said is not None
        self._said.readline()

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()
        if self._said is not None:
            self._said.close()


@contextmanager
def cluster() -> Iterator[tuple[LocalCluster, dict[str, Keeper]]]:
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        sites = stack.enter_context(LocalCluster.create(directory, isis=True))
        sites.start()
        keepers: dict[str, Keeper] = {}
        try:
            for name, address in sites.addresses.items():
                keepers[name] = Keeper(address)
            yield sites, keepers
        finally:
            for keeper in keepers.values():
                keeper.kill()


def serve() -> None:
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # no sites stay behind
    with cluster() as (sites, keepers):
        (a, b, c) = sites.addresses.values()
        print("Type these in two other terminals:")
        print(f"  {sys.executable} {Path(__file__).resolve()} screen ann {a} {b} {c}")
        print(f"  {sys.executable} {Path(__file__).resolve()} screen ben {b} {c} {a}")
        print("and kill what you like, but leave two sites:")
        for name, pid in sites.pids.items():
            print(f"  kill -9 {pid}    site {name}")
            print(f"  kill -9 {keepers[name].process.pid}    the keeper beside it")
        print("Ctrl-C ends all of it.", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print()


# -- by itself


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def use(ann: Screen, ben: Screen, sites: LocalCluster, keepers: dict[str, Keeper]) -> None:
    def shows(text: str) -> bool:
        return all(any(text in line for line in screen.lines()) for screen in (ann, ben))

    print(f"  ann: {await ann.enter('mon 9 dentist')}")
    await until(lambda: shows("ann: dentist"))
    print("  both screens show it")
    await ben.enter("tue 14 lunch")
    print(f"  ann: {await ann.enter('tue 14 meeting')}")
    answers = await asyncio.gather(ann.enter("wed 10 swim"), ben.enter("wed 10 chess"))
    print(f"  both want wed 10:00 at once; booked for {sum('booked' in answer for answer in answers)} of them")

    print("the keeper beside site b is killed")
    keepers["b"].kill()
    print(f"  ben: {await ben.enter('thu 11 haircut')}")
    await until(lambda: len(ann.calendar.members) == 4)

    print("site a is killed, while ann books")
    booking = asyncio.create_task(ann.enter("fri 15 train"))
    await asyncio.sleep(0)
    sites.crash("a")
    print(f"  ann: {await booking}, and is at site {ann.site.name} now")
    await until(lambda: shows("ann: train"))
    print("  both screens show it")

    print("site a is started again, with its keeper, which takes the calendar from the others")
    sites.restart("a")
    keepers["a"].kill()
    keepers["a"] = Keeper(sites.addresses["a"])
    await ben.calendar.ready(60)
    print(f"  ben: {await ben.enter('tue 14 -')}")
    await until(lambda: "ben: lunch" not in "".join(ann.lines()))
    await until(lambda: week(ann.calendar.copy) == week(ben.calendar.copy))
    print("  both screens show the same week")


async def demonstrate() -> None:
    with cluster() as (sites, keepers):
        a, b, c = sites.addresses.values()
        async with AsyncExitStack() as stack:
            screens = []
            for who, addresses in (("ann", [a, b, c]), ("ben", [b, c, a])):
                site = await stack.enter_async_context(reconvene.connect(addresses, wait=10))
                screens.append(Screen(who, site, await stack.enter_async_context(shared(site))))
            await until(lambda: all(len(screen.calendar.members) == 5 for screen in screens))
            print("ann and ben have the calendar on their screens; there are 5 copies")
            await use(screens[0], screens[1], sites, keepers)


def main() -> None:
    parser = argparse.ArgumentParser(description="a calendar on several screens")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("serve", help="three sites, for screens in other terminals")
    keeping = commands.add_parser("keep", help="a copy beside a site")
    keeping.add_argument("address")
    sitting = commands.add_parser("screen", help="the calendar in this terminal")
    sitting.add_argument("who")
    sitting.add_argument("addresses", nargs="+")
    chosen = parser.parse_args()
    try:
        match chosen.command:
            case "serve":
                serve()
            case "keep":
                asyncio.run(keep(chosen.address))
            case "screen":
                if not sys.stdin.isatty():
                    parser.error("screen: a terminal expected")
                asyncio.run(sit(chosen.who, chosen.addresses))
            case _:
                asyncio.run(demonstrate())
    except KeyboardInterrupt:
        pass
    except (reconvene.ReconveneError, ValueError) as error:
        print(f"shared_calendar: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
