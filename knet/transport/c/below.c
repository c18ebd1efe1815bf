// SPDX-License-Identifier: GPL-2.0
/*
 * How many packets of a message are below: made, and not freed or taken off their socket yet, which
 * they are when they have left the machine or were dropped. Rust is told when some have left, if it
 * has asked for that: as TCP's small queues (tcp_wfree()), by a work that softirqs do.
 *
 * A packet's destructor may run wherever packets are freed: with the locks of qdiscs and devices,
 * with the namespace's own, with interrupts off. So it takes no lock. It has a reference to the
 * count, and while it runs one to the socket, which has the namespace and the module.
 */
#include "internal.h"

struct knt_below {
	refcount_t references;	/* the message's, each packet's, and the list's */
	atomic_t packets;
	unsigned long flags;
	struct llist_node node;	/* in knt_net.left */
	struct knt_net *net;
	u32 link;		/* that Rust says its packets go by */
	u32 most;		/* that Rust lets be below, as it said last */
	u64 name;		/* Rust's; before KNT_WANTED is set first */
};

enum {
	KNT_WANTED,	/* Rust is to be told when a packet has left */
	KNT_LISTED,	/* it will be */
	KNT_ENDED,	/* nobody waits for it any more */
};

/* Low bits of a packet's pointer to its count: for how many packets it stands, less one. */
#define KNT_COUNT_MASK 63UL

/* So many messages go on before other work has its turn. */
#define KNT_LEFT_AT_ONCE 32

static void knt_below_put(struct knt_below *below)
{
	if (refcount_dec_and_test(&below->references))
		kfree(below);
}

/* The message's, on a link; NULL: no memory. With the namespace's lock. */
struct knt_below *knt_below_new(struct knt_net *tn, u32 link)
{
	struct knt_below *below;

	/* What is as long as that is aligned to it. */
	BUILD_BUG_ON(sizeof(*below) > KNT_COUNT_MASK + 1);
	below = kzalloc(KNT_COUNT_MASK + 1, GFP_ATOMIC | __GFP_NOWARN);
	if (!below)
		return NULL;
	refcount_set(&below->references, 1);
	below->net = tn;
	below->link = link % KNT_LINKS;
	return below;
}

/* Whether it is for that link. */
bool knt_below_is_for(const struct knt_below *below, u32 link)
{
	return below->link == link % KNT_LINKS;
}

/*
 * The message has ended, or has another link, of which these packets say nothing. They may still be
 * there. Any context.
 */
void knt_below_end(struct knt_below *below)
{
	if (!below)
		return;
	set_bit(KNT_ENDED, &below->flags);
	knt_below_put(below);
}

/* Packets have left, whose reference is given back. Any context. */
static void knt_below_less(struct knt_below *below, u32 packets)
{
	struct knt_net *tn = below->net;

	atomic_sub(packets, &tn->below[below->link]);
	/* All of this comes before, and what follows after. */
	atomic_sub_return(packets, &below->packets);
	if (!test_bit(KNT_WANTED, &below->flags) ||
	    !test_and_clear_bit(KNT_WANTED, &below->flags) ||
	    test_and_set_bit(KNT_LISTED, &below->flags)) {
		knt_below_put(below);
		return;
	}
	/* The reference is the list's from now on. */
	if (llist_add(&below->node, &tn->left))
		queue_work(system_bh_wq, &tn->left_work);
}

/*
 * Whether fewer than that many packets are below. If not, Rust is told of this name when one has
 * left. With the namespace's lock.
 */
bool knt_below_has_room(struct knt_below *below, u64 name, u32 most)
{
	WRITE_ONCE(below->most, most);
	if (atomic_read(&below->packets) < most)
		return true;
	WRITE_ONCE(below->name, name);
	set_bit(KNT_WANTED, &below->flags);
	/* Whoever takes one off after this look sees the bit; and the name with it. */
	smp_mb__after_atomic();
	return atomic_read(&below->packets) < most &&
	       test_and_clear_bit(KNT_WANTED, &below->flags);
}

/* How many packets that count are there that go by a link. */
u32 knt_net_below(const struct knt_net *tn, u32 link)
{
	return max(atomic_read(&tn->below[link % KNT_LINKS]), 0);
}

static void knt_packet_left(struct sk_buff *skb)
{
	unsigned long all = (unsigned long)skb_shinfo(skb)->destructor_arg;

	knt_below_less((struct knt_below *)(all & ~KNT_COUNT_MASK), (all & KNT_COUNT_MASK) + 1);
	/* The last thing: the socket, the namespace and this module may go with it. */
	__sock_wfree(skb);
}

/*
 * A packet that has its socket counts from now on, until it is freed or loses the socket. What
 * keeps a count is where MSG_ZEROCOPY has its own, which such a packet is not of.
 */
void knt_below_count(struct knt_below *below, struct sk_buff *skb)
{
	refcount_inc(&below->references);
	atomic_inc(&below->packets);
	atomic_inc(&below->net->below[below->link]);
	skb_shinfo(skb)->destructor_arg = below;
	skb->destructor = knt_packet_left;
}

/* What counts a packet; NULL: nothing does. */
static struct knt_below *knt_below_of(const struct sk_buff *skb)
{
	unsigned long all = (unsigned long)skb_shinfo(skb)->destructor_arg;

	return skb->destructor == knt_packet_left ? (void *)(all & ~KNT_COUNT_MASK) : NULL;
}

/* Whether anything counts a packet. */
bool knt_below_counts(const struct sk_buff *skb)
{
	return knt_below_of(skb);
}

/*
 * Whether a packet may stand for one more, which this is to count; NULL: nothing does. Word of one
 * that is several comes when the last part has left. So that there is something to be sent by then
 * it is no more than half of what may be below.
 */
bool knt_below_has_place(struct knt_below *below, const struct sk_buff *skb)
{
	unsigned long all = (unsigned long)skb_shinfo(skb)->destructor_arg;
	u32 more = all & KNT_COUNT_MASK;

	if (knt_below_of(skb) != below)
		return false;
	return !below || (more < KNT_COUNT_MASK && more + 2 <= READ_ONCE(below->most) / 2);
}

/* It does so, and that leaves with it. */
void knt_below_more(struct knt_below *below, struct sk_buff *skb)
{
	if (!below)
		return;
	atomic_inc(&below->packets);
	atomic_inc(&below->net->below[below->link]);
	skb_shinfo(skb)->destructor_arg += 1;
}

/* One of those that a packet stands for is one by itself, for which it has the socket. */
void knt_below_less_one(struct sk_buff *skb, struct sk_buff *part)
{
	struct knt_below *below = knt_below_of(skb);

	if (!below)
		return;
	refcount_inc(&below->references);
	skb_shinfo(skb)->destructor_arg -= 1;
	skb_shinfo(part)->destructor_arg = below;
	part->destructor = knt_packet_left;
}

/* A softirq: tells Rust of those messages that wait. In the order in which their packets left. */
static void knt_left_work(struct work_struct *work)
{
	struct knt_net *tn = container_of(work, struct knt_net, left_work);
	struct knt_below *below;
	u32 count = 0;

	/* The work is done by one at a time: so this is its own. */
	if (!tn->leaving)
		tn->leaving = llist_reverse_order(llist_del_all(&tn->left));
	while (tn->leaving) {
		if (count++ == KNT_LEFT_AT_ONCE) {
			queue_work(system_bh_wq, work);
			return;
		}
		below = llist_entry(tn->leaving, struct knt_below, node);
		tn->leaving = tn->leaving->next;
		clear_bit(KNT_LISTED, &below->flags);
		/* Who finds it listed has taken off its packets before: they are seen here. */
		smp_mb__after_atomic();
		if (!test_bit(KNT_ENDED, &below->flags))
			knt_ops->left(tn, READ_ONCE(below->name), atomic_read(&below->packets));
		knt_below_put(below);
	}
	/* Who listed one while an earlier run's rest was done has set off this run, or none. */
	if (!llist_empty(&tn->left))
		queue_work(system_bh_wq, work);
}

void knt_left_init(struct knt_net *tn)
{
	init_llist_head(&tn->left);
	INIT_WORK(&tn->left_work, knt_left_work);
}

/* No packet is left: each has a socket, which holds the namespace. */
void knt_left_stop(struct knt_net *tn)
{
	struct llist_node *node, *next;

	cancel_work_sync(&tn->left_work);
	llist_for_each_safe(node, next, tn->leaving)
		knt_below_put(llist_entry(node, struct knt_below, node));
	llist_for_each_safe(node, next, llist_del_all(&tn->left))
		knt_below_put(llist_entry(node, struct knt_below, node));
	tn->leaving = NULL;
}
