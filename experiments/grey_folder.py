"""Copies a folder of images as grey JPEGs: what stands in for X-rays where there are none.

    python experiments/grey_folder.py photographs grey
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

ENDINGS = {".jpg", ".jpeg", ".png"}


def convert(source: Path, target: Path) -> int:
    """Every image below `source`, at the same place below `target`; returns how many. Raises ValueError, OSError."""
    files = sorted(file for file in source.rglob("*") if file.suffix.lower() in ENDINGS)
    if not files:
        raise ValueError(f"{source} has no images")
    if target.exists():
        raise ValueError(f"{target} is there already")
    for file in files:
        place = (target / file.relative_to(source)).with_suffix(".jpg")
        place.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(file) as image:
            image.convert("L").save(place, quality=92)
    return len(files)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args(arguments)
    try:
        print(f"{convert(options.source, options.target)} images in {options.target}")
    except (ValueError, OSError) as error:
        print(f"grey_folder.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
