// SPDX-License-Identifier: GPL-2.0
/*
 * What a network namespace has: a lock around Rust's state, a timer, and the UDP sockets that
 * packets come in by. All but the lock comes with the namespace's first Turnstile socket or its
 * first configuration, so that a namespace without either has no open port.
 */
#include <linux/random.h>
#include <linux/timekeeping.h>
#include <net/ipv6.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>
#include "internal.h"

static unsigned int knt_net_id;

struct knt_net *knt_net_of(struct net *net)
{
	return net_generic(net, knt_net_id);
}

struct net *knt_net_net(const struct knt_net *tn)
{
	return tn->net;
}

/* Whoever is root there is root of the machine. */
bool knt_net_is_initial(const struct knt_net *tn)
{
	return tn->net->user_ns == &init_user_ns;
}

/* Not NULL once knt_net_open() has returned 0. */
void *knt_net_state(struct knt_net *tn)
{
	return smp_load_acquire(&tn->state);
}

void knt_net_lock(struct knt_net *tn)
{
	spin_lock_bh(&tn->lock);
}

void knt_net_unlock(struct knt_net *tn)
{
	spin_unlock_bh(&tn->lock);
}

static void knt_net_start(struct knt_net *tn, u64 at)
{
	tn->armed = at;
	hrtimer_start(&tn->timer, ns_to_ktime(min_t(u64, at, KTIME_MAX)), HRTIMER_MODE_ABS_SOFT);
}

/*
 * When the timer is to fire next by knt_now(), ns; U64_MAX: not at all. With the lock.
 *
 * It is only set to an earlier time. Most of what it is set for is over before, such as the time by
 * which an answer has to be there, and is followed by the same of the next message: a timer that
 * fires early, and then finds what it is set for by now, costs much less than one that is set and
 * taken back with each of them.
 */
void knt_net_arm(struct knt_net *tn, u64 at)
{
	lockdep_assert_held(&tn->lock);
	tn->due = at;
	if (at < tn->armed && !tn->closing)
		knt_net_start(tn, at);
}

static enum hrtimer_restart knt_timer(struct hrtimer *timer)
{
	struct knt_net *tn = container_of(timer, struct knt_net, timer);
	bool early;

	spin_lock_bh(&tn->lock);
	tn->armed = U64_MAX;
	early = tn->due > knt_now();
	if (early && tn->due != U64_MAX && !tn->closing)
		knt_net_start(tn, tn->due);
	spin_unlock_bh(&tn->lock);
	if (!early)
		knt_ops->timer(tn);
	return HRTIMER_NORESTART;
}

/*
 * CLOCK_BOOTTIME, ns. It goes on while the machine is suspended, as the peers' clocks do: they
 * forget a message that they have when its sender's timeout is over, so that it must not be sent
 * again then. The timer runs by it, too, and does not wake the machine up.
 */
u64 knt_now(void)
{
	return ktime_get_boottime_ns();
}

/* The same, and CLOCK_TAI or CLOCK_REALTIME at that moment, ns: the hardware is read once. */
struct knt_times knt_times(bool tai)
{
	ktime_t now = ktime_get();

	return (struct knt_times){
		.now = ktime_to_ns(ktime_mono_to_any(now, TK_OFFS_BOOT)),
		.wall = ktime_to_ns(ktime_mono_to_any(now, tai ? TK_OFFS_TAI : TK_OFFS_REAL)),
	};
}

u64 knt_random(void)
{
	return get_random_u64();
}

/*
 * A UDP socket on the port, with knt_receive() for what comes. Does what udp_tunnel.ko does,
 * without needing it.
 */
static int knt_udp_open(struct knt_net *tn, int family, struct socket **result)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = knt_udp_port() };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = knt_udp_port() };
	struct socket *sock;
	int err;

	err = sock_create_kern(tn->net, family, SOCK_DGRAM, 0, &sock);
	if (err < 0)
		return err;
	if (family == AF_INET6) {
		err = ip6_sock_set_v6only(sock->sk);
		if (!err)
			err = kernel_bind(sock, (struct sockaddr_unsized *)&any6, sizeof(any6));
	} else {
		err = kernel_bind(sock, (struct sockaddr_unsized *)&any4, sizeof(any4));
	}
	if (err < 0) {
		sock_release(sock);
		return err;
	}
	/*
	 * No inet_inc_convert_csum(), which is for checksums inside a tunnel: where UDP splits a
	 * super-packet it would have each checksum made anew, and then look whether it is right.
	 */
	inet_clear_bit(MC_LOOP, sock->sk);
	sock->sk->sk_allocation = GFP_ATOMIC;
	rcu_assign_sk_user_data(sock->sk, tn);
	udp_sk(sock->sk)->encap_rcv = knt_receive;
	udp_sk(sock->sk)->encap_err_lookup = knt_error_lookup;
	udp_sk(sock->sk)->encap_err_rcv = knt_error_receive;
	/* Packets of a message that devices took from the wire one by one go up as one, too. */
	udp_set_bit(GRO_ENABLED, sock->sk);
	WRITE_ONCE(udp_sk(sock->sk)->encap_type, 1);
	udp_tunnel_encap_enable(sock->sk);
	*result = sock;
	return 0;
}

static void knt_udp_close(struct socket **sock)
{
	if (!*sock)
		return;
	rcu_assign_sk_user_data((*sock)->sk, NULL);
	kernel_sock_shutdown(*sock, SHUT_RDWR);
	sock_release(*sock);
	*sock = NULL;
}

/* Process context, may sleep. Also fine when it is open already. */
int knt_net_open(struct knt_net *tn)
{
	void *state;
	int err = 0;

	if (knt_net_state(tn))
		return 0;
	mutex_lock(&tn->open_lock);
	if (tn->state)
		goto out;
	state = knt_ops->net_open(tn);
	err = -ENOMEM;
	if (!state)
		goto out;
	err = knt_udp_open(tn, AF_INET, &tn->udp4);
	if (!err) {
		err = knt_udp_open(tn, AF_INET6, &tn->udp6);
		/* ipv6.disable=1 */
		if (err == -EAFNOSUPPORT)
			err = 0;
	}
	if (!err)
		err = knt_demux_open(tn);
	if (err) {
		knt_udp_close(&tn->udp4);
		knt_udp_close(&tn->udp6);
		/* A packet may be looking at the first socket; it finds no state and needs none. */
		knt_ops->net_close(state);
		goto out;
	}
	smp_store_release(&tn->state, state);
out:
	mutex_unlock(&tn->open_lock);
	return err;
}

static int __net_init knt_net_init(struct net *net)
{
	struct knt_net *tn = knt_net_of(net);

	tn->net = net;
	spin_lock_init(&tn->lock);
	spin_lock_init(&tn->route_lock);
	mutex_init(&tn->open_lock);
	tn->armed = U64_MAX;
	tn->due = U64_MAX;
	knt_news_init(tn);
	knt_left_init(tn);
	xa_init_flags(&tn->speeds, XA_FLAGS_ACCOUNT);
	hrtimer_setup(&tn->timer, knt_timer, CLOCK_BOOTTIME, HRTIMER_MODE_ABS_SOFT);
	return 0;
}

/* No Turnstile socket is left: each holds the namespace. */
static void __net_exit knt_net_pre_exit(struct net *net)
{
	struct knt_net *tn = knt_net_of(net);

	mutex_lock(&tn->open_lock);
	if (tn->state)
		knt_demux_close(tn);
	knt_udp_close(&tn->udp4);
	knt_udp_close(&tn->udp6);
	mutex_unlock(&tn->open_lock);
}

/* A grace period after knt_net_pre_exit(): nothing comes in any more. */
static void __net_exit knt_net_exit(struct net *net)
{
	struct knt_net *tn = knt_net_of(net);

	spin_lock_bh(&tn->lock);
	tn->closing = true;
	spin_unlock_bh(&tn->lock);
	hrtimer_cancel(&tn->timer);
	knt_news_stop(tn);
	knt_left_stop(tn);
	if (tn->state)
		knt_ops->net_close(tn->state);
	tn->state = NULL;
	knt_routes_drop(tn);
	knt_came_drop(tn);
	xa_destroy(&tn->speeds);
}

static struct pernet_operations knt_pernet = {
	.init = knt_net_init,
	.pre_exit = knt_net_pre_exit,
	.exit = knt_net_exit,
	.id = &knt_net_id,
	.size = sizeof(struct knt_net),
};

int knt_net_register(void)
{
	return register_pernet_subsys(&knt_pernet);
}

void knt_net_unregister(void)
{
	unregister_pernet_subsys(&knt_pernet);
}
