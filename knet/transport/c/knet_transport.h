/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What knet_transport's Rust and C know of each other. Rust sees the kernel's own structures only as opaque
 * pointers: all that looks into them is C here, so that no layout has to be proven.
 *
 * Locks, outermost first: the socket's lock (lock_sock), knt_net.open_lock, knt_net.lock (bh), knt_sock.mem_lock (bh).
 */
#ifndef KNET_TRANSPORT_H
#define KNET_TRANSPORT_H

#include <linux/types.h>

struct knt_net;
struct knt_out;
struct knt_segments;
struct msghdr;
struct net;
struct sk_buff;
struct sk_buff_head;
struct sock;

/* The UDP port of both ends, and the protocol's and the options' numbers: core/src/uapi/transport.rs has them too. */
#define KNT_UDP_PORT 29813
#define KNT_PROTOCOL 259
#define KNT_LEVEL 29813

/* The longest header that Turnstile puts behind UDP's. */
#define KNT_MAX_HEADER 144

/* A peer as seen from a local address; IPv4 is mapped. */
struct knt_path {
	u8 ip[16];
	u8 local[16];
	u32 scope;
};

/* A packet that came in. */
struct knt_arrival {
	struct knt_path from;
	const u8 *head;		/* the first bytes behind UDP's header */
	u32 head_len;
	u32 len;		/* how many bytes there are behind it */
	u32 device;		/* the index of the one that it came in by */
	u8 ecn;
};

/* A packet to send. */
struct knt_departure {
	struct knt_path to;
	const u8 *head;
	u32 head_len;
	struct knt_out *out;	/* NULL: no payload */
	u32 offset;
	u32 len;
	u8 tos;
	u8 mark;		/* nothing yet: 0 */
};

/* An address as the application gives and gets it. */
struct knt_address {
	u8 ip[16];
	u32 scope;
	u16 port;
	bool v4;		/* of an AF_INET socket */
};

/* What is known of a socket. */
struct knt_sock_view {
	struct knt_address local;	/* ip all zero: any */
	struct knt_address peer;	/* port 0: not connected */
	u32 device;
	u32 send_buffer;
	u32 receive_buffer;
	u8 shutdown;			/* KNT_SHUT_* */
	bool v6only;
};

enum {
	KNT_SHUT_RECEIVE = 1,
	KNT_SHUT_SEND = 2,
};

/* What poll can say beside errors. */
enum {
	KNT_READABLE = 1,
	KNT_WRITABLE = 2,
};

/* What SIOCINQ and SIOCOUTQ ask. */
enum {
	KNT_QUEUE_IN = 0,
	KNT_QUEUE_OUT = 1,
};

/*
 * What Rust does. The socket functions are called in process context, those marked L with the socket's lock;
 * timer and packet with bottom halves off. Errors are negative errnos.
 */
struct knt_ops {
	void *(*net_open)(struct knt_net *tn);			/* makes the namespace's state; NULL: no memory */
	void (*net_close)(void *state);
	void (*timer)(struct knt_net *tn);
	void (*packet)(struct knt_net *tn, const struct knt_arrival *arrival, struct sk_buff *skb); /* takes skb */
	int (*sock_open)(struct sock *sk);
	void (*sock_close)(struct sock *sk, bool linger, long timeout);	/* L */
	int (*sock_bind)(struct sock *sk, u16 port);		/* L; 0: any; returns the port */
	void (*sock_unbind)(struct sock *sk);			/* L */
	void (*sock_moved)(struct sock *sk);			/* L; the local address changed */
	void (*sock_shutdown)(struct sock *sk, int how);	/* L */
	int (*send)(struct sock *sk, struct msghdr *msg, size_t len);		/* L */
	int (*receive)(struct sock *sk, struct msghdr *msg, size_t len, int flags);	/* L */
	u32 (*poll)(struct sock *sk);
	int (*set_option)(struct sock *sk, int option, int value);	/* L */
	int (*get_option)(struct sock *sk, int option);
	int (*queued)(struct sock *sk, int which);
};

/* module.c */
int knt_register(const struct knt_ops *ops);
void knt_unregister(void);

/* net.c */
int knt_net_open(struct knt_net *tn);
struct knt_net *knt_net_of(struct net *net);
struct net *knt_net_net(const struct knt_net *tn);
void *knt_net_state(struct knt_net *tn);
void knt_net_lock(struct knt_net *tn);
void knt_net_unlock(struct knt_net *tn);
void knt_net_arm(struct knt_net *tn, u64 at);
u64 knt_now(void);
u64 knt_wall_clock(bool tai);
u64 knt_random(void);

/* input.c */
void knt_skb_free(struct sk_buff *skb);

/* socket.c */
u64 knt_sock_handle(const struct sock *sk);
void knt_sock_set_handle(struct sock *sk, u64 handle);
struct knt_net *knt_sock_net(const struct sock *sk);
void knt_sock_hold(struct sock *sk);
void knt_sock_put(struct sock *sk);

#endif
