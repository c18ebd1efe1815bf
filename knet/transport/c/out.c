// SPDX-License-Identifier: GPL-2.0
/*
 * What an application wrote of a message. Short messages are in one allocation, and copied into
 * their packet; others in pages, in blocks of eight where they can be had, which packets refer to.
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

struct knt_out {
	refcount_t references;
	u32 room;		/* of data; 0: in pages */
	u32 written;		/* the writer's; bytes below are there for all */
	u32 charged;
	unsigned long freed;	/* pages below are gone */
	struct sock *sk;
	struct knt_out *next;	/* in an outbox */
	/*
	 * By number; a block by that of its first, and tagged. Who finds an entry that is not a
	 * block, and does not want its page, must not look at the page: it may be freed already.
	 */
	struct xarray pages;
	u8 data[];
};

/* The tag of a block. */
#define KNT_BLOCK 1UL

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

static void knt_out_free_entry(struct knt_out *out, void *entry)
{
	u32 bytes = PAGE_SIZE << (knt_is_block(entry) ? KNT_BLOCK_ORDER : 0);

	put_page(xa_untag_pointer(entry));
	knt_mem_uncharge_out(out->sk, bytes);
}

static void knt_out_free(struct knt_out *out, u32 most)
{
	struct sock *sk = out->sk;
	unsigned long index;
	void *entry;
	u32 count = 0;

	xa_for_each(&out->pages, index, entry) {
		knt_out_free_entry(out, entry);
		WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && ++count > most);
	}
	xa_destroy(&out->pages);
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
	if (refcount_dec_not_one(&out->references))
		return;
	/* Nobody else has one, nor gets one. */
	out->next = box->outs;
	box->outs = out;
}

/* Frees what was left in an outbox, without the namespace's lock. */
void knt_outs_sweep(struct knt_outbox *box)
{
	while (box->outs) {
		struct knt_out *out = box->outs;

		box->outs = out->next;
		knt_out_free(out, U32_MAX);
	}
}

/*
 * Frees what lies below an offset and is not needed for what lies above. What is not written yet
 * stays, whatever the offset: the writer may be copying into it.
 */
void knt_out_release(struct knt_out *out, u32 below)
{
	unsigned long end = min(below, READ_ONCE(out->written)) >> PAGE_SHIFT;
	void *entry;

	while (out->freed < end) {
		entry = xa_load(&out->pages, out->freed);
		if (knt_is_block(entry)) {
			if (out->freed + KNT_BLOCK_PAGES > end)
				break;
			xa_erase_bh(&out->pages, out->freed);
			out->freed += KNT_BLOCK_PAGES;
		} else {
			if (entry)
				xa_erase_bh(&out->pages, out->freed);
			out->freed++;
		}
		if (entry)
			knt_out_free_entry(out, entry);
	}
}

/* The page of an offset, where the offset is in it, and how many bytes follow there. */
static struct page *knt_out_find(struct knt_out *out, u32 offset, u32 *at, u32 *left)
{
	unsigned long index = offset >> PAGE_SHIFT;
	unsigned long block = index & ~(KNT_BLOCK_PAGES - 1UL);
	void *entry = xa_load(&out->pages, block);

	if (knt_is_block(entry)) {
		*at = offset & (PAGE_SIZE * KNT_BLOCK_PAGES - 1);
		*left = PAGE_SIZE * KNT_BLOCK_PAGES - *at;
		return xa_untag_pointer(entry);
	}
	*at = offset & (PAGE_SIZE - 1);
	*left = PAGE_SIZE - *at;
	if (index != block)
		entry = xa_load(&out->pages, index);
	return xa_untag_pointer(entry);
}

/* A new page, or a block if that many bytes are to come and it is the place for one. */
static struct page *knt_out_grow(struct knt_out *out, u32 len)
{
	unsigned long index = out->written >> PAGE_SHIFT;
	struct page *page = NULL;
	u32 order = 0;
	void *entry;

	if (!(index & (KNT_BLOCK_PAGES - 1)) && len > PAGE_SIZE * KNT_BLOCK_PAGES / 2)
		order = KNT_BLOCK_ORDER;
	if (!knt_mem_charge_out(out->sk, PAGE_SIZE << order))
		return NULL;
	if (order)
		page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY, order);
	if (!page) {
		if (order)
			knt_mem_uncharge_out(out->sk, (PAGE_SIZE << order) - PAGE_SIZE);
		order = 0;
		page = alloc_pages(KNT_OUT_GFP, 0);
	}
	if (!page) {
		knt_mem_uncharge_out(out->sk, PAGE_SIZE);
		return NULL;
	}
	entry = xa_tag_pointer(page, order ? KNT_BLOCK : 0);
	if (xa_err(xa_store_bh(&out->pages, index, entry, KNT_OUT_GFP))) {
		knt_out_free_entry(out, entry);
		return NULL;
	}
	return page;
}

/* Appends from the application's memory; returns how much. Sleeps. */
int knt_out_write(struct knt_out *out, struct msghdr *msg, u32 len)
{
	u32 done = 0;

	if (out->room) {
		len = min(len, out->room - out->written);
		done = copy_from_iter(out->data + out->written, len, &msg->msg_iter);
		smp_store_release(&out->written, out->written + done);
		return done || !len ? done : -EFAULT;
	}
	/* Offsets never wrap; and the result is an int. */
	if (len > U32_MAX - out->written)
		return -ENOBUFS;
	len = min_t(u32, len, INT_MAX);
	while (done < len) {
		u32 at, left, copied;
		struct page *page;

		page = knt_out_find(out, out->written, &at, &left);
		if (!page) {
			page = knt_out_grow(out, len - done);
			if (!page)
				return done ?: -ENOBUFS;
			page = knt_out_find(out, out->written, &at, &left);
		}
		left = min(left, len - done);
		copied = copy_from_iter(page_address(page) + at, left, &msg->msg_iter);
		smp_store_release(&out->written, out->written + copied);
		done += copied;
		if (copied < left)
			return done ?: -EFAULT;
	}
	return done;
}

/* Up to how many bytes are better copied, in any case. */
u32 knt_out_copied(const struct knt_out *out)
{
	return out->room;
}

/*
 * Puts a part of what is written into a packet, as a copy or by reference. What is not written is
 * nobody's to see.
 */
bool knt_out_attach(struct knt_out *out, struct sk_buff *skb, u32 offset, u32 len, bool copy)
{
	u32 written = smp_load_acquire(&out->written);

	if (offset > written || len > written - offset)
		return false;
	if (out->room) {
		skb_put_data(skb, out->data + offset, len);
		return true;
	}
	while (len) {
		struct page *page;
		u32 at, left;

		page = knt_out_find(out, offset, &at, &left);
		if (!page)
			return false;
		left = min(left, len);
		if (copy) {
			skb_put_data(skb, page_address(page) + at, left);
		} else {
			if (skb_shinfo(skb)->nr_frags >= MAX_SKB_FRAGS)
				return false;
			get_page(page);
			skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, at, left, left);
		}
		offset += left;
		len -= left;
	}
	return true;
}
