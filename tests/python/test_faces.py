"""experiments/faces.py: a set of drawn faces whose pairs dimred verify reads."""

from __future__ import annotations

from pathlib import Path

import faces
import numpy as np
import pytest
from PIL import Image

FEW = ["--identities=4", "--images=10", "--others=6", "--size=24"]


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file by its place."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_the_same_options_give_the_same_bytes_and_others_do_not(tmp_path: Path) -> None:
    for name, more in (("one", []), ("again", []), ("other", ["--seed=2"])):
        assert faces.main([str(tmp_path / name), *FEW, *more]) == 0
    one = bytes_of(tmp_path / "one")
    assert one == bytes_of(tmp_path / "again")
    assert not set(one.values()) & set(bytes_of(tmp_path / "other").values())
    assert len(set(one.values())) == len(one) == 4 * 10 + 6 * 8 + 1
    assert len(list(tmp_path.glob("one/train/*/*.png"))) == 36 and len(list(tmp_path.glob("one/test/*/*.png"))) == 4


def test_pairs_are_of_people_outside_of_the_training_set(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    assert faces.main([str(folder), *FEW]) == 0
    lines = [line.split(" ") for line in (folder / "pairs.txt").read_text().splitlines()]
    assert len(lines) == 2 * faces.PAIRS_OF_ONE * 6
    for one, two, same in lines:
        assert Path(one).parts[0] == Path(two).parts[0] == "others"
        assert one != two and (Path(one).parent == Path(two).parent) == (same == "1")
        assert (folder / one).is_file() and (folder / two).is_file()
    assert all({lines[i][2], lines[i + 1][2]} == {"0", "1"} for i in range(0, len(lines), 2))  # so every fold has both


def test_an_identity_looks_like_itself(tmp_path: Path) -> None:
    """The middle of an image is nearer in colour to its identity than to another one in any light: it can be learnt."""
    folder = tmp_path / "set"
    assert faces.main([str(folder), "--identities=12", "--images=10", "--others=5", "--size=32"]) == 0
    hues = []
    for person in sorted((folder / "train").iterdir()):
        middles = [np.asarray(Image.open(file), float)[12:20, 12:20].mean((0, 1)) for file in person.iterdir()]
        hues.append([middle / np.linalg.norm(middle) for middle in middles])
    within = np.mean([np.std(person, axis=0).sum() for person in hues])
    between = np.std([np.mean(person, axis=0) for person in hues], axis=0).sum()
    assert between > 2 * within


@pytest.mark.parametrize(
    ("option", "said"), {"--identities=1": "needs >= 2, received 1", "--size=8": "needs >= 16"}.items()
)
def test_mistakes_are_named(option: str, said: str, tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        faces.main([str(tmp_path / "set"), option])
    assert said in capsys.readouterr().err
    (tmp_path / "there").mkdir()
    assert faces.main([str(tmp_path / "there")]) == 1
    assert "exists already; choose a new folder" in capsys.readouterr().err
