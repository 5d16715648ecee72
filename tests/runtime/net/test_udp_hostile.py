"""Recordings, forgeries and floods are counted, logged now and then, and have no effect."""

import asyncio
import logging
import random
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.net.transports import LOOPS, Lines, Net, Node, drops, run, until

from reconvene.runtime.net.refusals import EVERY_S, SOURCES, Refusals
from reconvene.runtime.net.seal_sessions import (
    CHALLENGE_EVERY_S,
    CHALLENGE_LIFE_S,
    REFUSED_PREFIXES,
    STRANGERS_A_SECOND,
    STRANGERS_A_SECOND_AND_SITE,
    SealSessions,
)
from reconvene.site_list import first_list
from reconvene.wire.seal import ClusterKey, Kind, Reason, Sealer

KEY = ClusterKey(b"k" * 32)
PLACES = dict(enumerate([("192.0.2.1", 7), ("192.0.2.2", 7), ("192.0.2.3", 7)]))
LIST = first_list(3, "abc")


def listen(node: Node) -> list[bytes]:
    """Records everything that the node sends from now on, as an eavesdropper would."""
    heard: list[bytes] = []
    inner = node.udp._socket

    class Tapped:
        def sendto(self, packet: bytes, address: object) -> int:
            heard.append(packet)
            return inner.sendto(packet, address)  # type: ignore[call-overload, no-any-return]

        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

    node.udp._socket = Tapped()  # type: ignore[assignment]
    return heard


async def handled(node: Node, before: int, count: int) -> None:
    await until(lambda: node.count("received_datagrams") >= before + count, "for datagrams to be read")


def test_a_replay_to_a_running_site(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            tape = listen(a)
            a.udp.send([((1,), b"%d" % number) for number in range(20)])
            await until(lambda: len(b.got) == 20)
            for packet in tape * 3:
                net.throw(packet, b)
            await until(lambda: b.count("dropped_replay") == 60)
            assert len(b.got) == 20
            (line,) = b.lines.of("dropped_replay")
            assert line["source"] == f"127.0.0.1:{net.wire.getsockname()[1]}"

    run(work())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_replay_to_a_site_that_restarted(tmp_path: Path, loop: str) -> None:
    """Neither what a living site sent before, nor what an earlier boot of it sent, gets in again: greetings, answers
    and all."""

    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = net.node("a"), net.node("b")
            tape = listen(a)
            a.start()
            b.start()
            await until(lambda: a.knows(1) and b.knows(0))
            a.udp.send([((1,), b"old boot")])
            await until(lambda: b.got == [b"old boot"])
            a.udp.close()
            living = net.node("a")
            tape_of_living = listen(living)
            living.start()
            await until(lambda: living.knows(1) and b.count("sessions") == 2)
            living.udp.send([((1,), b"living")])
            await until(lambda: b.got == [b"old boot", b"living"])
            b.udp.close()

            again = net.node("b")
            again.start()
            old, recent = list(tape), list(tape_of_living)
            for packet in (old + recent) * 3:
                net.throw(packet, again)
                await asyncio.sleep(0.002)
            await until(lambda: again.knows(0))
            for packet in (old + recent) * 3:
                net.throw(packet, again)
                await asyncio.sleep(0.002)
            living.udp.send([((1,), b"new")])
            await until(lambda: again.got == [b"new"])
            assert again.count("sessions") == 1, "it stays with the living one"
            assert again.count("dropped_replay") > 0
            assert again.count("dropped_unverified") > 0

    run(work(), loop)


def test_a_recording_of_a_site_that_is_gone(tmp_path: Path) -> None:
    """No site answers the challenge, so no session is accepted."""

    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = net.node("a"), net.node("b")
            tape = listen(a)
            a.start()
            b.start()
            await until(lambda: a.knows(1) and b.knows(0))
            a.udp.send([((1,), b"recorded")])
            await until(lambda: b.got == [b"recorded"])
            a.udp.close()
            b.udp.close()
            again = net.node("b")
            again.start()
            for _ in range(50):
                for packet in tape:
                    net.throw(packet, again)
                await asyncio.sleep(0.001)
            await handled(again, 0, 50 * len(tape))
            assert again.got == []
            assert not again.knows(0)
            assert len(again.sessions._challenges) == 1

    run(work())


def test_a_site_with_the_name_of_this_one(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, _ = await net.up()
            net.throw(Sealer("shop", 0, [net.key]).seal(b"I am a"), a)
            await until(lambda: a.count("dropped_same_name") == 1)
            assert "in the name of this site, a" in a.lines.of("dropped_same_name")[0]["why"]

    run(work())


def rubbish(net: Net, tape: Sequence[bytes]) -> dict[str, tuple[str | None, Callable[[int], bytes]]]:
    """Datagrams of strangers, and the counter of each; None: it varies."""
    rng = random.Random(5)
    foreign, keyless = Sealer("ship", 0, [net.key]), Sealer("shop", 0, [])
    other, old = Sealer("shop", 0, [ClusterKey(b"?" * 32)]), Sealer("shop", 0, [net.key])
    return {
        "random": (None, lambda n: rng.randbytes(n % 1400)),
        "truncated": (None, lambda n: tape[n % len(tape)][: n % 48]),
        "foreign": ("dropped_foreign_cluster", lambda n: foreign.seal(b"x" * 100)),
        "not sealed": ("dropped_unsealed", lambda n: keyless.seal(b"x" * 100)),
        "unknown key": ("dropped_unknown_key", lambda n: other.seal(b"x" * 100)),
        "replayed": ("dropped_replay", lambda n: tape[n % len(tape)]),
        "old boot": ("dropped_unverified", lambda n: old.seal(b"x" * 100)),
        "forged salt": ("dropped_bad_seal", lambda n: old.prefix[:12] + rng.randbytes(160)),
        "forged": ("dropped_bad_seal", lambda n: tape[0][:24] + (10**9 + n).to_bytes(8, "big") + rng.randbytes(100)),
        "no such site": ("dropped_other_sites", lambda n: old.prefix[:3] + b"\x3f" + old.seal(bytes(60))[4:]),
    }


def test_a_flood_of_rubbish(tmp_path: Path) -> None:
    """100,000 datagrams of every kind and many sources: each is counted, memory and log stay small, and what the site
    is told meanwhile arrives."""

    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            tape = listen(a)
            a.udp.send([((1,), b"taken %d" % number) for number in range(10)])
            await until(lambda: len(b.got) == 10)
            kinds = [make for _, make in rubbish(net, list(tape)).values()]
            sources = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(300)]
            try:
                await flood(a, b, kinds, sources)
            finally:
                for source in sources:
                    source.close()
            told = sum(name.startswith("dropped_") for name, _ in b.lines.lines)
            assert 0 < told <= SOURCES
            assert len(b.refusals._told) <= SOURCES
            assert len(b.sessions._ways) == 1
            assert len(b.sessions._sessions) == 1
            assert len(b.sessions._challenges) <= 1

    async def flood(
        a: Node, b: Node, kinds: Sequence[Callable[[int], bytes]], sources: Sequence[socket.socket]
    ) -> None:
        total, step = 100_000, 500
        sent = 10
        settled = 0
        for begin in range(0, total, step):
            before = b.count("received_datagrams")
            for number in range(begin, begin + step):
                sources[number % 300].sendto(kinds[number % len(kinds)](number), b.address)
            if begin % 1000 == 0:
                a.udp.send([((1,), b"taken %d" % sent)])
                sent += 1
            await handled(b, before, step + (begin % 1000 == 0))
            if begin == total // 5:
                settled = sys.getallocatedblocks()
        grown = sys.getallocatedblocks() - settled
        await until(lambda: len(b.got) == sent)
        assert b.got == [b"taken %d" % number for number in range(sent)]
        assert sum(drops(b).values()) == total
        assert grown < 3_000, f"{grown} blocks of memory more after it than a fifth into it"

    run(work(), "uvloop")


@pytest.mark.parametrize(
    "kind", ["foreign", "not sealed", "unknown key", "replayed", "old boot", "forged salt", "forged", "no such site"]
)
def test_each_kind_of_rubbish_is_counted_as_what_it_is(tmp_path: Path, kind: str) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            tape = listen(a)
            a.udp.send([((1,), b"taken")])
            await until(lambda: b.got == [b"taken"])
            reason, make = rubbish(net, list(tape))[kind]
            before = b.count("received_datagrams")
            for number in range(10):
                net.throw(make(number), b)
            await handled(b, before, 10)
            assert reason is not None
            assert drops(b) == {reason: 10}
            assert len(b.lines.of(reason)) == 1

    run(work())


class Bench:
    """Sessions of site b without sockets: sent packets are kept, and the test sets the time."""

    def __init__(self, keys: Sequence[ClusterKey] = (KEY,)) -> None:
        self.now = 100.0
        self.posted: list[tuple[int, bytes]] = []
        self.lines = Lines()
        log = logging.Logger("bench", logging.DEBUG)
        log.addHandler(self.lines)
        self.refusals = Refusals(log, lambda: self.now)
        self.sealer = Sealer("shop", 1, keys)
        self.sessions = SealSessions(
            "shop", LIST, PLACES, keys, self.sealer, self.refusals,
            lambda site, packet: self.posted.append((site, packet)), log, lambda: self.now,
        )  # fmt: skip

    def open(self, packet: bytes, source: tuple[str, int] = ("127.0.0.1", 9)) -> bytes | None:
        return self.sessions.open(memoryview(packet), source)

    def count(self, reason: Reason) -> int:
        return self.refusals.counters()[reason.value]


def introduce(one: Bench, other: Sealer) -> None:
    """`other` answers the challenges of `one`, as its own sessions would."""
    sessions = SealSessions(
        "shop", LIST, PLACES, [KEY], other, one.refusals, lambda s, p: answers.append(p), one.sessions._log
    )
    answers: list[bytes] = []
    one.open(other.seal(b"who I am"))
    site, challenge = one.posted.pop()
    assert site == other.site
    assert sessions.open(memoryview(challenge), ("127.0.0.1", 8)) is None
    assert one.open(answers[0]) is None


def test_a_refused_prefix_is_remembered_for_as_long_as_the_keys() -> None:
    """Every datagram counts, each source is logged, and a new key changes the answer."""
    bench, later = Bench(), ClusterKey(bytes(32))
    stranger = Sealer("shop", 0, [later])
    for number in range(3):
        assert bench.open(stranger.seal(b"x"), ("127.0.0.1", number)) is None
    assert bench.count(Reason.UNKNOWN_KEY) == 3
    assert len(bench.lines.of(Reason.UNKNOWN_KEY)) == 3
    bench.sessions.use([KEY, later])
    introduce(bench, Sealer("shop", 0, [KEY]))
    assert bench.open(stranger.seal(b"x")) is None
    assert bench.count(Reason.UNKNOWN_KEY) == 3
    assert bench.count(Reason.UNVERIFIED) >= 1


def test_a_flood_of_new_prefixes_takes_no_more_memory() -> None:
    bench = Bench()
    for number in range(REFUSED_PREFIXES + 10):
        packet = Sealer("other", 0, [KEY], salt=number.to_bytes(12)).seal(b"x")
        assert bench.open(packet) is None
    assert bench.count(Reason.FOREIGN_CLUSTER) == REFUSED_PREFIXES + 10
    assert 0 < len(bench.sessions._refused) <= REFUSED_PREFIXES


def test_what_passes_at_times_is_not_remembered_as_refused() -> None:
    """A datagram that is blocked, repeated, damaged or not verified says nothing about the next one."""
    bench = Bench()
    site = Sealer("shop", 0, [KEY])
    introduce(bench, site)
    packet = site.seal(b"data")
    damaged = packet[:-1] + bytes([packet[-1] ^ 1])
    assert [bench.open(damaged), bench.open(packet), bench.open(packet)] == [None, b"data", None]
    bench.sessions.deaf = frozenset({0})
    assert bench.open(site.seal(b"lost")) is None
    bench.sessions.deaf = frozenset()
    assert bench.open(site.seal(b"more")) == b"more"
    assert bench.count(Reason.REPLAY) == bench.count(Reason.BAD_SEAL) == bench.count(Reason.BLOCKED) == 1


def test_a_challenge_is_asked_now_and_then_and_not_for_ever() -> None:
    bench = Bench()
    stranger = Sealer("shop", 0, [KEY])
    for _ in range(100):
        assert bench.open(stranger.seal(b"x")) is None
    assert len(bench.posted) == 1
    assert bench.count(Reason.UNVERIFIED) == 100
    bench.now += 2 * CHALLENGE_EVERY_S
    bench.open(Sealer("shop", 0, [KEY]).seal(b"x"))
    first = bench.sessions._challenges[0].data
    assert len(bench.posted) == 2
    bench.now += CHALLENGE_LIFE_S
    bench.open(stranger.seal(b"x"))
    assert bench.sessions._challenges[0].data != first


def test_an_answer_counts_once_and_in_time() -> None:
    bench = Bench()
    site = Sealer("shop", 0, [KEY])
    bench.open(site.seal(b"x"))
    challenge = bench.sessions._challenges[0].data
    roster = bench.sessions._roster
    for wrong in (b"", bytes(16) + roster, challenge[:15], challenge):
        assert bench.open(site.seal_control(Kind.ANSWER, wrong)) is None
    assert (bench.sessions.opened, bench.count(Reason.UNVERIFIED), bench.count(Reason.OTHER_SITES)) == (0, 4, 1)
    bench.now += CHALLENGE_LIFE_S
    bench.open(site.seal_control(Kind.ANSWER, challenge + roster))
    assert bench.sessions.opened == 0
    bench.open(site.seal(b"x"))
    challenge = bench.sessions._challenges[0].data
    old = Sealer("shop", 0, [KEY])
    bench.open(site.seal_control(Kind.ANSWER, challenge + roster + b"of a later version"))
    assert bench.sessions.opened == 1
    bench.open(old.seal_control(Kind.ANSWER, challenge + roster))
    assert bench.sessions.opened == 1
    assert bench.open(site.seal(b"in")) == b"in"


def test_an_answer_of_another_site_is_none() -> None:
    bench = Bench()
    bench.open(Sealer("shop", 0, [KEY]).seal(b"x"))
    challenge = bench.sessions._challenges[0].data
    bench.open(Sealer("shop", 2, [KEY]).seal_control(Kind.ANSWER, challenge + bench.sessions._roster))
    assert bench.sessions.opened == 0


def test_a_challenge_or_an_answer_never_reaches_the_core() -> None:
    bench = Bench()
    site = Sealer("shop", 0, [KEY])
    introduce(bench, site)
    assert bench.open(site.seal(b"data")) == b"data"
    for kind in (Kind.CHALLENGE, Kind.ANSWER):
        packet = site.seal_control(kind, bytes(24))
        assert bench.open(packet[:0] + bytes([packet[0] & 0xF8]) + packet[1:]) is None, "the kind is under the seal"
        assert bench.open(packet) is None
    assert bench.count(Reason.BAD_SEAL) == 2


def test_a_new_session_replaces_the_old_one() -> None:
    bench = Bench()
    old, new = Sealer("shop", 0, [KEY]), Sealer("shop", 0, [KEY])
    introduce(bench, old)
    assert bench.open(old.seal(b"old")) == b"old"
    bench.now += 1
    introduce(bench, new)
    assert bench.open(new.seal(b"new")) == b"new"
    assert bench.open(old.seal(b"late")) is None
    assert len(bench.sessions._ways) == len(bench.sessions._sessions) == 1


def test_unknown_sessions_are_opened_up_to_a_rate() -> None:
    """A flood of new salts from other addresses does not use up the limit of a site that starts."""
    bench = Bench()
    many = STRANGERS_A_SECOND + 50
    for _ in range(many):
        forged = Sealer("shop", 0, [KEY]).seal_control(Kind.CHALLENGE, bytes(16))
        bench.open(forged[:-1] + bytes([forged[-1] ^ 1]))
    assert (bench.count(Reason.BAD_SEAL), bench.count(Reason.UNVERIFIED)) == (STRANGERS_A_SECOND, 50)
    assert bench.posted == []
    bench.open(Sealer("shop", 0, [KEY]).seal_control(Kind.CHALLENGE, bytes(16)))
    assert bench.posted == []
    bench.open(Sealer("shop", 0, [KEY]).seal_control(Kind.CHALLENGE, bytes(16)), PLACES[0])
    assert len(bench.posted) == 2, "an answer and a challenge"
    for _ in range(STRANGERS_A_SECOND_AND_SITE + 50):
        bench.open(Sealer("shop", 0, [KEY]).seal_control(Kind.CHALLENGE, bytes(16)), PLACES[0])
    assert len(bench.posted) == STRANGERS_A_SECOND_AND_SITE + 1
    bench.now += 1
    bench.open(Sealer("shop", 0, [KEY]).seal_control(Kind.CHALLENGE, bytes(16)))
    assert len(bench.posted) == STRANGERS_A_SECOND_AND_SITE + 3


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "c", "b", "foreign", "plain"]),
            st.sampled_from(Kind),
            st.binary(max_size=60),
            st.dictionaries(st.integers(0, 107), st.integers(0, 255), max_size=3),
            st.integers(0, 200),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_whatever_comes_open_never_raises(
    packets: list[tuple[str, Kind, bytes, dict[int, int], int]], sealed: bool
) -> None:
    bench = Bench((KEY,) if sealed else ())
    senders = {
        "a": Sealer("shop", 0, [KEY]), "c": Sealer("shop", 2, [KEY]), "b": Sealer("shop", 1, [KEY]),
        "foreign": Sealer("ship", 0, [KEY]), "plain": Sealer("shop", 0, []),
    }  # fmt: skip
    if sealed:
        introduce(bench, senders["c"])
    for who, kind, data, flips, length in packets:
        packet = bytearray(senders[who].seal_control(kind, data))
        for place, value in flips.items():
            if place < len(packet):
                packet[place] = value
        for given_ in (bytes(packet), bytes(packet[:length]), data):
            taken = bench.open(given_)
            assert taken is None or isinstance(taken, bytes)
            assert not (sealed and who not in ("c",) and taken is not None)
    assert len(bench.sessions._ways) <= 3
    assert len(bench.sessions._challenges) <= 3


def test_lines_are_few_whatever_the_sources() -> None:
    bench = Bench()
    for port in range(10_000):
        bench.refusals.note(Reason.MALFORMED, ("192.0.2.1", port), "not ours")
    assert len(bench.lines.lines) == SOURCES
    assert bench.count(Reason.MALFORMED) == 10_000
    bench.now += EVERY_S
    bench.refusals.note(Reason.MALFORMED, ("192.0.2.1", 0), "not ours")
    bench.refusals.note(Reason.REPLAY, ("2001:db8::1", 7, 0, 0), "again")
    assert len(bench.lines.lines) == SOURCES + 2
    assert bench.lines.lines[-1] == ("dropped_replay", {"source": "[2001:db8::1]:7", "why": "again"})
    assert len(bench.refusals._told) == SOURCES


def test_own_datagrams_are_known_at_once() -> None:
    bench = Bench()
    assert bench.open(bench.sealer.seal(b"mine")) is None
    assert bench.count(Reason.OWN) == 1
    assert bench.lines.lines == []
