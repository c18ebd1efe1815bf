#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A host's network card.
#
# usage: host-nic.sh DEVICE [RATE] [root|mq]
#   RATE  the link's rate (10gbit, …); auto: the device's own speed
#   root  one port for the whole device (the default): token group and order hold exactly
#   mq    one port per transmit queue: no lock between CPUs, for cards with many queues; order
#         holds within a queue.
#
# The transport paces its tokens itself, and knows what they ask for. So the port of a host sends
# them first and holds none back: it has twice the share that they take, room for a burst, and no
# expiry, all of which is for the ports of switches.
#
# A host has no band for unscheduled packets: the transport hands over a message's first ones at
# once, and a band of one packet would drop the rest here. They are data, as other traffic is; to
# share the data band among flows, give it a child:
#   tc qdisc add dev DEVICE parent 1:2 fq_codel
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: ${0##*/} DEVICE [RATE] [root|mq]" >&2; exit 2; }
dev=$1
rate=${2:-auto}

options="tokens 10% token-limit 64 token-expiry off unscheduled off jitter 50us"

case ${3:-root} in
root)
	# shellcheck disable=SC2086 # the options are words
	tc qdisc replace dev "$dev" root handle 1: turnstile link "$rate" $options
	;;
mq)
	# Whatever is there goes first: mq is not made in place of itself.
	tc qdisc del dev "$dev" root 2>/dev/null || true
	tc qdisc add dev "$dev" root handle 1: mq
	queues=$(tc class show dev "$dev" | awk '$2 == "mq" { print $3 }')
	for queue in $queues; do
		# shellcheck disable=SC2086
		tc qdisc replace dev "$dev" parent "$queue" turnstile link "$rate" $options
	done
	;;
*)
	echo "${0##*/}: $3: neither root nor mq" >&2
	exit 2
	;;
esac
