#!/bin/bash
# Copy  '/data/project'
# to    '/archive/project'
# as planned in '/scratch/plan':
# 6,400,000 entries, 16.0 TB, 32 shards, of which 32 are left to run.
#
# Usage: bash FILE [OPTION OF SBATCH ...], for example: bash FILE --account=NAME --partition=NAME
# The options are added to both jobs, and replace options below. The paths of the program, the
# plan, the source and the destinations must be the same on all nodes. Messages are in
# slurm-*.out in the current directory.
set -euo pipefail

run=(/opt/sealift run /scratch/plan)
merge=(/opt/sealift merge /scratch/plan)
# A merge that finds failures prints this line, which submits what is left with the same options.
again="$(printf '%q ' /opt/sealift plan --script slurm --tasks 8 --into /scratch/plan)| bash"
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
tasks=$(submit --job-name=sealift-01234567 --array=0-31%8 --time=90 "$@")
tasks=${tasks%%;*} # the name of a cluster may follow

command=("${merge[@]}" --resubmit "$again")
last=$(submit --job-name=sealift-01234567-merge --time=18 "$@" --dependency="afterany:$tasks")

echo "tasks: job $tasks; merge: job ${last%%;*}"
printf 'state: %s-n\n' "$(printf '%q ' "${merge[@]}")"
