// SPDX-License-Identifier: GPL-2.0
/* Ways to peers: looked up for a message's first packet, and kept by peer for those that follow. */
#include <linux/jhash.h>
#include <net/dst.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <net/transp_v6.h>
#include "internal.h"

static struct dst_entry *knt_lookup4(struct net *net, const struct sock *sk, __be32 *to,
				     __be32 *from, int device)
{
	struct flowi4 flow = {
		.flowi4_oif = device,
		.flowi4_proto = IPPROTO_UDP,
		.daddr = *to,
		.saddr = *from,
		.fl4_sport = knt_udp_port(),
		.fl4_dport = knt_udp_port(),
	};
	struct rtable *rt;

	if (sk) {
		flow.flowi4_mark = READ_ONCE(sk->sk_mark);
		flow.flowi4_uid = sk_uid(sk);
		security_sk_classify_flow(sk, flowi4_to_flowi_common(&flow));
	}
	rt = ip_route_output_flow(net, &flow, sk);
	if (IS_ERR(rt))
		return ERR_CAST(rt);
	if (rt->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST)) {
		ip_rt_put(rt);
		return ERR_PTR(-EACCES);
	}
	*to = flow.daddr;
	*from = flow.saddr;
	return &rt->dst;
}

#if IS_ENABLED(CONFIG_IPV6)
static struct dst_entry *knt_lookup6(struct net *net, const struct sock *sk, struct in6_addr *to,
				     struct in6_addr *from, int device)
{
	struct flowi6 flow = {
		.flowi6_oif = device,
		.flowi6_proto = IPPROTO_UDP,
		.daddr = *to,
		.saddr = *from,
		.fl6_sport = knt_udp_port(),
		.fl6_dport = knt_udp_port(),
	};
	struct dst_entry *dst;

	if (ipv6_addr_any(&flow.daddr))
		flow.daddr = in6addr_loopback;
	if (ipv6_addr_is_multicast(&flow.daddr))
		return ERR_PTR(-EACCES);
	if (sk) {
		flow.flowi6_mark = READ_ONCE(sk->sk_mark);
		flow.flowi6_uid = sk_uid(sk);
		security_sk_classify_flow(sk, flowi6_to_flowi_common(&flow));
	}
	dst = ip6_dst_lookup_flow(net, sk, &flow, NULL);
	if (IS_ERR(dst))
		return dst;
	*to = flow.daddr;
	*from = flow.saddr;
	return dst;
}
#endif

/*
 * The path from a socket to an address, and how long a packet may be on it. Chooses the source if
 * the socket is not bound to one. The route itself is not kept: packets find it by knt_route_get().
 */
int knt_route(struct sock *sk, const struct knt_address *to, struct knt_path *path, u32 *mtu)
{
	const struct in6_addr *peer = (const struct in6_addr *)to->ip;
	struct net *net = sock_net(sk);
	int device = READ_ONCE(sk->sk_bound_dev_if);
	struct dst_entry *dst;

	if (ipv6_addr_v4mapped(peer)) {
		__be32 ip = peer->s6_addr32[3];
		__be32 local = inet_sk(sk)->inet_saddr;

		if (sk->sk_family == AF_INET6 && ipv6_only_sock(sk))
			return -ENETUNREACH;
		/* An AF_INET6 socket that is bound to an address of IPv6 has none of IPv4. */
		if (sk->sk_family == AF_INET6 && local == LOOPBACK4_IPV6)
			return -ENETUNREACH;
		dst = knt_lookup4(net, sk, &ip, &local, device);
		if (IS_ERR(dst))
			return PTR_ERR(dst);
		ipv6_addr_set_v4mapped(ip, (struct in6_addr *)path->ip);
		ipv6_addr_set_v4mapped(local, (struct in6_addr *)path->local);
		path->scope = 0;
	} else {
#if IS_ENABLED(CONFIG_IPV6)
		struct in6_addr ip = *peer;
		struct in6_addr local;

		if (sk->sk_family != AF_INET6)
			return -EAFNOSUPPORT;
		local = inet6_sk(sk)->saddr;
		if (ipv6_addr_v4mapped(&local))
			return -ENETUNREACH;
		if (__ipv6_addr_needs_scope_id(ipv6_addr_type(&ip))) {
			if (to->scope && device && to->scope != device)
				return -EINVAL;
			device = to->scope ?: device;
			if (!device)
				return -EINVAL;
		}
		dst = knt_lookup6(net, sk, &ip, &local, device);
		if (IS_ERR(dst))
			return PTR_ERR(dst);
		*(struct in6_addr *)path->ip = ip;
		*(struct in6_addr *)path->local = local;
		path->scope = ipv6_iface_scope_id(&ip, device);
#else
		return -EAFNOSUPPORT;
#endif
	}
	*mtu = dst_mtu(dst);
	dst_release(dst);
	return 0;
}

static struct dst_entry *knt_lookup(struct knt_net *tn, const struct knt_path *path)
{
	const struct in6_addr *ip = (const struct in6_addr *)path->ip;
	const struct in6_addr *local = (const struct in6_addr *)path->local;

	if (ipv6_addr_v4mapped(ip)) {
		__be32 to = ip->s6_addr32[3], from = local->s6_addr32[3];

		return knt_lookup4(tn->net, NULL, &to, &from, 0);
	}
#if IS_ENABLED(CONFIG_IPV6)
	{
		struct in6_addr to = *ip, from = *local;

		return knt_lookup6(tn->net, NULL, &to, &from, path->scope);
	}
#else
	return ERR_PTR(-EAFNOSUPPORT);
#endif
}

static u32 knt_dst_cookie(struct dst_entry *dst)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (dst->ops->family == AF_INET6)
		return rt6_get_cookie(dst_rt6_info(dst));
#endif
	return 0;
}

/* The route of a packet, with a reference; NULL if there is none. */
struct dst_entry *knt_route_get(struct knt_net *tn, const struct knt_path *path)
{
	u32 hash = jhash2((const u32 *)path, sizeof(*path) / sizeof(u32), 0);
	struct knt_cached_route *slot = &tn->routes[hash & (KNT_ROUTES - 1)];
	struct dst_entry *dst = NULL, *old = NULL;

	BUILD_BUG_ON(sizeof(*path) % sizeof(u32));
	spin_lock_bh(&tn->route_lock);
	if (slot->dst && !memcmp(&slot->path, path, sizeof(*path))) {
		if (dst_check(slot->dst, slot->cookie)) {
			dst = slot->dst;
			dst_hold(dst);
		} else {
			old = slot->dst;
			slot->dst = NULL;
		}
	}
	spin_unlock_bh(&tn->route_lock);
	dst_release(old);
	if (dst)
		return dst;

	dst = knt_lookup(tn, path);
	if (IS_ERR(dst))
		return NULL;
	dst_hold(dst);
	spin_lock_bh(&tn->route_lock);
	old = slot->dst;
	slot->path = *path;
	slot->dst = dst;
	slot->cookie = knt_dst_cookie(dst);
	spin_unlock_bh(&tn->route_lock);
	dst_release(old);
	return dst;
}

void knt_routes_drop(struct knt_net *tn)
{
	u32 i;

	for (i = 0; i < KNT_ROUTES; i++) {
		dst_release(tn->routes[i].dst);
		tn->routes[i].dst = NULL;
	}
}
