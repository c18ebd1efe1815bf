#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A HULL host: DCTCP, and a pacer for the flows that meet congestion.
#
# usage: hull-host.sh DEVICE [testbed|simulation] [PORT-RATE]
#   testbed     for round trips of some 100 us (the default): T_r 64 us, beta 16, T_i 10 ms
#   simulation  for 10 Gbit/s and round trips of some 10 us, HULL section 6.3: T_r 7.2 us, beta 375,
#               T_i 1 ms
#   PORT-RATE   a Turnstile port of this rate (10gbit, …; auto: the device's own speed) besides,
#               with the pacer on its data
#
# It makes DCTCP the congestion control of new connections, and has them ask for ECN. Where that is
# too much, leave the two lines out, and say so for each route instead: ip route change ... congctl
# dctcp
#
# The switches have to mark: fq_codel, RED, or a phantom queue. The other end needs DCTCP, too.
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || {
	echo "usage: ${0##*/} DEVICE [testbed|simulation] [PORT-RATE]" >&2
	exit 2
}
dev=$1

case ${2:-testbed} in
testbed)	numbers="interval 64us beta 16 idle 10ms" ;;
simulation)	numbers="interval 7200ns beta 375 idle 1ms" ;;
*)
	echo "${0##*/}: $2: neither testbed nor simulation" >&2
	exit 2
	;;
esac

modprobe -q tcp_dctcp || true
# RFC 3168's ECN, asked for: what DCTCP needs, and what the pacer reads. Not 3 or more, which is
# accurate ECN.
echo 1 > /proc/sys/net/ipv4/tcp_ecn
# Other network namespaces than the machine's first may not make DCTCP the default: there, each
# socket (TCP_CONGESTION) or route asks for it.
echo dctcp 2>/dev/null > /proc/sys/net/ipv4/tcp_congestion_control ||
	echo "${0##*/}: DCTCP is not the default here: let sockets or routes ask for it" >&2

# Whatever is there goes first: one kind is not made in the place of another with the same handle.
tc qdisc del dev "$dev" root 2>/dev/null || true
# shellcheck disable=SC2086 # words
if [ $# -lt 3 ]; then
	tc qdisc replace dev "$dev" root handle 1: turnstile_pacer $numbers eta 12.5% associate 12.5%
else
	tc qdisc replace dev "$dev" root handle 1: turnstile link "$3"
	tc qdisc replace dev "$dev" parent 1:2 handle 2: turnstile_pacer $numbers eta 12.5% associate 12.5%
fi
