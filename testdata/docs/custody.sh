# shellcheck shell=bash disable=SC2103,SC2164
# Two shoots on a server, and a key to sign with.
need ssh-keygen
mkdir -p /srv/shoots/2026-11-20 /srv/shoots/2026-12-01 /srv/custody "$HOME/.ssh"
cp -a /media/card/DCIM/100/clip-000?.mov /media/card/audio/take-0001.wav /srv/shoots/2026-11-20
noise /srv/shoots/2026-12-01/clip-0001.mov 500000 6
ssh-keygen -q -t ed25519 -N '' -C you -f "$HOME/.ssh/id_ed25519"
cd /srv/custody
