// SPDX-License-Identifier: GPL-2.0
/*
 * The generic netlink family.
 *
 * It has no nla_policy: what a request may carry is checked by knet's attr.rs, whose refusals name
 * the attribute, the value and what is allowed, which the kernel's cannot. For that resv_start_op
 * must be beyond all commands, and the kernel leaves the header's check to us, too. (And it is why
 * these are genl_ops: split ones without a policy refuse all attributes.)
 */
#include <linux/mutex.h>
#include <net/genetlink.h>
#include "genl.h"
#include "internal.h"
/* For knet's attr.rs, extack.rs and message.rs. */

static struct genl_multicast_group knt_group;
static struct genl_ops knt_commands[KNT_COMMANDS];
static struct genl_family knt_genl = {
	.netnsok = true,
	.parallel_ops = true,
	.mcgrps = &knt_group,
	.n_mcgrps = 1,
	.ops = knt_commands,
};

static const struct knt_genl_ops *knt_genl_ops;
/* Whether the family is registered: only then the group is ours. Read under RCU. */
static bool knt_genl_live;

static int knt_genl_strict(const struct genl_info *info)
{
	u16 flags = info->nlhdr->nlmsg_flags;

	if (info->genlhdr->reserved) {
		NL_SET_ERR_MSG(info->extack, "genlmsghdr.reserved field is not 0");
		return -EINVAL;
	}
	/* As in the kernel for new families. */
	if ((flags & NLM_F_DUMP) == NLM_F_DUMP)
		flags &= ~NLM_F_DUMP;
	if (flags & ~(NLM_F_REQUEST | NLM_F_ACK | NLM_F_ECHO)) {
		NL_SET_ERR_MSG(info->extack, "ambiguous or reserved bits set in nlmsg_flags");
		return -EINVAL;
	}
	return 0;
}

static struct knt_request knt_genl_request(struct genl_info *info)
{
	return (struct knt_request) {
		.tn = knt_net_of(genl_info_net(info)),
		.info = info,
		.extack = info->extack,
		.attrs = (const u8 *)nlmsg_attrdata(info->nlhdr, GENL_HDRLEN),
		.attrs_len = nlmsg_attrlen(info->nlhdr, GENL_HDRLEN),
		.command = info->genlhdr->cmd,
	};
}

static int knt_genl_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct knt_request request = knt_genl_request(info);
	int err = knt_wait_ready() ?: knt_genl_strict(info);

	return err ?: knt_genl_ops->request(&request);
}

static int knt_genl_start(struct netlink_callback *cb)
{
	struct genl_info *info = &((struct genl_dumpit_info *)cb->data)->info;
	struct knt_request request = knt_genl_request(info);
	int err = knt_wait_ready() ?: knt_genl_strict(info);

	return err ?: knt_genl_ops->dump_start(&request);
}

static int knt_genl_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct genl_info *info = genl_info_dump(cb);
	struct knt_dump dump = {
		.tn = knt_net_of(genl_info_net(info)),
		.skb = skb,
		.cb = cb,
		.position = (struct knt_position *)cb->ctx,
		.command = info->genlhdr->cmd,
	};
	int more;

	NL_ASSERT_CTX_FITS(struct knt_position);
	more = knt_genl_ops->dump(&dump);
	return more > 0 ? skb->len : more;
}

int knt_genl_register(const struct knt_family *family)
{
	unsigned int i;
	int err;

	if (family->n_commands > ARRAY_SIZE(knt_commands))
		return -E2BIG;
	if (strscpy(knt_genl.name, family->name) < 0 || strscpy(knt_group.name, family->group) < 0)
		return -EINVAL;
	for (i = 0; i < family->n_commands; i++) {
		const struct knt_command *command = &family->commands[i];
		struct genl_ops *op = &knt_commands[i];

		*op = (struct genl_ops) {
			.cmd = command->number,
			.flags = command->admin ? GENL_UNS_ADMIN_PERM : 0,
		};
		if (command->dump) {
			op->start = knt_genl_start;
			op->dumpit = knt_genl_dumpit;
		} else {
			op->doit = knt_genl_doit;
		}
		knt_genl.resv_start_op = max_t(u8, knt_genl.resv_start_op, command->number + 1);
	}
	knt_genl.n_ops = family->n_commands;
	knt_genl.version = family->version;
	knt_genl.module = family->owner;
	WRITE_ONCE(knt_genl_ops, family->ops);
	err = genl_register_family(&knt_genl);
	if (err)
		WRITE_ONCE(knt_genl_ops, NULL);
	else
		smp_store_release(&knt_genl_live, true);
	return err;
}

/* Afterwards no request is under way, and none comes. */
void knt_genl_unregister(void)
{
	if (knt_stays())
		return;
	WRITE_ONCE(knt_genl_live, false);
	/* Nobody may send to a group that is no longer ours. */
	synchronize_net();
	genl_unregister_family(&knt_genl);
	/* Another transport may be registered. The work of this one's namespaces ends with them. */
	WRITE_ONCE(knt_genl_ops, NULL);
}

/* Answers */

struct sk_buff *knt_genl_reply_new(struct genl_info *info)
{
	struct sk_buff *skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);

	if (skb && !genlmsg_iput(skb, info)) {
		nlmsg_free(skb);
		return NULL;
	}
	return skb;
}

/* Takes skb. */
int knt_genl_reply_send(struct sk_buff *skb, struct genl_info *info)
{
	nlmsg_end(skb, nlmsg_hdr(skb));
	return genlmsg_reply(skb, info);
}

void knt_genl_drop(struct sk_buff *skb)
{
	nlmsg_free(skb);
}

/* Dumps */

/* NULL: no room. */
void *knt_genl_entry_begin(const struct knt_dump *dump)
{
	const struct genl_info *info = genl_info_dump(dump->cb);

	return __genlmsg_iput(dump->skb, info, NLM_F_MULTI);
}

void knt_genl_entry_end(const struct knt_dump *dump, void *entry)
{
	genl_dump_check_consistent(dump->cb, entry);
	genlmsg_end(dump->skb, entry);
}

void knt_genl_entry_cancel(const struct knt_dump *dump, void *entry)
{
	genlmsg_cancel(dump->skb, entry);
}

/*
 * Says in which state what is dumped is. When it is in another one than before, the next message
 * gets NLM_F_DUMP_INTR. The kernel takes 0 for "not said".
 */
void knt_genl_dump_state(const struct knt_dump *dump, u32 number)
{
	dump->cb->seq = number << 1 | 1;
}

bool knt_genl_dump_is_empty(const struct knt_dump *dump)
{
	return !dump->skb->len;
}

/* Events. In any context but knt_news_work(), which is where they are made messages of. */

static void knt_news_work(struct work_struct *work)
{
	struct knt_net *tn = container_of(work, struct knt_net, news);
	const struct knt_genl_ops *ops = READ_ONCE(knt_genl_ops);

	if (!ops)
		return;
	if (xchg(&tn->link_changed, false))
		ops->link_changed(tn);
	ops->news(tn);
}

void knt_news_init(struct knt_net *tn)
{
	INIT_WORK(&tn->news, knt_news_work);
}

void knt_news_stop(struct knt_net *tn)
{
	cancel_work_sync(&tn->news);
}

/* Has news() called soon. */
void knt_news(struct knt_net *tn)
{
	schedule_work(&tn->news);
}

/* Whether anybody listens. */
bool knt_genl_heard(const struct knt_net *tn)
{
	bool heard;

	rcu_read_lock();
	heard = smp_load_acquire(&knt_genl_live) && genl_has_listeners(&knt_genl, tn->net, 0);
	rcu_read_unlock();
	return heard;
}

struct sk_buff *knt_genl_event_new(u8 command)
{
	struct sk_buff *skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_ATOMIC);

	if (skb && !genlmsg_put(skb, 0, 0, &knt_genl, 0, command)) {
		nlmsg_free(skb);
		return NULL;
	}
	return skb;
}

/* Takes skb. That nobody listens any more is no error. */
int knt_genl_event_send(const struct knt_net *tn, struct sk_buff *skb)
{
	int err = -ESRCH;

	nlmsg_end(skb, nlmsg_hdr(skb));
	rcu_read_lock();
	if (smp_load_acquire(&knt_genl_live))
		err = genlmsg_multicast_netns(&knt_genl, tn->net, skb, 0, 0, GFP_ATOMIC);
	else
		nlmsg_free(skb);
	rcu_read_unlock();
	return err == -ESRCH ? 0 : err;
}
