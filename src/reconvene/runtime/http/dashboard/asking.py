"""HTTP requests of the dashboard to other processes: sites, followers and outposts.

Promised: an answer is bounded in size and time, and a failure has a reason in words.
"""

import base64

import aiohttp
import msgspec

from reconvene.errors import Rejected, Unavailable
from reconvene.runtime.access.key_files import load_peer_key
from reconvene.runtime.access.tls import peer_tls
from reconvene.runtime.config.settings import Address, Config
from reconvene.units import show_address

__all__ = ["ORDER_HEADER", "Asking"]

ORDER_HEADER = "X-Reconvene-Order"
"""Required on every POST: a page of another origin can't send this header without a CORS preflight, which is
refused."""
_PATIENCE_S = 2.0
_MOST_BYTES = 1 << 20
"""Size limit of an answer: the whole history of a cluster of 64 sites fits."""


class Asking:
    def __init__(self, config: Config) -> None:
        """Raises Rejected or Malformed for a bad key or certificate."""
        self._config = config
        self._tls = peer_tls(config)
        self._headers = _headers(config)

    def reload_key(self) -> None:
        """Raises Rejected or Malformed; then the old key stays. The new key is used from the next opened page on."""
        self._headers = _headers(self._config)

    def reload_tls(self) -> None:
        """Raises Rejected; then the old certificates stay."""
        self._tls = peer_tls(self._config)

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=_PATIENCE_S),
            connector=aiohttp.TCPConnector(force_close=True),  # a site answers one request on a connection
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def request(self, session: aiohttp.ClientSession, method: str, address: Address, path: str) -> bytes:
        """Raises Rejected where the other one refuses, Unavailable where it does not answer."""
        scheme = "http" if self._tls is None else "https"
        body = b""
        try:
            async with session.request(
                method,
                f"{scheme}://{show_address(address)}{path}",
                ssl=True if self._tls is None else self._tls,
                allow_redirects=False,
            ) as answer:
                async for chunk in answer.content.iter_chunked(1 << 16):
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        raise Unavailable("sends too long an answer")
        except TimeoutError:
            raise Unavailable(f"does not answer within {_PATIENCE_S:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unavailable(f"does not answer: {reason}") from None
        if answer.status != 200:
            raise Rejected(_refusal(answer.status, body))
        return body


def _refusal(status: int, body: bytes) -> str:
    """The reason that the site gave, if it gave one."""
    try:
        document = msgspec.json.decode(body, type=dict[str, object])
    except msgspec.MsgspecError:
        document = {}
    return f"refuses: {document.get('error') or status}"


def _headers(config: Config) -> dict[str, str]:
    headers = {ORDER_HEADER: "1"}
    if config.dashboard.key is not None:
        key = load_peer_key(config.dashboard.key)
        headers["Authorization"] = f"Bearer {base64.b64encode(key.key).decode()}"
    return headers
