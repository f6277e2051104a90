#!/bin/bash
# Copy  '/data/project'
# to    '/archive/project'
# as planned in '/scratch/plan':
# 6,400,000 entries, 16.0 TB, 32 shards, of which 32 are left to run.
#
# Usage: bash FILE [OPTION OF PARALLEL ...], for example: bash FILE --sshloginfile nodes.txt
# The options are added to the command of GNU parallel, and replace options below. The paths of the
# program, the plan, the source and the destinations must be the same on all nodes.
set -uo pipefail

run=(/opt/sealift run /scratch/plan)
merge=(/opt/sealift merge /scratch/plan)
# A merge that finds failures prints this line, which submits what is left with the same options.
again="$(printf '%q ' /opt/sealift plan --script parallel --tasks 8 --into /scratch/plan)| bash"
if (($# > 0)); then
	again+=" -s -- $(printf '%q ' "$@")"
fi
shards=({0..31})

# Each line is a complete command, so that parallel replaces nothing in it.
export PARALLEL_SHELL=/bin/bash
for shard in "${shards[@]}"; do
	printf '%q ' "${run[@]}" "--shard=$shard"
	echo
done | parallel --jobs=8 --joblog=/scratch/plan.joblog "$@"
exec "${merge[@]}" --resubmit "$again"
