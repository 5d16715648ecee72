"""Process groups in the manner of ISIS, as a site reports them to dashboards."""

from collections.abc import Mapping
from typing import Any

from reconvene.runtime.http.dashboard.samples import IsisGroupSample, IsisSample
from reconvene.runtime.http.dashboard.tail import excerpt
from reconvene.runtime.isis.interface import SiteIsis

__all__ = ["isis_sample"]

_GROUPS = 40
_MEMBERS = 24
_PROPERTIES = 8
"""What is shown of them; the page says how many there are."""


def isis_sample(isis: SiteIsis, status: Mapping[str, Any], payloads: bool) -> IsisSample:
    """`status`: of `SiteIsis`. `payloads`: whether the values of properties may be shown."""
    return IsisSample(
        blocked=status["blocked"],
        refused=status["refused"],
        view=str(status["view"]),
        members=sorted(status["members"]),
        processes=status["processes"],
        groups=[_group(group, payloads) for group in isis.groups(_GROUPS)],
        group_count=status["group_count"],
        open_casts=status["open_casts"],
        waiting_casts=status["waiting_casts"],
        pool=status["pool"],
        pool_bytes=status["pool_bytes"],
        open_gbcasts=status["open_gbcasts"],
        open_calls=status["open_calls"],
    )


def _group(group: Mapping[str, Any], payloads: bool) -> IsisGroupSample:
    members, properties = group["members"], sorted(group["properties"].items())
    return IsisGroupSample(
        name=group["name"],
        view=group["view"],
        members=members[:_MEMBERS],
        member_count=len(members),
        properties={name: excerpt(value) if payloads else None for name, value in properties[:_PROPERTIES]},
    )
