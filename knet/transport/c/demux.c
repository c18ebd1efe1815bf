// SPDX-License-Identifier: GPL-2.0
/*
 * The routes of packets that come in, kept by their addresses. The kernel looks a packet's route up
 * before it looks for its socket, which takes as long as many a protocol does; TCP spares itself
 * that (tcp_v4_early_demux()), as a connection's socket remembers the route. Nothing in UDP can do
 * so for a socket that has no peer. What can is a hook of netfilter's, before routing and behind
 * all other hooks there: it gives a packet for the transport's port the route that one with the
 * same addresses had before, as long as the kernel says that the route is still right.
 *
 * A packet then passes all that it would have passed without: hooks, the UDP socket, its socket's
 * filters. net.ipv4.ip_early_demux turns it off, as it does for TCP.
 */
#include <linux/hash.h>
#include <linux/netfilter.h>
#include <linux/netfilter_bridge.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ip_fib.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/netns/hash.h>
#include <net/route.h>
#include "internal.h"

#ifdef CONFIG_NETFILTER

/*
 * What a packet's route depends on, if the namespace has no rules of its own and the device is in
 * no VRF. Compared as it is: no holes.
 */
struct knt_key {
	u64 from[2];
	u64 to[2];
	u32 device;
	u32 kind;	/* IP's version and DSCP */
};

struct knt_came {
	struct knt_key key;
	struct dst_entry *dst;	/* with a reference */
	u32 cookie;
	bool used;		/* since somebody wanted the place */
	struct rcu_head rcu;
};

/*
 * The last packet of a CPU whose route was not found. It is kept when the packet comes to the
 * transport as it came to the hook: behind that, addresses may be changed.
 */
struct knt_missed {
	const struct knt_net *tn;
	struct knt_key key;
};

static DEFINE_PER_CPU(struct knt_missed, knt_missed);

static bool knt_key_is(const struct knt_key *a, const struct knt_key *b)
{
	return !((a->from[0] ^ b->from[0]) | (a->from[1] ^ b->from[1]) |
		 (a->to[0] ^ b->to[0]) | (a->to[1] ^ b->to[1]) |
		 (a->device ^ b->device) | (a->kind ^ b->kind));
}

static u32 knt_key_at(const struct net *net, const struct knt_key *key)
{
	/* Not all by XOR: whoever invents addresses could choose the place. */
	u64 all = (key->from[0] ^ net_hash_mix(net)) * GOLDEN_RATIO_64 + key->from[1];

	all = (all ^ all >> 32) * GOLDEN_RATIO_64;
	all ^= rol64(key->to[0] ^ key->to[1], 32) ^ key->device ^ key->kind;
	return hash_64(all, ilog2(KNT_CAME));
}

/* Begins with the header of IPv4. False: the packet is none whose route is kept. */
static bool knt_key4(const struct net *net, const struct sk_buff *skb, struct knt_key *key)
{
	const struct iphdr *ip = ip_hdr(skb);

	if (ip->protocol != IPPROTO_UDP || ip->ihl != sizeof(*ip) / 4 || ip_is_fragment(ip))
		return false;
#ifdef CONFIG_IP_MULTIPLE_TABLES
	if (READ_ONCE(net->ipv4.fib_has_custom_rules))
		return false;
#endif
	key->from[0] = (__force u32)ip->saddr;
	key->from[1] = 0;
	key->to[0] = (__force u32)ip->daddr;
	key->to[1] = 0;
	key->kind = 4 << 8 | (ip->tos & ~INET_ECN_MASK);
	return true;
}

#if IS_ENABLED(CONFIG_IPV6)
static bool knt_key6(const struct net *net, const struct sk_buff *skb, struct knt_key *key)
{
	const struct ipv6hdr *ip = ipv6_hdr(skb);

	if (ip->nexthdr != IPPROTO_UDP)
		return false;
#ifdef CONFIG_IPV6_MULTIPLE_TABLES
	if (READ_ONCE(net->ipv6.fib6_has_custom_rules))
		return false;
#endif
	memcpy(key->from, &ip->saddr, sizeof(key->from));
	memcpy(key->to, &ip->daddr, sizeof(key->to));
	/* The DSCP chooses among routes only where rules do. */
	key->kind = 6 << 8;
	return true;
}
#endif

/* What a packet's route is kept by. False: it is none whose route is kept. */
static bool knt_key_of(const struct net *net, const struct sk_buff *skb, bool v4,
		       struct knt_key *key)
{
	const struct net_device *dev = skb->dev;

	if (skb->pkt_type != PACKET_HOST || dev->flags & IFF_LOOPBACK ||
	    netif_is_l3_master(dev) || netif_is_l3_slave(dev))
		return false;
#if IS_ENABLED(CONFIG_BRIDGE_NETFILTER)
	if (nf_bridge_info_exists(skb))
		return false;
#endif
	key->device = dev->ifindex;
#if IS_ENABLED(CONFIG_IPV6)
	if (!v4)
		return knt_key6(net, skb, key);
#endif
	return v4 && knt_key4(net, skb, key);
}

static void knt_demux(struct net *net, struct sk_buff *skb, bool v4)
{
	struct knt_net *tn = knt_net_of(net);
	struct knt_came *came;
	struct dst_entry *dst;
	struct knt_key key;

	if (skb_dst(skb) || !READ_ONCE(net->ipv4.sysctl_ip_early_demux))
		return;
	/* Behind a header of IP without options; what is in pages is not looked at. */
	if (skb_transport_offset(skb) + sizeof(struct udphdr) > skb_headlen(skb) ||
	    udp_hdr(skb)->dest != knt_udp_port() || !knt_key_of(net, skb, v4, &key))
		return;
	came = rcu_dereference(tn->came[knt_key_at(net, &key)]);
	dst = came && knt_key_is(&came->key, &key) ? dst_check(came->dst, came->cookie) : NULL;
	if (!dst) {
		/* A packet that was queued for a program may come here outside of a softirq. */
		struct knt_missed *missed = raw_cpu_ptr(&knt_missed);

		missed->tn = tn;
		missed->key = key;
		return;
	}
	if (!READ_ONCE(came->used))
		WRITE_ONCE(came->used, true);
	skb_dst_set_noref(skb, dst);
}

static unsigned int knt_demux4(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	knt_demux(state->net, skb, true);
	return NF_ACCEPT;
}

#if IS_ENABLED(CONFIG_IPV6)
static unsigned int knt_demux6(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	knt_demux(state->net, skb, false);
	return NF_ACCEPT;
}
#endif

static bool knt_is_udp(const struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IP))
		return ip_hdr(skb)->protocol == IPPROTO_UDP;
	return skb->protocol == htons(ETH_P_IPV6) && ipv6_hdr(skb)->nexthdr == IPPROTO_UDP;
}

/*
 * UDP splits super-packets for whoever has encap_rcv, but for those that a tunnel's device made.
 * Trains, which knt_receive() takes with less work, are called so here, if they are nothing but
 * that and no program has chosen another socket for them; of one that others hold, as taps do, a
 * copy of what is said there is made. Raw sockets, which come next, get clones; then UDP looks at
 * it.
 */
static unsigned int knt_spare(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (skb_is_gso(skb) && (skb_shinfo(skb)->gso_type & ~SKB_GSO_DODGY) == SKB_GSO_UDP_L4 &&
	    knt_is_train(skb) && !skb->sk && knt_is_udp(skb) &&
	    skb_transport_offset(skb) + sizeof(struct udphdr) <= skb_headlen(skb) &&
	    udp_hdr(skb)->dest == knt_udp_port() && !skb_unclone(skb, GFP_ATOMIC))
		knt_super_spare(skb, true);
	return NF_ACCEPT;
}

static const struct nf_hook_ops knt_demux_ops[] = {
	{
		.hook = knt_spare,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = NF_IP_PRI_LAST,
	},
	{
		.hook = knt_demux4,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_PRE_ROUTING,
		.priority = NF_IP_PRI_LAST,
	},
#if IS_ENABLED(CONFIG_IPV6)
	{
		.hook = knt_spare,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = NF_IP6_PRI_LAST,
	},
	{
		.hook = knt_demux6,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_PRE_ROUTING,
		.priority = NF_IP6_PRI_LAST,
	},
#endif
};

int knt_demux_open(struct knt_net *tn)
{
	return nf_register_net_hooks(tn->net, knt_demux_ops, ARRAY_SIZE(knt_demux_ops));
}

void knt_demux_close(struct knt_net *tn)
{
	nf_unregister_net_hooks(tn->net, knt_demux_ops, ARRAY_SIZE(knt_demux_ops));
}

/* The route of a packet for this host, as far as it may be kept, and what it is checked with. */
static struct dst_entry *knt_came_dst(const struct sk_buff *skb, bool v4, u32 *cookie)
{
	struct dst_entry *dst = skb_dst(skb);

	*cookie = 0;
	if (!dst || dst->flags & DST_METADATA)
		return NULL;
	if (v4) {
		const struct rtable *rt = dst_rtable(dst);

		return rt_is_input_route(rt) && rt->rt_type == RTN_LOCAL ? dst : NULL;
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (dst_rt6_info(dst)->rt6i_flags & RTF_LOCAL) {
		*cookie = rt6_get_cookie(dst_rt6_info(dst));
		return dst;
	}
#endif
	return NULL;
}

static void knt_came_free(struct knt_came *came)
{
	if (came) {
		dst_release(came->dst);
		kfree_rcu(came, rcu);
	}
}

/*
 * Keeps a packet's route, if its place is free, or was not used since somebody else wanted it. Of
 * a peer that sends less often than others are invented, routes are looked up as without all this.
 * Whoever has the lock has something better to do than to wait. Not inlined: it is rare.
 */
static noinline void knt_came_keep(struct knt_net *tn, const struct sk_buff *skb,
				   const struct knt_key *missed)
{
	bool v4 = skb->protocol == htons(ETH_P_IP);
	struct knt_came *came, *old;
	struct dst_entry *dst;
	struct knt_key key;
	u32 cookie, at;

	dst = knt_came_dst(skb, v4, &cookie);
	if (!dst || !knt_key_of(tn->net, skb, v4, &key) || !knt_key_is(&key, missed))
		return;
	at = knt_key_at(tn->net, &key);
	if (!spin_trylock(&tn->route_lock))
		return;
	old = rcu_dereference_protected(tn->came[at], lockdep_is_held(&tn->route_lock));
	if (old && dst_check(old->dst, old->cookie)) {
		if (old->used || knt_key_is(&old->key, &key)) {
			WRITE_ONCE(old->used, false);
			goto out;
		}
	}
	came = kmalloc(sizeof(*came), GFP_ATOMIC | __GFP_NOWARN);
	if (!came)
		goto out;
	if (!dst_hold_safe(dst)) {
		kfree(came);
		goto out;
	}
	came->key = key;
	came->dst = dst;
	came->cookie = cookie;
	came->used = true;
	rcu_assign_pointer(tn->came[at], came);
	spin_unlock(&tn->route_lock);
	knt_came_free(old);
	return;
out:
	spin_unlock(&tn->route_lock);
}

/* A packet came for the transport, which keeps its route if it had none. Bottom halves are off. */
void knt_came_by(struct knt_net *tn, const struct sk_buff *skb)
{
	struct knt_missed *missed = this_cpu_ptr(&knt_missed);

	if (missed->tn == tn) {
		missed->tn = NULL;
		knt_came_keep(tn, skb, &missed->key);
	}
}

void knt_came_drop(struct knt_net *tn)
{
	u32 at;

	for (at = 0; at < KNT_CAME; at++) {
		struct knt_came *came;

		spin_lock_bh(&tn->route_lock);
		came = rcu_replace_pointer(tn->came[at], NULL,
					   lockdep_is_held(&tn->route_lock));
		spin_unlock_bh(&tn->route_lock);
		knt_came_free(came);
	}
}

#else

int knt_demux_open(struct knt_net *tn)
{
	return 0;
}

void knt_demux_close(struct knt_net *tn)
{
}

void knt_came_by(struct knt_net *tn, const struct sk_buff *skb)
{
}

void knt_came_drop(struct knt_net *tn)
{
}

#endif
