// SPDX-License-Identifier: GPL-2.0
/* What came of a message: the packets themselves, ordered by offset. Their ranges are disjoint. */
#include <linux/rbtree.h>
#include <linux/skbuff.h>
#include "internal.h"

/*
 * What a packet may take beyond twice its payload before its payload is copied to a smaller one; a
 * long one nothing, so that messages in full packets take no more than twice their length.
 */
#define KNT_WASTE 1024
#define KNT_LONG 1200
/* So much has room in a copy that further short packets are to be appended to: 2 KiB with all. */
#define KNT_COPY_ROOM SKB_WITH_OVERHEAD(2048)

struct knt_segment_cb {
	u32 offset;
	u32 skip;	/* bytes before the payload */
	u32 len;
	u32 charged;
	bool own;	/* a copy, whose free room is ours */
	struct sk_buff *next;	/* the root of the next tree in an outbox's garbage */
};

static struct knt_segment_cb *knt_seg(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct knt_segment_cb) > sizeof(skb->cb));
	return (struct knt_segment_cb *)skb->cb;
}

static struct rb_root *knt_root(const struct knt_segments *segments)
{
	BUILD_BUG_ON(sizeof(struct rb_root) != sizeof(segments->root));
	return (struct rb_root *)&segments->root;
}

static void knt_segment_destruct(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	knt_mem_uncharge_in(sk, knt_seg(skb)->charged);
	sock_put(sk);
}

/* Puts as much of a payload as has room into the copy before it; returns how much. */
static u32 knt_segment_append(struct sk_buff *last, struct sk_buff *skb, u32 skip, u32 len)
{
	len = min_t(u32, len, skb_tailroom(last));
	/* Who reads it meanwhile looks at what was there before. */
	if (!len || skb_copy_bits(skb, skip, skb_tail_pointer(last), len))
		return 0;
	__skb_put(last, len);
	knt_seg(last)->len += len;
	return len;
}

/* Undoes it: nobody has seen it. */
static void knt_segment_trim(struct sk_buff *last, u32 len)
{
	if (!len)
		return;
	__skb_trim(last, last->len - len);
	knt_seg(last)->len -= len;
}

/*
 * The payload alone in a packet of its own, with room for so much; the old one is freed. NULL if
 * there is no memory, and the old one is kept.
 */
static struct sk_buff *knt_segment_compact(struct sk_buff *skb, u32 skip, u32 len, u32 room)
{
	struct sk_buff *copy = alloc_skb(max(len, room), GFP_ATOMIC | __GFP_NOWARN);

	if (!copy)
		return NULL;
	if (skb_copy_bits(skb, skip, skb_put(copy, len), len)) {
		kfree_skb(copy);
		return NULL;
	}
	consume_skb(skb);
	return copy;
}

/* Takes the packet. False: no memory, or more than the socket may have. */
bool knt_segments_insert(struct knt_segments *segments, struct sock *sk, struct sk_buff *skb,
			 u32 offset, u32 skip, u32 len)
{
	struct rb_node **link = &knt_root(segments)->rb_node, *parent = NULL;
	struct sk_buff *last = segments->last;
	struct knt_segment_cb *seg;
	u32 charged, appended = 0;
	bool own = false;

	if (skip > skb->len || len > skb->len - skip || len > U32_MAX - offset)
		goto drop;
	if (skb->truesize > 2 * len + (len < KNT_LONG ? KNT_WASTE : 0) || skb_has_frag_list(skb)) {
		bool follows = last && knt_seg(last)->offset + knt_seg(last)->len == offset;
		struct sk_buff *copy;

		if (follows && knt_seg(last)->own) {
			appended = knt_segment_append(last, skb, skip, len);
			offset += appended;
			skip += appended;
			len -= appended;
			if (!len) {
				consume_skb(skb);
				return true;
			}
		}
		copy = knt_segment_compact(skb, skip, len, follows ? KNT_COPY_ROOM : 0);
		if (!copy)
			goto drop;
		skb = copy;
		skip = 0;
		own = true;
	}
	charged = skb->truesize;
	if (!knt_mem_charge_in(sk, charged))
		goto drop;
	sock_hold(sk);
	skb->sk = sk;
	skb->destructor = knt_segment_destruct;
	seg = knt_seg(skb);
	seg->offset = offset;
	seg->skip = skip;
	seg->len = len;
	seg->charged = charged;
	seg->own = own;
	seg->next = NULL;

	/* The last one has nothing to its right: of those with its offset, too, it is the last. */
	if (segments->last && offset >= knt_seg(segments->last)->offset) {
		parent = &segments->last->rbnode;
		link = &parent->rb_right;
	} else {
		while (*link) {
			parent = *link;
			if (offset < knt_seg(rb_to_skb(parent))->offset)
				link = &parent->rb_left;
			else
				link = &parent->rb_right;
		}
	}
	rb_link_node(&skb->rbnode, parent, link);
	rb_insert_color(&skb->rbnode, knt_root(segments));
	if (!segments->last || offset >= knt_seg(segments->last)->offset)
		segments->last = skb;
	segments->truesize += charged;
	return true;
drop:
	knt_segment_trim(last, appended);
	kfree_skb(skb);
	return false;
}

/* The first packet that reaches beyond an offset; NULL: none. */
static struct rb_node *knt_segments_find(const struct knt_segments *segments, u32 offset)
{
	struct rb_node *node = knt_root(segments)->rb_node, *found = NULL;

	while (node) {
		struct knt_segment_cb *seg = knt_seg(rb_to_skb(node));

		if (seg->offset + seg->len > offset) {
			found = node;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

/*
 * The packets that hold offset.. on, as far as they are without a gap and up to len bytes; how
 * many there are.
 */
u32 knt_segments_gather(const struct knt_segments *segments, u32 offset, u32 len,
			struct knt_part *parts, u32 max)
{
	struct rb_node *node = knt_segments_find(segments, offset);
	u32 count = 0, passed = 0;

	while (node && count < max && len) {
		struct sk_buff *skb = rb_to_skb(node);
		struct knt_segment_cb *seg = knt_seg(skb);

		/* With the namespace's lock. */
		WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && ++passed > max);
		node = rb_next(node);
		if (seg->offset + seg->len <= offset)
			continue;
		if (seg->offset > offset)
			break;
		parts[count].skb = skb_get(skb);
		parts[count].skip = seg->skip + (offset - seg->offset);
		parts[count].len = min(len, seg->len - (offset - seg->offset));
		offset += parts[count].len;
		len -= parts[count].len;
		count++;
	}
	return count;
}

/* Frees the packets of which all lies below. */
void knt_segments_consume(struct knt_segments *segments, u32 below)
{
	struct rb_node *node = rb_first(knt_root(segments));

	while (node) {
		struct sk_buff *skb = rb_to_skb(node);
		struct knt_segment_cb *seg = knt_seg(skb);

		if (seg->len > below || seg->offset > below - seg->len)
			break;
		node = rb_next(node);
		rb_erase(&skb->rbnode, knt_root(segments));
		/* They go from the left: when the last one goes, none is left. */
		if (segments->last == skb)
			segments->last = NULL;
		segments->truesize -= seg->charged;
		skb_mark_not_on_list(skb);
		consume_skb(skb);
	}
}

static void knt_segments_purge(struct rb_root *root, u32 most)
{
	struct rb_node *node;
	struct sk_buff *skb;
	u32 count = 0;

	while ((node = rb_first(root))) {
		skb = rb_to_skb(node);
		rb_erase(node, root);
		skb_mark_not_on_list(skb);
		consume_skb(skb);
		WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && ++count > most);
	}
}

/* Frees all; with the namespace's lock only if they are few. */
void knt_segments_free(struct knt_segments *segments)
{
	knt_segments_purge(knt_root(segments), knt_most_freed());
	segments->last = NULL;
	segments->truesize = 0;
}

/* Leaves all to knt_outbox_send(), in a step that does not depend on how much it is. */
void knt_segments_leave(struct knt_segments *segments, struct knt_outbox *box)
{
	struct rb_root *root = knt_root(segments);

	if (root->rb_node) {
		struct sk_buff *first = rb_to_skb(root->rb_node);

		knt_seg(first)->next = box->garbage;
		box->garbage = first;
		root->rb_node = NULL;
	}
	segments->last = NULL;
	segments->truesize = 0;
}

/* Frees what was left in an outbox, without the namespace's lock. */
void knt_segments_sweep(struct knt_outbox *box)
{
	while (box->garbage) {
		struct rb_root root = { .rb_node = &box->garbage->rbnode };

		box->garbage = knt_seg(box->garbage)->next;
		knt_segments_purge(&root, U32_MAX);
	}
}

/* To the application's memory. Sleeps. */
int knt_part_copy(const struct knt_part *part, struct msghdr *msg)
{
	return skb_copy_datagram_msg(part->skb, part->skip, msg, part->len);
}
