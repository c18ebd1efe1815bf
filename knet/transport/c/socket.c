// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets: what the kernel calls, and what is the same for all protocols. What happens to messages
 * is Rust's. AF_INET6 has a table of its own, because inet6_dgram_ops is not exported, and both
 * have one so that an open socket holds this module.
 */
#include <linux/bpf-cgroup.h>
#include <linux/cred.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/percpu_counter.h>
#include <linux/sockios.h>
#include <linux/user_namespace.h>
#include <asm/ioctls.h>
#include <net/inet_common.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/protocol.h>
#include <net/transp_v6.h>
#include <net/udp.h>
#include "internal.h"

static atomic_long_t knt_memory_allocated;
static DEFINE_PER_CPU(int, knt_memory_per_cpu);
static long knt_memory_limits[3] __read_mostly;
static unsigned long knt_memory_pressure __read_mostly;
static struct percpu_counter knt_sockets;
/* What a socket may have, each way, while memory is scarce (knt_sockets_register()). */
static int knt_memory_least[3] = { 4096, 4096, 4096 };

/*
 * Whom a socket counts for, where users share something: its maker. Who can make users by making
 * user namespaces gets no more by that: such a namespace counts as the user who made it, down from
 * the one that the network namespace belongs to.
 */
static u32 knt_user(const struct net *net)
{
	const struct user_namespace *ns = current_user_ns();
	kuid_t user = current_euid();

	while (ns != net->user_ns && ns->parent) {
		user = ns->owner;
		ns = ns->parent;
	}
	return __kuid_val(user);
}

/*
 * Wakes who waits for room, or for the end of what is sent. The kernel's own would not while
 * sk_wmem_alloc is more than half of the buffer, which says little of ours: Rust counts.
 */
static void knt_write_space(struct sock *sk)
{
	struct socket_wq *wq;

	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	if (skwq_has_sleeper(wq))
		wake_up_interruptible_sync_poll(&wq->wait, EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
	sk_wake_async_rcu(sk, SOCK_WAKE_SPACE, POLL_OUT);
	rcu_read_unlock();
}

static int knt_init(struct sock *sk)
{
	int err;

	spin_lock_init(&knt_sk(sk)->mem_lock);
	knt_sk(sk)->user = knt_user(sock_net(sk));
	spin_lock_init(&knt_sk(sk)->report_lock);
	sk->sk_write_space = knt_write_space;
	timer_setup(&sk->sk_timer, knt_sock_timer, 0);
	err = knt_wait_ready();
	if (err)
		return err;
	err = knt_net_open(knt_net_of(sock_net(sk)));
	if (err)
		return err;
	knt_sk(sk)->opened = true;
	sock_prot_inuse_add(sock_net(sk), sk->sk_prot, 1);
	sk_sockets_allocated_inc(sk);
	/* Options of SOL_SOCKET come to knt_ops_setsockopt(). */
	set_bit(SOCK_CUSTOM_SOCKOPT, &sk->sk_socket->flags);
	return knt_ops->sock_open(sk);
}

static void knt_unhash(struct sock *sk);

static void knt_close(struct sock *sk, long timeout)
{
	lock_sock(sk);
	WRITE_ONCE(sk->sk_shutdown, SHUTDOWN_MASK);
	knt_ops->sock_close(sk, sock_flag(sk, SOCK_LINGER) && !sk->sk_lingertime, timeout);
	sk_stop_timer(sk, &sk->sk_timer);
	release_sock(sk);
	sock_hold(sk);
	sk_common_release(sk);
	/* What it still sends is from this port: for those who list sockets, by it too. */
	WRITE_ONCE(inet_sk(sk)->inet_num, ntohs(inet_sk(sk)->inet_sport));
	sock_put(sk);
}

/*
 * Ends a socket and its messages for whom it is not: the next call on it fails with err. Then it is
 * shut down, and has no port. One that is closed has only messages to end. Process context.
 */
void knt_sock_abort(struct sock *sk, u64 handle, int err)
{
	lock_sock(sk);
	knt_ops->sock_abort(sk, handle);
	if (!sock_flag(sk, SOCK_DEAD)) {
		WRITE_ONCE(sk->sk_err, err);
		WRITE_ONCE(sk->sk_shutdown, SHUTDOWN_MASK);
		__udp_disconnect(sk, 0);
		knt_unhash(sk);
		inet_sk(sk)->inet_sport = 0;
		sk->sk_userlocks &= ~(SOCK_BINDADDR_LOCK | SOCK_BINDPORT_LOCK);
		sk_error_report(sk);
	}
	release_sock(sk);
}

static int knt_get_port(struct sock *sk, unsigned short port)
{
	int bound = knt_ops->sock_bind(sk, port);

	if (bound < 0)
		return bound;
	inet_sk(sk)->inet_num = bound;
	inet_sk(sk)->inet_sport = htons(bound);
	return 0;
}

static void knt_unhash(struct sock *sk)
{
	if (!inet_sk(sk)->inet_num)
		return;
	knt_ops->sock_unbind(sk);
	inet_sk(sk)->inet_num = 0;
}

/*
 * Also of a socket whose making failed in or after knt_init(). It gives its port back here, with
 * the lock: sk_common_release() calls knt_unhash() without.
 */
static void knt_destroy(struct sock *sk)
{
	if (!knt_sk(sk)->opened)
		return;
	lock_sock(sk);
	knt_ops->sock_close(sk, false, 0);
	knt_unhash(sk);
	release_sock(sk);
	knt_mem_forget_growth(sk);
	sk_sockets_allocated_dec(sk);
	sock_prot_inuse_add(sock_net(sk), sk->sk_prot, -1);
}

/* As UDP's: the programs of the socket's cgroup are asked, with an address that is all there. */
static int knt_pre_connect(struct sock *sk, struct sockaddr_unsized *address, int len)
{
	if (len < sizeof(struct sockaddr_in))
		return -EINVAL;
	return BPF_CGROUP_RUN_PROG_INET4_CONNECT_LOCK(sk, address, &len);
}

#if IS_ENABLED(CONFIG_IPV6)
static int knt6_pre_connect(struct sock *sk, struct sockaddr_unsized *address, int len)
{
	if (len < offsetofend(struct sockaddr, sa_family))
		return -EINVAL;
	if (address->sa_family == AF_INET)
		return ipv6_only_sock(sk) ? -EAFNOSUPPORT : knt_pre_connect(sk, address, len);
	if (len < SIN6_LEN_RFC2133)
		return -EINVAL;
	return BPF_CGROUP_RUN_PROG_INET6_CONNECT_LOCK(sk, address, &len);
}
#endif

/*
 * The kernel calls rehash() where it changes the local address, and that before it has noted the
 * peer. What finds sockets has to know of both.
 */
static void knt_moved(struct sock *sk)
{
	if (inet_sk(sk)->inet_num)
		knt_ops->sock_moved(sk);
}

static int knt_connect(struct sock *sk, struct sockaddr_unsized *address, int len)
{
	int err;

	lock_sock(sk);
	err = __ip4_datagram_connect(sk, address, len);
	knt_moved(sk);
	release_sock(sk);
	return err;
}

#if IS_ENABLED(CONFIG_IPV6)
static int knt6_connect(struct sock *sk, struct sockaddr_unsized *address, int len)
{
	int err;

	lock_sock(sk);
	err = __ip6_datagram_connect(sk, address, len);
	knt_moved(sk);
	release_sock(sk);
	return err;
}
#endif

/* inet_dgram_connect() calls it without the lock. */
static int knt_disconnect(struct sock *sk, int flags)
{
	int err;

	lock_sock(sk);
	err = __udp_disconnect(sk, flags);
	knt_moved(sk);
	release_sock(sk);
	return err;
}

static void knt_shutdown(struct sock *sk, int how)
{
	knt_ops->sock_shutdown(sk, how);
}

static int knt_ioctl(struct sock *sk, int cmd, int *value)
{
	int queued;

	switch (cmd) {
	case SIOCINQ:
		queued = knt_ops->queued(sk, KNT_QUEUE_IN);
		break;
	case SIOCOUTQ:
		queued = knt_ops->queued(sk, KNT_QUEUE_OUT);
		break;
	default:
		return -ENOIOCTLCMD;
	}
	if (queued < 0)
		return queued;
	*value = queued;
	return 0;
}

/*
 * The options of IP that mean for a message what they mean for a datagram. Others are refused, so
 * that nobody relies on them: docs/sockets.md has them all.
 */
static bool knt_is_ip_option(const struct sock *sk, int level, int option, bool set)
{
	if (level == SOL_IP) {
		switch (option) {
		case IP_TTL:
		case IP_PKTINFO:
		case IP_BIND_ADDRESS_NO_PORT:
			return true;
		case IP_MTU:
			return !set;
		}
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (level == SOL_IPV6 && sk->sk_family == AF_INET6) {
		switch (option) {
		case IPV6_V6ONLY:
		case IPV6_UNICAST_HOPS:
		case IPV6_RECVPKTINFO:
			return true;
		case IPV6_MTU:
			return !set;
		}
	}
#endif
	return false;
}

static int knt_setsockopt(struct sock *sk, int level, int option, sockptr_t from, unsigned int len)
{
	int value, err;
	u64 wide = 0;

	if (knt_is_ip_option(sk, level, option, true)) {
		if (level == SOL_IP)
			return ip_setsockopt(sk, level, option, from, len);
#if IS_ENABLED(CONFIG_IPV6)
		return ipv6_setsockopt(sk, level, option, from, len);
#endif
	}
	if (level != knt_ops->numbers.level)
		return -ENOPROTOOPT;
	if (len < sizeof(value))
		return -EINVAL;
	if (copy_from_sockptr(&value, from, sizeof(value)))
		return -EFAULT;
	if (len >= sizeof(wide) && copy_from_sockptr(&wide, from, sizeof(wide)))
		return -EFAULT;
	lock_sock(sk);
	err = knt_ops->set_option(sk, option, value, len >= sizeof(wide) ? &wide : NULL);
	release_sock(sk);
	return err;
}

static int knt_getsockopt(struct sock *sk, int level, int option, char __user *to,
			  int __user *len_to)
{
	s64 value;
	u32 word;
	int len;

	if (knt_is_ip_option(sk, level, option, false)) {
		if (level == SOL_IP)
			return ip_getsockopt(sk, level, option, to, len_to);
#if IS_ENABLED(CONFIG_IPV6)
		return ipv6_getsockopt(sk, level, option, to, len_to);
#endif
	}
	if (level != knt_ops->numbers.level)
		return -ENOPROTOOPT;
	if (get_user(len, len_to))
		return -EFAULT;
	if (len < 0)
		return -EINVAL;
	value = knt_ops->get_option(sk, option);
	/* The options' own values begin at -1. */
	if (value < -1)
		return value;
	word = value;
	len = min_t(int, len, sizeof(word));
	if (put_user(len, len_to) || copy_to_user(to, &word, len))
		return -EFAULT;
	return 0;
}

/* Who asked for signals gets one when there is room. True: there is some by now. */
static bool knt_wants_space(struct sock *sk)
{
	sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
	/* Pairs with the barrier of waitqueue_active() in sock_def_write_space(). */
	smp_mb__after_atomic();
	return knt_ops->poll(sk) & KNT_WRITABLE;
}

/* With MSG_ZEROCOPY, of a socket that has SO_ZEROCOPY. */
static int knt_send_lent(struct sock *sk, struct msghdr *msg, size_t len)
{
	struct ubuf_info *call = knt_call_begin(sk, len);
	int sent;

	if (!call)
		return -ENOBUFS;
	msg->msg_ubuf = call;
	sent = knt_ops->send(sk, msg, len);
	msg->msg_ubuf = NULL;
	knt_call_end(sk, call, sent > 0);
	return sent;
}

static int knt_sendmsg(struct sock *sk, struct msghdr *msg, size_t len)
{
	bool asks;
	int sent;

	/*
	 * Before it is found that there is no room: what comes free then is told, and nothing else, as
	 * who hears that there is room tries again at once.
	 */
	asks = sock_flag(sk, SOCK_FASYNC) &&
	       !test_bit(SOCKWQ_ASYNC_NOSPACE, &sk->sk_wq_raw->flags);
	if (asks)
		sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
	lock_sock(sk);
	if (unlikely(msg->msg_flags & MSG_ZEROCOPY) && sock_flag(sk, SOCK_ZEROCOPY) &&
	    !msg->msg_ubuf && len)
		sent = knt_send_lent(sk, msg, len);
	else
		sent = knt_ops->send(sk, msg, len);
	release_sock(sk);
	if (asks && sent != -EAGAIN)
		sk_clear_bit(SOCKWQ_ASYNC_NOSPACE, sk);
	return sent;
}

static int knt_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags)
{
	int received;

	lock_sock(sk);
	received = knt_ops->receive(sk, msg, len, flags);
	release_sock(sk);
	return received;
}

/* proto_ops, for both families */

static int knt_ops_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	return knt_sendmsg(sock->sk, msg, len);
}

static int knt_ops_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags)
{
	return knt_recvmsg(sock->sk, msg, len, flags);
}

/* Into a pipe: with references to the pages that the message came in. */
static ssize_t knt_ops_splice_read(struct socket *sock, loff_t *pos, struct pipe_inode_info *pipe,
				   size_t len, unsigned int flags)
{
	struct knt_splice splice = {
		.msg = { .msg_flags = MSG_SPLICE_PAGES },
		.sk = sock->sk,
		.pipe = pipe,
	};

	if (*pos)
		return -ESPIPE;
	return knt_recvmsg(sock->sk, &splice.msg, len,
			   sock->file->f_flags & O_NONBLOCK ? MSG_DONTWAIT : 0);
}

/* The kernel takes it for sockets of TCP and UDP alone. */
static int knt_set_zerocopy(struct sock *sk, sockptr_t from, unsigned int len)
{
	int value;

	if (len < sizeof(value))
		return -EINVAL;
	if (copy_from_sockptr(&value, from, sizeof(value)))
		return -EFAULT;
	if (value < 0 || value > 1)
		return -EINVAL;
	lock_sock(sk);
	sock_valbool_flag(sk, SOCK_ZEROCOPY, value);
	release_sock(sk);
	return 0;
}

/* Programs that choose among sockets which share a port: nobody would ask them. */
static int knt_ops_setsockopt(struct socket *sock, int level, int option, sockptr_t from,
			      unsigned int len)
{
	int err;

	if (level != SOL_SOCKET)
		return sock_common_setsockopt(sock, level, option, from, len);
	switch (option) {
	case SO_ATTACH_REUSEPORT_CBPF:
	case SO_ATTACH_REUSEPORT_EBPF:
	case SO_DETACH_REUSEPORT_BPF:
		return -EOPNOTSUPP;
	case SO_ZEROCOPY:
		return knt_set_zerocopy(sock->sk, from, len);
	case SO_RCVBUF:
	case SO_RCVBUFFORCE:
	case SO_BUF_LOCK:
		err = sock_setsockopt(sock, level, option, from, len);
		/* There may be room for messages that wait. */
		if (!err) {
			lock_sock(sock->sk);
			knt_ops->sock_resized(sock->sk);
			release_sock(sock->sk);
		}
		return err;
	default:
		return sock_setsockopt(sock, level, option, from, len);
	}
}

/* As for TCP: shutdown is for sockets without a peer too, which inet_shutdown() refuses. */
static int knt_ops_shutdown(struct socket *sock, int how)
{
	struct sock *sk = sock->sk;

	how++;
	if ((how & ~SHUTDOWN_MASK) || !how)
		return -EINVAL;
	lock_sock(sk);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | how);
	knt_shutdown(sk, how);
	sk->sk_state_change(sk);
	release_sock(sk);
	return 0;
}

static __poll_t knt_ops_poll(struct file *file, struct socket *sock, poll_table *wait)
{
	struct sock *sk = sock->sk;
	u8 shutdown;
	__poll_t mask = 0;
	u32 can;

	sock_poll_wait(file, sock, wait);
	can = knt_ops->poll(sk);
	shutdown = READ_ONCE(sk->sk_shutdown);
	/* In the midst of a message its reader is told of no other one's failure. */
	if ((READ_ONCE(sk->sk_err) && !((can & KNT_WITHIN) && !(shutdown & RCV_SHUTDOWN))) ||
	    !skb_queue_empty_lockless(&sk->sk_error_queue))
		mask |= EPOLLERR | (sock_flag(sk, SOCK_SELECT_ERR_QUEUE) ? EPOLLPRI : 0);
	if (shutdown & RCV_SHUTDOWN)
		mask |= EPOLLRDHUP | EPOLLIN | EPOLLRDNORM;
	if (shutdown == SHUTDOWN_MASK)
		mask |= EPOLLHUP;
	if (can & KNT_READABLE)
		mask |= EPOLLIN | EPOLLRDNORM;
	/* Who writes after a shutdown is told so at once. */
	if ((can & KNT_WRITABLE) || (shutdown & SEND_SHUTDOWN) || knt_wants_space(sk))
		mask |= EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
	return mask;
}

static void knt_enter_memory_pressure(struct sock *sk)
{
	WRITE_ONCE(knt_memory_pressure, 1);
}

#define KNT_PROTO							\
	.owner = THIS_MODULE,						\
	.close = knt_close,						\
	.disconnect = knt_disconnect,					\
	.ioctl = knt_ioctl,						\
	.init = knt_init,						\
	.destroy = knt_destroy,						\
	.shutdown = knt_shutdown,					\
	.setsockopt = knt_setsockopt,					\
	.getsockopt = knt_getsockopt,					\
	.sendmsg = knt_sendmsg,						\
	.recvmsg = knt_recvmsg,						\
	.unhash = knt_unhash,						\
	.rehash = knt_moved,						\
	.get_port = knt_get_port,					\
	.put_port = knt_unhash,						\
	.memory_allocated = &knt_memory_allocated,			\
	.memory_pressure = &knt_memory_pressure,			\
	.enter_memory_pressure = knt_enter_memory_pressure,		\
	.sockets_allocated = &knt_sockets,				\
	.per_cpu_fw_alloc = &knt_memory_per_cpu,			\
	.sysctl_mem = knt_memory_limits,				\
	.sysctl_wmem = knt_memory_least,				\
	.sysctl_rmem = knt_memory_least

static struct proto knt_proto = {
	KNT_PROTO,
	.pre_connect = knt_pre_connect,
	.connect = knt_connect,
	.release_cb = ip4_datagram_release_cb,
	.obj_size = sizeof(struct knt_sock),
};

static const struct proto_ops knt_inet_ops = {
	.family = PF_INET,
	.owner = THIS_MODULE,
	.release = inet_release,
	.bind = inet_bind,
	.connect = inet_dgram_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = inet_getname,
	.poll = knt_ops_poll,
	.ioctl = inet_ioctl,
	.gettstamp = sock_gettstamp,
	.listen = sock_no_listen,
	.shutdown = knt_ops_shutdown,
	.setsockopt = knt_ops_setsockopt,
	.getsockopt = sock_common_getsockopt,
	.sendmsg = knt_ops_sendmsg,
	.recvmsg = knt_ops_recvmsg,
	.splice_read = knt_ops_splice_read,
	.mmap = sock_no_mmap,
};

static struct inet_protosw knt_inet = {
	.type = SOCK_RDM,
	.prot = &knt_proto,
	.ops = &knt_inet_ops,
};

#if IS_ENABLED(CONFIG_IPV6)
static struct proto knt6_proto = {
	KNT_PROTO,
	.pre_connect = knt6_pre_connect,
	.connect = knt6_connect,
	.release_cb = ip6_datagram_release_cb,
	.obj_size = sizeof(struct knt6_sock),
	.ipv6_pinfo_offset = offsetof(struct knt6_sock, inet6),
};

static const struct proto_ops knt_inet6_ops = {
	.family = PF_INET6,
	.owner = THIS_MODULE,
	.release = inet6_release,
	.bind = inet6_bind,
	.connect = inet_dgram_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = inet6_getname,
	.poll = knt_ops_poll,
	.ioctl = inet6_ioctl,
	.gettstamp = sock_gettstamp,
	.listen = sock_no_listen,
	.shutdown = knt_ops_shutdown,
	.setsockopt = knt_ops_setsockopt,
	.getsockopt = sock_common_getsockopt,
	.sendmsg = knt_ops_sendmsg,
	.recvmsg = knt_ops_recvmsg,
	.splice_read = knt_ops_splice_read,
	.mmap = sock_no_mmap,
#ifdef CONFIG_COMPAT
	.compat_ioctl = inet6_compat_ioctl,
#endif
};

static struct inet_protosw knt_inet6 = {
	.type = SOCK_RDM,
	.prot = &knt6_proto,
	.ops = &knt_inet6_ops,
};
#endif

int knt_sockets_register(void)
{
	unsigned long pages = totalram_pages();
	int err;

	/*
	 * A sixth of the memory for all messages together. From an eighth until there is less than a
	 * tenth, a socket that has more than others have in the mean gets no more.
	 */
	knt_memory_limits[0] = max(pages / 10, 128UL);
	knt_memory_limits[1] = max(pages / 8, 160UL);
	knt_memory_limits[2] = max(pages / 6, 192UL);

	strscpy(knt_proto.name, knt_ops->numbers.name);
	knt_inet.protocol = knt_ops->numbers.protocol;
#if IS_ENABLED(CONFIG_IPV6)
	strscpy(knt6_proto.name, knt_ops->numbers.name6);
	knt_inet6.protocol = knt_ops->numbers.protocol;
#endif
	err = knt_segments_init();
	if (err)
		return err;
	err = percpu_counter_init(&knt_sockets, 0, GFP_KERNEL);
	if (err)
		return err;
	err = proto_register(&knt_proto, 1);
	if (err)
		goto counter;
#if IS_ENABLED(CONFIG_IPV6)
	err = proto_register(&knt6_proto, 1);
	if (err)
		goto proto;
	inet6_register_protosw(&knt_inet6);
#endif
	inet_register_protosw(&knt_inet);
	return 0;
#if IS_ENABLED(CONFIG_IPV6)
proto:
	proto_unregister(&knt_proto);
#endif
counter:
	percpu_counter_destroy(&knt_sockets);
	return err;
}

void knt_sockets_unregister(void)
{
	inet_unregister_protosw(&knt_inet);
#if IS_ENABLED(CONFIG_IPV6)
	inet6_unregister_protosw(&knt_inet6);
#endif
	knt_wait_unused();
#if IS_ENABLED(CONFIG_IPV6)
	proto_unregister(&knt6_proto);
#endif
	proto_unregister(&knt_proto);
	percpu_counter_destroy(&knt_sockets);
}
