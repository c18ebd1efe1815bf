#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A host's network card.
#
# usage: host-nic.sh DEVICE [RATE] [root|mq]
#   RATE  the link's rate (10gbit, …); auto: the device's own speed
#   root  one port for the whole device, with one lock (the default)
#   mq    a port for each transmit queue, so that processors do not wait for each other: link,
#         tokens' rate and signals' share are one for all of them, and order holds between queues,
#         too
#
# The transport paces its tokens itself, and knows what they ask for. So the port of a host sends
# them first and holds none back: it has twice the share that they take, room for a burst, and no
# expiry, all of which is for the ports of switches.
#
# A host has no band for unscheduled packets: the transport hands over a message's first ones at
# once, and a band of one packet would drop the rest here. They are data, as other traffic is; to
# share the data band among flows, give it a child:
#   tc qdisc add dev DEVICE parent 1:2 fq_codel
# With mq, give one to each of the queues' ports, whose handles `tc qdisc show dev DEVICE` has:
#   tc qdisc add dev DEVICE parent 9001:2 fq_codel
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: ${0##*/} DEVICE [RATE] [root|mq]" >&2; exit 2; }
dev=$1
rate=${2:-auto}
ports=${3:-root}
options="tokens 10% token-limit 64 token-expiry off unscheduled off jitter 50us"

case $ports in
root)
	kind=turnstile
	;;
mq)
	kind=turnstile_mq
	;;
*)
	echo "${0##*/}: $ports: neither root nor mq" >&2
	exit 2
	;;
esac
# shellcheck disable=SC2086 # the options are words
tc qdisc replace dev "$dev" root handle 1: $kind link "$rate" $options
