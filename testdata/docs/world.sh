#!/usr/bin/env bash
# Makes the world in which the commands of the documentation are run, and runs COMMAND
# in it:
#
#   SEALIFT=/path/to/sealift WORLD=/an/empty/directory \
#       scripts/apart testdata/docs/world.sh PAGE COMMAND...
#
# It needs root, and a mount namespace of its own, with which everything goes. /dev,
# /home, /media, /mnt, /srv and /tmp are in memory there, with what is made below. The
# sources are a copy under their own name, so that a page may write beside them.
#
# A page of which the commands need more has a script here, with its name: manifest.sh
# is for docs/manifest.md, README.sh for the one of the root. It is sourced last, and
# may call
#
#   noise FILE BYTES [SEED]   bytes that do not compress, the same each time
#   need PROGRAM...           without one of them, COMMAND is not run (exit code 77)
#   stand_in NAME             a program, its text from standard input
#
# The commands of the page start in the directory in which that script ends.
set -euo pipefail
export LC_ALL=C.UTF-8 TZ=UTC

page=$1
shift
repository=$(cd "$(dirname "$0")/../.." && pwd)
covered=(/dev /home /media /mnt /srv /tmp)

noise() { openssl enc -aes-128-ctr -nosalt -K "$(printf %032x "${3:-1}")" -iv 0 -in /dev/zero 2>/dev/null | head -c "$2" >"$1" || true; }
need() {
	local program
	for program; do
		command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 77; }
	done
}
stand_in() { { echo '#!/bin/sh'; cat; } >"/mnt/.bin/$1" && chmod +x "/mnt/.bin/$1"; }

mount -t tmpfs -o size=4g,mode=755 world "$WORLD"
for dir in "${covered[@]}"; do mkdir -p "$WORLD$dir"; done
chmod 1777 "$WORLD/tmp"

mkdir "$WORLD/sources" "$WORLD/mnt/.bin" "$WORLD"/dev/{shm,pts}
tar -C "$repository" --exclude ./.git --exclude ./sealift --exclude ./build --exclude ./dist -cf - . | tar -C "$WORLD/sources" -xf -
cp "$SEALIFT" "$WORLD/mnt/.bin/sealift"
for node in null zero full random urandom tty; do
	[[ -e /dev/$node ]] || continue
	touch "$WORLD/dev/$node"
	mount --bind "/dev/$node" "$WORLD/dev/$node"
done
[[ ! -d /dev/pts ]] || mount --bind /dev/pts "$WORLD/dev/pts"
ln -s pts/ptmx "$WORLD/dev/ptmx"
ln -s /proc/self/fd "$WORLD/dev/fd"
for i in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${i%:*}" "$WORLD/dev/${i#*:}"; done

# What is in a place that is going to be covered, and needed all the same.
keep() { # WHERE WHAT
	local dir
	for dir in "${covered[@]}"; do
		if [[ $1/ == "$dir"/* ]]; then
			mkdir -p "$WORLD$1"
			mount --bind "$2" "$WORLD$1"
			return
		fi
	done
	[[ $1 == "$2" ]] || mount --bind "$2" "$1"
}
keep "$repository" "$WORLD/sources"
[[ ! -d ${SEALIFT_JUDGES:-} ]] || keep "${SEALIFT_JUDGES%/bin}" "${SEALIFT_JUDGES%/bin}"
if command -v go >/dev/null; then
	GOCACHE=$(go env GOCACHE) GOMODCACHE=$(go env GOMODCACHE) GOROOT=$(go env GOROOT)
	export GOCACHE GOMODCACHE
	for dir in "$GOROOT" "$GOCACHE" "$GOMODCACHE"; do
		[[ ! -d $dir ]] || keep "$dir" "$dir"
	done
fi
last=
for dir in "${covered[@]}"; do # what hides the world itself comes last
	if [[ $WORLD/ == "$dir"/* ]]; then last=$dir; else mount --rbind "$WORLD$dir" "$dir"; fi
done
[[ -z $last ]] || mount --rbind "$WORLD$last" "$last"
export PATH=/mnt/.bin:$PATH HOME=/home/you
unset TMPDIR # which is covered, or not there
mkdir "$HOME"
cd "$repository"

# A card with clips, disks, an archive and a server to copy to.
mkdir -p /media/card/DCIM/100 /media/card/audio /media/disk1 /media/disk2
for disk in 1 2; do # scripts/record has some that are devices
	[[ ! -d ${DISKS:-/nowhere}/$disk ]] || mount --bind "$DISKS/$disk" "/media/disk$disk"
done
noise /media/card/DCIM/100/clip-0001.mov "${CLIP:-3000000}" 1
noise /media/card/DCIM/100/clip-0002.mov "${CLIP:-2000000}" 2
noise /media/card/audio/take-0001.wav 400000 3
touch -d 2026-11-20T09:30:00 /media/card/*/* /media/card/DCIM/100/* /media/card
mkdir -p /mnt/archive /mnt/nas/backups /mnt/usb /mnt/artefacts
noise /dev/mmcblk0 4194304 4

if [[ -e testdata/docs/$page.sh ]]; then
	# shellcheck source=/dev/null
	. "testdata/docs/$page.sh"
fi
exec "$@"
