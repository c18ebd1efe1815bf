// SPDX-License-Identifier: GPL-2.0
/*
 * Trains: packets with data of one message that leave together, and pass IP, qdiscs and devices as
 * one super-packet, as what an application sends with UDP_SEGMENT. Each of them has the transport's
 * header before its payload: of the first that is in the packet itself, of the others in a page of
 * its own, between pages of what the application wrote. So whoever cuts the train, a device or the
 * kernel, makes whole packets of it.
 */
#include <linux/skbuff_ref.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/udp.h>
#include "internal.h"

/* So many packets behind the first have room for their headers, and a header is as long. */
#define KNT_BEHIND 7
#define KNT_BEHIND_HEAD 24

/*
 * Room for one packet of a train, or the first of it, with so much before and in it; behind it
 * there is room for others' headers. From the page fragments of network devices, so that the kernel
 * may refer to a part of it.
 */
struct sk_buff *knt_train_alloc(u32 headroom, u32 len)
{
	u32 size = SKB_DATA_ALIGN(headroom + len) + SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	void *data = netdev_alloc_frag(size + KNT_BEHIND * KNT_BEHIND_HEAD);
	struct sk_buff *skb;

	if (!data)
		return NULL;
	/* The room is not the packet's: what grows at its end would write over it. */
	skb = build_skb(data, size);
	if (!skb) {
		skb_free_frag(data);
		return NULL;
	}
	skb_reserve(skb, headroom);
	return skb;
}

/* Puts a header at the end of a train from knt_train_alloc() that has so many packets. */
static void knt_train_put_head(struct sk_buff *skb, u32 packets, const u8 *head, u32 len)
{
	void *to = (void *)skb_shinfo(skb) + SKB_DATA_ALIGN(sizeof(struct skb_shared_info)) +
		   (packets - 1) * KNT_BEHIND_HEAD;
	struct page *page = virt_to_head_page(to);

	memcpy(to, head, len);
	get_page(page);
	skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, to - page_address(page), len,
			KNT_BEHIND_HEAD);
}

/* Takes off what was put at the end since it had so many parts, and was so long. */
static void knt_train_cut(struct sk_buff *skb, u32 frags, u32 len, u32 truesize)
{
	while (skb_shinfo(skb)->nr_frags > frags)
		skb_frag_unref(skb, --skb_shinfo(skb)->nr_frags);
	skb->data_len -= skb->len - len;
	skb->len = len;
	skb->truesize = truesize;
}

/*
 * Puts a packet with written data, which is to leave by the same way and for the same socket, at
 * the end of one from knt_train_alloc(), or of the train that this is: all but the last are as
 * long as the first. Of packets that count, below is what counts them; NULL: nothing does. False,
 * and nothing has changed: it has to leave by itself.
 */
bool knt_train_add(struct sk_buff *skb, const struct knt_departure *departure,
		   struct knt_below *below, struct knt_seen *seen)
{
	struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 len = skb->len, truesize = skb->truesize, frags = shinfo->nr_frags;
	u32 packets = shinfo->gso_segs ?: 1, size = shinfo->gso_size ?: len;
	u32 more = departure->head_len + departure->len;

	if (packets > KNT_BEHIND || !departure->head_len ||
	    departure->head_len > KNT_BEHIND_HEAD || more > size ||
	    len != packets * size || frags >= MAX_SKB_FRAGS || !knt_below_has_place(below, skb))
		return false;
	knt_train_put_head(skb, packets, departure->head, departure->head_len);
	if (!knt_out_attach(departure->out, skb, departure->offset, departure->len, false,
			    seen)) {
		knt_train_cut(skb, frags, len, truesize);
		return false;
	}
	knt_below_more(below, skb);
	if (skb->sk)
		refcount_add(skb->truesize - truesize, &skb->sk->sk_wmem_alloc);
	shinfo->gso_size = size;
	shinfo->gso_segs = packets + 1;
	shinfo->gso_type = SKB_GSO_UDP_L4;
	return true;
}

/* Puts so many bytes of what is in a packet's pages, from an offset in it on, into another one. */
static bool knt_refer(struct sk_buff *part, const struct sk_buff *skb, u32 offset, u32 len)
{
	u32 at = skb_headlen(skb), i;

	/* What is not in pages. */
	if (offset < at) {
		u32 linear = min(len, at - offset);

		if (linear > skb_tailroom(part))
			return false;
		skb_put_data(part, skb->data + offset, linear);
		offset += linear;
		len -= linear;
	}
	for (i = 0; len && i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		u32 begin = offset - at, bytes;

		at += skb_frag_size(frag);
		if (offset >= at)
			continue;
		bytes = min(len, at - offset);
		__skb_frag_ref((skb_frag_t *)frag);
		/* Whether it is for emergencies only is said of the whole, not asked of the page. */
		skb_fill_page_desc_noacc(part, skb_shinfo(part)->nr_frags, skb_frag_page(frag),
					 skb_frag_off(frag) + begin, bytes);
		skb_len_add(part, bytes);
		offset += bytes;
		len -= bytes;
	}
	return !len;
}

/*
 * Of a train's packets behind the first one each as a packet of its own, with so much room before
 * it: the transport's header, and references to the same pages, in which all of these packets are
 * but for that. The train keeps skip bytes and the first. They follow it by their next; false: no
 * memory, and nothing has changed.
 */
bool knt_train_apart(struct sk_buff *skb, u32 skip, u32 headroom)
{
	u32 size = skb_shinfo(skb)->gso_size, head = knt_ops->numbers.payload_header;
	u32 offset, rest, truesize;
	struct sk_buff *parts = NULL, **end = &parts, *part;

	for (offset = skip + size; offset < skb->len; offset += size) {
		u32 len = min(size, skb->len - offset), first = min(len, head);

		part = knt_train_alloc(headroom, first);
		if (!part)
			goto drop;
		*end = part;
		end = &part->next;
		if (skb_copy_bits(skb, offset, skb_put(part, first), first) ||
		    !knt_refer(part, skb, offset + first, len - first))
			goto drop;
		part->pfmemalloc |= skb->pfmemalloc;
		/* Whose the pages are, if they are lent. */
		skb_shinfo(part)->flags |= skb_shinfo(skb)->flags & SKBFL_SHARED_FRAG;
		skb_zcopy_set(part, skb_zcopy(skb), NULL);
	}
	rest = skb->len > skip + size ? skb->len - skip - size : 0;
	truesize = skb->truesize;
	if (pskb_trim(skb, skip + size))
		goto drop;
	/*
	 * The pages count for who refers to them; unless little was left, and the kernel has put that
	 * into the packet itself and counted anew.
	 */
	if (skb->truesize == truesize) {
		skb->truesize -= rest;
		if (skb->sk)
			WARN_ON_ONCE(refcount_sub_and_test(rest, &skb->sk->sk_wmem_alloc));
	}
	skb_gso_reset(skb);
	skb->next = parts;
	return true;
drop:
	kfree_skb_list(parts);
	return false;
}

/*
 * Whether a super-packet that came in is one that knt_train_apart() can take apart, with plain
 * headers of IP and UDP, which is less work than what UDP does.
 */
bool knt_is_train(struct sk_buff *skb)
{
	const struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 ip = skb->protocol == htons(ETH_P_IP) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);

#ifdef CONFIG_SKB_EXTENSIONS
	/* What IPsec and others say of the whole would have to be said of each. */
	if (skb->active_extensions)
		return false;
#endif
	return skb_is_gso(skb) && !skb_has_frag_list(skb) && skb_network_header_len(skb) == ip &&
	       skb_frags_readable(skb) && !skb_zcopy(skb) && !skb->pp_recycle &&
	       !skb_shared(skb) && shinfo->gso_size != GSO_BY_FRAGS && skb->truesize > skb->len;
}

/* A super-packet that begins with UDP's header. */
struct knt_whole knt_whole_begin(struct sk_buff *skb, u32 size)
{
	return (struct knt_whole){
		.skb = skb,
		.size = size,
		.offset = sizeof(struct udphdr),
		.begin = skb_headlen(skb),
	};
}

/* What there is in a packet's page, if all of that is in the one that is looked at. */
static const u8 *knt_whole_at(struct knt_whole *whole, u32 len)
{
	const struct skb_shared_info *shinfo = skb_shinfo(whole->skb);
	const skb_frag_t *frag = &shinfo->frags[whole->frag];

	if (whole->offset < skb_headlen(whole->skb))
		return len <= skb_headlen(whole->skb) - whole->offset ?
			       whole->skb->data + whole->offset : NULL;
	while (whole->frag < shinfo->nr_frags &&
	       whole->offset - whole->begin >= skb_frag_size(frag)) {
		whole->begin += skb_frag_size(frag);
		whole->frag++;
		frag++;
	}
	if (whole->frag >= shinfo->nr_frags || PageHighMem(skb_frag_page(frag)) ||
	    len > skb_frag_size(frag) - (whole->offset - whole->begin))
		return NULL;
	return skb_frag_address(frag) + (whole->offset - whole->begin);
}

/*
 * The first bytes of a super-packet's next packet, which has at least as many; how long it is. 0:
 * there is none, or it is shorter.
 */
u32 knt_whole_next(struct knt_whole *whole, u8 *head, u32 len)
{
	u32 all = whole->skb->len, size;
	const u8 *at;

	if (whole->offset >= all)
		return 0;
	size = min(whole->size, all - whole->offset);
	if (size < len)
		return 0;
	at = knt_whole_at(whole, len);
	if (at)
		memcpy(head, at, len);
	else if (skb_copy_bits(whole->skb, whole->offset, head, len))
		return 0;
	whole->offset += size;
	return size;
}

/* How many bytes of UDP's payload a super-packet that goes by this route may have; 0: none. */
static u32 knt_super_len(const struct sk_buff *skb, const struct dst_entry *dst, bool v4)
{
	const struct net_device *dev = dst_dev_rcu(dst);
	u32 headers = (v4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) + sizeof(struct udphdr);
	u32 most;

	/* IPsec and tunnels of routes would take it apart at once; so would a device without. */
	if (!(dev->features & NETIF_F_GSO) || dst->header_len || dst->lwtstate ||
	    skb_shinfo(skb)->gso_size + headers > dst_mtu(dst))
		return 0;
	most = v4 ? READ_ONCE(dev->gso_ipv4_max_size) : READ_ONCE(dev->gso_max_size);
	/* With more IPv6 would need a header of its own. */
	most = min_t(u32, most, U16_MAX);
	headers += dev->hard_header_len;
	return most > headers ? most - headers : 0;
}

/* Whether a train may leave by this route as it is. */
bool knt_train_passes(const struct sk_buff *skb, const struct dst_entry *dst, bool v4)
{
	return skb->len <= knt_super_len(skb, dst, v4) &&
	       skb_shinfo(skb)->gso_segs <= READ_ONCE(dst_dev_rcu(dst)->gso_max_segs);
}
