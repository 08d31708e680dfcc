"""The faults that hostile users have found, as they typed them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cli import cli
from faults.draws import evenly

from . import forged
from .judge import Verdict, attempt
from .measured import apart, bytes_of, run
from .site import Site, Use, ignored, printed
from .uses import NEWEST, uses

LARGE = 60 << 20  # bytes
STAGE1_FILES = """
    .lock config.toml.tmp manifest.json.tmp curve.csv curve.csv.tmp manifest.json config.toml
    checkpoints/state_00000012.tmp checkpoints/state_00000012
    snapshots/snapshot_00000010.h5.tmp snapshots/snapshot_00000010.h5
"""
PYTHON_TESTS = Path(__file__).resolve().parents[1] / "python"
Disturbed = Callable[[], tuple[Path, int]]


@dataclass(frozen=True)
class Replay:
    """`needs`: "" for the common rules; refused; noticed: refused or warned of. `says`: what the messages must hold."""

    kind: str
    name: str
    use: Use
    like: Use
    disturbed: Disturbed
    needs: str = ""
    says: str = ""
    secret: str = ""  # what no message and no file may hold
    node: Path | None = None  # what must be a device, a pipe or a link afterwards, too


def checked(site: Site, replay: Replay) -> Verdict:
    verdict = attempt(site, replay.use, replay.like, replay.disturbed, replay.kind, replay.name)
    text = verdict.ended.output + verdict.ended.errors
    if verdict.problem:
        return verdict
    if replay.needs == "refused" and verdict.outcome != "refused":
        return replace(verdict, problem=f"was not refused: {verdict.outcome}", outcome="silent")
    if replay.needs == "noticed" and verdict.outcome == "equal" and "warning: " not in text:
        return replace(verdict, problem="went unnoticed", outcome="silent")
    if replay.says not in text:
        return replace(verdict, problem=f"does not say {replay.says!r}: {text[-200:]}", outcome="wrong")
    if replay.node and (not replay.node.is_symlink() and (replay.node.is_file() or not replay.node.exists())):
        return replace(verdict, problem=f"replaces {replay.node.name}", outcome="outside")
    if replay.secret and (replay.secret in text or held(site.work, replay.secret)):
        return replace(verdict, problem="shows the secret", outcome="wrong")
    return verdict


def held(folder: Path, secret: str) -> bool:
    return any(secret.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def refusing(name: str, *words: object, file_size: int | None = None) -> Use:
    return Use(name, tuple(map(str, words)), file_size=file_size)


def after(change: Callable[..., object], file: Path, *more: object) -> Disturbed:
    """The file when the change is made."""

    def disturbed() -> tuple[Path, int]:
        change(file, *more)
        return file, 0

    return disturbed


def as_it_is(file: Path) -> Disturbed:
    return after(lambda _: None, file)


def planted_link(link: Path, outside: Path, target: str) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    os.mkfifo(outside / "pipe")
    link.symlink_to(outside / target)


def moved_out(folder: Path, to: Path) -> None:
    folder.rename(to)
    folder.symlink_to(to)


def links(site: Site) -> Iterator[Replay]:
    """1. Links in an output folder."""
    data, to = site.root / "data", site.work / "to"
    get = Use(
        "store get",
        ("store", "get", f"file://{data}", str(to)),
        lambda _, __: {file.name: bytes_of(to / file.name) for file in data.iterdir()},
    )
    known = uses(site) | {get.name: get}
    planted = {
        "resume stage1": [f"stage1/{name}" for name in STAGE1_FILES.split()],
        "resume stage2": [f"stage2/{name}" for name in ".lock steps.csv final.h5.tmp final.h5 pca_mat.npy.tmp".split()],
        "pca": ["p.npy", "p.npy.tmp", "p.json", "p.json.tmp", "stage1/snapshots/.lock"],
        "export": ["out/1.tmp", "out/1", "out/.lock"],
        "evaluate": ["stage1/.lock"],
        "store get": [*(f"to/t10k-labels-idx1-ubyte{end}" for end in ("", ".part", ".part.of")), "to/.part.of"],
    }
    for use, places in planted.items():
        for place in places:
            for target in ("precious", "new", "folder", "pipe"):
                disturbed = after(planted_link, site.work / place, site.outside, target)
                yield Replay("1 links", f"{place} to {target}", known[use], known[use], disturbed)
    for place in ("stage1/checkpoints", "stage1/snapshots"):
        moved = after(moved_out, site.work / place, site.outside / "moved")
        yield Replay("1 links", f"{place} moved out", known["resume stage1"], known["resume stage1"], moved)

    def got() -> tuple[Path, int]:
        (site.scratch / "from/sub").mkdir(parents=True)
        (site.scratch / "from/sub/precious").write_text("changed\n")
        (site.work / "to").mkdir()
        (site.work / "to/sub").symlink_to(site.outside / "folder")
        return site.work / "to/sub", 0

    through = refusing("store get", "store", "get", f"file://{site.scratch}/from", to)
    yield Replay("1 links", "through a linked subfolder", through, known["inspect stage1"], got, "refused")


def replaced(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """A change that replaces the file by what `make` puts there."""

    def change(file: Path) -> None:
        file.unlink()
        make(file)

    return change


FAULTS: dict[str, Callable[[Path], object]] = {
    "gone": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "a FIFO": replaced(os.mkfifo),
    "endless": replaced(lambda file: file.symlink_to("/dev/zero")),
}
CONFIG_FAULTS = FAULTS | {
    "halved": lambda file: file.write_bytes(file.read_bytes()[:300]),
    "blanked": lambda file: file.write_bytes(b" " * file.stat().st_size),
}
CONFIG_USES = ("evaluate", "export", "predict run", "stage2", "resume stage1")
PARTS = ("weights.f32", "momentum.f32", "state.json")  # of a state


def damages(site: Site) -> Iterator[Replay]:
    """2 and 3. A config.toml, a snapshot and a part of a state that is gone or damaged: it is refused or noticed by
    name, and a part of a state is never called whole."""
    known = uses(site)
    snapshot_faults = FAULTS | {
        "another's": lambda file: shutil.copyfile(site.other / "stage1/snapshots" / file.name, file)
    }
    looking = ["pca", "inspect stage1", "evaluate snapshots", "stage2", "resume stage1"]
    for kind, files, faults, names, needs in (
        ("2 config.toml", ["stage1/config.toml"], CONFIG_FAULTS, CONFIG_USES, "refused"),
        ("3 snapshots", [f"stage1/snapshots/snapshot_{n:08}.h5" for n in (2, 8)], snapshot_faults, looking, "noticed"),
        ("3 states", [f"{NEWEST}/{part}" for part in PARTS], FAULTS, ["inspect state", "inspect stage1"], "refused"),
    ):
        for name, (fault, change), place in itertools.product(names, faults.items(), files):
            says = place.rsplit("/", 1)[1].removeprefix("snapshot_")
            if kind == "3 states":
                says = "DAMAGED" if name == "inspect stage1" else "state_00000008"
            disturbed = after(change, site.work / place)
            yield Replay(kind, f"{place} {fault}", known[name], known[name], disturbed, needs, says)


def hdf5(site: Site) -> Iterator[Replay]:
    """4. Weights behind links of HDF5."""
    known = uses(site)
    source, file = site.pristine / "stage1/snapshots/snapshot_00000004.h5", site.work / "foreign/snapshot_00000004.h5"
    commands = {
        "inspect final": refusing("inspect", "inspect", file),
        "evaluate": refusing("evaluate", "evaluate", file, "--threads=1"),
        "pca": refusing("pca", "pca", file.parent, "--components=1", f"--output={site.work}/q.npy"),
    }
    for kind in ("external", "soft", "raw", "virtual", "FIFO", "inflated", "sparse"):
        for like, use in commands.items():

            def disturbed(kind: str = kind) -> tuple[Path, int]:
                for step in (2, 4, 6):
                    forged.copied(source.with_name(f"snapshot_{step:08}.h5"), file.with_name(f"snapshot_{step:08}.h5"))
                target = forged.copied(source, site.outside / "target.h5")
                if kind == "FIFO":
                    os.mkfifo(target := site.outside / "pipe")
                apart(forged.linked_weights, file, "external" if kind == "FIFO" else kind, target)
                return file, file.stat().st_size

            yield Replay("4 HDF5", f"{kind} weights", use, known[like], disturbed, "refused")


def scripts(site: Site) -> Iterator[Replay]:
    """5. TorchScript that touches files, or does not end."""
    folder = site.root / "modules"
    folder.mkdir()
    apart(forged.modules, folder, site.outside / "touched")
    options = ("--image_size=28", "--channels=1", "--classes=10")
    like = Use("inspect --model", ("inspect", "--model", f"{folder}/plain.pt", *options), ignored)
    training = site.stage1(1)
    for name in ("saving", "mapping", "endless"):
        file = folder / f"{name}.pt"
        looking = refusing("inspect --model", "inspect", "--model", file, *options, "--module_timeout=0.5")
        train = refusing(
            "stage1", *training[:-1], f"--output={site.work}/new", f"--model={file}", "--module_timeout=0.5"
        )
        for use, held_against in ((looking, like), (train, uses(site)["resume stage1"])):
            yield Replay("5 TorchScript", name, use, held_against, as_it_is(file), "refused", str(file))


# Made when they are needed, in a process of their own: a command's peak begins with the memory of the process that
# starts it.
BOMBS: dict[str, Callable[[], bytes]] = {
    "lists": lambda: b"[" * LARGE,
    "objects": lambda: b'{"a":' * (LARGE // 5),
    "numbers": lambda: b"[" + b"0," * (LARGE // 2),
    "letters": lambda: b'"' + b"x" * LARGE + b'"',
    "names": lambda: b"{" + b",".join(b'"%d":0' % number for number in range(4_000_000)) + b"}",
}
TOML_BOMBS: dict[str, Callable[[], bytes]] = {
    "[": lambda: b"a = " + b"[" * (10 << 20),
    "dots": lambda: b"a" + b".a" * (5 << 20) + b" = 1\n",
    "tables": lambda: b"[a.b]\nc = 1\n" * (1 << 20),
    "lines": lambda: b"epochs = 1\n" * (1 << 20),
    "key": lambda: b"x" * (10 << 20) + b" = 1\n",
    "value": lambda: b'model = "' + b"x" * (10 << 20) + b'"\n',
}
NPY_BOMBS: dict[str, Callable[[], bytes]] = {
    "brackets": lambda: b"(" * LARGE,
    "spaces": lambda: b" " * LARGE,
    "quotes": lambda: b"{'descr': '" + b"x" * LARGE,
}


def write_bomb(write: Callable[[Path, bytes], object], file: Path, data: Callable[[], bytes]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file, data())


def bombed(write: Callable[[Path, bytes], object], file: Path, data: Callable[[], bytes]) -> Disturbed:
    def disturbed() -> tuple[Path, int]:
        apart(write_bomb, write, file, data)
        return file, file.stat().st_size

    return disturbed


def bombs(site: Site) -> Iterator[Replay]:
    """6. JSON, TOML and pickles of any depth and size."""
    known, state = uses(site), site.work / NEWEST / "state.json"
    looking = known["inspect stage1"]
    get = refusing("store get", "store", "get", f"file://{site.scratch}/from", site.work / "to")
    plain = Use("inspect of weights", ("inspect", f"{site.work}/export/1/weights.safetensors"), ignored)

    def safetensors(file: Path, data: bytes) -> None:
        file.write_bytes(len(data).to_bytes(8, "little") + data)

    def sealed(file: Path, data: bytes) -> None:
        forged.seal_state(file, '","files":' + data.decode())

    same = Path.write_bytes
    tries: list[tuple[str, Use, Use, Path, Callable[[Path, bytes], object], str]] = [
        ("manifest.json", looking, looking, site.work / "stage1/manifest.json", same, "noticed"),
        ("state.json", known["inspect state"], known["inspect state"], state, same, "refused"),
        ("sealed state.json", known["inspect state"], known["inspect state"], state, sealed, "refused"),
        ("sealed state.json", known["resume stage1"], known["resume stage1"], state, sealed, "noticed"),
        ("pca_mat.json", known["reuse"], known["reuse"], site.work / "stage2/pca_mat.json", same, "refused"),
        ("signature.json", known["predict"], known["predict"], site.work / "export/1/signature.json", same, "refused"),
        ("listing", get, looking, site.scratch / "from/_COMPLETE", same, "refused"),
        ("safetensors", plain, plain, site.work / "export/1/weights.safetensors", safetensors, "refused"),
    ]
    for name, use, like, file, write, needs in tries:
        for bomb, data in BOMBS.items():
            yield Replay("6 size and depth", f"{name} of {bomb}", use, like, bombed(write, file, data), needs)
    yield from other_bombs(site, plain)


def other_bombs(site: Site, like: Use) -> Iterator[Replay]:
    known, file = uses(site), site.work / "strange"
    deep = "6 size and depth"
    for opcode in (b"(", b"N", b"]", b"}", b"0", b"2", b"K\1", b"h\0", b"\x94", b"X\0\0\0\0", b"c\n\n", b"(l"):
        weights = file.with_suffix(".pt")

        def opcodes(opcode: bytes = opcode) -> bytes:
            return b"\x80\x02" + opcode * (30_000_000 // len(opcode))

        use, bomb = refusing("inspect", "inspect", weights), bombed(forged.pickled, weights, opcodes)
        yield Replay(deep, f"pickle of {opcode!r}", use, like, bomb, "refused")
    config, training = file.with_suffix(".toml"), site.stage1(1)
    for name, text in TOML_BOMBS.items():
        kind = "7 an unknown key" if name == "key" else deep
        use = refusing("stage1", *training[:-1], f"--output={site.work}/new", f"--config={config}")
        bomb = bombed(Path.write_bytes, config, text)
        yield Replay(kind, f"configuration of {name}", use, known["resume stage1"], bomb, "refused")
    array = file.with_suffix(".npy")
    for name, head in NPY_BOMBS.items():
        use, bomb = refusing("inspect", "inspect", array), bombed(forged.npy, array, head)
        yield Replay(deep, f"npy header of {name}", use, like, bomb, "refused")


def others(site: Site) -> Iterator[Replay]:
    """7. What is left."""
    known, state = uses(site), site.work / NEWEST / "state.json"
    looking, training = known["inspect stage1"], site.stage1(1)
    new = (*training[:-1], f"--output={site.work}/new")
    snapshots = site.work / "stage1/snapshots"

    def apart_with(work: Callable[..., None], file: Path, *more: object) -> Disturbed:
        return after(lambda file: apart(work, file, *more), file)

    def manifest(file: Path) -> None:
        values = json.loads(file.read_text())
        file.write_text(forged.sealed(values | {"device": "\x1b[2J\x9b31m\x7f"}))

    def copy(file: Path) -> None:
        shutil.copyfile(snapshots / "snapshot_00000008.h5", file)

    listed = apart_with(forged.listing, site.work, Path("names.safetensors"))
    naming = refusing("inspect", "inspect", site.work / "names.safetensors")
    for name, use, like, disturbed in (
        ("a state's texts", known["inspect state"], known["inspect state"], apart_with(forged.with_escapes, state)),
        ("tensor names", naming, looking, listed),
        ("a manifest's texts", looking, looking, after(manifest, site.work / "stage1/manifest.json")),
        ("a file's name", looking, looking, after(copy, snapshots / "snapshot_\x1b[2J\x07.h5")),
    ):
        yield Replay("7 terminal escapes", name, replace(use, result=ignored), like, disturbed)
    option, like = refusing("stage1", *new, "--model=\x1b[2J"), known["evaluate"]
    yield Replay("7 terminal escapes", "an option", option, like, as_it_is(site.work), "refused")
    secret = "pass-w0rd"
    for url in (
        f" https://user:{secret}@localhost/x",
        f"\thttp://user:{secret}@127.0.0.1:9/x",
        f"HTTPS://user:{secret}@localhost/x",
        f"s3://user:{secret}@nowhere/x?region=us-east-1",
        f"x http://user:{secret}@127.0.0.1:9/x",
        f"ftp://user:{secret}@localhost/x",
    ):
        quick = ("--store_attempts=1", "--store_timeout=1")
        for use, like in (
            (refusing("store ls", "store", "ls", url, *quick), looking),
            (refusing("stage1", "stage1", f"--data={url}", f"--output={site.work}/new", *quick), known["evaluate"]),
            (refusing("stage1", *new[:-1], f"--output={url}", *quick), known["evaluate"]),
        ):
            yield Replay(
                "7 a password", url.replace(secret, "..."), use, like, as_it_is(site.work), "refused", secret=secret
            )
    sizes = {"stage1": [4096, 200_000], "pca": [4096, 300_000], "export": [4096], "stage2": [100_000]}
    for name, size in ((of, size) for of in sizes for size in sizes[of]):
        words = new if name == "stage1" else known[name].words
        use = refusing(f"ulimit -f, {name}", *words, file_size=size)
        yield Replay("7 ulimit -f", f"{size} bytes", use, known["resume stage1"], as_it_is(site.work), "refused")
    for forge in (forged.before_the_first, forged.negative_epoch):
        for name in ("evaluate", "resume stage1"):
            yield Replay("7 forged", forge.__name__, known[name], known[name], apart_with(forge, state), "noticed")
    snapshot = site.work / "strange.h5"

    def early(file: Path) -> None:
        shutil.copyfile(snapshots / "snapshot_00000004.h5", file)
        apart(forged.early_snapshot, file)

    for name in ("inspect", "evaluate"):
        use, disturbed = refusing(name, name, snapshot), after(early, snapshot)
        yield Replay("7 forged", "a snapshot of step -5", use, known["evaluate"], disturbed, "refused")


def nodes(site: Site) -> Iterator[Replay]:
    """8. A device, a pipe or a link in the place of an output; devices where this user may make them."""
    known, node = uses(site), site.work / "node"
    data, weights = f"file://{site.root}/data/t10k-labels-idx1-ubyte", f"{site.work}/export/1"
    written = {
        "predict": Use(
            "predict --csv", ("predict", weights, f"{site.root}/image.png", "--threads=1", f"--csv={node}.csv"), printed
        ),
        "preview": Use(
            "preview",
            ("data", "preview", f"{site.root}/data", f"--output={node}.png", "--rows=1", "--columns=1"),
            ignored,
        ),
        "schedule": Use(
            "schedule", ("inspect", "--schedule", "--epochs=1", "--steps_per_epoch=2", f"--csv={node}.csv"), ignored
        ),
    }
    refused = {
        "pca": refusing("pca", *known["pca"].words[:-1], f"--output={node}.npy"),
        "sidecar": refusing("pca", *known["pca"].words[:-1], f"--output={node}.npy"),
        "store get": refusing("store get", "store", "get", data, node),
        "export": refusing("export", *known["export"].words[:2], f"--output={node}", "--score=false", "--threads=1"),
    }
    ends = {"predict": ".csv", "preview": ".png", "schedule": ".csv", "pca": ".npy", "sidecar": ".json"}
    like = {name: known[name] for name in ("predict", "pca", "export")} | {"sidecar": known["pca"]}
    for name, use in {**written, **refused}.items():
        place = Path(f"{node}{ends.get(name, '')}")
        for kind in ("device", "pipe", "link"):
            if (kind == "device" and os.geteuid() != 0) or (
                kind == "pipe" and name in written
            ):  # which waits for a reader
                continue

            def disturbed(kind: str = kind, place: Path = place) -> tuple[Path, int]:
                if kind == "device":
                    os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # as /dev/null
                elif kind == "pipe":
                    os.mkfifo(place)
                else:
                    (site.work / "target").write_text("kept\n")
                    place.symlink_to("target")
                return site.work / "stage1/config.toml", 0

            needs = "refused" if name in refused else ""
            held_against = like.get(name, known["inspect export"])
            yield Replay("8 nodes", f"{name} to a {kind}", use, held_against, disturbed, needs, node=place)


def changes(site: Site) -> Iterator[Replay]:
    """9. What a digest knows, and what a run did not write."""
    known = uses(site)

    def other_digits(file: Path) -> None:
        text = file.read_text()
        file.write_text(text[:-20] + text[-20:].translate(str.maketrans("0123456789", "1234567890")))

    def anothers(file: Path) -> None:
        shutil.copyfile(site.other / "stage1/snapshots/snapshot_00000008.h5", file)

    use, disturbed = known["inspect stage2"], after(other_digits, site.work / "stage2/steps.csv")
    yield Replay("9 changes", "a digit of steps.csv", use, use, disturbed, "refused", "steps.csv")
    # A matrix that was fitted before stays, and what has become of its snapshots is said.
    needs = {"pca": "refused", "inspect stage1": "refused", "stage2": "refused", "reuse": "noticed"}
    for name, need in needs.items():
        disturbed = after(anothers, site.work / "stage1/snapshots/snapshot_00000099.h5")
        said = "from another run"
        yield Replay("9 changes", "another run's snapshot", known[name], known[name], disturbed, need, said)


TESTS = {
    # also code that runs while a module is loaded
    "5 TorchScript": ("test_script_models.py", "touches_files or terminal"),
    # wire_bytes, and the 38 seconds
    "7 several ranks": ("test_ranks_stops.py", "signal_to_one_rank_stops_all or stopped_rank"),
}


def of_tests(site: Site, only: str) -> Iterator[Verdict]:
    """Replays that need several processes or modules of their own are tests already."""
    for kind, (file, names) in TESTS.items():
        name = f"{file} -k '{names}'"
        if only in f"{kind}: pytest: {name}":
            words = [sys.executable, *cli("-m pytest -q -p no:cacheprovider", PYTHON_TESTS / file), "-k", names]
            ended = run(words, site.environment | {"DIMRED_BUILD": str(site.build)}, limit=300)
            outcome, problem = ("equal", "") if ended.code == 0 else ("wrong", ended.output[-2000:])
            yield Verdict(kind, f"pytest: {name}", outcome, problem, ended, 0)


def some(replays: list[Replay]) -> list[Replay]:
    """A few replays of each kind, spread evenly."""
    kinds = dict.fromkeys(replay.kind for replay in replays)
    return [replay for kind in kinds for replay in evenly([one for one in replays if one.kind == kind], 2)]


def all_of(site: Site, only: str, *, short: bool) -> Iterator[Verdict]:
    replays = [
        replay for part in (links, damages, hdf5, scripts, bombs, others, nodes, changes) for replay in part(site)
    ]
    replays = [replay for replay in replays if only in f"{replay.kind}: {replay.use.name}: {replay.name}"]
    for replay in some(replays) if short else replays:
        yield checked(site, replay)
    if not short:
        yield from of_tests(site, only)
