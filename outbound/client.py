"""Outgoing HTTP: the one module that owns clients, each behind the guard of `guard.py`.

The transport is aiohttp on one connector per pool. Providers use it as an httpx client (`provider_client`).
`send`, the busy path of webhooks and steps, uses it directly. Both share the same exchange: capped bytes,
capped decompression, a total time, typed errors, no cookies, and neither proxy nor credentials from the
environment.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path

import aiohttp
import certifi
import httpx
import httpx2
from aiohttp.abc import AbstractResolver
from yarl import URL

from concurrency import ConcurrencyLimiter
from outbound.errors import (
    OutboundError,
    TimedOut,
    TooLarge,
    TooManyRedirects,
)
from outbound.faults import error_for
from outbound.guard import (
    GuardedResolver,
    SystemResolver,
    guarded_sockets,
)
from outbound.hosts import HANGING_SECONDS, HostLimiter
from outbound.lease import Free, Lease, LeasedConnector, LeaseLost, calls_begin, wait_to_begin
from outbound.memory import CALL_BYTES, MemoryBudget, Reservation
from outbound.model_transport import ModelTransport
from outbound.requests import (
    MAX_REDIRECTS,
    Hop,
    OutgoingRequest,
    build_first_hop,
    find_redirect,
    follow_redirect,
)
from outbound.response import Answer, ReadLimits, read_body, read_headers
from outbound.transport import Transport
from settings import Settings

USER_AGENT = "vedette/0.1"
_MAX_CALLS = 512
# The share of all places that an owner can use at a host that keeps hanging.
_HANGING_PART = 16
_MEBIBYTE = 1024 * 1024

# Servers close idle connections after five seconds at the earliest. Ours are closed earlier, so that no POST
# is written into a connection that the server is just closing.
_KEEPALIVE_SECONDS = 4
_DNS_CACHE_SECONDS = 10
_STALL_SECONDS = 30
# The read buffer of an answer; twice that much is read before the caller takes it.
_READ_BYTES = CALL_BYTES // 2


class Outbound:
    """This process's outgoing clients. Open it once in the running loop; close it at the end.

    Attributes:
        lease: returns the current lease. It is called when a call has its place, and again when it has its
            connection, just before the request is sent; the call waits until the lease allows it.
        memory: the memory budget for answers.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        resolver: AbstractResolver | None = None,
        certificates: ssl.SSLContext | None = None,
        max_calls: int = _MAX_CALLS,
        memory: MemoryBudget | None = None,
    ) -> None:
        """Prepare the clients.

        Args:
            settings: `allow_private_networks`, and the providers whose base URL the operator has set.
            resolver: resolves names instead of the system's resolver.
            certificates: verifies servers instead of the system's and Mozilla's authorities.
            max_calls: the most concurrent calls in all pools together, shared among their owners; further
                ones wait for their turn.
            memory: the memory budget for answers.
        """
        self._settings = settings
        self._allowed = settings.allow_private_networks
        self._custom_resolver = resolver
        self._certificates = certificates
        self._max_calls = max_calls
        self.memory = memory or MemoryBudget()
        self.lease: Callable[[], Lease] = Free
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def open(self) -> None:
        """Open the clients within the running event loop."""
        self._resolver = self._custom_resolver or SystemResolver()
        self._places = ConcurrencyLimiter(self._max_calls)
        self._hosts = HostLimiter(max(1, self._max_calls // _HANGING_PART))
        if self._certificates is None:
            self._certificates = ssl.create_default_context()
            self._certificates.load_verify_locations(certifi.where())

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.aclose()
        for session in self._sessions.values():
            await session.close()
        self._clients.clear()
        self._sessions.clear()
        await self._resolver.close()

    async def __aenter__(self) -> Outbound:
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def provider_client(self, name: str, *, guarded: bool = False) -> httpx.AsyncClient:
        """Return the httpx client of the lookup source `name`: made once, shared, closed by `close`.

        It raises `OutboundError`s, not httpx's, and follows no redirects. Its timeout bounds the whole
        exchange. An answer is capped at 8 MiB, or at `extensions={"max_bytes": …}`. Its addresses are guarded
        unless the operator has set the source's base URL, which may be a host of their own. With `guarded`
        they always are, for a source that asks hosts of others' choice.
        """
        if name not in self._clients:
            session = (
                self._session(f"targets:{name}", guarded=True) if guarded else self._provider_session(name)
            )
            self._clients[name] = httpx.AsyncClient(
                transport=Transport(partial(self._exchange_for_provider, session, f"provider:{name}")),
                headers={"user-agent": USER_AGENT},
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                timeout=10,
                max_redirects=MAX_REDIRECTS,
                trust_env=False,
            )
        return self._clients[name]

    def model_client(self, base_url: str, stall_seconds: float) -> httpx2.AsyncClient:
        """Return a client of the assistant's model, which reaches this address of the operator alone.

        The address may be one in a private network. Close the client after use; its connections stay.

        Args:
            base_url: the operator's address of the model.
            stall_seconds: the longest time without a byte of an answer.
        """
        transport = ModelTransport(self._session("model", guarded=False), base_url, stall_seconds)
        return httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False)

    async def send(self, request: OutgoingRequest, room: Reservation | None = None) -> Answer:
        """Call a URL that a user chose. Every status, 5xx included, is an answer and not an error.

        Args:
            request: the request.
            room: for the answer, from `memory`; the caller releases it when it no longer holds the answer.
                After an error it is released. Without it, room is given back when this returns.

        Raises:
            OutboundError: one of its subclasses here, each with a stable `code`.
            LeaseLost: the lease was lost while the call waited for its turn.
        """
        lease, session = self.lease(), self._session("user", guarded=True)
        first = build_first_hop(request, self._allowed)
        held = room or self.memory.reservation()

        async def exchange(clock: asyncio.Timeout) -> Answer:
            limits = ReadLimits(request.max_bytes, request.truncate, held, clock)
            hop, left = first, min(request.follow_redirects, MAX_REDIRECTS)
            if request.headers_at_start is not None:
                hop = hop._replace(headers={**hop.headers, **request.headers_at_start()})
            while True:
                answer = await self._exchange(session, hop, limits)
                location = find_redirect(answer)
                if not request.follow_redirects or location is None:
                    return answer
                if left == 0:
                    raise TooManyRedirects(f"More than {request.follow_redirects} redirects.")
                left -= 1
                hop = follow_redirect(hop, answer.status, location, self._allowed)

        answered = False
        try:
            answer = await self._make_call(request.owner, first.url, request.timeout, held, exchange, lease)
            answered = True
            return answer
        finally:
            if room is None or not answered:
                held.release()

    async def _make_call(
        self,
        owner: str,
        target: URL,
        timeout: float,
        room: Reservation,
        exchange: Callable[[asyncio.Timeout], Awaitable[Answer]],
        lease: Lease | None = None,
    ) -> Answer:
        """Wait for a place and room, then allow `timeout` seconds; record whether the host hangs.

        `lease`: the call must begin under this one; by default under any lease that this process then has.
        """
        host = f"{target.raw_host}:{target.port}"

        def may_begin() -> bool:
            if (lease or self.lease()).can_start_calls:
                return True
            if lease is not None and lease.lost:
                raise LeaseLost("Others may be making this call.")
            return False

        async with self._hosts.hold(owner, host), self._places.hold(owner):
            await room.grow(CALL_BYTES)
            clock = asyncio.timeout(timeout)
            try:
                with calls_begin(may_begin):
                    await wait_to_begin()
                    async with clock:
                        answer = await exchange(clock)
            except TimeoutError:
                self._hosts.note(owner, host, hung=True)
                raise TimedOut(f"No complete answer within {timeout:g} seconds.") from None
            except OutboundError:
                self._hosts.note(owner, host, hung=_hung(clock, timeout))
                raise
            self._hosts.note(owner, host, hung=_hung(clock, timeout))
            return answer

    async def download(
        self,
        name: str,
        url: str,
        path: Path,
        *,
        max_bytes: int,
        connect_timeout: float,
        progress: Callable[[int, int | None], None],
    ) -> int:
        """Download a large file of the lookup source `name`, unchanged, into `path`.

        Args:
            name: the source.
            url: the file.
            path: the destination; complete only when this returns.
            max_bytes: the greatest accepted size.
            connect_timeout: seconds until there is a connection; after that, data must never pause longer
                than 30.
            progress: called with every piece: the bytes so far, and the total if the server reports it.

        Returns:
            The HTTP status. Only with 200 has anything been written.

        Raises:
            OutboundError: one of its subclasses.
        """
        timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout, sock_read=_STALL_SECONDS)
        try:
            async with self._provider_session(name).get(
                url, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    return response.status
                with path.open("wb") as file:
                    size = 0
                    async for piece in response.content.iter_chunked(_MEBIBYTE):
                        size += len(piece)
                        if size > max_bytes:
                            raise TooLarge(f"The file is larger than {max_bytes} bytes.")
                        file.write(piece)
                        progress(size, response.content_length)
                return 200
        except TimeoutError as error:
            raise TimedOut("The server does not answer, or paused for too long.") from error
        except (aiohttp.ClientError, ValueError) as error:
            raise error_for(error, URL(url).raw_host) from error

    def _provider_session(self, name: str) -> aiohttp.ClientSession:
        trusted = self._settings.provider(name).base_url is not None
        return self._session(f"provider:{name}", guarded=not trusted)

    async def _exchange_for_provider(
        self,
        session: aiohttp.ClientSession,
        owner: str,
        request: httpx.Request,
        timeout: float,
        max_bytes: int,
    ) -> Answer:
        url = URL(str(request.url))
        hop = Hop(request.method, url, request.headers, request.content or None)
        with self.memory.reservation() as room:
            return await self._make_call(
                owner,
                url,
                timeout,
                room,
                lambda clock: self._exchange(session, hop, ReadLimits(max_bytes, False, room, clock)),
            )

    async def _exchange(self, session: aiohttp.ClientSession, hop: Hop, limits: ReadLimits) -> Answer:
        try:
            async with session.request(
                hop.method,
                hop.url,
                headers=hop.headers,
                data=hop.body,
                allow_redirects=False,
                # Else aiohttp makes up a type. It copies all headers for that, so only where it is needed.
                skip_auto_headers=("Content-Type",) if hop.lacks_type else None,
            ) as response:
                try:
                    content, truncated = await read_body(response, limits)
                except (OutboundError, aiohttp.ClientError):
                    if not limits.truncate:
                        raise
                    content, truncated = b"", True
                except asyncio.CancelledError:
                    # An expired clock only ends the reading here.
                    if not (limits.truncate and limits.clock.expired()):
                        raise
                    response.close()
                    content, truncated = b"", True
                return Answer(response.status, read_headers(response), content, truncated, str(hop.url))
        except OutboundError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise error_for(error, hop.url.raw_host) from error

    def _session(self, pool: str, *, guarded: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(pool)
        if session is None:
            resolver = GuardedResolver(self._resolver, self._allowed) if guarded else self._resolver
            connector = LeasedConnector(
                ssl=self._certificates or True,
                resolver=resolver,
                socket_factory=guarded_sockets(self._allowed) if guarded else None,
                limit=0,  # places limit the connections instead
                ttl_dns_cache=_DNS_CACHE_SECONDS,
                keepalive_timeout=_KEEPALIVE_SECONDS,
            )
            session = self._sessions[pool] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip, deflate"},
                auto_decompress=False,
                read_bufsize=_READ_BYTES,
                trust_env=False,
            )
        return session


def _hung(clock: asyncio.Timeout, timeout: float) -> bool:
    """Return whether a call has taken so long, without waits for room, that its host counts as hanging."""
    ends = clock.when()
    return ends is not None and asyncio.get_running_loop().time() - (ends - timeout) > HANGING_SECONDS
