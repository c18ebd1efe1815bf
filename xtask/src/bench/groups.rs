// SPDX-License-Identifier: GPL-2.0
//! What kernel functions are for, by their names: enough to see where the instructions are.

const CORE: &str = "Turnstile: core";
const GLUE: &str = "Turnstile: kmod";
const KNET: &str = "Turnstile: knet";
const PORT: &str = "Turnstile: port";
/// With the lock that the ports of several queues share.
pub(super) const SHARED: &str = "Turnstile: shared by queues";
const COPY: &str = "copying and checksums";
const MEMORY: &str = "memory";
const PACKETS: &str = "packet buffers";
const TCP: &str = "TCP";
const UDP: &str = "UDP";
const IP: &str = "IP and routes";
const DEVICES: &str = "devices and softirqs";
const SOCKETS: &str = "sockets and system calls";
const WAITING: &str = "waiting and waking";
const TIME: &str = "clocks and timers";
const LOCKS: &str = "locks and RCU";
const OTHER: &str = "other";
const PROGRAMS: &str = "programs";

/// Beginnings of names: the first that fits is the group.
const PREFIXES: &[(&str, &str)] = &[
    (
        COPY,
        "copy_ _copy_ __copy_ rep_ memcpy __memcpy memset __memset memmove csum_ do_csum __csum \
         skb_copy __skb_checksum skb_checksum simple_copy __pi_memcpy __pi_memset crc32 \
         skb_datagram_iter __skb_datagram_iter __check_object_size check_stack_object iov_iter \
         import_ iterate_",
    ),
    (
        PACKETS,
        "__skb alloc_skb __alloc_skb kfree_skb __kfree_skb consume_skb __consume build_skb \
         sk_skb sock_wfree sock_rfree __build_skb napi_skb sk_page_frag page_frag __page_frag \
         napi_consume pskb_ __pskb sock_alloc_send kmalloc_reserve napi_alloc net_zcopy skb",
    ),
    (
        MEMORY,
        "kmem_ kmalloc __kmalloc kfree kvfree __kvmalloc krealloc __slab slab_ ___slab new_slab \
         __alloc_ free_ __free_ get_page put_page __folio folio_ get_partial put_cpu refill_ \
         mod_node __mod_ mod_memcg memcg_ __memcg obj_cgroup try_charge drain_ rmqueue \
         post_alloc prep_ get_obj_cgroup charge_ page_counter cache_ mem_cgroup sheaf __pcs \
         pcs_ vm_ handle_mm do_user_addr exc_page_fault lock_vma clear_page __clear_page \
         asm_exc_page alloc_ consume_obj __refill rcu_free_sheaf __kfree xas_ xa_ __xa mas_ rb_ \
         __rb_ get_any __pte",
    ),
    (TCP, "tcp_ __tcp bictcp cubictcp inet_csk mptcp tcp4 tcp6"),
    (UDP, "udp __udp skb_udp skb_consume_udp"),
    (
        IP,
        "ip_ __ip ip4 ip6 fib inet_ __inet raw_ dst_ neigh __neigh rt_ rt6 ipv nf_ xfrm __xfrm \
         arp_ icmp inet6 raw6 l3mdev find_exception ipcm __fib in_dev secure_",
    ),
    (
        DEVICES,
        "dev_ __dev netif_ __netif napi_ __napi net_rx net_tx process_b enqueue_to_backlog \
         sch_direct validate_xmit qdisc_ __qdisc veth eth_ do_softirq __do_softirq \
         handle_softirqs __local_bh irq_exit raise_softirq __raise_softirq irq_enter __irq_exit \
         get_rps netdev_ xmit_ harmonize gro_ __gro inet_gro gso_ deliver_ passthru flow_ \
         __flow pfifo noqueue tcf_ net_core backlog_ skbs_ local_bh wakeup_softirqd kthread \
         run_ksoftirqd list_add_valid __list_",
    ),
    (
        WAITING,
        "__schedule try_to_wake ttwu wake_ __wake default_wake autoremove prepare_to finish_ \
         enqueue_task dequeue_task enqueue_e dequeue_e pick_ __pick put_prev set_next update_ \
         __update check_preempt resched __resched select_task activate_ deactivate_ futex \
         __futex sock_def_readable sock_def_write context_switch __switch switch_ place_e \
         reweight __calc ctx_ wait_ __wait add_wait remove_wait psi_ __psi newidle \
         available_idle native_smp cpuacct cgroup_rstat set_task do_futex plist wakeup_p avg_v \
         vruntime entity __enqueue_e __dequeue_e dl_ rt_mutex task_ __task pull_ balance_ sched \
         nohz_ native_load native_write_msr select_idle hrtick yield perf_ requeue propagate \
         min_v clear_buddies bpf_s __x64_sys_futex __x64_sys_epoll do_epoll fpu save_fpregs \
         cpu_cgroup rq_ __rq get_futex fault_in __get_user get_user woken_wake poll __poll \
         do_poll do_sys_poll ep",
    ),
    (
        TIME,
        "ktime hrtimer __hrtimer timer_ timerqueue __timer tick_ clock read_tsc __run_timers \
         run_timer mod_timer __mod_timer enqueue_hrtimer enqueue_timer lapic sysvec_apic \
         asm_sysvec run_posix calc_ call_timer timekeeping get_nohz del_timer detach_ \
         native_apic sched_clock jiffies rdtsc native_sched_clock delay_ pvclock lock_timer \
         next_ __next collect_ ntp profile_ account_ acct_ cpu_timer irqtime vtime nsecs \
         __do_sys_clock",
    ),
    (
        LOCKS,
        "_raw_ mutex __mutex lock_sock __lock_sock release_sock __release_sock __rcu note_gp \
         call_rcu __call_rcu down_ up_ native_queued queued_ rcu refcount srcu __srcu percpu_ \
         osq call_function preempt rwsem __down __up dec_",
    ),
    (
        SOCKETS,
        "__sock sock sk_ __sk __sys_ __x64_sys do_syscall entry_ syscall x64_sys ____sys ___sys \
         fget fput __fget fdget security_ apparmor aa_ selinux move_addr vfs_ new_sync ksys_ \
         exit_to_user irqentry __fdget __audit audit_ put_cmsg release_s lookup_ cgroup_bpf \
         __cgroup rw_verify fsnotify __fsnotify do_recv do_send srso __x86 retbleed \
         common_interrupt ret_from error_ asm_ sysret tomoyo lsm_ cap_ bpf_lsm landlock yama \
         recv send init_user __put_user its_return clear_bhb x86_verw copy_msghdr __ia32 ima_",
    ),
];

/// The group of a function.
pub(super) fn of(name: &str, module: &str) -> &'static str {
    match module {
        "turnstile" if name.starts_with("turnstile_core::") => CORE,
        "turnstile" if name.starts_with("turnstile::") => GLUE,
        "turnstile" => KNET,
        "sch_turnstile" if is_shared(name) => SHARED,
        "sch_turnstile" => PORT,
        "veth" => DEVICES,
        _ if name.starts_with('(') => PROGRAMS,
        _ => {
            let fits = |(_, prefixes): &&(_, &str)| {
                prefixes
                    .split_whitespace()
                    .any(|prefix| name.starts_with(prefix))
            };
            PREFIXES.iter().find(fits).map_or(OTHER, |(group, _)| group)
        }
    }
}

/// Does a port of several queues do this with the lock that they share, or take or give that up? As
/// far as it is a function of its own.
fn is_shared(name: &str) -> bool {
    let part = [
        "port::common::",
        "port::together::claim",
        "knet_lock",
        "knet_unlock",
    ];
    part.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_grouped_by_module_and_name() {
        for (name, module, group) in [
            (
                "turnstile_core::transport::heap::Nodes::up",
                "turnstile",
                CORE,
            ),
            ("turnstile::state::State::promote", "turnstile", GLUE),
            ("knt_segments_insert", "turnstile", KNET),
            ("turnstile_core::port::Port::enqueue", "sch_turnstile", PORT),
            (
                "<turnstile_core::port::common::Common<_>>::claim",
                "sch_turnstile",
                SHARED,
            ),
            ("veth_xmit", "veth", DEVICES),
            ("rep_movs_alternative", "", COPY),
            ("kmem_cache_free", "", MEMORY),
            ("__alloc_skb", "", PACKETS),
            ("tcp_sendmsg_locked", "", TCP),
            ("ip_rcv_core", "", IP),
            ("try_to_wake_up", "", WAITING),
            ("ktime_get", "", TIME),
            ("_raw_spin_lock_bh", "", LOCKS),
            ("do_syscall_64", "", SOCKETS),
            ("(programs)", "", PROGRAMS),
            ("zebra", "", OTHER),
        ] {
            assert_eq!(of(name, module), group, "{name}");
        }
    }
}
