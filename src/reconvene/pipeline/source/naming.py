"""Options under the names that users know: ours in any case, some of other sources, and a hint for all others."""

from collections.abc import Mapping
from difflib import get_close_matches

from reconvene.errors import Malformed

__all__ = ["named_options"]

_ALIASES = {
    "startingoffsets": "startingPosition",
    "endingoffsets": "endingPosition",
    "maxoffsetspertrigger": "maxRowsPerTrigger",
    "maxrecordsperpartition": "rowsPerPartition",
}
"""Kafka's names of what means the same here, in lower case."""

_NO_TOPIC = "a cluster has one log, and no topics; leave it out, and filter on the payload"
_OTHERS = {
    "kafka.bootstrap.servers": "did you mean addresses? It names every replica, since none is found through another",
    "subscribe": _NO_TOPIC,
    "subscribepattern": _NO_TOPIC,
    "assign": _NO_TOPIC,
    "topic": _NO_TOPIC,
    "includeheaders": "a message has no headers; leave it out, and encode them in the payload",
    "minpartitions": "did you mean partitions? That is about how many tasks there are, not the fewest",
    "kafka.group.id": "did you mean checkpointLocation? The log knows no groups: a stream's place is its checkpoint",
    "groupidprefix": "did you mean checkpointLocation? The log knows no groups: a stream's place is its checkpoint",
    "startingtimestamp": "did you mean startingPosition? Rows can be filtered by log_time",
    "endingtimestamp": "did you mean endingPosition? Rows can be filtered by log_time",
    "startingoffsetsbytimestamp": "did you mean startingPosition? Rows can be filtered by log_time",
    "endingoffsetsbytimestamp": "did you mean endingPosition? Rows can be filtered by log_time",
    "minoffsetspertrigger": "did you mean maxRowsPerTrigger? Each trigger takes what there is, as often as it says",
    "maxtriggerdelay": "did you mean .trigger(processingTime=…)?",
    "maxfilespertrigger": "did you mean maxRowsPerTrigger?",
    "maxbytespertrigger": "did you mean maxRowsPerTrigger?",
    "checkpointlocation": 'did you mean writeStream.option("checkpointLocation", …)? It is an option of the query',
    "startingversion": "did you mean startingPosition?",
    "endingversion": "did you mean endingPosition?",
    "kafka.ssl.truststore.location": "did you mean tls? It is true, or the file of the authority",
    "kafka.sasl.jaas.config": "did you mean keyFile?",
    "kafka.security.protocol": "did you mean tls, or keyFile?",
    "kafka.transactional.id": "did you mean txnAppId, with txnVersion or idColumn?",
}
"""What means something else here, or nothing, in lower case."""
_SIMILAR = 0.6


def named_options(given: Mapping[str, str], known: tuple[str, ...]) -> dict[str, str]:
    """Under the names as `known` spells them, whatever case they are given in. Raises Malformed for others."""
    spelt = {name.lower(): name for name in known}
    spelt.update({alias: name for alias, name in _ALIASES.items() if name in known})
    told: dict[str, str] = {}
    for name, value in given.items():
        spelling = spelt.get(name.lower())
        if spelling is None:
            raise Malformed(f"option {name}: {_hint(name.lower(), known)}")
        if spelling in told:
            raise Malformed(f"option {name}: another name of {spelling}, which is given too; expected one of them")
        told[spelling] = value
    return told


def _hint(name: str, known: tuple[str, ...]) -> str:
    if name in _OTHERS:
        return f"not known; {_OTHERS[name]}"
    if name in _ALIASES:
        return f"not known; it is for a reader: {_ALIASES[name]}"
    spelt = {one.lower(): one for one in known}
    similar = get_close_matches(name.removeprefix("kafka."), spelt, n=1, cutoff=_SIMILAR)
    meant = f"did you mean {spelt[similar[0]]}? Expected" if similar else "expected"
    return f"not known; {meant} some of {', '.join(known)}"
