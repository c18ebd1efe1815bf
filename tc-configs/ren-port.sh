#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A switch's port for REN: it tells REN flows how much of the link is used.
#
# usage: ren-port.sh DEVICE [RATE] [PERIOD]
#   RATE    limits the whole port (10gbit, 2.5gbit, …); auto: the speed that the device reports
#           (ethtool); virtual devices report none, or one that means nothing: give them a rate.
#   PERIOD  sampling period: the longest round trip of the idle network; 48us unless given, which is
#           that of REN's testbed of 10 Gbit/s (section 5.2). The same on all ports.
#
# Hosts need the transport's policy: ren-host.sh
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: ${0##*/} DEVICE [RATE] [PERIOD]" >&2; exit 2; }
dev=$1
rate=${2:-auto}
period=${3:-48us}

# REN does not ration grants: there is one for each data packet, and one that is lost is a packet
# that is not sent. So they get one queue, with room for many, four times the share that full frames
# need, and they do not expire. jitter 0: grants that were late are not made up for by a burst, as
# in the paper's network.
tc qdisc replace dev "$dev" root handle 1: turnstile \
	link "$rate" tokens 20% priorities 1 token-limit 1024 token-expiry off jitter 0 \
	order tokens-first unscheduled off ren period "$period"
