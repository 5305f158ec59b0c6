#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's rates beside Flotilla's, taking turns, since a shared machine's speed drifts: medians over the rounds.

    python3 scripts/compare_torch_speed.py step  --flotilla build/cpu/flotilla    # ResNet-50, one process, 2 threads
    python3 scripts/compare_torch_speed.py ranks --flotilla build/cpu/flotilla    # two processes with half the batch
    python3 scripts/compare_torch_speed.py input --flotilla build/cpu/flotilla --list photos/train.txt

  step   Forward, backward and SGD with momentum 0.9 and decay 1e-4 on 16 synthetic images of 224 x 224 that lie in memory.
         torch: torchvision's ResNet-50, channels_last. Flotilla: `bench step inputs/resnet50_synthetic.toml`. With
         --precision bfloat16 torch's forward runs under autocast; with --compile torch.compile is a further turn.
  ranks  The same with 2 x 8 images and one thread each. torch: DistributedDataParallel over gloo.
  input  Decoding and augmentation of the list's images on one thread, in random order: crop of random area and aspect to
         224, flip, normalise. torch: a DataLoader with one worker. Flotilla: `bench input`, by default with torchvision's
         filter (--filter antialias).

Without --flotilla only torch is measured. Needs torch and torchvision, for `input` also pillow. Each turn is a process of
its own; its first steps do not count.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

DECK = pathlib.Path(__file__).resolve().parent.parent / "inputs" / "resnet50_synthetic.toml"
# Open MPI 4 and 5: ranks unbound, yielding while they wait, and root allowed.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none"}


def torch_step(arguments):
    import torch
    import torchvision

    workers = int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model = torchvision.models.resnet50().to(memory_format=torch.channels_last).train()
    if workers > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    if arguments.compile:
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(arguments.batch, 3, 224, 224).to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (arguments.batch,))
    times = []
    for _ in range(arguments.steps + 2):
        begin = time.monotonic()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bfloat16"):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        times.append(time.monotonic() - begin)
    if workers > 1:
        torch.distributed.destroy_process_group()
    return workers * arguments.batch / statistics.median(times[2:])


def torch_input(arguments):
    import PIL.Image
    import torch
    from torchvision import transforms

    torch.set_num_threads(1)
    folder = pathlib.Path(arguments.list).with_suffix("")
    root = pathlib.Path(arguments.root) if arguments.root else folder if folder.is_dir() else folder.parent
    lines = pathlib.Path(arguments.list).read_text(encoding="utf-8").splitlines()
    paths = [root / line.rsplit(maxsplit=1)[0] for line in lines if line.strip()]
    transform = transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return len(paths)

        def __getitem__(self, i):
            return transform(PIL.Image.open(paths[i]).convert("RGB"))

    loader = torch.utils.data.DataLoader(Images(), batch_size=32, shuffle=True, num_workers=1, drop_last=True)
    images, begin = 0, None
    while begin is None or time.monotonic() - begin < arguments.seconds:
        for i, batch in enumerate(loader):
            if begin is None:
                if i == 3:  # what was read while the worker started does not count
                    begin = time.monotonic()
                continue
            images += len(batch)
            if time.monotonic() - begin >= arguments.seconds:
                break
    return images / (time.monotonic() - begin)


def of_torch(part, arguments, ranks, compiled=False):
    """One turn, in a process of its own; the rank that speaks prints the rate last."""
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "torch.distributed.run", "--nproc_per_node", str(ranks)]
    command += [__file__, "turn-" + part]
    for name in ("batch", "threads", "steps", "seconds", "list", "root", "precision"):
        if getattr(arguments, name) is not None:
            command += ["--" + name, str(getattr(arguments, name))]
    if compiled:
        command.append("--compile")
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(said.split()[-1])


def of_flotilla(arguments, ranks, words, key):
    with tempfile.TemporaryDirectory() as folder:
        figures = f"{folder}/figures.json"
        command = ["mpirun", "-n", str(ranks), arguments.flotilla, "bench", *words, "--json", figures]
        subprocess.run(command, env={**ENVIRONMENT, **os.environ}, check=True, stdout=subprocess.DEVNULL)
        return json.loads(pathlib.Path(figures).read_text(encoding="utf-8"))[key]


def take_turns(arguments, what, turns, flotilla_turn):
    if arguments.flotilla:
        turns["flotilla"] = flotilla_turn
    rates = {name: [] for name in turns}
    for _ in range(arguments.rounds):
        for name, turn in turns.items():
            rates[name].append(turn())
            print(f"  {name:13} {rates[name][-1]:8.2f} images/s", flush=True)
    for name, found in rates.items():
        print(f"{what}, {name}: {statistics.median(found):.2f} images/s ({min(found):.2f} to {max(found):.2f})")
    for name in turns:
        if arguments.flotilla and name != "flotilla":
            ratio = statistics.median(rates["flotilla"]) / statistics.median(rates[name])
            print(f"{what}, flotilla / {name}: {ratio:.2f}")


def step(arguments, ranks, threads, batch):
    arguments.threads, arguments.batch = threads, batch
    words = ["step", str(DECK), f"device.threads={threads}", f"train.batch_size={batch}",
             f"device.precision={arguments.precision}", "--steps", str(arguments.steps)]
    turns = {"torch": lambda: of_torch("step", arguments, ranks)}
    if arguments.compile:
        turns["torch.compile"] = lambda: of_torch("step", arguments, ranks, compiled=True)
    take_turns(arguments, f"ResNet-50, {ranks} x {batch} images, {arguments.precision}, {threads} thread(s) each", turns,
               lambda: of_flotilla(arguments, ranks, words, "samples_per_s"))


def measure_input(arguments):
    if not arguments.list:
        sys.exit("compare_torch_speed: input needs --list")
    words = ["input", "--list", arguments.list, "--threads", "1", "--size", "224", "--filter", arguments.filter,
             "--seconds", str(arguments.seconds)]
    if arguments.root:
        words += ["--root", arguments.root]
    arguments.threads = 1
    take_turns(arguments, "input, 1 thread", {"torch": lambda: of_torch("input", arguments, 1)},
               lambda: of_flotilla(arguments, 1, words, "images_per_s"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {
        "step": lambda arguments: step(arguments, 1, 2, 16),
        "ranks": lambda arguments: step(arguments, 2, 1, 8),
        "input": measure_input,
        "turn-step": lambda arguments: torch_step(arguments),
        "turn-input": lambda arguments: torch_input(arguments),
    }
    parser.add_argument("part", choices=parts, metavar="step|ranks|input")
    parser.add_argument("--flotilla", help="the program; without it only torch is measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"), help="of step and ranks")
    parser.add_argument("--compile", action="store_true", help="of step: torch.compile as well")
    parser.add_argument("--steps", type=int, default=20, help="measured in a turn")
    parser.add_argument("--seconds", type=float, default=10.0, help="measured in a turn of input")
    parser.add_argument("--list", help="of the images for input")
    parser.add_argument("--root", help="where the list's paths begin (default: as Flotilla finds it)")
    parser.add_argument("--filter", default="antialias", choices=("bilinear", "antialias"))
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rate = parts[arguments.part](arguments)
    if arguments.part.startswith("turn-") and os.environ.get("RANK", "0") == "0":
        print(rate)


if __name__ == "__main__":
    main()
