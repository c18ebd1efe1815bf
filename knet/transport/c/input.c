// SPDX-License-Identifier: GPL-2.0
/* Packets that come in by the UDP sockets. */
#include <linux/udp.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>
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
		arrival->link = inet6_sdif(skb) ?: skb->skb_iif;
		arrival->from.scope = ipv6_iface_scope_id(from, arrival->device);
		arrival->ecn = ipv6_get_dsfield(ip) & INET_ECN_MASK;
		return true;
	}
#endif
	return false;
}

/* No packet of the transport: counted there, and named to who watches drops. */
static int knt_refuse(struct knt_net *tn, struct sk_buff *skb, enum knt_refused why,
		      enum skb_drop_reason reason)
{
	knt_ops->refused(tn, why);
	kfree_skb_reason(skb, reason);
	return 0;
}

/*
 * UDP's encap_rcv: the checksum is right, and skb begins with UDP's header. Always takes the
 * packet.
 */
int knt_receive(struct sock *udp, struct sk_buff *skb)
{
	struct knt_net *tn = rcu_dereference_sk_user_data(udp);
	struct knt_arrival arrival;
	u8 copy[KNT_MAX_HEADER];
	u32 len;

	/* The port is being opened or closed: nobody counts yet, or any more. */
	if (!tn || !knt_net_state(tn)) {
		kfree_skb_reason(skb, SKB_DROP_REASON_SOCKET_CLOSE);
		return 0;
	}
	if (skb->pkt_type != PACKET_HOST || !knt_source(skb, &arrival))
		return knt_refuse(tn, skb, KNT_REFUSED_ADDRESS, SKB_DROP_REASON_IP_INVALID_DEST);
	if (udp_hdr(skb)->source != knt_udp_port())
		return knt_refuse(tn, skb, KNT_REFUSED_PORT, SKB_DROP_REASON_SOCKET_FILTER);
	len = skb->len - sizeof(struct udphdr);
	arrival.len = len;
	arrival.head_len = min(len, knt_ops->numbers.header);
	if (skb_headlen(skb) >= sizeof(struct udphdr) + arrival.head_len) {
		arrival.head = skb->data + sizeof(struct udphdr);
	} else {
		/* What is in pages stays there: the payload is kept as it is. */
		if (skb_copy_bits(skb, sizeof(struct udphdr), copy, arrival.head_len))
			goto unreadable;
		arrival.head = copy;
	}
	if (!pskb_pull(skb, sizeof(struct udphdr)))
		goto unreadable;
	/* What Rust has may be kept longer than the device. */
	skb->dev = NULL;
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);
	skb_orphan(skb);
	knt_ops->packet(tn, &arrival, skb);
	return 0;
unreadable:
	return knt_refuse(tn, skb, KNT_REFUSED_UNREADABLE, SKB_DROP_REASON_HDR_TRUNC);
}

/* UDP's encap_err_lookup: whether a datagram that ICMP quotes is the transport's. */
int knt_error_lookup(struct sock *udp, struct sk_buff *skb)
{
	return udp_hdr(skb)->dest == knt_udp_port() ? 0 : -ENOENT;
}

/*
 * UDP's encap_err_rcv: ICMP quotes a datagram, which begins with its IP header at skb->data;
 * payload is what follows UDP's header. Rust decides whether it is believed. What it says of the
 * path's MTU the kernel has noted in the route, within its own bounds.
 */
void knt_error_receive(struct sock *udp, struct sk_buff *skb, int err, __be16 port, u32 info,
		       u8 *payload)
{
	struct knt_net *tn = rcu_dereference_sk_user_data(udp);
	enum knt_unreachable what;
	struct knt_path to = {};
	u8 head[KNT_MAX_HEADER];
	u32 skip = payload - skb->data, len;

	switch (err) {
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
	if (!tn || !knt_net_state(tn) || port != knt_udp_port() || skip >= skb->len)
		return;
	if (udp->sk_family == AF_INET) {
		const struct iphdr *ip = (const struct iphdr *)skb->data;

		ipv6_addr_set_v4mapped(ip->daddr, (struct in6_addr *)to.ip);
		ipv6_addr_set_v4mapped(ip->saddr, (struct in6_addr *)to.local);
	} else {
#if IS_ENABLED(CONFIG_IPV6)
		const struct ipv6hdr *ip = (const struct ipv6hdr *)skb->data;

		*(struct in6_addr *)to.ip = ip->daddr;
		*(struct in6_addr *)to.local = ip->saddr;
		to.scope = ipv6_iface_scope_id(&ip->daddr, inet6_iif(skb));
#else
		return;
#endif
	}
	len = min_t(u32, skb->len - skip, min_t(u32, knt_ops->numbers.header, sizeof(head)));
	if (skb_copy_bits(skb, skip, head, len))
		return;
	knt_ops->undelivered(tn, &to, head, len, what);
}

void knt_skb_free(struct sk_buff *skb)
{
	consume_skb(skb);
}
