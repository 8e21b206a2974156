"""Addresses of servers that are given on the command line: one rule for all of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import click

from registry.wording import shown


def fault(text: str) -> str | None:
    """What keeps it from being a server's base address; None where nothing does."""
    told = "the address" if "@" in text else shown(text)  # it may hold a password
    try:
        parts = urlsplit(text)
        if "@" in parts.netloc:
            return "the address must hold no user name or password, which would be shown and kept"
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as exc:
        return f"{told} is none: {exc}"
    if not is_web or any(character.isspace() for character in text):
        return f"{told} must be like http://HOST[:PORT] or https://HOST[:PORT]"
    if parts.query or parts.fragment:
        return f"{told} must end before any ? or #"
    return None


class WebAddress(click.ParamType[str]):
    """Type of an option that takes such an address; another one is wrong use, exit code 2."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The address as it was given."""
        told = fault(value)
        if told is not None:
            self.fail(told, param, ctx)
        return str(value)


WEB_ADDRESS = WebAddress()
