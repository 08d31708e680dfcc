"""Adds PyTorch's and ONNX's forms to a folder that `dimred export` wrote.

    scripts/export.sh runs/mine/export/1

state_dict.pt, model.pt (TorchScript) and model.onnx are the network's PyTorch twin (dimred_twins), or for a
TorchScript module that module, with the exported weights. Nothing is written before the twin gives the logits that
the C++ network gave for reference.safetensors, and no file stays that its own reader (torch, onnxruntime) does not
reproduce them with.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dimred_twins import NAMES, build, set_constants
from safetensors.torch import load_file

TOLERANCE = 1e-4  # of the largest logit: float32 sums in another order, through up to 200 layers
FORMS = ("state_dict.pt", "model.pt", "model.onnx")


class ExportError(Exception):
    """A line for a person."""


def read_signature(folder: Path) -> dict[str, Any]:
    """signature.json of an export folder."""
    try:
        return json.loads((folder / "signature.json").read_text())
    except (OSError, ValueError) as error:
        raise ExportError(f"{folder} was not written by dimred export: {error}") from None


def network_of(folder: Path, signature: dict[str, Any]) -> torch.nn.Module:
    """The twin, or the TorchScript module, with the exported weights, in evaluation mode."""
    name = signature["network"]
    _, channels, height, width = signature["input"]["shape"]
    if name == "torchscript":
        network: torch.nn.Module = torch.jit.load(folder / "module.pt", map_location="cpu")
    elif name in NAMES:
        try:
            network = build(name, channels, height, width, signature["output"]["shape"][1])
        except ModuleNotFoundError as error:
            raise ExportError(f"{name} needs {error.name}; run scripts/setup.sh --tests") from None
    else:
        raise ExportError(
            f"{name} has no PyTorch twin in experiments/dimred_twins, so only weights.safetensors exists; "
            f"networks with a twin: {', '.join(NAMES)}"
        )
    weights = load_file(folder / "weights.safetensors")
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise ExportError(f"weights.safetensors does not fit {name}: {str(error).splitlines()[-1].strip()}") from None
    set_constants(network, signature.get("batch_norm_eps"))
    return network.eval()


def check(what: str, logits: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference of two logits; an error beyond the tolerance."""
    difference = float(np.abs(logits - expected).max())
    bound = TOLERANCE * max(1.0, float(np.abs(expected).max()))
    if logits.shape != expected.shape or not difference <= bound:
        raise ExportError(
            f"{what} gives other logits than the C++ network: the difference is {difference:.3g}, more than {bound:.3g}"
        )
    return difference


def write_onnx(network: torch.nn.Module, images: torch.Tensor, name: str, file: Path) -> None:
    """Writes the network by the exporter that takes TorchScript modules, too; the batch is free."""
    batch = {"images": {0: "batch"}, name: {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is another exporter, which wants a Python module
        try:
            torch.onnx.export(
                network,
                (images,),
                str(file),
                dynamo=False,
                input_names=["images"],
                output_names=[name],
                dynamic_axes=batch,
            )
        except Exception as error:  # the exporter's own are of many kinds
            reason = str(error).strip().partition("\n")[0]
            raise ExportError(f"torch's ONNX exporter cannot export the network: {reason}") from error


def onnx_output(file: Path, images: np.ndarray, name: str) -> np.ndarray:
    """The logits of onnxruntime, one image after another, so that the batch is seen to be free."""
    import onnx
    import onnxruntime

    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run([name], {"images": image[None]})[0] for image in images])


def scripted(network: torch.nn.Module) -> torch.jit.ScriptModule:
    """TorchScript of the twin; a module that is one already stays."""
    return network if isinstance(network, torch.jit.ScriptModule) else torch.jit.script(network)


def write_forms(folder: Path) -> dict[str, float]:
    """Writes all forms; the largest difference of each one's logits. All of them appear, or none."""
    signature = read_signature(folder)
    network = network_of(folder, signature)
    reference = load_file(folder / "reference.safetensors")
    name = signature["output"]["name"]  # logits, or embeddings
    images, expected = reference["images"], reference[name].numpy()
    logits: dict[str, Callable[[Path], np.ndarray]] = {
        "state_dict.pt": lambda file: state_dict_logits(file, folder, signature, images),
        "model.pt": lambda file: torch.jit.load(file)(images).numpy(),
        "model.onnx": lambda file: onnx_output(file, images.numpy(), name),
    }
    with torch.no_grad(), tempfile.TemporaryDirectory(dir=folder, prefix=".forms") as scratch:
        check(signature["network"], network(images).numpy(), expected)
        torch.save(network.state_dict(), f"{scratch}/state_dict.pt")
        scripted(network).save(f"{scratch}/model.pt")
        write_onnx(network, images, name, Path(scratch) / "model.onnx")
        differences = {form: check(form, logits[form](Path(scratch) / form), expected) for form in FORMS}
        for form in FORMS:
            os.replace(f"{scratch}/{form}", folder / form)
    return differences


def state_dict_logits(file: Path, folder: Path, signature: dict[str, Any], images: torch.Tensor) -> np.ndarray:
    """The logits of a network that has drawn other weights and then read the file."""
    network = network_of(folder, signature)
    for parameter in network.parameters():
        parameter.data.fill_(0.5)
    network.load_state_dict(torch.load(file, weights_only=True))
    return network.eval()(images).numpy()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/export.sh", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="folder that `dimred export` wrote: .../export/1")
    folder = parser.parse_args(arguments).folder
    try:
        for form, difference in write_forms(folder).items():
            print(f"{folder / form}  logits differ by {difference:.2g}")
    except ExportError as error:
        print(f"scripts/export.sh: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
