# shellcheck shell=bash disable=SC2103,SC2164
# What people copy: a build, a project, a shoot, a backup, images.
need go jq
mkdir -p dist project/node_modules shoot/rejected backup /mnt/archive/old
noise dist/program 100000
noise project/main.c 3000
noise project/node_modules/left-pad.js 300
noise project/draft.tmp 300
noise shoot/one.mov 50000
noise shoot/notes.txt 100
noise shoot/rejected/two.mov 50000
noise backup.tar 200000
noise one.iso 10000
noise two.iso 10000
stand_in pg_dump <<'END'
echo "-- a dump of $1"
END
# The reference implementation of ASC MHL, where it is not installed.
command -v ascmhl-debug >/dev/null || stand_in ascmhl-debug <<'END'
test "$1" = verify && test -f "$2/ascmhl/ascmhl_chain.xml"
END
