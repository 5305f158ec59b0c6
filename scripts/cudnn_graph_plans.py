#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of cuDNN's graph API for the convolutions of ResNet-50, alone and fused with what stands around them. Needs a GPU,
torch, torchvision and nvidia-cudnn-frontend.

    python3 scripts/cudnn_graph_plans.py OUTPUT.json [--precision float16] [--batch 256] [--plans 4] [--seconds 150]

For each shape, in this order: fprop, dgrad, wgrad; "norm fprop": scale, bias and ReLU of the input before the product and sums
of each channel behind it; "norm wgrad": that input made again for the gradient of the weight. Of each the first plans by cuDNN's
heuristics that this GPU supports, the fastest counted: median of 5 calls after 2, by events. Shapes that come often come first;
after --seconds it stops and says how many were left.
"""
import argparse
import collections
import json
import statistics
import sys
import time

try:
    import cudnn
    import torch
    import torchvision
except ImportError as error:
    print(f"cudnn_graph_plans: needs torch, torchvision and nvidia-cudnn-frontend in {sys.executable}: {error}", file=sys.stderr)
    sys.exit(2)

Shape = collections.namedtuple("Shape", "input weight stride padding")


def shapes_of(batch):
    """Distinct convolutions and their numbers, the most frequent first."""
    found = collections.Counter()
    with torch.device("meta"):
        model = torchvision.models.resnet50()
        for layer in model.modules():
            if isinstance(layer, torch.nn.Conv2d):
                layer.register_forward_hook(lambda layer, inputs, y: found.update(
                    [Shape(tuple(inputs[0].shape), tuple(layer.weight.shape), layer.stride, layer.padding)]))
        model(torch.empty(batch, 3, 224, 224))
    return found.most_common()


class Builder:
    """One graph and the memory of its tensors, all in NHWC."""

    def __init__(self, handle, dtype):
        self.dtype, self.memory = dtype, {}
        io = cudnn.data_type.HALF if dtype == torch.float16 else cudnn.data_type.BFLOAT16
        self.graph = cudnn.pygraph(io_data_type=io, intermediate_data_type=cudnn.data_type.FLOAT,
                                   compute_data_type=cudnn.data_type.FLOAT, handle=handle)

    def tensor(self, shape):
        values = torch.randn(shape, device="cuda", dtype=self.dtype).to(memory_format=torch.channels_last)
        tensor = self.graph.tensor(dim=list(values.shape), stride=list(values.stride()), data_type=self.dtype)
        self.memory[tensor] = values
        return tensor

    def result(self, tensor, shape, dtype=None):
        values = torch.empty(shape, device="cuda", dtype=dtype or self.dtype).to(memory_format=torch.channels_last)
        tensor.set_output(True).set_dim(list(values.shape)).set_stride(list(values.stride()))
        if dtype == torch.float32:
            tensor.set_data_type(cudnn.data_type.FLOAT)
        self.memory[tensor] = values

    def normalised(self, shape):
        channels = [1, shape[1], 1, 1]
        scaled = self.graph.scale(input=self.tensor(shape), scale=self.tensor(channels))
        return self.graph.relu(input=self.graph.bias(input=scaled, bias=self.tensor(channels)))


def build(kind, shape, handle, dtype):
    made = Builder(handle, dtype)
    around = {"padding": list(shape.padding), "stride": list(shape.stride), "dilation": [1, 1]}
    size = [(shape.input[2 + i] + 2 * shape.padding[i] - shape.weight[2 + i]) // shape.stride[i] + 1 for i in range(2)]
    output = [shape.input[0], shape.weight[0], *size]
    if kind in ("fprop", "norm fprop"):
        image = made.tensor(shape.input) if kind == "fprop" else made.normalised(shape.input)
        y = made.graph.conv_fprop(image=image, weight=made.tensor(shape.weight), **around)
        made.result(y, output)
        if kind == "norm fprop":
            for sums in made.graph.genstats(input=y):
                made.result(sums, [1, shape.weight[0], 1, 1], torch.float32)
    elif kind == "dgrad":
        made.result(made.graph.conv_dgrad(loss=made.tensor(output), filter=made.tensor(shape.weight), **around), shape.input)
    else:
        image = made.tensor(shape.input) if kind == "wgrad" else made.normalised(shape.input)
        made.result(made.graph.conv_wgrad(image=image, loss=made.tensor(output), **around), shape.weight)
    return made


def microseconds(call):
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times[2:])


def fastest(kind, shape, handle, arguments):
    """Microseconds of each plan that could be built, by name."""
    made = build(kind, shape, handle, getattr(torch, arguments.precision))
    graph = made.graph
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    times = {}
    for i in range(min(graph.get_execution_plan_count(), arguments.plans)):
        try:
            graph.build_plan_at_index(i)
            workspace = torch.empty(graph.get_workspace_size_plan_at_index(i), device="cuda", dtype=torch.uint8)
            name = graph.get_plan_name_at_index(i)
            times[name] = microseconds(lambda: graph.execute_plan_at_index(made.memory, workspace, i, handle=handle))
        except (cudnn.cudnnGraphNotSupportedError, RuntimeError):
            continue  # a plan that this GPU does not run
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", metavar="OUTPUT.json")
    parser.add_argument("--precision", default="float16", choices=("float16", "bfloat16"))
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--plans", type=int, default=4, help="tried of each graph")
    parser.add_argument("--seconds", type=float, default=150.0)
    arguments = parser.parse_args()
    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
    begin, rows, shapes = time.monotonic(), [], shapes_of(arguments.batch)
    for done, (shape, count) in enumerate(shapes):
        if time.monotonic() - begin > arguments.seconds:
            print(f"{len(shapes) - done} of {len(shapes)} shapes were left")
            break
        for kind in ("fprop", "dgrad", "wgrad", "norm fprop", "norm wgrad"):
            if shape.input[1] == 3 and kind != "fprop" and kind != "wgrad":
                continue  # the first convolution's input is no norm's, and needs no gradient
            why, times = "", {}
            try:
                times = fastest(kind, shape, handle, arguments)
            except Exception as error:  # pylint: disable=broad-except
                why = str(error).splitlines()[0] if str(error) else type(error).__name__
            rows.append({"shape": shape._asdict(), "count": count, "kind": kind, "us": times, "why": why})
            best = f"{min(times.values()):10.1f} us of {len(times)} plans" if times else f"      none {why}"
            print(f"{count} x {shape.input} * {shape.weight} / {shape.stride[0]} {kind:10} {best}", flush=True)
            with open(arguments.output, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)


main()
