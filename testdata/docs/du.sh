# shellcheck shell=bash disable=SC2103,SC2164
# Directories of people and of a server; the large files are holes.
mkdir -p /srv/git /srv/www /tmp/place && cd /tmp/place
noise /srv/git/pack 36000
noise /srv/www/index.html 1480000
mkdir -p /home/ann/mail /home/bob projects/node_modules
noise /home/ann/mail/box 50000000
noise /home/bob/notes 2000
noise projects/main.o 100
mkdir -p home/ann/films home/bob home/carol/deep/down
cd home
touch empty
printf x >small
truncate -s 12G "ann/films/a very long name, a very long name, a very long name, the end.mkv"
truncate -s 7G "ann/films/café noir.mkv"
truncate -s 500M ann/$'with\nline feed'
truncate -s 8G "bob/映画の長い名前は二つの欄に収まるように中ほどを失わなければなりません.mkv"
truncate -s 1G bob/$'\e]0;owned\a\n.iso'
truncate -s 6G carol/deep/down/disk.img
cd ..
