"""The report's colours, for whatever else draws: style.css has them once."""

from __future__ import annotations

import re
from pathlib import Path

STYLE = Path(__file__).with_name("style.css")


def palettes() -> dict[str, dict[str, str]]:
    """light and dark: c0..c7, paper, ink, quiet, faint -> #rrggbb."""
    parts = STYLE.read_text().split("prefers-color-scheme")[:2]
    found = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in parts]
    return dict(zip(("light", "dark"), found, strict=True))
