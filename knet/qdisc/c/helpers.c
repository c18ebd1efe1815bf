// SPDX-License-Identifier: GPL-2.0
/* C faces of the kernel's inline functions and macros; see knet.h. */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include "knet.h"

/* What mq has for qdiscs such as cake_mq. */
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

/*
 * Whoever counts a super-packet as on its way is told when the last part of it has left, not when
 * it is freed for having been split. skb_segment() sees to that for sock_wfree(), and TCP for its
 * own; here it is done for others that send UDP. All that a destructor may look at goes along: the
 * socket, truesize, and what it keeps itself, unless that is MSG_ZEROCOPY's.
 */
static void knet_skb_hand_on(struct sk_buff *skb, struct sk_buff *parts)
{
	struct sk_buff *last = parts;

	if (!skb->destructor || !(skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4) || skb_zcopy(skb))
		return;
	while (last->next)
		last = last->next;
	if (last->destructor || skb_zcopy(last))
		return;
	skb_shinfo(last)->destructor_arg = skb_shinfo(skb)->destructor_arg;
	swap(last->truesize, skb->truesize);
	swap(last->destructor, skb->destructor);
	swap(last->sk, skb->sk);
}

/*
 * The segments of a GSO packet, linked by ->next, or NULL when it cannot be split. The caller keeps
 * the packet, but not what it counted for. As in sch_tbf and sch_cake: everything the device could
 * do but GSO itself stays allowed.
 */
struct sk_buff *knet_skb_segment(struct sk_buff *skb)
{
	netdev_features_t features = netif_skb_features(skb);
	struct sk_buff *segs = skb_gso_segment(skb, features & ~NETIF_F_GSO_MASK);

	if (IS_ERR_OR_NULL(segs))
		return NULL;
	knet_skb_hand_on(skb, segs);
	return segs;
}

/* Types whose super-packets can be cut into shorter ones, and what may be said of those. */
#define KNET_GSO_TCP (SKB_GSO_TCPV4 | SKB_GSO_TCPV6)
#define KNET_GSO_CUT (KNET_GSO_TCP | SKB_GSO_UDP_L4)
#define KNET_GSO_MAY (KNET_GSO_CUT | SKB_GSO_DODGY | SKB_GSO_TCP_ECN | SKB_GSO_TCP_ACCECN | \
		      SKB_GSO_TCP_FIXEDID)

/*
 * Bytes of headers, from the Ethernet header on, in each segment of a GSO packet that
 * knet_skb_cut() can cut: plain TCP or UDP over IP, whose checksum is left to the device and whose
 * data is in one packet. 0 for all others. Only what is read here is known to be true: whether the
 * headers are what they claim, skb_gso_segment() finds out.
 */
static unsigned int knet_skb_segment_headers(const struct sk_buff *skb)
{
	const struct skb_shared_info *shinfo = skb_shinfo(skb);
	const unsigned int type = shinfo->gso_type;
	const struct tcphdr *th;
	struct tcphdr _th;
	int at;

	if (!shinfo->gso_size || shinfo->gso_size == GSO_BY_FRAGS || (type & ~KNET_GSO_MAY) ||
	    !is_power_of_2(type & KNET_GSO_CUT) || skb->encapsulation || skb_has_frag_list(skb) ||
	    skb->ip_summed != CHECKSUM_PARTIAL)
		return 0;
	switch (vlan_get_protocol(skb)) {
	case htons(ETH_P_IP):
		if (type & SKB_GSO_TCPV6)
			return 0;
		break;
	case htons(ETH_P_IPV6):
		if (type & SKB_GSO_TCPV4)
			return 0;
		break;
	default:
		return 0;
	}
	at = skb_checksum_start_offset(skb);
	if (at <= 0 || at >= skb->len)
		return 0;
	if (type & SKB_GSO_UDP_L4)
		return at + sizeof(struct udphdr);
	th = skb_header_pointer(skb, at, sizeof(_th), &_th);
	if (!th || th->doff * 4 < sizeof(*th))
		return 0;
	return at + th->doff * 4;
}

unsigned int knet_skb_segment_len(const struct sk_buff *skb)
{
	unsigned int headers = knet_skb_segment_headers(skb);

	return headers ? headers + skb_shinfo(skb)->gso_size : 0;
}

/*
 * What skb_gso_segment() has made of a GSO packet of @type, of @mss bytes to a segment but for the
 * last, becomes GSO packets of @mss bytes to a segment, each counted by the qdisc layer as
 * qdisc_pkt_len_segs_init() does.
 */
static void knet_skb_pieces(struct sk_buff *pieces, unsigned int type, unsigned int mss, bool ids)
{
	const unsigned int headers = skb_transport_offset(pieces) +
		(type & KNET_GSO_TCP ? tcp_hdrlen(pieces) : sizeof(struct udphdr));
	u16 id = ids ? ntohs(ip_hdr(pieces)->id) : 0;
	struct sk_buff *skb;

	for (skb = pieces; skb; skb = skb->next) {
		struct skb_shared_info *shinfo = skb_shinfo(skb);
		unsigned int segs = DIV_ROUND_UP(skb->len - headers, mss);

		if (segs > 1) {
			shinfo->gso_size = mss;
			shinfo->gso_segs = segs;
			/* The headers have been looked at, and the number is right. */
			shinfo->gso_type = type & ~SKB_GSO_DODGY;
		}
		/* Each segment has an identification of its own, and they were counted by pieces. */
		if (ids) {
			struct iphdr *ip = ip_hdr(skb);

			csum_replace2(&ip->check, ip->id, htons(id));
			ip->id = htons(id);
			id += segs;
		}
		qdisc_skb_cb(skb)->pkt_len = skb->len + (segs - 1) * headers;
		qdisc_skb_cb(skb)->pkt_segs = segs;
	}
}

/*
 * Cuts a GSO packet into shorter ones, each of @segs segments but for the last one: linked by
 * ->next, or NULL when it cannot be cut that way. The caller keeps the packet, which is as it was.
 *
 * To skb_gso_segment() a segment is what gso_size says, and so are sequence numbers, lengths and
 * sums: with a multiple of it, what comes out are the pieces, and they only have to be told that
 * they are GSO packets. This is what NETIF_F_GSO_PARTIAL does, but that takes as many segments as
 * there are. The sums stay the device's to make, whatever it can: whoever sends a piece splits or
 * sums it up as any GSO packet.
 */
struct sk_buff *knet_skb_cut(struct sk_buff *skb, unsigned int segs)
{
	const unsigned int headers = knet_skb_segment_headers(skb);
	unsigned int type, mss;
	struct sk_buff *pieces;
	bool ids;

	/* Others may hold it, or look at what is written here: clones have it in common. */
	if (!headers || headers >= U16_MAX || skb_shared(skb) || skb_unclone(skb, GFP_ATOMIC))
		return NULL;
	mss = skb_shinfo(skb)->gso_size;
	type = skb_shinfo(skb)->gso_type;
	/* Lengths have 16 bits, as gso_size has. */
	segs = min(segs, (U16_MAX - headers) / mss);
	if (segs < 2 || skb->len <= headers || skb->len - headers <= segs * mss)
		return NULL;
	ids = vlan_get_protocol(skb) == htons(ETH_P_IP) && !(type & SKB_GSO_TCP_FIXEDID);

	skb_shinfo(skb)->gso_size = segs * mss;
	pieces = skb_gso_segment(skb, NETIF_F_SG | NETIF_F_HW_CSUM);
	skb_shinfo(skb)->gso_size = mss;
	if (IS_ERR_OR_NULL(pieces))
		return NULL;
	knet_skb_pieces(pieces, type, mss, ids);
	knet_skb_hand_on(skb, pieces);
	return pieces;
}

/* A packet that has no segments is one to whoever counts it, whatever it was to the qdisc. */
void knet_skb_is_one(struct sk_buff *skb)
{
	if (!skb_is_gso(skb))
		qdisc_skb_cb(skb)->pkt_segs = 1;
}

void knet_skb_consume(struct sk_buff *skb)
{
	consume_skb(skb);
}

/*
 * Can be called in any context: the packet is freed by a softirq, without a lock. What its
 * destructor or its last reference to something else sets off cannot come back to the qdisc that
 * lets go of it.
 */
void knet_skb_free_later(struct sk_buff *skb)
{
	dev_kfree_skb_irq(skb);
}

/*
 * Writes the ECN field of the IP header that begins @at bytes into the packet, and mends what sums
 * it up. The packet gets a header of its own first if it shares that with others: copies for taps
 * or for other ports of a bridge stay as they are. False when there is no memory for that, and the
 * packet is as it was.
 */
bool knet_skb_set_ecn(struct sk_buff *skb, unsigned int at, bool ipv6, u8 ecn)
{
	const unsigned int len = ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	const u8 mask = (u8)~INET_ECN_MASK;
	__be32 from;
	void *ip;

	if (skb_shared(skb))
		return false;
	/* Any number may come here: the sum must not wrap. */
	if (at > skb->len || skb->len - at < len || skb_ensure_writable(skb, at + len))
		return false;
	ip = skb->data + at;
	if (!ipv6) {
		ipv4_change_dsfield(ip, mask, ecn);
		return true;
	}
	/*
	 * No checksum in the header, so what is known of the packet's changes with it; as in
	 * IP6_ECN_set_ce().
	 */
	from = get_unaligned((__be32 *)ip);
	ipv6_change_dsfield(ip, mask, ecn);
	if (skb->ip_summed == CHECKSUM_COMPLETE)
		skb->csum = csum_add(csum_sub(skb->csum, (__force __wsum)from),
				     (__force __wsum)get_unaligned((__be32 *)ip));
	return true;
}

/*
 * A packet of @dev that is this Ethernet frame, but for the source address, which is the device's.
 * The qdisc layer counts none of it: it was never queued. NULL without memory.
 */
struct sk_buff *knet_skb_frame(struct net_device *dev, const u8 *frame, unsigned int len)
{
	struct sk_buff *skb;

	if (len < ETH_HLEN)
		return NULL;
	skb = alloc_skb(LL_RESERVED_SPACE(dev) + len + dev->needed_tailroom,
			GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, LL_RESERVED_SPACE(dev));
	skb_put_data(skb, frame, len);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	ether_addr_copy(eth_hdr(skb)->h_source, dev->dev_addr);
	skb->protocol = eth_hdr(skb)->h_proto;
	skb->dev = dev;
	skb->priority = TC_PRIO_CONTROL;
	qdisc_skb_cb(skb)->pkt_len = 0;
	qdisc_skb_cb(skb)->pkt_segs = 0;
	return skb;
}

struct net_device *knet_qdisc_dev(const struct Qdisc *sch)
{
	return qdisc_dev(sch);
}

void knet_tree_lock(struct Qdisc *sch)
{
	sch_tree_lock(sch);
}

void knet_tree_unlock(struct Qdisc *sch)
{
	sch_tree_unlock(sch);
}

void knet_lost(struct Qdisc *sch, unsigned int packets, unsigned int bytes)
{
	WRITE_ONCE(sch->q.qlen, sch->q.qlen - packets);
	qstats_backlog_sub(sch, bytes);
	__qdisc_qstats_drop(sch, packets);
}

/* As in qdisc_lookup_rcu(), which is not exported. */
static struct Qdisc *knet_parent(const struct Qdisc *sch)
{
	struct net_device *dev = qdisc_dev(sch);
	u32 handle = TC_H_MAJ(sch->parent);
	struct Qdisc *q = rcu_dereference(dev->qdisc);

	if (!(q->flags & TCQ_F_BUILTIN) && q->handle == handle)
		return q;
	hash_for_each_possible_rcu(dev->qdisc_hash, q, hash, handle)
		if (q->handle == handle)
			return q;
	return NULL;
}

/*
 * Adds to the counters of all parents, or takes away by what wraps around. Unlike in
 * qdisc_tree_reduce_backlog(), no class hears that its qdisc is empty, and nothing is counted as
 * dropped.
 */
void knet_count_at_parents(struct Qdisc *sch, unsigned int packets, unsigned int bytes)
{
	rcu_read_lock();
	while (sch->parent && sch->parent != TC_H_ROOT && !(sch->flags & TCQ_F_NOPARENT)) {
		sch = knet_parent(sch);
		if (!sch)
			break;
		WRITE_ONCE(sch->q.qlen, sch->q.qlen + packets);
		WRITE_ONCE(sch->qstats.backlog, sch->qstats.backlog + bytes);
	}
	rcu_read_unlock();
}

bool knet_has_parent(const struct Qdisc *sch)
{
	return sch->parent && sch->parent != TC_H_ROOT && !(sch->flags & TCQ_F_NOPARENT);
}

static enum hrtimer_restart knet_settle(struct hrtimer *timer)
{
	struct knet_settling *settling = container_of(timer, struct knet_settling, timer);
	struct netdev_queue *queue = settling->sch->dev_queue;
	struct Qdisc *root;

	rcu_read_lock();
	root = rcu_dereference(queue->qdisc);
	/* A device that is down has another root, and resets what it had. */
	if (!(root->flags & TCQ_F_BUILTIN)) {
		spin_lock(qdisc_lock(root));
		if (rcu_access_pointer(queue->qdisc) == root)
			settling->settle(settling->sch);
		spin_unlock(qdisc_lock(root));
		/* Who asked got nothing, and may have others to ask. */
		__netif_schedule(root);
	}
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

void knet_settling_init(struct knet_settling *settling, struct Qdisc *sch,
			void (*settle)(struct Qdisc *sch))
{
	settling->sch = sch;
	settling->settle = settle;
	/* Soft: the root lock is taken in softirqs, not in interrupts. */
	hrtimer_setup(&settling->timer, knet_settle, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
}

void knet_settling_start(struct knet_settling *settling)
{
	hrtimer_start(&settling->timer, 0, HRTIMER_MODE_REL_SOFT);
}

void knet_settling_stop(struct knet_settling *settling)
{
	hrtimer_cancel(&settling->timer);
}

void knet_count_drops(struct Qdisc *sch, unsigned int packets)
{
	__qdisc_qstats_drop(sch, packets);
}

void knet_overlimit(struct Qdisc *sch)
{
	qdisc_qstats_overlimit(sch);
}

void knet_drop_enqueue(struct Qdisc *sch, struct sk_buff *skb, struct sk_buff **to_free,
		       enum qdisc_drop_reason reason)
{
	tcf_set_qdisc_drop_reason(skb, reason);
	__qdisc_drop(skb, to_free);
}

/* As all qdiscs do: the reason is what the classifier said, or what it was before. */
void knet_drop_classified(struct sk_buff *skb, struct sk_buff **to_free)
{
	__qdisc_drop(skb, to_free);
}

void knet_drop_dequeue(struct Qdisc *sch, struct sk_buff *skb, enum qdisc_drop_reason reason)
{
	qdisc_dequeue_drop(sch, skb, reason);
}

void knet_drop_rtnl(struct sk_buff *skb)
{
	rtnl_kfree_skbs(skb, skb);
}

unsigned int knet_qdisc_qlen(const struct Qdisc *sch)
{
	return qdisc_qlen_sum(sch);
}

void knet_qdisc_purge(struct Qdisc *sch)
{
	qdisc_purge_queue(sch);
}

int knet_classify(struct sk_buff *skb, struct tcf_proto __rcu **list, struct tcf_result *res)
{
	struct tcf_proto *head = rcu_dereference_bh(*list);

	if (!head)
		return TC_ACT_UNSPEC;
	return tcf_classify_qdisc(skb, head, res, false);
}

struct sk_buff *knet_dump_skb(struct gnet_dump *d)
{
	return d->skb;
}

unsigned int knet_dump_len(const struct gnet_dump *d)
{
	return d->skb->len;
}

/*
 * Keeps the attribute that was written at `from` for TCA_XSTATS, and takes it out of the message
 * again. gnet_stats_copy_app() would write it into TCA_STATS_APP, too, which programs that collect
 * statistics of qdiscs read as fq's, whatever the kind. gnet_stats_copy() and
 * gnet_stats_finish_copy() free it, as what gnet_stats_copy_app() keeps.
 */
int knet_dump_own(struct gnet_dump *d, unsigned int from)
{
	const struct nlattr *own = (const struct nlattr *)(d->skb->data + from);
	int len = nla_len(own);
	void *kept = kmemdup(nla_data(own), len, GFP_ATOMIC);

	nlmsg_trim(d->skb, own);
	if (!kept)
		return -ENOMEM;
	kfree(d->xstats);
	d->xstats = kept;
	d->xstats_len = len;
	return 0;
}

int knet_class_stats(struct gnet_dump *d, u64 bytes, u64 packets,
		     const struct gnet_stats_queue *queue)
{
	struct gnet_stats_queue q = *queue;
	struct gnet_stats_basic_sync b;

	gnet_stats_basic_sync_init(&b);
	_bstats_set(&b, bytes, packets);
	if (gnet_stats_copy_basic(d, NULL, &b, false) < 0)
		return -EMSGSIZE;
	return gnet_stats_copy_queue(d, NULL, &q, q.qlen) < 0 ? -EMSGSIZE : 0;
}

bool knet_walk_class(struct Qdisc *sch, unsigned long cl, struct qdisc_walker *walker)
{
	return tc_qdisc_stats_dump(sch, cl, walker);
}

/*
 * bytes/s, or 0 when the device reports no speed. Needs RTNL, and the device's lock where it has
 * one.
 */
u64 knet_device_speed(struct net_device *dev)
{
	struct ethtool_link_ksettings settings;

	if (netif_get_link_ksettings(dev, &settings) < 0 || settings.base.speed == SPEED_UNKNOWN)
		return 0;
	return (u64)settings.base.speed * (1000 * 1000 / 8);
}

/* What bfifo takes for its default limit. */
unsigned int knet_device_queue_bytes(const struct net_device *dev)
{
	u64 bytes = (u64)(dev->tx_queue_len ?: DEFAULT_TX_QUEUE_LEN) * psched_mtu(dev);

	return min_t(u64, bytes, UINT_MAX);
}

/* The longest frame, with a VLAN tag: devices let one pass beyond the MTU. */
unsigned int knet_device_frame_bytes(const struct net_device *dev)
{
	return psched_mtu(dev) + VLAN_HLEN;
}

/*
 * What packets that the device receives may be merged into before anybody has them, in bytes; 0 if
 * they are not. The hardware's own merging goes by these numbers, too.
 */
unsigned int knet_device_merged_bytes(const struct net_device *dev)
{
	if (!(dev->features & (NETIF_F_GRO | NETIF_F_GRO_HW | NETIF_F_LRO)))
		return 0;
	return max(READ_ONCE(dev->gro_max_size), READ_ONCE(dev->gro_ipv4_max_size));
}

/*
 * Its frames leave by other devices, which may be several: a bridge, a bond, a VLAN. What is sent
 * to the end of its link would come to others.
 */
bool knet_device_is_stacked(const struct net_device *dev)
{
	return netif_is_bridge_master(dev) || netif_is_lag_master(dev) ||
	       !list_empty(&dev->adj_list.lower);
}

/* Its link carries frames, as far as the device knows. */
bool knet_device_is_up(const struct net_device *dev)
{
	return netif_running(dev) && netif_carrier_ok(dev);
}

/* Changed and walked under RTNL. */
static LIST_HEAD(knet_link_watches);
/* Several kinds may be watching; one notifier does for all. */
static unsigned int knet_link_watchers;
static DEFINE_MUTEX(knet_link_watchers_lock);

/*
 * Calls those who are due. A notifier must not do that itself. What a bond reports is worked out
 * from its slaves, whose locks that takes, while some events of a slave come with the slave's lock
 * held; and events come in the middle of a change, before or after bonding and team have heard of
 * it. Here no lock but RTNL is held, and all is settled.
 */
static void knet_link_settle(struct work_struct *work)
{
	struct knet_link_watch *watch;

	rtnl_lock();
	list_for_each_entry(watch, &knet_link_watches, node) {
		struct net_device *dev = qdisc_dev(watch->sch);

		if (!watch->due)
			continue;
		watch->due = false;
		netdev_lock_ops(dev);
		watch->changed(watch->sch);
		netdev_unlock_ops(dev);
	}
	rtnl_unlock();
}

static DECLARE_WORK(knet_link_work, knet_link_settle);

/* Something has changed on @dev: it counts for qdiscs on it, and on devices above it. */
static void knet_link_changed(struct net_device *dev)
{
	struct knet_link_watch *watch;
	bool due = false;

	list_for_each_entry(watch, &knet_link_watches, node) {
		struct net_device *watched = qdisc_dev(watch->sch);

		if (watched == dev || netdev_has_upper_dev(dev, watched))
			due = watch->due = true;
	}
	if (due)
		schedule_work(&knet_link_work);
}

static int knet_netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct netdev_notifier_changeupper_info *info = ptr;

	ASSERT_RTNL();
	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
	/* Whether packets are merged that it receives. */
	case NETDEV_FEAT_CHANGE:
	/* A port of a bond or team that takes part in sending, or no longer. */
	case NETDEV_CHANGELOWERSTATE:
	/* An active slave that is another. */
	case NETDEV_BONDING_FAILOVER:
	/* An option of the device that no other event tells of, a bond's active slave among them. */
	case NETDEV_CHANGEINFODATA:
		knet_link_changed(netdev_notifier_info_to_dev(ptr));
		break;
	case NETDEV_CHANGEUPPER:
		/* The lower device no longer leads to the upper one if it was released. */
		knet_link_changed(info->upper_dev);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block knet_netdev_notifier = {
	.notifier_call = knet_netdev_event,
};

void knet_link_watch_add(struct knet_link_watch *watch, struct Qdisc *sch,
			 void (*changed)(struct Qdisc *sch))
{
	ASSERT_RTNL();
	watch->sch = sch;
	watch->changed = changed;
	watch->due = false;
	list_add(&watch->node, &knet_link_watches);
}

void knet_link_watch_del(struct knet_link_watch *watch)
{
	ASSERT_RTNL();
	list_del(&watch->node);
}

/* For each kind that may watch, without RTNL. Whoever comes first starts the notifier. */
int knet_link_watch_start(void)
{
	int err = 0;

	mutex_lock(&knet_link_watchers_lock);
	if (!knet_link_watchers)
		err = register_netdevice_notifier(&knet_netdev_notifier);
	if (!err)
		knet_link_watchers++;
	mutex_unlock(&knet_link_watchers_lock);
	return err;
}

/*
 * For each successful start, without RTNL. After the last one neither the notifier nor the work
 * item runs any more.
 */
void knet_link_watch_stop(void)
{
	mutex_lock(&knet_link_watchers_lock);
	if (!--knet_link_watchers) {
		unregister_netdevice_notifier(&knet_netdev_notifier);
		cancel_work_sync(&knet_link_work);
	}
	mutex_unlock(&knet_link_watchers_lock);
}

/*
 * Those who can be found by their device's number, which is unique in a namespace: root qdiscs, so
 * that a chain has one for each device, and one more while it takes the place of another.
 */
#define KNET_FOUND_BITS 12
static struct hlist_head knet_found[1 << KNET_FOUND_BITS];
/* Who may choose the numbers of devices cannot choose the chain. */
static u32 knet_found_seed __read_mostly;

static struct hlist_head *knet_found_chain(const struct net *net, int ifindex)
{
	u32 hash = jhash_2words(ifindex, net_hash_mix(net), READ_ONCE(knet_found_seed));

	return &knet_found[hash >> (32 - KNET_FOUND_BITS)];
}

/*
 * The tap of a qdisc of the same kind as @sch, which sends by the device with this number, in the
 * namespace of @sch's device; the next one behind @after, if that is not NULL. There is more than
 * one while a qdisc takes the place of another. The caller holds rcu_read_lock() until it is done
 * with what it got; meanwhile the tap's device is there, and so are its queues.
 */
struct knet_tap *knet_tap_find(const struct Qdisc *sch, int ifindex,
			       const struct knet_tap *after)
{
	const struct net *net = dev_net(qdisc_dev(sch));
	struct hlist_node *node;

	/* One that has left the chain meanwhile still knows who was behind it. */
	if (after)
		node = rcu_dereference(hlist_next_rcu(&after->node));
	else
		node = rcu_dereference(hlist_first_rcu(knet_found_chain(net, ifindex)));
	for (; node; node = rcu_dereference(hlist_next_rcu(node))) {
		struct knet_tap *tap = hlist_entry(node, struct knet_tap, node);

		if (tap->ifindex == ifindex && tap->net == net && tap->ops == sch->ops)
			return tap;
	}
	return NULL;
}

/*
 * The number of the device whose link frames of a VLAN come in by, if @ifindex is the VLAN's device
 * in the namespace of @sch's; 0 if it is none, or if the link is in another namespace. Under RCU.
 */
int knet_vlan_link(const struct Qdisc *sch, int ifindex)
{
	struct net *net = dev_net(qdisc_dev(sch));
	const struct net_device *dev = dev_get_by_index_rcu(net, ifindex);

	if (!dev || !is_vlan_dev(dev))
		return 0;
	dev = vlan_dev_real_dev(dev);
	return net_eq(dev_net(dev), net) ? dev->ifindex : 0;
}

static int knet_tap_func(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
			 struct net_device *orig_dev)
{
	struct knet_tap *tap = container_of(type, struct knet_tap, type);

	tap->heard(tap, skb);
	/* As every packet handler, we were given a reference. */
	consume_skb(skb);
	return NET_RX_SUCCESS;
}

void knet_tap_init(struct knet_tap *tap)
{
	spin_lock_init(&tap->lock);
}

/* Where taps end; made for the first one, and gone with the module. Under RTNL. */
static struct workqueue_struct *knet_taps;

static void knet_tap_end(struct work_struct *work)
{
	struct knet_tap *tap = container_of(to_rcu_work(work), struct knet_tap, end);

	tap->ended(tap);
}

/* Not what the device sends: that is cloned for each who wants it. */
int knet_tap_start(struct knet_tap *tap, struct net_device *dev, struct Qdisc *sch,
		   void (*heard)(struct knet_tap *tap, const struct sk_buff *skb),
		   void (*ended)(struct knet_tap *tap))
{
	ASSERT_RTNL();
	if (!knet_taps)
		knet_taps = alloc_workqueue("knet_taps", WQ_UNBOUND, 1);
	if (!knet_taps)
		return -ENOMEM;
	INIT_RCU_WORK(&tap->end, knet_tap_end);
	tap->queue = sch->dev_queue;
	tap->heard = heard;
	tap->ended = ended;
	tap->type.type = htons(ETH_P_ALL);
	tap->type.ignore_outgoing = true;
	tap->type.dev = dev;
	tap->type.func = knet_tap_func;
	tap->ops = sch->ops;
	tap->net = dev_net(dev);
	tap->ifindex = dev->ifindex;
	if (!knet_found_seed)
		WRITE_ONCE(knet_found_seed, get_random_u32() | 1);
	dev_add_pack(&tap->type);
	INIT_HLIST_NODE(&tap->node);
	if (sch->parent == TC_H_ROOT)
		hlist_add_head_rcu(&tap->node, knet_found_chain(tap->net, tap->ifindex));
	return 0;
}

/*
 * dev_remove_pack() would wait for a grace period here, under RTNL, for each tap. Its device is in
 * use for as long as anybody is in heard(): it is what the packet came from.
 */
void knet_tap_stop(struct knet_tap *tap)
{
	ASSERT_RTNL();
	if (!hlist_unhashed(&tap->node))
		hlist_del_rcu(&tap->node);
	__dev_remove_pack(&tap->type);
	queue_rcu_work(knet_taps, &tap->end);
}

/*
 * Sends this Ethernet frame by the tap's device, past the qdiscs, which may be going. Under RTNL,
 * and not in the packet path. There is no frame if the device is down, busy or without memory.
 */
void knet_tap_say(const struct knet_tap *tap, const u8 *frame, unsigned int len)
{
	struct net_device *dev = tap->type.dev;
	struct sk_buff *skb;

	ASSERT_RTNL();
	if (!knet_device_is_up(dev))
		return;
	skb = knet_skb_frame(dev, frame, len);
	if (skb)
		dev_direct_xmit(skb, tap->queue - netdev_get_tx_queue(dev, 0));
}

void knet_tap_lock(struct knet_tap *tap)
{
	spin_lock_bh(&tap->lock);
}

void knet_tap_unlock(struct knet_tap *tap)
{
	spin_unlock_bh(&tap->lock);
}

/*
 * From heard(), or by who has found it: has the qdiscs of the device's queue asked for packets, as
 * their own watchdogs do.
 * Not by way of the tap's own qdisc, which may be gone: one that could not be made is freed at
 * once.
 */
void knet_tap_wake(const struct knet_tap *tap)
{
	rcu_read_lock();
	__netif_schedule(rcu_dereference(tap->queue->qdisc));
	rcu_read_unlock();
}

static LIST_HEAD(knet_tallies);
static DEFINE_SPINLOCK(knet_tallies_lock);

/* The namespace's, or NULL. */
static struct knet_tally *knet_tally_find(const struct net *net)
{
	struct knet_tally *tally;

	list_for_each_entry(tally, &knet_tallies, node)
		if (tally->net == net)
			return tally;
	return NULL;
}

/* Of the device's namespace; one more user. May sleep. NULL without memory. */
struct knet_tally *knet_tally_get(const struct net_device *dev)
{
	struct knet_tally *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	struct knet_tally *tally;

	spin_lock_bh(&knet_tallies_lock);
	tally = knet_tally_find(dev_net(dev));
	if (!tally && new) {
		tally = new;
		new = NULL;
		tally->net = dev_net(dev);
		list_add(&tally->node, &knet_tallies);
	}
	if (tally)
		tally->users++;
	spin_unlock_bh(&knet_tallies_lock);
	kfree(new);
	return tally;
}

/* Wherever a listener may be dropped. */
void knet_tally_put(struct knet_tally *tally)
{
	bool last;

	spin_lock_bh(&knet_tallies_lock);
	last = !--tally->users;
	if (last)
		list_del(&tally->node);
	spin_unlock_bh(&knet_tallies_lock);
	if (last)
		kfree(tally);
}

/* Where a packet that was received went to on its Ethernet, or NULL: of six bytes. */
const u8 *knet_skb_destination(const struct sk_buff *skb)
{
	if (skb->dev->type != ARPHRD_ETHER || !skb_mac_header_was_set(skb) ||
	    skb->data - skb_mac_header(skb) < ETH_HLEN)
		return NULL;
	return eth_hdr(skb)->h_dest;
}

/*
 * Those who are told of what came in, by their device's number, which is unique in a namespace. A
 * device has one of them, or one for each of its queues.
 */
#define KNET_INGRESS_BITS 12
/* Of a device with more queues, so many are told. */
#define KNET_INGRESS_MOST 16
/* No packet looks at more of them, however many share its chain. */
#define KNET_INGRESS_LOOKS 64
/* What nobody takes is not added up without end. */
#define KNET_INGRESS_ENOUGH (1 << 24)

static struct hlist_head knet_ingresses[1 << KNET_INGRESS_BITS];
/* Who may choose the numbers of devices cannot choose the chain. */
static u32 knet_ingress_seed __read_mostly;

static struct hlist_head *knet_ingress_chain(const struct net *net, int ifindex)
{
	u32 hash = jhash_2words(ifindex, net_hash_mix(net), READ_ONCE(knet_ingress_seed));

	return &knet_ingresses[hash >> (32 - KNET_INGRESS_BITS)];
}

struct knet_ingress *knet_ingress_new(const struct net_device *dev)
{
	struct knet_ingress *ingress;

	ASSERT_RTNL();
	ingress = kzalloc(sizeof(*ingress), GFP_KERNEL_ACCOUNT);
	if (!ingress)
		return NULL;
	if (!knet_ingress_seed)
		WRITE_ONCE(knet_ingress_seed, get_random_u32() | 1);
	ingress->users = 1;
	ingress->net = dev_net(dev);
	ingress->ifindex = dev->ifindex;
	hlist_add_head_rcu(&ingress->node, knet_ingress_chain(ingress->net, ingress->ifindex));
	return ingress;
}

/* One more qdisc has it, and ends it. */
struct knet_ingress *knet_ingress_get(struct knet_ingress *ingress)
{
	ASSERT_RTNL();
	ingress->users++;
	return ingress;
}

/*
 * Not a part of the qdisc: the kernel frees one that nobody could reach yet at once, if something
 * failed while it was made, and to wait for those who tell would take a grace period for each queue
 * of a device.
 */
void knet_ingress_end(struct knet_ingress *ingress)
{
	ASSERT_RTNL();
	if (--ingress->users)
		return;
	hlist_del_rcu(&ingress->node);
	kfree_rcu(ingress, rcu);
}

void knet_ingress_tell(const struct net_device *dev, int ifindex, unsigned int amount)
{
	const struct net *net = dev_net(dev);
	struct knet_ingress *ingress;
	int told = 0, looks = 0;

	rcu_read_lock();
	hlist_for_each_entry_rcu(ingress, knet_ingress_chain(net, ifindex), node) {
		if (++looks > KNET_INGRESS_LOOKS)
			break;
		if (ingress->ifindex != ifindex || ingress->net != net)
			continue;
		if (atomic_read(&ingress->told) < KNET_INGRESS_ENOUGH)
			atomic_add(amount, &ingress->told);
		if (++told == KNET_INGRESS_MOST)
			break;
	}
	rcu_read_unlock();
}

/* Whether the device has several queues, and the qdisc is at its root. */
bool knet_group_fits(const struct Qdisc *sch)
{
	return sch->parent == TC_H_ROOT && netif_is_multiqueue(qdisc_dev(sch));
}

/* Is the handle that of a qdisc of the device, or of @group, which may not be found there yet? */
static bool knet_handle_is_used(struct net_device *dev, const struct Qdisc *group, u32 handle)
{
	struct Qdisc *q;

	if (handle == group->handle)
		return true;

	hash_for_each_possible(dev->qdisc_hash, q, hash, handle)
		if (q->handle == handle)
			return true;
	q = rtnl_dereference(dev->qdisc);
	return q && q->handle == handle;
}

/*
 * Gives the qdisc of a queue a handle of its own, so that its classes can be told from other
 * queues', and can have filters and qdiscs. @handle is the one that was given last. The kernel's
 * own begin with 8001:, and leave out what is used.
 */
static void knet_group_number(struct net_device *dev, const struct Qdisc *group, struct Qdisc *q,
			      u32 *handle)
{
	unsigned int tries = 0;

	do {
		*handle += TC_H_MAKE(1U << 16, 0);
		if (*handle < 0x90000000U || *handle >= 0xffff0000U)
			*handle = 0x90010000U;
		if (!knet_handle_is_used(dev, group, *handle)) {
			q->handle = *handle;
			return;
		}
	} while (++tries < 0x7000);
	q->handle = 0;
}

/*
 * Makes a qdisc of these operations for each queue, without options. Those that were made when it
 * fails are put by mq_destroy_common().
 */
int knet_group_init(struct Qdisc *sch, const struct Qdisc_ops *ops,
		    struct netlink_ext_ack *extack)
{
	const struct mq_sched *group = qdisc_priv(sch);
	struct net_device *dev = qdisc_dev(sch);
	u32 handle = 0;
	unsigned int i;
	int err;

	ASSERT_RTNL();
	err = mq_init_common(sch, NULL, extack, ops);
	if (err)
		return err;
	for (i = 0; i < dev->num_tx_queues; i++)
		knet_group_number(dev, sch, group->qdiscs[i], &handle);
	return 0;
}

/* The qdisc that was made for this queue and is not attached to it yet. */
struct Qdisc *knet_group_made(const struct Qdisc *sch, unsigned int queue)
{
	const struct mq_sched *group = qdisc_priv(sch);

	if (!group->qdiscs || queue >= qdisc_dev(sch)->num_tx_queues)
		return NULL;
	return group->qdiscs[queue];
}

/* The qdisc of this queue, if it is one of those that this one has made. */
struct Qdisc *knet_group_queue(const struct Qdisc *sch, unsigned int queue)
{
	struct net_device *dev = qdisc_dev(sch);
	struct Qdisc *q;

	ASSERT_RTNL();
	if (queue >= dev->num_tx_queues)
		return NULL;
	q = rtnl_dereference(netdev_get_tx_queue(dev, queue)->qdisc_sleeping);
	if (!q || TC_H_MAJ(q->parent) != sch->handle || TC_H_MIN(q->parent) != queue + 1)
		return NULL;
	return q;
}

unsigned int knet_group_queues(const struct Qdisc *sch)
{
	return qdisc_dev(sch)->num_tx_queues;
}

/*
 * Queues that were not in use have no place in the list of qdiscs, and so no right to a handle:
 * they get both. Whoever is in the list stays there under its handle, whether its queue is in use
 * or not, as mq_change_real_num_tx() leaves all that have handles where they are.
 */
void knet_group_change_real_num_tx(struct Qdisc *sch, unsigned int real)
{
	struct net_device *dev = qdisc_dev(sch);
	u32 handle = 0;
	unsigned int i;

	ASSERT_RTNL();
	for (i = dev->real_num_tx_queues; i < real && i < dev->num_tx_queues; i++) {
		struct Qdisc *q = knet_group_queue(sch, i);

		if (!q || !q->handle || hash_hashed(&q->hash))
			continue;
		if (knet_handle_is_used(dev, sch, q->handle))
			knet_group_number(dev, sch, q, &handle);
		if (q->handle)
			qdisc_hash_add(q, false);
	}
	mq_change_real_num_tx(sch, real);
}

/*
 * Has the qdisc of this queue asked for packets at this time, if it is of the same kind as @sch,
 * whose private area has its watchdog at this offset. With the lock of @sch, not with that of the
 * other: whoever finds a qdisc here before its queue is deactivated is done before that is.
 */
void knet_queue_wake(const struct Qdisc *sch, unsigned int queue, unsigned long watchdog,
		     u64 time)
{
	struct net_device *dev = qdisc_dev(sch);
	struct Qdisc *q;

	if (queue >= dev->num_tx_queues)
		return;
	rcu_read_lock();
	q = rcu_dereference(netdev_get_tx_queue(dev, queue)->qdisc);
	if (q->ops == sch->ops)
		qdisc_watchdog_schedule_range_ns(qdisc_priv(q) + watchdog, time, 0);
	rcu_read_unlock();
}

void knet_lock_init(struct knet_lock *lock)
{
	spin_lock_init(&lock->lock);
}

void knet_lock(struct knet_lock *lock)
{
	spin_lock_bh(&lock->lock);
}

void knet_unlock(struct knet_lock *lock)
{
	spin_unlock_bh(&lock->lock);
}

u64 knet_random(void)
{
	return get_random_u64();
}

/* Kinds that were ever registered. */
static LLIST_HEAD(knet_kinds);

/*
 * Whether the module's init has succeeded. Until then it can be taken away in spite of references
 * to it.
 */
bool knet_module_is_live(void)
{
	return READ_ONCE(THIS_MODULE->state) == MODULE_STATE_LIVE;
}

/*
 * -EEXIST for a kind that is registered, or another one of its name. The notifier before the kind,
 * since a qdisc must find it; it stays until the module goes, because qdiscs may live on when their
 * kind is no longer registered. There is no lock: RTNL may be taken here the first time, and be
 * held by who calls later.
 */
int knet_kind_register(struct knet_kind *kind)
{
	int err = 0;

	/* A listener that is dropped after the module's exit may ask, too. */
	if (THIS_MODULE->state != MODULE_STATE_COMING && !knet_module_is_live())
		return -ENODEV;
	if (xchg(&kind->registered, true))
		return -EEXIST;
	if (!kind->known) {
		err = knet_link_watch_start();
		if (!err) {
			kind->known = true;
			kind->ops.owner = THIS_MODULE;
			llist_add(&kind->node, &knet_kinds);
		}
	}
	if (!err)
		err = register_qdisc(&kind->ops);
	if (err)
		smp_store_release(&kind->registered, false);
	return err;
}

/* Was it ever registered, so that qdiscs of it can be made? */
bool knet_kind_is_known(const struct knet_kind *kind)
{
	return kind->known;
}

/*
 * For a kind that is registered. The kernel's list has a lock that is not taken in softirqs, nor
 * with them off: who is there leaves the kind registered until the module goes.
 */
void knet_kind_unregister(struct knet_kind *kind)
{
	if (in_interrupt())
		return;
	unregister_qdisc(&kind->ops);
	smp_store_release(&kind->registered, false);
}

/*
 * The kernel's last call into a module, after its exit or a failed init: it frees the values of the
 * module's parameters. Nobody else runs here any more. What must not be left behind when the
 * module's memory goes does not depend on what the module does with its Registration: Rust may
 * forget any value.
 */
static void knet_last_call(void *unused)
{
	struct knet_kind *kind;

	/*
	 * Taps first: with the last of them go listeners, which are dropped, and may let go of a
	 * Registration.
	 */
	if (knet_taps) {
		/* Those whose grace period is not over are not in the queue yet. */
		rcu_barrier();
		destroy_workqueue(knet_taps);
	}
	llist_for_each_entry(kind, knet_kinds.first, node) {
		if (xchg(&kind->registered, false))
			unregister_qdisc(&kind->ops);
		knet_link_watch_stop();
	}
}

static int knet_no_value(const char *value, const struct kernel_param *param)
{
	return -EINVAL;
}

static const struct kernel_param_ops knet_last_call_ops = {
	.set = knet_no_value,
	.free = knet_last_call,
};

/* Takes no value, and is not in sysfs. */
module_param_cb(knet, &knet_last_call_ops, NULL, 0);
