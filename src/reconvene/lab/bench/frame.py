"""What a frame costs in the core, without sockets: real sites connected in memory, in one thread.

Every member sends one frame a round and receives those of the others. The cost at a site is the time of its turns
divided by the frames that it handled, its own included: decode, receive, order, deliver, compose, encode. It is
measured twice: one turn for everything that a round brings, and one turn for each datagram, as on an idle network.
`submit` is measured separately. The minimum of many short runs counts: other programs can only add time.
"""

import pstats
from cProfile import Profile
from time import perf_counter_ns

from reconvene.core.options import Options
from reconvene.ids import Service
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number
from reconvene.lab.bench.wired import Wired
from reconvene.wire.codec import decode, encode
from reconvene.wire.messages import Frame

__all__ = ["FRAME_LIMIT_US", "MESSAGE_LIMIT_US", "bare_us", "cost_us", "layers", "run", "submit_us"]

FRAME_LIMIT_US = 20.0
"""A frame, at each site."""
MESSAGE_LIMIT_US = 0.3
"""Each further message in it."""

COUNTS = (1, 10, 100)
MESSAGE_BYTES = 100
STRETCH_FRAMES = 100
"""A few ms: so short that other programs do not interrupt all of them."""


def _payloads(count: int) -> list[bytes]:
    return [b"m" * MESSAGE_BYTES] * count


def cost_us(wired: Wired, count: int, rounds: int, repeat: int, a_turn_each: bool = False) -> float:
    """The cost of a frame of so many messages at each site."""
    payloads = _payloads(count)
    wired.play(payloads, rounds, a_turn_each)
    spent = min(wired.play(payloads, rounds, a_turn_each) for _ in range(repeat))
    frames = rounds * len(wired.sites) ** 2
    wired.settle()
    return spent / frames / 1000


def bare_us(wired: Wired, count: int, rounds: int, repeat: int) -> float:
    """The cost to encode and to decode such a frame."""
    frame = Frame(
        conf=wired.sites[0].current.number,
        sender=0,
        seq=12_345,
        clock=67_890,
        acks=[number for rank in range(1, len(wired.sites)) for number in (rank, 12_345)],
        service=int(Service.AGREED),
        part=0,
        first=54_321,
        messages=_payloads(count),
        dist=0,
        slot=98_765,
    )
    best = 1 << 62
    for _ in range(repeat):
        start = perf_counter_ns()
        for _ in range(rounds):
            decode(encode(frame))
        best = min(best, perf_counter_ns() - start)
    return best / rounds / 1000


def submit_us(wired: Wired, count: int, repeat: int) -> float:
    site, payload, best = wired.sites[0], _payloads(1)[0], 1 << 62
    for _ in range(repeat):
        now = wired.now
        start = perf_counter_ns()
        for _ in range(count):
            site.submit(Service.AGREED, payload, now)
        best = min(best, perf_counter_ns() - start)
        wired.settle()
    return best / count / 1000


def layers(wired: Wired, count: int, rounds: int) -> dict[str, float]:
    """The share of each layer in a frame, from a profiler, which makes calls slower than they are."""
    payloads = _payloads(count)
    profile = Profile()
    wired.play(payloads, rounds, profile=profile)
    spent: dict[str, float] = {}
    stats = pstats.Stats(profile)
    inside = 0.0
    for (file, _, name), (_, _, own, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        layer = _layer_of(file, name)
        if layer is not None:
            spent[layer] = spent.get(layer, 0.0) + own
            inside += own
    wired.settle()
    return {layer: own / inside for layer, own in sorted(spent.items(), key=lambda item: -item[1])}


def _layer_of(file: str, name: str) -> str | None:
    if "wired.py" in file:
        return None  # the benchmark itself
    for layer in ("multicast", "membership", "evs", "order", "wire"):
        if f"/{layer}/" in file:
            return layer
    if file.endswith(("site.py", "changes.py", "outgoing.py")):
        return "site"
    return "wire" if "msgspec" in name else "builtins"


def run(settings: Settings) -> Sheet:
    sheet = Sheet("frame")
    repeat = 40 if settings.quick else 400
    sizes = (2, 3, 5)
    orders = ("atop", "all-ack")
    total = len(orders) * len(sizes)
    lines, submits = [], []
    for place, (order, size) in enumerate((order, size) for order in orders for size in sizes):
        settings.progress(f"{order}, {size} members", place, total)
        wired = Wired(size, Options(order=order))
        rounds = max(4, STRETCH_FRAMES // size**2)
        for each in (False, True):
            mode = "a turn a datagram" if each else "a turn a round"
            costs = [cost_us(wired, count, rounds, repeat, each) for count in COUNTS]
            bares = [bare_us(wired, count, STRETCH_FRAMES, repeat) for count in COUNTS]
            further = (costs[-1] - costs[0]) / (COUNTS[-1] - COUNTS[0])
            work = f"agreed {MESSAGE_BYTES} B, {size} members, {mode}"
            for count, cost, bare in zip(COUNTS, costs, bares, strict=True):
                limit = FRAME_LIMIT_US + MESSAGE_LIMIT_US * (count - 1)
                what = f"{work}: frame of {count}"
                sheet.add(what, order, cost, "µs", f"aim of {limit:g} µs", cost / limit)
                sheet.add(what, order, cost, "µs", f"bare msgspec, {bare:.2f} µs", cost / bare)
            sheet.add(
                f"{work}: each further message", order, further, "µs",
                f"aim of {MESSAGE_LIMIT_US} µs", further / MESSAGE_LIMIT_US,
            )  # fmt: skip
            ratios = (costs[0] / FRAME_LIMIT_US, further / MESSAGE_LIMIT_US, costs[0] / bares[0])
            lines.append(
                [order, str(size), mode, *map(number, costs), number(further), *(f"{ratio:.2f}" for ratio in ratios)]
            )
        if order == "atop":
            took = submit_us(wired, 500, repeat // 10)
            sheet.add(f"submit {MESSAGE_BYTES} B, {size} members", "reconvene", took, "µs")
            submits.append(f"{number(took)} µs ({size} members)")
            if size == 3:
                _profile(sheet, wired, 500)
    columns = (
        "order", "members", "", *(f"frame of {count}, µs" for count in COUNTS), "further message, µs",
        f"of 1 / {FRAME_LIMIT_US:g} µs", f"further / {MESSAGE_LIMIT_US} µs", "of 1 / bare msgspec",
    )  # fmt: skip
    sheet.tables.insert(0, Table.of(f"cost of a frame at each site, messages of {MESSAGE_BYTES} B", columns, lines))
    sheet.notes.append(f"submit: {', '.join(submits)}")
    sheet.notes.append(
        f"the minimum of {repeat} runs of about {STRETCH_FRAMES} frames; frames up to {Wired.FRAME_BYTES} B; "
        "bare msgspec: encoding and decoding the same frame once"
    )
    return sheet


def _profile(sheet: Sheet, wired: Wired, rounds: int) -> None:
    shares = {count: layers(wired, count, rounds) for count in (1, 100)}
    for count, by_layer in shares.items():
        for layer, share in by_layer.items():
            sheet.add(f"share of a frame of {count}, 3 members (profiled)", layer, share * 100, "%")
    names = list(shares[1])
    lines = [[name, *(f"{shares[count].get(name, 0) * 100:.0f} %" for count in (1, 100))] for name in names]
    sheet.tables.append(
        Table.of("where the time goes, atop, 3 members, profiled", ("layer", "frame of 1", "frame of 100"), lines)
    )
