"""Single files of a run folder, each checked against what it says of itself."""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import xxhash

DIGEST_LINE = "# Written by dimred; XXH3-128 of what follows: "
VERSION = "0."  # of dimred: the runs that this package reads begin with it


class BadRun(ValueError):
    """A folder or file that must not be used; the text names it. `outcome` is the word for tables."""

    outcome = "damaged"


class NotARun(BadRun):
    """Something that a run has is not there."""

    outcome = "missing"


class Damaged(BadRun):
    """A file is not what was written."""


class OtherVersion(BadRun):
    """Written by a version of dimred whose files mean something else."""

    outcome = "other version"


class Unfinished(BadRun):
    """A run that is still going, was interrupted, or failed."""

    outcome = "unfinished"


def flatten(table: dict[str, Any]) -> dict[str, Any]:
    """TOML with or without [sections] as one table of options."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value) if isinstance(value, dict) else {key: value}
    return flat


def read_text(file: Path) -> str:
    """UTF-8 with the line ends as they are. Raises NotARun or Damaged."""
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        raise NotARun(f"[dimred.runs] {file.parent} is not a run folder: it has no {file.name}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise Damaged(f"[dimred.runs] {file} cannot be read: {error}") from error


def read_options(file: Path) -> dict[str, Any]:
    """A config.toml as one table. Raises Damaged where its digest differs."""
    text = read_text(file)
    if text.startswith(DIGEST_LINE):
        head, _, text = text.partition("\n")
        if xxhash.xxh3_128_hexdigest(text.encode()) != head.removeprefix(DIGEST_LINE):
            raise Damaged(f"[dimred.runs] {file} is damaged, or was changed after the run wrote it")
    try:
        return flatten(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise Damaged(f"[dimred.runs] {file} is damaged: {error}") from error


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object. Raises Damaged."""
    try:
        value = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise Damaged(f"[dimred.runs] {file} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise Damaged(f"[dimred.runs] {file} is damaged: it holds no object")
    return value


def read_manifest(folder: Path) -> dict[str, Any]:
    """manifest.json. Raises OtherVersion for one of a version that is not known here."""
    manifest = read_json(folder / "manifest.json")
    version = str(manifest.get("versions", {}).get("dimred", VERSION))
    if not version.startswith(VERSION):
        raise OtherVersion(f"[dimred.runs] {folder} was written by dimred {version}, this reads {VERSION}x")
    return manifest


def read_csv(file: Path, columns: Sequence[str], whole: bool) -> pd.DataFrame:
    """A table with at least these columns. The line that a kill cut off is left out, but where the
    file has to be `whole` it is damage."""
    text = read_text(file)
    if not text.endswith("\n"):
        if whole:
            raise Damaged(f"[dimred.runs] {file} is damaged: its last line has no end")
        text = text[: text.rfind("\n") + 1]
    try:
        table = pd.read_csv(io.StringIO(text))
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise Damaged(f"[dimred.runs] {file} is damaged: {error}") from error
    if missing := [column for column in columns if column not in table]:
        raise Damaged(f"[dimred.runs] {file} needs the columns {missing}, received {list(table)[:20]}")
    return table


def check_prefix(folder: Path, file: Path, manifest: dict[str, Any]) -> None:
    """Compares a CSV with what the newest resume state, and the manifest of an ended run, say. Raises Damaged."""
    states = sorted(folder.glob("checkpoints/state_????????/state.json"))
    if states:
        require_prefix(file, read_json(states[-1]).get("scalars", {}).get(file.stem), states[-1].parent)
    require_prefix(file, manifest.get(file.stem), folder / "manifest.json")


def require_prefix(file: Path, counted: object, witness: Path) -> None:
    """Raises Damaged unless the file begins as was counted; nothing where that is not known."""
    if not isinstance(counted, dict) or not counted.get("digest"):
        return
    begin = file.read_bytes()[: counted["length"]]
    if len(begin) < counted["length"] or xxhash.xxh3_128_hexdigest(begin) != counted["digest"]:
        raise Damaged(f"[dimred.runs] {file} is damaged: it does not begin as {witness} saw it")
