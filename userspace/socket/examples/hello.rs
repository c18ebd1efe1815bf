// SPDX-License-Identifier: GPL-2.0
//! Sends a few messages to itself and waits until each is delivered.
//!
//! `cargo run -p turnstile-socket --example hello [ADDRESS]`

use std::time::Duration;

use turnstile_socket::{SendOptions, Socket};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1".to_owned());
    let receiver = Socket::bind((address.as_str(), 0))?;
    let sender = Socket::bind((address.as_str(), 0))?;
    sender.set_completions(true)?;

    let urgent = SendOptions {
        priority: Some(0),
        deadline: Some(Duration::from_millis(10)),
        ..SendOptions::default()
    };
    for text in ["one", "two", "three"] {
        let number = sender.send_to(text.as_bytes(), receiver.local_addr()?, &urgent)?;
        println!("sent message {number}: {text}");
    }
    for _ in 0..3 {
        let message = receiver.recv_message(1024)?;
        println!(
            "received from {}: {}",
            message.from,
            String::from_utf8_lossy(&message.data)
        );
    }
    for _ in 0..3 {
        let done = sender
            .wait_completion(Some(Duration::from_secs(5)))?
            .ok_or("no completion within 5 s")?;
        done.outcome?;
        println!("message {} delivered after {:?}", done.number, done.elapsed);
    }
    Ok(())
}
