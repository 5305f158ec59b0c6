#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's rates beside Flotilla's, taking turns, since a shared machine's speed drifts: medians over the rounds.

    python3 scripts/compare_torch_speed.py step  --flotilla build/cpu/flotilla    # ResNet-50, one process, 2 threads
    python3 scripts/compare_torch_speed.py ranks --flotilla build/cpu/flotilla    # two processes with half the batch
    python3 scripts/compare_torch_speed.py input --flotilla build/cpu/flotilla --list photos/train.txt
    python3 scripts/compare_torch_speed.py step --flotilla build/cuda/flotilla --device cuda --precision float16 --compile
    python3 scripts/compare_torch_speed.py layers --device cuda --precision float16 --operations step.json

  step   Forward, backward and SGD with momentum 0.9 and decay 1e-4 on 16 synthetic images of 224 x 224 that lie in memory.
         torch: torchvision's ResNet-50, channels_last. Flotilla: `bench step inputs/resnet50_synthetic.toml`. With
         --precision bfloat16 or float16 torch's forward runs under autocast, float16 with a GradScaler; with --compile
         torch.compile is a further turn, in the mode that --mode names. With --device cuda 256 images; cuDNN
         measures its algorithms for torch as well (torch.backends.cudnn.benchmark). Both sides take at most 32 batches in
         turn, as many as 256 MB hold, which lie in host memory: a GPU gets each of them anew, while it computes the step
         before. Rounds of 20 steps there, since a GPU runs ahead of the host.
  ranks  The same with 2 x 8 images and one thread each. torch: DistributedDataParallel over gloo.
  input  Decoding and augmentation of the list's images on one thread, in random order: crop of random area and aspect to
         224, flip, normalise. torch: a DataLoader with one worker. Flotilla: `bench input`, by default with torchvision's
         filter (--filter antialias).
  layers Each convolution and linear layer of torch's step alone, with the times that `bench step --json` wrote beside.

Without --flotilla only torch is measured. Needs torch and torchvision, for `input` also pillow. Each turn is a process of
its own; its first steps do not count.
"""
import argparse
import importlib
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


def resident_batches(batch_bytes):
    """As many batches as `flotilla bench step` keeps in host memory."""
    return max(1, min(32, 2**28 // batch_bytes))


class Uploads:
    """Endless: host batches in turn, each a list of tensors. A GPU gets the next one while it computes, as in Flotilla."""

    def __init__(self, batches, device):
        import torch
        self.torch, self.device, self.count = torch, device, 0
        self.batches = [[x.pin_memory() for x in batch] for batch in batches] if device == "cuda" else batches
        if device == "cuda":
            self.stream = torch.cuda.Stream()
            self.upload()

    def upload(self):
        with self.torch.cuda.stream(self.stream):
            self.coming = [x.to(self.device, non_blocking=True) for x in self.batches[self.count % len(self.batches)]]
        self.count += 1

    def next(self):
        if self.device != "cuda":
            self.count += 1
            return self.batches[(self.count - 1) % len(self.batches)]
        computing = self.torch.cuda.current_stream()
        computing.wait_stream(self.stream)
        batch = self.coming
        for x in batch:
            x.record_stream(computing)
        self.upload()
        return batch


def torch_step(arguments):
    import torch
    import torchvision

    workers = int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    device, dtype = arguments.device, getattr(torch, arguments.precision)
    model = torchvision.models.resnet50().to(device, memory_format=torch.channels_last).train()
    if workers > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    if arguments.compile:
        model = torch.compile(model, mode=arguments.mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    count = resident_batches(arguments.batch * 3 * 224 * 224 * 4)
    batches = Uploads([[torch.randn(arguments.batch, 3, 224, 224).to(memory_format=torch.channels_last),
                        torch.randint(1000, (arguments.batch,))] for _ in range(count)], device)
    together = 20 if device == "cuda" else 1  # steps between two waits for the GPU

    def steps():
        for _ in range(together):
            images, labels = batches.next()
            optimizer.zero_grad()
            with torch.autocast(device, dtype=dtype, enabled=dtype != torch.float32):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        loss.item()

    times = []
    for _ in range(-(-arguments.steps // together) + 2):
        begin = time.monotonic()
        steps()
        times.append((time.monotonic() - begin) / together)
    if workers > 1:
        torch.distributed.destroy_process_group()
    return workers * arguments.batch / statistics.median(times[2:])


def time_alone(torch, operation, device):
    """Median of 10 calls after 3, in microseconds."""
    times = []
    for _ in range(13):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.monotonic()
        operation()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.monotonic() - begin) * 1e6)
    return statistics.median(times[3:])


def torch_layers(arguments):
    """Rows of name and microseconds, called as Flotilla calls its operations."""
    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    device, dtype = arguments.device, getattr(torch, arguments.precision)
    model = torchvision.models.resnet50().to(device, dtype, memory_format=torch.channels_last).train()
    found = []

    def time_layer(layer, inputs, y, name):
        x = inputs[0].detach()
        dy = torch.randn_like(y)
        weight = layer.weight.detach()
        if isinstance(layer, torch.nn.Linear):
            bias = layer.bias.detach()
            found.append((f"{name} forward", time_alone(torch, lambda: torch.nn.functional.linear(x, weight, bias), device)))
            found.append((f"{name} backward", time_alone(torch, lambda: (dy @ weight, dy.t() @ x, dy.sum(0)), device)))
            return

        def backward(data):
            torch.ops.aten.convolution_backward(dy, x, weight, None, layer.stride, layer.padding, layer.dilation, False,
                                                [0, 0], layer.groups, [data, not data, False])

        forward = lambda: torch.nn.functional.conv2d(x, weight, None, layer.stride, layer.padding)
        found.append((f"{name} forward", time_alone(torch, forward, device)))
        if name != "conv1":
            found.append((f"{name} backward data", time_alone(torch, lambda: backward(True), device)))
        found.append((f"{name} backward weights", time_alone(torch, lambda: backward(False), device)))

    for name, layer in model.named_modules():
        if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
            layer.register_forward_hook(lambda layer, inputs, y, name=name: time_layer(layer, inputs, y, name))
    with torch.no_grad():
        model(torch.randn(arguments.batch, 3, 224, 224, device=device, dtype=dtype).to(memory_format=torch.channels_last))
    return found


def layers(arguments):
    arguments.batch = arguments.batch or batch_of(arguments)
    ours = {}
    if arguments.operations:
        figures = json.loads(pathlib.Path(arguments.operations).read_text(encoding="utf-8"))
        ours = {operation["name"]: operation["us"] for operation in figures["operations"]}
    rows = torch_layers(arguments)
    missing = [name for name, _ in rows if ours and name not in ours]
    if missing:
        sys.exit(f"compare_torch_speed: {arguments.operations} has no operation {missing[0]}")
    print(f"{'':40} {'torch us':>10} {'flotilla us':>11} {'ratio':>6}")
    for name, microseconds in rows + [("all of them", sum(us for _, us in rows))]:
        own = ours.get(name) if name != "all of them" else sum(ours.get(row, 0.0) for row, _ in rows)
        beside = f"{own:11.1f} {microseconds / own:6.2f}" if own else ""
        print(f"{name:40} {microseconds:10.1f} {beside}")


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
    for name in ("batch", "threads", "steps", "seconds", "list", "root", "precision", "device"):
        if getattr(arguments, name) is not None:
            command += ["--" + name, str(getattr(arguments, name))]
    if compiled:
        command += ["--compile", "--mode", arguments.mode]
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


def batch_of(arguments):
    return 256 if arguments.device == "cuda" else 16


def step(arguments, ranks, threads):
    batch = arguments.batch or batch_of(arguments) // ranks
    arguments.threads, arguments.batch = threads, batch
    words = ["step", str(DECK), f"device.kind={arguments.device}", f"device.threads={threads}", f"train.batch_size={batch}",
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


def require_torch():
    try:
        importlib.import_module("torch")
        importlib.import_module("torchvision")
    except ImportError as error:
        print(f"compare_torch_speed: needs torch and torchvision in {sys.executable}: {error}", file=sys.stderr)
        sys.exit(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {
        "step": lambda arguments: step(arguments, 1, 2),
        "ranks": lambda arguments: step(arguments, 2, 1),
        "input": measure_input,
        "layers": layers,
        "turn-step": lambda arguments: torch_step(arguments),
        "turn-input": lambda arguments: torch_input(arguments),
    }
    parser.add_argument("part", choices=parts, metavar="step|ranks|input|layers")
    parser.add_argument("--flotilla", help="the program; without it only torch is measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16", "float16"), help="of step, ranks, layers")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of step and layers")
    parser.add_argument("--compile", action="store_true", help="of step: torch.compile as well")
    parser.add_argument("--mode", default="default", metavar="MODE", help="of torch.compile: its mode")
    parser.add_argument("--operations", metavar="JSON", help="of layers: what `flotilla bench step --json` wrote")
    parser.add_argument("--steps", type=int, default=20, help="measured in a turn")
    parser.add_argument("--seconds", type=float, default=10.0, help="measured in a turn of input")
    parser.add_argument("--list", help="of the images for input")
    parser.add_argument("--root", help="where the list's paths begin (default: as Flotilla finds it)")
    parser.add_argument("--filter", default="antialias", choices=("bilinear", "antialias"))
    parser.add_argument("--batch", type=int, help="images of a process (default: 16, of ranks 8, on a GPU 256)")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    require_torch()
    rate = parts[arguments.part](arguments)
    if arguments.part.startswith("turn-") and os.environ.get("RANK", "0") == "0":
        print(rate)


if __name__ == "__main__":
    main()
