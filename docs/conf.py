"""The site that scripts/docs.sh builds with Sphinx, from the pages as they lie in the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))  # whose docstrings docs/reference/python shows

# All pages in their order; a page that is not here is an error of the build. New how-to pages go into their list.
NAVIGATION = {
    "Documentation": ["docs/README"],
    "Tutorials": ["docs/tutorials/demo", "docs/tutorials/own_data_and_network"],
    "How-to": [
        "docs/how-to/choose_what_to_run",
        "docs/how-to/prepare_data",
        "docs/how-to/use_remote_stores",
        "docs/how-to/stream_shards",
        "docs/how-to/run_on_several_ranks",
        "docs/how-to/control_a_run",
        "docs/how-to/start_from_other_weights",
        "docs/how-to/train_and_verify_faces",
        "docs/how-to/compare_fairly",
        "docs/how-to/average_several_networks",
        "docs/how-to/merge_checkpoints",
        "docs/how-to/convert_checkpoints",
        "docs/how-to/compare_and_verify_checkpoints",
        "docs/how-to/draw_the_loss_landscape",
        "docs/how-to/use_from_python",
        "docs/how-to/come_from_scikit_learn",
        "docs/how-to/exchange_matrices",
        "docs/how-to/use_with_lightning_and_transformers",
        "docs/how-to/run_published_recipes",
        "docs/how-to/import_configurations",
        "docs/how-to/export_and_predict",
        "docs/how-to/add_a_network",
        "docs/how-to/add_a_data_format",
        "docs/how-to/add_a_weights_format",
        "docs/how-to/add_a_preprocessing",
        "docs/how-to/add_a_schedule",
        "docs/how-to/add_an_update_rule",
        "docs/how-to/write_a_hook",
        "docs/how-to/check_a_gpu",
    ],
    "Reference": [
        "docs/reference/options",
        "docs/reference/paths",
        "docs/reference/presets",
        "docs/reference/python",
        "docs/reference/matrices",
        "docs/reference/data",
        "docs/reference/input_pipeline",
        "docs/reference/networks",
        "docs/reference/optimizers",
        "docs/reference/schedules",
        "docs/reference/precision",
        "docs/reference/ranks",
        "docs/reference/stores",
        "docs/reference/verification",
        "docs/reference/mapping",
        "docs/reference/columns",
        "docs/reference/glossary",
        "docs/reference/releases",
        "docs/results/README",
    ],
    "Explanation": [
        "docs/explanation/method",
        "docs/explanation/pca",
        "docs/explanation/scaling",
        "docs/explanation/trajectories",
        "docs/explanation/margin_softmax",
        "docs/explanation/gpu",
        "docs/explanation/threat_model",
        "docs/decisions",
    ],
    "Records": [
        "experiments/records/README",
        "experiments/records/fashion_convnet",
        "experiments/records/fashion_convnet_confirmation",
        "experiments/records/fashion_budgets",
        "experiments/records/fashion_noise",
        "experiments/records/fashion_rates",
        "experiments/records/fashion_tails",
        "experiments/records/fashion_temperature",
        "experiments/records/resnet20_fashion",
        "experiments/records/adversarial_convnet",
        "experiments/records/soups_convnet_grey",
        "experiments/records/soups_resnet20_fashion",
        "experiments/records/soups_resnet20_flowers",
        "experiments/records/tail_convnet",
        "experiments/records/transfer_convnet",
        "experiments/records/decision_convnet",
        "experiments/records/resnet20_cifar10",
        "experiments/records/faces",
        "experiments/records/lm_merges",
        "experiments/records/lm_controls",
        "experiments/records/trajectory_says",
    ],
}

project = "dimred"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
autodoc_mock_imports = [
    "dimred._core",
    "h5py",
    "lightning",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "torch",
    "transformers",
    "xxhash",
]
autodoc_typehints = "none"  # the docstrings say what they take
root_doc = "README"
include_patterns = ["README.md", "docs/**.md", "experiments/records/*.md"]
exclude_patterns = [".*", "build*", "runs"]  # not walked
myst_heading_anchors = 3  # links to headings as GitHub makes them
highlight_language = "none"
smartquotes = False  # they would make a dash of two hyphens
html_theme = "furo"
html_title = "dimred"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False


def append_navigation(app: Any, page: str, source: list[str]) -> None:
    """The README's text is the first page of the site, and nothing in it is for a generator alone."""
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            listed = "\n".join(pages)
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n:maxdepth: 1\n\n{listed}\n```\n"


def keep_lines(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """A docstring is text that is read as it stands, no markup; lines that were broken for their length are joined."""
    joined: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        is_text = before and line and not joined[-1].startswith(" ")
        goes_on = is_text and (line.startswith(" ") or (len(before) > 100 and not re.match(r"[\w, ]+: ", line)))
        joined[-1:] = [f"{joined[-1]} {line.strip()}"] if goes_on else [*joined[-1:], line]
    if any(joined):
        lines[:] = ["::", "", *(f"   {line}" for line in joined), ""]


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", append_navigation)
    app.connect("autodoc-process-docstring", keep_lines)
