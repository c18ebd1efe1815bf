#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A switch port for HULL: a phantom queue marks data before a real queue forms.
#
# usage: hull-port.sh DEVICE [RATE] [DRAIN] [MARK]
#   RATE   limits the whole port (10gbit, 2.5gbit, …); auto: the speed that the device reports
#          (ethtool); virtual devices report none, or one that means nothing: give them a rate.
#   DRAIN  at what the phantom queue drains, of the link; 95% unless given. The rest is headroom.
#   MARK   above how many bytes it marks; 1kb unless given
#
# HULL section 6 uses 95 % and 1 KB at 1 Gbit/s. The higher DRAIN, the lower MARK (section 6.1).
# Senders need DCTCP:
#   sysctl net.ipv4.tcp_congestion_control=dctcp
# and, unless they pace by themselves, HULL's pacer: bursts that leave a network card at once look
# like congestion.
set -eu

[ $# -ge 1 ] && [ $# -le 4 ] || { echo "usage: ${0##*/} DEVICE [RATE] [DRAIN] [MARK]" >&2; exit 2; }
dev=$1
rate=${2:-auto}
drain=${3:-95%}
mark=${4:-1kb}

# The phantom queue sees data alone: tokens, if there are any, use what it leaves free.
tc qdisc replace dev "$dev" root handle 1: turnstile \
	link "$rate" unscheduled off jitter 50us phantom drain "$drain" mark "$mark"
