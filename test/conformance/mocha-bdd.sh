#!/bin/bash
# What node-rdkafka's suite runs its heavy steps under. Its tests are of mocha's usual kind, and not of the one (`--ui exports`) that the
# suite's script names; a report as they run outlives the crash in which they end on Kafka too; the makefile does not stand two jobs at once.
args=()
for each in "$@"; do
  [ "$each" = exports ] && each=bdd
  [ "$each" = json ] && each=spec
  args+=("$each")
done
JOBS=1 exec "${args[@]}"
