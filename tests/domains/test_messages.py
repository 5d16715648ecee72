"""Messages of domains from anyone: decoded, or refused with Malformed and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from msgspec.structs import replace

from reconvene.core.effects import Changed, ConfKind, Delivered
from reconvene.domains.author import Limits
from reconvene.domains.events import WideChanged
from reconvene.domains.gateway import Gateway
from reconvene.domains.messages import (
    KINDS,
    UPPER_KINDS,
    Carried,
    Cross,
    Crossing,
    Gone,
    Joined,
    Line,
    Loss,
    Member,
    Message,
    News,
    Port,
    Roster,
    Vote,
    Wide,
    bounded,
    decode,
    encode,
)
from reconvene.domains.port import Site
from reconvene.domains.rules import rules_of
from reconvene.domains.tree import Domain, Tree
from reconvene.errors import Malformed
from reconvene.ids import Service

TREE = Tree([Domain("berlin", ("a", "b"), ("a",)), Domain("paris", ("p",), ("p",))])
WIDE = Wide(1, 2, "bank", True, b"x")
MESSAGES = [
    WIDE,
    Cross(1, [(0, 1, 1)]),
    Port(65_536, ["berlin"], False, 0, rules_of(TREE, "berlin")),
    Line(
        [0],
        [0],
        "",
        0,
        [0],
        [],
        [0, 1],
        [Loss("b", 65_536)],
        [Joined(0, "bank", "a.x")],
        [Carried(0, 1, WIDE)],
    ),
    Member("bank", "a.x", True),
    News(1, [65_536, 1], Roster("berlin", 65_536, 1, [0, 1], [("bank", ["a.x"])], [])),
    Vote(1),
    Gone("a"),
    Crossing("berlin", "65536", 1, 1, False, [Message("a", 1, 1, 2, "bank", b"x")]),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_round_trip(message: Wide) -> None:
    assert decode(encode(message)) == message


@given(
    st.lists(st.tuples(st.integers(0, 2**61), st.text(min_size=1, max_size=256), st.integers(0, 3_000)), max_size=8),
    st.integers(1_000, 10_000),
)
def test_a_line_carries_what_fits_into_a_message(sent: list[tuple[int, str, int]], most: int) -> None:
    carried = [Carried(63, counter, Wide(counter, 3, group, True, bytes(size))) for counter, group, size in sent]
    line = Line([0], [0], "65536", 65_536, [65_536, 1], [], [0, 1], [], [], carried)
    told = bounded(line, most)
    assert len(encode(told)) <= most
    assert told.carried == carried[: len(told.carried)], "the first ones: causes come before effects"
    if len(told.carried) < len(carried):
        one_more = replace(line, carried=carried[: len(told.carried) + 1])
        assert len(encode(one_more)) > most - 56 * len(one_more.carried), "as many as fit"


def test_a_site_says_no_line_that_is_too_large() -> None:
    """More waits to cross than a message of the cluster takes; its author sends the rest again."""
    site = Site(TREE, "berlin", 1, 1, limits=Limits(message_bytes=4_096))
    site.take([Changed(ConfKind.REGULAR, "65537", (1,))])
    line = site.next()
    assert line is not None
    site.sent(line)
    site.take([Delivered("65537", 1, 1, Service.SAFE, 1, [line.payload], (65537, 0, 1))])
    site.wide = replace(site.wide, detached=False)  # a gateway was there
    for counter in range(1, 9):
        wide = Wide(counter, Service.AGREED, "bank", True, bytes(1_000))
        site.take([Delivered("65537", 1, 1, Service.AGREED, 1 + counter, [encode(wide)], (65537, 0, 1 + counter))])
    site.take([Changed(ConfKind.TRANSITIONAL, "65537+131073", (1,)), Changed(ConfKind.REGULAR, "131073", (1,))])
    control = site.next()
    assert control is not None
    assert len(control.payload) <= 4_096
    told = decode(control.payload)
    assert isinstance(told, Line)
    assert [one.wide.counter for one in told.carried] == [1, 2, 3]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=20,
)


@given(st.sampled_from(sorted(KINDS | UPPER_KINDS)), st.binary(max_size=60) | values.map(msgpack.encode))
def test_anything_else_is_malformed(kind: int, body: bytes) -> None:
    payload = bytes((kind,)) + body
    try:
        message = decode(payload)
    except Malformed:
        return
    assert decode(encode(message)) == message


@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), values.map(msgpack.encode)), max_size=20))
def test_a_site_survives_anything(messages: list[tuple[int, bytes]]) -> None:
    site = Site(TREE, "berlin", 1, 1)
    site.take([Changed(ConfKind.REGULAR, "65537", (0, 1))])
    payloads = [bytes((kind,)) + body for kind, body in messages]
    site.take([Delivered("65537", 0, 1, Service.AGREED, 1, payloads, (65537, 0, 1))])
    site.next()
    site.invariants()


@given(st.lists(st.tuples(st.sampled_from(sorted(UPPER_KINDS)), values.map(msgpack.encode)), max_size=20))
def test_a_gateway_survives_anything(messages: list[tuple[int, bytes]]) -> None:
    gateway = Gateway(TREE, "berlin")
    gateway.take([Changed(ConfKind.REGULAR, "65537", (0, 1))])
    payloads = [bytes((kind,)) + body for kind, body in messages]
    gateway.take([Delivered("65537", 1, 1, Service.SAFE, 1, payloads, (65537, 0, 1))])
    gateway.next()


def test_a_gateway_speaks_for_its_own_domain_only() -> None:
    gateway = Gateway(TREE, "berlin")
    gateway.take([Changed(ConfKind.REGULAR, "65537", (1,))])
    seen = gateway.next()
    assert seen is not None
    assert seen[0] is Service.SAFE
    gateway.take([Delivered("65537", 1, 1, Service.SAFE, 1, [seen[1]], (65537, 0, 1))])
    crossing = encode(Crossing("berlin", "65536", 1, 1, False, [Message("a", 1, 1, 2, "bank", b"x")]))
    gateway.take([Delivered("65537", 1, 1, Service.SAFE, 2, [crossing], (65537, 0, 2))])
    assert gateway.malformed == 1
    assert gateway.end == 1, "the configuration alone"
    gateway.take([Delivered("65537", 1, 1, Service.FIFO, 3, [encode(Gone("a"))], None)])
    assert gateway.malformed == 2
    assert gateway.suspects == []


def test_a_site_without_a_gateway_is_in_a_wide_configuration_of_its_own() -> None:
    site = Site(TREE, "berlin", 1, 1)
    site.take([Changed(ConfKind.REGULAR, "65537", (1,))])
    line = site.next()
    assert line is not None
    site.take([Delivered("65537", 1, 1, Service.SAFE, 1, [line.payload], (65537, 0, 1))])
    assert site.events == [WideChanged("berlin/65537", True, ("berlin",), (0,))]


def test_a_line_speaks_only_for_those_that_know_the_same() -> None:
    """Two parts come together and part again from the others before both have said where they are: they stay two."""
    site = Site(TREE, "berlin", 0, 1)
    site.take([Changed(ConfKind.TRANSITIONAL, "65536+131072", (0,)), Changed(ConfKind.REGULAR, "131072", (0, 1))])
    site.take([Changed(ConfKind.TRANSITIONAL, "131072+196608", (0, 1)), Changed(ConfKind.REGULAR, "196608", (0, 1))])
    control = site.next()
    assert control is not None
    line = decode(control.payload)
    assert isinstance(line, Line)
    assert line.members == [0]
