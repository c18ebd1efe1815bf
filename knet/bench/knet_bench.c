// SPDX-License-Identifier: GPL-2.0
/*
 * knet_bench: what a qdisc costs per packet.
 *
 * Made for a guest in QEMU with -icount shift=0, where the time stamp counter advances by one with
 * each instruction: a difference of two readings is an instruction count, exact and the same in
 * every run. Anywhere else it counts cycles of the time stamp counter, which mean little.
 *
 * Three files in /sys/kernel/debug/knet_bench:
 *
 *   packets  what is sent, in turn. Each write adds one packet:
 *                PRIORITY HEX [LENGTH [MSS]]
 *            skb->priority; the first bytes of an Ethernet frame; its length (zeros follow HEX);
 *            and, for a super-packet of TCP over IPv4, the bytes of payload in each segment.
 *            Opening it with O_TRUNC forgets the packets there were.
 *   run      runs a measurement:
 *                direct DEVICE COUNT   the root qdisc's enqueue() and then dequeue() until it gives
 *                                      no more, called as the kernel does: softirqs off, root lock
 *                                      held.
 *                xmit DEVICE COUNT     dev_queue_xmit(): the whole path into the device. The qdisc
 *                                      does not get around its work: TCQ_F_CAN_BYPASS is off
 *                                      meanwhile.
 *                ruler                 is the counter fit for this? Times 100 instructions, 64
 *                                      random numbers (7800 each while the pool is not seeded), a
 *                                      reading of the kernel's clock, and 10000 instructions by
 *                                      that clock.
 *   result   the last measurement, a line of JSON with sums over all packets. What two readings of
 *            the counter cost has been subtracted from each.
 *
 * Packets are used again and again: a packet that comes out of the qdisc goes in once more, its
 * control block as __dev_queue_xmit() would leave it. Of a packet that goes out to a device we keep
 * a reference, as pktgen does, so the driver's freeing is no more than a decrement, with a qdisc
 * and without. Interrupts are off for a few packets at a time: no tick lands in a measurement.
 *
 * The module brings a device to measure on: bench0, which is a network card in that it has a queue
 * and a transmit lock and reports a speed (module parameter speed, Mbit/s), and takes everything at
 * once.
 *
 * A run fails with ETIME if the qdisc holds a packet back or drops it: then there is nothing to
 * compare.
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/hex.h>
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>
#include <net/net_namespace.h>
#include <net/pkt_cls.h>
#include <net/sch_generic.h>
#include <asm/msr.h>

#define MAX_PACKETS	64
#define MAX_LINE	4096
/* Packets measured with interrupts off at a time, and packets sent before measuring. */
#define BATCH		64
#define WARM_UP		1024

struct part {
	u64 sum;
	u64 min;
	u64 max;
	u64 calls;
};

static DEFINE_MUTEX(bench_lock);
static struct sk_buff *packets[MAX_PACKETS];
static unsigned int packet_count;
static char result[1024];
static struct dentry *dir;
static struct net_device *sink;
/* Packets that the device got. */
static unsigned int sunk;

/*
 * What the random pool is told that it never needs to wait for more: the bytes are no secret, so
 * that this is for a guest which nobody trusts with one. Until the pool is ready each random number
 * costs 7800 instructions, and qdiscs draw some per packet; and a guest without a source of its
 * own, where each run is to be like the other, never gets there.
 */
static bool seed_pool;
module_param(seed_pool, bool, 0444);
MODULE_PARM_DESC(seed_pool, "make the random pool ready, with bytes that everybody knows");

static unsigned int speed = 400000;
module_param(speed, uint, 0444);
MODULE_PARM_DESC(speed, "speed that bench0 reports, in Mbit/s");

/* Nothing may move across a reading. */
static __always_inline u64 reading(void)
{
	u64 now;

	barrier();
	now = rdtsc();
	barrier();
	return now;
}

/* What two readings in a row differ by. */
static u64 bracket;

static void calibrate(void)
{
	unsigned int i;
	u64 from, to;

	bracket = U64_MAX;
	for (i = 0; i < 16; i++) {
		from = reading();
		to = reading();
		bracket = min(bracket, to - from);
	}
}

static void part_add(struct part *part, u64 from, u64 to)
{
	u64 cost = to - from - bracket;

	part->sum += cost;
	part->min = part->calls ? min(part->min, cost) : cost;
	part->max = max(part->max, cost);
	part->calls++;
}

static void forget_packets(void)
{
	while (packet_count)
		kfree_skb(packets[--packet_count]);
}

static int set_gso(struct sk_buff *skb, unsigned int mss)
{
	const struct iphdr *ip = ip_hdr(skb);
	unsigned int payload;

	if (skb->protocol != htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP)
		return -EINVAL;
	payload = skb->len - skb_transport_offset(skb) - tcp_hdrlen(skb);
	if ((int)payload <= 0)
		return -EINVAL;
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct tcphdr, check);
	skb_shinfo(skb)->gso_type = SKB_GSO_TCPV4;
	skb_shinfo(skb)->gso_size = mss;
	skb_shinfo(skb)->gso_segs = DIV_ROUND_UP(payload, mss);
	return 0;
}

/*
 * A frame whose first header_len bytes are linear and whose rest, zeros, is in pages, as a socket
 * makes it.
 */
static struct sk_buff *make_packet(const u8 *header, unsigned int header_len, unsigned int len,
				   u32 priority, unsigned int mss)
{
	unsigned int linear = mss ? header_len : len;
	struct sk_buff *skb;
	void *zeros;
	int err;

	skb = alloc_skb_with_frags(NET_SKB_PAD + linear, len - linear, 0, &err, GFP_KERNEL);
	if (!skb)
		return ERR_PTR(err);
	skb_reserve(skb, NET_SKB_PAD);
	skb_put(skb, linear);
	skb->data_len = len - linear;
	skb->len += skb->data_len;
	zeros = kzalloc(len, GFP_KERNEL);
	err = zeros ? skb_store_bits(skb, 0, zeros, len) : -ENOMEM;
	kfree(zeros);
	if (err)
		goto fail;
	memcpy(skb->data, header, header_len);
	skb->priority = priority;
	skb_reset_mac_header(skb);
	skb->protocol = eth_hdr(skb)->h_proto;
	skb_set_network_header(skb, ETH_HLEN);
	if (skb->protocol == htons(ETH_P_IP))
		skb_set_transport_header(skb, ETH_HLEN + ip_hdr(skb)->ihl * 4);
	else
		skb_set_transport_header(skb, ETH_HLEN + 40);
	/*
	 * A flow of its own, known before the qdisc sees it: a socket or a network card has worked
	 * it out.
	 */
	__skb_set_hash(skb, (packet_count + 1) * 0x9e3779b1, false, true);
	err = mss ? set_gso(skb, mss) : 0;
	if (!err)
		return skb;
fail:
	kfree_skb(skb);
	return ERR_PTR(err);
}

static int add_packet(char *line)
{
	char *priority_word = strsep(&line, " "), *hex = strsep(&line, " ");
	char *len_word = strsep(&line, " "), *mss_word = strsep(&line, " ");
	unsigned int header_len, len, mss = 0;
	struct sk_buff *skb;
	u32 priority;
	u8 *header;
	int err;

	if (!priority_word || !hex || packet_count == MAX_PACKETS)
		return -EINVAL;
	err = kstrtou32(priority_word, 0, &priority);
	if (err)
		return err;
	header_len = strlen(hex) / 2;
	len = header_len;
	if (len_word)
		err = kstrtouint(len_word, 0, &len);
	if (!err && mss_word)
		err = kstrtouint(mss_word, 0, &mss);
	if (err)
		return err;
	if (header_len < ETH_HLEN + sizeof(struct iphdr) || len < header_len || len > SZ_64K)
		return -EINVAL;
	header = kmalloc(header_len, GFP_KERNEL);
	if (!header)
		return -ENOMEM;
	err = hex2bin(header, hex, header_len);
	if (!err) {
		skb = make_packet(header, header_len, len, priority, mss);
		if (IS_ERR(skb))
			err = PTR_ERR(skb);
		else
			packets[packet_count++] = skb;
	}
	kfree(header);
	return err;
}

/* The packet as it arrives at __dev_xmit_skb(), with a reference to give away. */
static struct sk_buff *take_packet(unsigned int i, struct net_device *dev)
{
	struct sk_buff *skb = packets[i % packet_count];
	const struct skb_shared_info *shinfo = skb_shinfo(skb);

	skb_get(skb);
	skb_mark_not_on_list(skb);
	skb->dev = dev;
	skb->tstamp = 0;
	memset(skb->cb, 0, sizeof(skb->cb));
	qdisc_skb_cb(skb)->pkt_len = skb->len;
	qdisc_skb_cb(skb)->pkt_segs = 1;
	if (shinfo->gso_size) {
		qdisc_skb_cb(skb)->pkt_segs = shinfo->gso_segs;
		qdisc_skb_cb(skb)->pkt_len += (shinfo->gso_segs - 1) *
					      (skb_transport_offset(skb) + tcp_hdrlen(skb));
	}
	tcf_set_qdisc_drop_reason(skb, QDISC_DROP_GENERIC);
	return skb;
}

static void free_dropped(struct Qdisc *q)
{
	struct sk_buff *list = q->to_free;

	q->to_free = NULL;
	kfree_skb_list(list);
}

/* One packet in, and out what there is. How many came out? */
static unsigned int direct_one(struct Qdisc *q, struct sk_buff *skb, struct part *parts)
{
	struct sk_buff *to_free = NULL, *out;
	unsigned int count = 0;
	u64 from, to;

	from = reading();
	q->enqueue(skb, q, &to_free);
	to = reading();
	part_add(&parts[0], from, to);
	kfree_skb_list(to_free);
	do {
		from = reading();
		out = q->dequeue(q);
		to = reading();
		free_dropped(q);
		part_add(&parts[out ? 1 : 2], from, to);
		if (out) {
			consume_skb(out);
			count++;
		}
	} while (out);
	return count;
}

static int direct_batch(struct Qdisc *q, struct net_device *dev, unsigned int first,
			unsigned int count, struct part *parts)
{
	spinlock_t *lock = q->flags & TCQ_F_NOLOCK ? &q->seqlock : qdisc_lock(q);
	unsigned long flags;
	unsigned int i;
	int err = 0;

	local_bh_disable();
	rcu_read_lock();
	spin_lock(lock);
	local_irq_save(flags);
	for (i = first; i < first + count && !err; i++)
		if (!direct_one(q, take_packet(i, dev), parts))
			err = -ETIME;
	local_irq_restore(flags);
	spin_unlock(lock);
	rcu_read_unlock();
	local_bh_enable();
	return err;
}

static int xmit_batch(struct Qdisc *q, struct net_device *dev, unsigned int first,
		      unsigned int count, struct part *parts)
{
	unsigned long flags;
	struct sk_buff *skb;
	unsigned int i;
	u64 from, to;
	int err = 0;

	local_bh_disable();
	local_irq_save(flags);
	for (i = first; i < first + count && !err; i++) {
		skb = take_packet(i, dev);
		sunk = 0;
		from = reading();
		err = dev_queue_xmit(skb);
		to = reading();
		part_add(&parts[0], from, to);
		if (err || !sunk || refcount_read(&skb->users) != 1)
			err = -ETIME;
	}
	local_irq_restore(flags);
	local_bh_enable();
	return err;
}

typedef int batch_fn(struct Qdisc *q, struct net_device *dev, unsigned int first,
		     unsigned int count, struct part *parts);

static int batches(batch_fn *batch, struct Qdisc *q, struct net_device *dev, unsigned int count,
		   struct part *parts)
{
	unsigned int done, n;
	int err = 0;

	for (done = 0; done < count && !err; done += n) {
		n = min(count - done, BATCH);
		err = batch(q, dev, done, n, parts);
		cond_resched();
	}
	return err;
}

/* Takes back what a failed run left in the qdisc. */
static void empty_qdisc(struct Qdisc *q)
{
	spin_lock_bh(qdisc_lock(q));
	qdisc_reset(q);
	spin_unlock_bh(qdisc_lock(q));
}

static int measure(const char *mode, const char *name, unsigned int count)
{
	batch_fn *batch = !strcmp(mode, "xmit") ? xmit_batch : direct_batch;
	struct part parts[3] = {};
	struct net_device *dev;
	unsigned int flags;
	struct Qdisc *q;
	int err;

	if (!packet_count)
		return -ENODATA;
	rtnl_lock();
	err = -ENODEV;
	dev = __dev_get_by_name(current->nsproxy->net_ns, name);
	if (!dev || !(dev->flags & IFF_UP))
		goto unlock;
	q = rtnl_dereference(netdev_get_tx_queue(dev, 0)->qdisc);
	err = -EOPNOTSUPP;
	if (batch == direct_batch && !q->enqueue)
		goto unlock;

	flags = q->flags;
	q->flags &= ~TCQ_F_CAN_BYPASS;
	calibrate();
	err = batches(batch, q, dev, WARM_UP, parts);
	memset(parts, 0, sizeof(parts));
	if (!err)
		err = batches(batch, q, dev, count, parts);
	q->flags = flags;
	if (err && q->enqueue)
		empty_qdisc(q);
	snprintf(result, sizeof(result),
		 "{\"mode\":\"%s\",\"qdisc\":\"%s\",\"packets\":%u,\"bracket\":%llu,"
		 "\"in\":%llu,\"out\":%llu,\"empty\":%llu,"
		 "\"in-min\":%llu,\"in-max\":%llu,\"out-min\":%llu,\"out-max\":%llu,"
		 "\"empty-min\":%llu,\"empty-max\":%llu,"
		 "\"out-calls\":%llu}\n",
		 mode, q->ops->id, count, bracket, parts[0].sum, parts[1].sum, parts[2].sum,
		 parts[0].min, parts[0].max, parts[1].min, parts[1].max, parts[2].min, parts[2].max,
		 parts[1].calls);
unlock:
	rtnl_unlock();
	return err;
}

static void ruler(void)
{
	unsigned long flags;
	unsigned int i;
	u64 from, to, hundred, random, get, clock;

	local_irq_save(flags);
	calibrate();
	from = reading();
	asm volatile(".rept 100; nop; .endr" ::: "memory");
	to = reading();
	hundred = to - from - bracket;
	from = reading();
	for (i = 0; i < 64; i++)
		get_random_u32();
	to = reading();
	random = to - from - bracket;
	from = reading();
	ktime_get();
	to = reading();
	get = to - from - bracket;
	clock = ktime_get_ns();
	asm volatile(".rept 10000; nop; .endr" ::: "memory");
	clock = ktime_get_ns() - clock;
	local_irq_restore(flags);
	snprintf(result, sizeof(result),
		 "{\"mode\":\"ruler\",\"bracket\":%llu,\"nops-100\":%llu,\"random-64\":%llu,"
		 "\"ktime_get\":%llu,\"clock-10000\":%llu}\n",
		 bracket, hundred, random, get, clock);
}

static int run(char *line)
{
	char *mode = strsep(&line, " "), *name = strsep(&line, " "), *word = strsep(&line, " ");
	unsigned int count;
	int err;

	if (mode && !strcmp(mode, "ruler")) {
		ruler();
		return 0;
	}
	if (!word || (strcmp(mode, "direct") && strcmp(mode, "xmit")))
		return -EINVAL;
	err = kstrtouint(word, 0, &count);
	return err ?: measure(mode, name, count);
}

static ssize_t write_line(const char __user *from, size_t len, int (*act)(char *line))
{
	char *line;
	int err;

	if (len > MAX_LINE)
		return -E2BIG;
	line = memdup_user_nul(from, len);
	if (IS_ERR(line))
		return PTR_ERR(line);
	mutex_lock(&bench_lock);
	err = act(strim(line));
	mutex_unlock(&bench_lock);
	kfree(line);
	return err ?: len;
}

static int packets_open(struct inode *inode, struct file *file)
{
	if (file->f_flags & O_TRUNC) {
		mutex_lock(&bench_lock);
		forget_packets();
		mutex_unlock(&bench_lock);
	}
	return 0;
}

static ssize_t packets_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	return write_line(from, len, add_packet);
}

static ssize_t run_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	return write_line(from, len, run);
}

static ssize_t result_read(struct file *file, char __user *to, size_t len, loff_t *at)
{
	ssize_t n;

	mutex_lock(&bench_lock);
	n = simple_read_from_buffer(to, len, at, result, strlen(result));
	mutex_unlock(&bench_lock);
	return n;
}

static const struct file_operations packets_ops = {
	.owner = THIS_MODULE,
	.open = packets_open,
	.write = packets_write,
};

static const struct file_operations run_ops = {
	.owner = THIS_MODULE,
	.write = run_write,
};

static const struct file_operations result_ops = {
	.owner = THIS_MODULE,
	.read = result_read,
};

static netdev_tx_t sink_xmit(struct sk_buff *skb, struct net_device *dev)
{
	sunk++;
	dev_consume_skb_any(skb);
	return NETDEV_TX_OK;
}

static int sink_link_settings(struct net_device *dev, struct ethtool_link_ksettings *settings)
{
	settings->base.speed = speed;
	settings->base.duplex = DUPLEX_FULL;
	return 0;
}

static const struct net_device_ops sink_ops = {
	.ndo_start_xmit = sink_xmit,
};

static const struct ethtool_ops sink_ethtool_ops = {
	.get_link_ksettings = sink_link_settings,
};

static void sink_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &sink_ops;
	dev->ethtool_ops = &sink_ethtool_ops;
	dev->features |= NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA | NETIF_F_GSO_SOFTWARE;
	dev->max_mtu = 0;
	eth_hw_addr_random(dev);
}

static int __init bench_init(void)
{
	static const u8 seed[64] = "knet_bench: the same random numbers in every run";
	int err;

	if (seed_pool)
		add_hwgenerator_randomness(seed, sizeof(seed), 8 * sizeof(seed), false);
	sink = alloc_netdev(0, "bench%d", NET_NAME_ENUM, sink_setup);
	if (!sink)
		return -ENOMEM;
	err = register_netdev(sink);
	if (err) {
		free_netdev(sink);
		return err;
	}
	dir = debugfs_create_dir("knet_bench", NULL);
	debugfs_create_file("packets", 0200, dir, NULL, &packets_ops);
	debugfs_create_file("run", 0200, dir, NULL, &run_ops);
	debugfs_create_file("result", 0400, dir, NULL, &result_ops);
	return 0;
}

static void __exit bench_exit(void)
{
	debugfs_remove(dir);
	unregister_netdev(sink);
	free_netdev(sink);
	forget_packets();
}

module_init(bench_init);
module_exit(bench_exit);
MODULE_DESCRIPTION("Instructions that a qdisc costs per packet");
MODULE_LICENSE("GPL");
