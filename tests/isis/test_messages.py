"""The most that one message can name fits it."""

import pytest

from reconvene.core.groups.events import Process
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.options import Limits
from reconvene.ids import MAX_SITES
from reconvene.isis.limits import IsisLimits, least_message
from reconvene.isis.messages import Action, AttemptId, Ready, decode_control, encode_control
from reconvene.isis.table import GROUP_PROPERTIES_BYTES, Table


def test_all_that_the_sites_of_a_cluster_can_have_under_way_fits_one_message() -> None:
    most = MAX_SITES * 2 * IsisLimits().open_casts
    ready = Ready(2**62, (2**62, MAX_SITES), [AttemptId(MAX_SITES - 1, 2**32, 2**40, 2**7)] * most)
    data = encode_control(ready)
    assert len(data) + IsisLimits().payload_bytes < min(Limits().message_bytes, ChannelLimits().record_bytes)
    assert decode_control(data) == ready


@pytest.mark.parametrize("sites", [1, 3, MAX_SITES])
def test_the_least_message_that_a_site_may_be_told_to_take_is_enough(sites: int) -> None:
    """For what is said of all casts, and for the largest entries of the table."""
    most = sites * 2 * IsisLimits().open_casts
    ready = Ready(2**62, (2**62, MAX_SITES), [AttemptId(sites - 1, 2**32, 2**40, 2**7)] * most)
    assert len(encode_control(ready)) <= least_message(sites) <= Limits().message_bytes
    table = Table()
    name = "x" * IsisLimits().group_bytes
    members = [Process(site, 2**32, number) for site in range(sites) for number in range(IsisLimits().processes)]
    for number in range(0, len(members), 16):  # one GBCAST each would take minutes
        for gbcast in table.announce(Action("join", name, members[number], True, True, lasting=True)):
            table.conclude(gbcast)
    group = table.groups[name]
    group.ranked = [type(group.ranked[0])(member, True, True, True) for member in members]
    group.properties = {"p": bytes(GROUP_PROPERTIES_BYTES - 1)}
    table.announce(Action("set", name, members[0], properties=group.properties))
    table.announce(Action("rank", name, members[0], order=members))
    for piece in table.pieces(7, 9, changing=True):
        assert len(encode_control(piece)) <= least_message(sites)
