"""Measures `dimred pca` of checkpoint files against reading the files twice and writing a file of the matrix's size.

python experiments/benchmarks/pca_files.py build/bin/dimred --checkpoints 40 --parameters 1e8 --json pca_files.json

The page cache forgets the files before each run. Needs 2 bytes x parameters x checkpoints and 4 bytes x parameters x 32
of disk below --folder, and removes them.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from merge import Cost, measured, parser_of, report, write_checkpoint

COMPONENTS = 32
BYTES_OF_BFLOAT16 = 2
# Not of zeros, which a disk may leave out, and not through a pipe, which costs more than the disk.
WRITE = """
import os, sys
block, left = os.urandom(1 << 24), int(sys.argv[2])
with open(sys.argv[1], "wb", buffering=0) as file:
    while left > 0:
        left -= file.write(block[:left])
    os.fsync(file.fileno())
"""


def parameters_of(shard: Path) -> int:
    """The values in a shard of bfloat16, which follow the header and its length."""
    with shard.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    return (shard.stat().st_size - 8 - header) // BYTES_OF_BFLOAT16


def main() -> None:
    """Prints a table; writes every run to --json."""
    parser = parser_of(__doc__.splitlines()[0])
    parser.add_argument("--trajectory", action="store_true", help="time dimred inspect --trajectory, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        run, output = folder / "run", folder / "pca_mat.npy"
        for step in range(1, options.checkpoints + 1):
            write_checkpoint(run / f"checkpoint-{step}", int(options.parameters), step)
        os.sync()
        files = sorted(run.glob("*/*.safetensors"))
        program, threads = str(options.program), ["--threads", str(options.threads)]
        ours = [program, "pca", str(run), "--output", str(output), "--components", str(COMPONENTS), *threads]
        read = f"cat {run}/*/*.safetensors > /dev/null"
        size = 4 * COMPONENTS * sum(map(parameters_of, (run / "checkpoint-1").glob("*.safetensors")))
        plain = ["sh", "-c", f"{read} && {read} && {sys.executable} -c '{WRITE}' {output} {size}"]
        commands = {"cat, cat, write": plain, "dimred pca": ours}
        if options.trajectory:
            commands["trajectory"] = [program, "inspect", "--trajectory", str(run), *threads]
        costs: dict[str, list[Cost]] = {}
        for _ in range(options.repeat):
            for name, command in commands.items():
                output.unlink(missing_ok=True)
                output.with_suffix(".json").unlink(missing_ok=True)
                costs.setdefault(name, []).append(measured(command, cold=files))
    for name, of_name in costs.items():
        report(name, of_name)
    pairs = zip(costs["dimred pca"], costs["cat, cat, write"], strict=True)
    ratio = statistics.median(a["seconds"] / b["seconds"] for a, b in pairs)
    print(f"ratio: {ratio:.3f}")
    if options.json:
        options.json.write_text(json.dumps({"ratio": ratio, "costs": costs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
