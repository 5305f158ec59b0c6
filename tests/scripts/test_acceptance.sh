#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/acceptance with the real JUBE and ReFrame, where `jube` and `reframe` are on PATH; of Ramble's files that they can be read.
# Arguments: source folder, folder of the executable.
set -euo pipefail
source=$1
export PATH=$2:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "FAILED: $1"
  echo "$said"
  exit 1
}

examples=$source/examples/acceptance
if python3 -c 'import yaml' 2> /dev/null; then
  cat > read.py << 'END'
import ast
import sys
import yaml
for name in sys.argv[1:]:
    text = open(name).read()
    assert ast.parse(text) if name.endswith(".py") else isinstance(yaml.safe_load(text), dict), name
END
  said=$(python3 read.py "$examples"/*.yaml "$examples"/ramble/*.yaml "$examples"/ramble/applications/flotilla/*.py 2>&1) || fail 'a file cannot be read'
fi

if command -v jube > /dev/null; then
  sed -e 's/"1,2,4"/"1,2"/; s/"1,2,3,4,5"/"1,2"/; s/ranks_per_node, type: int, _: 2/ranks_per_node, type: int, _: 1/; s/ --map-by[^"]*//' \
    -e "s|\$jube_benchmark_home/../..|$source|; s/--steps=100/--steps=40/" "$examples/flotilla_jube.yaml" > jube.yaml
  said=$(jube run jube.yaml --hide-animation --result 2>&1) || fail "exit code $?"
  [[ $(grep -cE '^\| +[12] \|.*[0-9] \| +yes \|$' <<< "$said") == 4 ]] || fail 'not four valid launches in the table'
fi

command -v reframe > /dev/null || {
  echo "SKIPPED: no reframe (pip install reframe-hpc)"
  exit 77
}
cat > settings.py << 'END'
site_configuration = {
    "systems": [{"name": "here", "hostnames": [".*"], "partitions": [
        {"name": "cpu", "scheduler": "local", "launcher": "mpirun", "environs": ["builtin"], "max_jobs": 1}]}],
    "environments": [{"name": "builtin"}],
}
END
run_reframe() { reframe -C settings.py --prefix="$work" --system=here -c "$source/examples/acceptance/flotilla_reframe.py" -S ranks_per_node=1 -r "$@" 2>&1; }

said=$(run_reframe --performance-report -S TrainingStep.steps=40 -S AllReduce.size=64K) || fail "exit code $?"
grep -qE 'PASSED.*Ran 6/6 test case' <<< "$said" || fail 'not all have passed'
for figure in samples_per_s step_ms exposed_ms time_us busbw_gb_s; do
  [[ $said == *"$figure"* ]] || fail "no $figure in the report"
done

# A benchmark that is not valid fails.
cat > flotilla << 'END'
#!/bin/sh
echo 'figure samples_per_s=1 step_ms=1 exposed_ms=1 efficiency=1'
echo 'valid: no: the loss is not finite'
END
chmod +x flotilla
if said=$(PATH=$work:$PATH run_reframe -n TrainingStep); then fail 'an invalid benchmark has passed'; fi
grep -q 'FAILED.*Ran 3/3 test case' <<< "$said" || fail 'not all have failed'
