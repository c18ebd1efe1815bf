// SPDX-License-Identifier: GPL-2.0
/* What came of a message: the packets themselves, ordered by offset. Their ranges are disjoint. */
#include <linux/rbtree.h>
#include <linux/skbuff.h>
#include "internal.h"

/*
 * What the packets of a message may take together beyond twice their payload before payload is
 * copied. So messages in full packets are never copied, and take no more than twice their length.
 */
#define KNT_WASTE 1024
/* So many bytes fit into a copy: 4 KiB with all. */
#define KNT_COPY SKB_WITH_OVERHEAD(4096)

struct knt_segment_cb {
	u32 offset;
	u32 skip;	/* bytes before the payload */
	u32 len;
	u32 charged;
	bool own;	/* a copy, whose free room is ours */
	u16 head;	/* of a train: bytes before each packet's payload, skip before the first's */
	u16 each;	/* and of payload in all but the last; 0: it is none */
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

/* The last packet that begins at an offset or before; NULL: none. */
static struct sk_buff *knt_segments_before(const struct knt_segments *segments, u32 offset)
{
	struct rb_node *node = knt_root(segments)->rb_node;
	struct sk_buff *found = NULL;

	if (segments->last && knt_seg(segments->last)->offset <= offset)
		return segments->last;
	while (node) {
		if (knt_seg(rb_to_skb(node))->offset <= offset) {
			found = rb_to_skb(node);
			node = node->rb_right;
		} else {
			node = node->rb_left;
		}
	}
	return found;
}

static void knt_segments_add(struct knt_segments *segments, struct sock *sk, struct sk_buff *skb,
			     u32 offset, u32 skip, u32 len, bool own, u16 head, u16 each)
{
	struct rb_node **link = &knt_root(segments)->rb_node, *parent = NULL;
	struct knt_segment_cb *seg = knt_seg(skb);

	sock_hold(sk);
	skb->sk = sk;
	skb->destructor = knt_segment_destruct;
	seg->offset = offset;
	seg->skip = skip;
	seg->len = len;
	seg->charged = skb->truesize;
	seg->own = own;
	seg->head = head;
	seg->each = each;
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
	segments->truesize += seg->charged;
	segments->bytes += len;
}

/* Takes a packet out and frees it. */
static void knt_segments_remove(struct knt_segments *segments, struct sk_buff *skb)
{
	struct knt_segment_cb *seg = knt_seg(skb);

	if (segments->last == skb) {
		struct rb_node *before = rb_prev(&skb->rbnode);

		segments->last = before ? rb_to_skb(before) : NULL;
	}
	rb_erase(&skb->rbnode, knt_root(segments));
	segments->truesize -= seg->charged;
	segments->bytes -= seg->len;
	skb_mark_not_on_list(skb);
	consume_skb(skb);
}

/*
 * Where byte from of what a packet has of the message is in it, and how many of the len bytes from
 * there on follow without a header between them.
 */
static u32 knt_segment_at(const struct knt_segment_cb *seg, u32 from, u32 *len)
{
	u32 before;

	if (!seg->each)
		return seg->skip + from;
	before = from / seg->each;
	*len = min(*len, (before + 1) * seg->each - from);
	return seg->skip + from + before * seg->head;
}

/* Puts a part of a packet at the end of a copy. */
static bool knt_segment_put(struct sk_buff *copy, const struct sk_buff *skb, u32 skip, u32 len)
{
	return !skb_copy_bits(skb, skip, skb_put(copy, len), len);
}

/*
 * Keeps a payload as a copy, together with the copies that it touches, as long as all fits into
 * one. So whatever pieces a message comes in, and in whatever order, two copies that touch are more
 * than one could hold. False: no memory, or more than the message or the socket may have.
 */
static bool knt_segments_pack(struct knt_segments *segments, struct sock *sk, struct sk_buff *skb,
			      u32 offset, u32 skip, u32 len, u32 most, u32 promised)
{
	struct sk_buff *left = knt_segments_before(segments, offset), *right, *copy, *tail = NULL;
	struct rb_node *next = left ? rb_next(&left->rbnode) : rb_first(knt_root(segments));
	bool follows = left && knt_seg(left)->offset + knt_seg(left)->len == offset;
	u32 need, appended = 0, given = 0;

	right = next ? rb_to_skb(next) : NULL;
	if (right && (!knt_seg(right)->own || knt_seg(right)->offset != offset + len))
		right = NULL;
	if (!follows || !knt_seg(left)->own)
		left = NULL;
	if (left && skb_tailroom(left) >= len) {
		if (!knt_segment_append(left, skb, skip, len))
			return false;
		segments->bytes += len;
		consume_skb(skb);
		if (right && skb_tailroom(left) >= knt_seg(right)->len) {
			appended = knt_segment_append(left, right, knt_seg(right)->skip,
						      knt_seg(right)->len);
			segments->bytes += appended;
			if (appended)
				knt_segments_remove(segments, right);
		}
		return true;
	}
	if (left && knt_seg(left)->len + len > KNT_COPY) {
		appended = knt_segment_append(left, skb, skip, len);
		tail = left;
		left = NULL;
	}
	need = len - appended + (left ? knt_seg(left)->len : 0);
	if (right && need + knt_seg(right)->len <= KNT_COPY)
		need += knt_seg(right)->len;
	else
		right = NULL;
	if (left)
		given += knt_seg(left)->charged;
	if (right)
		given += knt_seg(right)->charged;
	/* What comes next is likely to follow. */
	copy = follows && need < KNT_COPY ? alloc_skb(KNT_COPY, GFP_ATOMIC | __GFP_NOWARN) : NULL;
	if (copy && segments->truesize - given + copy->truesize > most) {
		kfree_skb(copy);
		copy = NULL;
	}
	if (!copy)
		copy = alloc_skb(need, GFP_ATOMIC | __GFP_NOWARN);
	if (!copy || segments->truesize - given + copy->truesize > most)
		goto drop;
	if (left && !knt_segment_put(copy, left, knt_seg(left)->skip, knt_seg(left)->len))
		goto drop;
	if (!knt_segment_put(copy, skb, skip + appended, len - appended))
		goto drop;
	if (right && !knt_segment_put(copy, right, knt_seg(right)->skip, knt_seg(right)->len))
		goto drop;
	/* Theirs is its own now: they are freed when nobody reads them any more. */
	if (copy->truesize > given && !knt_mem_charge_in(sk, copy->truesize - given, promised))
		goto drop;
	if (copy->truesize < given)
		knt_mem_uncharge_in(sk, given - copy->truesize);
	segments->truesize -= given;
	segments->bytes += appended;
	offset += appended;
	if (left) {
		offset = knt_seg(left)->offset;
		knt_seg(left)->charged = 0;
		knt_segments_remove(segments, left);
	}
	if (right) {
		knt_seg(right)->charged = 0;
		knt_segments_remove(segments, right);
	}
	knt_segments_add(segments, sk, copy, offset, 0, need, true, 0, 0);
	consume_skb(skb);
	return true;
drop:
	kfree_skb(copy);
	if (tail)
		knt_segment_trim(tail, appended);
	return false;
}

/* What the shortest copy takes: the kernel has one size for all short ones, and tells it nobody. */
static u32 knt_least_copy;

int knt_segments_init(void)
{
	struct sk_buff *skb = alloc_skb(1, GFP_KERNEL);

	if (!skb)
		return -ENOMEM;
	knt_least_copy = skb->truesize;
	kfree_skb(skb);
	return 0;
}

/* What a copy of so many bytes takes. */
static u32 knt_copy_truesize(u32 len)
{
	size_t head = SKB_DATA_ALIGN(len) + SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	u32 all = kmalloc_size_roundup(head) + SKB_DATA_ALIGN(sizeof(struct sk_buff));

	return max(all, knt_least_copy);
}

/* The same in full copies, and one for the rest. */
static u32 knt_copies_truesize(u32 bytes)
{
	u32 rest = bytes % KNT_COPY;

	return bytes / KNT_COPY * knt_copy_truesize(KNT_COPY) +
	       (rest ? knt_copy_truesize(rest) : 0);
}

/*
 * Replaces packets that touch each other, of so many bytes and so much memory, by copies that are
 * full, and one for the rest. False: no memory, or nothing is won.
 */
static bool knt_segments_join(struct knt_segments *segments, struct sock *sk,
			      struct rb_node *node, u32 count, u32 bytes, u32 given)
{
	u32 offset = knt_seg(rb_to_skb(node))->offset, taken = 0, done = 0, i;
	struct sk_buff *copies = NULL, **end = &copies;
	struct sk_buff *skb, *copy;
	struct rb_node *at = node;

	for (i = 0; i < bytes; i += min_t(u32, bytes - i, KNT_COPY)) {
		copy = alloc_skb(min_t(u32, bytes - i, KNT_COPY), GFP_ATOMIC | __GFP_NOWARN);
		if (!copy)
			goto drop;
		*end = copy;
		end = &copy->next;
		taken += copy->truesize;
	}
	/* Not for what was reckoned: it would be tried again with each packet. */
	if (WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && taken >= given) || taken >= given)
		goto drop;
	copy = copies;
	for (i = 0; i < count; i++, at = rb_next(at)) {
		struct knt_segment_cb *seg = knt_seg(rb_to_skb(at));
		u32 from = 0, len;

		while (from < seg->len) {
			u32 skip;

			len = min_t(u32, seg->len - from, KNT_COPY - copy->len);
			skip = knt_segment_at(seg, from, &len);
			if (!knt_segment_put(copy, rb_to_skb(at), skip, len))
				goto drop;
			from += len;
			if (copy->len == KNT_COPY)
				copy = copy->next;
		}
	}
	/* Theirs belongs to the copies now: they are freed when nobody reads them any more. */
	knt_mem_uncharge_in(sk, given - taken);
	segments->truesize -= given;
	for (i = 0; i < count; i++, node = at) {
		skb = rb_to_skb(node);
		at = rb_next(node);
		knt_seg(skb)->charged = 0;
		knt_segments_remove(segments, skb);
	}
	while ((copy = copies)) {
		copies = copy->next;
		skb_mark_not_on_list(copy);
		knt_segments_add(segments, sk, copy, offset + done, 0, copy->len, true, 0, 0);
		done += copy->len;
	}
	return true;
drop:
	kfree_skb_list(copies);
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

/* So many packets are looked at in a call, with the namespace's lock. */
#define KNT_TIDIED 32

/*
 * Joins packets that touch each other where that wins memory: a copy with room that nothing came
 * for, and packets behind it that were no waste when they came. Looks at some, and begins behind
 * them the next time, so that in the end all of a message that touches takes little more than its
 * bytes. False: nothing was won.
 */
static bool knt_segments_tidy(struct knt_segments *segments, struct sock *sk)
{
	struct rb_node *node = knt_segments_find(segments, segments->tidied), *first;
	u32 looked = 0, count, bytes, given;
	struct knt_segment_cb *seg;
	bool won = false;

	node = node ?: rb_first(knt_root(segments));
	while (node && looked < KNT_TIDIED) {
		first = node;
		count = bytes = given = 0;
		do {
			seg = knt_seg(rb_to_skb(node));
			/* What is as long as a full copy stays. */
			if (seg->len >= KNT_COPY ||
			    (count && seg->offset != knt_seg(rb_to_skb(first))->offset + bytes))
				break;
			bytes += seg->len;
			given += seg->charged;
			count++;
			looked++;
			node = rb_next(node);
		} while (node && looked < KNT_TIDIED);
		if (!count) {
			looked++;
			node = rb_next(node);
		} else if (knt_copies_truesize(bytes) < given) {
			won |= knt_segments_join(segments, sk, first, count, bytes, given);
		}
	}
	segments->tidied = node ? knt_seg(rb_to_skb(node))->offset : 0;
	return won;
}

/* Whether a packet may be kept as it is. */
static bool knt_segments_fits(const struct knt_segments *segments, const struct sk_buff *skb,
			      u32 len, u32 most)
{
	u64 all = (u64)segments->truesize + skb->truesize;
	u64 enough = 2 * ((u64)segments->bytes + len) + KNT_WASTE;

	return all <= most && !skb_has_frag_list(skb) &&
	       (skb->truesize <= 2 * len || all <= enough);
}

/*
 * Takes the packet. All that came of the message takes at most so much memory, and what came of all
 * messages of the socket as much as these were promised, or its receive buffer has. False: no
 * memory, or more than that.
 */
bool knt_segments_insert(struct knt_segments *segments, struct sock *sk, struct sk_buff *skb,
			 u32 offset, u32 skip, u32 len, u32 most, u32 promised)
{
	bool tidied = false;

	if (skip > skb->len || len > skb->len - skip || len > U32_MAX - offset)
		goto drop;
	while (!knt_segments_fits(segments, skb, len, most)) {
		if (knt_segments_pack(segments, sk, skb, offset, skip, len, most, promised))
			return true;
		if (tidied || !knt_segments_tidy(segments, sk))
			goto drop;
		tidied = true;
	}
	if (!knt_mem_charge_in(sk, skb->truesize, promised))
		goto drop;
	knt_segments_add(segments, sk, skb, offset, skip, len, false, 0, 0);
	return true;
drop:
	kfree_skb(skb);
	return false;
}

/*
 * Takes a super-packet that begins with UDP's header, with the payloads of packets, each behind a
 * header of so many bytes: len bytes in all, each of them in all but the last. False, and the
 * packet is still the caller's: it is not that, or cannot be kept as it is.
 */
bool knt_segments_insert_whole(struct knt_segments *segments, struct sock *sk, struct sk_buff *skb,
			       u32 offset, u32 head, u32 each, u32 len, u32 most, u32 promised)
{
	u64 all = sizeof(struct udphdr) + len;

	if (!len || !each || each > U16_MAX || head > U16_MAX || len > U32_MAX - offset)
		return false;
	all += (u64)DIV_ROUND_UP(len, each) * head;
	if (skb->len != all || !knt_segments_fits(segments, skb, len, most) ||
	    !knt_mem_charge_in(sk, skb->truesize, promised))
		return false;
	knt_skb_take(skb);
	knt_segments_add(segments, sk, skb, offset, head, len, false, head, each);
	return true;
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
		parts[count].skip = offset - seg->offset;
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
		knt_segments_remove(segments, skb);
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
	segments->bytes = 0;
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
	segments->bytes = 0;
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

/* So much of a packet's pages, which go on at *frag, where there is the byte *begin of it. */
static int knt_pages_copy(const struct sk_buff *skb, u32 *frag, u32 *begin, u32 offset, u32 len,
			  struct iov_iter *to)
{
	while (len && *frag < skb_shinfo(skb)->nr_frags) {
		const skb_frag_t *page = &skb_shinfo(skb)->frags[*frag];
		u32 in = offset - *begin, size = skb_frag_size(page), n;

		if (in >= size) {
			*begin += size;
			++*frag;
			continue;
		}
		n = min(len, size - in);
		if (copy_page_to_iter(skb_frag_page(page), skb_frag_off(page) + in, n, to) != n)
			return -EFAULT;
		offset += n;
		len -= n;
	}
	return len ? -EFAULT : 0;
}

/* Of a train, whose pages are looked at from the first to the last. */
static int knt_part_copy_train(const struct knt_part *part, struct iov_iter *to)
{
	const struct knt_segment_cb *seg = knt_seg(part->skb);
	u32 frag = 0, begin = skb_headlen(part->skb), done = 0, len, skip;
	int err;

	while (done < part->len) {
		len = part->len - done;
		skip = knt_segment_at(seg, part->skip + done, &len);
		if (skip < skb_headlen(part->skb))
			err = skb_copy_datagram_iter(part->skb, skip, to, len);
		else
			err = knt_pages_copy(part->skb, &frag, &begin, skip, len, to);
		if (err)
			return err;
		done += len;
	}
	return 0;
}

/* Refers to the packet's pages from a pipe. Returns how much there was room for. */
static int knt_part_splice(const struct knt_part *part, const struct knt_splice *splice)
{
	u32 done = 0, len, skip;
	int moved;

	while (done < part->len) {
		len = part->len - done;
		skip = knt_segment_at(knt_seg(part->skb), part->skip + done, &len);
		moved = skb_splice_bits(part->skb, splice->sk, skip, splice->pipe, len, 0);
		if (moved <= 0)
			return done ?: moved ?: -ENOBUFS;
		done += moved;
	}
	return done;
}

/*
 * To the application's memory, or into a pipe; returns how much. Sleeps. What is looked at of the
 * packet is not changed any more, whoever else has it.
 */
int knt_part_copy(const struct knt_part *part, struct msghdr *msg)
{
	const struct knt_segment_cb *seg = knt_seg(part->skb);
	size_t before = iov_iter_count(&msg->msg_iter);
	int err;

	if (unlikely(msg->msg_flags & MSG_SPLICE_PAGES))
		return knt_part_splice(part, container_of(msg, struct knt_splice, msg));
	if (!seg->each) {
		err = skb_copy_datagram_msg(part->skb, seg->skip + part->skip, msg, part->len);
		return err ?: part->len;
	}
	err = knt_part_copy_train(part, &msg->msg_iter);
	if (err)
		iov_iter_revert(&msg->msg_iter, before - iov_iter_count(&msg->msg_iter));
	return err ?: part->len;
}
