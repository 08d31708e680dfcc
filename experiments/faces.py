"""Draws a set of faces of known identities, to try verification without anybody's photographs.

    python experiments/faces.py runs/faces --identities 200 --images 30
    dimred stage1 --data runs/faces --model resnet20 --margin_loss arcface --embedding_size 64 --output runs/faces1
    dimred verify runs/faces1 --pairs runs/faces/pairs.txt

An identity is nineteen numbers (shape of the head, eyes, brows, nose, mouth, hair, colours); an image of it has its own
place, size, tilt, light, expression, background and noise. Writes train/ID/*.png and test/ID/*.png (a tenth of each
identity's images), and pairs.txt over others/: people of whom no image is in the training set. The same bytes for the
same options.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

DRAWN = 4  # times the size, so that edges are smooth
PAIRS_OF_ONE = 6  # of each other identity as many of the same as of different ones


@dataclass(frozen=True)
class Face:
    """An identity; lengths are parts of the image's side."""

    head: np.ndarray  # half width, half height
    eyes: np.ndarray  # distance from the middle, height, radius, slant
    brows: np.ndarray  # height over the eyes, tilt, thickness
    nose: np.ndarray  # length, width
    mouth: np.ndarray  # height, half width, thickness
    hair: np.ndarray  # how far down, parting
    skin: np.ndarray  # colours
    iris: np.ndarray
    hair_colour: np.ndarray


def uniform(random: np.random.Generator, *ranges: tuple[float, float]) -> np.ndarray:
    """A number from each range."""
    low, high = np.array(ranges).T
    return random.uniform(low, high)


def draw_identity(random: np.random.Generator) -> Face:
    """Somebody."""
    tone = random.uniform(0, 1)
    skin = np.array([90, 60, 45]) + tone * np.array([150, 135, 125])
    return Face(
        head=uniform(random, (0.24, 0.34), (0.34, 0.43)),
        eyes=uniform(random, (0.09, 0.16), (-0.12, -0.02), (0.025, 0.05), (-0.02, 0.02)),
        brows=uniform(random, (0.05, 0.10), (-0.03, 0.03), (0.01, 0.03)),
        nose=uniform(random, (0.08, 0.18), (0.02, 0.06)),
        mouth=uniform(random, (0.17, 0.27), (0.06, 0.14), (0.01, 0.035)),
        hair=uniform(random, (0.05, 0.22), (-0.15, 0.15)),
        skin=skin + uniform(random, (-12, 12), (-12, 12), (-12, 12)),
        iris=uniform(random, (20, 120), (40, 140), (40, 200)),
        hair_colour=uniform(random, (10, 230), (10, 190), (5, 120)),
    )


def colour(values: np.ndarray) -> tuple[int, ...]:
    """A colour as Pillow wants it."""
    return tuple(int(v) for v in np.clip(values, 0, 255))


def draw(face: Face, random: np.random.Generator, size: int) -> Image.Image:
    """One image of the identity."""
    side = size * DRAWN
    image = Image.new("RGB", (side, side), colour(random.uniform(30, 220, 3)))
    pen = ImageDraw.Draw(image)
    scale = side * random.uniform(0.85, 1.1)
    middle = side * (0.5 + random.uniform(-0.06, 0.06, 2))
    smile = random.uniform(-0.03, 0.05)
    gaze = random.uniform(-0.3, 0.3)

    def box(x: float, y: float, half_width: float, half_height: float) -> list[float]:
        return [
            *(middle + scale * np.array([x - half_width, y - half_height])),
            *(middle + scale * np.array([x + half_width, y + half_height])),
        ]

    def line(points: list[tuple[float, float]], thickness: float, fill: tuple[int, ...]) -> None:
        pen.line([tuple(middle + scale * np.array(p)) for p in points], fill=fill, width=max(1, int(scale * thickness)))

    half_width, half_height = face.head
    pen.ellipse(box(0, -0.03, half_width + 0.04, half_height + 0.04), fill=colour(face.hair_colour))
    pen.ellipse(box(0, 0, half_width, half_height), fill=colour(face.skin))
    down, parting = face.hair
    pen.chord(
        box(parting * 0.3, -half_height + down / 2, half_width * 0.95, down), 180, 360, fill=colour(face.hair_colour)
    )
    apart, height, radius, slant = face.eyes
    over, tilt, thickness = face.brows
    for sign in (-1, 1):
        x, y = sign * apart, height + sign * slant
        pen.ellipse(box(x, y, radius * 1.6, radius), fill=(245, 245, 245))
        pen.ellipse(box(x + gaze * radius, y, radius * 0.75, radius * 0.75), fill=colour(face.iris))
        line(
            [(x - 0.06, y - over + sign * tilt), (x + 0.06, y - over - sign * tilt)],
            thickness,
            colour(face.hair_colour * 0.7),
        )
    length, width = face.nose
    line(
        [(0, height + 0.03), (width, height + length), (-width * 0.6, height + length)], 0.012, colour(face.skin * 0.65)
    )
    mouth, half, lips = face.mouth
    line(
        [(-half, mouth - smile), (0, mouth + smile * 0.6), (half, mouth - smile)],
        lips,
        colour(face.skin * np.array([0.8, 0.4, 0.4])),
    )
    image = image.rotate(random.uniform(-12, 12), Image.Resampling.BICUBIC)
    return image.filter(ImageFilter.GaussianBlur(DRAWN * random.uniform(0.3, 0.8))).resize(
        (size, size), Image.Resampling.BOX
    )


def lit(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Under a light from somewhere, with a camera's noise."""
    size = image.width
    angle, strength, level = random.uniform(0, 2 * np.pi), random.uniform(0, 0.5), random.uniform(0.75, 1.2)
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    light = level * (1 + strength * (x * np.cos(angle) + y * np.sin(angle)))
    pixels = np.asarray(image, float) * light[..., None] + random.normal(0, 6, (size, size, 3))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def write_images(folder: Path, seed: int, identity: int, count: int, size: int) -> list[Path]:
    """`count` images of an identity; each is a function of the seed, the identity and its number alone."""
    face = draw_identity(np.random.default_rng([seed, identity]))
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(count):
        random = np.random.default_rng([seed, identity, number])
        files.append(folder / f"{number:04}.png")
        lit(draw(face, random, size), random).save(files[-1])
    return files


def pair_lines(people: list[list[Path]], root: Path, seed: int) -> list[str]:
    """Lines of pairs, of one person and of two in turn, so that every fold has both."""
    random = np.random.default_rng([seed, 1 << 30])
    both = []
    for person, files in enumerate(people):
        for _ in range(PAIRS_OF_ONE):
            one, two = random.choice(len(files), 2, replace=False)
            other = people[(person + random.integers(1, len(people))) % len(people)]
            different = files[random.integers(len(files))], other[random.integers(len(other))], 0
            both.append([(files[one], files[two], 1), different])
    lines = [line for i in random.permutation(len(both)) for line in both[i]]
    return [f"{one.relative_to(root)} {two.relative_to(root)} {same}" for one, two, same in lines]


def write_set(root: Path, options: argparse.Namespace) -> None:
    """All of it."""
    tests = max(1, options.images // 10)
    for identity in range(options.identities):
        files = write_images(root / "train" / f"{identity:05}", options.seed, identity, options.images, options.size)
        (root / "test" / f"{identity:05}").mkdir(parents=True, exist_ok=True)
        for file in files[:tests]:
            file.rename(root / "test" / f"{identity:05}" / file.name)
    people = [
        write_images(root / "others" / f"{person:05}", options.seed, options.identities + person, 8, options.size)
        for person in range(options.others)
    ]
    (root / "pairs.txt").write_text("\n".join(pair_lines(people, root, options.seed)) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="new folder for the images and the pairs")
    parser.add_argument(
        "--identities", type=int, default=200, help="classes of the training set (default: %(default)s)"
    )
    parser.add_argument("--images", type=int, default=30, help="images of each identity (default: %(default)s)")
    parser.add_argument(
        "--others", type=int, default=100, help="further identities, for the pairs (default: %(default)s)"
    )
    parser.add_argument("--size", type=int, default=32, help="side of the square images (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for name, least in (("identities", 2), ("images", 2), ("others", 5), ("size", 16), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} needs >= {least}, received {getattr(options, name)}")
    if options.folder.exists():
        print(f"faces: {options.folder} exists already; choose a new folder", file=sys.stderr)
        return 1
    write_set(options.folder, options)
    print(
        f"{options.folder} has {options.identities} identities with {options.images} images each, and "
        f"{2 * PAIRS_OF_ONE * options.others} pairs of {options.others} other identities"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
