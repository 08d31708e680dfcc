"""Copies a folder of images as grey JPEGs, which can replace X-rays in a test.

python experiments/grey_folder.py photographs grey
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageOps

ENDINGS = {".jpg", ".jpeg", ".png"}


def convert(source: Path, target: Path) -> int:
    """Every image below `source`, upright, at the same place below `target`, which is whole or not there; returns
    how many. Raises ValueError, OSError."""
    files = sorted(file for file in source.rglob("*") if file.suffix.lower() in ENDINGS)
    if not files:
        raise ValueError(f"{source} has no images")
    if target.exists():
        raise ValueError(f"{target} exists already; choose a new folder")
    places: dict[Path, Path] = {}
    for file in files:
        place = file.relative_to(source).with_suffix(".jpg")
        if other := places.get(place):
            raise ValueError(f"{other} and {file} would have the same name {place}")
        places[place] = file
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as temporary:
        whole = Path(temporary) / "images"
        for place, file in places.items():
            (whole / place).parent.mkdir(parents=True, exist_ok=True)
            with Image.open(file) as image:
                ImageOps.exif_transpose(image).convert("L").save(whole / place, quality=92)
        whole.rename(target)
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
