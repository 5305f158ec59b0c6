#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's rate on the training step of inputs/mnist_mlp.toml or inputs/ctr_dnn_criteo.toml, to stand beside
`flotilla bench step`.

    OMP_NUM_THREADS=1 python3 scripts/compare_torch_mlp.py            # one process
    OMP_NUM_THREADS=1 python3 scripts/compare_torch_mlp.py bfloat16   # forward under autocast
    python3 scripts/compare_torch_mlp.py --device cuda                # on a GPU
    python3 scripts/compare_torch_mlp.py --device cuda --model ctr --clicks clicks.tsv    # 26 embeddings, three layers of 400
    python3 -m torch.distributed.run --nproc_per_node 2 scripts/compare_torch_mlp.py   # DDP, gloo

mlp: 784-128-128-10 with tanh, Adam 0.001, batch 64 per process. ctr: one table of 1,000,001 rows of 10 values, sparse
gradients and SparseAdam, 13 numbers beside, 400-400-400-1 with ReLU, Adam 0.0001, batch 1,000. The clicks are those that Flotilla
reads (`flotilla make-data criteo`): how many different rows a batch has decides how much work a step is. Batches lie in host
memory, 32 in turn as in `flotilla bench step`, and a GPU gets each of them anew. Prints the median over rounds of 200 steps.
"""
import argparse
import itertools
import os
import statistics
import sys
import time
import zlib

sys.dont_write_bytecode = True  # no folder in the source tree
from compare_torch_speed import Uploads, resident_batches

try:
    import torch
except ImportError as error:
    print(f"compare_torch_mlp: needs torch in {sys.executable}: {error}", file=sys.stderr)
    sys.exit(2)

ROUNDS, STEPS, ROWS = 15, 200, 1000001


def digits():
    """Model, criterion, optimizers, batches of inputs and targets."""
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 128), torch.nn.Tanh(), torch.nn.Linear(128, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10))
    batches = [[torch.randn(64, 784), torch.randint(0, 10, (64,))] for _ in range(resident_batches(64 * 784 * 4))]
    return model, torch.nn.CrossEntropyLoss(), lambda: [torch.optim.Adam(model.parameters(), lr=0.001)], batches


class Clicks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(ROWS, 10, sparse=True)
        widths = [13 + 26 * 10, 400, 400, 400]
        layers = [layer for i in range(3) for layer in (torch.nn.Linear(widths[i], widths[i + 1]), torch.nn.ReLU())]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(400, 1))

    def forward(self, numbers, ids):
        return self.layers(torch.cat([numbers, self.table(ids).flatten(1)], 1)).squeeze(1)


def read_clicks(path, count):
    """Batches of 1,000 lines of a file in Criteo's format: numbers, rows of the table, labels."""
    batches = []
    with open(path, encoding="ascii") as file:
        while len(batches) < count:
            lines = [line.rstrip("\n").split("\t") for line in itertools.islice(file, 1000)]
            if len(lines) < 1000:
                break
            numbers = [[float(x or 0) for x in line[1:14]] for line in lines]
            ids = [[zlib.crc32(f"{slot} {x}".encode()) % ROWS for slot, x in enumerate(line[14:])] for line in lines]
            batches.append([torch.tensor(numbers), torch.tensor(ids), torch.tensor([float(line[0]) for line in lines])])
    if not batches:
        sys.exit(f"compare_torch_mlp: {path} has fewer than 1,000 lines")
    return batches


def clicks(path):
    model = Clicks()
    batches = read_clicks(path, resident_batches(1000 * (13 + 26) * 4))
    optimizers = lambda: [torch.optim.SparseAdam(model.table.parameters(), lr=0.0001),
                          torch.optim.Adam(model.layers.parameters(), lr=0.0001)]
    return model, torch.nn.BCEWithLogitsLoss(), optimizers, batches


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("precision", nargs="?", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--model", default="mlp", choices=("mlp", "ctr"))
    parser.add_argument("--clicks", metavar="FILE", help="of --model ctr: `flotilla make-data criteo --rows 200000 --output FILE`")
    arguments = parser.parse_args()
    if arguments.model == "ctr" and not arguments.clicks:
        parser.error("--model ctr needs --clicks FILE")
    device = arguments.device
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    workers = int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(1)
    model, criterion, make_optimizers, batches = digits() if arguments.model == "mlp" else clicks(arguments.clicks)
    model.to(device)
    samples = len(batches[0][-1])
    batches = Uploads(batches, device)
    optimizers = make_optimizers()
    if workers > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)

    def steps(count):
        for _ in range(count):
            *inputs, targets = batches.next()
            for optimizer in optimizers:
                optimizer.zero_grad()
            with torch.autocast(device, torch.bfloat16, enabled=arguments.precision == "bfloat16"):
                loss = criterion(model(*inputs), targets)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        loss.item()  # waits for a GPU

    steps(50)
    rates = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        steps(STEPS)
        rates.append(workers * samples * STEPS / (time.monotonic() - begin))
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"torch {torch.__version__}, {arguments.model}, {workers} process(es) x {torch.get_num_threads()} thread(s), {device}, "
              f"{arguments.precision}: {statistics.median(rates):.0f} samples/s ({min(rates):.0f} to {max(rates):.0f})")


main()
