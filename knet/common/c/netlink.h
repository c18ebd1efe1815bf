/* SPDX-License-Identifier: GPL-2.0 */
/* Netlink messages, for the Rust that both modules share: knet/common/src. */
#ifndef KNET_NETLINK_H
#define KNET_NETLINK_H

#include <linux/types.h>

struct netlink_ext_ack;
struct nlattr;
struct sk_buff;

int knet_put(struct sk_buff *skb, int type, int len, const void *value);
int knet_put_u64(struct sk_buff *skb, int type, u64 value, int pad);
struct nlattr *knet_nest_start(struct sk_buff *skb, int type);
void knet_nest_end(struct sk_buff *skb, struct nlattr *nest);
void knet_nest_cancel(struct sk_buff *skb, struct nlattr *nest);
void knet_extack_set(struct netlink_ext_ack *extack, const char *message);
void knet_extack_blame(struct netlink_ext_ack *extack, const void *attr);

#endif
