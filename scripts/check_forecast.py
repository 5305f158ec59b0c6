#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares flotilla forecast with training on emulated hosts: the errors of 20 cases.

    sudo python3 scripts/check_forecast.py [--flotilla build/cpu/flotilla] [--case TEXT] [--seconds 6]

Each case is measured in turn within a minute: bench step before and after, with as many ranks on this machine as the case has, since
its hosts share the processors; training in between. bench input and, inside a host, bench all-reduce are measured once. The network is
what the links are shaped to, less the headers of TCP; with more than two ranks, large messages between two of them take twice as long
both ways at a time (Open MPI 4 over TCP: MPI_Sendrecv of 512 KiB on such hosts, 1.9 to 2.2). What hosts, ranks and strategies take
follows from the model. Printed are milliseconds of a step. Needs root, iproute2 and Open MPI 4, as tests/hosts/hosts.sh.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOSTS = ROOT / "tests/hosts/hosts.sh"
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
                            "BURST": "32kb", "FLOTILLA_HOSTS": "/tmp/flotilla-forecast-hosts"}  # A larger one hides the rate from small arrays
DECK = [str(ROOT / "inputs/mlp_random.toml"), "data.shape=[256]", "model.widths=[512,512]", "train.batch_size=512", "device.threads=1", "run.watchdog_s=60"]
FLAT, HIERARCHICAL = (["strategy.kind=all-reduce", f"strategy.all_reduce={word}"] for word in ("mpi", "hierarchical"))
SERVERS = ["strategy.kind=parameter-server", "server.mode=sync", "roles.kind=symmetric"]
LATENCY_US = 50
PAYLOAD = 0.95  # Of the bytes in a packet
# hosts, ranks on each, rate of a link, strategy, the row of the forecast
LINKS = ("300mbit", "100mbit", "50mbit")  # Faster ones are bound by the processors that all hosts share


def local(period, word="mpi"):
    return ["strategy.kind=local-sgd", f"strategy.period={period}", f"strategy.all_reduce={word}"], f"{word}, local SGD, period {period}"


def cases():
    flat, hierarchical = ((keys, f"{keys[1].split('=')[1]}, buckets of 32 MiB") for keys in (FLAT, HIERARCHICAL))
    servers = (SERVERS, "synchronous servers, ")
    for strategy in (flat, local(8)):
        yield 1, 2, "none", *strategy
    for link in LINKS:
        yield 2, 1, link, *flat
    for link, period in (("100mbit", 4), ("300mbit", 16)):
        yield 2, 1, link, *local(period)
    for link in ("300mbit", "100mbit"):
        yield 2, 1, link, *servers
    for link in ("300mbit", "100mbit"):
        yield 2, 2, link, *flat
        yield 2, 2, link, *hierarchical
    yield 2, 2, "300mbit", *local(8, "hierarchical")
    yield 2, 2, "100mbit", *servers
    for link in LINKS:
        yield 4, 1, link, *flat
    yield 4, 1, "100mbit", *local(8)
    yield 4, 1, "300mbit", *servers


def run(*command):
    done = subprocess.run([str(each) for each in command], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stdout[-2000:]} {done.stderr[-2000:]}")


class Machine:
    def __init__(self, flotilla, folder, seconds):
        self.flotilla, self.folder, self.seconds = pathlib.Path(flotilla).resolve(), pathlib.Path(folder), seconds

    def here(self, ranks, *arguments):
        run("mpirun", "-n", ranks, self.flotilla, *arguments)

    def there(self, hosts, each, *arguments):
        run(HOSTS, "run", "-n", hosts * each, "--map-by", f"ppr:{each}:node", self.flotilla, *arguments)

    def steps_alone(self, ranks):
        file = self.folder / "part.json"
        self.here(ranks, "bench", "step", *DECK, *FLAT, "--steps", 40, "--json", file)
        return json.loads(file.read_text())

    def measure_once(self, ranks):
        self.input = self.folder / f"input{ranks}.json"
        if self.input.exists():
            return
        self.here(ranks, "bench", "input", *DECK, "--seconds", 1, "--json", self.input)
        for count in {2, ranks} - {1}:
            self.here(count, "bench", "all-reduce", "--in-place", "--min", "512K", "--max", "2M", "--json",
                      self.folder / f"sums{count}.json")

    def trained_ms(self, hosts, each, keys, steps):
        output = self.folder / "run"
        arguments = ["train", *DECK, *keys, f"run.output={output}", "run.resume=never", f"train.steps={steps}",
                     f"run.log_every={max(1, steps // 6)}", "run.check_network=false", "validation.every=0"]
        self.there(hosts, each, *arguments) if hosts > 1 else self.here(each, *arguments)
        events = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        subprocess.run(["rm", "-rf", output], check=True)
        return 1e3 * statistics.mean([event["step_s"] for event in events if event["event"] == "step"][1:])

    def forecast(self, hosts, each, network, row, step):
        (self.folder / "step.json").write_text(json.dumps(step))
        table, period = self.folder / "table.json", row.rpartition(" ")[2]
        self.here(1, "forecast", *DECK, "--hosts", hosts, "--ranks-per-host", each, "--step", self.folder / "step.json", "--input",
                  self.input, "--all-reduce", *self.folder.glob("sums*.json"), "--json", table,
                  *(["--network", network] if network else []), *(["--periods", period] if "period" in row else []))
        return next(line for line in json.loads(table.read_text()) if line["strategy"].startswith(row))

    def compare(self, hosts, each, link, keys, row):
        network = None
        if hosts > 1:
            run(HOSTS, "shape", link)
            network = f"{LATENCY_US},{PAYLOAD * float(link.removesuffix('mbit')) / 1e3:.4g},{2 if hosts * each > 2 else 1}"
        workers = hosts * each // 2 if keys is SERVERS else hosts * each
        self.measure_once(workers)
        step = self.steps_alone(workers)
        step["cores"] /= hosts
        first_ms = self.forecast(hosts, each, network, row, step)["step_us"] * 1e-3
        measured_ms = self.trained_ms(hosts, each, keys, max(24, min(3000, int(self.seconds * 1e3 / first_ms))))
        after = self.steps_alone(workers)
        step["own_us"] = [one + other for one, other in zip(step["own_us"], after["own_us"])]
        step["step_mean_us"] = (step["step_mean_us"] + after["step_mean_us"]) / 2
        return self.forecast(hosts, each, network, row, step), measured_ms, network


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flotilla", default="build/cpu/flotilla")
    parser.add_argument("--case", default="", help="only cases whose line contains this text")
    parser.add_argument("--seconds", default=6.0, type=float, help="of each training")
    options = parser.parse_args()
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        run(HOSTS, "up", 4)
        try:
            machine = Machine(options.flotilla, folder, options.seconds)
            print(f"{'case':<52}{'network':>16}{'compute':>9}{'slowest':>9}{'exposed':>9}{'forecast':>10}{'measured':>10}{'error':>8}")
            for hosts, each, link, keys, row in cases():
                name = f"{hosts} x {each}, {link}: {row.strip(', ')}"
                if options.case not in name:
                    continue
                found, measured, network = machine.compare(hosts, each, link, keys, row)
                forecast = found["step_us"] * 1e-3
                errors.append(abs(forecast / measured - 1))
                parts = "".join(f"{found[part + '_us'] * 1e-3:>9.2f}" for part in ("compute", "slowest", "exposed"))
                print(f"{name:<52}{network or '':>16}{parts}{forecast:>10.2f}{measured:>10.2f}{forecast / measured - 1:>+8.1%}", flush=True)
        finally:
            run(HOSTS, "down")
    print(f"{len(errors)} cases: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}")


if __name__ == "__main__":
    main()
