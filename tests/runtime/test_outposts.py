"""An outpost and a site in this process: what programs and operators see of both."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.client.places import cluster, short_dir
from tests.ports import free_ports

import reconvene
import reconvene.blocking
from reconvene.cli import main
from reconvene.errors import Rejected
from reconvene.outpost_site.node import running_outpost
from reconvene.runtime.config.settings import Clients, Config, Http, LogSettings, Seal
from reconvene.runtime.node.main import running

PATIENCE_S = 20.0


def outpost(
    directory: Path, *, cluster: str = "test", http: int = 0, follow: str = "a/site.sock", name: str = "o"
) -> Config:
    return Config(
        cluster=cluster,
        name=name,
        sites={},
        dir=directory / "o",
        clients=Clients(unix=directory / "o.sock"),
        http=Http(address=("127.0.0.1", http)) if http else Http(),
        log=LogSettings(outpost=True, follow=(f"unix:{directory / follow}",)),
    )


async def get(port: int, path: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


def test_a_place_is_found_at_a_site_after_the_outpost_has_stopped() -> None:
    """The program goes on at the site, which knows the outpost's messages by the outpost's session."""

    async def scenario(directory: Path) -> None:
        told, away = cluster(directory)[0], outpost(directory)
        async with AsyncExitStack() as outposts, AsyncExitStack() as program_ends:
            await outposts.enter_async_context(running_outpost(away))
            sockets = [str(away.unix_socket), str(told.unix_socket)]
            program = await program_ends.enter_async_context(reconvene.connect(sockets, wait=PATIENCE_S))
            async with running(told):
                early = await program.log.append(b"ordered before the outpost stops")
                while await program.log.pending():
                    await asyncio.sleep(0.01)
            late = await program.log.append_many([b"%d" % number for number in range(100)])
            await outposts.aclose()
            async with running(told):
                assert await early.ordered(timeout=PATIENCE_S) == 0
                assert program.name == "a"
                waits = asyncio.create_task(late.ordered(timeout=PATIENCE_S))
                await asyncio.sleep(0.1)
                assert not waits.done(), "they are at the outpost only"
                await outposts.enter_async_context(running_outpost(away))
                assert list(await waits) == list(range(1, 101))
                assert program.name == "a"

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_the_place_of_a_sites_message_is_not_known_at_an_outpost() -> None:
    async def scenario(directory: Path) -> None:
        told, away = cluster(directory)[0], outpost(directory)
        async with AsyncExitStack() as sites, AsyncExitStack() as ends:
            await sites.enter_async_context(running(told))
            sockets = [str(told.unix_socket), str(away.unix_socket)]
            program = await ends.enter_async_context(reconvene.connect(sockets, wait=PATIENCE_S))
            receipt = await program.log.append(b"at the site")
            await sites.aclose()
            await ends.enter_async_context(running_outpost(away))
            with pytest.raises(reconvene.OutcomeUnknown, match="ask for those of a at a site of the cluster"):
                await receipt.ordered(timeout=PATIENCE_S)

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_metrics_health_and_status() -> None:
    async def scenario(directory: Path) -> None:
        (port,) = free_ports(1)
        async with running_outpost(outpost(directory, http=port)):
            async with reconvene.connect(str(directory / "o.sock")) as site:
                await site.log.append_many([b"coffee", b"tea"])
                (entry, _) = await site.log.pending()
                assert (entry.data, entry.author, entry.color.value) == (b"coffee", "o", "red")
                metrics = (await get(port, "/metrics"))[1].decode().splitlines()
                for line in (
                    'reconvene_health{health="outpost"} 1.0',
                    "reconvene_log_accepted_messages_total 2.0",
                    "reconvene_log_red_messages 2.0",
                    "reconvene_log_yellow_messages 0.0",
                    "reconvene_log_own_messages 2.0",
                    "reconvene_log_own_bytes 9.0",
                    "reconvene_log_outpost_connected 0.0",
                    "reconvene_storage_ok 1.0",
                ):
                    assert line in metrics
                assert not any(line.startswith("reconvene_log_green") for line in metrics), "it has no copy"
                async with running(cluster(directory)[0]):
                    while await site.log.pending():
                        await asyncio.sleep(0.01)
                    metrics = (await get(port, "/metrics"))[1].decode().splitlines()
                    assert "reconvene_log_ordered_messages_total 2.0" in metrics
                    assert "reconvene_log_outpost_connected 1.0" in metrics
                    assert "reconvene_log_outpost_oldest_seconds 0.0" in metrics
            assert (await get(port, "/health"))[0] == 200
            assert (await get(port, "/health?require=primary"))[0] == 503
            assert (await get(port, "/"))[0] == 404, "an outpost has no dashboard"
            code, body = await get(port, "/status")
            status = json.loads(body)
            assert (code, status["health"], status["log"]["confirmed"]) == (200, "outpost", 2)
            assert status["log"]["why"].startswith("o is an outpost: it accepts messages and forwards them")

    with short_dir() as directory:
        asyncio.run(scenario(directory))


@pytest.mark.parametrize(
    ("of", "name", "why"),
    [
        ("another", "a", "is site a of cluster test; expected cluster another"),
        ("test", "o", "is o itself; expected a site of the cluster"),
    ],
)
def test_an_outpost_of_another_cluster_or_with_a_sites_name_does_not_start(of: str, name: str, why: str) -> None:
    async def scenario(directory: Path) -> None:
        told = cluster(directory, name)[0]
        (directory / "away").mkdir()
        away = outpost(directory / "away", cluster=of, follow=f"../{name}/site.sock")
        async with running(told):
            with pytest.raises(Rejected, match=why):
                async with running_outpost(away):
                    raise AssertionError

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_an_outpost_of_an_outpost_does_not_start() -> None:
    async def scenario(directory: Path) -> None:
        (directory / "away").mkdir()
        away = outpost(directory / "away", follow="../o.sock", name="p")
        async with running_outpost(outpost(directory)):
            with pytest.raises(Rejected, match="is outpost o, which forwards its own only; expected a site"):
                async with running_outpost(away):
                    raise AssertionError

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_nobody_follows_an_outpost() -> None:
    async def scenario(directory: Path) -> None:
        follower = Config(
            cluster="test",
            name="f",
            sites={"f": ("127.0.0.1", free_ports(1)[0])},
            dir=directory / "f",
            seal=Seal(insecure=True),
            log=LogSettings(follow=(f"unix:{directory / 'o.sock'}",)),
        )
        async with (
            running_outpost(outpost(directory)),
            reconvene.open(follower) as f,
        ):
            follow = (await f.log.status()).follow
            assert follow is not None
            assert follow.source is None
            assert list(follow.trouble.values()) == [
                f"unix:{directory / 'o.sock'}: o is an outpost, which keeps no copy of the log"
            ]

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_exit_code_2_for_one_of_another_cluster_or_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with short_dir() as directory:
        file = directory / "o.toml"
        (site,) = cluster(directory)

        def starts(of: str, follow: str) -> tuple[int, str]:
            text = f'cluster = "{of}"\nname = "o"\ndir = "o"\n[log]\noutpost = true\nfollow = ["unix:{follow}"]\n'
            file.write_text(text)
            capsys.readouterr()  # what the site logged
            with pytest.raises(SystemExit) as ended:
                main(["node", "--config", str(file)])
            return int(str(ended.value.code)), capsys.readouterr().err

        with reconvene.blocking.open(site):
            code, line = starts("another", str(site.unix_socket))
        assert (code, line.count("\n")) == (2, 1)
        assert "is site a of cluster test; expected cluster another" in line
        code, line = starts("test", str(directory / "o" / "site.sock"))
        assert (code, line.count("\n")) == (2, 1)
        assert "o/site.sock is this site itself; expected another one" in line
