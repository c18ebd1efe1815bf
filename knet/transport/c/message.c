// SPDX-License-Identifier: GPL-2.0
/* What sendmsg and recvmsg are given and give: addresses, ancillary data, the error queue. */
#include <linux/bpf-cgroup.h>
#include <linux/errqueue.h>
#include <linux/socket.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include "internal.h"

/* What ancillary data is for, KNT_CMSG_*; KNT_CMSGS: nothing that is known. */
static u32 knt_cmsg(const struct cmsghdr *cmsg)
{
	u32 what;

	for (what = 0; what < KNT_CMSGS; what++)
		if (cmsg->cmsg_type == knt_ops->numbers.ancillary[what])
			break;
	return what;
}

static int knt_destination(struct sock *sk, struct msghdr *msg, struct knt_address *to)
{
	DECLARE_SOCKADDR(struct sockaddr_in *, sin, msg->msg_name);
	DECLARE_SOCKADDR(struct sockaddr_in6 *, sin6, msg->msg_name);

	if (msg->msg_namelen < offsetofend(struct sockaddr, sa_family))
		return -EINVAL;
	to->scope = 0;
	if (sin->sin_family == AF_INET) {
		if (msg->msg_namelen < sizeof(*sin))
			return -EINVAL;
		if (sk->sk_family == AF_INET6 && ipv6_only_sock(sk))
			return -ENETUNREACH;
		ipv6_addr_set_v4mapped(sin->sin_addr.s_addr, (struct in6_addr *)to->ip);
		to->port = ntohs(sin->sin_port);
	} else if (sin->sin_family == AF_INET6 && sk->sk_family == AF_INET6) {
		if (msg->msg_namelen < SIN6_LEN_RFC2133)
			return -EINVAL;
		*(struct in6_addr *)to->ip = sin6->sin6_addr;
		to->port = ntohs(sin6->sin6_port);
		if (msg->msg_namelen >= sizeof(*sin6) &&
		    __ipv6_addr_needs_scope_id(ipv6_addr_type(&sin6->sin6_addr)))
			to->scope = sin6->sin6_scope_id;
	} else {
		return -EAFNOSUPPORT;
	}
	return to->port ? 0 : -EINVAL;
}

/* IP_PKTINFO and IPV6_PKTINFO: the source and the device of the message. */
static int knt_wish(const struct sock *sk, const struct cmsghdr *cmsg, struct knt_wish *wish)
{
	struct in6_addr *source = (struct in6_addr *)wish->source;

	if (cmsg->cmsg_level == SOL_IP) {
		struct in_pktinfo info;

		if (cmsg->cmsg_type != IP_PKTINFO || cmsg->cmsg_len != CMSG_LEN(sizeof(info)))
			return -EINVAL;
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		if (info.ipi_spec_dst.s_addr)
			ipv6_addr_set_v4mapped(info.ipi_spec_dst.s_addr, source);
		if (info.ipi_ifindex < 0)
			return -EINVAL;
		wish->device = info.ipi_ifindex;
	} else {
		struct in6_pktinfo info;

		if (cmsg->cmsg_type != IPV6_PKTINFO || cmsg->cmsg_len != CMSG_LEN(sizeof(info)))
			return -EINVAL;
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		*source = info.ipi6_addr;
		wish->device = info.ipi6_ifindex;
	}
	return 0;
}

#ifdef CONFIG_CGROUP_BPF
/*
 * The programs for sendmsg(2) of sockets that are not connected, of the socket's cgroup: as for
 * UDP. They may refuse the call, or change where the message goes and what it comes from.
 */
static int knt_ask4(struct sock *sk, struct knt_send_options *options)
{
	struct in6_addr *to = (struct in6_addr *)options->to.ip;
	struct in6_addr *source = (struct in6_addr *)options->wish.source;
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons(options->to.port),
		.sin_addr.s_addr = to->s6_addr32[3],
	};
	__be32 from = source->s6_addr32[3];
	int len = sizeof(sin);
	int err;

	if (!cgroup_bpf_enabled(CGROUP_UDP4_SENDMSG))
		return 0;
	err = __cgroup_bpf_run_filter_sock_addr(sk, (struct sockaddr_unsized *)&sin, &len,
						CGROUP_UDP4_SENDMSG, &from, NULL);
	if (err)
		return err;
	ipv6_addr_set_v4mapped(sin.sin_addr.s_addr, to);
	options->to.port = ntohs(sin.sin_port);
	if (from)
		ipv6_addr_set_v4mapped(from, source);
	return options->to.port ? 0 : -EINVAL;
}

static int knt_ask6(struct sock *sk, struct knt_send_options *options)
{
	struct in6_addr *to = (struct in6_addr *)options->to.ip;
	struct sockaddr_in6 sin6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(options->to.port),
		.sin6_addr = *to,
		.sin6_scope_id = options->to.scope,
	};
	int len = sizeof(sin6);
	int err;

	if (!cgroup_bpf_enabled(CGROUP_UDP6_SENDMSG))
		return 0;
	err = __cgroup_bpf_run_filter_sock_addr(sk, (struct sockaddr_unsized *)&sin6, &len,
						CGROUP_UDP6_SENDMSG, options->wish.source, NULL);
	if (err)
		return err;
	/* As UDP: the other family is for the other hook. */
	if (ipv6_addr_v4mapped(&sin6.sin6_addr))
		return -EOPNOTSUPP;
	*to = sin6.sin6_addr;
	options->to.port = ntohs(sin6.sin6_port);
	return options->to.port ? 0 : -EINVAL;
}

static int knt_ask(struct sock *sk, struct knt_send_options *options)
{
	if (ipv6_addr_v4mapped((struct in6_addr *)options->to.ip))
		return knt_ask4(sk, options);
	return knt_ask6(sk, options);
}
#else
static int knt_ask(struct sock *sk, struct knt_send_options *options)
{
	return 0;
}
#endif

static int knt_ancillary(const struct cmsghdr *cmsg, struct knt_send_options *options)
{
	u32 what = knt_cmsg(cmsg);
	u64 wide = 0;
	u32 narrow = 0;

	switch (what) {
	case KNT_CMSG_LENGTH:
	case KNT_CMSG_DEADLINE:
		if (cmsg->cmsg_len != CMSG_LEN(sizeof(wide)))
			return -EINVAL;
		memcpy(&wide, CMSG_DATA(cmsg), sizeof(wide));
		break;
	case KNT_CMSG_COFLOW:
	case KNT_CMSG_PRIORITY:
	case KNT_CMSG_UNKNOWN_SIZE:
		if (cmsg->cmsg_len != CMSG_LEN(sizeof(narrow)))
			return -EINVAL;
		memcpy(&narrow, CMSG_DATA(cmsg), sizeof(narrow));
		break;
	default:
		return -EINVAL;
	}

	switch (what) {
	case KNT_CMSG_LENGTH:
		if (!wide)
			return -EINVAL;
		options->length = wide;
		break;
	case KNT_CMSG_DEADLINE:
		options->deadline = wide;
		options->has_deadline = true;
		break;
	case KNT_CMSG_COFLOW:
		if (!narrow)
			return -EINVAL;
		options->coflow = narrow;
		break;
	case KNT_CMSG_PRIORITY:
		if (narrow > 7)
			return -EINVAL;
		options->priority = narrow;
		break;
	case KNT_CMSG_UNKNOWN_SIZE:
		if (narrow > 1)
			return -EINVAL;
		options->unknown_size = narrow;
		options->has_unknown_size = true;
		break;
	}
	return 0;
}

static int knt_all_ancillary(const struct sock *sk, struct msghdr *msg,
			     struct knt_send_options *options)
{
	struct cmsghdr *cmsg;
	int err;

	for_each_cmsghdr(cmsg, msg) {
		if (!CMSG_OK(msg, cmsg))
			return -EINVAL;
		if (cmsg->cmsg_level == knt_ops->numbers.level)
			err = knt_ancillary(cmsg, options);
		else if (cmsg->cmsg_level == SOL_IP ||
			 (cmsg->cmsg_level == SOL_IPV6 && sk->sk_family == AF_INET6))
			err = knt_wish(sk, cmsg, &options->wish);
		else if (cmsg->cmsg_level == SOL_SOCKET)
			err = -EINVAL;
		else
			err = 0;
		if (err)
			return err;
	}
	return 0;
}

int knt_msg_send_options(struct sock *sk, struct msghdr *msg, struct knt_send_options *options)
{
	int err;

	memset(options, 0, sizeof(*options));
	options->priority = -1;
	if (msg->msg_flags & MSG_OOB)
		return -EOPNOTSUPP;
	options->more = msg->msg_flags & MSG_MORE;
	options->dont_wait = msg->msg_flags & MSG_DONTWAIT;
	if (msg->msg_name && msg->msg_namelen) {
		err = knt_destination(sk, msg, &options->to);
		if (err)
			return err;
		options->has_to = true;
	}
	if (msg->msg_controllen) {
		err = knt_all_ancillary(sk, msg, options);
		if (err)
			return err;
	}
	return options->has_to ? knt_ask(sk, options) : 0;
}

static int knt_fill_name(const struct sock *sk, void *name, const struct knt_address *from)
{
	const struct in6_addr *ip = (const struct in6_addr *)from->ip;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		struct sockaddr_in6 *sin6 = name;

		memset(sin6, 0, sizeof(*sin6));
		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = *ip;
		sin6->sin6_port = htons(from->port);
		sin6->sin6_scope_id = ipv6_iface_scope_id(ip, from->scope);
		return sizeof(*sin6);
	}
#endif
	{
		struct sockaddr_in *sin = name;

		memset(sin, 0, sizeof(*sin));
		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = ip->s6_addr32[3];
		sin->sin_port = htons(from->port);
		return sizeof(*sin);
	}
}

/* Says where what is received came from. */
void knt_msg_set_source(struct sock *sk, struct msghdr *msg, const struct knt_address *from)
{
	int len;

	if (!msg->msg_name)
		return;
	len = knt_fill_name(sk, msg->msg_name, from);
	/* They may change what the application is told, and cannot refuse it. */
	if (sk->sk_family == AF_INET6)
		BPF_CGROUP_RUN_SA_PROG(sk, msg->msg_name, &len, CGROUP_UDP6_RECVMSG);
	else
		BPF_CGROUP_RUN_SA_PROG(sk, msg->msg_name, &len, CGROUP_UDP4_RECVMSG);
	msg->msg_namelen = len;
}

/* IP_PKTINFO and IPV6_RECVPKTINFO: where it came to, and by which device. */
void knt_msg_put_local(struct sock *sk, struct msghdr *msg, const u8 local[16], u32 device)
{
	const struct in6_addr *ip = (const struct in6_addr *)local;

	if (inet_test_bit(PKTINFO, sk) && ipv6_addr_v4mapped(ip)) {
		struct in_pktinfo info = {
			.ipi_ifindex = device,
			.ipi_spec_dst.s_addr = ip->s6_addr32[3],
			.ipi_addr.s_addr = ip->s6_addr32[3],
		};

		put_cmsg(msg, SOL_IP, IP_PKTINFO, sizeof(info), &info);
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && inet6_sk(sk)->rxopt.bits.rxinfo) {
		struct in6_pktinfo info = {
			.ipi6_addr = *ip,
			.ipi6_ifindex = device,
		};

		put_cmsg(msg, SOL_IPV6, IPV6_PKTINFO, sizeof(info), &info);
	}
#endif
}

void knt_msg_set_flags(struct msghdr *msg, bool end, bool truncated)
{
	if (end)
		msg->msg_flags |= MSG_EOR;
	if (truncated)
		msg->msg_flags |= MSG_TRUNC;
}

void knt_msg_put_info(struct msghdr *msg, const u64 info[4])
{
	const struct knt_numbers *numbers = &knt_ops->numbers;

	put_cmsg(msg, numbers->level, numbers->ancillary[KNT_CMSG_INFO], 4 * sizeof(u64),
		 (void *)info);
}

/*
 * Memory of reports that a socket may have beside its messages, in parts of four of the receive
 * buffer: those of deliveries leave room for those of failures.
 */
#define KNT_REPORTS_DELIVERED 2
#define KNT_REPORTS_ALL 3

static void knt_report_destruct(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	knt_mem_uncharge_report(sk, skb->truesize);
	spin_lock_bh(&knt_sk(sk)->report_lock);
	knt_sk(sk)->reported -= skb->truesize;
	spin_unlock_bh(&knt_sk(sk)->report_lock);
}

/* With the socket's report_lock. False: there is no room, or no memory. */
static bool knt_report_queue(struct sock *sk, const struct knt_report *report, u8 type, u32 parts)
{
	struct knt_sock *knt = knt_sk(sk);
	u32 most = READ_ONCE(sk->sk_rcvbuf) / 4 * parts;
	struct sock_exterr_skb *serr;
	struct sk_buff *skb;

	if (knt->reported >= most)
		return false;
	skb = alloc_skb(sizeof(report->peer), GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return false;
	if (!knt_mem_charge_report(sk, skb->truesize)) {
		kfree_skb(skb);
		return false;
	}
	skb_put_data(skb, &report->peer, sizeof(report->peer));
	serr = SKB_EXT_ERR(skb);
	memset(serr, 0, sizeof(*serr));
	serr->ee.ee_errno = report->error;
	serr->ee.ee_origin = knt_ops->numbers.ee_origin;
	serr->ee.ee_type = type;
	serr->ee.ee_info = report->info;
	serr->ee.ee_data = report->number;
	knt->reported += skb->truesize;
	skb->sk = sk;
	skb->destructor = knt_report_destruct;
	skb_queue_tail(&sk->sk_error_queue, skb);
	return true;
}

/* Tells how many reports were lost, if any were and there is room now. With report_lock. */
static bool knt_report_lost(struct sock *sk, u32 parts)
{
	struct knt_lost *lost = &knt_sk(sk)->lost;
	struct knt_report report = lost->last;

	if (!lost->reports)
		return true;
	report.info = lost->reports;
	report.number = lost->failures;
	if (lost->failures)
		parts = KNT_REPORTS_ALL;
	if (!knt_report_queue(sk, &report, knt_ops->numbers.ee_lost, parts))
		return false;
	memset(lost, 0, sizeof(*lost));
	return true;
}

static u32 knt_add(u32 a, u32 b)
{
	return a > U32_MAX - b ? U32_MAX : a + b;
}

/*
 * Queues a report of what became of a message, for knt_msg_receive_error(). Any context. What
 * cannot be queued is counted, and that is told before anything that happens later.
 */
void knt_sock_report(struct sock *sk, const struct knt_report *report)
{
	u8 type = report->error ? knt_ops->numbers.ee_failed : knt_ops->numbers.ee_delivered;
	u32 parts = report->error ? KNT_REPORTS_ALL : KNT_REPORTS_DELIVERED;
	struct knt_sock *knt = knt_sk(sk);

	if (sock_flag(sk, SOCK_DEAD))
		return;
	spin_lock_bh(&knt->report_lock);
	if (!knt_report_lost(sk, parts) || !knt_report_queue(sk, report, type, parts)) {
		knt->lost.reports = knt_add(knt->lost.reports, 1);
		if (report->error) {
			knt->lost.failures = knt_add(knt->lost.failures, 1);
			knt->lost.last = *report;
		}
	}
	spin_unlock_bh(&knt->report_lock);
	sk_error_report(sk);
}

/* As ip_recv_error() and ipv6_recv_error(), for reports; they carry no data. */
int knt_msg_receive_error(struct sock *sk, struct msghdr *msg, size_t len)
{
	struct {
		struct sock_extended_err ee;
		union {
			struct sockaddr_in sin;
			struct sockaddr_in6 sin6;
		} offender;
	} error;
	struct knt_address peer;
	struct sk_buff *skb;
	int size;

	skb = sock_dequeue_err_skb(sk);
	if (!skb)
		return -EAGAIN;
	memset(&error, 0, sizeof(error));
	error.ee = SKB_EXT_ERR(skb)->ee;
	if (error.ee.ee_origin == knt_ops->numbers.ee_origin &&
	    !skb_copy_bits(skb, 0, &peer, sizeof(peer))) {
		size = knt_fill_name(sk, &error.offender, &peer);
		knt_msg_set_source(sk, msg, &peer);
	} else {
		size = sk->sk_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	}
	size += offsetof(typeof(error), offender);
	if (sk->sk_family == AF_INET6)
		put_cmsg(msg, SOL_IPV6, IPV6_RECVERR, size, &error);
	else
		put_cmsg(msg, SOL_IP, IP_RECVERR, size, &error);
	msg->msg_flags |= MSG_ERRQUEUE;
	consume_skb(skb);
	spin_lock_bh(&knt_sk(sk)->report_lock);
	knt_report_lost(sk, KNT_REPORTS_DELIVERED);
	spin_unlock_bh(&knt_sk(sk)->report_lock);
	return 0;
}
