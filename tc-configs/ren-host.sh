#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A host that runs REN: the transport's policy, and a port for its card.
#
# usage: ren-host.sh DEVICE [RATE] [RTT]
#   RATE  the link's rate (10gbit, …); auto: the device's own speed
#   RTT   the round trip of the idle network: what the link carries in it is sent at first, and is
#         the most that a message has under way; 48us unless given, as the period of ren-port.sh
#
# The policy is the network namespace's, for all its devices. The host's port gives grants room, and
# marks nothing: what a host sends at line rate at first is no queue of the network's. The switches'
# ports mark: ren-port.sh.
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: ${0##*/} DEVICE [RATE] [RTT]" >&2; exit 2; }
dev=$1
rate=${2:-auto}
rtt=${3:-48us}

modprobe -q turnstile || true
turnstile transport set policy ren link "$rate" base-rtt "$rtt"
# As in ren-port.sh: one grant for each packet of data, none of which is to be lost.
tc qdisc replace dev "$dev" root handle 1: turnstile \
	link "$rate" tokens 20% priorities 1 token-limit 1024 token-expiry off \
	order tokens-first unscheduled off ren off
