"""Codes of rooms: of links, which cannot be guessed, and short ones to type, which work only for a while and allow few wrong tries."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from specviz.errors import SpecvizError

LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # without 0 O 1 I L, which look alike: a code may be read aloud
SHORT = 6  # characters of a short code: 31**6, 30 bits
LINK = 20  # characters of a link's code: 31**20, 99 bits
LONGEST = 64  # characters of any code that is looked up
TRIES, OF_ALL = 60, 600  # wrong short codes in a minute, from one address and from all together
REMEMBERED = 2000  # addresses whose tries are counted
TOO_MANY = "Too many wrong codes were tried from here. Please wait a minute, or open the link that your teacher shows."


def make_link_code(prefix: str = "") -> str:
    """A code for a link. prefix: what the codes of this server begin with, so that a proxy finds it."""
    return prefix.lower() + _draw_letters(LINK).lower()


def make_short_code(prefix: str = "") -> str:
    """A code to type."""
    return prefix.upper() + _draw_letters(SHORT - len(prefix))


def _draw_letters(length: int) -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(length))


def normalize_code(text: str) -> str:
    """A short code as somebody typed it: without spaces and dashes, in capitals. Not longer than LONGEST."""
    return "".join(letter for letter in text[:LONGEST].upper() if letter.isalnum())


def make_token(steer: str, student: int) -> str:
    """What a student's browser shows for who it is. It follows from the room's private code, so that none is stored."""
    return hmac.new(steer.encode(), f"student {student}".encode(), hashlib.sha256).hexdigest()[:32]


def is_valid_token(given: object, steer: str, student: int) -> bool:
    """Whether this is the token of this student."""
    return isinstance(given, str) and compare_codes(given, make_token(steer, student))


class WrongCodeLimiter:
    """How many wrong codes came in the last minute, by address and in all. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()  # address -> (wrong tries, first of them)

    def check(self, address: str) -> None:
        """Raises SpecvizError where an address has used its tries, before any code of it is looked at."""
        with self._lock:
            if self._count(address) >= TRIES or self._count("") >= OF_ALL:
                raise SpecvizError(TOO_MANY)

    def wrong(self, address: str) -> None:
        """A wrong code came from there."""
        with self._lock:
            for one in (address, ""):
                count, since = self._wrong.get(one, (0, 0.0))
                self._wrong[one] = (count + 1, since) if count and self.clock() - since < 60.0 else (1, self.clock())
                self._wrong.move_to_end(one)
            while len(self._wrong) > REMEMBERED:
                self._wrong.popitem(last=False)

    def _count(self, address: str) -> int:
        count, since = self._wrong.get(address, (0, 0.0))
        return count if self.clock() - since < 60.0 else 0


def compare_codes(given: str, code: str) -> bool:
    """Whether two codes are equal, in a time that does not tell where they differ."""
    return given.isascii() and hmac.compare_digest(given, code)
