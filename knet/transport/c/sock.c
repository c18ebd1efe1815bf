// SPDX-License-Identifier: GPL-2.0
/* What Rust asks of a socket, and how it waits and wakes. */
#include <linux/wait.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include "internal.h"

u64 knt_sock_handle(const struct sock *sk)
{
	return READ_ONCE(knt_sk(sk)->handle);
}

void knt_sock_set_handle(struct sock *sk, u64 handle)
{
	WRITE_ONCE(knt_sk(sk)->handle, handle);
}

struct knt_net *knt_sock_net(const struct sock *sk)
{
	return knt_net_of(sock_net(sk));
}

void knt_sock_hold(struct sock *sk)
{
	sock_hold(sk);
}

void knt_sock_put(struct sock *sk)
{
	sock_put(sk);
}

/* Whom it is connected to. False: nobody; then nothing is written. */
bool knt_sock_peer(const struct sock *sk, struct knt_address *peer)
{
	struct in6_addr *ip = (struct in6_addr *)peer->ip;

	if (sk->sk_state != TCP_ESTABLISHED)
		return false;
	peer->v4 = sk->sk_family == AF_INET;
	peer->port = ntohs(inet_sk(sk)->inet_dport);
	peer->scope = 0;
#if IS_ENABLED(CONFIG_IPV6)
	if (!peer->v4) {
		*ip = sk->sk_v6_daddr;
		if (__ipv6_addr_needs_scope_id(ipv6_addr_type(ip)))
			peer->scope = READ_ONCE(sk->sk_bound_dev_if);
		return true;
	}
#endif
	ipv6_addr_set_v4mapped(inet_sk(sk)->inet_daddr, ip);
	return true;
}

void knt_sock_view(struct sock *sk, struct knt_sock_view *view)
{
	struct inet_sock *inet = inet_sk(sk);
	struct in6_addr *local = (struct in6_addr *)view->local.ip;

	memset(view, 0, sizeof(*view));
	view->local.v4 = sk->sk_family == AF_INET;
	view->local.port = inet->inet_num;
	knt_sock_peer(sk, &view->peer);
	view->device = READ_ONCE(sk->sk_bound_dev_if);
	view->shares = sk->sk_reuseport;
	view->owner = __kuid_val(sk_uid(sk));
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		view->v6only = ipv6_only_sock(sk);
		*local = sk->sk_v6_rcv_saddr;
		return;
	}
#endif
	ipv6_addr_set_v4mapped(inet->inet_rcv_saddr, local);
}

/* Single facts of it, for those who need no more. */
u32 knt_sock_user(const struct sock *sk)
{
	return knt_sk(sk)->user;
}

struct knt_tie knt_sock_tie(const struct sock *sk)
{
	return (struct knt_tie) {
		.device = READ_ONCE(sk->sk_bound_dev_if),
		.mark = READ_ONCE(sk->sk_mark),
	};
}

bool knt_sock_is_shut(const struct sock *sk, bool send)
{
	return READ_ONCE(sk->sk_shutdown) & (send ? SEND_SHUTDOWN : RCV_SHUTDOWN);
}

u32 knt_sock_buffer(const struct sock *sk, bool send)
{
	return send ? READ_ONCE(sk->sk_sndbuf) : READ_ONCE(sk->sk_rcvbuf);
}

u16 knt_sock_port(const struct sock *sk)
{
	return inet_sk(sk)->inet_num;
}

/* From which the kernel chooses one for it: net.ipv4.ip_local_port_range of its namespace. */
struct knt_ports knt_sock_chosen(const struct sock *sk)
{
	int first, last;

	inet_sk_get_local_port_range(sk, &first, &last);
	return (struct knt_ports) {
		.first = first,
		.last = last,
	};
}

bool knt_sock_is_connected(const struct sock *sk)
{
	return sk->sk_state == TCP_ESTABLISHED;
}

/* The buffers of a new socket, which the application may change. */
void knt_sock_set_buffers(struct sock *sk, u32 send, u32 receive)
{
	WRITE_ONCE(sk->sk_sndbuf, min_t(u32, send, INT_MAX));
	WRITE_ONCE(sk->sk_rcvbuf, min_t(u32, receive, INT_MAX));
}

/* Whether the application has set SO_RCVBUF. */
bool knt_sock_receive_is_set(const struct sock *sk)
{
	return sk->sk_userlocks & SOCK_RCVBUF_LOCK;
}

/* Whether the application has set SO_SNDBUF. */
bool knt_sock_send_is_set(const struct sock *sk)
{
	return sk->sk_userlocks & SOCK_SNDBUF_LOCK;
}

/* With the socket's lock. */
int knt_sock_autobind(struct sock *sk)
{
	if (inet_sk(sk)->inet_num)
		return 0;
	return sk->sk_prot->get_port(sk, 0);
}

/* The pending error, which is gone then: 0 or a negative errno. */
int knt_sock_error(struct sock *sk)
{
	return sock_error(sk);
}

bool knt_sock_has_error(const struct sock *sk)
{
	return READ_ONCE(sk->sk_err);
}

void knt_sock_set_error(struct sock *sk, u32 error)
{
	if (sock_flag(sk, SOCK_DEAD))
		return;
	WRITE_ONCE(sk->sk_err, error);
	atomic_inc(&knt_sk(sk)->news);
	sk_error_report(sk);
}

/* How often there was something to read, or an error, for knt_sock_wait_for_news(). */
u32 knt_sock_news(const struct sock *sk)
{
	return atomic_read(&knt_sk(sk)->news);
}

void knt_sock_readable(struct sock *sk)
{
	/* Before it is asked whether somebody waits, which is behind a barrier. */
	atomic_inc(&knt_sk(sk)->news);
	if (!sock_flag(sk, SOCK_DEAD))
		sk->sk_data_ready(sk);
}

void knt_sock_writable(struct sock *sk)
{
	if (!sock_flag(sk, SOCK_DEAD))
		sk->sk_write_space(sk);
}

/* Wakes who waits for room to write in a while, though nothing that is sent moves meanwhile. */
void knt_sock_writable_later(struct sock *sk, u32 ms)
{
	sk_reset_timer(sk, &sk->sk_timer, jiffies + msecs_to_jiffies(ms) + 1);
}

/* The timer of knt_sock_writable_later(). */
void knt_sock_timer(struct timer_list *timer)
{
	struct sock *sk = timer_container_of(sk, timer, sk_timer);

	knt_sock_writable(sk);
	sock_put(sk);
}

/* How long a call may wait, in jiffies. */
long knt_sock_timeout(struct sock *sk, bool send, bool dont_wait)
{
	return send ? sock_sndtimeo(sk, dont_wait) : sock_rcvtimeo(sk, dont_wait);
}

/* Until the socket wakes whoever has joined its queue, a signal comes or the time is over. */
static int knt_sock_sleep(struct sock *sk, struct wait_queue_entry *wait, long *timeout)
{
	if (!*timeout)
		return -EAGAIN;
	if (signal_pending(current))
		return sock_intr_errno(*timeout);
	release_sock(sk);
	*timeout = wait_woken(wait, TASK_INTERRUPTIBLE, *timeout);
	lock_sock(sk);
	return 0;
}

/*
 * Waits until ready() says true, a signal comes or the time is over; the socket's lock, which the
 * caller has, is released meanwhile. Sockets wake with knt_sock_readable() and the like.
 */
int knt_sock_wait(struct sock *sk, long *timeout, bool (*ready)(void *), void *argument)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int err = 0;

	/* Most calls need not wait. */
	if (ready(argument))
		return 0;
	add_wait_queue(sk_sleep(sk), &wait);
	while (!err && !ready(argument))
		err = knt_sock_sleep(sk, &wait, timeout);
	remove_wait_queue(sk_sleep(sk), &wait);
	return err;
}

/*
 * Waits until the socket wakes whoever waits, if there is no news since there were so many: for who
 * looks then for himself whether that is what he waits for. What else wakes him, such as the end of
 * the socket, comes with the socket's lock.
 */
int knt_sock_wait_for_news(struct sock *sk, long *timeout, u32 seen)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int err = 0;

	add_wait_queue(sk_sleep(sk), &wait);
	/* Pairs with that of skwq_has_sleeper(). */
	smp_mb();
	if (knt_sock_news(sk) == seen)
		err = knt_sock_sleep(sk, &wait, timeout);
	remove_wait_queue(sk_sleep(sk), &wait);
	return err;
}
