"""What `site.isis` refuses, and how: nothing is sent, nothing has happened, and the program learns why."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.client.places import cluster, short_dir
from tests.ports import free_ports

import reconvene
from reconvene import ALL, InvalidArgument, Isis, IsisGroup, Rejected, Unavailable
from reconvene.runtime.access.key_files import add_client_key
from reconvene.runtime.config.settings import Clients, IsisSettings, Limits, LogSettings

Call = Callable[[Isis, IsisGroup], Awaitable[Any]]

REFUSED: dict[str, tuple[Call, type[Exception], str]] = {
    "unknown group": (lambda i, g: i.cbcast(b"", to="nowhere"), Rejected, "no such group"),
    "unknown group, gbcast": (lambda i, g: i.gbcast(b"", to="nowhere"), Rejected, "no such group"),
    "unknown group, abcast": (lambda i, g: i.abcast(b"", to="nowhere"), Rejected, "no such group"),
    "nobody": (lambda i, g: i.cbcast(b"", to=[]), Rejected, "a cast to nobody"),
    "a process that is over": (lambda i, g: i.cbcast(b"", to=["a:7:7"]), Rejected, "a cast to nobody"),
    "too many replies": (lambda i, g: g.cbcast(b"", replies=2), Rejected, "2 replies of 1 destinations"),
    "second join": (lambda i, g: i.join("bank"), Rejected, "is in it"),
    "no permutation": (lambda i, g: g.rank([i.me, i.me]), Rejected, "a permutation"),
    "too large": (lambda i, g: g.cbcast(bytes((1 << 20) + 1)), Rejected, "expected at most 1048576"),
    "too large, gbcast": (lambda i, g: g.gbcast(bytes((1 << 20) + 1)), Rejected, "expected at most 1048576"),
    "too large, together": (lambda i, g: g.cbcast_many([bytes(1 << 21)]), Rejected, "expected at most 1048576"),
    "larger than a record": (lambda i, g: g.cbcast(bytes(20 << 20)), Rejected, "20971520 bytes: at most 16777216"),
    "larger than a record, in time": (lambda i, g: g.abcast(bytes(20 << 20), timeout=9), Rejected, "at most"),
    "larger than a record, together": (lambda i, g: g.cbcast_many([b"", bytes(20 << 20)]), Rejected, "at most"),
    "a property larger than a record": (lambda i, g: g.set(mode=bytes(20 << 20)), Rejected, "at most"),
    "a large property": (lambda i, g: g.set(mode=bytes(1 << 20)), Rejected, "property 'mode'"),
    "many properties": (lambda i, g: g.set(**{f"p{n}": b"" for n in range(65)}), InvalidArgument, "IsisSet"),
    "no stable storage is needed": (lambda i, g: i.join("", last_to_fail=True), InvalidArgument, "1 to 255"),
    "a long name": (lambda i, g: i.join("x" * 256), InvalidArgument, "1 to 255 characters"),
    "a name of many bytes": (lambda i, g: i.join("é" * 200), Rejected, "1 to 255 bytes"),
    "a name that is none": (lambda i, g: i.join(7), TypeError, "a group's name is text"),  # type: ignore[arg-type]
    "both kinds of state": (
        lambda i, g: i.join("x", state=(list, print), vector=(list, print)), InvalidArgument, "one of them expected",
    ),
    "state that is none": (lambda i, g: i.join("x", state=7), TypeError, "give"),  # type: ignore[arg-type]
    "text": (lambda i, g: g.cbcast("text"), TypeError, "a message is bytes, not str"),  # type: ignore[arg-type]
    "to a process": (lambda i, g: i.cbcast(b"", to=i.me), TypeError, "a list of processes"),  # type: ignore[arg-type]
    "to a number": (lambda i, g: i.cbcast(b"", to=[7]), TypeError, "a process"),  # type: ignore[list-item]
    "another cluster": (lambda i, g: i.cbcast(b"", to=["z:1:1"]), InvalidArgument, "no such site"),
    "negative replies": (lambda i, g: g.cbcast(b"", replies=-2), InvalidArgument, "replies"),
    "replies as text": (lambda i, g: g.cbcast(b"", replies="all"), TypeError, "replies"),  # type: ignore[arg-type]
    "a long label": (lambda i, g: g.cbcast(b"", label="é" * 128), InvalidArgument, "255 bytes"),
    "an abcast's label": (lambda i, g: g.abcast(b"", label={"x": 1}), TypeError, "label"),  # type: ignore[arg-type]
    "a label of components": (
        lambda i, g: g.cbcast(b"", label=dict.fromkeys(map(str, range(17)), 1)), InvalidArgument, "16 components",
    ),
    "a long component": (lambda i, g: g.cbcast(b"", label={"x" * 65: 1}), InvalidArgument, "0 to 64 characters"),
    "too many destinations": (
        lambda i, g: i.cbcast(b"", to=[f"a:1:{n}" for n in range(5_000)]), InvalidArgument, "at most 4096 expected",
    ),
    "a negative component": (lambda i, g: g.cbcast(b"", label={"x": -1}), InvalidArgument, "'x'"),
    "a timeout": (lambda i, g: g.cbcast(b"", timeout=-1), InvalidArgument, "timeout"),
    "a timeout as text": (lambda i, g: i.flush(timeout="1"), TypeError, "timeout"),  # type: ignore[arg-type]
}  # fmt: skip


async def opened(
    directory: Path, use: Callable[[reconvene.Site, reconvene.Site], Awaitable[None]], **limits: int
) -> None:
    (config,) = cluster(directory, limits=Limits(**limits))
    config = structs.replace(config, isis=IsisSettings(enabled=True), log=LogSettings(enabled=False))
    async with reconvene.open(config) as site, reconvene.connect(config.unix_socket) as client:
        await use(site, client)


def run(use: Callable[[reconvene.Site, reconvene.Site], Awaitable[None]], **limits: int) -> None:
    with short_dir() as directory:
        asyncio.run(opened(directory, use, **limits))


def test_refusals_inside_and_behind_a_socket() -> None:
    async def use(*sites: reconvene.Site) -> None:
        for site in sites:
            async with await site.isis.join("bank") as group:
                me = site.isis.me
                for why, (call, error, words) in REFUSED.items():
                    with pytest.raises(error) as raised:
                        await call(site.isis, group)
                    assert words in str(raised.value), why
                # It goes on as if nothing had happened, as the same process.
                await group.cbcast(b"fine")
                assert group.view.members == (me,)

    run(use)


def test_a_second_reply_and_one_that_nobody_asked_for() -> None:
    async def use(site: reconvene.Site, client: reconvene.Site) -> None:
        bank = await site.isis.join("bank")
        await client.isis.cbcast(b"", to="bank")
        call = await bank.cbcast(b"?", replies=ALL)
        async for event in site.isis:
            if isinstance(event, reconvene.Cast) and not event.wants_reply:
                with pytest.raises(Rejected, match="asks for none"):
                    await event.reply(b"")
            elif isinstance(event, reconvene.Cast):
                with pytest.raises(TypeError, match="bytes"):
                    await event.reply("text")  # type: ignore[arg-type]
                with pytest.raises(Rejected, match="at most 1048576"):
                    await event.reply(bytes((1 << 20) + 1))
                await event.reply(b"yes")
                with pytest.raises(Rejected, match="second reply"):
                    await event.reply(b"no")
                break
        assert [reply.data for reply in await call.replies() if isinstance(reply, reconvene.Reply)] == [b"yes"]

    run(use)


def test_open_calls_are_bounded() -> None:
    async def use(site: reconvene.Site, client: reconvene.Site) -> None:
        await site.isis.join("bank")
        for _ in range(1_024):
            await client.isis.cbcast(b"?", to="bank", replies=1)
        with pytest.raises(Unavailable, match="1024 calls of this process are open"):
            await client.isis.cbcast(b"?", to="bank", replies=1)
        await client.isis.cbcast(b"no call", to="bank")

    run(use)


def test_a_process_that_does_not_read_is_cut_off() -> None:
    async def use(site: reconvene.Site, client: reconvene.Site) -> None:
        bank = await site.isis.join("bank")
        await client.isis.join("bank")
        await client.isis.cbcast_many([bytes(1_000)] * 200, to="bank")
        reading = [event async for event in client.isis.events(timeout=0.5)]
        assert len(reading) > 200
        with pytest.raises(Unavailable, match="waited unread"):
            async for _ in site.isis:
                pass
        with pytest.raises(Unavailable):
            await bank.cbcast(b"")
        with pytest.raises(Unavailable, match="cut off"):
            await site.isis.join("other")
        (group,) = await client.isis.groups()
        assert group.members == (str(client.isis.me),)

    run(use, inbox_messages=100)


def test_roles() -> None:
    async def scenario(directory: Path) -> None:
        for role in ("read", "append"):
            add_client_key(directory / "clients.toml", role, role)
        port = free_ports(1)[0]
        (config,) = cluster(directory, clients=Clients(tcp=("127.0.0.1", port), keys=directory / "clients.toml"))
        config = structs.replace(config, isis=IsisSettings(enabled=True), log=LogSettings(enabled=False))
        keys = directory / "clients.toml"
        async with (
            reconvene.open(config),
            reconvene.connect(f"127.0.0.1:{port}", key=keys, key_name="read") as reader,
            reconvene.connect(f"127.0.0.1:{port}", key=keys, key_name="append") as writer,
        ):
            bank = await writer.isis.join("bank")
            with pytest.raises(Rejected, match="the role append is needed to join"):
                await reader.isis.join("bank")
            theirs = await reader.isis.join("bank", answers=False)
            for refused in (
                theirs.cbcast(b""), theirs.gbcast(b""), theirs.set(x=b""), theirs.delete(), theirs.rank([]),
            ):  # fmt: skip
                with pytest.raises(Rejected, match="the role append is needed"):
                    await refused
            await bank.cbcast(b"for all")
            seen = [event async for event in reader.isis.events(timeout=0.3)]
            assert [event.data for event in seen if isinstance(event, reconvene.Cast)] == [b"for all"]
            assert len(await reader.isis.groups()) == 1
            await reader.isis.flush()
            await theirs.leave()

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_client_that_has_too_much_under_way_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of ours waits; another one could do this."""
    monkeypatch.setattr("reconvene.runtime.clients.isis_requests.HELD_REQUESTS", 0)

    async def use(site: reconvene.Site, client: reconvene.Site) -> None:
        with pytest.raises(Unavailable, match="more than 0 requests or 8388608 bytes wait"):
            await client.isis.join("bank")

    run(use)
