"""A gateway's site in the cluster above: a second engine in the same process, with its own socket, keys and storage.

It starts after the site below and ends after it: what the site below has accepted still crosses.
"""

from contextlib import AsyncExitStack

from reconvene.errors import Rejected
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import logger
from reconvene.runtime.disk.directory import held
from reconvene.runtime.disk.lmdb_disk import LmdbDisk
from reconvene.runtime.domain.parts import DomainPart, UpperPart
from reconvene.runtime.domain.tree import upper_config
from reconvene.runtime.net.site_numbers import read_numbers
from reconvene.runtime.net.udp import Udp
from reconvene.runtime.site.engine import SiteEngine

__all__ = ["start_upper"]


async def start_upper(
    config: Config, part: DomainPart, engine: SiteEngine, ends: AsyncExitStack, check_all: bool
) -> Udp:
    """`engine`: of the site below, which runs. Returns the transport above."""
    above = upper_config(config)
    ends.enter_context(held(above.dir, above.cluster, above.name))
    numbers = read_numbers(above, LmdbDisk(check_all=check_all))
    if numbers.names != above.names:
        raise Rejected("domain.upper.sites: the list of gateways has changed; expected the one of the first start")
    transport = Udp(above, logger("udp.upper"), numbers)
    ends.callback(transport.close)
    upper = SiteEngine(
        above, transport, logger("site.upper"), LmdbDisk(), numbers, None, UpperPart(part, engine.record_wide)
    )
    await upper.start()
    ends.push_async_callback(upper.stop)
    engine.above = upper
    return transport
