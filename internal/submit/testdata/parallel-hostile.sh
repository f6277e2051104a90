#!/bin/bash
# Copy  $'/data/a b\n#\' $HOME {} $(reboot) `reboot` \\ "\x21\377'
# to    '/archive/project'
# to    $'/archive/\342\200\256évil\n'
# as planned in $'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377':
# 300,000,000 entries, 750 TB, 1,500 shards, of which 5 are left to run.
#
# Usage: bash FILE [OPTION OF PARALLEL ...], for example: bash FILE --sshloginfile nodes.txt
# The options are added to the command of GNU parallel, and replace options below. The paths of the
# program, the plan, the source and the destinations must be the same on all nodes.
# --bwlimit applies to each task: 8 tasks copy up to 800 MB/s together.
# --dirty-window applies to each task: 8 tasks leave up to 8.59 GB unwritten together.
set -uo pipefail

run=('/opt/a b/sealift' run --bwlimit=100MB --dirty-window=1GiB $'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377')
merge=('/opt/a b/sealift' merge $'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377')
# A merge that finds failures prints this line, which submits what is left with the same options.
again="$(printf '%q ' '/opt/a b/sealift' plan --script parallel --tasks 8 --bwlimit=100MB --dirty-window=1GiB --into $'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377')| bash"
if (($# > 0)); then
	again+=" -s -- $(printf '%q ' "$@")"
fi
shards=({0..2} 751 1499)

# Each line is a complete command, so that parallel replaces nothing in it.
export PARALLEL_SHELL=/bin/bash
for shard in "${shards[@]}"; do
	printf '%q ' "${run[@]}" "--shard=$shard"
	echo
done | parallel --jobs=8 --joblog=$'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377.joblog' "$@"
exec "${merge[@]}" --resubmit "$again"
