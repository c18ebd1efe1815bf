#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A port for ExpressPass, on a switch or a host: credits in one queue, shaped; everything else
# beside them.
#
# usage: expresspass-port.sh DEVICE [RATE] [CREDITS]
#   RATE     limits the whole port (10gbit, 2.5gbit, …); auto: the speed that the device reports
#            (ethtool); virtual devices report none, or one that means nothing: give them a rate.
#   CREDITS  cap of the credit queue, packets; 8 unless given. ExpressPass section 2.2 finds
#            utilization highest between 8 and 16 and goes on with 16, which its section 3 uses
#            throughout.
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: ${0##*/} DEVICE [RATE] [CREDITS]" >&2; exit 2; }
dev=$1
rate=${2:-auto}
credits=${3:-8}

# No tokens option: the default, 84/(84+1538) of the link, is ExpressPass's own figure (section
# 2.1). One priority, and credits do not expire: ExpressPass has neither; a credit too many is
# dropped at the cap. jitter 0 keeps the cap as it is, for bounds as in the paper; on a machine that
# takes packets in batches, say 50us (docs/timing.md).
tc qdisc replace dev "$dev" root handle 1: turnstile \
	link "$rate" priorities 1 token-limit "$credits" token-expiry off jitter 0 \
	order tokens-first unscheduled off
