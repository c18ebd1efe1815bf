// SPDX-License-Identifier: GPL-2.0
/*
 * What an application wrote of a message. Short messages are in one allocation, and copied into
 * their packet; others in pages, in blocks of eight where they can be had, which packets refer to.
 * Pages may also be lent (lent.c). One that is as a page of the message's own would be is one.
 */
#include <linux/mm.h>
#include <linux/uio.h>
#include <linux/xarray.h>
#include "internal.h"

/*
 * Whoever fills his cgroup waits for what it can give back, and is refused then: nobody is killed
 * for what will be free when it is delivered.
 */
#define KNT_OUT_GFP (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* A message up to this long needs no pages. */
#define KNT_SHORT 2048
#define KNT_BLOCK_ORDER 3
#define KNT_BLOCK_PAGES (1 << KNT_BLOCK_ORDER)
/* So many pages of a message that ends are not worth to be freed later. */
#define KNT_FEW_PAGES 4

struct knt_out {
	refcount_t references;
	u32 room;		/* of data; 0: in pages */
	u32 written;		/* the writer's; bytes below are there for all */
	u32 charged;
	unsigned long freed;	/* pages below are gone; for whoever is freeing */
	unsigned long below;	/* those below may go, and nobody looks at them */
	int freeing;		/* by somebody, or in an outbox for that */
	struct sock *sk;
	struct knt_out *next;	/* in an outbox */
	struct knt_below *counts;	/* NULL: no packet was counted; with the namespace's lock */
	/*
	 * By number; a block by that of its first, and tagged. Who finds an entry that is not a
	 * block, and does not want its page, must not look at the page: it may be freed already.
	 */
	struct xarray pages;
	bool lent;		/* something in them is; before the first of it is there for all */
	u8 data[];
};

/* The tags of a block, and of a struct knt_lent. */
#define KNT_BLOCK 1UL
#define KNT_LENT 3UL

struct knt_out *knt_out_new(struct sock *sk, u32 length)
{
	u32 room = length <= KNT_SHORT ? length : 0;
	struct knt_out *out;

	out = kmalloc(struct_size(out, data, room), KNT_OUT_GFP);
	if (!out)
		return NULL;
	out->charged = ksize(out);
	if (!knt_mem_charge_out(sk, out->charged)) {
		kfree(out);
		return NULL;
	}
	refcount_set(&out->references, 1);
	out->room = room;
	out->written = 0;
	out->freed = 0;
	out->below = 0;
	out->freeing = 0;
	out->counts = NULL;
	out->lent = false;
	sock_hold(sk);
	out->sk = sk;
	xa_init_flags(&out->pages, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	return out;
}

void knt_out_get(struct knt_out *out)
{
	refcount_inc(&out->references);
}

static bool knt_is_block(void *entry)
{
	return entry && xa_pointer_tag(entry) == KNT_BLOCK;
}

static bool knt_is_lent(void *entry)
{
	return entry && xa_pointer_tag(entry) == KNT_LENT;
}

/* How many bytes are free then, for the caller to take them off the account. */
static u32 knt_out_free_entry(void *entry)
{
	u32 bytes = PAGE_SIZE << (knt_is_block(entry) ? KNT_BLOCK_ORDER : 0);

	if (unlikely(knt_is_lent(entry)))
		return knt_lent_free(xa_untag_pointer(entry));
	put_page(xa_untag_pointer(entry));
	return bytes;
}

static void knt_out_free_pages(struct knt_out *out, u32 most)
{
	unsigned long index = out->freed, last = out->written >> PAGE_SHIFT;
	u32 count = 0;

	/* One more than were written to may be there. */
	while (index <= last) {
		void *entry = xa_load(&out->pages, index);

		if (entry)
			out->charged += knt_out_free_entry(entry);
		index += knt_is_block(entry) ? KNT_BLOCK_PAGES : 1;
		WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && ++count > most);
	}
	xa_destroy(&out->pages);
}

static void knt_out_free(struct knt_out *out, u32 most)
{
	struct sock *sk = out->sk;

	if (!out->room)
		knt_out_free_pages(out, most);
	knt_below_end(out->counts);
	knt_mem_uncharge_out(sk, out->charged);
	kfree(out);
	sock_put(sk);
}

void knt_out_put(struct knt_out *out)
{
	if (refcount_dec_and_test(&out->references))
		knt_out_free(out, knt_most_freed());
}

/* Gives a reference back, and leaves what there is to free then to knt_outbox_send(). */
void knt_out_leave(struct knt_out *out, struct knt_outbox *box)
{
	if ((READ_ONCE(out->written) >> PAGE_SHIFT) - READ_ONCE(out->below) <= KNT_FEW_PAGES &&
	    !READ_ONCE(out->freeing)) {
		knt_out_put(out);
		return;
	}
	if (refcount_dec_not_one(&out->references))
		return;
	/* Nobody else has one, nor gets one. */
	out->next = box->outs;
	box->outs = out;
}

/* Frees what may go, at most so many pages or blocks. Only for one at a time. */
static void knt_out_free_below(struct knt_out *out, u32 most)
{
	unsigned long index = out->freed, end = READ_ONCE(out->below);
	u32 bytes = 0, count = 0;

	while (index < end) {
		void *entry = xa_load(&out->pages, index);
		u32 pages = knt_is_block(entry) ? KNT_BLOCK_PAGES : 1;

		if (index + pages > end)
			break;
		WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && ++count > most);
		if (entry) {
			xa_erase_bh(&out->pages, index);
			bytes += knt_out_free_entry(entry);
		}
		index += pages;
	}
	out->freed = index;
	if (bytes)
		knt_mem_uncharge_out(out->sk, bytes);
}

/*
 * Frees all that may go, also what that is said of meanwhile: whoever says it leaves it to who has
 * set freeing, and the exchange of either sees what the other has written before.
 */
static void knt_out_free_rest(struct knt_out *out)
{
	unsigned long end;

	do {
		end = READ_ONCE(out->below);
		knt_out_free_below(out, U32_MAX);
		xchg(&out->freeing, 0);
	} while (READ_ONCE(out->below) != end && !xchg(&out->freeing, 1));
}

/* Frees what was left in an outbox, without the namespace's lock. */
void knt_outs_sweep(struct knt_outbox *box)
{
	while (box->outs) {
		struct knt_out *out = box->outs;

		box->outs = out->next;
		if (READ_ONCE(out->freeing))
			knt_out_free_rest(out);
		if (refcount_dec_and_test(&out->references))
			knt_out_free(out, U32_MAX);
	}
}

/*
 * Frees what lies below an offset and is not needed for what lies above, or leaves it to
 * knt_outbox_send() if it is much: somebody may acknowledge all of a message at once. What is not
 * written yet stays, whatever the offset: the writer may be copying into it.
 */
void knt_out_release(struct knt_out *out, u32 below, struct knt_outbox *box)
{
	unsigned long end = min(below, READ_ONCE(out->written)) >> PAGE_SHIFT;

	if (end <= out->below)
		return;
	WRITE_ONCE(out->below, end);
	if (xchg(&out->freeing, 1))
		return;
	if (end - out->freed <= KNT_FEW_PAGES * KNT_BLOCK_PAGES) {
		knt_out_free_below(out, knt_most_freed());
		xchg(&out->freeing, 0);
		return;
	}
	refcount_inc(&out->references);
	out->next = box->outs;
	box->outs = out;
}

static void knt_see(struct knt_seen *seen, struct page *page, unsigned long index, u32 len)
{
	seen->page = page;
	seen->call = NULL;
	seen->from = index << PAGE_SHIFT;
	seen->at = 0;
	seen->len = len;
}

/* The page or block that an offset is in. False: there is none yet. */
static bool knt_out_find(struct knt_out *out, u32 offset, struct knt_seen *seen)
{
	unsigned long index = offset >> PAGE_SHIFT;
	unsigned long block = index & ~(KNT_BLOCK_PAGES - 1UL);
	void *entry = xa_load(&out->pages, block);

	if (knt_is_block(entry)) {
		knt_see(seen, xa_untag_pointer(entry), block, PAGE_SIZE * KNT_BLOCK_PAGES);
		return true;
	}
	if (index != block)
		entry = xa_load(&out->pages, index);
	if (!entry)
		return false;
	if (unlikely(knt_is_lent(entry)))
		return knt_lent_find(xa_untag_pointer(entry), offset & (PAGE_SIZE - 1),
				     offset & PAGE_MASK, seen);
	knt_see(seen, xa_untag_pointer(entry), index, PAGE_SIZE);
	return true;
}

/*
 * Charges for a page or block, or for all that is to come at once, if that may be had. paid: bytes
 * that are charged and not used.
 */
static bool knt_out_pay(struct knt_out *out, u32 len, u32 size, u32 *paid)
{
	u32 all = max_t(u32, round_up(len, PAGE_SIZE), size);

	if (*paid >= size)
		return true;
	if (!knt_mem_charge_out(out->sk, all - *paid)) {
		all = size;
		if (!knt_mem_charge_out(out->sk, all - *paid))
			return false;
	}
	*paid = all;
	return true;
}

static bool knt_out_store(struct knt_out *out, unsigned long index, void *pointer,
			  unsigned long tag)
{
	void *entry = xa_tag_pointer(pointer, tag);

	return !xa_err(xa_store_bh(&out->pages, index, entry, KNT_OUT_GFP));
}

/*
 * A new page, or a block if that many bytes are to come and it is the place for one, for what is
 * written next.
 */
static bool knt_out_grow(struct knt_out *out, u32 len, u32 *paid, struct knt_seen *seen)
{
	unsigned long index = out->written >> PAGE_SHIFT;
	u32 in = out->written & (PAGE_SIZE - 1);
	struct page *page = NULL;
	u32 order = 0;

	if (!in && !(index & (KNT_BLOCK_PAGES - 1)) && len > PAGE_SIZE * KNT_BLOCK_PAGES / 2)
		order = KNT_BLOCK_ORDER;
	if (!knt_out_pay(out, len, PAGE_SIZE << order, paid))
		return false;
	if (order)
		page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY, order);
	if (!page) {
		order = 0;
		page = alloc_pages(KNT_OUT_GFP, 0);
	}
	if (!page)
		return false;
	if (unlikely(in)) {
		/* Behind what was lent. */
		knt_lent_add_own(xa_untag_pointer(xa_load(&out->pages, index)), page, in);
	} else if (!knt_out_store(out, index, page, order ? KNT_BLOCK : 0)) {
		put_page(page);
		return false;
	}
	*paid -= PAGE_SIZE << order;
	knt_see(seen, page, index, PAGE_SIZE << order);
	return true;
}

/* A page of the message for what is lent, which begins with all of a page if that is given. */
static bool knt_out_lend(struct knt_out *out, u32 len, u32 *paid, struct page *whole,
			 struct knt_lent **lent)
{
	unsigned long index = out->written >> PAGE_SHIFT;

	*lent = NULL;
	if (!knt_out_pay(out, len, PAGE_SIZE, paid))
		return false;
	if (whole) {
		if (!knt_out_store(out, index, whole, 0))
			return false;
		get_page(whole);
	} else {
		*lent = knt_lent_new(KNT_OUT_GFP);
		if (!*lent)
			return false;
		if (!knt_out_store(out, index, *lent, KNT_LENT)) {
			knt_lent_free(*lent);
			return false;
		}
	}
	*paid -= PAGE_SIZE;
	return true;
}

/*
 * Takes pages that a call lends, for up to *len bytes; returns for how many. 0: so many as *len
 * says then have to be copied, as far as they fit where they come.
 */
static int knt_out_borrow(struct knt_out *out, struct msghdr *msg, u32 *len, u32 *paid)
{
	u32 in = out->written & (PAGE_SIZE - 1);
	struct knt_lent *lent = NULL;
	struct knt_seen seen;
	struct knt_loan loan;

	/* A page of the message's own is filled first. */
	if (knt_out_find(out, out->written, &seen))
		return 0;
	if (in) {
		lent = xa_untag_pointer(xa_load(&out->pages, out->written >> PAGE_SHIFT));
		if (!knt_lent_takes(lent, in))
			return 0;
	}
	if (!knt_loan_take(&loan, msg, len))
		return 0;
	WRITE_ONCE(out->lent, true);
	while (loan.used < loan.len) {
		struct page *page;
		u32 at, bytes;
		bool whole;

		bytes = min_t(u32, knt_loan_next(&loan, &page, &at), PAGE_SIZE - in);
		whole = bytes == PAGE_SIZE && !loan.call;
		if (!in && !knt_out_lend(out, *len - loan.used, paid, whole ? page : NULL, &lent))
			break;
		if (!whole)
			knt_lent_add(lent, page, at, in + bytes, loan.call);
		loan.used += bytes;
		smp_store_release(&out->written, out->written + bytes);
		in = (in + bytes) & (PAGE_SIZE - 1);
		if (in && !knt_lent_takes(lent, in))
			break;
	}
	knt_loan_end(&loan, msg);
	return loan.used ?: -ENOBUFS;
}

static int knt_out_fill(struct knt_out *out, struct msghdr *msg, u32 len, u32 *paid)
{
	bool lends = knt_loan_may(msg);
	struct knt_seen seen;
	u32 done = 0;

	while (done < len) {
		u32 most = len - done, skip, copied;

		if (unlikely(lends)) {
			int lent = knt_out_borrow(out, msg, &most, paid);

			if (lent < 0)
				return done ?: lent;
			done += lent;
			if (lent)
				continue;
		}
		if (!knt_out_find(out, out->written, &seen) &&
		    !knt_out_grow(out, most, paid, &seen))
			return done ?: -ENOBUFS;
		skip = out->written - seen.from;
		most = min(seen.len - skip, most);
		copied = copy_from_iter(page_address(seen.page) + seen.at + skip, most,
					&msg->msg_iter);
		smp_store_release(&out->written, out->written + copied);
		done += copied;
		if (copied < most)
			return done ?: -EFAULT;
	}
	return done;
}

/* Appends from the application's memory; returns how much. Sleeps. */
int knt_out_write(struct knt_out *out, struct msghdr *msg, u32 len)
{
	u32 done, paid = 0;
	int result;

	if (out->room) {
		len = min(len, out->room - out->written);
		done = copy_from_iter(out->data + out->written, len, &msg->msg_iter);
		smp_store_release(&out->written, out->written + done);
		return done || !len ? done : -EFAULT;
	}
	/* Offsets never wrap; and the result is an int. */
	if (len > U32_MAX - out->written)
		return -ENOBUFS;
	result = knt_out_fill(out, msg, min_t(u32, len, INT_MAX), &paid);
	if (paid)
		knt_mem_uncharge_out(out->sk, paid);
	return result;
}

/* Up to how many bytes are better copied, in any case. */
u32 knt_out_copied(const struct knt_out *out)
{
	return out->room;
}

/* Whether pages of it are lent. */
bool knt_out_is_lent(const struct knt_out *out)
{
	return READ_ONCE(out->lent);
}

static void knt_put_copy(struct sk_buff *skb, struct page *page, u32 at, u32 len)
{
	/* Such a page is lent, and no block. */
	if (PageHighMem(page))
		memcpy_from_page(skb_put(skb, len), page, at, len);
	else
		skb_put_data(skb, page_address(page) + at, len);
}

/*
 * By reference. Of a page that is somebody else's its allocator is not asked whether it was for
 * emergencies: where that is noted, its owner has something of his own by now.
 */
static void knt_put_page(struct sk_buff *skb, struct page *page, u32 at, u32 len, bool lent)
{
	get_page(page);
	if (unlikely(lent)) {
		skb_fill_page_desc_noacc(skb, skb_shinfo(skb)->nr_frags, page, at, len);
		skb_len_add(skb, len);
	} else {
		skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, at, len, len);
	}
}

/*
 * Puts a part of what is written into a packet, as a copy or by reference. What is not written is
 * nobody's to see. seen: of a row of packets, as long as nothing of the message can be released.
 */
bool knt_out_attach(struct knt_out *out, struct sk_buff *skb, u32 offset, u32 len, bool copy,
		    struct knt_seen *seen)
{
	u32 written = smp_load_acquire(&out->written);

	if (offset > written || len > written - offset)
		return false;
	/* Those pages may be gone at any moment. */
	if (offset >> PAGE_SHIFT < out->below)
		return false;
	if (out->room) {
		skb_put_data(skb, out->data + offset, len);
		return true;
	}
	while (len) {
		/* It is where the last packet of the row was, mostly. */
		u32 skip = offset - seen->from, at, left;

		if (skip >= seen->len) {
			if (!knt_out_find(out, offset, seen)) {
				seen->len = 0;
				return false;
			}
			skip = offset - seen->from;
		}
		at = seen->at + skip;
		left = min(seen->len - skip, len);
		if (copy) {
			knt_put_copy(skb, seen->page, at, left);
		} else {
			bool lent = knt_out_is_lent(out);

			if (skb_shinfo(skb)->nr_frags >= MAX_SKB_FRAGS ||
			    (unlikely(lent) && !knt_lent_refer(skb, seen->call)))
				return false;
			knt_put_page(skb, seen->page, at, left, lent);
		}
		offset += left;
		len -= left;
	}
	return true;
}

/* What counts its packets; NULL: nothing does. With the namespace's lock. */
struct knt_below *knt_out_below(const struct knt_net *tn, const struct knt_out *out)
{
	return net_eq(sock_net(out->sk), tn->net) ? out->counts : NULL;
}

/*
 * Whether fewer packets of it that count than that are on their way through the host by this link.
 * If not, it is to go on when one has left: by this name, the same each time. Without memory
 * nothing is counted. With the namespace's lock.
 */
bool knt_out_has_room(struct knt_net *tn, struct knt_out *out, u64 name, u32 link, u32 most)
{
	if (!net_eq(sock_net(out->sk), tn->net))
		return true;
	if (out->counts && !knt_below_is_for(out->counts, link)) {
		knt_below_end(out->counts);
		out->counts = NULL;
	}
	if (!out->counts)
		out->counts = knt_below_new(tn, link);
	return !out->counts || knt_below_has_room(out->counts, name, most);
}
