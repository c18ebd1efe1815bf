// SPDX-License-Identifier: GPL-2.0
//! Who has the transport's UDP port.

use std::path::Path;

use super::Machine;
use turnstile_core::header::PORT as UDP_PORT;

/// A UDP socket, as `/proc/net/udp` lists it.
struct Holder {
    uid: String,
    inode: u64,
}

impl Machine {
    /// Who has the transport's UDP port, and what helps.
    pub(super) fn port_taken(&self) -> String {
        let holders: Vec<Holder> = ["proc/self/net/udp", "proc/self/net/udp6"]
            .iter()
            .flat_map(|table| self.holders(table))
            .collect();
        if holders.is_empty() {
            // It was there when the kernel looked.
            return format!("UDP port {UDP_PORT} was taken, and is free now: try again");
        }
        let mut names: Vec<String> = holders.iter().map(|holder| self.name(holder)).collect();
        names.sort();
        names.dedup();
        format!(
            "UDP port {UDP_PORT}, which the transport needs, is taken by {}: end it, or give it \
             another port",
            names.join(" and ")
        )
    }

    fn holders(&self, table: &str) -> Vec<Holder> {
        let text = self.read(table);
        let lines = text.lines().skip(1);
        lines
            .filter_map(|line| {
                // sl local remote state queues timer retransmissions uid timeout inode
                let columns: Vec<&str> = line.split_whitespace().collect();
                let (_, port) = columns.get(1)?.rsplit_once(':')?;
                if u16::from_str_radix(port, 16) != Ok(UDP_PORT) {
                    return None;
                }
                Some(Holder {
                    uid: (*columns.get(7)?).to_owned(),
                    inode: columns.get(9)?.parse().ok()?,
                })
            })
            .collect()
    }

    fn name(&self, holder: &Holder) -> String {
        if holder.inode == 0 {
            return "the kernel (a tunnel, or another module)".to_owned();
        }
        let link = format!("socket:[{}]", holder.inode);
        let processes = std::fs::read_dir(self.root.join("proc"));
        let found = processes
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| process(path).is_some())
            .find(|path| has_socket(path, &link));
        let Some(path) = found else {
            return format!(
                "a program of user {} that cannot be seen from here",
                holder.uid
            );
        };
        let pid = process(&path).unwrap_or_default();
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        format!("{} (process {pid})", name.trim())
    }
}

/// The process that a folder of `/proc` is about.
fn process(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.parse().ok()
}

fn has_socket(process: &Path, link: &str) -> bool {
    let descriptors = std::fs::read_dir(process.join("fd"));
    descriptors
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
        .any(|target| target.as_os_str() == link)
}
