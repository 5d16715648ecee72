"""Every argument of every request is checked before anything is sent: a line says what was expected."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import pytest
from tests.client.fake_engine import FakeEngine
from tests.client.fake_log import FakeLog
from tests.client.places import serving
from tests.client.raw import Raw

import reconvene
from reconvene import Group, Log, Rejected, Site
from reconvene.entries import Entry
from reconvene.objects import ReplicatedMap, Tally
from reconvene.wire.clients import Failed, Told
from reconvene.wire.records import frame

NAN = float("nan")
LONG = "x" * 300
SURROGATE = "\udcff"
FIVE: Any = 5
TEXT: Any = "text"


class Machine(reconvene.StateMachine):
    def apply(self, entry: Entry) -> None: ...
    def snapshot(self) -> bytes:
        return b""

    def restore(self, data: bytes) -> None: ...


async def settled(value: object) -> None:
    """Whatever a call returned, used."""
    if hasattr(value, "__aenter__"):
        async with value:  # type: ignore[attr-defined]
            return
    if hasattr(value, "__aiter__"):
        async for _ in value:
            return
    if isinstance(value, Awaitable):
        await value


SITE: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda site: site.join(5), TypeError, "group's name"),
    (lambda site: site.join(None), TypeError, "group's name"),
    (lambda site: site.join(""), ValueError, "group's name"),
    (lambda site: site.join("x", timeout="1"), TypeError, "timeout"),
    (lambda site: site.join("x" * 5_000), ValueError, "group's name"),
    (lambda site: site.join(SURROGATE), ValueError, "group's name"),
    (lambda site: site.block("ab"), TypeError, "incoming"),
    (lambda site: site.block(5), TypeError, "incoming"),
    (lambda site: site.block([], [5]), TypeError, "outgoing"),
    (lambda site: site.block([], ["nowhere"]), ValueError, "nowhere"),
]
GROUP: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda group: group.send("text"), TypeError, "bytes"),
    (lambda group: group.send(b"x", "soon"), ValueError, "service"),
    (lambda group: group.send(b"x", 17), ValueError, "service"),
    (lambda group: group.send(b"x", []), TypeError, "service"),
    (lambda group: group.send(b"x", to="a:1:1"), TypeError, "to: "),
    (lambda group: group.send(b"x", to=5), TypeError, "to: "),
    (lambda group: group.send(b"x", to=["a"]), ValueError, "a"),
    (lambda group: group.next("1"), TypeError, "timeout"),
    (lambda group: group.events(-1), ValueError, "timeout"),
    (lambda group: group.batches("1"), TypeError, "timeout"),
    (lambda group: group.send_many(5), TypeError, "payloads"),
    (lambda group: group.send_many(b"text"), TypeError, "payloads"),
    (lambda group: group.send_many(["text"]), TypeError, "bytes"),
]
LOG: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda log: log.append("text"), TypeError, "bytes"),
    (lambda log: log.append(b"x", timeout="1"), TypeError, "timeout"),
    (lambda log: log.append(b"x", timeout=-1), ValueError, "timeout"),
    (lambda log: log.append(b"x", timeout=NAN), ValueError, "timeout"),
    (lambda log: log.append(b"x", timeout=True), TypeError, "timeout"),
    (lambda log: log.append(b"x", timeout=10**400), ValueError, "timeout"),
    (lambda log: log.append(b"x", session=b"t", number=1, timeout=-1), ValueError, "timeout"),
    (lambda log: log.append(b"x", number=1), ValueError, "session"),
    (lambda log: log.session("till 7"), TypeError, "session"),
    (lambda log: log.session(b""), ValueError, "session"),
    (lambda log: log.session(b"till 7", after="1"), TypeError, "after"),
    (lambda log: log.session(b"till 7", after=-1), ValueError, "after"),
    (lambda log: log.session(b"till 7").append(b"x"), ValueError, "number"),
    (lambda log: log.session(b"till 7").append(b"x", number=0), ValueError, "number"),
    (lambda log: log.session(b"till 7", after=0).append("text"), TypeError, "bytes"),
    (lambda log: log.session(b"till 7", after=0).append_many(5), TypeError, "payloads"),
    (lambda log: log.colors("1"), TypeError, "timeout"),
    (lambda log: log.append_many(5), TypeError, "payloads"),
    (lambda log: log.append_many(b"text"), TypeError, "payloads"),
    (lambda log: log.append_many([b"x", 5]), TypeError, "bytes"),
    (lambda log: log.append_many([b"x"], timeout="soon"), TypeError, "timeout"),
    (lambda log: log.staging("soon"), TypeError, "timeout"),
    (lambda log: log.staging(timeout=-1), ValueError, "timeout"),
    (lambda log: log.staging().put(b"text"), TypeError, "payloads"),
    (lambda log: log.commit(5), TypeError, "places"),
    (lambda log: log.commit([5]), TypeError, "places"),
    (lambda log: log.commit([(1, 2, 3)]), TypeError, "places"),
    (lambda log: log.commit([("1", 2)]), TypeError, "places"),
    (lambda log: log.commit([(1, 0)]), ValueError, "places"),
    (lambda log: log.commit([(-1, 1)]), ValueError, "places"),
    (lambda log: log.commit([], index=[(1, "2")]), TypeError, "index"),
    (lambda log: log.commit([], name=5), TypeError, "name"),
    (lambda log: log.commit([], name=""), ValueError, "name"),
    (lambda log: log.commit([], name=SURROGATE), ValueError, "name"),
    (lambda log: log.commit([], version="1"), TypeError, "version"),
    (lambda log: log.commit([], version=-1), ValueError, "version"),
    (lambda log: log.commit([], previous="1"), TypeError, "previous"),
    (lambda log: log.commit([], timeout="1"), TypeError, "timeout"),
    (lambda log: log.last_commit(5), TypeError, "name"),
    (lambda log: log.last_commit(""), ValueError, "name"),
    (lambda log: log.follow("0"), TypeError, "start"),
    (lambda log: log.follow(-1), ValueError, "start"),
    (lambda log: log.follow(0, stop="1"), TypeError, "stop"),
    (lambda log: log.follow().next_batch("1"), TypeError, "timeout"),
    (lambda log: log.follow().entries(-1), ValueError, "timeout"),
    (lambda log: log.read(1.0), TypeError, "start"),
    (lambda log: log.read(0, -1), ValueError, "stop"),
    (lambda log: log.headings(None), TypeError, "start"),
    (lambda log: log.staged("0", []), TypeError, "commit"),
    (lambda log: log.staged(0, 5), TypeError, "ranges"),
    (lambda log: log.staged(0, [(1, 0)]), ValueError, "ranges"),
    (lambda log: log.pending("all"), TypeError, "most"),
    (lambda log: log.pending(0), ValueError, "most"),
    (lambda log: log.barrier("1"), TypeError, "timeout"),
    (lambda log: log.barrier(-1), ValueError, "timeout"),
    (lambda log: log.run(object()), TypeError, "machine"),
    (lambda log: log.run(Machine(), start="0"), TypeError, "start"),
    (lambda log: log.run(Machine(), snapshot_every="1"), TypeError, "snapshot_every"),
    (lambda log: log.run(Machine(), snapshot_every=-1), ValueError, "snapshot_every"),
    (lambda log: log.save_snapshot("0", b""), TypeError, "position"),
    (lambda log: log.save_snapshot(0, "text"), TypeError, "bytes"),
    (lambda log: log.change_replicas(), ValueError, "add"),
    (lambda log: log.change_replicas(remove=["z"]), TypeError, "remove"),
    (lambda log: log.change_replicas(add=b"z"), TypeError, "add"),
    (lambda log: log.change_replicas(add=""), ValueError, "add"),
    (lambda log: log.change_replicas(add=LONG), ValueError, "add"),
    (lambda log: log.change_replicas(add=SURROGATE), ValueError, "add"),
    (lambda log: log.change_replicas(quorum="majority"), TypeError, "quorum"),
    (lambda log: log.change_replicas(quorum={1: 2}), TypeError, "quorum"),
    (lambda log: log.change_replicas(quorum={"kind": object()}), TypeError, "quorum"),
    (lambda log: log.change_replicas(quorum={"kind": 1 << 80}), ValueError, "quorum"),
    (lambda log: log.losses("b"), TypeError, "lost"),
    (lambda log: log.losses([5]), TypeError, "lost"),
    (lambda log: log.losses([LONG]), ValueError, "lost"),
    (lambda log: log.losses(["x"] * 65), ValueError, "lost"),
    (lambda log: log.init("b"), TypeError, "without"),
    (lambda log: log.force_lost(5), TypeError, "lost"),
    (lambda log: log.force_lost([None]), TypeError, "lost"),
    (lambda log: ReplicatedMap(FIVE), TypeError, "log"),
    (lambda log: ReplicatedMap(log, FIVE), TypeError, "name"),
    (lambda log: ReplicatedMap(log).get(FIVE), TypeError, "key"),
    (lambda log: ReplicatedMap(log).set(FIVE, 1), TypeError, "key"),
    (lambda log: ReplicatedMap(log).add("x", object()), TypeError, "value"),
    (lambda log: ReplicatedMap(log).set("x", 1 << 80), ValueError, "value"),
    (lambda log: ReplicatedMap(log).remove(FIVE), TypeError, "key"),
    (lambda log: Tally(FIVE), TypeError, "log"),
    (lambda log: Tally(log, FIVE), TypeError, "name"),
    (lambda log: Tally(log).total(FIVE), TypeError, "key"),
    (lambda log: Tally(log).add(FIVE), TypeError, "key"),
    (lambda log: Tally(log).add("x", TEXT), TypeError, "amount"),
    (lambda log: Tally(log).add("x", 1 << 80), ValueError, "amount"),
]
RUNNER: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda runner: runner.applied("1"), TypeError, "position"),
    (lambda runner: runner.applied(NAN), TypeError, "position"),
    (lambda runner: runner.applied(-1), ValueError, "position"),
    (lambda runner: runner.applied(1, "1"), TypeError, "timeout"),
    (lambda runner: runner.caught_up("1"), TypeError, "timeout"),
    (lambda runner: runner.optimistic("1"), TypeError, "timeout"),
    (lambda runner: runner.optimistic(-1), ValueError, "timeout"),
]


async def refused(calls: Iterable[tuple[Callable[[Any], object], type[Exception], str]], target: object) -> None:
    for number, (call, error, what) in enumerate(calls):
        try:
            async with asyncio.timeout(2):
                await settled(call(target))
        except error as raised:
            line = str(raised)
            assert what in line, (number, line)
            assert "\n" not in line, line
        else:
            raise AssertionError(f"call {number}, about {what}, was not refused")


def test_what_no_request_can_say_is_refused_before_it_is_sent() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        engine.log = fake = FakeLog()
        async with serving(engine=engine) as serves, reconvene.connect(serves.unix) as site:
            group: Group = await site.join("x")
            log: Log = site.log
            receipt = await log.append(b"x", session=b"s", number=1)
            await refused(SITE, site)
            await refused(GROUP, group)
            await refused(LOG, log)
            await refused([(lambda given: given.ordered("1"), TypeError, "timeout")], receipt)
            await refused(RUNNER, log.run(Machine()))
            await site.health()  # whatever was sent before it has come
            assert not serves.log.of("client refused")
            assert len(fake.appends) == 1
            assert not engine.sent
            assert isinstance(site, Site)
            assert site.connected

    asyncio.run(scenario())


CONNECT: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"addresses": 5}, TypeError, "addresses"),
    ({"addresses": [5]}, TypeError, "address"),
    ({"addresses": []}, ValueError, "addresses"),
    ({"addresses": "ftp://x"}, ValueError, "address"),
    ({"timeout": "1"}, TypeError, "timeout"),
    ({"timeout": None}, TypeError, "timeout"),
    ({"timeout": -1}, ValueError, "timeout"),
    ({"wait": "1"}, TypeError, "wait"),
    ({"wait": NAN}, ValueError, "wait"),
    ({"inbox_bytes": 1.5}, TypeError, "inbox_bytes"),
    ({"inbox_messages": 0}, ValueError, "inbox_messages"),
    ({"key": "/nowhere/clients.toml"}, ValueError, "key: "),
    ({"tls": "/nowhere/ca.pem"}, ValueError, "tls"),
    ({"key": 5}, TypeError, "key"),
    ({"key_name": 5}, TypeError, "key_name"),
    ({"tls": 5}, TypeError, "tls"),
]


@pytest.mark.parametrize(("given", "error", "what"), CONNECT)
def test_what_nobody_can_connect_with(given: dict[str, Any], error: type[Exception], what: str) -> None:
    async def scenario() -> None:
        async with reconvene.connect(**{"addresses": "unix:/nowhere.sock", **given}):
            pass

    with pytest.raises(error, match=what):
        asyncio.run(scenario())
    with pytest.raises(error, match=what), reconvene.blocking.connect(**{"addresses": "unix:/nowhere.sock", **given}):
        pass


def test_a_badly_typed_request_is_answered_and_costs_nobody_the_connection() -> None:
    """Of another program's client, which does not check what it sends."""

    async def scenario() -> None:
        engine = FakeEngine()
        engine.log = FakeLog()
        async with serving(engine=engine) as serves:
            raw = await Raw.welcome(serves.unix)
            for said in ([22, 1, None, ["z"], None], [8, 1, "ab", []], [11, 1, "text"], [99, 1], [12, 1]):
                raw.write(b"".join(frame(msgspec.msgpack.encode([said, [7, 2]]))))
                failed = await raw.expect(Failed)
                assert (failed.request, failed.kind) == (1, "rejected")
                assert "request of kind" in failed.reason
                told = await raw.expect(Told)
                assert (told.request, told.document) == (2, "primary")
            assert not serves.log.of("client refused")
            raw.close()

    asyncio.run(scenario())


def test_a_wrong_argument_is_no_answer_of_a_site() -> None:
    assert issubclass(reconvene.InvalidArgument, ValueError)
    assert issubclass(reconvene.InvalidArgument, reconvene.ReconveneError)
    assert not issubclass(reconvene.InvalidArgument, Rejected)


@pytest.mark.parametrize("config", [5, None, b"site.toml"])
def test_what_is_no_configuration(config: Any) -> None:
    async def scenario() -> None:
        async with reconvene.open(config):
            pass

    with pytest.raises(TypeError, match="config: "):
        asyncio.run(scenario())
