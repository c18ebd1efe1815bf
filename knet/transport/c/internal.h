/* SPDX-License-Identifier: GPL-2.0 */
/* What knet_transport's C files share; Rust sees knet_transport.h only. */
#ifndef KNET_TRANSPORT_INTERNAL_H
#define KNET_TRANSPORT_INTERNAL_H

#include <linux/hrtimer.h>
#include <linux/ipv6.h>
#include <linux/mutex.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <net/inet_sock.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/sock.h>
#include "knet_transport.h"

struct knt_net {
	struct net *net;
	spinlock_t lock;
	void *state;			/* Rust's; written once */
	struct hrtimer timer;
	u64 armed;			/* when the timer fires; U64_MAX: it does not */
	bool closing;
	struct mutex open_lock;
	struct socket *udp4;
	struct socket *udp6;
};

struct knt_sock {
	struct inet_sock inet;		/* first */
	u64 handle;			/* Rust's */
};

struct knt6_sock {
	struct knt_sock sock;		/* first */
	struct ipv6_pinfo inet6;
};

static inline struct knt_sock *knt_sk(const struct sock *sk)
{
	return (struct knt_sock *)sk;
}

extern const struct knt_ops *knt_ops;

int knt_net_register(void);
void knt_net_unregister(void);
int knt_receive(struct sock *udp, struct sk_buff *skb);
int knt_sockets_register(void);
void knt_sockets_unregister(void);

#endif
