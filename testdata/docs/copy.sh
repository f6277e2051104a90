# shellcheck shell=bash disable=SC2103,SC2164
# A directory to work in, on a file system that can store holes.
mkdir -p /tmp/copies && cd /tmp/copies
