#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A switch port as in TOP fig. 3a: signals, data, six token priorities.
#
# usage: top-switch-port-a.sh DEVICE [RATE]
#   RATE   limits the whole port (10gbit, 2.5gbit, …). Without it the port runs at the speed that
#          the device reports (ethtool); virtual devices report none, or one that means nothing:
#          give them a rate.
#
# Data stands above the tokens: a data packet never waits for a token. Choose this where data
# latency counts most and the data's rate is held below the link by tokens anyway.
set -eu

[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: ${0##*/} DEVICE [RATE]" >&2; exit 2; }
dev=$1
rate=${2:-auto}

# tokens 5%       TOP section 3.1, R1: 5 % of the link for tokens, 95 % for data. One shaper for all
#                 priorities.
# priorities 6    fig. 3: Q0 to Q5
# token-limit 8   section 4.3: 8 tokens per queue, as ExpressPass
# token-expiry    section 3.1, R2: auto is 8 packet transmission times
# jitter 0        these figures as they are, for bounds as in the paper. They are a hardware
#                 switch's: on a machine that takes packets in batches, say 50us, or tokens that
#                 come in bursts are dropped (docs/timing.md)
# unscheduled off fig. 3a has no such queue: packets sent without a token are data
tc qdisc replace dev "$dev" root handle 1: turnstile \
	link "$rate" tokens 5% priorities 6 token-limit 8 token-expiry auto jitter 0 \
	order data-first unscheduled off
