#!/bin/bash
# Copy  '/data/project'
# to    '/archive/project'
# as planned in '/scratch/plan':
# 6,400,000 entries, 16.0 TB, 32 shards, of which 0 are left to run.
#
# Usage: bash FILE [OPTION OF PARALLEL ...], for example: bash FILE --sshloginfile nodes.txt
# The options are added to the command of GNU parallel, and replace options below. The paths of the
# program, the plan, the source and the destinations must be the same on all nodes.
set -uo pipefail

merge=(/opt/sealift merge /scratch/plan)
# A merge that finds failures prints this line, which submits what is left with the same options.
again="$(printf '%q ' /opt/sealift plan --script parallel --tasks 8 --into /scratch/plan)| bash"
if (($# > 0)); then
	again+=" -s -- $(printf '%q ' "$@")"
fi
exec "${merge[@]}" --resubmit "$again"
