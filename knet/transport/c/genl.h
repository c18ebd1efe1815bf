/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The generic netlink family, as Rust sees it. Only opaque structures: all that looks into them is
 * in genl.c.
 */
#ifndef KNET_TRANSPORT_GENL_H
#define KNET_TRANSPORT_GENL_H

#include <linux/types.h>

struct genl_info;
struct knt_net;
struct module;
struct netlink_callback;
struct netlink_ext_ack;
struct sk_buff;

/* How many commands a family can have here. */
#define KNT_COMMANDS 16

/* Where a dump goes on; zeroed before it begins. */
struct knt_position {
	u64 word[4];
};

/* A request. */
struct knt_request {
	struct knt_net *tn;
	struct genl_info *info;
	struct netlink_ext_ack *extack;
	const u8 *attrs;		/* those of the message, as they came */
	u32 attrs_len;
	u8 command;
};

/* One message of a dump. */
struct knt_dump {
	struct knt_net *tn;
	struct sk_buff *skb;
	struct netlink_callback *cb;
	struct knt_position *position;
	u8 command;
};

struct knt_command {
	u8 number;
	bool admin;	/* needs CAP_NET_ADMIN in the namespace's user namespace */
	bool dump;	/* answers with as many messages as it likes */
};

/* In process context. Errors are negative errnos. */
struct knt_genl_ops {
	int (*request)(const struct knt_request *request);
	int (*dump_start)(const struct knt_request *request);
	int (*dump)(struct knt_dump *dump);	/* 0: all is written; 1: there is more */
	void (*news)(struct knt_net *tn);	/* after knt_news() */
	/* after a device of the namespace came up, went down or changed */
	void (*link_changed)(struct knt_net *tn);
};

/* A family, for as long as it is registered. One at a time, with one multicast group. */
struct knt_family {
	const char *name;		/* NUL-terminated, as the group's */
	const char *group;
	struct module *owner;
	const struct knt_genl_ops *ops;
	const struct knt_command *commands;	/* in the order of their numbers */
	u32 n_commands;
	u32 version;
};

int knt_genl_register(const struct knt_family *family);
void knt_genl_unregister(void);

struct sk_buff *knt_genl_reply_new(struct genl_info *info);
int knt_genl_reply_send(struct sk_buff *skb, struct genl_info *info);
void knt_genl_drop(struct sk_buff *skb);

void *knt_genl_entry_begin(const struct knt_dump *dump);
void knt_genl_entry_end(const struct knt_dump *dump, void *entry);
void knt_genl_entry_cancel(const struct knt_dump *dump, void *entry);
void knt_genl_dump_state(const struct knt_dump *dump, u32 number);
bool knt_genl_dump_is_empty(const struct knt_dump *dump);

u64 knt_net_fastest(struct knt_net *tn);
u64 knt_net_speed(struct knt_net *tn, u32 device);
void knt_news(struct knt_net *tn);
bool knt_genl_heard(const struct knt_net *tn);
struct sk_buff *knt_genl_event_new(u8 command);
int knt_genl_event_send(const struct knt_net *tn, struct sk_buff *skb);

#endif
