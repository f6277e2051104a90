# shellcheck shell=bash disable=SC2103,SC2164
# The tools that people come from.
need rsync rclone hashdeep rhash dcfldd
export RCLONE_CONFIG=/dev/null
mkdir -p /tmp/before /mnt/usb/project/node_modules && cd /tmp/before
mkdir -p project/src/build project/node_modules old
noise project/src/main.c 3000
noise project/src/build/main.o 2000
noise project/src/notes.tmp 100
noise project/node_modules/left-pad.js 300
noise project/clip.mov 40000
noise old/a.mov 20000
# What other programs have left beside what they copied.
(cd old && sha256sum a.mov >shasum.2026-01-31.10.20.30.txt)
mkdir old/windows && noise old/windows/b.mov 1000
