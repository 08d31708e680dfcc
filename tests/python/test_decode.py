"""Decoding JPEG and PNG against Pillow, and what is damaged or too large.

at full size, any region                            equal (libjpeg's slow integer IDCT, fancy upsampling)
at reduction 2, 4, 8 against the mean of blocks      mean error <= 1.5 levels, on smooth colours
"""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from image_probe import Ask, decoded, photograph, region_of, save
from PIL import Image, ImageOps

pytest_plugins = ["image_probe"]

JPEGS = {
    "4:2:0": ("RGB", {"subsampling": 2}),
    "4:2:2": ("RGB", {"subsampling": 1}),
    "4:4:4": ("RGB", {"subsampling": 0, "quality": 95}),
    "progressive": ("RGB", {"progressive": True}),
    "restarts": ("RGB", {"restart_marker_rows": 1}),
    "grey": ("L", {}),
    "cmyk": ("CMYK", {"quality": 90}),
}


@pytest.mark.parametrize("name", JPEGS)
def test_jpeg_decodes_as_pillow_does(ask: Ask, tmp_path: Path, name: str) -> None:
    mode, options = JPEGS[name]
    for height, width in ((67, 83), (16, 16), (1, 1), (8, 200)):
        path = save(photograph(height, width).convert(mode), tmp_path / "a.jpg", **options)
        expected = np.asarray(Image.open(path).convert("RGB"))
        np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out"), expected)


def test_any_ink_and_key_are_pillows_colour(ask: Ask, tmp_path: Path) -> None:
    inks = np.random.default_rng(1).integers(0, 256, (128, 128, 4), dtype=np.uint8)  # Pillow makes CMYK without a key
    path = save(Image.fromarray(inks, "CMYK"), tmp_path / "a.jpg", quality=100, subsampling=0)
    expected = np.asarray(Image.open(path).convert("RGB"))
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out"), expected)


@pytest.mark.parametrize("name", JPEGS)
def test_a_region_is_the_same_pixels(ask: Ask, tmp_path: Path, name: str) -> None:
    mode, options = JPEGS[name]
    path = save(photograph(150, 201).convert(mode), tmp_path / "a.jpg", **options)
    whole = np.asarray(Image.open(path).convert("RGB"))
    random = np.random.default_rng(1)
    for _ in range(60):
        height, width = random.integers(1, 150), random.integers(1, 201)
        top, left = random.integers(0, 150 - height + 1), random.integers(0, 201 - width + 1)
        pixels = region_of(ask, path, tmp_path / "out", top, left, height, width)
        np.testing.assert_array_equal(pixels, whole[top : top + height, left : left + width])


@pytest.mark.parametrize("reduction", [2, 4, 8])
def test_a_reduction_is_the_mean_of_its_block(ask: Ask, tmp_path: Path, reduction: int) -> None:
    path = save(photograph(160, 240), tmp_path / "a.jpg", quality=92, subsampling=0)
    whole = np.asarray(Image.open(path)).astype(float)
    answer = ask("decode", path, 16, 24, 120, 200, 120 // reduction, 200 // reduction, 3, tmp_path / "out")
    rows, columns, used, above, before = map(int, answer[3:8])
    assert used == reduction
    means = whole.reshape(160 // reduction, reduction, 240 // reduction, reduction, 3).mean((1, 3))
    expected = means[above // reduction :, before // reduction :][:rows, :columns]
    pixels = np.fromfile(tmp_path / "out", np.uint8).reshape(rows, columns, 3)
    error = np.abs(pixels - expected)[2:-2, 4:-4]
    assert error.mean() < 1.5


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(ask: Ask, tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(photograph(40, 61), tmp_path / "a.jpg", exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(path)))
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out"), expected)
    np.testing.assert_array_equal(region_of(ask, path, tmp_path / "out", 3, 5, 20, 30), expected[3:23, 5:35])


def orientation_tag(order: str, kind: int, value: int) -> bytes:
    """EXIF with that tag alone, of type 1 BYTE, 3 SHORT or 4 LONG."""
    content = struct.pack(order + {1: "Bxxx", 3: "Hxx", 4: "I"}[kind], value)
    head = (b"MM" if order == ">" else b"II") + struct.pack(order + "HIHHHI", 42, 8, 1, 0x0112, kind, 1)
    return b"Exif\0\0" + head + content + bytes(4)


def with_app1(path: Path, *payloads: bytes) -> Path:
    data = path.read_bytes()
    segments = b"".join(b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload for payload in payloads)
    path.write_bytes(data[:2] + segments + data[2:])
    return path


XMP = (
    b"http://ns.adobe.com/xap/1.0/\0"
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="8"/></x:xmpmeta>'
)
TAGS = {
    **{f"{order} {kind}": [orientation_tag(order, kind, 6)] for order in "<>" for kind in (1, 3, 4)},
    "the first of two": [orientation_tag("<", 3, 6), orientation_tag("<", 3, 3)],
    "XMP": [XMP],
    "EXIF before XMP": [XMP, orientation_tag(">", 4, 3)],
}


@pytest.mark.parametrize("name", TAGS)
def test_orientation_is_what_pillow_reads(ask: Ask, tmp_path: Path, name: str) -> None:
    path = with_app1(save(photograph(40, 61), tmp_path / "a.jpg"), *TAGS[name])
    expected = np.asarray(ImageOps.exif_transpose(Image.open(path)))
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out"), expected)


@pytest.mark.parametrize("mode", ["RGB", "P", "RGBA"])
def test_a_colour_png_becomes_pillows_grey(ask: Ask, tmp_path: Path, mode: str) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (37, 53, 3), np.uint8)
    path = save(Image.fromarray(pixels).convert(mode), tmp_path / "a.png")
    expected = np.asarray(Image.open(path).convert("RGB").convert("L"))
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out", 1)[..., 0], expected)
    path = interlaced(pixels, tmp_path / "interlaced.png")
    expected = np.asarray(Image.fromarray(pixels).convert("L"))
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out", 1)[..., 0], expected)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1", "RGBA", "LA"])
def test_png_decodes_as_pillow_does(ask: Ask, tmp_path: Path, mode: str) -> None:
    path = save(photograph(37, 53).convert(mode), tmp_path / "a.png")
    expected = np.asarray(Image.open(path).convert("RGB"))
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out"), expected)
    np.testing.assert_array_equal(region_of(ask, path, tmp_path / "out", 4, 9, 20, 30), expected[4:24, 9:39])


def test_sixteen_bits_keep_their_upper_eight(ask: Ask, tmp_path: Path) -> None:
    values = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16) + 3
    path = save(Image.fromarray(values), tmp_path / "a.png")
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out", 1)[..., 0], values >> 8)


def cut_short(path: Path, part: float) -> Path:
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    return path


def test_a_missing_tail_is_borne_and_said(ask: Ask, tmp_path: Path) -> None:
    path = cut_short(save(photograph(400, 300), tmp_path / "a.jpg"), 0.9)
    whole = np.asarray(photograph(400, 300)).astype(float)
    answer = " ".join(ask("decode", path, 0, 0, 0, 0, 9999, 9999, 3, tmp_path / "out"))
    assert "ends early: all rows from about row" in answer
    pixels = np.fromfile(tmp_path / "out", np.uint8).reshape(400, 300, 3)
    assert np.abs(pixels[:340] - whole[:340]).mean() < 8
    answer = " ".join(ask("decode", cut_short(path, 0.5), 0, 0, 0, 0, 9999, 9999, 3, tmp_path / "out"))
    assert answer.startswith("error: [jpeg] the file ends early, at row")
    png = cut_short(save(photograph(400, 300), tmp_path / "a.png"), 0.9)
    assert "on are missing" in " ".join(ask("decode", png, 0, 0, 0, 0, 9999, 9999, 3, tmp_path / "out"))
    answer = " ".join(ask("decode", cut_short(png, 0.5), 0, 0, 0, 0, 9999, 9999, 3, tmp_path / "out"))
    assert answer.startswith("error: [png] the file ends early")


@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 2}, {"progressive": True}])
def test_what_is_missing_does_not_depend_on_the_region(ask: Ask, tmp_path: Path, options: dict[str, int]) -> None:
    whole = save(photograph(150, 201), tmp_path / "a.jpg", **options).read_bytes()
    cut = tmp_path / "cut.jpg"
    for size in (len(whole) // 3, 3 * len(whole) // 4, 9 * len(whole) // 10, len(whole) - 2):
        cut.write_bytes(whole[:size])
        said = set()
        for region in ((0, 0, 0, 0), (0, 0, 10, 10), (60, 50, 20, 100), (140, 191, 10, 10)):
            answer = " ".join(ask("decode", cut, *region, 9999, 9999, 3, tmp_path / "out"))
            said.add(re.sub(r"^[\d .]+", "", answer))
        assert len(said) == 1 and "ends" in said.pop()


@pytest.mark.parametrize("size", [(8, 8), (21, 27), (64, 64), (65, 40), (200, 8)])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 2}, {"restart_marker_blocks": 1}])
def test_all_rows_are_there_without_the_end_mark(
    ask: Ask, tmp_path: Path, size: tuple[int, int], options: dict[str, int]
) -> None:
    path = save(photograph(*size), tmp_path / "a.jpg", **options)
    expected = np.asarray(Image.open(path))
    path.write_bytes(path.read_bytes()[:-2])
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out"), expected)
    assert "ends without its end mark" in " ".join(ask("decode", path, 0, 0, 0, 0, 9999, 9999, 3, tmp_path / "out"))


def test_a_small_png_is_borne_as_far_as_its_bytes_go(ask: Ask, tmp_path: Path) -> None:
    """Less than libpng asks for at once, unless told otherwise."""
    png = cut_short(save(photograph(64, 64), tmp_path / "a.png"), 0.9)
    assert png.stat().st_size < 3 * 8192
    answer = " ".join(ask("decode", png, 0, 0, 0, 0, 9999, 9999, 3, tmp_path / "out"))
    rows = int(answer.split("rows from row ")[1].split()[0])
    assert rows >= 50, answer
    pixels = np.fromfile(tmp_path / "out", np.uint8).reshape(64, 64, 3)
    np.testing.assert_array_equal(pixels[:rows], np.asarray(photograph(64, 64))[:rows])


def test_bombs_are_refused_before_anything_is_allocated(ask: Ask, tmp_path: Path) -> None:
    def answer(path: Path) -> str:
        return " ".join(ask("decode", path, 0, 0, 0, 0, 1, 1, 3, tmp_path / "out"))

    jpeg = bytearray(save(photograph(16, 16), tmp_path / "a.jpg").read_bytes())
    at = jpeg.index(b"\xff\xc0") + 5
    for height, width, text in (
        (12_500, 8_000, "needs at most 64 megapixels, received 12500 x 8000"),
        (65_535, 65_535, "needs at most 64 megapixels, received 65535 x 65535"),
        (8_000, 8_000, "for the 8000 x 8000 pixels of its header"),
        (0, 16, "needs at least one pixel"),
    ):
        jpeg[at : at + 4] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
        (tmp_path / "bomb.jpg").write_bytes(jpeg)
        assert text in answer(tmp_path / "bomb.jpg")
    png = bytearray(save(photograph(16, 16), tmp_path / "a.png").read_bytes())
    png[16:24] = (12_500).to_bytes(4, "big") + (8_000).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(png)
    assert "needs at most 64 megapixels" in answer(tmp_path / "bomb.png")
    png[16:24] = (30).to_bytes(4, "big") + (100_000).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(png + bytes(10_000))
    assert "needs at most 65535 pixels on each side, received 100000 x 30" in answer(tmp_path / "bomb.png")
    png[16:24] = (2**31).to_bytes(4, "big") + (2**31).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(png)
    assert "needs sizes below 2^31" in answer(tmp_path / "bomb.png")


def test_a_file_may_ask_for_memory_by_its_size(ask: Ask, tmp_path: Path) -> None:
    """16 megapixels of any file, and 128 pixels for each byte; a turned JPEG is there twice."""

    def answer(path: Path) -> str:
        return " ".join(ask("decode", path, 0, 0, 1, 1, 1, 1, 3, tmp_path / "out"))

    def blank(height: int, width: int, **options: object) -> Path:
        return save(Image.new("L", (width, height)), tmp_path / f"blank.{options.pop('form')}", **options)

    assert not answer(blank(3990, 4000, form="png")).startswith("error")
    large = blank(5000, 5000, form="png")
    assert large.stat().st_size < 50_000
    report = f"the image has only {large.stat().st_size} bytes, too few for the 5000 x 5000 pixels of its header"
    assert report in answer(large)
    with large.open("ab") as file:
        file.write(bytes(80_000))
    assert not answer(large).startswith("error")
    exif = Image.Exif()
    for orientation in (1, 6):
        exif[0x0112] = orientation
        turned = blank(3600, 3600, form="jpg", exif=exif, progressive=False)
        with turned.open("r+b") as file:
            file.truncate(26_000)
        assert ("the image has only 26000 bytes" in answer(turned)) == (orientation == 6)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def interlaced(pixels: np.ndarray, path: Path) -> Path:
    """Writes the pixels as a PNG in Adam7's seven passes."""
    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    rows = [row for top, left, down, right in passes for row in pixels[top::down, left::right] if row.size]
    header = struct.pack(">2I5B", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 1)
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return path


def test_interlaced_png_decodes_as_pillow_does(ask: Ask, tmp_path: Path) -> None:
    for height, width in ((37, 53), (1, 1), (3, 2), (8, 9)):
        path = interlaced(np.asarray(photograph(height, width)), tmp_path / "a.png")
        whole = np.asarray(Image.open(path))
        np.testing.assert_array_equal(whole, np.asarray(photograph(height, width)))
        np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out"), whole)
        top, left = height // 3, width // 4
        pixels = region_of(ask, path, tmp_path / "out", top, left, height // 2 + 1, width // 2 + 1)
        np.testing.assert_array_equal(pixels, whole[top : top + height // 2 + 1, left : left + width // 2 + 1])


def test_a_gamma_within_a_png_changes_nothing(ask: Ask, tmp_path: Path) -> None:
    path = save(photograph(20, 30), tmp_path / "a.png")
    plain = decoded(ask, path, tmp_path / "out", 1)
    file = path.read_bytes()
    path.write_bytes(file[:33] + chunk(b"gAMA", struct.pack(">I", 45_455)) + file[33:])
    np.testing.assert_array_equal(decoded(ask, path, tmp_path / "out", 1), plain)


def png_of(
    pixels: np.ndarray,
    parts: int = 1,
    level: int = 6,
    wrong: int | None = None,
    flip: float | None = None,
    adler: int = 0,
    head: bytes = b"",
    tail: bytes = b"",
) -> bytes:
    """A PNG whose image data lie in that many chunks; `wrong` is the chunk of a wrong checksum, `flip` the place of a
    bit that differs from what the checksums are of, `adler` what the data's own checksum is changed by."""
    height, width = pixels.shape[:2]
    data = bytearray(zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels), level))
    data[-1] ^= adler
    whole = bytes(data)
    if flip is not None:
        data[int(len(data) * flip)] ^= 0x40
    size = -(-len(data) // parts)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) + head
    for number, at in enumerate(range(0, len(data), size)):
        checksum = zlib.crc32(b"IDAT" + whole[at : at + size]) ^ (number == wrong)
        content = bytes(data[at : at + size])
        file += struct.pack(">I", len(content)) + b"IDAT" + content + struct.pack(">I", checksum)
    return file + tail + chunk(b"IEND", b"")


def all_wrong(pixels: np.ndarray) -> bytes:
    """Stored bytes of which every second is another, under a checksum of what they were."""
    file = bytearray(png_of(pixels, level=0))
    row = 1 + pixels[0].size
    for y in range(pixels.shape[0]):
        for x in range(0, row - 1, 2):
            file[33 + 8 + 7 + y * row + 1 + x] ^= 0x80
    return bytes(file)


def other_type(file: bytes, number: int) -> bytes:
    """The file with the type of one of its data chunks replaced."""
    at = -1
    for _ in range(number):
        at = file.index(b"IDAT", at + 1)
    return file[:at] + b"XDAT" + file[at + 4 :]


PIXELS = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
TEXT = b"Comment\0" + bytes(range(32, 127))
# Rows that repeat after 455 bytes, more than the window of 256 bytes that the file then states, as some writers do.
REPEATED = zlib.compress(b"".join(b"\0" + row.tobytes() for row in np.tile(PIXELS[:5], (8, 1, 1))))
DAMAGED = {
    "sound": png_of(PIXELS),
    "in pieces": png_of(PIXELS, 40),
    "every pixel wrong": all_wrong(PIXELS),
    "bit of stored data": png_of(PIXELS, level=0, flip=0.3),
    "bit of the last piece": png_of(PIXELS, 4, flip=0.9),
    "bit of the first piece": png_of(PIXELS, 4, flip=0.1),
    "checksum of the data": png_of(PIXELS, adler=1),
    "checksum of the data, in a piece of its own": png_of(PIXELS, 99_999, adler=1),
    "checksum of a piece": png_of(PIXELS, 4, wrong=0),
    "checksum of the last piece": png_of(PIXELS, 4, wrong=3),
    "checksum of a text before": png_of(PIXELS, head=chunk(b"tEXt", TEXT)[:-1] + b"\0"),
    "checksum of a text behind": png_of(PIXELS, tail=chunk(b"tEXt", TEXT)[:-1] + b"\0"),
    "sound text before": png_of(PIXELS, head=chunk(b"tEXt", TEXT)),
    "type of a piece": other_type(png_of(PIXELS, 4), 4),
    "type of the only piece": other_type(png_of(PIXELS), 1),
    "header's checksum": png_of(PIXELS)[:32] + b"\0" + png_of(PIXELS)[33:],
    "no end": png_of(PIXELS)[:-12],
    "a part of a checksum at the end": png_of(PIXELS)[:-14],
    "no checksum of the chunk": png_of(PIXELS)[:-16],
    "a length beyond the end": png_of(PIXELS)[:33] + b"\0\1" + png_of(PIXELS)[35:],
    "zeros behind": png_of(PIXELS) + bytes(100),
    "zeros in place of the last quarter": png_of(PIXELS)[:-1000] + bytes(1000),
    "rows of a smaller image": png_of(PIXELS[:20]).replace(struct.pack(">2I", 30, 20), struct.pack(">2I", 30, 40)),
}


def with_sound_header(file: bytes) -> bytes:
    return file[:8] + chunk(b"IHDR", file[16:29]) + file[33:]


DAMAGED["fewer rows than said"] = with_sound_header(DAMAGED["rows of a smaller image"])
DAMAGED["data that end within a row"] = (
    DAMAGED["sound"][:33]
    + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in PIXELS)[:-20]))
    + chunk(b"IEND", b"")
)
DAMAGED["a window that is too small"] = (
    DAMAGED["sound"][:33] + chunk(b"IDAT", bytes([0x08, 0x1D]) + REPEATED[2:]) + chunk(b"IEND", b"")
)


def png_file(*chunks: bytes, header: bytes = b"", depth: int = 8, colour: int = 2, compression: int = 0) -> bytes:
    """A PNG of 40 x 30 pixels whose header chunk has `header` behind its fields."""
    fields = struct.pack(">2I5B", 30, 40, depth, colour, compression, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", fields + header) + b"".join(chunks) + chunk(b"IEND", b"")


STREAM = zlib.compress(b"".join(b"\0" + row.tobytes() for row in PIXELS))
DATA = chunk(b"IDAT", STREAM)
HEADER, NOTE = png_file()[8:33], chunk(b"tEXt", TEXT)
for missing in (1, 2, 4, 5, 40):  # of the 4 bytes of the checksum, then of the data
    DAMAGED[f"{missing} bytes of the end of the data"] = png_file(chunk(b"IDAT", STREAM[:-missing]))
DAMAGED |= {
    "no checksum of the data, in pieces": png_file(
        *(chunk(b"IDAT", STREAM[at : min(at + 97, len(STREAM) - 4)]) for at in range(0, len(STREAM) - 4, 97))
    ),
    "no checksum of the data, a text behind": png_file(chunk(b"IDAT", STREAM[:-4]), NOTE),
    "no checksum of the data, no end": png_file(chunk(b"IDAT", STREAM[:-4]))[:-12],
    "half of a wrong checksum of the data": png_file(chunk(b"IDAT", STREAM[:-4] + bytes([STREAM[-4] ^ 1]))),
    "no checksum of rows that repeat": png_file(chunk(b"IDAT", zlib.compress(bytes(91 * 40))[:-4])),
    "no checksum nor end of rows that repeat": png_file(chunk(b"IDAT", zlib.compress(bytes(91 * 40))[:-6])),
    "no checksum of more data than needed": png_file(
        chunk(b"IDAT", zlib.compress(zlib.decompress(STREAM) + TEXT)[:-4])
    ),
    "header twice": png_file(HEADER, DATA),
    "header three times, a text between": png_file(HEADER, NOTE, HEADER, DATA),
    "header twice, one with another compression": png_file(png_file(compression=1)[8:33], DATA),
    "header twice, one of another colour": png_file(png_file(colour=0)[8:33], DATA),
    "header twice, one cut": png_file(chunk(b"IHDR", HEADER[8:20]), DATA),
    "header twice, one with a wrong checksum": png_file(HEADER[:-1] + b"\0", DATA),
    "header behind the data": png_file(DATA, HEADER),
    "header of 14 bytes": png_file(DATA, header=b"x"),
    "header of 213 bytes": png_file(DATA, header=bytes(200), compression=3),
    "compression method 1": png_file(DATA, compression=1),
    "compression method 255": png_file(DATA, compression=255),
    "unknown critical chunk": png_file(chunk(b"ABCD", b"x"), DATA),
    "unknown critical chunks and a text": png_file(chunk(b"AbCD", b""), NOTE, chunk(b"ABcD", TEXT), DATA),
    "critical chunk with a digit in its name": png_file(chunk(b"AB1D", b"x"), DATA),
    "critical chunk with a sign in its name": png_file(chunk(b"AB-D", b"x"), DATA),
    "unknown critical chunk with a wrong checksum": png_file(chunk(b"ABCD", b"x")[:-1] + b"\0", DATA),
    "unknown critical chunk behind": png_file(DATA, chunk(b"ABCD", b"x")),
    "unknown critical chunk, no checksum of the data": png_file(chunk(b"ABCD", b"x"), chunk(b"IDAT", STREAM[:-4])),
    "palette of no colour in RGB": png_file(chunk(b"PLTE", b""), DATA),
}
THIRDS = [STREAM[: len(STREAM) // 3], STREAM[len(STREAM) // 3 : -100], STREAM[-100:]]
FIRST, SECOND, LAST = (chunk(b"IDAT", part) for part in THIRDS)
MORE = chunk(b"DDAT", THIRDS[1])  # Pillow takes the type for image data behind the first chunk of them
APPLE = chunk(b"CgBI", b"\x50\0\x20\x02")
BARE = zlib.compressobj(wbits=-15)
RAW = chunk(b"IDAT", BARE.compress(zlib.decompress(STREAM)) + BARE.flush())
ROWS = zlib.decompress(STREAM)


def filtered(row: int, filter_type: int) -> bytes:
    """The data with another type of filter at the beginning of a row."""
    return chunk(b"IDAT", zlib.compress(ROWS[: 91 * row] + bytes([filter_type]) + ROWS[91 * row + 1 :]))


DAMAGED |= {
    "DDAT among the data": png_file(FIRST, MORE, LAST),
    "DDAT at the end of the data": png_file(FIRST, SECOND, chunk(b"DDAT", THIRDS[2])),
    "DDAT alone behind the first": png_file(FIRST, chunk(b"DDAT", THIRDS[1] + THIRDS[2])),
    "DDAT without bytes": png_file(FIRST, chunk(b"DDAT", b""), SECOND, LAST),
    "DDAT of other bytes": png_file(FIRST, chunk(b"DDAT", bytes(len(THIRDS[1]))), LAST),
    "DDAT with a wrong checksum": png_file(FIRST, MORE[:-1] + b"\0", LAST),
    "DDAT of the data's first bytes": png_file(chunk(b"DDAT", THIRDS[0]), SECOND, LAST),
    "DDAT before the data": png_file(MORE, DATA),
    "DDAT before the data with a wrong checksum": png_file(MORE[:-1] + b"\0", DATA),
    "DDAT behind the data": png_file(DATA, chunk(b"DDAT", TEXT)),
    "a text among the data": png_file(FIRST, NOTE, SECOND, LAST),
    "fdAT before the data": png_file(chunk(b"fdAT", TEXT), DATA),
    "fdAT among the data": png_file(FIRST, chunk(b"fdAT", bytes(4) + THIRDS[1]), LAST),
    "a text before the header": DAMAGED["sound"][:8] + NOTE + png_file(DATA)[8:],
    "a text with a wrong checksum before the header": DAMAGED["sound"][:8] + NOTE[:-1] + b"\0" + png_file(DATA)[8:],
    "no header": DAMAGED["sound"][:8] + DATA + chunk(b"IEND", b""),
    "deflate without a head": png_file(RAW),
    "Apple's form": DAMAGED["sound"][:8] + APPLE + png_file(RAW)[8:],
    "Apple's form, header first": png_file(APPLE, RAW),
    "a filter of the last type in the last row": png_file(filtered(39, 4)),
    "a filter of no type in the first row": png_file(filtered(0, 5)),
    "a filter of no type in the last row": png_file(filtered(39, 5)),
    "a filter of no type in the last row, no checksum": png_file(chunk(b"IDAT", filtered(39, 255)[8:-8])),
}
COLOURS = np.random.default_rng(1).integers(0, 256, 768, np.uint8).tobytes()
for depth in (8, 4, 1):
    rows = np.random.default_rng(2).integers(0, 256, (40, -(-30 * depth // 8)), np.uint8)
    indexed = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows)))
    most = 3 << depth
    DAMAGED[f"no palette of {depth} bits"] = png_file(indexed, depth=depth, colour=3)
    DAMAGED[f"palette of {depth} bits behind the data"] = png_file(
        indexed, chunk(b"PLTE", COLOURS[:most]), depth=depth, colour=3
    )
    for size in (0, 1, 2, 3, 4, 5, most):
        DAMAGED[f"palette of {size} bytes for {depth} bits"] = png_file(
            chunk(b"PLTE", COLOURS[:size]), indexed, depth=depth, colour=3
        )
    DAMAGED[f"two palettes of {depth} bits"] = png_file(
        chunk(b"PLTE", COLOURS[:most]), chunk(b"PLTE", COLOURS[most - 1 :: -1]), indexed, depth=depth, colour=3
    )
    if depth == 8:
        for size in (10, 11, 767, 769, 770, 771, 900):
            DAMAGED[f"palette of {size} bytes"] = png_file(
                chunk(b"PLTE", (COLOURS + COLOURS)[:size]), indexed, colour=3
            )


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_png_is_taken_where_pillow_takes_it(ask: Ask, tmp_path: Path, name: str) -> None:
    """Whole or a part of it, and with Pillow's pixels where they are all there."""
    path = tmp_path / "a.png"
    path.write_bytes(DAMAGED[name])
    try:
        with Image.open(path) as image:
            expected = np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError):
        expected = None
    for top, rows in ((0, 40), (0, 5), (30, 10)):
        answer = " ".join(ask("decode", path, top, 0, rows, 30, 9999, 9999, 3, tmp_path / "out"))
        assert answer.startswith("error: [png]") == (expected is None), answer
        if expected is not None:
            pixels = np.fromfile(tmp_path / "out", np.uint8).reshape(rows, 30, 3)
            missing = "on are missing" in answer
            assert missing == (name == "fewer rows than said")
            there = 20 if missing else 40
            np.testing.assert_array_equal(pixels[: max(0, there - top)], expected[top : min(there, top + rows)])
            assert (pixels[max(0, there - top) :] == 128).all()


def test_apples_form_of_png_is_refused_by_name(ask: Ask, tmp_path: Path) -> None:
    """With a sound stream, too: its colours are in another order."""
    path = tmp_path / "a.png"
    for file in (DAMAGED["Apple's form"], DAMAGED["Apple's form, header first"], png_file(APPLE, DATA)):
        path.write_bytes(file)
        answer = " ".join(ask("decode", path, 0, 0, 0, 0, 9999, 9999, 3, tmp_path / "out"))
        assert answer.startswith("error: [png] the file has a chunk CgBI"), answer
        assert "convert the file to a plain PNG" in answer


def test_a_png_with_a_bit_changed_is_what_it_is_to_pillow(ask: Ask, tmp_path: Path) -> None:
    """Any bit of files of every kind; the first 33 bytes say the size."""
    random = np.random.default_rng(5)
    path = tmp_path / "a.png"
    files = [png_of(PIXELS, 5, head=chunk(b"tEXt", TEXT)), interlaced(PIXELS, path).read_bytes()]
    for mode in ("P", "L", "1", "RGBA"):
        Image.fromarray(PIXELS).convert(mode).save(path)
        files.append(path.read_bytes())
    taken = 0
    for file in files:
        for at in random.integers(33, len(file), 60):
            data = bytearray(file)
            data[at] ^= 1 << random.integers(8)
            path.write_bytes(data)
            try:
                with Image.open(path) as image:
                    expected = np.asarray(image.convert("RGB"))
            except (OSError, SyntaxError, ValueError):
                expected = None
            answer = " ".join(ask("decode", path, 0, 0, 0, 0, 9999, 9999, 3, tmp_path / "out"))
            if answer.startswith("error: [png] the file ends early") or "the file ends early: all rows" in answer:
                assert expected is None  # our own rule
                continue
            assert answer.startswith("error: [png]") == (expected is None), (at, answer)
            if expected is not None:
                taken += 1
                np.testing.assert_array_equal(np.fromfile(tmp_path / "out", np.uint8).reshape(40, 30, 3), expected)
    assert taken > 5


def test_damage_is_an_error_or_named_and_never_a_crash(ask: Ask, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    report = 0
    for name, options in (("a.jpg", {}), ("b.jpg", {"progressive": True}), ("c.png", {})):
        sound = save(photograph(60, 80), tmp_path / name, **options).read_bytes()
        for _ in range(150):
            data = bytearray(sound)
            changes = random.integers(8)
            for at in random.integers(2 if name != "c.png" else 8, len(data), changes):
                data[at] = random.integers(256)
            length = random.integers(20, len(data) + 1)
            (tmp_path / name).write_bytes(data[:length])
            (tmp_path / "out").unlink(missing_ok=True)
            answer = ask("decode", tmp_path / name, 0, 0, 0, 0, 30, 30, 3, tmp_path / "out")
            if answer[0] == "error:":
                assert answer[1].startswith(("[jpeg]", "[png]", "[decode]")), answer
                assert not (tmp_path / "out").exists()
            else:
                assert (tmp_path / "out").stat().st_size == int(answer[3]) * int(answer[4]) * 3
                named = bool(answer[8])
                report += named
                if changes == 0:  # with them the header may say another size
                    assert named or length > len(sound) - 40, f"{name} of {length} bytes of {len(sound)}: {answer}"
    assert report > 20  # used as far as they go
    assert ask("decode", save(photograph(9, 9), tmp_path / "d.png"), 0, 0, 0, 0, 1, 1, 3, tmp_path / "out")[0] == "3"
