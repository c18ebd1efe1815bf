// SPDX-License-Identifier: GPL-2.0
/* C faces of the kernel's inline functions and macros; see netlink.h. */
#include <net/netlink.h>
#include "netlink.h"

/* attr.rs has it, too. */
static_assert((u16)NLA_TYPE_MASK == 0x3fff);

int knet_put(struct sk_buff *skb, int type, int len, const void *value)
{
	return nla_put(skb, type, len, value);
}

int knet_put_u64(struct sk_buff *skb, int type, u64 value, int pad)
{
	return nla_put_u64_64bit(skb, type, value, pad);
}

/*
 * tc reads these nests without looking for NLA_F_NESTED, so the flag stays off as in the other
 * qdiscs.
 */
struct nlattr *knet_nest_start(struct sk_buff *skb, int type)
{
	return nla_nest_start_noflag(skb, type);
}

void knet_nest_end(struct sk_buff *skb, struct nlattr *nest)
{
	nla_nest_end(skb, nest);
}

void knet_nest_cancel(struct sk_buff *skb, struct nlattr *nest)
{
	nla_nest_cancel(skb, nest);
}

void knet_extack_set(struct netlink_ext_ack *extack, const char *message)
{
	NL_SET_ERR_MSG_FMT(extack, "%s", message);
}

/*
 * Where the message that answers says the fault is. Only its distance from the request's start is
 * used.
 */
void knet_extack_blame(struct netlink_ext_ack *extack, const void *attr)
{
	NL_SET_BAD_ATTR(extack, attr);
}
