// SPDX-License-Identifier: GPL-2.0
//! The client: ports are added, changed, listed and deleted over rtnetlink.

use futures_util::StreamExt;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_MULTIPART,
    NLM_F_REPLACE, NLM_F_REQUEST,
};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::tc::TcMessage;
use netlink_packet_route::RouteNetlinkMessage;
use rtnetlink::sys::AsyncSocket;
use rtnetlink::Handle;
use tokio::task::JoinHandle;

use crate::error::{Error, Refusal, Request, Subject};
use crate::message::{self, Found, Port};
use crate::place::{Id, Place};
use crate::Options;

/// A dump that changes under way is taken again this often.
const ATTEMPTS: u32 = 8;
/// Longer names are no devices: `IFNAMSIZ` less the NUL.
const NAME_MAX: usize = 15;

/// A connection to the kernel, for the ports of the network namespace in which it was made.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use turnstile_netlink::{client::Ports, parse, place::Place};
///
/// let ports = Ports::connect()?;
/// ports.add(&Place::root("swp1"), &parse(&["link", "10gbit"])?).await?;
/// for port in ports.show(Some("swp1"), true).await? {
///     println!("{}: {}", port.dev, port.options);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Ports {
    handle: Handle,
    connection: JoinHandle<()>,
    /// What the requests are about.
    what: Subject,
}

impl Drop for Ports {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Ports {
    /// Opens the connection, whose work is a task of the tokio runtime that this is called in.
    ///
    /// # Errors
    /// [`Error::Socket`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O enabled.
    pub fn connect() -> Result<Self, Error> {
        Self::connect_for(Subject::Port)
    }

    /// A connection for qdiscs of either kind.
    pub(crate) fn connect_for(what: Subject) -> Result<Self, Error> {
        let (mut connection, handle, _) = rtnetlink::new_connection().map_err(Error::Socket)?;
        // How each answer ends has to be seen: a connection that breaks ends it, too.
        connection.set_forward_ack(true);
        connection.set_forward_done(true);
        let socket = connection.socket_mut().socket_mut();
        // The kernel's words with every error, but not the whole request again.
        socket
            .set_ext_ack(true)
            .and_then(|()| socket.set_cap_ack(true))
            .map_err(Error::Socket)?;
        Ok(Self {
            handle,
            connection: tokio::spawn(connection),
            what,
        })
    }

    /// Adds a port.
    ///
    /// # Errors
    /// [`Error::NoDevice`]; [`Error::Refused`] and [`Error::OtherKind`], also if there is a qdisc
    /// already.
    pub async fn add(&self, place: &Place, options: &Options) -> Result<(), Error> {
        self.add_with(place, &options.encode()).await
    }

    pub(crate) async fn add_with(&self, place: &Place, options: &[u8]) -> Result<(), Error> {
        self.modify(
            Request::Add,
            NLM_F_CREATE | NLM_F_EXCL,
            place,
            Some(options),
        )
        .await
    }

    /// Adds a port in the place of what is there; what is a port already is changed, as by
    /// [`Ports::change`].
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::Refused`].
    pub async fn replace(&self, place: &Place, options: &Options) -> Result<(), Error> {
        self.replace_with(place, &options.encode()).await
    }

    pub(crate) async fn replace_with(&self, place: &Place, options: &[u8]) -> Result<(), Error> {
        self.modify(
            Request::Replace,
            NLM_F_CREATE | NLM_F_REPLACE,
            place,
            Some(options),
        )
        .await
    }

    /// Sets these options of a port; the others, and what is queued, stay as they are.
    ///
    /// # Errors
    /// [`Error::NoDevice`]; [`Error::Missing`], [`Error::OtherKind`]; [`Error::Refused`], which
    /// leaves the port as it was.
    pub async fn change(&self, place: &Place, options: &Options) -> Result<(), Error> {
        self.change_with(place, &options.encode()).await
    }

    pub(crate) async fn change_with(&self, place: &Place, options: &[u8]) -> Result<(), Error> {
        self.modify(Request::Change, 0, place, Some(options)).await
    }

    /// Deletes a port. Qdiscs of other kinds are refused.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::Refused`].
    pub async fn del(&self, place: &Place) -> Result<(), Error> {
        self.modify(Request::Del, 0, place, None).await
    }

    /// Lists the ports, of one device or of all, in the kernel's order; on request with their
    /// classes.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::Refused`], [`Error::Malformed`].
    pub async fn show(&self, dev: Option<&str>, classes: bool) -> Result<Vec<Port>, Error> {
        let only = match dev {
            Some(dev) => Some(self.index(dev).await?),
            None => None,
        };
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let mut ports = Vec::new();
        for answer in self.dump(request, dev.unwrap_or("any device")).await? {
            let RouteNetlinkMessage::NewQueueDiscipline(answer) = answer else {
                continue;
            };
            if only.is_none_or(|index| index == answer.header.index) {
                ports.extend(message::port(&answer)?);
            }
        }
        for port in &mut ports {
            port.dev = match dev {
                Some(dev) => dev.to_owned(),
                None => self.name(port.index).await,
            };
            if classes {
                self.show_classes(port).await?;
            }
        }
        Ok(ports)
    }

    /// All qdiscs of this connection's kind, of one device or of all, in the kernel's order.
    pub(crate) async fn qdiscs(&self, dev: Option<&str>) -> Result<Vec<Found>, Error> {
        let only = match dev {
            Some(dev) => Some(self.index(dev).await?),
            None => None,
        };
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let mut qdiscs = Vec::new();
        for answer in self.dump(request, dev.unwrap_or("any device")).await? {
            let RouteNetlinkMessage::NewQueueDiscipline(answer) = answer else {
                continue;
            };
            if only.is_none_or(|index| index == answer.header.index) {
                qdiscs.extend(message::found(&answer, self.what.kind()));
            }
        }
        for qdisc in &mut qdiscs {
            qdisc.dev = match dev {
                Some(dev) => dev.to_owned(),
                None => self.name(qdisc.index).await,
            };
        }
        Ok(qdiscs)
    }

    async fn show_classes(&self, port: &mut Port) -> Result<(), Error> {
        let mut request = TcMessage::with_index(port.index);
        request.header.parent = port.handle.0.into();
        let request = RouteNetlinkMessage::GetTrafficClass(request);
        for answer in self.dump(request, &port.dev).await? {
            let RouteNetlinkMessage::NewTrafficClass(answer) = answer else {
                continue;
            };
            let class = message::class(&answer)?;
            port.classes
                .extend(class.filter(|class| class.id.major() == port.handle.major()));
        }
        port.classes.sort_by_key(|class| class.id);
        Ok(())
    }

    async fn modify(
        &self,
        request: Request,
        flags: u16,
        place: &Place,
        options: Option<&[u8]>,
    ) -> Result<(), Error> {
        let index = self.index(&place.dev).await?;
        let mut place = place.clone();
        let what = self.subject(request, index, &place).await?;
        if matches!(request, Request::Add | Request::Change) && place.handle.is_none() {
            place.handle = self.handle_for(request, what, index, &place).await?;
        }
        let body = message::request(index, &place, what.kind(), options);
        let body = match request {
            Request::Del => RouteNetlinkMessage::DelQueueDiscipline(body),
            _ => RouteNetlinkMessage::NewQueueDiscipline(body),
        };
        let flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let (_, outcome) = self.talk(body, flags, request, what, place.parent).await?;
        outcome.map_err(|refusal| Error::Refused {
            dev: place.dev.clone(),
            refusal,
        })
    }

    /// What a request is about: whoever changes or deletes what is there need not say which of the
    /// two kinds of ports it is.
    async fn subject(&self, request: Request, index: i32, place: &Place) -> Result<Subject, Error> {
        if self.what != Subject::Port {
            return Ok(self.what);
        }
        let queues = match request {
            _ if place.queues => true,
            Request::Change | Request::Del if place.parent == Id::ROOT => {
                let occupant = self.occupant(index, place).await?;
                occupant.is_some_and(|(kind, _)| kind == Subject::Queues.kind())
            }
            _ => false,
        };
        Ok(if queues {
            Subject::Queues
        } else {
            Subject::Port
        })
    }

    /// The kind and the id of what is there.
    async fn occupant(&self, index: i32, place: &Place) -> Result<Option<(String, Id)>, Error> {
        let dump = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let answers = self.dump(dump, &place.dev).await?;
        Ok(answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewQueueDiscipline(answer) => {
                message::occupant(answer, index, place.parent)
            }
            _ => None,
        }))
    }

    /// The handle to name in a request that names none.
    ///
    /// Without a handle the kernel takes both "add" and "change" for "replace" where there is a
    /// qdisc of another kind (`__tc_modify_qdisc`, "This magic test requires explanation"). Who did
    /// not say replace does not mean it.
    async fn handle_for(
        &self,
        request: Request,
        what: Subject,
        index: i32,
        place: &Place,
    ) -> Result<Option<Id>, Error> {
        let dev = place.dev.clone();
        match (request, self.occupant(index, place).await?) {
            (_, Some((kind, _))) if kind != what.kind() => {
                Err(Error::OtherKind { dev, kind, what })
            }
            (Request::Change, Some((_, handle))) => Ok(Some(handle)),
            (Request::Change, None) => Err(Error::Missing { dev, what }),
            // The kernel refuses a second port, and finds a handle for the first.
            _ => Ok(None),
        }
    }

    /// The number of a device.
    async fn index(&self, dev: &str) -> Result<i32, Error> {
        let missing = || Error::NoDevice(dev.to_owned());
        if dev.is_empty() || dev.len() > NAME_MAX {
            return Err(missing());
        }
        let mut request = LinkMessage::default();
        request
            .attributes
            .push(LinkAttribute::IfName(dev.to_owned()));
        let link = self.link(request).await?.ok_or_else(missing)?;
        i32::try_from(link.header.index).map_err(|_| missing())
    }

    /// The name of a device; one that has just gone is shown by its number.
    async fn name(&self, index: i32) -> String {
        let mut request = LinkMessage::default();
        request.header.index = index.unsigned_abs();
        let link = self.link(request).await.ok().flatten();
        let name = link.and_then(|link| {
            link.attributes
                .into_iter()
                .find_map(|attribute| match attribute {
                    LinkAttribute::IfName(name) => Some(name),
                    _ => None,
                })
        });
        name.unwrap_or_else(|| format!("if{index}"))
    }

    async fn link(&self, request: LinkMessage) -> Result<Option<LinkMessage>, Error> {
        let request = RouteNetlinkMessage::GetLink(request);
        let (answers, outcome) = self
            .talk(request, NLM_F_REQUEST, Request::Show, self.what, Id::ROOT)
            .await?;
        Ok(answers
            .into_iter()
            .filter(|_| outcome.is_ok())
            .find_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(link) => Some(link),
                _ => None,
            }))
    }

    /// A dump, taken again if things changed meanwhile.
    async fn dump(
        &self,
        request: RouteNetlinkMessage,
        dev: &str,
    ) -> Result<Vec<RouteNetlinkMessage>, Error> {
        for _ in 0..ATTEMPTS {
            let mut message = NetlinkMessage::from(request.clone());
            message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
            let outcome = self
                .exchange(message, Request::Show, self.what, Id::ROOT)
                .await?;
            if let Some(refusal) = outcome.refusal {
                return Err(Error::Refused {
                    dev: dev.to_owned(),
                    refusal,
                });
            }
            if !outcome.interrupted {
                return Ok(outcome.answers);
            }
        }
        Err(Error::Connection(
            "the list changes faster than it can be read".to_owned(),
        ))
    }

    async fn talk(
        &self,
        body: RouteNetlinkMessage,
        flags: u16,
        request: Request,
        what: Subject,
        parent: Id,
    ) -> Result<(Vec<RouteNetlinkMessage>, Result<(), Refusal>), Error> {
        let mut message = NetlinkMessage::from(body);
        message.header.flags = flags;
        let outcome = self.exchange(message, request, what, parent).await?;
        Ok((outcome.answers, outcome.refusal.map_or(Ok(()), Err)))
    }

    /// Sends a request and collects all answers to it.
    async fn exchange(
        &self,
        message: NetlinkMessage<RouteNetlinkMessage>,
        request: Request,
        what: Subject,
        parent: Id,
    ) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        let answers = self.handle.clone().request(message);
        let mut answers = answers.map_err(|error| Error::Connection(error.to_string()))?;
        while let Some(answer) = answers.next().await {
            outcome.add(answer, request, what, parent)?;
        }
        if outcome.ended {
            Ok(outcome)
        } else {
            Err(Error::Connection("the connection broke".to_owned()))
        }
    }
}

/// What the kernel answered.
#[derive(Default)]
struct Outcome {
    answers: Vec<RouteNetlinkMessage>,
    refusal: Option<Refusal>,
    /// The list changed while it was read.
    interrupted: bool,
    /// All of it has come.
    ended: bool,
}

impl Outcome {
    /// One answer came.
    fn add(
        &mut self,
        answer: NetlinkMessage<RouteNetlinkMessage>,
        request: Request,
        what: Subject,
        parent: Id,
    ) -> Result<(), Error> {
        let flags = answer.header.flags;
        self.interrupted |= flags & NLM_F_DUMP_INTR != 0;
        self.ended |= flags & NLM_F_MULTIPART == 0;
        match answer.payload {
            NetlinkPayload::InnerMessage(body) => self.answers.push(body),
            NetlinkPayload::Error(error) if error.code.is_some() => {
                self.refusal = Some(Refusal::new(&error, flags, request, what, parent));
            }
            NetlinkPayload::Done(done) => {
                self.ended = true;
                if done.code < 0 {
                    self.refusal = Some(Refusal::at_end(done.code, request, what, parent));
                }
            }
            NetlinkPayload::Overrun(_) => {
                return Err(Error::Connection("answers were lost".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::DoneMessage;

    use super::*;

    fn done(code: i32) -> NetlinkMessage<RouteNetlinkMessage> {
        let mut body = DoneMessage::default();
        body.code = code;
        let mut message =
            NetlinkMessage::from(RouteNetlinkMessage::GetLink(LinkMessage::default()));
        message.payload = NetlinkPayload::Done(body);
        message.header.flags = NLM_F_MULTIPART;
        message
    }

    fn add(outcome: &mut Outcome, message: NetlinkMessage<RouteNetlinkMessage>) {
        outcome
            .add(message, Request::Add, Subject::Port, Id::new(1, 0))
            .expect("no answer was lost");
    }

    #[test]
    fn a_dump_ends_with_done_and_may_say_why() {
        for (code, refused) in [(0, None), (-22, Some(22))] {
            let mut outcome = Outcome::default();
            let body = RouteNetlinkMessage::NewLink(LinkMessage::default());
            let mut message = NetlinkMessage::from(body);
            message.header.flags = NLM_F_MULTIPART | NLM_F_DUMP_INTR;
            add(&mut outcome, message);
            assert!(!outcome.ended && outcome.interrupted && outcome.answers.len() == 1);
            add(&mut outcome, done(code));
            assert!(outcome.ended);
            assert_eq!(outcome.refusal.map(|it| it.errno), refused, "{code}");
        }
    }

    #[test]
    fn a_single_answer_is_all() {
        let mut outcome = Outcome::default();
        let body = RouteNetlinkMessage::NewLink(LinkMessage::default());
        add(&mut outcome, NetlinkMessage::from(body));
        assert!(outcome.ended && !outcome.interrupted && outcome.refusal.is_none());
        let mut lost = done(0);
        lost.payload = NetlinkPayload::Overrun(Vec::new());
        let refused = outcome.add(lost, Request::Add, Subject::Port, Id::new(1, 0));
        assert!(refused.is_err());
    }

    /// The kernel that the test runs on has a device `lo`, and none of the other name.
    #[test]
    fn the_kernel_is_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let ports = Ports::connect().expect("a socket");
            ports.show(Some("lo"), false).await.expect("lo is there");
            let refused = ports.show(Some("no-such-dev"), false).await;
            assert!(refused.is_err(), "{refused:?}");
        });
    }
}
