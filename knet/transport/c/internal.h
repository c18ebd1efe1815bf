/* SPDX-License-Identifier: GPL-2.0 */
/* What knet_transport's C files share; Rust sees knet_transport.h only. */
#ifndef KNET_TRANSPORT_INTERNAL_H
#define KNET_TRANSPORT_INTERNAL_H

#include <linux/hrtimer.h>
#include <linux/ipv6.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <net/inet_sock.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <linux/xarray.h>
#include <net/sock.h>
#include "knet_transport.h"

/* Routes that are kept for packets that go out; a power of two. */
#define KNT_ROUTES 64
/* And for packets that come in; likewise. */
#define KNT_CAME 64
/* Links by which packets that count are told apart; likewise. */
#define KNT_LINKS 32

/* What a packet's route depends on. No holes: it is hashed and compared as it is, by words. */
struct knt_way {
	struct knt_path path;
	u32 device;
	u32 mark;
	u32 uid;
	u32 secid;
	u32 port;
} __aligned(sizeof(u64));

struct knt_below;
struct knt_came;

struct knt_net {
	struct net *net;
	spinlock_t lock;
	void *state;			/* Rust's; written once */
	struct hrtimer timer;
	u64 armed;			/* when the timer fires; U64_MAX: it does not */
	u64 due;			/* when it has to: not before that */
	bool closing;
	struct mutex open_lock;
	struct socket *udp4;
	struct socket *udp6;
	spinlock_t route_lock;
	struct knt_cached_route {
		struct knt_way way;
		struct knt_path path;	/* the way's, with the addresses that it leaves open */
		struct dst_entry *dst;	/* NULL: none */
		u32 cookie;
	} routes[KNT_ROUTES];
	u32 last_route;		/* the place among them that was looked at last */
	struct knt_came __rcu *came[KNT_CAME];	/* demux.c; changed with route_lock */
	struct work_struct news;	/* genl.c */
	bool link_changed;
	struct xarray speeds;		/* link.c */
	struct llist_head left;		/* below.c */
	struct llist_node *leaving;	/* the work's own: what it has still to do */
	struct work_struct left_work;
	atomic_t below[KNT_LINKS];	/* packets that count, by Rust's links */
};

struct knt_sock {
	struct inet_sock inet;		/* first */
	u64 handle;			/* Rust's */
	spinlock_t mem_lock;		/* for sk_forward_alloc, which is charged from anywhere */
	u32 user;			/* whom it counts for */
	u32 held;			/* memory.c: of messages that came; with mem_lock */
	u32 sent;			/* and of those that go out */
	u32 grown;			/* by how much sk_rcvbuf has; with mem_lock */
	bool opened;			/* Rust knows it */
	atomic_t news;			/* sock.c */
	spinlock_t report_lock;		/* message.c: for what follows */
	u32 reported;			/* memory of reports in sk_error_queue */
	struct knt_lost {		/* reports for which there was no room */
		u32 reports;
		u32 failures;
		struct knt_report last;	/* of the failures */
	} lost;
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

static inline __be16 knt_udp_port(void)
{
	return htons(knt_ops->numbers.udp_port);
}

int knt_wait_ready(void);
bool knt_stays(void);
void knt_wait_unused(void);

int knt_net_register(void);
void knt_net_unregister(void);
int knt_receive(struct sock *udp, struct sk_buff *skb);
int knt_error_lookup(struct sock *udp, struct sk_buff *skb);
void knt_error_receive(struct sock *udp, struct sk_buff *skb, int err, __be16 port, u32 info,
		       u8 *payload);
struct dst_entry *knt_route_get(struct knt_net *tn, const struct sock *sk,
				const struct knt_path *path, u32 device, u32 mark, u16 port);
void knt_routes_drop(struct knt_net *tn);
/* Whether UDP takes a super-packet for a tunnel's, and does not split it. */
static inline void knt_super_spare(struct sk_buff *skb, bool spare)
{
	skb_shinfo(skb)->gso_type &= ~(SKB_GSO_UDP_L4 | SKB_GSO_UDP_TUNNEL);
	skb_shinfo(skb)->gso_type |= spare ? SKB_GSO_UDP_TUNNEL : SKB_GSO_UDP_L4;
}

static inline bool knt_is_spared(const struct sk_buff *skb)
{
	return (skb_shinfo(skb)->gso_type & ~SKB_GSO_DODGY) == SKB_GSO_UDP_TUNNEL;
}

int knt_demux_open(struct knt_net *tn);
void knt_demux_close(struct knt_net *tn);
void knt_came_by(struct knt_net *tn, const struct sk_buff *skb);
void knt_came_drop(struct knt_net *tn);
u32 knt_out_copied(const struct knt_out *out);
bool knt_out_is_lent(const struct knt_out *out);
struct knt_below *knt_out_below(const struct knt_net *tn, const struct knt_out *out);
struct knt_below *knt_below_new(struct knt_net *tn, u32 link);
bool knt_below_is_for(const struct knt_below *below, u32 link);
void knt_below_end(struct knt_below *below);
bool knt_below_has_room(struct knt_below *below, u64 name, u32 most);
void knt_below_count(struct knt_below *below, struct sk_buff *skb);
bool knt_below_counts(const struct sk_buff *skb);
bool knt_below_has_place(struct knt_below *below, const struct sk_buff *skb);
void knt_below_more(struct knt_below *below, struct sk_buff *skb);
void knt_below_less_one(struct sk_buff *skb, struct sk_buff *part);
void knt_left_init(struct knt_net *tn);
void knt_left_stop(struct knt_net *tn);
struct sk_buff *knt_train_alloc(u32 headroom, u32 len);

/* What packets of a message in a row refer to: a page or block, and which bytes are in it. */
struct knt_seen {
	struct page *page;
	struct ubuf_info *call;	/* that lent it with MSG_ZEROCOPY; NULL: none */
	u32 from;	/* the first one's offset in the message, */
	u32 at;		/* and in the page */
	u32 len;	/* 0: nothing yet */
};

/* lent.c: pages that a call lends, in a row. */
#define KNT_LOAN 16

struct knt_loan {
	struct page *pages[KNT_LOAN];
	struct ubuf_info *call;
	u32 count;
	u32 at;		/* where the row begins in the first one */
	u32 len;
	u32 used;	/* of these bytes */
};

/* A call that reads into a pipe: its msg_flags have MSG_SPLICE_PAGES. */
struct knt_splice {
	struct msghdr msg;
	struct sock *sk;
	struct pipe_inode_info *pipe;
};

struct knt_lent;

struct knt_lent *knt_lent_new(gfp_t gfp);
u32 knt_lent_free(struct knt_lent *lent);
bool knt_lent_find(const struct knt_lent *lent, u32 in, u32 base, struct knt_seen *seen);
bool knt_lent_takes(const struct knt_lent *lent, u32 in);
void knt_lent_add(struct knt_lent *lent, struct page *page, u32 at, u32 end,
		  struct ubuf_info *call);
void knt_lent_add_own(struct knt_lent *lent, struct page *page, u32 in);
bool knt_lent_refer(struct sk_buff *skb, struct ubuf_info *call);
void knt_lent_copied(struct ubuf_info *call);
struct ubuf_info *knt_call_begin(struct sock *sk, size_t len);
void knt_call_end(struct sock *sk, struct ubuf_info *call, bool done);
bool knt_loan_may(const struct msghdr *msg);
bool knt_loan_take(struct knt_loan *loan, struct msghdr *msg, u32 *len);
u32 knt_loan_next(const struct knt_loan *loan, struct page **page, u32 *at);
void knt_loan_end(struct knt_loan *loan, struct msghdr *msg);

bool knt_train_add(struct sk_buff *skb, const struct knt_departure *departure,
		   struct knt_below *below, struct knt_seen *seen);
bool knt_train_apart(struct sk_buff *skb, u32 skip, u32 headroom);
bool knt_train_passes(const struct sk_buff *skb, const struct dst_entry *dst, bool v4);
bool knt_is_train(struct sk_buff *skb);
bool knt_out_attach(struct knt_out *out, struct sk_buff *skb, u32 offset, u32 len, bool copy,
		    struct knt_seen *seen);
void knt_sock_timer(struct timer_list *timer);
bool knt_mem_charge_out(struct sock *sk, u32 bytes);
void knt_mem_uncharge_out(struct sock *sk, u32 bytes);
void knt_mem_forget_growth(struct sock *sk);
bool knt_mem_charge_in(struct sock *sk, u32 bytes, u32 promised);
void knt_mem_uncharge_in(struct sock *sk, u32 bytes);
void knt_seal_payload(struct sk_buff *skb, u32 head_len, const struct knt_seal *seal);
bool knt_mem_charge_report(struct sock *sk, u32 bytes);
void knt_mem_uncharge_report(struct sock *sk, u32 bytes);
void knt_segments_sweep(struct knt_outbox *box);
int knt_segments_init(void);
void knt_outs_sweep(struct knt_outbox *box);

/*
 * So many packets or blocks of pages may be freed here: with the namespace's lock few. Without it
 * bottom halves are on, but for packets and timers.
 */
static inline u32 knt_most_freed(void)
{
	return in_task() && !in_softirq() ? U32_MAX : 64;
}

int knt_sockets_register(void);
void knt_sockets_unregister(void);
void knt_sock_abort(struct sock *sk, u64 handle, int err);
int knt_diag_register(void);
void knt_diag_unregister(void);
int knt_devices_watch(void);
void knt_devices_unwatch(void);
void knt_news_init(struct knt_net *tn);
void knt_news_stop(struct knt_net *tn);

#endif
