"""Numbers and lists as a reader who is no engineer would say them."""

import math
from collections.abc import Sequence

NO_BREAK = "\u00a0"


def ratio(llr: float) -> str:
    """A likelihood ratio with two digits that count: 1, 240, 1/3,100."""
    if not math.isfinite(llr):
        return "infinity" if llr > 0 else "0"
    if abs(llr) > 40.0:
        return f"10^{llr / math.log(10.0):.0f}"
    size = _two_digits(math.exp(abs(llr)))
    return size if llr >= 0.0 or size == "1" else f"1/{size}"


def _two_digits(value: float) -> str:
    if value < 9.95:
        return f"{value:.1f}".removesuffix(".0")
    digits = len(str(round(value))) - 2
    return f"{round(value, -digits):,.0f}"


def percent(share: float) -> str:
    """A share: 0 %, 0.03 %, 4.1 %, 97.2 %, 100 %; its sign stays on the line."""
    value = 100.0 * share
    if share in (0.0, 1.0):
        shown = f"{value:.0f}"
    elif value < 0.1:
        shown = f"{value:.1g}"
    elif value > 99.9:  # 99.96 must not become 100
        shown = f"{min(value, 99.99):.2f}"
    else:
        shown = f"{value:.1f}"
    return f"{shown}{NO_BREAK}%"


def one_in(share: float) -> str:
    """A small share as people say it: 1 in 250; none for 0."""
    return "none" if share <= 0.0 else f"1 in {_two_digits(1.0 / share)}"


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 person, 2,300 comparisons."""
    plural = {"person": "people"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"


def seconds(value: float) -> str:
    """Seconds with as many digits as matter: 0.8 s, 12 s."""
    return f"{value:.1f}{NO_BREAK}s" if value < 10.0 else f"{value:.0f}{NO_BREAK}s"


def condition(name: str) -> str:
    """The name of a duration bin in words; other names as they are."""
    if name.endswith(" s"):
        if name.startswith("<"):
            return f"under {name[1:]}"
        if name.endswith("+ s"):
            return f"{name[:-3]} s or more"
        return name.replace("-", " to ")
    return name


def signed(value: float) -> str:
    """Two decimals, with a minus sign that is one."""
    return f"{value:.2f}".replace("-", "−")


def listed(names: Sequence[str], most: int = 0) -> str:
    """Names with commas and an `and`; after the first `most`, how many there are more."""
    if most and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def fixed(value: float, digits: int = 3) -> str:
    """A figure with fixed decimals; infinite in words."""
    return "infinite" if math.isinf(value) else f"{value:.{digits}f}"
