"""Which authorities clients trust when they talk over TLS."""

from __future__ import annotations

import ssl

from millrace_core.errors import ErrorCode, MillraceError

Trust = ssl.SSLContext | bool
"""In the form that clients take; True: the authorities that the machine trusts."""


def trust(authority: str) -> Trust:
    """The authorities that the machine trusts, and those of a PEM file if one is named.

    :raises MillraceError: INVALID_VALUE for a file without certificates.
    """
    if not authority:
        return True
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"MILLRACE_TLS_CA = {authority!r}: {error}") from error
    return context
