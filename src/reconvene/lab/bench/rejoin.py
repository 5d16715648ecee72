"""The log as it grows: the time from a heal until all red messages of a minority are green, the disk and memory that
a message takes, and the time that a site takes to start with a long log.

For comparison: the time that the same bytes take from one process to another over a socket, and to the disk.
"""

import math
import os
import socket
import threading
from pathlib import Path
from time import monotonic, monotonic_ns

from reconvene.lab.bench.durable_disk import folder
from reconvene.lab.bench.durable_own import TURN_TIMEOUT_S, Reconvene, Sites
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number
from reconvene.lab.load.process import end, start

__all__ = ["run"]

COUNTS = (10_000, 100_000, 1_000_000)
QUICK_COUNTS = (10_000, 100_000)
SIZE = 100
_PIECE = 1 << 16
_PATIENCE_S = 600.0


def run(settings: Settings) -> Sheet:
    sheet = Sheet("rejoin")
    counts = QUICK_COUNTS if settings.quick else COUNTS
    lines: list[list[str]] = []
    took_ms: list[float] = []
    with folder() as place, Reconvene().running(place, settings.quick) as sites:
        total = _green(sites)
        before = sites.ask(sites.loads[-1], "status", "status")
        with Foreign(sites.pids) as foreign:
            for turn, count in enumerate(counts):
                settings.progress("heal", turn, len(counts))
                total += count + 1  # and the one that shows that the others order again
                milliseconds = _heal(sites, count, total)
                limit = _copy_ms(place, count * SIZE)
                took_ms.append(milliseconds)
                work = f"heal to all green, {count:,} red of {SIZE} B"
                sheet.add(work, "reconvene", milliseconds, "ms", "socket and disk", milliseconds / limit)
                sheet.add(work, "socket and disk", limit, "ms")
                lines.append([f"{count:,}", number(milliseconds), number(limit), number(milliseconds / limit)])
        after = sites.ask(sites.loads[-1], "status", "status")
        disk = sum(path.stat().st_blocks * 512 for path in (place / "site-2").rglob("*") if path.is_file())
        _add_sizes(sheet, total, disk, before, after)
    sheet.tables.append(
        Table.of(
            "from a heal to all green at all three, by red messages of the one that was cut off",
            ("red", "ms", "socket and disk, ms", "times"),
            lines,
        )
    )
    exponent = math.log(took_ms[-1] / took_ms[0]) / math.log(counts[-1] / counts[0])
    sheet.add("growth: exponent of heal over red messages", "reconvene", exponent, "power")
    sheet.notes.append(f"it grows with the number of red messages to the power of {exponent:.2f}")
    sheet.notes.append(f"other programs used {foreign.cores:.2f} cores meanwhile")
    _start_up(sheet, settings)
    return sheet


def _green(sites: Sites) -> int:
    status = sites.ask(sites.loads[0], "status", "status")["status"]
    assert isinstance(status, dict)
    green = status["green"]
    assert isinstance(green, int)
    return green


def _heal(sites: Sites, count: int, total: int) -> float:
    """The last site accepts so many messages while it is cut off; then all sites have to order them."""
    last = len(sites.loads) - 1
    sites.cut(last)
    sites.ask(sites.loads[0], "latency 1 1", "took")
    sites.ask(sites.loads[last], f"red {count} {SIZE}", "accepted", _PATIENCE_S)
    healed = monotonic_ns()
    sites.heal()
    deadline = monotonic() + _PATIENCE_S
    for load in sites.loads:
        load.say(f"green {total}")
    done = [int(load.hear("at", deadline)["at"]) for load in sites.loads]
    return (max(done) - healed) / 1e6


def _copy_ms(place: Path, count: int) -> float:
    """Copies so many bytes through a socket and to the disk, synced at the end: the least that moving them costs."""
    one, two = socket.socketpair()
    piece = bytes(_PIECE)

    def write() -> None:
        left = count
        while left > 0:
            left -= one.send(piece[: min(left, _PIECE)])
        one.close()

    file = place / "copy"
    begin = monotonic_ns()
    sender = threading.Thread(target=write)
    sender.start()
    with file.open("wb") as out:
        while got := two.recv(_PIECE):
            out.write(got)
        out.flush()
        os.fdatasync(out.fileno())
    sender.join()
    two.close()
    file.unlink()
    return (monotonic_ns() - begin) / 1e6


def _add_sizes(sheet: Sheet, messages: int, disk: int, before: dict[str, object], after: dict[str, object]) -> None:
    grown = _number(after["resident"]) - _number(before["resident"])
    sheet.add(
        f"disk by message of {SIZE} B", "reconvene", disk / messages, "bytes", "its data", disk / messages / SIZE
    )
    sheet.add(f"memory by message of {SIZE} B, once green", "reconvene", grown / messages, "bytes")
    sheet.notes.append(
        f"after {messages:,} messages of {SIZE} B: {disk / messages:.0f} bytes of disk each at a site; its process"
        f" has {_number(after['resident']) / 1e6:.0f} MB, {grown / 1e6:.0f} MB more than at first"
    )


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _start_up(sheet: Sheet, settings: Settings) -> None:
    """The start of a site with a long log, compared with an empty log."""
    count = 100_000 if settings.quick else 1_000_000
    with folder() as place, Reconvene().running(place, settings.quick) as sites:
        sites.ask(sites.loads[0], f"red {count} {SIZE}", "accepted", _PATIENCE_S)
        deadline = monotonic() + _PATIENCE_S
        for load in sites.loads:
            load.say(f"green {count}")
        for load in sites.loads:
            load.hear("at", deadline)
        end(sites.loads)
        opened = []
        for name in ("full", "empty"):
            file = place / "site-0.toml"
            if name == "empty":
                text = file.read_text().replace(f'dir = "{place / "site-0"}"', f'dir = "{place / "none"}"')
                file.write_text(text)
            load = start(name, "reconvene.lab.load.log_site", [str(file)], place / f"start-{name}", None, 0)
            try:
                opened.append(_opened(load.hear("open_ms", monotonic() + TURN_TIMEOUT_S)))
            finally:
                end([load])
    full, empty = opened
    sheet.add(f"start with {count:,} entries", "reconvene", full, "ms", "an empty log", full / empty)
    sheet.add("start with an empty log", "reconvene", empty, "ms")
    sheet.notes.append(f"a site starts in {full:.0f} ms with {count:,} entries, in {empty:.0f} ms with none")


def _opened(line: dict[str, object]) -> float:
    value = line["open_ms"]
    assert isinstance(value, float | int)
    return float(value)
