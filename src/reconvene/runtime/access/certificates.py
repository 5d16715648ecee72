"""When the certificates in a file end.

Given: files in PEM that OpenSSL has accepted already. Promised: a file that can't be read here has no end, and no
error: whether it can be used is for `tls` to say.
"""

from collections.abc import Iterator
from pathlib import Path

from reconvene.runtime.config.settings import Config, Tls
from reconvene.world import world

__all__ = ["SOON_S", "ends_of", "is_open_to_others", "tls_warnings"]

SOON_S = 14 * 86_400
"""An end that is nearer than this is reported. The same as in contrib/prometheus."""


def ends_of(place: str, tls: Tls | None) -> dict[str, float]:
    """By key of the site's file: when what it names ends, in seconds since 1970. `place`: of `tls` in the file."""
    if tls is None:
        return {}
    found = {f"{place}.certificate": _end(tls.certificate), f"{place}.client_ca": authority_end(tls.client_ca)}
    return {key: end for key, end in found.items() if end is not None}


def authority_end(path: Path | None) -> float | None:
    """Of the authorities in the file that are still valid, the first end: one that has ended long ago is useless, and
    harms nobody."""
    ends = [] if path is None else _ends(path)
    now = world().time_ns() / 1e9
    return min((end for end in ends if end > now), default=max(ends, default=None))


def tls_warnings(config: Config) -> Iterator[str]:
    """Certificates that have ended, or will soon, and private keys that other users may read."""
    now = world().time_ns() / 1e9
    ends = ends_of("clients.tls", config.clients.tls) | ends_of("http.tls", config.http.tls)
    for key, path in (("dashboard.ca", config.dashboard.ca), ("log.follow_tls", config.log.follow_tls)):
        end = authority_end(path)
        if end is not None:
            ends[key] = end
    for key, end in ends.items():
        if end <= now:
            yield f"{key}: ended {_days(now - end)} ago: nobody who checks it connects any more; replace it"
        elif end - now < SOON_S:
            yield f"{key}: ends in {_days(end - now)}: replace it, and send SIGHUP"
    for place, tls in (("clients.tls", config.clients.tls), ("http.tls", config.http.tls)):
        if tls is not None and is_open_to_others(tls.key):
            yield f"{place}.key: other users may read this private key: chmod 600 {tls.key}"


def is_open_to_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


def _end(path: Path) -> float | None:
    """The first end in a chain: without any one of its certificates the chain is not valid."""
    return min(_ends(path), default=None)


def _ends(path: Path) -> list[float]:
    from cryptography import x509  # sites without certificates start sooner without it

    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        return []
    return [certificate.not_valid_after_utc.timestamp() for certificate in found]


def _days(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days"
