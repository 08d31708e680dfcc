"""Reads the files of a run folder, and checks each one against its own digest or format."""

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
    """A folder or file that must not be used; the message names it. `outcome` is one word for tables."""

    outcome = "damaged"


class NotARun(BadRun):
    """A part of a run is missing."""

    outcome = "missing"


class Damaged(BadRun):
    """The contents of a file differ from what dimred wrote."""


class OtherVersion(BadRun):
    """The file was written by a version of dimred whose files have another meaning."""

    outcome = "other version"


class Unfinished(BadRun):
    """The run is still going, was interrupted, or failed."""

    outcome = "unfinished"


def flatten(table: dict[str, Any]) -> dict[str, Any]:
    """Returns TOML, with or without [sections], as one table of options."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value) if isinstance(value, dict) else {key: value}
    return flat


def read_text(file: Path) -> str:
    """Returns the UTF-8 text with its line ends unchanged. Raises NotARun or Damaged."""
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        raise NotARun(f"[dimred.runs] {file.parent} is not a run folder: it has no {file.name}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise Damaged(f"[dimred.runs] {file} cannot be read: {error}") from error


def read_options(file: Path) -> dict[str, Any]:
    """Returns a config.toml as one table. Raises Damaged if the digest differs."""
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
    """Returns a JSON object. Raises NotARun or Damaged."""
    try:
        value = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise Damaged(f"[dimred.runs] {file} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise Damaged(f"[dimred.runs] {file} is damaged: it holds no object")
    return value


def read_manifest(folder: Path) -> dict[str, Any]:
    """Returns manifest.json. Raises OtherVersion for a manifest of an unknown version."""
    manifest = read_json(folder / "manifest.json")
    version = str(manifest.get("versions", {}).get("dimred", VERSION))
    if not version.startswith(VERSION):
        raise OtherVersion(f"[dimred.runs] {folder} was written by dimred {version}, but this version reads {VERSION}x")
    return manifest


def parsed(file: Path, text: str) -> pd.DataFrame:
    """Returns the text of a CSV file as a table. Raises Damaged."""
    try:
        return pd.read_csv(io.StringIO(text))
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise Damaged(f"[dimred.runs] {file} is damaged: {error}") from error


def read_csv(file: Path, columns: Sequence[str], whole: bool) -> pd.DataFrame:
    """Returns a table that has at least these columns.

    A last line that was cut off is left out; if the file has to be `whole`, such a line is damage.
    """
    text = read_text(file)
    if not text.endswith("\n"):
        if whole:
            raise Damaged(f"[dimred.runs] {file} is damaged: its last line is cut off")
        text = text[: text.rfind("\n") + 1]
    table = parsed(file, text)
    if missing := [column for column in columns if column not in table]:
        raise Damaged(f"[dimred.runs] {file} needs the columns {missing}, received {list(table)[:20]}")
    return table


def check_prefix(folder: Path, file: Path, manifest: dict[str, Any]) -> None:
    """Compares a CSV file with the newest resume state and with the manifest of a finished run. Raises Damaged."""
    states = sorted(folder.glob("checkpoints/state_????????/state.json"))
    if states:
        require_prefix(file, read_json(states[-1]).get("scalars", {}).get(file.stem), states[-1].parent)
    require_prefix(file, manifest.get(file.stem), folder / "manifest.json")


def require_prefix(file: Path, counted: object, witness: Path) -> None:
    """Raises Damaged unless the file begins with the counted bytes. Does nothing if no digest is known."""
    if not isinstance(counted, dict) or not counted.get("digest"):
        return
    begin = file.read_bytes()[: counted["length"]]
    if len(begin) < counted["length"] or xxhash.xxh3_128_hexdigest(begin) != counted["digest"]:
        raise Damaged(f"[dimred.runs] {file} is damaged: its beginning does not match the digest in {witness}")
