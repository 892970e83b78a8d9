"""Codes of rooms: long ones for links, which cannot be guessed, and short ones to type, which work for a while and allow few wrong tries."""

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
MAX_LENGTH = 64  # characters of any code that is looked up
MAX_TRIES, MAX_ALL_TRIES = 60, 600  # wrong short codes in a minute, from one address and from all together
MAX_ADDRESSES = 2000  # addresses whose tries are counted
TOO_MANY = "Too many wrong codes were tried from here. Please wait a minute, or open the link that your teacher shows."


def make_link_code(prefix: str = "") -> str:
    """A code for a link. prefix: start of all codes of this server, by which a proxy finds it."""
    return prefix.lower() + _draw_letters(LINK).lower()


def make_short_code(prefix: str = "") -> str:
    """A code to type, SHORT characters with its prefix."""
    return prefix.upper() + _draw_letters(SHORT - len(prefix))


def _draw_letters(length: int) -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(length))


def normalize_code(text: str) -> str:
    """A typed code without spaces and dashes, in capitals."""
    return "".join(letter for letter in text[:MAX_LENGTH].upper() if letter.isalnum())


def make_token(teacher_code: str, student: int) -> str:
    """The token that identifies a student's browser. It follows from the room's private code, so none is stored."""
    return hmac.new(teacher_code.encode(), f"student {student}".encode(), hashlib.sha256).hexdigest()[:32]


def is_valid_token(token: object, teacher_code: str, student: int) -> bool:
    """Whether this is the token of this student."""
    return isinstance(token, str) and are_equal_codes(token, make_token(teacher_code, student))


class WrongCodeLimiter:
    """Limits wrong codes per minute, by address and in all. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()  # address -> (wrong tries, first of them)

    def check(self, address: str) -> None:
        """Raises SpecvizError where an address has used its tries. Call it before the code is looked up."""
        with self._lock:
            if self._count(address) >= MAX_TRIES or self._count("") >= MAX_ALL_TRIES:
                raise SpecvizError(TOO_MANY)

    def add_wrong_code(self, address: str) -> None:
        """Count a wrong code from an address."""
        with self._lock:
            for key in (address, ""):
                count = self._count(key)
                self._wrong[key] = (count + 1, self._wrong[key][1]) if count else (1, self.clock())
                self._wrong.move_to_end(key)
            while len(self._wrong) > MAX_ADDRESSES:
                self._wrong.popitem(last=False)

    def _count(self, address: str) -> int:
        count, since = self._wrong.get(address, (0, 0.0))
        return count if self.clock() - since < 60.0 else 0


def are_equal_codes(first: str, second: str) -> bool:
    """Whether two codes are equal, compared in constant time."""
    return first.isascii() and hmac.compare_digest(first, second)
