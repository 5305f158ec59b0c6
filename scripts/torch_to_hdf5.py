#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a PyTorch state_dict file into a file of weights for Flotilla, and back.

    python3 scripts/torch_to_hdf5.py IN.pt OUT.h5          # for model.initial_weights or `flotilla evaluate OUT.h5 DECK`
    python3 scripts/torch_to_hdf5.py --back IN.h5 OUT.pt   # from a checkpoint, an exported model or a file of weights

IN.pt, which may be a file of safetensors too, holds a state_dict, or a dictionary with one under "state_dict" or "model"; names that all begin with "module."
(DataParallel) lose that. OUT.h5 holds /statistics/<name> for running means and variances and /parameters/<name> for all
else, in float32 and in torch's shapes and order. Counters (num_batches_tracked) are left out; the way back adds them as
0, so that load_state_dict(strict=True) is content. Optimizer state does not travel. Needs torch and h5py.
"""
import argparse
import os
import sys

import h5py
import torch

STATISTICS = ("running_mean", "running_var")
COUNTER = "num_batches_tracked"


def fail(text):
    sys.exit(f"torch_to_hdf5: {text}")


def group_of(name):
    return "statistics" if name.rpartition(".")[2] in STATISTICS else "parameters"


def state_dict_in(path):
    """The tensors of a .pt file by name. Nothing in the file is executed (weights_only)."""
    with open(path, "rb") as file:
        if file.read(10)[8:] == b'{"':
            from safetensors.torch import load_file
            return load_file(path)
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has no common base for what a damaged or foreign file makes it throw
        fail(f"{path} is not a file of weights that torch can load safely: {error}")
    for key in ("state_dict", "model"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict) or not loaded:
        fail(f"{path} holds no state_dict")
    if all(isinstance(name, str) and name.startswith("module.") for name in loaded):
        loaded = {name[len("module."):]: value for name, value in loaded.items()}
    return loaded


def check_finite(path, name, tensor):
    if not torch.isfinite(tensor).all():
        fail(f"{path}: {name} has values that are NaN or infinite; flotilla would refuse it")


def replace(path, write):
    """Calls write(temporary name), so that a failure leaves no half file under the name."""
    temporary = f"{path}.{os.getpid()}.partial"
    try:
        write(temporary)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:  # torch throws the latter for a folder that is not there
        fail(f"cannot write {path}: {error}")
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def write_hdf5(state, path, source):
    """Writes a state_dict; `source` is where it comes from, for messages. Returns how many tensors and values."""
    tensors = {}
    for name, value in state.items():
        if name.rpartition(".")[2] == COUNTER:
            continue
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            fail(f"{source}: {name} is not a tensor of floating-point numbers, which is all that flotilla reads")
        tensor = value.detach().to(torch.float32).contiguous()
        check_finite(source, name, tensor)
        tensors[f"{group_of(name)}/{name}"] = tensor.numpy()

    def write(temporary):
        with h5py.File(temporary, "w") as file:
            for group in ("parameters", "statistics"):
                file.create_group(group, track_order=True)
            for name, values in tensors.items():
                file.create_dataset(name, data=values)

    replace(path, write)
    return len(tensors), sum(values.size for values in tensors.values())


def read_hdf5(path):
    """The state_dict of a checkpoint or a file of weights, with counters of 0."""
    state = {}
    try:
        with h5py.File(path, "r") as file:
            if not file.get("parameters"):
                fail(f"{path} has no datasets in /parameters")
            for group in ("parameters", "statistics"):
                for name, dataset in file.get(group, {}).items():
                    state[name] = torch.from_numpy(dataset[()].astype("float32")).reshape(dataset.shape)
                    check_finite(path, name, state[name])
    except OSError as error:
        fail(f"{path} is not an HDF5 file that h5py can read: {error}")
    for name in [name for name in state if name.rpartition(".")[2] == "running_var"]:
        state[name[: -len("running_var")] + COUNTER] = torch.tensor(0, dtype=torch.int64)
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--back", action="store_true", help="from Flotilla's HDF5 to torch")
    parser.add_argument("source", metavar="IN")
    parser.add_argument("target", metavar="OUT")
    arguments = parser.parse_args()
    if not os.path.isfile(arguments.source):
        fail(f"there is no file {arguments.source}")
    if arguments.back:
        state = read_hdf5(arguments.source)
        replace(arguments.target, lambda path: torch.save(state, path))
        print(f"{arguments.target}: {len(state)} tensors")
    else:
        count, values = write_hdf5(state_dict_in(arguments.source), arguments.target, arguments.source)
        print(f"{arguments.target}: {count} tensors with {values:,} values")


if __name__ == "__main__":
    main()
