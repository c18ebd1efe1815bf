// SPDX-License-Identifier: GPL-2.0
/*
 * What messages take is charged to their sockets, as TCP does: against the protocol's limit and the
 * memory cgroup. It also shows in sk_rmem_alloc and sk_wmem_alloc, by which the kernel judges which
 * sockets may have more while memory is scarce (__sk_mem_raise_allocated()), and which SO_MEMINFO
 * tells. A lock of its own keeps the account, because what is charged in one context is freed in
 * any other.
 */
#include "internal.h"

/* A receive buffer is never taken to be smaller: twice the least of Rust's budget. */
#define KNT_LEAST_RECEIVE (32 << 10)

bool knt_mem_charge(struct sock *sk, u32 bytes, int kind)
{
	struct knt_sock *knt = knt_sk(sk);
	bool done = true;
	int more;

	spin_lock_bh(&knt->mem_lock);
	if (kind == SK_MEM_RECV) {
		u32 most = max_t(u32, READ_ONCE(sk->sk_rcvbuf), KNT_LEAST_RECEIVE);

		done = bytes <= most && knt->held <= most - bytes;
	}
	if (done && sk_has_account(sk)) {
		more = (int)bytes - sk->sk_forward_alloc;
		if (more > 0)
			done = __sk_mem_schedule(sk, more, kind);
		if (done)
			sk_mem_charge(sk, bytes);
	}
	if (done && kind == SK_MEM_RECV) {
		knt->held += bytes;
		atomic_add(bytes, &sk->sk_rmem_alloc);
	} else if (done) {
		refcount_add(bytes, &sk->sk_wmem_alloc);
	}
	spin_unlock_bh(&knt->mem_lock);
	return done;
}

/* Reports are bounded by who makes them, and count like what was received. */
bool knt_mem_charge_report(struct sock *sk, u32 bytes)
{
	struct knt_sock *knt = knt_sk(sk);
	bool done = true;
	int more;

	spin_lock_bh(&knt->mem_lock);
	if (sk_has_account(sk)) {
		more = (int)bytes - sk->sk_forward_alloc;
		if (more > 0)
			done = __sk_mem_schedule(sk, more, SK_MEM_RECV);
		if (done)
			sk_mem_charge(sk, bytes);
	}
	if (done)
		atomic_add(bytes, &sk->sk_rmem_alloc);
	spin_unlock_bh(&knt->mem_lock);
	return done;
}

void knt_mem_uncharge_report(struct sock *sk, u32 bytes)
{
	struct knt_sock *knt = knt_sk(sk);

	spin_lock_bh(&knt->mem_lock);
	atomic_sub(bytes, &sk->sk_rmem_alloc);
	sk_mem_uncharge(sk, bytes);
	spin_unlock_bh(&knt->mem_lock);
}

/* With a reference to the socket, which also counts in sk_wmem_alloc. */
void knt_mem_uncharge(struct sock *sk, u32 bytes, int kind)
{
	struct knt_sock *knt = knt_sk(sk);

	spin_lock_bh(&knt->mem_lock);
	if (kind == SK_MEM_RECV) {
		knt->held -= bytes;
		atomic_sub(bytes, &sk->sk_rmem_alloc);
	} else {
		WARN_ON_ONCE(refcount_sub_and_test(bytes, &sk->sk_wmem_alloc));
	}
	sk_mem_uncharge(sk, bytes);
	spin_unlock_bh(&knt->mem_lock);
}
