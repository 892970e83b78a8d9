"""Numbers in sentences and charts: probabilities, and pairs of them that a reader compares or divides.

assets/components/lib/numbers.js writes them the same way.
"""

from __future__ import annotations

from math import isclose

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_probability(x: float, digits: int = 2) -> str:
    """A probability for a reader: 0.62, 0.016, 0.00054, 5.4×10⁻⁵, >0.999. At least two digits count, so that p/q can be checked."""
    if x <= 0.0 or x >= 1.0:
        return f"{x:.0f}"
    if x < 0.0001:
        head, exponent = f"{x:.1e}".split("e")
        return f"{head}×10{str(int(exponent)).translate(RAISED)}"
    if round(x, digits) == 1.0:
        digits = max(3, digits)
    if round(x, digits) == 1.0:
        return f">0.{'9' * digits}"
    while x * 10**digits < 10.0:
        digits += 1
    return f"{x:.{digits}f}"


def format_apart(u: float, threshold: float) -> tuple[str, str]:
    """A random number and what it is compared with, with as many digits as it takes to tell them apart."""
    for digits in (2, 3, 4, 6, 9):
        pair = format_probability(u, digits), format_probability(threshold, digits)
        if pair[0] != pair[1] or u == threshold:
            return pair
    return pair


def format_quotient(p: float, q: float, rate: float) -> tuple[str, str, str]:
    """p, q and the acceptance probability p/q, with as many digits as it takes that whoever divides the first two gets the third."""
    wanted = format_probability(rate)
    if 0.0 < rate < 1.0 and isclose(p / q, rate):
        for digits in (2, 3, 4):
            written = format_probability(p, digits), format_probability(q, digits)
            if (
                all(one.replace(".", "").isdecimal() for one in written)
                and format_probability(float(written[0]) / float(written[1])) == wanted
            ):
                return *written, wanted
    return format_probability(p), format_probability(q), wanted
