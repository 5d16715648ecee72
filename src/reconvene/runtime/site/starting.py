"""From a site's configuration and storage to its core: how a site boots."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from msgspec import msgpack

from reconvene.core.groups.groups import GroupLimits, Groups
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.options import Options
from reconvene.core.record import KEY, boot, incarnation_of, stored_list
from reconvene.core.site import Site
from reconvene.corel.following.pulling import Pulling
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Malformed, Unavailable
from reconvene.isis.isis import Isis
from reconvene.isis.limits import IsisLimits
from reconvene.runtime.config.settings import Config
from reconvene.runtime.domain.parts import Part
from reconvene.runtime.log.start import first_ops, load_follower, load_replica
from reconvene.runtime.net.site_numbers import ADDRESSES, Numbers, kept_addresses
from reconvene.runtime.outside import Store, Transport
from reconvene.runtime.site.following import place_of
from reconvene.site_list import read_list
from reconvene.stack.follower import FollowerLayer
from reconvene.stack.isis import IsisLayer
from reconvene.stack.layer import Layer
from reconvene.stack.log import LogLayer
from reconvene.stack.no_log import NoLog
from reconvene.stack.stack import Stack
from reconvene.storage.tables import Put
from reconvene.units import show_address
from reconvene.world import world

__all__ = ["Started", "start_stack"]

_TOKEN_BYTES = 4
"""Of the random token of each start, by which others notice a storage that was put back."""

_CHANNELS_PART = 4
_CHANNELS_MOST = 1 << 20
"""Of the receive buffer, for the channels of ISIS: a quarter, at most so many bytes."""
_ISIS_PAYLOAD = 1 << 20
_BROUGHT_OVERHEAD = 1 << 10
"""Of what the ISIS layer brings into a configuration, besides stored views."""


class Started(NamedTuple):
    stack: Stack
    replica: Replica | None
    """For requests of the log: a replica, or a follower. None: the site takes no part in it …"""
    no_log: NoLog | None
    """… and says so."""
    isis: Isis | None
    """For requests of processes. None: the site takes no part in ISIS."""
    following: FollowerLayer | None = None
    """Where the site follows a log, instead of keeping a replica."""


def start_stack(
    config: Config, numbers: Numbers, store: Store, transport: Transport, now: int, part: Part | None = None
) -> Started:
    """Syncs a new incarnation, and makes the core that is to run under it. `part`: of a tree of clusters.

    Raises Unavailable where it can't be written, Malformed where the log can't be read.
    """
    names = numbers.names
    token = int.from_bytes(world().random_bytes(_TOKEN_BYTES), "big") or 1
    record = _write_incarnation(config, numbers, store, token)
    frame_bytes = transport.frame_bytes
    packet_bytes = 0 if transport.packet_bytes == frame_bytes else transport.packet_bytes
    options = config.options(frame_bytes, transport.buffer_bytes, packet_bytes)
    channels = _channels(options) if config.isis.enabled else None
    if channels is not None:
        options = replace(options, limits=replace(options.limits, channel_bytes=channels.buffer_bytes))
    site = Site(options, numbers.ordinal, len(names), record, now, numbers.peers)
    site.disputes.outside = transport.disputes
    limits = config.limits
    group_limits = GroupLimits(limits.processes, limits.groups_per_process, limits.group_name_bytes)
    groups = Groups(site, len(names), group_limits)
    isis = None
    if channels is not None:
        payload_bytes = min(_ISIS_PAYLOAD, config.limits.message_bytes // 2)
        most = IsisLimits(payload_bytes=payload_bytes, stored_bytes=groups.brought_bytes - _BROUGHT_OVERHEAD)
        isis = Isis(numbers.ordinal, site.incarnation, most, channels, store)
    layers: Sequence[Layer]
    if part is not None:
        layers = part.layers(names, numbers.ordinal, site.incarnation, isis)
    else:
        layers = () if isis is None else (IsisLayer(isis),)
    if not config.log.enabled:
        no_log = NoLog(names, ReplicaSet.first(config.replicas, config.log.quorum))
        return Started(Stack(site, groups, (no_log, *layers)), None, no_log, isis)
    try:
        if config.log.follow:
            layer = _follower_layer(config, names, store, site.incarnation, frame_bytes, now)
            return Started(Stack(site, groups, (layer, *layers)), layer.follower, layer, isis, layer)
        replica = load_replica(config, names, store, site.incarnation, frame_bytes)
    except Malformed as error:
        raise Malformed(f"{config.dir}: the log can't be read: {error}") from None
    return Started(Stack(site, groups, (LogLayer(replica), *layers)), replica, None, isis)


def _follower_layer(
    config: Config, names: tuple[str, ...], store: Store, incarnation: int, frame_bytes: int, now: int
) -> FollowerLayer:
    follower = load_follower(config, store, incarnation, frame_bytes)
    me = f"{config.cluster}/{config.name}#{follower.record.identity.hex()}"
    own = [place_of(f"unix:{config.unix_socket}")]
    if config.clients.tcp is not None:
        own.append(place_of(show_address(config.clients.tcp)))
    places = [place_of(address) for address in config.log.follow]
    pulling = Pulling(follower, me, config.log.follow, now, cluster=config.cluster, places=places, own=own)
    return FollowerLayer(names, ReplicaSet.first(config.replicas, config.log.quorum), pulling)


def _channels(options: Options) -> ChannelLimits:
    """What they may have under way and what the multicast window may have share one receive buffer."""
    limits = options.limits
    return ChannelLimits(
        packet_bytes=limits.packet_bytes or limits.frame_bytes,
        buffer_bytes=min(limits.buffer_bytes // _CHANNELS_PART, _CHANNELS_MOST),
    )


def _write_incarnation(config: Config, numbers: Numbers, store: Store, token: int) -> bytes:
    stored = store.get(KEY)
    sites = read_list(stored_list(stored), config.sites_version, config.sites, numbers.names)
    record = boot(stored, numbers.ordinal, token, sites)
    addresses = msgpack.encode({**kept_addresses(store), **config.sites})
    log = first_ops(config, store, incarnation_of(record), token) if config.log.enabled else []
    try:
        store.write([Put(KEY.encode(), record), Put(ADDRESSES.encode(), addresses), *log])
    except OSError as error:
        raise Unavailable(f"{config.dir}: a new incarnation can't be kept there: {error}") from None
    return record
