"""The report as people see it: colours for every eye, a phone, paper, a real browser."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import report
from PIL import Image
from workbench.palette import palettes

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium (scripts/setup.sh tries)")

# Linear RGB as it looks in full protanopia, deuteranopia and tritanopia: Machado, Oliveira and Fernandes 2009.
VISION = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """#rrggbb -> linear RGB."""
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b*, in which 2.3 is just noticeable."""
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def series_colours(theme: str) -> list[str]:
    """c0..c7."""
    return [palettes()[theme][f"c{i}"] for i in range(8)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_differ_for_every_eye(theme: str) -> None:
    colours, paper = series_colours(theme), palettes()[theme]["paper"]
    for matrix in VISION.values():
        seen = [lab(np.asarray(matrix) @ linear(colour)) for colour in colours]
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) >= 17
    light = [float(TO_XYZ[1] @ linear(colour)) + 0.05 for colour in (paper, *colours)]
    assert min(max(light[0], y) / min(light[0], y) for y in light[1:]) >= 3  # WCAG 1.4.11, graphical objects


@pytest.fixture(scope="module")
def html(small_comparison: Path, tmp_path_factory) -> Path:
    """The report of a real comparison of two seeds."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    assert report.main([str(small_comparison), "--output", str(file)]) == 0
    return file


def test_several_seeds_come_with_their_uncertainty(html: Path) -> None:
    text = html.read_text()
    for heading in ("Over seeds", "The subspace", "Costs", "What differs"):
        assert f"<h2>{heading}</h2>" in text
    for chart in (
        "Share of each component",
        "Path of the snapshots",
        "Next step inside",
        "Norms",
        "Trials of the line search",
    ):
        assert chart in text
    assert re.search(
        r"robust ends at [\d.]+ ± [\d.]+ % over 2 seeds, [+-][\d.]+ points \(.* to .*\) against (annealed|continued)",
        text,
    )
    assert text.count('<i class="key c1"></i>robust</td>') == 2  # one line a group, over seeds and of costs
    assert "<td>stage1</td><td>anneal_from_epoch</td>" in text


def chromium(*arguments: str) -> str:
    """Standard output of a headless browser that knows nothing of the user's."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@browser
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_it_without_scrolling_sideways(width: int, html: Path, tmp_path: Path) -> None:
    probe, picture = tmp_path / "probe.html", tmp_path / "page.png"
    script = "<script>document.title = [document.documentElement.scrollWidth, innerWidth].join(' ')</script></body>"
    probe.write_text(html.read_text().replace("</body>", script))
    size = f"--window-size={width},3000"
    dom = chromium(size, f"--user-data-dir={tmp_path}", "--dump-dom", probe.as_uri())
    needed, given = map(int, re.search(r"<title>(\d+) (\d+)</title>", dom).groups())
    assert needed <= given
    chromium(size, f"--user-data-dir={tmp_path}", f"--screenshot={picture}", html.as_uri())
    pixels = np.asarray(Image.open(picture).convert("RGB")).reshape(-1, 3)
    for colour in series_colours("light")[:4]:  # stage 1, stage 2, continued, annealed are drawn
        assert (pixels == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=1).sum() > 100


@browser
def test_it_prints(html: Path, tmp_path: Path) -> None:
    chromium(
        f"--user-data-dir={tmp_path}",
        f"--print-to-pdf={tmp_path / 'page.pdf'}",
        "--no-pdf-header-footer",
        html.as_uri(),
    )
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8
