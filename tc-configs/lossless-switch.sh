#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A Linux bridge as a switch that loses no data: it pauses who sends more than it can pass on.
#
# usage: lossless-switch.sh BRIDGE RATE DELAY PRIORITY PORT…
#   BRIDGE    its name; made if there is none, otherwise kept as it is
#   RATE      limits each port (10gbit, …); auto: each device's own speed
#   DELAY     how long a bit takes to the other end of each link (500ns: 100 m of cable)
#   PRIORITY  of data in pause frames, 0 to 7, or several (3,4); pause: they pause the whole link
#   PORT      the devices; each is added to the bridge unless it is in it already
#
# The other ends must obey pauses of this priority: ports of Turnstile with "pfc data PRIORITY", or
# cards and switches that do. Pauses spread from switch to switch: one receiver that is slow can
# hold up others behind it. Running it again changes nothing.
set -eu

[ $# -ge 5 ] || { echo "usage: ${0##*/} BRIDGE RATE DELAY PRIORITY PORT…" >&2; exit 2; }
bridge=$1
rate=$2
delay=$3
priority=$4
shift 4

if ! ip link show dev "$bridge" >/dev/null 2>&1; then
	ip link add "$bridge" type bridge
fi
ip link set "$bridge" up
for port in "$@"; do
	ip link set "$port" master "$bridge" up
	# Pauses of the next switch are obeyed, and sent to the one before. What may wait here, and the
	# room for what comes when a pause was sent, are worked out from rate, delay, MTU and
	# generic receive offload (ethtool -K PORT gro off needs less):
	# tc -s class show dev PORT shows what they are. unscheduled off: that band drops.
	tc qdisc replace dev "$port" root handle 1: turnstile \
		link "$rate" unscheduled off \
		pfc data "$priority" xoff auto xon auto headroom auto delay "$delay"
done
