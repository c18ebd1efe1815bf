// SPDX-License-Identifier: GPL-2.0
/*
 * What messages take is charged to their sockets, as TCP does: against the protocol's limit, and
 * the memory cgroup. It also shows in sk_rmem_alloc and sk_wmem_alloc, by which the kernel judges
 * which sockets may have more while memory is scarce (__sk_mem_raise_allocated()), and which
 * SO_MEMINFO tells. A lock of its own keeps the account, because what is charged in one context is
 * freed in any other.
 *
 * The kernel charges the cgroup along with the protocol, and where that may not sleep it lets a
 * full cgroup have more. For what comes from the network there is no choice, and SO_RCVBUF
 * bounds it. What is sent counts to the cgroup of the sender as pages that are allocated for it
 * (KNT_OUT_GFP), which may be refused, and here to the protocol only.
 */
#include <net/proto_memory.h>
#include "internal.h"

/* A receive buffer is never taken to be smaller: twice the least of Rust's budget. */
#define KNT_LEAST_RECEIVE (32 << 10)

static void knt_mem_press(struct sock *sk, bool scarce)
{
	if (READ_ONCE(*sk->sk_prot->memory_pressure) != scarce)
		WRITE_ONCE(*sk->sk_prot->memory_pressure, scarce);
}

/*
 * Whether a socket may have more to send while memory is scarce: if it has little, or no more than
 * its share.
 */
static bool knt_mem_is_due(struct sock *sk)
{
	long has = refcount_read(&sk->sk_wmem_alloc) + atomic_read(&sk->sk_rmem_alloc);

	return has < READ_ONCE(sk->sk_prot->sysctl_wmem[0]) ||
	       sk_sockets_allocated_read_positive(sk) * (has >> PAGE_SHIFT) <
	       sk_prot_mem_limits(sk, 2);
}

/* Takes pages of what the protocol may have. */
static bool knt_mem_take(struct sock *sk, u32 pages)
{
	long all;

	if (sk->sk_bypass_prot_mem)
		return true;
	sk_memory_allocated_add(sk, pages);
	all = sk_memory_allocated(sk);
	if (likely(all <= sk_prot_mem_limits(sk, 0))) {
		knt_mem_press(sk, false);
		return true;
	}
	if (all > sk_prot_mem_limits(sk, 1))
		knt_mem_press(sk, true);
	if (all <= sk_prot_mem_limits(sk, 2) &&
	    (!sk_under_global_memory_pressure(sk) || knt_mem_is_due(sk)))
		return true;
	sk_memory_allocated_sub(sk, pages);
	return false;
}

static void knt_mem_give(struct sock *sk, u32 pages)
{
	if (sk->sk_bypass_prot_mem)
		return;
	sk_memory_allocated_sub(sk, pages);
	if (sk_under_global_memory_pressure(sk) &&
	    sk_memory_allocated(sk) < sk_prot_mem_limits(sk, 0))
		knt_mem_press(sk, false);
}

/* How many pages more, or less, so many bytes are. */
static u32 knt_mem_pages(u32 less, u32 more)
{
	return DIV_ROUND_UP_ULL(more, PAGE_SIZE) - DIV_ROUND_UP_ULL(less, PAGE_SIZE);
}

/* What sk_wmem_alloc holds, which is a refcount_t, but for packets that are under way. */
#define KNT_MOST_SENT ((u32)INT_MAX - (64U << 20))

/* For what is to be sent. */
bool knt_mem_charge_out(struct sock *sk, u32 bytes)
{
	struct knt_sock *knt = knt_sk(sk);
	bool done = false;
	u32 pages;

	spin_lock_bh(&knt->mem_lock);
	if (bytes <= KNT_MOST_SENT && knt->sent <= KNT_MOST_SENT - bytes) {
		pages = knt_mem_pages(knt->sent, knt->sent + bytes);
		done = !pages || knt_mem_take(sk, pages);
	}
	if (done) {
		knt->sent += bytes;
		refcount_add(bytes, &sk->sk_wmem_alloc);
	}
	spin_unlock_bh(&knt->mem_lock);
	return done;
}

/* With a reference to the socket, which also counts in sk_wmem_alloc. */
void knt_mem_uncharge_out(struct sock *sk, u32 bytes)
{
	struct knt_sock *knt = knt_sk(sk);
	u32 pages;

	spin_lock_bh(&knt->mem_lock);
	knt->sent -= bytes;
	WARN_ON_ONCE(refcount_sub_and_test(bytes, &sk->sk_wmem_alloc));
	pages = knt_mem_pages(knt->sent, knt->sent + bytes);
	if (pages)
		knt_mem_give(sk, pages);
	spin_unlock_bh(&knt->mem_lock);
}

/*
 * For what came. What messages were given room for, promised, stays theirs if the receive buffer is
 * made smaller.
 */
bool knt_mem_charge_in(struct sock *sk, u32 bytes, u32 promised)
{
	u32 most = max3((u32)READ_ONCE(sk->sk_rcvbuf), (u32)KNT_LEAST_RECEIVE, promised);
	struct knt_sock *knt = knt_sk(sk);
	bool done;
	int more;

	spin_lock_bh(&knt->mem_lock);
	done = bytes <= most && knt->held <= most - bytes;
	if (done && sk_has_account(sk)) {
		more = (int)bytes - sk->sk_forward_alloc;
		if (more > 0)
			done = __sk_mem_schedule(sk, more, SK_MEM_RECV);
		if (done)
			sk_mem_charge(sk, bytes);
	}
	if (done) {
		knt->held += bytes;
		atomic_add(bytes, &sk->sk_rmem_alloc);
	}
	spin_unlock_bh(&knt->mem_lock);
	return done;
}

void knt_mem_uncharge_in(struct sock *sk, u32 bytes)
{
	struct knt_sock *knt = knt_sk(sk);

	spin_lock_bh(&knt->mem_lock);
	knt->held -= bytes;
	atomic_sub(bytes, &sk->sk_rmem_alloc);
	sk_mem_uncharge(sk, bytes);
	spin_unlock_bh(&knt->mem_lock);
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

/*
 * By how much the receive buffers of all sockets have grown. What was promised to messages must be
 * there: else they come in half, keep what they have, and wait for the rest for ever. So together
 * they have no more than half of what the protocol may have without being short of memory; the
 * other half is for buffers that did not grow, and for what is sent.
 */
static atomic_long_t knt_grown;

u32 knt_sock_may_grow(const struct sock *sk)
{
	long most = sk_prot_mem_limits(sk, 0) / 2 * PAGE_SIZE;

	return clamp(most - atomic_long_read(&knt_grown), 0L, (long)INT_MAX);
}

static void knt_grow_to(struct sock *sk, u32 grown)
{
	struct knt_sock *knt = knt_sk(sk);

	spin_lock_bh(&knt->mem_lock);
	atomic_long_add((long)grown - (long)knt->grown, &knt_grown);
	knt->grown = grown;
	spin_unlock_bh(&knt->mem_lock);
}

/*
 * Another receive buffer, unless the application sets one meanwhile: that wins. At first it was
 * that large. If it is set, so much is kept of what it had grown to: the size that was set may be
 * smaller than what was promised before, and that is there until it is read.
 */
void knt_sock_resize_receive(struct sock *sk, u32 from, u32 to, u32 first)
{
	u32 now;

	to = min_t(u32, to, INT_MAX);
	if (knt_sock_receive_is_set(sk)) {
		/* SO_BUF_LOCK keeps what it has grown to, which is not given back then. */
		now = max_t(u32, to, READ_ONCE(sk->sk_rcvbuf));
		knt_grow_to(sk, min(knt_sk(sk)->grown, now > first ? now - first : 0));
		return;
	}
	if (cmpxchg(&sk->sk_rcvbuf, from, to) == from)
		knt_grow_to(sk, to > first ? to - first : 0);
}

/* The socket is gone. */
void knt_mem_forget_growth(struct sock *sk)
{
	knt_grow_to(sk, 0);
}
