// SPDX-License-Identifier: GPL-2.0
//! Traffic control of one device, without starting a program for each request.

use anyhow::{Context, Result};

use super::kinds::matchall;
use super::{
    attribute, ifindex, turnstile, Answer, Object, RawNetlink, Request, GET_CLASS, GET_QDISC,
    NESTED, TCA_KIND, TCA_OPTIONS,
};
use crate::netns::Netns;

/// A device's qdiscs, classes and filters.
#[derive(Debug)]
pub struct Tc {
    /// The socket.
    pub netlink: RawNetlink,
    /// The device.
    pub ifindex: i32,
}

impl Tc {
    /// Of `dev` in `ns`.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn open(ns: &Netns, dev: &str) -> Result<Self> {
        Ok(Self {
            netlink: RawNetlink::open(ns)?,
            ifindex: ifindex(ns, dev)?,
        })
    }

    /// A request about this device, with these attributes.
    ///
    /// # Errors
    /// When the socket fails; a refusal is an [`Answer`].
    pub fn request(
        &mut self,
        what: Request,
        parent: u32,
        handle: u32,
        attributes: &[u8],
    ) -> Result<Answer> {
        self.netlink
            .request(what, self.ifindex, parent, handle, attributes)
    }

    /// `tc qdisc … parent PARENT handle HANDLE KIND`, with what goes inside `TCA_OPTIONS`, if
    /// anything.
    ///
    /// # Errors
    /// As [`Tc::request`].
    pub fn qdisc(
        &mut self,
        what: Request,
        parent: u32,
        handle: u32,
        kind: &str,
        options: &[u8],
    ) -> Result<Answer> {
        let mut attributes = attribute(TCA_KIND, &[kind.as_bytes(), &[0]].concat());
        if !options.is_empty() {
            attributes.extend(attribute(TCA_OPTIONS | NESTED, options));
        }
        self.request(what, parent, handle, &attributes)
    }

    /// Changes the port of this handle, wherever it is.
    ///
    /// # Errors
    /// As [`Tc::request`].
    pub fn change_port(&mut self, handle: u32, options: &[u8]) -> Result<Answer> {
        // Without a parent the kernel goes by the handle.
        self.request(Request::ChangeQdisc, 0, handle, &turnstile(options))
    }

    /// `tc qdisc del … parent PARENT`.
    ///
    /// # Errors
    /// As [`Tc::request`].
    pub fn delete(&mut self, parent: u32) -> Result<Answer> {
        self.request(Request::DeleteQdisc, parent, 0, &[])
    }

    /// Sends all packets of the qdisc `parent` to the class `class`, or drops them.
    ///
    /// # Errors
    /// As [`Tc::request`].
    pub fn add_matchall(
        &mut self,
        parent: u32,
        priority: u16,
        class: Option<u32>,
    ) -> Result<Answer> {
        /// `ETH_P_ALL`, in network byte order.
        const ALL: u16 = 3_u16.to_be();
        let info = (u32::from(priority) << 16) | u32::from(ALL);
        self.netlink.request_with_info(
            Request::AddFilter,
            self.ifindex,
            parent,
            0,
            info,
            &matchall(class),
        )
    }

    /// Deletes all filters of the qdisc `parent`.
    ///
    /// # Errors
    /// As [`Tc::request`].
    pub fn delete_filters(&mut self, parent: u32) -> Result<Answer> {
        self.request(Request::DeleteFilter, parent, 0, &[])
    }

    /// The device's qdiscs; without those that the kernel hides.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn qdiscs(&mut self) -> Result<Vec<Object>> {
        self.list(GET_QDISC, 0)
    }

    /// The classes of the qdisc `handle`.
    ///
    /// Not a list of all classes: that one ends at the first netem without a child, which fails to
    /// show its class.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn classes_of(&mut self, handle: u32) -> Result<Vec<Object>> {
        self.list(GET_CLASS, handle)
    }

    /// The qdisc of this handle, or why there is none.
    ///
    /// # Errors
    /// When the socket fails, or the kernel refuses.
    pub fn get(&mut self, handle: u32) -> Result<Object> {
        self.one(GET_QDISC, handle)
            .with_context(|| format!("reading qdisc {:x}:", handle >> 16))
    }

    /// The class of this id.
    ///
    /// # Errors
    /// When the socket fails, or the kernel refuses.
    pub fn get_class(&mut self, class: u32) -> Result<Object> {
        self.one(GET_CLASS, class)
            .with_context(|| format!("reading class {:x}:{:x}", class >> 16, class & 0xffff))
    }

    fn one(&mut self, request: u16, handle: u32) -> Result<Object> {
        let found = self.netlink.get(request, self.ifindex, handle)?;
        let body =
            found.map_err(|answer| anyhow::anyhow!("errno {}: {}", answer.errno, answer.text))?;
        Object::read(&body)
    }

    fn list(&mut self, request: u16, parent: u32) -> Result<Vec<Object>> {
        let found = self.netlink.dump(request, self.ifindex, parent)?;
        found.iter().map(|body| Object::read(body)).collect()
    }
}
