#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A switch port as in TOP fig. 3b: signals, token priorities, data; on demand a band for unscheduled
# packets below.
#
# usage: top-switch-port-b.sh DEVICE [RATE] [unscheduled]
#   RATE         limits the whole port (10gbit, 2.5gbit, …); auto: the speed that the device reports
#                (ethtool); virtual devices report none, or one that means nothing: give them a
#                rate.
#   unscheduled  TOP section 4.4's optional lowest queue, which holds one full-length packet. As
#                there, it costs one token priority. Without, these packets are data: faster beside
#                long messages, but many senders' at once can fill the data queue.
#
# Tokens stand above the data, held to their share by the group's shaper: a token waits for no data
# but the packet on the wire. Choose this unless data latency on a switch counts above everything.
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: ${0##*/} DEVICE [RATE] [unscheduled]" >&2; exit 2; }
dev=$1
rate=${2:-auto}
case ${3:-} in
'') priorities=6 unscheduled=off ;;
unscheduled) priorities=5 unscheduled=1 ;;
*) echo "${0##*/}: $3: the third word can only be \"unscheduled\"" >&2; exit 2 ;;
esac

# tokens 5%       TOP section 3.1, R1: 5 % of the link for tokens, 95 % for data. One shaper for all
#                 priorities.
# token-limit 8   section 4.3: 8 tokens per queue, as ExpressPass
# token-expiry    section 3.1, R2: auto is 8 packet transmission times
# jitter 0        these figures as they are, for bounds as in the paper. They are a hardware
#                 switch's: on a machine that takes packets in batches, say 50us, or tokens that
#                 come in bursts are dropped (docs/timing.md)
tc qdisc replace dev "$dev" root handle 1: turnstile \
	link "$rate" tokens 5% priorities "$priorities" token-limit 8 token-expiry auto jitter 0 \
	order tokens-first unscheduled "$unscheduled"
