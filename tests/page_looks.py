"""How far colours are apart, as WCAG defines it."""

import re


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, `rgb(r, g, b)` or `color(srgb r g b)`."""
    if colour.startswith("#"):
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    elif colour.startswith("color(srgb"):
        channels = [float(x) for x in re.findall(r"[\d.]+", colour)[:3]]
    else:
        channels = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    """From 1, the same, to 21, black on white."""
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)
