"""Whose request it is. Streamlit gives every browser a cookie against forged requests; all tabs of a browser send the same."""

from __future__ import annotations

COOKIE = "_streamlit_xsrf"


def unmask_cookie(cookie: str) -> str:
    """What stays the same in the cookie, which is masked anew for each page: version|mask|token xor mask|time.

    Empty for anything else.
    """
    try:
        _, mask, token, _ = cookie.split("|")
        key = bytes.fromhex(mask)
        return bytes(byte ^ key[place % len(key)] for place, byte in enumerate(bytes.fromhex(token))).hex()
    except (ValueError, ZeroDivisionError):
        return ""
