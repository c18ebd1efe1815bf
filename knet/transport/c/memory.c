// SPDX-License-Identifier: GPL-2.0
/*
 * What messages take is charged to their sockets, as TCP does: against the protocol's limit and the
 * memory cgroup. A lock of its own keeps the account, because what is charged in one context is
 * freed in any other.
 */
#include "internal.h"

bool knt_mem_charge(struct sock *sk, u32 bytes, int kind)
{
	bool done = true;
	int more;

	if (!sk_has_account(sk))
		return true;
	spin_lock_bh(&knt_sk(sk)->mem_lock);
	more = (int)bytes - sk->sk_forward_alloc;
	if (more > 0)
		done = __sk_mem_schedule(sk, more, kind);
	if (done)
		sk_mem_charge(sk, bytes);
	spin_unlock_bh(&knt_sk(sk)->mem_lock);
	return done;
}

void knt_mem_uncharge(struct sock *sk, u32 bytes)
{
	spin_lock_bh(&knt_sk(sk)->mem_lock);
	sk_mem_uncharge(sk, bytes);
	spin_unlock_bh(&knt_sk(sk)->mem_lock);
}
