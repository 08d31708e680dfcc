"""Reads the files of dimred's runs into pandas, and computes what a comparison of runs needs.

    from dimred.runs import read_run, read_runs, read_basis

    run = read_run("runs/stage2")          # refuses a folder that is damaged or of another version
    run.curve, run.steps                   # pandas tables
    run.result()["test_accuracy"], run.costs()["spent"]

The module needs pandas, scipy, h5py and xxhash: pip install dimred[runs].
"""

from .curves import joined, points
from .family import read_good_runs, read_runs, run_folders
from .files import BadRun, Damaged, NotARun, OtherVersion, Unfinished, flatten, read_options
from .grouping import colours, group_names, groups
from .landscape import Landscape, read_landscape
from .matrices import (
    Basis,
    find_sidecar,
    gram_beside,
    gram_matrix,
    principal_angles,
    read_basis,
    read_gram,
    read_sidecar,
)
from .run import COSTS, Run, is_finished, outcome, read_run
from .snapshots import read_snapshots, read_weights
from .spectrum import coordinates, explained_variance_ratio, leave_last_out, random_walk_ratio
from .statistics import Difference, holm, mean_interval, paired_difference

__all__ = [
    "COSTS",
    "BadRun",
    "Basis",
    "Damaged",
    "Difference",
    "Landscape",
    "NotARun",
    "OtherVersion",
    "Run",
    "Unfinished",
    "colours",
    "coordinates",
    "explained_variance_ratio",
    "find_sidecar",
    "flatten",
    "gram_beside",
    "gram_matrix",
    "group_names",
    "groups",
    "holm",
    "is_finished",
    "joined",
    "leave_last_out",
    "mean_interval",
    "outcome",
    "paired_difference",
    "points",
    "principal_angles",
    "random_walk_ratio",
    "read_basis",
    "read_good_runs",
    "read_gram",
    "read_landscape",
    "read_options",
    "read_run",
    "read_runs",
    "read_sidecar",
    "read_snapshots",
    "read_weights",
    "run_folders",
]
