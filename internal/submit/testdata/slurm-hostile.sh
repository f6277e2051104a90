#!/bin/bash
# Copy  $'/data/a b\n#\' $HOME {} $(reboot) `reboot` \\ "\x21\377'
# to    '/archive/project'
# to    $'/archive/\342\200\256évil\n'
# as planned in $'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377':
# 300,000,000 entries, 750 TB, 1,500 shards, of which 5 are left to run.
#
# Usage: bash FILE [OPTION OF SBATCH ...], for example: bash FILE --account=NAME --partition=NAME
# The options are added to both jobs, and replace options below. The paths of the program, the
# plan, the source and the destinations must be the same on all nodes. Messages are in
# slurm-*.out in the current directory.
# --bwlimit applies to each task: 8 tasks copy up to 800 MB/s together.
# --dirty-window applies to each task: 8 tasks leave up to 8.59 GB unwritten together.
set -euo pipefail

run=('/opt/a b/sealift' run --bwlimit=100MB --dirty-window=1GiB $'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377' --of=750)
merge=('/opt/a b/sealift' merge $'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377')
# A merge that finds failures prints this line, which submits what is left with the same options.
again="$(printf '%q ' '/opt/a b/sealift' plan --script slurm --tasks 8 --bwlimit=100MB --dirty-window=1GiB --into $'/scratch/it\'s\n{} $(reboot) `reboot` %s \\n {#} \377')| bash"
if (($# > 0)); then
	again+=" -s -- $(printf '%q ' "$@")"
fi

# submit OPTIONS submits the words of the array "command" as a job, and prints the number of the job.
# Slurm sends SIGTERM to sealift two minutes before the time limit, so that it stops cleanly.
submit() {
	printf '#!/bin/bash\nexec %s\n' "$(printf '%q ' "${command[@]}")" |
		sbatch --parsable --requeue --open-mode=append --signal=B:TERM@120 "$@"
}

command=("${run[@]}")
tasks=$(submit --job-name=sealift-01234567 --array=0-2,749%8 --time=836 "$@")
tasks=${tasks%%;*} # the name of a cluster may follow

command=("${merge[@]}" --resubmit "$again")
last=$(submit --job-name=sealift-01234567-merge --time=810 "$@" --dependency="afterany:$tasks")

echo "tasks: job $tasks; merge: job ${last%%;*}"
printf 'state: %s-n\n' "$(printf '%q ' "${merge[@]}")"
