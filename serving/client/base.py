"""What the two clients share: their settings."""

from __future__ import annotations

import dataclasses
import random
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from serving.client import arguments, calls, feed, retry, transport, types
from serving.client.hedge import Hedge
from serving.client.owner import Owner
from serving.client.settings import ApiKey, Chance, Config, Session, Wish
from serving.client.steps import Flow
from serving.client.streams import Opening

_RNG = random.SystemRandom()
"""Forked processes would go on with the same numbers of another one, in their request ids too."""


class Base:
    """Settings, checked once, for every call of a client."""

    def __init__(
        self,
        base_url: str | Sequence[str] = (),
        *,
        discovery: str | None = None,
        timeout_s: float = 10.0,
        deadline_s: float = 30.0,
        retries: int = 2,
        api_key: ApiKey | None = None,
        model: str | None = None,
        version: int | None = None,
        hedge: Hedge | None = None,
        tls: ssl.SSLContext | None = None,
        zone: str | None = None,
    ) -> None:
        """A client of the endpoint at `base_url`; several addresses are balanced.

        discovery: where discovery lists the addresses; those of `base_url` serve until it did.
        timeout_s: longest wait for one attempt.
        deadline_s: longest time for a call with all its attempts and pauses.
        retries: attempts after the first, made only where they can do no harm.
        api_key: sent as a bearer token; a function is asked for it at each attempt.
        model: which model to ask, where several answer at the same address.
        version: the version that must answer; another one raises VersionNotServed.
        hedge: sends slow calls a second time, where that can do no harm; see Hedge.
        tls: for https, where those of SSL_CERT_FILE, SSL_CERT_DIR or certifi will not do.
        zone: where this client runs: edges that discovery lists there are asked first.
        """
        if discovery is not None:
            arguments.of_type("discovery", discovery, str)
        if tls is not None:
            arguments.of_type("tls", tls, ssl.SSLContext)
        config = Config(
            addresses=tuple(each.rstrip("/") for each in arguments.strings("base_url", base_url)),
            discovery=discovery.rstrip("/") if discovery is not None else None,
            timeout_s=timeout_s,
            deadline_s=deadline_s,
            policy=retry.RetryPolicy(retries=retries),
            api_key=api_key,
            model=model,
            version=version,
            hedge=hedge,
            zone=zone,
        )
        chance = Chance(monotonic_s=time.monotonic, unix_s=time.time, rng=_RNG)
        self._session = Session(config, chance)
        self._wiring = transport.Wiring(
            addresses=config.addresses, tls=tls, grows=discovery is not None
        )
        self._owner = Owner()
        self._connect()
        self._feed: feed.Feed | None = None
        if discovery is not None:
            self._feed = feed.Feed(config, chance, self._session.edges, self._aside())
            self._session.learn = self._feed.ensure

    def stats(self) -> types.Stats:
        """What was sent to which address so far."""
        found = self._session.edges.stats()
        if self._feed is None:
            return found
        return dataclasses.replace(
            found, list_age_s=self._feed.age_s(), list_fault=self._feed.fault
        )

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "a client holds connections and can be neither copied nor sent to another process: "
            "make one there"
        )

    def _connect(self) -> None:
        raise NotImplementedError

    def _aside(self) -> Callable[[Flow[None]], None]:
        """How to run what nobody waits for; must not hold the client, which would live on."""
        raise NotImplementedError

    def _opening(self, prompt: str, options: Mapping[str, Any], wish: Wish) -> Opening:
        config = self._session.config
        return Opening(
            session=self._session,
            begin=lambda: calls.open_completion(self._session, prompt, options, wish),
            version=wish.version if wish.version is not None else config.version,
            deadline_s=wish.deadline_s if wish.deadline_s is not None else config.deadline_s,
        )
