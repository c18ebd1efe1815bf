// SPDX-License-Identifier: GPL-2.0
/*
 * Ways to peers: looked up for the first message, and kept by peer and socket's identity (device,
 * mark, user, label) for its packets and all that follow, as long as the kernel says that they are
 * still right.
 */
#include <linux/jhash.h>
#include <linux/unroll.h>
#include <net/addrconf.h>
#include <net/dst.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <net/transp_v6.h>
#include "internal.h"

/*
 * Whether the way of a packet may depend on its ports: routes with several next hops may choose one
 * by them, and rules and IPsec's policies may name them.
 */
static bool knt_uses_ports(const struct net *net, bool v4)
{
	u32 used = 0;

#ifdef CONFIG_XFRM
	used |= READ_ONCE(net->xfrm.policy_count[XFRM_POLICY_OUT]);
#endif
#if IS_ENABLED(CONFIG_IPV6)
	if (!v4) {
#ifdef CONFIG_IPV6_MULTIPLE_TABLES
		used |= READ_ONCE(net->ipv6.fib6_rules_require_fldissect);
#endif
		return used | READ_ONCE(net->ipv6.sysctl.multipath_hash_policy);
	}
#endif
#ifdef CONFIG_IP_MULTIPLE_TABLES
	used |= READ_ONCE(net->ipv4.fib_rules_require_fldissect);
#endif
#ifdef CONFIG_IP_ROUTE_MULTIPATH
	used |= READ_ONCE(net->ipv4.sysctl_fib_multipath_hash_policy);
#endif
	return used;
}

/*
 * What the route of a packet of this socket, from this UDP port, depends on. A packet of nobody is
 * the namespace's.
 */
static void knt_identify(struct net *net, const struct sock *sk, const struct knt_path *path,
			 u32 device, u32 mark, u16 port, struct knt_way *way)
{
	bool v4 = ipv6_addr_v4mapped((const struct in6_addr *)path->ip);
	struct flowi_common common = {};

	if (sk)
		security_sk_classify_flow(sk, &common);
	way->path = *path;
	way->device = path->scope ?: device;
	way->mark = mark;
	way->uid = __kuid_val(sock_net_uid(net, sk));
	way->secid = common.flowic_secid;
	/* Each message has one of its own: all routes would be kept once for each. */
	way->port = knt_uses_ports(net, v4) ? port : knt_ops->numbers.udp_port;
}

/* The route of a way, which gets the addresses that the way leaves open. */
static struct dst_entry *knt_lookup4(struct net *net, const struct sock *sk, struct knt_way *way)
{
	struct in6_addr *to = (struct in6_addr *)way->path.ip;
	struct in6_addr *from = (struct in6_addr *)way->path.local;
	struct flowi4 flow = {
		.flowi4_oif = way->device,
		.flowi4_mark = way->mark,
		.flowi4_uid = KUIDT_INIT(way->uid),
		.flowi4_secid = way->secid,
		.flowi4_proto = IPPROTO_UDP,
		.daddr = to->s6_addr32[3],
		.saddr = from->s6_addr32[3],
		.fl4_sport = htons(way->port),
		.fl4_dport = knt_udp_port(),
	};
	struct rtable *rt;

	rt = ip_route_output_flow(net, &flow, sk);
	if (IS_ERR(rt))
		return ERR_CAST(rt);
	if (rt->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST)) {
		ip_rt_put(rt);
		return ERR_PTR(-EACCES);
	}
	ipv6_addr_set_v4mapped(flow.daddr, to);
	ipv6_addr_set_v4mapped(flow.saddr, from);
	return &rt->dst;
}

#if IS_ENABLED(CONFIG_IPV6)
static struct dst_entry *knt_lookup6(struct net *net, const struct sock *sk, struct knt_way *way)
{
	struct in6_addr *to = (struct in6_addr *)way->path.ip;
	struct in6_addr *from = (struct in6_addr *)way->path.local;
	struct flowi6 flow = {
		.flowi6_oif = way->device,
		.flowi6_mark = way->mark,
		.flowi6_uid = KUIDT_INIT(way->uid),
		.flowi6_secid = way->secid,
		.flowi6_proto = IPPROTO_UDP,
		.daddr = *to,
		.saddr = *from,
		.fl6_sport = htons(way->port),
		.fl6_dport = knt_udp_port(),
	};
	struct dst_entry *dst;

	if (ipv6_addr_any(&flow.daddr))
		flow.daddr = in6addr_loopback;
	if (ipv6_addr_is_multicast(&flow.daddr))
		return ERR_PTR(-EACCES);
	if (way->device && !ipv6_addr_any(&flow.saddr)) {
		/* IPv6 takes the device for a mere preference, unless the socket is bound to one now. */
		dst = ip6_route_output_flags(net, sk, &flow, RT6_LOOKUP_F_IFACE);
		if (dst->error) {
			int err = dst->error;

			dst_release(dst);
			return ERR_PTR(err);
		}
		dst = xfrm_lookup_route(net, dst, flowi6_to_flowi(&flow), sk, 0);
	} else {
		dst = ip6_dst_lookup_flow(net, sk, &flow, NULL);
	}
	if (IS_ERR(dst))
		return dst;
	*to = flow.daddr;
	*from = flow.saddr;
	return dst;
}
#endif

static struct dst_entry *knt_lookup(struct net *net, const struct sock *sk, struct knt_way *way)
{
	if (ipv6_addr_v4mapped((struct in6_addr *)way->path.ip))
		return knt_lookup4(net, sk, way);
#if IS_ENABLED(CONFIG_IPV6)
	return knt_lookup6(net, sk, way);
#else
	return ERR_PTR(-EAFNOSUPPORT);
#endif
}

/* The source address that a message asks for, or the socket's; any, if neither says one. */
static int knt_local4(const struct sock *sk, const struct in6_addr *wish, struct in6_addr *local)
{
	__be32 own = inet_sk(sk)->inet_saddr;

	if (sk->sk_family == AF_INET6 && ipv6_only_sock(sk))
		return -ENETUNREACH;
	/* An AF_INET6 socket that is bound to an address of IPv6 has none of IPv4. */
	if (sk->sk_family == AF_INET6 && own == LOOPBACK4_IPV6)
		return -ENETUNREACH;
	if (!ipv6_addr_any(wish)) {
		/* Whether it is the host's is for the look-up to see. */
		if (!ipv6_addr_v4mapped(wish))
			return -EINVAL;
		own = wish->s6_addr32[3];
	}
	ipv6_addr_set_v4mapped(own, local);
	return 0;
}

#if IS_ENABLED(CONFIG_IPV6)
static int knt_local6(const struct sock *sk, const struct in6_addr *wish, u32 device,
		      struct in6_addr *local)
{
	if (sk->sk_family != AF_INET6)
		return -EAFNOSUPPORT;
	*local = inet6_sk(sk)->saddr;
	if (ipv6_addr_v4mapped(local))
		return -ENETUNREACH;
	if (!ipv6_addr_any(wish)) {
		struct net_device *dev = NULL;
		bool strict = __ipv6_addr_needs_scope_id(__ipv6_addr_type(wish));
		bool own;

		/* The look-up does not ask whose it is. */
		rcu_read_lock();
		if (strict)
			dev = dev_get_by_index_rcu(sock_net(sk), device);
		own = (dev || !strict) && ipv6_chk_addr(sock_net(sk), wish, dev, strict);
		rcu_read_unlock();
		if (!own)
			return -EINVAL;
		*local = *wish;
	}
	return 0;
}
#endif

static bool knt_has_device(struct net *net, u32 device)
{
	bool has;

	rcu_read_lock();
	has = dev_get_by_index_rcu(net, device);
	rcu_read_unlock();
	return has;
}

static u32 knt_dst_cookie(struct dst_entry *dst)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (dst->ops->family == AF_INET6)
		return rt6_get_cookie(dst_rt6_info(dst));
#endif
	return 0;
}

static bool knt_is_for(const struct knt_cached_route *slot, const struct knt_way *way)
{
	const u64 *a = (const u64 *)&slot->way, *b = (const u64 *)way;
	u64 differ = 0;
	u32 i;

	/* For so few, memcmp() takes several times as long. */
	unrolled_full for (i = 0; i < sizeof(*way) / sizeof(u64); i++)
		differ |= a[i] ^ b[i];
	return slot->dst && !differ;
}

/*
 * A route of the table, without a reference, for who has RCU's read lock; NULL if it has none for
 * this way. at: where it is, or would be. path: NULL, or gets the way's, with the addresses that it
 * leaves open.
 */
static struct dst_entry *knt_cached(struct knt_net *tn, const struct knt_way *way, u32 *at,
				    struct knt_path *path)
{
	struct dst_entry *dst = NULL, *old = NULL;
	struct knt_cached_route *slot;
	bool found;

	spin_lock_bh(&tn->route_lock);
	/* The next packet often goes where the last one went. */
	slot = &tn->routes[tn->last_route];
	found = knt_is_for(slot, way);
	if (!found) {
		tn->last_route = jhash2((const u32 *)way, sizeof(*way) / sizeof(u32), 0) &
				 (KNT_ROUTES - 1);
		slot = &tn->routes[tn->last_route];
		found = knt_is_for(slot, way);
	}
	*at = tn->last_route;
	if (found) {
		if (dst_check(slot->dst, slot->cookie)) {
			dst = slot->dst;
			if (path)
				*path = slot->path;
		} else {
			old = slot->dst;
			slot->dst = NULL;
		}
	}
	spin_unlock_bh(&tn->route_lock);
	dst_release(old);
	return dst;
}

/*
 * A route that is looked up, and then in the table; path as above. Not inlined: it has much on its
 * stack.
 */
static noinline struct dst_entry *knt_route_add(struct knt_net *tn, const struct sock *sk, u32 at,
						const struct knt_way *way, struct knt_path *path)
{
	struct knt_cached_route *slot = &tn->routes[at];
	struct dst_entry *dst, *old;
	struct knt_way found = *way;

	dst = knt_lookup(tn->net, sk, &found);
	if (IS_ERR(dst))
		return dst;
	if (path)
		*path = found.path;
	spin_lock_bh(&tn->route_lock);
	old = slot->dst;
	slot->way = *way;
	slot->path = found.path;
	slot->dst = dst;
	slot->cookie = knt_dst_cookie(dst);
	spin_unlock_bh(&tn->route_lock);
	dst_release(old);
	return dst;
}

/*
 * The route of a packet of this socket, without a reference, for who has RCU's read lock; NULL if
 * there is none. device: that it has to go by, 0: any.
 */
struct dst_entry *knt_route_get(struct knt_net *tn, const struct sock *sk,
				const struct knt_path *path, u32 device, u32 mark, u16 port)
{
	struct dst_entry *dst;
	struct knt_way way;
	u32 at;

	BUILD_BUG_ON(sizeof(way) != sizeof(*path) + 5 * sizeof(u32));
	knt_identify(tn->net, sk, path, device, mark, port, &way);
	dst = knt_cached(tn, &way, &at, NULL);
	if (dst)
		return dst;
	dst = knt_route_add(tn, sk, at, &way, NULL);
	return IS_ERR(dst) ? NULL : dst;
}

/*
 * The MTU of a message that begins, or a negative errno, and its path with the addresses that its
 * way leaves open. Which source IPv6 would choose depends on more than a route says of itself, so
 * that is asked each time.
 */
static int knt_route_begin(struct knt_net *tn, const struct sock *sk, struct knt_way *way,
			   struct knt_path *path)
{
	struct dst_entry *dst;
	int mtu;
	u32 at;

	if (!ipv6_addr_v4mapped((struct in6_addr *)path->ip) &&
	    (ipv6_addr_any((struct in6_addr *)path->local) ||
	     ipv6_addr_any((struct in6_addr *)path->ip))) {
		dst = knt_lookup(tn->net, sk, way);
		if (IS_ERR(dst))
			return PTR_ERR(dst);
		*path = way->path;
		mtu = dst_mtu(dst);
		dst_release(dst);
		return mtu;
	}
	rcu_read_lock();
	dst = knt_cached(tn, way, &at, path);
	dst = dst ?: knt_route_add(tn, sk, at, way, path);
	mtu = IS_ERR(dst) ? PTR_ERR(dst) : dst_mtu(dst);
	rcu_read_unlock();
	return mtu;
}

/*
 * The path from a socket to an address for packets from this UDP port, what the socket is tied to,
 * and how long a packet may be there. Chooses the source if neither the message nor the socket has
 * one.
 */
int knt_route(struct sock *sk, const struct knt_address *to, const struct knt_wish *wish,
	      u16 port, struct knt_way_out *out)
{
	struct knt_path *path = &out->path;
	const struct in6_addr *peer = (const struct in6_addr *)to->ip;
	const struct in6_addr *source = (const struct in6_addr *)wish->source;
	struct in6_addr *local = (struct in6_addr *)path->local;
	struct net *net = sock_net(sk);
	struct knt_way way;
	u32 device;
	int err;

	out->tie = knt_sock_tie(sk);
	device = out->tie.device;
	if (wish->device) {
		if (device && wish->device != device)
			return -EINVAL;
		device = wish->device;
		if (!knt_has_device(net, device))
			return -ENODEV;
	}
	*(struct in6_addr *)path->ip = *peer;
	path->scope = 0;
	if (ipv6_addr_v4mapped(peer)) {
		err = knt_local4(sk, source, local);
	} else {
#if IS_ENABLED(CONFIG_IPV6)
		if (__ipv6_addr_needs_scope_id(ipv6_addr_type(peer))) {
			if (to->scope && device && to->scope != device)
				return -EINVAL;
			device = to->scope ?: device;
			if (!device)
				return sk->sk_family == AF_INET6 ? -EINVAL : -EAFNOSUPPORT;
			path->scope = ipv6_iface_scope_id(peer, device);
		}
		err = knt_local6(sk, source, device, local);
#else
		err = -EAFNOSUPPORT;
#endif
	}
	if (err)
		return err;
	knt_identify(net, sk, path, device, out->tie.mark, port, &way);
	err = knt_route_begin(knt_net_of(net), sk, &way, path);
	if (err < 0)
		return err;
	out->mtu = err;
	return 0;
}

void knt_routes_drop(struct knt_net *tn)
{
	u32 i;

	spin_lock_bh(&tn->route_lock);
	for (i = 0; i < KNT_ROUTES; i++) {
		dst_release(tn->routes[i].dst);
		tn->routes[i].dst = NULL;
	}
	spin_unlock_bh(&tn->route_lock);
}
