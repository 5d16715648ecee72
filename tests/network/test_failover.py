"""A TLS client with several addresses survives the loss of its site, however the site ends."""

import datetime
import ipaddress
import signal
import ssl
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.network.load import Load
from tests.network.sites import RealSites, until

from reconvene.runtime.access.key_files import add_client_key

FLIGHTS = 50
"""Messages in flight at a time."""


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "reconvene test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "tls.crt", directory / "tls.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def test_rolling_restart(tmp_path: Path) -> None:
    certificate, private = make_certificate(tmp_path)
    key = add_client_key(tmp_path / "clients", "roamer", "append")
    with RealSites(tmp_path, "abc") as sites:
        for name in sites.names:
            clients = {
                "tcp": sites.addresses[name],
                "keys": str(tmp_path / "clients"),
                "tls": {"certificate": str(certificate), "key": str(private)},
            }
            sites.write(name, {"clients": clients})
        sites.start()
        sites.wait_for()
        context = ssl.create_default_context(cafile=certificate)
        addresses = {"roamer": list(sites.addresses.values())}
        with Load(addresses, pause_s=0.05, flights=FLIGHTS, tls=context, key=key) as load:
            roamer = load["roamer"]
            visited = [roamer.site]
            for end in (sites.crash, sites.leave, sites.crash):
                load.until_moved(messages=100)
                left, unknown = roamer.site, len(roamer.unknown)
                if end == sites.crash:
                    sites.signal(signal.SIGSTOP, left)
                    time.sleep(0.2)  # a send now waits for the answer of a paused site
                end(left)
                until(lambda: len(roamer.rejoined) == len(visited), lambda: str(roamer.trouble))
                visited.append(roamer.rejoined[-1].site)
                assert visited[-1] != left
                assert roamer.rejoined[-1].was.site == left
                if end == sites.crash:
                    assert len(roamer.unknown) >= unknown + FLIGHTS, "all that was under way"
                load.until_moved(messages=100)
                sites.start(left)
                sites.wait_for()
            load.hold()
            until(lambda: roamer.received and roamer.accepted[-1] in roamer.received, "the last one comes back")
        # OutcomeUnknown for what was in flight, and no other error.
        assert not roamer.trouble
        assert not roamer.refused
        assert len(set(roamer.received)) == len(roamer.received)
        sites.judge()
