"""TLS contexts from the certificates that a configuration names."""

import ssl

from reconvene.errors import Rejected
from reconvene.runtime.config.settings import Config, Tls

__all__ = ["peer_tls", "server_tls"]


def server_tls(tls: Tls) -> ssl.SSLContext:
    """For a server. Raises Rejected if a file is missing or is not a certificate or key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_ca is not None:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # ssl.SSLError is one
        raise Rejected(f"tls: {tls.certificate}, {tls.key}: {error}") from None
    return context


def peer_tls(config: Config) -> ssl.SSLContext | None:
    """For the dashboard's requests to other sites; None where `dashboard.ca` is not set. Raises Rejected likewise."""
    ca = config.dashboard.ca
    if ca is None:
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
        if config.http.tls is not None:
            context.load_cert_chain(config.http.tls.certificate, config.http.tls.key)
    except OSError as error:
        raise Rejected(f"dashboard.ca: {ca}: expected certificates in PEM: {error}") from None
    return context
