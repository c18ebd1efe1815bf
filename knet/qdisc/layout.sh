#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# layout.sh BTF: Rust assertions on the layout of the structures that knet looks into, from the BTF
# of the kernel that the module is for (its vmlinux, or /sys/kernel/btf/vmlinux). Called by Kbuild;
# needs pahole.
set -eu

btf=${1:-}
command -v pahole >/dev/null || { echo "layout.sh: pahole is needed (package pahole)" >&2; exit 1; }
[ -r "$btf" ] || {
	echo "layout.sh: no BTF: neither the build tree's vmlinux nor /sys/kernel/btf/vmlinux" >&2
	exit 1
}

# structure: the fields used. Bit fields cannot be asked for, members of anonymous unions only as
# CONSTANT=field, the constant being one of knet.h. A line that is indented continues the one above.
wanted='
Qdisc: enqueue dequeue flags ops handle parent dev_queue q bstats running qstats
    KNET_QDISC_PRIVATE=privdata
netdev_queue: KNET_QUEUE_QDISC=qdisc KNET_QUEUE_STATE=state
gnet_stats_basic_sync: bytes packets
Qdisc_ops: next cl_ops id priv_size static_flags enqueue dequeue peek init reset destroy change
    attach change_real_num_tx dump dump_stats owner
Qdisc_class_ops: select_queue graft leaf qlen_notify find change delete walk tcf_block bind_tcf
    unbind_tcf dump dump_stats
qdisc_watchdog: timer qdisc
mq_sched: qdiscs
qdisc_skb_cb: pkt_len pkt_segs data
qdisc_walker: stop skip count
gnet_stats_queue: qlen backlog drops requeues overlimits
tcf_result:
tcmsg: tcm_handle tcm_info
nlattr: nla_len nla_type
sk_buff: cb len data_len head data KNET_SKB_NEXT=next KNET_SKB_DEV=dev
    KNET_SKB_PRIORITY=priority KNET_SKB_IIF=skb_iif KNET_SKB_PROTOCOL=protocol
    KNET_SKB_NETWORK_HEADER=network_header
net_device: KNET_DEVICE_TYPE=type
'
wanted=$(echo "$wanted" | sed -e ':a' -e 'N' -e '$!ba' -e 's/\n  */ /g')
types=$(echo "$wanted" | sed -n 's/:.*//p' | paste -sd,)

echo "// Made by knet/qdisc/layout.sh; do not edit."
# pahole warns of BTF kinds that it does not know; none of them changes a layout.
pahole -F btf,dwarf -C "$types" "$btf" 2>/dev/null | awk -v wanted="$wanted" '
BEGIN {
	n = split(wanted, lines, "\n")
	for (i = 1; i <= n; i++) {
		k = split(lines[i], w, /[: ]+/)
		if (w[1] == "") continue
		missing[w[1]] = 1
		for (j = 2; j <= k; j++) if (w[j] != "") {
			constant = ""
			if (split(w[j], c, "=") == 2) { constant = c[1]; w[j] = c[2] }
			missing[w[1] "." w[j]] = 1
			constants[w[1] "." w[j]] = constant
		}
	}
}
/^struct [A-Za-z_0-9]+ \{/ { type = $2 }
type != "" && match($0, /\/\* +[0-9]+ +[0-9]+ \*\//) {
	split(substr($0, RSTART + 2), at, " ")
	decl = substr($0, 1, RSTART - 1)
	if (match(decl, /\(\*[a-z_0-9]+\)/)) name = substr(decl, RSTART + 2, RLENGTH - 3)
	else {
		sub(/(__attribute__.*)?;.*/, "", decl)
		sub(/\[[0-9]*\] *$/, "", decl)
		sub(/ +$/, "", decl)
		k = split(decl, w, /[ \t*]+/)
		name = w[k]
	}
	key = type "." name
	if (key in missing) {
		delete missing[key]
		if (constants[key] != "") what = "bindings::" constants[key]
		else what = "core::mem::offset_of!(bindings::" type ", " name ")"
		printf "const _: () = assert!(%s == %d);\n", what, at[1]
	}
}
# Only that of the whole: unnamed structures within have one, too, further to the right.
type != "" && match($0, /^\t\/\* size: [0-9]+,/) {
	size = substr($0, RSTART + 10, RLENGTH - 11)
	printf "const _: () = assert!(size_of::<bindings::%s>() == %d);\n", type, size
	delete missing[type]
}
/^}/ { type = "" }
END {
	for (key in missing) { print "layout.sh: not in the BTF: " key > "/dev/stderr"; bad = 1 }
	exit bad
}'
