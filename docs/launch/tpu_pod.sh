#!/bin/bash
# Runs on every host of a TPU slice, at the same time. libtpu tells each process the others.
#   for host in $(cat hosts.txt); do
#     ssh "$host" 'cd mmt && CONFIG=/shared/my_run.gin docs/launch/tpu_pod.sh' 2>&1 | sed "s/^/$host: /" &
#   done; wait
# Try it on this machine, with two CPU processes:
#   CONFIG=my_run.gin RUN=runs/try mmt launch --file docs/launch/tpu_pod.sh --processes 2
CONFIG=${CONFIG:-/shared/my_run.gin}
RUN=${RUN:-/shared/runs/mine} # a mounted bucket or file system that all hosts share

exec mmt train --gin_file="$CONFIG" --gin.MODEL_DIR="$RUN" "$@"
