# shellcheck shell=bash disable=SC2103,SC2164
# A directory to work in, and a disk that is too small.
mkdir -p /tmp/images/small
cd /tmp/images
mount -t tmpfs -o size=4m small small
