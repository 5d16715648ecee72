"""Ways in which the log could be broken, each tried."""

from copy import deepcopy

import pytest
from msgspec import msgpack
from tests.corel.by_hand import Replicas

from reconvene.core.effects import Delivered
from reconvene.corel.batch import Heading, Kind, encode_batch
from reconvene.corel.keeping import green_batches
from reconvene.corel.keeping.layout import decode_base
from reconvene.corel.messages import (
    CLAIMS,
    ECHO,
    FEED,
    FORCE,
    PRIORITY,
    RED,
    SNAPSHOT,
    STATE,
    Ack,
    Commit,
    Priority,
    Ready,
)
from reconvene.corel.paper import feeding, plan
from reconvene.corel.paper.phases import Phase
from reconvene.errors import Malformed
from reconvene.ids import Service
from reconvene.runtime.log.files import as_another


def test_a_follower_is_fed_in_order_while_its_feeder_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recent at the feeder when it began to read is on stable storage alone when it comes there."""
    monkeypatch.setattr(plan, "FAR", 100)
    monkeypatch.setattr(green_batches, "_MOST", 32)
    monkeypatch.setattr(feeding, "_BYTES", 400)
    replicas = Replicas("abc")
    replicas.view(*"abc")
    replicas.run()
    replicas.view("c")
    replicas.view("a", "b")
    for number in range(150):
        replicas.append("a", f"m{number}")
        replicas.run()
    conf = replicas.view(*"abc")
    replicas.run("a", "b")
    for number in range(150, 300):
        replicas.append("a", f"m{number}")
        replicas.run("a", "b")
        replicas.deliver("c", min(6, len(conf.stream) - conf.places["c"]))
    replicas.run()
    assert replicas.log("c").step == "log: follow"
    assert replicas.green("c") == [f"m{number}" for number in range(300)] == replicas.green("a")


def test_acknowledgements_that_overtake_the_last_commit_count() -> None:
    """They are fifo, and a and b send no others: without them the message would stay yellow at c."""
    replicas = Replicas("abc")
    conf = replicas.view(*"abc")
    for _ in range(20):
        replicas.run("a", "b")
        replicas.deliver_until("c", lambda said: isinstance(said.content, Commit))
    replicas.append("a", "m")
    replicas.run("a", "b")
    assert replicas.log("c").phase is Phase.COMMIT
    place = conf.places["c"]
    conf.stream[place:] = sorted(conf.stream[place:], key=lambda said: not isinstance(said.content, Ack))
    assert isinstance(conf.stream[place].content, Ack)
    replicas.deliver("c")
    assert replicas.queue("c") == "m |  | "


def test_half_of_what_is_green_says_nothing_about_a_yellow_zone_from_before() -> None:
    """x takes some of what abc made green, and is cut off before step 6. It meets y, which alone had committed to an
    earlier primary component, and has other messages yellow in the same places: they may not become green there."""
    replicas = Replicas("abcxy")
    replicas.view(*"abcxy")
    replicas.run()
    replicas.view("c")
    replicas.run()
    replicas.append("c", *(letter * 20_000 for letter in "mno"))
    replicas.view("x")
    replicas.view("y")
    replicas.run()
    replicas.append("y", "p", "q")
    replicas.view("a", "b")
    replicas.run()
    replicas.view(*"aby")
    for _ in range(20):  # y hears that all attempt it; a and b do not
        for name in "ab":
            replicas.deliver_until(name, lambda said: isinstance(said.content, Ready))
        replicas.run("y")
    assert replicas.log("y").phase is Phase.COMMIT
    replicas.view("y")
    replicas.view(*"abc")
    replicas.run()
    replicas.view(*"abcx")
    for _ in range(20):
        replicas.run(*"abc")
        replicas.deliver_until("x", lambda said: isinstance(said.content, Priority))
    replicas.deliver("x", 1)
    ordered = replicas.green("a")
    assert 0 < len(replicas.green("x")) < len(ordered)
    replicas.crash("x")
    replicas.start("x")
    replicas.view(*"abc")
    replicas.view("x", "y")
    replicas.run("x", "y")
    assert replicas.green("x") == ordered[: len(replicas.green("x"))]
    assert replicas.green("y") == []
    assert replicas.yellow("y") == ["p", "q"]
    replicas.append("y", "r")
    replicas.view(*"bcxy")
    replicas.run(*"bcxy")
    assert replicas.green("x") == replicas.green("y") == replicas.green("b") == [*ordered, "r"]


def test_an_older_copy_of_a_replica_is_a_stranger_to_those_who_went_on() -> None:
    """It would use its counters again, for other messages than those that others have under them."""
    replicas = Replicas("abc")
    replicas.view(*"abc")
    replicas.run()
    replicas.append("a", "1")
    replicas.run()
    copy = deepcopy(replicas.tables["a"])
    replicas.append("a", "2", "3")
    replicas.run()
    replicas.crash("a")
    replicas.view("b", "c")
    replicas.run()
    as_another(copy)
    replicas.tables["a"] = copy
    replicas.start("a")
    replicas.view("a")
    replicas.run()
    replicas.append("a", "x", "y")
    replicas.run()
    replicas.view(*"abc")
    replicas.run()
    assert replicas.green("b") == replicas.green("c") == ["1", "2", "3"]
    assert replicas.log("b").participants == ("b", "c")
    assert replicas.log("a").phase is Phase.OUTSIDE
    assert "x" not in replicas.green("a")
    assert replicas.accepted("a")[-2:] == ["x", "y"]


_TEXT = b"\xa1\xff"
"""Of a length, but no UTF-8."""
_BODY = encode_batch(Heading(Kind.DATA, 1, 1, 1, 1, 0), [b"x"])


def _sets() -> list[object]:
    """Malformed replica sets."""
    names = [[0, "a"], [1, "b"], [2, "c"]]
    return [
        [0, 0, names, 3, {"kind": "none"}],
        [0, 0, [], 3, {"kind": "majority"}],
        [0, 0, names, 3, {"kind": "grid", "rows": [["a"], []]}],
        [7, 7, [[0, "a"], [0, "a"]], 3, {"kind": "majority"}],
    ]


def _hostile() -> list[bytes]:
    found = [bytes((kind, 0x92)) + _TEXT + b"\x01" for kind in (ECHO, FEED, STATE, FORCE)]
    found.append(bytes((SNAPSHOT, 0x96, 7)) + _TEXT + b"\xa1x\x01\x01\xc0")
    rows: list[list[object]] = [
        ["a\nb", True, 0, 2, 0, 0, 0], ["x" * 200, True, 0, 2, 0, 0, 0], ["x", True, -1, 2, 0, 0, 0], ["x"],
    ]  # fmt: skip
    tables = [*([row] for row in rows), [["x", True, 0, 2, 0, 0, 0]] * 65]
    found += (bytes((SNAPSHOT,)) + msgpack.encode([5, table]) for table in tables)
    for timestamp in ([-1], [1 << 63], [], [1] * 300):
        item = [[1, 1], 1, timestamp, False, _BODY]
        found.append(bytes((RED,)) + msgpack.encode([[item]]))
        found.append(bytes((PRIORITY,)) + msgpack.encode([0, [item], True]))
        found.append(bytes((CLAIMS,)) + msgpack.encode([[[[1, 1], timestamp]]]))
    for replicas in _sets():
        found.append(bytes((STATE,)) + msgpack.encode([True, b"", replicas, 1, 1, 0, 0, 0, {}, [], {}]))
        found.append(bytes((FORCE,)) + msgpack.encode([replicas]))
    return found


@pytest.mark.parametrize("payload", _hostile(), ids=range(len(_hostile())))
@pytest.mark.parametrize("opened", [False, True])
def test_what_makes_no_sense_is_counted_and_does_no_harm(payload: bytes, opened: bool) -> None:
    replicas = Replicas("abc")
    conf = replicas.view(*"abc")
    if opened:
        replicas.run()
    replica = replicas.log("a")
    replica.take([Delivered(conf.name, 1, 1, Service.AGREED, 1, [payload], (conf.number, 1_000))])
    replicas.run()
    assert replica.malformed == 1
    assert replica.primary


def test_a_base_that_no_storage_can_hold_is_none() -> None:
    sound = {"position": 3, "last_green": {0: 1}, "replicas": [0, 0, [[0, "a"]], 1, {"kind": "majority"}]}
    assert decode_base(msgpack.encode(sound)).position == 3
    for wrong in ({"position": -1}, {"last_green": {-1: 1}}, {"last_green": {1 << 16: 1}}, {"replicas": _sets()[0]}):
        with pytest.raises(Malformed):
            decode_base(msgpack.encode({**sound, **wrong}))
