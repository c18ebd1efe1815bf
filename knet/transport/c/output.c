// SPDX-License-Identifier: GPL-2.0
/* Packets that go out: UDP and IP headers before what Rust wrote. */
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <net/udp.h>
#include "internal.h"

/* Payloads up to this long are copied: a page reference costs more. */
#define KNT_COPY 256
/* The longest payload that a datagram has room for. */
#define KNT_MAX_PAYLOAD (U16_MAX - sizeof(struct ipv6hdr) - sizeof(struct udphdr) - KNT_MAX_HEADER)

/* Before what Rust wrote there is room for the headers of UDP, IP and the link. */
#define KNT_HEADROOM (LL_MAX_HEADER + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

struct knt_out_cb {
	struct knt_path to;
	u32 device;		/* 0: any */
	u16 port;
	u8 tos;
	bool joins;		/* others may be put at its end */
};

static struct knt_out_cb *knt_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct knt_out_cb) > sizeof(skb->cb));
	return (struct knt_out_cb *)skb->cb;
}

static struct sk_buff *knt_alloc(u32 len)
{
	struct sk_buff *skb = alloc_skb(KNT_HEADROOM + len, GFP_ATOMIC | __GFP_NOWARN);

	if (skb)
		skb_reserve(skb, KNT_HEADROOM);
	return skb;
}

/* Whether it would go the same way as a packet of the outbox, and may be put at its end. */
static bool knt_goes_with(struct sk_buff *skb, const struct knt_departure *departure)
{
	const struct knt_out_cb *cb = skb ? knt_cb(skb) : NULL;

	return cb && cb->joins && cb->port == departure->port && cb->tos == departure->tos &&
	       cb->device == departure->tie.device && skb->sk == departure->sk &&
	       skb->mark == departure->tie.mark &&
	       !memcmp(&cb->to, &departure->to, sizeof(cb->to));
}

/* A packet's header and payload: see knt_out_attach(). */
static __always_inline struct sk_buff *knt_make(const struct knt_departure *departure, bool copy,
						struct knt_seen *seen)
{
	const struct knt_seal *seal = departure->seal;
	struct knt_out *out = departure->out;
	struct sk_buff *skb;

	skb = out && !copy ? knt_train_alloc(KNT_HEADROOM, departure->head_len) :
			     knt_alloc(departure->head_len + (copy ? departure->len : 0) +
				       (seal ? KNT_TAG + KNT_LABEL : 0));
	if (!skb)
		return NULL;
	skb_put_data(skb, departure->head, departure->head_len);
	if (out && !knt_out_attach(out, skb, departure->offset, departure->len, copy, seen)) {
		kfree_skb(skb);
		return NULL;
	}
	if (seal)
		knt_seal_payload(skb, departure->head_len, seal);
	return skb;
}

/* Seldom: not in the midst of what all packets pass. */
static noinline struct sk_buff *knt_make_copy(const struct knt_departure *departure,
					      struct knt_seen *seen)
{
	return knt_make(departure, true, seen);
}

/* Makes a packet: see knt_outbox_add() and, of the pages, knt_out_attach(). */
static bool knt_add(struct knt_net *tn, struct knt_outbox *box,
		    const struct knt_departure *departure, struct knt_seen *seen)
{
	struct knt_out *out = departure->out;
	const struct knt_seal *seal = departure->seal;
	/* What is written stays as it is: a copy of it is encrypted. */
	bool copy = out && (seal || departure->len <= max_t(u32, KNT_COPY, knt_out_copied(out)));
	bool joins = out && !copy, lent = out && unlikely(knt_out_is_lent(out));
	struct sock *sk = departure->sk;
	struct knt_below *below = NULL;
	struct sk_buff *skb;

	/* IP looks into its socket, which has to be one of the family and of the namespace. */
	if (sk && (!net_eq(sock_net(sk), tn->net) ||
		   (sk->sk_family != AF_INET6 &&
		    !ipv6_addr_v4mapped((const struct in6_addr *)departure->to.ip))))
		return false;
	/* A datagram has no more than this, whichever IP it goes by. */
	if (departure->head_len > KNT_MAX_HEADER || (out && departure->len > KNT_MAX_PAYLOAD))
		return false;
	/* One that nothing counts does not hold up its message. */
	if (departure->counts && out && sk)
		below = knt_out_below(tn, out);
	if (joins && knt_goes_with(box->last, departure) &&
	    knt_train_add(box->last, departure, below, seen))
		return true;
	skb = knt_make(departure, copy, seen);
	if (lent && joins && (!skb || (below && skb_zcopy(skb)))) {
		/*
		 * It is in too many pages, or in those of several calls with MSG_ZEROCOPY; or what
		 * counts it has its count where that has its own.
		 */
		if (skb)
			kfree_skb(skb);
		joins = false;
		skb = knt_make_copy(departure, seen);
	}
	if (!skb)
		return false;
	if (lent && (seal || (below && !joins)))
		knt_lent_copied(seen->call);
	if (sk) {
		/*
		 * What a message may take is counted by its bytes, and who waits for room is woken by
		 * Rust. But a packet that has a socket has to be charged: below, ESP adds to the packet
		 * and to its socket's account, for whoever frees the packet to give both back.
		 */
		skb->sk = sk;
		skb->destructor = __sock_wfree;
		refcount_add(skb->truesize, &sk->sk_wmem_alloc);
		skb->priority = READ_ONCE(sk->sk_priority);
		if (below)
			knt_below_count(below, skb);
	}
	skb->mark = departure->tie.mark;
	knt_cb(skb)->to = departure->to;
	knt_cb(skb)->device = departure->tie.device;
	knt_cb(skb)->port = departure->port;
	knt_cb(skb)->tos = departure->tos;
	knt_cb(skb)->joins = joins;
	skb->next = NULL;
	if (box->last)
		box->last->next = skb;
	else
		box->first = skb;
	box->last = skb;
	return true;
}

/* Makes a packet, without the headers of UDP and IP. Any context. */
bool knt_outbox_add(struct knt_net *tn, struct knt_outbox *box,
		    const struct knt_departure *departure)
{
	struct knt_seen seen = { .len = 0 };

	return knt_add(tn, box, departure, &seen);
}

/*
 * The same for several in a row, all but the last with each bytes of payload: their headers follow
 * one another at departure->head, and departure->len is that of all payloads. They are not sealed,
 * and nothing counts them. False: some were not made.
 */
bool knt_outbox_add_run(struct knt_net *tn, struct knt_outbox *box,
			const struct knt_departure *departure, u32 each)
{
	struct knt_departure one = *departure;
	struct knt_seen seen = { .len = 0 };
	u32 rest = departure->len;

	if (!each || !one.head_len || !one.out || one.seal || one.counts)
		return false;
	while (rest) {
		bool first = rest == departure->len;

		one.len = min(rest, each);
		/* The last in the box is the one before it, or what that was put at the end of. */
		if (first || !knt_cb(box->last)->joins || !knt_train_add(box->last, &one, NULL, &seen))
			if (!knt_add(tn, box, &one, &seen))
				return false;
		one.head += one.head_len;
		one.offset += one.len;
		rest -= one.len;
	}
	return true;
}

/* How long the longest packet is that a packet is or stands for, with this header of IP. */
static u32 knt_longest(const struct sk_buff *skb, u32 ip)
{
	if (!skb_is_gso(skb))
		return skb->len;
	return ip + sizeof(struct udphdr) + skb_shinfo(skb)->gso_size;
}

static void knt_push_udp(struct sk_buff *skb)
{
	struct udphdr *udp = __skb_push(skb, sizeof(*udp));

	if (skb_is_gso(skb)) {
		/* Of others udp_set_csum() does that. */
		skb->ip_summed = CHECKSUM_PARTIAL;
		skb->csum_start = skb_headroom(skb);
		skb->csum_offset = offsetof(struct udphdr, check);
	}
	udp->source = htons(knt_cb(skb)->port);
	skb_reset_transport_header(skb);
	udp->dest = knt_udp_port();
	udp->len = htons(skb->len);
	udp->check = 0;
}

/* Whether routers must not cut a packet: by the socket, or if it is nobody's, the namespace. */
static bool knt_dont_fragment(const struct net *net, const struct sock *sk,
			      const struct dst_entry *dst)
{
	if (sk)
		return ip_dont_fragment(sk, dst);
	return !READ_ONCE(net->ipv4.sysctl_ip_no_pmtu_disc) && !ip_mtu_locked(dst);
}

static int knt_send4(struct knt_net *tn, struct sk_buff *skb, struct dst_entry *dst)
{
	struct sock *sk = skb->sk;
	int hops = sk ? READ_ONCE(inet_sk(sk)->uc_ttl) : -1;
	__be32 from = ((struct in6_addr *)knt_cb(skb)->to.local)->s6_addr32[3];
	__be32 to = ((struct in6_addr *)knt_cb(skb)->to.ip)->s6_addr32[3];
	u8 tos = knt_cb(skb)->tos;
	u32 mtu = dst_mtu(dst);
	struct iphdr *ip;
	bool whole;

	knt_push_udp(skb);
	udp_set_csum(false, skb, from, to, skb->len);
	ip = __skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	ip->version = 4;
	ip->ihl = sizeof(*ip) / 4;
	ip->tos = tos;
	/*
	 * If the path's MTU shrank since the packet was made, IP makes fragments of it; those that are
	 * made from now on fit again.
	 */
	whole = knt_longest(skb, sizeof(*ip)) <= mtu;
	if (!whole)
		knt_ops->path_mtu(tn, &knt_cb(skb)->to, mtu);
	whole = whole && knt_dont_fragment(tn->net, sk, dst);
	ip->frag_off = whole ? htons(IP_DF) : 0;
	ip->ttl = hops < 0 ? ip4_dst_hoplimit(dst) : hops;
	ip->protocol = IPPROTO_UDP;
	ip->saddr = from;
	ip->daddr = to;
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
	/* As TCP's: with RCU's read lock, and who keeps the packet for longer takes a reference. */
	skb_dst_set_noref(skb, dst);
	/* Only what may become fragments needs a number (RFC 6864), which is not cheap. */
	if (whole)
		ip->id = 0;
	else
		ip_select_ident(tn->net, skb, NULL);
	return ip_local_out(tn->net, sk, skb);
}

#if IS_ENABLED(CONFIG_IPV6)
static int knt_send6(struct knt_net *tn, struct sk_buff *skb, struct dst_entry *dst)
{
	struct sock *sk = skb->sk;
	int hops = sk ? READ_ONCE(inet6_sk(sk)->hop_limit) : -1;
	const struct in6_addr *from = (struct in6_addr *)knt_cb(skb)->to.local;
	const struct in6_addr *to = (struct in6_addr *)knt_cb(skb)->to.ip;
	u8 tos = knt_cb(skb)->tos;
	u32 mtu = dst_mtu(dst);
	struct ipv6hdr *ip;

	knt_push_udp(skb);
	udp6_set_csum(false, skb, from, to, skb->len);
	ip = __skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	if (knt_longest(skb, sizeof(*ip)) > mtu)
		knt_ops->path_mtu(tn, &knt_cb(skb)->to, mtu);
	ip6_flow_hdr(ip, tos, 0);
	ip->payload_len = htons(skb->len - sizeof(*ip));
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = hops < 0 ? ip6_dst_hoplimit(dst) : hops;
	ip->saddr = *from;
	ip->daddr = *to;
	/* The path is not there any more from here on. */
	memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
	skb_dst_set_noref(skb, dst);
	return ip6_local_out(tn->net, sk, skb);
}
#endif

/* The packets of a train leave one by one, and before those that follow it. False: no memory. */
static bool knt_apart(struct sk_buff *skb, struct sk_buff *next)
{
	struct sk_buff *part, *last = skb;

	if (!knt_train_apart(skb, 0, KNT_HEADROOM))
		return false;
	for (part = skb->next; part; part = part->next) {
		last = part;
		*knt_cb(part) = *knt_cb(skb);
		part->mark = skb->mark;
		part->priority = skb->priority;
		if (!skb->sk)
			continue;
		part->sk = skb->sk;
		part->destructor = __sock_wfree;
		refcount_add(part->truesize, &skb->sk->sk_wmem_alloc);
		knt_below_less_one(skb, part);
	}
	last->next = next;
	return true;
}

/*
 * Sends what was collected, and frees what was left. Any context in which packets may be sent,
 * without the namespace's lock. -EPERM if a packet may not go out, by netfilter or a program of the
 * socket's cgroup; other losses are not told.
 *
 * Softirqs wait until all of it has left: to a receiver on the same machine the first packet would
 * be answered before the second leaves, and all of a message asked for that follows by itself.
 */
int knt_outbox_send(struct knt_net *tn, struct knt_outbox *box)
{
	struct sk_buff *skb, *next;
	struct dst_entry *dst;
	int err, result = 0;
	bool v4;

	knt_segments_sweep(box);
	knt_outs_sweep(box);
	if (!box->first)
		return 0;
	local_bh_disable();
	rcu_read_lock();
	for (skb = box->first; skb; skb = next) {
		next = skb->next;
		skb_mark_not_on_list(skb);
		dst = knt_route_get(tn, skb->sk, &knt_cb(skb)->to, knt_cb(skb)->device, skb->mark,
				    knt_cb(skb)->port);
		if (!dst) {
			kfree_skb(skb);
			continue;
		}
		v4 = ipv6_addr_v4mapped((struct in6_addr *)knt_cb(skb)->to.ip);
		if (skb_is_gso(skb) && !knt_train_passes(skb, dst, v4)) {
			if (!knt_apart(skb, next)) {
				kfree_skb(skb);
				continue;
			}
			next = skb->next;
			skb_mark_not_on_list(skb);
		}
		/* Netfilter may still send it another way, by which it has to become fragments. */
		skb->ignore_df = 1;
		if (v4) {
			skb->protocol = htons(ETH_P_IP);
			err = knt_send4(tn, skb, dst);
		} else {
#if IS_ENABLED(CONFIG_IPV6)
			skb->protocol = htons(ETH_P_IPV6);
			err = knt_send6(tn, skb, dst);
#else
			kfree_skb(skb);
			err = 0;
#endif
		}
		if (err == -EPERM)
			result = err;
	}
	rcu_read_unlock();
	local_bh_enable();
	box->first = NULL;
	box->last = NULL;
	return result;
}
