#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several "hosts" on one machine, made of namespaces: each has its own network address, name, processes and /dev/shm.
# They hang on a bridge in a namespace of its own ("login"), where mpirun starts; the machine's own network is not touched.
# Needs root (or `unshare -Urm`), iproute2 and Open MPI 4.
#   hosts.sh up N              make h0 … hN-1
#   hosts.sh shape 1gbit [hK]  limit every host's link, or one's, both ways (tc tbf); `hosts.sh shape none` lifts that
#   hosts.sh run OPTIONS…      mpirun over them: hosts.sh run -n 6 --map-by node PROGRAM
#   hosts.sh exec hK COMMAND…  run a command there
#   hosts.sh login COMMAND…    run a command where mpirun starts
#   hosts.sh cut hK            take its link down; `hosts.sh join hK` puts it up again
#   hosts.sh crash hK          end everything that runs there at once
#   hosts.sh down              remove them, and what still runs on h0 … hN-1
set -euo pipefail
state=${FLOTILLA_HOSTS:-/tmp/flotilla-hosts-$(id -u)}
network=10.77.0

pid_of() { cat "$state/$1.pid"; }

# enter NAMESPACES HOST COMMAND…: in the caller's folder.
enter() {
  local flags=$1 pid
  pid=$(pid_of "$2")
  shift 2
  # shellcheck disable=SC2086,SC2016  # several flags; the inner shell expands
  nsenter -t "$pid" $flags -- sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}
on_host() { local host=$1; shift; enter "-n -u -m -p" "$host" "$@"; }
on_login() { enter "-n -u -m" login "$@"; }
host_names() { cut -d' ' -f1 "$state/hostfile"; }

# make NAME FLAGS…: a process that holds the namespaces, and its process id in NAME.pid.
make() {
  local name=$1
  shift
  unshare --net --uts --mount "$@" --fork --kill-child --propagation private sh -c "
    hostname $name; mount -t tmpfs tmpfs /dev/shm; mount --bind $state/hosts /etc/hosts
    ip link set lo up; exec sleep infinity" </dev/null >/dev/null 2>&1 &
  local parent=$!
  until pgrep -P "$parent" > "$state/$name.pid"; do sleep 0.01; done
  until [ "$(cat "/proc/$(pid_of "$name")/comm")" = sleep ]; do sleep 0.01; done
}

up() {
  local count=$1 i
  mkdir -p "$state"
  { echo "127.0.0.1 localhost"; echo "$network.1 login"
    for i in $(seq 0 $((count - 1))); do echo "$network.$((10 + i)) h$i"; done; } > "$state/hosts"
  : > "$state/hostfile"
  make login
  on_login ip link add br0 type bridge
  on_login ip link set br0 up
  on_login ip addr add "$network.1/24" dev br0
  for i in $(seq 0 $((count - 1))); do
    make "h$i" --pid --mount-proc
    echo "h$i slots=${SLOTS:-2}" >> "$state/hostfile"
    on_login ip link add "vh$i" type veth peer name eth0 netns "$(pid_of "h$i")"
    on_login ip link set "vh$i" master br0
    on_login ip link set "vh$i" up
    on_host "h$i" ip addr add "$network.$((10 + i))/24" dev eth0
    on_host "h$i" ip link set eth0 up
  done
}

# tbf's latency is the length of its queue, not a delay; a shorter one drops packets.
shape() {
  local rate=$1 host
  for host in ${2:-$(host_names)}; do
    if [ "$rate" = none ]; then
      on_host "$host" tc qdisc del dev eth0 root
      on_login tc qdisc del dev "v$host" root
    else
      on_host "$host" tc qdisc replace dev eth0 root tbf rate "$rate" burst "${BURST:-256kb}" latency 50ms
      on_login tc qdisc replace dev "v$host" root tbf rate "$rate" burst "${BURST:-256kb}" latency 50ms
    fi
  done
}

# Two TCP links per pair of ranks: with one, Open MPI often runs half duplex on a slow link.
run() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
  on_login mpirun --hostfile "$state/hostfile" --mca plm_rsh_agent "$state/agent" --mca plm_rsh_no_tree_spawn 1 \
    --mca oob_tcp_if_include "$network.0/24" --mca btl tcp,self,vader --mca btl_tcp_if_include "$network.0/24" \
    --mca btl_tcp_links 2 --bind-to none "$@"
}

# What mpirun calls instead of ssh.
write_agent() {
  cat > "$state/agent" <<EOF
#!/bin/sh
host=\$1; shift
exec nsenter -t "\$(cat "$state/\$host.pid")" -n -u -m -p -- sh -c "\$*"
EOF
  chmod +x "$state/agent"
}

down() {
  local file
  for file in "$state"/*.pid; do
    # A process id may have been given to another process since.
    if [ "$(cat "/proc/$(cat "$file")/comm" 2>/dev/null)" = sleep ]; then kill -9 "$(cat "$file")" || true; fi
  done
  rm -rf "$state"
}

command=${1:?hosts.sh up, shape, run, exec, login, cut, join, crash or down}
shift
case $command in
  up) up "$@"; write_agent ;;
  shape) shape "$@" ;;
  run) run "$@" ;;
  exec) on_host "$@" ;;
  login) on_login "$@" ;;
  cut) on_host "$1" ip link set eth0 down ;;
  join) on_host "$1" ip link set eth0 up ;;
  crash) kill -9 "$(pid_of "$1")" && rm "$state/$1.pid" ;;
  down) down ;;
  *) echo "hosts.sh: no command $command" >&2; exit 2 ;;
esac
