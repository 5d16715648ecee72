"""What a space-time diagram says of an event, and how long text is broken into lines."""

from msgspec import UNSET

from reconvene.trace.events import Row

__all__ = ["describe", "wrap"]


def describe(row: Row) -> str:
    """An event in words, for its tooltip."""
    parts = [f"{row.node}#{row.n} {row.kind}"]
    if row.service is not UNSET:
        parts.append(row.service)
    if row.msg is not UNSET:
        parts.append(row.msg)
    if row.pos is not UNSET:
        parts.append(f"at position {row.pos}")
    if row.primary is not UNSET:
        parts.append(f"primary {row.primary}")
    if row.view is not UNSET:
        parts.append(f"view {row.view}")
    if row.group is not UNSET:
        parts.append(f"of group {row.group}")
    if row.conf is not UNSET:
        kind = f"{row.conf_kind} " if row.conf_kind is not UNSET else ""
        parts.append(f"in {kind}{row.conf}")
    text = " ".join(parts)
    if row.members is not UNSET:
        text += f"\nmembers {', '.join(row.members)}"
    if row.ts is not UNSET:
        text += f"\ntimestamp {row.ts}"
    return f"{text}\nincarnation {row.inc}, clock {row.t} ns"


def wrap(text: str, width: int) -> list[str]:
    """Lines of no more than so many characters; a longer word is cut."""
    lines = [""]
    for word in text.split():
        while len(word) > width:
            lines.append(word[:width])
            word = word[width:]
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return [line for line in lines if line]
