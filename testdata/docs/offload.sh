# shellcheck shell=bash disable=SC2103,SC2164
# A second card, whose clips have the names of the first.
mkdir -p /media/card2/DCIM/100
noise /media/card2/DCIM/100/clip-0001.mov 100000 5
