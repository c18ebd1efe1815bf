// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that are lent for a message, by splice(), sendfile() and MSG_ZEROCOPY: packets refer to
 * them as to pages of the message's own. They begin and end anywhere, so a page of the message may
 * be in two of them, and what is written behind them is in one of its own.
 *
 * Who lends them may change them as long as they are lent. The kernel is told (SKBFL_SHARED_FRAG):
 * where a checksum is made or a packet is encrypted, that is of a copy.
 */
#include <linux/errqueue.h>
#include <linux/uio.h>
#include "internal.h"

/* A page of a message that is in others' pages. */
struct knt_lent {
	/* In their order. Behind the last one, ends are 0. */
	struct knt_lent_part {
		struct page *page;
		struct ubuf_info *call;	/* of MSG_ZEROCOPY; NULL: of none */
		u32 at;			/* its first byte in that page */
		u32 end;		/* where it ends in the page of the message */
	} parts[3];
	bool own;			/* the last one is in a page of the message's own */
};

/* So many parts may be lent; the last one is the message's own. */
#define KNT_LENT_PARTS 2

/* Fewer bytes than that in a row are copied: a page would be held for them, and looked for. */
#define KNT_LEAST_LENT 1024

/* Calls for so many bytes lend their pages, with MSG_ZEROCOPY; of others they are copied. */
#define KNT_LEAST_ZEROCOPY (64 << 10)

struct knt_lent *knt_lent_new(gfp_t gfp)
{
	return kzalloc(sizeof(struct knt_lent), gfp);
}

/* Gives the pages back, and says how many bytes of memory they counted for. */
u32 knt_lent_free(struct knt_lent *lent)
{
	u32 bytes = PAGE_SIZE + (lent->own ? PAGE_SIZE : 0), i;

	for (i = 0; i < ARRAY_SIZE(lent->parts) && lent->parts[i].page; i++) {
		put_page(lent->parts[i].page);
		/* Whose call that was is told when it was the last one. */
		net_zcopy_put(lent->parts[i].call);
	}
	kfree(lent);
	return bytes;
}

/*
 * The part that an offset in the page of the message is in, which begins at base; false: in none.
 * The writer may be adding one behind what all may see.
 */
bool knt_lent_find(const struct knt_lent *lent, u32 in, u32 base, struct knt_seen *seen)
{
	u32 begin = 0, i;

	for (i = 0; i < ARRAY_SIZE(lent->parts); i++) {
		u32 end = READ_ONCE(lent->parts[i].end);

		if (in < end) {
			seen->page = lent->parts[i].page;
			seen->call = lent->parts[i].call;
			seen->from = base + begin;
			seen->at = lent->parts[i].at;
			seen->len = end - begin;
			return true;
		}
		begin = end;
	}
	return false;
}

/* Whether another part may be lent behind an offset in it, where all that is in it ends. */
bool knt_lent_takes(const struct knt_lent *lent, u32 in)
{
	return !lent->own && in < PAGE_SIZE && !lent->parts[KNT_LENT_PARTS - 1].page;
}

/* Puts a part at its end, with a reference of its own. For the writer. */
void knt_lent_add(struct knt_lent *lent, struct page *page, u32 at, u32 end,
		  struct ubuf_info *call)
{
	struct knt_lent_part *part = lent->parts;

	while (part->page)
		part++;
	get_page(page);
	if (call)
		net_zcopy_get(call);
	part->page = page;
	part->call = call;
	part->at = at;
	WRITE_ONCE(part->end, end);
}

/* For what follows behind an offset in it: a page, whose reference is given away. */
void knt_lent_add_own(struct knt_lent *lent, struct page *page, u32 in)
{
	knt_lent_add(lent, page, in, PAGE_SIZE, NULL);
	put_page(page);
	lent->own = true;
}

/* What a call lent was copied all the same, for it to be told so. */
void knt_lent_copied(struct ubuf_info *call)
{
	if (call)
		uarg_to_msgzc(call)->zerocopy = 0;
}

/*
 * A call with MSG_ZEROCOPY begins; NULL: the socket may have no more of them (net.core.optmem_max),
 * or the user no more pages that stay in memory (RLIMIT_MEMLOCK). The kernel keeps it in a report
 * for the error queue, which comes there when nobody refers to the call any more: neither it, nor
 * the message, nor a packet. With the socket's lock.
 */
struct ubuf_info *knt_call_begin(struct sock *sk, size_t len)
{
	bool lends = len >= KNT_LEAST_ZEROCOPY && len <= INT_MAX;
	struct ubuf_info *call = msg_zerocopy_realloc(sk, lends ? len : 0, NULL, false);

	if (!call)
		return NULL;
	if (!lends)
		knt_lent_copied(call);
	/* It has its number when it is known to be one: others may begin while it waits. */
	atomic_dec(&sk->sk_zckey);
	return call;
}

/* It ends. Of one that has not done anything there is no report. With the socket's lock. */
void knt_call_end(struct sock *sk, struct ubuf_info *call, bool done)
{
	struct ubuf_info_msgzc *msgzc = uarg_to_msgzc(call);

	if (done)
		msgzc->id = (u32)atomic_inc_return(&sk->sk_zckey) - 1;
	else
		msgzc->len = 0;
	net_zcopy_put(call);
}

/* The call whose pages are lent with MSG_ZEROCOPY; NULL: with none. */
static struct ubuf_info *knt_loan_call(const struct msghdr *msg)
{
	struct ubuf_info *call = msg->msg_ubuf;

	/* Of others the kernel is not asked for (SOCK_SUPPORT_ZC). */
	if (!call || call->ops != &msg_zerocopy_ubuf_ops || !uarg_to_msgzc(call)->zerocopy ||
	    !user_backed_iter(&msg->msg_iter))
		return NULL;
	return call;
}

/* Whether a call lends pages. */
bool knt_loan_may(const struct msghdr *msg)
{
	if (msg->msg_flags & MSG_SPLICE_PAGES)
		return !user_backed_iter(&msg->msg_iter);
	return knt_loan_call(msg);
}

/*
 * Takes what comes next of what a call gives, up to *len bytes: in pages with a reference to each,
 * which follow one another. False: so much of it, *len bytes, has to be copied.
 */
bool knt_loan_take(struct knt_loan *loan, struct msghdr *msg, u32 *len)
{
	struct page **pages = loan->pages;
	struct iov_iter *from = &msg->msg_iter;
	u32 count, i;
	ssize_t taken;
	size_t at = 0;

	loan->call = knt_loan_call(msg);
	if (loan->call)
		taken = iov_iter_get_pages2(from, pages, *len, KNT_LOAN, &at);
	else if ((msg->msg_flags & MSG_SPLICE_PAGES) && !user_backed_iter(from))
		taken = iov_iter_extract_pages(from, &pages, *len, KNT_LOAN, 0, &at);
	else
		/* A call whose packets are copied lends no more. */
		return false;
	if (taken <= 0)
		return false;
	count = DIV_ROUND_UP(at + taken, PAGE_SIZE);
	i = loan->call ? count : 0;
	/* Those of a slab have no references. */
	for (; i < count && sendpage_ok(pages[i]); i++)
		get_page(pages[i]);
	loan->at = at;
	loan->len = taken;
	loan->used = 0;
	loan->count = i;
	if (i == count && taken >= KNT_LEAST_LENT)
		return true;
	knt_loan_end(loan, msg);
	*len = taken;
	return false;
}

/* The page of what comes next, where that is in it, and how many bytes there are. */
u32 knt_loan_next(const struct knt_loan *loan, struct page **page, u32 *at)
{
	u32 all = loan->at + loan->used;

	*page = loan->pages[all >> PAGE_SHIFT];
	*at = all & (PAGE_SIZE - 1);
	return min_t(u32, loan->len - loan->used, PAGE_SIZE - *at);
}

/* What was not used is still to come. */
void knt_loan_end(struct knt_loan *loan, struct msghdr *msg)
{
	u32 i;

	iov_iter_revert(&msg->msg_iter, loan->len - loan->used);
	for (i = 0; i < loan->count; i++)
		put_page(loan->pages[i]);
}

/*
 * Whether a packet may refer to pages that were lent, by one call with MSG_ZEROCOPY at most. It
 * holds up the word that they may be written again; where it comes to somebody on this machine the
 * kernel makes a copy, and says so.
 */
bool knt_lent_refer(struct sk_buff *skb, struct ubuf_info *call)
{
	struct ubuf_info *before = skb_zcopy(skb);

	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	if (!call || before == call)
		return true;
	/* What counts packets has its count where this would be. */
	if (before || knt_below_counts(skb))
		return false;
	skb_zcopy_set(skb, call, NULL);
	return true;
}
