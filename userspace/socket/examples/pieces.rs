// SPDX-License-Identifier: GPL-2.0
//! Sends one message that is much longer than any buffer, piece by piece, and reads it while it
//! comes.
//!
//! `cargo run -p turnstile-socket --example pieces [ADDRESS [MEBIBYTES]]`

use std::io::{Read, Write};

use turnstile_socket::{Error, SendOptions, Socket};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or("127.0.0.1".to_owned());
    let pieces: u64 = args.next().map_or(Ok(16), |count| count.parse())?;
    let receiver = Socket::bind((address.as_str(), 0))?;
    let to = receiver.local_addr()?;

    let sender = std::thread::spawn(move || -> Result<(), Error> {
        let socket = Socket::bind((address.as_str(), 0))?;
        // The receiver schedules better if it knows the length, but need not.
        let options = SendOptions {
            length: Some(pieces << 20),
            ..SendOptions::default()
        };
        let mut writer = socket.begin(to, &options)?;
        let piece = vec![42; 1 << 20];
        for _ in 0..pieces {
            writer
                .write_all(&piece)
                .expect("the receiver lives as long as this");
        }
        writer.finish()?;
        // Dropping the socket does not abort the message.
        Ok(())
    });

    let mut reader = receiver.reader()?;
    let mut buffer = vec![0; 1 << 16];
    let mut got = 0;
    loop {
        let len = reader.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        assert!(buffer[..len].iter().all(|byte| *byte == 42));
        got += len as u64;
    }
    sender.join().expect("the sender does not panic")?;
    println!("{got} bytes from {}", reader.from());
    assert_eq!(got, pieces << 20);
    Ok(())
}
