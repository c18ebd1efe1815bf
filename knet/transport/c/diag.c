// SPDX-License-Identifier: GPL-2.0
/*
 * The sockets for those who list them, as TCP's are listed: sock_diag(7) with the transport's
 * number as INET_DIAG_REQ_PROTOCOL. inet_diag reads the request, and writes what all sockets of IP
 * have in common.
 *
 * Rust gives the sockets, a few each time that it takes its lock, in an order that does not change:
 * a list of any length has each socket that is there all the time, once. Nothing is locked while
 * they are written.
 */
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <net/ipv6.h>
#include <net/tcp_states.h>
#include "internal.h"

#if IS_ENABLED(CONFIG_INET_DIAG)

/* So many sockets are had at once. */
#define KNT_LISTED 8

/* INET_DIAG_INFO of a socket: docs/sockets.md. Grows at its end. */
struct knt_diag_info {
	__u32 whole;
	__u32 incoming;
	__u32 outgoing;
	__u32 pad;
};

/*
 * A socket that is closed and still sends is where TCP's would be. All others are as UDP's: there
 * is no state of listening.
 */
static u8 knt_diag_state(const struct knt_listed *it)
{
	if (it->closing)
		return TCP_FIN_WAIT1;
	return READ_ONCE(it->sk->sk_state) == TCP_ESTABLISHED ? TCP_ESTABLISHED : TCP_CLOSE;
}

static int knt_diag_fill(const struct knt_listed *it, struct sk_buff *skb,
			 struct netlink_callback *cb, const struct inet_diag_req_v2 *req, u16 flags,
			 bool net_admin)
{
	struct nlmsghdr *nlh = (struct nlmsghdr *)skb_tail_pointer(skb);
	const struct knt_diag_info info = {
		.whole = it->queues.whole,
		.incoming = it->queues.incoming,
		.outgoing = it->queues.outgoing,
	};
	struct inet_diag_msg *r;
	int err;

	err = inet_sk_diag_fill(it->sk, NULL, skb, cb, req, flags, net_admin);
	if (err)
		return err;
	r = nlmsg_data(nlh);
	r->idiag_state = knt_diag_state(it);
	r->idiag_rqueue = min_t(u64, it->queues.readable, U32_MAX);
	r->idiag_wqueue = min_t(u64, it->queues.unacknowledged, U32_MAX);
	if ((req->idiag_ext & (1 << (INET_DIAG_INFO - 1))) &&
	    nla_put_64bit(skb, INET_DIAG_INFO, sizeof(info), &info, INET_DIAG_PAD)) {
		nlmsg_cancel(skb, nlh);
		return -EMSGSIZE;
	}
	nlmsg_end(skb, nlh);
	return 0;
}

/* For inet_sk_diag_fill(), which has no queues of a socket that Rust knows. */
static void knt_diag_get_info(struct sock *sk, struct inet_diag_msg *r, void *info)
{
	r->idiag_rqueue = 0;
	r->idiag_wqueue = 0;
}

static bool knt_diag_wanted(const struct knt_listed *it, struct netlink_callback *cb,
			    const struct inet_diag_req_v2 *req)
{
	const struct inet_sock *inet = inet_sk(it->sk);

	if (!net_eq(sock_net(it->sk), sock_net(cb->skb->sk)))
		return false;
	if (!(req->idiag_states & (1 << knt_diag_state(it))))
		return false;
	if (req->sdiag_family != AF_UNSPEC && it->sk->sk_family != req->sdiag_family)
		return false;
	if (req->id.idiag_sport && req->id.idiag_sport != htons(READ_ONCE(inet->inet_num)))
		return false;
	if (req->id.idiag_dport && req->id.idiag_dport != READ_ONCE(inet->inet_dport))
		return false;
	return inet_diag_bc_sk(cb->data, it->sk);
}

static void knt_diag_dump(struct sk_buff *skb, struct netlink_callback *cb,
			  const struct inet_diag_req_v2 *req)
{
	bool net_admin = netlink_net_capable(cb->skb, CAP_NET_ADMIN);
	struct knt_net *tn = knt_net_of(sock_net(cb->skb->sk));
	struct knt_listed list[KNT_LISTED];
	bool full = false;
	u32 count, i;

	BUILD_BUG_ON(sizeof(cb->args[0]) < sizeof(u64));
	if (knt_wait_ready())
		return;
	do {
		count = knt_ops->sock_list(tn, NULL, cb->args[0], list, KNT_LISTED);
		for (i = 0; i < count; i++) {
			if (!full && knt_diag_wanted(&list[i], cb, req))
				full = knt_diag_fill(&list[i], skb, cb, req, NLM_F_MULTI, net_admin);
			if (!full)
				cb->args[0] = list[i].next;
			sock_put(list[i].sk);
		}
		cond_resched();
	} while (!full && count == KNT_LISTED);
}

/* The name that a request gives, as Rust knows it. */
static void knt_diag_name(const struct inet_diag_req_v2 *req, struct knt_sock_name *name)
{
	struct in6_addr *local = (struct in6_addr *)name->local.ip;
	struct in6_addr *peer = (struct in6_addr *)name->peer.ip;

	memset(name, 0, sizeof(*name));
	name->device = req->id.idiag_if;
	name->local.port = ntohs(req->id.idiag_sport);
	name->peer.port = ntohs(req->id.idiag_dport);
	if (req->sdiag_family == AF_INET) {
		name->local.v4 = true;
		name->peer.v4 = true;
		ipv6_addr_set_v4mapped(req->id.idiag_src[0], local);
		ipv6_addr_set_v4mapped(req->id.idiag_dst[0], peer);
		return;
	}
	memcpy(local, req->id.idiag_src, sizeof(*local));
	memcpy(peer, req->id.idiag_dst, sizeof(*peer));
	if (__ipv6_addr_needs_scope_id(ipv6_addr_type(peer)))
		name->peer.scope = name->device;
}

/* Whether it is the very socket that a request names. */
static bool knt_diag_same(struct sock *sk, struct net *net, const struct inet_diag_req_v2 *req)
{
	const struct inet_sock *inet = inet_sk(sk);

	if (!net_eq(sock_net(sk), net) || sk->sk_family != req->sdiag_family ||
	    htons(READ_ONCE(inet->inet_num)) != req->id.idiag_sport ||
	    READ_ONCE(inet->inet_dport) != req->id.idiag_dport ||
	    READ_ONCE(sk->sk_bound_dev_if) != req->id.idiag_if)
		return false;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		if (memcmp(&sk->sk_v6_rcv_saddr, req->id.idiag_src, sizeof(struct in6_addr)) ||
		    memcmp(&sk->sk_v6_daddr, req->id.idiag_dst, sizeof(struct in6_addr)))
			return false;
	} else
#endif
	if (READ_ONCE(inet->inet_rcv_saddr) != req->id.idiag_src[0] ||
	    READ_ONCE(inet->inet_daddr) != req->id.idiag_dst[0])
		return false;
	return !sock_diag_check_cookie(sk, req->id.idiag_cookie);
}

/* The same among those with a name, or among all. It has a reference then. */
static noinline_for_stack bool knt_diag_search(struct net *net, const struct inet_diag_req_v2 *req,
			    const struct knt_sock_name *name, struct knt_listed *found)
{
	struct knt_listed list[KNT_LISTED];
	bool done = false;
	u64 from = 0;
	u32 count, i;

	do {
		count = knt_ops->sock_list(knt_net_of(net), name, from, list, KNT_LISTED);
		for (i = 0; i < count; i++) {
			from = list[i].next;
			if (!done && knt_diag_same(list[i].sk, net, req)) {
				done = true;
				*found = list[i];
			} else {
				sock_put(list[i].sk);
			}
		}
		cond_resched();
	} while (!done && count == KNT_LISTED);
	return done;
}

/* Sockets that are closed, or have no port, are found by no name, but by looking at all. */
static int knt_diag_find(struct net *net, const struct inet_diag_req_v2 *req,
			 struct knt_listed *found)
{
	struct knt_sock_name name;
	int err;

	if (req->sdiag_family != AF_INET && req->sdiag_family != AF_INET6)
		return -EINVAL;
	err = knt_wait_ready();
	if (err)
		return err;
	knt_diag_name(req, &name);
	if (knt_diag_search(net, req, &name, found) || knt_diag_search(net, req, NULL, found))
		return 0;
	return -ENOENT;
}

static int knt_diag_dump_one(struct netlink_callback *cb, const struct inet_diag_req_v2 *req)
{
	struct net *net = sock_net(cb->skb->sk);
	struct knt_listed it;
	struct sk_buff *skb;
	int err;

	err = knt_diag_find(net, req, &it);
	if (err)
		return err;
	err = -ENOMEM;
	skb = nlmsg_new(nla_total_size(sizeof(struct inet_diag_msg)) + inet_diag_msg_attrs_size() +
			nla_total_size(sizeof(struct inet_diag_meminfo)) +
			nla_total_size(SK_MEMINFO_VARS * sizeof(u32)) +
			nla_total_size_64bit(sizeof(struct knt_diag_info)) + 64, GFP_KERNEL);
	if (!skb)
		goto out;
	err = knt_diag_fill(&it, skb, cb, req, 0, netlink_net_capable(cb->skb, CAP_NET_ADMIN));
	if (err) {
		kfree_skb(skb);
		goto out;
	}
	err = nlmsg_unicast(net->diag_nlsk, skb, NETLINK_CB(cb->skb).portid);
out:
	sock_put(it.sk);
	return err;
}

static int knt_diag_destroy(struct sk_buff *skb, const struct inet_diag_req_v2 *req)
{
	struct knt_listed it;
	int err;

	if (!netlink_net_capable(skb, CAP_NET_ADMIN))
		return -EPERM;
	err = knt_diag_find(sock_net(skb->sk), req, &it);
	if (err)
		return err;
	knt_sock_abort(it.sk, it.handle, ECONNABORTED);
	sock_put(it.sk);
	return 0;
}

static struct inet_diag_handler knt_diag_handler = {
	.owner = THIS_MODULE,
	.dump = knt_diag_dump,
	.dump_one = knt_diag_dump_one,
	.idiag_get_info = knt_diag_get_info,
	.destroy = knt_diag_destroy,
};

int knt_diag_register(void)
{
	knt_diag_handler.idiag_type = knt_ops->numbers.protocol;
	return inet_diag_register(&knt_diag_handler);
}

/* Who is in one of the functions holds the module, and is waited for with the others who do. */
void knt_diag_unregister(void)
{
	inet_diag_unregister(&knt_diag_handler);
}

#else

int knt_diag_register(void)
{
	return 0;
}

void knt_diag_unregister(void)
{
}

#endif
