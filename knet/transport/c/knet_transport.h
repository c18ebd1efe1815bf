/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What knet_transport's Rust and C know of each other. Rust sees the kernel's own structures only
 * as opaque pointers: all that looks into them is C here, so that no layout has to be proven.
 *
 * Locks, outermost first: the socket's lock (lock_sock), knt_net.open_lock, knt_net.lock (bh),
 * knt_sock.report_lock (bh), knt_sock.mem_lock (bh). knt_net.route_lock (bh) is taken alone.
 */
#ifndef KNET_TRANSPORT_H
#define KNET_TRANSPORT_H

#include <linux/types.h>

#include "genl.h"

struct knt_net;
struct knt_out;
struct knt_segments;
struct msghdr;
struct net;
struct sk_buff;
struct sk_buff_head;
struct sock;

/* The longest header that a transport may have behind UDP's. */
#define KNT_MAX_HEADER 256

/* Ancillary data, by what it is for. */
enum {
	KNT_CMSG_LENGTH,
	KNT_CMSG_DEADLINE,
	KNT_CMSG_COFLOW,
	KNT_CMSG_PRIORITY,
	KNT_CMSG_UNKNOWN_SIZE,
	KNT_CMSG_INFO,
	KNT_CMSGS,
};

/* What programs and peers know the transport by. */
struct knt_numbers {
	const char *name;	/* in /proc/net/protocols */
	const char *name6;
	u32 header;		/* the longest behind UDP's, at most KNT_MAX_HEADER */
	/* Of packets whose first four bytes are these under the mask: their header, 4 to header */
	u32 payload_header;
	u32 payload_first;
	u32 payload_mask;
	u16 udp_port;		/* that packets go to */
	u16 source_port;	/* they come from that, or from one not below this */
	u16 protocol;		/* of socket(2) */
	u32 level;		/* of options and ancillary data */
	u32 ancillary[KNT_CMSGS];
	u8 ee_origin;		/* of reports: struct sock_extended_err */
	u8 ee_delivered;
	u8 ee_failed;
	u8 ee_lost;
};

/* A peer as seen from a local address; IPv4 is mapped. */
struct knt_path {
	u8 ip[16];
	u8 local[16];
	u32 scope;
};

/* A packet that came in. */
struct knt_arrival {
	struct knt_path from;
	const u8 *head;		/* the first bytes behind UDP's header */
	u32 head_len;
	u32 len;		/* how many bytes there are behind it */
	u32 device;		/* the index of the one that it came in by; a VRF's, if that has it */
	u32 slave;		/* then that of the device in the VRF; 0: in none */
	u32 link;		/* that of the device below a VRF, which has a speed */
	u16 port;		/* UDP's, that it came from */
	u8 ecn;
};

/* A super-packet that came in, of which one packet is looked at after the other. */
struct knt_whole {
	struct sk_buff *skb;
	u32 size;	/* of each packet but the last, behind UDP's header */
	u32 offset;	/* of the next one */
	u32 frag;	/* the page that it is looked for in, */
	u32 begin;	/* and what comes before that */
};

/* Why a datagram is not one for the transport. */
enum knt_refused {
	KNT_REFUSED_PORT,	/* from no port of the transport's */
	KNT_REFUSED_ADDRESS,	/* to many, or from nobody's address */
	KNT_REFUSED_UNREADABLE,	/* its headers cannot be had */
};

/* What a socket says of a packet for it. */
enum knt_verdict {
	KNT_PASSES,
	KNT_REFUSES,
	KNT_ASK_UNLOCKED,	/* programs have to be run, which should not be with a lock */
};

/* What ICMP says of a packet that was sent. */
enum knt_unreachable {
	KNT_UNREACHABLE_PORT,
	KNT_UNREACHABLE_HOST,
	KNT_UNREACHABLE_NETWORK,
	KNT_UNREACHABLE_PROHIBITED,
};

#define KNT_KEY 32
#define KNT_TAG 16
#define KNT_LABEL 16

/* How a packet is sealed, or to be opened. Its tag and then the label follow the payload. */
struct knt_seal {
	u8 key[KNT_KEY];
	u64 nonce;
	u8 label[KNT_LABEL];	/* authenticated, behind the transport's header */
};

/*
 * What a socket's options tied it to when a message began, whose packets keep to that. All zero:
 * nothing.
 */
struct knt_tie {
	u32 device;
	u32 mark;
};

/* A packet to send. */
struct knt_departure {
	struct knt_path to;
	struct sock *sk;	/* whose it is; NULL: nobody's */
	struct knt_tie tie;	/* what it has to go by */
	const u8 *head;
	u32 head_len;
	struct knt_out *out;	/* NULL: no payload */
	u32 offset;
	u32 len;
	u16 port;		/* UDP's, that it comes from */
	u8 tos;
	const struct knt_seal *seal;	/* NULL: it is sent as it is */
	bool counts;		/* among what knt_out_has_room() looks at */
};

/* An address as the application gives and gets it. */
struct knt_address {
	u8 ip[16];
	u32 scope;
	u16 port;
	bool v4;		/* of an AF_INET socket */
};

/* What is known of a socket. */
struct knt_sock_view {
	struct knt_address local;	/* ip all zero: any */
	struct knt_address peer;	/* port 0: not connected */
	u32 device;
	bool v6only;
	bool shares;			/* SO_REUSEPORT */
	u32 owner;			/* whose it is */
};

/* Ports, both ends included. */
struct knt_ports {
	u16 first;
	u16 last;
};

/* What poll can say beside errors. */
enum {
	KNT_READABLE = 1,
	KNT_WRITABLE = 2,
	KNT_WITHIN = 4,		/* what is read next is more of a message */
};

/* What SIOCINQ and SIOCOUTQ ask. */
enum {
	KNT_QUEUE_IN = 0,
	KNT_QUEUE_OUT = 1,
};

/* What is in a socket's queues. */
struct knt_queues {
	u64 readable;		/* bytes that can be read */
	u64 unacknowledged;	/* bytes that no receiver has acknowledged */
	u32 whole;		/* messages that are complete and not read */
	u32 incoming;		/* messages that still come in */
	u32 outgoing;		/* messages that go out */
};

/* Which sockets are listed: those that are bound, and connected, to exactly this. */
struct knt_sock_name {
	struct knt_address local;
	struct knt_address peer;	/* port 0: not connected */
	u32 device;
};

/* A socket in a list. */
struct knt_listed {
	struct sock *sk;		/* with a reference */
	u64 handle;			/* Rust's; also of one that is closed */
	u64 next;			/* where the list goes on behind it */
	struct knt_queues queues;
	bool closing;			/* it is closed, and has messages under way */
};

/*
 * What Rust does. The socket functions are called in process context, those marked L with the
 * socket's lock; timer and packet with bottom halves off. Errors are negative errnos.
 */
struct knt_ops {
	struct knt_numbers numbers;
	void *(*net_open)(struct knt_net *tn);			/* makes the namespace's state; NULL: no memory */
	void (*net_close)(void *state);
	void (*timer)(struct knt_net *tn);
	/* takes skb, which begins with UDP's header */
	void (*packet)(struct knt_net *tn, const struct knt_arrival *arrival, struct sk_buff *skb);
	/*
	 * The same with several, for knt_train_next(): what arrival says is true of all of them, but
	 * for head, head_len and len, which are of none.
	 */
	void (*train)(struct knt_net *tn, const struct knt_arrival *arrival, struct sk_buff *train);
	/*
	 * The same with a super-packet, for knt_whole_next(), before it is taken apart for train. What
	 * is returned is to be taken apart; NULL: it was taken.
	 */
	struct sk_buff *(*whole)(struct knt_net *tn, const struct knt_arrival *arrival,
				 struct sk_buff *skb, u32 size);
	void (*refused)(struct knt_net *tn, u32 why);		/* enum knt_refused; as packet */
	/*
	 * Whether a packet to a path, from this UDP port, is of a message: its first bytes behind
	 * UDP's header, len of them, as ICMP quotes them. As packet.
	 */
	bool (*quoted)(struct knt_net *tn, const struct knt_path *to, u16 port, const u8 *head,
		       u32 len);
	/*
	 * A packet to a path was not delivered; its first bytes behind UDP's header, len of them, as
	 * ICMP quotes them; enum knt_unreachable. As packet.
	 */
	void (*undelivered)(struct knt_net *tn, const struct knt_path *to, const u8 *head, u32 len,
			    u32 what);
	/*
	 * Of a message of this name, for which knt_out_has_room() found none, packets have left, and
	 * so many that count are still there. A softirq; perhaps the message has ended.
	 */
	void (*left)(struct knt_net *tn, u64 name, u32 still);
	/* a packet was longer than its route's MTU; any context in which packets may be sent */
	void (*path_mtu)(struct knt_net *tn, const struct knt_path *to, u32 mtu);
	int (*sock_open)(struct sock *sk);
	void (*sock_close)(struct sock *sk, bool abort, long linger);	/* L; perhaps twice */
	int (*sock_bind)(struct sock *sk, u16 port);		/* L; 0: any; returns the port */
	void (*sock_unbind)(struct sock *sk);			/* L */
	void (*sock_moved)(struct sock *sk);			/* L; its addresses or device changed */
	void (*sock_shutdown)(struct sock *sk, int how);	/* L */
	int (*send)(struct sock *sk, struct msghdr *msg, size_t len);		/* L */
	int (*receive)(struct sock *sk, struct msghdr *msg, size_t len, int flags);	/* L */
	u32 (*poll)(struct sock *sk);
	/* L; wide: NULL if there were less than 8 bytes */
	int (*set_option)(struct sock *sk, int option, int value, const u64 *wide);
	s64 (*get_option)(struct sock *sk, int option);	/* from -1 to U32_MAX, or an errno */
	void (*sock_resized)(struct sock *sk);	/* L; its receive buffer is another one */
	int (*queued)(struct sock *sk, int which);
	/*
	 * The sockets with this name, or all if it is NULL, from a position on that is 0 at first; at
	 * most max, and returns how many. Sleeping is allowed; without the socket's lock.
	 */
	u32 (*sock_list)(struct knt_net *tn, const struct knt_sock_name *name, u64 from,
			 struct knt_listed *into, u32 max);
	void (*sock_abort)(struct sock *sk, u64 handle);	/* L; also of one that is closed */
};

/* module.c; place: of what will call knt_unregister() */
int knt_register(const struct knt_ops *ops, const void *place);
void knt_unregister(void);

/* net.c */
int knt_net_open(struct knt_net *tn);
struct knt_net *knt_net_of(struct net *net);
struct net *knt_net_net(const struct knt_net *tn);
bool knt_net_is_initial(const struct knt_net *tn);
void *knt_net_state(struct knt_net *tn);
void knt_net_lock(struct knt_net *tn);
void knt_net_unlock(struct knt_net *tn);
void knt_net_arm(struct knt_net *tn, u64 at);
u64 knt_now(void);
struct knt_times {
	u64 now;
	u64 wall;
};
struct knt_times knt_times(bool tai);
u64 knt_random(void);

/* input.c */
struct sk_buff *knt_train_next(struct sk_buff **train, struct knt_arrival *arrival);
void knt_skb_take(struct sk_buff *skb);
void knt_skb_free(struct sk_buff *skb);
u32 knt_sock_admits(struct sock *sk, struct sk_buff *skb, u32 bound, u32 device, u32 slave,
		    bool locked);

/* trains.c */
struct knt_whole knt_whole_begin(struct sk_buff *skb, u32 size);
u32 knt_whole_next(struct knt_whole *whole, u8 *head, u32 len);

/* seal.c */
void knt_hmac(const u8 *key, u32 key_len, const u8 *data, u32 len, u8 mac[KNT_KEY]);
int knt_key_read(u32 serial, u8 *to, u32 len);
bool knt_skb_tail(const struct sk_buff *skb, u8 *to, u32 len);
bool knt_skb_open(struct sk_buff *skb, const u8 *head, u32 head_len, const struct knt_seal *seal);

/*
 * output.c: packets are made with the namespace's lock, and sent without it.
 */
struct knt_outbox {
	struct sk_buff *first;
	struct sk_buff *last;
	struct sk_buff *garbage;	/* segments.c */
	struct knt_out *outs;		/* out.c */
};

bool knt_outbox_add(struct knt_net *tn, struct knt_outbox *box,
		    const struct knt_departure *departure);
bool knt_outbox_add_run(struct knt_net *tn, struct knt_outbox *box,
			const struct knt_departure *departure, u32 each);
int knt_outbox_send(struct knt_net *tn, struct knt_outbox *box);

/* route.c */
/* How a message is to go, other than by its socket. */
struct knt_wish {
	u8 source[16];		/* all zero: the socket's, or any */
	u32 device;		/* 0: the socket's, or any */
};

/* What there is to know of it then. */
struct knt_way_out {
	struct knt_path path;
	struct knt_tie tie;
	u32 mtu;
};

int knt_route(struct sock *sk, const struct knt_address *to, const struct knt_wish *wish,
	      u16 port, struct knt_way_out *way);

/*
 * out.c: what an application wrote of a message, in pages that packets refer to. It has a reference
 * to the socket, to whose memory it counts. Writing is for one at a time and sleeps; all else is
 * for any context. With the namespace's lock the last reference to much is given back by
 * knt_out_leave(); what knt_out_release() leaves to the outbox is freed with it.
 */
/* length 0: not known, or more than this call has */
struct knt_out *knt_out_new(struct sock *sk, u32 length);
void knt_out_get(struct knt_out *out);
void knt_out_put(struct knt_out *out);
void knt_out_leave(struct knt_out *out, struct knt_outbox *box);
int knt_out_write(struct knt_out *out, struct msghdr *msg, u32 len);
void knt_out_release(struct knt_out *out, u32 below, struct knt_outbox *box);
bool knt_out_has_room(struct knt_net *tn, struct knt_out *out, u64 name, u32 link, u32 most);
u32 knt_net_below(const struct knt_net *tn, u32 link);

/*
 * segments.c: what came of a message, by offset. The packets count to the socket's memory until
 * they are freed: knt_segments_free() does so at once, without the namespace's lock;
 * knt_segments_leave() leaves it to knt_outbox_send(). May be moved in memory; all zero: empty.
 */
struct knt_segments {
	void *root;
	struct sk_buff *last;
	u32 truesize;
	u32 bytes;	/* of payload */
	u32 tidied;	/* packets below were looked at when memory was short */
};

struct knt_part {
	struct sk_buff *skb;	/* with a reference */
	u32 skip;		/* of what it has of the message */
	u32 len;
};

bool knt_segments_insert(struct knt_segments *segments, struct sock *sk, struct sk_buff *skb,
			 u32 offset, u32 skip, u32 len, u32 most, u32 promised);
bool knt_segments_insert_whole(struct knt_segments *segments, struct sock *sk, struct sk_buff *skb,
			       u32 offset, u32 head, u32 each, u32 len, u32 most, u32 promised);
u32 knt_segments_gather(const struct knt_segments *segments, u32 offset, u32 len,
			struct knt_part *parts, u32 max);
void knt_segments_consume(struct knt_segments *segments, u32 below);
void knt_segments_free(struct knt_segments *segments);
void knt_segments_leave(struct knt_segments *segments, struct knt_outbox *box);
int knt_part_copy(const struct knt_part *part, struct msghdr *msg);

/* message.c: what sendmsg and recvmsg are given. */
struct knt_send_options {
	struct knt_address to;
	struct knt_wish wish;
	u64 length;		/* 0: not given */
	u64 deadline;
	u32 coflow;		/* 0: not given */
	s32 priority;		/* -1: not given */
	bool has_to;
	bool has_deadline;
	bool unknown_size;
	bool has_unknown_size;
	bool more;
	bool dont_wait;
};

int knt_msg_send_options(struct sock *sk, struct msghdr *msg, struct knt_send_options *options);
void knt_msg_set_source(struct sock *sk, struct msghdr *msg, const struct knt_address *from);
void knt_msg_put_local(struct sock *sk, struct msghdr *msg, const u8 local[16], u32 device);
void knt_msg_set_flags(struct msghdr *msg, bool end, bool truncated);
void knt_msg_put_info(struct msghdr *msg, const u64 info[4]);
int knt_msg_receive_error(struct sock *sk, struct msghdr *msg, size_t len);

enum {
	KNT_MSG_PEEK = 0x02,
	KNT_MSG_TRUNC = 0x20,
	KNT_MSG_DONTWAIT = 0x40,
	KNT_MSG_WAITALL = 0x100,
	KNT_MSG_ERRQUEUE = 0x2000,
};

/* What became of a message that was sent. */
struct knt_report {
	struct knt_address peer;
	u32 error;		/* errno, 0: delivered */
	u32 info;
	u32 number;
};

/* socket.c, wait.c */
u64 knt_sock_handle(const struct sock *sk);
void knt_sock_set_handle(struct sock *sk, u64 handle);
struct knt_net *knt_sock_net(const struct sock *sk);
void knt_sock_hold(struct sock *sk);
void knt_sock_put(struct sock *sk);
bool knt_sock_peer(const struct sock *sk, struct knt_address *peer);
void knt_sock_view(struct sock *sk, struct knt_sock_view *view);
u32 knt_sock_user(const struct sock *sk);
struct knt_tie knt_sock_tie(const struct sock *sk);
bool knt_sock_is_shut(const struct sock *sk, bool send);
u32 knt_sock_buffer(const struct sock *sk, bool send);
u16 knt_sock_port(const struct sock *sk);
struct knt_ports knt_sock_chosen(const struct sock *sk);
bool knt_sock_is_connected(const struct sock *sk);
void knt_sock_set_buffers(struct sock *sk, u32 send, u32 receive);
bool knt_sock_receive_is_set(const struct sock *sk);
bool knt_sock_send_is_set(const struct sock *sk);
u32 knt_sock_may_grow(const struct sock *sk);
void knt_sock_resize_receive(struct sock *sk, u32 from, u32 to, u32 first);
int knt_sock_autobind(struct sock *sk);
int knt_sock_error(struct sock *sk);
bool knt_sock_has_error(const struct sock *sk);
void knt_sock_set_error(struct sock *sk, u32 error);
void knt_sock_report(struct sock *sk, const struct knt_report *report);
void knt_sock_readable(struct sock *sk);
void knt_sock_writable(struct sock *sk);
void knt_sock_writable_later(struct sock *sk, u32 ms);
long knt_sock_timeout(struct sock *sk, bool send, bool dont_wait);
u32 knt_sock_news(const struct sock *sk);
int knt_sock_wait_for_news(struct sock *sk, long *timeout, u32 seen);
int knt_sock_wait(struct sock *sk, long *timeout, bool (*ready)(void *), void *argument);

#endif
