# shellcheck shell=bash disable=SC2103,SC2164
# What clusters have: file systems that all nodes mount, and a scheduler.
mkdir -p /mnt/lustre/project/raw /mnt/lustre/project/code /mnt/home /mnt/archive
noise /mnt/lustre/project/raw/one.h5 300000
noise /mnt/lustre/project/raw/two.h5 300000
noise /mnt/lustre/project/code/main.c 3000
# Slurm, as far as a submission sees it.
stand_in sbatch <<'END'
cat >/dev/null
echo 4711
END
cd /mnt/home
