"""What watch and listen show, from made-up statuses and events."""

from io import StringIO
from typing import Any

from rich.console import Console

from reconvene.cli._beside import beside_line
from reconvene.cli._cluster import short
from reconvene.cli._rates import rates
from reconvene.cli._shown import readable
from reconvene.cli.listen import Painter, _document
from reconvene.cli.watch import Watch, _screen
from reconvene.client.events import Message, Process, Rejoined, View, ViewId
from reconvene.ids import Service
from reconvene.local import SiteState

A, B = Process("a", 1, 1), Process("b", 1, 4)


def status(name: str, number: int, members: str, **changes: Any) -> dict[str, Any]:
    return {
        "cluster": "made-up",
        "name": name,
        "incarnation": 1,
        "health": "primary",
        "phase": "operational",
        "configuration": str(number),
        "configurations": number >> 16,
        "members": list(members),
        "sites": ["a", "b", "c"],
        "uptime_s": 1.0,
        "processes": 2,
        "groups": [{"name": "lobby", "members": 2, "primary": False}],
        "group_count": 1,
        "waiting": {"messages": 0, "bytes": 0},
        "round_trips_us": {other: 120.0 for other in "abc" if other != name},
        "counters": {"sent_messages": 0, "delivered_messages": 0, "received_bytes": 0, "sent_bytes": 0},
        **changes,
    }


def view(name: str, found: dict[str, Any] | None, state: str = "up") -> SiteState:
    return SiteState(name, state, 1, found)


def test_configurations_as_people_say_them() -> None:
    assert short(status("a", (5 << 16) + 1, "ab")) == "5b"
    assert short(status("a", (5 << 16) + 9, "ab")) == str((5 << 16) + 9)
    assert short({}) == "-"


def test_rates_are_of_one_incarnation() -> None:
    before = [view("a", status("a", 65536, "a")), view("b", status("b", 65536, "b")), view("c", None, "down")]
    grown = {"sent_messages": 50, "delivered_messages": 100, "received_bytes": 2_000, "sent_bytes": 0}
    now = [
        view("a", status("a", 65536, "a", uptime_s=1.5, counters=grown)),
        view("b", status("b", 65536, "b", uptime_s=0.5, incarnation=2, counters=grown)),
        view("c", status("c", 65536, "c")),
    ]
    found = rates(before, now)
    assert list(found) == ["a"]
    assert (found["a"]["sent"], found["a"]["delivered"], found["a"]["bytes_in"]) == (100, 200, 4_000)


def screen(watch: Watch) -> str:
    file = StringIO()
    Console(width=120, file=file).print(_screen(watch))
    return file.getvalue()


def test_what_is_watched() -> None:
    looks = [
        [view(name, status(name, 131072, "abc")) for name in "abc"],
        [
            view("a", status("a", 262144, "a", health="minority")),
            view("b", status("b", 262145, "bc")),
            view("c", None, "down"),
        ],
    ]
    watch = Watch(lambda: looks.pop(0))
    watch.look()
    shown = screen(watch)
    assert "3 of 3 sites up" in shown
    assert "2a[a,b,c] primary" in shown
    assert "b 120" in shown
    watch.look()
    shown = screen(watch)
    assert "2 of 3 sites up" in shown
    assert "4a[a] minority" in shown
    assert "4b[b,c] primary" in shown
    assert "a 4a[a] after 1 more" in shown
    assert "c is down" in shown
    assert "a b c 2a[a,b,c]" in shown, "sites with the same change share a line"
    assert "lobby  2 in 4a, 2 in 4b" in shown
    assert [len(part) for part in watch.components()] == [1, 1, 1]


def isis(blocked: bool, **changes: Any) -> dict[str, Any]:
    group = {"name": "bank\x1b", "view": 4, "members": ["b:1:2", "a:1:7"], "properties": {}}
    return {"blocked": blocked, "refused": [], "groups": [group], "group_count": 1, **changes}


def test_process_groups_are_watched() -> None:
    def looked(cast: int, **changes: Any) -> list[SiteState]:
        counters = {"isis_casts": cast, "isis_channel_packets": cast // 4, "isis_channel_records": cast // 2}
        return [
            view("a", status("a", 262144, "a", isis=isis(True, group_count=9), health="minority")),
            view("b", status("b", 262145, "bc", isis=isis(False, **changes), counters=counters, uptime_s=1 + cast)),
            view("c", status("c", 262145, "bc")),
        ]

    looks = [looked(0), looked(40), looked(80, refused=["c"], groups=[], group_count=0)]
    watch = Watch(lambda: looks.pop(0))
    watch.look()
    watch.look()
    shown = screen(watch)
    assert "process groups, by rank   1 casts/s, 2.0 messages a packet   blocked: a" in shown
    assert "bank\\x1b  view 4  b:1:2 a:1:7" in shown, "as a site that is not blocked knows them"
    watch.look()
    assert "can't be used while these take no part: c" in screen(watch)
    plain = Watch(lambda: [view("a", status("a", 65536, "a"))])
    plain.look()
    assert "process groups" not in screen(plain)


def follower(name: str, green: int, **follow: Any) -> SiteState:
    told = {"source": "b:7", "behind": 0, "refused": {}, "trouble": {}, **follow}
    return view(name, status(name, 65536, name, sites=[name], log={"green": green, "follow": told}))


def outpost(name: str, waiting: int, **changes: Any) -> SiteState:
    log = {"outpost": True, "site": None, "step": "idle", "trouble": "", "waiting": {"messages": waiting}, **changes}
    found = {"cluster": "made-up", "name": name, "incarnation": 3, "health": "outpost", "configuration": ""}
    return view(name, {**found, "uptime_s": 1.0, "counters": {}, "sites": [], "members": [], "log": log})


def test_followers_and_outposts_are_watched() -> None:
    sites = [view(name, status(name, 131072, "abc", log={"green": 1_500})) for name in "abc"]
    cut_off = follower("g", 900, source=None, behind=2, trouble={"b:7": "no connection"})
    beside = [
        follower("f", 1_400, behind=100),
        cut_off,
        SiteState("h", "down", None, None, "follower"),
        outpost("o", 0),
        outpost("p", 12, site="b", step="open"),
        outpost("q", 7, step="resting", trouble="b: refused"),
    ]
    watch = Watch(lambda: [*sites, *beside])
    watch.look()
    assert [len(part) for part in watch.components()] == [3], "they are in no component"
    shown = " ".join(screen(watch).split())
    assert "3 of 3 sites up" in shown
    assert "f follower up 1 1,400 100 - follows b:7" in shown
    assert "g follower up 1 900 600 - reaches none of its sources; no connection" in shown, "it has not heard of more"
    assert "h follower down" in shown
    assert "o outpost up 3 - - 0 has nothing to forward" in shown
    assert "p outpost up 3 - - 12 forwards to b" in shown
    assert "q outpost up 3 - - 7 reaches no site; b: refused" in shown


def test_a_follower_in_words() -> None:
    refused = follower("f", 5, refused={"c:7": "another log"}).status
    assert refused is not None
    assert beside_line(refused["log"], 9) == "follows b:7, 4 messages behind; c:7 is refused: another log"


def test_what_is_heard() -> None:
    painter = Painter()
    message = Message(b"hi", A, Service.SAFE, 7, ViewId(1, 0))
    assert painter._text(message).plain == "a:1:1 safe  hi"
    first = View("regular", ViewId(1, 1), (A,), True, (A,), (), "1")
    assert painter._text(first).plain == "── view a:1:1 primary"
    second = View("regular", ViewId(1, 2), (A, B), False, (B,), (), "1")
    assert painter._text(second).plain == "── view a:1:1 b:1:4 minority · joined b:1:4"
    third = View("transitional", ViewId(1, 2), (A,), False, (), (B,), "1")
    assert painter._text(third).plain == "── transitional view a:1:1 · left b:1:4"
    assert painter._text(Rejoined(B, A, "b")).plain.endswith("connected again to site b, as b:1:4")
    assert _document(message)["text"] == "hi"
    assert _document(Message(b"\xff", A, Service.FIFO, 7, ViewId(1, 0)))["base64"] == "/w=="
    assert _document(second)["joined"] == ["b:1:4"]


def test_nothing_commands_the_terminal() -> None:
    assert readable(b"\x1b[2Jgone\n") == "\\x1b[2Jgone\\n"
    assert readable("schön".encode()) == "schön"
    assert readable(b"\xff\x00") == "\\xff\\x00"
    assert readable(b"x" * 10_000).endswith("x … (10000 bytes)")
