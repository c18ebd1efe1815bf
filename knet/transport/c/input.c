// SPDX-License-Identifier: GPL-2.0
/* Packets that come in by the UDP sockets. */
#include <linux/bpf-cgroup.h>
#include <linux/filter.h>
#include <linux/udp.h>
#include <linux/unaligned.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/udp.h>
#include "internal.h"

static bool knt_source(const struct sk_buff *skb, struct knt_arrival *arrival)
{
	struct in6_addr *from = (struct in6_addr *)arrival->from.ip;
	struct in6_addr *local = (struct in6_addr *)arrival->from.local;

	if (skb->protocol == htons(ETH_P_IP)) {
		const struct iphdr *ip = ip_hdr(skb);

		if (ipv4_is_multicast(ip->daddr) || ipv4_is_lbcast(ip->daddr) || ipv4_is_zeronet(ip->saddr))
			return false;
		ipv6_addr_set_v4mapped(ip->saddr, from);
		ipv6_addr_set_v4mapped(ip->daddr, local);
		arrival->from.scope = 0;
		arrival->device = inet_iif(skb);
		arrival->slave = inet_sdif(skb);
		arrival->link = inet_sdif(skb) ?: skb->skb_iif;
		arrival->ecn = ip->tos & INET_ECN_MASK;
		return true;
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (skb->protocol == htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ip = ipv6_hdr(skb);

		if (ipv6_addr_is_multicast(&ip->daddr) || ipv6_addr_v4mapped(&ip->saddr))
			return false;
		*from = ip->saddr;
		*local = ip->daddr;
		arrival->device = inet6_iif(skb);
		arrival->slave = inet6_sdif(skb);
		arrival->link = inet6_sdif(skb) ?: skb->skb_iif;
		arrival->from.scope = ipv6_iface_scope_id(from, arrival->device);
		arrival->ecn = ipv6_get_dsfield(ip) & INET_ECN_MASK;
		return true;
	}
#endif
	return false;
}

/* No packet of the transport: counted there, and named to who watches drops. */
static void knt_refuse(struct knt_net *tn, struct sk_buff *skb, enum knt_refused why,
		       enum skb_drop_reason reason)
{
	knt_ops->refused(tn, why);
	kfree_skb_reason(skb, reason);
}

/*
 * Of what is in pages a copy is looked at: the payload is kept as it is. Not inlined: the copy has
 * room on the stack, which is zeroed, and most packets need none.
 */
static noinline void knt_receive_copied(struct knt_net *tn, struct sk_buff *skb,
					struct knt_arrival *arrival)
{
	u8 copy[KNT_MAX_HEADER];

	if (skb_copy_bits(skb, sizeof(struct udphdr), copy, arrival->head_len))
		return knt_refuse(tn, skb, KNT_REFUSED_UNREADABLE, SKB_DROP_REASON_HDR_TRUNC);
	arrival->head = copy;
	knt_ops->packet(tn, arrival, skb);
}

/*
 * The first bytes of a packet behind UDP's header, which may be those of the payload's header
 * alone. false: they are in pages.
 */
static bool knt_head(const struct sk_buff *skb, struct knt_arrival *arrival)
{
	u32 linear = skb_headlen(skb) - sizeof(struct udphdr);

	arrival->len = skb->len - sizeof(struct udphdr);
	arrival->head = skb->data + sizeof(struct udphdr);
	arrival->head_len = min(arrival->len, knt_ops->numbers.header);
	if (linear >= arrival->head_len)
		return true;
	if (linear < knt_ops->numbers.payload_header ||
	    (get_unaligned_be32(arrival->head) & knt_ops->numbers.payload_mask) !=
	    knt_ops->numbers.payload_first)
		return false;
	arrival->head_len = linear;
	return true;
}

/* Whether packets may come from this UDP port. */
static bool knt_port_ok(u16 port)
{
	return port == knt_ops->numbers.udp_port || port >= knt_ops->numbers.source_port;
}

/* A packet whose checksum is right, and that begins with UDP's header. */
static void knt_receive_one(struct sock *udp, struct sk_buff *skb)
{
	struct knt_net *tn = rcu_dereference_sk_user_data(udp);
	struct knt_arrival arrival;

	/* The port is being opened or closed: nobody counts yet, or any more. */
	if (!tn || !knt_net_state(tn)) {
		kfree_skb_reason(skb, SKB_DROP_REASON_SOCKET_CLOSE);
		return;
	}
	if (skb->pkt_type != PACKET_HOST || !knt_source(skb, &arrival))
		return knt_refuse(tn, skb, KNT_REFUSED_ADDRESS, SKB_DROP_REASON_IP_INVALID_DEST);
	arrival.port = ntohs(udp_hdr(skb)->source);
	if (!knt_port_ok(arrival.port))
		return knt_refuse(tn, skb, KNT_REFUSED_PORT, SKB_DROP_REASON_SOCKET_FILTER);
	knt_came_by(tn, skb);
	if (!knt_head(skb, &arrival))
		return knt_receive_copied(tn, skb, &arrival);
	knt_ops->packet(tn, &arrival, skb);
}

/*
 * Several packets that came as one, linked by their next: all that is known of the first but its
 * length is true of the others. false: they are to be looked at one by one.
 */
static bool knt_receive_train(struct sock *udp, struct sk_buff *skb)
{
	struct knt_net *tn = rcu_dereference_sk_user_data(udp);
	struct knt_arrival arrival;
	const struct sk_buff *part;

	if (!tn || !knt_net_state(tn) || skb->pkt_type != PACKET_HOST || !knt_source(skb, &arrival))
		return false;
	arrival.port = ntohs(udp_hdr(skb)->source);
	if (!knt_port_ok(arrival.port))
		return false;
	for (part = skb; part; part = part->next)
		if (!knt_head(part, &arrival))
			return false;
	knt_came_by(tn, skb);
	knt_ops->train(tn, &arrival, skb);
	return true;
}

/* A train that was not taken apart. What is to be; NULL: nothing. */
static struct sk_buff *knt_receive_whole(struct sock *udp, struct sk_buff *skb)
{
	struct knt_net *tn = rcu_dereference_sk_user_data(udp);
	struct knt_arrival arrival;

	if (!tn || !knt_net_state(tn) || skb->pkt_type != PACKET_HOST || !knt_source(skb, &arrival))
		return skb;
	arrival.port = ntohs(udp_hdr(skb)->source);
	if (!knt_port_ok(arrival.port))
		return skb;
	knt_came_by(tn, skb);
	return knt_ops->whole(tn, &arrival, skb, skb_shinfo(skb)->gso_size);
}

/* The next packet of a train, and its first bytes; NULL: that was all. */
struct sk_buff *knt_train_next(struct sk_buff **train, struct knt_arrival *arrival)
{
	struct sk_buff *skb = *train;

	if (!skb)
		return NULL;
	*train = skb->next;
	skb_mark_not_on_list(skb);
	knt_head(skb, arrival);
	return skb;
}

/* Whether a packet has a header of Ethernet's or the like before IP's. */
static bool knt_has_mac(const struct sk_buff *skb)
{
	return skb_mac_header_was_set(skb) && skb->mac_header < skb->network_header;
}

/* Gives a part of a super-packet the headers and the way of the whole. */
static void knt_part_becomes(struct sk_buff *part, const struct sk_buff *skb)
{
	u32 ip = skb_network_header_len(skb);

	__skb_push(part, sizeof(struct udphdr));
	skb_reset_transport_header(part);
	memcpy(part->data, udp_hdr(skb), sizeof(struct udphdr));
	skb_set_network_header(part, -(int)ip);
	memcpy(skb_network_header(part), skb_network_header(skb), ip);
	memcpy(part->cb, skb->cb, sizeof(part->cb));
	part->protocol = skb->protocol;
	part->pkt_type = skb->pkt_type;
	part->dev = skb->dev;
	part->skb_iif = skb->skb_iif;
	part->mark = skb->mark;
	part->priority = skb->priority;
	part->tstamp = skb->tstamp;
	skb_copy_hash(part, skb);
	skb_copy_secmark(part, skb);
	/* Programs may want the header of Ethernet, too. */
	if (knt_has_mac(skb) && skb_mac_header_len(skb) <= skb_headroom(part) - ip) {
		skb_set_mac_header(part, -(int)(ip + skb_mac_header_len(skb)));
		memcpy(skb_mac_header(part), skb_mac_header(skb), skb_mac_header_len(skb));
	}
	/* UDP has looked at the whole. */
	part->ip_summed = CHECKSUM_UNNECESSARY;
	/* RCU keeps it, also when the first packet is gone. */
	skb_dst_drop(part);
	skb_dst_set_noref(part, skb_dst(skb));
}

/* The headers of one packet of a super-packet, as if it had come alone. */
static void knt_set_len(struct sk_buff *skb)
{
	udp_hdr(skb)->len = htons(skb->len);
	if (skb->protocol == htons(ETH_P_IP)) {
		ip_hdr(skb)->tot_len = htons(sizeof(struct iphdr) + skb->len);
		ip_send_check(ip_hdr(skb));
	} else {
		ipv6_hdr(skb)->payload_len = htons(skb->len);
	}
}

/* Takes a train apart: its packets follow one another by their next. False: no memory. */
static bool knt_take_apart(struct sk_buff *skb)
{
	u32 headers = skb_network_header_len(skb) + sizeof(struct udphdr);
	struct sk_buff *part;

	if (knt_has_mac(skb))
		headers += skb_mac_header_len(skb);
	skb_orphan(skb);
	/* Its headers change, which somebody may look at. */
	if (skb_unclone(skb, GFP_ATOMIC) ||
	    !knt_train_apart(skb, sizeof(struct udphdr), headers))
		return false;
	for (part = skb->next; part; part = part->next) {
		knt_part_becomes(part, skb);
		knt_set_len(part);
	}
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	knt_set_len(skb);
	return true;
}

/* Any other is split as for other sockets. NULL: it is gone. */
static struct sk_buff *knt_split(struct sock *udp, struct sk_buff *skb)
{
	struct sk_buff *parts, *part;

	__skb_push(skb, -skb_mac_offset(skb));
	parts = udp_rcv_segment(udp, skb, skb->protocol == htons(ETH_P_IP));
	for (part = parts; part; part = part->next)
		__skb_pull(part, skb_transport_offset(part));
	return parts;
}

/*
 * A train is taken as it is, or apart; what there is then. NULL: nothing. It may have been made by
 * anybody, and have more than the first packet outside of pages: that is split.
 */
static struct sk_buff *knt_receive_parts(struct sock *udp, struct sk_buff *skb)
{
	skb = knt_receive_whole(udp, skb);
	if (!skb)
		return NULL;
	if (skb_headlen(skb) > sizeof(struct udphdr) + skb_shinfo(skb)->gso_size)
		return knt_split(udp, skb);
	if (knt_take_apart(skb))
		return skb;
	kfree_skb_reason(skb, SKB_DROP_REASON_NOMEM);
	return NULL;
}

/* Not inlined: most of what comes is single packets. */
static noinline void knt_receive_super(struct sock *udp, struct sk_buff *skb)
{
	bool spared = knt_is_spared(skb);
	struct sk_buff *next;

	/* Others are tunnels' own. */
	if (spared)
		knt_super_spare(skb, false);
	if (spared && knt_is_train(skb))
		skb = knt_receive_parts(udp, skb);
	else
		skb = knt_split(udp, skb);
	if (skb && skb->next && knt_receive_train(udp, skb))
		return;
	for (; skb; skb = next) {
		next = skb->next;
		skb_mark_not_on_list(skb);
		knt_receive_one(udp, skb);
	}
}

/*
 * UDP's encap_rcv: the checksum is right, and skb begins with UDP's header. Always takes the
 * packet.
 */
int knt_receive(struct sock *udp, struct sk_buff *skb)
{
	if (skb_is_gso(skb))
		knt_receive_super(udp, skb);
	else
		knt_receive_one(udp, skb);
	return 0;
}

/* Leaves a packet that came in with what may be kept for longer than its device: no UDP header. */
void knt_skb_take(struct sk_buff *skb)
{
	skb->dev = NULL;
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);
	skb_orphan(skb);
	skb_pull(skb, sizeof(struct udphdr));
}

static bool knt_has_programs(struct sock *sk)
{
	if (rcu_access_pointer(sk->sk_filter))
		return true;
#ifdef CONFIG_CGROUP_BPF
	return cgroup_bpf_enabled(CGROUP_INET_INGRESS) &&
	       cgroup_bpf_sock_enabled(sk, CGROUP_INET_INGRESS);
#else
	return false;
#endif
}

/*
 * Whether a socket may have a packet that came by this device: by what it is bound to (or was, when
 * the packet's message began; 0: nothing), by its cgroup's programs, by the security module, and
 * by its own filter. Those see what UDP's see: data begins with UDP's header. A filter cannot
 * shorten a packet: that would be another message. locked: the caller has a lock under which
 * nobody's program should run. enum knt_verdict.
 */
u32 knt_sock_admits(struct sock *sk, struct sk_buff *skb, u32 bound, u32 device, u32 slave,
		    bool locked)
{
	if (bound && bound != device && bound != slave)
		return KNT_REFUSES;
	if (locked && knt_has_programs(sk))
		return KNT_ASK_UNLOCKED;
	if (!sk_filter_trim_cap(sk, skb, skb->len))
		return KNT_PASSES;
	sk_drops_inc(sk);
	return KNT_REFUSES;
}

/* What ICMP quotes: the path, and what there is behind UDP's header, at skip. */
struct knt_quote {
	struct knt_path to;
	u8 head[KNT_MAX_HEADER];
	u32 len;
};

static bool knt_quote_read(const struct sock *udp, const struct sk_buff *skb, u32 skip,
			   struct knt_quote *quote)
{
	struct in6_addr *to = (struct in6_addr *)quote->to.ip;
	struct in6_addr *local = (struct in6_addr *)quote->to.local;

	if (skip >= skb->len)
		return false;
	memset(&quote->to, 0, sizeof(quote->to));
	if (udp->sk_family == AF_INET) {
		const struct iphdr *ip = (const struct iphdr *)skb->data;

		ipv6_addr_set_v4mapped(ip->daddr, to);
		ipv6_addr_set_v4mapped(ip->saddr, local);
	} else {
#if IS_ENABLED(CONFIG_IPV6)
		const struct ipv6hdr *ip = (const struct ipv6hdr *)skb->data;

		*to = ip->daddr;
		*local = ip->saddr;
		quote->to.scope = ipv6_iface_scope_id(&ip->daddr, inet6_iif(skb));
#else
		return false;
#endif
	}
	quote->len = min_t(u32, skb->len - skip,
			   min_t(u32, knt_ops->numbers.header, sizeof(quote->head)));
	return !skb_copy_bits(skb, skip, quote->head, quote->len);
}

/*
 * UDP's encap_err_lookup: whether a datagram that ICMP quotes is one that the transport may have
 * sent. Others are guesses. (If one says that a packet was too long, the kernel has noted that in
 * its main routes before it asked, as for all of UDP: udp_err_update_exception().)
 */
int knt_error_lookup(struct sock *udp, struct sk_buff *skb)
{
	struct knt_net *tn = rcu_dereference_sk_user_data(udp);
	u32 skip = skb_transport_offset(skb) + sizeof(struct udphdr);
	struct knt_quote quote;

	if (!tn || !knt_net_state(tn) || udp_hdr(skb)->dest != knt_udp_port())
		return -ENOENT;
	if (!knt_quote_read(udp, skb, skip, &quote))
		return -ENOENT;
	if (!knt_ops->quoted(tn, &quote.to, ntohs(udp_hdr(skb)->source), quote.head, quote.len))
		return -ENOENT;
	return 0;
}

/*
 * UDP's encap_err_rcv: ICMP quotes a datagram, which begins with its IP header at skb->data;
 * payload is what follows UDP's header. Rust decides whether it is believed.
 */
void knt_error_receive(struct sock *udp, struct sk_buff *skb, int err, __be16 port, u32 info,
		       u8 *payload)
{
	struct knt_net *tn = rcu_dereference_sk_user_data(udp);
	struct knt_quote quote;
	u32 what;

	switch (err) {
	case EMSGSIZE:
		what = 0;
		break;
	case ECONNREFUSED:
		what = KNT_UNREACHABLE_PORT;
		break;
	case EHOSTUNREACH:
		what = KNT_UNREACHABLE_HOST;
		break;
	case ENETUNREACH:
		what = KNT_UNREACHABLE_NETWORK;
		break;
	case EACCES:
		what = KNT_UNREACHABLE_PROHIBITED;
		break;
	default:
		return;
	}
	if (!tn || !knt_net_state(tn) || port != knt_udp_port())
		return;
	if (!knt_quote_read(udp, skb, payload - skb->data, &quote))
		return;
	/*
	 * The kernel has noted the MTU in the route that the transport's UDP socket would use, which
	 * need not be that of a socket with a mark or a device.
	 */
	if (err == EMSGSIZE)
		knt_ops->path_mtu(tn, &quote.to, info);
	else
		knt_ops->undelivered(tn, &quote.to, quote.head, quote.len, what);
}

void knt_skb_free(struct sk_buff *skb)
{
	consume_skb(skb);
}
