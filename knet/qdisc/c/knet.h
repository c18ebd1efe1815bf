/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What knet's Rust calls and bindgen reads: the kernel's own headers, and prototypes for the inline
 * functions and macros that Rust cannot call. Each helper does what its namesake in the kernel does
 * and nothing else; policy belongs to the Rust side.
 */
#ifndef KNET_H
#define KNET_H

#include <linux/atomic.h>
#include <linux/ethtool.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/jhash.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <linux/workqueue.h>
#include <net/checksum.h>
#include <net/dropreason-qdisc.h>
#include <net/dsfield.h>
#include <net/gso.h>
#include <net/inet_ecn.h>
#include <net/netdev_lock.h>
#include <net/netlink.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include <net/sch_priv.h>

/*
 * Where the packet path's fields are, for which bindgen has no names: members of anonymous
 * structures, of types that it keeps opaque, and flexible arrays. A call for each costs more than
 * all else that is done with them. layout.sh checks them against the kernel's BTF.
 */
enum {
	KNET_SKB_NEXT = offsetof(struct sk_buff, next),
	KNET_SKB_DEV = offsetof(struct sk_buff, dev),
	KNET_SKB_PRIORITY = offsetof(struct sk_buff, priority),
	KNET_SKB_IIF = offsetof(struct sk_buff, skb_iif),
	KNET_SKB_PROTOCOL = offsetof(struct sk_buff, protocol),
	KNET_SKB_NETWORK_HEADER = offsetof(struct sk_buff, network_header),
	KNET_DEVICE_TYPE = offsetof(struct net_device, type),
	KNET_QUEUE_QDISC = offsetof(struct netdev_queue, qdisc),
	KNET_QUEUE_STATE = offsetof(struct netdev_queue, state),
	/* What netif_xmit_frozen_or_stopped() looks for. */
	KNET_QUEUE_HELD = QUEUE_STATE_ANY_XOFF_OR_FROZEN,
	KNET_QDISC_PRIVATE = offsetof(struct Qdisc, privdata),
};

/* Packets */
struct sk_buff *knet_skb_segment(struct sk_buff *skb);
unsigned int knet_skb_segment_len(const struct sk_buff *skb);
void knet_skb_is_one(struct sk_buff *skb);
struct sk_buff *knet_skb_cut(struct sk_buff *skb, unsigned int segs);
void knet_skb_consume(struct sk_buff *skb);
void knet_skb_free_later(struct sk_buff *skb);
bool knet_skb_set_ecn(struct sk_buff *skb, unsigned int at, bool ipv6, u8 ecn);
struct sk_buff *knet_skb_frame(struct net_device *dev, const u8 *frame, unsigned int len);

/*
 * Accounting on a qdisc. All need the qdisc's root lock, or that nobody else can reach the qdisc.
 */
struct net_device *knet_qdisc_dev(const struct Qdisc *sch);
void knet_tree_lock(struct Qdisc *sch);
void knet_tree_unlock(struct Qdisc *sch);
void knet_lost(struct Qdisc *sch, unsigned int packets, unsigned int bytes);
void knet_count_at_parents(struct Qdisc *sch, unsigned int packets, unsigned int bytes);
bool knet_has_parent(const struct Qdisc *sch);
void knet_count_drops(struct Qdisc *sch, unsigned int packets);
void knet_overlimit(struct Qdisc *sch);

/* Dropping: on the way in, on the way out, and under RTNL. */
void knet_drop_enqueue(struct Qdisc *sch, struct sk_buff *skb, struct sk_buff **to_free,
		       enum qdisc_drop_reason reason);
void knet_drop_classified(struct sk_buff *skb, struct sk_buff **to_free);
void knet_drop_dequeue(struct Qdisc *sch, struct sk_buff *skb, enum qdisc_drop_reason reason);
void knet_drop_rtnl(struct sk_buff *skb);

/*
 * A qdisc that dropped all it had while a parent asked for a packet tells the parents soon after,
 * with the root lock held, but out of their dequeue. knet_settling_stop() waits, and so must not be
 * called with that lock.
 */
struct knet_settling {
	struct hrtimer timer;
	struct Qdisc *sch;
	void (*settle)(struct Qdisc *sch);
};

void knet_settling_init(struct knet_settling *settling, struct Qdisc *sch,
			void (*settle)(struct Qdisc *sch));
void knet_settling_start(struct knet_settling *settling);
void knet_settling_stop(struct knet_settling *settling);

/* Children */
unsigned int knet_qdisc_qlen(const struct Qdisc *sch);
void knet_qdisc_purge(struct Qdisc *sch);

/* Filters */
int knet_classify(struct sk_buff *skb, struct tcf_proto __rcu **list, struct tcf_result *res);

/* Dumps */
struct sk_buff *knet_dump_skb(struct gnet_dump *d);
unsigned int knet_dump_len(const struct gnet_dump *d);
int knet_dump_own(struct gnet_dump *d, unsigned int from);
int knet_class_stats(struct gnet_dump *d, u64 bytes, u64 packets,
		     const struct gnet_stats_queue *queue);
bool knet_walk_class(struct Qdisc *sch, unsigned long cl, struct qdisc_walker *walker);

/* Devices */
u64 knet_device_speed(struct net_device *dev);
unsigned int knet_device_queue_bytes(const struct net_device *dev);
unsigned int knet_device_frame_bytes(const struct net_device *dev);
unsigned int knet_device_merged_bytes(const struct net_device *dev);
bool knet_device_is_stacked(const struct net_device *dev);
bool knet_device_is_up(const struct net_device *dev);

/*
 * A qdisc that wants to hear when its device's speed or MTU may be another: when the device's link,
 * or that of a device below it, comes up, goes down or changes, and when a device below it comes or
 * goes. Nodes are added and removed under RTNL.
 * @changed is called with RTNL and the device's own lock where it has one, as tc calls a qdisc, but
 * from a work item:
 * after whatever changed is done with, and not in the middle of it.
 */
struct knet_link_watch {
	struct list_head node;
	struct Qdisc *sch;
	void (*changed)(struct Qdisc *sch);
	bool due;
};

void knet_link_watch_add(struct knet_link_watch *watch, struct Qdisc *sch,
			 void (*changed)(struct Qdisc *sch));
void knet_link_watch_del(struct knet_link_watch *watch);
int knet_link_watch_start(void);
void knet_link_watch_stop(void);

/*
 * A qdisc that is told by others, as packets pass through them, what came in by its own device.
 * @told is what is added to. Made and ended under RTNL; memory is freed after a grace period, as
 * those who tell hold no more than rcu_read_lock(). knet_ingress_new() may return NULL.
 */
struct knet_ingress {
	struct hlist_node node;
	/* Qdiscs that have it. Under RTNL. */
	unsigned int users;
	const struct net *net;
	int ifindex;
	atomic_t told;
	struct rcu_head rcu;
};

struct knet_ingress *knet_ingress_new(const struct net_device *dev);
struct knet_ingress *knet_ingress_get(struct knet_ingress *ingress);
void knet_ingress_end(struct knet_ingress *ingress);
void knet_ingress_tell(const struct net_device *dev, int ifindex, unsigned int amount);

/*
 * Whoever hears what a device receives, before anybody else does, and the lock of what that
 * changes. Started and stopped under RTNL, while the device lives. Those who are in heard() when it
 * is stopped, or have found it by its device, may stay there for a grace period; ended() is called
 * after that, in a process.
 */
struct knet_tap {
	struct packet_type type;
	struct netdev_queue *queue;
	/* How others find it: the kind of its qdisc, and the number of its device. */
	struct hlist_node node;
	const struct Qdisc_ops *ops;
	const struct net *net;
	int ifindex;
	spinlock_t lock;
	void (*heard)(struct knet_tap *tap, const struct sk_buff *skb);
	void (*ended)(struct knet_tap *tap);
	struct rcu_work end;
};

void knet_tap_init(struct knet_tap *tap);
int knet_tap_start(struct knet_tap *tap, struct net_device *dev, struct Qdisc *sch,
		   void (*heard)(struct knet_tap *tap, const struct sk_buff *skb),
		   void (*ended)(struct knet_tap *tap));
void knet_tap_stop(struct knet_tap *tap);
void knet_tap_say(const struct knet_tap *tap, const u8 *frame, unsigned int len);
void knet_tap_lock(struct knet_tap *tap);
void knet_tap_unlock(struct knet_tap *tap);
void knet_tap_wake(const struct knet_tap *tap);
struct knet_tap *knet_tap_find(const struct Qdisc *sch, int ifindex,
			       const struct knet_tap *after);
int knet_vlan_link(const struct Qdisc *sch, int ifindex);
const u8 *knet_skb_destination(const struct sk_buff *skb);

/*
 * A number that all qdiscs of a namespace count together that want to. It begins with 0, and is
 * gone with the last user.
 */
struct knet_tally {
	struct list_head node;
	const struct net *net;
	unsigned int users;
	u64 value;
};

struct knet_tally *knet_tally_get(const struct net_device *dev);
void knet_tally_put(struct knet_tally *tally);

/*
 * A root qdisc that has a qdisc for each transmit queue, and gives packets to none of them itself:
 * the kernel puts each packet into its queue's. As in mq, whose functions these are in part.
 */
bool knet_group_fits(const struct Qdisc *sch);
int knet_group_init(struct Qdisc *sch, const struct Qdisc_ops *ops,
		    struct netlink_ext_ack *extack);
struct Qdisc *knet_group_made(const struct Qdisc *sch, unsigned int queue);
struct Qdisc *knet_group_queue(const struct Qdisc *sch, unsigned int queue);
unsigned int knet_group_queues(const struct Qdisc *sch);
void knet_group_change_real_num_tx(struct Qdisc *sch, unsigned int real);
void knet_queue_wake(const struct Qdisc *sch, unsigned int queue, unsigned long watchdog,
		     u64 time);

/* What is shared by qdiscs that have no other lock in common, and used by packets, too. */
struct knet_lock {
	spinlock_t lock;
};

void knet_lock_init(struct knet_lock *lock);
void knet_lock(struct knet_lock *lock);
void knet_unlock(struct knet_lock *lock);

u64 knet_random(void);

/*
 * A kind of qdisc. It lives as long as the module, and is all zeros but for its operations. Whoever
 * registered it may unregister it, whatever qdiscs there are; what is still registered when the
 * module goes is unregistered then.
 */
struct knet_kind {
	struct Qdisc_ops ops;
	struct llist_node node;
	/* In the list of those that were ever registered. */
	bool known;
	/* Or about to be. */
	bool registered;
};

int knet_kind_register(struct knet_kind *kind);
bool knet_kind_is_known(const struct knet_kind *kind);
void knet_kind_unregister(struct knet_kind *kind);
bool knet_module_is_live(void);

#endif
