# SPDX-License-Identifier: Apache-2.0
# The layers of the tree: style.layering holds all includes against this table, scripts/draw_architecture.sh draws it, with
# the words behind a row.
# Each folder with the folders that it may use beside itself; a folder below one of these has its own row, if any.
set(layers
  "kernels"  # tensors and operations on a device
  "models: kernels"  # layers and networks
  "mpi/core: kernels"  # communicators, roles
  "mpi/watchdog: kernels mpi/core"  # hangs
  "mpi/all_reduce: kernels mpi/core"  # sums over ranks
  "mpi/push_pull: kernels mpi/core"  # workers and servers
  "mpi/start: kernels mpi/core"  # network check, binding
  "src/files: kernels"  # files of the system
  "src/config: kernels"  # decks
  "src/observe: kernels src/files"  # metrics, logs, traces
  "src/job: kernels mpi src/files src/config src/observe"  # failures, devices, Slurm
  "src/data: kernels models src/files src/config src/observe"  # data sets, loaders
  "src/checkpoint: kernels src/files src/data"  # HDF5 files
  "src/optim: kernels models src/config"  # optimizers, schedules
  "src/strategy: kernels models mpi src/config src/job src/optim"  # how workers step together
  "src/parameter_server/rows: kernels src/config"  # tables of rows
  "src/parameter_server/protocol: kernels models mpi src/config src/observe src/job src/checkpoint src/optim"  # placement, messages
  "src/parameter_server/server: kernels models mpi src/config src/observe src/job src/checkpoint src/optim src/strategy src/parameter_server/rows src/parameter_server/protocol"  # shards, update modes
  "src/parameter_server/worker: kernels models mpi src/config src/observe src/data src/checkpoint src/optim src/strategy src/parameter_server/rows src/parameter_server/protocol"  # the workers' side
  "src/train/monitor: kernels models mpi src/files src/config src/observe src/job src/data src/strategy"  # stragglers, input
  "src/train: kernels models mpi src/files src/config src/observe src/job src/data src/checkpoint src/optim src/strategy src/parameter_server/rows src/parameter_server/protocol src/parameter_server/worker src/train/monitor"  # the parts of a run, the loop
  "src/onnx: kernels src/files src/config src/checkpoint src/train"  # models as ONNX graphs
  "src/compare: kernels src/files src/config src/observe"  # plans and tables of comparisons
  "src/report: kernels src/files src/config src/observe"  # pages, pictures and tables of runs
  "src/commands: kernels models mpi src"  # subcommands
  "src: kernels models mpi src")
list(APPEND layers
  "tests/kernels: kernels tests"
  "tests/models: kernels models tests"
  "tests/mpi: kernels mpi tests"
  "tests/support: kernels mpi tests"
  "tests: kernels models mpi src tests")
