#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A Linux bridge as a switch: makes it if need be, adds the ports, and configures each of them.
#
# usage: bridge-switch.sh BRIDGE RATE PORT…
#   BRIDGE  its name; made if there is none, otherwise kept as it is
#   RATE    limits each port (10gbit, …); auto: each device's own speed
#   PORT    the devices; each is added to the bridge unless it is in it already
#
# A packet is queued where it leaves the switch, so that each port is configured, and the bridge
# itself, which only hands packets on, is not. Running it again changes nothing.
set -eu

[ $# -ge 3 ] || { echo "usage: ${0##*/} BRIDGE RATE PORT…" >&2; exit 2; }
bridge=$1
rate=$2
shift 2

if ! ip link show dev "$bridge" >/dev/null 2>&1; then
	ip link add "$bridge" type bridge
fi
ip link set "$bridge" up
for port in "$@"; do
	ip link set "$port" master "$bridge" up
	# TOP's port in mode b; see top-switch-port-b.sh for what each word means. jitter 50us (the
	# default): this is for a Linux box, which takes packets in batches and may be late. priorities 8
	# (the default): as many as receivers use.
	tc qdisc replace dev "$port" root handle 1: turnstile \
		link "$rate" tokens 5% priorities 8 token-limit 8 token-expiry auto \
		order tokens-first unscheduled off jitter 50us
done
