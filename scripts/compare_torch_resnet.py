#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flotilla's residual networks and image resizing beside PyTorch's: the same numbers? Needs what torch_to_hdf5.py needs,
and torchvision and pillow.

    python3 scripts/compare_torch_resnet.py prepare CASE [--depth 50] [--classes 1000]
    flotilla evaluate CASE/weights.h5 CASE/vectors.toml --vectors CASE/vectors.h5
    flotilla train CASE/steps.toml
    flotilla train CASE/finetune.toml
    flotilla train CASE/steps.toml device.precision=bfloat16 run.output=CASE/bfloat16     # where a processor has it
    for filter in bilinear antialias; do
      flotilla evaluate CASE/identity.h5 CASE/resize.toml data.resize_filter=$filter --vectors CASE/$filter.h5
    done
    python3 scripts/compare_torch_resnet.py compare CASE        # or one of: vectors, steps, finetune, resize
    python3 scripts/compare_torch_resnet.py bfloat16 CASE

`prepare` fills the folder CASE: a network of torchvision with random weights and running statistics (weights.h5), PNG
files, lists and decks. `compare` computes the same in torch and says how far Flotilla's results are off; exit code 1 if
one is further off than its limit. Add mpirun, overrides (device.threads=2, run.output=…) as you like.

  vectors  The logits of images whose short side is 256, so that of the validation transform only the centre crop acts.
           Limit: ||ours - torch's|| / ||torch's|| of each image at most 1e-4.
  steps    5 steps of SGD (learning rate 0.01, momentum 0.9, decay 1e-4 of everything) in training mode on one batch of 8
           images of 224 x 224 pixels, which no augmentation changes. The batch is the whole list, so that the order of
           samples matters for rounding only. Limits: losses 1e-3 relative; weights, and running statistics, 1e-3 in the
           norm, and of what the steps changed 1e-3 or 4 times torch's own distance from its float64.
  finetune The steps with conv1, bn1 and layer1 frozen, ten times the learning rate for fc, and the running statistics of
           these norms and of layer3 fixed (in torch: requires_grad, parameter groups, eval()). Limits: those of steps;
           what is frozen or fixed keeps its bits.
  bfloat16 The same steps with bfloat16. Limit: their parameters and running statistics are at most 1.2 times as far from
           those of torch's float64, in the norm, as torch's own under autocast.
  resize   The validation transform (short side to 40, centre 32) on images of many sizes, seen through a linear layer
           whose weights are the identity. Limits, of 255: 0.01, "antialias" beside PIL's resize along the rows and then
           along the columns, "bilinear" beside torch's interpolate in float32. Both passes of "antialias" round to whole
           numbers, so that their order matters, by 1 of 255: Pillow 13 begins with the columns where an image is more
           than twice as high as wide and becomes lower; earlier ones, as Flotilla, always with the rows.
"""
import argparse
import json
import os
import sys

import h5py
import PIL.Image
import torch
import torchvision
from torchvision.transforms import functional

import torch_to_hdf5

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
STEPS, BATCH, SMALL, SHORT = 5, 8, 32, 40
SIZES = [(256, 256), (256, 320), (400, 256), (256, 341), (257, 256), (511, 256), (256, 300), (300, 256)]
SMALL_SIZES = [(40, 40), (64, 64), (101, 67), (67, 101), (300, 200), (41, 40), (20, 30), (533, 400), (640, 41), (1, 1),
               (400, 867), (867, 400)]

FROZEN = ("conv1.", "bn1.", "layer1.")
FIXED = ("bn1", "layer1.", "layer3.")
RATE_OF_FC = 10
FINETUNING = f"""frozen = {json.dumps([name + "*" for name in FROZEN])}
rates = ["fc.* {RATE_OF_FC}"]"""

DECK = """# Made by scripts/compare_torch_resnet.py.
[run]
output = "{folder}/{run}"
resume = "never"
log_every = 1
[device]
kind = "cpu"
[model]
{model}
[data]
kind = "image-list"
image_size = {size}
short_side = {short}
crop_area = [1.0, 1.0]
crop_aspect = [1.0, 1.0]
flip = 0.0
[data.train]
path = "{images}.txt"
[data.validation]
path = "{images}.txt"
[train]
epochs = {steps}
batch_size = {batch}
[optimizer]
kind = "momentum"
momentum = 0.9
weight_decay = 1e-4
{optimizer}
[schedule]
kind = "constant"
learning_rate = 0.01
[strategy]
kind = "all-reduce"
[validation]
every = 0
"""


def network(depth, classes):
    return getattr(torchvision.models, f"resnet{depth}")(num_classes=classes)


def picture(width, height, generator):
    """Colour, coarse blobs, waves and single pixels, in other shares in each image: no two are alike on the whole, and a
    shift by one pixel shows."""
    rand = lambda *shape: torch.rand(*shape, generator=generator)
    y, x = torch.meshgrid(torch.arange(height) / 64.0, torch.arange(width) / 64.0, indexing="ij")
    phase = 40 * rand(1)[0] * (x * torch.cos(6.3 * rand(1)[0]) + y * torch.sin(6.3 * rand(1)[0]))
    waves = 0.5 + 0.5 * torch.sin(phase + 6.3 * rand(3, 1, 1))
    blobs = torch.nn.functional.interpolate(rand(1, 3, 4, 4), (height, width), mode="bilinear")[0]
    shares = rand(4) ** 2 + 0.05
    parts = rand(3, 1, 1).expand(3, height, width), blobs, waves, rand(3, height, width)
    pixels = sum(share * part for share, part in zip(shares / shares.sum(), parts))
    return PIL.Image.fromarray((pixels.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy())


def make_images(folder, name, sizes, classes, generator):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    lines = []
    for i, (width, height) in enumerate(sizes):
        picture(width, height, generator).save(f"{folder}/{name}/{i:04d}.png")
        label = int(torch.randint(classes, (1,), generator=generator))
        lines.append(f"{i:04d}.png {label}\n")
    with open(f"{folder}/{name}.txt", "w", encoding="utf-8") as file:  # next to the folder of the same name
        file.writelines(lines)


def prepare(folder, arguments):
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    model = network(arguments.depth, arguments.classes)
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.1)
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 2)
            # With branches as strong as the identity, and features of length 30, 5 steps of this learning rate are
            # chaotic: torch in float32 and in float64 then differ by a third.
            ends_branch = name.endswith("bn3" if arguments.depth >= 50 else "bn2")
            if ends_branch:
                layer.weight.data.mul_(0.2)
            if name.startswith("layer4") and (ends_branch or "downsample" in name):
                layer.weight.data.mul_(0.1)
                layer.bias.data.mul_(0.1)
    torch_to_hdf5.write_hdf5(model.state_dict(), f"{folder}/weights.h5", "the random network")
    inputs = 3 * SMALL * SMALL
    identity = {"fc1.weight": torch.eye(inputs), "fc1.bias": torch.zeros(inputs)}
    torch_to_hdf5.write_hdf5(identity, f"{folder}/identity.h5", "the identity")

    make_images(folder, "images", SIZES, arguments.classes, generator)
    make_images(folder, "squares", [(224, 224)] * BATCH, arguments.classes, generator)
    make_images(folder, "sizes", SMALL_SIZES, arguments.classes, generator)
    resnet = f'kind = "resnet"\ndepth = {arguments.depth}\nclasses = {arguments.classes}'
    weights = f'{resnet}\ninitial_weights = "{folder}/weights.h5"'
    linear = f'kind = "mlp"\nwidths = []\nclasses = {inputs}'
    for name, images, model_lines, size, short in (
        ("vectors", "images", resnet, 224, 256),
        ("steps", "squares", weights, 224, 256),
        ("finetune", "squares", f"{weights}\nfixed_statistics = {json.dumps([name + '*' for name in FIXED])}", 224, 256),
        ("resize", "sizes", linear, SMALL, SHORT),
    ):
        with open(f"{folder}/{name}.toml", "w", encoding="utf-8") as file:
            tuned = name == "finetune"
            file.write(DECK.format(folder=folder, run=name if tuned else "run", optimizer=FINETUNING if tuned else "",
                                   model=model_lines, size=size, short=short, images=images,
                                   steps=STEPS, batch=BATCH))
    with open(f"{folder}/case.json", "w", encoding="utf-8") as file:
        json.dump({"depth": arguments.depth, "classes": arguments.classes}, file)
    print(f"{folder}: ResNet-{arguments.depth}, {arguments.classes} classes; now run flotilla (see --help)")
    return True


def list_of(folder, name):
    with open(f"{folder}/{name}.txt", encoding="utf-8") as file:
        lines = [line.rsplit(maxsplit=1) for line in file]
    images = [PIL.Image.open(f"{folder}/{name}/{path}").convert("RGB") for path, _ in lines]
    return images, torch.tensor([int(label) for _, label in lines])


def normalised(image):
    return functional.normalize(functional.to_tensor(image), MEAN, STD)


def case_network(folder):
    with open(f"{folder}/case.json", encoding="utf-8") as file:
        case = json.load(file)
    model = network(case["depth"], case["classes"])
    model.load_state_dict(torch_to_hdf5.read_hdf5(f"{folder}/weights.h5"), strict=True)
    return model


def vectors_in(path):
    with h5py.File(path, "r") as file:
        return torch.from_numpy(file["vectors"][()])


def verdict(what, worst, limit):
    """False for NaN, too."""
    good = bool(worst <= limit)
    print(f"{what}: {worst:.2e}, limit {limit:.0e}: {'good' if good else 'TOO FAR OFF'}")
    return good


def relative(ours, theirs):
    difference = (ours.double() - theirs.double()).norm().item()
    return difference / max(theirs.double().norm().item(), 1e-30)


def compare_vectors(folder, _):
    images, _ = list_of(folder, "images")
    model = case_network(folder).eval()
    batch = torch.stack([normalised(functional.center_crop(image, 224)) for image in images])
    with torch.no_grad():
        theirs = model(batch)
        exact = model.double()(batch.double())
    ours = vectors_in(f"{folder}/vectors.h5")
    if ours.shape != theirs.shape:
        sys.exit(f"{folder}/vectors.h5 holds {tuple(ours.shape)} values, expected {tuple(theirs.shape)}")
    off = [relative(a, b) for a, b in zip(ours, theirs)]
    rounding = max(relative(a, b) for a, b in zip(theirs, exact))
    return verdict(f"vectors: {len(off)} images, furthest off (torch from its float64: {rounding:.2e})", max(off), 1e-4)


def torch_steps(model, batch, labels, autocast=False, tuned=False):
    model.train()
    groups = [{"params": list(model.parameters())}]
    if tuned:
        for name, layer in model.named_modules():
            if isinstance(layer, torch.nn.BatchNorm2d) and name.startswith(FIXED):
                layer.eval()
        for name, parameter in model.named_parameters():
            parameter.requires_grad = not name.startswith(FROZEN)
        body = [p for name, p in model.named_parameters() if p.requires_grad and not name.startswith("fc.")]
        groups = [{"params": body}, {"params": list(model.fc.parameters()), "lr": 0.01 * RATE_OF_FC}]
    optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9, weight_decay=1e-4)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()


def off_in_group(ours, theirs, begin, names):
    """In the norm of all tensors together: of the values, and of what the steps changed; and the tensor furthest off."""
    gap, size, change = (
        sum(part(name).double().norm().item() ** 2 for name in names) ** 0.5
        for part in (lambda n: ours[n].double() - theirs[n].double(), lambda n: theirs[n],
                     lambda n: theirs[n].double() - begin[n].double()))
    return gap / size, gap / change, max((relative(ours[name], theirs[name]), name) for name in names)


def steps_of(run):
    """Losses and last state of a training."""
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    losses = [line["loss"] for line in lines if line["event"] == "step"]
    if len(losses) != STEPS:
        sys.exit(f"{run}/metrics.jsonl holds {len(losses)} steps, expected {STEPS}")
    return losses, torch_to_hdf5.read_hdf5(f"{run}/checkpoints/step-{STEPS:08d}.h5")


def print_losses(ours, theirs, exact):
    print("loss     ours", *(f"{loss:10.6f}" for loss in ours))
    print("        torch", *(f"{loss:10.6f}" for loss in theirs))
    print("torch float64", *(f"{loss:10.6f}" for loss in exact))


def names_in(state, group):
    return [name for name in state if torch_to_hdf5.COUNTER not in name and torch_to_hdf5.group_of(name) == group]


def compare_bfloat16(folder, arguments):
    images, labels = list_of(folder, "squares")
    batch = torch.stack([normalised(image) for image in images])
    layout = torch.channels_last
    losses, theirs = torch_steps(case_network(folder).to(memory_format=layout), batch.to(memory_format=layout), labels,
                                 autocast=True)
    exact_losses, exact = torch_steps(case_network(folder).double(), batch.double(), labels)
    our_losses, ours = steps_of(arguments.run or f"{folder}/bfloat16")
    print_losses(our_losses, losses, exact_losses)
    begin = case_network(folder).state_dict()
    good = True
    for group in ("parameters", "statistics"):
        names = names_in(theirs, group)
        off, allowed = (off_in_group(state, exact, begin, names)[1] for state in (ours, theirs))
        good &= verdict(f"{group} in bfloat16, off in the norm of what changed (torch: {allowed:.2e})", off, 1.2 * allowed)
    return good


def compare_finetune(folder, arguments):
    good = compare_steps(folder, arguments, tuned=True)
    begin = case_network(folder).state_dict()
    _, ours = steps_of(arguments.run or f"{folder}/finetune")
    changed = [name for name in begin if torch_to_hdf5.COUNTER not in name and not torch.equal(ours[name], begin[name]) and
               name.startswith(FIXED if torch_to_hdf5.group_of(name) == "statistics" else FROZEN)]
    print(f"frozen and fixed tensors that changed: {', '.join(changed) or 'none'}")
    return good and not changed


def compare_steps(folder, arguments, tuned=False):
    images, labels = list_of(folder, "squares")
    batch = torch.stack([normalised(image) for image in images])
    losses, theirs = torch_steps(case_network(folder), batch, labels, tuned=tuned)
    exact_losses, exact = torch_steps(case_network(folder).double(), batch.double(), labels, tuned=tuned)
    our_losses, ours = steps_of(arguments.run or f"{folder}/{'finetune' if tuned else 'run'}")
    print_losses(our_losses, losses, exact_losses)
    good = verdict("losses, furthest off", max(abs(a - b) / b for a, b in zip(our_losses, losses)), 1e-3)
    begin = case_network(folder).state_dict()
    for group in ("parameters", "statistics"):
        names = names_in(theirs, group)
        values, changes, (worst, name) = off_in_group(ours, theirs, begin, names)
        rounding = off_in_group(theirs, exact, begin, names)
        print(f"{group}: furthest off {name} {worst:.2e}; torch from its float64 {rounding[2][0]:.2e}")
        good &= verdict(f"{group}, off in the norm of all (torch from its float64: {rounding[0]:.2e})", values, 1e-3)
        good &= verdict(f"{group}, off in the norm of what changed (torch: {rounding[1]:.2e})", changes,
                        max(1e-3, 4 * rounding[1]))
    return good


def resized_by_pil(image, size):
    """Rows first, whatever the version of Pillow."""
    return image.resize((size[0], image.height), PIL.Image.BILINEAR).resize(size, PIL.Image.BILINEAR)


def compare_resize(folder, _):
    images, _ = list_of(folder, "sizes")
    good = True
    for name in "antialias", "bilinear":
        ours = vectors_in(f"{folder}/{name}.h5").reshape(-1, 3, SMALL, SMALL)
        pixels = (ours * STD[:, None, None] + MEAN[:, None, None]) * 255
        worst = []
        for image, found in zip(images, pixels):
            size = functional.resize(image, SHORT).size
            if name == "antialias":
                resized = functional.pil_to_tensor(resized_by_pil(image, size)).float()
            else:
                whole = functional.pil_to_tensor(image).float()[None]
                resized = torch.nn.functional.interpolate(whole, size[::-1], mode="bilinear", align_corners=False)[0]
            worst.append((functional.center_crop(resized, SMALL) - found).abs().max().item())
        print(f"{name}:", *(f"{w}x{h} {off:.4f}" for (w, h), off in zip(SMALL_SIZES, worst)))
        # 1e-3: what float32 loses by normalising and back.
        good &= verdict(f'resize, filter "{name}", of 255', max(worst), 0.01 + 1e-3)
    return good


def compare(folder, arguments):
    return all([part(folder, arguments) for part in (compare_vectors, compare_steps, compare_finetune, compare_resize)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"prepare": prepare, "vectors": compare_vectors, "steps": compare_steps, "finetune": compare_finetune, "resize": compare_resize,
             "bfloat16": compare_bfloat16, "compare": compare}
    parser.add_argument("part", choices=parts)
    parser.add_argument("folder", metavar="CASE")
    parser.add_argument("--depth", type=int, default=50, choices=(18, 34, 50, 101, 152))
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", help="the folder of the training (default: CASE/run)")
    arguments = parser.parse_args()
    sys.exit(0 if parts[arguments.part](arguments.folder, arguments) else 1)


if __name__ == "__main__":
    main()
