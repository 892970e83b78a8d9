"""Chosen luck: coins that a person sets, as options and links write them."""

from __future__ import annotations

import re

from specviz.coins import Purpose
from specviz.errors import SettingsError
from specviz.ranges import is_number, whole

LENGTH_MAX = 4096  # tokens of a run, and so places of a coin
NAMED = 5  # damaged coins of a link that get a sentence of their own
PURPOSES = {"draft": Purpose.DRAFT, "accept": Purpose.ACCEPT, "residual": Purpose.RESIDUAL, "bonus": Purpose.BONUS}
_COIN = re.compile(r"(?P<position>\d{1,6})(:(?P<purpose>[a-z]+))?=(?P<u>[-+.\deE]+)", re.ASCII)


def read_coin(text: str) -> tuple[tuple[int, str], float]:
    """``POS=U`` or ``POS:draft|accept|residual|bonus=U`` -> ((position, purpose), u)."""
    match = _COIN.fullmatch(text.strip())
    if not match:
        raise SettingsError("coin", text, "written POS=U or POS:draft|residual|bonus=U, such as 3=0.71")
    purpose = match["purpose"] or "accept"
    if purpose not in PURPOSES:
        raise SettingsError("coin purpose", purpose, f"one of {', '.join(PURPOSES)}")
    try:
        u = float(match["u"])
    except ValueError:
        raise SettingsError("coin", text, "written POS=U with a number U, such as 3=0.71") from None
    if not 0.0 <= u < 1.0:
        raise SettingsError("coin", match["u"], "at least 0 and below 1")
    return (int(match["position"]), purpose), u


def read_coins(text: str) -> tuple[dict[tuple[int, str], float], list[str]]:
    """The coins of a link, ``POS=U,POS:residual=U,...``, and a sentence for each that was left out; the others count.

    No more than NAMED sentences: a link that is damaged throughout must not bury the page.
    """
    coins, said = {}, []
    for part in text.split(",") if text else ():
        try:
            key, u = read_coin(part)
            check(*key, u)
            coins[key] = u
        except SettingsError as error:
            said.append(f"The link's coin {part[:40]!r} was left out: {error}")
    if (more := len(said) - NAMED) > 0:
        said[NAMED:] = [f"More of the link's coins were left out: {more} that cannot be used either."]
    return coins, said


def write_coin(key: tuple[int, str], u: float) -> str:
    """The inverse of read_coin, to the last bit."""
    position, purpose = key
    return f"{position}={u!r}" if purpose == "accept" else f"{position}:{purpose}={u!r}"


def check(position: int, purpose: str, u: float) -> None:
    """Raises SettingsError for a coin that no run has."""
    whole("coin position", position, 0, LENGTH_MAX, "0 (the first generated token) or more")
    if purpose not in PURPOSES:
        raise SettingsError("coin purpose", purpose, f"one of {', '.join(PURPOSES)}")
    if not (is_number(u) and 0.0 <= u < 1.0):
        raise SettingsError(f"coin {position}:{purpose}", u, "at least 0 and below 1")
