// SPDX-License-Identifier: GPL-2.0
//! A server that sends every message back, and a client with many messages under way at once.
//!
//! `cargo run -p turnstile-socket --features tokio --example async_echo [ADDRESS [MESSAGES]]`

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use turnstile_socket::{tokio::Socket, Error, SendOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address: IpAddr = args.next().unwrap_or("127.0.0.1".to_owned()).parse()?;
    let messages: u32 = args.next().map_or(Ok(100), |count| count.parse())?;

    let server = Socket::bind(SocketAddr::new(address, 0))?;
    let to = server.local_addr()?;
    let serving = tokio::spawn(async move {
        loop {
            let message = server.recv_message(1 << 20).await?;
            server
                .send_to(&message.data, message.from, &SendOptions::default())
                .await?;
        }
        #[allow(unreachable_code)]
        Ok::<(), Error>(())
    });

    let client = Arc::new(Socket::bind(SocketAddr::new(address, 0))?);
    let sending = tokio::spawn({
        let client = client.clone();
        async move {
            for number in 0..messages {
                let text = number.to_string();
                client
                    .send_to(text.as_bytes(), to, &SendOptions::default())
                    .await?;
            }
            Ok::<(), Error>(())
        }
    });
    let mut back = HashSet::new();
    while back.len() < messages as usize {
        let message = client.recv_message(1024).await?;
        back.insert(String::from_utf8(message.data)?.parse::<u32>()?);
    }
    sending.await??;
    serving.abort();
    assert!((0..messages).all(|number| back.contains(&number)));
    println!("{messages} messages to {to} and back");
    Ok(())
}
