"""The most that one message can name fits it."""

from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.options import Limits
from reconvene.ids import MAX_SITES
from reconvene.isis.limits import IsisLimits
from reconvene.isis.messages import AttemptId, Ready, decode_control, encode_control


def test_all_that_the_sites_of_a_cluster_can_have_under_way_fits_one_message() -> None:
    most = MAX_SITES * 2 * IsisLimits().open_casts
    ready = Ready(2**62, (2**62, MAX_SITES), [AttemptId(MAX_SITES - 1, 2**32, 2**40, 2**7)] * most)
    data = encode_control(ready)
    assert len(data) + IsisLimits().payload_bytes < min(Limits().message_bytes, ChannelLimits().record_bytes)
    assert decode_control(data) == ready
